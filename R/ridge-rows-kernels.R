# Rows in memory with K_nm, their kernels at the centres of a fit. An iteration reads each of these numbers once, in a
# third of the time in which a kernel is computed, or a tenth of that of a sum of kernels. On the CPU, in double
# precision. Products with K_nm and without it differ by rounding.

# Bytes of K_nm at most: the pairs of the largest default fit (CENTERS_IN_SECONDS).
KERNEL_BYTES <- 8 * 1.5e8

# Bytes of a block of rows: the memory of K_nm need not be in one piece.
KERNEL_BLOCK <- 1.2e8

# The bytes of K_nm of a fit with `m` centres, or 0 if it is not kept: sums are computed otherwise, or memory has no room.
kernel_bytes <- function(rows, m, spec, run) {
  bytes <- 8 * as.double(rows$n) * m
  if (!inherits(rows, "rows_dense") || bytes > KERNEL_BYTES || !isTRUE(run$tol == 0)) return(0)
  by <- products_by(rows, m, spec, run)
  if (by$backend == "cpu" && by$precision == "double" && 2 * bytes <= memory_limit()) bytes else 0
}

# `rows` with the blocks of K_nm, if it is kept, instead of those that they may have.
rows_with_kernels <- function(rows, centers, spec, run) {
  if (kernel_bytes(rows, centers$m, spec, run) == 0) return(rows)
  rows$kernels <- lapply(pieces_of(rows$n, max(1, KERNEL_BLOCK %/% (8 * centers$m))), \(piece) {
    points <- as_points(rows$points[piece[1]:piece[2], , drop = FALSE], "x")
    kernels_between(centers$points, points, spec$L, spec$kernel, run)
  })
  rows$kernels_at <- centers$points
  if (!inherits(rows, "rows_kept")) class(rows) <- append(class(rows), "rows_kept", length(class(rows)) - 1)
  rows
}

#' @export
rows_multiply.rows_kept <- function(rows, centers, v, run) {
  if (!identical(rows$kernels_at, centers$points)) return(NextMethod())
  list(sums = stored_normal(rows$kernels, as.matrix(v), NULL, NULL, c(FALSE, TRUE), run)$sums)
}

#' @export
rows_normal.rows_kept <- function(rows, centers, v, w, weights, run, with_sums = FALSE) {
  if (!identical(rows$kernels_at, centers$points)) return(NextMethod())
  stored_normal(rows$kernels, if (!is.null(v)) as.matrix(v), if (!is.null(w)) as.matrix(w), weights, c(TRUE, with_sums), run)
}

# Of classes in one pass.
#' @export
rows_hessian.rows_kept <- function(rows, system, at, v) {
  if (!identical(rows$kernels_at, system$centers$points) || !system$family$of_classes) return(NextMethod())
  stored_normal(rows$kernels, as.matrix(v), NULL, system$weights, c(TRUE, TRUE), system$run, at)
}

# list(product, sums), K'(W (K v + w)) and K v, of which those are computed that are `asked`. `chances`: NULL, or the
# probabilities p of classes of each row, whose W is its weight times diag(p) - p p'.
stored_normal <- function(blocks, v, w, weights, asked, run, chances = NULL) {
  found <- .Call(ffi_stored_normal, blocks, v, w, if (!is.null(weights)) as.double(weights), chances, asked, run)
  list(product = found[[1]], sums = found[[2]])
}
