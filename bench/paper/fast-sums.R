# Kernel sums in linear time: F3M's tables (time and error against n, d, effective variance and kind of data), in
# its own setting: the kernel exp(-r^2 / (2 l^2)) with l = 1 / sqrt(2), coefficients N(0, 1), uniform points on
# [0, sqrt(12 EV)]^d, normal ones with variance EV, paths of Brownian motion and clusters of the same variance.
#
#   Rscript bench/paper/fast-sums.R [--size small|full] [--backend auto|cpu|cuda] [--f3m PATH]
#
# Columns: seconds from R's matrices to R's vector, device: of the engine; exact: seconds that the exact engine
# would take for all targets, by some of them; error: of some targets, sum |e| / sum |v| as F3M counts it;
# over_tol: the largest error over the tolerance's promise (at most 1). F3M's own code where PATH has its built
# module ffm_3d_float (its F3M_src/setup.py), on points of the same kinds that are on the device, with 4^d nodes
# and its smaller tree.

source("bench/paper/common.R")
source("bench/fast-common.R")

on_gpu <- backend == "cuda" || (backend == "auto" && gpu_info()$status == "available")
where <- if (on_gpu) "cuda" else "cpu"
bandwidth <- 1 / sqrt(2)

# Variance EV in each coordinate; F3M's Brownian and clustered data are scaled, too.
points_like <- function(kind, n, d, ev) {
  # few random numbers for many points: 3e8 of them would take longer than the sums
  if (n > 1e6 && kind == "uniform") {
    set.seed(1)
    x <- rep_len(stats::runif(1000003), n * d)
    dim(x) <- c(n, d)
  } else {
    x <- points_of(kind, n, d)
  }
  spread <- if (kind == "uniform") 1 / sqrt(12) else apply(x, 2, stats::sd)
  sweep(x, 2, sqrt(ev) / spread, "*")
}

# Made once for cases that follow one another.
made <- list(key = "", x = NULL)
points_again <- function(...) {
  key <- paste(...)
  if (made$key != key) made <<- list(key = key, x = points_like(...))
  made$x
}

measure_case <- function(case) {
  x <- points_again(case$kind, case$n, case$d, case$ev)
  set.seed(2)
  b <- stats::rnorm(case$n)
  rows <- sort(sample.int(case$n, min(case$n, if (on_gpu) max(1000, 1e10 / case$n) else max(200, 2e8 / case$n))))
  truth <- exactly(x, b, bandwidth, rows, where)
  precision <- if (case$tol < 1e-5) "double" else "single"
  once <- function() {
    x[1] <<- x[1] + 1e-9 # the device has not seen them
    elapsed(\() sums <<- kernel_sum(
      x, b = b, bandwidth = bandwidth, tol = case$tol,
      control = flash_control(backend = where, precision = precision)
    ))
  }
  sums <- NULL
  first <- once()
  seconds <- min(replicate(if (case$n > 1e6 || first > 0.5) 1 else 3, once()))
  about <- diagnostics(sums)
  data.frame(
    program = "flashkernel", case, seconds, device = if (on_gpu) about$device_seconds else about$seconds,
    exact = truth$seconds,
    error = sum(abs(sums[rows] - truth$sums)) / sum(abs(truth$sums)), over_tol = error_of(sums, truth) / case$tol,
    method = if (about$engine == "exact") "exact" else about$method
  )
}

cases <- function() {
  grid <- \(...) expand.grid(..., stringsAsFactors = FALSE)
  # what n, d, effective variance and the kind of data do, each about the paper's middle
  n <- grid(n = 10^(if (full) 5:7 else 4:6), d = 3, ev = 1, kind = "uniform", tol = 1e-5)
  d <- grid(n = if (full) 1e6 else 1e5, d = 1:(if (full) 7 else 5), ev = 1, kind = "uniform", tol = 1e-3)
  ev <- grid(n = if (full) 1e6 else 1e5, d = 3, ev = c(0.1, 1, 10), kind = c("uniform", "normal", "clustered",
    "Brownian"), tol = 1e-5)
  tol <- grid(n = if (full) 1e6 else 1e5, d = 3, ev = 1, kind = "normal", tol = 10^-c(2, 4, 5, 6, 8, 10))
  unique(rbind(n, d, ev, tol))
}

# ---- F3M's own code -----------------------------------------------------------------------------------

by_f3m <- function(cases) {
  path <- option("--f3m")
  if (is.null(path)) return(left_out("F3M", "no path given (--f3m PATH)"))
  asked <- unique(cases[cases$kind %in% c("uniform", "normal") & cases$d <= 5, c("n", "d", "ev", "kind")])
  given <- with(asked, paste(format(n, scientific = FALSE, trim = TRUE), d, ev, kind, sep = ","))
  said <- suppressWarnings(system2(
    Sys.getenv("PYTHON", "python3"), c(shQuote("bench/f3m_baseline.py"), shQuote(path), given),
    stdout = TRUE,
    stderr = TRUE, env = "LD_LIBRARY_PATH=", timeout = as.numeric(option("--seconds", if (full) 12 else 300))
  ))
  fields <- strsplit(grep("^seconds ", said, value = TRUE), " ")
  if (length(fields) == 0) return(left_out("F3M", utils::tail(c("Python said nothing", said), 1)))
  found <- asked[as.integer(vapply(fields, `[`, "", 2)), ]
  number <- \(i) as.numeric(vapply(fields, `[`, "", i))
  data.frame(program = "F3M", found, tol = NA, seconds = NA, device = number(3), exact = NA, error = number(4),
             over_tol = NA, method = "")
}

# What F3M's paper has on a V100 (means over its settings), and its code had on an H200 (uniform, 4^d nodes):
# device time. Seconds and sum |e| / sum |v|.
PRINTED <- utils::read.table(header = TRUE, text = "
  machine  d   n   seconds error
  V100     1 1e6     0.2  2e-3
  V100     1 1e7     0.7  2e-3
  V100     1 1e8     3.5  2e-3
  V100     2 1e6     0.2  2e-3
  V100     2 1e7     1.1  2e-3
  V100     2 1e8     7.4  2e-3
  V100     3 1e6     0.2  7e-4
  V100     3 1e7     1.7  7e-4
  V100     3 1e8    17.1  7e-4
  V100     4 1e6     0.4  4e-4
  V100     5 1e6     0.9  2e-3
  V100     6 1e6     3.0  3e-2
  V100     7 1e6     3.1  3e-2
  H200     3 1e6     0.06 1e-3
  H200     3 1e7     0.98 1e-3
  H200     3 1e8    10.4  1e-3
")

measure <- function() {
  grid <- cases()
  kernel_sum(
    points_of("uniform", 1e4, 3), bandwidth = 1, tol = 1e-5,
    control = flash_control(backend = where, engine = "fast")
  ) |> invisible()
  rows <- NULL
  for (i in seq_len(nrow(grid))) {
    rows <- rbind(rows, measure_case(as.list(grid[i, ])))
    keep("fast-sums", rows)
  }
  rbind(rows, by_f3m(grid))
}

rows <- paper_rows("fast-sums", "Kernel sums in linear time, F3M's setting", measure)

paper_plot("fast-sums", height = 1150, draw = \() {
  graphics::par(mfrow = c(2, 2), mar = c(3.6, 4.6, 2, 0.8), oma = c(4, 0, 0, 0))
  mine <- rows[rows$program == "flashkernel", ]
  base <- max(mine$n[mine$d == 5])
  names <- c("flashkernel", "flashkernel, exact", "F3M, here", "F3M, V100 (paper)", "F3M, H200")
  with_printed <- function(shown, printed) {
    exact <- shown[is.finite(shown$exact), ]
    line <- \(program, from, seconds) data.frame(program = rep(program, NROW(from)), n = from$n, d = from$d,
                                                 seconds = seconds)
    theirs <- rows[rows$program == "F3M" & rows$kind == "uniform" & rows$ev == 1, ]
    theirs <- theirs[theirs$n %in% shown$n & theirs$d %in% shown$d, ]
    rbind(
      line(names[1], shown, shown$device), line(names[2], exact, exact$exact), line(names[3], theirs, theirs$device),
      line(names[4], printed[printed$machine == "V100", ], printed$seconds[printed$machine == "V100"]),
      line(names[5], printed[printed$machine == "H200", ], printed$seconds[printed$machine == "H200"])
    )
  }
  uniform <- mine[mine$kind == "uniform" & mine$ev == 1 & mine$tol == 1e-5, ]
  of_n <- uniform[uniform$d == 3, ]
  curves(with_printed(of_n, PRINTED[PRINTED$d == 3, ]), names, "n", "seconds", by = "program", xlab = "points",
         ylab = "seconds, engine",
         main = "uniform, d = 3, EV 1, tol 1e-5")
  of_d <- mine[mine$kind == "uniform" & mine$ev == 1 & mine$n == base & mine$tol == 1e-3, ]
  curves(with_printed(of_d, PRINTED[PRINTED$n == base & PRINTED$machine == "V100", ]), names, "d", "seconds",
         by = "program", xlab = "dimensions",
         ylab = "seconds, engine", main = paste0("n = ", format_count(base), ", tol 1e-3"), log = "y")
  of_ev <- mine[mine$d == 3 & mine$tol == 1e-5 & mine$n == max(mine$n[mine$kind == "Brownian"]), ]
  kinds <- c("uniform", "normal", "clustered", "Brownian")
  curves(of_ev, kinds, "ev", "device", by = "kind", xlab = "effective variance", ylab = "seconds, engine",
         main = paste0("n = ", format_count(of_ev$n[1]), ", d = 3, tol 1e-5"))
  graphics::legend("topleft", kinds, col = colours_of(kinds), lty = 1, pch = 19, bty = "n", cex = 0.8)
  of_tol <- mine[mine$kind == "normal" & mine$d == 3 & mine$ev == 1, ]
  of_tol <- of_tol[of_tol$n == of_ev$n[1], ]
  of_tol$error <- pmax(of_tol$error, 1e-16)
  of_tol$shown <- "flashkernel"
  curves(of_tol, "flashkernel", "device", "error", by = "shown", xlab = "seconds, engine",
         ylab = "error, sum |e| / sum |v|",
         main = paste0("normal, n = ", format_count(of_ev$n[1]), ", tol 1e-2 to 1e-10"))
  legend_below(c(names[1:2], if (any(rows$program == "F3M")) names[3], names[4:5]), among = names, ncol = 3)
})

show_table(data.frame(
  program = rows$program, n = format(rows$n), d = rows$d, EV = rows$ev, data = rows$kind, tol = rows$tol,
  s = signif(rows$seconds, 3),
  `engine s` = signif(rows$device, 3), `exact s` = signif(rows$exact, 3), error = format_error(rows$error),
  `over tol` = ifelse(is.na(rows$over_tol), "-", sprintf("%.2f", rows$over_tol)), method = rows$method,
  check.names = FALSE
))
