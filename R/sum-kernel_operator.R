#' Kernel matrices as operators
#'
#' `kernel_operator()` makes an object that multiplies like an `m` x `n` kernel matrix, which is never stored. It
#' prepares the points once, and copies them to a GPU once, for any number of products. Use it for iterative solvers,
#' kernel PCA, kernel regression and power iterations, and [kernel_sum()] for a single product.
#'
#' @details
#' The operator represents the matrix \eqn{K_{ji} = w_i k_{ji}}{K_ji = w_i k_ji} of the targets `y` and the sources `x`,
#' with the kernels of [kernel_sum()]. An operator `op` has these methods:
#'
#' | call | result |
#' |---|---|
#' | `op %*% v` | the product with a vector or `n` x `r` matrix, an `m` x `r` matrix |
#' | `crossprod(op, u)`, `t(op) %*% u` | the transposed product, `n` x `r` |
#' | `u %*% op`, `tcrossprod(op, v)` | `t(crossprod(op, t(u)))`, `op %*% t(v)` |
#' | `t(op)`, `dim(op)`, `nrow(op)`, `ncol(op)` | the transposed operator, and the dimensions |
#' | `rowSums(op)`, `colSums(op)`, `rowMeans(op)`, `colMeans(op)` | by one product with ones |
#' | `diag(op)` | the diagonal |
#' | `s * op`, `op / s`, `-op` | the operator of the matrix times a finite number |
#' | `op[i, j]`, `as.matrix(op)` | elements of the matrix, exact in double precision, computed on the CPU |
#' | `diagnostics(op)` | how the last product was computed, and how fast |
#'
#' Operators cannot be added. The product with a sum of two operators is `op %*% v + D %*% v`. For other functions of
#' matrices use `as.matrix(op)`, which stores all elements.
#'
#' Products use the engines of [kernel_sum()], and have the same error bounds and the same bits. The first product takes
#' as long as `kernel_sum()`; later ones reuse what it has prepared. If `y` is not given, the matrix is symmetric
#' (before `weights`) and products take less time.
#'
#' @section Memory:
#' Prepared points are cached in the operator and are freed with it. All operators and fits together cache at most
#' `device_memory` bytes on a GPU and `host_memory` bytes in the memory of the machine (see [flash_control()]); beyond
#' this the least recently used cache is evicted. [gpu_release()] frees caches on GPUs. An operator whose cache was
#' evicted, or that was saved by [saveRDS()], is prepared again by its next product.
#'
#' @inheritParams kernel_sum
#' @param x The `n` source points: a numeric matrix, a data frame of numeric columns, a `float32` matrix of the package
#'   float, or a vector for one dimension.
#' @param y The `m` target points, with the columns of `x`. Not given, or `NULL`: the targets are the source points.
#' @param weights Non-negative weights of the source points, which multiply the columns of the matrix. `NULL` (default):
#'   ones.
#' @returns An object of (S4) class `kernel_operator`.
#' @seealso [kernel_sum()] for a single product, and for points larger than memory.
#' @importFrom methods is new setClass setMethod show signature
#' @rawRd \concept{kernel PCA}\concept{kernel matrix}\concept{spectral clustering}\concept{eigenvectors}
#' @export
#' @examples
#' op <- kernel_operator(faithful, bandwidth = c(0.3, 5))
#' op
#' v <- rep(1, nrow(faithful))
#' head(op %*% v)
#' op[1:3, 1:3]
#'
#' # kernel PCA: the leading eigenvectors of the centred kernel matrix, by subspace iteration
#' x <- scale(iris[, 1:4])
#' K <- kernel_operator(x, bandwidth = 2)
#' centred <- \(v) scale(v, scale = FALSE)
#' set.seed(1)
#' Q <- matrix(rnorm(2 * nrow(x)), ncol = 2)
#' for (i in 1:50) Q <- qr.Q(qr(centred(K %*% centred(Q))))
#' plot(Q, col = iris$Species, xlab = "Component 1", ylab = "Component 2")
kernel_operator <- function(x, y = x, bandwidth, kernel = "gaussian", weights = NULL, tol = 1e-6, control = NULL) {
  if (missing(x)) stop_argument("x", "must be given")
  if (missing(bandwidth)) stop_argument("bandwidth", "must be given")
  kernel <- check_kernel(kernel)
  asked <- settle_control(control, if (!missing(tol)) list(tol = check_tol(tol)), TOLERANT_DEFAULTS)
  run <- start_run(asked)
  if (is_big(x) || is.function(x)) {
    stop_argument("x", "must be in memory: kernel_sum() takes a big.matrix or a function, for one product")
  }
  check <- \(x, ...) if (is_remote(x)) x else check_points(x, ..., single = TRUE)
  points <- check(x, "x")
  at <- if (!missing(y) && !is.null(y)) check(y, "y", ncol(points), colnames(points), like = "`x`")
  weights <- check_weights(weights, nrow(points))
  L <- as_bandwidth(bandwidth, ncol(points), names = colnames(points))$L
  # fails here if the engine is not available
  resolve_control(run, nrow(points), nrow(if (is.null(at)) points else at), ncol(points), kernel)
  new("kernel_operator",
    sources = sum_sources(points, NULL, L, kernel, new_plan()), at = at,
    targets = if (!is.null(at)) sum_sources(at, NULL, L, kernel, new_plan()),
    weights = weights, transposed = FALSE, asked = asked, state = new.env(parent = emptyenv())
  )
}

# Slots: `sources`, and `targets` for the transposed product (NULL: the sources), of sum_sources(), each with a plan;
# `at`: the points of the targets, or NULL; `asked`: of settle_control(); `state$record`: diagnostics of the last
# product.
setClass("kernel_operator", representation(
  sources = "ANY", at = "ANY", targets = "ANY", weights = "ANY", transposed = "logical", asked = "list",
  state = "environment"
))

# ---- products ---------------------------------------------------------------------------------

# Returns K v, or K' v if `transposed`, as a matrix. `v`: a vector or matrix; `arg`: its name on the help page; `of`:
# what it must have a row for.
multiply <- function(op, v, transposed, arg = "v", of = "column of `op`") {
  asked <- op@asked
  run <- start_run(asked, "Summing kernels")
  v <- check_coefficients(v, ncol_of(op, transposed), arg, of)
  # weights are part of the coefficients, to which the tolerance is relative
  weights <- op@weights
  if (!transposed && !is.null(weights)) v <- v * weights
  sources <- if (transposed && !is.null(op@at)) op@targets else op@sources
  at <- if (!is.null(op@at)) if (transposed) op@sources$points else op@at
  result <- kernel_sum_of(sources, at, v, run, as_matrix = TRUE)
  record_product(op, result, sources, c(nrow(result$sums), nrow(sources$points)), run)
  if (transposed && !is.null(weights)) result$sums * weights else result$sums
}

ncol_of <- function(op, transposed) {
  n <- nrow(op@sources$points)
  m <- if (is.null(op@at)) n else nrow(op@at)
  if (transposed) m else n
}

#' @rdname kernel_operator
#' @usage NULL
#' @aliases %*%,kernel_operator,ANY-method %*%,ANY,kernel_operator-method
#' @exportMethod "%*%"
setMethod("%*%", signature("kernel_operator", "ANY"), function(x, y) multiply(x, y, x@transposed))

setMethod("%*%", signature("ANY", "kernel_operator"), function(x, y) {
  t(multiply(y, transpose_factor(x, "u", nrow(y), "row"), !y@transposed, "u", "row of `op`"))
})

# Returns the transpose of a factor that must have `n` columns, one per `of` of the operator.
transpose_factor <- function(x, arg, n, of) {
  if (is.null(dim(x))) return(x)
  if (ncol(x) != n) {
    stop_argument(arg, "must have one column per ", of, " of `op`, ", whole(n), ": found ", whole(ncol(x)))
  }
  t(x)
}

#' @rdname kernel_operator
#' @usage NULL
#' @aliases crossprod,kernel_operator,ANY-method
#' @exportMethod crossprod
setMethod("crossprod", signature("kernel_operator", "ANY"), function(x, y = NULL, ...) {
  if (missing(y) || is.null(y)) stop_argument("y", "must be given: a vector or a matrix to multiply with")
  multiply(x, y, !x@transposed, "u", "row of `op`")
})

#' @rdname kernel_operator
#' @usage NULL
#' @aliases tcrossprod,kernel_operator,ANY-method
#' @exportMethod tcrossprod
setMethod("tcrossprod", signature("kernel_operator", "ANY"), function(x, y = NULL, ...) {
  if (missing(y) || is.null(y)) stop_argument("y", "must be given: a vector or a matrix to multiply with")
  if (is.null(dim(y))) y <- matrix(y, ncol = 1)
  multiply(x, transpose_factor(y, "v", ncol(x), "column"), x@transposed)
})

# Returns K'(W (K v + w)) for an operator without weights, where W is the diagonal matrix of `weights`. It is for tests
# and benchmarks of normal_product_of(), and checks nothing. Exact products on the CPU compute every kernel once, if the
# kernels of 24 rows fit in a processor's cache.
normal_product <- function(op, v, w = NULL, weights = NULL) {
  run <- start_run(op@asked, "Summing kernels")
  flipped <- op@transposed && !is.null(op@at)
  columns <- if (flipped) op@targets else op@sources
  result <- normal_product_of(columns, if (flipped) op@sources else op@targets, v, w, weights, run)
  record_product(op, result, columns, dim(op), run)
  result$product
}

# Stores the diagnostics of the last product. `size`: numbers of targets and sources.
record_product <- function(op, result, sources, size, run) {
  of <- list(n = size[2], m = size[1], d = ncol(sources$points))
  op@state$record <- sum_record(c(result, of), sources$kernel, run)
}

# ---- as a matrix ------------------------------------------------------------------------------

#' @export
t.kernel_operator <- function(x) {
  x@transposed <- !x@transposed
  x
}

#' @export
dim.kernel_operator <- function(x) c(ncol_of(x, !x@transposed), ncol_of(x, x@transposed))

#' @rdname kernel_operator
#' @usage NULL
#' @exportMethod diag
setMethod("diag", "kernel_operator", function(x = 1, nrow, ncol, names = TRUE) {
  size <- min(dim(x))
  # kernels of u are 1 at u = 0
  values <- if (is.null(x@at) && is_stationary(x@sources$kernel)) rep(1, size) else {
    unlist(lapply(blocks_of(size), \(rows) diag(kernel_values(x, rows, rows))))
  }
  if (is.null(x@weights)) values else values * x@weights[seq_len(size)]
})

row_sums <- function(x) as.vector(x %*% rep(1, ncol(x)))
column_sums_of <- function(x) as.vector(crossprod(x, rep(1, nrow(x))))

#' @rdname kernel_operator
#' @usage NULL
#' @aliases rowSums,kernel_operator-method colSums,kernel_operator-method rowMeans,kernel_operator-method
#'   colMeans,kernel_operator-method
#' @exportMethod rowSums colSums rowMeans colMeans
setMethod("rowSums", "kernel_operator", function(x, na.rm = FALSE, dims = 1L) row_sums(x))
setMethod("colSums", "kernel_operator", function(x, na.rm = FALSE, dims = 1L) column_sums_of(x))
setMethod("rowMeans", "kernel_operator", function(x, na.rm = FALSE, dims = 1L) row_sums(x) / ncol(x))
setMethod("colMeans", "kernel_operator", function(x, na.rm = FALSE, dims = 1L) column_sums_of(x) / nrow(x))

# Multiplies the operator by a number, through its weights.
scale_operator <- function(op, by) {
  check_finite(by, "s")
  op@weights <- by * if (is.null(op@weights)) rep(1, nrow(op@sources$points)) else op@weights
  op
}

#' @export
Ops.kernel_operator <- function(e1, e2) {
  is_scalar <- \(x) is_number(x) && length(x) == 1
  if (missing(e2)) return(switch(.Generic, "-" = scale_operator(e1, -1), "+" = e1, stop_arithmetic(.Generic)))
  if (.Generic == "*" && is_scalar(e2)) return(scale_operator(e1, as.double(e2)))
  if (.Generic == "*" && is_scalar(e1)) return(scale_operator(e2, as.double(e1)))
  if (.Generic == "/" && is_scalar(e2)) return(scale_operator(e1, 1 / as.double(e2)))
  stop_arithmetic(.Generic)
}

#' @export
Math.kernel_operator <- function(x, ...) stop_arithmetic(.Generic)

#' @export
Summary.kernel_operator <- function(..., na.rm = FALSE) stop_arithmetic(.Generic)

stop_arithmetic <- function(name) {
  way <- if (name %in% c("+", "-")) {
    "add the products instead, op %*% v + D %*% v for (op + D) %*% v"
  } else if (name == "sum") {
    "sum(rowSums(op)) is the sum of its elements"
  } else {
    "as.matrix(op) is an ordinary matrix"
  }
  problem <- paste0("`", name, "` is not defined for a kernel operator with these arguments: ", way)
  stop(new_error("unsupported", problem, user_call()))
}

#' @export
`[.kernel_operator` <- function(x, i, j, drop = TRUE) {
  if (nargs() - (!missing(drop)) != 3) {
    stop_argument("i", "and `j` must be separated by a comma, as in op[i, ] or op[, j]")
  }
  size <- dim(x)
  rows <- if (missing(i)) seq_len(size[1]) else pick(i, size[1], "i")
  columns <- if (missing(j)) seq_len(size[2]) else pick(j, size[2], "j")
  check_memory(8 * 2 * length(rows) * length(columns), "i")
  values <- if (x@transposed) t(matrix_part(x, columns, rows)) else matrix_part(x, rows, columns)
  if (drop && (length(rows) == 1 || length(columns) == 1)) as.vector(values) else values
}

#' @export
as.matrix.kernel_operator <- function(x, ...) {
  check_dots_empty(...)
  x[, , drop = FALSE]
}

pick <- function(index, size, arg) {
  if (!is.numeric(index) && !is.logical(index)) {
    stop_argument(arg, "must be numbers of rows or columns, or logical: found ", describe(index))
  }
  if (is.logical(index) && length(index) > size) stop_argument(arg, "must have no more than ", size, " values")
  chosen <- seq_len(size)[index]
  if (anyNA(chosen)) stop_argument(arg, "must be from 1 to ", size)
  chosen
}

# Returns a part of the untransposed matrix, with weights.
matrix_part <- function(op, rows, columns) {
  values <- kernel_values(op, rows, columns)
  if (is.null(op@weights)) values else values * rep(op@weights[columns], each = length(rows))
}

# Returns the kernels of some targets and sources, without weights.
kernel_values <- function(op, rows, columns) {
  if (length(rows) == 0 || length(columns) == 0) return(matrix(0, length(rows), length(columns)))
  of <- \(points, rows) if (identical(rows, seq_len(nrow(points)))) points else points[rows, , drop = FALSE]
  points <- op@sources$points
  at <- if (!is.null(op@at)) of(op@at, rows) else if (!identical(rows, columns)) of(points, rows)
  sources <- sum_sources(of(points, columns), NULL, op@sources$L, op@sources$kernel)
  run <- start_run(op@asked, "Computing kernels")
  kernel_matrix_of(sources, at, run)
}

blocks_of <- function(n, size = 256) {
  first <- seq(1, by = size, length.out = ceiling(n / size))
  lapply(first, \(from) from:min(from + size - 1, n))
}

# ---- what it is -------------------------------------------------------------------------------

#' @rdname kernel_operator
#' @usage NULL
#' @exportMethod show
setMethod("show", "kernel_operator", function(object) {
  size <- dim(object)
  d <- ncol(object@sources$points)
  label <- kernel_label(object@sources$kernel$name, object@sources$kernel$parameters)
  cat("Kernel operator, ", whole(size[1]), " x ", whole(size[2]), ": ", label, " in ", d,
    ngettext(d, " dimension", " dimensions"), if (!is.null(object@weights)) ", weighted",
    if (object@transposed) ", transposed", "\n", sep = "")
  asked <- object@asked
  exact <- asked$tol == 0 || identical(asked$engine, "exact")
  promise <- if (exact) "exact" else paste0("to a tolerance of ", format(asked$tol), " (", asked$tol_type[1], ")")
  cat("Products: ", promise, if (is.null(object@state$record)) ", none so far", "\n", sep = "")
  invisible(object)
})

#' @export
diagnostics.kernel_operator <- function(object, ...) {
  check_dots_empty(...)
  if (is.null(object@state$record)) stop_argument("object", "has computed no product yet: multiply first")
  object@state$record
}
