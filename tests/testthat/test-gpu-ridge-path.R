# Exact fits along a path of noises on a GPU.

test_that("fits along a path on a GPU are those of solve(), with weights and without", {
  skip_if_no_gpu()
  set.seed(1)
  for (m in c(1, 2, 30, 97, 600)) for (t in c(1, 3)) expect_ridge_path(m, t, cuda_run(), "cuda")
})

test_that("a noise whose matrix has no factor on a GPU has NaN, and the others their results", {
  skip_if_no_gpu()
  set.seed(2)
  expect_failed_noise(cuda_run())
})

test_that("fits of some thousand rows on a GPU are those of the host, and have the same bits each time", {
  skip_if_no_gpu()
  set.seed(3)
  m <- 2500
  sources <- centres(some_points(m, 4), 0.3)
  y <- matrix(stats::rnorm(2 * m), m)
  got <- ridge_path(sources, y, c(1, 1e-2), cuda_run())
  expect_identical(ridge_path(sources, y, c(1, 1e-2), cuda_run()), got)
  want <- ridge_path(sources, y, c(1, 1e-2), cpu_run())
  expect_equal(got[1:4], want[1:4], tolerance = 1e-9)
})
