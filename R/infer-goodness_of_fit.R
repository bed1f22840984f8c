# One sample against a distribution.

#' @rdname kde_test
#' @export
kde_test.character <- function(x, y, ..., method = c("bootstrap", "stein"), estimate = NULL,
                               bandwidth = if (method == "stein") "aggregated" else "silverman", replicates = 999,
                               weights_x = NULL, control = NULL) {
  names <- shorten(deparse1(substitute(x), width.cutoff = 60), 120)
  method <- check_choice(method, c("bootstrap", "stein"), "method")
  replicates <- check_count(replicates, "replicates")
  run <- start_run(settle_control(control), "Drawing samples")
  rows <- test_points(x, "x", weights = weights_x, weights_arg = "weights_x")
  if (method == "stein") {
    if (!is.null(estimate)) stop_argument("estimate", "must be NULL for method = \"stein\"")
    if (!is.function(y)) stop_argument("y", "must be a function that returns scores, or a fit: found ", describe(y))
    return(stein_test(rows, \(points, run) null_function(y)(points, list(...)), names, bandwidth, replicates, control))
  }
  points <- unname(rows$points)
  weights <- rows$weights
  model <- null_model(y, list(...), estimate, ncol(points))
  theta <- model$estimate(points, weights)
  chosen <- test_bandwidth(bandwidth, points, run, "x", weights)
  fixed <- if (!is.character(bandwidth)) chosen
  statistic <- gof_statistic(points, weights, model, theta, chosen, run)
  draws <- numeric(replicates)
  for (i in seq_len(replicates)) {
    share_stage(run, i / replicates, 0)
    sample <- check_draws(model$draw(nrow(points), theta), dim(points))
    own <- if (is.null(fixed)) test_bandwidth(bandwidth, sample, run, "x", weights) else fixed
    draws[i] <- gof_statistic(sample, weights, model, model$estimate(sample, weights), own, run)
  }
  p <- (1 + sum(draws >= statistic)) / (replicates + 1)
  new_htest(
    c(T = statistic), list(p = p, parameter = c(replicates = replicates)),
    paste0("Kernel goodness-of-fit test, ", model$label, if (!is.null(weights)) ", weighted"), names,
    paste("the density is not", model$other),
    unlist(Filter(is.numeric, theta)), chosen
  )
}

#' @export
kde_test.function <- kde_test.character

# int (p - K_H * p0)^2 = sum_ij a_i a_j K_2H(x_i - x_j) - 2 sum_i a_i (K_2H * p0)(x_i) + int (K_2H * p0) p0, with a_i
# = 1 / n or the shares of the weights, which are relative to their mean.
gof_statistic <- function(points, weights, model, theta, chosen, run) {
  n <- nrow(points)
  L <- sqrt(2) * chosen$L
  share <- matrix((if (is.null(weights)) rep(1, n) else weights) / n)
  pairs <- exp(log_kernel_norm(L)) * kernel_forms(sum_sources(points, NULL, L), share, share, run)
  smooth <- model$smooth(points, L, theta, run)
  pairs - 2 * sum(share * smooth$at) + smooth$own
}

# ---- null distributions -----------------------------------------------------------------------

# list(draw, estimate, smooth, label, other). draw(n, theta): n draws; estimate(points, weights): a list theta of
# parameters; smooth(points, L, theta, run): a list of `at`, K * p0 at the points for the kernel of variance L L', and
# `own`, the integral of K * p0 times p0.
null_model <- function(null, given, estimate, d) {
  if (length(given) > 0 && (is.null(names(given)) || !all(nzchar(names(given))))) {
    stop_argument("...", "must be parameters by name, such as rate = 2")
  }
  if (!is.null(estimate) && !is.function(estimate)) {
    stop_argument("estimate", "must be a function: found ", describe(estimate))
  }
  if (!is.null(estimate) && length(given) > 0) {
    stop_argument(names(given)[1], "must not be given beside `estimate`, which returns all parameters")
  }
  estimator <- if (is.null(estimate)) \(points, weights) given else by_user(estimate)
  parameters <- if (!is.null(estimate)) "parameters estimated" else if (length(given) > 0) "parameters given"
  if (is.function(null)) return(drawn_model(null, estimator, parameters))
  if (!is.character(null) || length(null) != 1 || is.na(null)) {
    stop_argument("y", "must be \"norm\", the name of a distribution or a function: found ", describe(null))
  }
  if (null == "norm") return(normal_model(given, estimate, d))
  named_model(null, estimator, parameters, d)
}

# The user's function; it gets weights only if there are any.
by_user <- function(estimate) {
  function(points, weights) {
    given <- c(list(points), if (!is.null(weights)) list(weights))
    check_parameters(in_function_of_user("estimate", do.call(estimate, given)))
  }
}

check_parameters <- function(theta) {
  if (!is.list(theta) || length(theta) > 0 && is.null(names(theta))) {
    stop_argument("estimate", "must return a named list of parameters: returned ", describe(theta))
  }
  theta
}

normal_model <- function(given, estimate, d) {
  spread <- if (d == 1 && !"sigma" %in% names(given)) "sd" else "sigma"
  known <- length(given) > 0
  if (known && !setequal(names(given), c("mean", spread))) {
    stop_argument("...", "must be `mean` and `", spread, "`, or neither: found ", quote_names(names(given)))
  }
  estimator <- if (known) {
    \(points, weights) given
  } else if (is.null(estimate)) {
    normal_estimate
  } else {
    by_user(estimate)
  }
  list(
    draw = function(n, theta) {
      root <- normal_factor(theta, d)
      draw_mixture(matrix(root$mean, 1), NULL, root$L, n)
    },
    estimate = estimator,
    smooth = function(points, L, theta, run) {
      root <- normal_factor(theta, d)
      wide <- tcrossprod(root$L) + tcrossprod(L)
      list(
        at = normal_density(points - rep(root$mean, each = nrow(points)), wide),
        own = normal_density(matrix(0, 1, d), wide + tcrossprod(root$L))
      )
    },
    label = paste0("normal distribution, parameters ", if (known) "given" else "estimated"), other = "normal"
  )
}

normal_estimate <- function(points, weights) {
  if (is.null(weights)) return(list(mean = colMeans(points), sigma = stats::cov(points)))
  stats::setNames(stats::cov.wt(points, weights)[c("center", "cov")], c("mean", "sigma"))
}

# list(mean, L) from the parameters `mean` and `sd` or `sigma`. L L' is the variance.
normal_factor <- function(theta, d) {
  mean <- theta$mean
  sigma <- if (is.null(theta$sigma)) matrix(theta$sd^2, 1) else as.matrix(theta$sigma)
  if (!is.numeric(mean) || length(mean) != d || !all(is.finite(mean))) {
    numbers <- ngettext(d, " finite number", " finite numbers")
    stop_argument("mean", "must be ", d, numbers, ": found ", describe(mean))
  }
  if (!is.numeric(sigma) || !identical(dim(sigma), c(d, d)) || !all(is.finite(sigma))) {
    stop_argument("sigma", "must be a variance matrix of ", d, " columns: found ", describe(sigma))
  }
  list(mean = mean, L = lower_factor(unname(sigma), "sigma"))
}

normal_density <- function(differences, C) {
  L <- lower_factor(C, "bandwidth")
  exp(log_kernel_norm(L) - rowSums(whiten(differences, L)^2) / 2)
}

# The null model of a named distribution: nodes are its quantiles at equally spaced probabilities.
named_model <- function(null, estimator, parameters, d) {
  draw <- get0(paste0("r", null), mode = "function")
  quantile <- get0(paste0("q", null), mode = "function")
  problem <- if (is.null(draw) || is.null(quantile)) {
    "must be a sample, or a distribution such as \"norm\", which has qnorm() and rnorm()"
  } else if (d > 1) {
    "must be \"norm\" or a function for several variables"
  }
  if (!is.null(problem)) stop_argument("y", problem, ": found ", quote_text(null))
  draw <- null_function(draw)
  quantile <- null_function(quantile)
  nodes_of <- \(theta, n) matrix(quantile(stats::ppoints(1000, 1 / 2), theta))
  label <- paste(c(paste0("distribution \"", null, "\""), parameters), collapse = ", ")
  node_model(draw, nodes_of, estimator, label)
}

drawn_model <- function(draw, estimator, parameters) {
  draw <- null_function(draw)
  nodes_of <- \(theta, n) as.matrix(draw(min(max(1000, 2 * n), 20000), theta))
  node_model(draw, nodes_of, estimator, paste(c("distribution by its draws", parameters), collapse = ", "))
}

# Returns function(first, theta), which calls a function of the null distribution with its parameters.
null_function <- function(f) {
  force(f)
  \(first, theta) in_function_of_user("y", do.call(f, c(list(first), theta)))
}

# `draw(n, theta)`: n draws; `nodes_of(theta, n)`: points of equal weight that represent the distribution. For constant
# parameters nodes are drawn once, and the integral over two arguments is from one sample.
node_model <- function(draw, nodes_of, estimator, label) {
  last <- NULL
  nodes <- function(theta, n) {
    if (is.null(last) || !identical(last$theta, theta)) last <<- list(theta = theta, nodes = nodes_of(theta, n))
    last$nodes
  }
  list(
    draw = draw, estimate = estimator,
    smooth = function(points, L, theta, run) {
      at <- check_draws(nodes(theta, nrow(points)), c(NA, ncol(points)))
      sources <- sum_sources(at, NULL, L)
      mean_of <- exp(log_kernel_norm(L)) / nrow(at)
      sums <- kernel_sum_of(sources, points, matrix(1, nrow(at)), run, as_matrix = TRUE)$sums
      own <- kernel_forms(sources, matrix(1, nrow(at)), matrix(1, nrow(at)), run)
      list(at = mean_of * drop(sums), own = mean_of * own / nrow(at))
    },
    label = label, other = "of that distribution"
  )
}

# The draws of the user's function, as a matrix.
check_draws <- function(draws, size) {
  draws <- as.matrix(draws)
  fits <- ncol(draws) == size[2] && (is.na(size[1]) || nrow(draws) == size[1])
  if (!is.numeric(draws) || !fits || !all(is.finite(draws))) {
    columns <- ngettext(size[2], " column", " columns")
    as_rnorm <- "must be a sample, or a function that draws finite points as rnorm() does, in rows of "
    stop_argument("y", as_rnorm, size[2], columns, ": drew ", describe(draws))
  }
  storage.mode(draws) <- "double"
  unname(draws)
}
