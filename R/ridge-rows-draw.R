# Random draws of rows: those with the smallest waiting times, which are computed from the rows and the state of R's
# generator. Rows in memory and on workers are drawn alike, in any order of the rows. Rows in chunks and sparse rows are
# drawn by their numbers.

# Rows in memory with a function that returns the keys of their draws, computed when they are needed. Rows with equal
# points have the order of their responses.
with_row_keys <- function(rows, response, run) {
  if (!inherits(rows, "rows_dense")) return(rows)
  keys <- NULL
  replace(rows, "keys", list(function() {
    if (is.null(keys)) keys <<- told_apart(row_keys(rows$points, run), as.vector(response$y[, 1]), run)
    keys
  }))
}

# The numbers of `number` rows without replacement, in the order of the draw, with probabilities proportional to
# `weights` (NULL: equal).
draw_places <- function(rows, number, weights = NULL) {
  if (inherits(rows, "rows_data")) return(draw_from_data(rows$data, weights, number))
  if (is.null(rows$keys)) {
    return(if (is.null(weights)) sample.int(rows$n, number) else draw_by(weights, number))
  }
  smallest(waiting_times(rows$keys(), draw_number(), weights), number)
}

# Draws `number` indices without replacement, with the distribution of successive draws with probabilities p.
draw_by <- function(p, number) smallest(stats::rexp(length(p)) / p, number)
