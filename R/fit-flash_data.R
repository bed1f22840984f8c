# Fits whose points are a flash_data(): sums over its shards, wherever these are.

#' @rdname flash_kde
#' @order 6
#' @method flash_kde flash_data
#' @export
flash_kde.flash_data <- function(x, estimator = "auto", bandwidth = "auto", debias = NULL, tol = 0, control = NULL, ...) {
  check_data_dots(...)
  estimator <- check_estimator(estimator)
  options <- flat_options(list(bandwidth = bandwidth, debias = debias))
  own <- c(steps = options$steps > 1, score = !is.null(options$score), nonnegative = options$nonnegative)
  if (any(own)) {
    stop_argument("debias", "must have `bandwidth` only for a flash_data(): found `", names(which(own))[1], "`")
  }
  if (!is.null(options$score_bandwidth) && !ESTIMATORS[[estimator]]$debiased) stop_score_bandwidth(estimator)
  run <- start_run(settle_control(control, if (!missing(tol)) list(tol = check_tol(tol))))
  fit_data(x, estimator, options[c("bandwidth", "score_bandwidth")], run, generic_call(match.call()))
}

# `settings`: the bandwidths, as the user gave them.
fit_data <- function(x, estimator, settings, run, call) {
  hold_pool(pool_of(x$cluster))
  resolved <- resolve_control(run, x$n, x$n, x$d)
  debiased <- ESTIMATORS[[estimator]]$debiased
  main <- data_bandwidth(settings$bandwidth, x, estimator, run$asked, "bandwidth")
  score <- if (!is.null(settings$score_bandwidth)) {
    data_bandwidth(settings$score_bandwidth, x, estimator, run$asked, "debias$bandwidth")
  } else if (debiased) {
    own_score(main)
  }
  data <- list(points = x, weights = NULL)
  debias <- if (debiased) debias_data(x, main$L, score$L, run)
  object <- made_fit(call, estimator, data, list(main = main, score = score), debias, run, resolved)
  object$settings <- settings
  object
}

# Arguments of flash_kde() for points in memory only are errors.
check_data_dots <- function(...) {
  others <- intersect(...names(), names(formals(flash_kde.default)))
  if (length(others) > 0) stop_argument(others[1], "is not available for a flash_data()")
  check_fit_dots(...)
}

# The given bandwidth, or the bandwidth that a selector chooses on a sample of rows, rescaled to all rows.
data_bandwidth <- function(bandwidth, data, estimator, asked, arg) {
  if (is.null(bandwidth)) bandwidth <- default_selector()
  if (!is.character(bandwidth)) return(want_bandwidth(bandwidth, data, NULL, arg))
  rows <- data_sample(data)
  options <- search_options("auto", "auto", NULL, 5)
  wanted <- check_selector(bandwidth, data$d, NULL, arg)
  points <- list(points = rows, weights = NULL, clean = once(clean_points(rows, NULL, "x")))
  found <- settle_bandwidth(wanted, points, estimator, options, run_control(asked), arg, "x")
  ratio <- rows_ratio(data, nrow(rows), estimator)
  replace(found, c("H", "L"), list(ratio * found$H, sqrt(ratio) * found$L))
}
