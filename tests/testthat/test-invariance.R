# What changes nothing, or only units: motions, offsets, clusters far apart, scales, and the company of other queries.

estimators <- c("kde", "sdkde", "laplace")

test_that("rotating and shifting points, queries and H together changes nothing", {
  x <- example_points(50, 3)
  y <- example_points(20, 3, seed = 2)
  H <- example_bandwidth(3)
  set.seed(3)
  Q <- qr.Q(qr(matrix(stats::rnorm(9), 3)))
  move <- function(z) z %*% t(Q) + rep(c(5, -3, 100), each = nrow(z))
  for (estimator in estimators) {
    a <- flash_kde(x, estimator = estimator, bandwidth = H)
    b <- flash_kde(move(x), estimator = estimator, bandwidth = Q %*% H %*% t(Q))
    expect_within(predict(b, move(y)) / predict(a, y), rep(1, 20), 1e-9, estimator)
    score <- predict(a, y, type = "score")
    expect_within(predict(b, move(y), type = "score"), score %*% t(Q), 1e-9, estimator)
  }
})

test_that("points far from the origin lose nothing to the offset", {
  x <- round(example_points(300, 16) * 2^20) / 2^20 # so that the shifted values are exact
  y <- round(example_points(20, 16, seed = 2) * 2^20) / 2^20
  for (precision in c("double", "single")) for (estimator in c("kde", "sdkde")) {
    fit <- function(x) flash_kde(x, estimator = estimator, bandwidth = 1, control = flash_control(precision = precision))
    near <- predict(fit(x), y, type = "log_density")
    far <- predict(fit(x + 2^20), y + 2^20, type = "log_density")
    expect_within(far, near, if (precision == "double") 1e-11 else 1e-6, estimator)
  }
})

test_that("clusters any distance apart keep the precision promised", {
  # Squared norms grow far above the distances within a cluster: cancellation, if nothing is done.
  for (d in c(2, 8, 16, 33)) for (apart in c(3, 10, 30, 60, 100, 300, 1e3, 1e5)) {
    x <- example_points(200, d) + rep(c(-apart, apart), each = 100)
    y <- x[c(1:5, 101:105), ] + 0.1
    H <- example_bandwidth(d, 1)
    for (precision in c("double", "single")) {
      where <- sprintf("d = %d, %g apart, %s", d, apart, precision)
      fit <- flash_kde(x, estimator = "kde", bandwidth = H, control = flash_control(precision = precision))
      got <- predict(fit, y, type = "log_density")
      bound <- if (precision == "double") 1e-10 else 1e-6 # relative; the promise is 1e-4 absolute
      expect_within(got, ref_log_kde(x, y, H), bound, where)
      debiased <- flash_kde(x, estimator = "sdkde", bandwidth = H, control = flash_control(precision = precision))$debiased
      error <- max(abs(debiased - ref_debias(x, H)))
      bound <- if (precision == "double") 1e-9 else 1e-4
      expect(isTRUE(error <= bound), sprintf("%s: debiased points off by %.3g.", where, error))
    }
  }
})

test_that("a change of units divides the density by the scale", {
  x <- example_points(50, 2)
  scale <- c(1e-6, 1e4)
  for (estimator in estimators) {
    a <- flash_kde(x, estimator = estimator, bandwidth = c(0.5, 0.7))
    b <- flash_kde(x %*% diag(scale), estimator = estimator, bandwidth = c(0.5, 0.7) * scale)
    ratio <- predict(b) * prod(scale) / predict(a)
    expect_within(ratio, rep(1, 50), 1e-10, estimator)
  }
})

test_that("a number, sds and a variance matrix are the same bandwidth", {
  x <- example_points(30, 3)
  fits <- lapply(list(0.6, rep(0.6, 3), diag(0.36, 3)), \(bandwidth) {
    flash_kde(x, estimator = "sdkde", bandwidth = bandwidth)
  })
  expect_equal(unname(fits[[1]]$bandwidth), diag(0.36, 3))
  expect_equal(predict(fits[[2]]), predict(fits[[1]]), tolerance = 1e-13)
  expect_equal(predict(fits[[3]]), predict(fits[[1]]), tolerance = 1e-13)
})
