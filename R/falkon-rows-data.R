# Rows of falkon() that are a flash_data(): they stay on the workers. A normal product is local, m numbers for each
# output go to a worker and come back. Numbers of the rows, as a response and weights, go to the shards once and
# stay there.

data_rows_of <- function(x) {
  rows <- list(data = x, n = x$n, d = x$d, names = x$names)
  if (x$has[["response"]]) rows$y <- fetch_column(x, "response")
  if (x$has[["weights"]]) rows$weights <- fetch_column(x, "weights")
  structure(rows, class = "rows_data")
}

rows_under.rows_data <- function(rows, L, kernel) {
  rows[c("L", "kernel")] <- list(L, kernel)
  rows
}

rows_multiply.rows_data <- function(rows, centers, v, run) {
  kernel_sum_of(centers$sources, rows$data, v, run, as_matrix = TRUE)
}

rows_normal.rows_data <- function(rows, centers, v, w, weights, run, with_sums = FALSE) {
  normal_product_of(centers$sources, sum_sources(rows$data, NULL, rows$L, rows$kernel), v, w, weights, run, with_sums)
}

rows_take.rows_data <- function(rows, index) data_rows(rows$data, index)

rows_fold.rows_data <- function(rows, f, init) {
  data <- rows$data
  before <- c(0, cumsum(data$rows))
  for (shard in seq_along(data$rows)) init <- f(init, rows_of_shard(data, shard), before[shard] + 1)
  init
}
