# The fast engine for kernels that are sums of Gaussians, checked against the formulas and the exact engine.

smooth_kernels <- c("cauchy", "imq")

point_kinds <- list(
  uniform = \(n, d) matrix(stats::runif(n * d), n),
  clustered = \(n, d) matrix(stats::runif(20 * d), 20)[sample(20, n, TRUE), , drop = FALSE] +
    matrix(stats::rnorm(n * d), n) / 80,
  outliers = \(n, d) rbind(matrix(stats::runif((n - 2) * d), n - 2), rep(50, d), c(-2e4, rep(0.5, d - 1)))
)

expect_within_tol <- function(x, y, b, h, tol, kernel, tol_type = "global", label = "") {
  error <- fast_error(x, y, b, h, tol, tol_type, kernel = kernel)
  label <- paste(kernel, tol_type, label, "d =", ncol(x), "tol =", tol)
  expect_identical(error$diagnostics$engine, "fast", label = label)
  expect_lte(error$relative, tol, label = label)
  expect_lte(error$diagnostics$tol_achieved, tol, label = paste(label, "achieved"))
}

test_that("the kernel itself holds at all distances, near and far", {
  for (kernel in smooth_kernels) for (range in c(0.1, 10, 1e3, 1e6)) {
    y <- c(0, range * 10^seq(-8, 0, length.out = 400))
    for (tol in c(1e-2, 1e-3, 1e-6, 1e-9, 1e-11)) {
      sums <- kernel_sum(
      0, y, 3, 1, kernel,
      tol = tol, control = flash_control(tol_type = "pointwise", engine = "fast", backend = "cpu")
    )
      expect_identical(diagnostics(sums)$engine, "fast")
      error <- max(abs(plain(sums) / (3 * ref_kernels[[kernel]](y)) - 1))
      expect_lte(error, tol, label = paste(kernel, "range =", range, "tol =", tol))
    }
  }
})

test_that("every sum is within the tolerance of the largest, whatever the points, d and bandwidth", {
  set.seed(1)
  for (d in c(1, 2, 3, 5)) for (kind in names(point_kinds)) {
    x <- point_kinds[[kind]](if (d < 5) 1500 else 600, d)
    y <- rbind(x[1:100, , drop = FALSE], x[101:200, , drop = FALSE] + 0.02, matrix(1.5, 1, d))
    for (range in if (d < 5) c(0.3, 10, 1000) else c(0.3, 8)) {
      for (tol in if (d < 5) c(1e-3, 1e-9) else c(1e-3, 1e-7)) for (kernel in smooth_kernels) {
        # all of one sign: errors do not cancel
        expect_within_tol(x, y, stats::runif(nrow(x)), 1 / range, tol, kernel, label = paste(kind, range))
      }
    }
  }
})

test_that("a pointwise tolerance holds for each sum, for coefficients of both signs, too", {
  set.seed(2)
  for (d in c(1, 2, 3, 5)) {
    x <- point_kinds$outliers(1000, d)
    y <- rbind(x[1:100, , drop = FALSE], matrix(stats::runif(100 * d, -3, 3), 100), rep(40, d), rep(-300, d))
    b <- stats::rnorm(1000)
    for (range in if (d < 5) c(1, 30) else 5) for (tol in c(1e-3, 1e-8)) for (kernel in smooth_kernels) {
      expect_within_tol(x, y, b, 1 / range, tol, kernel, "pointwise", label = paste("range", range))
    }
  }
})

test_that("columns, weights, full bandwidth matrices and the points as their own targets", {
  set.seed(3)
  n <- 2000
  x <- matrix(stats::rnorm(2 * n), n)
  b <- cbind(a = stats::rnorm(n), b = 1, c = seq(-1, 1, length.out = n), d = 0)
  w <- stats::runif(n)
  for (kernel in smooth_kernels) for (scale in c(1, 0.1)) {
    H <- scale^2 * (diag(2) + 0.5)
    sums <- \(b, ...) kernel_sum_by(x, NULL, b, H, kernel, weights = w, control = flash_control(backend = "cpu"), ...)
    fast <- sums(b, engine = "fast", tol = 1e-8)
    expect_identical(colnames(fast), colnames(b))
    largest <- apply(plain(sums(abs(b), engine = "exact")), 2, max)
    error <- apply(abs(plain(fast) - plain(sums(b, engine = "exact"))), 2, max)
    expect_true(all(error <= 1e-8 * largest), label = kernel)
    expect_identical(plain(fast)[, "d"], numeric(n))
    expect_lte(diagnostics(fast)$tol_achieved, 1e-8)
  }
})

test_that("one point, few points, ties and equal points are no special cases", {
  for (kernel in smooth_kernels) {
    sums <- \(x, y, ...) plain(kernel_sum_by(
      x, y, bandwidth = 2, kernel = kernel, ...,
      control = flash_control(engine = "fast", backend = "cpu")
    ))
    k <- ref_kernels[[kernel]]
    expect_equal(sums(matrix(0.3, 1, 2), NULL), 1, tolerance = 1e-6)
    expect_equal(sums(c(1, 2), 4, tol = 1e-9), k(1.5) + k(1), tolerance = 1e-9)
    expect_equal(sums(matrix(1, 500, 3), matrix(c(1, 1, 3), 1), tol = 1e-9), 500 * k(1), tolerance = 1e-9)
    set.seed(4)
    x <- round(matrix(stats::rnorm(2000), 1000), 1)
    expect_within_tol(x, x, rep(1, 1000), 0.3, 1e-7, kernel, label = "ties")
    far <- 1e9 + x
    expect_within_tol(far, far[1:50, ], rep(1, 1000), 0.3, 1e-5, kernel, label = "far from 0")
  }
})

test_that("results have the same bits for any number of threads", {
  set.seed(6)
  x <- point_kinds$clustered(12000, 2)
  for (kernel in smooth_kernels) for (h in c(0.3, 0.003)) for (tol in c(1e-4, 1e-7)) {
    run <- \(threads) plain(kernel_sum(
      x, bandwidth = h, kernel = kernel, control = flash_control(engine = "fast", threads = threads, backend = "cpu"), tol = tol
    ))
    expect_identical(run(1), run(2))
  }
})

test_that("sources in chunks keep the tolerance", {
  set.seed(7)
  x <- point_kinds$uniform(8000, 2)
  b <- stats::rnorm(8000)
  y <- x[1:300, ]
  for (kernel in smooth_kernels) {
    exact <- \(b) plain(kernel_sum(x, y, b, 0.1, kernel, control = flash_control(engine = "exact", backend = "cpu")))
    sums <- kernel_sum(
      chunks_of(x, b, rep(2000, 4)), y, bandwidth = 0.1, kernel = kernel, tol = 1e-5, control = flash_control(engine = "fast", backend = "cpu")
    )
    expect_lte(max(abs(plain(sums) - exact(b))) / max(exact(abs(b))), 1e-5, label = kernel)
  }
})

test_that("many points are summed fast, few and those with tol = 0 exactly", {
  set.seed(8)
  x <- point_kinds$uniform(60000, 2)
  for (kernel in smooth_kernels) {
    engine_of <- \(...) diagnostics(kernel_sum_by(
      ..., bandwidth = 0.1, kernel = kernel,
      control = flash_control(backend = "cpu")
    ))$engine
    expect_identical(engine_of(x), "fast")
    expect_identical(engine_of(x[1:300, ]), "exact")
    expect_identical(engine_of(x, x[1:10, ], tol = 0), "exact")
  }
})

test_that("progress goes from 0 to 1 over all Gaussians, and an interrupt stops it", {
  set.seed(9)
  x <- point_kinds$uniform(20000, 2)
  internal <- asNamespace("flashkernel")
  seen <- numeric()
  watch <- function(fraction) seen <<- c(seen, fraction)
  control <- replace(control_list("cpu", engine = "fast", tol = 1e-6), "progress", list(watch))
  sources <- internal$sum_sources(x, NULL, diag(0.01, 2), "imq")
  sum_once <- \() .Call(internal$ffi_kernel_sum, sources, NULL, matrix(1, 20000, 1), FALSE, control)
  sum_once()
  expect_true(all(seen >= 0 & seen <= 1))
  # each Gaussian has its share, the first of which end well before the end
  expect_lt(max(seen[seq_len(length(seen) %/% 4)]), 0.7)
  expect_gt(max(seen), 0.9)
  # an error in the function is an interrupt
  control$progress <- function(fraction) if (fraction > 0.5) stop("enough") else seen <<- c(seen, fraction)
  seen <- numeric()
  outcome <- tryCatch(
    {
      sum_once()
      "finished"
    },
    interrupt = \(condition) "interrupted"
  )
  expect_identical(outcome, "interrupted")
})

test_that("kernels that are not smooth at 0 have no fast engine", {
  x <- example_points(100, 2)
  for (kernel in c("laplacian", "matern32", "matern52")) {
    expect_error(kernel_sum(x, bandwidth = 1, kernel = kernel, control = flash_control(engine = "fast")),
      class = "flashkernel_error_unsupported")
    expect_identical(diagnostics(kernel_sum(x, bandwidth = 1, kernel = kernel))$engine, "exact")
  }
  for (kernel in smooth_kernels) {
    expect_error(kernel_sum(
      example_points(100, 8), bandwidth = 1, kernel = kernel,
      control = flash_control(engine = "fast")
    ),
      class = "flashkernel_error_unsupported")
  }
})
