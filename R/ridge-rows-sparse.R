# Rows and centres of kernel_ridge() in sparse matrices of package Matrix. Only kernel values are dense, for a block of
# rows at a time. `L` has the scales of the columns: one number, or one for each column.
#
# Distances are computed from products; see fk_kernel_of_products() in src/fk.h for their error. For points within
# thousands of bandwidths from 0 kernels have a relative error of 1e-9. Laplacian and Matern kernels of nearly equal
# points have an error of the square root of that.

is_sparse <- function(x) is.object(x) && inherits(x, "sparseMatrix")

# Rows in a sparse matrix x. `byrow`: its transpose, a dgCMatrix, whose columns are the rows.
sparse_rows <- function(x, arg = "x") {
  if (!requireNamespace("Matrix", quietly = TRUE)) {
    stop_argument(arg, "is a sparse matrix, which needs the package Matrix. Use install.packages(\"Matrix\").")
  }
  byrow <- compress_rows(x)
  if (nrow(x) == 0) stop_argument(arg, "must have at least one row: found none")
  if (ncol(x) == 0) stop_argument(arg, "must have at least one column: found none")
  if (!all_finite(byrow@x)) {
    bad <- which(!is.finite(byrow@x))[1]
    stop_argument(
      arg, "must be finite: found ", format(byrow@x[bad]), " in row ", findInterval(bad - 1, byrow@p), ", column ",
      quote_names(column_label(colnames(x), byrow@i[bad] + 1))
    )
  }
  rows <- list(byrow = byrow, n = nrow(x), d = ncol(x), names = colnames(x))
  structure(rows, class = "rows_sparse")
}

compress_rows <- function(x) {
  if (!inherits(x, "dgRMatrix")) return(Matrix::t(as_csparse(x)))
  methods::new("dgCMatrix", p = x@p, i = x@j, x = x@x, Dim = rev(x@Dim), Dimnames = rev(x@Dimnames))
}

as_csparse <- function(x) {
  if (inherits(x, "dgCMatrix")) return(x)
  if (!is_sparse(x)) return(methods::as(Matrix::Matrix(x, sparse = TRUE, doDiag = FALSE), "generalMatrix"))
  methods::as(methods::as(methods::as(x, "dMatrix"), "generalMatrix"), "CsparseMatrix")
}

# The arrays of a dgCMatrix that C reads.
compressed <- function(x, values = x@x) list(start = x@p, index = x@i, values = values)

#' @export
rows_factor.rows_sparse <- function(rows, bandwidth) {
  arg <- "bandwidth"
  if (!is_number(bandwidth) || !is.null(dim(bandwidth)) || !length(bandwidth) %in% c(1, rows$d)) {
    stop_argument(arg, "must be one number for sparse `x`, or one for each of its ", whole(rows$d), " columns: found ",
      describe(bandwidth))
  }
  check_finite(bandwidth, arg)
  by_column <- if (length(bandwidth) > 1) match_names(names(bandwidth), rows$names, arg)
  scale <- as.double(if (is.null(by_column)) bandwidth else bandwidth[by_column])
  if (any(scale <= 0)) stop_argument(arg, "must be positive: found ", format(scale[scale <= 0][1]))
  scale
}

# For a fit with dense centres `L` is a matrix, and rows become dense, a chunk at a time.
#' @export
rows_under.rows_sparse <- function(rows, L, kernel) {
  rows <- NextMethod()
  if (!is.matrix(L)) rows$scaled <- with_norms(rows$byrow, L, kernel)
  rows
}

with_norms <- function(byrow, scale, kernel) {
  rows <- c(compressed(byrow), list(scale = scale))
  rows$norms <- .Call(ffi_sparse_norms, rows, nrow(byrow), kernel, run_control(settle_control(NULL)))
  if (!all_finite(rows$norms)) {
    stop_argument(
      "bandwidth", "must be larger, because squares of `x` over `bandwidth` overflow: found ", format(min(scale))
    )
  }
  rows
}

sparse_centers <- function(points, L, kernel) {
  scale <- if (length(L) == 1) L else rep(L, diff(points@p))
  columns <- c(compressed(points, points@x / scale), list(norms = with_norms(Matrix::t(points), L, kernel)$norms))
  list(points = points, m = nrow(points), columns = columns, L = L, kernel = kernel)
}

# ---- products ---------------------------------------------------------------------------------

# list(values, stats): kernels with a row for each centre and a column for each row c(first, last).
sparse_block <- function(rows, centers, piece, run) {
  .Call(ffi_sparse_kernels, rows$scaled, centers$columns, piece[1], diff(piece) + 1, centers$kernel, run)
}

# Calls f(piece) for each piece of the rows, with its share of the progress.
each_piece <- function(rows, size, run, f) {
  share <- nested_share(run)
  for (piece in pieces_of(rows$n, size)) {
    share$part((piece[1] - 1) / rows$n, (diff(piece) + 1) / rows$n)
    f(piece)
  }
  share$end()
}

# Calls f(block, rows) for each block of kernels, of a quarter of the size of a chunk, because f reads it twice. Returns
# the statistics of all blocks.
each_block <- function(rows, centers, run, f) {
  stats <- NULL
  each_piece(rows, max(1, floor(chunk_bytes() / 32 / centers$m)), run, function(piece) {
    block <- sparse_block(rows, centers, piece, run)
    f(block$values, piece[1]:piece[2])
    stats <<- joined_stats(stats, block$stats)
  })
  stats
}

# Rows become dense for dense centres.
#' @export
rows_share.rows_sparse <- function(rows, run, f) {
  each_piece(rows, chunk_size(NULL, rows$d), run, function(piece) {
    of <- piece[1]:piece[2]
    f(unname(as.matrix(rows_take(rows, of))), of)
  })
}

#' @export
rows_multiply.rows_sparse <- function(rows, centers, v, run) {
  if (!is.null(centers$sources)) return(NextMethod())
  sums <- matrix(0, rows$n, NCOL(v))
  stats <- each_block(rows, centers, run, \(block, of) sums[of, ] <<- crossprod(block, v))
  list(sums = sums, stats = stats)
}

#' @export
rows_normal.rows_sparse <- function(rows, centers, v, w, weights, run, with_sums = FALSE) {
  product <- matrix(0, centers$m, NCOL(if (is.null(v)) w else v))
  sums <- if (with_sums) matrix(0, rows$n, NCOL(v))
  stats <- each_block(rows, centers, run, function(block, of) {
    u <- if (!is.null(v)) crossprod(block, v) else 0
    if (with_sums) sums[of, ] <<- u
    if (!is.null(w)) u <- u + as.matrix(w)[of, , drop = FALSE]
    if (!is.null(weights)) u <- u * weights[of]
    product <<- product + block %*% u
  })
  list(product = product, sums = sums, stats = stats)
}

sparse_kernels_between <- function(at, of, L, kernel, run) {
  if (is.null(at)) at <- of
  check_memory(16 * nrow(at) * nrow(of), "centers")
  rows <- rows_under(sparse_rows(at), L, kernel)
  t(sparse_block(rows, sparse_centers(of, L, kernel), c(1, rows$n), run)$values)
}

# ---- rows -------------------------------------------------------------------------------------

#' @export
rows_take.rows_sparse <- function(rows, index) Matrix::t(rows$byrow[, index, drop = FALSE])

#' @export
rows_fold.rows_sparse <- function(rows, f, init) {
  # as many rows as fit into a chunk by their entries
  size <- max(1, floor(chunk_bytes() * rows$n / (12 * length(rows$byrow@x) + 4 * rows$n)))
  for (piece in pieces_of(rows$n, size)) init <- f(init, rows_take(rows, piece[1]:piece[2]), piece[1])
  init
}

# duplicated() for the rows of a sparse matrix, ignoring explicit zeros.
duplicated_sparse <- function(points) {
  byrow <- Matrix::t(Matrix::drop0(points))
  row <- factor(rep(seq_len(ncol(byrow)), diff(byrow@p)), levels = seq_len(ncol(byrow)))
  duplicated(Map(list, unname(split(byrow@i, row)), split(byrow@x, row)))
}
