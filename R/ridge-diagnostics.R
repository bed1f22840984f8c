# Times of a fit of kernel_ridge(), and what its sums were computed with.

#' @rdname diagnostics
#' @export
diagnostics.kernel_ridge <- function(object, ...) {
  check_dots_empty(...)
  m <- nrow(object$coefficients)
  where <- resolve_control(run_control(object$control), object$n, m, object$d, object$kernel)
  about <- where[c("backend", "device", "engine", "precision", "isa", "threads", "devices")]
  structure(class = "ridge_diagnostics", c(
    object[c("n", "d")], list(m = m, outputs = ncol(object$coefficients)), about,
    object[c("iterations", "converged", "seconds", "workers")]
  ))
}

#' @export
#' @noRd
print.ridge_diagnostics <- function(x, ...) {
  cat("Kernel ridge regression: ", whole(x$n), " rows, ", x$d, ngettext(x$d, " column, ", " columns, "), whole(x$m),
    " centres, ",
    x$iterations, ngettext(x$iterations, " iteration", " iterations"), if (!isTRUE(x$converged)) ", not converged", "\n", sep = "")
  cat("Seconds: ", plan_parts(x$seconds, \(seconds) format(seconds, digits = 2)), "\n", sep = "")
  cat("Sums: ", where_label(x), "\n", sep = "")
  print_workers(x$workers)
  invisible(x)
}
