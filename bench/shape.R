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
