# A request for a bandwidth search, which `bandwidth` of flash_kde() accepts instead of a name.

#' @export
print.kde_bandwidth_spec <- function(x, ...) {
  given <- x[lengths(x) > 0]
  cat("Bandwidth search:", paste0(names(given), " = ", vapply(given, format, ""), collapse = ", "), "\n")
  invisible(x)
}
