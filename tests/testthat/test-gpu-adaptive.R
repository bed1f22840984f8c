# Adaptive fits on a GPU, beside the CPU: a sum for each class of points, by every engine there.

test_that("a GPU has the densities, scores and leave-one-out values of adaptive fits", {
  skip_if_no_gpu()
  set.seed(1)
  for (d in c(1, 2, 5, 24)) {
    x <- matrix(stats::rnorm(1500 * d), ncol = d)
    y <- matrix(stats::rnorm(300 * d), ncol = d)
    factors <- sample(c(0.5, 1, 1.5, 4), 1500, replace = TRUE)
    w <- stats::runif(1500, 0.1, 1)
    fit <- \(...) flash_kde(x, bandwidth = 0.7, weights = w, adaptive = factors, ...)
    fits <- expect_gpu_has_fit(fit, y, d)
    expect_equal(logLik(fits$there), logLik(fits$here), tolerance = 1e-10)
  }
})

test_that("a GPU debiases points of several widths, and leaves them out of both stages", {
  skip_if_no_gpu()
  set.seed(4)
  for (d in c(1, 2, 5, 24)) for (weighted in c(FALSE, TRUE)) {
    x <- matrix(stats::rnorm(1500 * d), ncol = d)
    x[1, ] <- 50 # its sum underflows without a scale of its own
    y <- matrix(stats::rnorm(300 * d), ncol = d)
    factors <- sample(c(0.5, 1, 1.5, 4), 1500, replace = TRUE)
    w <- if (weighted) stats::runif(1500, 0.1, 1)
    fit <- \(...) flash_kde(x, "sdkde", bandwidth = 0.7, weights = w, adaptive = factors, ...)
    fits <- expect_gpu_has_fit(fit, y, d)
    log_density <- \(fit) predict(fit, type = "log_density", loo = TRUE)
    expect_equal(log_density(fits$there), log_density(fits$here), tolerance = 1e-10)
  }
})

test_that("adaptive fits to a tolerance keep it on a GPU", {
  skip_if_no_gpu()
  set.seed(2)
  x <- matrix(stats::rt(1e5, 3), ncol = 2)
  factors <- 2^(round(2 * log2(1 + sqrt(rowSums(x^2)))) / 4)
  fit <- flash_kde(x, bandwidth = 0.1, adaptive = factors, control = flash_control("cuda"), tol = 1e-4)
  exact <- predict(fit, x[1:2000, ], tol = 0)
  expect_lt(max(abs(predict(fit)[1:2000] - exact)), 1.1e-4 * max(predict(fit)))
})

test_that("a GPU chooses nearly the same factors and bandwidth", {
  skip_if_no_gpu()
  set.seed(3)
  x <- matrix(stats::rt(6000, 3), ncol = 2)
  here <- flash_kde(x, adaptive = TRUE, control = flash_control("cpu"))
  there <- flash_kde(x, adaptive = TRUE, control = flash_control("cuda", "double"))
  expect_equal(there$bandwidth, here$bandwidth, tolerance = 0.02)
  # but where a factor is on the edge between two
  expect_gt(mean(there$adaptive$factors == here$adaptive$factors), 0.98)
})
