# Rows drawn at random without R's generator. For rows in memory the random numbers are computed from the numbers of each
# row, so that the rows drawn depend neither on the order of the rows nor on earlier calls.

# Indices of at most `number` rows of positive weight, in random order, drawn without replacement with probabilities
# proportional to their weights: the rows with the smallest exponential waiting times. `y`: numbers of the rows, n x t,
# which distinguish rows with equal x, or NULL.
draw_index <- function(rows, number, weights = NULL, y = NULL) {
  if (is_column(weights)) return(with_fixed_seed(draw_from_column(weights, min(number, sum(weights > 0)))))
  number <- min(number, if (is.null(weights)) rows$n else sum(weights > 0))
  waiting <- row_numbers(rows, y)
  if (is.null(waiting) && is.null(weights)) return(with_fixed_seed(sample.int(rows$n, number)))
  if (is.null(waiting)) waiting <- with_fixed_seed(stats::runif(rows$n))
  if (!is.null(weights)) waiting <- ifelse(weights > 0, -log1p(-waiting) / weights, Inf)
  if (number < rows$n) {
    first <- which(waiting <= sort(waiting, partial = number)[number])
    first[order(waiting[first])][seq_len(number)]
  } else {
    order(waiting)
  }
}

# A number in [0, 1) for each row, or NULL for rows that are not in memory as doubles.
row_numbers <- function(rows, y) {
  if (!inherits(rows, "rows_dense") || !is.double(rows$points) || is_column(y)) return(NULL)
  keys <- row_keys(rows$points)
  if (is.null(y)) keys else row_keys(cbind(keys, y))
}
