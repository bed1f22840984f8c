# Sums to a tolerance on one GPU, in linear time: F3M's setting (uniform points, coefficients N(0, 1), the kernel
# exp(-r^2 / 2), with EV the variance of each coordinate over the kernel's) and other tasks of the grid.
#
#   Rscript bench/gpu-fast.R [--quick] [--large] [--save] [d=1 ...]     --quick: 10^6 points; --large: only 10^9
#
# device: milliseconds by events, with points on the device, including the sort, to results in the caller's order. wall:
# from R's matrices to R's vector, for points that the device has not seen. copy, pinned: copying the same bytes to the
# device and the sums back with PyTorch (gpu_copy.py), from pageable and from pinned memory. GB: device memory that the
# package may use. error: relative L2 on 500 rows against the exact engine in double precision. F3M: its own code on the
# same kind of GPU, measured earlier (seconds; relative error 4e-4 to 2e-3); paper/fast-sums.R --f3m measures it again.

source("bench/gpu-common.R")
gpu_start("gpu-fast.R", "Sums to a tolerance on one GPU")

cases <- utils::read.table(header = TRUE, text = "
  d     n   ev   tol    kernel  f3m  GB
  3   1e6    1  1e-5  gaussian 0.06  NA
  3   1e8  0.1  1e-5  gaussian 10.4  NA
  3   1e8    1  1e-5  gaussian 10.4  NA
  3   1e8   10  1e-5  gaussian  6.0  NA
  3   1e8   10  1e-9  gaussian   NA  NA
  2   1e8    1  1e-5  gaussian  5.6  NA
  1   1e8    1  1e-5  gaussian  1.8  NA
  5   1e8 2.08  1e-5  gaussian   NA  NA
  3   1e8    1  1e-5  gaussian 10.4   2
  3   1e8    1  1e-5    cauchy   NA  NA
  3   1e9  0.1  1e-5  gaussian   NA  NA
  3   1e9    1  1e-5  gaussian   NA  NA
  3   1e9   10  1e-5  gaussian  111  NA
  2   1e9    1  1e-5  gaussian 64.7  NA
  1   1e9    1  1e-5  gaussian 18.2  NA
")
most <- if ("--large" %in% arguments) 1e9 else if ("--quick" %in% arguments) 1e6 else 1e8
cases <- cases[cases$n <= most & (most < 1e9 | cases$n == most), ]
of <- as.numeric(sub("^d=", "", grep("^d=", arguments, value = TRUE))) # dimensions
if (length(of) > 0) cases <- cases[cases$d %in% of, ]

# Different numbers from few random ones: 3e9 of them would take minutes.
set.seed(1)
uniform <- stats::runif(1000003)
normal <- stats::rnorm(999983)

# Seconds of the copies alone, formatted; "-" where there is no PyTorch.
copy_seconds <- function(to, from) {
  script <- "bench/gpu_copy.py"
  said <- suppressWarnings(system2("python3", c(script, to, from), stdout = TRUE, stderr = FALSE))
  seconds <- suppressWarnings(as.numeric(strsplit(c(said, "")[1], " ")[[1]]))
  if (length(seconds) == 2 && !anyNA(seconds)) sprintf("%.2f", seconds) else c("-", "-")
}

measure <- function(case) {
  # a device that seems to have no more memory: points go to it by chunks
  if (!is.na(case$GB)) Sys.setenv(FLASHKERNEL_CUDA_MEMORY = 1e9 * case$GB)
  on.exit(Sys.unsetenv("FLASHKERNEL_CUDA_MEMORY"))
  n <- case$n
  range <- sqrt(12 * case$ev)
  x <- rep_len(uniform * range, n * case$d)
  dim(x) <- c(n, case$d)
  b <- rep_len(normal, n)
  once <- function() {
    if (once_more) x[1] <<- x[1] + 1e-9
    sums <- NULL
    wall <- elapsed(\() sums <<- kernel_sum(
      x, b = b, bandwidth = 1, kernel = case$kernel, tol = case$tol,
      control = flash_control(engine = "fast", backend = "cuda", precision = if (case$tol < 1e-5) "double" else "single")
    ))
    list(wall = wall, sums = sums)
  }
  once_more <- n <= 1e8 # else the second copy of the points would not fit
  runs <- lapply(seq_len(1 + once_more), \(i) once())
  last <- runs[[length(runs)]]
  record <- diagnostics(last$sums)
  Sys.unsetenv("FLASHKERNEL_CUDA_MEMORY")
  rows <- round(seq(1, n, length.out = 500))
  exact <- kernel_sum(
    x, x[rows, , drop = FALSE], b, 1, case$kernel,
    control = flash_control(engine = "exact", backend = "cuda", precision = "double")
  )
  copied <- copy_seconds(8 * n * (case$d + 1), 8 * n)
  error <- sqrt(sum((last$sums[rows] - exact)^2) / sum(exact^2))
  data.frame(
    d = case$d, n = format(n), EV = case$ev, kernel = case$kernel, GB = ifelse(is.na(case$GB), "all", case$GB), tol = case$tol, method = record$method, precision = record$precision,
    `device, ms` = format_ms(record$device_seconds), `wall, s` = sprintf("%.2f", last$wall),
    `copy, s` = copied[1], `pinned, s` = copied[2], `relative L2` = format_error(error),
    achieved = format_error(record$tol_achieved), `F3M, s` = ifelse(is.na(case$f3m), "-", format(case$f3m)),
    check.names = FALSE
  )
}

kernel_sum(
  matrix(uniform[1:3000], ncol = 3), bandwidth = 1, tol = 1e-5,
  control = flash_control(engine = "fast", backend = "cuda")
) |> invisible()
for (i in seq_len(nrow(cases))) show_table(measure(cases[i, ]))
