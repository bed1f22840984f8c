# Sparse rows of kernel_ridge(): the numbers of the same rows in a plain matrix, by the kernels' formulas in plain R.

skip_if_not_installed("Matrix")

# Points with empty rows and columns, explicit zeros and equal rows; `centers` are rows of them
sparse_case <- function(n = 120, m = 17, d = 30, r = 2, seed = 1) {
  set.seed(seed)
  x <- matrix(stats::rnorm(n * d) * (stats::runif(n * d) < 0.15), n)
  if (n > 10) x[c(3, n), ] <- 0
  if (d > 5) x[, c(1, d)] <- 0
  if (n > 10) x[7, ] <- x[5, ]
  sparse <- as_csparse(x)
  if (length(sparse@x) > 1) sparse@x[2] <- 0
  x[] <- as.matrix(sparse)
  index <- seq(1, n, length.out = m)
  case <- normal_case(m, n, 1, r)
  c(case[c("v", "w", "weights")], list(
    dense = x, sparse = sparse, index = index, run = run_control(settle_control(NULL, list(backend = "cpu")))
  ))
}

# Rows and centres under a bandwidth, and the matrix of kernels
under <- function(case, x, kernel, bandwidth) {
  rows <- ridge_rows(x)
  rows <- rows_under(rows, rows_factor(rows, bandwidth), kernel)
  d <- ncol(case$dense)
  H <- diag(bandwidth^2, d)
  points <- case$dense[case$index, , drop = FALSE]
  K <- if (is_stationary(kernel)) ref_kernel_matrix(points, case$dense, H, kernel$name) else {
    ref_product_matrix(points, case$dense, H, kernel)$K
  }
  K <- matrix(K, nrow(case$dense))
  list(rows = rows, centers = ridge_centers(rows_take(rows, case$index), rows_factor(rows, bandwidth), kernel), K = K)
}

kernels_of_all <- function() c(lapply(names(ref_kernels), check_kernel), some_product_kernels())

test_that("products with sparse rows are those of the matrix of every kernel", {
  case <- sparse_case()
  for (kernel in kernels_of_all()) for (bandwidth in list(1.5, stats::runif(30, 0.8, 2))) {
    of <- under(case, case$sparse, kernel, bandwidth)
    got <- rows_multiply(of$rows, of$centers, case$v, case$run)
    expect_lt(max(abs(got$sums - of$K %*% case$v)), 1e-13 * max(abs(of$K), 1) * 17)
    expect_identical(got$stats$pairs, 120 * 17)
    got <- rows_normal(of$rows, of$centers, case$v, case$w, case$weights, case$run)$product
    expect_lt(normal_error(got, of$K, case$v, case$w, case$weights), 1e-12)
    K <- kernels_between(NULL, of$centers$points, of$centers$L, of$centers$kernel, case$run)
    expect_true(isSymmetric(K, tol = 0))
    expect_lt(max(abs(K - of$K[case$index, ])), 1e-13 * max(abs(K), 1))
  }
})

test_that("equal rows are at distance 0, to the bit", {
  case <- sparse_case()
  for (kernel in lapply(names(ref_kernels), check_kernel)) {
    K <- kernels_between(case$sparse[c(5, 3), ], case$sparse[c(7, 120, 5), ], stats::runif(30, 0.1, 2), kernel, case$run)
    expect_identical(K == 1, rbind(c(TRUE, FALSE, TRUE), c(FALSE, TRUE, FALSE)))
  }
})

test_that("v, w and weights may be left out, in one block and in many, of a matrix by rows, too", {
  before <- options(flashkernel.chunk_bytes = 1000)
  on.exit(options(before))
  case <- sparse_case()
  kernel <- check_kernel("gaussian")
  for (x in list(case$sparse, methods::as(case$sparse, "RsparseMatrix"), methods::as(case$sparse, "TsparseMatrix"))) {
    of <- under(case, x, kernel, 1.3)
    for (v in list(NULL, case$v)) for (w in list(NULL, case$w)) for (weights in list(NULL, case$weights)) {
      if (is.null(v) && is.null(w)) next
      got <- rows_normal(of$rows, of$centers, v, w, weights, case$run, with_sums = !is.null(v))
      expect_lt(normal_error(got$product, of$K, v, w, weights), 1e-12)
      if (!is.null(v)) expect_lt(max(abs(got$sums - of$K %*% v)) / max(abs(of$K %*% v)), 1e-12)
    }
    expect_identical(as.matrix(rows_take(of$rows, c(9, 2, 2))), case$dense[c(9, 2, 2), ])
    folded <- rows_fold(of$rows, \(all, points, first) {
      expect_equal(first, nrow(all) + 1)
      rbind(all, as.matrix(points))
    }, case$dense[0, ])
    expect_identical(folded, case$dense)
  }
})

test_that("one row, one centre, and matrices without any entry have their kernels", {
  for (size in list(c(1, 1, 3), c(9, 1, 1), c(1, 1, 1))) {
    case <- sparse_case(size[1], size[2], size[3])
    for (x in list(case$sparse, 0 * case$sparse, Matrix::drop0(0 * case$sparse))) {
      case$dense <- unname(as.matrix(x))
      of <- under(case, x, check_kernel("imq"), 1)
      expect_equal(rows_multiply(of$rows, of$centers, case$v, case$run)$sums, of$K %*% case$v, tolerance = 1e-14)
    }
  }
})

test_that("millions of columns take no more than their entries", {
  d <- 5e6
  set.seed(2)
  i <- rep(1:200, each = 20)
  x <- Matrix::sparseMatrix(i, sample(c(1:50, d - 1:50), 4000, TRUE), x = stats::rnorm(4000), dims = c(200, d))
  rows <- ridge_rows(x)
  rows <- rows_under(rows, rows_factor(rows, 4), check_kernel("gaussian"))
  centers <- ridge_centers(rows_take(rows, 1:20), 4, rows$kernel)
  run <- run_control(settle_control(NULL, list(backend = "cpu")))
  few <- as.matrix(x[, c(1:50, d - 50:1)])
  K <- ref_kernel_matrix(few[1:20, ], few, diag(16, 100), "gaussian")
  expect_lt(max(abs(rows_multiply(rows, centers, diag(20), run)$sums - K)), 1e-13)
})

test_that("threads do not show in the bits", {
  before <- Sys.getenv("FLASHKERNEL_PROCESSORS", NA)
  Sys.setenv(FLASHKERNEL_PROCESSORS = 8)
  on.exit(if (is.na(before)) Sys.unsetenv("FLASHKERNEL_PROCESSORS") else Sys.setenv(FLASHKERNEL_PROCESSORS = before))
  case <- sparse_case(3000, 300)
  of <- under(case, case$sparse, check_kernel("cauchy"), 1)
  normal <- function(threads) {
    run <- run_control(settle_control(NULL, list(backend = "cpu", threads = threads)))
    rows_normal(of$rows, of$centers, case$v, case$w, case$weights, run)$product
  }
  one <- normal(1)
  for (threads in c(2, 8)) expect_identical(normal(threads), one)
})

test_that("sparse rows and dense centres go together, and the other way round", {
  case <- sparse_case()
  kernel <- check_kernel("matern32")
  of <- under(case, case$sparse, kernel, 1.2)
  L <- diag(1.2, 30)
  dense <- ridge_centers(case$dense[case$index, ], L, kernel)
  got <- rows_multiply(rows_under(ridge_rows(case$sparse), L, kernel), dense, case$v, case$run)$sums
  expect_lt(max(abs(got - of$K %*% case$v)), 1e-12)
  got <- rows_multiply(rows_under(ridge_rows(case$dense), 1.2, kernel), of$centers, case$v, case$run)$sums
  expect_lt(max(abs(got - of$K %*% case$v)), 1e-12)
})

test_that("centres are chosen among sparse rows, or given", {
  case <- sparse_case()
  rows <- ridge_rows(case$sparse)
  choose <- \(centers, method = "uniform") {
    choose_centers(rows, centers, method, NULL, 1.5, check_kernel("gaussian"), case$run)
  }
  for (method in CENTER_METHODS) {
    chosen <- choose(20, method)
    expect_s4_class(chosen$points, "dgCMatrix")
    expect_identical(as.matrix(chosen$points), case$dense[chosen$index, ])
  }
  all <- choose(120)
  expect_identical(all$index, which(!duplicated(case$dense)))
  for (given in list(case$dense[1:4, ], case$sparse[1:4, ])) {
    expect_identical(as.matrix(choose(given)$points), case$dense[c(1:4), ])
  }
  expect_error(choose(case$sparse[, 1:4]), "columns", class = "flashkernel_error_argument")
})

test_that("what sparse rows cannot have is told", {
  case <- sparse_case()
  refused <- \(code, text) expect_error(code, text, class = "flashkernel_error_argument")
  bad <- case$sparse
  bad@x[5] <- NaN
  refused(ridge_rows(bad), "finite")
  refused(ridge_rows(case$sparse[0, ]), "row")
  refused(ridge_rows(case$sparse[, 0]), "column")
  rows <- ridge_rows(case$sparse)
  refused(rows_factor(rows, diag(30)), "bandwidth")
  refused(rows_factor(rows, c(1, 2)), "30 columns")
  refused(rows_factor(rows, 0), "positive")
  refused(rows_factor(rows, NA_real_), "finite")
  refused(rows_under(rows, rows_factor(rows, 1e-300), check_kernel("gaussian")), "bandwidth")
})

test_that("a product can be interrupted, and is right the next time", {
  case <- sparse_case(400, 40)
  of <- under(case, case$sparse, check_kernel("gaussian"), 1)
  stopped <- replace(case$run, "progress", list(\(fraction) stop("enough")))
  outcome <- tryCatch(rows_normal(of$rows, of$centers, case$v, NULL, NULL, stopped), interrupt = \(e) "interrupted")
  expect_identical(outcome, "interrupted")
  got <- rows_normal(of$rows, of$centers, case$v, NULL, NULL, case$run)$product
  expect_lt(normal_error(got, of$K, case$v), 1e-12)
})
