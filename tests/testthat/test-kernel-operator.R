# The literal matrix.
operator_matrix <- function(x, y, h, kernel, weights = NULL) {
  K <- ref_kernel_matrix(x, y, diag(h^2, ncol(x)), kernel)
  if (is.null(weights)) K else K * rep(weights, each = nrow(y))
}


test_that("products of every kernel are those of the matrix, either way, with weights or without", {
  set.seed(1)
  x <- some_points(70, 3)
  y <- some_points(41, 3)
  w <- stats::rexp(70)
  v <- matrix(stats::rnorm(140), 70)
  u <- matrix(stats::rnorm(82), 41)
  for (kernel in names(ref_kernels)) for (weights in list(NULL, w)) {
    op <- kernel_operator(x, y, 0.4, kernel, weights, tol = 0)
    K <- operator_matrix(x, y, 0.4, kernel, weights)
    expect_equal(op %*% v, K %*% v, tolerance = 1e-12, label = kernel)
    expect_equal(op %*% v[, 1], K %*% v[, 1], tolerance = 1e-12)
    expect_equal(crossprod(op, u), crossprod(K, u), tolerance = 1e-12)
    expect_equal(t(op) %*% u, t(K) %*% u, tolerance = 1e-12)
    expect_equal(u[, 1] %*% op, u[, 1] %*% K, tolerance = 1e-12)
    expect_equal(t(u) %*% op, t(u) %*% K, tolerance = 1e-12)
    expect_equal(tcrossprod(op, t(v)), K %*% v, tolerance = 1e-12)
    expect_equal(as.matrix(op), K, tolerance = 1e-12)
    expect_equal(as.matrix(t(op)), t(K), tolerance = 1e-12)
    expect_equal(diag(op), diag(K), tolerance = 1e-12)
  }
})

test_that("parts of the matrix are picked as those of any", {
  set.seed(2)
  x <- some_points(300, 2)
  K <- operator_matrix(x, x, 0.3, "matern32")
  op <- kernel_operator(x, bandwidth = 0.3, kernel = "matern32")
  expect_identical(dim(op), c(300L, 300L))
  expect_equal(op[3:1, c(5, 299)], K[3:1, c(5, 299)], tolerance = 1e-12)
  expect_equal(op[7, ], K[7, ], tolerance = 1e-12)
  expect_equal(op[, -(1:298), drop = FALSE], K[, 299:300], tolerance = 1e-12)
  expect_equal(op[K[, 1] > 0.5, 2], K[K[, 1] > 0.5, 2], tolerance = 1e-12)
  expect_identical(dim(op[integer(), 1:3]), c(0L, 3L))
  expect_identical(diag(op), rep(1, 300))
  expect_error(op[301, 1], "`i`", class = "flashkernel_error_argument")
  expect_error(op[1, "a"], "`j`", class = "flashkernel_error_argument")
  expect_error(op[1], "must be separated by a comma", class = "flashkernel_error_argument")
})

test_that("products have the bits of kernel_sum(), the first and all later ones", {
  set.seed(3)
  x <- some_points(30000, 2)
  y <- some_points(500, 2)
  v <- stats::rnorm(30000)
  for (tol in c(0, 1e-6)) for (at in list(NULL, y)) {
    if (tol == 0 && is.null(at)) next # 30,000^2 pairs
    op <- kernel_operator(x, at, bandwidth = 0.02, tol = tol, control = flash_control(backend = "cpu"))
    want <- plain(kernel_sum(x, at, v, 0.02, tol = tol, control = flash_control(backend = "cpu")))
    for (i in 1:3) expect_identical(as.vector(op %*% v), want)
    expect_identical(as.vector(op %*% (2 * v)), 2 * want)
    engine <- diagnostics(op)$engine
    if (tol > 0 && is.null(at)) expect_identical(engine, "fast")
    expect_identical(diagnostics(op)$n, 30000L)
  }
})

test_that("later products of a sum of Gaussians are thought to take as long as the first", {
  set.seed(3)
  x <- some_points(6000, 3) * 200
  op <- kernel_operator(
    x, bandwidth = 1, kernel = "cauchy", tol = 1e-3,
    control = flash_control(engine = "fast", threads = 1)
  )
  estimates <- vapply(1:3, \(i) {
    op %*% x[, 1]
    diagnostics(op)$reason_engine
  }, "")
  expect_match(estimates, "sums of Gaussians by estimate")
  expect_identical(unique(estimates), estimates[1])
})

test_that("what is kept of the points serves other vectors: of other signs and sizes, several at once, none", {
  set.seed(6)
  x <- some_points(40000, 3)
  v <- stats::rnorm(40000)
  vectors <- list(
    v, abs(v), -v, cbind(v, rev(v), 1), v * (x[, 1] > 0.9), 1e-8 * v, v * 10^(8 * x[, 2]), numeric(40000), v
  )
  for (h in c(0.05, 0.3)) {
    op <- kernel_operator(x, bandwidth = h, tol = 1e-6, control = flash_control(engine = "fast", backend = "cpu"))
    for (b in vectors) {
      alone <- kernel_sum(
        x, b = b, bandwidth = h, tol = 1e-6,
        control = flash_control(engine = "fast", backend = "cpu")
      )
      expect_identical(as.vector(op %*% b), as.vector(alone))
      for (what in c("tol_bound", "tol_achieved")) {
        expect_identical(diagnostics(op)[[what]], diagnostics(alone)[[what]], label = what)
      }
    }
    loaded <- unserialize(serialize(op, NULL)) # has nothing kept
    expect_identical(loaded %*% v, op %*% v)
  }
})

test_that("operators side by side, and sums at other places between products, do not disturb each other", {
  set.seed(4)
  x <- some_points(20000, 2)
  ops <- list(
    kernel_operator(x, bandwidth = 0.02, tol = 1e-5, control = flash_control(backend = "cpu")),
    kernel_operator(x, bandwidth = 0.03, tol = 1e-5, control = flash_control(backend = "cpu")),
    kernel_operator(x[1:9000, ], x[9001:20000, ], 0.02, tol = 1e-4, control = flash_control(backend = "cpu"))
  )
  vectors <- lapply(ops, \(op) stats::rnorm(ncol(op)))
  alone <- Map(\(op, v) op %*% v, ops, vectors)
  for (i in c(2, 1, 3, 3, 1)) {
    expect_identical(crossprod(t(ops[[i]]), vectors[[i]]), alone[[i]])
    crossprod(ops[[3]], rep(1, 11000))
  }
})

test_that("an operator that was saved is prepared again, and one of a forked child works on the CPU", {
  set.seed(5)
  x <- some_points(500, 2)
  v <- stats::rnorm(500)
  op <- kernel_operator(x, bandwidth = 0.1, weights = stats::rexp(500), control = flash_control(backend = "cpu"))
  before <- op %*% v
  file <- tempfile()
  on.exit(unlink(file))
  saveRDS(op, file)
  again <- readRDS(file)
  expect_identical(again %*% v, before)
  gpu_release()
  expect_identical(op %*% v, before)
  skip_on_os("windows")
  of_child <- parallel::mclapply(1:2, \(i) op %*% v, mc.cores = 2)
  expect_identical(of_child, list(before, before))
})

test_that("mistakes are told by the argument's name", {
  x <- some_points(20, 2)
  op <- kernel_operator(x, bandwidth = 1)
  argument <- "flashkernel_error_argument"
  expect_error(kernel_operator(bandwidth = 1), "`x`", class = argument)
  expect_error(kernel_operator(x), "`bandwidth`", class = argument)
  expect_error(kernel_operator(x, bandwidth = 1, kernel = "sinc"), "`kernel`", class = argument)
  expect_error(kernel_operator(\() x, bandwidth = 1), "must be in memory", class = argument)
  expect_error(kernel_operator(x, x[, 1, drop = FALSE], 1), "`y`", class = argument)
  expect_error(op %*% 1:3, "`v`", class = argument)
  expect_error(op %*% c(NA, 1:19), "`v`", class = argument)
  expect_error(crossprod(op), "must be given", class = argument)
  expect_error(diagnostics(op), "no product yet", class = argument)
  expect_error(
    kernel_operator(
      x, bandwidth = 1, kernel = "laplacian",
      control = flash_control(engine = "fast")
    ), class = "flashkernel_error_unsupported"
  )
})

test_that("print() says what it is, and diagnostics() what the last product took", {
  x <- some_points(20, 2)
  op <- kernel_operator(x, x[1:3, ], bandwidth = 1, weights = rep(2, 20))
  expect_output(print(op), "Kernel operator, 3 x 20: gaussian kernel in 2 dimensions, weighted")
  expect_output(print(t(op)), "20 x 3.*transposed\nProducts: to a tolerance of 1e-06 .global., none so far")
  op %*% rep(1, 20)
  expect_output(print(op), "tolerance of 1e-06 .global.$")
  expect_gt(diagnostics(op)$seconds, 0)
})

# A sum of two operators, one transposed, with weights on both sides, and a diagonal matrix; and its literal matrix.
operator_sum <- function(n = 60) {
  x <- with_fixed_seed(some_points(n, 2), 7)
  y <- x[n:1, ]
  s <- seq_len(n) / n
  a <- operator_matrix(x, x, 0.5, "gaussian")
  b <- operator_matrix(x, y, 0.3, "matern32")
  op <- 2 * (s * t(s * kernel_operator(x, bandwidth = 0.5, tol = 0)))
  list(
    x = x, s = s, op = op + t(kernel_operator(x, y, 0.3, "matern32", tol = 0)) / 4 - diag(s),
    K = 2 * (s * t(s * a)) + t(b) / 4 - diag(s), symmetric = op + diag(s), of = 2 * (s * t(s * a)) + diag(s)
  )
}

test_that("a linear combination of operators and a diagonal matrix is an operator", {
  given <- operator_sum()
  op <- given$op
  K <- given$K
  v <- with_fixed_seed(matrix(stats::rnorm(120), 60), 8)
  near <- \(found, want) expect_equal(found, want, tolerance = 1e-12, ignore_attr = TRUE)
  near(op %*% v, K %*% v)
  near(crossprod(op, v), crossprod(K, v))
  near(crossprod(v, op), crossprod(v, K))
  near(tcrossprod(t(v), op), t(v) %*% t(K))
  near(crossprod(v, op %*% v), crossprod(v, K %*% v))
  near(op[3:9, c(1, 4, 60)], K[3:9, c(1, 4, 60)])
  near(as.matrix(t(given$s * op)), t(given$s * K))
  near(rowSums(op), rowSums(K))
  near(sum(diag(op)), sum(diag(K)))
  diag(op) <- 3
  diag(K) <- 3
  near(as.matrix(op), K)
  expect_length(diagnostics(given$op), 2)
  expect_output(print(op), "60 x 60: 2 . gaussian.*weighted\n.*0.25 . matern32.*transposed\n  . a diagonal matrix\n")
  for (bad in list(diag(3), 1, v, K, "a")) expect_error(op + bad, class = "flashkernel_error")
  expect_error(diag(op) <- 1:2, "`value`", class = "flashkernel_error_argument")
})

test_that("leading eigenvalues and eigenvectors are those of the matrix, centred or not", {
  given <- operator_sum()
  n <- 60
  middle <- diag(n) - 1 / n
  for (center in c(FALSE, TRUE)) {
    want <- eigen(if (center) middle %*% given$of %*% middle else given$of, symmetric = TRUE)
    for (k in c(1, 5)) {
      found <- kernel_eigen(given$symmetric, k, center, tol = 1e-10)
      expect_equal(found$values, want$values[seq_len(k)], tolerance = 1e-10)
      expect_equal(abs(diag(crossprod(found$vectors, want$vectors[, seq_len(k)]))), rep(1, k), tolerance = 1e-8)
    }
  }
  # four equal eigenvalues; more eigenvalues than columns of a block; all of them
  x <- matrix(rep(c(0, 100, 200, 300), each = 25))
  op <- kernel_operator(x, bandwidth = 1, tol = 0)
  expect_equal(kernel_eigen(op, 5)$values, c(25, 25, 25, 25, 0))
  expect_equal(kernel_eigen(given$symmetric, 60)$values, eigen(given$of)$values, tolerance = 1e-10)
  expect_warning(kernel_eigen(given$symmetric, tol = 1e-18), "smaller `tol`")
  expect_argument_error(kernel_eigen(given$op), "op")
  expect_argument_error(kernel_eigen(op, 101), "k")
  expect_argument_error(kernel_eigen(as.matrix(op)), "op")
})

test_that("solve() solves systems of positive definite operators", {
  given <- operator_sum(300)
  b <- with_fixed_seed(matrix(stats::rnorm(600), 300), 9)
  expect_equal(solve(given$symmetric, b, tol = 1e-12), solve(given$of, b), tolerance = 1e-8, ignore_attr = TRUE)
  expect_equal(solve(given$symmetric, b[, 1]), solve(given$of, b[, 1]), tolerance = 1e-3)
  expect_argument_error(solve(given$op, b), "a")
  expect_argument_error(solve(given$symmetric), "b")
  expect_argument_error(solve(given$symmetric, 1:3), "b")
  expect_argument_error(solve(-given$symmetric, b), "a")
  expect_warning(solve(kernel_operator(given$x, bandwidth = 0.5), b), "Add a larger number to the diagonal")
})

test_that("sums and means of rows and columns, and multiples, are those of the matrix", {
  set.seed(5)
  x <- some_points(50, 2)
  y <- some_points(30, 2)
  v <- stats::rnorm(50)
  u <- stats::rnorm(30)
  for (weights in list(NULL, stats::rexp(50))) {
    op <- kernel_operator(x, y, 0.4, weights = weights, tol = 0)
    K <- operator_matrix(x, y, 0.4, "gaussian", weights)
    for (f in list(rowSums, colSums, rowMeans, colMeans)) {
      expect_equal(f(op), f(K), tolerance = 1e-12)
      expect_equal(f(t(op)), f(t(K)), tolerance = 1e-12)
    }
    for (f in list(\(K) 3 * K, \(K) K * -2, \(K) K / 4, \(K) -K, \(K) +K, \(K) -t(2 * K))) {
      expect_equal(as.matrix(f(op)), f(K), tolerance = 1e-12)
      v_or_u <- if (nrow(f(K)) == 30) v else u
      expect_equal(f(op) %*% v_or_u, f(K) %*% v_or_u, tolerance = 1e-12)
    }
  }
  op <- kernel_operator(x, bandwidth = 0.4, tol = 0)
  expect_equal(diag(op / -2), rep(-0.5, 50))
  expect_equal((2 * op) %*% v, 2 * (op %*% v), tolerance = 1e-14)
})

test_that("arithmetic that operators do not have is an error with a way out that works", {
  op <- kernel_operator(faithful, bandwidth = c(0.3, 5))
  unsupported <- \(expr) expect_error(expr, "kernel operator", class = "flashkernel_error_unsupported")
  for (f in list(
    \() 1 + op, \() op^2, \() 1 / op, \() op * op, \() op > 0, \() !op, \() exp(op), \() max(op), \() eigen(op),
    \() svd(op), \() qr(op), \() chol(op), \() det(op), \() crossprod(op, op), \() tcrossprod(op, op)
  )) unsupported(f())
  # without a note that two methods fit equally well
  expect_no_message(expect_error(op %*% op, "op %*% (op %*% v)", fixed = TRUE))
  expect_error(sum(op), "sum(rowSums(op))", fixed = TRUE)
  expect_equal(sum(rowSums(op)), sum(as.matrix(op)), tolerance = 1e-6)
  expect_error(op * NA, class = "flashkernel_error")
  expect_argument_error(crossprod(op, 1:3), "u")
  expect_argument_error(1:3 %*% op, "u")
  expect_argument_error(tcrossprod(op, matrix(1, 2, 3)), "v")
  expect_error(op %*% 1:3, "`v` must have one row per column of `op`, 272: found 3", fixed = TRUE)
  expect_error(matrix(1, 2, 3) %*% op, "`u` must have one column per row of `op`, 272: found 3", fixed = TRUE)
})
