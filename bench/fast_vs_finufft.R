# The fast engine against FINUFFT (Python package finufft, one thread), a million uniform points at themselves, in
# double: type 1, product with the kernel's transform, type 2.
#
#   Rscript bench/fast_vs_finufft.R [--save]     PYTHON: a Python with numpy and finufft

source("bench/common.R")
bench_start("fast_vs_finufft.R", "Gaussian sums to a tolerance, one thread, against FINUFFT")

n <- 1e6
runs <- 5
python <- Sys.getenv("PYTHON", Sys.which("python3"))

finufft <- function(x, b, tol) {
  files <- c(tempfile(), tempfile())
  on.exit(unlink(files))
  writeBin(as.vector(x), files[1])
  writeBin(b, files[2])
  # R's LD_LIBRARY_PATH can make a Python load another's library
  line <- suppressWarnings(system2(
    python, c("bench/bench_finufft.py", files, format(n, scientific = FALSE), ncol(x), tol, runs),
    stdout = TRUE, stderr = FALSE, env = "LD_LIBRARY_PATH="
  ))
  if (!is.null(attr(line, "status")) || length(line) == 0) return(NULL)
  fields <- strsplit(line[length(line)], " ")[[1]]
  list(version = fields[1], seconds = as.numeric(fields[2]), first = as.numeric(fields[3:7]))
}

ours <- function(x, b, tol) {
  sums <- NULL
  seconds <- replicate(runs, {
    start <- Sys.time()
    sums <<- kernel_sum(
      x, b = b, bandwidth = 1, tol = tol,
      control = flash_control(engine = "fast", threads = 1, precision = "double")
    )
    as.numeric(difftime(Sys.time(), start, units = "secs"))
  })
  list(seconds = min(seconds), first = sums[1:5], achieved = diagnostics(sums)$tol_achieved)
}

measure <- function(d, range, tol) {
  set.seed(d)
  x <- matrix(stats::runif(n * d, 0, range), n)
  b <- stats::runif(n)
  mine <- ours(x, b, tol)
  theirs <- finufft(x, b, tol)
  data.frame(
    d = d, `range/h` = range, tol = tol, `ours, s` = sprintf("%.3f", mine$seconds), achieved = sprintf("%.1e", mine$achieved),
    `FINUFFT, s` = if (is.null(theirs)) "-" else sprintf("%.3f", theirs$seconds),
    version = if (is.null(theirs)) "not available" else theirs$version,
    `theirs / ours` = if (is.null(theirs)) "-" else sprintf("%.2f", theirs$seconds / mine$seconds),
    difference = if (is.null(theirs)) "-" else sprintf("%.1e", max(abs(theirs$first / mine$first - 1))), check.names = FALSE
  )
}

cases <- expand.grid(tol = c(1e-3, 1e-6, 1e-10), range = c(5, 30), d = 1:3)
show_table(do.call(rbind, Map(measure, cases$d, cases$range, cases$tol)))
