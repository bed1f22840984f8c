# The fast engine on the CPU: is every sum within its tolerance, how fast is it beside F3M, and does the
# choice between the grid and pruned direct sums find the faster one?
# --quick: small sizes and few cases; --large: 10^8 points, too; accuracy, speed or narrow: that part alone.

source(file.path(dirname(sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE))), "common.R"))
bench_start("fast.R", "Fast sums: accuracy, speed, choice of the method")

arguments <- commandArgs(TRUE)
quick <- "--quick" %in% arguments
large <- "--large" %in% arguments
parts <- intersect(c("accuracy", "speed", "narrow"), arguments)
if (length(parts) == 0) parts <- c("accuracy", "speed", "narrow")

load_now <- function() {
  text <- tryCatch(readLines("/proc/loadavg", warn = FALSE), error = function(e) "unknown")
  sub(" .*", "", text)
}
say_load <- function() cat("load of the machine, last minute: ", load_now(), "\n\n", sep = "")

# ---- points -----------------------------------------------------------------------------------

# The widest side is 1, so that range/h is 1 / bandwidth.
points_of <- function(kind, n, d, seed = 1) {
  set.seed(seed)
  x <- switch(kind,
    uniform = matrix(stats::runif(n * d), n, d),
    normal = matrix(stats::rnorm(n * d), n, d),
    clustered = {
      cluster <- sample.int(20, n, replace = TRUE)
      centres <- matrix(stats::runif(20 * d), 20, d)
      spreads <- stats::runif(20, 1 / 200, 1 / 40)
      centres[cluster, , drop = FALSE] + spreads[cluster] * matrix(stats::rnorm(n * d), n, d)
    },
    Brownian = apply(matrix(stats::rnorm(n * d), n, d), 2, cumsum)
  )
  if (kind == "uniform") return(x)
  x / max(apply(x, 2, \(column) diff(range(column))))
}

matvec <- function(x, y = NULL, b, range, tol, precision, engine = "auto", threads = NULL) {
  if (is.null(y)) {
    return(kernel_matvec(x, b = b, bandwidth = 1 / range, tol = tol, engine = engine, precision = precision,
                         threads = threads, backend = "cpu"))
  }
  kernel_matvec(x, y, b = b, bandwidth = 1 / range, tol = tol, engine = engine, precision = precision,
                threads = threads, backend = "cpu")
}

# Of some rows: the sums in double, the largest sum of absolute terms, and what all rows would have taken.
exactly <- function(x, b, range, rows) {
  picked <- x[rows, , drop = FALSE]
  seconds <- elapsed(\() sums <<- kernel_matvec(x, picked, cbind(b, abs(b)), 1 / range, engine = "exact",
                                                precision = "double", backend = "cpu"))
  list(rows = rows, sums = sums[, 1], largest = max(sums[, 2]), seconds = seconds * nrow(x) / length(rows))
}
error_of <- function(result, truth) max(abs(result[truth$rows] - truth$sums)) / truth$largest

method_of <- function(result) {
  about <- diagnostics(result)
  if (about$engine == "exact") "exact" else about$method
}

# Least of some runs: other programs on the machine can only add to the time. Fewer where one takes long.
least_seconds <- function(task, runs = 5) {
  seconds <- elapsed(task)
  while (length(seconds) < runs && sum(seconds) < 20) seconds <- c(seconds, elapsed(task))
  min(seconds)
}

# ---- accuracy ---------------------------------------------------------------------------------

accuracy <- function(n, dimensions, ranges) {
  cat("Accuracy: ", format(n, big.mark = ","), " sources = targets, b normal, engine = \"auto\". Each entry: method (g grid, d direct, e exact),\n",
      "error / tol, seconds. Errors are largest ones over ", min(n, 5000), " rows, relative to the largest sum of |b| k there; `exact`:\n",
      "seconds of the exact engine, measured on those rows and scaled to all. Single precision runs at tol 1e-5.\n\n", sep = "")
  settings <- data.frame(tol = c(1e-3, 1e-6, 1e-9, 1e-5), precision = c("double", "double", "double", "single"))
  ratios <- NULL
  for (d in dimensions) {
    table <- NULL
    for (kind in c("uniform", "normal", "clustered", "Brownian")) {
      x <- points_of(kind, n, d, d)
      b <- stats::rnorm(n)
      for (range in ranges) {
        truth <- exactly(x, b, range, sort(sample.int(n, min(n, 5000))))
        row <- c(data = kind, `range/h` = format(range))
        for (i in seq_len(nrow(settings))) {
          tol <- settings$tol[i]
          seconds <- elapsed(\() result <<- matvec(x, NULL, b, range, tol, settings$precision[i]))
          ratio <- error_of(result, truth) / tol
          ratios <- rbind(ratios, data.frame(d = d, data = kind, range = range, tol = tol, ratio = ratio,
                                             method = method_of(result)))
          row <- c(row, sprintf("%s %.2f %.3f", substr(method_of(result), 1, 1), ratio, seconds))
        }
        table <- rbind(table, c(row, sprintf("%.1f", truth$seconds)))
      }
    }
    table <- as.data.frame(table)
    names(table)[-(1:2)] <- c("1e-3", "1e-6", "1e-9", "single 1e-5", "exact")
    cat("d = ", d, "\n", sep = "")
    show_table(table)
  }
  worst <- ratios[which.max(ratios$ratio), ]
  cat(sprintf("%d cases; worst error / tol %.2f (d = %d, %s, range/h %g, tol %g, %s); over tol: %d\n",
              nrow(ratios), worst$ratio, worst$d, worst$data, worst$range, worst$tol, worst$method,
              sum(ratios$ratio > 1)))
  say_load()
}

# ---- speed ------------------------------------------------------------------------------------

# F3M's code on one H200 (same data, errors of 4e-4 to 2e-3), d = 3 by EV, and for d = 1, 2; and on a V100,
# the averages of its paper over all settings (10^6, 10^7, 10^8): device time, points already there.
F3M_H200 <- list(`3` = c(`1e+06` = "0.045-0.06", `1e+07` = "0.39-0.98", `1e+08` = "6.0-10.4"),
                 `2` = c(`1e+08` = "5.6"), `1` = c(`1e+08` = "1.8"))
F3M_V100 <- list(`3` = c(`1e+06` = "0.2", `1e+07` = "1.7", `1e+08` = "17.1"),
                 `2` = c(`1e+06` = "0.2", `1e+07` = "1.1", `1e+08` = "7.4"),
                 `1` = c(`1e+06` = "0.2", `1e+07` = "0.7", `1e+08` = "3.5"))
beside <- function(table, d, n) {
  value <- table[[as.character(d)]][format(n, scientific = TRUE, digits = 1)]
  if (is.na(value)) "-" else unname(value)
}

# One row for each number of threads.
speed_rows <- function(d, n, range, tol, precision, goal = c("-", "-"), targets = n) {
  x <- points_of("uniform", n, d)
  b <- stats::rnorm(n)
  y <- if (targets != n) points_of("uniform", targets, d, 2)
  one <- NULL
  rows <- NULL
  for (threads in c(1, 2)) {
    inside <- Inf
    total <- least_seconds(\() {
      result <<- matvec(x, y, b, range, tol, precision, threads = threads)
      inside <<- min(inside, diagnostics(result)$seconds)
    })
    if (threads == 1) {
      one <- inside
      truth <- exactly(x, b, range, sort(sample.int(n, if (n > 1e7) 20 else 200)))
    }
    rows <- rbind(rows, data.frame(
      d = d, n = n, `range/h` = range, tol = tol, precision = precision, threads = threads,
      method = method_of(result), seconds = sprintf("%.3f", inside), `from R` = sprintf("%.3f", total),
      `ns/point` = sprintf("%.1f", 1e9 * inside / n), `times one` = sprintf("%.2f", one / inside),
      goal = goal[threads], error = sprintf("%.1e", error_of(result, truth)),
      `F3M H200` = beside(F3M_H200, d, n), `F3M V100` = beside(F3M_V100, d, n), check.names = FALSE
    ))
  }
  rows
}

speed <- function() {
  cat("Speed: uniform points, sources = targets, b normal; `seconds` in the engine, `from R` with the checks and copies\n",
      "of kernel_matvec(); least of five runs. Goals are those of the engine's issue, F3M's figures on one GPU.\n\n", sep = "")
  sizes <- c(if (quick) 1e5, 1e6, if (!quick) 1e7, if (large) 1e8)
  table <- NULL
  for (n in sizes)
    for (range in c(1.55, 4.9, 15.5)) {
      goal <- if (range == 4.9 && n == 1e7) c("0.6", "0.33") else if (range == 4.9 && n == 1e8) c("6", "3.3") else c("-", "-")
      table <- rbind(table, speed_rows(3, n, range, 1e-5, "single", goal))
    }
  table <- rbind(table, speed_rows(3, 1e6, 30, 1e-6, "double", c("-", "0.3")))
  for (d in 1:2) table <- rbind(table, speed_rows(d, if (quick) 1e6 else 1e7, 30, 1e-6, "double", if (quick) c("-", "-") else c("1", "1")))
  show_table(table)

  cat("Time per point from 10^5 to 10^7, one thread (goal: within 1.5 times)\n")
  flat <- NULL
  for (case in list(list(3, 4.9, 1e-5, "single"), list(3, 30, 1e-6, "double"), list(2, 30, 1e-6, "double"), list(1, 30, 1e-6, "double"))) {
    each <- vapply(c(1e5, 1e6, if (!quick) 1e7), \(n) {
      x <- points_of("uniform", n, case[[1]])
      inside <- Inf
      least_seconds(\() inside <<- min(inside, diagnostics(matvec(x, NULL, NULL, case[[2]], case[[3]], case[[4]], threads = 1))$seconds))
      1e9 * inside / n
    }, 0)
    flat <- rbind(flat, data.frame(d = case[[1]], `range/h` = case[[2]], tol = case[[3]], precision = case[[4]],
                                   `ns/point` = paste(sprintf("%.0f", each), collapse = ", "),
                                   `most/least` = sprintf("%.2f", max(each) / min(each)), check.names = FALSE))
  }
  show_table(flat)
  say_load()
}

# ---- narrow kernels ---------------------------------------------------------------------------

with_method <- function(method, task) {
  Sys.setenv(FLASHKERNEL_FAST_METHOD = method)
  on.exit(Sys.unsetenv("FLASHKERNEL_FAST_METHOD"))
  task()
}

# The grid needs memory for every cell near a point: past a billion cells it is left out.
narrow <- function(n) {
  cat("Narrow kernels: ", format(n, big.mark = ","), " sources = targets, b = 1; seconds in the engine by each method, and by the one that\n",
      "\"auto\" takes (goal: within 1.3 times the better one). -: left out, as the grid would have some 10^9 cells.\n\n", sep = "")
  table <- NULL
  for (d in 1:3)
    for (kind in c("uniform", if (!quick) "clustered"))
      for (range in c(300, 1000, 3000, 10000))
        for (tol in if (quick) 1e-6 else c(1e-3, 1e-6)) {
          x <- points_of(kind, n, d)
          run <- function(engine) diagnostics(matvec(x, NULL, NULL, range, tol, "double", engine))
          best <- function(engine) {
            inside <- Inf
            least_seconds(\() inside <<- min(inside, run(engine)$seconds), 3)
            inside
          }
          too_large <- d == 3 && (range > 300 || (quick || tol < 1e-3) && kind == "uniform")
          by_grid <- if (too_large) NA else tryCatch(with_method("grid", \() best("fast")), error = \(e) NA)
          by_direct <- with_method("direct", \() best("fast"))
          chosen <- run("auto")$method
          taken <- c(grid = by_grid, direct = by_direct)[chosen]
          table <- rbind(table, data.frame(
            d = d, data = kind, `range/h` = range, tol = tol, grid = sprintf("%.3f", by_grid),
            direct = sprintf("%.3f", by_direct), auto = chosen,
            `over the better` = sprintf("%.2f", taken / min(by_grid, by_direct, na.rm = TRUE)), check.names = FALSE
          ))
        }
  table$grid <- sub("NA", "-", table$grid)
  show_table(table)
  cat("worst: ", max(table$`over the better`), "\n", sep = "")
  say_load()
}

if ("narrow" %in% parts) narrow(if (quick) 1e5 else 1e6)
if ("speed" %in% parts) speed()
if ("accuracy" %in% parts) accuracy(if (quick) 2e4 else 1e5, if (quick) c(1, 3, 5) else 1:7, c(1.5, 5, 30, 300, 3000))
