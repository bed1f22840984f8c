# Kernels of a sample as dense matrices, and how they change with the bandwidth: what gradients of a criterion are made of.

# list(K, slope) for rows a at rows b (NULL: a itself), both over the bandwidth. slope: the derivative of each kernel by
# the squared distance, the sum of absolute differences or the product of the two points.
kernel_pairs <- function(a, b, kernel, run) {
  with_slopes(kernel, ncol(a), run, \(kernel, L) kernels_between(if (!is.null(b)) a, if (is.null(b)) a else b, L, kernel, run))
}

# The same of k(x, x), as columns.
own_kernels <- function(z, kernel, run) {
  with_slopes(kernel, ncol(z), run, \(kernel, L) as.matrix(point_kernels(kernel, L, run)$diagonal(z)))
}

# `values`: a function of a kernel and of L, the d x d factor of its bandwidth matrix.
with_slopes <- function(kernel, d, run, values) {
  at_scale <- \(kernel, scale) values(kernel, diagonal_matrix(rep(scale, d), d))
  K <- at_scale(kernel, 1)
  if (metric_of(kernel) == "absolute") return(list(K = K, slope = -K))
  slope <- SLOPES[[kernel$name]](as.list(kernel$parameters))
  slopes <- if (!is.null(slope$of)) {
    slope$of(K, run)
  } else if (is.null(slope$kernel)) {
    array(slope$times, dim(K))
  } else {
    slope$times * if (identical(slope$kernel, kernel) && slope$scale == 1) K else at_scale(slope$kernel, slope$scale)
  }
  # of the distance r, SLOPES has -k'(r) / r
  list(K = K, slope = if (metric_of(kernel) == "squares") -slopes / 2 else slopes)
}

# The derivatives of sum(G * K) by the logarithms of the bandwidths, one for each column, or for all together: those of
# u are -2 (a_ik - b_jk)^2, -|a_ik - b_jk| or -2 a_ik b_jk.
bandwidth_slopes <- function(G, pairs, a, b, kernel, together, run) {
  W <- G * pairs$slope
  by_column <- if (metric_of(kernel) == "absolute") {
    vapply(seq_len(ncol(a)), \(k) -sum(W * abs(outer(a[, k], b[, k], `-`))), 0)
  } else {
    # .colSums() is colSums() without its checks, which take as long as all sums of a small sample
    n <- nrow(W)
    m <- ncol(W)
    d <- ncol(a)
    cross <- -2 * .colSums(as.matrix(a * if (is.matrix(b)) matrix_product(W, b, run) else W %*% b), n, d)
    if (metric_of(kernel) == "products") cross else {
      -2 * (.colSums(as.matrix(.rowSums(W, n, m) * a^2), n, d) + .colSums(as.matrix(.colSums(W, n, m) * b^2), m, d) + cross)
    }
  }
  if (together) sum(by_column) else by_column
}
