# Sums for a search on a sample of points with levels, pair by pair in C (src/cpu/loops/level_sums.h): where many cells
# have few points each that takes less time than a sum of the engines for each.

# In the time of a call of an engine so many pairs are done.
PAIRS_OF_A_CALL <- 1.5e4

# Of cells_of() at `m` rows.
prefers_pairs <- function(data, cells, m, factors) {
  calls <- 2 * length(cells$rows) * max(1, length(unique(factors)))
  as.double(m) * nrow(data$x) <= PAIRS_OF_A_CALL * calls
}

# list(sums, top, moments, stats) at the rows `at`, without themselves: sums of the kernels over exp(top), of each cell
# in columns or, with `more$shares`, what each cell gives to each, those of all. `more`: other members of struct
# fk_level_sums.
level_sums <- function(data, L, cells, at, run, factors = NULL, more = NULL) {
  order <- unlist(cells$rows)
  log_weight <- log(data$w) - if (is.null(factors)) 0 else data$d * log(factors)
  job <- list(
    x = t(forwardsolve(L, t(data$x) - colMeans(data$x)))[order, , drop = FALSE], log_weight = log_weight[order],
    factors = factors[order], ends = as.double(cumsum(lengths(cells$rows))), rows = match(at, order) - 1
  )
  level_pair_sums(c(job, more), run)
}

# As log_sum() of the rows of `data` without themselves.
left_out_by_pairs <- function(data, L, cells, factors, run) {
  shares <- list(shares = cell_matrix(data$discrete, cells$codes))
  found <- level_sums(data, L, cells, seq_len(nrow(data$x)), run, factors, shares)
  list(log_abs = log(found$sums) + found$top, stats = found$stats)
}

# As moments_of(), of data with `discrete`; without `wide` and a factor. S is over the other points, each kernel times
# what the levels of both say.
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

# What each combination of levels, of the columns, gives to each, of the rows.
cell_matrix <- function(discrete, codes) {
  count <- nrow(codes)
  among <- function(column, lambda, k) {
    places <- level_places(column, rep(codes[, k], count), rep(codes[, k], each = count))
    level_values(column, lambda)[places]
  }
  matrix(Reduce(`*`, Map(among, discrete$columns, discrete$lambda, seq_len(ncol(codes)))), count)
}
