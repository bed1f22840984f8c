# The kernels by their formulas in plain R, and sums of them: no package code.

# Kernels of ref_measures().
ref_kernels <- list(
  gaussian = \(r) exp(-r^2 / 2),
  laplacian = \(r) exp(-r),
  product_laplacian = \(a) exp(-a),
  powered_exponential = \(r) exp(-r^1.4),
  matern32 = \(r) (1 + sqrt(3) * r) * exp(-sqrt(3) * r),
  matern52 = \(r) (1 + sqrt(5) * r + 5 * r^2 / 3) * exp(-sqrt(5) * r),
  cauchy = \(r) 1 / (1 + r^2),
  imq = \(r) 1 / sqrt(1 + r^2)
)

# Kernels of the product p of two points, gamma (g), coef0 (c) and degree.
ref_product_kernels <- list(
  linear = \(p, g, c, degree) g * p + c,
  polynomial = \(p, g, c, degree) (g * p + c)^degree,
  sigmoid = \(p, g, c, degree) tanh(g * p + c)
)

# One kernel of each kind, with parameters of its own.
some_product_kernels <- function() {
  list(
    kernel_spec("linear", gamma = 0.7, coef0 = -0.4), kernel_spec("polynomial", gamma = 0.3, coef0 = 0.6, degree = 5),
    kernel_spec("sigmoid", gamma = 0.2, coef0 = -0.3)
  )
}

# The m x n matrix of such a kernel, and the sizes of its terms: K itself if no product cancels.
ref_product_matrix <- function(x, y, H, kernel) {
  L <- t(chol(H))
  u <- forwardsolve(L, t(x))
  v <- forwardsolve(L, t(y))
  values <- as.list(kernel$parameters)
  of <- \(p, c) ref_product_kernels[[kernel$name]](p, values$gamma, c, values$degree)
  list(K = of(crossprod(v, u), values$coef0), size = of(crossprod(abs(v), abs(u)), abs(values$coef0)))
}

# The largest error, relative to the sums of the sizes of the terms.
product_error <- function(got, x, y, H, kernel, b) {
  ref <- ref_product_matrix(x, y, H, kernel)
  max(abs(as.matrix(got) - ref$K %*% b) / (ref$size %*% abs(b)))
}

# The m x n matrix of kernels, by direct distances.
ref_kernel_matrix <- function(x, y, H, kernel) ref_kernels[[kernel]](ref_measures(x, y, H, kernel))

# What a kernel is a function of, m x n: distances, or sums of absolute differences of scaled coordinates.
ref_measures <- function(x, y, H, kernel) {
  if (kernel == "product_laplacian") ref_absolute(x, y, H) else ref_distances(x, y, H)
}

ref_absolute <- function(x, y, H = diag(ncol(x))) {
  L <- t(chol(H))
  matrix(apply(y, 1, \(at) colSums(abs(forwardsolve(L, t(x) - at)))), nrow(y), nrow(x), byrow = TRUE)
}

# Mahalanobis distances, m x n; coordinate by coordinate if the coordinates are independent.
ref_distances <- function(x, y, H = diag(ncol(x))) {
  if (any(H[row(H) != col(H)] != 0)) return(sqrt(matrix(apply(y, 1, \(at) ref_distance2(x, at, H)), nrow(y), byrow = TRUE)))
  squares <- 0
  for (k in seq_len(ncol(x))) squares <- squares + outer(y[, k], x[, k], "-")^2 / H[k, k]
  sqrt(squares)
}

# The largest error of sums, relative to the largest sum of absolute terms.
expect_sums <- function(got, K, b, bound, label = "sums") {
  b <- as.matrix(b)
  got <- as.matrix(got)
  expect_identical(dim(got), c(nrow(K), ncol(b)), label = label)
  error <- max(abs(got - K %*% b)) / max(K %*% abs(b))
  testthat::expect(
    isTRUE(error <= bound),
    sprintf("%s: error %.3g is above the bound %.3g.", label, error, bound)
  )
}

plain <- function(sums) {
  attr(sums, "diagnostics") <- NULL
  sums
}

# A source of chunks of `sizes` rows, as kernel_sum() takes it
chunks_of <- function(x, b = NULL, sizes) {
  x <- as.matrix(x)
  last <- cumsum(sizes)
  chunk <- 0
  function() {
    chunk <<- chunk + 1
    if (chunk > length(sizes)) return(NULL)
    rows <- seq_len(sizes[chunk]) + last[chunk] - sizes[chunk]
    if (is.null(b)) return(x[rows, , drop = FALSE])
    list(x = x[rows, , drop = FALSE], b = if (is.matrix(b)) b[rows, , drop = FALSE] else b[rows])
  }
}

big_matrix <- function(x, type = "double") {
  testthat::skip_if_not_installed("bigmemory")
  x <- as.matrix(x)
  big <- bigmemory::big.matrix(nrow(x), ncol(x), type, dimnames = dimnames(x))
  big[, ] <- x # as.big.matrix() collects garbage, which takes longer than most tests of it
  big
}

# The fast engine's largest error relative to the largest sum of absolute terms, or to each sum's own, and what it
# reports about itself.
fast_error <- function(x, y, b, h, tol, tol_type = "global", backend = "cpu", kernel = "gaussian") {
  fast <- kernel_sum(
    x, y, b, h, kernel,
    tol = tol, control = flash_control(tol_type = tol_type, engine = "fast", backend = backend)
  )
  exact <- plain(kernel_sum(x, y, b, h, kernel, control = flash_control(engine = "exact", backend = "cpu")))
  scale <- plain(kernel_sum(x, y, abs(b), h, kernel, control = flash_control(engine = "exact", backend = "cpu")))
  error <- abs(plain(fast) - exact)
  relative <- if (tol_type == "global") max(error) / max(scale) else max((error / scale)[scale > 0])
  list(relative = relative, diagnostics = diagnostics(fast))
}
