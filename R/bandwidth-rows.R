# Factor of a variance from `rows` rows to all: optimal bandwidths fall with a power of the number of rows.
rows_ratio <- function(data, rows, estimator) (rows / data$n)^(2 / (data$d + ESTIMATORS[[estimator]]$gain))

# A bandwidth that a selector chose for so many of the rows.
for_all_rows <- function(bandwidth, data, rows, estimator) {
  ratio <- rows_ratio(data, rows, estimator)
  bandwidth[] <- plain_bandwidth(bandwidth) * if (is.matrix(bandwidth)) ratio else sqrt(ratio)
  if (!is.null(attr(bandwidth, "chosen"))) attr(bandwidth, "chosen") <- as.vector(plain_bandwidth(bandwidth))
  bandwidth
}
