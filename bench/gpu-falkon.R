# Falkon at the sizes of the paper's data sets, from R's matrices to a fitted object, on one GPU: seconds in total and
# of each stage, compared with a goal and, with --falkon PATH (a built checkout of github.com/FalkonML/falkon), with the
# reference library in the same run. Points are Weyl sequences, since the time does not depend on the numbers, except
# for logistic loss: its labels are drawn at random (separable labels take three times as long) and its fit ends at its
# own tolerance.
#
#   Rscript bench/gpu-falkon.R [--falkon PATH] [--only small,susy,msd,timit,higgs,taxi,logistic] [--devices 1,2]
#     [--grid] [--backend cpu] [--save]
#
# --devices: numbers of devices, one after the other, and whether the coefficients are the same. --grid: instead, tables
# of time against n, m and d, each stage compared with its bound; a minute. The largest case in host memory is taxi: 8.8
# GB of rows and responses, and as much again while they are made (all rows of the set: 88 GB). The largest in GPU
# memory is higgs: 116 GB of 139.

source("bench/gpu-common.R")

backend <- option("--backend", "cuda")
title <- "Falkon at the sizes of the paper, one GPU"
if (backend == "cuda") gpu_start("gpu-falkon.R", title) else bench_start("gpu-falkon.R", title)

source("bench/falkon-common.R")
sizes <- falkon_sizes
wanted <- option_values("--only", rownames(sizes))
devices <- as.integer(option_values("--devices", 1))

falkon_control <- function(count) {
  flash_control(backend = backend, devices = if (backend == "cuda") seq_len(count) - 1L)
}

measure <- function(name) {
  size <- sizes[name, ]
  x <- weyl_points(size$n, size$d)
  y <- weyl_response(x, size$outputs)
  logistic <- name == "logistic"
  if (logistic) y <- stats::runif(size$n) < stats::plogis(2 * y)
  some <- seq_len(min(size$n, 1e5))
  theirs <- if (name %in% c("small", "susy", "msd")) library_seconds(name, size) else c(NA, NA)
  before <- NULL
  rows <- lapply(devices, \(count) {
    made <- fit_size(size, x, y, if (logistic) "binomial" else "gaussian", falkon_control(count))
    fit <- made$fit
    stages <- fit$seconds
    residual <- if (logistic) NA else sqrt(mean((as.matrix(y)[some, ] - predict(fit, x[some, ]))^2))
    same <- is.null(before) || identical(fit$coefficients, before)
    before <<- fit$coefficients
    # what grows with the rows is all but the preconditioner
    all_rows <- size$of * (made$seconds - stages[["preconditioner"]]) + stages[["preconditioner"]]
    shown <- data.frame(
      set = name, n = format_count(size$n), d = size$d, m = format_count(size$m), its = fit$iterations, devices = count,
      seconds = made$seconds, centres = stages[["centers"]], preconditioner = stages[["preconditioner"]],
      iterations = stages[["iterations"]], `all rows` = all_rows, goal = size$goal, falkon = theirs[1],
      its_preconditioner = theirs[2], steps = fit$iterations, residual = residual, `GiB of host` = made$peak, same = same, check.names = FALSE
    )
    show_table(shown)
    shown
  })
  if (size$of > 1) {
    cat("all rows: projected from one in ", size$of, "; copies of rows that the GPU has no room for are not in it\n\n", sep = "")
  }
  do.call(rbind, rows)
}

# ---- time against n, m and d ------------------------------------------------------------------

# Bytes a second: of the device's memory, and from pinned memory of the host.
DEVICE_BYTES <- 4.3e12
HOST_BYTES <- 5e10

# Seconds of each stage if its slowest unit were all: the preconditioner m^3 multiplications and additions in double; an
# iteration two sweeps, an exponential a pair or three products of halves, and both factors read twice; the beginning of
# the iterations the rows' way to the device, and one sweep.
bounds_of <- function(n, m, d) {
  sweep <- n * m * max(1 / H200[["exponentials"]], 2 * 3 * 16 * ceiling(d / 16) / H200[["mma"]])
  c(
    preconditioner = m^3 / H200[["fp64_tensor"]], iteration = 2 * sweep + 16 * m^2 / DEVICE_BYTES,
    first = 8 * n * (d + 1) / HOST_BYTES + sweep
  )
}

grid_row <- function(n, m, d) {
  size <- data.frame(n = n, d = d, m = m, iterations = 6, sigma = sqrt(d) * 0.7, lambda = 1e-6)
  x <- weyl_points(n, d)
  made <- fit_size(size, x, weyl_response(x, 1), control = falkon_control(1))
  stages <- made$fit$seconds
  trace <- made$fit$trace$seconds
  iteration <- (trace[length(trace)] - trace[1]) / (length(trace) - 1)
  bounds <- bounds_of(n, m, d)
  seconds <- \(x) formatC(x, digits = 2, format = "g")
  data.frame(
    n = format_count(n), m = format_count(m), d = d, all = seconds(made$seconds),
    preconditioner = seconds(stages[["preconditioner"]]), bound = seconds(bounds[["preconditioner"]]),
    iteration = seconds(iteration), bound = seconds(bounds[["iteration"]]),
    first = seconds(stages[["iterations"]] - length(trace) * iteration), bound = seconds(bounds[["first"]]),
    host = seconds(made$seconds - sum(stages[c("preconditioner", "iterations")])), check.names = FALSE
  )
}

show_grid <- function() {
  scale <- if (backend == "cuda") 1 else 0.01
  cat("Seconds of a fit of 6 iterations, and of its stages, each beside its bound on an H200. iteration: one of them;\n",
      "first: the right-hand side, and the rows' way to the device; host: the rest, centres included.\n\n", sep = "")
  invisible(grid_row(2e4 * sqrt(scale), 500, 10)) # whatever is loaded first
  table <- \(n, m, d) show_table(do.call(rbind, Map(grid_row, n * scale, m * sqrt(scale), d)))
  table(c(1e5, 3e5, 1e6, 3e6, 1e7), 1e4, 18)
  table(1e6, c(1e3, 3e3, 1e4, 3e4, 5e4), 18)
  table(1e6, 1e4, c(2, 5, 10, 30, 64, 90, 200))
}

if ("--grid" %in% arguments) {
  show_grid()
} else {
  results <- do.call(rbind, lapply(wanted, measure))
  cat("All, in seconds:\n")
  show_table(results)
}
