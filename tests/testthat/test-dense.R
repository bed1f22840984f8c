# The table of dense operations on the host; test-gpu-dense.R has that of CUDA devices.

for (n in c(0, 1, 2, 5, 33, 70, 150)) {
  test_that(paste("dense operations are R's matrix algebra, with any leading dimension: order", n), {
    set.seed(n)
    for (d in c(0, 1, 3, 40)) for (inner in c(0, 1, 17)) expect_gemm(c(n, d, inner))
    for (d in c(0, 1, 3, 40)) expect_syrk(n, d)
    for (d in c(0, 1, 3, 40)) expect_triangle(n, d, padding = d %% 3)
    expect_symmetric(n)
    expect_eigen(n)
    succeed()
  })
}

test_that("a triangle goes to the other one, also in place", {
  set.seed(4)
  for (n in c(0, 1, 2, 31, 33, 100)) expect_transpose(n)
  succeed()
})

test_that("factors and products of triangles in blocks are those of the library", {
  set.seed(5)
  for (n in c(0, 1, 2, 33, 100)) for (block in c(1, 3, 32, 100)) expect_blocked(n, block)
  succeed()
})

test_that("a matrix that is not positive definite is no failure: its pivot is told", {
  set.seed(1)
  expect_pivots()
})

test_that("a lower and an upper factor lie in one matrix with a column more", {
  set.seed(2)
  n <- 20
  A <- tcrossprod(random_matrix(n, n + 2))
  both <- matrix(NaN, n, n + 1)
  both[, seq_len(n)] <- only_triangle(A, 0, NaN)
  L <- run_dense("potrf", list(both[, seq_len(n)]))[[1]]
  both[!is.nan(both)] <- L[!is.nan(L)]
  upper <- both[, -1]
  upper[!lower.tri(upper)] <- chol(2 * A)[!lower.tri(A)]
  both[, -1] <- upper
  b <- random_matrix(n, 2)
  x <- run_dense("trsm", list(both[, seq_len(n)], b))[[2]]
  expect_matrix(x, forwardsolve(t(chol(A)), b), FALSE, "the lower one")
  y <- run_dense("trsm", list(both[, -1], b), UPPER)[[2]]
  expect_matrix(y, backsolve(chol(2 * A), b), FALSE, "the upper one")
  succeed()
})

test_that("matrices that do not go together, and floats on the host, are refused before BLAS sees them", {
  A <- diag(3)
  wide <- matrix(0, 3, 2)
  refused <- function(...) expect_error(run_dense(...), "do not match", class = "flashkernel_error_internal")
  refused("gemm", list(A, matrix(0, 2, 2), A))
  refused("gemm", list(A, wide, A))
  refused("gemm", list(A, wide, wide), TRANSPOSED_B)
  refused("gemm", list(wide, A, wide), TRANSPOSED_B)
  refused("syrk", list(wide, diag(2)))
  refused("syrk", list(A, wide))
  refused("trmm", list(A, wide), RIGHT)
  refused("trsm", list(wide, wide))
  refused("trsm", list(A, t(wide)))
  refused("potrf", list(wide))
  refused("lauum", list(t(wide)))
  refused("trtri", list(wide))
  refused("squares", list(A, matrix(0, 2, 1)))
  refused("squares", list(wide, matrix(0, 3, 1)))
  refused("blocked potrf", list(wide))
  refused("blocked trtri", list(wide))
  refused("blocked lauum", list(t(wide)))
  refused("transpose", list(A, wide))
  refused("transpose", list(A, diag(2), A))
  refused("eigen", list(A, matrix(0, 1, 3)))
  refused("eigen", list(A))
  floats <- expression(run_dense("gemm", list(A, A, A), single = TRUE))
  expect_error(eval(floats), "double precision", class = "flashkernel_error_unsupported")
})

test_that("without a GPU engine the table of devices is refused in words", {
  skip_if(flashkernel:::backend_info()$gpu_engine)
  somewhere <- expression(run_dense("syrk", list(diag(2), diag(2)), device = 0))
  expect_error(eval(somewhere), "no GPU engine is installed", class = "flashkernel_error_no_device")
})

test_that("the host has no halves: it multiplies doubles", {
  set.seed(9)
  for (sizes in list(c(1, 1, 1), c(5, 7, 3), c(40, 30, 100))) expect_halves(sizes, 2^-48)
  expect_error(run_dense("gemm", list(diag(2), diag(2), diag(2)), HALVES), "do not match")
})
