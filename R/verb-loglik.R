# Leave-one-out log-likelihoods.

#' @rdname summary.flash_kde
#' @importFrom stats logLik
#' @export
logLik.flash_kde <- function(object, ...) {
  check_dots_empty(...)
  check_loo(object, "object")
  control <- start_run(fit_asked(object), "Leaving one out")
  if (is_remote(.subset2(object, "x"))) return(log_lik_of_data(unclass(object), control))
  log_lik_of(log_estimate(object, NULL, TRUE, control), object)
}

warn_negative_points <- function(count, n) {
  warn_negative(
    "the Laplace-corrected leave-one-out estimate is negative at ", count, " of ", n,
    " points: the log-likelihood is -Inf"
  )
}

# The log-likelihood from list(log_abs, negative) at the training points; points of weight 0 are excluded.
log_lik_of <- function(estimate, object) {
  used <- used_rows(object)
  n <- sum(used)
  negative <- estimate$negative & used
  if (any(negative)) warn_negative_points(sum(negative), n)
  values <- replace(estimate$log_abs, negative, -Inf)[used]
  weights <- own_weights(object)
  total <- if (is.null(weights)) sum(values) else sum(weights[used] / sum(weights) * n * values)
  structure(total, df = 0L, nobs = n, class = "logLik")
}

#' @rdname summary.flash_kde
#' @importFrom stats nobs
#' @export
nobs.flash_kde <- function(object, ...) n_used(object)
