# Leverages, effective degrees of freedom, noise variance, likelihoods, leave-one-out errors and draws. All follow from
# the linearity of the fit in the response (for logistic loss, from its linearisation at the optimum).
#
# The smoother is H = K_nm R R' K_mn W. With an intercept, the weighted mean of y, it is H + (I - H) 1 w' / sum(w).

# list(leverage, ones): the diagonal of H, and (I - H) 1 with an intercept, otherwise 0.
leverage_of <- function(fit, run) {
  posterior <- posterior_of(fit, run)
  if (is.null(fit$state$leverage)) fit$state$leverage <- compute_leverage(fit, posterior, run_in_double(run))
  fit$state$leverage
}

compute_leverage <- function(fit, posterior, run) {
  rows <- fit$data$rows
  if (is.null(posterior$prior_root) && is.null(posterior$parts[[1]]$leverage)) stop_unfactorised(fit)
  name_stage(run, "Leverages")
  leverage <- if (isTRUE(posterior$joint)) joint_leverage(fit, posterior, run) else vapply(posterior$parts, \(part) {
    if (!is.null(part$leverage)) return(part$leverage)
    norms <- squared_norms(rows, posterior$columns, part$root, run)
    if (is.null(part$weights)) norms else norms * as.vector(collected(part$weights))
  }, numeric(fit$n))
  list(leverage = matrix(leverage, fit$n), ones = residual_ones(fit, posterior, run))
}

# n x K: the derivative of the fitted link with respect to the residual of the same row, for each class.
joint_leverage <- function(fit, posterior, run) {
  p <- link_probabilities(fitted_link(fit, run))
  fit_weights(fit) * sum_joint(fit$data$rows, posterior, run, \(U) {
    do.call(cbind, Map(\(u, bent) rowSums(u * bent), U, bent_links(U, p)))
  })
}

# The diagonal of the smoother with the intercept.
hat_diagonal <- function(fit, run) {
  found <- leverage_of(fit, run)
  w <- fit_weights(fit)
  found$leverage + as.vector(collected(found$ones)) * w / sum(w)
}

# (I - H) 1, the residual of a response of ones.
residual_ones <- function(fit, posterior, run) {
  if (!fit$has_intercept || !fit$family$squared) return(0)
  if (!is.null(fit$state$ones)) return(fit$state$ones)
  rows <- fit$data$rows
  weights <- fit$data$weights
  ones <- rows_constant(rows, 1)
  part <- posterior$parts[[1]]
  product <- rows_normal(rows, posterior$columns, NULL, ones, weights, run)$product
  alpha <- part$root %*% crossprod(part$root, product)
  fitted <- rows_link(rows, posterior$columns, alpha, run)
  residual <- 1 - if (is_column(fitted)) fitted else as.vector(fitted)
  fit$state$ones <- residual
  residual
}

# The weights as a vector, and the number of rows of positive weight.
fit_weights <- function(fit) if (is.null(fit$data$weights)) rep(1, fit$n) else as.vector(collected(fit$data$weights))
used_count <- function(fit) if (is.null(fit$data$weights)) fit$n else sum(fit$data$weights > 0)

# The response, collected from workers if necessary.
fit_response <- function(fit) collected(kept_data(fit)$y)

# The weighted sum of squares of the residuals over `unit`, for each output.
residual_squares <- function(fit, run, unit = 1) {
  y <- fit$data$y
  w <- if (!is_column(y)) fit_weights(fit) else if (is.null(fit$data$weights)) 1 else fit$data$weights
  # set residuals of weight 0 to 0 before squaring, as 0 * Inf is NaN
  used <- if (is.null(fit$data$weights)) 1 else w > 0
  stats::setNames(column_sums(w * (used * (y - link_of_rows(fit, run)) / unit)^2), fit$outputs)
}

# tr(H), with the intercept; the sum over the columns of the link for logistic loss.
freedom_of <- function(fit, run) {
  posterior <- posterior_of(fit, run)
  own <- sum(vapply(posterior$parts, `[[`, 0, "edf"))
  if (!fit$has_intercept) return(own)
  if (!fit$family$squared) return(own + max(1, length(posterior$parts) - 1))
  ones <- residual_ones(fit, posterior, run_in_double(run))
  if (is_column(ones)) return(own + weighted_means(ones, fit$data$weights))
  w <- fit_weights(fit)
  own + sum(w * ones) / sum(w)
}

# list(sigma, df, edf, edf_error, rss): the noise of each output from the weighted residuals; edf_error: the standard
# error of edf if it is an estimate.
fit_noise <- function(fit, run) {
  edf <- freedom_of(fit, run)
  t <- ncol(fit$coefficients)
  if (!fit$family$free_scale) return(list(sigma = rep(1, t), df = Inf, edf = edf, rss = NULL))
  if (!fit$family$squared) {
    df <- max(used_count(fit) - edf, 0)
    return(list(sigma = sqrt(sum(fit_residuals(fit, "pearson")^2) / df), df = df, edf = edf))
  }
  # scale each response, as squares could overflow or underflow
  squares <- residual_squares(fit, run)
  unit <- rep(1, t)
  for (other in 2^c(600, -600)) {
    lost <- !(is.finite(squares) & squares > 1e-290)
    if (!any(lost)) break
    found <- residual_squares(fit, run, other)
    lost <- lost & is.finite(found) & found > 0
    squares[lost] <- found[lost]
    unit[lost] <- other
  }
  df <- used_count(fit) - edf
  error <- posterior_of(fit, run)$parts[[1]]$edf_error
  # a fit without residuals has no noise, even without residual degrees of freedom
  sigma <- unit * sqrt(ifelse(squares > 0, squares / max(df, 0), 0))
  list(sigma = sigma, df = max(df, 0), edf = edf, edf_error = error, rss = unit^2 * squares)
}

# n x t: leave-one-out residuals of squared loss at the same n lambda and centres. They are exact, as the fit is linear
# in y minus the mean of the other rows.
left_out_residuals <- function(fit, run) {
  found <- leverage_of(fit, run)
  residual <- fit_response(fit) - fitted_link(fit, run)
  if (fit$has_intercept) {
    w <- fit_weights(fit)
    own <- fit_response(fit) - rep(fit$intercept, each = fit$n)
    if (!is.null(fit$data$offset)) own <- own - collected(fit$data$offset)
    residual <- residual + as.vector(collected(found$ones)) * (w / (sum(w) - w)) * own
  }
  residual / (1 - as.vector(found$leverage))
}

# ---- generics of stats -----------------------------------------------------------------------

#' @rdname ridge-methods
#' @export
logLik.kernel_ridge <- function(object, marginal = FALSE, ...) {
  check_dots_empty(...)
  check_flag(marginal, "marginal")
  run <- start_run(object$control, "Predicting")
  # the marginal likelihood needs no degrees of freedom, which take long for many rows
  noise <- if (!marginal) fit_noise(object, run)
  w <- fit_weights(object)
  n <- used_count(object)
  t <- ncol(object$coefficients)
  family <- object$family
  scale <- 1
  if (family$squared) {
    squares <- if (marginal) residual_products(object, run, w) else noise$rss
    value <- sum(-n * (log(2 * pi * squares / n) + 1) / 2) + t * sum(log(w[w > 0])) / 2
    df <- t * (noise$edf + 1)
  } else if (!family$of_classes) {
    # the scale has its maximum likelihood, about as glm() has it
    scale <- stats::deviance(object) / sum(w)
    own <- family$log_density(fit_response(object), fit_means(object), scale, family$loss[2])
    value <- sum(w[w > 0] * own[w > 0])
    df <- noise$edf + family$free_scale
  } else {
    p <- link_probabilities(fitted_link(object, run))
    value <- sum(w * log(p[cbind(seq_len(object$n), class_codes(fit_response(object)))]))
    df <- noise$edf
  }
  if (!marginal) return(structure(value, df = df, nobs = n, class = "logLik"))
  # squared losses have one determinant for all outputs, whose variance of the signal is the best one
  of <- log_determinant(object, run)
  times <- if (family$squared) t else 1
  prior <- if (family$squared) 0 else prior_energy(object, run) / scale
  structure(
    value - (prior + times * of$log_det) / 2, df = if (family$squared) t else as.numeric(family$free_scale),
    error = if (!is.null(of$error)) times * of$error / 2, nobs = n, class = "logLik"
  )
}

# For each output, the weighted sum of y_i (y_i - f(x_i)), where y is centred: n lambda y'(K + N)^-1 y.
residual_products <- function(fit, run, w) {
  y <- fit_response(fit)
  centred <- y - rep(fit$intercept, each = fit$n) - if (is.null(fit$data$offset)) 0 else collected(fit$data$offset)
  colSums(as.matrix(w * centred * (y - fitted_link(fit, run))))
}

# list(log_det, error): log det(I + N^-1 K), summed over the columns of the link if each has its own; error: the
# standard error of an estimate.
log_determinant <- function(fit, run) {
  posterior <- posterior_of(fit, run)
  if (!is.null(posterior$parts[[1]]$log_det)) return(list(log_det = sum(vapply(posterior$parts, `[[`, 0, "log_det"))))
  if (is.null(fit$state$log_det)) fit$state$log_det <- estimated_log_det(fit, run)
  fit$state$log_det
}

# n lambda alpha'K_mm alpha, summed over the columns of the link.
prior_energy <- function(fit, run) {
  fit$n * fit$lambda * sum(backsolve(posterior_of(fit, run)$prior_root, fit$coefficients)^2)
}

#' @rdname ridge-methods
#' @export
df.residual.kernel_ridge <- function(object, ...) {
  check_dots_empty(...)
  used_count(object) - freedom_of(object, start_run(object$control, "Predicting"))
}

#' @rdname ridge-methods
#' @export
sigma.kernel_ridge <- function(object, ...) {
  check_dots_empty(...)
  if (!object$family$free_scale) return(1)
  stats::setNames(fit_noise(object, start_run(object$control, "Predicting"))$sigma, object$outputs)
}

#' @rdname ridge-methods
#' @export
vcov.kernel_ridge <- function(object, ...) {
  check_dots_empty(...)
  run <- start_run(object$control, "Predicting")
  roots <- coefficient_roots(object, run)
  sigma <- fit_noise(object, run)$sigma
  found <- lapply(seq_along(sigma), \(k) sigma[k]^2 * tcrossprod(roots[[min(k, length(roots))]]))
  if (length(found) == 1) found[[1]] else stats::setNames(found, object$outputs)
}

#' @rdname ridge-methods
#' @export
hatvalues.kernel_ridge <- function(model, ...) {
  check_dots_empty(...)
  run <- start_run(model$control, "Predicting")
  restore_fitted(model, as_vector_if_one(hat_diagonal(model, run)))
}

#' @rdname ridge-methods
#' @export
rstandard.kernel_ridge <- function(model, ...) {
  check_dots_empty(...)
  if (!model$family$squared) stop_argument("model", "must be a fit by squared loss: found another family")
  run <- start_run(model$control, "Predicting")
  w <- fit_weights(model)
  free <- 1 - as.vector(hat_diagonal(model, run))
  free[free < 10 * .Machine$double.eps] <- 0 # rounding may leave less than that, or less than 0
  values <- scale_columns(
    sqrt(w / free) * (fit_response(model) - fitted_link(model, run)), 1 / fit_noise(model, run)$sigma
  )
  values[is.infinite(values)] <- NaN # a row that the fit interpolates, as in lm()
  restore_fitted(model, as_vector_if_one(values))
}

#' @rdname ridge-methods
#' @export
simulate.kernel_ridge <- function(object, nsim = 1, seed = NULL, ...) {
  check_dots_empty(...)
  nsim <- check_count(nsim, "nsim")
  run <- start_run(object$control, "Simulating")
  kept_data(object)
  check_memory(8 * 3 * nsim * object$n * ncol(object$coefficients), "nsim")
  with_seed_of_simulate(seed, {
    needed <- list(roots = coefficient_roots(object, run), noise = fit_noise(object, run)) # neither uses random numbers
    draws <- draw_responses(object, draw_links(object, needed, nsim, run), needed$noise$sigma, nsim)
    names(draws) <- paste0("sim_", seq_len(nsim))
    structure(draws, class = "data.frame", row.names = seq_len(object$n))
  })
}

# A list of n x nsim matrices, one for each column of the link.
draw_links <- function(fit, needed, nsim, run) {
  link <- fitted_link(fit, run)
  joint <- posterior_of(fit, run)$joint
  z <- NULL
  lapply(seq_len(ncol(link)), \(k) {
    root <- needed$roots[[min(k, length(needed$roots))]]
    if (is.null(z) || !isTRUE(joint)) z <<- matrix(stats::rnorm(ncol(root) * nsim), ncol(root))
    aside <- rows_multiply(fit$data$rows, fit_columns(fit), root %*% z, run)$sums
    link[, k] + needed$noise$sigma[k] * aside
  })
}

# A list of nsim vectors, factors, or n x t matrices.
draw_responses <- function(fit, links, sigma, nsim) {
  n <- fit$n
  if (fit$family$squared) {
    spread <- 1 / sqrt(fit_weights(fit))
    # without noise, avoid 0 * Inf at rows of weight 0
    parts <- Map(\(link, s) link + (if (s > 0) s * spread else 0) * stats::rnorm(length(link)), links, sigma)
    return(lapply(seq_len(nsim), \(i) {
      if (length(parts) == 1) return(parts[[1]][, i])
      matrix(vapply(parts, \(part) part[, i], numeric(n)), n, dimnames = list(NULL, fit$outputs))
    }))
  }
  if (!fit$family$of_classes) {
    scale <- sigma^2 / fit_weights(fit)
    return(lapply(seq_len(nsim), \(i) fit$family$draw(fit$family$linkinv(links[[1]][, i]), scale, fit$family$loss[2])))
  }
  lapply(seq_len(nsim), \(i) {
    p <- link_probabilities(matrix(vapply(links, \(part) part[, i], numeric(n)), n))
    below <- p %*% upper.tri(diag(ncol(p)), diag = TRUE)
    code <- 1L + rowSums(stats::runif(n) > below[, -ncol(p), drop = FALSE])
    factor(fit$classes[code], levels = fit$classes)
  })
}
