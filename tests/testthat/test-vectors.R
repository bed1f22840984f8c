test_that("products and sums of columns are R's, with the same bits for any number of threads", {
  run <- function(threads) start_run(settle_control(flash_control(threads = threads), list()))
  for (n in c(1, 7, 8192, 20001)) for (t in c(1, 3, 40)) {
    a <- with_fixed_seed(matrix(rnorm(n * t), n), n)
    b <- with_fixed_seed(matrix(rnorm(n * t), n), n + 1)
    by <- seq_len(t) - 2
    products <- column_products(a, b, run(1))
    expect_equal(products, colSums(a * b), tolerance = 1e-12)
    expect_equal(combine_columns(a, b, by, run(1)), a + b * rep(by, each = n), tolerance = 1e-15)
    expect_identical(column_products(a, b, run(4)), products)
    expect_identical(combine_columns(a, b, by, run(4)), combine_columns(a, b, by, run(1)))
  }
  expect_true(is.nan(column_products(matrix(c(1, NaN)), matrix(1, 2), run(1))))
})
