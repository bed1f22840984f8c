# Standard errors and degrees of freedom of an exact fit whose matrix A = K + N is not factorised. Many right-hand sides
# are solved at a time, as the fit was: by blocks, or by conjugate gradients preconditioned by the Nystroem matrix M
# (ridge-exact.R). The trace of M is known; random vectors estimate only the difference between A and M.

# list(system, nystrom): computed when first needed and cached; recomputed if the factors were lost with their session.
unfactorised_of <- function(fit, run) {
  kept <- fit$state$unfactorised
  if (is.null(kept) || !is_there(kept$nystrom$P)) {
    system <- exact_system_of(fit, run)
    kept <- list(system = system, nystrom = nystrom_matrix(system, ENERGY_PRODUCTS, exactly = TRUE))
    fit$state$unfactorised <- kept
  }
  kept$system$run <- run
  kept
}

is_there <- function(P) tryCatch({ apply_factors(P, numeric(P$m), "T"); TRUE }, flashkernel_error_lost = \(e) FALSE)

# Tolerance of the products with A.
ENERGY_PRODUCTS <- 1e-9

# Solves A x = b for all columns of b. `enough(left, energy, columns)`: are these energies near enough to b'A^-1 b, which
# is about `left` more? Returns list(energy, x).
solved_energies <- function(kept, b, enough) {
  system <- kept$system
  start <- NULL
  if (exact_way(system)$fast) {
    turns <- iterations_in_factor(system, ENERGY_PRODUCTS / PRODUCT_TOLERANCE, ncol(b))
    found <- energy_gradients(system, kept$nystrom, b, enough, min(turns, MOST_SOLVE_STEPS))
    if (!found$converged && is.infinite(turns)) warn_unresolved(MOST_SOLVE_STEPS)
    if (found$converged || is.infinite(turns)) return(found)
    start <- found$x
  }
  system$run <- block_run(system)
  # b'A^-1 b - r'A^-1 r, which never falls
  energy_of <- \(at) column_products(b + at$r, at$x, system$run)
  energy <- numeric(ncol(b))
  found <- run_blocks(system, b, first_blocks(system, b, start), MOST_SOLVE_STEPS, 0, function(state, size) {
    before <- energy
    energy <<- energy_of(state)
    all(enough(energy - before, energy, seq_along(energy)))
  }, if (is.null(start)) passes_apart(system) else 0)
  if (found$iterations == MOST_SOLVE_STEPS) warn_unresolved(MOST_SOLVE_STEPS)
  list(energy = energy, x = found$x)
}

MOST_SOLVE_STEPS <- 500

# By conjugate gradients preconditioned by M. Each step adds to the energies b'x. Their error, b'A^-1 b - b'x =
# r'A^-1 r, is about r'M^-1 r, at most that times the factor by which the noise of M is raised. A column stops when there
# is enough.
energy_gradients <- function(system, nystrom, b, enough, max_iter) {
  run <- run_to_tolerance(system$run, ENERGY_PRODUCTS)
  energy <- numeric(ncol(b))
  x <- 0 * b
  of <- seq_len(ncol(b))
  r <- b
  p <- z <- nystrom$solve(r)
  left <- column_products(r, z, run)
  for (iteration in seq_len(max_iter)) {
    go <- which(left > 0 & !enough(nystrom$raised * left, energy[of], of))
    if (length(go) == 0) return(list(energy = energy, x = x, converged = TRUE))
    if (length(go) < length(of)) {
      of <- of[go]
      r <- r[, go, drop = FALSE]
      p <- p[, go, drop = FALSE]
      left <- left[go]
    }
    Ap <- exact_product(system, p, run)
    curvature <- column_products(p, Ap, run)
    step <- ifelse(curvature > 0, left / curvature, 0)
    energy[of] <- energy[of] + step * left
    x[, of] <- combine_columns(x[, of, drop = FALSE], p, step, run)
    r <- combine_columns(r, Ap, -step, run)
    z <- nystrom$solve(r)
    before <- left
    # rounding has made the matrix indefinite: stop this column
    left <- ifelse(step > 0, column_products(r, z, run), 0)
    p <- combine_columns(z, p, left / before, run)
  }
  list(energy = energy, x = x, converged = FALSE)
}

warn_unresolved <- function(steps) {
  warning(
    "the solver for standard errors or degrees of freedom did not converge in ", steps, " steps: ",
    "`lambda` is too small for this `bandwidth`", call. = FALSE
  )
}

# ---- standard errors --------------------------------------------------------------------------

# Largest number of rows with standard errors: each needs the solution of a linear system.
MOST_SOLVES <- 1e4

# Columns of a block, which share kernel evaluations or a factor: at least 64, and more while a matrix takes up to 16 MB.
solves_at_a_time <- function(n) max(64, 2^21 %/% n)

# Relative error of the variance.
VARIANCE_ERROR <- 1e-3

# k'A^-1 k at some rows. `prior` is k(x, x); the error is relative to `prior` - k'A^-1 k.
solved_norms <- function(fit, rows, prior, run) {
  if (rows$n > MOST_SOLVES) {
    stop_argument(
      "se.fit", "is available only for up to ", whole(MOST_SOLVES), " rows at a time, because this exact fit of ",
      whole(fit$n), " rows solves a linear system for each: found ", whole(rows$n), ". Use a fit with `centers`."
    )
  }
  kept <- unfactorised_of(fit, run)
  of_rows <- run_to_tolerance(run, ENERGY_PRODUCTS)
  unlist(lapply(blocks_of(rows$n, solves_at_a_time(kept$system$n)), \(block) {
    few <- ridge_centers(rows_take(rows, block), fit$L, fit$kernel)
    k <- rows_multiply(kept$system$rows, few, diag(length(block)), of_rows)$sums
    own <- prior[block]
    enough <- \(left, energy, of) left <= VARIANCE_ERROR / 10 * pmax(own[of] - energy, 1e-10 * own[of])
    solved_energies(kept, k, enough)$energy
  }))
}

# ---- traces -----------------------------------------------------------------------------------

PROBES <- 8

# Random vectors of covariance M, one in each column, the same in every call.
probes_of <- function(kept) with_fixed_seed({
  inner <- matrix(stats::rnorm(PROBES * kept$nystrom$P$m), kept$nystrom$P$m)
  sqrt(kept$nystrom$noise) * matrix(stats::rnorm(PROBES * kept$system$n), kept$system$n) + kept$nystrom$root(inner)
})

# list(edf, edf_error, ones): an estimate of tr(K A^-1) with its standard error, and N A^-1 1. For random vectors z of
# covariance M, y = M^-1 z and x = A^-1 z, y'N (x - y) has the mean tr(N A^-1) - tr(N M^-1). The noise of M is s N.
estimated_traces <- function(fit, run) {
  kept <- unfactorised_of(fit, run)
  system <- kept$system
  nystrom <- kept$nystrom
  name_stage(run, "Degrees of freedom")
  z <- probes_of(kept)
  y <- nystrom$solve(z)
  first <- c(column_products(z, y, run), sum(1 / system$noise))
  x <- solved_energies(kept, cbind(z, 1), \(left, energy, of) left <= 1e-6 * first[of])$x
  own <- nystrom$P$m - sum(apply_factors(nystrom$G, diag(nystrom$P$m), "T^-1")^2)
  differences <- colSums(y * system$noise * (x[, seq_len(PROBES)] - y))
  s <- nystrom$raised
  list(
    edf = (own + (s - 1) * system$n) / s - mean(differences), edf_error = stats::sd(differences) / sqrt(PROBES),
    ones = system$noise * x[, PROBES + 1]
  )
}

# list(log_det, error): an estimate of log det(I + N^-1 K) with its standard error. The determinant of M is known. For
# random vectors z of covariance M, quadratures by Lanczos coefficients estimate the trace of the logarithm of
# M^-1/2 A M^-1/2 (Ubaru, Chen and Saad, 2017).
estimated_log_det <- function(fit, run) {
  kept <- unfactorised_of(fit, run)
  name_stage(run, "Likelihood")
  logs <- lanczos_logs(kept$system, kept$nystrom, probes_of(kept))
  known <- log_det(kept$nystrom$G) + sum(log(kept$nystrom$noise / kept$system$noise))
  list(log_det = known + mean(logs), error = stats::sd(logs) / sqrt(PROBES))
}

# Shares of the standard error that another step may change the mean by.
LANCZOS_CHANGE <- 0.01

# For each column of z, z'M^-1/2 log(M^-1/2 A M^-1/2) M^-1/2 z. Conjugate gradients that solve A x = z from 0,
# preconditioned by M, give the coefficients.
lanczos_logs <- function(system, nystrom, z) {
  run <- run_to_tolerance(system$run, ENERGY_PRODUCTS)
  p <- s <- nystrom$solve(z)
  first <- left <- column_products(z, s, run)
  steps <- ratios <- NULL
  logs <- numeric(ncol(z))
  for (iteration in seq_len(MOST_SOLVE_STEPS)) {
    Ap <- exact_product(system, p, run)
    steps <- rbind(steps, left / column_products(p, Ap, run))
    z <- combine_columns(z, Ap, -steps[iteration, ], run)
    s <- nystrom$solve(z)
    now <- column_products(z, s, run)
    ratios <- rbind(ratios, now / left)
    before <- mean(logs)
    logs <- first * vapply(seq_along(first), \(k) log_of_first(steps[, k], ratios[, k]), 0)
    ends <- abs(mean(logs) - before) <= LANCZOS_CHANGE * stats::sd(logs) / sqrt(length(logs)) || all(now <= 1e-20 * first)
    if (ends) return(logs)
    p <- combine_columns(s, p, now / left, run)
    left <- now
  }
  warn_unresolved(MOST_SOLVE_STEPS)
  logs
}

# The first entry of the logarithm of the tridiagonal matrix of Lanczos, whose coefficients are those of conjugate
# gradients: the lengths of the steps, and the ratios of successive residuals.
log_of_first <- function(step, ratio) {
  k <- length(step)
  tridiagonal <- diag(1 / step + c(0, (ratio / step)[-k]), k)
  beside <- cbind(seq_len(k - 1), seq_len(k - 1) + 1)
  tridiagonal[beside] <- tridiagonal[beside[, 2:1, drop = FALSE]] <- sqrt(ratio[-k]) / step[-k]
  of <- eigen(tridiagonal, symmetric = TRUE)
  sum(of$vectors[1, ]^2 * log(pmax(of$values, .Machine$double.eps * of$values[1])))
}
