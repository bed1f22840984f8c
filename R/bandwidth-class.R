# What bw_lcv() and bw_lscv() return: a number, a vector or a matrix with a record of the search.

new_bandwidth <- function(bandwidth, selector, found, ties) {
  structure(
    bandwidth,
    # last of all, what was chosen: `[<-` leaves attributes alone
    selector = selector, criterion = found$value, evaluations = found$evaluations,
    convergence = found$convergence, ties = ties, chosen = as.vector(bandwidth),
    class = "flashkernel_bandwidth"
  )
}

# The selector that chose these very numbers, or "user".
selector_of <- function(bandwidth) {
  name <- attr(bandwidth, "selector")
  if (is.null(name) || !identical(as.vector(bandwidth), attr(bandwidth, "chosen"))) return("user")
  name
}

plain_bandwidth <- function(x) {
  if (!inherits(x, "flashkernel_bandwidth")) return(x)
  attributes(x) <- attributes(x)[names(attributes(x)) %in% c("names", "dim", "dimnames")]
  x
}

#' @export
#' @noRd
print.flashkernel_bandwidth <- function(x, digits = max(3L, getOption("digits") - 3L), ...) {
  digits <- check_digits(digits)
  print(plain_bandwidth(x), digits = digits)
  if (selector_of(x) == "user") return(invisible(x))
  ties <- attr(x, "ties")
  cat(
    "by \"", attr(x, "selector"), "\": criterion ", format(attr(x, "criterion"), digits = digits), ", ",
    attr(x, "evaluations"), " evaluations", if (ties > 0) paste0(", ", ties, " tied values spread"),
    if (attr(x, "convergence") != 0) ", no optimum in the range searched", "\n", sep = ""
  )
  invisible(x)
}

# Twice a bandwidth is not what the selector chose: arithmetic gives plain numbers.

#' @export
#' @noRd
Ops.flashkernel_bandwidth <- function(e1, e2) {
  operate <- get(.Generic, mode = "function")
  if (missing(e2)) return(operate(plain_bandwidth(e1)))
  operate(plain_bandwidth(e1), plain_bandwidth(e2))
}

#' @export
#' @noRd
Math.flashkernel_bandwidth <- function(x, ...) {
  get(.Generic, mode = "function")(plain_bandwidth(x), ...)
}
