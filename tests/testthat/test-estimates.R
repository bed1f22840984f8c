# What the estimates are. Their mass and their gradients are laws (helper-laws.R).

test_that("the SD-KDE is the KDE of the points moved by half of H times the score", {
  x <- example_points(60, 4)
  y <- example_points(20, 4, seed = 2)
  H <- example_bandwidth(4)
  H_score <- H / 2
  w <- seq(0.1, 2, length.out = 60)
  fit <- flash_kde(x, estimator = "sdkde", bandwidth = H, debias = debiasing(bandwidth = H_score), weights = w)
  moved <- x + kernel_sum(x, bandwidth = H_score, weights = w, type = "score") %*% H / 2
  expect_within(fit$debiased, moved, 1e-12)
  kde <- flash_kde(moved, estimator = "kde", bandwidth = H, weights = w)
  expect_within(predict(fit, y) / predict(kde, y), rep(1, 20), 1e-11)
  want <- ref_log_sdkde(x, y, H, H_score, w)
  expect_within(predict(fit, y, type = "log_density"), want, 1e-11)
})

test_that("with a wide score bandwidth the SD-KDE tends to the KDE of shrunk points", {
  # score_{s^2 I}(x) = (mean - x) / s^2 + O(s^-4)
  x <- example_points(50, 2)
  H <- example_bandwidth(2)
  toward_mean <- rep(colMeans(x), each = 50) - x
  error <- vapply(c(20, 40, 80), \(s) {
    fit <- flash_kde(x, estimator = "sdkde", bandwidth = H, debias = debiasing(bandwidth = s))
    shrunk <- x + (toward_mean / s^2) %*% H / 2
    kde <- flash_kde(shrunk, estimator = "kde", bandwidth = H)
    expect_within(predict(fit, x), predict(kde, x), 2 / s^4)
    max(abs(fit$debiased - shrunk))
  }, 0)
  expect_within(error[1:2] / error[2:3], c(16, 16), 0.05) # fourth order in 1 / s

  # With H as wide the points go half the way to the mean.
  fit <- flash_kde(x, estimator = "sdkde", bandwidth = 1e4)
  expect_within(fit$debiased, x + toward_mean / 2, 1e-6)
})
