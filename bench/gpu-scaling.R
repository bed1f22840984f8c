# Several GPUs of one machine compared with one: the million-point SD-KDE, and sums to a tolerance of 10^8 points
# (--large: also of 10^9). Also checks that the bits do not depend on the number of GPUs.
#
#   Rscript bench/gpu-scaling.R [--quick] [--large] [--save] [exact|fast|few]     --quick: n = 131,072, and 10^6
#
# exact, fast, few: only that part. few: exact sums of many points at 64 targets, where GPUs share the sources.

source("bench/gpu-common.R")
gpu_start("gpu-scaling.R", "Scaling with the number of GPUs")

parts <- intersect(c("exact", "fast", "few"), arguments)
if (length(parts) == 0) parts <- c("exact", "fast", "few")
n <- if ("--quick" %in% arguments) 131072 else 1048576
m <- n / 8
h <- 0.8053 * (n / 1048576)^(-1 / 20)
present <- length(gpu_info()$index)
counts <- c(1, 2, 4, 8)
counts <- counts[counts <= present]
if (present < 2) cat("one device only: nothing to compare it with\n\n")
data <- if ("exact" %in% parts) mixture_points(n, m)

# Medians, and the values, on so many devices. The first run, which sends the points to devices that do not have
# them and learns how fast each is, does not count.
measure <- function(count, precision) {
  result <- NULL
  once <- function() {
    wall <- elapsed(\() {
      fit <- flash_kde(
        data$x, "sdkde", bandwidth = h,
        control = flash_control(backend = "cuda", precision = precision, devices = seq_len(count) - 1)
      )
      result <<- list(fit = fit, at = log_density(fit, data$y))
    })
    debiasing <- device_seconds(fit_stages(result$fit))
    c(debiasing = debiasing, device = debiasing + device_seconds(result$at$stats), wall = wall)
  }
  once()
  seconds <- apply(replicate(3, once()), 1, stats::median)
  list(seconds = seconds, used = paste(result$at$stats$devices, collapse = ", "),
       values = list(result$fit$debiased, result$at$log_abs))
}

for (precision in if ("exact" %in% parts) c("single", "fast")) {
  cat(sprintf("n = %s, m = %s, d = 16, SD-KDE\n", format_count(n), format_count(m)))
  results <- lapply(counts, measure, precision)
  seconds <- vapply(results, \(result) result$seconds, numeric(3))
  speedup <- seconds[, 1] / seconds
  same <- vapply(results, \(result) identical(result$values, results[[1]]$values), NA)
  cat(precision, "precision: milliseconds, and speedup (x) over one device\n")
  show_table(data.frame(
    devices = vapply(results, \(result) result$used, ""),
    `debiasing, device` = format_ms(seconds["debiasing", ]), x = sprintf("%.2f", speedup["debiasing", ]),
    `all, device` = format_ms(seconds["device", ]), x = sprintf("%.2f", speedup["device", ]),
    `all, wall` = format_ms(seconds["wall", ]), x = sprintf("%.2f", speedup["wall", ]),
    `same bits` = ifelse(same, "yes", "NO"), check.names = FALSE
  ))
}

# Uniform points, range/h 3.5 in 3 dimensions, tol 1e-5, of few random numbers: 3e9 of them would take minutes.
measure_fast <- function(x, b, count, runs) {
  once <- function() {
    wall <- elapsed(\() sums <<- kernel_sum(
      x, b = b, bandwidth = 1, tol = 1e-5,
      control = flash_control(engine = "fast", backend = "cuda", precision = "single", devices = seq_len(count) - 1)
    ))
    c(device = diagnostics(sums)$device_seconds, wall = wall)
  }
  sums <- NULL
  seconds <- apply(replicate(runs, once()), 1, min)
  list(seconds = seconds, first = sums[seq_len(1e5)])
}

set.seed(1)
uniform <- stats::runif(1000003, 0, sqrt(12))
normal <- stats::rnorm(999983)
for (n in if ("fast" %in% parts) c(if ("--quick" %in% arguments) 1e6 else 1e8, if ("--large" %in% arguments) 1e9)) {
  x <- rep_len(uniform, 3 * n)
  dim(x) <- c(n, 3)
  b <- rep_len(normal, n)
  invisible(measure_fast(x[1:1e5, ], b[1:1e5], max(counts), 1)) # starts all devices
  results <- lapply(counts, \(count) measure_fast(x, b, count, if (n > 1e8) 1 else 3))
  seconds <- vapply(results, \(result) result$seconds, numeric(2))
  cat(sprintf("n = m = %s, d = 3, sums to 1e-5: milliseconds, and speedup (x) over one device\n", format_count(n)))
  show_table(data.frame(
    devices = counts, device = format_ms(seconds["device", ]),
    x = sprintf("%.2f", seconds["device", 1] / seconds["device", ]),
    wall = format_ms(seconds["wall", ]), x = sprintf("%.2f", seconds["wall", 1] / seconds["wall", ]),
    `same bits` = ifelse(vapply(results, \(result) identical(result$first, results[[1]]$first), NA), "yes", "NO"),
    check.names = FALSE
  ))
  rm(x, b, results)
}

# 64 targets, predicted by a fit whose points are on the devices.
if ("few" %in% parts) {
  n <- if ("--quick" %in% arguments) 1e7 else 1e8
  x <- rep_len(uniform, 3 * n)
  dim(x) <- c(n, 3)
  y <- x[1:64, ] + 0.01
  measure_few <- function(count) {
    fit <- flash_kde(x, "kde", bandwidth = 0.5, control = flash_control(backend = "cuda", precision = "single", devices = seq_len(count) - 1))
    first <- elapsed(\() log_density(fit, y))
    result <- NULL
    seconds <- replicate(9, {
      wall <- elapsed(\() result <<- log_density(fit, y))
      c(device = result$stats$device_seconds, wall = wall)
    })
    list(seconds = c(apply(seconds, 1, stats::median), first = first), values = result$log_abs)
  }
  results <- lapply(counts, measure_few)
  seconds <- vapply(results, \(result) result$seconds, numeric(3))
  cat(sprintf("n = %s, m = 64, d = 3, exactly: milliseconds, and speedup (x) over one device\n", format_count(n)))
  show_table(data.frame(
    devices = counts, first = format_ms(seconds["first", ]), device = format_ms(seconds["device", ]),
    x = sprintf("%.2f", seconds["device", 1] / seconds["device", ]),
    wall = format_ms(seconds["wall", ]), x = sprintf("%.2f", seconds["wall", 1] / seconds["wall", ]),
    `same bits` = ifelse(vapply(results, \(result) identical(result$values, results[[1]]$values), NA), "yes", "NO"),
    check.names = FALSE
  ))
}
