# The time of a small call: flash_kde() with a given bandwidth and predict() for n = 1,000, m = 100, d = 2, on the CPU;
# and whether ten thousand fits in a loop leak memory.
#
#   Rscript bench/small-calls.R [--quick] [--save]          --quick: fewer runs
#
# Microseconds, medians over groups of calls that take turns. Memory: resident bytes of the process, after gc(), before
# the loop and at each quarter of it.

source("bench/common.R")
bench_start("small-calls.R", "Small calls: n = 1,000, m = 100, d = 2")
options(flashkernel.progress = FALSE)

quick <- "--quick" %in% arguments
n <- 1000
x <- normal_points(n, 2, 1)
y <- normal_points(100, 2, 2)
h <- common_bandwidth(n, 2)

# ---- time ---------------------------------------------------------------------------------------

GROUP <- 50
groups_of <- function(estimator) {
  fitted <- flash_kde(x, estimator, bandwidth = h, control = flash_control(backend = "cpu"))
  list(
    both = \() for (i in seq_len(GROUP)) predict(flash_kde(x, estimator, bandwidth = h, control = flash_control(backend = "cpu")), y),
    fit = \() for (i in seq_len(GROUP)) flash_kde(x, estimator, bandwidth = h, control = flash_control(backend = "cpu")),
    predict = \() for (i in seq_len(GROUP)) predict(fitted, y)
  )
}

# proc.time() counts milliseconds
seconds_of <- function(task) {
  start <- Sys.time()
  task()
  as.numeric(difftime(Sys.time(), start, units = "secs"))
}

estimators <- c("kde", "sdkde", "laplace")
tasks <- unlist(lapply(stats::setNames(nm = estimators), groups_of))
for (task in tasks) task()
seconds <- replicate(if (quick) 5 else 41, vapply(tasks, seconds_of, 0))
microseconds <- matrix(1e6 * apply(seconds, 1, stats::median) / GROUP, ncol = 3, byrow = TRUE)
show_table(data.frame(
  estimator = estimators, `fit and predict` = sprintf("%.0f", microseconds[, 1]),
  fit = sprintf("%.0f", microseconds[, 2]), predict = sprintf("%.0f", microseconds[, 3]), check.names = FALSE
))

# ---- memory -------------------------------------------------------------------------------------

resident <- function() { # MiB
  gc(FALSE)
  lines <- tryCatch(readLines("/proc/self/status"), error = \(e) "VmRSS: NA kB")
  as.numeric(sub("^VmRSS:\\s*([0-9NA]+) kB$", "\\1", grep("^VmRSS", lines, value = TRUE))) / 1024
}

fits <- if (quick) 1000 else 10000
memory <- resident()
for (quarter in 1:4) {
  for (i in seq_len(fits / 4)) predict(flash_kde(x, estimators[1 + i %% 3], bandwidth = h, control = flash_control(backend = "cpu")), y)
  memory <- c(memory, resident())
}
cat(format(fits, big.mark = ","), "fits and predictions; MiB before and at each quarter:", sprintf("%.1f", memory), "\n")
