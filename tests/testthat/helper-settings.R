# `f(...)`; arguments that have the names of control settings change `control` instead.
with_settings <- function(f, ..., control = NULL) {
  given <- list(...)
  names <- if (is.null(names(given))) rep("", length(given)) else names(given)
  is_setting <- names %in% setdiff(names(formals(flash_control)), "tol")
  said <- Filter(Negate(is.null), as.list(unclass(control)))
  said[names[is_setting]] <- given[is_setting]
  do.call(f, c(given[!is_setting], list(control = do.call(flash_control, said))))
}

kernel_sum_by <- function(...) with_settings(kernel_sum, ...)
kernel_operator_by <- function(...) with_settings(kernel_operator, ...)
