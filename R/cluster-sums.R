# Sums over the shards of a flash_data(): the sums of the door (sums.R), as workers have them, merged. Targets are points
# here, which go to all workers, or the shards themselves, one after the other.

log_sum_by_shards <- function(sources, at, factor, loo, control) {
  merge_targets(sources, at, loo, control, list(factor = factor, score = FALSE))
}

score_sum_by_shards <- function(sources, at, estimator, loo, names, control) {
  data <- sources$points
  args <- list(factor = estimator$factor(data$d), score = TRUE, estimator = estimator)
  found <- merge_targets(sources, at, loo, control, args)
  if (!is.null(names)) colnames(found$score) <- names
  found
}

merge_targets <- function(sources, at, loo, control, args) {
  data <- sources$points
  pool <- hold_pool(pool_of(data$cluster))
  args <- c(args, list(L = sources$L, weights = if (is.null(sources$shard_weights)) "own" else sources$shard_weights, loo = loo))
  # errors of shards add up, each relative to the largest sum of its own
  if (control$tol_type == "global") control$tol <- control$tol / length(data$rows)
  if (is.matrix(at)) return(at_targets(data, at, NULL, args, control))
  own <- is.null(at)
  targets <- if (own) data else at
  parts <- lapply(seq_along(targets$rows), \(shard) {
    share_stage(control, (shard - 1) / length(targets$rows), 1 / length(targets$rows))
    at_targets(data, rows_of_shard(targets, shard), if (own) shard, args, control)
  })
  of <- \(name) lapply(parts, `[[`, name)
  list(
    log_abs = unlist(of("log_abs")), negative = unlist(of("negative")), score = do.call(rbind, of("score")),
    stats = Reduce(add_stats, of("stats"))
  )
}

# `own`: the shard whose rows `at` is, or NULL.
at_targets <- function(data, at, own, args, control) {
  args$at <- at
  parts <- if (!is.null(own) && args$loo) \(shard, worker) shard == own
  over_shards(data, "logs", args, control, parts, pairs = as.double(nrow(at)) * data$n)
}

whole_shard <- function(data, shard) over_shards(data, "whole", shards = shard)[[1]]
rows_of_shard <- function(data, shard) whole_shard(data, shard)$x

# As sum_kernels(), of coefficients in this session.
sum_kernels_by_shards <- function(sources, at, b, control, out = NULL) {
  data <- sources$points
  hold_pool(pool_of(data$cluster))
  control$tol <- control$tol / length(data$rows)
  before <- c(0, cumsum(data$rows))
  parts <- if (!is.null(b)) {
    \(s, worker) if (is.null(dim(b))) b[before[s] + seq_len(data$rows[s])] else b[before[s] + seq_len(data$rows[s]), , drop = FALSE]
  }
  sums_at <- function(at) {
    args <- list(L = sources$L, kernel = sources$kernel, at = at)
    over_shards(data, "sums", args, control, parts, pairs = as.double(nrow(at)) * data$n)
  }
  found <- if (is.null(at)) lapply(seq_along(data$rows), \(own) sums_at(rows_of_shard(data, own))) else list(sums_at(at))
  list(
    sums = join_pieces(lapply(found, `[[`, "sums"), is.null(dim(b))),
    stats = Reduce(add_stats, lapply(found, `[[`, "stats")), n = data$n, m = if (is.null(at)) data$n else nrow(at), d = data$d
  )
}
