# Sums over the shards of a flash_data(): the sums of the door (sums.R), as workers have them, merged. Targets are
# points here, which go to all workers, or the shards themselves, one after the other.

log_sum_by_shards <- function(sources, at, factor, loo, control) {
  by_grid <- !loo && identical(factor, PLAIN_FACTOR) && control$tol > 0 && control$tol_type == "global" &&
    is.null(sources$shard_weights)
  if (by_grid) return(log_of_sums(sources, at, control))
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

# As sum_kernels() and kernel_sum_of(), of coefficients in this session.
sum_kernels_by_shards <- function(sources, at, b, control, out = NULL) {
  data <- sources$points
  found <- kernel_sum_by_shards(sources, at, b, control, !is.null(dim(b)))
  if (!is.null(out)) write_rows(out, c(1, nrow(found$sums)), found$sums)
  c(found, list(n = data$n, m = if (is.null(at)) data$n else nrow(at), d = data$d))
}

kernel_sum_by_shards <- function(sources, at, b, control, as_matrix = FALSE) {
  data <- sources$points
  if (!is_remote(data)) {
    b <- as.matrix(b)
    found <- over_shards(at, "multiply", list(centers = shared_value(sources), v = b), control, pairs = at$n * nrow(b))
  } else {
    found <- sums_of_shards(sources, at, b, control)
  }
  if (!as_matrix) found$sums <- as.vector(found$sums)
  found
}

# The targets are a matrix, or the shards of data, one after the other.
sums_of_shards <- function(sources, at, b, control) {
  data <- sources$points
  hold_pool(pool_of(data$cluster))
  before <- c(0, cumsum(data$rows))
  rows <- \(shard) before[shard] + seq_len(data$rows[shard])
  parts <- if (!is.null(b)) \(shard, worker) if (is.null(dim(b))) b[rows(shard)] else b[rows(shard), , drop = FALSE]
  sums_at <- function(at) {
    args <- list(L = sources$L, kernel = sources$kernel, at = at)
    over_shards(data, "sums", args, control, parts, pairs = as.double(nrow(at)) * data$n)
  }
  by_grid <- grid_sums_of_shards(sources, at, b, parts, control)
  if (!is.null(by_grid)) return(by_grid)
  control$tol <- control$tol / length(data$rows)
  if (is.matrix(at)) return(sums_at(at))
  targets <- if (is.null(at)) data else at
  found <- lapply(seq_along(targets$rows), \(shard) sums_at(rows_of_shard(targets, shard)))
  list(sums = join_brought(lapply(found, `[[`, "sums")), stats = Reduce(add_stats, lapply(found, `[[`, "stats")))
}

# Of rows in shards each product is where they are. Columns in shards take two sums.
normal_product_by_shards <- function(sources, rows, v, w, weights, control) {
  if (is_remote(sources$points)) return(normal_product_in_two(sources, rows, v, w, weights, control))
  data <- rows$points
  column <- \(x) if (is.null(x) || is_column(x)) x else given_column(data, x)
  control$tol <- control$tol / length(data$rows)
  args <- list(centers = shared_value(sources), L = rows$L, kernel = rows$kernel, v = if (!is.null(v)) as.matrix(v))
  columns <- list(shift = column(w), weights = column(weights))
  pairs <- as.double(data$n) * nrow(sources$points)
  found <- over_columns("normal", columns, args, control, pairs = pairs_by_pace(data, pairs), data = data)
  workers <- found$stats$workers
  if (!is.null(workers)) assign("pace", sum(workers$seconds) / pairs, envir = pool_of(data$cluster))
  found
}

# Of products that follow each other it is known what they take: below a second of each worker, one request to each is best,
# however many pairs that is. So many pairs as this long takes of those that over_shards() knows.
pairs_by_pace <- function(data, pairs) {
  pace <- if (!is.null(data$cluster)) pool_of(data$cluster)$pace
  if (is.null(pace)) pairs else pairs * pace * MOST_PAIRS_AT_ONCE
}

normal_product_in_two <- function(sources, rows, v, w, weights, control) {
  at <- if (!is.null(rows)) rows$points
  sums <- if (!is.null(v)) kernel_sum_of(sources, at, as.matrix(v), control, as_matrix = TRUE)
  u <- if (is.null(sums)) as.matrix(w) else if (is.null(w)) sums$sums else sums$sums + as.matrix(w)
  if (!is.null(weights)) u <- u * weights
  back <- if (is.null(rows)) {
    kernel_sum_of(sources, NULL, u, control, as_matrix = TRUE)
  } else {
    kernel_sum_of(rows, sources$points, u, control, as_matrix = TRUE)
  }
  stats <- if (is.null(sums)) back$stats else add_stats(sums$stats, back$stats)
  list(product = back$sums, stats = stats)
}
