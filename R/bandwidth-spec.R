# A request for a bandwidth search, which `bandwidth` of flash_kde() accepts instead of a name.

# The value of kde_bandwidth() without data: list(method, structure, rows, seconds).
new_bandwidth_spec <- function(method, structure, rows, seconds) {
  structure(class = "kde_bandwidth_spec", list(method = method, structure = structure, rows = rows, seconds = seconds))
}

is_bandwidth_spec <- function(bandwidth) inherits(bandwidth, "kde_bandwidth_spec")

#' @export
print.kde_bandwidth_spec <- function(x, ...) {
  given <- x[lengths(x) > 0]
  cat("Bandwidth search:", paste0(names(given), " = ", vapply(given, format, ""), collapse = ", "), "\n")
  invisible(x)
}
