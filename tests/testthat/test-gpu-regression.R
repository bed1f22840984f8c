test_that("local fits and classes are the same on a GPU", {
  skip_if_no_gpu()
  set.seed(1)
  for (d in c(1, 3)) for (tol in c(0, 1e-6)) {
    x <- matrix(rnorm(6000 * d), ncol = d)
    y <- sin(3 * x[, 1]) + rnorm(6000, sd = 0.2)
    on <- \(backend) kernel_regression(x, y, bandwidth = 0.4, tol = tol, control = flash_control(backend))
    here <- on("cpu")
    there <- on("cuda")
    close <- \(a, b) expect_lt(max(abs(a - b) * (1 - here$leverage)), if (tol > 0) 1e-5 else 1e-9)
    close(there$fitted, here$fitted)
    close(there$left_out, here$left_out)
    at <- x[1:9, , drop = FALSE]
    expect_equal(predict(there, at, se.fit = TRUE), predict(here, at, se.fit = TRUE), tolerance = 1e-5)
  }
  data <- data.frame(x = rnorm(3000), z = rnorm(3000), f = factor(sample(letters[1:3], 3000, TRUE)))
  data$y <- data$x + as.integer(data$f) + rnorm(3000)
  mixed <- \(backend) kernel_regression(
    y ~ x + z + f, data, bandwidth = 0.4, ridge = 0.1, categorical = categorical_kernel(0.1), control = flash_control(backend)
  )
  expect_equal(mixed("cuda")$left_out, mixed("cpu")$left_out, tolerance = 1e-9)
  classes <- \(backend) flash_kda(iris[, 1:2], iris$Species, estimator = "kde", bandwidth = 0.3, control = flash_control(backend))
  expect_equal(cross_validate(classes("cuda"))$prob, cross_validate(classes("cpu"))$prob, tolerance = 1e-3)
})
