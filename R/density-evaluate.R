# The estimate at points, as logarithm and sign, of densities that are one sum of kernels. predict(), logLik(),
# as.data.frame(), simulate() and diagnostics() all come here, by the verbs of density-verbs.R.

#' @export
log_estimate.default <- function(object, at, loo, control, factor = fit_polynomial(object)) {
  if (loo && needs_refits(object)) return(log_by_refits(object, control))
  # of an SD-KDE the leave-one-out sums are exact whatever the tolerance is
  by_stages <- loo && is_debiased(object)
  # fewer pairs than any tolerance would gain on need no hint: a GPU sums them in milliseconds
  most <- if (control$backend == "cuda") 1e10 else 1e8
  few <- is.double(object$x) && as.double(object$n) * (if (is.null(at)) object$n else nrow(at)) < most
  if (!few && !by_stages) suggest_for_fit(object, at, control)
  sources <- fit_sources(object)
  sums <- if (by_stages) {
    debiased_loo(object, control)
  } else {
    log_sum(sources, if (is.null(object$debiased)) at else targets(object, at), factor, loo, control)
  }
  weight <- if (loo) loo_weight(object) else total_weight(object)
  list(
    log_abs = sums$log_abs + (log_kernel_norm(sources$L) - log(weight)),
    negative = sums$negative, stats = sums$stats
  )
}

# Leave-one-out sums of an SD-KDE without the point in both stages, from the original points.
debiased_loo <- function(object, control) {
  if (!has_gaussian(object)) return(compact_debiased_loo(object, control))
  if (is_remote(object$x)) {
    return(if (is_joined(object$x)) debiased_loo_of_blocks(object, control) else debiased_loo_by_shards(object, control))
  }
  if (isTRUE(object$given_score)) return(given_score_loo(object, control))
  points <- from_centre(object, object$x)
  sources <- sum_sources(
    points, object$weights, score_factor(object),
    factors = object$adaptive$factors, discrete = object$discrete
  )
  sums <- debiased_loo_sum(sources, fit_factor(object), control)
  list(log_abs = sums$log_sum, stats = sums$stats)
}

suggest_for_fit <- function(object, at, control) {
  if (object$d == 0) return(invisible()) # levels alone
  if (!has_gaussian(object)) return(invisible()) # its sums take little time
  own <- is.null(at) && !is_debiased(object)
  m <- if (is.null(at)) object$n else nrow(at)
  suggest_tolerance(control, object$n, m, object$d, fit_sources(object), "gaussian", own)
}

signed_density <- function(estimate) {
  density <- exp(estimate$log_abs)
  if (is.null(estimate$negative)) return(density)
  at <- which(estimate$negative)
  density[at] <- -density[at]
  density
}

# list(log_abs, negative) of the ratio of two estimates, `negative` NULL where neither has signs. The values of `below`
# are recycled.
signed_ratio <- function(above, below) {
  found <- list(log_abs = above$log_abs - below$log_abs)
  sign_of <- \(estimate) if (is.null(estimate$negative)) FALSE else estimate$negative
  if (!is.null(c(above$negative, below$negative))) found$negative <- sign_of(above) != sign_of(below)
  found
}

#' @export
score_estimate.default <- function(object, at, loo, control) {
  suggest_for_fit(object, at, control)
  sources <- fit_sources(object)
  score_sum(sources, targets(object, at), fit_polynomial(object), loo, point_names(object), control)$score
}

# The log of the standard error (a logarithm, since it is right where the estimate underflows):
# se^2 = sum w^2 K^2 / W^2 - p^2 sum w^2 / W^2. `estimate`: p, of log_estimate().
#' @export
error_estimate.default <- function(object, at, loo, control, estimate) {
  squares <- log_sum_squares(object, at, loo, control)
  weight <- if (loo) loo_weight(object) else total_weight(object)
  log_square <- squares + 2 * log_kernel_norm(fit_factor(object)) - 2 * log(weight)
  # A sum of squares of non-negative terms is at most the square of the sum: this keeps far tails
  # sane, where the two logarithms, huge and nearly equal, have no digits left for their difference.
  if (!is_signed(object)) log_square <- pmin(log_square, 2 * estimate$log_abs)
  log_error(object, log_square, estimate$log_abs, weight, loo)
}

# The log of the standard error. `log_square`: of sum w^2 K^2 / W^2, with W in `weight`.
log_error <- function(object, log_square, log_abs, weight, loo) {
  log_weight2 <- if (loo) log_loo_square(object) else log_square_weight(object)
  # clamped: the difference can be negative by rounding, or where p is near a kernel's height
  share <- pmin(exp(2 * log_abs + log_weight2 - 2 * log(weight) - log_square), 1)
  share[log_square == -Inf] <- 1
  (log_square + log1p(-share)) / 2
}

# log sum w^2 k^2. The square of a kernel of H is proportional to one of H / 2, whose squared distance is twice that of H.
log_sum_squares <- function(object, at, loo, control) {
  if (is.null(estimator_of(object)$square)) return(log_pair_squares(object, at, loo, control))
  log_sum(squared(fit_sources(object)), targets(object, at), estimator_of(object)$square(object$d), loo, control)$log_abs
}

log_square_weight <- function(object) {
  if (has_remote_weights(object)) log(object$x$square_weight) else log_square_sum(object$weights, object$n)
}

# The polynomial in q / 2 that multiplies the kernel.
fit_polynomial <- function(object) ESTIMATORS[[object$estimator]]$factor(object$d)

# ---- leave-one-out ----------------------------------------------------------------------------

# Relative to fit_centre(), as fit_points() are. NULL tells C that the points are their own targets, unless these
# have been debiased.
targets <- function(object, at) {
  if (is.null(at)) at <- if (is_debiased(object)) own_places(object) else return(NULL)
  if (is.null(object$centred)) at else from_centre(object, at)
}

# The sum of all other weights. A weight above half of the total is left out by summing again, since
# the difference would lose digits.
loo_weight <- function(object) {
  if (has_remote_weights(object)) return(remote_loo_weight(object$x))
  weights <- own_weights(object)
  if (is.null(weights)) object$n - 1 else leave_out(weights)
}

# log sum of the squares of all other weights.
log_loo_square <- function(object) {
  if (has_remote_weights(object)) return(log(remote_loo_square(object$x)))
  weights <- own_weights(object)
  if (is.null(weights)) return(log(object$n - 1))
  largest <- which.max(weights)
  top <- weights[largest]
  rest <- 2 * log(top) + log(leave_out((weights / top)^2))
  rest[largest] <- log_square_sum(weights[-largest]) # at their own scale
  rest
}

# Points that were debiased in more dimensions were so by the ones to leave out, too.
can_leave_out <- function(object) n_used(object) > 1 && is.null(object$debiased_in) && can_refit(object)

check_loo <- function(object, arg = "loo") {
  check_refits(object, arg)
  if (!is.null(object$debiased_in)) {
    among <- if (object$debiased_in > object$d) {
      paste0("in ", object$debiased_in, " dimensions, not in ", object$d)
    } else {
      "together with points of other categories"
    }
    stop(new_error("unsupported", paste0(
      "leave-one-out values are not available, because the points were debiased ", among,
      ": compute them for the original fit", if (object$debiased_in > object$d) ", or use kde_marginal(debias = TRUE)"
    ), user_call()))
  }
  if (!can_leave_out(object)) stop_argument(arg, "needs at least two points of positive weight: found ", n_used(object))
}
