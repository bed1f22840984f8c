# Exact kernel ridge regression by blocks of rows, against solve(). test-ridge-exact.R has what all exact solvers share.

small_blocks <- function(rows = 30, frame = parent.frame()) {
  replace_in_package("is_factorised", \(system) FALSE, frame)
  replace_in_package("is_fast", \(system, run) FALSE, frame)
  replace_in_package("block_rows", \(system, run) rows, frame)
}

blocks_case <- function(n = 200, d = 4) {
  with_fixed_seed({
    x <- matrix(stats::rnorm(n * d), n)
    list(x = x, y = cbind(sin(x[, 1]), x[, 2] * x[, 3]) + 0.1 * stats::rnorm(2 * n), w = stats::rexp(n) + 0.1)
  }, 5)
}

blocks_fit <- function(case, ..., tol = 1e-11, control = NULL) {
  kernel_ridge(
    case$x, case$y, bandwidth = 2, lambda = 1e-4, solver = list(exact = TRUE, tolerance = tol), control = control, ...
  )
}

test_that("blocks of any size solve weighted systems of several outputs", {
  case <- blocks_case()
  mean <- colSums(case$w * case$y) / sum(case$w)
  K <- gaussian_kernels(case$x, case$x, 2)
  want <- solve(K + diag(200 * 1e-4 / case$w), sweep(case$y, 2, mean))
  for (size in c(7, 50, 200)) {
    small_blocks(size)
    fit <- blocks_fit(case, weights = case$w)
    expect_equal(fit$coefficients, want, tolerance = 1e-7, ignore_attr = TRUE)
    expect_equal(predict(fit), sweep(K %*% want, 2, mean, `+`), tolerance = 1e-9, ignore_attr = TRUE)
  }
  expect_lte(fit$iterations, 2) # one block is all of it
})

test_that("the residual bounds the error of predictions at the rows", {
  case <- blocks_case()
  exact <- predict(blocks_fit(case))
  small_blocks()
  spread <- sqrt(colSums(sweep(case$y, 2, colMeans(case$y))^2))
  for (tol in c(1e-1, 1e-2, 1e-4)) {
    fit <- blocks_fit(case, tol = tol)
    expect_true(fit$converged)
    expect_lte(max(sqrt(colSums((predict(fit) - exact)^2)) / spread), tail(fit$trace$residual, 1))
  }
})

test_that("a formula with a factor and linear terms is solved as by Cholesky", {
  data <- with_fixed_seed(data.frame(a = stats::rnorm(150), b = stats::rnorm(150), f = factor(rep(1:3, 50))), 3)
  data$y <- sin(2 * data$a) + data$b + as.integer(data$f)
  for (formula in c(y ~ a + b + f, y ~ b + k(a))) {
    fit <- \(...) kernel_ridge(formula, data, lambda = 1e-3, solver = list(exact = TRUE, ...))
    want <- predict(fit())
    local({
      small_blocks()
      expect_equal(predict(fit(tolerance = 1e-8)), want, tolerance = 1e-6)
    })
  }
})

test_that("the bits depend on neither threads nor random numbers, which stay as they were", {
  case <- blocks_case()
  small_blocks()
  set.seed(1)
  before <- .Random.seed
  one <- blocks_fit(case, tol = 1e-4, control = flash_control("cpu", threads = 1))
  expect_identical(.Random.seed, before)
  set.seed(2)
  two <- blocks_fit(case, tol = 1e-4, control = flash_control("cpu", threads = 2))
  expect_identical(two$coefficients, one$coefficients)
  # nor on the order of the rows, but for rounding
  turned <- lapply(case, \(part) if (is.matrix(part)) part[200:1, ] else rev(part))
  small_blocks(40)
  residuals <- lapply(list(case, turned), \(case) blocks_fit(case, tol = 1e-4)$trace$residual)
  expect_equal(residuals[[2]], residuals[[1]], tolerance = 1e-6)
})

test_that("products in single precision reach a residual that is smaller than their errors", {
  case <- blocks_case(1000)
  small_blocks(100)
  fit <- blocks_fit(case, tol = 1e-9, control = flash_control("cpu", "single"))
  expect_true(fit$converged)
  x <- fit$coefficients
  r <- sweep(case$y, 2, fit$intercept) - gaussian_kernels(case$x, case$x, 2) %*% x - 0.1 * x
  expect_lt(max(sqrt(colSums(r^2) / colSums(sweep(case$y, 2, fit$intercept)^2))), 1.2e-9)
})

test_that("a problem without an end ends, with the residual that it reached", {
  case <- blocks_case()
  small_blocks(10)
  expect_warning(
    fit <- kernel_ridge(
      case$x, case$y, bandwidth = 20, lambda = 1e-16, solver = list(exact = TRUE, iterations = 12, tolerance = 1e-12)
    ),
    "reached a relative residual of .* after"
  )
  expect_false(fit$converged)
})

test_that("sparse rows are solved by blocks, too", {
  skip_if_not_installed("Matrix")
  x <- with_fixed_seed(matrix(stats::rbinom(200 * 20, 1, 0.1), 200))
  y <- x[, 1] - x[, 2] + with_fixed_seed(stats::rnorm(200), 2)
  fit <- \(x, ...) kernel_ridge(x, y, bandwidth = 2, lambda = 1e-3, solver = list(exact = TRUE, ...))
  want <- predict(fit(x))
  small_blocks()
  found <- fit(Matrix::Matrix(x, sparse = TRUE), tolerance = 1e-9)
  expect_gt(found$iterations, 2)
  expect_equal(predict(found), want, tolerance = 1e-7)
})

test_that("after some passes the factor of all rows solves what blocks would take long for, if it can be had", {
  case <- blocks_case(300)
  solver <- list(exact = TRUE, tolerance = 1e-8, iterations = 12)
  fit <- \(...) kernel_ridge(case$x, case$y, bandwidth = 4, lambda = 1e-8, solver = solver, weights = case$w, ...)
  exact <- fit()
  small_blocks(100)
  apart <- Inf
  replace_in_package("passes_apart", \(system) apart)
  expect_warning(long <- fit(), "relative residual")
  apart <- 3
  fits <- lapply(1:2, \(threads) fit(control = flash_control("cpu", threads = threads)))
  expect_lte(fits[[1]]$iterations, 8)
  expect_equal(predict(fits[[1]]), predict(exact), tolerance = 1e-6)
  expect_identical(fits[[2]]$coefficients, fits[[1]]$coefficients)
  made <- preconditioner_of
  replace_in_package("preconditioner_of", function(..., rough = FALSE) {
    if (rough) stop(new_error("singular", "no factor", NULL)) else made(...)
  })
  expect_identical(suppressWarnings(fit())$coefficients, long$coefficients)
})
