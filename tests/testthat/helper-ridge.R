# kernel_ridge() with the solver's settings among its arguments, for tests that pass both.
ridge_with <- function(...) {
  given <- list(...)
  of_solver <- names(given) %in% names(formals(ridge_solver))
  do.call(kernel_ridge, c(given[!of_solver], if (any(of_solver)) list(solver = given[of_solver])))
}

# Kernels of the rows of x (rows) with those of y (columns), with bandwidth h.
gaussian_kernels <- function(x, y, h) ref_kernel_matrix(y, x, diag(h^2, ncol(x)), "gaussian")

# A small example: 40 points in three dimensions, their responses, and the numbers of the rows that are centres.
example_x <- matrix(sin(1:120 * 1.7) * 2, 40, 3)
example_y <- cos(example_x[, 1]) + 0.5 * example_x[, 2] * example_x[, 3] + 0.1 * sin(50 * 1:40)
example_centers <- c(2, 9, 15, 22, 28, 33, 39)
