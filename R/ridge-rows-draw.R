# Random draws of rows. They depend on the rows and a seed, not on the order of the rows: places in the order of keys,
# which are computed from the numbers of a row, are drawn. Rows in chunks, sparse rows and rows on workers keep their order.

# `rows` with the `order` of their keys. Equal rows are interchangeable.
with_row_order <- function(rows, response) {
  if (!inherits(rows, "rows_dense") || is_column(response$y)) return(rows)
  keys <- row_keys(rows$points)
  rows$order <- order(row_keys(cbind(keys, response$y)), method = "radix")
  rows
}

# `number` rows without replacement, in the order of the draw, with probabilities proportional to `weights` (n numbers;
# NULL: equal): those with the smallest exponential waiting times.
draw_places <- function(rows, number, weights = NULL) {
  order <- rows$order
  if (is.null(weights)) {
    places <- sample.int(rows$n, number)
    return(if (is.null(order)) places else order[places])
  }
  if (is.null(order)) order <- seq_len(rows$n)
  order <- order[weights[order] > 0]
  order[draw_by(weights[order], number)]
}

# Draws `number` indices without replacement, with the distribution of successive draws with probabilities p: the
# smallest of exponential waiting times.
draw_by <- function(p, number) order(stats::rexp(length(p)) / p)[seq_len(number)]
