# Fits whose points are a flash_data(): sums over its shards, wherever these are.

#' @rdname flash_kde
#' @method flash_kde flash_data
#' @export
flash_kde.flash_data <- function(x, estimator = c("sdkde", "kde", "laplace", "laplace6"), bandwidth = NULL,
                                 score_bandwidth = NULL, backend = c("auto", "cpu", "cuda"),
                                 precision = c("auto", "double", "single", "fast"), threads = NULL,
                                 devices = NULL, tol = 0, tol_type = c("global", "pointwise"),
                                 engine = c("auto", "exact", "fast"), control = NULL, ...) {
  check_data_dots(...)
  estimator <- check_choice(estimator, names(ESTIMATORS), "estimator")
  asked <- settle_control(control, list(
    backend = backend, precision = precision, threads = threads, devices = devices, engine = engine,
    tol_type = tol_type, tol = if (!missing(tol)) check_tol(tol)
  ))
  run <- start_run(asked)
  hold_pool(pool_of(x$cluster))
  resolved <- resolve_control(run, x$n, x$n, x$d)
  debiased <- ESTIMATORS[[estimator]]$debiased
  if (!is.null(score_bandwidth) && !debiased) {
    stop_argument("score_bandwidth", "is for estimator = \"sdkde\" only: found \"", estimator, "\"")
  }
  main <- data_bandwidth(bandwidth, x, estimator, asked, "bandwidth")
  score <- if (!is.null(score_bandwidth)) {
    data_bandwidth(score_bandwidth, x, estimator, asked, "score_bandwidth")
  } else if (debiased) {
    own_score(main)
  }
  data <- list(points = x, weights = NULL)
  debias <- if (debiased) debias_data(x, main$L, score$L, run)
  computed <- list(stages = if (debiased) list(debias = debias$stats) else list(), resolved = resolved)
  new_fit(generic_call(match.call()), estimator, data, list(main = main, score = score), debias, run, computed)
}

# What fits to points in memory have beside these is not for points elsewhere.
check_data_dots <- function(...) {
  others <- intersect(...names(), names(formals(flash_kde.default)))
  if (length(others) > 0) stop_argument(others[1], "is not for a flash_data()")
  check_fit_dots(...)
}

# As given, or what a selector makes of a sample of rows, for all of them: optimal widths fall with a power of n.
data_bandwidth <- function(bandwidth, data, estimator, asked, arg) {
  if (is.null(bandwidth)) bandwidth <- default_selector()
  if (!is.character(bandwidth)) return(want_bandwidth(bandwidth, data, NULL, arg))
  rows <- data_sample(data)
  options <- search_options("auto", "auto", NULL, 5)
  wanted <- check_selector(bandwidth, data$d, NULL, arg)
  points <- list(points = rows, weights = NULL, clean = once(clean_points(rows, NULL, "x")))
  found <- settle_bandwidth(wanted, points, estimator, options, run_control(asked), arg, "x")
  ratio <- (nrow(rows) / data$n)^(2 / (data$d + ESTIMATORS[[estimator]]$gain))
  found$H <- ratio * found$H
  found$L <- sqrt(ratio) * found$L
  found
}

# Evenly spread, the same ones each time; those of weight 0 do not count, and others as often as their weights say.
data_sample <- function(data, most = 20000) {
  if (!data$has[["weights"]]) {
    return(data_rows(data, unique(round(seq(1, data$n, length.out = min(most, data$n))))))
  }
  index <- with_fixed_seed(sample.int(data$n, min(most, data$positive), prob = fetch_weights(data)))
  data_rows(data, sort(index))
}

# ---- debiased points --------------------------------------------------------------------------

# list(debiased, stats, steps): a flash_data() of the debiased points, each shard where that of the points is. One that is
# lost is debiased again.
debias_data <- function(data, L, score_L, control) {
  name_stage(control, "Debiasing")
  sources <- sum_sources(data, NULL, score_L)
  H <- tcrossprod(L)
  stats <- list()
  moved <- function(shard) {
    own <- whole_shard(data, shard)
    share_stage(control, (shard - 1) / length(data$rows), 1 / length(data$rows))
    found <- score_sum(sources, own$x, ESTIMATORS[[PLAIN_ESTIMATOR]], FALSE, NULL, control)
    stats <<- c(stats, list(found$stats))
    list(x = own$x + found$score %*% H / 2, weights = own$weights)
  }
  debiased <- made_data(data, moved)
  list(debiased = debiased, stats = Reduce(add_stats, stats), steps = 1L)
}
