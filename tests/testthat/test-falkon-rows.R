# Rows of falkon() in memory, in a big.matrix and from a function: products as of the matrix of kernels, in plain R.

rows_case <- function(n = 211, m = 17, d = 3, r = 2) {
  case <- normal_case(m, n, d, r)
  c(case, list(L = diag(0.8, d), H = diag(0.64, d), run = run_control(settle_control(NULL, list(backend = "cpu")))))
}

test_that("products with rows in memory are those of the matrix of kernels", {
  for (size in list(c(211, 17), c(1, 1), c(1, 5), c(6, 1))) {
    case <- rows_case(size[1], size[2])
    for (name in c("gaussian", "matern32")) {
      kernel <- check_kernel(name)
      rows <- falkon_rows(case$y, case$L, kernel)
      centers <- falkon_centers(case$x, case$L, kernel)
      K <- matrix(ref_kernel_matrix(case$x, case$y, case$H, name), size[1])
      expect_lt(max(abs(rows_multiply(rows, centers, case$v, case$run)$sums - K %*% case$v)), 1e-13)
      for (v in list(NULL, case$v)) for (w in list(NULL, case$w)) for (weights in list(NULL, case$weights)) {
        if (is.null(v) && is.null(w)) next
        got <- rows_normal(rows, centers, v, w, weights, case$run)$product
        expect_lt(max(normal_error(got, K, v, w, weights), 0, na.rm = TRUE), 1e-14)
      }
    }
  }
})

test_that("rows are taken in the order that is asked for, and folded over once each", {
  case <- rows_case(100)
  colnames(case$y) <- c("a", "b", "c")
  rows <- falkon_rows(case$y)
  expect_identical(rows[c("n", "d", "names")], list(n = 100L, d = 3L, names = c("a", "b", "c")))
  expect_identical(rows_take(rows, c(7, 3, 3)), case$y[c(7, 3, 3), ])
  before <- options(flashkernel.chunk_bytes = 8 * 3 * 7)
  on.exit(options(before))
  pieces <- rows_fold(rows, \(done, points, first) c(done, list(list(points, first))), list())
  expect_identical(do.call(rbind, lapply(pieces, `[[`, 1)), case$y)
  expect_identical(vapply(pieces, `[[`, 0, 2), seq(1, 100, by = 7))
})
