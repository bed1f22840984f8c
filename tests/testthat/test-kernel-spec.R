# Kernels with parameters, as objects, and those of products of points, against plain R.

# ---- objects ----------------------------------------------------------------------------------

test_that("the formulas of all kernels are known to the tests", {
  expect_identical(names(kernel_table()), c(names(ref_kernels), names(ref_product_kernels)))
  metrics <- vapply(kernel_table(), `[[`, "", "metric")
  expect_identical(names(metrics)[metrics == "products"], names(ref_product_kernels))
  expect_identical(names(metrics)[metrics == "absolute"], "product_laplacian")
  expect_identical(vapply(names(metrics), \(name) is_stationary(kernel_spec(name)), NA), metrics != "products")
})

test_that("a kernel has a name and its parameters, those that are not given as ever", {
  kernel <- kernel_spec("polynomial", degree = 2, coef0 = -1L)
  expect_s3_class(kernel, "flashkernel_kernel")
  expect_identical(kernel$name, "polynomial")
  expect_identical(kernel$parameters, c(gamma = 1, coef0 = -1, degree = 2))
  expect_identical(kernel_spec("poly"), kernel_spec("polynomial", gamma = 1, coef0 = 1, degree = 3))
  expect_identical(kernel_spec("linear")$parameters, c(gamma = 1, coef0 = 0))
  expect_length(kernel_spec("imq")$parameters, 0)
  expect_output(print(kernel), "polynomial kernel (gamma = 1, coef0 = -1, degree = 2): (gamma x'y + coef0)^degree",
    fixed = TRUE)
  expect_output(print(kernel_spec("cauchy")), "cauchy kernel: 1 / (1 + r^2)", fixed = TRUE)
})

test_that("parameters that a kernel does not have, or that are out of range, are errors that name them", {
  expect_argument_error(kernel_spec(), "kernel")
  expect_argument_error(kernel_spec("sinc"), "kernel")
  expect_argument_error(kernel_spec("polynomial", 2), "...")
  expect_argument_error(kernel_spec("polynomial", degree = 2, degree = 3), "...")
  expect_argument_error(kernel_spec("polynomial", power = 2), "power")
  expect_argument_error(kernel_spec("gaussian", gamma = 2), "gamma")
  expect_argument_error(kernel_spec("sigmoid", degree = 2), "degree")
  for (value in list(0, 2.5, -1, 65, NA, Inf, "2", 1:2)) {
    expect_argument_error(kernel_spec("polynomial", degree = value), "degree")
  }
  for (value in list(0, -1, NaN, Inf, "a", TRUE, c(1, 1))) {
    expect_argument_error(kernel_spec("linear", gamma = value), "gamma")
  }
  for (value in list(Inf, NA_real_, "a", list(1))) expect_argument_error(kernel_spec("sigmoid", coef0 = value), "coef0")
  expect_error(kernel_spec("poly", degree = 2.5), "one whole number above 0 and at most 64: found 2.5")
  expect_error(kernel_spec("tanh"), "the nearest is \"sigmoid\"")
})

test_that("kernels are taken by name and as objects alike, and objects are looked at again", {
  x <- example_points(50, 2)
  for (name in names(kernel_table())) {
    by_name <- kernel_sum(x, bandwidth = 1.3, kernel = name)
    expect_identical(kernel_sum(x, bandwidth = 1.3, kernel = kernel_spec(name)), by_name)
    expect_identical(diagnostics(by_name)[c("kernel", "parameters")], {
      list(kernel = name, parameters = kernel_spec(name)$parameters)
    })
  }
  tampered <- kernel_spec("polynomial")
  tampered$parameters[["degree"]] <- -1
  expect_argument_error(kernel_sum(x, bandwidth = 1, kernel = tampered), "degree")
  tampered$parameters <- c(gamma = 1, power = 1)
  expect_argument_error(kernel_operator(x, bandwidth = 1, kernel = tampered), "power")
  expect_argument_error(kernel_sum(x, bandwidth = 1, kernel = list("linear")), "kernel")
})

# ---- kernels of products ----------------------------------------------------------------------

test_that("sums of kernels of products are those of plain R, of any size and shape, in both precisions", {
  for (d in c(1, 3, 9)) for (n in c(1, 48, 193, 500)) {
    x <- example_points(n, d) + 2
    y <- example_points(101, d, seed = 2)
    H <- example_bandwidth(d)
    w <- seq(0.1, 1, length.out = n)
    b <- matrix(cos(seq_len(3 * n)), n)
    for (kernel in some_product_kernels()) for (targets in list(NULL, y)) {
      at <- if (is.null(targets)) x else targets
      label <- paste(kernel$name, "n =", n, "d =", d, if (is.null(targets)) "own")
      one <- kernel_sum(x, targets, b[, 1], H, kernel, control = flash_control(precision = "single", backend = "cpu"))
      # whatever is asked for
      expect_identical(diagnostics(one)[c("precision", "method")], list(precision = "double", method = "product"))
      expect_lt(product_error(one, x, at, H, kernel, b[, 1]), 1e-14, label = label)
      columns <- kernel_sum(x, targets, b, H, kernel, weights = w, control = flash_control(backend = "cpu"))
      expect_lt(product_error(columns, x, at, H, kernel, w * b), 1e-14, label = label)
    }
  }
})

test_that("products are of the points as they are, without a centre", {
  x <- matrix(c(1000, 1001, 1002, 5, 6, 8), 3)
  for (at in list(NULL, x + 0)) {
    expect_identical(as.vector(kernel_sum(x, at, c(1, -2, 1), 1, "linear")), {
      as.vector(tcrossprod(x) %*% c(1, -2, 1))
    })
  }
  # of points in pieces, too, whose centres would differ
  b <- cos(1:60)
  x <- example_points(60, 2) + 10
  kernel <- kernel_spec("polynomial", degree = 2)
  pieces <- kernel_sum(chunks_of(x, b, c(7, 53)), x, bandwidth = 1, kernel = kernel)
  expect_equal(pieces, kernel_sum(x, x, b, 1, kernel), tolerance = 1e-12)
})

test_that("tanh keeps its digits at any size, and powers theirs at any degree", {
  t <- 10^seq(-300, 300, length.out = 500)
  t <- c(-t, 0, t, seq(-25, 25, length.out = 1001))
  sigmoid <- as.vector(kernel_sum(1, t, bandwidth = 1, kernel = kernel_spec("sigmoid", coef0 = 0)))
  expect_lt(max(abs(sigmoid - tanh(t)) / pmax(abs(tanh(t)), 1e-300)), 2e-14)
  t <- seq(-2, 2, length.out = 101)
  for (degree in c(1:9, 31, 64)) {
    kernel <- kernel_spec("polynomial", gamma = 0.5, coef0 = 1, degree = degree)
    power <- as.vector(kernel_sum(1, t, bandwidth = 1, kernel = kernel))
    expect_lt(max(abs(power - (1 + t / 2)^degree) / pmax((1 + t / 2)^degree, 1e-300)), 1e-14)
  }
})

test_that("kernels of products are the same on every instruction set, and for any number of threads", {
  sums <- function(kernels, threads) {
    x <- matrix(sin(1:3000), 600)
    lapply(kernels, \(kernel) as.vector(flashkernel::kernel_sum(x, b = x, bandwidth = 0.8, kernel = kernel,
      control = flashkernel::flash_control(threads = threads, backend = "cpu"))))
  }
  kernels <- some_product_kernels()
  want <- sums(kernels, 2)
  expect_identical(sums(kernels, 1), want)
  for (isa in c("avx2", "portable")) {
    got <- in_child(sums, list(kernels, 2), env = c(FLASHKERNEL_ISA = isa))
    for (i in seq_along(kernels)) expect_within(got[[i]], want[[i]], 1e-12, paste(isa, kernels[[i]]$name))
  }
})

test_that("kernels of products are summed exactly, and have no fast engine", {
  x <- example_points(100, 2)
  expect_error(kernel_sum(x, bandwidth = 1, kernel = "linear", control = flash_control(engine = "fast")),
    "no fast engine for the linear kernel (of x'y)", fixed = TRUE, class = "flashkernel_error_unsupported"
  )
  record <- diagnostics(kernel_sum(
    x, bandwidth = 1, kernel = kernel_spec("polynomial", degree = 2),
    control = flash_control(backend = "cpu")
  ))
  expect_identical(record$engine, "exact")
  expect_identical(record$reason_engine, "no fast engine for the polynomial kernel (of x'y)")
  expect_output(print(record), "polynomial kernel (gamma = 1, coef0 = 1, degree = 2), 100 x 100 pairs", fixed = TRUE)
})

# ---- operators --------------------------------------------------------------------------------

test_that("an operator with parameters is the matrix, from either side, and after it was saved", {
  x <- example_points(70, 3)
  y <- example_points(41, 3, seed = 2)
  w <- seq(0.1, 2, length.out = 70)
  v <- matrix(cos(1:140), 70)
  u <- matrix(sin(1:82), 41)
  file <- tempfile(fileext = ".rds")
  on.exit(unlink(file))
  for (kernel in some_product_kernels()) {
    op <- kernel_operator(x, y, 0.9, kernel, w, control = flash_control(backend = "cpu"))
    K <- ref_product_matrix(x, y, diag(0.81, 3), kernel)$K * rep(w, each = 41)
    expect_equal(op %*% v, K %*% v, tolerance = 1e-12)
    expect_equal(crossprod(op, u), crossprod(K, u), tolerance = 1e-12)
    expect_equal(t(op) %*% u, t(K) %*% u, tolerance = 1e-12)
    expect_equal(op[3:1, c(5, 70)], K[3:1, c(5, 70)], tolerance = 1e-12)
    expect_equal(as.matrix(t(op)), t(K), tolerance = 1e-12)
    expect_equal(diag(op), diag(K), tolerance = 1e-12)
    expect_output(show(op), kernel_label(kernel$name, kernel$parameters), fixed = TRUE)
    saveRDS(op, file)
    expect_identical(readRDS(file) %*% v, op %*% v)
    own <- kernel_operator(x, bandwidth = 0.9, kernel = kernel)
    K <- ref_product_matrix(x, x, diag(0.81, 3), kernel)$K
    for (i in 1:2) expect_equal(own %*% v, K %*% v, tolerance = 1e-12)
    expect_equal(diag(own), diag(K), tolerance = 1e-12)
  }
})
