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

# As given, or what a selector makes of a sample of rows, for all of them.
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

# Of variances: optimal widths fall with a power of the number of rows.
rows_ratio <- function(data, rows, estimator) (rows / data$n)^(2 / (data$d + ESTIMATORS[[estimator]]$gain))

# A bandwidth that a selector chose for so many of the rows.
for_all_rows <- function(bandwidth, data, rows, estimator) {
  ratio <- rows_ratio(data, rows, estimator)
  bandwidth[] <- plain_bandwidth(bandwidth) * if (is.matrix(bandwidth)) ratio else sqrt(ratio)
  if (!is.null(attr(bandwidth, "chosen"))) attr(bandwidth, "chosen") <- as.vector(plain_bandwidth(bandwidth))
  bandwidth
}

# Evenly spread, the same ones each time; those of weight 0 do not count, and others as often as their weights say.
data_sample <- function(data, most = 20000) {
  if (!data$has[["weights"]]) {
    return(data_rows(data, unique(round(seq(1, data$n, length.out = min(most, data$n))))))
  }
  index <- with_fixed_seed(draw_from_column(weights_column(data), min(most, data$positive)))
  data_rows(data, sort(index))
}

# ---- debiased points --------------------------------------------------------------------------

# list(debiased, stats, steps): a flash_data() of the debiased points, each shard where that of the points is. One
# that is lost is debiased again.
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

# ---- predictions at data ------------------------------------------------------------------------

# At the shards of `newdata` or of the fit's own points, where these are; collected, or a flash_data() of the
# values.
predict_data <- function(object, newdata, type, se.fit, loo, control, collect) {
  targets <- if (is.null(newdata)) object$x else newdata
  if (!is_remote(targets)) stop_argument("collect", "must be TRUE where the targets are no flash_data(): found FALSE")
  if (loo) stop_argument("collect", "must be TRUE where points are left out: found FALSE")
  if (targets$d != object$d) stop_argument("newdata", "must have ", object$d, " columns: found ", targets$d)
  hold_pool(pool_of(targets$cluster))
  values <- if (is_remote(object$x)) {
    # the points of the fit stay, those of a shard go there
    values_at <- \(shard) list(x = values_of_shard(object, rows_of_shard(targets, shard), type, se.fit, control))
    if (!collect) return(made_data(targets, values_at))
    lapply(seq_along(targets$rows), \(shard) values_at(shard)$x)
  } else {
    object["plan"] <- list(NULL)
    args <- list(fit = object, type = type, se.fit = se.fit)
    if (!collect) return(predict_there(targets, args, control))
    over_shards(targets, "predict", args, control, shards = seq_along(targets$rows), pairs = object$n * targets$n)
  }
  values <- do.call(rbind, values)
  if (type == "score") return(values)
  if (se.fit) list(fit = unname(values[, 1]), se.fit = unname(values[, 2])) else as.vector(values)
}

# A matrix: the values, and their standard errors where these are asked for.
values_of_shard <- function(object, points, type, se.fit, control) {
  found <- predict_at(object, points, type, se.fit, FALSE, control)
  if (type == "score") return(found)
  x <- cbind(if (se.fit) found$fit else found, if (se.fit) found$se.fit)
  colnames(x) <- c(type, if (se.fit) "se")
  x
}

# By a fit that goes to the workers, as shards of new data, which are predicted again where they are lost.
predict_there <- function(targets, args, control) {
  made <- derived_data(targets, \(shard) list(x = over_shards(targets, "predict", args, control, shards = shard)[[1]]))
  columns <- if (args$type == "score") point_names(args$fit) else c(args$type, if (args$se.fit) "se")
  made["d"] <- length(columns)
  made["names"] <- list(columns)
  made$has["weights"] <- FALSE
  args$to <- told_of(made)
  over_shards(targets, "predict_there", args, control, parts = \(shard, worker) shard, pairs = args$fit$n * targets$n)
  pool <- pool_of(targets$cluster)
  assign(made$id, owners_of(pool, targets), envir = pool$owners)
  made
}
