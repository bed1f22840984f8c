# Leave-one-out log densities of an SD-KDE at all points, on one GPU: in single precision, on tensor cores, and in double
# precision. Seconds from R's matrix to R's vector, of points that the device has not seen; `device`: of the last of the
# two stages, the sums themselves. The errors are those of log densities in single precision.
#
#   Rscript bench/gpu-loo.R [--quick]            --quick: without n = 2^20

source("bench/gpu-common.R")
gpu_start("gpu-loo.R", "Leave-one-out log densities of an SD-KDE on one GPU")

cases <- data.frame(n = c(2^17, 2^17, 2^17, 2^17, 2^17, 2^20), d = c(1, 2, 8, 16, 32, 16))
if ("--quick" %in% commandArgs(TRUE)) cases <- cases[cases$n < 2^20, ]

left_out <- function(x, h, precision) {
  fit <- flash_kde(renew(x), "sdkde", bandwidth = h, control = flash_control("cuda", precision))
  seconds <- system.time(got <- flashkernel:::log_estimate(fit, NULL, TRUE, flashkernel:::fit_control(fit)))[["elapsed"]]
  stage <- if (is.data.frame(got$stats)) got$stats[nrow(got$stats), ] else got$stats
  list(seconds = seconds, log_abs = got$log_abs, device = stage$device_seconds, method = stage$method, tails = stage$tail_rows)
}

invisible(left_out(normal_points(4096, 2, 1), 0.5, "single")) # starts CUDA
rows <- lapply(seq_len(nrow(cases)), function(i) {
  n <- cases$n[i]
  x <- normal_points(n, cases$d[i], i)
  h <- common_bandwidth(n, cases$d[i])
  single <- lapply(1:3, \(run) left_out(x, h, "single"))
  double <- left_out(x, h, "double")
  seconds <- stats::median(vapply(single, `[[`, 0, "seconds"))
  error <- abs(single[[3]]$log_abs - double$log_abs)
  data.frame(
    n = n, d = cases$d[i], h = sprintf("%.3f", h), single = sprintf("%.3f", seconds),
    device = sprintf("%.3f", single[[3]]$device), double = sprintf("%.3f", double$seconds),
    ratio = sprintf("%.1f", double$seconds / seconds), method = single[[3]]$method,
    largest = format_error(max(error)), median = format_error(stats::median(error))
  )
})
show_table(do.call(rbind, rows))
