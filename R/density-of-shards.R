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
  found <- score_sum(sources, shard$points, PLAIN_FACTOR, FALSE, NULL, control)
  x <- keep_lost(shard$points + found$score %*% args$H / 2, shard$points, shard$weights)
  made_shard(list(x = x, weights = shard$weights), args, part, found$stats)
}

# At the shards of `newdata` or of the fit's own points, where these are; collected, or a flash_data() of the
# values, or of the files in the folder `collect`.
predict_data <- function(object, newdata, type, se.fit, loo, control, collect) {
  folder <- if (is.character(collect)) own_folder(collect)
  targets <- if (is.null(newdata)) object$x else newdata
  if (!is_remote(targets)) {
    stop_argument("collect", "must be TRUE unless the targets are a flash_data(): found ", describe(collect))
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

# Writes a file atomically, so that a worker that ends leaves no partial file.
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

# The parts of the fit that workers must be able to read.
lent_of <- function(object) object[remote_parts(object)]

# The fit on a worker, for one shard of targets.
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

# A matrix of the values, and their standard errors if `se.fit`.
values_of_shard <- function(object, points, type, se.fit, loo, control) {
  found <- predict_at(object, points, type, se.fit, loo, control)
  if (type == "score") return(found)
  x <- cbind(if (se.fit) found$fit else found, if (se.fit) found$se.fit)
  colnames(x) <- c(type, if (se.fit) "se")
  x
}

# ---- what workers do -----------------------------------------------------------------------------

add_operations(
  predict = list(one = predict_shard, merge = merge_made), # of a fit at the shard's points
  debias = list(one = debias_shard, merge = merge_made)
)
