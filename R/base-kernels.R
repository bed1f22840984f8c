# The kernels: src/core/kernels.c has the table of them, what they are called, their formulas and parameters.

# A list for each kernel, by name, in the order in which messages list them:
# - others: what other programs call it, letters and digits alone, apart by spaces
# - formula: of r or x'y, see kernel_sum(); radial: of r?
# - parameters: by name, c(the value where none is given, a bound that it is above, its largest, whether it is whole)
kernel_table <- function() {
  if (is.null(session$kernels)) session$kernels <- .Call(ffi_kernels)
  session$kernels
}

#' A kernel with its parameters
#'
#' [kernel_sum()] and [kernel_operator()] take a kernel by its name, with the parameters below, or with others as
#' `kernel_spec()` makes it.
#'
#' @param kernel The name of a kernel: `r kernel_names()`.
#' @param ... Parameters by name, single numbers: `r kernel_parameters()`. Other kernels have none: their scale is the
#'   `bandwidth`.
#' @returns An object of class `flashkernel_kernel`, a list of the kernel's `name` and its `parameters`, a named vector.
#' @seealso [kernel_sum()] has the formulas.
#' @export
#' @examples
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

# Of a kernel's name, and some of its parameters as the user gave them.
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

# `known`: of kernel_table(); NULL: none was given
check_parameter <- function(name, known, value) {
  if (is.null(value)) return(known[1])
  range <- paste(c(
    if (is.finite(known[2])) paste(" above", known[2]), if (known[3] < .Machine$double.xmax) paste(" at most", known[3])
  ), collapse = " and")
  what <- paste0("one ", if (known[4] == 1) "whole" else "finite", " number", range)
  is_good <- \(x) is.finite(x) && x > known[2] && x <= known[3] && (known[4] == 0 || x == round(x))
  check_number(value, name, what, is_good)
}

# A kernel as the user may write it, as an object.
check_kernel <- function(kernel) {
  if (!inherits(kernel, "flashkernel_kernel")) return(kernel_spec(kernel))
  new_kernel(check_choice(kernel$name, names(kernel_table()), "kernel"), as.list(kernel$parameters))
}

is_radial <- function(kernel) kernel_table()[[kernel$name]]$radial

# As nearest_choice() looks them up: the names of kernels, named by what others call them.
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

# For help pages, which roxygen2 makes.
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
