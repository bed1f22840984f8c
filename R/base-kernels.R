# Kernels of kernel_sum(). The table of their names, formulas and parameters is in src/core/kernels.c.

# A named list of kernels, in the order in which messages list them. Elements of each:
# - others: names in other software, only letters and digits, separated by spaces
# - formula: in u, r or x'y, see kernel_sum()
# - metric: "squares" for kernels of r, "absolute" for those of sum(abs(u)), "products" for those of x'y
# - parameters: by name, c(default, exclusive lower bound, upper bound, 1 if it must be whole)
kernel_table <- function() {
  if (is.null(session$kernels)) session$kernels <- .Call(ffi_kernels)
  session$kernels
}

#' A kernel with its parameters
#'
#' Makes the argument `kernel` of [kernel_sum()], [kernel_operator()] and [kernel_ridge()] for other parameters than the
#' defaults. With the defaults, the name of the kernel is enough.
#'
#' @details
#' **Exponential kernels.** `"laplacian"` is a function of the Euclidean distance, as `laplacedot` of kernlab.
#' `"product_laplacian"` is a function of the sum of absolute scaled differences. If the bandwidth is one number for each
#' column, it is the product of \eqn{\exp(-|y_k - x_k| / h_k)}{exp(-|y_k - x_k| / h_k)} over the columns. If it is one
#' number, this is `laplacian_kernel` of scikit-learn with `gamma = 1 / bandwidth`. `"powered_exponential"` is the
#' Laplacian for `power = 1`. For `power = 2` it is the Gaussian whose bandwidth is smaller by a factor of
#' \eqn{\sqrt{2}}{sqrt(2)}. The smaller the power, the rougher the functions that a regression fits.
#'
#' @param kernel The name of a kernel: `r kernel_names()`.
#' @param ... Parameters by name, single numbers, with these defaults: `r kernel_parameters()`. The other kernels have
#'   no parameters; their scale is the `bandwidth`. `power` is above 0 and at most 2.
#' @returns An object of class `flashkernel_kernel`: a list of `name` and `parameters`, a named vector.
#' @seealso [kernel_sum()] for the formulas.
#' @rawRd \concept{polynomial kernel}\concept{kernel parameters}
#' @export
#' @examples
#' kernel_ridge(dist ~ speed, cars, kernel = kernel_spec("powered_exponential", power = 1.2))
#'
#' kernel_spec("polynomial", degree = 2)
#' x <- as.matrix(iris[, 1:4])
#' quadratic <- kernel_spec("polynomial", degree = 2, gamma = 0.1)
#' K <- kernel_operator(x, bandwidth = 1, kernel = quadratic)
#' K[1:3, 1:3]
#' (0.1 * tcrossprod(x[1:3, ]) + 1)^2
kernel_spec <- function(kernel, ...) {
  if (missing(kernel)) stop_argument("kernel", "must be given")
  new_kernel(check_choice(kernel, names(kernel_table()), "kernel"), list(...))
}

# A kernel object from its name and the parameters that the user `given`.
new_kernel <- function(name, given = list()) {
  known <- kernel_table()[[name]]$parameters
  if (length(given) > 0 && !has_names(names(given))) {
    stop_argument("...", "must be parameters of the kernel by name, each once")
  }
  for (other in setdiff(names(given), names(known))) {
    what <- if (length(known) > 0) quote_names(names(known)) else "none"
    stop_argument(other, "is not a parameter of the ", name, " kernel: it has ", what)
  }
  parameters <- vapply(names(known), \(parameter) check_parameter(parameter, known[[parameter]], given[[parameter]]), 0)
  structure(list(name = name, parameters = parameters), class = "flashkernel_kernel")
}

# `known`: the row of kernel_table(); `value`: NULL for the default.
check_parameter <- function(name, known, value) {
  if (is.null(value)) return(known[1])
  range <- paste(c(
    if (is.finite(known[2])) paste(" above", known[2]), if (known[3] < .Machine$double.xmax) paste(" at most", known[3])
  ), collapse = " and")
  what <- paste0("one ", if (known[4] == 1) "whole" else "finite", " number", range)
  is_good <- \(x) is.finite(x) && x > known[2] && x <= known[3] && (known[4] == 0 || x == round(x))
  check_number(value, name, what, is_good)
}

# The argument `kernel` of the user, a name or an object, as an object.
check_kernel <- function(kernel) {
  if (!inherits(kernel, "flashkernel_kernel")) return(kernel_spec(kernel))
  if (!is.null(kernel$terms)) return(kernel)
  new_kernel(check_choice(kernel$name, names(kernel_table()), "kernel"), as.list(kernel$parameters))
}

# "sum" for a sum of kernels of some columns (sum-terms.R).
metric_of <- function(kernel) if (is.null(kernel$terms)) kernel_table()[[kernel$name]]$metric else "sum"

# Is it a function of u, the scaled difference of two points?
is_stationary <- function(kernel) metric_of(kernel) %in% c("squares", "absolute")

# For nearest_choice(): names of kernels, named by their names in other software.
kernel_synonyms <- function() {
  others <- strsplit(vapply(kernel_table(), `[[`, "", "others"), " ", fixed = TRUE)
  stats::setNames(rep(names(others), lengths(others)), unlist(others))
}

# ---- in words ---------------------------------------------------------------------------------

# "polynomial kernel (gamma = 1, coef0 = 1, degree = 3)"
kernel_label <- function(name, parameters) {
  values <- paste(names(parameters), "=", vapply(parameters, format, "", digits = 7), collapse = ", ")
  paste0(name, " kernel", if (length(parameters) > 0) paste0(" (", values, ")"))
}

#' @export
#' @noRd
print.flashkernel_kernel <- function(x, ...) {
  cat(kernel_label(x$name, x$parameters), ": ", kernel_table()[[x$name]]$formula, "\n", sep = "")
  invisible(x)
}

# Inserted into help pages by roxygen2.
kernel_names <- function() paste0('`"', names(kernel_table()), '"`', collapse = ", ")

kernel_formulas <- function() {
  table <- kernel_table()
  others <- gsub(" ", ", ", vapply(table, `[[`, "", "others"), fixed = TRUE)
  rows <- paste0('| `"', names(table), '"` | `', vapply(table, `[[`, "", "formula"), "` | ", others, " |")
  paste(c("| `kernel` | | elsewhere |", "|---|---|---|", rows), collapse = "\n")
}

# "`gamma` (1) and `coef0` (0) of `\"linear\"`; ..."
kernel_parameters <- function() {
  of <- lapply(kernel_table(), `[[`, "parameters")
  of <- of[lengths(of) > 0]
  one <- function(name) {
    values <- vapply(of[[name]], `[`, 0, 1)
    paste0(paste0("`", names(values), "` (", values, ")", collapse = ", "), ' of `"', name, '"`')
  }
  paste(vapply(names(of), one, ""), collapse = "; ")
}
