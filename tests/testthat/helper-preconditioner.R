# T or A of a preconditioner, upper triangular, for small m.
factor_of <- function(P, which = "T") factor_numbers(P, which, TRUE)

# Compares preconditioners with their definitions in base R, on the host or on a GPU.

cpu_run <- function(...) run_control(settle_control(NULL, list(backend = "cpu", ...)))
cuda_run <- function(...) run_control(settle_control(NULL, list(backend = "cuda", ...)))

some_points <- function(n, d) matrix(stats::runif(n * d), n)

centres <- function(x, h, kernel = "gaussian") {
  sum_sources(x, NULL, diag(h, ncol(x)), check_kernel(kernel), new_plan())
}

# For every kernel, at the points themselves and at others.
expect_kernel_matrices <- function(x, y, H) {
  L <- t(chol(H))
  of <- \(kernel) sum_sources(x, NULL, L, check_kernel(kernel), new_plan())
  for (kernel in names(ref_kernels)) {
    expect_equal(kernel_matrix_of(of(kernel), NULL, cpu_run()), ref_kernel_matrix(x, x, H, kernel), tolerance = 1e-13)
    expect_equal(kernel_matrix_of(of(kernel), y, cpu_run()), ref_kernel_matrix(x, y, H, kernel), tolerance = 1e-13)
  }
  for (kernel in some_product_kernels()) {
    for (at in list(x, y)) {
      ref <- ref_product_matrix(x, at, H, kernel)
      got <- kernel_matrix_of(of(kernel), if (!identical(at, x)) at, cpu_run())
      expect_lt(max(abs(got - ref$K) / ref$size), 1e-12)
    }
  }
}

expect_factors <- function(run, m, backend) {
  for (kernel in list("gaussian", "matern32", kernel_spec("polynomial", degree = 2))) {
    sources <- centres(some_points(m, 3), 0.2, kernel)
    K <- kernel_matrix_of(sources, NULL, cpu_run())
    for (given in list(sources, K)) {
      P <- new_preconditioner(given, run, 1e-9)
      R <- factor_of(P)
      expect_identical(P$backend, backend)
      expect_gte(P$bytes, 8 * m * (m + 1))
      want <- K + diag(P$jitter * sum(diag(K)), m)
      expect_equal(crossprod(R), want, tolerance = 1e-12)
      expect_equal(R[lower.tri(R)], numeric(m * (m - 1) / 2))
      expect_equal(log_det(P), 2 * sum(log(diag(R))), tolerance = 1e-14)
      for (w in list(NULL, stats::rexp(m))) {
        precondition(P, w, scale = 0.3, lambda = 1e-3)
        want <- 0.3 * R %*% ((if (is.null(w)) 1 else w) * t(R)) + diag(1e-3, m)
        expect_equal(crossprod(factor_of(P, "A")), want, tolerance = 1e-12)
      }
    }
  }
}

# All steps of P with the factor A, one by one and several in a row.
expect_steps <- function(P, m) {
  factors <- list(T = factor_of(P), A = factor_of(P, "A"))
  step <- function(v, name) {
    R <- factors[[substr(name, 1, 1)]]
    switch(sub("^.", "", name),
      "^-1" = backsolve(R, v),
      "^-T" = backsolve(R, v, transpose = TRUE),
      "'" = crossprod(R, v),
      R %*% v
    )
  }
  v <- matrix(stats::rnorm(3 * m), m)
  for (name in FACTOR_STEPS) for (given in list(v, v[, 1])) {
    expect_equal(apply_factors(P, given, name), step(as.matrix(given), name), tolerance = 1e-10, label = name)
  }
  chain <- c("A^-1", "T^-1", "T", "T'", "T^-T", "A^-T")
  expect_equal(apply_factors(P, v, chain), Reduce(step, chain, v), tolerance = 1e-10)
  expect_identical(apply_factors(P, v, character()), v)
}
