# Normal products of kernel_operator() on the GPU, against the matrix in plain R.

test_that("a product of every kernel on the GPU is that of the matrix", {
  skip_if_no_gpu()
  bounds <- c(double = 1e-13, single = 1e-4)
  for (size in list(c(1, 7), c(7, 1), c(97, 1111), c(1025, 133))) for (d in c(1, 3, 17)) {
    case <- normal_case(size[1], size[2], d, r = 3)
    for (kernel in names(ref_kernels)) for (precision in names(bounds)) {
      K <- matrix(ref_kernel_matrix(case$x, case$y, diag(d, d), kernel), size[2])
      op <- kernel_operator(case$x, case$y, sqrt(d), kernel, tol = 0, backend = "cuda", precision = precision)
      where <- paste(c(kernel, precision, size, d), collapse = " ")
      for (again in 1:2) {
        got <- normal_product(op, case$v, case$w, case$weights)
        expect_lt(normal_error(got, K, case$v, case$w, case$weights), bounds[[precision]], label = where)
      }
      one <- normal_product(op, case$v[, 1], weights = case$weights)
      expect_lt(normal_error(one, K, case$v[, 1, drop = FALSE], NULL, case$weights), bounds[[precision]], label = where)
      right <- normal_product(op, NULL, case$w, case$weights)
      expect_lt(normal_error(right, K, NULL, case$w, case$weights), bounds[[precision]], label = where)
    }
  }
})

test_that("points at themselves, transposed and weighted operators are what they are on the CPU", {
  skip_if_no_gpu()
  case <- normal_case(300, 500, r = 2)
  for (at in list(NULL, case$y)) {
    product <- function(backend, transposed) {
      op <- kernel_operator(
        case$x, at, 1, "matern32", seq(0, 1, length.out = 300), tol = 0, backend = backend, precision = "double"
      )
      if (transposed) op <- t(op)
      numbers <- \(n) matrix(sin(seq_len(2 * n)^2), n)
      normal_product(op, numbers(ncol(op)), numbers(nrow(op)), case$weights[seq_len(nrow(op))])
    }
    for (transposed in c(FALSE, TRUE)) {
      want <- product("cpu", transposed)
      expect_lt(max(abs(product("cuda", transposed) - want)) / max(abs(want)), 1e-12)
    }
  }
})

test_that("to a tolerance a product on the GPU is near the exact one", {
  skip_if_no_gpu()
  case <- normal_case(10000, 20000, d = 2)
  op <- kernel_operator(case$x, case$y, 0.05, tol = 1e-6, backend = "cuda", engine = "fast")
  got <- normal_product(op, case$v, case$w, case$weights)
  expect_identical(diagnostics(op)$engine, "fast")
  exact <- kernel_operator(case$x, case$y, 0.05, tol = 0, backend = "cuda", precision = "double")
  want <- normal_product(exact, case$v, case$w, case$weights)
  size <- crossprod(exact, abs(case$weights) * (exact %*% abs(case$v) + abs(case$w)))
  expect_lt(max(abs(got - want)) / max(size), 2e-6)
})

test_that("several devices give the product of one, the same bits", {
  skip_if_no_gpu()
  skip_if(length(gpu_info()$index) < 2, "one CUDA device")
  case <- normal_case(3000, 40000, d = 5, r = 2)
  product <- \(devices) normal_product(
    kernel_operator(case$x, case$y, 2, tol = 0, backend = "cuda", devices = devices), case$v, case$w, case$weights
  )
  expect_identical(product(0:1), product(0))
})
