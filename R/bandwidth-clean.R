# Prepares data for selectors. Results do not depend on the order of the rows: rows are sorted into a pseudo-random
# order that depends on their values only, so that the first m rows are a random sample.

# The data of every selector: points of positive weight, with their spread. `source`: their rows in x.
new_selector_data <- function(x, weights, discrete = NULL) {
  if (!is.null(weights)) weights <- relative_to_largest(weights)
  source <- if (is.null(weights)) seq_len(nrow(x)) else which(weights > 0)
  if (length(source) < nrow(x)) {
    x <- x[source, , drop = FALSE]
    weights <- weights[source]
  }
  list(
    x = x, weights = weights, n = effective_size(weights, nrow(x)), d = ncol(x), sds = weighted_sds(x, weights),
    source = source, discrete = discrete_rows(discrete, source)
  )
}

# The data of a search, of checked points: as new_selector_data(), in an order of their own, with copies merged, what
# was rounded away put back, columns in units of their spread (`unit`), and
# - centre, scale: the medians and the spread of the columns in these units (1 for a constant column, too); origin: the
#   medians in those of x
# - row_weights: of the rows as judges of an estimate, of sum 1; NULL: all the same; log_floor: see log_floor_of()
# - columns: a data frame with, for each, its number of distinct values, the width of its lattice (NA: none), its most
#   frequent value with the share of rows that have it, whether that is a spike, and whether it has few values
# - copies: how many rows were merged
# `arg`: the user's name for the points.
clean_points <- function(x, weights, arg = "x", discrete = NULL) {
  data <- new_selector_data(x, weights, discrete)
  dimnames(data$x) <- list(NULL, colnames(x))
  used <- nrow(data$x)
  runs <- column_runs(data$x)
  data <- merge_copies(in_own_order(data, runs), runs)
  data$copies <- used - nrow(data$x)
  if (data$copies > 0) {
    runs <- column_runs(data$x)
    # so that the order is the same whether rows came as copies or with weights
    data <- in_own_order(data, runs)
  }
  data$columns <- describe_columns(runs, colnames(x))
  for (k in seq_len(data$d)) data$x[, k] <- spread_column(data$x[, k], runs[[k]], data$columns$width[k], k)
  # a constant column has no spread of its own, and stays in the units that it has
  quantiles <- column_quantiles(data)
  units <- replace(column_scales(data, quantiles), data$columns$distinct == 1, 1)
  data$unit <- check_units(units, colnames(x), arg)
  centre <- quantiles[4, ]
  for (k in seq_len(data$d)) data$x[, k] <- (data$x[, k] - centre[k]) / data$unit[k]
  data$sds <- weighted_sds(data$x, data$weights)
  data$origin <- centre
  data$centre <- numeric(data$d)
  data$scale <- rep(1, data$d)
  data$row_weights <- judge_weights(data$weights)
  data$log_floor <- log_floor_of(data)
  data
}

# ---- order ------------------------------------------------------------------------------------

# Uses the ranks of the numbers in their columns, so that neither units nor origin matter. Equal rows are distinguished
# by the number of equal rows of smaller weight or before them, so they are interchangeable.
in_own_order <- function(data, runs = column_runs(data$x)) {
  ranks <- vapply(seq_len(data$d), \(k) match(data$x[, k], runs[[k]]$values) + 0, numeric(nrow(data$x)))
  keys <- row_keys(matrix(ranks, nrow(data$x)))
  if (!is.null(data$discrete)) keys <- row_keys(cbind(keys, data$discrete$codes))
  sample_of(data, order(told_apart(keys, data$weights)))
}

# The sorted numbers of each column, as rle() has them.
column_runs <- function(x) {
  lapply(seq_len(ncol(x)), \(k) {
    sorted <- sort.int(x[, k], method = "radix")
    n <- length(sorted)
    last <- c(which(sorted[-1] != sorted[-n]), n)
    list(lengths = diff(c(0L, last)), values = sorted[last])
  })
}

sample_of <- function(data, rows) {
  data$x <- data$x[rows, , drop = FALSE]
  data$weights <- data$weights[rows]
  data$row_weights <- judge_weights(data$weights)
  data$n <- effective_size(data$weights, nrow(data$x))
  data$source <- data$source[rows]
  data$discrete <- discrete_rows(data$discrete, rows)
  data$log_floor <- data$log_floor[rows]
  data
}

# ---- ties -------------------------------------------------------------------------------------

# The width of the rounding: the numbers are multiples of it, up to a shift. NA if they are not, or if few are repeated.
# `runs`: rle() of the sorted numbers.
lattice_width <- function(runs) {
  grain <- column_grain(runs)
  if (grain == 0) return(NA_real_)
  steps <- diff(runs$values) / grain
  off <- abs(steps - round(steps)) > 0.02 | steps < 0.5
  if (mean(off) > 0.01) NA_real_ else grain
}

# How close values of a column come that repeats them; 0: it does not, or has one value alone.
column_grain <- function(runs) {
  if (length(runs$values) == 1 || length(runs$values) >= 0.9 * sum(runs$lengths)) return(0)
  steps <- sort(diff(runs$values))
  steps[ceiling(0.05 * length(steps) - 1e-9)]
}

# Merges copies of rows, as in a bootstrap sample, into one row with their total weight. Rows that are equal because of
# rounding are not merged.
merge_copies <- function(data, runs) {
  levels <- data$discrete$codes
  keys <- row_keys(cbind(data$x, levels))
  if (!anyDuplicated(keys)) return(data)
  equal <- equal_pairs(keys)
  grains <- vapply(runs, column_grain, 0)
  coarser <- \(by) equal_pairs(row_keys(cbind(levels, vapply(seq_len(data$d), \(k) {
    if (grains[k] == 0) return(data$x[, k])
    floor((data$x[, k] - min(data$x[, k])) / (by * grains[k]) + 0.5 / by)
  }, numeric(nrow(data$x))))))
  if (rounded_pairs(equal, coarser(2), coarser(4), nrow(data$x)) >= equal / 2) return(data)
  group <- match(keys, keys)
  first <- which(group == seq_along(group))
  totals <- rowsum(if (is.null(data$weights)) rep(1, length(keys)) else data$weights, group)[, 1]
  data$weights <- unname(totals)[order(as.integer(names(totals)))]
  merged <- sample_of(replace(data, "weights", list(NULL)), first)
  merged$weights <- if (any(data$weights != data$weights[1])) relative_to_largest(data$weights)
  merged$n <- effective_size(merged$weights, length(first))
  merged
}

# How many of the equal pairs of n rows rounding has made, by those there are after rounding twice and four times as
# wide: copies stay, and the others grow by one factor each time, which the two tell; twofold at least, as in one
# column. All of them where so many are equal that nothing can be told.
rounded_pairs <- function(equal, twice, four_times, n) {
  if (four_times > 0.1 * n * (n - 1)) return(equal)
  growth <- max(2, (four_times - equal) / max(1, twice - equal) - 1)
  min(equal, (four_times - equal) / (growth^2 - 1))
}

equal_pairs <- function(keys) {
  lengths <- rle(sort(keys))$lengths
  sum(lengths * (lengths - 1)) / 2
}

# Spreads equal numbers: those of a lattice over its width, others over about half the width of an interval that holds
# as many other numbers.
spread_column <- function(column, runs, width, k) {
  if (!is.na(width)) return(column + width * row_noise(length(column), k))
  if (all(runs$lengths == 1)) return(column)
  order <- order(column)
  sorted <- column[order]
  n <- length(sorted)
  last <- cumsum(runs$lengths)
  first <- last - runs$lengths + 1
  below <- sorted[ifelse(first > runs$lengths, first - runs$lengths, NA_integer_)]
  above <- sorted[ifelse(last + runs$lengths <= n, last + runs$lengths, NA_integer_)]
  widest <- pmax(runs$values - sorted[1], sorted[n] - runs$values)
  reach <- pmin(runs$values - below, above - runs$values, widest, na.rm = TRUE)
  reach[runs$lengths == 1] <- 0
  column[order] <- sorted + rep(reach, runs$lengths) * row_noise(n, k)[order]
  column
}

# n pseudo-random numbers in [-1/2, 1/2) for column k, the same at each call.
row_noise <- function(n, k) row_keys(cbind(as.double(seq_len(n)), k)) - 0.5

# Makes a data frame of columns in a tenth of the time of list2DF().
as_table <- function(columns) {
  attr(columns, "row.names") <- .set_row_names(length(columns[[1]]))
  class(columns) <- "data.frame"
  columns
}

# A spike: a value that more than 2% of the rows have, and ten times as many rows as other values.
describe_columns <- function(runs, names) {
  n <- sum(runs[[1]]$lengths)
  most <- vapply(runs, \(own) which.max(own$lengths), 0L)
  columns <- as_table(list(
    column = if (!is.null(names)) names else if (length(runs) == 1) "x" else paste0("x", seq_along(runs)),
    distinct = vapply(runs, \(own) length(own$values), 0L), width = vapply(runs, lattice_width, 0),
    value = mapply(\(own, at) own$values[at], runs, most), share = mapply(\(own, at) own$lengths[at] / n, runs, most)
  ))
  columns$spike <- columns$share > 0.02 & columns$share * columns$distinct > 10
  columns$few <- columns$distinct < min(20, n / 4)
  columns
}

# ---- weights and spread ------------------------------------------------------------------------

# Weights of the rows in the criterion, with sum 1. A weight is at most ten times the median, so that no single row
# determines the bandwidth. As centres of kernels rows keep their weights.
judge_weights <- function(weights) {
  if (is.null(weights)) return(NULL)
  judges <- pmin(weights, 10 * stats::median(weights))
  judges / sum(judges)
}

# A bandwidth is kept as a matrix of variances.
check_units <- function(units, names, arg) {
  outside <- which(units < LEAST_UNIT | units > 1 / LEAST_UNIT)
  if (length(outside) == 0) return(units)
  stop_argument(
    arg, "must have columns whose spread is between ", LEAST_UNIT, " and ", 1 / LEAST_UNIT,
    ": found ", format(units[outside[1]], digits = 3), " in column ",
    quote_names(column_label(names, outside[1])), " (rescale it)"
  )
}

# Least spread of a column. Kernels may be a thousand times as narrow.
LEAST_UNIT <- 1e-150

# A column for each.
column_quantiles <- function(data) {
  at <- c(0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
  vapply(seq_len(data$d), \(k) weighted_quantile(data$x[, k], data$weights, at), at)
}

# Robust spread: min(standard deviation, IQR / 1.34). If the quartiles are too close together, as in a column with
# spikes, wider quantiles are used, or else the standard deviation.
column_scales <- function(data, quantiles = column_quantiles(data)) {
  sds <- unname(weighted_sds(data$x, data$weights))
  spreads <- (quantiles[7:5, , drop = FALSE] - quantiles[1:3, , drop = FALSE]) / c(4.65, 3.29, 1.34)
  narrow <- spreads[3, ] <= 0.1 * sds
  scales <- pmin(sds, spreads[3, ])
  for (k in which(narrow)) scales[k] <- c(spreads[2:1, k][spreads[2:1, k] > 0], sds[k])[1]
  scales
}
