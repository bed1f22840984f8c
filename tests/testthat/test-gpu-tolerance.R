# The contract of `tol` on a GPU: the cases of test-tolerance.R with more points, the grid forced.

for (family in names(tolerance_families)) {
  test_that(paste0("the tolerance holds on a GPU: ", family), {
    skip_if_no_gpu()
    for (turn in 0:2) {
      seed <- match(family, names(tolerance_families)) + length(tolerance_families) * turn
      expect_tolerance(run_case(gpu_tolerance_case(seed)))
    }
  })
}

expect_given_on_gpu <- function(...) {
  expect_tolerance(run_case(given_case(..., engine = "fast", method = "grid", backend = "cuda")))
}

test_that("targets away from the mass, and in a half plane without sources, keep the tolerance on a GPU", {
  skip_if_no_gpu()
  set.seed(1)
  x <- stats::rnorm(2e5, sd = 0.5)
  for (away in c(4, 6)) {
    y <- away + stats::runif(2e4)
    rows <- c(order(y)[1:10], 1:10)
    for (task in c("sums", "kde density", "kde log_density")) {
      expect_given_on_gpu(x, y, h = 0.3, task = task, rows = rows)
    }
  }
  x <- matrix(stats::runif(2e5), ncol = 2) * 20 - 10
  y <- cbind(4 + stats::runif(4000), stats::runif(4000, -8, 8))
  expect_given_on_gpu(x, y, as.numeric(x[, 1] < 0), rows = c(order(y[, 1])[1:12], 1:12))
})

test_that("weights and coefficients out of the range of floats make no zeros and no NaN on a GPU", {
  skip_if_no_gpu()
  set.seed(2)
  x <- matrix(stats::rnorm(1e5), ncol = 2)
  w <- exp(-120 + stats::rnorm(5e4))
  for (task in c("kde density", "kde log_density", "debiased")) {
    expect_given_on_gpu(x, task = task, weights = w, tol = 1e-3, h = 0.3, rows = seq(1, 5e4, 2500))
  }
  for (b in c(1e39, 1e-42, 1e-310, 1e300)) for (tol in c(1e-3, 1e-7)) {
    expect_given_on_gpu(x, b = b * stats::runif(5e4, -1, 1), tol = tol, rows = c(order(rowSums(x^2))[1:10], 1:10))
  }
})

test_that("one heavy source and lattices keep the tolerance on a GPU", {
  skip_if_no_gpu()
  set.seed(3)
  x <- c(0, stats::runif(4e4, 0, 1000))
  for (away in c(5, 9)) {
    y <- away + stats::runif(4000)
    for (type in c("global", "pointwise")) {
      expect_given_on_gpu(x, y, c(1e12, rep(1, 4e4)), rows = c(order(y)[1:10], 1:10), tol_type = type)
    }
  }
  for (step in c(2, 2.5, 4, 6)) for (offset in c(0, 0.5)) for (tol in c(1e-3, 1e-6)) {
    x <- step * (1:4000)
    expect_given_on_gpu(x, x + offset * step, tol = tol, rows = 2000:2040)
  }
})

test_that("the bound that a GPU sums is the processor's", {
  skip_if_no_gpu()
  bounds_of <- function(...) {
    vapply(c("", "envelope"), \(where) {
      local_method(where)
      diagnostics(kernel_sum_by(
        ..., bandwidth = 1, tol = 1e-5,
        control = flash_control(engine = "fast", backend = "cuda")
      ))$tol_bound
    }, 0, USE.NAMES = FALSE)
  }
  set.seed(4)
  for (d in 1:5) {
    x <- matrix(stats::rnorm(2e4 * d, sd = if (d < 4) 3 else 1), ncol = d)
    y <- matrix(stats::runif(5e3 * d, -2, 4), ncol = d)
    for (b in list(NULL, matrix(stats::rnorm(6e4), ncol = 3))) {
      at <- if (is.null(b)) NULL else y
      bounds <- bounds_of(x, at, b)
      # rounded up, so never below
      expect_gte(bounds[2], bounds[1] * (1 - 1e-12))
      expect_lt(bounds[2], bounds[1] * (1 + 1e-6))
    }
  }
})
