# Fits to numbers and categories together: p(x, c) = sum_i w_i K_H(x - x_i) prod_k l_k(c_k, c_ik) / W, of kernels of
# the numbers (sum-doors.R) and of the categories (sum-category-kernels.R).

# `points`: the result of mixed_points().
#' @export
fit_kde.mixed <- function(points, arg, call, options, control, formula = NULL) {
  check_one_step(options, "points without categorical columns")
  if (!is.null(options$support)) {
    cure <- " (use flash_kda() for one fit of each category)"
    stop_argument("support", "is available only for points without categorical columns", cure)
  }
  settings <- fit_settings(options)
  columns <- choose_level_kernels(attr(points, "columns"), options$discrete_kernel)
  names <- attr(points, "names_in_order")
  attributes(points) <- attributes(points)[c("dim", "dimnames")]
  options["adaptive"] <- list(mixed_adaptive(options, nrow(points), ncol(points) - length(columns)))
  estimator <- mixed_estimator(options, ncol(points) - length(columns))
  resolved <- resolve_control(control, nrow(points), nrow(points), max(1, ncol(points) - length(columns)))
  data <- fit_data_of(points, estimator, options, arg)
  debiased <- ESTIMATORS[[estimator]]$debiased
  data$discrete <- list(columns = columns, codes = data$points[, names(columns), drop = FALSE], names = names)
  data$points <- data$points[, setdiff(names, names(columns)), drop = FALSE]
  bandwidths <- mixed_bandwidths(data, estimator, options, control, arg)
  data$discrete$lambda <- bandwidths$lambda
  data$discrete$chosen <- bandwidths$chosen
  debias <- if (debiased) debias_points(data, bandwidths, NULL, control, arg)
  adapted <- list(record = bandwidths$adaptive)
  object <- made_fit(call, estimator, data, bandwidths, debias, control, resolved, formula, adapted)
  object$discrete <- data$discrete
  object$settings <- settings
  as_mixed(object)
}

# The result of check_adaptive(), or NULL if "auto" may not choose local factors.
mixed_adaptive <- function(options, n, d) {
  adaptive <- check_adaptive(options$adaptive, n)
  if (identical(adaptive, "balloon")) {
    stop_argument("adaptive", "must not be \"balloon\" for data with categorical columns")
  }
  if (!identical(adaptive, "auto") || d > 0 && may_adapt(options, n)) adaptive
}

# The estimator: "kde" if none is named. Categories alone have no bias from a bandwidth.
mixed_estimator <- function(options, d) {
  estimator <- if (is_auto(options$estimator)) PLAIN_ESTIMATOR else check_estimator(options$estimator)
  if (estimator == PLAIN_ESTIMATOR) {
    if (d == 0 && !is.null(options$adaptive)) stop_argument("adaptive", "must be FALSE without numeric columns")
    return(estimator)
  }
  if (d == 0) stop_argument("estimator", "must be \"kde\" without numeric columns: found \"", estimator, "\"")
  if (!is.null(options$adaptive)) {
    stop_argument("adaptive", "needs estimator = \"kde\" for data with categorical columns: found \"", estimator, "\"")
  }
  estimator
}

# Options that need an unbounded domain and numeric columns only. `points`: describes such data in the message.
check_one_step <- function(options, points) {
  given <- c(
    kernel = !identical(options$kernel, "gaussian"), "debias$steps" = options$steps > 1,
    "debias$score" = !is.null(options$score), "debias$nonnegative" = options$nonnegative
  )
  if (any(given)) stop_argument(names(which(given))[1], "is available only for ", points)
}

check_no_levels <- function(options) {
  if (!is.null(options$lambda) || !is.null(options$discrete_kernel)) {
    stop_argument("categorical", "needs categorical columns (factors, character or logical columns): found none")
  }
}
