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
  if (!is.null(score_bandwidth) && !ESTIMATORS[[estimator]]$debiased) {
    stop_argument("score_bandwidth", "is for estimator = \"sdkde\" only: found \"", estimator, "\"")
  }
  run <- start_run(asked)
  settings <- list(bandwidth = bandwidth, score_bandwidth = score_bandwidth)
  fit_data(x, estimator, settings, run, generic_call(match.call()))
}

# `settings`: the bandwidths, as the user gave them.
fit_data <- function(x, estimator, settings, run, call) {
  hold_pool(pool_of(x$cluster))
  resolved <- resolve_control(run, x$n, x$n, x$d)
  debiased <- ESTIMATORS[[estimator]]$debiased
  main <- data_bandwidth(settings$bandwidth, x, estimator, run$asked, "bandwidth")
  score <- if (!is.null(settings$score_bandwidth)) {
    data_bandwidth(settings$score_bandwidth, x, estimator, run$asked, "score_bandwidth")
  } else if (debiased) {
    own_score(main)
  }
  data <- list(points = x, weights = NULL)
  debias <- if (debiased) debias_data(x, main$L, score$L, run)
  computed <- list(stages = if (debiased) list(debias = debias$stats) else list(), resolved = resolved)
  object <- new_fit(call, estimator, data, list(main = main, score = score), debias, run, computed)
  object$settings <- settings
  object
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

# ---- debiased points --------------------------------------------------------------------------

# list(debiased, stats, steps): a flash_data() of the debiased points, each shard where that of the points is.
debias_data <- function(data, L, score_L, control) {
  name_stage(control, "Debiasing")
  args <- list(sources = joined_sources(sum_sources(data, NULL, score_L)), H = tcrossprod(L))
  made <- made_data(data, "debias", args, control, data$n^2, list(data))
  list(debiased = made$data, stats = c(made$stats, list(plan = plan_whole(data)$text)), steps = 1L)
}

debias_shard <- function(shard, args, part, control) {
  sources <- args$sources
  sources$points <- at_shard(sources$points, part, args$scratch)
  found <- score_sum(sources, shard$points, ESTIMATORS[[PLAIN_ESTIMATOR]], FALSE, NULL, control)
  x <- keep_lost(shard$points + found$score %*% args$H / 2, shard$points, shard$weights)
  made_shard(list(x = x, weights = shard$weights), args, part, found$stats)
}

# ---- predictions at data ------------------------------------------------------------------------

# At the shards of `newdata` or of the fit's own points, where these are; collected, or a flash_data() of the
# values, or of the files in the folder `collect`.
predict_data <- function(object, newdata, type, se.fit, loo, control, collect) {
  folder <- if (is.character(collect)) own_folder(collect)
  targets <- if (is.null(newdata)) object$x else newdata
  if (!is_remote(targets)) {
    stop_argument("collect", "must be TRUE where the targets are no flash_data(): found ", describe(collect))
  }
  if (targets$d != object$d) stop_argument("newdata", "must have ", object$d, " columns: found ", targets$d)
  if (isTRUE(collect) && is_remote(object$x)) return(predict_at(object, newdata, type, se.fit, loo, control))
  if (loo && is_debiased(object)) object <- with_left_out(object, control)
  lend <- lent_of(object)
  pairs <- object$n * targets$n
  args <- list(fit = travelling_fit(object), type = type, se.fit = se.fit, loo = loo)
  if (isTRUE(collect)) {
    found <- over_shards(targets, "predict", args, control, shard_number, pairs = pairs, lend = lend)
    return(collected_values(do.call(rbind, lapply(found$made, `[[`, "x")), type, se.fit))
  }
  columns <- if (type == "score") point_names(object) else c(type, if (se.fit) "se")
  about <- list(d = length(columns), names = columns, has = c(weights = FALSE, response = FALSE))
  found <- by_plan(plan_of_densities(object, targets, type, se.fit || loo, control), function(plan) {
    args$fit <- travelling_fit(object, plan)
    if (is.null(folder)) return(made_data(targets, "predict", args, control, pairs, lend, about))
    args$files <- file.path(folder, sprintf("values-%05d.rds", seq_along(targets$rows)))
    found <- over_shards(targets, "predict", args, control, shard_number, pairs = pairs, lend = lend)
    list(data = in_files(replace(targets, names(about), about), args$files, found$box))
  })
  found$data
}

# To a tolerance densities may go by a plan; their logarithms need more of tails, which workers sum over all.
plan_of_densities <- function(object, targets, type, more, control) {
  if (!is_remote(object$x)) return(list())
  plain <- type == "density" && !more && identical(fit_polynomial(object), PLAIN_FACTOR)
  if (plain) plan_join(fit_sources(object), targets, NULL, control) else plan_whole(object$x)
}

# Workers make it, too, where they do not see that of this session.
own_folder <- function(path) {
  if (!dir.exists(path)) dir.create(path, recursive = TRUE)
  normalizePath(path)
}

# What workers have written of each shard, to be read where it is needed.
in_files <- function(data, files, box) {
  data <- named_data(data)
  data["box"] <- list(box)
  data[c("columns", "response", "weights")] <- list(NULL)
  data$recipe <- replace(file_recipe(files, readRDS), "rows", list(data$rows))
  data
}

# Whole or not at all, also where this worker ends.
write_shard <- function(x, file) {
  dir.create(dirname(file), FALSE, recursive = TRUE)
  part <- paste0(file, ".", Sys.getpid())
  saveRDS(x, part)
  if (file.rename(part, file)) return(invisible())
  stop_argument("collect", "must be a folder that workers can write to: found ", quote_text(dirname(file)))
}

collected_values <- function(values, type, se.fit) {
  if (type == "score") return(values)
  if (se.fit) list(fit = unname(values[, 1]), se.fit = unname(values[, 2])) else as.vector(values)
}

# A fit as workers are told of it, its points joined where they are in shards.
travelling_fit <- function(object, plan = NULL) {
  object[c("plan", "cluster")] <- list(NULL)
  summed <- if (is_debiased(object)) "debiased" else "x"
  for (name in remote_parts(object)) object[[name]] <- joined_data(object[[name]], if (name == summed) plan)
  object
}

remote_parts <- function(object) Filter(\(name) is_remote(object[[name]]), c("x", "debiased", "left_out"))

# What has to be lent for it.
lent_of <- function(object) object[remote_parts(object)]

# On a worker, at a shard of targets.
fit_at_shard <- function(fit, shard, scratch) {
  for (name in remote_parts(fit)) fit[[name]] <- at_shard(fit[[name]], shard, scratch)
  fit
}

predict_shard <- function(shard, args, part, control) {
  fit <- fit_at_shard(args$fit, part, args$scratch)
  values <- values_of_shard(fit, if (!args$loo) shard$points, args$type, args$se.fit, args$loo, control)
  if (is.null(args$files)) return(made_shard(list(x = values), args, part, NULL))
  write_shard(values, args$files[part])
  list(box = box_of(values))
}

# A matrix: the values, and their standard errors where these are asked for.
values_of_shard <- function(object, points, type, se.fit, loo, control) {
  found <- predict_at(object, points, type, se.fit, loo, control)
  if (type == "score") return(found)
  x <- cbind(if (se.fit) found$fit else found, if (se.fit) found$se.fit)
  colnames(x) <- c(type, if (se.fit) "se")
  x
}

# ---- weights of the others ----------------------------------------------------------------------

# As loo_weight() has them, by the totals of all shards.
remote_loo_weight <- function(data) {
  weights <- fetch_weights(data)
  ifelse(weights > data$total_weight / 2, data$rest_weight, data$total_weight - weights)
}

remote_loo_square <- function(data) {
  squares <- fetch_weights(data)^2
  ifelse(squares > data$square_weight / 2, data$rest_square, data$square_weight - squares)
}
