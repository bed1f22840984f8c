#' Leave-one-out log-likelihood of a density estimate
#'
#' The sum over all training points of the log density that the other points give them. Unlike the
#' density at the training points, it does not grow without bound as the bandwidth goes to 0, so
#' it compares estimators and bandwidths.
#'
#' @details
#' With weights, point \eqn{i} counts \eqn{n w_i / W} times, \eqn{n} the number of points of positive
#' weight, so the weights sum to \eqn{n} and the scale of `weights` does not matter; points of weight 0
#' change nothing. A point that the others
#' give density 0, or a negative one (`"laplace"`, with a warning), makes the sum `-Inf`. For
#' `"sdkde"` a point is left out of both stages. Cost: \eqn{O(n^2 d)}; for an `"sdkde"` of several `steps`, or with
#' images or masses of a `support`, \eqn{O(n^3 d)}, up to some 3,000 points.
#'
#' @param object A fit from [flash_kde()].
#' @param ... Not used; anything here is an error.
#' @returns `logLik()`: an object of class `logLik`, with attributes `nobs` and `df`, which is 0: AIC corrects a
#'   likelihood for being taken at the points that the model was fitted to, and these are left out here. So
#'   [AIC()] and [BIC()] are both -2 times this value, which estimates the same as the AIC of a parametric model
#'   (Stone 1977) and can be compared with it. `nobs()`: the number of points of positive weight, after
#'   `na.action`.
#' @references Stone, M. (1977) An asymptotic equivalence of choice of model by cross-validation and Akaike's
#'   criterion. *Journal of the Royal Statistical Society B* 39, 44-47.
#' @importFrom stats logLik
#' @export
#' @examples
#' fit <- flash_kde(faithful)
#' logLik(fit)
#' logLik(update(fit, estimator = "kde"))
#' AIC(fit, update(fit, estimator = "kde"))
logLik.flash_kde <- function(object, ...) {
  check_dots_empty(...)
  check_loo(object, "object")
  control <- start_run(fit_asked(object), "Leaving one out")
  if (is_remote(.subset2(object, "x"))) return(log_lik_of_data(unclass(object), control))
  estimate <- log_estimate(object, NULL, TRUE, control)
  used <- used_rows(object)
  n <- n_used(object)
  negative <- estimate$negative & used
  if (any(negative)) warn_negative_points(sum(negative), n)
  values <- replace(estimate$log_abs, negative, -Inf)[used]
  sum_of_logs(values, object)
}

warn_negative_points <- function(count, n) {
  warn_negative(
    "the Laplace-corrected leave-one-out estimate is negative at ", count, " of ", n,
    " points: the log-likelihood is -Inf"
  )
}

# Of the logarithms at the points of positive weight.
sum_of_logs <- function(values, object) {
  n <- length(values)
  weights <- own_weights(object)
  total <- if (is.null(weights)) sum(values) else sum(weights[used_rows(object)] / sum(weights) * n * values)
  structure(total, df = 0L, nobs = n, class = "logLik")
}

#' @rdname logLik.flash_kde
#' @importFrom stats nobs
#' @export
nobs.flash_kde <- function(object, ...) n_used(object)
