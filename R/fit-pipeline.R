# From checked points to an object of class flash_kde: check, data, choose, adapt, debias, wrap. The three kinds of
# fits, of numbers, of numbers and categories, and on a support, have the same steps from here.

# `arg` is what the user calls the points; `call` is the call to store; `options`: of flat_options(); `control`: of
# start_run(); `formula`: what a fit by formula keeps for its predictions (formula_data()).
fit_kde <- function(points, arg, call, options, control, formula = NULL) {
  UseMethod("fit_kde", if (!is.null(attr(points, "columns"))) KINDS$mixed else if (!is.null(options$support)) KINDS$supported)
}

KINDS <- list(mixed = as_kind("mixed"), supported = as_kind("supported"))

# Options of a fit with defaults only, which need no checks.
PLAIN_OPTIONS <- list(
  steps = 1L, score = NULL, nonnegative = FALSE, lambda = NULL, discrete_kernel = NULL, kernel = "gaussian"
)

# Everything is checked before anything is computed.
#' @export
fit_kde.default <- function(points, arg, call, options, control, formula = NULL) {
  if (!identical(options[names(PLAIN_OPTIONS)], PLAIN_OPTIONS)) {
    check_no_levels(options)
    options <- check_debiasing(options, nrow(points))
    options <- check_fit_kernel(options, ncol(points), control)
  }
  adaptive <- options$adaptive
  if (!identical(adaptive, "auto")) adaptive <- check_adaptive(adaptive, nrow(points))
  estimator <- adaptive_estimator(options$estimator, adaptive)
  may <- identical(adaptive, "auto") && is.null(options$bandwidth) && may_adapt(options, nrow(points))
  if (identical(adaptive, "auto") && !may) adaptive <- NULL
  # A back end that cannot be had is an error here, also where the fit itself sums nothing.
  where <- if (identical(options$kernel, "gaussian")) control else on_cpu(control)
  resolved <- resolve_control(where, nrow(points), nrow(points), ncol(points))
  # points are sent to a GPU at once if the next sums are those over the points themselves
  searched <- !is.null(adaptive) || is.null(options$bandwidth) || is.character(options$bandwidth)
  may_send <- !searched && is.null(options$support) && is.null(where$cluster) && where$backend != "cpu" &&
    (where$backend == "cuda" || ESTIMATORS[[estimator]]$debiased)
  data <- fit_data_of(points, estimator, options, arg, if (may_send) where)
  if (searched) {
    data$clean <- once(clean_points(data$points, data$weights, arg)) # if a search wants it
  }
  path <- list(
    steps = options$steps, score = if (!is.null(options$score)) given_score(options$score, data, nrow(points), arg)
  )
  bandwidths <- fit_bandwidths(data, estimator, options, control, arg)
  adapted <- if (!is.null(adaptive)) {
    adapt_bandwidth(data, bandwidths$main, estimator, adaptive, options, control, arg)
  }
  data$clean <- NULL
  if (isTRUE(adapted$record$auto)) estimator <- PLAIN_ESTIMATOR
  if (!is.null(adapted$record)) bandwidths <- adapted_bandwidths(bandwidths, adapted, estimator, options)
  if (!identical(options$kernel, "gaussian")) {
    bandwidths$main <- for_kernel(bandwidths$main, data, estimator, options, !is.null(adapted$record), control)
  }
  debias <- if (ESTIMATORS[[estimator]]$debiased) {
    debias_points(data, bandwidths, adapted$record$factors, control, arg, path)
  }
  # `$<-` on an object with a class looks for a method each time
  object <- unclass(made_fit(call, estimator, data, bandwidths, debias, control, resolved, formula, adapted))
  object$kernel <- options$kernel
  object$settings <- fit_settings(options)
  class(object) <- "flash_kde"
  if (options$nonnegative) clipped(object) else object
}

# The object, of what the steps have found; `adapted`: list(record, stats), or NULL.
made_fit <- function(call, estimator, data, bandwidths, debias, control, resolved, formula = NULL, adapted = NULL) {
  stages <- list(
    bandwidth = bandwidths$main$stats, adaptive = adapted$stats, score_bandwidth = bandwidths$score$stats,
    debias = debias$stats
  )
  computed <- list(stages = stages[lengths(stages) > 0], resolved = resolved)
  new_fit(call, estimator, data, bandwidths, debias, control, computed, formula, adapted$record)
}

# handle_missing() with weights on a common scale; an error where the fit would not fit into memory.
fit_data_of <- function(points, estimator, options, arg, control = NULL) {
  weights <- options$weights
  if (!is.null(weights)) weights <- check_weights(weights, nrow(points), missing = TRUE)
  data <- handle_missing(points, weights, options$na.action, arg, control)
  if (!is.null(weights)) data$weights <- common_scale(check_weights(data$weights, nrow(data$points)))
  debiased <- ESTIMATORS[[estimator]]$debiased
  # on the safe side: the engine holds less than a whitened copy beside the debiased points
  copies <- if (!debiased) 1 else if (options$steps == 1) 4 else 6
  check_memory(8 * copies * length(data$points), arg)
  if (!is.null(options$score_bandwidth) && !debiased) stop_score_bandwidth(estimator)
  data
}

stop_score_bandwidth <- function(estimator) {
  stop_argument("debias$bandwidth", "is available only for estimator = \"sdkde\": found \"", estimator, "\"")
}

# The settings that a fit to some of the points uses.
fit_settings <- function(options) options[!names(options) %in% c("weights", "na.action", "asked")]

# A function that computes `value`, a promise, when it is first called.
once <- function(value) function() value
