# Rows in memory with K_nm, their kernels at the centres of a fit. An iteration reads each of these numbers once, in a
# third of the time in which a kernel is computed, or a tenth of that of a sum of kernels. In double precision: on the
# CPU, or of more than two classes on a GPU. Products with K_nm and without it differ by rounding.

# Bytes of K_nm at most: the pairs of the largest default fit (CENTERS_IN_SECONDS).
KERNEL_BYTES <- 8 * 1.5e8

# Bytes of a block of rows: the memory of K_nm need not be in one piece.
KERNEL_BLOCK <- 1.2e8

# "cpu" or "cuda", where K_nm of a fit with `m` centres is kept; NULL: sums are computed otherwise, or memory has no room.
kernel_place <- function(rows, m, spec, run) {
  bytes <- 8 * as.double(rows$n) * m
  if (!inherits(rows, "rows_dense") || bytes > KERNEL_BYTES || !isTRUE(run$tol == 0)) return(NULL)
  by <- products_by(rows, m, spec, run)
  room <- if (by$backend == "cpu") memory_limit() else if (identical(spec$family$family, "multinomial")) gpu_room(run, bytes) else 0
  if (by$precision == "double" && 2 * bytes <= room) by$backend
}

# The bytes of K_nm in the memory of this back end.
kernel_bytes <- function(rows, m, spec, run, backend = "cpu") {
  if (identical(kernel_place(rows, m, spec, run), backend)) 8 * as.double(rows$n) * m else 0
}

# `rows` with the blocks of K_nm, if it is kept, or a handle of its memory on a GPU until `frame` ends, instead of those
# that they may have.
rows_with_kernels <- function(rows, centers, spec, run, frame = parent.frame()) {
  place <- kernel_place(rows, centers$m, spec, run)
  if (is.null(place)) return(rows)
  blocks <- pieces_of(rows$n, max(1, KERNEL_BLOCK %/% (8 * centers$m)))
  block <- \(piece) {
    points <- as_points(rows$points[piece[1]:piece[2], , drop = FALSE], "x")
    kernels_between(centers$points, points, spec$L, spec$kernel, run)
  }
  kernels <- if (place == "cpu") lapply(blocks, block) else kernels_on_gpu(blocks, block, c(centers$m, rows$n), run, frame)
  if (is.null(kernels)) return(rows)
  rows[c("kernels", "kernels_at")] <- list(kernels, centers$points)
  if (!inherits(rows, "rows_kept")) class(rows) <- append(class(rows), "rows_kept", length(class(rows)) - 1)
  rows
}

# A handle, or NULL if the GPU has no room.
kernels_on_gpu <- function(blocks, block, size, run, frame) {
  tryCatch({
    handle <- .Call(ffi_store, size[1], size[2], run)
    at_end(\() store_kernels(handle, 0, NULL), frame)
    for (piece in blocks) store_kernels(handle, piece[1] - 1, block(piece))
    handle
  }, flashkernel_error_alloc = \(e) NULL)
}

# Kernels of the rows from `first`, counted from 0; NULL frees the memory, for which R's garbage collection does not wait.
store_kernels <- function(handle, first, kernels) .Call(ffi_store_kernels, handle, first, kernels)

#' @export
rows_multiply.rows_kept <- function(rows, centers, v, run) {
  if (!identical(rows$kernels_at, centers$points)) return(NextMethod())
  list(sums = stored_normal(rows, v, NULL, NULL, c(FALSE, TRUE), run)$sums)
}

#' @export
rows_normal.rows_kept <- function(rows, centers, v, w, weights, run, with_sums = FALSE) {
  if (!identical(rows$kernels_at, centers$points)) return(NextMethod())
  stored_normal(rows, v, w, weights, c(TRUE, with_sums), run)
}

# Of classes in one pass.
#' @export
rows_hessian.rows_kept <- function(rows, system, at, v) {
  if (!identical(rows$kernels_at, system$centers$points) || !system$family$of_classes) return(NextMethod())
  stored_normal(rows, v, NULL, system$weights, c(TRUE, TRUE), system$run, at)
}

# list(product, sums), K'(W (K v + w)) and K v, of which those are computed that are `asked`. `chances`: NULL, or the
# probabilities p of classes of each row, whose W is its weight times diag(p) - p p'.
stored_normal <- function(rows, v, w, weights, asked, run, chances = NULL) {
  as_columns <- \(x) if (!is.null(x)) as.matrix(x)
  weights <- if (!is.null(weights)) as.double(weights)
  found <- .Call(ffi_stored_normal, rows$kernels, as_columns(v), as_columns(w), weights, chances, asked, run)
  list(product = found[[1]], sums = found[[2]])
}
