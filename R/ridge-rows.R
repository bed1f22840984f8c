# The rows of x of kernel_ridge(), wherever they are: in memory (here), in chunks (ridge-rows-chunks.R), sparse
# (ridge-rows-sparse.R), on the workers of a cluster (ridge-rows-data.R). K_nm, the kernels of the n rows at the m
# centres, is held only for sums of kernels (ridge-rows-kernels.R).
#
# Rows have fields `n`, `d` and `names` (of the columns, or NULL), and `y` and `weights` where chunks bring these along.
# Centres have fields `points` and `m`. Results are deterministic, and the same for any number of threads. Those of one
# matrix in memory, in chunks and sparse differ by rounding: sums are cut elsewhere. `run`: of start_run().

# `x`: a matrix or single_points() of check_points(), a big.matrix, a function that yields chunks, or a sparse matrix
# of Matrix. `L`: of rows_factor(), and `kernel`, of check_kernel(), without which there are no products yet. Chunks are
# read once here; `brings_y`: with the response, or else it is an error. `arg`: what the user calls `x`.
ridge_rows <- function(x, L = NULL, kernel = NULL, brings_y = FALSE, arg = "x") {
  rows <- if (is_big(x) || is.function(x)) {
    chunk_rows(x, brings_y, arg)
  } else if (is_remote(x)) {
    data_rows_of(x)
  } else if (is_sparse(x)) {
    sparse_rows(x, arg)
  } else {
    structure(list(points = x, n = nrow(x), d = ncol(x), names = colnames(x)), class = "rows_dense")
  }
  if (is.null(L)) rows else rows_under(rows, L, kernel)
}

# Centres that are `points`: a matrix of doubles with its `sources`, or a dgCMatrix.
ridge_centers <- function(points, L, kernel) {
  if (is_sparse(points)) return(sparse_centers(points, L, kernel))
  list(points = points, m = nrow(points), sources = sum_sources(points, NULL, L, kernel, new_plan()))
}

# ---- what is asked of rows --------------------------------------------------------------------

# The factor of a bandwidth as the user wrote it: that of as_bandwidth(), or the scales of sparse columns.
rows_factor <- function(rows, bandwidth) UseMethod("rows_factor")

# Returns `rows` with another bandwidth factor and kernel.
rows_under <- function(rows, L, kernel) UseMethod("rows_under")
#' @export
rows_under.default <- function(rows, L, kernel) {
  rows[c("L", "kernel")] <- list(L, kernel)
  rows
}

# list(sums, stats): K_nm v, an n x t matrix, of an m x t matrix v. By default a piece of the rows at a time.
rows_multiply <- function(rows, centers, v, run) UseMethod("rows_multiply")
#' @export
rows_multiply.default <- function(rows, centers, v, run) {
  sums <- matrix(0, rows$n, NCOL(v))
  stats <- NULL
  rows_share(rows, run, function(points, of) {
    part <- kernel_sum_of(centers$sources, points, v, run, as_matrix = TRUE)
    sums[of, ] <<- part$sums
    stats <<- joined_stats(stats, part$stats)
  })
  list(sums = sums, stats = stats)
}

# A pass: f(points, numbers of the rows) for dense points, a piece at a time, each with its share of the progress.
rows_share <- function(rows, run, f) UseMethod("rows_share")

# K v for further computations: numbers, or a column of them that stays with the rows (store-columns.R).
rows_link <- function(rows, centers, v, run) UseMethod("rows_link")
#' @export
rows_link.default <- function(rows, centers, v, run) rows_multiply(rows, centers, v, run)$sums

# Numbers in the form that rows_link() returns. rows_column(): an n x t matrix `x`, n weights, or NULL. rows_constant():
# the t numbers `x` for every row.
rows_column <- function(rows, x) UseMethod("rows_column")
#' @export
rows_column.default <- function(rows, x) x
rows_constant <- function(rows, x) UseMethod("rows_constant")
#' @export
rows_constant.default <- function(rows, x) matrix(x, rows$n, length(x), byrow = TRUE)

# list(product, stats): K'(W (K v + w)), m x t, of matrices v and w, one of which may be NULL, and of weights, NULL for
# ones. `with_sums`: and K v, of a v that is given, as rows_link() has it.
rows_normal <- function(rows, centers, v, w, weights, run, with_sums = FALSE) UseMethod("rows_normal")

# The rows `index`, in this order, as points: a matrix of doubles, or a dgCMatrix.
rows_take <- function(rows, index) UseMethod("rows_take")

# f(... f(f(init, points, first), points, first) ...) over pieces of the rows in their order; `first`: the number of a
# piece's first row.
rows_fold <- function(rows, f, init) UseMethod("rows_fold")

# ---- rows in memory ---------------------------------------------------------------------------

#' @export
rows_factor.default <- function(rows, bandwidth) as_bandwidth(bandwidth, rows$d, names = rows$names)$L

# Sparse centres have a vector L.
#' @export
rows_under.rows_dense <- function(rows, L, kernel) {
  if (!is.matrix(L)) return(rows_under(sparse_rows(as_csparse(as_points(rows$points, "x"))), L, kernel))
  rows$sources <- sum_sources(rows$points, NULL, L, kernel, new_plan())
  rows
}

# Coefficients are large and cancel: single precision is for those who ask for it, or for very many pairs.
#' @export
rows_multiply.rows_dense <- function(rows, centers, v, run) {
  few <- as.double(rows$n) * centers$m <= MOST_PAIRS_IN_DOUBLE
  if (run$precision == "auto" && few) run <- replace(run, "precision", "double")
  at <- if (inherits(rows$sources, "sources_of_terms")) rows$sources else rows$points
  kernel_sum_of(centers$sources, at, v, run, as_matrix = TRUE)
}

# On a GPU: some seconds.
MOST_PAIRS_IN_DOUBLE <- 2e11

#' @export
rows_normal.rows_dense <- function(rows, centers, v, w, weights, run, with_sums = FALSE) {
  normal_product_of(centers$sources, rows$sources, v, w, weights, run, with_sums)
}

#' @export
rows_take.rows_dense <- function(rows, index) as_points(rows$points[index, , drop = FALSE], "x")

#' @export
rows_fold.rows_dense <- function(rows, f, init) {
  for (piece in pieces_of(rows$n, chunk_size(NULL, rows$d))) {
    all <- piece[1] == 1 && piece[2] == rows$n
    points <- if (all) rows$points else rows$points[piece[1]:piece[2], , drop = FALSE]
    init <- f(init, as_points(points, "x"), piece[1])
  }
  init
}

# Kernels of points `at` (NULL: the same points), as rows, at points `of`, as columns: a matrix.
kernels_between <- function(at, of, L, kernel, run) {
  if (is_sparse(of)) return(sparse_kernels_between(at, of, L, kernel, run))
  kernel_matrix_of(sum_sources(of, NULL, L, kernel), at, run)
}
