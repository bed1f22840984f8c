#' Derivatives of a density estimate
#'
#' `kde_derivative()` returns the gradient or the matrix of second derivatives (Hessian) of the estimate or of its logarithm, at
#' any points. It corresponds to `ks::kdde()` with `deriv.order` 1 and 2, but is exact.
#'
#' @details
#' The Hessian is \eqn{\nabla^2 p = \sum_i w_i K_i (H^{-1} z_i z_i' H^{-1} - H^{-1}) / W}{Hess p = sum_i w_i K_i (H^-1 z_i
#' z_i' H^-1 - H^-1) / W} with \eqn{z_i = x_i - y}{z_i = x_i - y}, for the debiased points for `"sdkde"`, with variances
#' \eqn{f_i^2 H}{f_i^2 H} for adaptive fits, and for the corrected kernel for `"laplace"`. All sums are relative to the density at
#' each point, so derivatives of the logarithm are correct in tails where the density underflows.
#'
#' On a `support` ([kde_support()]) the derivatives of the density are 0 outside, and those of its logarithm are `NaN`. Fits with
#' categories have derivatives with respect to their numbers. For boundary kernels and local likelihood the second derivative is
#' made of differences of the first, with a relative error of about 1e-9. Triangular and uniform kernels have only a gradient.
#'
#' The time is at most \eqn{O(nmd^2)}{O(n m d^2)}, on the CPU. The gradient also respects the tolerance of `control`, except for
#' `"laplace"`.
#'
#' @param object A fit from [flash_kde()], not a balloon estimate.
#' @param newdata,na.action As for [`predict()`][predict.flash_kde].
#' @param order 1 for the gradient, 2 for the Hessian.
#' @param log Of the logarithm of the density?
#' @param loo Whether to leave every training point out of its own estimate. Only without `newdata`, and not for
#'   `"sdkde"`.
#' @param control A [flash_control()]; what it does not say is as in the fit.
#' @returns For `order = 1` an `m` x `d` matrix, for `order = 2` an `m` x `d` x `d` array, in units of the density
#'   (without one for `log = TRUE`) by those of one or two columns.
#' @references Chacon, J. E. and Duong, T. (2018) *Multivariate Kernel Smoothing and Its Applications*. Chapman & Hall.
#' @seealso [kde_modes()], [mean_shift()] and [kde_ridges()], which use derivatives.
#' @rawRd \concept{gradient of a density}\concept{Hessian}
#' @export
#' @examples
#' fit <- flash_kde(faithful, "kde")
#' at <- data.frame(eruptions = c(2, 4.5), waiting = c(50, 80))
#' kde_derivative(fit, at)
#' kde_derivative(fit, at, order = 2, log = TRUE)[1, , ]
kde_derivative <- function(object, newdata = NULL, order = 1, log = FALSE, loo = FALSE,
                               na.action = stats::na.pass, control = NULL) {
  check_smooth(object, "derivatives")
  order <- check_count(order, "order", max = 2)
  if (order == 2) check_can(object, "second_derivatives")
  log <- check_flag(log, "log")
  loo <- check_flag(loo, "loo")
  check_combination(object, newdata, "score", FALSE, loo)
  run <- start_run(settle_control(control, NULL, fit_asked(object)), "Differentiating")
  kept <- if (is.null(newdata)) {
    list(restore = \(result, at_infinity) stats::napredict(object$na.action, result))
  } else {
    newdata_rows(new_points(object, newdata), na.action)
  }
  m <- if (is.null(newdata)) object$n else nrow(kept$points)
  check_memory(8 * m * (6 + 4 * object$d^order), if (is.null(newdata)) "object" else "newdata")
  found <- if (m == 0) matrix(0, 0, object$d^order) else derivative_at(object, kept$points, order, log, loo, run)
  found <- kept$restore(found, if (log) NaN else 0)
  names <- point_names(object)
  if (order == 1) return(`dimnames<-`(found, list(rownames(found), names)))
  array(found, c(nrow(found), object$d, object$d), list(rownames(found), names, names))
}

# For verbs that are made of derivatives.
check_smooth <- function(object, verb) {
  check_fit(object)
  check_in_memory(object)
  check_can(object, verb)
}

#' @export
derivative_at.default <- function(object, at, order, log, loo, control) {
  if (order == 1 && (log || !is_signed(object))) {
    score <- score_estimate(object, at, loo, control)
    if (log) return(score)
    return(times_density(score, signed_density(log_estimate(object, at, loo, control))))
  }
  if (!has_gaussian(object)) return(compact_hessian(object, at, log, loo, control))
  local <- local_sources(object, loo)
  places <- if (!loo) local_columns(local, if (is.null(at)) object$x else at)
  plain <- log_sum(fit_sources(object), targets(object, at), PLAIN_FACTOR, loo, control)$log_abs
  sums <- local_sums(local, places, plain, control)
  scale <- if (log) {
    1 / sums$mass
  } else {
    exp(plain + log_kernel_norm(local$L) - log(if (loo) loo_weight(object) else total_weight(object)))
  }
  inverse <- backsolve(local$L, diag(object$d), upper.tri = FALSE)
  if (order == 1) return(times_density(sums$gradient, scale) %*% inverse)
  hessian <- times_density(sums$hessian, scale)
  if (log) hessian <- hessian - outer_rows(scale * sums$gradient)
  matrix(unwhiten_hessians(hessian, inverse), length(plain))
}

# Second derivatives by combination of categories: there the logarithm is that of a density of the numbers alone, with
# weights.
#' @export
derivative_at.mixed <- function(object, at, order, log, loo, control) {
  d <- object$d
  if (is.null(at)) at <- own_places(object)
  score <- score_estimate(object, if (loo) NULL else at, loo, control)
  if (order == 1) return(if (log) score else from_log_derivative(object, score, 1, score, at, loo, control))
  numbers <- numbers_of(object, seq_len(d))
  own <- kernel_weights(object)
  cells <- cells_of(at[, -seq_len(d), drop = FALSE])
  tables <- level_tables(object$discrete)
  hessian <- matrix(NaN, nrow(at), d^2)
  for (i in seq_along(cells$rows)) {
    rows <- cells$rows[[i]]
    numbers$weights <- own * cell_weights(tables, cells$codes[i, ], object$discrete$codes)
    if (!any(numbers$weights > 0)) next
    found <- derivative_at(numbers, if (!loo) at[rows, seq_len(d), drop = FALSE], 2, TRUE, loo, control)
    hessian[rows, ] <- if (loo) found[rows, , drop = FALSE] else found
  }
  if (log) hessian else from_log_derivative(object, hessian, 2, score, at, loo, control)
}

#' @export
derivative_at.clipped <- function(object, at, order, log, loo, control) {
  found <- derivative_at(signed_part(object), at, order, log, loo, control)
  found[log_estimate(object, at, loo, control)$log_abs == -Inf, ] <- if (log) NaN else 0
  if (log) found else found / exp(log_clip(object))
}

# Where a density is 0 for being so far out, what it multiplies may be no number.
times_density <- function(values, density) {
  values[density == 0, ] <- 0
  density * values
}

# ---- sums about the targets -------------------------------------------------------------------

# The kernels of a fit in columns of coordinates in which H is the identity, about their median: what a target is
# relative to has the digits of the difference. Points without weight take part only if they are targets, too, with
# kernels that are 0.
local_sources <- function(object, with_all = FALSE) {
  points <- fit_points(object)
  rows <- if (with_all) rep(TRUE, object$n) else used_rows(object)
  used <- if (all(rows)) points else points[rows, , drop = FALSE]
  centre <- apply(used, 2, stats::median)
  L <- fit_factor(object)
  factors <- object$adaptive$factors[rows]
  weights <- object$weights[rows]
  log_weight <- if (is.null(weights)) numeric(nrow(used)) else pmax(log(weights), -1e300)
  if (!is.null(factors)) log_weight <- log_weight - object$d * log(factors)
  list(
    x = whitened_columns(used, L, centre), L = L, log_weight = log_weight, factors = factors,
    factor = fit_polynomial(object), about = centre, origin = fit_centre(object)
  )
}

# Points that the user gave as the columns of a local_sources(), and back from these about its centre.
local_columns <- function(local, points) {
  whitened_columns(shift_points(points, local$origin, -1), local$L, local$about)
}
to_user <- function(local, points) shift_points(shift_points(points, local$about, 1), local$origin, 1)

# At `targets`, columns as local$x (NULL: each of these without itself), in units of exp(log_scale), about the
# logarithm of the plain sum: `mass` m, `gradient` m x d, `hessian` m x d^2 of the sum, and `precision`, m, which
# the plain mean of 1 / f^2 becomes by the division by mass.
local_sums <- function(local, targets, log_scale, control, factor = local$factor) {
  job <- list(
    x = local$x, y = targets, log_weight = local$log_weight, factors = local$factors, log_scale = log_scale,
    factor = factor
  )
  sums <- t(derivative_sums(job, control))
  d <- nrow(local$x)
  second <- sums[, -seq_len(2 + d), drop = FALSE][, lower_index(d), drop = FALSE]
  diagonal <- (seq_len(d) - 1) * d + seq_len(d)
  second[, diagonal] <- second[, diagonal] - sums[, 2]
  list(mass = sums[, 1], precision = sums[, 2], gradient = sums[, 2 + seq_len(d), drop = FALSE], hessian = second)
}

# Where the elements of a symmetric matrix are in its lower triangle, row by row.
lower_index <- function(d) {
  a <- pmax(row(diag(d)), col(diag(d)))
  b <- pmin(row(diag(d)), col(diag(d)))
  as.vector(a * (a - 1) / 2 + b)
}

# For each row g the matrix g g', in d^2 columns.
outer_rows <- function(g) {
  d <- ncol(g)
  g[, rep(seq_len(d), d), drop = FALSE] * g[, rep(seq_len(d), each = d), drop = FALSE]
}

# A' M A for the matrix M in each row.
unwhiten_hessians <- function(hessians, A) {
  d <- nrow(A)
  half <- array(hessians, c(length(hessians) / d, d)) %*% A
  dim(half) <- c(nrow(hessians), d, d)
  half <- aperm(half, c(1, 3, 2))
  whole <- matrix(half, ncol = d) %*% A
  array(whole, c(nrow(hessians), d, d))
}
