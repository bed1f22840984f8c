# Exact fits along a path of noises compared with base R, on the host or on a GPU.

# What ridge_path() returns, by solve().
ref_ridge_path <- function(K, y, noises) {
  m <- nrow(K)
  noises <- if (is.matrix(noises)) noises else matrix(noises, m, length(noises), byrow = TRUE)
  fits <- lapply(seq_len(ncol(noises)), \(i) {
    inverse <- solve(K + diag(noises[, i], m))
    a <- inverse %*% y
    list(a = a, own = diag(inverse), energy = colSums(y * a), log_det = -determinant(inverse)$modulus[[1]])
  })
  of <- \(name) unlist(lapply(fits, `[[`, name))
  list(
    coefficients = array(of("a"), c(m, ncol(y), ncol(noises))), own = matrix(of("own"), m),
    log_det = of("log_det"), energy = matrix(of("energy"), ncol(y))
  )
}

# Sources at points x whose kernel is a sum of two, with their own points, bandwidths and scales.
sources_of_sum <- function(x) {
  laplacian <- kernel_spec("laplacian")
  terms <- list(
    list(columns = 1:2, kernel = kernel_spec("gaussian"), scale = 0.25),
    list(columns = 3, kernel = laplacian, scale = 2, L = matrix(0.7), scores = score_maps(x[, 3, drop = FALSE]))
  )
  sum_sources(x, NULL, diag(0.3, 3), sum_kernel(laplacian, terms), new_plan())
}

# For sources, for their matrix and for a sum of kernels, of equal noises and of a noise for each row.
expect_ridge_path <- function(m, t, run, backend) {
  x <- some_points(m, 3)
  one <- centres(x, 0.3)
  K <- kernel_matrix_of(one, NULL, cpu_run())
  both <- sources_of_sum(x)
  y <- matrix(stats::rnorm(m * t), m)
  for (noises in list(c(1, 1e-3, 0.1), 0.5, matrix(0.01 + stats::rexp(2 * m), m))) {
    for (given in list(one, K, both)) {
      want <- ref_ridge_path(if (identical(given, both)) kernel_matrix_of(both, NULL, cpu_run()) else K, y, noises)
      got <- ridge_path(given, y, noises, run)
      expect_identical(got$backend, backend)
      expect_equal(got[names(want)], want, tolerance = 1e-9)
    }
  }
}

# A noise that makes C indefinite has NaN, its neighbours their results.
expect_failed_noise <- function(run) {
  K <- matrix(1, 70, 70)
  y <- matrix(stats::rnorm(140), 70)
  got <- ridge_path(K, y, c(1, 0, 2), run)
  want <- ref_ridge_path(K, y, c(1, 2))
  failed <- c(got$coefficients[, , 2], got$own[, 2], got$energy[, 2], got$log_det[2])
  expect_true(all(is.nan(failed)))
  expect_equal(got$coefficients[, , c(1, 3)], want$coefficients, tolerance = 1e-11)
  expect_equal(got$own[, c(1, 3)], want$own, tolerance = 1e-11)
  K[3, 3] <- NaN
  expect_true(all(is.nan(ridge_path(K, y, 1, run)$own)))
}
