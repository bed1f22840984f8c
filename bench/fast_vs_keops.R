# Exact and fast sums against KeOps (Python package pykeops) on the CPU, all cores, uniform points at themselves, in
# double. "to 1e-6" is engine "auto" with that tolerance. KeOps sums every pair, in memory linear in the points, as
# the exact engine does.
#
#   Rscript bench/fast_vs_keops.R [--save]     PYTHON: a Python with numpy and pykeops

source("bench/common.R")
bench_start("fast_vs_keops.R", "Gaussian sums against KeOps on the CPU")

runs <- 3
python <- Sys.getenv("PYTHON", Sys.which("python3"))

keops <- function(x, b) {
  files <- c(tempfile(), tempfile())
  on.exit(unlink(files))
  writeBin(as.vector(x), files[1])
  writeBin(b, files[2])
  # R's LD_LIBRARY_PATH can make a Python load another's library
  line <- suppressWarnings(system2(
    python, c("bench/bench_keops.py", files, format(nrow(x), scientific = FALSE), ncol(x), runs),
    stdout = TRUE, stderr = FALSE, env = "LD_LIBRARY_PATH="
  ))
  if (!is.null(attr(line, "status")) || length(line) == 0) return(NULL)
  fields <- strsplit(line[length(line)], " ")[[1]]
  list(version = fields[1], seconds = as.numeric(fields[2]), first = as.numeric(fields[3:7]))
}

ours <- function(x, b, engine, tol) {
  sums <- NULL
  seconds <- replicate(runs, {
    start <- Sys.time()
    sums <<- kernel_sum(
      x, b = b, bandwidth = 1, tol = tol,
      control = flash_control(engine = engine, precision = "double", backend = "cpu")
    )
    as.numeric(difftime(Sys.time(), start, units = "secs"))
  })
  list(seconds = min(seconds), first = sums[1:5])
}

measure <- function(d, n, range) {
  set.seed(d)
  x <- matrix(stats::runif(n * d, 0, range), n)
  b <- stats::runif(n)
  exact <- ours(x, b, "exact", 0)
  fast <- ours(x, b, "auto", 1e-6)
  theirs <- keops(x, b)
  with_theirs <- function(text, value) if (is.null(theirs)) "-" else sprintf(text, value(theirs))
  data.frame(
    d = d, n = n, `range/h` = range, `exact, s` = sprintf("%.3f", exact$seconds), `to 1e-6, s` = sprintf("%.4f", fast$seconds),
    `KeOps, s` = with_theirs("%.2f", \(k) k$seconds), version = with_theirs("%s", \(k) k$version),
    `KeOps / exact` = with_theirs("%.0f", \(k) k$seconds / exact$seconds),
    `KeOps / to 1e-6` = with_theirs("%.0f", \(k) k$seconds / fast$seconds),
    difference = with_theirs("%.1e", \(k) max(abs(k$first / exact$first - 1))), check.names = FALSE
  )
}

show_table(do.call(rbind, Map(measure, c(1, 2, 3, 5, 3), c(3e4, 3e4, 3e4, 3e4, 1e5), c(5, 5, 5, 5, 30))))
