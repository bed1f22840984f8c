# Sums of points in memory, by the workers of a cluster: all of them have the sources, and each takes some of the
# targets. So whatever the sources are, points with factors, levels or kernels of their own, their sums are those
# of the door on another machine.

# Is it worth it? By the sizes alone, as everything that decides about bits.
goes_to_cluster <- function(sources, at, control) {
  if (is.null(control$cluster) || is_elsewhere(sources$points) || is.function(sources$points)) return(FALSE)
  m <- if (is.null(at)) nrow(sources$points) else nrow(at)
  is.matrix(sources$points) && (is.null(at) || is.matrix(at)) &&
    as.double(nrow(sources$points)) * m >= LEAST_PAIRS_FOR_CLUSTER
}

LEAST_PAIRS_FOR_CLUSTER <- 2e7

# Of so many rows, at least, and at most 64 pieces.
rows_of_piece <- function(n) max(256, ceiling(n / 64))

# What `what`, an entry of SPREAD_SUMS, makes of the targets `at` (NULL: the sources themselves), piece by piece.
spread_targets <- function(what, sources, at, control, ...) {
  points <- sources$points
  m <- if (is.null(at)) nrow(points) else nrow(at)
  pieces <- pieces_of(m, rows_of_piece(m))
  data <- list(
    id = "targets", cluster = control$cluster, recipe = list(kind = "none"), rows = vapply(pieces, diff, 0) + 1
  )
  sources["plan"] <- list(NULL)
  args <- list(what = what, sources = shared_value(sources), ...)
  parts <- function(shard, worker) {
    rows <- pieces[[shard]]
    list(rows = rows, at = if (!is.null(at)) at[rows[1]:rows[2], , drop = FALSE])
  }
  over_shards(data, "targets", args, control, parts, pairs = as.double(nrow(points)) * m)
}

# Of a piece of the targets on a worker.
SPREAD_SUMS <- list(
  log = function(sources, part, args, control) {
    if (!is.null(part$at) || !args$loo) return(log_sum(sources, targets_of(sources, part), args$factor, FALSE, control))
    left_out_of_piece(sources, part$rows[1]:part$rows[2], control, log_of_class(args$factor))
  },
  score = function(sources, part, args, control) {
    estimator <- ESTIMATORS[[args$estimator]]
    at <- targets_of(sources, part)
    if (!is.null(part$at) || !args$loo) return(score_sum(sources, at, estimator, FALSE, args$names, control))
    found <- left_out_of_piece(sources, part$rows[1]:part$rows[2], control, score_of_class(estimator, args$names))
    found[c("score", "stats")]
  },
  sums = function(sources, part, args, control) {
    kernel_sum_of(sources, targets_of(sources, part), args$b, control, as_matrix = TRUE)
  },
  debiased_loo = function(sources, part, args, control) {
    rows <- part$rows[1]:part$rows[2]
    held_out <- list(points = targets_of(sources, part), weights = sources$weights[rows], first = as.double(rows[1]))
    debiased_loo_at(sources, args$chol, sources$widths, held_out, control)
  }
)

targets_of <- function(sources, part) {
  if (is.null(part$at)) sources$points[part$rows[1]:part$rows[2], , drop = FALSE] else part$at
}

# At the sources `rows`, each left out of its own sum: those among themselves, and all others. `sum_at`: as log_of_class()
# makes it; NULL is the sum of none.
left_out_of_piece <- function(sources, rows, control, sum_at) {
  if (length(rows) == nrow(sources$points)) return(sum_at(sources, NULL, TRUE, control))
  # errors of the two add up
  if (control$tol_type == "global") control$tol <- control$tol / 2
  own <- sum_at(some_sources(sources, rows), NULL, TRUE, control)
  merge_some(own, sum_at(some_sources(sources, -rows), sources$points[rows, , drop = FALSE], FALSE, control), control)
}

# As debiased_loo_sum(), where it is known of each source how it meets any target alone.
debiased_loo_by_pieces <- function(sources, L, control, widths) {
  sources$widths <- widths
  spread_targets("debiased_loo", sources, NULL, control, chol = L)
}

# list(log_mass, means, stats) at `at` (NULL: the sources): the log of the sum of the kernels there and their mean, exactly.
# Where no kernel has weight, a point is its own mean.
masses_and_means <- function(sources, at, control) {
  control[c("tol", "engine", "precision")] <- list(0, "exact", "double")
  points <- if (is.null(at)) sources$points else at
  mass <- log_sum(sources, at, PLAIN_FACTOR, FALSE, control)
  score <- score_sum(sources, at, ESTIMATORS[[PLAIN_ESTIMATOR]], FALSE, NULL, control)
  to_mean <- score$score %*% tcrossprod(sources$L)
  to_mean[!is.finite(to_mean)] <- 0
  list(
    log_mass = replace(mass$log_abs, !is.finite(mass$log_abs), 0), means = points + to_mean,
    stats = add_stats(mass$stats, score$stats)
  )
}

some_sources <- function(sources, rows) {
  sources$points <- sources$points[rows, , drop = FALSE]
  for (name in c("weights", "factors")) if (!is.null(sources[[name]])) sources[[name]] <- sources[[name]][rows]
  if (!is.null(sources$discrete$codes)) sources$discrete$codes <- sources$discrete$codes[rows, , drop = FALSE]
  sources["plan"] <- list(NULL)
  sources
}

# ---- what workers keep ------------------------------------------------------------------------

# Of args: what goes to a worker once, and stays there until others have come, as the points of a fit that is asked
# again and again. Known by where it is and by its numbers.
shared_value <- function(value) {
  numbers <- c(value[c("points", "weights", "factors")], value$widths)
  key <- c(unlist(lapply(numbers, identity_of)), if (!is.null(value$L)) identity_of(value$L)[2])
  known_by(paste(key, collapse = " "), value)
}

known_by <- function(key, value) {
  shared <- list(key = key, value = value)
  class(shared) <- "shared_value"
  shared
}

MOST_SHARED <- 4
