#' @keywords internal
#' @useDynLib flashkernel, .registration = TRUE
"_PACKAGE"
