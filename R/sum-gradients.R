# Conjugate gradients.

# Solves multiply(x) = A x = b for each column of b, until its residual is below `tol` times what it is at x = 0, with
# `precondition(r)`, about the solution for r (NULL: r itself). With `unit`, a number for each column, x minimises the
# objective unit + x'Ax - 2 x'b, and the solver ends when the last two steps have each reduced it by less than `tol` times
# it. `each(iteration, x, residual)` is called after every step, with the largest of the relative residuals; TRUE stops.
# Returns list(x, iterations, converged, stalled, residual). `save(state)` is called as well, with all that it takes to
# go on as `state`; a state of `iteration` alone goes on counting.
#
# The recursion's residual drifts from the true one: that is computed every REFRESH steps, and where it is twice as
# large the directions begin anew from it. Where it has not fallen to `fall` times the least of these times, or rounding
# has made the operator indefinite, nothing more is to be had: x is the best of these times, and `stalled`. `verify`: it
# is not over before the true residual says so, either.
conjugate_gradients <- function(multiply, b, run, start = NULL, max_iter = 50, tol = 1e-7, precondition = NULL,
                                each = NULL, save = NULL, state = NULL, fall = 1, verify = FALSE, unit = NULL) {
  scale <- column_products(b, b, run)
  if (!all(is.finite(scale))) stop_solver("the right-hand side is not finite")
  if (is.null(state$x)) {
    state <- first_state(multiply, b, run, start, precondition, sum(0, state$iteration))
    if (!is.null(unit)) state$objective <- unit - column_products(state$x, b + state$r, run)
  }
  # rounding keeps residuals and objectives from less
  goal <- if (is.null(unit)) tol^2 * scale else 1e-26 * scale
  size <- column_products(state$r, state$r, run)
  left <- \() size > goal & if (is.null(unit)) TRUE else state$gained > tol * pmax(state$objective, 1e-14 * unit)
  while (state$iteration < max_iter && !state$stalled && any(left())) {
    state <- step_along(state, multiply, left(), run)
    size <- column_products(state$r, state$r, run)
    anew <- FALSE
    due <- state$iteration %% REFRESH == 0 && state$iteration < max_iter || verify && all(size <= goal)
    if (due && !state$stalled) {
      drifted <- size
      state$r <- b - multiply(state$x)
      size <- column_products(state$r, state$r, run)
      anew <- size > 4 * drifted
      now <- relative_residual(size, scale)
      state$stalled <- any(anew & size > goal) && now >= fall * state$least
      if (now < state$least) state[c("best", "least")] <- list(state$x, now)
    }
    state <- turn(state, precondition, anew, run)
    stop <- !is.null(each) && isTRUE(each(state$iteration, state$x, relative_residual(size, scale)))
    if (!is.null(save)) save(state)
    if (stop) break
  }
  residual <- relative_residual(size, scale)
  if (state$stalled && state$least < residual) {
    state$x <- state$best
    residual <- state$least
  }
  list(
    x = state$x, iterations = state$iteration, converged = !state$stalled && !any(left()), stalled = state$stalled,
    residual = residual
  )
}

REFRESH <- 10

# Where conjugate gradients are: x, its residual r, the direction p, rho = r'z of the preconditioned residual z, and the
# best x of which the true residual is known. `gain`: by how much the last step reduced the objective; `gained`: the
# larger of the last two such numbers.
first_state <- function(multiply, b, run, start, precondition, iteration) {
  r <- if (is.null(start)) b else b - multiply(start)
  z <- if (is.null(precondition)) r else precondition(r)
  list(
    iteration = iteration, x = if (is.null(start)) 0 * b else start, r = r, p = z, rho = column_products(r, z, run),
    best = NULL, least = Inf, stalled = FALSE, gained = Inf, gain = Inf
  )
}

# A step along p. Columns that are done (not `wanted`), or broken down as rounding has made the operator or the
# preconditioner indefinite, stay where they are.
step_along <- function(state, multiply, wanted, run) {
  Ap <- multiply(state$p)
  curvature <- column_products(state$p, Ap, run)
  state$active <- wanted & is.finite(curvature) & curvature > 0 & state$rho > 0
  state$stalled <- any(wanted & !state$active)
  step <- ifelse(state$active, state$rho / curvature, 0)
  gain <- ifelse(state$active, step * state$rho, 0)
  state[c("gained", "gain")] <- list(pmax(gain, state$gain), gain)
  if (!is.null(state$objective)) state$objective <- state$objective - gain
  state$x <- combine_columns(state$x, state$p, step, run)
  state$r <- combine_columns(state$r, Ap, -step, run)
  state$iteration <- state$iteration + 1
  state
}

# The next direction, without the last one in columns that begin `anew`.
turn <- function(state, precondition, anew, run) {
  z <- if (is.null(precondition)) state$r else precondition(state$r)
  before <- state$rho
  state$rho <- column_products(state$r, z, run)
  state$p <- combine_columns(z, state$p, ifelse(state$active & !anew, state$rho / before, 0), run)
  state
}

# Columns that are 0 have no residual.
relative_residual <- function(size, scale) sqrt(max(ifelse(scale > 0, size / scale, 0)))

# colSums(a * b), and x + a diag(by), where `a` NULL has ones, by all threads: with many outputs R's own passes take as long
# as the products.
column_products <- function(a, b, run) .Call(ffi_column_products, a, b, run)
combine_columns <- function(x, a, by, run) .Call(ffi_combine_columns, x, a, by, run)

# a b, a'b or a b' by all threads: R's reference BLAS takes some ten times as long.
matrix_product <- function(a, b, run, transposed = 0L) .Call(ffi_matrix_product, a, b, transposed, run)
matrix_crossprod <- function(a, b, run) matrix_product(a, b, run, 1L)
matrix_tcrossprod <- function(a, b, run) matrix_product(a, b, run, 2L)

# list(inverse, log_det) of a symmetric positive definite matrix; NULL if its Cholesky factorisation fails.
inverse_of <- function(matrix, run) {
  found <- .Call(ffi_inverse, matrix, run)
  if (!is.nan(found$log_det)) found
}

# A failure that no argument alone explains.
stop_solver <- function(problem) {
  advice <- ". Check the scales of `lambda`, `bandwidth` and `weights`."
  stop(new_error("singular", paste0(problem, advice), user_call()))
}
