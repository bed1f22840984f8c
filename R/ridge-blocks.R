# Exact kernel ridge regression, A x = y with A = K + N, where no exact factor of A fits. A pass shuffles the rows, cuts
# them into blocks, and solves each block by its Cholesky factor for the residual that the blocks before it left: n^2
# kernels, and factors that take about as long. The sum of a pass's changes is made A-orthogonal to those of the last
# passes, and a step of the best length is taken along it. bench/blocks.R compares it with conjugate gradients.
#
# After some passes all rows are one block, if memory has room for its rough factor: refinement of its solutions, in
# double precision, converges in a few passes unless A is singular to the precision of the factor.
#
# The residual r = A (x* - x) bounds the error of predictions: at rows of equal weight it is |K (x* - x)| <= |r|.

# Solves for all columns of y until each residual is below `tolerance` times its column. list(x, iterations, converged,
# stalled, residual), as conjugate_gradients().
solve_by_blocks <- function(system, y, spec, each, save = NULL, apart = passes_apart(system)) {
  system$run <- block_run(system)
  state <- spec$state
  scale <- column_products(y, y, system$run)
  if (!all(is.finite(scale))) stop_solver("the right-hand side is not finite")
  if (is.null(state)) state <- first_blocks(system, y, if (!is.null(spec$start)) start_of_exact(spec$start, system, y))
  solved <- run_blocks(system, y, state, spec$iterations, spec$tolerance^2 * scale, function(state, size) {
    stop <- each(state$iteration, state$x, relative_residual(size, scale))
    if (!is.null(save)) save(state)
    stop
  }, apart)
  solved$residual <- relative_residual(solved$size, scale)
  warn_exact(solved, spec)
  solved
}

# Passes until the squared residuals are at most `goal`, or `after(state, size)` is TRUE. The residual is updated by the
# same sums as the solution; where it has drifted from the true one, that is computed in double precision. `apart`: the
# number of passes with more than one block.
run_blocks <- function(system, y, state, most, goal, after, apart = passes_apart(system)) {
  run <- system$run
  system$whole <- whole <- list2env(list(apart = apart, P = NULL))
  on.exit(if (!is.null(whole$P)) free_preconditioner(whole$P))
  points <- system$centers$points
  system$keys <- if (is.matrix(points)) row_keys(points) else seq_len(system$n)
  size <- column_products(state$r, state$r, run)
  while (state$iteration < most && !state$stalled && any(size > goal)) {
    # products with the directions of blocks may be in single precision
    if (state$iteration == apart && factor_whole(system, run)) {
      state <- replace(first_blocks(system, y, state$x), "iteration", list(apart))
    }
    state <- pass_of_blocks(state, system, run)
    size <- column_products(state$r, state$r, run)
    if (state$iteration %% REFRESH == 0 || all(size <= goal)) {
      state <- with_true_residual(state, system, y, size, run)
      size <- column_products(state$r, state$r, run)
    }
    if (isTRUE(after(state, size))) break
  }
  list(
    x = state$x, r = state$r, size = size, iterations = state$iteration, converged = all(size <= goal),
    stalled = state$stalled
  )
}

# Where a solver is: x, its residual r, the directions d and A d of the last passes, and the residual when it was last
# computed anew.
first_blocks <- function(system, y, start = NULL) {
  r <- if (is.null(start)) y else y - exact_product(system, start, run_in_double(system$run))
  list(iteration = 0L, x = if (is.null(start)) 0 * y else start, r = r, kept = list(), least = Inf, stalled = FALSE)
}

pass_of_blocks <- function(state, system, run) {
  pass <- state$iteration + 1L
  step <- if (pass > system$whole$apart) step_of_whole(state$r, system, run)
  name_stage(run, paste("Pass", pass))
  if (is.null(step)) step <- step_by_blocks(state$r, system, pass, run)
  replace(step_conjugate(state, step$d, step$Ad, run), "iteration", list(pass))
}

# Makes the factor of all rows, which stays for later passes. FALSE: there is none.
factor_whole <- function(system, run) {
  whole <- system$whole
  if (is.null(whole$P)) {
    name_stage(run, "Factorising")
    # memory may have been taken since the passes began
    whole$P <- if (has_room_for_factor(system)) {
      tryCatch(
        preconditioner_of(system$centers, run_of_factor(system, run), ROUGH_JITTER, system$noise, rough = TRUE),
        flashkernel_error_singular = \(e) NULL, flashkernel_error_alloc = \(e) NULL
      )
    }
    if (is.null(whole$P)) whole$apart <- Inf
  }
  !is.null(whole$P)
}

# list(d, Ad): the solution for the residual by that factor.
step_of_whole <- function(r, system, run) {
  if (!factor_whole(system, run)) return(NULL)
  d <- apply_factors(system$whole$P, r, c("T^-T", "T^-1"))
  list(d = d, Ad = exact_product(system, d, run_in_double(run)))
}

ROUGH_JITTER <- 1e-12

# FP16 products move eigenvalues by about 2^-20 sqrt(n) of a kernel's largest value. Refinement is slow unless the noise
# is larger: with a third of that 130 passes were needed, with twice that 8 (bench/NOTES.md).
run_of_factor <- function(system, run) {
  values <- point_kernels(system$kernel, system$L, run)$diagonal(system$centers$points)
  enough <- min(system$noise) >= 2^-20 * sqrt(system$n) * max(values)
  replace(run, "precision", if (enough) "single" else "double")
}

step_by_blocks <- function(residual, system, pass, run) {
  r <- residual
  d <- 0 * r
  minus <- rep(-1, ncol(r))
  blocks <- shuffled_blocks(system, pass, run)
  for (i in seq_along(blocks)) {
    share_stage(run, (i - 1) / length(blocks), 1 / length(blocks))
    block <- blocks[[i]]
    noise <- system$noise[block]
    of_block <- ridge_centers(rows_take(system$rows, block), system$L, system$kernel)
    own <- solve_block(of_block, noise, r[block, , drop = FALSE], run)
    r <- combine_columns(r, block_product(system, of_block, own, run), minus, run)
    r[block, ] <- r[block, ] - noise * own
    d[block, ] <- own
  }
  list(d = d, Ad = combine_columns(residual, r, minus, run))
}

# A jitter that is small beside rounding errors: a block need not be solved to the last bit.
solve_block <- function(centers, noise, r, run) {
  P <- preconditioner_of(centers, run, 1e-15, noise)
  on.exit(free_preconditioner(P))
  apply_factors(P, r, c("T^-T", "T^-1"))
}

# The kernels of all rows at those of a block, times v. On a GPU a normal product finds all rows there; in double
# precision sums are so much faster that all rows can be sent again.
block_product <- function(system, of_block, v, run) {
  if (run$precision == "double") return(rows_multiply(system$rows, of_block, v, run)$sums)
  rows <- ridge_rows(of_block$points, system$L, system$kernel)
  rows_normal(rows, system$centers, NULL, v, NULL, run)$product
}

# A step along d, made orthogonal to the directions before, of which up to MOST_KEPT are kept.
MOST_KEPT <- 10
KEPT_BYTES <- 2e9

step_conjugate <- function(state, d, Ad, run) {
  for (last in state$kept) {
    part <- -column_products(last$d, Ad, run)
    d <- combine_columns(d, last$d, part, run)
    Ad <- combine_columns(Ad, last$Ad, part, run)
  }
  size <- column_products(d, Ad, run)
  by <- ifelse(size > 0, 1 / sqrt(size), 0)
  d <- scale_columns(d, by)
  Ad <- scale_columns(Ad, by)
  step <- column_products(d, state$r, run)
  state$x <- combine_columns(state$x, d, step, run)
  state$r <- combine_columns(state$r, Ad, -step, run)
  room <- max(1, min(MOST_KEPT, KEPT_BYTES %/% (16 * length(d))))
  state$kept <- utils::tail(c(state$kept, list(list(d = d, Ad = Ad))), room)
  state
}

# Compares the residual with the true one at some rows, and computes all of it anew if rounding has moved it by a tenth.
# Where it has hardly fallen since the last time, no more is to be had.
CHECKED_ROWS <- 1000

with_true_residual <- function(state, system, y, size, run) {
  exact <- run_in_double(run)
  some <- spread_rows(system$n, CHECKED_ROWS)
  x <- state$x
  rows <- ridge_rows(rows_take(system$rows, some), system$L, system$kernel)
  sums <- rows_multiply(rows, system$centers, x, exact)$sums + system$noise[some] * x[some, , drop = FALSE]
  moved <- colSums((y[some, , drop = FALSE] - sums - state$r[some, , drop = FALSE])^2) * system$n / length(some)
  if (all(moved <= 0.01 * size)) return(state)
  state$r <- y - exact_product(system, x, exact)
  now <- sum(column_products(state$r, state$r, run))
  state$stalled <- now > 0.8 * state$least
  state$least <- now
  state
}

# ---- blocks -----------------------------------------------------------------------------------

# The rows in another order in every pass, which depends on the rows alone, cut into blocks.
shuffled_blocks <- function(system, pass, run) {
  place <- order(row_keys(cbind(system$keys, as.double(pass))))
  lapply(blocks_of(system$n, block_rows(system, run)), \(block) sort(place[block]))
}

# Rows of a block such that a pass's kernels, n^2, and factors, n b^2 / 3 multiply-adds, take about equal time.
block_rows <- function(system, run) {
  n <- system$n
  ceiling(n / ceiling(n / min(n, sqrt(3 * kernel_cost(system, run) * n), MOST_BLOCK)))
}

kernel_cost <- function(system, run) {
  cost <- KERNEL_COST[[arithmetic_of(run)]]
  (cost[1] + cost[2] * system$rows$d) * if (identical(system$kernel$name, "gaussian")) 1 else cost[3]
}

# Where matrices are multiplied: the CPU, or a GPU by its precision.
arithmetic_of <- function(run) if (run$backend == "cpu") "cpu" else if (run$precision == "double") "double" else "single"

# A Gaussian kernel in multiply-adds of a factor, and those of each column; of other kernels so many times as many
# (bench/blocks.R).
KERNEL_COST <- list(cpu = c(16, 1, 1.6), double = c(40, 1, 2.5), single = c(12, 0.3, 5))

# 8 GB.
MOST_BLOCK <- 32000

# As many passes over blocks as take about as long as the factor of all rows: so both together take at most twice as long
# as the faster one alone.
BLOCKS_IN_FACTOR <- c(cpu = 3, single = 40, double = 20)

passes_apart <- function(system) {
  if (!has_room_for_factor(system)) return(Inf)
  of_factor <- arithmetic_of(run_of_factor(system, system$run))
  ceiling((system$n / block_rows(system, system$run))^2 / BLOCKS_IN_FACTOR[[of_factor]])
}

# There is no such factor of sparse rows.
has_room_for_factor <- function(system) {
  !is.null(system$centers$sources) && !exceeds_matrix(system$n, system$rows$d, system$run, rough = TRUE)
}

# The run of all products, which are exact. Few pairs are summed in double precision. The back end is that of many
# products: a GPU is started once.
block_run <- function(system) {
  run <- system$run
  n <- system$n
  asked <- exactly(run$asked)
  asked$backend <- resolve_control(run, n, 20 * n, system$rows$d, system$kernel)$backend
  if (asked$precision == "auto" && as.double(n)^2 <= MOST_PAIRS_IN_DOUBLE) asked$precision <- "double"
  made <- checked_run(asked)
  made$progress <- run$progress
  made
}

# ---- blocks of centres ------------------------------------------------------------------------

# Falkon's normal equations (K'WK / n + lambda K_mm) x = b where no m x m matrix fits into memory: conjugate gradients
# whose preconditioner is a few passes over blocks of centres. The passes solve the equations with the centres in place
# of the rows, which costs m^2 kernels instead of n m. bench/centers.R compares the solver with Falkon's factors.

solve_by_centers <- function(system, b, spec, each, save = NULL) {
  run <- system$run
  own <- system_at_centers(system)
  multiply <- function(v) {
    of_rows <- rows_normal(system$rows, system$centers, v, NULL, system$weights, run)$product / system$n
    of_centers <- rows_normal(own$rows, system$centers, NULL, v, NULL, run)$product
    combine_columns(of_rows, of_centers, rep(own$lambda, ncol(v)), run)
  }
  state <- spec$state
  if (is.null(state)) state <- first_centers(own, b, spec$start$coefficients, multiply)
  size <- column_products(state$r, state$d, run)
  residual <- \() relative_residual(pmax(size, 0), state$scale)
  while (state$iteration < spec$iterations && !state$stalled && residual() > spec$tolerance) {
    state <- step_conjugate(state, state$d, multiply(state$d), run)
    state$iteration <- state$iteration + 1L
    due <- state$iteration %% REFRESH == 0
    if (due) state$r <- b - multiply(state$x)
    state$d <- nearly_solve(own, state$r, state$iteration)
    size <- column_products(state$r, state$d, run)
    if (due) state[c("stalled", "least")] <- list(residual() > 0.8 * state$least, residual())
    stop <- isTRUE(each(state$iteration, state$x, residual()))
    if (!is.null(save)) save(state)
    if (stop) break
  }
  list(
    coefficients = state$x, iterations = state$iteration, converged = residual() <= spec$tolerance,
    stalled = state$stalled, residual = residual(), jitter = 0
  )
}

# Where the solver is, as first_blocks(): d, about the solution for r, is the next direction, and r'd estimates the square
# of the error. `scale`: its value at x = 0.
first_centers <- function(own, b, start, multiply) {
  d <- nearly_solve(own, b, 0)
  scale <- column_products(b, d, own$run)
  r <- b
  if (!is.null(start)) {
    r <- b - multiply(start)
    d <- nearly_solve(own, r, 0)
  }
  x <- if (is.null(start)) 0 * b else unname(start)
  list(iteration = 0L, x = x, r = r, d = d, kept = list(), least = Inf, stalled = FALSE, scale = scale)
}

# The system whose rows are the centres, as exact_system(). `share`: their weights, divided by their number; `passes`:
# as many as take about half as long as a product with all rows; more than MOST_PASSES gain little.
system_at_centers <- function(system) {
  points <- system$centers$points
  m <- system$centers$m
  weights <- weights_at_centers(system)
  own <- system[c("centers", "L", "kernel", "run", "lambda")]
  own$n <- m
  own$rows <- ridge_rows(points, own$L, own$kernel)
  own$keys <- if (is.matrix(points)) row_keys(points) else seq_len(m)
  own$share <- (if (is.null(weights)) rep(1, m) else weights) / m
  own$passes <- max(2, min(MOST_PASSES, round(system$n / m / 8)))
  own$run <- block_run(own)
  own
}

MOST_PASSES <- 4

# About the solution z of (K_mm W K_mm / m + lambda K_mm) z = b. In the state, x holds the fitted values K_mm z above z,
# and r what makes the products of step_conjugate() those of the equations.
nearly_solve <- function(own, b, index) {
  run <- own$run
  m <- own$n
  fits <- seq_len(m)
  state <- list(x = rbind(0 * b, 0 * b), r = rbind(0 * b, b), kept = list())
  for (pass in index * own$passes + seq_len(own$passes)) {
    before <- state$x[fits, , drop = FALSE]
    fitted <- before
    d <- 0 * b
    for (block in shuffled_blocks(own, pass, run)) {
      step <- step_in_block(own, block, b, fitted, run)
      d[block, ] <- step$d
      fitted <- combine_columns(fitted, step$fitted, rep(1, ncol(b)), run)
    }
    fitted <- fitted - before
    state <- step_conjugate(state, rbind(fitted, d), rbind(own$share * fitted, own$lambda * fitted), run)
  }
  state$x[-fits, , drop = FALSE]
}

# A step of the best length along Falkon's solution for the centres of a block.
step_in_block <- function(own, block, b, fitted, run) {
  of_block <- ridge_centers(rows_take(own$rows, block), own$L, own$kernel)
  back <- rows_normal(own$rows, of_block, NULL, own$share * fitted, NULL, run)$product
  r <- b[block, , drop = FALSE] - back - own$lambda * fitted[block, , drop = FALSE]
  P <- preconditioner_of(of_block, run, if (run$precision == "double") 1e-13 else 1e-10)
  on.exit(free_preconditioner(P))
  precondition(P, own$n * own$share[block], 1 / P$m, own$lambda)
  d <- apply_factors(P, r, c("T^-T", "A^-T", "A^-1", "T^-1"))
  moved <- block_product(own, of_block, d, run)
  size <- colSums(own$share * moved^2) + own$lambda * colSums(d * moved[block, , drop = FALSE])
  by <- ifelse(size > 0, colSums(r * d) / size, 0)
  list(d = scale_columns(d, by), fitted = scale_columns(moved, by))
}

# Is a matrix of m centres too large for the GPUs, and for the host? On GPUs the points of d columns lie beside it, and two
# of its block columns unless it is `rough` (bytes_beside() of src/core/tiled.c).
exceeds_matrix <- function(m, d, run, rough = FALSE) {
  bytes <- (if (rough) 4 else 8) * m * (m + 1)
  beside <- 8 * m * (4 * d + if (rough) 0 else 4096)
  bytes > 1e8 && bytes + beside > gpu_room(run, bytes) && bytes > memory_limit()
}
