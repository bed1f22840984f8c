# Sums of points that have levels beside numbers. What a point gives to a place goes by the levels of both, so
# targets of the same combination of levels, a cell, see all points with weights of their own: each cell's is an
# ordinary sum. So every engine and every tolerance serves them, scores, squares and signed kernels, too, and all
# cells together meet as many pairs as one sum of all. Points whose levels give nothing to a cell, as where lambda is
# 0, are left out of it.
#
# `sources$discrete`: see level_tables(), and `squared`, where sums are of squares. Targets, where there are any,
# have the numbers of their levels in their last columns (mixed-frame.R).

log_sum_by_cells <- function(sources, at, factor, loo, control) {
  sum_cells(sources, at, loo, control, if (ncol(sources$points) > 0) log_of_class(factor) else log_mass)
}

# A score alone where there is nothing to merge it with.
score_sum_by_cells <- function(sources, at, estimator, loo, names, control) {
  if (ncol(sources$points) == 0) stop_argument("type", "must not be \"score\" without numeric columns")
  alone <- \(class, y, loo, control) score_sum(class, y, estimator, loo, names, control)
  sum_cells(sources, at, loo, control, if (loo) score_of_class(estimator, names) else alone)
}

# Without numbers all kernels are 1.
log_mass <- function(class, y, loo, control) {
  weights <- if (is.null(class$weights)) rep(1, nrow(class$points)) else class$weights
  list(log_abs = log(if (loo) leave_out(weights) else rep(sum(weights), nrow(y))))
}

# At m targets.
nothing_seen <- function(m, d) list(log_abs = rep(-Inf, m), score = matrix(NaN, m, d))

# `sum_class(class, y, loo, control)` for each cell of targets, put together.
sum_cells <- function(sources, at, loo, control, sum_class) {
  own <- cells_of(sources$discrete$codes)
  d <- ncol(sources$points)
  places <- if (is.null(at)) sources$points else at[, seq_len(d), drop = FALSE]
  cells <- if (is.null(at)) own else cells_of(at[, d + seq_len(ncol(own$codes)), drop = FALSE])
  tables <- level_tables(sources$discrete)
  power <- if (isTRUE(sources$discrete$squared)) 2 else 1
  m <- nrow(places)
  total <- list()
  done <- 0
  for (i in seq_along(cells$rows)) {
    rows <- cells$rows[[i]]
    share_stage(control, done, length(rows) / m)
    done <- done + length(rows) / m
    near <- cell_weights(tables, cells$codes[i, ], own$codes)^power
    class <- cell_class(sources, near[own$of])
    part <- if (is.null(class)) {
      nothing_seen(length(rows), d)
    } else if (loo) {
      left_out_at(class, match(rows, class$rows), control, sum_class)
    } else {
      sum_class(class, places[rows, , drop = FALSE], FALSE, control)
    }
    total <- put_rows(total, part, rows, m)
  }
  total
}

# The results at the targets `rows`, in their places among those at all m.
put_rows <- function(total, part, rows, m) {
  for (name in c("log_abs", "negative")) {
    if (is.null(part[[name]])) next
    if (is.null(total[[name]])) total[[name]] <- vector(typeof(part[[name]]), m)
    total[[name]][rows] <- part[[name]]
  }
  if (!is.null(part$score)) {
    if (is.null(total$score)) total$score <- matrix(0, m, ncol(part$score), dimnames = dimnames(part$score))
    total$score[rows, ] <- part$score
  }
  if (is.null(total$stats)) {
    total$stats <- part$stats
  } else if (!is.null(part$stats)) {
    total$stats <- add_class_stats(total$stats, part$stats)
  }
  total
}

# The sources as a cell sees them, by the share of each; NULL where it sees none. `rows`: which ones they are.
cell_class <- function(sources, share) {
  weights <- if (is.null(sources$weights)) share else share * sources$weights
  if (!any(weights > 0)) return(NULL)
  rows <- which(share > 0)
  all <- length(rows) == length(share)
  class <- sum_sources(
    if (all) sources$points else sources$points[rows, , drop = FALSE], if (all) weights else weights[rows],
    sources$L, sources$kernel, factors = sources$factors[rows], height = sources$height
  )
  class$rows <- rows
  class
}

# ---- both stages of an SD-KDE -------------------------------------------------------------------

# As debias_sum(): each point moves along the score of the estimate in its own cell. Kernels of H leave there a bias
# of order h^2 by the curvature of the density of that cell and, times lambda, of others; this removes the first, and
# of the second what they have in common.
debias_by_cells <- function(sources, L, control) {
  found <- score_sum_by_cells(sources, NULL, ESTIMATORS[[PLAIN_ESTIMATOR]], FALSE, NULL, control)
  found$score[!is.finite(found$score)] <- 0
  list(debiased = sources$points + found$score %*% tcrossprod(L) / 2, stats = found$stats)
}

# As debiased_loo_sum(). Of the points i of a cell: what i gives to the score at j is relative to what all give there,
# by the levels of both, so each cell has sums of all points of its own: as many passes as there are cells.
debiased_loo_by_cells <- function(sources, L, control) {
  control[c("tol", "engine", "precision")] <- list(0, "exact", "double")
  n <- nrow(sources$points)
  w <- if (is.null(sources$weights)) rep(1, n) else sources$weights
  mass <- log_sum_by_cells(sources, NULL, PLAIN_FACTOR, FALSE, control)
  found <- score_sum_by_cells(sources, NULL, ESTIMATORS[[PLAIN_ESTIMATOR]], FALSE, NULL, control)
  found$score[!is.finite(found$score)] <- 0
  mass$log_abs[!is.finite(mass$log_abs)] <- 0
  means <- sources$points + found$score %*% tcrossprod(sources$L)
  stats <- add_class_stats(mass$stats, found$stats)
  tables <- level_tables(sources$discrete)
  own <- cells_of(sources$discrete$codes)
  log_sum <- numeric(n)
  for (i in seq_along(own$rows)) {
    to <- cell_weights(tables, own$codes[i, ], own$codes)[own$of]
    back <- cell_weights(tables, own$codes[i, ], own$codes, back = TRUE)[own$of]
    rows <- which(to > 0)
    widths <- list(
      factors = rep(1, length(rows)), weights = (w * to)[rows], log_mass = (mass$log_abs - log(back))[rows],
      means = means[rows, , drop = FALSE]
    )
    one <- sum_sources(sources$points[rows, , drop = FALSE], w[rows], sources$L)
    sums <- debiased_loo_sum(one, L, control, widths)
    log_sum[own$rows[[i]]] <- sums$log_sum[match(own$rows[[i]], rows)]
    stats <- add_class_stats(stats, sums$stats)
  }
  list(log_sum = log_sum, stats = stats)
}
