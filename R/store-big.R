# Fits whose points are a big.matrix or a flash_data(). Methods that need all points in memory call check_in_memory().

check_in_memory <- function(object, arg = "object") {
  if (!is_elsewhere(object$x)) return(invisible(object))
  where <- if (is_big(object$x)) "a big.matrix" else "a flash_data()"
  also <- if (is_remote(object$x)) "cross_validate(), compare_fits(), "
  readers <- paste0("predict(), logLik(), ", also, "simulate() and diagnostics()")
  stop_argument(arg, "has its points in ", where, ", which this function cannot read: only ", readers, " can")
}

# How many numbers (rows times columns) of the points are in memory at a time.
numbers_held <- function(object) {
  # not dim(): bigmemory looks there where a detached matrix has nothing
  if (is_remote(object$x)) return(2 * max(object$x$rows) * object$d)
  if (is_big(object$x)) min(as.double(object$n) * object$d, 2 * chunk_bytes() / 8) else length(object$x)
}
