# How many functions of the package a plain call goes through, which must not grow: small fits take as long as these.

test_that("fit and predict() of a few points with a given bandwidth call at most 25 functions of the package each", {
  x <- example_points(200, 2)
  fit <- flash_kde(x, "kde", bandwidth = 0.3)
  expect_lte(length(functions_called(\() flash_kde(x, "kde", bandwidth = 0.3))), 25)
  expect_lte(length(functions_called(\() predict(fit, x))), 25)
})
