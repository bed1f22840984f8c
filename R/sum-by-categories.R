# Sums of points with categories and numbers. The kernel of numbers is multiplied by a kernel of the categories of the
# source and the target. Two methods reduce this to ordinary sums, so that all engines, tolerances, scores, squares and
# signed kernels are available:
# - The kernel of an unordered column has two values, for equal and for different categories. It is a constant plus, if
#   they are equal, another constant. Products over several columns give sums over all points, and over the points that
#   agree with the target in some of the columns (sources_that_agree).
# - For other columns, all targets of one combination of categories, a "cell", are summed with weights of the sources
#   that belong to this cell (cell_sources()). Sources of weight 0, as with lambda = 0, are omitted.
#
# `sources$discrete`: see level_tables(). Its element `power` is "square" for sums of squared kernels, and "overlap" for sums
# over pairs of points of the products of their kernels, summed over all categories.

# One group for each cell of targets, by the columns that are not summed by agreement.
#' @export
groups_of.sources_by_levels <- function(sources, at, loo, control) {
  d <- ncol(sources$points)
  codes <- sources$discrete$codes
  target_codes <- if (is.null(at)) codes else at[, d + seq_len(ncol(codes)), drop = FALSE]
  tables <- tables_of_power(sources$discrete)
  alike <- columns_by_agreement(sources$discrete, tables, target_codes)
  within <- remade(sources, discrete = NULL, plan = NULL)
  if (any(alike)) within <- agreeing(within, tables[alike], codes[, alike, drop = FALSE])
  if (!is.null(at)) at <- cbind(at[, seq_len(d), drop = FALSE], target_codes[, alike, drop = FALSE])
  if (all(alike)) return(groups_of(within, at, loo, control))
  codes <- codes[, !alike, drop = FALSE]
  own <- cells_of(codes)
  cells <- if (is.null(at)) own else cells_of(target_codes[, !alike, drop = FALSE])
  m <- targets_count(sources, at)
  list(
    adds = FALSE, work = lengths(cells$rows) / m, m = m, d = d,
    group = function(i) {
      rows <- cells$rows[[i]]
      share <- cell_weights(tables[!alike], cells$codes[i, ], own$codes)[own$of]
      cell <- cell_sources(within, share)
      if (is.null(cell)) return(NULL)
      list(
        sources = cell, y = if (is.null(at)) places_of(within, rows) else at[rows, , drop = FALSE], targets = rows,
        own = if (is.null(at)) list(of = match(rows, which(share > 0)))
      )
    }
  )
}

tables_of_power <- function(discrete) {
  tables <- level_tables(discrete)
  if (is.null(discrete$power)) return(tables)
  lapply(tables, switch(discrete$power, square = \(table) table^2, overlap = crossprod))
}

# Returns the sources with weights times `share`, or NULL if none has weight.
cell_sources <- function(sources, share) {
  weights <- if (!is.null(sources$weights)) share * sources$weights else if (any(share != 1)) share
  if (!is.null(weights) && !any(weights > 0)) return(NULL)
  sources["weights"] <- list(weights)
  if (all(share > 0)) sources else some_sources(sources, which(share > 0))
}

# Sums by agreement may take at most this many times the pairs of a sum over all points.
MOST_AGREEING <- 1.9

# A pass over points that agree in some columns costs as much as the sums of this many cells (measured).
CELLS_OF_A_PASS <- 4

# Returns which columns are summed by agreement: unordered columns, as long as this takes few more pairs and few passes.
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

# For unordered columns: the kernel of two different categories, and how much larger the kernel of equal ones is.
agreement <- function(tables) {
  any <- vapply(tables, \(table) if (nrow(table) > 1) table[2, 1] else 0, 0)
  list(any = any, more = vapply(tables, `[`, 0, 1) - any)
}

# Makes sources with categories in unordered columns. `tables`: their kernels, see level_tables().
agreeing <- function(sources, tables, codes) {
  class(sources) <- c("sources_that_agree", "grouped_sources")
  replace(sources, "agreeing", list(list(tables = tables, codes = codes)))
}

# One group for each subset of columns: the points that agree with the target in these columns.
#' @export
groups_of.sources_that_agree <- function(sources, at, loo, control) {
  d <- ncol(sources$points)
  shares <- agreement(sources$agreeing$tables)
  codes <- sources$agreeing$codes
  subsets <- as.matrix(expand.grid(rep(list(c(FALSE, TRUE)), ncol(codes))))
  weight <- apply(subsets, 1, \(equal) prod(ifelse(equal, shares$more, shares$any)))
  subsets <- subsets[weight > 0, , drop = FALSE]
  weight <- weight[weight > 0]
  list(
    adds = TRUE, work = rep(1 / length(weight), length(weight)), m = targets_count(sources, at), d = d,
    group = function(i) {
      equal <- which(subsets[i, ])
      part <- remade(sources)
      if (length(equal) > 0) {
        class(part) <- c("sources_where_equal", "grouped_sources")
        part$agreeing <- list(codes = codes[, equal, drop = FALSE])
      }
      y <- if (!is.null(at)) at[, c(seq_len(d), d + equal), drop = FALSE]
      list(sources = part, y = y, log_height = log(weight[i]))
    }
  )
}

# One group for each combination of categories: the sources and the targets that have it.
#' @export
groups_of.sources_where_equal <- function(sources, at, loo, control) {
  d <- ncol(sources$points)
  n <- nrow(sources$points)
  m <- targets_count(sources, at)
  codes <- sources$agreeing$codes
  cells <- cells_of(if (is.null(at)) codes else rbind(codes, at[, d + seq_len(ncol(codes)), drop = FALSE]))$rows
  numbers <- remade(sources)
  list(
    adds = FALSE, work = lengths(cells) / sum(lengths(cells)), m = m, d = d,
    group = function(i) {
      own <- cells[[i]][cells[[i]] <= n]
      targets <- if (is.null(at)) own else cells[[i]][cells[[i]] > n] - n
      if (length(own) == 0 || length(targets) == 0) return(NULL)
      y <- if (!is.null(at)) at[targets, seq_len(d), drop = FALSE]
      list(sources = some_sources(numbers, own), y = y, targets = targets)
    }
  )
}

# ---- categories alone -------------------------------------------------------------------------------

# Without numeric columns all kernels are 1.
#' @export
log_sum.levels_alone <- function(sources, at, factor, loo, control) {
  weights <- if (is.null(sources$weights)) rep(1, nrow(sources$points)) else sources$weights
  m <- if (is.null(at)) length(weights) else nrow(at)
  list(log_abs = log(if (loo) leave_out(weights) else rep(sum(weights), m)))
}

#' @export
score_sum.levels_alone <- function(sources, at, factor, loo, names, control) {
  stop_argument("type", "must not be \"score\" without numeric columns")
}

# ---- both stages of an SD-KDE -------------------------------------------------------------------

# Each point moves along the score of the estimate in its own cell (debias_sum.default()). The bias of order h^2 has a
# part from the curvature of the density of the cell, and a part, times lambda, from other cells. Debiasing removes the
# first part, and what the second has in common with it.

# The share of point i in the score at point j depends on the categories of both. Therefore each cell needs its own sums
# over all points, one pass for each cell.
#' @export
debiased_loo_sum.sources_by_levels <- function(sources, L, control, widths = NULL) {
  control[c("tol", "engine", "precision")] <- list(0, "exact", "double")
  n <- nrow(sources$points)
  w <- if (is.null(sources$weights)) rep(1, n) else sources$weights
  mass <- log_sum(sources, NULL, PLAIN_FACTOR, FALSE, control)
  found <- debias_scores(sources, control)
  mass$log_abs[!is.finite(mass$log_abs)] <- 0
  means <- sources$points + found$score %*% tcrossprod(sources$L)
  stats <- add_class_stats(mass$stats, found$stats)
  tables <- level_tables(sources$discrete)
  own <- cells_of(sources$discrete$codes)
  dominated <- join_dominated(lapply(seq_along(own$rows), \(i) {
    given <- remade(sources, weights = w * cell_weights(tables, own$codes[i, ], own$codes)[own$of], discrete = NULL)
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
