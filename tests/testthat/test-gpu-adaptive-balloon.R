# Balloon estimates on a GPU, beside the CPU: a sum for each class of targets.

test_that("a GPU has the densities, scores and leave-one-out values of balloon estimates", {
  skip_if_no_gpu()
  set.seed(1)
  for (d in c(1, 3, 24)) {
    x <- matrix(stats::rt(1500 * d, 4), ncol = d)
    y <- matrix(stats::rt(300 * d, 4), ncol = d)
    w <- stats::runif(1500, 0.1, 1)
    fit <- \(...) flash_kde(x, bandwidth = 0.7, weights = w, adaptive = "balloon", ...)
    expect_gpu_has_fit(fit, y, d)
  }
})
