# Sums over the shards of a flash_data(): the methods of sum-doors.R. Targets in memory are sent to all workers, each
# of which sums over its sources. If the targets are shards, the sources are sent there (store-cluster-join.R).

#' @export
class_of_place.flash_data <- function(points) if (is_joined(points)) "sources_in_blocks" else "sources_in_shards"

#' @export
log_sum.sources_in_shards <- function(sources, at, factor, loo, control) {
  tolerant <- goes_by_sums(factor, loo, control) && is.null(sources$shard_weights)
  if (is.matrix(at)) {
    if (tolerant) return(log_of_sums(sources, at, control))
    return(logs_at(sources, at, control, list(what = "log", factor = factor)))
  }
  plan <- if (tolerant) plan_join(sources, at, NULL, control) else plan_whole(sources$points)
  if (is_whole(plan)) return(join_targets("log", sources, at, control, plan, factor = factor, loo = loo))
  log_of_sums(sources, at, control, join_targets("sums", sources, at, control, plan))
}

#' @export
score_sum.sources_in_shards <- function(sources, at, factor, loo, names, control) {
  if (!is.matrix(at)) {
    plan <- plan_whole(sources$points)
    return(join_targets("score", sources, at, control, plan, factor = factor, loo = loo, names = names))
  }
  found <- logs_at(sources, at, control, list(what = "score", factor = factor))
  if (!is.null(names)) colnames(found$score) <- names
  found
}

# Squares the kernel and the weights; workers square the weights of their shards.
#' @export
squared.sources_in_shards <- function(sources) {
  sources["plan"] <- list(NULL)
  replace(sources, c("L", "shard_weights"), list(sources$L / sqrt(2), "squares"))
}
#' @export
squared.sources_in_blocks <- squared.sources_in_shards

logs_at <- function(sources, at, control, args) {
  data <- sources$points
  weights <- if (is.null(sources$shard_weights)) "own" else sources$shard_weights
  # errors of shards add up, each relative to the largest sum of its shard
  if (control$tol_type == "global") control$tol <- control$tol / length(data$rows)
  args <- c(args, list(L = sources$L, weights = weights, at = at))
  over_shards(data, "logs", args, control, pairs = as.double(nrow(at)) * data$n)
}

whole_shard <- function(data, shard) over_shards(data, "whole", shards = shard)[[1]]
rows_of_shard <- function(data, shard) whole_shard(data, shard)$x

# Sums with coefficients in this session.
#' @export
sum_kernels.sources_in_shards <- function(sources, at, b, control, out = NULL, chunk_rows = NULL) {
  data <- sources$points
  found <- kernel_sum_of(sources, at, b, control, !is.null(dim(b)))
  if (!is.null(out)) write_rows(out, c(1, nrow(found$sums)), found$sums)
  c(found, list(n = data$n, m = if (is.null(at)) data$n else nrow(at), d = data$d))
}

#' @export
kernel_sum_of.sources_in_shards <- function(sources, at, b, control, as_matrix = FALSE) {
  sums_as(sums_of_shards(sources, at, b, control), as_matrix)
}

sums_as <- function(found, as_matrix) if (as_matrix) found else replace(found, "sums", list(as.vector(found$sums)))

# Sums of sources in memory at the rows of shards.
#' @export
kernel_sum_at.flash_data <- function(at, sources, b, control, as_matrix) {
  b <- as.matrix(b)
  args <- list(what = "sums", sources = shared_value(sources), b = b)
  sums_as(over_shards(at, "sums_at", args, control, shard_number, pairs = at$n * nrow(b)), as_matrix)
}

sums_of_shards <- function(sources, at, b, control) {
  data <- sources$points
  hold_pool(pool_of(data$cluster))
  if (!is.matrix(at)) return(join_targets("sums", sources, at, control, plan_join(sources, at, b, control), b = b))
  by_grid <- grid_sums_of_shards(sources, at, b, control)
  if (!is.null(by_grid)) return(by_grid)
  control$tol <- control$tol / length(data$rows)
  m <- as.double(nrow(at))
  # targets of an operator are sent once, as there will be more products
  at <- if (is.null(sources$plan)) list(points = at) else shared_value(list(points = at))
  args <- list(L = sources$L, kernel = sources$kernel, at = at)
  over_shards(data, "sums", args, control, b_of_shards(data, b), pairs = m * data$n)
}

# The argument `parts` of over_shards(): the coefficients of each shard.
b_of_shards <- function(data, b) {
  if (is.null(b)) return(NULL)
  \(shard, worker) numbers_at(b, rows_of_shards(data, shard))
}

# Rows in shards: the product is computed where the rows are. Sources in shards: two sums.
#' @export
normal_product_of.sources_in_shards <- function(sources, rows, v, w, weights, control, with_sums = FALSE) {
  normal_product_in_two(sources, rows, v, w, weights, control)
}

#' @export
normal_product_at.sources_in_shards <- function(rows, sources, v, w, weights, control, with_sums) {
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

# The argument `pairs` of over_shards() for repeated products, from the time that earlier ones took. Below about a
# second for each worker, one request to each is best, whatever the number of pairs.
pairs_by_pace <- function(data, pairs) {
  pace <- if (!is.null(data$cluster)) pool_of(data$cluster)$pace
  if (is.null(pace)) pairs else pairs * pace * MOST_PAIRS_AT_ONCE
}

normal_product_in_two <- function(sources, rows, v, w, weights, control) {
  at <- if (!is.null(rows)) rows$points
  sums <- if (!is.null(v)) kernel_sum_of(sources, at, as.matrix(v), control, as_matrix = TRUE)
  u <- if (is.null(sums)) as.matrix(w) else if (is.null(w)) sums$sums else sums$sums + as.matrix(w)
  if (!is.null(weights)) u <- u * weights
  of <- if (is.null(rows)) sources else rows
  back <- kernel_sum_of(of, if (!is.null(rows)) sources$points, u, control, as_matrix = TRUE)
  list(product = back$sums, stats = joined_stats(sums$stats, back$stats))
}
