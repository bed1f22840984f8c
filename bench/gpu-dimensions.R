# Pairs per second on one GPU by dimension, compared with the limits of its units.
#
#   Rscript bench/gpu-dimensions.R [--quick] [--save]     --quick: four dimensions only
#
# The bound of a pair is the time of the unit that would be busy longest on its own (rates in gpu-common.R). No program
# with this arithmetic can be faster, and the units overlap only in part. Single precision: one exponential, three
# products of FP16 terms (hi hi + hi lo + lo hi), and two more (hi, lo of the values) for a score, padded to the 16 and
# 8 of the tensor cores. Double precision: 2^t takes nine instructions (exp2.cuh) on the FMA units. Tensor cores (d > 4,
# products padded to 8) compute a product in half the time, but share those units: their times add up.
#
# The bandwidth keeps most pairs within a few kernel standard deviations at any d: no pair may be skipped for being far
# away, and no row underflows and has to be recomputed ("tail rows").

source("bench/gpu-common.R")
gpu_start("gpu-dimensions.R", "Pairs per second on one GPU by dimension")

dimensions <- c(1, 2, 3, 4, 8, 17, 32, 64, 128, 784, 1024)
if ("--quick" %in% arguments) dimensions <- c(2, 8, 32, 784)

# Different points of any number, from few random numbers: 20 million of them would take longer than the sums.
many_points <- function(n, d, seed) {
  set.seed(seed)
  matrix(rep_len(stats::rnorm(1000003), n * d), n, d)
}

measure <- function(d, task, precision) {
  bound <- unit_bounds(d, task, precision)
  # 10 ms at the bound; at most 160 MB of points
  n <- 1024 * max(1, floor(min(sqrt(0.01 * min(bound)), 2e7 / d) / 1024))
  x <- many_points(n, d, 1)
  y <- many_points(n, d, 2)
  fit <- flash_kde(x, "kde", bandwidth = sqrt(d / 8), control = flash_control(backend = "cuda", precision = precision))
  control <- flashkernel:::fit_control(fit)
  run <- if (task == "density") \() log_density(fit, y)$stats else \() {
    sources <- flashkernel:::fit_sources(fit)
    names <- flashkernel:::point_names(fit)
    flashkernel:::score_sum(sources, y, flashkernel:::fit_polynomial(fit), FALSE, names, control)$stats
  }
  run()
  stats <- lapply(1:3, \(i) run())
  seconds <- stats::median(vapply(stats, device_seconds, 0))
  rate <- n^2 / seconds
  data.frame(
    d = d, n = format_count(n), method = stats[[1]]$method, `device, ms` = format_ms(seconds), `pairs per second` = format_rate(rate),
    bound = format_rate(min(bound)), `bound by` = names(which.min(bound)),
    `of the bound` = sprintf("%.2f", rate / min(bound)), `tail rows` = stats[[1]]$tail_rows, check.names = FALSE
  )
}

for (precision in c("single", "double")) {
  for (task in c("density", "score")) {
    cat(task, ", ", precision, " precision, n = m\n", sep = "")
    show_table(do.call(rbind, lapply(dimensions, measure, task, precision)))
  }
}
