# Sums of points in memory, by the workers of a cluster: all of them have the sources, and each takes some of the
# targets. So whatever the class of the sources is, points with factors, levels or kernels of their own, their sums are
# those of that class on another machine.

# Is it worth it? By the sizes alone, as everything that decides about bits.
#' @export
spread.memory_sources <- function(sources, at, control) {
  if (goes_to_cluster(sources, at, control)) class(sources) <- c("spread_sources", class(sources))
  sources
}

goes_to_cluster <- function(sources, at, control) {
  if (is.null(control$cluster) || !is.matrix(sources$points)) return(FALSE)
  m <- if (is.null(at)) nrow(sources$points) else nrow(at)
  (is.null(at) || is.matrix(at)) && as.double(nrow(sources$points)) * m >= LEAST_PAIRS_FOR_CLUSTER
}

#' @export
log_sum.spread_sources <- function(sources, at, factor, loo, control) {
  spread_targets("log", sources, at, control, factor = factor, loo = loo)
}

#' @export
score_sum.spread_sources <- function(sources, at, factor, loo, names, control) {
  spread_targets("score", sources, at, control, factor = factor, names = names, loo = loo)
}

#' @export
kernel_sum_of.spread_sources <- function(sources, at, b, control, as_matrix = FALSE) {
  sums_as(spread_targets("sums", sources, at, control, b = b), as_matrix || !is.null(dim(b)))
}

#' @export
debias_sum.spread_sources <- function(sources, L, control) debias_sum.default(sources, L, control)

#' @export
score_means.spread_sources <- function(sources, control) masses_and_means(sources, NULL, control)

# It is known of each source how it meets any target alone.
#' @export
debiased_loo_at.spread_sources <- function(sources, L, widths, held_out, control) {
  sources$widths <- widths
  spread_targets("debiased_loo", sources, NULL, control, chol = L)
}

# Of so many rows, at least, and at most 64 pieces.
rows_of_piece <- function(n) max(256, ceiling(n / 64))

# What `what`, of verb_of(), or "debiased_loo", makes of the targets `at` (NULL: the sources themselves), by pieces.
spread_targets <- function(what, sources, at, control, ...) {
  points <- sources$points
  m <- if (is.null(at)) nrow(points) else nrow(at)
  pieces <- pieces_of(m, rows_of_piece(m))
  data <- list(
    id = "targets", cluster = control$cluster, recipe = list(kind = "none"), rows = vapply(pieces, diff, 0) + 1
  )
  sources["plan"] <- list(NULL)
  class(sources) <- setdiff(class(sources), "spread_sources")
  args <- list(what = what, sources = shared_value(sources), ...)
  parts <- function(shard, worker) {
    rows <- pieces[[shard]]
    list(rows = rows, at = if (!is.null(at)) at[rows[1]:rows[2], , drop = FALSE])
  }
  over_shards(data, "targets", args, control, parts, pairs = as.double(nrow(points)) * m)
}

# Of a piece of the targets on a worker, for sources that all workers have.
sums_at_piece <- function(shard, args, part, control) {
  sources <- args$sources
  rows <- part$rows[1]:part$rows[2]
  at <- if (is.null(part$at)) places_of(sources, rows) else part$at
  if (args$what == "debiased_loo") {
    held_out <- list(points = at, weights = sources$weights[rows], first = as.double(rows[1]))
    return(debiased_loo_at(sources, args$chol, sources$widths, held_out, control))
  }
  verb <- verb_of(args)
  if (!isTRUE(args$loo)) return(verb$alone(sources, at, FALSE, control))
  seen(left_out(sources, rows, at, control, verb$merged), length(rows), ncol(sources$points))
}

add_operations(targets = list(one = sums_at_piece, merge = merge_rows))

# ---- what workers keep ------------------------------------------------------------------------

# Of args: what goes to a worker once, and stays there until others have come, as the points of a fit that is asked
# again and again. Known by where it is and by its numbers.
shared_value <- function(value) {
  numbers <- c(value[c("points", "weights", "factors")], value$widths, list(value$discrete$codes))
  kernel <- if (is.list(value$kernel)) value$kernel else list(name = value$kernel)
  about <- as.double(unlist(c(0, value$L, value$height, kernel$value, kernel$parameters)))
  tables <- if (!is.null(value$discrete)) as.double(unlist(c(level_tables(value$discrete), value$discrete$squared)))
  key <- c(unlist(lapply(numbers, identity_of)), identity_of(about)[2], identity_of(tables)[2], kernel$name)
  known_by(paste(key, collapse = " "), value)
}

known_by <- function(key, value) structure(list(key = key, value = value), class = "shared_value")
