# Fast sums of the Cauchy and the inverse multiquadric kernel: checks that every sum is within its tolerance, and
# compares the speed with the exact engine. One thread.
# --quick: a tenth of the points.

source("bench/common.R")
bench_start("fast_kernels.R", "Fast sums of kernels that are sums of Gaussians")

options(width = 160)
quick <- "--quick" %in% arguments
sizes <- c(2e5, 1e6) / if (quick) 10 else 1 # the first is summed exactly, too
tolerances <- c(1e-3, 1e-6, 1e-9)

sums_of <- function(x, y, kernel, range, ...) {
  kernel_sum(x, y, bandwidth = 1 / range, kernel = kernel, control = flash_control(backend = "cpu", threads = 1), ...)
}

# Least of three runs, as other programs can only add to the time: seconds, and the result.
timed <- function(task) {
  seconds <- Inf
  for (i in 1:3) seconds <- min(seconds, elapsed(\() result <<- task()))
  list(seconds = seconds, result = result)
}
result <- NULL

exact_seconds <- function(n, d, kernel) {
  set.seed(1)
  x <- matrix(stats::runif(n * d), n)
  elapsed(\() sums_of(x, NULL, kernel, 30, engine = "exact", precision = "double"))
}

# The largest error on some rows, in units of the tolerance
measure <- function(n, d, kernel, range) {
  set.seed(1)
  x <- matrix(stats::runif(n * d), n)
  rows <- sample.int(n, 200)
  exact <- sums_of(x, x[rows, , drop = FALSE], kernel, range, engine = "exact", precision = "double")
  row <- data.frame(kernel = kernel, d = d, n = n, `range/h` = range, check.names = FALSE)
  for (tol in tolerances) {
    run <- timed(\() sums_of(x, NULL, kernel, range, engine = "fast", tol = tol))
    error <- max(abs(run$result[rows] - exact)) / max(exact)
    row[[paste(tol, "s")]] <- sprintf("%.3f", run$seconds)
    row[[paste(tol, "error/tol")]] <- sprintf("%.3f", error / tol)
  }
  row
}

for (d in 1:3) {
  table <- NULL
  for (kernel in c("cauchy", "imq")) {
    exact <- exact_seconds(sizes[1], d, kernel)
    cat(sprintf("%s, d = %d, n = m = %.0f: exact %.2f s\n", kernel, d, sizes[1], exact))
    for (range in c(5, 30, 300)) for (n in sizes) table <- rbind(table, measure(n, d, kernel, range))
  }
  cat("\n")
  show_table(table)
}
load <- tryCatch(sub(" .*", "", readLines("/proc/loadavg", warn = FALSE)), error = function(e) "unknown")
cat("load of the machine, last minute: ", load, "\n", sep = "")
