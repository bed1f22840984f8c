# Every number of points, queries, dimensions and columns, against the formulas.

expect_values <- function(n, m, d) {
  x <- matrix(example_points(n, d, seed = n), n, d)
  y <- matrix(example_points(m, d, seed = m + 1000), m, d)
  H <- example_bandwidth(d, 1 + d / 20)
  where <- sprintf("n = %d, m = %d, d = %d", n, m, d)
  b <- cbind(1, sin(seq_len(n)))
  expect_within(kernel_sum(x, y, b, bandwidth = H, tol = 0), ref_kernel_sum(x, y, b, H), 1e-11, where)
  kde <- flash_kde(x, estimator = "kde", bandwidth = H)
  expect_within(predict(kde, y, type = "log_density"), ref_log_kde(x, y, H), 1e-11, where)
  expect_within(kernel_sum(x, y, bandwidth = H, type = "score"), ref_score(x, y, H), 1e-9, where)
  expect_within(
    flash_kde(x, bandwidth = H, estimator = "sdkde")$debiased, ref_debias(x, H), 1e-10, where
  )
}

test_that("every small number of points and queries is right", {
  for (n in 1:50) expect_values(n, 51L - n, 1L + n %% 4L)
})

test_that("sizes around the tile edges are right", {
  for (size in c(191:193, 255:257)) {
    expect_values(size, 5L, 2L)
    expect_values(5L, size, 16L)
    expect_values(size, size, 5L)
  }
})

test_that("every dimension from 1 to 40 is right", {
  for (d in 1:40) expect_values(37L, 29L, d)
})

test_that("dimensions far above the register blocks are right", {
  for (d in c(63:65, 127:129, 257)) expect_values(19L, 9L, d)
})

test_that("several columns of b at once are right", {
  x <- example_points(45, 3)
  y <- example_points(21, 3, seed = 2)
  H <- example_bandwidth(3)
  for (r in c(1:9, 15:17, 33)) {
    b <- matrix(sin(seq_len(45 * r)), 45)
    expect_within(kernel_sum(x, y, b, bandwidth = H, tol = 0), ref_kernel_sum(x, y, b, H), 1e-12)
  }
})
