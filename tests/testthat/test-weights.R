# Weights of the points, in estimates and in sums.

estimators <- c("kde", "sdkde", "laplace")

test_that("weights of one equal no weights, bit for bit", {
  x <- example_points(70, 3)
  y <- example_points(20, 3, seed = 2)
  for (estimator in estimators) {
    bare <- flash_kde(x, estimator = estimator, bandwidth = 0.8)
    ones <- flash_kde(x, estimator = estimator, bandwidth = 0.8, weights = rep(1, 70))
    expect_identical(predict(ones, y), predict(bare, y))
    expect_identical(predict(ones, y, type = "score"), predict(bare, y, type = "score"))
    expect_identical(ones$debiased, bare$debiased)
  }
})

test_that("a doubled weight equals a repeated row", {
  x <- example_points(40, 3)
  y <- example_points(15, 3, seed = 2)
  w <- rep(1:2, c(30, 10))
  repeated <- x[rep(1:40, w), ]
  for (estimator in estimators) {
    a <- flash_kde(x, estimator = estimator, bandwidth = 0.8, weights = w)
    b <- flash_kde(repeated, estimator = estimator, bandwidth = 0.8)
    expect_within(predict(a, y) / predict(b, y), rep(1, 15), 1e-11, estimator)
    expect_within(predict(a, y, type = "score"), predict(b, y, type = "score"), 1e-10, estimator)
  }
})

test_that("only the ratios of the weights matter, and a zero weight removes its row", {
  x <- example_points(40, 2)
  y <- example_points(15, 2, seed = 2)
  w <- rep(c(0.5, 2, 0, 1), 10)
  for (estimator in estimators) {
    a <- flash_kde(x, estimator = estimator, bandwidth = 0.8, weights = w)
    b <- flash_kde(x, estimator = estimator, bandwidth = 0.8, weights = 1e6 * w)
    c <- flash_kde(x[w > 0, ], estimator = estimator, bandwidth = 0.8, weights = w[w > 0])
    expect_within(predict(b, y) / predict(a, y), rep(1, 15), 1e-11, estimator)
    expect_within(predict(c, y) / predict(a, y), rep(1, 15), 1e-11, estimator)
  }
})

test_that("points keep their estimate beside others that weigh 10^600 times as much, far away", {
  expect_light_points_kept("cpu")
})

test_that("standard errors count every weight, however far apart their squares are", {
  x <- c(0, 0.4, 1, seq(50, 50.9, by = 0.1))
  w <- c(1e-180, 3e-180, 1e-181, seq(1, 2, length.out = 10))
  at <- c(0.1, 0.7, 50.1)
  p <- w / sum(w)
  kernels <- stats::dnorm(outer(at, x, "-"), sd = 0.5)
  fit <- flash_kde(x, "kde", bandwidth = 0.5, weights = w)
  got <- predict(fit, at, se.fit = TRUE)$se.fit
  # in units in which the squares are numbers
  unit <- c(1e-180, 1e-180, 1)
  want <- sqrt(rowSums((kernels * outer(1 / unit, p))^2) - (kernels %*% p / unit)^2 * sum(p^2)) * unit
  expect_within(got / want, rep(1, 3), 1e-10) # logarithms of 1e-360 have no more

  loo <- predict(fit, se.fit = TRUE, loo = TRUE)$se.fit
  for (i in c(1, 13)) {
    without <- flash_kde(x[-i], "kde", bandwidth = 0.5, weights = w[-i])
    expect_within(loo[i] / predict(without, x[i], se.fit = TRUE)$se.fit, 1, 1e-10)
  }
})
