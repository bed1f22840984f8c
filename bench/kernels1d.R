# Densities with compact kernels in one dimension, compared with stats::density(), which bins the points and transforms,
# with FKSUM if it is installed, and with a literal loop in R.
#
#   Rscript bench/kernels1d.R [n]
#
# Prints processor seconds of all threads, which other work on the machine affects little, and the largest relative
# error against literal sums at some points. FKSUM::fk_density() has kernels of another family and its own algorithm.

source("bench/common.R")
given <- as.numeric(arguments)
n <- if (length(given) > 0) given[1] else 1e6
with_fksum <- requireNamespace("FKSUM", quietly = TRUE)
bandwidth <- 0.1
values <- list(
  epanechnikov = \(u) 3 / 4 * (1 - u^2), biweight = \(u) 15 / 16 * (1 - u^2)^2, triweight = \(u) 35 / 32 * (1 - u^2)^3,
  triangular = \(u) 1 - abs(u), uniform = \(u) rep(1 / 2, length(u))
)
reach <- c(epanechnikov = sqrt(5), biweight = sqrt(7), triweight = 3, triangular = sqrt(6), uniform = sqrt(3))

set.seed(1)
x <- rnorm(n)
y <- rnorm(n)
few <- seq_len(20)

literal <- function(kernel, y) {
  b <- bandwidth * reach[[kernel]]
  vapply(y, \(at) {
    u <- (at - x) / b
    sum(values[[kernel]](u[abs(u) <= 1])) / b / n
  }, 0)
}

row <- function(what, times, error = NA) {
  cat(sprintf("%-28s %8.3f %8.3f %8.3f %8.3f %8.1e\n", what, times[1], times[2], times[3], times[4], error))
}
off <- function(got, want) max(abs(got / want - 1))
seconds <- \(task) cpu_seconds(task())

cat(sprintf(
  "n = m = %d; processor seconds\n%-28s %8s %8s %8s %8s %8s\n", n, "", "predict", "loo", "cdf", "quantile", "error"
))
for (kernel in names(values)) {
  fit <- flash_kde(x, bandwidth = bandwidth, kernel = kernel)
  times <- c(
    seconds(\() at_y <<- predict(fit, y)), seconds(\() predict(fit, loo = TRUE)), seconds(\() kde_cdf(fit, y)),
    seconds(\() quantile(fit, 1:99 / 100))
  )
  row(kernel, times, off(at_y[few], literal(kernel, y[few])))
}
factors <- 2^(sample(-4:4, n, replace = TRUE) / 2)
adaptive <- flash_kde(x, bandwidth = bandwidth, kernel = "epanechnikov", adaptive = factors)
row("epanechnikov, 9 widths", c(seconds(\() predict(adaptive, y)), NA, NA, NA))

# at places in a row, and from there to all others by lines
for (size in c(512, 2^17)) {
  times <- c(seconds(\() peer <<- density(x, bandwidth, kernel = "epanechnikov", n = size)), NA, NA, NA)
  at_y <- approx(peer$x, peer$y, y[few])$y
  row(sprintf("stats::density(n = %d)", size), times, off(at_y, literal("epanechnikov", y[few])))
}
if (with_fksum) {
  times <- c(seconds(\() FKSUM::fk_density(x, h = bandwidth, x_eval = y)), NA, NA, NA)
  row("FKSUM::fk_density()", times)
}
row("loop, of all targets", c(seconds(\() literal("epanechnikov", y[few])) * n / length(few), NA, NA, NA))
