# The cost of a pair for each kernel, in multiply-adds besides those of its coordinates: the numbers of the table in
# src/core/kernels.c. Computed from the time relative to the Gaussian kernel, which takes d + 11 (dimensions.R). One
# thread, exact sums.

source("bench/common.R")
bench_start("kernels.R", "Multiply-adds of a pair beside those of its coordinates")

kernels <- names(flashkernel:::kernel_table())
n <- 6000
table <- data.frame(kernel = kernels)
for (d in c(5, 8, 16)) {
  set.seed(d)
  x <- matrix(stats::rnorm(n * d), n)
  y <- matrix(stats::rnorm(n * d), n)
  sums <- lapply(stats::setNames(nm = kernels), function(kernel) {
    force(kernel)
    \() kernel_sum(
      x, y, bandwidth = 1, kernel = kernel,
      control = flash_control(engine = "exact", backend = "cpu", precision = "double", threads = 1)
    )
  })
  seconds <- medians(sums, runs = 9)
  table[[paste("d =", d)]] <- round((d + 11) * seconds / seconds[["gaussian"]] - d, 1)
}
show_table(table)
