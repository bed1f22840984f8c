# Matrices of kernels as numbers, and the preconditioner that is made of them: T'T = K + jitter, A'A = scale T W T' +
# lambda I, both in one m x m matrix on the host or on a GPU (src/core/preconditioner.h). All of its .Call()s stand
# here.

# The matrix of kernels in double, exact to rounding: rows `at` (a checked matrix; NULL: the sources themselves),
# columns the sources.
kernel_matrix_of <- function(sources, at, run) .Call(ffi_kernel_matrix, sources, at, run)

# T of `K`: sources (of sum_sources(), their points the centres) or a symmetric matrix, with `diagonal` (a number, or
# one for each centre) added, and `jitter` times m times the mean of the diagonal. Where there is no such factor, 100
# times the jitter is tried, up to MOST_JITTER; `jitter` NULL: none, and no second try. An error of class
# flashkernel_error_singular where nothing helps.
#
# A list: `jitter` that was taken and the factorisations it took (`steps`), `bytes` on `backend`, `seconds`. Its memory
# goes with the object, when R collects it, or by free_preconditioner().
new_preconditioner <- function(K, run, jitter = NULL, diagonal = 0) {
  m <- nrow(if (is.matrix(K)) K else K$points)
  bytes <- 8 * m * (m + 1)
  if (bytes > gpu_room(run, bytes)) check_memory(bytes, "centers")
  begin <- proc.time()[["elapsed"]]
  diagonal <- if (any(diagonal != 0)) rep_len(as.double(diagonal), m)
  made <- .Call(ffi_preconditioner, K, diagonal, if (!is.null(jitter)) c(jitter, max(jitter, MOST_JITTER)), run)
  seconds <- proc.time()[["elapsed"]] - begin
  structure(c(made, list(m = m, seconds = seconds)), class = "preconditioner")
}

# Bytes of factors that stay on GPUs, roughly; larger ones lie in the machine's memory. Few `bytes` are not worth asking
# all GPUs of it.
gpu_room <- function(run, bytes) {
  if (run$backend == "cpu" || !backend_info()$cuda_built) return(0)
  if (bytes < 1e9 && is.null(run$gpu_memory_limit)) return(Inf)
  each <- gpu_info()$memory_total
  used <- if (length(run$devices) == 0) 0L else if (run$devices[1] < 0) seq_along(each) - 1L else run$devices
  0.85 * sum(pmin(each[used + 1L], c(run$gpu_memory_limit, Inf)[1]), na.rm = TRUE)
}

# Beyond it, the jitter would change the fit more than a smaller bandwidth does.
MOST_JITTER <- 1e-6

# A of it, in place, for weights of the centres (NULL: ones); again for others, as T stays.
precondition <- function(P, weights = NULL, scale = 1 / P$m, lambda, progress = NULL) {
  if (!is.null(weights)) weights <- as.double(weights)
  .Call(ffi_precondition, P$handle, weights, as.double(scale), as.double(lambda), progress)
  invisible(P)
}

# Products with the factors and solves, in the order of their codes in C.
FACTOR_STEPS <- c("T", "T^-1", "T'", "T^-T", "A", "A^-1", "A'", "A^-T")

# v, an m x t matrix or a vector, after all `steps` of FACTOR_STEPS, the first one done first: a matrix.
apply_factors <- function(P, v, steps) {
  # some hundred calls of a small fit
  if (!is.matrix(v) || !is.double(v)) {
    v <- as.matrix(v)
    storage.mode(v) <- "double"
  }
  .Call(ffi_apply_factors, P$handle, v, match(steps, FACTOR_STEPS) - 1L)
}

# The logarithm of the determinant of T'T or A'A.
log_det <- function(P, which = "T") 2 * sum(log(factor_numbers(P, which, FALSE)))

# The whole of it, or its diagonal.
factor_numbers <- function(P, which, whole) .Call(ffi_factor, P$handle, match(which, FACTOR_STEPS) - 1L, whole)

free_preconditioner <- function(P) invisible(.Call(ffi_free_preconditioner, P$handle))
