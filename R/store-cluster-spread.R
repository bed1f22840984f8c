# Sums of points in memory by the workers of a cluster. Each worker has all sources and computes at a part of the
# targets. So sources of any class (with local bandwidth factors, categories or other kernels) use their own methods
# there.

# Decides whether the workers are used: by sizes alone, as the choice changes bits.
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

# Targets do not depend on each other, so they can be divided among workers.
#' @export
debiased_loo_at.spread_sources <- function(sources, L, widths, held_out, control) {
  sources$widths <- widths
  spread_targets("debiased_loo", sources, NULL, control, chol = L)
}

# Rows of a piece of targets: at least 256, and at most 64 pieces.
rows_of_piece <- function(n) max(256, ceiling(n / 64))

# Sums at the targets `at` (NULL: the sources), in pieces. `what`: see verb_of(), or "debiased_loo".
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

# On a worker: sums at a piece of the targets.
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

# An argument that is sent to each worker once and cached there, such as the points of a fit. Its key is made of the
# addresses and hashes of its numbers.
shared_value <- function(value) {
  numbers <- c(value[c("points", "weights", "factors")], value$widths, list(value$discrete$codes))
  kernel <- if (is.list(value$kernel)) value$kernel else list(name = value$kernel)
  about <- as.double(unlist(c(0, value$L, value$height, kernel$value, kernel$parameters)))
  tables <- if (!is.null(value$discrete)) as.double(unlist(c(level_tables(value$discrete), match(value$discrete$power, c("square", "overlap")))))
  key <- c(unlist(lapply(numbers, identity_of)), identity_of(about)[2], identity_of(tables)[2], kernel$name)
  known_by(paste(key, collapse = " "), value)
}

known_by <- function(key, value) structure(list(key = key, value = value), class = "shared_value")
