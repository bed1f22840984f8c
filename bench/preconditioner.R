# Times the steps of Falkon's preconditioner: kernels K, T of K = T'T, T T', A of it, and the four solves of an
# iteration.
#
#   Rscript bench/preconditioner.R [--backend cuda] [--large] [--save]
#
# 500 to 4,000 centres in ten dimensions on the CPU; 2,000 to 60,000 on a GPU; --large: also 100,000 and 120,000 (116 GB
# on the GPU). TFLOP/s count m^3 / 3 for each of the three factors; GB/s of the solves count the bytes of both factors
# twice. Matrices larger than .dense.whole of src/core/costs.c are done in blocks of .dense.block (build with other
# values of them).

source("bench/common.R")
bench_start("preconditioner.R", "Falkon's preconditioner, step by step")

backend <- if ("cuda" %in% arguments) "cuda" else "cpu"
internal <- asNamespace("flashkernel")

# Seconds from the beginning to the end of a task, and to the time when its progress is `at`.
stages <- function(task, at) {
  clock <- \() as.numeric(Sys.time())
  start <- clock()
  reached <- NA
  task(\(fraction) if (is.na(reached) && fraction >= at - 1e-9) reached <<- clock())
  c(reached - start, clock() - reached)
}

measure <- function(m) {
  set.seed(1)
  x <- matrix(stats::rnorm(10 * m), m)
  sources <- internal$sum_sources(x, NULL, diag(sqrt(10), 10), internal$check_kernel("gaussian"), internal$new_plan())
  run <- internal$run_control(internal$settle_control(NULL, list(backend = backend)))
  P <- NULL
  T <- stages(\(progress) P <<- internal$new_preconditioner(sources, replace(run, "progress", list(progress)), 1e-10), 0.1)
  A <- stages(\(progress) internal$precondition(P, lambda = 1e-6, progress = progress), 0.5)
  v <- stats::rnorm(m)
  solve <- \() internal$apply_factors(P, v, c("A^-1", "T^-1", "T^-T", "A^-T"))
  solve()
  solves <- stages(\(progress) {
    progress(1)
    for (i in 1:5) solve()
  }, 1)[2] / 5
  internal$free_preconditioner(P)
  rate <- \(seconds) sprintf("%.3g", 1e-12 * m^3 / 3 / seconds)
  seconds <- \(x) sprintf("%.3g", x)
  data.frame(
    m = m, K = seconds(T[1]), T = seconds(T[2]), `TT'` = seconds(A[1]), A = seconds(A[2]), solves = seconds(solves),
    `T TFLOP/s` = rate(T[2]), `TT' TFLOP/s` = rate(A[1]), `A TFLOP/s` = rate(A[2]),
    `solves GB/s` = sprintf("%.3g", 1e-9 * 2 * 8 * m^2 / solves), check.names = FALSE
  )
}

orders <- if (backend == "cpu") c(500, 1000, 2000, 4000) else c(2e3, 5e3, 1e4, 2e4, 3e4, 4e4, 6e4)
if ("--large" %in% arguments) orders <- c(orders, 1e5, 1.2e5)
invisible(measure(orders[1])) # whatever is loaded first
show_table(do.call(rbind, lapply(orders, measure)))
