# Keys of rows: numbers that depend on nothing but the numbers in a row, and look random.

# A number in [0, 1) for every row, the same for equal rows. `run` says how many threads compute them; NULL: one.
row_keys <- function(x, run = NULL) .Call(ffi_row_keys, x, run)

# Keys that neither the units nor the order of the columns change: of each value as a part of its column's range, by a
# step that round numbers are no multiples of.
unitless_keys <- function(x) {
  low <- apply(x, 2, min)
  parts <- (x - rep(low, each = nrow(x))) / rep(apply(x, 2, max) - low, each = nrow(x))
  parts[!is.finite(parts)] <- 0
  of_columns <- row_keys(matrix(round(parts * (2^20 / pi))))
  # sums of whole numbers are the same in any order
  row_keys(matrix(rowSums(matrix(floor(2^40 * of_columns), nrow(x)))))
}

# Equal keys become different: by the number of equal ones before them, in the order of `by` if that is given.
told_apart <- function(keys, by = NULL, run = NULL) {
  if (!.Call(ffi_any_equal, keys, run)) return(keys)
  order <- if (is.null(by)) order(keys) else order(keys, by)
  row_keys(cbind(keys, replace(numeric(length(keys)), order, sequence(rle(keys[order])$lengths))))
}

# Waiting times of a draw with probabilities proportional to `weights` (NULL: equal), exponential or in the same order.
# The rows with the smallest ones are drawn. The times depend on the keys and the number of the draw, not on the order of
# the rows.
waiting_times <- function(keys, draw, weights = NULL) {
  u <- row_keys(cbind(keys, as.double(draw)))
  if (is.null(weights)) u else -log1p(-u) / weights
}

# The indices of the `number` smallest of x, in ascending order of x.
smallest <- function(x, number) {
  among <- if (4 * number < length(x)) which(x <= sort(x, partial = number)[number]) else seq_along(x)
  among[order(x[among])][seq_len(number)]
}
