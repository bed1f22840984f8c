# Points of several kinds, and errors of sums to a tolerance: for fast.R and bench/paper; sourced after common.R.

# The widest side is 1, so that range/h is 1 / bandwidth.
points_of <- function(kind, n, d, seed = 1) {
  set.seed(seed)
  x <- switch(kind,
    uniform = matrix(stats::runif(n * d), n, d),
    normal = matrix(stats::rnorm(n * d), n, d),
    clustered = {
      cluster <- sample.int(20, n, replace = TRUE)
      centres <- matrix(stats::runif(20 * d), 20, d)
      spreads <- stats::runif(20, 1 / 200, 1 / 40)
      centres[cluster, , drop = FALSE] + spreads[cluster] * matrix(stats::rnorm(n * d), n, d)
    },
    Brownian = apply(matrix(stats::rnorm(n * d), n, d), 2, cumsum)
  )
  if (kind == "uniform") return(x)
  x / max(apply(x, 2, \(column) diff(range(column))))
}

# Exact sums in double at some rows, the largest sum of absolute terms, and the seconds that all rows would take.
exactly <- function(x, b, h, rows, backend = "cpu") {
  picked <- x[rows, , drop = FALSE]
  seconds <- elapsed(\() sums <<- kernel_sum(
    x, picked, cbind(b, abs(b)), h,
    control = flash_control(engine = "exact", precision = "double", backend = backend)
  ))
  list(rows = rows, sums = sums[, 1], largest = max(sums[, 2]), seconds = seconds * nrow(x) / length(rows))
}
error_of <- function(result, truth) max(abs(result[truth$rows] - truth$sums)) / truth$largest
