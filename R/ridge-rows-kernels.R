# Rows in memory with K_nm, their kernels at the centres of a fit by a sum of kernels. Iterations read these numbers in a
# fifth of the time in which the kernels of all terms are computed; kernels of a single term are computed as fast as they
# are read. On the CPU, in double precision. Products with K_nm and without it differ by rounding.

# Bytes of K_nm at most: the pairs of the largest default fit (CENTERS_IN_SECONDS).
KERNEL_BYTES <- 8 * 1.5e8

# Bytes of a block of rows: enough for a product with a vector to be shared by threads. Blocks that stay in a cache between the
# two products of a pass take 1.6 times as long on two cores.
KERNEL_BLOCK <- 1.2e8

# The bytes of K_nm of a fit with `m` centres, or 0 if sums are computed otherwise.
kernel_bytes <- function(rows, m, spec, run) {
  bytes <- 8 * as.double(rows$n) * m
  sums <- inherits(spec$kernel, "kernel_of_terms") && inherits(rows, "rows_dense")
  if (!sums || bytes > KERNEL_BYTES || !isTRUE(run$tol == 0)) return(0)
  by <- products_by(rows, m, spec, run)
  if (by$backend == "cpu" && by$precision == "double") bytes else 0
}

# `rows` with the blocks of K_nm, if these serve and memory has room for them, instead of those that they may have.
rows_with_kernels <- function(rows, centers, spec, run) {
  bytes <- kernel_bytes(rows, centers$m, spec, run)
  if (bytes == 0 || 2 * bytes > memory_limit()) return(rows)
  rows$kernels <- lapply(pieces_of(rows$n, max(1, KERNEL_BLOCK %/% (8 * centers$m))), \(piece) {
    of <- piece[1]:piece[2]
    list(of = of, K = kernel_matrix_of(centers$sources, as_points(rows$points[of, , drop = FALSE], "x"), run))
  })
  rows$kernels_at <- centers$points
  if (!inherits(rows, "rows_kept")) class(rows) <- append(class(rows), "rows_kept", length(class(rows)) - 1)
  rows
}

#' @export
rows_multiply.rows_kept <- function(rows, centers, v, run) {
  if (!identical(rows$kernels_at, centers$points)) return(NextMethod())
  v <- as.matrix(v)
  list(sums = do.call(rbind, lapply(rows$kernels, \(block) matrix_product(block$K, v, run))))
}

#' @export
rows_normal.rows_kept <- function(rows, centers, v, w, weights, run, with_sums = FALSE) {
  if (!identical(rows$kernels_at, centers$points)) return(NextMethod())
  if (!is.null(v)) v <- as.matrix(v)
  if (!is.null(w)) w <- as.matrix(w)
  product <- 0
  sums <- list()
  for (block in rows$kernels) {
    u <- if (!is.null(v)) matrix_product(block$K, v, run) else 0
    if (with_sums) sums <- c(sums, list(u))
    if (!is.null(w)) u <- u + w[block$of, , drop = FALSE]
    if (!is.null(weights)) u <- weights[block$of] * u
    product <- product + matrix_crossprod(block$K, u, run)
  }
  list(product = product, sums = if (with_sums) do.call(rbind, sums))
}
