# Pruned direct sums against exact ones: at every target, whatever the range of b and however far the targets.

by_direct <- function(x, y, b, tol, tol_type, ...) {
  local_method("direct")
  v <- kernel_sum_by(
    x, y, b, bandwidth = 1, tol = tol, ...,
    control = flash_control(tol_type = tol_type, engine = "fast", backend = "cpu")
  )
  expect_identical(diagnostics(v)$method, "direct")
  as.vector(v)
}

# log of sum |b| k, and the sum relative to it
literal <- function(x, y, b) {
  x <- as.matrix(x)
  y <- as.matrix(y)
  vapply(seq_len(nrow(y)), \(j) {
    l <- log(abs(b)) - rowSums((x - rep(y[j, ], each = nrow(x)))^2) / 2
    top <- max(l)
    if (top == -Inf) return(c(-Inf, 0))
    terms <- exp(l - top)
    c(top + log(sum(terms)), sum(sign(b) * terms) / sum(terms))
  }, numeric(2))
}

# Errors relative to sum |b| k, where that is a double.
expect_pointwise <- function(x, y, b, tol, ...) {
  ref <- literal(x, y, b)
  v <- by_direct(x, y, b, tol, "pointwise", ...)
  fits <- ref[1, ] > -690
  expect_true(all(is.finite(v)))
  error <- abs(v / exp(ref[1, ]) - ref[2, ])[fits]
  expect_lte(max(error, 0), tol + 1e-12)
}
expect_global <- function(x, y, b, tol, ...) {
  ref <- literal(x, y, b)
  v <- by_direct(x, y, b, tol, "global", ...)
  error <- abs(v * exp(-max(ref[1, ])) - ref[2, ] * exp(ref[1, ] - max(ref[1, ])))
  expect_lte(max(error), tol + 1e-12)
}

test_that("rows keep their own tolerance at any distance and in any dimension", {
  set.seed(1)
  for (d in 1:7) {
    x <- matrix(rnorm(400 * d), 400)
    y <- matrix(rnorm(60 * d), 60)
    y[, 1] <- y[, 1] + seq(0, 36, length.out = 60)
    for (tol in c(1e-3, 1e-8)) {
      expect_pointwise(x, y, rep(1, 400), tol)
      expect_pointwise(x, y, rnorm(400), tol)
      expect_global(x, y, rnorm(400), tol)
    }
  }
})

test_that("b may span any range, in any order", {
  set.seed(2)
  x <- rnorm(500)
  y <- c(rnorm(60), runif(60, -30, 30))
  twenty <- 10^runif(500, -20, 20)
  all <- 10^runif(500, -320, 300)
  for (b in list(twenty, all, -all, sample(c(-1, 1), 500, TRUE) * twenty)) {
    for (tol in c(1e-3, 1e-8)) {
      expect_pointwise(x, y, b, tol)
      expect_pointwise(sort(x), y, sort(b), tol)
      expect_pointwise(sort(x), y, rev(sort(b)), tol)
      expect_global(sort(x), y, sort(b), tol)
    }
  }
})

test_that("a column's scale changes exponents alone", {
  set.seed(3)
  x <- rnorm(500)
  y <- runif(80, -8, 8)
  b <- rnorm(500)
  for (type in c("global", "pointwise")) {
    plain <- by_direct(x, y, b, 1e-4, type)
    expect_identical(by_direct(x, y, b * 2^600, 1e-4, type), plain * 2^600)
    expect_identical(by_direct(x, y, b * 2^-600, 1e-4, type), plain * 2^-600)
  }
  expect_global(x, y, exp(-120 + b), 1e-4)
  expect_global(x, y, 1e39 * abs(b), 1e-4)
})

test_that("all targets may be far, and the largest sum is still what counts", {
  set.seed(4)
  x <- rnorm(2000)
  y <- 12 + runif(100, 0, 3)
  expect_global(x, y, rep(1, 2000), 1e-3)
  expect_global(x, y + 20, rnorm(2000), 1e-6)
  both <- cbind(rep(1, 2000), 1e-200 * rnorm(2000), 0)
  v <- matrix(by_direct(x, y, both, 1e-3, "global"), 100)
  expect_identical(v[, 3], rep(0, 100))
  for (k in 1:2) {
    ref <- literal(x, y, both[, k])
    expect_lte(max(abs(v[, k] - ref[2, ] * exp(ref[1, ]))) / exp(max(ref[1, ])), 1e-3)
  }
})

test_that("clusters far apart, ties, one source, one target and zeros", {
  set.seed(5)
  x <- rep(c(0, 17, 40), each = 100) + rnorm(300, sd = .2)
  expect_pointwise(x, seq(-10, 50, .5), rnorm(300), 1e-3)
  expect_pointwise(rep(1:3, 100), seq(-5, 8, .1), rnorm(300), 1e-3)
  expect_pointwise(2, seq(-30, 30, .5), -3, 1e-6)
  expect_pointwise(x, 8, rnorm(300), 1e-6)
  expect_identical(by_direct(x, c(0, 5), rep(0, 300), 1e-3, "pointwise"), c(0, 0))
  expect_pointwise(x, seq(-5, 50, 1), c(rep(0, 299), 1e-300), 1e-3)
})
