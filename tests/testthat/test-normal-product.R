# Normal products of kernel_operator() on the CPU; test-gpu-normal-product.R has those on a GPU.

bounds <- c(double = 1e-14, single = 1e-6)

exactly_on_cpu <- function(case, h, kernel, ...) {
  kernel_operator_by(case$x, case$y, h, kernel, tol = 0, control = flash_control(backend = "cpu"), ...)
}

test_that("a product of every kernel is that of the matrix, in either precision", {
  case <- normal_case(97, 211, r = 3)
  for (kernel in names(ref_kernels)) for (precision in names(bounds)) {
    op <- exactly_on_cpu(case, 0.7, kernel, precision = precision)
    K <- ref_kernel_matrix(case$x, case$y, diag(0.49, 3), kernel)
    got <- normal_product(op, case$v, case$w, case$weights)
    expect_lt(normal_error(got, K, case$v, case$w, case$weights), bounds[[precision]], label = paste(kernel, precision))
    expect_identical(diagnostics(op)[c("pairs", "precision")], list(pairs = 97 * 211, precision = precision))
  }
})

test_that("in one dimension two sums take linear time", {
  case <- normal_case(500, 3000, 1, 2)
  for (kernel in c("gaussian", MARKOV_KERNELS)) {
    op <- exactly_on_cpu(case, 0.7, kernel)
    got <- with_method("line", normal_product(op, case$v, case$w, case$weights))
    K <- ref_kernel_matrix(case$x, case$y, matrix(0.49), kernel)
    expect_lt(normal_error(got, K, case$v, case$w, case$weights), 1e-12, label = kernel)
    expect_identical(diagnostics(op)$method, "line")
  }
})

test_that("sizes of any kind are summed to the last row and column", {
  for (size in list(
    c(1, 1), c(1, 7), c(7, 1), c(24, 48), c(47, 193), c(193, 47), c(577, 205), c(2605, 30)
  )) for (r in c(1, 7)) for (d in c(1, 6)) {
    case <- normal_case(size[1], size[2], d, r)
    K <- ref_kernel_matrix(case$x, case$y, diag(d), "gaussian")
    op <- exactly_on_cpu(case, 1, "gaussian")
    got <- normal_product(op, case$v, case$w)
    expect_lt(normal_error(got, K, case$v, case$w), bounds[["double"]], label = paste(c(size, r, d), collapse = " "))
    expect_match(diagnostics(op)$reason_engine, "one sweep$")
  }
})

test_that("v, w and weights may each be left out", {
  case <- normal_case(60, 130, r = 2)
  K <- ref_kernel_matrix(case$x, case$y, diag(3), "matern32")
  op <- exactly_on_cpu(case, 1, "matern32")
  for (v in list(NULL, case$v)) for (w in list(NULL, case$w)) for (weights in list(NULL, case$weights)) {
    if (is.null(v) && is.null(w)) next
    expect_lt(normal_error(normal_product(op, v, w, weights), K, v, w, weights), bounds[["double"]])
  }
  one <- case$v[, 1, drop = FALSE]
  expect_identical(normal_product(op, case$v[, 1], case$w[, 1]), normal_product(op, one, case$w[, 1]))
  named <- `colnames<-`(case$v, c("a", "b"))
  expect_identical(colnames(normal_product(op, named, case$w)), c("a", "b"))
  expect_identical(normal_product(op, case$v, weights = numeric(130)), matrix(0, 60, 2))
})

test_that("operators at their own points and transposed ones are the matrices that they stand for", {
  case <- normal_case(80, 150, r = 2)
  for (at in list(NULL, case$y)) {
    op <- kernel_operator(case$x, at, 1, "laplacian", tol = 0, control = flash_control(backend = "cpu"))
    K <- ref_kernel_matrix(case$x, if (is.null(at)) case$x else at, diag(3), "laplacian")
    w <- case$w[seq_len(nrow(K)), ]
    u <- matrix(stats::rnorm(2 * nrow(K)), nrow(K))
    row_weights <- case$weights[seq_len(nrow(K))]
    error <- \(error) expect_lt(error, 1e-13)
    error(normal_error(normal_product(op, case$v, w, row_weights), K, case$v, w, row_weights))
    error(normal_error(normal_product(t(op), u, case$v), t(K), u, case$v))
    error(normal_error(normal_product(t(op), u, case$v, case$weights[1:80]), t(K), u, case$v, case$weights[1:80]))
    error(normal_error(normal_product(t(op), u), t(K), u))
  }
})

test_that("numbers far from 1 keep their digits in either precision", {
  case <- normal_case(70, 90)
  for (precision in names(bounds)) for (scale in c(1e-200, 1e-40, 1e40, 1e200)) {
    op <- exactly_on_cpu(case, 1, "cauchy", precision = precision)
    K <- ref_kernel_matrix(case$x, case$y, diag(3), "cauchy")
    got <- normal_product(op, scale * case$v, scale * case$w, 1e30 * case$weights) / scale / 1e30
    expect_lt(normal_error(got, K, case$v, case$w, case$weights), bounds[[precision]], label = paste(precision, scale))
    got <- normal_product(op, 0 * case$v, scale * case$w) / scale
    expect_lt(normal_error(got, K, NULL, case$w), bounds[[precision]])
  }
})

test_that("every instruction set has the product", {
  case <- normal_case(300, 401, r = 3)
  products <- function(case) {
    lapply(list(1:3, 2), \(columns) lapply(c("double", "single"), \(precision) {
      op <- flashkernel::kernel_operator(
        case$x, case$y, 1, "matern52", tol = 0, control = flashkernel::flash_control(backend = "cpu", precision = precision)
      )
      flashkernel:::normal_product(op, case$v[, columns], case$w[, columns], case$weights)
    }))
  }
  K <- ref_kernel_matrix(case$x, case$y, diag(3), "matern52")
  for (isa in c("avx512", "avx2", "portable")) {
    got <- in_child(products, list(case), env = c(FLASHKERNEL_ISA = isa))
    for (p in 1:2) {
      expect_lt(normal_error(got[[1]][[p]], K, case$v, case$w, case$weights), bounds[[p]], label = isa)
      expect_lt(
        normal_error(got[[2]][[p]], K, case$v[, 2, drop = FALSE], case$w[, 2, drop = FALSE], case$weights), bounds[[p]],
        label = isa
      )
    }
  }
})

test_that("threads do not show in the bits, over several groups of pieces too", {
  before <- Sys.getenv("FLASHKERNEL_PROCESSORS", NA)
  Sys.setenv(FLASHKERNEL_PROCESSORS = 8)
  on.exit(if (is.na(before)) Sys.unsetenv("FLASHKERNEL_PROCESSORS") else Sys.setenv(FLASHKERNEL_PROCESSORS = before))
  for (case in list(normal_case(150, 40001), normal_case(3000, 13000, r = 6))) {
    product <- function(threads) {
      op <- exactly_on_cpu(case, 1, "imq", precision = "single", threads = threads)
      list(op = op, product = normal_product(op, case$v, case$w, case$weights))
    }
    one <- product(1)
    for (threads in c(2, 8)) expect_identical(product(threads)$product, one$product)
    two <- crossprod(one$op, case$weights * (one$op %*% case$v + case$w))
    expect_lt(max(abs(one$product - two)) / max(abs(two)), 1e-5)
  }
})

test_that("two sums are taken where kernels do not stay in the cache, and of points at themselves", {
  case <- normal_case(12000, 7, d = 2)
  K <- ref_kernel_matrix(case$x, case$y, diag(2), "gaussian")
  at_themselves <- kernel_operator(case$y, bandwidth = 1, tol = 0, control = flash_control(backend = "cpu"))
  for (op in list(exactly_on_cpu(case, 1, "gaussian"), at_themselves)) {
    own <- ncol(op) == 7
    matrix <- if (own) ref_kernel_matrix(case$y, case$y, diag(2), "gaussian") else K
    v <- case$v[seq_len(ncol(op)), , drop = FALSE]
    expect_lt(normal_error(normal_product(op, v, case$w, case$weights), matrix, v, case$w, case$weights), 1e-14)
    expect_match(diagnostics(op)$reason_engine, "two sums$")
    expect_identical(diagnostics(op)$pairs, 2 * 7 * ncol(op))
  }
})

test_that("to a tolerance it is two fast sums, or one sweep where the points make exact sums the faster ones", {
  case <- normal_case(5000, 8000, d = 2)
  op <- kernel_operator(case$x, case$y, 0.05, tol = 1e-8, control = flash_control(backend = "cpu"))
  got <- normal_product(op, case$v, case$w, case$weights)
  record <- diagnostics(op)
  expect_identical(record$engine, "fast")
  expect_match(record$reason_engine, "two sums$")
  exact <- kernel_operator(case$x, case$y, 0.05, tol = 0, control = flash_control(backend = "cpu"))
  want <- crossprod(exact, case$weights * (exact %*% case$v + case$w))
  size <- crossprod(exact, abs(case$weights) * (exact %*% abs(case$v) + abs(case$w)))
  expect_lt(max(abs(got - want)) / max(size), 2e-8)

  case <- normal_case(1000, 3000, d = 7)
  op <- kernel_operator(case$x, case$y, 2, tol = 1e-8, control = flash_control(backend = "cpu"))
  K <- ref_kernel_matrix(case$x, case$y, diag(4, 7), "gaussian")
  expect_lt(normal_error(normal_product(op, case$v), K, case$v), 1e-14)
  expect_identical(diagnostics(op)$engine, "exact")
  expect_match(diagnostics(op)$reason_engine, "one sweep$")
})

test_that("an operator that was saved has the same product", {
  case <- normal_case(100, 200)
  op <- exactly_on_cpu(case, 1, "gaussian")
  want <- normal_product(op, case$v, case$w)
  expect_identical(normal_product(unserialize(serialize(op, NULL)), case$v, case$w), want)
  for (i in 1:3) expect_identical(normal_product(op, case$v, case$w), want)
})
