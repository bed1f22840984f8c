# Conjugate gradients for Falkon's normal equations, on matrices of m numbers for each output.

# What a fit solves with: rows and centres (falkon-rows.R), the preconditioner of the centres, lambda, n, the rows'
# weights (NULL: ones), the control, and which rows the centres are (NULL: none).
falkon_system <- function(rows, centers, preconditioner, lambda, weights, run, center_index = NULL) {
  list(
    rows = rows, centers = centers, preconditioner = preconditioner, lambda = lambda, weights = weights, n = rows$n,
    run = run, center_index = center_index
  )
}

# Those of the rows that the centres are; NULL where these are points of their own.
weights_at_centers <- function(system) {
  if (!is.null(system$weights) && !is.null(system$center_index)) system$weights[system$center_index]
}

# beta, of which alpha = T^-1 A^-1 beta are the coefficients, and back.
coefficients_of <- function(system, beta) apply_factors(system$preconditioner, beta, c("A^-1", "T^-1"))
preconditioned <- function(system, alpha) apply_factors(system$preconditioner, alpha, c("T", "A"))

# The right-hand side A^-T T^-T K' W y / n, of residuals y, n x t.
right_hand_side <- function(system, y) {
  product <- rows_normal(system$rows, system$centers, NULL, y, system$weights, system$run)$product
  apply_factors(system$preconditioner, product / system$n, c("T^-T", "A^-T"))
}

# The operator A^-T (T^-T K' W K T^-1 / n + lambda) A^-1 as a function of beta. Its work is one sweep over all rows.
# `product`: K' W K alpha of alpha.
normal_operator <- function(system, weights = system$weights, lambda = system$lambda,
                            product = weighted_product(system, weights)) {
  function(beta) {
    P <- system$preconditioner
    v <- apply_factors(P, beta, "A^-1")
    alpha <- apply_factors(P, v, "T^-1")
    apply_factors(P, apply_factors(P, product(alpha) / system$n, "T^-T") + lambda * v, "A^-T")
  }
}

weighted_product <- function(system, weights) {
  \(alpha) rows_normal(system$rows, system$centers, alpha, NULL, weights, system$run)$product
}

# Solves multiply(x) = b for each column of b, until its residual is below `tol` times what it is at x = 0.
# `each(iteration, x, residual)` is called after every step, with the largest of the relative residuals; TRUE stops.
# Returns list(x, iterations, converged, stalled, residual). `save(state)` is called as well, with all that it takes to
# go on as `state`; a state of `iteration` alone goes on counting.
#
# The recursion's residual drifts from the true one: that is computed every `refresh` steps, and where it is twice as
# large the directions begin anew from it. Where it has not fallen since the last time, or rounding has made the
# operator indefinite, nothing more is to be had: x is the best of these times, and `stalled`.
conjugate_gradients <- function(multiply, b, start = NULL, max_iter = 50, tol = 1e-7, each = NULL, save = NULL,
                                state = NULL, refresh = 10) {
  scale <- colSums(b^2)
  if (!all(is.finite(scale))) stop_solver("the right-hand side is not finite")
  if (is.null(state$x)) {
    r <- if (is.null(start)) b else b - multiply(start)
    state <- list(
      iteration = sum(0, state$iteration), x = if (is.null(start)) 0 * b else start, r = r, p = r, best = NULL, least = Inf
    )
  }
  iteration <- state$iteration
  x <- state$x
  r <- state$r
  p <- state$p
  best <- state$best
  least <- state$least
  size <- colSums(r^2)
  goal <- tol^2 * scale
  stalled <- FALSE
  while (iteration < max_iter && !stalled && any(size > goal)) {
    iteration <- iteration + 1
    Ap <- multiply(p)
    curvature <- colSums(p * Ap)
    # columns that are done, or broken down, stay where they are
    active <- size > goal & is.finite(curvature) & curvature > 0
    stalled <- any(size > goal & !active)
    step <- ifelse(active, size / curvature, 0)
    x <- x + scale_columns(p, step)
    r <- r - scale_columns(Ap, step)
    anew <- FALSE
    if (iteration %% refresh == 0 && iteration < max_iter && !stalled) {
      drifted <- r
      r <- b - multiply(x)
      anew <- colSums(r^2) > 4 * colSums(drifted^2)
      now <- relative_residual(colSums(r^2), scale)
      stalled <- any(anew) && now >= least
      if (now < least) {
        best <- x
        least <- now
      }
    }
    before <- size
    size <- colSums(r^2)
    p <- r + scale_columns(p, ifelse(active & !anew, size / before, 0))
    stop <- !is.null(each) && isTRUE(each(iteration, x, relative_residual(size, scale)))
    if (!is.null(save)) save(list(iteration = iteration, x = x, r = r, p = p, best = best, least = least))
    if (stop) break
  }
  residual <- relative_residual(size, scale)
  if (stalled && least < residual) {
    x <- best
    residual <- least
  }
  list(x = x, iterations = iteration, converged = !stalled && all(size <= goal), stalled = stalled, residual = residual)
}

# Columns that are 0 have no residual.
relative_residual <- function(size, scale) sqrt(max(ifelse(scale > 0, size / scale, 0)))

scale_columns <- function(x, by) if (ncol(x) == 1) x * by else x * rep(by, each = nrow(x))

# A failure that no argument alone explains.
stop_solver <- function(problem) {
  stop(new_error("singular", paste0(problem, ": is `lambda` or `bandwidth` out of all proportion?"), user_call()))
}
