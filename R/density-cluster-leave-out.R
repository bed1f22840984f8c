# Points of an SD-KDE in shards, left out: as debiased_loo() has it, in two rounds. The first finds what is to be known
# of each source (core/loo.h), by which it meets any point alone; in the second each shard meets all of them, in blocks
# (store-cluster-join.R).

# Does the first round, and adds its result to the fit: `left_out`, a flash_data() with a row for each point and the
# weights of the points. The columns are the point, the log of the score's kernel sum there, and the kernel-weighted
# mean. Points with weights have two more columns: the number of the point that dominates it, and the log of its term
# there (sum-debias-dominated.R).
with_left_out <- function(object, control) {
  data <- object$x
  share_stage(control, 0, 0.5)
  args <- list(
    sources = joined_sources(sum_sources(data, NULL, score_factor(object))), L = fit_factor(object),
    largest = if (data$has[["weights"]]) data$largest_weight
  )
  about <- list(d = 2 * data$d + if (is.null(args$largest)) 1 else 3, names = NULL)
  made <- made_data(data, "masses", args, control, data$n^2, list(data), about)
  share_stage(control, 0.5, 0.5)
  object$left_out <- made$data
  object
}

masses_of_shard <- function(shard, args, part, control) {
  sources <- args$sources
  sources$points <- at_shard(sources$points, part, args$scratch)
  found <- masses_and_means(sources, shard$points, control)
  x <- unname(cbind(shard$points, found$log_mass, found$means))
  if (!is.null(args$largest)) {
    dominated <- dominated_of_shard(sources, shard, found$log_mass, args, control)
    widths <- list(log_mass = found$log_mass, weights = shard$weights, dominant = 0, log_term = 0)
    widths <- with_dominated(widths, dominated, dominated$away, sources$L, args$L)
    x <- cbind(x, widths$dominant, widths$log_term)
    found$stats <- joined_stats(found$stats, dominated$stats)
  }
  made_shard(list(x = x, weights = shard$weights), args, part, found$stats)
}

# dominated_among() for the points of a shard and the sources of all blocks. `by` counts all points, and `away` has the
# differences from the points that dominate.
dominated_of_shard <- function(sources, shard, log_mass, args, control) {
  light <- which(is_light(shard$weights, log_mass, args$largest))
  if (length(light) == 0) return(NULL)
  data <- sources$points
  at <- shard$points[light, , drop = FALSE]
  before <- \(shards) sum(data$rows[seq_len(shards[1] - 1)])
  later <- function(a, b, control) {
    other <- b$by > 0
    list(by = replace(a$by, other, b$by[other]), points = replace(a$points, other, b$points[other, ]))
  }
  found <- fold_blocks(data, control, later, function(block, shards, control) {
    of <- sources_of_shard(block, sources$L, sources$kernel)
    by <- dominants(of, at, log_mass[light], control)
    points <- at
    points[by > 0, ] <- of$points[by, , drop = FALSE]
    list(by = ifelse(by > 0, before(shards) + by, 0), points = points)
  })
  rows <- which(found$by > 0)
  if (length(rows) == 0) return(NULL)
  by <- found$by[rows]
  at <- at[rows, , drop = FALSE]
  others <- fold_blocks(data, control, merge_means, function(block, shards, control) {
    of <- sources_of_shard(block, sources$L, sources$kernel)
    own <- by - before(shards)
    means_of_others(of, at, ifelse(own >= 1 & own <= nrow(block$points), own, 0), control)
  })
  list(
    rows = light[rows], by = by, away = found$points[rows, , drop = FALSE] - at, toward = others$score,
    stats = others$stats
  )
}

# Leave-one-out log sums of an SD-KDE at all points, like debiased_loo().
debiased_loo_by_shards <- function(object, control) {
  object <- with_left_out(object, control)
  data <- object$left_out
  over_shards(
    data, "debiased_loo", list(fit = travelling_fit(object)), control, shard_number, pairs = data$n^2, lend = lent_of(object)
  )
}

# The part of debiased_loo_by_shards() that a worker computes, at the shard of the fit.
debiased_loo_of_blocks <- function(object, control) {
  data <- object$left_out
  own <- shard_of(data, data$own)
  held_out <- list(
    points = own$points[, seq_len(object$d), drop = FALSE], weights = own$weights,
    number = sum(data$rows[seq_len(data$own - 1)]) + 1
  )
  fold_blocks(data, control, merge_some, function(block, shards, control) {
    if (!is.null(block$weights) && all(block$weights == 0)) return(NULL)
    of <- left_out_sources(block, object$d, score_factor(object))
    held_out$first <- if (data$own %in% shards) sum(data$rows[shards[shards < data$own]]) + 1 else NA_real_
    found <- debiased_loo_at(of, fit_factor(object), of$widths, held_out, control)
    list(log_abs = found$log_sum, stats = found$stats)
  })
}

# What sums go over of a block of `left_out`, with `widths`; the same object for the same bandwidth, for what C has
# prepared of it.
left_out_sources <- function(block, d, L) {
  if (!is.null(block$sources) && identical(block$sources$L, L)) return(block$sources)
  block$sources <- sum_sources(block$points[, seq_len(d), drop = FALSE], block$weights, L, plan = new_plan())
  block$sources$widths <- list(
    means = block$points[, d + 1 + seq_len(d), drop = FALSE], log_mass = block$points[, d + 1], weights = block$weights
  )
  if (ncol(block$points) > 2 * d + 1) {
    block$sources$widths[c("dominant", "log_term")] <- list(block$points[, 2 * d + 2], block$points[, 2 * d + 3])
  }
  block$sources
}

add_operations(
  masses = list(one = masses_of_shard, merge = merge_made),
  debiased_loo = list(
    one = \(shard, args, part, control) debiased_loo_of_blocks(fit_at_shard(args$fit, part, args$scratch), control),
    merge = merge_rows
  )
)
