# Seconds of derivatives, modes, clusters, ridges and probabilities of rectangles: five groups in two dimensions,
# exactly and to a tolerance; user time of all threads.
#
#   Rscript bench/shape.R [--large]        --large: 10^6 points, only the computations of linear time

source("bench/common.R")
bench_start("shape.R", "Derivatives, modes, ridges and rectangles: seconds of user time")

CENTRES <- cbind(c(0, 3, -3, 2, -2), c(0, 3, 2, -3, -4))

fit_of <- function(n, R = diag(2), ...) {
  set.seed(1)
  x <- CENTRES[sample(5, n, TRUE), ] + matrix(stats::rnorm(2 * n, sd = 0.8), n)
  flash_kde(x, "kde", bandwidth = 0.81 * n^(-1 / 3) * R, ...)
}


row_of <- function(n) {
  exact <- fit_of(n)
  fast <- fit_of(n, tol = 1e-4)
  small <- n <= 1e5
  at <- exact$x[seq_len(1000), ]
  c(
    n = n,
    `Hessians at 1,000` = cpu_seconds(kde_derivative(exact, at, order = 2)),
    `modes, tol` = cpu_seconds(kde_modes(fast)),
    `clusters, tol` = cpu_seconds(mean_shift(fast)),
    `clusters, exact` = if (n <= 1e4) cpu_seconds(mean_shift(exact)) else NA,
    ridges = if (small) cpu_seconds(kde_ridges(exact)) else NA,
    `1,000 rectangles` = cpu_seconds(kde_cdf(exact, at)),
    correlated = if (small) cpu_seconds(kde_cdf(fit_of(n, matrix(c(1, 0.5, 0.5, 1), 2)), at)) else NA
  )
}
rows <- if ("--large" %in% arguments) 1e6 else c(1e4, 1e5)
show_table(as.data.frame(do.call(rbind, lapply(rows, row_of)), check.names = FALSE))

# Orthants of one kernel whose correlations are all 1/2 have probability 1 / (d + 1). Points of correlated columns, and a polygon.
orthant <- function(d) {
  fit <- flash_kde(matrix(0, 1, d), "kde", bandwidth = diag(0.5, d) + 0.5)
  abs(kde_cdf(fit, matrix(0, 1, d)) * (d + 1) - 1)
}
of_columns <- function(x) {
  fit <- flash_kde(x, "kde", bandwidth = stats::cov(x) * nrow(x)^(-2 / (ncol(x) + 4)), adaptive = FALSE)
  seconds <- cpu_seconds(found <- kde_cdf(fit, x))
  data.frame(columns = ncol(x), rows = nrow(x), seconds = seconds, sampled = !is.null(attr(found, "error")), orthant = orthant(ncol(x)))
}
sets <- list(iris[1:3], iris[1:4], attitude[1:5], swiss, mtcars[1:7])
show_table(do.call(rbind, lapply(sets, \(x) of_columns(as.matrix(x)))))
set.seed(1)
x <- matrix(stats::runif(600, 0, 2), ncol = 2)
corner <- rbind(c(0, 0), c(2, 0), c(2, 1), c(1, 1), c(1, 2), c(0, 2))
inside <- flash_kde(x[x[, 1] < 1 | x[, 2] < 1, ][1:150, ], support = corner)
show_table(data.frame(
  `bands, polygon` = cpu_seconds(kde_bands(inside)), simultaneous = cpu_seconds(kde_bands(inside, type = "simultaneous")),
  quantiles = cpu_seconds(quantile(inside)), check.names = FALSE
))
