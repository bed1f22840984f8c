# What kernel_sum() returns, and sums at the ends of the range; test-parity.R has their values.

kernels <- names(ref_kernels)
precisions <- c("double", "single")

test_that("what is made of sums does not carry their diagnostics", {
  x <- example_points(200, 2)
  sums <- kernel_sum(x, bandwidth = 0.5, tol = 0)
  expect_null(attributes(sums))
  expect_equal(diagnostics(sums)$n, 200)
  copy <- sums
  expect_identical(diagnostics(copy), diagnostics(sums))
  for (made in list(2 * sums, sums[-1], exp(sums), data.frame(sums), matrix(sums), c(sums, 1))) {
    expect_argument_error(diagnostics(made), "object")
  }
  expect_identical(attributes(data.frame(sums)$sums), NULL)
  # the same numbers twice: each has its own
  again <- kernel_sum(x, bandwidth = 0.5, control = flash_control(engine = "exact"))
  expect_identical(again, sums)
  expect_identical(c(diagnostics(sums)$tol, diagnostics(again)$tol), c(0, 1e-6))
  # a matrix has its own shape
  columns <- kernel_sum(x, b = cbind(a = 1:200, b = 1), bandwidth = 0.5)
  expect_identical(names(attributes(columns)), c("dim", "dimnames"))
  expect_identical(diagnostics(columns)$kernel, "gaussian")
  expect_argument_error(diagnostics(as.vector(columns)), "object")
})

test_that("a kernel is exactly 1 at its own point, also where the points are far from the origin", {
  for (kernel in kernels) for (precision in precisions) {
    for (point in list(0.3, c(0.1, -7.7), 1e6 + 1:9 / 7)) {
      at <- matrix(point, 1)
      sum <- kernel_sum(at, at + 0, 1, 0.37, kernel, control = flash_control(precision = precision, backend = "cpu"))
      expect_identical(plain(sum), 1, label = paste(kernel, precision))
    }
  }
})

test_that("close to a point the relative error of the distance is small, and far away that of the kernel", {
  r <- 10^seq(-7, 2, length.out = 40)
  for (kernel in kernels) for (d in c(1, 8)) {
    y <- cbind(r, matrix(0, 40, d - 1))
    got <- plain(kernel_sum(matrix(0, 1, d), y, 1, 1, kernel, control = flash_control(backend = "cpu")))
    want <- ref_kernels[[kernel]](r)
    shown <- want > 1e-300
    expect_lt(max(abs(got / want - 1)[shown]), 1e-12, label = paste(kernel, "relative error"))
    expect_lt(max(abs(got - want)), 1e-15)
  }
  # the kink of the Laplacian: 1 - r for small r
  near <- plain(kernel_sum(0, r[1:20], 1, 1, "laplacian", control = flash_control(backend = "cpu")))
  expect_lt(max(abs((1 - near) / -expm1(-r[1:20]) - 1) * r[1:20]), 1e-15)
})

test_that("a powered exponential keeps its digits for any power, and its ends are other kernels", {
  sums <- function(r, kernel, bandwidth = 1, precision = "double") {
    control <- flash_control(backend = "cpu", engine = "exact", precision = precision)
    plain(kernel_sum(0, r, bandwidth = bandwidth, kernel = kernel, control = control))
  }
  for (power in c(0.05, 0.3, 0.7, 1, 1.4, 1.99, 2)) {
    kernel <- kernel_spec("powered_exponential", power = power)
    exponent <- 10^seq(-12, log10(650), length.out = 300)
    r <- exponent^(1 / power)
    r <- r[r > 1e-140 & r < 1e140]
    got <- sums(r, kernel)
    expect_within(got / exp(-r^power), rep(1, length(r)), 1e-12, paste("power", power))
    expect_lt(max(abs(1 - got + expm1(-r^power))), 1e-15)
    expect_identical(sums(c(0, 0), kernel), c(1, 1))
    expect_lt(max(abs(sums(r, kernel, precision = "single") - got)), 3e-5, label = paste("single, power", power))
  }
  r <- 10^seq(-6, 2, length.out = 50)
  expect_within(sums(r, kernel_spec("powered_exponential", power = 1)), sums(r, "laplacian"), 1e-15)
  expect_within(sums(r, kernel_spec("powered_exponential", power = 2), sqrt(2)), sums(r, "gaussian"), 1e-15)
})

test_that("distances that overflow are far away, not missing", {
  for (kernel in kernels) for (precision in precisions) {
    sums <- kernel_sum(c(0, 1), c(1e200, -1e300), c(1, 1), 1, kernel,
      control = flash_control(precision = precision, backend = "cpu")
    )
    expect_identical(plain(sums) < 1e-18, c(TRUE, TRUE), label = paste(kernel, precision))
  }
})

test_that("coefficients over all decades of doubles keep the least of them", {
  x <- 1000 * (1:200)
  b <- 10^seq(-318, 305, length.out = 200) * c(1, -1)
  sums <- kernel_sum(
    x, b = b, bandwidth = 1,
    control = flash_control(backend = "cpu", engine = "exact", precision = "double")
  )
  expect_equal(as.vector(sums) / b, rep(1, 200), tolerance = 1e-12)
})

test_that("exact sums keep terms however far below the largest coefficient they are", {
  expect_decades_kept("cpu")
})

test_that("the bits depend on no number of threads", {
  x <- example_points(5000, 3)
  y <- example_points(3000, 3, seed = 2)
  for (kernel in kernels[-1]) {
    sums <- \(...) plain(kernel_sum_by(
      x, ..., b = x, bandwidth = 0.4, kernel = kernel,
      control = flash_control(backend = "cpu")
    ))
    expect_identical(sums(threads = 1), sums(threads = 2))
    expect_identical(sums(y, threads = 1), sums(y, threads = 2))
  }
})

test_that("an instruction set changes nothing but rounding", {
  skip_on_cran()
  sums <- function(kernels) {
    set.seed(1)
    x <- matrix(stats::rnorm(600), 200)
    sum_of <- \(kernel, precision) {
      as.vector(kernel_sum(x, x[1:50, ] / 2, cbind(1, x), 0.6, kernel,
        control = flash_control(backend = "cpu", precision = precision)
      ))
    }
    list(
      isa = flashkernel:::backend_info()$isa, double = vapply(kernels, sum_of, numeric(200), "double"),
      single = vapply(kernels, sum_of, numeric(200), "single")
    )
  }
  want <- sums(kernels)
  for (isa in c("avx2", "portable")) {
    got <- in_child(sums, list(kernels), env = c(FLASHKERNEL_ISA = isa))
    if (isa %in% flashkernel:::backend_info()$isa_available) expect_identical(got$isa, isa)
    expect_within(got$double, want$double, 1e-12, isa)
    expect_within(got$single, want$single, 1e-4, isa)
  }
})

test_that("results have the shape and the names that b gives them", {
  x <- example_points(20, 2)
  b <- cbind(one = rep(1, 20), two = 1:20)
  rownames(b) <- letters[1:20]
  sums <- plain(kernel_sum(x, x[1:5, ], b, 1))
  expect_identical(dimnames(sums), list(NULL, c("one", "two")))
  expect_identical(sums, kernel_sum(x, x[1:5, ], b, bandwidth = 1, tol = 0))
  vector <- plain(kernel_sum(x, x[1:5, ], b[, "two"], 1))
  expect_within(vector, sums[, "two"], 1e-13)
  expect_null(attributes(vector))
  expect_within(plain(kernel_sum(x, x[1:5, ], bandwidth = 1)), sums[, "one"], 1e-13)
  expect_identical(plain(kernel_sum(x, x[1:5, ], as.data.frame(b), 1)), sums)
  expect_identical(plain(kernel_sum(x, NULL, b, 1)), plain(kernel_sum(x, b = b, bandwidth = 1)))
})

test_that("kernel_sum() is the exact Gaussian case", {
  x <- example_points(60, 3)
  y <- example_points(30, 3, seed = 2)
  w <- 1:60 / 60
  H <- example_bandwidth(3)
  sums <- kernel_sum(x, y, x, H, weights = w, control = flash_control(engine = "exact"))
  expect_identical(kernel_sum(x, y, x, H, weights = w, tol = 0), plain(sums))
})

test_that("a bandwidth is one length, one for each column, or a matrix of squares", {
  x <- example_points(40, 2)
  colnames(x) <- c("u", "v")
  sums <- \(bandwidth) plain(kernel_sum(x, b = x[, 1], bandwidth = bandwidth, kernel = "matern32"))
  expect_sums(sums(0.5), ref_kernel_matrix(x, x, diag(0.25, 2), "matern32"), x[, 1], 1e-12)
  expect_sums(sums(c(0.5, 2)), ref_kernel_matrix(x, x, diag(c(0.25, 4)), "matern32"), x[, 1], 1e-12)
  expect_identical(sums(c(0.5, 2)), sums(c(v = 2, u = 0.5)))
  expect_identical(sums(c(0.5, 2)), sums(diag(c(0.25, 4))))
})

test_that("diagnostics tell what was computed, and print in a few lines", {
  x <- example_points(300, 2)
  sums <- kernel_sum(x, x[1:100, ],
    bandwidth = 1, kernel = "imq", control = flash_control(backend = "cpu", precision = "single", threads = 1)
  )
  record <- diagnostics(sums)
  expect_s3_class(record, "kernel_sum_diagnostics")
  expect_identical(
    record[c(
      "kernel", "n", "m", "d", "backend", "engine", "method", "precision", "threads", "reason", "pairs"
    )],
    list(
      kernel = "imq", n = 300, m = 100L, d = 2L, backend = "cpu", engine = "exact",
      method = "difference", precision = "single", threads = 1L, reason = "as asked", pairs = 30000
    )
  )
  expect_identical(record$tol, 1e-6)
  expect_identical(record$tol_achieved, NA_real_)
  expect_output(print(record), "imq kernel, 300 x 100 pairs in 2 dimensions .* exact, single precision")
  expect_argument_error(diagnostics(1:3), "object")
  expect_argument_error(diagnostics(sums, digits = 2), "digits")
})

test_that("without a fast engine for the work, asking for one is an error of its own class", {
  x <- example_points(20, 9)
  fast <- \(x, ...) kernel_sum_by(x, b = x, bandwidth = 1, control = flash_control(engine = "fast"), ...)
  expect_error(fast(x), "no fast engine for the gaussian kernel in 9 dimensions with tol = 1e-06",
    class = "flashkernel_error_unsupported"
  )
  expect_error(fast(x[, 1:2], kernel = "matern52", backend = "cpu"),
    "matern52 kernel \\(not smooth at 0\\) with tol = 1e-06 on the CPU",
    class = "flashkernel_error_unsupported"
  )
  expect_argument_error(fast(x[, 1:2], tol = 0), "tol")
})

test_that("each misuse of an argument is named", {
  x <- example_points(20, 2)
  sums <- \(...) kernel_sum_by(x, bandwidth = 1, ...)
  expect_argument_error(kernel_sum(bandwidth = 1), "x")
  expect_argument_error(kernel_sum(x), "bandwidth")
  expect_argument_error(kernel_sum(x, bandwidth = "lcv"), "bandwidth")
  expect_argument_error(sums(kernel = "sinc"), "kernel")
  for (tol in list(-1, 1, NA, "a", c(0.1, 0.2), NULL, Inf)) expect_argument_error(sums(tol = tol), "tol")
  expect_argument_error(sums(tol_type = "relative"), "tol_type")
  expect_argument_error(sums(engine = "slow"), "engine")
  expect_argument_error(sums(y = x[, 1]), "y")
  expect_argument_error(sums(y = \() x), "y")
  expect_argument_error(sums(b = 1:19), "b")
  expect_argument_error(sums(b = c(1:19, NA)), "b")
  expect_argument_error(sums(weights = -(1:20)), "weights")
  expect_argument_error(sums(out = matrix(0, 20, 1)), "out")
  expect_argument_error(sums(chunk_rows = 0), "chunk_rows")
  expect_argument_error(kernel_sum(\() x, bandwidth = 1, tol = 0), "y")
})
