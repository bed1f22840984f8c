# Exact fits in one column whose kernel is that of a Markov process, the Laplacian or a Matern kernel. The state of the
# process has one to three coordinates, and a pass over the sorted rows in both directions (src/cpu/line/markov.c) finds
# the solution, the diagonal of (K + N)^-1, its determinant and the variances of predictions, in linear time.

MARKOV_KERNELS <- c("laplacian", "product_laplacian", "matern32", "matern52")

# Of a system or a fit. Sparse rows have a vector L, and sums of kernels the name of one.
is_markov <- function(system) identical(dim(system$L), c(1L, 1L)) && has_states(system$kernel)
has_states <- function(kernel) !inherits(kernel, "kernel_of_terms") && isTRUE(kernel$name %in% MARKOV_KERNELS)

# Is an exact fit by states what these rows get by default? It takes less time than a fit by centres.
may_be_markov <- function(rows, spec) {
  inherits(rows, "rows_dense") && rows$d == 1 && spec$family$squared && has_states(spec$kernel)
}

solve_by_states <- function(system, y, spec, each, save = NULL) {
  run <- system$run
  line <- checked_run(replace(
    run$asked, c("backend", "engine", "precision", "tol", "cluster"), list("cpu", "auto", "double", 0, NULL)
  ))
  solved_once(system, y, solve_states(system, y, run)$x, each, line)
}

# list(x, log_det, own, variance): (K + N)^-1 y and log det(I + N^-1 K); with `with_own` the diagonals of (K + N)^-1 and
# of K - K (K + N)^-1 K, at the rows and then at the points `at`, which are not observed.
solve_states <- function(system, y, run, at = NULL, with_own = FALSE) {
  x <- c(system$centers$points, at)
  order <- order(x)
  noise <- c(system$noise, rep(Inf, length(at)))
  y <- rbind(y, matrix(0, length(at), ncol(y)))
  line <- list(x = x[order], noise = noise[order], bandwidth = system$L[1], kernel = system$kernel)
  found <- markov_solve(line, y[order, , drop = FALSE], with_own, run)
  order[order] <- seq_along(order)
  list(x = found$x[order, , drop = FALSE], log_det = found$log_det, own = found$own[order], variance = found$variance[order])
}

posterior_by_states <- function(fit, system, run) {
  direct_posterior(fit, system, solve_states(system, matrix(1, system$n), run, with_own = TRUE))
}

# k'(K + N)^-1 k at new rows; `prior` is k(x, x).
norms_by_states <- function(fit, rows, prior, run) {
  system <- exact_system_of(fit, run)
  found <- solve_states(system, matrix(0, system$n), run, rows_take(rows, seq_len(rows$n)), with_own = TRUE)
  prior - found$variance[system$n + seq_len(rows$n)]
}

# From the time of some of the rows.
plan_states <- function(task, system, way) {
  spec <- task$spec
  part <- problem_at(task$problem, spec, spread_rows(task$rows$n, 1e4))
  few <- exact_system(part$rows, part$weights, spec$L, spec$kernel, spec$lambda, task$run)
  y <- part$y[few$index, , drop = FALSE]
  seconds <- timed(\() way$solve(few, y, spec, \(...) NULL)) * system$n / few$n
  list(iterations = 1, seconds = c(states = seconds), memory = plan_memory(task, 40 * system$n, "cpu", 0))
}
