# Numbers and levels together on a GPU, beside the CPU: a sum for each cell of targets, by every engine there.

test_that("a GPU has the densities, scores and leave-one-out values of fits with levels", {
  skip_if_no_gpu()
  set.seed(1)
  for (d in c(1, 2, 5)) {
    frame <- function(n) {
      data.frame(
        x = matrix(stats::rnorm(n * d), ncol = d), f = factor(sample(letters[1:4], n, TRUE), letters[1:4]),
        g = sample(c(TRUE, FALSE), n, TRUE)
      )
    }
    data <- frame(1500)
    w <- stats::runif(1500, 0.1, 1)
    fit <- \(...) flash_kde(data, "kde", bandwidth = 0.7, categorical = categorical_kernel(smoothing = c(f = 0.3, g = 0)), weights = w, adaptive = FALSE, ...)
    expect_gpu_has_fit(fit, frame(300), d)
    debiased <- \(...) flash_kde(data, "sdkde", bandwidth = 0.7, categorical = categorical_kernel(smoothing = 0.3), weights = w, ...)
    expect_gpu_has_fit(debiased, frame(300), d)
  }
})

test_that("a GPU chooses the same bandwidth and lambdas", {
  skip_if_no_gpu()
  here <- coef(flash_kde(iris, control = flash_control("cpu")))
  there <- coef(flash_kde(iris, control = flash_control("cuda", "double")))
  expect_equal(there, here, tolerance = 1e-3)
})
