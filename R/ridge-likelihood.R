# What follows from the fit being linear in the response (or, for logistic loss, nearly so at its optimum): leverages,
# effective degrees of freedom, the variance of the noise, likelihoods, leave-one-out errors, draws.
#
# The smoother is H = K_nm R R' K_mn W. With an intercept, the weighted mean of y, which is taken off before, it is
# H + (I - H) 1 w' / sum(w).

# list(leverage, ones): the diagonal of H, and (I - H) 1 where there is an intercept, else 0.
leverage_of <- function(fit, run) {
  posterior <- posterior_of(fit, run)
  if (is.null(fit$state$leverage)) fit$state$leverage <- compute_leverage(fit, posterior, run_in_double(run))
  fit$state$leverage
}

compute_leverage <- function(fit, posterior, run) {
  rows <- fit$data$rows
  if (is.null(posterior$prior_root)) stop_unfactorised(fit)
  name_stage(run, "Leverages")
  leverage <- if (isTRUE(posterior$joint)) joint_leverage(fit, posterior, run) else vapply(posterior$parts, \(part) {
    if (!is.null(part$leverage)) return(part$leverage)
    norms <- squared_norms(rows, posterior$columns, part$root, run)
    if (is.null(part$weights)) norms else norms * as.vector(collected(part$weights))
  }, numeric(fit$n))
  list(leverage = matrix(leverage, fit$n), ones = residual_ones(fit, posterior, run))
}

# n x K: of each row and class, the derivative of the fitted link by the row's own residual.
joint_leverage <- function(fit, posterior, run) {
  p <- link_probabilities(fitted_link(fit, run))
  fit_weights(fit) * sum_joint(fit$data$rows, posterior, run, \(U) {
    do.call(cbind, Map(\(u, bent) rowSums(u * bent), U, bent_links(U, p)))
  })
}

# (I - H) 1, the residual of a response of ones.
residual_ones <- function(fit, posterior, run) {
  if (!fit$has_intercept || fit$loss != "squared") return(0)
  if (!is.null(fit$state$ones)) return(fit$state$ones)
  rows <- fit$data$rows
  weights <- fit$data$weights
  ones <- rows_constant(rows, 1)
  part <- posterior$parts[[1]]
  residual <- if (is.null(part$root)) {
    # where there are no factors, the posterior has brought it
    used <- used_in_exact(rows, weights)
    system <- exact_system(used, fit$L, fit$kernel, fit$lambda, run)
    solved <- posterior$prior_root %*% colSums(posterior$prior_root)
    replace(numeric(fit$n), used$index, system$noise * solved)
  } else {
    product <- rows_normal(rows, posterior$columns, NULL, ones, weights, run)$product
    alpha <- part$root %*% crossprod(part$root, product)
    fitted <- rows_link(rows, posterior$columns, alpha, run)
    1 - if (is_column(fitted)) fitted else as.vector(fitted)
  }
  fit$state$ones <- residual
  residual
}

# Weights as numbers, and how many rows have one.
fit_weights <- function(fit) if (is.null(fit$data$weights)) rep(1, fit$n) else as.vector(collected(fit$data$weights))
used_count <- function(fit) if (is.null(fit$data$weights)) fit$n else sum(fit$data$weights > 0)

# The response in this session.
fit_response <- function(fit) collected(kept_data(fit)$y)

# The weighted sum of the squares of residuals, for each output.
residual_squares <- function(fit, run, unit = 1) {
  y <- fit$data$y
  w <- if (!is_column(y)) fit_weights(fit) else if (is.null(fit$data$weights)) 1 else fit$data$weights
  # residuals without weight are 0 before they are squared: 0 * Inf is NaN
  used <- if (is.null(fit$data$weights)) 1 else w > 0
  stats::setNames(column_sums(w * (used * (y - link_of_rows(fit, run)) / unit)^2), fit$outputs)
}

# tr(H), with the intercept; the sum over the columns of the link for logistic loss.
freedom_of <- function(fit, run) {
  posterior <- posterior_of(fit, run)
  own <- sum(vapply(posterior$parts, `[[`, 0, "edf"))
  if (!fit$has_intercept) return(own)
  if (fit$loss != "squared") return(own + max(1, length(posterior$parts) - 1))
  ones <- residual_ones(fit, posterior, run_in_double(run))
  if (is_column(ones)) return(own + weighted_means(ones, fit$data$weights))
  w <- fit_weights(fit)
  own + sum(w * ones) / sum(w)
}

# list(sigma, df, edf, edf_error, rss): the noise of each output, from the weighted residuals; the standard error of edf
# where that is an estimate.
fit_noise <- function(fit, run) {
  edf <- freedom_of(fit, run)
  t <- ncol(fit$coefficients)
  if (fit$loss != "squared") return(list(sigma = rep(1, t), df = Inf, edf = edf, rss = NULL))
  # responses may be too large or small for squares, each by itself
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
  # a fit without residuals has no noise, however few degrees of freedom are left
  sigma <- unit * sqrt(ifelse(squares > 0, squares / max(df, 0), 0))
  list(sigma = sigma, df = max(df, 0), edf = edf, edf_error = error, rss = unit^2 * squares)
}

# n x t: residuals at each row, of squared loss, of fits without it at the same n lambda and centres. They are exact:
# what is fitted is linear in y less the mean of the others.
left_out_residuals <- function(fit, run) {
  if (fit$loss != "squared") stop_argument("object", "must have squared loss to leave rows out without fitting again")
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

# Numbers that compare fits, one for each output: generalised cross-validation, and the logarithm of the marginal
# likelihood of y under the approximation K_nm K_mm^-1 K_mn of the kernels, at the best tau^2.
fit_criteria <- function(fit, run) {
  noise <- fit_noise(fit, run)
  n <- used_count(fit)
  log_det <- posterior_of(fit, run)$parts[[1]]$log_det
  made <- list(edf = noise$edf, sigma = noise$sigma, gcv = n * noise$rss / noise$df^2, log_evidence = NULL)
  if (is.null(log_det)) return(made)
  w <- fit_weights(fit)
  own <- fit_response(fit) - rep(fit$intercept, each = fit$n)
  if (!is.null(fit$data$offset)) own <- own - collected(fit$data$offset)
  n_lambda <- fit$n * fit$lambda
  # y'(W^-1 + Q / (n lambda))^-1 y, since residuals are n lambda W^-1 alpha of that system
  square <- colSums(w * own * (fit_response(fit) - fitted_link(fit, run)))
  scale <- n * (log(2 * pi * square / n) + 1)
  made$log_evidence <- -(scale + log_det - sum(log(w[w > 0]))) / 2
  made$n_lambda <- n_lambda
  made
}

# ---- what other models have -------------------------------------------------------------------

#' Likelihood, degrees of freedom, leverages and draws of a kernel regression
#'
#' A kernel regression is the posterior mean of a Bayesian model: coefficients
#' \eqn{\alpha \sim N(0, \tau^2 K^{-1})}{alpha ~ N(0, tau^2 K^-1)}, noise of variance
#' \eqn{\sigma^2 / w_i}{sigma^2 / w_i}, and \eqn{n \lambda = \sigma^2 / \tau^2}{n lambda = sigma^2 / tau^2}. For
#' logistic loss it is the mode, about which the posterior is taken to be normal (Laplace's approximation). More than two
#' classes have one posterior of all their coefficients, up to 4,000 of them (centres times classes); beyond, each class
#' has one by itself, as if the others were known.
#'
#' @details
#' **Effective degrees of freedom** are the trace of the matrix that makes fitted values of the response, `1` for the
#' intercept among them; `df.residual()` is the number of rows of positive weight less these, `sigma()` the root of the
#' weighted residual sum of squares over that. `hatvalues()` is the matrix's diagonal, `rstandard()` residuals over
#' their standard deviations (`NaN` at a row that the fit goes through, as for [lm()]).
#'
#' **`logLik()`** is that of normal noise at its maximum (`df`: the effective degrees of freedom and 1 for sigma), or of
#' the classes; [AIC()] and [BIC()] follow. Weights are reciprocals of variances, as in [lm()].
#'
#' **`simulate()`** draws responses at the rows of the fit from the posterior predictive distribution: coefficients from
#' their posterior, and noise.
#'
#' **Cost**: computed when first asked for, and kept with the fit: \eqn{O(n m^2 + m^3)}{O(nm^2 + m^3)} with `m` centres,
#' never `n` x `m` in memory. Exact fits of more rows than are factorised (4,000 on the CPU) have standard errors to a
#' thousandth, of up to 10,000 predictions at a time, by conjugate gradients for each; degrees of freedom, and with them
#' sigma, AIC and the likelihood's `df`, that are estimates from 8 random vectors, the same in every call, of what a
#' low-rank approximation of the kernels lacks (`summary()` has their standard error, which is mostly far below 1); and
#' neither leverages nor draws.
#'
#' @param object,model A fit from [kernel_ridge()] that keeps its rows.
#' @param nsim Number of draws.
#' @param seed As in [stats::simulate()].
#' @param ... Not used; anything here is an error.
#' @returns `logLik()`: an object of class `logLik`; `df.residual()`, `sigma()`: a number (for several responses,
#'   `sigma()` one for each); `vcov()`: the covariance matrix of the coefficients (for several responses, of each, in a
#'   list); `hatvalues()`, `rstandard()`: a vector or a matrix. `simulate()`: a data frame with a column for each draw
#'   (a matrix, for several responses) and the attribute `"seed"`.
#' @name ridge-likelihood
#' @examples
#' fit <- kernel_ridge(dist ~ speed, data = cars)
#' AIC(fit)
#' sigma(fit)
#' predict(fit, data.frame(speed = 10), se.fit = TRUE)
#' matplot(cars$speed, simulate(fit, 3, seed = 1), pch = 1)
NULL

#' @rdname ridge-likelihood
#' @importFrom stats logLik
#' @export
logLik.kernel_ridge <- function(object, ...) {
  check_dots_empty(...)
  run <- start_run(object$control, "Predicting")
  noise <- fit_noise(object, run)
  w <- fit_weights(object)
  n <- used_count(object)
  t <- ncol(object$coefficients)
  if (object$loss == "squared") {
    value <- sum(-n * (log(2 * pi * noise$rss / n) + 1) / 2) + t * sum(log(w[w > 0])) / 2
    df <- t * (noise$edf + 1)
  } else {
    p <- link_probabilities(fitted_link(object, run))
    value <- sum(w * log(p[cbind(seq_len(object$n), class_codes(fit_response(object)))]))
    df <- noise$edf
  }
  structure(value, df = df, nobs = n, class = "logLik")
}

#' @rdname ridge-likelihood
#' @importFrom stats df.residual
#' @export
df.residual.kernel_ridge <- function(object, ...) {
  check_dots_empty(...)
  run <- start_run(object$control, "Predicting")
  used_count(object) - freedom_of(object, run)
}

#' @rdname ridge-likelihood
#' @importFrom stats sigma
#' @export
sigma.kernel_ridge <- function(object, ...) {
  check_dots_empty(...)
  run <- start_run(object$control, "Predicting")
  sigma <- fit_noise(object, run)$sigma
  if (object$loss == "squared") stats::setNames(sigma, object$outputs) else 1
}

#' @rdname ridge-likelihood
#' @importFrom stats vcov
#' @export
vcov.kernel_ridge <- function(object, ...) {
  check_dots_empty(...)
  run <- start_run(object$control, "Predicting")
  roots <- coefficient_roots(object, run)
  sigma <- fit_noise(object, run)$sigma
  found <- lapply(seq_along(sigma), \(k) sigma[k]^2 * tcrossprod(roots[[min(k, length(roots))]]))
  if (length(found) == 1) found[[1]] else stats::setNames(found, object$outputs)
}

#' @rdname ridge-likelihood
#' @importFrom stats hatvalues
#' @export
hatvalues.kernel_ridge <- function(model, ...) {
  check_dots_empty(...)
  run <- start_run(model$control, "Predicting")
  found <- leverage_of(model, run)
  w <- fit_weights(model)
  values <- found$leverage + as.vector(collected(found$ones)) * w / sum(w)
  restore_fitted(model, as_vector_if_one(values))
}

#' @rdname ridge-likelihood
#' @importFrom stats rstandard
#' @export
rstandard.kernel_ridge <- function(model, ...) {
  check_dots_empty(...)
  if (model$loss != "squared") stop_argument("model", "must have squared loss")
  run <- start_run(model$control, "Predicting")
  found <- leverage_of(model, run)
  w <- fit_weights(model)
  free <- 1 - as.vector(found$leverage + as.vector(collected(found$ones)) * w / sum(w))
  free[free < 10 * .Machine$double.eps] <- 0 # rounding may leave less than that, or less than 0
  values <- scale_columns(
    sqrt(w / free) * (fit_response(model) - fitted_link(model, run)), 1 / fit_noise(model, run)$sigma
  )
  values[is.infinite(values)] <- NaN # of a row that the fit goes through, as lm() has it
  restore_fitted(model, as_vector_if_one(values))
}

#' @rdname ridge-likelihood
#' @importFrom stats simulate
#' @export
simulate.kernel_ridge <- function(object, nsim = 1, seed = NULL, ...) {
  check_dots_empty(...)
  nsim <- check_count(nsim, "nsim")
  run <- start_run(object$control, "Simulating")
  kept_data(object)
  check_memory(8 * 3 * nsim * object$n * ncol(object$coefficients), "nsim")
  with_seed_of_simulate(seed, {
    needed <- list(roots = coefficient_roots(object, run), noise = fit_noise(object, run)) # nothing of it draws
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
  if (fit$loss == "squared") {
    spread <- 1 / sqrt(fit_weights(fit))
    # a fit without noise has none at rows without weight, either
    parts <- Map(\(link, s) link + (if (s > 0) s * spread else 0) * stats::rnorm(length(link)), links, sigma)
    return(lapply(seq_len(nsim), \(i) {
      if (length(parts) == 1) return(parts[[1]][, i])
      matrix(vapply(parts, \(part) part[, i], numeric(n)), n, dimnames = list(NULL, fit$outputs))
    }))
  }
  lapply(seq_len(nsim), \(i) {
    p <- link_probabilities(matrix(vapply(links, \(part) part[, i], numeric(n)), n))
    below <- p %*% upper.tri(diag(ncol(p)), diag = TRUE)
    code <- 1L + rowSums(stats::runif(n) > below[, -ncol(p), drop = FALSE])
    factor(fit$classes[code], levels = fit$classes)
  })
}
