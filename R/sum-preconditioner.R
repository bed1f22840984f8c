# Kernel matrices, exact fits, and preconditioners: T'T = K + jitter, A'A = scale T W T' + lambda I. Both factors
# share one m x m matrix on the host or on a GPU (src/core/preconditioner.h). All .Call()s for them are in this file.

# Returns the kernel matrix in double precision, exact up to rounding. Its rows are `at` (a checked matrix; NULL: the
# sources) and its columns the sources.
kernel_matrix_of <- function(sources, at, run) UseMethod("kernel_matrix_of")
#' @export
kernel_matrix_of.default <- function(sources, at, run) .Call(ffi_kernel_matrix, sources, at, run)

# The kernel matrix in a form that C factorises: sources of one kernel, list(parts, scales) with such sources for each
# term of a sum, or a symmetric matrix.
as_factored <- function(K, run) UseMethod("as_factored")
#' @export
as_factored.default <- function(K, run) K

# Exact fits with kernel matrices and paths of noises: for each of `tasks`, a list(K, y, noises, with_own), the fits with
# C = K + diag(s) for each noise s of `noises`, k numbers > 0 or a matrix with a row for each point and k columns. `K`:
# sources, or a symmetric matrix of doubles; `y`: a matrix of doubles with a row for each point, at least one column, or an
# array (point, column, noise). On the CPU threads fit noises of all tasks side by side.
#
# Returns for each task a list: `coefficients` C^-1 y (m x t x k), `own` the diagonals of C^-1 (m x k; NULL unless
# `with_own`), `log_det` the logarithms of det C (k), `energy` y'C^-1 y of each column (t x k), `backend`. The leave-one-out
# residuals are coefficients / own. If C is not positive definite to rounding, the results of that noise are NaN.
ridge_paths <- function(tasks, run) {
  sizes <- vapply(tasks, \(task) {
    m <- nrow(if (is.matrix(task$K)) task$K else task$K$points)
    k <- if (is.matrix(task$noises)) ncol(task$noises) else length(task$noises)
    c(matrices = 16 * m^2, results = 8 * m * (ncol(task$y) + 1) * k)
  }, numeric(2))
  bytes <- rowSums(sizes)
  check_memory(bytes[["results"]] + if (bytes[["matrices"]] > gpu_room(run, bytes[["matrices"]])) bytes[["matrices"]] else 0, "x")
  .Call(ffi_ridge_paths, lapply(tasks, \(task) replace(task, "K", list(as_factored(task$K, run)))), run)
}

# The only task of ridge_paths().
ridge_path <- function(K, y, noises, run, with_own = TRUE) {
  ridge_paths(list(list(K = K, y = y, noises = noises, with_own = with_own)), run)[[1]]
}

# Factors T'T = K + diagonal + jitter * m * mean(diagonal of K). `K`: sources whose points are the centres, or a
# symmetric matrix; `diagonal`: a number, or one for each centre. If the matrix is not positive definite, 100 times the
# jitter is tried, up to MOST_JITTER, and then an error of class flashkernel_error_singular is raised. `jitter` NULL:
# none, and no second try. `rough`: a factor for solves that are refined, in half of the memory, without A; in
# single precision GPUs compute it from FP16 products.
#
# Returns a list with the `jitter` used, the number of factorisations (`steps`), `bytes` on `backend`, and `seconds`.
# Its memory is freed with the object, or by free_preconditioner().
new_preconditioner <- function(K, run, jitter = NULL, diagonal = 0, rough = FALSE) {
  m <- nrow(if (is.matrix(K)) K else K$points)
  bytes <- (if (rough) 4 else 8) * m * (m + 1)
  if (bytes > gpu_room(run, bytes)) check_memory(bytes, "centers")
  begin <- proc.time()[["elapsed"]]
  diagonal <- if (any(diagonal != 0)) rep_len(as.double(diagonal), m)
  jitters <- if (!is.null(jitter)) c(jitter, max(jitter, MOST_JITTER))
  # the memory for factors that are streamed through GPUs, which small ones never are
  host <- if (bytes < 1e8) 0 else max(1, memory_limit())
  made <- .Call(ffi_preconditioner, as_factored(K, run), diagonal, jitters, rough, host, run)
  seconds <- proc.time()[["elapsed"]] - begin
  structure(c(made, list(m = m, seconds = seconds)), class = "preconditioner")
}

# Returns roughly the bytes of factors that fit on the GPUs; larger ones are in host memory. For few `bytes` the GPUs
# are not queried.
gpu_room <- function(run, bytes) {
  if (run$backend == "cpu" || !backend_info()$gpu_engine) return(0)
  if (bytes < 1e9 && is.null(run$gpu_memory_limit)) return(Inf)
  each <- gpu_info()$memory_total
  used <- if (length(run$devices) == 0) 0L else if (run$devices[1] < 0) seq_along(each) - 1L else run$devices
  0.88 * sum(pmin(each[used + 1L], c(run$gpu_memory_limit, Inf)[1]), na.rm = TRUE)
}

# A larger jitter would change the fit more than a smaller bandwidth would.
MOST_JITTER <- 1e-6

# Computes the factor A in place, for weights of the centres (NULL: ones). It may be called again with other weights,
# because T is not changed.
precondition <- function(P, weights = NULL, scale = 1 / P$m, lambda, progress = NULL) {
  if (!is.null(weights)) weights <- as.double(weights)
  .Call(ffi_precondition, P$handle, weights, as.double(scale), as.double(lambda), progress)
  invisible(P)
}

# Products and solves with the factors, in the order of their codes in C.
FACTOR_STEPS <- c("T", "T^-1", "T'", "T^-T", "A", "A^-1", "A'", "A^-T")

# Applies `steps` of FACTOR_STEPS, in this order, to v, an m x t matrix or a vector. Returns a matrix.
apply_factors <- function(P, v, steps) {
  # a small fit makes some hundred calls, so no copy if none is needed
  if (!is.matrix(v) || !is.double(v)) {
    v <- as.matrix(v)
    storage.mode(v) <- "double"
  }
  .Call(ffi_apply_factors, P$handle, v, match(steps, FACTOR_STEPS) - 1L)
}

# Returns the logarithm of the determinant of T'T or A'A.
log_det <- function(P, which = "T") 2 * sum(log(factor_numbers(P, which, FALSE)))

# Returns a factor as a matrix, or its diagonal.
factor_numbers <- function(P, which, whole) .Call(ffi_factor, P$handle, match(which, FACTOR_STEPS) - 1L, whole)

free_preconditioner <- function(P) invisible(.Call(ffi_free_preconditioner, P$handle))
