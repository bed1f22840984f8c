# `arg` is what the user calls the points; `call` is the call to store; `options`: a list of estimator, bandwidth,
# score_bandwidth, structure, rows, seconds, adaptive, steps, score, nonnegative, lambda, discrete_kernel, support, kernel,
# weights and na.action, as the user gave them; `control`: of start_run(); `formula`: what a fit by formula keeps
# for its predictions (formula_data()).
fit_kde <- function(points, arg, call, options, control, formula = NULL) {
  if (is_mixed(points)) return(fit_mixed(points, arg, call, options, control, formula))
  check_no_levels(options)
  if (!is.null(options$support)) return(fit_on_support(points, arg, call, options, control, formula))
  # Everything is checked before anything is computed.
  options <- check_debiasing(options, nrow(points))
  options <- check_fit_kernel(options, ncol(points), control)
  adaptive <- check_adaptive(options$adaptive, nrow(points))
  estimator <- adaptive_estimator(options$estimator, adaptive)
  if (identical(adaptive, "auto") && !may_adapt(options, nrow(points))) adaptive <- NULL
  # A back end that cannot be had is an error here, also where the fit itself sums nothing.
  resolved <- resolve_control(
    if (has_gaussian(options)) control else on_cpu(control), nrow(points), nrow(points), ncol(points)
  )
  weights <- check_weights(options$weights, nrow(points), missing = TRUE)
  data <- handle_missing(points, weights, options$na.action, arg)
  if (!is.null(weights)) data$weights <- common_scale(check_weights(data$weights, nrow(data$points)))
  debiased <- ESTIMATORS[[estimator]]$debiased
  check_fit_memory(data$points, debiased, options$steps, arg)
  if (!is.null(options$score_bandwidth) && !debiased) {
    stop_argument("score_bandwidth", "is for estimator = \"sdkde\" only: found \"", estimator, "\"")
  }
  data$clean <- once(clean_points(data$points, data$weights, arg)) # if a search wants it
  path <- list(steps = options$steps, score = given_score(options$score, data, nrow(points), arg))
  bandwidths <- fit_bandwidths(data, estimator, options, control, arg)
  adapted <- if (!is.null(adaptive)) {
    adapt_bandwidth(data, bandwidths$main, estimator, adaptive, options, control, arg)
  }
  data$clean <- NULL
  if (isTRUE(adapted$record$auto)) estimator <- PLAIN_ESTIMATOR
  if (!is.null(adapted$record)) bandwidths <- adapted_bandwidths(bandwidths, adapted, estimator, options)
  bandwidths$main <- for_kernel(bandwidths$main, data, estimator, options, !is.null(adapted$record), control)
  debias <- if (ESTIMATORS[[estimator]]$debiased) {
    debias_points(data, bandwidths, adapted$record$factors, control, arg, path)
  }
  stages <- list(
    bandwidth = bandwidths$main$stats, adaptive = adapted$stats,
    score_bandwidth = if (!is.null(options$score_bandwidth)) bandwidths$score$stats,
    debias = debias$stats
  )
  computed <- list(stages = stages[lengths(stages) > 0], resolved = resolved)
  object <- new_fit(call, estimator, data, bandwidths, debias, control, computed, formula, adapted$record)
  object$kernel <- options$kernel
  object$settings <- fit_settings(options)
  if (options$nonnegative) clipped(object) else object
}

# What a fit to some of the points goes by.
fit_settings <- function(options) options[setdiff(names(options), c("weights", "na.action", "asked"))]

# A function that computes `value`, a promise, when it is first called.
once <- function(value) function() value
