#' How a kernel ridge regression is solved
#'
#' Settings of the solver of [kernel_ridge()] that few fits need.
#'
#' @details
#' **Centres.** If `centers` is a number, `center_method` says how they are drawn. `"uniform"` draws at random.
#' `"rpcholesky"` is randomly pivoted Cholesky, with up to 2,896 pivots on a sample of the rows; further centres are
#' drawn at random. `"leverage"` uses approximate ridge leverage scores with up to 1,000 landmarks. `"kmeans++"` draws
#' centres that are far from each other. These three explain more of the kernel matrix, far more in clusters, but
#' seldom predict better. Exact duplicates are merged. Centres whose matrix fits into no memory are solved in blocks.
#'
#' **Exact fits** (`exact = TRUE`) with squared loss take linear time with a Laplacian or Matern kernel of one column.
#' Others use a Cholesky factorisation up to 6,000 rows; on a GPU, while the matrix fits into half the free memory.
#' Larger fits use conjugate gradients where products are fast (see [kernel_sum()]), else blocks of rows, which a
#' factor of all rows refines. Other losses take up to 10,000 rows.
#'
#' **Convergence.** Iterations stop when the last two have each reduced the objective by less than `tolerance` times
#' it, Newton's method when it predicts this of a step. Exact fits and centres in blocks stop when the residual is below
#' `tolerance` times the right-hand side. In exact fits the residual bounds the error of predictions.
#'
#' @param exact Logical. `TRUE`: every row is a centre. `FALSE`: centres are drawn.
#'   `NULL` (default): as the default of `centers` in [kernel_ridge()]. See Details.
#' @param iterations Largest number of iterations or passes; for logistic loss, Newton steps. `NULL`
#'   (default): 50; for an exact fit with squared loss 1,200, by blocks 200.
#' @param tolerance Stopping rule, a number from 0 to below 1. `NULL` (default): 1e-6; by blocks and for
#'   losses other than the square 1e-4; more than two classes and no `lambda` 2e-2; exact 1e-7.
#' @param center_method How centres are drawn from the rows: `"uniform"` (default), `"rpcholesky"`, `"leverage"` or
#'   `"kmeans++"`. See Details.
#' @param intercept Logical: fit an intercept? Default `TRUE`.
#' @param class_weights Weights of the classes: `"balanced"` (all classes have the same total weight), or a positive
#'   number for each class, by name or in the order of the levels. `NULL` (default): none.
#' @param start A fit of [kernel_ridge()] to rows with the same columns: the solver starts with its centres and
#'   coefficients. `NULL` (default): it starts at 0.
#' @param checkpoint Name of a file in which a long fit saves its state every minute. After a crash or an interrupt, the
#'   same call continues from it, and returns the same bits. The file is deleted at the end. A fit by one Cholesky
#'   factorisation saves nothing. `NULL` (default): no file.
#' @param keep Logical: keep the rows in the fit (by reference)? [fitted()], standard errors and plots need them.
#'   Default `TRUE`.
#' @param plan Logical. `TRUE`: do not fit; return an estimate of run time and memory, extrapolated from small timed
#'   pieces. A bandwidth or `lambda` that is not given is chosen first. Default `FALSE`.
#' @param seed Whole number: the draws of rows (samples, centres, rows for validation) depend on it and on the rows, in
#'   any order, but not on R's random numbers. Default 1. `NULL`: R's random numbers are used.
#' @returns A list of class `ridge_solver` with these settings.
#' @seealso [kernel_ridge()], whose argument `solver` takes this object or a list of some of its settings.
#' @rawRd \concept{exact Gaussian process}\concept{number of iterations}
#' @export
#' @examples
#' # a Gaussian process: every row is a centre
#' kernel_ridge(dist ~ speed, data = cars, solver = ridge_solver(exact = TRUE))
#'
#' # time and memory of a large fit, without fitting
#' x <- matrix(rnorm(4e4), ncol = 4)
#' kernel_ridge(x, x[, 1]^2, bandwidth = 1, lambda = 1e-6, solver = ridge_solver(plan = TRUE))
ridge_solver <- function(exact = NULL, iterations = NULL, tolerance = NULL,
                         center_method = c("uniform", "rpcholesky", "leverage", "kmeans++"), intercept = TRUE,
                         class_weights = NULL, start = NULL, checkpoint = NULL, keep = TRUE, plan = FALSE, seed = 1) {
  structure(checked_options(mget(names(formals())), SOLVER_CHECKS), class = "ridge_solver")
}

check_seed <- function(seed, arg) {
  if (!is_finite_number(seed) || seed != round(seed) || abs(seed) > .Machine$integer.max) {
    stop_argument(arg, "must be a whole number or NULL: found ", describe(seed))
  }
  as.integer(seed)
}

# Makes a check that accepts NULL.
optional <- function(check) \(value, arg) if (!is.null(value)) check(value, arg)

# Checks of the settings of the solver and of the arguments of kernel_ridge() that do not need the rows.
SOLVER_CHECKS <- list(
  exact = optional(check_flag), iterations = optional(check_count), tolerance = optional(check_tolerance),
  center_method = \(value, arg) check_choice(value, CENTER_METHODS, arg), intercept = check_flag,
  start = optional(check_start), checkpoint = optional(check_checkpoint), keep = check_flag, plan = check_flag,
  seed = optional(check_seed)
)
RIDGE_CHECKS <- list(
  kernel = optional(\(value, arg) check_kernel(value)),
  metric = \(value, arg) check_choice(value, c("auto", "none", "diagonal", "full"), arg), lambda = optional(check_penalties),
  family = optional(check_family)
)

checked_options <- function(options, checks) {
  for (name in names(checks)) options[name] <- list(checks[[name]](options[[name]], name))
  options
}

# Names of the arguments of kernel_ridge() that specify the model and its solver.
ridge_arguments <- function() setdiff(names(formals(kernel_ridge.default)), c("x", "y", "control", "..."))

# Returns one list of the checked arguments and settings of the solver, by name.
ridge_spec <- function(arguments) {
  arguments <- checked_options(arguments, RIDGE_CHECKS)
  if (is.null(arguments$family$levels) && !is.null(arguments$lambda)) check_penalty(arguments$lambda, "lambda")
  c(arguments[names(arguments) != "solver"], check_solver(arguments$solver))
}

check_solver <- function(solver) {
  if (inherits(solver, "ridge_solver")) return(solver)
  if (is.null(solver)) return(DEFAULT_SOLVER)
  known <- names(formals(ridge_solver))
  if (!is.list(solver) || is.object(solver) || !(length(solver) == 0 || has_names(names(solver)))) {
    stop_argument("solver", "must be from ridge_solver(), or a list of its settings by name: found ", describe(solver))
  }
  other <- setdiff(names(solver), known)
  if (length(other) > 0) {
    stop_argument("solver", "must have settings of ridge_solver(), ", quote_names(known), ": found ", quote_names(other))
  }
  do.call(ridge_solver, solver)
}

check_tolerance <- function(tolerance, arg) {
  if (!is_finite_number(tolerance) || tolerance < 0 || tolerance >= 1) {
    stop_argument(arg, "must be one number from 0 to below 1: found ", describe(tolerance))
  }
  as.double(tolerance)
}

check_start <- function(start, arg) {
  if (!inherits(start, "kernel_ridge")) stop_argument(arg, "must be a fit from kernel_ridge(): found ", describe(start))
  start
}

check_penalty <- function(lambda, arg) {
  if (!is_finite_number(lambda) || lambda <= 0) {
    stop_argument(arg, "must be one positive number: found ", describe(lambda))
  }
  as.double(lambda)
}

# One penalty, or two of quantiles (ridge-family.R), the second of which may be NA.
check_penalties <- function(lambda, arg) {
  if (length(lambda) != 2) return(check_penalty(lambda, arg))
  c(check_penalty(lambda[1], arg), if (is.na(lambda[2])) NA_real_ else check_penalty(lambda[2], arg))
}

is_finite_number <- function(x) is_number(x) && length(x) == 1 && is.finite(x)

# Names of other packages, and what to write here instead.
RIDGE_OTHERS <- c(
  sigma = "bandwidth", C = "lambda", cost = "lambda", penalty = "lambda", M = "centers", nystrom = "centers",
  h = "bandwidth", bw = "bandwidth", num_centers = "centers", loss = "family",
  maxiter = "solver = ridge_solver(iterations = )", maxit = "solver = ridge_solver(iterations = )",
  max_iter = "solver = ridge_solver(iterations = )", tol = "solver = ridge_solver(tolerance = )"
)

check_ridge_dots <- function(...) {
  if (...length() == 0) return(invisible())
  settings <- names(formals(ridge_solver))
  settings <- stats::setNames(paste0("solver = ridge_solver(", settings, " = )"), settings)
  check_dots_empty(..., .known = names(formals(kernel_ridge.default)), .others = c(RIDGE_OTHERS, settings))
}

DEFAULT_SOLVER <- ridge_solver()
