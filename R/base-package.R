# The package's help page, and its C code.

#' @keywords internal
#' @useDynLib flashkernel, .registration = TRUE
"_PACKAGE"
