# Exact kernel ridge regression: (K + N) alpha = y - intercept, where N has n lambda / w_i on its diagonal. It is solved
# by the states of a Markov process if there is one (ridge-states.R), by Cholesky factorisation if the matrix is small
# enough, otherwise without the matrix in memory: by conjugate gradients if the fast engine computes the products, in
# time linear in the rows, else by blocks (ridge-blocks.R). Rows of weight 0 have coefficient 0: they are not in the
# system and not among the centres of the fit.

# Largest number of rows whose matrix is factorised on the CPU. The factorisation then takes about a second on two cores.
EXACT_FACTORISED <- 6000

# Largest number of rows of an exact fit with another loss than the square.
EXACT_LOGISTIC <- 10000

fit_exact <- function(problem, spec, run) {
  if (!spec$family$squared) return(fit_all_rows(problem, spec, run))
  clock <- stage_clock()
  system <- exact_system(problem$rows, problem$weights, spec$L, spec$kernel, spec$lambda, run)
  centred <- centred_response(problem, run)
  y <- centred$y[system$index, , drop = FALSE]
  # the unknowns are the coefficients themselves
  watch <- watch_iterations(system, problem, centred$intercept, seen = spec$state$watch)
  spec$save <- checkpoint_writer(spec, problem$task)
  way <- exact_way(system)
  solved <- way$solve(system, y, settle_way(spec, way), watch$each, watched_save(spec, watch))
  c(watched_result(watch, centred$intercept, solved, solved$x), list(
    centers = system$centers$points, center_index = system$index, merged = 0, jitter = 0, columns = system$centers,
    seconds = clock("iterations")
  ))
}

# Exact fits with other losses use Newton's method with all rows as centres, which needs few rows.
fit_all_rows <- function(problem, spec, run) {
  n <- problem$rows$n
  if (n > EXACT_LOGISTIC) {
    stop_argument(
      "exact", "is available only for up to ", whole(EXACT_LOGISTIC), " rows for this family: found ", whole(n),
      ". Give `centers` instead."
    )
  }
  spec$centers <- seq_len(n)
  fit_by_centers(problem, spec, run)
}

# The system for the rows of positive weight: `rows` and `centers` are the same points, in memory; `index`: their
# indices among all rows; `noise`: the diagonal N, n lambda / w_i, where n counts all rows.
exact_system <- function(rows, weights, L, kernel, lambda, run) {
  index <- if (is.null(weights)) seq_len(rows$n) else which(weights > 0)
  all <- length(index) == rows$n
  points <- if (all && inherits(rows, "rows_dense")) as_points(rows$points, "x") else rows_take(rows, index)
  noise <- rows$n * lambda / (if (is.null(weights)) 1 else weights[index])
  if (!all || !inherits(rows, "rows_dense")) rows <- ridge_rows(points, L, kernel)
  list(
    rows = rows, centers = ridge_centers(points, L, kernel), index = index, noise = rep_len(noise, nrow(points)),
    n = nrow(points), L = L, kernel = kernel, run = run
  )
}

exact_system_of <- function(fit, run) {
  exact_system(kept_data(fit)$rows, fit$data$weights, fit$L, fit$kernel, fit$lambda, run)
}

is_factorised <- function(system) {
  system$n <= EXACT_FACTORISED || fits_on_gpu(system$n, system$run)
}

# How a system is solved: `solve` makes the fit, `plan` estimates its time and memory, `posterior` and `norms` are for
# posterior_of() and link_errors(). `name` is for the user; `tolerance` and `iterations` are the stopping rule where none
# is given. With the fast engine a block would take about as long as all rows.
exact_way <- function(system) {
  if (is_markov(system)) {
    return(list(
      name = "states of a Markov process", solve = solve_by_states, plan = plan_states, posterior = posterior_by_states,
      norms = norms_by_states
    ))
  }
  if (is_factorised(system)) {
    return(list(solve = solve_by_factor, plan = plan_factorised, posterior = posterior_by_factor))
  }
  fast <- is_fast(system, run_to_tolerance(system$run, exact_tolerance(system$run, 1e-7)))
  c(list(fast = fast, posterior = posterior_by_solves, norms = solved_norms), if (fast) {
    list(
      name = "conjugate gradients with fast products", solve = solve_by_gradients, plan = plan_gradients,
      tolerance = 1e-7, iterations = MOST_GRADIENTS + MOST_REFINEMENTS
    )
  } else {
    list(
      name = "passes over blocks of rows", solve = solve_by_blocks, plan = plan_blocks, tolerance = 1e-4,
      iterations = 200L
    )
  })
}

settle_way <- function(spec, way) {
  for (name in c("tolerance", "iterations")) if (is.null(spec[[name]])) spec[[name]] <- way[[name]]
  spec
}

is_fast <- function(system, run) {
  if (is.null(system$rows$sources)) return(FALSE)
  resolve_control(run, system$n, system$n, system$rows$d, system$kernel)$engine == "fast"
}

# Is there a GPU whose free memory is at least twice that of an n x n matrix?
fits_on_gpu <- function(n, run) {
  if (run$backend == "cpu" || !backend_info()$gpu_engine) return(FALSE)
  free <- gpu_info()$memory_free
  length(free) > 0 && 8 * n^2 <= free[1] / 2
}

# ---- by Cholesky ------------------------------------------------------------------------------

# T'T = K + N.
exact_factor <- function(system) preconditioner_of(system$centers, system$run, NULL, system$noise)

solve_by_factor <- function(system, y, spec, each, save = NULL) {
  name_stage(system$run, "Factorising")
  solved_once(system, y, apply_factors(exact_factor(system), y, c("T^-T", "T^-1")), each, system$run)
}

solved_once <- function(system, y, x, each, run) {
  residual <- y - exact_product(system, x, run)
  each(1L, x, relative_residual(colSums(residual^2), colSums(y^2)))
  list(x = x, iterations = 1L, converged = TRUE)
}

# ---- by conjugate gradients -------------------------------------------------------------------

# Tolerance of products relative to the tolerance of the residual. The error of a product is relative to the largest sum
# of absolute terms, which is large for the solution. The time of the fast engine grows with the logarithm only.
PRODUCT_TOLERANCE <- 1e-3
LEAST_TOLERANCE <- 1e-12

# The tolerance of products for a relative residual of `tol`.
exact_tolerance <- function(run, tol) if (run$tol > 0) run$tol else max(tol * PRODUCT_TOLERANCE, LEAST_TOLERANCE)

# As many iterations as take about as long as the factor of all rows, if memory has room for it, and then refinement with
# that. The state of an iteration by blocks has `kept` directions.
solve_by_gradients <- function(system, y, spec, each, save = NULL, turns = iterations_in_factor(system, spec$tolerance)) {
  if (is.null(spec$state$kept)) {
    solved <- gradients_alone(system, y, replace(spec, "iterations", min(turns, spec$iterations)), each, save)
    ended <- solved$iterations >= spec$iterations || !(solved$stalled || solved$iterations >= turns)
    if (solved$converged || ended || is.infinite(turns)) {
      warn_exact(solved, spec)
      return(solved)
    }
    spec$state <- replace(first_blocks(system, y, solved$x), "iteration", list(solved$iterations))
  }
  solve_by_blocks(system, y, spec, each, save, apart = 0)
}

# Iterations by default: of conjugate gradients, and of refinement after these.
MOST_GRADIENTS <- 1000L
MOST_REFINEMENTS <- 200L

# By the engine's estimates of seconds, which are constants of the machine; their ratio does not depend on the threads. An
# iteration takes as long for each of the `columns`.
iterations_in_factor <- function(system, tolerance, columns = 1) {
  if (!has_room_for_factor(system)) return(Inf)
  seconds <- \(run, m) guessed_seconds(run, system$n, m, system$rows$d, system$kernel)
  exact <- block_run(system)
  fast <- run_to_tolerance(system$run, exact_tolerance(system$run, tolerance))
  factor <- seconds(exact, system$n) * system$n / (3 * kernel_cost(system, exact))
  each <- columns * (seconds(fast, system$n) + 2 * seconds(fast, nystrom_rank(system$n)))
  min(MOST_GRADIENTS, ceiling(signif(factor / (ITERATION_COST * each), 6)))
}

# The estimates know nothing of the points. No script: beside a factor, products and the preconditioner of 8,000 and
# 20,000 uniform points in two and three columns take 2 to 4 times as long as these say.
ITERATION_COST <- 2.5

gradients_alone <- function(system, y, spec, each, save) {
  run <- system$run
  given <- run$tol
  tolerance <- exact_tolerance(run, spec$tolerance)
  precondition <- nystrom_matrix(system, tolerance)$solve
  name_stage(run, "Fitting")
  x <- if (!is.null(spec$start)) start_of_exact(spec$start, system, y)
  state <- spec$state
  if (!is.null(state)) tolerance <- state$tolerance
  repeat {
    tolerant <- run_to_tolerance(run, tolerance)
    # the error of the products limits the residual
    solved <- conjugate_gradients(
      \(v) exact_product(system, v, tolerant), y, run, x, spec$iterations, spec$tolerance, precondition, each,
      if (!is.null(save)) \(state) save(replace(state, "tolerance", tolerance)), state, fall = 0.5, verify = TRUE
    )
    if (!solved$stalled || given > 0 || tolerance <= LEAST_TOLERANCE) break
    # more exact products may reach a smaller residual
    tolerance <- max(tolerance / 1000, LEAST_TOLERANCE)
    x <- solved$x
    state <- list(iteration = solved$iterations)
  }
  solved
}

warn_exact <- function(solved, spec) {
  if (solved$converged) return(invisible())
  warning(
    "the exact solver reached a relative residual of ", format(solved$residual, digits = 2), " after ",
    solved$iterations, " iterations, not ", format(spec$tolerance), ": ",
    if (solved$iterations < spec$iterations) {
      "rounding errors of the sums are too large for this `lambda` and `bandwidth`; use a larger `lambda`"
    } else {
      "increase `iterations` of ridge_solver(), or use a larger `lambda`"
    },
    call. = FALSE
  )
}

# (K + N) v.
exact_product <- function(system, v, run) {
  sources <- system$centers$sources
  sums <- if (is.null(sources)) {
    rows_multiply(system$rows, system$centers, v, run)$sums
  } else {
    kernel_sum_of(sources, NULL, v, run, as_matrix = TRUE)$sums
  }
  sums + system$noise * v
}

# The run with tolerance `tol`: engine "auto" then takes the faster engine.
run_to_tolerance <- function(run, tol) {
  tolerant <- checked_run(replace(run$asked, "tol", list(tol)))
  tolerant$progress <- run$progress
  tolerant
}

# The run in double precision with exact sums.
run_in_double <- function(run) {
  exact <- checked_run(replace(run$asked, c("engine", "tol", "precision"), list("exact", 0, "double")))
  exact$progress <- run$progress
  exact
}

start_of_exact <- function(start, system, y) {
  good <- start$exact && nrow(start$coefficients) == system$n && ncol(start$coefficients) == ncol(y)
  if (!good) stop_argument("start", "must be an exact fit to the same number of rows and responses")
  unname(start$coefficients)
}

# ---- the preconditioner -----------------------------------------------------------------------

# M = K_nr K_rr^-1 K_rn + N, a Nystroem approximation of K + N by r of the points. With T'T = K_rr and
# G = T^-T K_rn N^-1 K_nr T^-1 + I,
#   M^-1 = N^-1 - N^-1 K_nr T^-1 G^-1 T^-T K_rn N^-1,
# by products with K_nr, which is not in memory, with errors below `tolerance`.
#
# list(solve, root, P, G, noise, raised): functions v -> M^-1 v and e -> K_nr T^-1 e, the factors T and of G, and the
# diagonal N of M, which is that of the system times `raised`. `exactly`: compute G without approximation, for callers
# that use its trace.
nystrom_matrix <- function(system, tolerance, exactly = FALSE) {
  run <- run_to_tolerance(system$run, min(tolerance, 1e-10))
  name_stage(run, "Preconditioner")
  raised <- raised_noise(system)
  system$noise <- raised * system$noise
  # with so little noise the larger rank is needed
  by_midpoints <- !exactly && raised == 1 && may_take_midpoints(system, run)
  parts <- if (by_midpoints) {
    tryCatch(
      nystrom_parts(system, run, midpoint_rank(system$n), gaussian_information),
      flashkernel_error_singular = \(e) NULL
    )
  }
  if (is.null(parts)) parts <- nystrom_parts(system, run, nystrom_rank(system$n), information)
  rows <- system$rows
  few <- parts$centers
  P <- parts$P
  inverse <- 1 / system$noise
  root <- function(e) rows_multiply(rows, few, apply_factors(P, e, "T^-1"), run)$sums
  solve <- function(v) {
    v <- inverse * v
    inner <- apply_factors(P, transposed_product(rows, few, v, run), "T^-T")
    v - inverse * root(apply_factors(parts$G, inner, c("T^-T", "T^-1")))
  }
  list(solve = solve, root = root, P = P, G = parts$G, noise = system$noise, raised = raised)
}

# The diagonal N of M, raised if necessary. Both terms of M^-1 are as large as N^-1, and their difference is as small as
# the inverse of the largest eigenvalue of K. If rounding errors exceed the difference, M^-1 is not positive definite.
# With a larger N it is; conjugate gradients take more steps, about in proportion to the root of the factor, to the same
# solution.
raised_noise <- function(system) {
  diagonal <- point_kernels(system$kernel, system$L, system$run)$diagonal(system$centers$points)
  max(1, sum(diagonal / system$noise) / MOST_TRACE)
}

# Largest trace of N^-1 K, which bounds its eigenvalues. For 6,000 rows in a square, bandwidths of 0.1 to 1 and n lambda
# of 1e-7 to 1e-5, conjugate gradients converged in 4 to 100 steps; with 1e10 most of these cases did not converge.
MOST_TRACE <- 1e9

# K_rn v.
transposed_product <- function(rows, few, v, run) {
  if (is.null(rows$sources)) return(rows_normal(rows, few, NULL, v, NULL, run)$product)
  kernel_sum_of(rows$sources, few$points, v, run, as_matrix = TRUE)$sums
}

# list(centers, P, G), or NULL if `inform` returns NULL. A jitter that is small relative to the noise for r of n points
# is added to K_rr, which limits the errors that T^-1 magnifies.
nystrom_parts <- function(system, run, r, inform) {
  chosen <- with_fixed_seed(choose_centers(system$rows, r, "uniform", NULL, system$L, system$kernel, run))
  few <- ridge_centers(chosen$points, system$L, system$kernel)
  P <- preconditioner_of(few, run, max(1e-13, 0.01 * min(system$noise) / system$n))
  inner <- inform(system$rows, few, P, 1 / system$noise, run)
  if (!is.null(inner)) list(centers = few, P = P, G = new_preconditioner(inner, run, 1e-15, diagonal = 1))
}

# Number of points r. The sums of G take about ten seconds on two cores. Computed by midpoints they take as long as one
# product, and the factorisation limits r.
nystrom_rank <- function(n) max(1, floor(min(n / 8, sqrt(4e10 / n))))
midpoint_rank <- function(n) max(1, floor(min(n / 8, 5 * sqrt(n), 2000)))

may_take_midpoints <- function(system, run) {
  if (!inherits(system$rows$sources, "engine_sources") || system$kernel$name != "gaussian") return(FALSE)
  r <- midpoint_rank(system$n)
  resolve_control(run, system$n, r^2 / 2, system$rows$d, system$kernel)$engine == "fast"
}

# information() for Gaussian kernels. The product of two Gaussian kernels is a Gaussian kernel at their midpoint,
# narrower by sqrt(2): the entries are sums over all rows at the midpoints, which the fast engine computes. The errors,
# if random, have a norm of at most 2 sqrt(m) times the largest, and T^-1 magnifies them. NULL if the result is not
# small beside I.
gaussian_information <- function(rows, centers, P, weights, run) {
  points <- centers$points
  L <- rows$sources$L
  kernel <- rows$sources$kernel
  m <- centers$m
  pairs <- which(lower.tri(diag(m), diag = TRUE), arr.ind = TRUE)
  middle <- (points[pairs[, 1], , drop = FALSE] + points[pairs[, 2], , drop = FALSE]) / 2
  narrow <- sum_sources(rows$points, NULL, L / sqrt(2), kernel)
  found <- kernel_sum_of(narrow, middle, as.matrix(weights), run_to_tolerance(run, LEAST_TOLERANCE), as_matrix = TRUE)
  error <- max(found$stats$tol_achieved, .Machine$double.eps, na.rm = TRUE)
  if (2 * sqrt(m) * error * max(found$sums) > 0.5 * P$jitter * m) return(NULL)
  K <- kernel_matrix_of(sum_sources(points, NULL, L * sqrt(2), kernel), NULL, run)
  K[pairs] <- K[pairs] * found$sums
  K[pairs[, 2:1]] <- K[pairs]
  apply_factors(P, t(apply_factors(P, K, "T^-T")), "T^-T")
}

# T^-T K_mn W K_nm T^-1 for the factor T of P and weights W of the rows, in blocks of columns large enough for efficient
# matrix products.
information <- function(rows, centers, P, weights, run) {
  run <- run_in_double(run)
  m <- centers$m
  made <- matrix(0, m, m)
  blocks <- blocks_of(m, 128)
  for (i in seq_along(blocks)) {
    share_stage(run, (i - 1) / length(blocks), 1 / length(blocks))
    block <- blocks[[i]]
    v <- apply_factors(P, unit_columns(m, block), "T^-1")
    made[, block] <- apply_factors(P, rows_normal(rows, centers, v, NULL, weights, run)$product, "T^-T")
  }
  (made + t(made)) / 2
}

unit_columns <- function(m, columns) {
  made <- matrix(0, m, length(columns))
  made[cbind(columns, seq_along(columns))] <- 1
  made
}
