# Densities with compact product kernels in several dimensions, compared with exact Gaussian sums and, if it is
# installed, np::npudens().
#
#   Rscript bench/kernels_cubes.R [n]
#
# Prints processor seconds of all threads, which other work on the machine affects little, for densities at the points,
# scores and leave-one-out values; the share of the pairs that are evaluated, and millions of these per second. np gets
# 10,000 points.

source("bench/common.R")
given <- as.numeric(arguments)
n <- if (length(given) > 0) given[1] else 1e5
kernels <- c("epanechnikov", "biweight", "triweight", "triangular", "uniform")

show <- \(what, ...) cat(sprintf("%-28s", what), sprintf("%9.3g", c(...)), "\n")
seconds <- \(task) cpu_seconds(task())

for (d in c(2, 3, 5)) {
  set.seed(d)
  x <- matrix(rnorm(n * d), n)
  sds <- rep(n^(-1 / (d + 4)), d)
  cat(sprintf("\nn = m = %d, d = %d\n%-28s %9s %9s %9s %9s %9s\n", n, d, "", "predict", "score", "loo", "share", "1e6/s"))
  gaussian <- flash_kde(x, "kde", bandwidth = sds, adaptive = FALSE, control = flash_control(engine = "exact"))
  show("gaussian, exact", seconds(\() predict(gaussian)), NA, NA, NA, NA)
  for (kernel in kernels) {
    fit <- flash_kde(x, bandwidth = sds, kernel = kernel, adaptive = FALSE)
    time <- seconds(\() at_points <<- predict(fit))
    sources <- flashkernel:::fit_sources(unclass(fit))
    stats <- flashkernel:::cube_sums(sources, NULL, FALSE, flashkernel:::fit_control(fit))$stats
    pairs <- stats$pairs - stats$skipped
    score <- seconds(\() predict(fit, type = "score"))
    left_out <- seconds(\() predict(fit, loo = TRUE))
    show(kernel, time, score, left_out, pairs / stats$pairs, pairs / time / 1e6)
  }
}

if (requireNamespace("np", quietly = TRUE)) {
  options(np.messages = FALSE)
  suppressMessages(library(np))
  rows <- seq_len(min(n, 1e4))
  points <- data.frame(x[rows, 1:2])
  fit <- flash_kde(unname(as.matrix(points)), bandwidth = c(0.2, 0.2), kernel = "epanechnikov", adaptive = FALSE)
  ours <- seconds(\() at_points <<- predict(fit))
  bandwidth <- npudensbw(dat = points, bws = c(0.2, 0.2), bandwidth.compute = FALSE, ckertype = "epanechnikov")
  theirs <- seconds(\() of_np <<- fitted(npudens(bws = bandwidth, tdat = points)))
  cat(sprintf(
    "\n%d points, d = 2: %.3g s, np::npudens() %.3g s, apart by %.1e\n", length(rows), ours, theirs,
    max(abs(of_np / at_points - 1))
  ))
}
