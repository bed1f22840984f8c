# Dense operations on a GPU, by cuBLAS and cuSOLVER or our own functions, in double and single precision.

for (single in c(FALSE, TRUE)) for (n in c(0, 1, 2, 5, 33, 70, 300, 520)) {
  test_that(paste("dense operations of a GPU are R's matrix algebra: order", n, if (single) "single" else "double"), {
    skip_if_no_gpu()
    set.seed(n)
    for (d in c(0, 1, 3, 40)) for (inner in c(0, 1, 17)) expect_gemm(c(n, d, inner), device = 0, single = single)
    for (d in c(0, 1, 3, 40)) expect_syrk(n, d, device = 0, single = single)
    for (d in c(0, 1, 3, 40)) expect_triangle(n, d, device = 0, single = single, padding = d %% 3)
    expect_symmetric(n, device = 0, single = single)
    expect_transpose(n, device = 0, single = single)
    for (block in c(32, 100)) expect_blocked(n, block, device = 0, single = single)
    succeed()
  })
}

test_that("a matrix that is not positive definite on a GPU is no failure: its pivot is told", {
  skip_if_no_gpu()
  set.seed(1)
  for (single in c(FALSE, TRUE)) expect_pivots(device = 0, single = single)
})

test_that("systems of few columns of larger matrices are solved on a GPU", {
  skip_if_no_gpu()
  set.seed(5)
  A <- random_triangle(2600)
  b <- random_matrix(2600, 7)
  for (flags in c(0, UPPER)) {
    got <- run_dense("trsm", list(only_triangle(A, flags, NaN), b), flags, c(1, 0), device = 0)[[2]]
    expect_equal(got, backsolve(only_triangle(A, flags), b, upper.tri = flags == UPPER), tolerance = 1e-10)
  }
})

test_that("dense operations of a GPU have the same bits each time, also on fresh handles", {
  skip_if_no_gpu()
  set.seed(3)
  n <- 1500
  A <- random_matrix(n, n)
  S <- tcrossprod(A) / n + diag(n)
  b <- random_matrix(n, 7)
  all_of_them <- function() {
    list(
      run_dense("gemm", list(A, A, A), device = 0), run_dense("syrk", list(A, S), device = 0),
      run_dense("trsm", list(S, b), device = 0), run_dense("trmm", list(S, A), UPPER, device = 0),
      run_dense("potrf", list(S), device = 0), run_dense("lauum", list(S), device = 0)
    )
  }
  first <- all_of_them()
  expect_identical(all_of_them(), first)
  gpu_release()
  expect_identical(all_of_them(), first)
})

test_that("matrices that do not go together are refused on a GPU, too, and those that do not fit", {
  skip_if_no_gpu()
  refused <- function(...) expect_error(run_dense(..., device = 0), class = "flashkernel_error_internal")
  refused("gemm", list(diag(3), diag(2), diag(3)))
  refused("potrf", list(matrix(0, 3, 2)))
  large <- \() run_dense("gemm", list(diag(400), diag(400), diag(400)), device = 0)
  with_variable("FLASHKERNEL_CUDA_MEMORY", "1e6", expect_error(large(), class = "flashkernel_error_alloc"))
})

test_that("products of matrices of the host may be those of a GPU", {
  skip_if_no_gpu()
  a <- with_fixed_seed(random_matrix(900, 600))
  b <- a[, 600:1]
  run <- cuda_run()
  expect_equal(matrix_crossprod(a, b, run), crossprod(a, b), tolerance = 1e-12)
  expect_equal(matrix_crossprod(a, a, run), crossprod(a), tolerance = 1e-12)
  expect_equal(matrix_tcrossprod(a, b, run), tcrossprod(a, b), tolerance = 1e-12)
  expect_equal(matrix_product(a, t(b), run), a %*% t(b), tolerance = 1e-12)
})

test_that("giving the GPU back takes the libraries' handles and their memory, too", {
  skip_if_no_gpu()
  expect_freed(times = 8, \() {
    run_dense("gemm", list(diag(9), diag(9), diag(9)), device = 0)
    run_dense("potrf", list(diag(9)), device = 0)
    gpu_release()
  })
})

test_that("a forked child has no dense operations of its parent's GPU", {
  skip_on_os("windows")
  skip_if_no_gpu()
  expect_no_fork(\() run_dense("gemm", list(diag(1), diag(1), diag(1)), device = 0))
})

test_that("all of this holds by cuBLAS and cuSOLVER, too, which small matrices do not start", {
  skip_if_no_gpu()
  skip_if(nzchar(Sys.getenv("FLASHKERNEL_CUBLAS")), "the libraries are chosen already")
  again <- function(folder) {
    as.data.frame(testthat::test_dir(folder, "gpu-dense",
      reporter = "silent", package = "flashkernel", load_package = "installed", stop_on_failure = FALSE
    ))
  }
  got <- in_child(again, list(getwd()), c(FLASHKERNEL_CUBLAS = "always", NOT_CRAN = "true"), timeout = 300)
  expect_gt(nrow(got), 10)
  expect_identical(got$test[got$failed > 0 | got$error], character())
})

# so that "auto" counts the start of CUDA again in the files that follow
gpu_release()

test_that("products of halves on a GPU have the digits of floats, relative to columns of any size", {
  skip_if_no_gpu()
  set.seed(9)
  # sums of more than 4096 come in chunks
  for (sizes in list(c(1, 1, 1), c(5, 7, 3), c(130, 33, 70), c(64, 65, 4097), c(20, 300, 9000))) {
    expect_halves(sizes, 2^-18, device = 0)
    expect_halves(sizes, 2^-13, stats::runif, device = 0) # tensor cores cut sums off, those of one sign most
  }
  A <- random_matrix(100, 20)
  A[, 3] <- 0
  got <- run_dense("gemm", list(A, A, diag(20)), TRANSPOSED + HALVES, c(1, 1), device = 0)[[3]]
  expect_equal(got, crossprod(A) + diag(20), tolerance = 1e-5)
  expect_identical(got[3, ], diag(20)[3, ])
  A[5, 4] <- NaN
  got <- run_dense("gemm", list(A, A, diag(20)), TRANSPOSED + HALVES, c(1, 1), device = 0)[[3]]
  expect_identical(is.nan(got), row(got) == 4 | col(got) == 4)
  empty <- matrix(0, 0, 20)
  got <- run_dense("gemm", list(empty, empty, diag(20)), TRANSPOSED + HALVES, c(1, 2), device = 0)[[3]]
  expect_identical(got, diag(2, 20))
})
