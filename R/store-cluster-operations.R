# Operations of workers. An operation is a list of functions:
# - one(shard, args, part, control): the value for a shard. `shard`: from load_shard(); `args`, `part`: see
#   over_shards(); the environment args$scratch is for what a run makes once
# - merge(a, b, control): merges the values of two neighbouring nodes, `a` the first. Absent if values are not merged
# - finish(value), resume(finished, args, control): optional conversion to a value that can be sent, and back

describe_shard <- function(shard, args, part, control) {
  w <- shard$weights
  list(
    rows = as.double(nrow(shard$points)), d = ncol(shard$points), names = colnames(shard$points),
    has = c(weights = !is.null(w), response = !is.null(shard$response)), response_is = kind_of_response(shard$response),
    total_weight = sum(w), square_weight = sum(w^2), positive = sum(w > 0), largest_weight = max(w, 0),
    rest_weight = sum_but_largest(w), rest_square = sum_but_largest(w^2), shard_weights = sum(w),
    shard_positive = sum(w > 0), box = box_of(shard$points)
  )
}

merge_descriptions <- function(a, b, control) {
  if (a$d != b$d) stop_argument("x", "must have the same number of columns in all shards: found ", a$d, " and ", b$d)
  if (!identical(a$names, b$names)) stop_argument("x", "must have the same column names in all shards")
  if (!identical(a$has, b$has)) stop_argument("x", "must have weights, or a response, in all shards or in none")
  a["response_is"] <- list(merge_kinds(a$response_is, b$response_is))
  by_shard <- c("rows", "shard_weights", "shard_positive")
  a[by_shard] <- Map(c, a[by_shard], b[by_shard])
  totals <- c("total_weight", "square_weight", "positive", "rest_weight", "rest_square")
  a[totals] <- Map(`+`, a[totals], b[totals])
  less <- min(a$largest_weight, b$largest_weight)
  a$rest_weight <- a$rest_weight + less
  a$rest_square <- a$rest_square + less^2
  a$largest_weight <- max(a$largest_weight, b$largest_weight)
  a$box <- rbind(a$box, b$box)
  a
}

# Bounding box: minima and then maxima of the columns, as one row.
box_of <- function(points) {
  if (nrow(points) == 0) return(matrix(rep(c(Inf, -Inf), each = ncol(points)), 1))
  matrix(c(apply(points, 2, min), apply(points, 2, max)), 1)
}

sum_but_largest <- function(w) if (length(w) > 0) sum(w[-which.max(w)]) else 0

# Weighted means, sums of squares about them, minima and maxima of a shard.
moments_of_shard <- function(shard, args, part, control) {
  x <- shard$points
  w <- if (is.null(shard$weights)) rep(1, nrow(x)) else shard$weights
  total <- sum(w)
  mean <- if (total > 0) colSums(x * w) / total else colMeans(x)
  list(
    n = nrow(x), weight = total, mean = mean, squares = colSums((x - rep(mean, each = nrow(x)))^2 * w),
    least = apply(x, 2, min), most = apply(x, 2, max)
  )
}

merge_moments <- function(a, b, control) {
  weight <- a$weight + b$weight
  if (weight == 0) weight <- 1
  shift <- b$mean - a$mean
  list(
    n = a$n + b$n, weight = a$weight + b$weight, mean = a$mean + shift * (b$weight / weight),
    squares = a$squares + b$squares + shift^2 * (a$weight * b$weight / weight),
    least = pmin(a$least, b$least), most = pmax(a$most, b$most)
  )
}

# ---- sums ---------------------------------------------------------------------------------------

# The verb of sum-over.R for args$what. Sums of coefficients only have `alone`, as they are merged unchanged.
verb_of <- function(args) {
  switch(args$what,
    log = log_verb(args$factor), score = score_verb(args$factor, args$names),
    sums = list(alone = \(sources, at, loo, control) kernel_sum_of(sources, at, args$b, control, as_matrix = TRUE))
  )
}

# Log sums or scores of a shard at the points args$at.
logs_of_shard <- function(shard, args, part, control) {
  sources <- sources_of_shard(shard, args$L, "gaussian", args$weights)
  if (!is_weightless(sources)) verb_of(args)$merged(sources, args$at, FALSE, control)
}

# Sums of a shard at args$at, with coefficients `part` (NULL: 1).
kernel_sums_of_shard <- function(shard, args, part, control) {
  kernel_sum_of(sources_of_shard(shard, args$L, args$kernel, "none"), args$at$points, weighted(part, shard), control)
}

# Sums of args$sources, in memory or joined (store-cluster-join.R), at a shard of targets; leave-one-out if args$loo,
# where the shard is one of the sources.
sums_at_shard <- function(shard, args, part, control) {
  sources <- args$sources
  if (is_joined(sources$points)) sources$points <- at_shard(sources$points, part, args$scratch)
  loo <- isTRUE(args$loo)
  verb_of(args)$alone(sources, if (!loo) shard$points, loo, control)
}

# Adds values at the same targets, and combines their statistics.
merge_sums <- function(a, b, control) {
  parts <- setdiff(names(a), "stats")
  c(Map(`+`, a[parts], b[parts]), list(stats = add_part_stats(a$stats, b$stats, control)))
}

# Concatenates values at the rows of two nodes (vectors or matrices), and combines their statistics.
merge_rows <- function(a, b, control) {
  parts <- setdiff(names(a), "stats")
  c(Map(\(a, b) join_brought(list(a, b)), a[parts], b[parts]), list(stats = add_stats(a$stats, b$stats)))
}

apply_to_shard <- function(shard, args, part, control) {
  given <- list(shard$points, part)
  also <- as.character(intersect(c("weights", "response"), names(formals(args$f))))
  also <- mget(also, envir = shard, ifnotfound = list(NULL))
  in_function_of_user("FUN", do.call(args$f, c(given, also), quote = TRUE), paste("failed at shard", part))
}

add_operations(
  describe = list(one = describe_shard, merge = merge_descriptions),
  summary = list(one = moments_of_shard, merge = merge_moments),
  logs = list(one = logs_of_shard, merge = merge_some),
  sums = list(one = kernel_sums_of_shard, merge = merge_sums),
  sums_at = list(one = sums_at_shard, merge = merge_rows),
  apply = list(one = apply_to_shard),
  draw = list(one = function(shard, args, part, control) {
    rows <- with_fixed_seed(sample.int(nrow(shard$points), part$count, args$replace, shard$weights), part$seed)
    shard$points[rows, , drop = FALSE]
  }),
  take = list(one = \(shard, args, part, control) shard$points[part, , drop = FALSE]),
  # all of a shard
  whole = list(one = function(shard, args, part, control) {
    list(x = shard$points, weights = shard$weights, response = shard$response)
  }),
  weights = list(one = \(shard, args, part, control) shard$weights)
)
