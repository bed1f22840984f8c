# The fast engine on the CPU: checks that every sum is within its tolerance, compares its speed with F3M, and checks
# that the choice between the grid and pruned direct sums takes the faster one.
# --quick: small sizes and few cases; --large: also 10^8 points; accuracy, speed or narrow: only that part.

source("bench/common.R")
source("bench/fast-common.R")
bench_start("fast.R", "Fast sums: accuracy, speed, choice of the method")

options(width = 180)
quick <- "--quick" %in% arguments
large <- "--large" %in% arguments
parts <- intersect(c("accuracy", "speed", "narrow"), arguments)
if (length(parts) == 0) parts <- c("accuracy", "speed", "narrow")

load_now <- function() {
  text <- tryCatch(readLines("/proc/loadavg", warn = FALSE), error = function(e) "unknown")
  sub(" .*", "", text)
}
# Until other programs leave the processors alone, where the system tells; for so many seconds at most.
wait_for_quiet <- function(most = 3) {
  idle <- function() as.numeric(strsplit(readLines("/proc/stat", 1), " +")[[1]][2:9])
  end <- proc.time()[["elapsed"]] + most
  while (file.exists("/proc/stat") && proc.time()[["elapsed"]] < end) {
    before <- idle()
    Sys.sleep(0.3)
    spent <- idle() - before
    if (spent[4] > 0.92 * sum(spent)) break
  }
}
say_load <- function() cat("load of the machine, last minute: ", load_now(), "\n\n", sep = "")

matvec <- function(x, y = NULL, b, range, tol, precision, engine = "auto", threads = NULL) {
  if (is.null(y)) {
    return(kernel_sum(
      x, b = b, bandwidth = 1 / range, tol = tol,
      control = flash_control(engine = engine, precision = precision, threads = threads, backend = "cpu")
    ))
  }
  kernel_sum(
    x, y, b = b, bandwidth = 1 / range, tol = tol,
    control = flash_control(engine = engine, precision = precision, threads = threads, backend = "cpu")
  )
}

method_of <- function(result) {
  about <- diagnostics(result)
  if (about$engine == "exact") "exact" else about$method
}

# Least of some runs, fewer where one takes long, as other programs on the machine can only add to the time:
# seconds in all, in the engine, and of processors there. With one thread the last is what a machine of one's
# own would take.
least_seconds <- function(task, runs = 5) {
  seconds <- NULL
  while (NROW(seconds) < 2 || NROW(seconds) < runs && sum(seconds[, "total"]) < 5) {
    gc(FALSE)
    start <- proc.time()
    result <- task()
    took <- (proc.time() - start)[1:3]
    inside <- diagnostics(result)$seconds
    share <- if (took[[3]] > 0) min(1, inside / took[[3]]) else 0
    seconds <- rbind(seconds, c(total = took[[3]], engine = inside, processor = share * (took[[1]] + took[[2]])))
  }
  apply(seconds, 2, min)
}

# ---- accuracy ---------------------------------------------------------------------------------

accuracy <- function(size, dimensions, ranges) {
  cat("Accuracy: sources = targets, b normal, engine = \"auto\". Each entry: method (g grid, d direct, e exact), error / tol,\n",
      "seconds. Errors are largest ones over 5,000 rows, relative to the largest sum of |b| k there; `exact`: seconds of\n",
      "the exact engine, measured on those rows and scaled to all. Single precision runs at tol 1e-5.\n\n", sep = "")
  settings <- data.frame(tol = c(1e-3, 1e-6, 1e-9, 1e-5), precision = c("double", "double", "double", "single"))
  ratios <- NULL
  for (d in dimensions) {
    table <- NULL
    n <- size(d)
    for (kind in c("uniform", "normal", "clustered", "Brownian")) {
      x <- points_of(kind, n, d, d)
      b <- stats::rnorm(n)
      for (range in ranges) {
        truth <- exactly(x, b, 1 / range, sort(sample.int(n, min(n, 5000))))
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
    cat("d = ", d, ", n = ", format(n, big.mark = ",", scientific = FALSE), "\n", sep = "")
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
speed_rows <- function(d, n, range, tol, precision, goal = c("-", "-")) {
  x <- points_of("uniform", n, d)
  b <- stats::rnorm(n)
  one <- NULL
  rows <- NULL
  for (threads in c(1, 2)) {
    wait_for_quiet()
    seconds <- least_seconds(\() result <<- matvec(x, NULL, b, range, tol, precision, threads = threads))
    inside <- seconds[["engine"]]
    if (threads == 1) {
      one <- inside
      truth <- exactly(x, b, 1 / range, sort(sample.int(n, if (n > 1e7) 20 else 200)))
    }
    rows <- rbind(rows, data.frame(
      d = d, n = n, `range/h` = range, tol = tol, precision = precision, threads = threads,
      method = method_of(result), seconds = sprintf("%.3f", inside), processor = sprintf("%.3f", seconds[["processor"]]),
      `from R` = sprintf("%.3f", seconds[["total"]]), `ns/point` = sprintf("%.1f", 1e9 * inside / n), `times one` = sprintf("%.2f", one / inside),
      goal = goal[threads], error = sprintf("%.1e", error_of(result, truth)),
      `F3M H200` = if (range == 30 && d == 3) "-" else beside(F3M_H200, d, n),
      `F3M V100` = if (range == 30 && d == 3) "-" else beside(F3M_V100, d, n), check.names = FALSE
    ))
  }
  rows
}

speed <- function() {
  cat("Speed: uniform points, sources = targets, b normal. `seconds` in the engine, `processor` seconds there, `from R`\n",
      "with the checks and copies of kernel_sum(): least of five runs. `goal` is what the engine was designed for, F3M's\n",
      "figures are for one GPU.\n\n", sep = "")
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
      seconds <- least_seconds(\() matvec(x, NULL, NULL, case[[2]], case[[3]], case[[4]], threads = 1), 20)
      1e9 * seconds[["engine"]] / n
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
  session <- asNamespace("flashkernel")$session
  session$method <- method
  on.exit(session$method <- NULL)
  task()
}

# The grid needs memory for every cell near a point: with some billion cells it is left out, as direct sums of
# tens of thousands of pairs a point are.
narrow <- function(n) {
  cat("Narrow kernels: ", format(n, big.mark = ",", scientific = FALSE), " sources = targets, b = 1, one thread: processor seconds in the engine by each\n",
      "method, and by the one that \"auto\" takes (goal: within 1.3 times the better one). -: left out, too many cells or pairs.\n\n", sep = "")
  worst <- 0
  for (d in 1:3) {
    table <- NULL
    for (kind in c("uniform", "clustered"))
      for (range in c(300, 1000, 3000, 10000))
        for (tol in c(1e-3, 1e-6)) {
          x <- points_of(kind, n, d)
          run <- function(engine) matvec(x, NULL, NULL, range, tol, "double", engine, threads = 1)
          best <- function(method) {
            tryCatch(with_method(method, \() least_seconds(\() run("fast"), 3)[["processor"]]),
                     flashkernel_error_unsupported = function(error) NA)
          }
          too_large <- d == 3 && (range > 1000 || kind == "uniform" && (range > 300 || tol < 1e-3))
          too_dense <- d == 1 && range == 300
          seconds <- c(grid = if (too_large) NA else best("grid"), direct = if (too_dense) NA else best("direct"))
          chosen <- method_of(run("auto"))
          over <- seconds[[chosen]] / min(seconds, na.rm = TRUE)
          worst <- max(worst, over)
          shown <- ifelse(is.na(seconds), "-", sprintf("%.3f", seconds))
          table <- rbind(table, data.frame(data = kind, `range/h` = range, tol = tol, grid = shown[1], direct = shown[2],
                                           auto = chosen, `over the better` = sprintf("%.2f", over), check.names = FALSE))
        }
    cat("d = ", d, "\n", sep = "")
    show_table(table)
  }
  cat(sprintf("worst: %.2f times the better method\n", worst))
  say_load()
}

# Fewer points in many dimensions, where the exact engine is often the fastest.
if ("accuracy" %in% parts) {
  ranges <- c(0.3, 5, 30, 300, 3000, 10000)
  accuracy(\(d) if (quick) 2e4 else if (d <= 4) 1e5 else 3e4, if (quick) c(1, 3, 5) else 1:7, ranges)
}
if ("narrow" %in% parts) narrow(if (quick) 1e5 else 1e6)
if ("speed" %in% parts) speed()
