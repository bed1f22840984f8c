# Leave-one-out log densities of an SD-KDE at all points, on one GPU: in single precision, on tensor cores, and in
# double precision. Seconds from R's matrices to R's vector; then those on the device of the means, of which each source's is
# known with all points, and of the sums. The errors are those of log densities.
#
#   Rscript bench/gpu-loo.R [--quick]            --quick: without n = 2^20

source("bench/gpu-common.R")
gpu_start("gpu-loo.R", "Leave-one-out log densities of an SD-KDE on one GPU")

cases <- data.frame(n = c(2^17, 2^17, 2^17, 2^17, 2^20), d = c(1, 2, 8, 16, 16))
if ("--quick" %in% commandArgs(TRUE)) cases <- cases[cases$n < 2^20, ]
internal <- asNamespace("flashkernel")

# The two stages, as debiased_loo_sum() has them for points of equal weight.
left_out <- function(x, h, precision) {
  control <- internal$run_control(internal$settle_control(flash_control("cuda", precision)))
  sources <- internal$sum_sources(renew(x), NULL, diag(sqrt(0.5) * h, ncol(x)))
  seconds <- system.time({
    known <- internal$score_means(sources, control)
    sums <- internal$debiased_loo_at(sources, diag(h, ncol(x)), known[c("means", "log_mass")], NULL, control)
  })[["elapsed"]]
  list(
    seconds = seconds, log_sum = sums$log_sum, means = known$stats$device_seconds, sums = sums$stats$device_seconds,
    method = sums$stats$method
  )
}

invisible(left_out(normal_points(4096, 2), 0.5, "single")) # starts CUDA
rows <- lapply(seq_len(nrow(cases)), function(i) {
  h <- common_bandwidth(cases$n[i], cases$d[i])
  x <- normal_points(cases$n[i], cases$d[i], i)
  single <- lapply(1:3, \(run) left_out(x, h, "single"))
  double <- left_out(x, h, "double")
  seconds <- stats::median(vapply(single, `[[`, 0, "seconds"))
  error <- abs(single[[3]]$log_sum - double$log_sum)
  data.frame(
    n = cases$n[i], d = cases$d[i], h = sprintf("%.3f", h), single = sprintf("%.3f", seconds),
    means = sprintf("%.3f", single[[3]]$means), sums = sprintf("%.3f", single[[3]]$sums),
    method = single[[3]]$method, double = sprintf("%.3f", double$seconds),
    times = sprintf("%.1f", double$seconds / seconds),
    largest = format_error(max(error)), median = format_error(stats::median(error))
  )
})
show_table(do.call(rbind, rows))
