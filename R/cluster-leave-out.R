# Points of an SD-KDE in shards, left out: as debiased_loo() has it, in two rounds. The first finds what is to be known of
# each source (core/loo.h), by which it meets any point alone; in the second each shard meets all of them, in blocks
# (cluster-join.R).

# The fit with the first round done: `left_out`, a flash_data() with a row for each point, which is the point, the log of the
# sum of the score's kernels there, and their mean; with the weights of the points.
with_left_out <- function(object, control) {
  data <- object$x
  share_stage(control, 0, 0.5)
  args <- list(sources = joined_sources(sum_sources(data, NULL, score_factor(object))))
  about <- list(d = 2 * data$d + 1, names = NULL)
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
  made_shard(list(x = x, weights = shard$weights), args, part, found$stats)
}

# As debiased_loo(), at all points.
debiased_loo_by_shards <- function(object, control) {
  object <- with_left_out(object, control)
  data <- object$left_out
  over_shards(
    data, "debiased_loo", list(fit = travelling_fit(object)), control, shard_number, pairs = data$n^2, lend = lent_of(object)
  )
}

# The same on a worker, at the shard where the fit is.
debiased_loo_of_blocks <- function(object, control) {
  data <- object$left_out
  own <- shard_of(data, data$own)
  held_out <- list(points = own$points[, seq_len(object$d), drop = FALSE], weights = own$weights)
  fold_blocks(data, control, \(a, b) merge_some(a, b, control), function(block, shards, control) {
    if (!is.null(block$weights) && all(block$weights == 0)) return(NULL)
    of <- left_out_sources(block, score_factor(object))
    held_out$first <- if (data$own %in% shards) sum(data$rows[shards[shards < data$own]]) + 1 else NA_real_
    found <- debiased_loo_at(of, fit_factor(object), of$widths, held_out, control)
    list(log_abs = found$log_sum, stats = found$stats)
  })
}

# What sums go over of a block of `left_out`, with `widths`; the same object for the same bandwidth, for what C has
# prepared of it.
left_out_sources <- function(block, L) {
  if (!is.null(block$sources) && identical(block$sources$L, L)) return(block$sources)
  d <- (ncol(block$points) - 1) / 2
  block$sources <- sum_sources(block$points[, seq_len(d), drop = FALSE], block$weights, L, plan = new_plan())
  block$sources$widths <- list(
    means = block$points[, d + 1 + seq_len(d), drop = FALSE], log_mass = block$points[, d + 1], weights = block$weights
  )
  block$sources
}
