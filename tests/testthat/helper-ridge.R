# kernel_ridge() whose settings of the solver stand among its arguments, for tests that hand on both.
ridge_with <- function(...) {
  given <- list(...)
  of_solver <- names(given) %in% names(formals(ridge_solver))
  do.call(kernel_ridge, c(given[!of_solver], if (any(of_solver)) list(solver = given[of_solver])))
}
