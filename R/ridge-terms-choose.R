# Bandwidths, relative scales and penalty of a formula with k(), by restricted maximum likelihood on a sample of rows: y
# is normal with the covariance sigma^2 (I + sum_j s_j K_j), and the linear terms are unknown constants.

TERM_SAMPLE <- 400
TERM_STEPS <- 40

# Bandwidths are within this factor of the spread of their columns.
BANDWIDTH_SPAN <- 30

# list(kernel, bandwidth, lambda, value, path), given or chosen, as choose_defaults(). With more rows than TERM_SAMPLE, the
# search begins on the first of them. `value` and `path` are as search_bandwidths() has them.
choose_terms <- function(rows, response, weights, spec, run,
                         sample = draw_sample(rows, response, weights, spec$offset, TERM_SAMPLE)) {
  name_stage(run, "Choosing bandwidths")
  terms <- spec$kernel$terms
  smooth <- which(!vapply(terms, is_linear_term, NA))
  used <- sort(unique(unlist(lapply(terms[smooth], `[[`, "columns"))))
  h <- spec$bandwidth
  if (is.null(h)) {
    h <- fill_spread(vapply(seq_len(rows$d), \(k) spread_of(sample$points[, k]), 0))
    for (term in terms[smooth]) h[term$columns] <- sqrt(length(term$columns)) * h[term$columns]
  }
  task <- list(
    x = sample$points, y = sample$y, terms = terms[smooth], h = rep_len(h, rows$d),
    free = if (is.null(spec$bandwidth)) used, fixed = constant_part(sample$points, terms), run = run
  )
  found <- if (sample$scale > 0) search_terms(task) else list(scales = rep(1, length(smooth)), h = task$h)
  for (j in seq_along(smooth)) spec$kernel$terms[[smooth[j]]]$scale <- found$scales[j] / sum(found$scales)
  list(
    kernel = spec$kernel, bandwidth = if (is.null(spec$bandwidth)) name_bandwidth(found$h, rows) else spec$bandwidth,
    lambda = if (is.null(spec$lambda)) sample$per_row / max(sum(found$scales), 1e-3) else spec$lambda,
    value = found$value, path = found$path
  )
}

# An orthonormal basis of the constant and the linear terms.
constant_part <- function(x, terms) {
  term <- Find(is_linear_term, terms)
  linear <- if (!is.null(term)) term_points(term, x) / rep(term$spread, each = nrow(x))
  decomposed <- qr(cbind(rep(1, nrow(x)), linear))
  qr.Q(decomposed)[, seq_len(decomposed$rank), drop = FALSE]
}

# list(scales, h, value, path) of the largest likelihood.
search_terms <- function(task) {
  p <- length(task$terms)
  free <- task$free
  theta <- c(rep(log(3), p), log(task$h[free]))
  span <- c(rep(log(1e5), p), rep(log(BANDWIDTH_SPAN), length(free)))
  low <- theta - span
  high <- pmin(theta + span, c(rep(log(1e4), p), rep(Inf, length(free))))
  path <- list()
  n <- nrow(task$y)
  for (rows in unique(c(min(TERM_SAMPLE, n), n))) {
    part <- replace(task, c("x", "y", "fixed"), lapply(task[c("x", "y", "fixed")], \(of) of[seq_len(rows), , drop = FALSE]))
    if (rows < n) part$fixed <- qr.Q(qr(part$fixed))
    last <- list()
    at <- function(theta) {
      if (!identical(last$theta, theta)) {
        last <<- c(list(theta = theta), restricted_likelihood(part, theta))
        path[[length(path) + 1]] <<- data.frame(
          kernel = task$terms[[1]]$kernel$name, rows = rows, criterion = per_number(last$value, part)
        )
      }
      last
    }
    best <- stats::optim(
      theta, \(theta) at(theta)$value, \(theta) at(theta)$gradient, method = "L-BFGS-B", lower = low, upper = high,
      control = list(maxit = TERM_STEPS, factr = 1e9)
    )
    theta <- best$par
  }
  list(
    scales = exp(theta[seq_len(p)]), h = replace(task$h, free, exp(theta[p + seq_along(free)])),
    value = per_number(best$value, part), path = do.call(rbind, path)
  )
}

# Minus the restricted log-likelihood for each number of y.
per_number <- function(value, task) {
  left <- nrow(task$y) - ncol(task$fixed)
  (value + ncol(task$y) * left * (1 + log(2 * pi / left))) / (2 * length(task$y))
}

# list(value, gradient): minus twice the restricted log-likelihood at theta, the logarithms of the scales and of the
# free bandwidths, up to a constant. Derivatives in bandwidths are differences of kernel matrices.
restricted_likelihood <- function(task, theta) {
  p <- length(task$terms)
  scales <- exp(theta[seq_len(p)])
  h <- replace(task$h, task$free, exp(theta[p + seq_along(task$free)]))
  kernels_of <- \(term, h) {
    kernels_between(NULL, term_points(term, task$x), term_factor(term, diag(h, length(h))), term$kernel, task$run)
  }
  parts <- Map(\(term, s) s * kernels_of(term, h), task$terms, scales)
  n <- nrow(task$y)
  Z <- task$fixed
  of <- inverse_of(Reduce(`+`, parts) + diag(n), task$run)
  if (is.null(of)) return(list(value = 1e10, gradient = 0 * theta))
  CZ <- of$inverse %*% Z
  inner <- chol(crossprod(Z, CZ))
  P <- of$inverse - tcrossprod(CZ %*% backsolve(inner, diag(ncol(Z))))
  residual <- P %*% task$y
  energy <- pmax(colSums(task$y * residual), 1e-12)
  left <- n - ncol(Z)
  outer <- ncol(task$y) * P - left * tcrossprod(residual / rep(sqrt(energy), each = n))
  step <- 1e-5
  by_bandwidth <- vapply(task$free, \(k) {
    with_k <- which(vapply(task$terms, \(term) k %in% term$columns, NA))
    moved <- replace(h, k, h[k] * exp(step))
    sum(vapply(with_k, \(j) sum(outer * (scales[j] * kernels_of(task$terms[[j]], moved) - parts[[j]])), 0)) / step
  }, 0)
  list(
    value = left * sum(log(energy)) + ncol(task$y) * (of$log_det + 2 * sum(log(diag(inner)))),
    gradient = c(vapply(parts, \(K) sum(outer * K), 0), by_bandwidth)
  )
}
