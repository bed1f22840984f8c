# Weights of extreme sizes. Laws of test-contract.R say what weights are.

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
