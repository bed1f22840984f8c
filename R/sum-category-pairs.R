# Sums over pairs of points with categories, for searches on a sample of rows (src/cpu/loops/level_sums.h). If there are
# many cells (combinations of categories) of few points each, this takes less time than a sum by an engine for each
# cell.

# This many pairs take the time of one call of an engine.
PAIRS_OF_A_CALL <- 1.5e4

# Are sums over pairs faster, at `m` rows and for these cells of cells_of()?
prefers_pairs <- function(data, cells, m, factors) {
  calls <- 2 * length(cells$rows) * max(1, length(unique(factors)))
  as.double(m) * nrow(data$x) <= PAIRS_OF_A_CALL * calls
}

# Returns list(sums, top, moments, stats) at the rows `at`, without their own terms. `sums` are divided by exp(top).
# They have a column for each cell, or with the kernels between cells, `more$shares`, they are sums over all points.
# `more`: other members of struct fk_level_sums.
level_sums <- function(data, L, cells, at, run, factors = NULL, more = NULL) {
  order <- unlist(cells$rows)
  log_weight <- log(data$w) - if (is.null(factors)) 0 else data$d * log(factors)
  job <- list(
    x = t(forwardsolve(L, t(data$x) - colMeans(data$x)))[order, , drop = FALSE], log_weight = log_weight[order],
    factors = factors[order], ends = as.double(cumsum(lengths(cells$rows))), rows = match(at, order) - 1
  )
  level_pair_sums(c(job, more), run)
}

# Returns the leave-one-out log_sum() at the rows of `data`.
left_out_by_pairs <- function(data, L, cells, factors, run) {
  shares <- list(shares = cell_matrix(data$discrete, cells$codes))
  found <- level_sums(data, L, cells, seq_len(nrow(data$x)), run, factors, shares)
  list(log_abs = log(found$sums) + found$top, stats = found$stats)
}

# moments_of() for data with categories, without `wide` and `factor`. S is the leave-one-out sum of the kernels of
# numbers times those of categories.
cell_moments <- function(data, L, row_weights, moments, floor, run) {
  cells <- cells_of(data$discrete$codes)
  more <- list(shares = cell_matrix(data$discrete, cells$codes))
  if (moments != "none") {
    more <- c(more, list(v = row_weights, log_floor = log(floor), diagonal = moments == "diagonal"))
  }
  found <- level_sums(data, L, cells, seq_len(nrow(data$x)), run, more = more)
  M <- switch(moments, none = NULL, diagonal = found$moments, full = symmetric_matrix(found$moments, data$d))
  list(S = found$sums * exp(found$top), M = M, stats = found$stats)
}

# Returns the matrix of kernels between combinations of categories, from the columns to the rows.
cell_matrix <- function(discrete, codes) {
  count <- nrow(codes)
  among <- function(column, lambda, k) {
    places <- level_places(column, rep(codes[, k], count), rep(codes[, k], each = count))
    level_values(column, lambda)[places]
  }
  matrix(Reduce(`*`, Map(among, discrete$columns, discrete$lambda, seq_len(ncol(codes)))), count)
}
