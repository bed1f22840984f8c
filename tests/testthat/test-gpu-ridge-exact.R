# Kernel ridge regression without centres on a GPU, by Cholesky and by conjugate gradients: that of the CPU.

test_that("exact fits and their standard errors are the same on a GPU", {
  skip_if_no_gpu()
  x <- with_fixed_seed(matrix(stats::runif(3 * 6500), 6500))
  y <- with_fixed_seed(sin(5 * x[, 1]) * x[, 2] + 0.1 * stats::rnorm(6500), 2)
  fit_on <- function(rows, backend) {
    kernel_ridge(
      x[rows, ], y[rows], bandwidth = 0.3, lambda = 1e-4, solver = list(exact = TRUE, tolerance = 1e-9),
      control = flash_control(backend, "double")
    )
  }
  # 6,500 rows are factorised on a GPU alone
  for (rows in list(1:500, 1:6500)) {
    fits <- list(fit_on(rows, "cuda"), fit_on(rows, "cpu"))
    found <- lapply(fits, predict, x[1:20, ], se.fit = TRUE)
    expect_equal(found[[1]]$fit, found[[2]]$fit, tolerance = 1e-6)
    # the degrees of freedom of so many rows are estimated on the CPU
    scaled <- lapply(found, \(one) one$se.fit / one$residual.scale)
    expect_equal(scaled[[1]], scaled[[2]], tolerance = 1e-4)
    expect_equal(found[[1]]$residual.scale, found[[2]]$residual.scale, tolerance = 1e-2)
  }
  expect_identical(fits[[1]]$iterations, 1L)
  expect_gt(fits[[2]]$iterations, 1L)
})

test_that("many rows go by conjugate gradients on a GPU as on the CPU", {
  skip_if_no_gpu()
  x <- with_fixed_seed(matrix(stats::runif(3 * 2e4), 2e4))
  y <- with_fixed_seed(as.matrix(sin(5 * x[, 1]) * x[, 2] + 0.1 * stats::rnorm(2e4)), 2)
  solve_on <- function(backend) {
    run <- run_control(settle_control(flash_control(backend = backend)))
    rows <- ridge_rows(x, diag(0.2, 3), check_kernel("gaussian"))
    system <- exact_system(rows, NULL, diag(0.2, 3), check_kernel("gaussian"), 1e-5, run)
    solve_by_gradients(system, y, list(tolerance = 1e-7, iterations = 200), \(...) FALSE)
  }
  gpu <- solve_on("cuda")
  cpu <- solve_on("cpu")
  expect_true(gpu$converged)
  expect_lt(abs(gpu$iterations - cpu$iterations), 10)
  expect_equal(gpu$x, cpu$x, tolerance = 1e-4)
})

test_that("blocks of rows on a GPU give what they give on the CPU, in either precision", {
  skip_if_no_gpu()
  replace_in_package("is_factorised", \(system) FALSE)
  x <- with_fixed_seed(matrix(stats::runif(8 * 6000), 6000))
  y <- with_fixed_seed(cbind(sin(5 * x[, 1]) * x[, 2], x[, 3]) + 0.1 * stats::rnorm(12000), 2)
  fit_on <- function(backend, precision) {
    kernel_ridge(
      x, y, bandwidth = 0.5, lambda = 1e-5, solver = list(exact = TRUE, tolerance = 1e-7),
      control = flash_control(backend, precision)
    )
  }
  want <- fit_on("cpu", "double")
  for (precision in c("double", "single")) {
    fit <- fit_on("cuda", precision)
    expect_true(fit$converged)
    # the solution, not predictions in single precision
    expect_equal(predict(fit, x, control = flash_control("cpu", "double")), predict(want, x), tolerance = 1e-6)
  }
})
