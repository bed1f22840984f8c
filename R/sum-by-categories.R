# Sums of points that have levels beside numbers. What a point gives to a place goes by the levels of both: by whether
# they are equal, in columns without an order. There its kernel is that of any two levels plus, where they are equal,
# the rest: products of these are sums over all points and over those of the same levels, of one column, another, and
# both, which are ordinary ones (by_agreement()). By other columns, targets of the same combination of levels, a
# cell, see all points with weights of their own (sum_cells()). So every engine and every tolerance serves them, scores,
# squares and signed kernels, too. Points whose levels give nothing to a cell, as where lambda is 0, are left out of it.
#
# `sources$discrete`: see level_tables(), and `squared`, where sums are of squares. Targets, where there are any,
# have the numbers of their levels in their last columns (density-mixed-frame.R).

log_sum_by_cells <- function(sources, at, factor, loo, control) {
  sum_cells(sources, at, loo, control, if (ncol(sources$points) > 0) log_of_class(factor) else log_mass)
}

# A score alone where there is nothing to merge it with.
score_sum_by_cells <- function(sources, at, estimator, loo, names, control) {
  if (ncol(sources$points) == 0) stop_argument("type", "must not be \"score\" without numeric columns")
  alone <- \(class, y, loo, control) score_sum(class, y, estimator, loo, names, control)
  sum_cells(sources, at, loo, control, score_of_class(estimator, names), if (!loo) alone)
}

# Without numbers all kernels are 1.
log_mass <- function(class, y, loo, control) {
  weights <- if (is.null(class$weights)) rep(1, nrow(class$points)) else class$weights
  m <- if (is.null(y)) length(weights) else nrow(y)
  list(log_abs = log(if (loo) leave_out(weights) else rep(sum(weights), m)))
}

# At m targets.
nothing_seen <- function(m, d) list(log_abs = rep(-Inf, m), score = matrix(NaN, m, d))

# `sum_class(class, y, loo, control)` of all columns, for each cell of targets by those that are not by_agreement(), put
# together. `alone`: the same where there is nothing to merge, or NULL.
sum_cells <- function(sources, at, loo, control, sum_class, alone = NULL) {
  d <- ncol(sources$points)
  codes <- sources$discrete$codes
  target_codes <- if (is.null(at)) codes else at[, d + seq_len(ncol(codes)), drop = FALSE]
  tables <- level_tables(sources$discrete)
  if (isTRUE(sources$discrete$squared)) tables <- lapply(tables, `^`, 2)
  alike <- columns_by_agreement(sources$discrete, tables, target_codes)
  if (any(alike)) {
    sum_class <- by_agreement(tables[alike], d, sum_class)
    sources$points <- cbind(sources$points, codes[, alike, drop = FALSE])
    if (!is.null(at)) at <- cbind(at[, seq_len(d), drop = FALSE], target_codes[, alike, drop = FALSE])
  } else {
    if (!is.null(alone)) sum_class <- alone
    if (!is.null(at)) at <- at[, seq_len(d), drop = FALSE]
  }
  if (all(alike)) return(sum_class(cell_class(sources, rep(1, nrow(codes))), at, loo, control))
  codes <- codes[, !alike, drop = FALSE]
  own <- cells_of(codes)
  cells <- if (is.null(at)) own else cells_of(target_codes[, !alike, drop = FALSE])
  places <- if (is.null(at)) sources$points else at
  m <- nrow(places)
  share <- nested_share(control)
  total <- list()
  done <- 0
  for (i in seq_along(cells$rows)) {
    rows <- cells$rows[[i]]
    share$part(done, length(rows) / m)
    done <- done + length(rows) / m
    class <- cell_class(sources, cell_weights(tables[!alike], cells$codes[i, ], own$codes)[own$of])
    part <- if (is.null(class)) {
      nothing_seen(length(rows), d)
    } else if (loo) {
      left_out_at(class, match(rows, class$rows), control, sum_class)
    } else {
      sum_class(class, places[rows, , drop = FALSE], FALSE, control)
    }
    total <- put_rows(total, part, rows, m)
  }
  share$end()
  total
}

# So many times as many pairs as all points have are met, at most, where sums are also over points that agree.
MOST_AGREEING <- 1.9

# A pass over the points that agree in some columns costs as much as those for so many cells of targets, measured.
CELLS_OF_A_PASS <- 4

# Which columns go by_agreement(): without an order, as long as all together meet few more pairs, in few passes.
columns_by_agreement <- function(discrete, tables, target_codes) {
  unordered <- vapply(discrete$columns, \(column) column$kind == "unordered", NA)
  agreeing <- vapply(colnames(discrete$codes), \(name) {
    sum((tabulate(discrete$codes[, name]) / nrow(discrete$codes))^2)
  }, 0)
  shares <- agreement(tables)
  pairs <- ifelse(shares$any > 0, 1, 0) + ifelse(shares$more > 0, agreeing, 0)
  pairs[!unordered] <- Inf
  first <- order(pairs)
  cells <- length(cells_of(target_codes)$rows)
  few_pairs <- cumprod(pmax(1, pairs[first])) <= MOST_AGREEING
  replace(unordered, first, few_pairs & CELLS_OF_A_PASS * 2^seq_along(first) <= cells)
}

# What any level gives to any, and what it gives more to itself, in columns without an order.
agreement <- function(tables) {
  any <- vapply(tables, \(table) if (nrow(table) > 1) table[2, 1] else 0, 0)
  list(any = any, more = vapply(tables, `[`, 0, 1) - any)
}

# `sum_class` of points whose last columns, from d + 1, are levels in columns without an order, of these tables.
by_agreement <- function(tables, d, sum_class) {
  force(sum_class)
  shares <- agreement(tables)
  count <- length(tables)
  subsets <- as.matrix(expand.grid(rep(list(c(FALSE, TRUE)), count)))
  weight <- apply(subsets, 1, \(equal) prod(ifelse(equal, shares$more, shares$any)))
  subsets <- subsets[weight > 0, , drop = FALSE]
  weight <- weight[weight > 0]
  function(class, y, loo, control) {
    # a class that two levels give to, in parts whose errors add up
    if (control$tol_type == "global") control$tol <- control$tol / length(weight)
    share <- nested_share(control)
    total <- NULL
    for (i in seq_along(weight)) {
      share$part((i - 1) / length(weight), 1 / length(weight))
      part <- sum_where_equal(class, y, which(subsets[i, ]), d, loo, control, sum_class)
      if (is.null(part)) next
      part$log_abs <- part$log_abs + log(weight[i])
      total <- if (is.null(total)) part else merge_parts(total, part, control)
    }
    share$end()
    if (is.null(total)) return(nothing_seen(if (is.null(y)) nrow(class$points) else nrow(y), d))
    if (!is.null(total$score)) total$score[total$log_abs == -Inf, ] <- NaN
    total
  }
}

# `sum_class` of the sources that have the same levels as the target in these of the columns from d + 1; NULL: there are
# none, wherever.
sum_where_equal <- function(class, y, equal, d, loo, control, sum_class) {
  numbers <- seq_len(d)
  at <- if (!is.null(y)) y[, numbers, drop = FALSE]
  codes <- class$points[, d + equal, drop = FALSE]
  class$points <- class$points[, numbers, drop = FALSE]
  if (length(equal) == 0) return(sum_class(class, at, loo, control))
  n <- nrow(codes)
  m <- if (is.null(y)) n else nrow(y)
  groups <- cells_of(if (is.null(y)) codes else rbind(codes, y[, d + equal, drop = FALSE]))$rows
  total <- list(log_abs = rep(-Inf, m))
  seen <- FALSE
  for (rows in groups) {
    own <- rows[rows <= n]
    targets <- if (is.null(y)) own else rows[rows > n] - n
    if (length(own) == 0 || length(targets) == 0 || !is.null(class$weights) && all(class$weights[own] == 0)) next
    one <- sum_sources(
      class$points[own, , drop = FALSE], class$weights[own], class$L, class$kernel, factors = class$factors[own],
      height = class$height
    )
    part <- sum_class(one, if (!is.null(y)) at[targets, , drop = FALSE], loo, control)
    total <- put_rows(total, part, targets, m)
    seen <- TRUE
  }
  if (seen) total
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
  weights <- if (!is.null(sources$weights)) share * sources$weights else if (any(share != 1)) share
  if (!is.null(weights) && !any(weights > 0)) return(NULL)
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
  dominated <- join_dominated(lapply(seq_along(own$rows), \(i) {
    given <- replace(sources, "weights", list(w * cell_weights(tables, own$codes[i, ], own$codes)[own$of]))
    dominated_among(given, own$rows[[i]], mass$log_abs[own$rows[[i]]], control)
  }))
  stats <- joined_stats(stats, dominated$stats)
  log_sum <- numeric(n)
  for (i in seq_along(own$rows)) {
    to <- cell_weights(tables, own$codes[i, ], own$codes)[own$of]
    back <- cell_weights(tables, own$codes[i, ], own$codes, back = TRUE)[own$of]
    rows <- which(to > 0)
    widths <- list(
      factors = rep(1, length(rows)), weights = (w * to)[rows], log_mass = (mass$log_abs - log(back))[rows],
      means = means[rows, , drop = FALSE]
    )
    by_cell <- dominated_by(dominated, replace(rows, !rows %in% own$rows[[i]], 0), rows)
    away <- away_from_dominant(sources$points[rows, , drop = FALSE], by_cell)
    widths <- with_dominated(widths, by_cell, away, sources$L, L)
    one <- sum_sources(sources$points[rows, , drop = FALSE], w[rows], sources$L)
    sums <- debiased_loo_sum(one, L, control, widths)
    log_sum[own$rows[[i]]] <- sums$log_sum[match(own$rows[[i]], rows)]
    stats <- add_class_stats(stats, sums$stats)
  }
  list(log_sum = log_sum, stats = stats)
}
