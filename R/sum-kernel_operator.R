#' Kernel matrices as operators
#'
#' `kernel_operator()` makes an object that multiplies like an `m` x `n` kernel matrix, which is never stored. It
#' prepares the points once for all products. `kernel_eigen()` finds leading eigenvectors.
#'
#' @details
#' The operator represents the matrix \eqn{K_{ji} = w_i k_{ji}}{K_ji = w_i k_ji} of the targets `y` and the sources `x`,
#' with the kernels of [kernel_sum()]. An operator `op` has these methods:
#'
#' | call | result |
#' |---|---|
#' | `op %*% v`, `crossprod(op, u)`, `u %*% op`, ... | the product with a vector or matrix, as a matrix |
#' | `t(op)`, `dim(op)` | the transposed operator, and the dimensions |
#' | `rowSums(op)`, `colSums(op)`, `rowMeans(op)`, `colMeans(op)` | by one product with ones |
#' | `diag(op)`, `diag(op) <- diag(op) + s` | the diagonal; `sum(diag(op))` is the trace |
#' | `op1 + op2`, `op + D`, `s * op`, `op / s` | operators: sums, also with diagonal matrices, and multiples of all or of each row |
#' | `op[i, j]`, `as.matrix(op)` | elements of the matrix, exact in double precision, computed on the CPU |
#' | `solve(op, b)` | solution of `op %*% x = b`, by conjugate gradients |
#' | `diagnostics(op)` | how the last product was computed, and how fast |
#'
#' For other functions of matrices use `as.matrix(op)`, which stores all elements.
#'
#' Products have the error bounds and the bits of [kernel_sum()]. The first product takes as long; later ones reuse what
#' it has prepared. Without `y` the matrix is symmetric (before `weights`) and products take less time. Numbers `s` on
#' both sides, `s * t(s * op)`, keep it symmetric.
#'
#' `kernel_eigen()` takes block Lanczos steps until the residuals of the eigenvectors are below `tol` times the largest
#' eigenvalue, and `solve()` stops at a relative residual of `tol`. The tolerance of the operator limits both.
#'
#' @section Memory:
#' Prepared points are cached in the operator. All operators and fits together cache at most `device_memory` bytes on a
#' GPU and `host_memory` bytes elsewhere (see [flash_control()]). Beyond this the least recently used cache is evicted,
#' and its points are prepared again by the next product.
#'
#' @inheritParams kernel_sum
#' @param x The `n` source points: a numeric matrix, a data frame of numeric columns, a `float32` matrix of the package
#'   float, or a vector for one dimension.
#' @param y The `m` target points, with the columns of `x`. Not given, or `NULL`: the targets are the source points.
#' @param weights Non-negative weights of the source points, which multiply the columns of the matrix. `NULL` (default):
#'   ones.
#' @param tol Error tolerance of products, see [kernel_sum()]; of `kernel_eigen()` and `solve()`, the largest residual.
#' @param ... Not used.
#' @returns An object of (S4) class `kernel_operator`; from `kernel_eigen()` a list like that of `eigen()`.
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
#' # kernel PCA
#' K <- kernel_operator(scale(iris[, 1:4]), bandwidth = 2)
#' pca <- kernel_eigen(K, k = 2, center = TRUE)
#' plot(pca$vectors, col = iris$Species, xlab = "Component 1", ylab = "Component 2")
#'
#' # a Gaussian process: solve (K + 0.1 I) x = b
#' diag(K) <- diag(K) + 0.1
#' head(solve(K, iris$Sepal.Length))
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
  one <- list(
    sources = sum_sources(points, NULL, L, kernel, new_plan()), at = at,
    targets = if (!is.null(at)) sum_sources(at, NULL, L, kernel, new_plan()), transposed = FALSE,
    left = NULL, right = weights, by = 1, asked = asked
  )
  new_operator(list(one), c(nrow(if (is.null(at)) points else at), nrow(points)))
}

# The operator of a sum of terms and a diagonal matrix. Slots: `terms`; `shift`: the diagonal, a number or n numbers;
# `size`: numbers of rows and columns; `state$record`: diagnostics of the last product, a list with one for each term.
# A term is the matrix by * diag(left) B diag(right), where B is the matrix of `sources` and the points `at` (NULL: the
# sources), or its transpose if `transposed` (never for symmetric B), and `left` and `right` are NULL for ones.
# `targets`: the sources of B', or NULL; `asked`: of settle_control(). Both sources have a plan.
setClass("kernel_operator", representation(terms = "list", shift = "numeric", size = "numeric", state = "environment"))

new_operator <- function(terms, size, shift = 0) {
  new("kernel_operator", terms = terms, shift = shift, size = size, state = new.env(parent = emptyenv()))
}

# ---- products ---------------------------------------------------------------------------------

# Returns the product with a vector or matrix, as a matrix. `arg`: its name on the help page; `of`: what it must have a
# row for.
multiply <- function(op, v, arg = "v", of = "column of `op`") {
  v <- check_coefficients(v, op@size[2], arg, of)
  parts <- lapply(op@terms, term_product, v)
  op@state$record <- lapply(parts, `[[`, "record")
  if (any(op@shift != 0)) parts <- c(parts, list(list(sums = as.matrix(op@shift * v))))
  Reduce(`+`, lapply(parts, `[[`, "sums"))
}

# Returns the product with one term, and its diagnostics.
term_product <- function(term, v) {
  run <- start_run(term$asked, "Summing kernels")
  # factors are part of the coefficients, to which the tolerance is relative
  if (!is.null(term$right)) v <- v * term$right
  sources <- if (term$transposed) term$targets else term$sources
  result <- kernel_sum_of(sources, if (term$transposed) term$sources$points else term$at, v, run, as_matrix = TRUE)
  factors <- if (is.null(term$left)) term$by else term$by * term$left
  size <- c(nrow(result$sums), nrow(sources$points))
  list(
    sums = if (identical(factors, 1)) result$sums else factors * result$sums,
    record = product_record(result, sources, size, run)
  )
}

#' @rdname kernel_operator
#' @usage NULL
#' @aliases %*%,kernel_operator,ANY-method %*%,ANY,kernel_operator-method
#' @exportMethod "%*%"
setMethod("%*%", signature("kernel_operator", "ANY"), function(x, y) multiply(x, y))

setMethod("%*%", signature("ANY", "kernel_operator"), function(x, y) {
  t(multiply(t(y), transpose_factor(x, "u", nrow(y), "row"), "u", "row of `op`"))
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
#' @aliases crossprod,kernel_operator,ANY-method crossprod,ANY,kernel_operator-method
#' @exportMethod crossprod
setMethod("crossprod", signature("kernel_operator", "ANY"), function(x, y = NULL, ...) {
  if (missing(y) || is.null(y)) stop_argument("y", "must be given: a vector or a matrix to multiply with")
  multiply(t(x), y, "u", "row of `op`")
})

setMethod("crossprod", signature("ANY", "kernel_operator"), function(x, y = NULL, ...) {
  t(multiply(t(y), x, "u", "row of `op`"))
})

#' @rdname kernel_operator
#' @usage NULL
#' @aliases tcrossprod,kernel_operator,ANY-method tcrossprod,ANY,kernel_operator-method
#' @exportMethod tcrossprod
setMethod("tcrossprod", signature("kernel_operator", "ANY"), function(x, y = NULL, ...) {
  if (missing(y) || is.null(y)) stop_argument("y", "must be given: a vector or a matrix to multiply with")
  if (is.null(dim(y))) y <- matrix(y, ncol = 1)
  multiply(x, transpose_factor(y, "v", ncol(x), "column"))
})

setMethod("tcrossprod", signature("ANY", "kernel_operator"), function(x, y = NULL, ...) x %*% t(y))

# Returns K'(W (K v + w)) for an operator of one term without weights, where W is the diagonal matrix of `weights`. It
# is for tests and benchmarks of normal_product_of(), and checks nothing. Exact products on the CPU compute every kernel
# once, if the kernels of 24 rows fit in a processor's cache.
normal_product <- function(op, v, w = NULL, weights = NULL) {
  term <- op@terms[[1]]
  run <- start_run(term$asked, "Summing kernels")
  columns <- if (term$transposed) term$targets else term$sources
  result <- normal_product_of(columns, if (term$transposed) term$sources else term$targets, v, w, weights, run)
  op@state$record <- list(product_record(result, columns, dim(op), run))
  result$product
}

# The diagnostics of a product. `size`: numbers of targets and sources.
product_record <- function(result, sources, size, run) {
  of <- list(n = size[2], m = size[1], d = ncol(sources$points))
  sum_record(c(result, of), sources$kernel, run)
}

# ---- as a matrix ------------------------------------------------------------------------------

#' @export
t.kernel_operator <- function(x) {
  x@terms <- lapply(x@terms, \(term) {
    term[c("left", "right")] <- term[c("right", "left")]
    term$transposed <- !is.null(term$at) && !term$transposed
    term
  })
  x@size <- rev(x@size)
  x
}

#' @export
dim.kernel_operator <- function(x) x@size

#' @rdname kernel_operator
#' @usage NULL
#' @aliases diag,kernel_operator-method diag<-,kernel_operator-method
#' @exportMethod diag "diag<-"
setMethod("diag", "kernel_operator", function(x = 1, nrow, ncol, names = TRUE) {
  first <- seq_len(min(dim(x)))
  of_term <- function(term) {
    # kernels of u are 1 at u = 0
    values <- if (is.null(term$at) && is_stationary(term$sources$kernel)) rep(1, length(first)) else {
      unlist(lapply(blocks_of(length(first)), \(rows) diag(kernel_values(term, rows, rows))))
    }
    for (factor in list(term$left, term$right)) if (!is.null(factor)) values <- values * factor[first]
    term$by * values
  }
  Reduce(`+`, lapply(x@terms, of_term), 0) + rep_len(x@shift, length(first))
})

setMethod("diag<-", "kernel_operator", function(x, value) {
  if (!is_number(value) || !length(value) %in% c(1, min(dim(x)))) {
    stop_argument("value", "must be one number, or ", whole(min(dim(x))), " numbers: found ", describe(value))
  }
  x + diagonal_operator(rep_len(as.double(value), min(dim(x))) - diag(x))
})

diagonal_operator <- function(values) new_operator(list(), rep(length(values), 2), check_finite(values, "value"))

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

# Multiplies the rows of the matrix by a number or by a number for each row.
scale_operator <- function(op, by) {
  by <- check_finite(as.double(by), "s")
  op@terms <- lapply(op@terms, \(term) {
    if (length(by) == 1) term$by <- term$by * by else term$left <- by * if (is.null(term$left)) 1 else term$left
    term
  })
  op@shift <- op@shift * by
  op
}

# An operator, or a diagonal matrix as an operator; NULL for anything else.
as_operator <- function(x) {
  if (is(x, "kernel_operator")) return(x)
  is_diagonal <- \(x) isTRUE(sum(x != 0) == sum(diag(x) != 0))
  if (is.numeric(x) && is.matrix(x) && nrow(x) == ncol(x) && is_diagonal(x)) diagonal_operator(as.double(diag(x)))
}

#' @export
Ops.kernel_operator <- function(e1, e2) {
  if (missing(e2)) return(switch(.Generic, "-" = scale_operator(e1, -1), "+" = e1, stop_arithmetic(.Generic)))
  is_scale <- \(x, op) is_number(x) && is.null(dim(x)) && length(x) %in% c(1, nrow(op))
  if (.Generic == "*" && is_scale(e2, e1)) return(scale_operator(e1, e2))
  if (.Generic == "*" && is_scale(e1, e2)) return(scale_operator(e2, e1))
  if (.Generic == "/" && is_scale(e2, e1)) return(scale_operator(e1, 1 / e2))
  a <- as_operator(e1)
  b <- as_operator(e2)
  if (!.Generic %in% c("+", "-") || is.null(a) || is.null(b)) stop_arithmetic(.Generic)
  if (any(dim(a) != dim(b))) stop_argument("op", "must have as many rows and columns as the other matrix")
  if (.Generic == "-") b <- scale_operator(b, -1)
  new_operator(c(a@terms, b@terms), dim(a), a@shift + b@shift)
}

#' @export
Math.kernel_operator <- function(x, ...) stop_arithmetic(.Generic)
#' @export
Summary.kernel_operator <- function(..., na.rm = FALSE) stop_arithmetic(.Generic)
#' @export
qr.kernel_operator <- function(x, ...) stop_arithmetic("qr")
#' @export
chol.kernel_operator <- function(x, ...) stop_arithmetic("chol")
#' @export
determinant.kernel_operator <- function(x, ...) stop_arithmetic("determinant")

#' @rdname kernel_operator
#' @usage NULL
#' @aliases eigen,kernel_operator-method svd,kernel_operator-method %*%,kernel_operator,kernel_operator-method
#'   crossprod,kernel_operator,kernel_operator-method tcrossprod,kernel_operator,kernel_operator-method
#' @exportMethod eigen svd
setMethod("eigen", "kernel_operator", function(x, symmetric, only.values, EISPACK) stop_arithmetic("eigen"))
setMethod("svd", "kernel_operator", function(x, nu, nv, LINPACK = FALSE) stop_arithmetic("svd"))
setMethod("%*%", rep("kernel_operator", 2), function(x, y) stop_arithmetic("%*%"))
setMethod("crossprod", rep("kernel_operator", 2), function(x, y = NULL, ...) stop_arithmetic("crossprod"))
setMethod("tcrossprod", rep("kernel_operator", 2), function(x, y = NULL, ...) stop_arithmetic("tcrossprod"))

stop_arithmetic <- function(name) {
  way <- switch(name,
    "+" = , "-" = "`op + D` adds an operator or a diagonal matrix, diag(op) <- diag(op) + s adds s to its diagonal",
    sum = "sum(rowSums(op)) is the sum of its elements",
    "%*%" = , crossprod = , tcrossprod = "op %*% (op %*% v) multiplies a vector by both matrices",
    eigen = , svd = "kernel_eigen(op, k = 6) finds the leading eigenvalues and eigenvectors, without the matrix",
    "as.matrix(op) is an ordinary matrix"
  )
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
  values <- matrix_part(x, rows, columns)
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

matrix_part <- function(op, rows, columns) {
  shift <- outer(rows, columns, `==`) * rep_len(op@shift, nrow(op))[rows]
  Reduce(`+`, lapply(op@terms, term_part, rows, columns), shift)
}

term_part <- function(term, rows, columns) {
  values <- if (term$transposed) t(kernel_values(term, columns, rows)) else kernel_values(term, rows, columns)
  if (!is.null(term$left)) values <- values * term$left[rows]
  if (!is.null(term$right)) values <- values * rep(term$right[columns], each = length(rows))
  term$by * values
}

# Returns the kernels of some targets and sources of a term.
kernel_values <- function(term, rows, columns) {
  if (length(rows) == 0 || length(columns) == 0) return(matrix(0, length(rows), length(columns)))
  of <- \(points, rows) if (identical(rows, seq_len(nrow(points)))) points else points[rows, , drop = FALSE]
  points <- term$sources$points
  at <- if (!is.null(term$at)) of(term$at, rows) else if (!identical(rows, columns)) of(points, rows)
  sources <- sum_sources(of(points, columns), NULL, term$sources$L, term$sources$kernel)
  kernel_matrix_of(sources, at, start_run(term$asked, "Computing kernels"))
}

blocks_of <- function(n, size = 256) {
  before <- seq(0, by = size, length.out = max(ceiling(n / size), 1))
  lapply(before, \(before) before + seq_len(min(size, n - before)))
}

# ---- what it is -------------------------------------------------------------------------------

#' @rdname kernel_operator
#' @usage NULL
#' @exportMethod show
setMethod("show", "kernel_operator", function(object) {
  labels <- c(vapply(object@terms, operator_label, ""), if (any(object@shift != 0)) "a diagonal matrix")
  size <- paste(whole(nrow(object)), "x", whole(ncol(object)))
  cat("Kernel operator, ", size, ": ", paste(labels, collapse = "\n  + "), "\n", sep = "")
  for (asked in unique(lapply(object@terms, `[[`, "asked"))) {
    exact <- asked$tol == 0 || identical(asked$engine, "exact")
    promise <- if (exact) "exact" else paste0("to a tolerance of ", format(asked$tol), " (", asked$tol_type[1], ")")
    cat("Products: ", promise, if (is.null(object@state$record)) ", none so far", "\n", sep = "")
  }
  invisible(object)
})

operator_label <- function(term) {
  kernel <- term$sources$kernel
  d <- ncol(term$sources$points)
  paste0(
    if (term$by != 1) paste(format(term$by, digits = 3), "* "), kernel_label(kernel$name, kernel$parameters), " in ", d,
    ngettext(d, " dimension", " dimensions"), if (!is.null(term$left) || !is.null(term$right)) ", weighted",
    if (term$transposed) ", transposed"
  )
}

#' @export
diagnostics.kernel_operator <- function(object, ...) {
  check_dots_empty(...)
  record <- object@state$record
  if (is.null(record)) stop_argument("object", "has computed no product yet: multiply first")
  if (length(record) == 1) record[[1]] else record
}
