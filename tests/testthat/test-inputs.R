# What is taken for points, and that it is left as it was.

test_that("integer and logical matrices, data frames and plain vectors are taken as numbers", {
  x <- matrix(c(1:9, 4L, 4L, 7L), 6)
  storage <- x
  storage.mode(storage) <- "double"
  fit <- flash_kde(x, estimator = "kde", bandwidth = 1)
  expect_identical(predict(fit, x), predict(flash_kde(storage, estimator = "kde", bandwidth = 1)))
  framed <- flash_kde(as.data.frame(x), estimator = "kde", bandwidth = 1)
  expect_identical(predict(framed, as.data.frame(x)), predict(fit, x))
  expect_identical(
    predict(flash_kde(1:5, estimator = "kde", bandwidth = 1), 3L),
    predict(flash_kde(matrix(as.double(1:5)), estimator = "kde", bandwidth = 1), 3)
  )
})

test_that("arguments are left as they were", {
  x <- example_points(40, 3)
  y <- example_points(10, 3, seed = 2)
  before <- list(x + 0, y + 0)
  fit <- flash_kde(x, bandwidth = 0.5)
  predict(fit, y)
  predict(fit, y, type = "score")
  kernel_sum(x, y, bandwidth = 0.5, tol = 0)
  expect_identical(list(x, y), before)
})
