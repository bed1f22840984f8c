# The bandwidths of a fit: list(main, score), each a list from as_bandwidth() with its selector and the record of its
# search. `score` is NULL for estimators without one.
fit_bandwidths <- function(data, estimator, options, control, arg) {
  wanted <- want_bandwidth(options$bandwidth, data$points, data$weights, "bandwidth")
  score <- options$score_bandwidth
  if (!is.null(score)) score <- want_bandwidth(score, data$points, data$weights, "debias$bandwidth")
  if (is.list(wanted) && is.null(score) && identical(options$structure, "auto")) {
    # no score bandwidth if the first step follows a given score
    own <- ESTIMATORS[[estimator]]$debiased && (is.null(options$score) || options$steps > 1)
    return(list(main = wanted, score = if (own) own_score(wanted, options$steps)))
  }
  search <- search_options("auto", options$structure, options$rows, options$seconds)
  if (search$structure != "auto" && (is.list(wanted) || !wanted %in% names(FACTOR_CRITERIA))) {
    stop_argument("structure", "is available only for methods that search, such as \"auto\": found another `bandwidth`")
  }
  main <- settle_bandwidth(wanted, data, estimator, search, control, "bandwidth", arg)
  if (!ESTIMATORS[[estimator]]$debiased) return(list(main = main))
  if (options$steps > 1 && !is.list(wanted)) main <- widened(main, options$steps, data)
  if (!is.null(options$score) && options$steps == 1) return(list(main = main))
  if (is.null(score)) return(list(main = main, score = own_score(main, options$steps)))
  list(main = main, score = settle_bandwidth(score, data, estimator, search, control, "debias$bandwidth", arg))
}

# The result of fit_bandwidths() after local factors have changed H. A bandwidth given for the score is kept.
adapted_bandwidths <- function(bandwidths, adapted, estimator, options) {
  main <- replace(bandwidths$main, c("H", "L"), adapted[c("H", "L")])
  if (!ESTIMATORS[[estimator]]$debiased) return(list(main = main))
  list(main = main, score = if (is.null(options$score_bandwidth)) own_score(main) else bandwidths$score)
}

# Checks a given bandwidth without computing anything. Returns the name of a selector, or H and its factor.
want_bandwidth <- function(bandwidth, points, weights, arg) {
  if (is.null(bandwidth)) return(default_selector())
  if (is.character(bandwidth)) return(check_selector(bandwidth, ncol(points), weights, arg))
  found <- as_bandwidth(bandwidth, ncol(points), arg, dimnames(points)[[2]])
  found$selector <- if (is.object(bandwidth)) selector_of(bandwidth) else "user"
  if (found$selector != "user") found$search <- bandwidth
  found
}

# Runs the selector, if `wanted` is the name of one. `name`, `arg`: the user's names for the bandwidth and the points;
# `search`: the result of search_options().
settle_bandwidth <- function(wanted, data, estimator, search, control, name, arg) {
  if (is.list(wanted)) return(wanted)
  points <- data$points
  check_spread(points, arg, data$weights, cure = paste0(" (give `", name, "` as a number)"))
  started <- proc.time()[["elapsed"]]
  selected <- select_bandwidth(wanted, data, estimator, search, control, arg)
  # the seconds include the search's own time, beside its sums
  stats <- as.list(selected$stats)
  stats$seconds <- proc.time()[["elapsed"]] - started
  c(
    as_bandwidth(selected$bandwidth, ncol(points), name, colnames(points)),
    list(
      selector = selected$selector, stats = stats,
      search = if (inherits(selected$bandwidth, "flashkernel_bandwidth")) selected$bandwidth
    )
  )
}

# The default bandwidth of the score: the ratio that the search used, or else the same bandwidth.
own_score <- function(main, steps = 1) {
  ratio <- if (steps > 1) SCORE_RATIO else attr(main$search, "score")
  if (is.null(ratio)) ratio <- 1
  list(H = ratio * main$H, L = sqrt(ratio) * main$L, selector = main$selector)
}
