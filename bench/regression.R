# kernel_regression() compared with a literal loop of local least squares, and at 10^6 rows, exactly or to a tolerance.
#
#   Rscript bench/regression.R [--quick] [--save]
#
# Fits, leave-one-out fits and leverages at all rows with a given bandwidth. The loop solves one weighted least squares
# problem at every tenth row; its seconds are multiplied by ten. np::npreg, if it is installed, gets the same bandwidth.
# In one column a tolerance changes nothing, because fits are computed by boxes. Seconds are processor time, two
# threads. "choice": seconds of the choice of bandwidths. --quick: 10^5 rows to a tolerance.

source("bench/common.R")
bench_start("regression.R", "Kernel regression")
options(flashkernel.threads = 2)
# R compiles functions when they run for the second time
for (i in 1:3) invisible(kernel_regression(cars$speed, cars$dist, bandwidth = 1))

simulated <- function(n, d) {
  set.seed(1)
  x <- matrix(stats::rnorm(n * d), n, dimnames = list(NULL, paste0("x", seq_len(d))))
  list(x = x, y = sin(3 * x[, 1]) + rowSums(x) + stats::rnorm(n, sd = 0.3), h = 0.8 * n^(-1 / (d + 4)))
}

# Of all processors together: other programs on the machine do not change them much.

literal <- function(x, y, h, rows) {
  vapply(rows, \(i) {
    u <- (x - rep(x[i, ], each = nrow(x))) / h
    stats::lm.wfit(cbind(1, u), y, exp(-rowSums(u^2) / 2))$coefficients[[1]]
  }, 0)
}

cat("10,000 rows, exact\n")
for (d in c(1, 3)) {
  data <- simulated(1e4, d)
  own <- min(vapply(1:3, \(i) cpu_seconds(fit <<- kernel_regression(data$x, data$y, bandwidth = data$h)), 0))
  rows <- seq(1, 1e4, by = 10)
  loop <- 10 * cpu_seconds(fitted <- literal(data$x, data$y, data$h, rows))
  choice <- cpu_seconds(kernel_regression(data$x, data$y)) - own
  cat(sprintf(
    "  d = %d: %.3f s, a loop %.0f s (%.0f times), largest difference %.1e; choice %.1f s\n",
    d, own, loop, loop / own, max(abs(fitted - fit$fitted[rows])), choice
  ))
  # its functions find each other only where it is attached
  if (suppressPackageStartupMessages(require("np", quietly = TRUE))) {
    options(np.messages = FALSE)
    peer <- cpu_seconds(np <- np::npreg(
      txdat = as.data.frame(data$x), tydat = data$y, bws = rep(data$h, d), regtype = "ll", bandwidth.compute = FALSE
    ))
    cat(sprintf("         np::npreg %.1f s, largest difference %.1e\n", peer, max(abs(np$mean - fit$fitted))))
  }
}

n <- if ("--quick" %in% arguments) 1e5 else 1e6
cat(format(n, big.mark = ",", scientific = FALSE), "rows, tol = 1e-6\n")
for (d in 1:2) {
  data <- simulated(n, d)
  own <- cpu_seconds(fit <- kernel_regression(data$x, data$y, bandwidth = data$h, tol = 1e-6))
  errors <- cpu_seconds(predict(fit, se.fit = TRUE))
  rows <- order(rowSums(data$x^2))[round(seq(1, 0.9999 * n, length.out = 10))]
  largest <- max(abs(literal(data$x, data$y, data$h, rows) - fit$fitted[rows]))
  cat(sprintf(
    "  d = %d: %.1f s, with standard errors %.1f s more; largest of ten differences %.1e\n", d, own, errors, largest
  ))
}
