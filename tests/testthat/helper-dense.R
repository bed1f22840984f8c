# Dense operations of a back end (a CUDA device, or -1 for the host) compared with R's own matrix algebra. Matrices lie
# between rows of NaN, which must not change; the unused triangle of a triangular matrix is NaN.

UPPER <- 1
RIGHT <- 2
TRANSPOSED <- 4
TRANSPOSED_B <- 8
HALVES <- 16

# The matrices after the operation; attribute "pivot".
run_dense <- function(what, matrices, flags = 0, factors = c(1, 0), device = -1, single = FALSE, padding = 1) {
  padded <- lapply(matrices, \(x) {
    storage.mode(x) <- "double"
    rows <- matrix(NaN, padding, ncol(x))
    rbind(rows, x, rows)
  })
  out <- c_unit("dense", what, device, flags, factors, padded, padding, single)
  inner <- lapply(out, \(x) x[seq_len(nrow(x) - 2 * padding) + padding, , drop = FALSE])
  for (i in seq_along(out)) {
    outer <- out[[i]][-(seq_len(nrow(inner[[i]])) + padding), ]
    if (!all(is.nan(outer))) testthat::fail(paste(what, "wrote beside a matrix"))
  }
  structure(inner, pivot = attr(out, "pivot"))
}

random_matrix <- function(n, d) matrix(stats::rnorm(n * d), n, d)
# Well-conditioned triangles, so that solutions are as accurate as products.
random_triangle <- function(n) random_matrix(n, n) / max(n, 1) + diag(2, n)
other_triangle <- function(A, flags) if (bitwAnd(flags, UPPER) > 0) lower.tri(A) else upper.tri(A)
only_triangle <- function(A, flags, other = 0) replace(A, other_triangle(A, flags), other)
transpose_if <- function(A, flags, flag = TRANSPOSED) if (bitwAnd(flags, flag) > 0) t(A) else A

# Only failures are reported: reporting thousands of successes would take longer than the operations.
expect_untouched <- function(got, flags, label) {
  if (!all(is.nan(got[other_triangle(got, flags)]))) testthat::fail(paste(label, "wrote to the other triangle"))
}

# Relative to the largest number; rounding errors grow with the order.
expect_matrix <- function(got, want, single, label) {
  stopifnot(identical(dim(got), dim(want)))
  if (length(want) == 0) return(invisible())
  error <- max(abs(got - want))
  bound <- (if (single) 2^-22 else 2^-51) * max(50, dim(want)) * max(abs(want))
  if (!isTRUE(error <= bound)) testthat::fail(sprintf("%s: error %.3g is above %.3g.", label, error, bound))
}

expect_gemm <- function(sizes, ...) {
  n <- sizes[1]
  d <- sizes[2]
  inner <- sizes[3]
  single <- isTRUE(list(...)$single)
  for (flags in c(0, TRANSPOSED, TRANSPOSED_B, TRANSPOSED + TRANSPOSED_B)) for (beta in c(0, -0.5)) {
    label <- paste("gemm", paste(sizes, collapse = " x "), "flags", flags, "beta", beta)
    A <- random_matrix(n, inner)
    B <- random_matrix(inner, d)
    C <- random_matrix(n, d)
    before <- if (beta == 0) C * NaN else C # is not read
    parts <- list(transpose_if(A, flags), transpose_if(B, flags, TRANSPOSED_B), before)
    got <- run_dense("gemm", parts, flags, c(2, beta), ...)
    expect_matrix(got[[3]], 2 * A %*% B + beta * C, single, label)
  }
}

# C = 2 A'B + beta C by FP16 terms, with columns of all sizes: errors relative to the norms of two columns.
expect_halves <- function(sizes, bound, numbers = stats::rnorm, ...) {
  n <- sizes[1]
  d <- sizes[2]
  inner <- sizes[3]
  for (beta in c(0, -0.5)) {
    label <- paste("gemm by halves", paste(sizes, collapse = " x "), "beta", beta)
    A <- matrix(numbers(inner * n), inner) * rep(10^seq(-30, 30, length.out = n), each = inner)
    B <- matrix(numbers(inner * d), inner) * rep(10^seq(30, -30, length.out = d), each = inner)
    norms <- outer(sqrt(colSums(A^2)), sqrt(colSums(B^2)))
    C <- random_matrix(n, d) * norms
    got <- run_dense("gemm", list(A, B, if (beta == 0) C * NaN else C), TRANSPOSED + HALVES, c(2, beta), ...)[[3]]
    error <- max(abs(got - 2 * crossprod(A, B) - beta * C) / norms)
    if (!isTRUE(error <= bound)) testthat::fail(sprintf("%s: error %.3g is above %.3g.", label, error, bound))
  }
}

expect_syrk <- function(n, inner, ...) {
  single <- isTRUE(list(...)$single)
  for (flags in c(0, UPPER, TRANSPOSED, UPPER + TRANSPOSED)) for (beta in c(0, 3)) {
    label <- paste("syrk", n, "x", inner, "flags", flags, "beta", beta)
    A <- random_matrix(n, inner)
    C <- only_triangle(random_matrix(n, n), flags, NaN)
    got <- run_dense("syrk", list(transpose_if(A, flags), if (beta == 0) C * NaN else C), flags, c(-1, beta), ...)[[2]]
    expect_untouched(got, flags, label)
    want <- -tcrossprod(A) + beta * only_triangle(C, flags)
    expect_matrix(only_triangle(got, flags), only_triangle(want, flags), single, label)
  }
}

# trmm and trsm
expect_triangle <- function(n, d, ...) {
  single <- isTRUE(list(...)$single)
  for (flags in 0:7) for (what in c("trmm", "trsm")) {
    label <- paste(what, n, "x", d, "flags", flags)
    right <- bitwAnd(flags, RIGHT) > 0
    A <- random_triangle(n)
    B <- if (right) random_matrix(d, n) else random_matrix(n, d)
    M <- transpose_if(only_triangle(A, flags), flags)
    if (what == "trsm" && n > 0) M <- solve(M)
    got <- run_dense(what, list(only_triangle(A, flags, NaN), B), flags, c(-2, 0), ...)
    expect_matrix(got[[2]], -2 * if (right) B %*% M else M %*% B, single, label)
  }
}

# Transposes, and columns times numbers or not; into another matrix and in place.
expect_transpose <- function(n, ...) {
  single <- isTRUE(list(...)$single)
  for (flags in c(0, UPPER)) {
    label <- paste("transpose of order", n, "flags", flags)
    A <- random_matrix(n, n)
    s <- random_matrix(n, 1)
    other <- flags == 0
    got <- run_dense("transpose", list(only_triangle(A, flags, NaN), s, matrix(NaN, n, n)), flags, ...)[[3]]
    expect_untouched(got, UPPER * other, label)
    want <- t(A) * rep(as.vector(s), each = n)
    expect_matrix(only_triangle(got, UPPER * other), only_triangle(want, UPPER * other), single, label)
    got <- run_dense("transpose", list(only_triangle(A, flags, NaN)), flags, ...)[[1]]
    want <- only_triangle(A, flags)
    expect_matrix(got, want + t(want) - diag(diag(A), n), single, paste(label, "in place"))
  }
}

# potrf, lauum and trtri in blocks
expect_blocked <- function(n, block, ...) {
  single <- isTRUE(list(...)$single)
  A <- tcrossprod(random_matrix(n, n + 3)) / n + diag(n)
  for (flags in c(0, UPPER)) for (what in c("potrf", "lauum", "trtri")) {
    label <- paste(what, "of order", n, "in blocks of", block, "flags", flags)
    given <- list(only_triangle(switch(what, potrf = A, lauum = A + upper.tri(A), random_triangle(n)), flags, NaN))
    got <- run_dense(paste("blocked", what), given, flags, c(block, 0), ...)[[1]]
    expect_untouched(got, flags, label)
    want <- run_dense(what, given, flags, ...)[[1]]
    expect_matrix(only_triangle(got, flags), only_triangle(want, flags), single, label)
  }
}

# potrf, lauum, trtri and squares
expect_symmetric <- function(n, ...) {
  single <- isTRUE(list(...)$single)
  for (flags in c(0, UPPER)) {
    label <- paste("of order", n, "flags", flags)
    A <- if (n == 0) matrix(0, 0, 0) else tcrossprod(random_matrix(n, n + 3)) / n + diag(n)
    R <- if (n == 0) A else chol(A)
    L <- if (flags == 0) t(R) else R
    got <- run_dense("potrf", list(only_triangle(A, flags, NaN)), flags, ...)
    expect_identical(attr(got, "pivot"), 0, label = label)
    expect_untouched(got[[1]], flags, label)
    expect_matrix(only_triangle(got[[1]], flags), L, single, paste("potrf", label))

    got <- run_dense("lauum", list(only_triangle(L, flags, NaN)), flags, ...)[[1]]
    expect_untouched(got, flags, label)
    want <- if (flags == 0) crossprod(L) else tcrossprod(L)
    expect_matrix(only_triangle(got, flags), only_triangle(want, flags), single, paste("lauum", label))

    triangle <- only_triangle(random_triangle(n), flags)
    got <- run_dense("trtri", list(replace(triangle, other_triangle(triangle, flags), NaN)), flags, ...)[[1]]
    expect_untouched(got, flags, label)
    want <- if (n == 0) triangle else solve(triangle)
    expect_matrix(only_triangle(got, flags), only_triangle(want, flags), single, paste("trtri", label))

    got <- run_dense("squares", list(only_triangle(A, flags, NaN), matrix(0, n, 1)), flags, ...)[[2]]
    expect_matrix(got, matrix(colSums(only_triangle(A, flags)^2), n, 1), single, paste("squares", label))
  }
}

expect_eigen <- function(n) {
  for (flags in c(0, UPPER)) {
    label <- paste("eigenvalues of order", n, "flags", flags)
    A <- if (n == 0) matrix(0, 0, 0) else tcrossprod(random_matrix(n, n + 3)) / n + diag(n)
    got <- run_dense("eigen", list(only_triangle(A, flags, NaN), matrix(0, n, 1)), flags)
    values <- if (n == 0) numeric() else rev(eigen(A, TRUE, only.values = TRUE)$values)
    expect_matrix(got[[2]], matrix(values, n, 1), FALSE, label)
    expect_matrix(crossprod(got[[1]]), diag(n), FALSE, label)
    expect_matrix(A %*% got[[1]], got[[1]] %*% diag(as.vector(got[[2]]), n), FALSE, label)
  }
}

expect_pivots <- function(...) {
  for (n in c(1, 3, 70, 300)) for (at in unique(c(1, ceiling(n / 2), n))) for (flags in c(0, UPPER)) {
    A <- tcrossprod(random_matrix(n, n + 3)) / n + diag(n)
    for (value in c(-1, NaN)) for (what in c("potrf", "blocked potrf")) {
      got <- run_dense(what, list(replace(A, (at - 1) * n + at, value)), flags, c(32, 0), ...)
      expect_identical(attr(got, "pivot"), at, label = paste(what, "the pivot of order", n, "at", at, "for", value))
    }
  }
}
