# Exact kernel ridge regression by blocks of rows (R/ridge-blocks.R) beside conjugate gradients and Cholesky.
#
#   Rscript bench/blocks.R cost            a kernel in multiply-adds of a factor: the constants of block_rows()
#   Rscript bench/blocks.R small           two problems of 8,000 rows: residuals, errors, and distances from Cholesky
#   Rscript bench/blocks.R susy 1e6 60     SUSY's shape: rows, and seconds for each solver; `higgs`: HIGGS's shape
#   Rscript bench/blocks.R smooth 1e5 60   Matern 5/2 in 60 columns, lambda 1e-9
#   Rscript bench/blocks.R matern9 1.2e5 60    Matern 5/2 in 9 columns, lambda 1e-9
#   Rscript bench/blocks.R factor susy 9e4 exact   seconds of the rough factor of all rows, and of the exact one, and residuals
#   Rscript bench/blocks.R kin40k FOLDER   uci_kin40k.csv.gz and its test mask, 36,000 rows
#   Rscript bench/blocks.R write susy 1e6 FILE     the rows of `susy` for blocks_askotch.py, which solves them by ASkotch
#
# `alone` as the last word: without conjugate gradients.
#
# A line: passes or iterations, seconds, relative residual, error at new rows, distance from Cholesky's predictions
# there (relative to the standard deviation of y). Rows are synthetic: three normals, a smooth function of four columns,
# noise 0.2.
suppressMessages(library(flashkernel))
ns <- asNamespace("flashkernel")
arguments <- commandArgs(TRUE)
number <- function(i, default) if (length(arguments) >= i) as.numeric(arguments[i]) else default

PROBLEMS <- list(
  matern9 = list(d = 9, kernel = "matern52", bandwidth = 3, lambda = 1e-9),
  susy = list(d = 18, kernel = "gaussian", bandwidth = 3, lambda = 1e-6),
  higgs = list(d = 28, kernel = "gaussian", bandwidth = 3.8, lambda = 3e-8),
  easy = list(d = 18, kernel = "gaussian", bandwidth = 3, lambda = 1e-3),
  smooth = list(d = 60, kernel = "matern52", bandwidth = sqrt(60), lambda = 1e-9)
)

synthetic <- function(name, n) {
  set.seed(1)
  p <- PROBLEMS[[name]]
  all <- n + 1000
  z <- matrix(rnorm(all * p$d), all) + sample(-1:1, all, TRUE)
  y <- sin(z[, 1]) + z[, 2] * cos(z[, 3]) + 0.3 * z[, 4]^2 + 0.2 * rnorm(all)
  y <- (y - mean(y)) / sd(y)
  new <- n + 1:1000
  c(p, list(name = name, x = z[-new, ], y = y[-new], at = z[new, ], truth = y[new]))
}

# The system of all rows, and what predicts at the new ones.
prepare <- function(p) {
  run <- ns$start_run(ns$settle_control(NULL, list()))
  kernel <- ns$check_kernel(p$kernel)
  L <- diag(p$bandwidth, ncol(p$x))
  system <- ns$exact_system(ns$ridge_rows(p$x, L, kernel), NULL, L, kernel, p$lambda, run)
  test <- ns$ridge_rows(p$at, L, kernel)
  p$x <- NULL
  exact <- ns$run_in_double(run)
  c(p, list(system = system, predict = \(x) ns$rows_multiply(test, system$centers, x, exact)$sums[, 1]))
}

LINES <- c(1:5, seq(6, 20, 2), seq(25, 100, 5), seq(120, 1000, 20))

# Runs a solver until `tolerance` or for some seconds, which exclude predictions.
trial <- function(p, name, solve, seconds = Inf, tolerance = 1e-7, most = 1000) {
  began <- proc.time()[[3]]
  aside <- 0
  cat(p$name, ", ", p$system$n, " rows: ", name, "\n", sep = "")
  y <- matrix(p$y)
  report <- function(iteration, x, residual) {
    now <- proc.time()[[3]]
    spent <- now - began - aside
    over <- spent > seconds
    if (iteration %in% LINES || over || residual <= tolerance) {
      found <- p$predict(x)
      far <- if (is.null(p$exact)) NA else sqrt(mean((found - p$exact)^2))
      error <- sqrt(mean((found - p$truth)^2))
      line <- "%4d %8.2f s  residual %.1e  error %.5f  distance %.1e\n"
      cat(sprintf(line, as.integer(iteration), spent, residual, error, far))
    }
    aside <<- aside + proc.time()[[3]] - now
    over
  }
  invisible(suppressWarnings(solve(p$system, y, list(tolerance = tolerance, iterations = most), report)))
}

by_cholesky <- function(p) {
  began <- proc.time()[[3]]
  P <- ns$preconditioner_of(p$system$centers, p$system$run, NULL, p$system$noise)
  x <- ns$apply_factors(P, matrix(p$y), c("T^-T", "T^-1"))
  spent <- proc.time()[[3]] - began
  ns$free_preconditioner(P)
  p$exact <- p$predict(x)
  error <- sqrt(mean((p$exact - p$truth)^2))
  cat(sprintf("%s, %d rows: Cholesky %.2f s  error %.5f\n", p$name, p$system$n, spent, error))
  p
}

both <- function(p, seconds, tolerance = 1e-7) {
  cat("blocks of", ns$block_rows(p$system, ns$block_run(p$system)), "rows on", ns$block_run(p$system)$backend, "\n")
  apart <- ns$passes_apart(replace(p$system, "run", list(ns$block_run(p$system))))
  if (apart < 200) trial(p, sprintf("%.0f passes over blocks, then a factor of all", apart), ns$solve_by_blocks, seconds, tolerance)
  trial(p, "blocks", \(...) ns$solve_by_blocks(..., apart = Inf), seconds, tolerance)
  if (p$system$n <= 2e6 && !"alone" %in% arguments) trial(p, "conjugate gradients", ns$solve_by_gradients, seconds, tolerance)
}

cost <- function() {
  gpu <- ns$backend_info()$gpu_engine
  best <- \(f) { f(); min(replicate(3, system.time(f())[[3]])) }
  sizes <- if (gpu) c(1e5, 1e6) else 2e4
  precisions <- if (gpu) c("double", "single") else "double"
  for (kernel in c("gaussian", "matern52")) for (d in c(2, 9, 18, 60)) for (n in sizes) for (precision in precisions) {
    b <- if (gpu) 10000 else 1500
    p <- prepare(list(x = matrix(rnorm(n * d), n), kernel = kernel, bandwidth = 3, lambda = 1e-6))
    asked <- ns$start_run(ns$settle_control(list(precision = precision), list()))
    how <- ns$block_run(replace(p$system, "run", list(asked)))
    own <- ns$ridge_centers(ns$rows_take(p$system$rows, seq_len(b)), p$system$L, p$system$kernel)
    v <- matrix(1, b)
    factor <- b^3 / 3 / best(\() ns$solve_block(own, rep(1e-3, b), v, how))
    kernels <- b * n / best(\() ns$block_product(p$system, own, v, how))
    line <- "%s, d %d n %g %s: blocks of %d rows, %.1e multiply-adds/s, %.1e kernels/s, a kernel is %.0f\n"
    cat(sprintf(line, kernel, as.integer(d), n, precision, as.integer(b), factor, kernels, factor / kernels))
  }
}

# The factor of all rows that refinement uses, of FP16 products or in double, and the residuals of refinement.
factor_of_all <- function(name, n) {
  p <- prepare(synthetic(name, n))
  if ("exact" %in% arguments) p <- by_cholesky(p)
  run <- ns$block_run(p$system)
  y <- matrix(p$y)
  for (precision in c("single", "double")) {
    seconds <- system.time(P <- ns$preconditioner_of(
      p$system$centers, replace(run, "precision", precision), ns$ROUGH_JITTER, p$system$noise, rough = TRUE
    ))[[3]]
    state <- ns$first_blocks(p$system, y)
    p$system$whole <- list2env(list(apart = 0, P = P))
    residuals <- numeric(8)
    for (i in 1:8) {
      state <- ns$pass_of_blocks(state, p$system, run)
      residuals[i] <- sqrt(sum(state$r^2) / sum(y^2))
    }
    what <- if (precision == "single") "FP16 products" else "double"
    cat(sprintf("%s, %d rows: factor of %s in %.2f s, %.1f GB%s\n", name, p$system$n, what, seconds, P$bytes / 1e9,
      if (P$streamed) ", streamed" else ""))
    cat("  residuals", format(residuals, digits = 2), "\n")
    ns$free_preconditioner(P)
  }
}

kin40k <- function(folder) {
  read <- \(file) as.matrix(read.csv(file.path(folder, file), header = FALSE))
  all <- unname(read("uci_kin40k.csv.gz"))
  held <- read("uci_kin40k.test_mask.csv.gz")[, 1] > 0
  d <- ncol(all) - 1
  y <- (all[, d + 1] - mean(all[!held, d + 1])) / sd(all[!held, d + 1])
  x <- scale(all[, seq_len(d)])
  p <- list(
    name = "kin40k", kernel = "matern52", bandwidth = 3, lambda = 1e-8, x = x[!held, ], y = y[!held], at = x[held, ],
    truth = y[held]
  )
  both(by_cholesky(prepare(p)), 10)
}

# As numbers of four bytes: the rows, the responses, and those to predict.
write_rows <- function(name, n, file) {
  p <- synthetic(name, n)
  to <- file(file, "wb")
  for (part in list(p$x, p$y, p$at, p$truth)) writeBin(as.vector(part), to, size = 4)
  close(to)
}

switch(arguments[1],
  cost = cost(),
  small = for (name in c("matern9", "susy", "easy")) both(by_cholesky(prepare(synthetic(name, number(2, 8000)))), 40),
  write = write_rows(arguments[2], number(3, 1e6), arguments[4]),
  factor = factor_of_all(arguments[2], number(3, 5000)),
  matern9 = , susy = , higgs = , smooth = both(prepare(synthetic(arguments[1], number(2, 1e5))), number(3, 60)),
  kin40k = kin40k(arguments[2])
)
