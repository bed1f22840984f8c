#' How a kernel ridge regression is solved
#'
#' Settings of the solver of [kernel_ridge()] that few fits need: an exact fit, its stopping rule, how centres are
#' drawn, where a long fit begins and what it saves.
#'
#' @param exact Logical. `TRUE`: every row is a centre, without Nystroem approximation. `FALSE`: centres are drawn.
#'   `NULL` (default): `TRUE` for up to 1,000 rows if `centers` is `NULL`. See the section about exact fits in
#'   [kernel_ridge()].
#' @param iterations Largest number of iterations of conjugate gradients; for logistic loss, Newton steps with all
#'   centres. `NULL` (default): 50, and 1,000 of an exact fit, where stopping early saves time but is no regularisation.
#' @param tolerance Stopping rule, a number from 0 to below 1: iterations end when the residual is `tolerance` times the
#'   right-hand side. For logistic loss they end when a Newton step reduces the objective by less than `tolerance` times
#'   its value. `NULL` (default): 1e-7, for logistic loss 1e-5.
#' @param center_method How centres are drawn from the rows: `"uniform"` (default), `"rpcholesky"`, `"leverage"` or
#'   `"kmeans++"`. See the section about centres in [kernel_ridge()].
#' @param intercept Logical: is there an intercept? Default `TRUE`.
#' @param class_weights For `loss = "weighted"`: a positive number for each class, by name or in the order of the
#'   levels. `NULL` (default): numbers that give all classes the same total weight.
#' @param start A fit of [kernel_ridge()] to rows with the same columns: the solver begins at its centres and
#'   coefficients. `NULL` (default): it begins at 0.
#' @param checkpoint Name of a file in which a long fit saves its state every minute. After a crash or an interrupt, the
#'   same call continues from it, and returns the same bits. The file is deleted at the end. A fit by one Cholesky
#'   factorisation saves nothing. `NULL` (default): no file.
#' @param keep Logical: does the fit keep the rows (by reference), for [fitted()], standard errors and plots? Default
#'   `TRUE`.
#' @param plan Logical. `TRUE`: do not fit; return an estimate of run time and memory, extrapolated from small timed
#'   pieces. A fit to some of the rows estimates the number of iterations. A bandwidth or `lambda` that is not given is
#'   chosen first. Default `FALSE`.
#' @returns A list of class `ridge_solver` with these settings.
#' @seealso [kernel_ridge()], whose argument `solver` takes this object or a list of some of its settings.
#' @export
#' @examples
#' # a Gaussian process: every row is a centre
#' kernel_ridge(dist ~ speed, data = cars, solver = ridge_solver(exact = TRUE))
#'
#' # what a large fit will take
#' x <- matrix(rnorm(4e4), ncol = 4)
#' kernel_ridge(x, x[, 1]^2, bandwidth = 1, lambda = 1e-6, solver = ridge_solver(plan = TRUE))
ridge_solver <- function(exact = NULL, iterations = NULL, tolerance = NULL,
                         center_method = c("uniform", "rpcholesky", "leverage", "kmeans++"), intercept = TRUE,
                         class_weights = NULL, start = NULL, checkpoint = NULL, keep = TRUE, plan = FALSE) {
  structure(checked_options(mget(names(formals())), SOLVER_CHECKS), class = "ridge_solver")
}

# A check that lets NULL pass.
optional <- function(check) \(value, arg) if (!is.null(value)) check(value, arg)

# The check of each setting, and of each argument of kernel_ridge(), as far as it does not need the rows.
SOLVER_CHECKS <- list(
  exact = optional(check_flag), iterations = optional(check_count), tolerance = optional(check_tolerance),
  center_method = \(value, arg) check_choice(value, CENTER_METHODS, arg), intercept = check_flag,
  start = optional(check_start), checkpoint = optional(check_checkpoint), keep = check_flag, plan = check_flag
)
RIDGE_CHECKS <- list(
  kernel = \(value, arg) check_kernel(value), lambda = optional(check_penalty),
  loss = optional(\(value, arg) check_choice(value, names(LOSSES), arg))
)

checked_options <- function(options, checks) {
  for (name in names(checks)) options[name] <- list(checks[[name]](options[[name]], name))
  options
}

# Arguments of kernel_ridge() that say what is fitted.
ridge_arguments <- function() setdiff(names(formals(kernel_ridge.default)), c("x", "y", "control", "..."))

# One list of the arguments and of the settings of the solver, by name, checked.
ridge_spec <- function(arguments) {
  arguments <- checked_options(arguments, RIDGE_CHECKS)
  c(arguments[names(arguments) != "solver"], check_solver(arguments$solver))
}

DEFAULT_SOLVER <- ridge_solver()

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
  start <- tuned_fit(start)
  if (!inherits(start, "kernel_ridge")) stop_argument(arg, "must be a fit from kernel_ridge(): found ", describe(start))
  start
}

check_penalty <- function(lambda, arg) {
  if (!is_finite_number(lambda) || lambda <= 0) {
    stop_argument(arg, "must be one positive number: found ", describe(lambda))
  }
  as.double(lambda)
}

is_finite_number <- function(x) is_number(x) && length(x) == 1 && is.finite(x)

# Names by which other packages and the solver know what is asked for, and what to write here.
RIDGE_OTHERS <- c(
  sigma = "bandwidth", C = "lambda", cost = "lambda", penalty = "lambda", M = "centers", nystrom = "centers",
  h = "bandwidth", bw = "bandwidth", num_centers = "centers", family = "loss",
  maxiter = "solver = ridge_solver(iterations = )", maxit = "solver = ridge_solver(iterations = )",
  max_iter = "solver = ridge_solver(iterations = )", tol = "solver = ridge_solver(tolerance = )"
)

check_ridge_dots <- function(...) {
  if (...length() == 0) return(invisible())
  settings <- names(formals(ridge_solver))
  settings <- stats::setNames(paste0("solver = ridge_solver(", settings, " = )"), settings)
  check_dots_empty(..., .known = names(formals(kernel_ridge.default)), .others = c(RIDGE_OTHERS, settings))
}
