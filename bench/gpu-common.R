# Helpers of the benchmarks that need a GPU (gpu*.R, naive.R); sourced after common.R.

source("bench/common.R")
options(width = 130, flashkernel.progress = FALSE)

# What one H200 does at best, a second, each unit alone: measured by a kernel that does nothing else.
# fp64 is the FMA units, fp64_tensor (twice that) the data sheet's figure for products of matrices.
H200 <- c(exponentials = 4.18e12, fp32 = 5.65e13, mma = 6.4e14, tf32 = 3.2e14, fp64 = 3.4e13, fp64_tensor = 6.7e13)

# Pairs a second of each unit alone, for a "density" or a "score" in d dimensions: in single precision an exponential and
# products of halves in tensor cores, in double the instructions of the FMA units (gpu-dimensions.R says how many).
unit_bounds <- function(d, task, precision) {
  padded <- function(k, step) step * ceiling(k / step)
  sums <- if (task == "score") 1 + d else 1
  score <- task == "score"
  if (precision == "double") {
    products <- padded(d, 8) * if (score) 2 else 1
    each <- if (d <= 4) 2 * d + 9 + sums else products / 2 + 9 + 1 # instructions of two flop
    return(c(fp64 = H200[["fp64"]] / (2 * each)))
  }
  exponentials <- H200[["exponentials"]]
  products <- 3 * 2 * padded(d, 16) + if (score) 2 * 2 * padded(1 + d, 8) else 0
  c(exponentials = exponentials, mma = H200[["mma"]] / products)
}

gpu_start <- function(script, title) {
  bench_start(script, title)
  info <- gpu_info()
  if (info$status != "available") stop("no GPU: ", info$status, call. = FALSE)
  cat("devices  ", paste(unique(info$name), collapse = ", "), " (", length(info$name), "); CUDA toolkit ", info$toolkit,
      ", architectures ", info$architectures, ", driver for CUDA ", info$driver, "\n\n", sep = "")
}

# The mixture of three normals that the published code is timed on: means 2 N(0, 1), sd 0.6, 1 and 1.4.
mixture_points <- function(n, m, d = 16, seed = 1) {
  set.seed(seed)
  means <- matrix(2 * stats::rnorm(3 * d), 3)
  draw <- function(n) {
    from <- sample.int(3, n, replace = TRUE)
    means[from, , drop = FALSE] + c(0.6, 1, 1.4)[from] * stats::rnorm(n * d)
  }
  list(x = draw(n), y = draw(m))
}

# list(log_abs, negative, stats): predict() without its formatting, and with what the engine reports.
log_density <- function(fit, at) {
  flashkernel:::log_estimate(fit, at, FALSE, flashkernel:::fit_control(fit))
}

# Seconds of work on the device, as the engine reports them: by events, so without R and without hashing and
# copying on the host. `stats`: of one sum, or the stages of a fit (no row where the fit sums nothing).
device_seconds <- function(stats) {
  if (is.data.frame(stats) && nrow(stats) == 0) return(0)
  if (is.null(stats$device_seconds)) stop("this build of flashkernel reports no device_seconds")
  sum(stats$device_seconds, na.rm = TRUE)
}

# Not diagnostics(fit), which integrates the Laplace estimate's negative mass.
fit_stages <- function(fit) flashkernel:::fit_record(fit)$stages

# Points stay on the device between calls, found again by their content: points that differ in one number are new
# there. Made outside the time taken.
renew <- function(points) {
  points[1] <- points[1] + 1e-9
  points
}

format_ms <- function(seconds) {
  shown <- formatC(1e3 * seconds, digits = 4, format = "fg", flag = "#")
  ifelse(is.na(seconds), "-", sub("[.]$", "", shown))
}
format_error <- function(x) ifelse(is.na(x), "-", formatC(x, digits = 1, format = "e"))
format_count <- function(x) format(x, big.mark = ",", scientific = FALSE, trim = TRUE)
