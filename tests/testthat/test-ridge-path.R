# Exact fits along a path of noises on the host; test-gpu-ridge-path.R has those on a GPU.

test_that("coefficients, diagonals of the inverse and determinants are those of solve(), with weights and without", {
  set.seed(1)
  for (m in c(1, 2, 30, 97, 260)) for (t in c(1, 2, 5)) expect_ridge_path(m, t, cpu_run(), "cpu")
})

test_that("leave-one-out residuals are those of refits", {
  set.seed(2)
  x <- some_points(40, 2)
  y <- matrix(stats::rnorm(80), 40)
  weights <- stats::rexp(40) + 0.1
  noises <- outer(1 / weights, c(0.5, 0.02))
  K <- kernel_matrix_of(centres(x, 0.4), NULL, cpu_run())
  got <- ridge_path(centres(x, 0.4), y, noises, cpu_run())
  for (i in 1:2) {
    residuals <- t(vapply(1:40, \(out) {
      a <- solve(K[-out, -out] + diag(noises[-out, i]), y[-out, ])
      y[out, ] - drop(K[out, -out] %*% a)
    }, numeric(2)))
    expect_equal(got$coefficients[, , i] / got$own[, i], residuals, tolerance = 1e-10)
  }
})

test_that("a noise whose matrix has no factor has NaN, and the others their results", {
  set.seed(3)
  expect_failed_noise(cpu_run())
})

test_that("near-singular matrices have small residuals", {
  set.seed(4)
  x <- some_points(300, 1)
  y <- matrix(sin(6 * x), 300)
  K <- kernel_matrix_of(centres(x, 0.3), NULL, cpu_run())
  noises <- c(1e-6, 1e-10, 1e-12)
  got <- ridge_path(K, y, noises, cpu_run())
  for (i in 1:3) {
    a <- got$coefficients[, 1, i]
    size <- max(abs(K) %*% abs(a)) + max(abs(y))
    expect_lt(max(abs(K %*% a + noises[i] * a - y)) / size, 1e-13)
    # sums of squares, of which one is at least 1 / the largest diagonal element
    expect_true(all(got$own[, i] >= 1 / (1 + noises[i]) * (1 - 1e-12), got$own[, i] <= 1 / noises[i] * (1 + 1e-3)))
  }
})

test_that("results have the same bits for any number of threads and of noises", {
  set.seed(5)
  for (m in c(50, 700)) {
    sources <- centres(some_points(m, 3), 0.3)
    y <- matrix(stats::rnorm(2 * m), m)
    noises <- 10^-(1:5)
    got <- ridge_path(sources, y, noises, cpu_run(threads = 1))
    expect_identical(ridge_path(sources, y, noises, cpu_run(threads = 3)), got)
    one <- ridge_path(sources, y, noises[4], cpu_run(threads = 2))
    expect_identical(one$coefficients[, , 1], got$coefficients[, , 4])
    expect_identical(one$own[, 1], got$own[, 4])
  }
})

test_that("fits of several tasks have the bits that each has alone, for any number of threads", {
  set.seed(6)
  task <- \(m, t, noises, with_own) {
    list(K = centres(some_points(m, 3), 0.3), y = matrix(stats::rnorm(m * t), m), noises = noises, with_own = with_own)
  }
  tasks <- list(task(40, 2, c(1, 0.1), TRUE), task(300, 1, 0.01, FALSE), task(90, 3, 10^-(0:2), TRUE))
  alone <- lapply(tasks, \(task) ridge_path(task$K, task$y, task$noises, cpu_run(threads = 1), task$with_own))
  for (threads in 1:3) expect_identical(ridge_paths(tasks, cpu_run(threads = threads)), alone)
})

test_that("each noise may have responses of its own", {
  set.seed(7)
  K <- tcrossprod(matrix(stats::rnorm(900), 30))
  y <- array(stats::rnorm(180), c(30, 2, 3))
  noises <- matrix(0.1 + stats::rexp(90), 30)
  got <- ridge_path(K, y, noises, cpu_run())
  for (i in 1:3) expect_equal(got$coefficients[, , i], ref_ridge_path(K, y[, , i], noises[, i, drop = FALSE])$coefficients[, , 1])
})

test_that("a path is refused where memory is short", {
  old <- options(flashkernel.memory_limit = 1e6)
  on.exit(options(old))
  expect_argument_error(ridge_path(diag(500), matrix(1, 500), 1, cpu_run()), "x")
})
