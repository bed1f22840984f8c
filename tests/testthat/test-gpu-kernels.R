# The kernels beside the Gaussian on the GPU; test-parity.R has most of it.

test_that("more columns than one launch takes, in every precision, are those of the CPU", {
  skip_if_no_gpu()
  # by differences: "fast", too, which may be worse
  bounds <- c(double = 1e-12, single = 1e-5, fast = 1e-5)
  for (d in c(1, 4, 20)) {
    x <- example_points(700, d)
    y <- example_points(300, d, seed = 2)
    w <- seq(0, 1, length.out = 700)
    set.seed(5)
    b <- matrix(stats::rnorm(70 * 700), 700)
    for (kernel in names(ref_kernels)[-1]) for (targets in list(NULL, y)) {
      sums <- \(b, ...) plain(kernel_sum_by(x, targets, b, example_bandwidth(d), kernel, weights = w, ...))
      want <- sums(b, backend = "cpu", precision = "double")
      size <- max(sums(abs(b), backend = "cpu", precision = "double"))
      for (precision in names(bounds)) {
        got <- sums(b, backend = "cuda", precision = precision)
        expect_lt(max(abs(got - want)) / size, bounds[[precision]], label = paste(kernel, precision, "d =", d))
      }
    }
  }
})

test_that("powered exponentials of any power on the GPU are those of the CPU", {
  skip_if_no_gpu()
  bounds <- c(double = 1e-12, single = 3e-5)
  for (power in c(0.1, 0.7, 1.9, 2)) for (d in c(2, 40)) {
    kernel <- kernel_spec("powered_exponential", power = power)
    case <- normal_case(300, 170, d, r = 3)
    case$y[1:20, ] <- case$x[1:20, ]
    K <- as.matrix(kernel_operator(case$x, case$y, sqrt(d), kernel, control = flash_control(backend = "cpu")))
    for (precision in names(bounds)) {
      op <- kernel_operator(case$x, case$y, sqrt(d), kernel, tol = 0, control = flash_control("cuda", precision))
      where <- paste(power, d, precision)
      expect_lt(max(abs(op %*% case$v - K %*% case$v) / K %*% abs(case$v)), bounds[[precision]], label = where)
      got <- normal_product(op, case$v, case$w, case$weights)
      expect_lt(normal_error(got, K, case$v, case$w, case$weights), 3 * bounds[[precision]], label = where)
    }
    sources <- sum_sources(case$x, NULL, diag(sqrt(d), d), kernel, new_plan())
    P <- new_preconditioner(sources, cuda_run(), diagonal = 1)
    own <- kernel_matrix_of(sources, NULL, cpu_run())
    expect_lt(max(abs(crossprod(factor_of(P)) - own - diag(1, nrow(own)))), 1e-12, label = paste("matrix", power, d))
  }
})

test_that("a kernel is 1 at its own point on the GPU too", {
  skip_if_no_gpu()
  for (kernel in names(ref_kernels)) for (d in c(1, 9)) {
    at <- matrix(1e6 + seq_len(d) / 7, 1)
    sum <- kernel_sum(at, at + 0, 1, 0.37, kernel, control = flash_control(precision = "double", backend = "cuda"))
    expect_identical(plain(sum), 1, label = kernel)
  }
})

test_that("kernels of products on the GPU are those of plain R, in double whatever is asked for", {
  skip_if_no_gpu()
  for (d in c(1, 4, 5, 33)) for (n in c(2, 65, 700)) {
    x <- example_points(n, d) + 2
    y <- example_points(130, d, seed = 2)
    H <- example_bandwidth(d)
    b <- matrix(cos(seq_len(70 * n)), n)
    for (kernel in some_product_kernels()) for (targets in list(NULL, y)) for (precision in c("double", "auto", "fast")) {
      at <- if (is.null(targets)) x else targets
      label <- paste(kernel$name, precision, "n =", n, "d =", d)
      sums <- \(b) kernel_sum(
        x, targets, b, H, kernel,
        control = flash_control(precision = precision, backend = "cuda")
      )
      one <- sums(b[, 1])
      expect_identical(diagnostics(one)[c("precision", "method")], list(precision = "double", method = "product"))
      expect_lt(product_error(one, x, at, H, kernel, b[, 1]), 1e-14, label = label)
      expect_lt(product_error(sums(b), x, at, H, kernel, b), 1e-14, label = label)
    }
  }
})

test_that("an operator of products on the GPU keeps points that are not centred", {
  skip_if_no_gpu()
  x <- example_points(300, 3) + 5
  v <- cos(1:300)
  for (kernel in some_product_kernels()) {
    op <- kernel_operator(x, bandwidth = 1, kernel = kernel, control = flash_control("cuda"))
    for (i in 1:3) expect_lt(product_error(op %*% v, x, x, diag(3), kernel, v), 1e-14, label = kernel$name)
  }
})
