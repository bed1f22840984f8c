# Normal products K'(W (K v + w)) in plain R, without package code.

# Points of n sources and m targets with v, w and the diagonal of W, r columns.
normal_case <- function(n, m, d = 3, r = 1, seed = n + 1000 * m) {
  set.seed(seed)
  list(
    x = matrix(stats::rnorm(n * d), n), y = matrix(stats::rnorm(m * d), m), v = matrix(stats::rnorm(n * r), n),
    w = matrix(stats::rnorm(m * r), m), weights = ifelse(seq_len(m) %% 5 == 0, 0, stats::rnorm(m))
  )
}

# The largest error of a product, relative to the sum of absolute terms; v or w may be NULL.
normal_error <- function(got, K, v, w = NULL, weights = NULL) {
  residuals <- function(K, v, w, weights) {
    u <- if (is.null(v)) 0 else K %*% v
    u <- if (is.null(w)) u else u + w
    if (is.null(weights)) u else weights * u
  }
  absolute <- \(x) if (!is.null(x)) abs(x)
  want <- crossprod(K, residuals(K, v, w, weights))
  size <- crossprod(abs(K), residuals(abs(K), absolute(v), absolute(w), absolute(weights)))
  expect_identical(dim(got), dim(want))
  max(abs(got - want) / size)
}
