# kernel_sum() as an operator, and scores of more points than are packed at once. Values: test-parity.R.

test_that("a kernel sum is linear in its columns, and symmetric in points and queries", {
  x <- example_points(70, 3)
  y <- example_points(40, 3, seed = 2)
  set.seed(4)
  b <- matrix(stats::rnorm(210), 70)
  H <- example_bandwidth(3)
  V <- kernel_sum(x, y, b, bandwidth = H, tol = 0)
  expect_equal(dim(V), c(40L, 3L))
  expect_within(V, ref_kernel_sum(x, y, b, H), 1e-12)
  mixed <- kernel_sum(x, y, cbind(b %*% c(2, -1, 0.5)), bandwidth = H, tol = 0)
  expect_within(mixed, V %*% c(2, -1, 0.5), 1e-12)
  a <- matrix(stats::rnorm(40), 40)
  backward <- kernel_sum(y, x, a, bandwidth = H, tol = 0)
  expect_equal(sum(a * V[, 1]), sum(b[, 1] * backward), tolerance = 1e-12)
})

test_that("inputs too large to be packed at once give what queries give", {
  set.seed(11)
  x <- matrix(stats::rnorm(4000 * 180), ncol = 180)
  H <- 60 * (diag(180) + 0.5)
  w <- stats::rexp(4000) * rep(c(0, 1), c(10, 3990))
  rows <- c(1:20, 3980:4000)
  for (precision in c("double", "single")) {
    loss <- if (precision == "double") 1e-11 else 1e-4
    all <- kernel_sum(x, bandwidth = H, weights = w, control = flash_control(precision = precision), type = "score")
    some <- kernel_sum(
      x, x[rows, ], bandwidth = H, weights = w, type = "score",
      control = flash_control(precision = precision)
    )
    expect_lt(max(abs(all[rows, ] - some)), loss * max(abs(some)))
  }
  some <- rows[c(1, 5, 9, 10, 11, 12, 20, 21, 30, 40, 41)] # of weight 0 and others; plain R is slow in 180 dimensions
  want <- ref_log_kde(x, x[some, ], H, w)
  expect_within(predict(flash_kde(x, "kde", H, weights = w), type = "log_density")[some], want, 1e-10)
})
