# Kernels of a sample in plain R, as dense matrices, and how they change with the bandwidth: what gradients of a
# criterion are made of. The kernels themselves are those of src/core/kernels.c, as tests see to.

# value: of u, the squared distance, the sum of absolute differences or the product of two points over the bandwidth, and
# the parameters p; slope: its derivative by u, where the value is k.
KERNEL_SLOPES <- list(
  gaussian = list(value = \(u, p) exp(-u / 2), slope = \(u, k, p) -k / 2),
  laplacian = list(value = \(u, p) exp(-sqrt(u)), slope = \(u, k, p) ifelse(u > 0, -k / (2 * sqrt(u)), 0)),
  product_laplacian = list(value = \(u, p) exp(-u), slope = \(u, k, p) -k),
  powered_exponential = list(
    value = \(u, p) exp(-u^(p[["power"]] / 2)),
    slope = \(u, k, p) ifelse(u > 0, -p[["power"]] / 2 * u^(p[["power"]] / 2 - 1) * k, 0)
  ),
  matern32 = list(value = \(u, p) matern_value(sqrt(3 * u), 0), slope = \(u, k, p) -1.5 * k / (1 + sqrt(3 * u))),
  matern52 = list(
    value = \(u, p) matern_value(sqrt(5 * u), 5 / 3 * u),
    slope = \(u, k, p) -5 / 6 * k / (1 + 5 / 3 * u / (1 + sqrt(5 * u)))
  ),
  cauchy = list(value = \(u, p) 1 / (1 + u), slope = \(u, k, p) -k^2),
  imq = list(value = \(u, p) 1 / sqrt(1 + u), slope = \(u, k, p) -k^3 / 2),
  linear = list(value = \(u, p) p[["gamma"]] * u + p[["coef0"]], slope = \(u, k, p) array(p[["gamma"]], dim(u))),
  polynomial = list(
    value = \(u, p) (p[["gamma"]] * u + p[["coef0"]])^p[["degree"]],
    slope = \(u, k, p) p[["gamma"]] * p[["degree"]] * (p[["gamma"]] * u + p[["coef0"]])^(p[["degree"]] - 1)
  ),
  sigmoid = list(value = \(u, p) tanh(p[["gamma"]] * u + p[["coef0"]]), slope = \(u, k, p) p[["gamma"]] * (1 - k^2))
)

matern_value <- function(r, square) (1 + r + square) * exp(-r)

# list(K, slope, u) for rows a at rows b (NULL: a itself), both over the bandwidth.
kernel_pairs <- function(a, b, kernel) {
  own <- is.null(b)
  metric <- metric_of(kernel)
  u <- if (metric == "absolute") absolute_differences(a, if (own) a else b) else if (is.matrix(a)) {
    base::tcrossprod(a, b)
  } else {
    as.matrix(if (own) tcrossprod(a) else tcrossprod(a, b))
  }
  if (metric == "squares") {
    # some ten times for each small fit: diag(), outer() and pmax() take longer than the numbers
    norms <- if (own) diagonal(u) else square_sums(a)
    u <- norms + rep(if (own) norms else square_sums(b), each = length(norms)) - 2 * u
    u[u < 0] <- 0
    if (own) u <- set_diagonal(u, 0)
  }
  of <- KERNEL_SLOPES[[kernel$name]]
  K <- of$value(u, kernel$parameters)
  list(K = K, slope = of$slope(u, K, kernel$parameters), u = u)
}

# The sums over the columns of |a_ik - b_jk|, a column at a time.
absolute_differences <- function(a, b) {
  sums <- matrix(0, nrow(a), nrow(b))
  for (k in seq_len(ncol(a))) sums <- sums + abs(outer(a[, k], b[, k], `-`))
  sums
}

square_sums <- function(a) if (inherits(a, "sparseMatrix")) Matrix::rowSums(a^2) else base::rowSums(a^2)

set_diagonal <- function(matrix, values) {
  matrix[seq.int(1, by = nrow(matrix) + 1, length.out = nrow(matrix))] <- values
  matrix
}

# The derivatives of sum(G * K) by the logarithms of the bandwidths, one for each column, or for all together: those of
# u are -2 (a_ik - b_jk)^2, -|a_ik - b_jk| or -2 a_ik b_jk.
bandwidth_slopes <- function(G, pairs, a, b, kernel, together) {
  W <- G * pairs$slope
  metric <- metric_of(kernel)
  if (together) return(if (metric == "absolute") -sum(W * pairs$u) else -2 * sum(W * pairs$u))
  if (metric == "absolute") {
    return(vapply(seq_len(ncol(a)), \(k) -sum(W * abs(outer(a[, k], b[, k], `-`))), 0))
  }
  # .colSums() is colSums() without its checks, which take as long as all sums of a small sample
  n <- nrow(W)
  m <- ncol(W)
  d <- ncol(a)
  cross <- .colSums(a * (W %*% b), n, d)
  if (metric == "products") return(-2 * cross)
  -2 * (.colSums(.rowSums(W, n, m) * a^2, n, d) + .colSums(.colSums(W, n, m) * b^2, m, d) - 2 * cross)
}
