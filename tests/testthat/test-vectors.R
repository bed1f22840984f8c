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

test_that("products of matrices are R's, with the same bits for any number of threads", {
  for (n in c(1, 5, 300)) {
    a <- with_fixed_seed(matrix(rnorm(n * 7), n), n)
    b <- with_fixed_seed(matrix(rnorm(n * 7), n), n + 1)
    expect_equal(matrix_product(a, t(b), cpu_run()), a %*% t(b), tolerance = 1e-13)
    expect_equal(matrix_crossprod(a, b, cpu_run()), crossprod(a, b), tolerance = 1e-13)
    expect_equal(matrix_tcrossprod(a, b, cpu_run()), tcrossprod(a, b), tolerance = 1e-13)
    expect_equal(matrix_crossprod(a, a, cpu_run()), crossprod(a), tolerance = 1e-13)
    expect_equal(matrix_tcrossprod(a, a, cpu_run()), tcrossprod(a), tolerance = 1e-13)
    expect_identical(matrix_product(a, t(b), cpu_run(threads = 3)), matrix_product(a, t(b), cpu_run(threads = 1)))
  }
  expect_identical(dim(matrix_product(matrix(0, 0, 3), matrix(1, 3, 2), cpu_run())), c(0L, 2L))
})

test_that("slopes of stretched exponentials are derivatives, and 0 at a centre", {
  r <- matrix(c(0.01, 0.3, 1, 4, 40, 2000), 2)
  for (power in c(0.5, 1, 1.7)) {
    k <- exp(-r^power)
    expect_equal(stretched_slope(k, power, cpu_run()), ifelse(k == 0, 0, power * r^(power - 2) * k), tolerance = 1e-10)
    expect_equal(stretched_slope(matrix(1), power, cpu_run()), matrix(0))
  }
})
