# Whether backend = "auto" takes the faster of CPU and GPU, also for small work: sums over a grid of sources, targets and
# dimensions, and whole fits.
#
#   Rscript bench/small-gpu.R [--quick] [--seconds S] [--save]     --quick: every other size; --seconds: a random part
#                                                                  of the sums and of the fits, in so many seconds each
#
# Seconds with "cpu", "cuda" and "auto" once CUDA has started, least of a few calls, each with points that the device
# has not seen; auto / best is to be at most 1.2. A back end whose estimate is above half a second and eight times the
# other's is not run ("-"); in more than two dimensions the estimate is that of exact sums, because a tolerance need not
# save any pairs there.

source("bench/gpu-common.R")
gpu_start("small-gpu.R", "Small work on a GPU: which back end \"auto\" takes")

quick <- "--quick" %in% arguments
BACKENDS <- c("cpu", "cuda", "auto")
sizes <- if (quick) c(1e2, 1e4, 1e6) else 10^(2:6)

set_to <- function(backend, tol) flash_control(backend = backend, tol = tol)
guess <- function(backend, case) {
  run <- flashkernel:::start_run(flashkernel:::settle_control(set_to(backend, case$tol)))
  flashkernel:::guessed_seconds(run, case$n, case$m, case$d)
}

# Least seconds of task$run() with each back end, which take turns, in about `budget` seconds. task$renew() makes points
# that no device has seen.
least <- function(task, backends, budget) {
  once <- function(backend) {
    task$renew()
    elapsed(\() task$run(backend))
  }
  seconds <- vapply(backends, once, 0)
  runs <- max(1, min(15, floor(budget / sum(seconds))))
  apply(cbind(seconds, replicate(runs, vapply(backends, once, 0))), 1, min)
}

measure <- function(case, task) {
  guessed <- vapply(BACKENDS[1:2], guess, 0, if (case$d > 2) replace(case, "tol", 0) else case)
  run <- BACKENDS[c(guessed < 0.5 | guessed < 8 * rev(guessed), TRUE)]
  seconds <- stats::setNames(rep(NA_real_, 3), BACKENDS)
  seconds[run] <- least(task, run, 0.1)
  c(seconds, ratio = seconds[["auto"]] / min(seconds[1:2], na.rm = TRUE), guess = guessed)
}

# ---- sums ---------------------------------------------------------------------------------------

numbers <- stats::rnorm(1e7)
points <- function(n, d, first) matrix(numbers[first + seq_len(n * d)], n)

tasks <- list(
  kernel_sum = function(case, x, y) {
    b <- rep(1, case$n)
    h <- common_bandwidth(case$n, case$d)
    list(
      renew = \() x <<- renew(x),
      run = \(backend) kernel_sum(x, y, b, h, tol = case$tol, control = flash_control(backend = backend))
    )
  },
  predict = function(case, x, y) {
    fits <- lapply(stats::setNames(nm = BACKENDS), \(backend) {
      flash_kde(x, "kde", common_bandwidth(case$n, case$d), control = set_to(backend, case$tol))
    })
    list(renew = \() y <<- renew(y), run = \(backend) predict(fits[[backend]], y))
  }
)

cases <- expand.grid(
  d = c(1, 2, 5, 20, 100), m = sizes, n = sizes, tol = c(0, 1e-6), task = names(tasks), stringsAsFactors = FALSE
)
cases <- cases[pmax(cases$n, cases$m) * cases$d <= 5e6, ]
cases <- cases[cases$tol == 0 | cases$d <= 5 & cases$task == "kernel_sum", c("task", "tol", "n", "m", "d")]

# The table of all cases, or of those that there is time for, in the order of `cases`. Prints cases as they are done.
table_of <- function(cases, measure) {
  deadline <- Sys.time() + as.numeric(option("--seconds", "Inf"))
  rows <- if (is.null(option("--seconds"))) seq_len(nrow(cases)) else sample(nrow(cases))
  done <- list()
  for (i in rows) {
    if (Sys.time() > deadline) break
    done[[as.character(i)]] <- data.frame(cases[i, ], t(measure(cases[i, ])))
    cat(unlist(done[[as.character(i)]]), sep = " ", fill = 200, file = stderr())
  }
  do.call(rbind, done[order(as.numeric(names(done)))])
}

table <- table_of(cases, \(case) {
  measure(case, tasks[[case$task]](case, points(case$n, case$d, 0), points(case$m, case$d, 5e6)))
})

# ---- fits ---------------------------------------------------------------------------------------

fits <- list(
  `kernel_ridge(centers = n)` = \(x, y, control) kernel_ridge(x, y, bandwidth = 1, lambda = 1e-4, centers = nrow(x), control = control),
  `flash_kde()` = \(x, y, control) flash_kde(x, control = control),
  `flash_kde(x, "sdkde", h)` = \(x, y, control) flash_kde(x, "sdkde", common_bandwidth(nrow(x), ncol(x)), control = control),
  `kernel_ridge()` = \(x, y, control) kernel_ridge(x, y, control = control)
)
fitted <- expand.grid(n = c(300, 1000, 3000, 10000), d = c(2, 5), task = names(fits), stringsAsFactors = FALSE)
if (quick) fitted <- fitted[fitted$n < 3000 & fitted$d == 5, ]
seconds_of_fit <- function(case) {
  x <- normal_points(case$n, case$d)
  y <- sin(2 * x[, 1]) + x[, 2]
  task <- list(
    renew = \() x <<- renew(x), run = \(backend) fits[[case$task]](x, y, flash_control(backend = backend))
  )
  seconds <- stats::setNames(least(task, BACKENDS, 1), BACKENDS)
  c(seconds, ratio = seconds[["auto"]] / min(seconds[1:2]))
}
of_fits <- table_of(fitted, seconds_of_fit)

# ---- report -------------------------------------------------------------------------------------

show <- function(table) {
  table[BACKENDS] <- lapply(table[BACKENDS], format_ms)
  table$`auto / best` <- sprintf("%.2f", table$ratio)
  table[intersect(c("n", "m"), names(table))] <- lapply(table[intersect(c("n", "m"), names(table))], format_count)
  show_table(table[setdiff(names(table), c("ratio", "guess.cpu", "guess.cuda"))])
}
cat("milliseconds\n")
show(table)
show(of_fits)
cat(sprintf("auto / best at most 1.2: %d of %d sums, largest %.2f; %d of %d fits, largest %.2f\n",
            sum(table$ratio <= 1.2), nrow(table), max(table$ratio),
            sum(of_fits$ratio <= 1.2), nrow(of_fits), max(of_fits$ratio)))
