#' Leave-one-out log-likelihood of a density estimate
#'
#' The sum over all training points of the log density that the other points give them. Unlike the
#' density at the training points, it does not grow without bound as the bandwidth goes to 0, so
#' it compares estimators and bandwidths.
#'
#' @details
#' With weights, point \eqn{i} counts \eqn{n w_i / W} times, so the weights sum to \eqn{n} and the
#' scale of `weights` does not matter; points of weight 0 do not count. A point that the others
#' give density 0, or a negative one (`"laplace"`, with a warning), makes the sum `-Inf`. For
#' `"sdkde"` a point is left out of both stages. Cost: \eqn{O(n^2 d)}.
#'
#' @param object A fit from [flash_kde()].
#' @param ... Not used; anything here is an error.
#' @returns `logLik()`: an object of class `logLik`, with attributes `nobs` (`n`) and `df` (1, the
#'   bandwidth's scale; [AIC()] on top of a leave-one-out likelihood corrects twice). `nobs()`:
#'   the number of points after `na.action`.
#' @inheritSection flash_kde Errors
#' @importFrom stats logLik
#' @export
#' @examples
#' fit <- flash_kde(faithful)
#' logLik(fit)
#' logLik(update(fit, estimator = "kde"))
logLik.flash_kde <- function(object, ...) {
  check_dots_empty(...)
  check_loo(object, "object")
  control <- fit_control(object)
  on.exit(close_progress(control))
  name_stage(control, "Leaving one out")
  estimate <- log_estimate(object, NULL, TRUE, control)
  used <- if (is.null(object$weights)) rep(TRUE, object$n) else object$weights > 0
  negative <- estimate$negative & used
  if (any(negative)) {
    warning(
      "the Laplace-corrected leave-one-out estimate is negative at ", sum(negative), " of ",
      object$n, " points: the log-likelihood is -Inf",
      call. = FALSE
    )
  }
  values <- replace(estimate$log_abs, negative, -Inf)[used]
  weights <- object$weights[used] / sum(object$weights) * object$n
  total <- if (is.null(object$weights)) sum(values) else sum(weights * values)
  structure(total, df = 1L, nobs = object$n, class = "logLik")
}

#' @rdname logLik.flash_kde
#' @importFrom stats nobs
#' @export
nobs.flash_kde <- function(object, ...) object$n

can_leave_out <- function(object) {
  if (is.null(object$weights)) object$n > 1 else sum(object$weights > 0) > 1
}
