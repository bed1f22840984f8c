# Tests what the scripts of bench/paper compute themselves: flops of the paper's model, and conjugate gradients.

parts <- local({
  for (file in c("flops.R", "cg.R")) {
    source(file.path("..", "paper", file), local = TRUE)
  }
  environment()
})

test_that("flops are those that the paper prints for m = n / 8", {
  rows <- data.frame(estimator = "sdkde", d = c(16, 1), n = 32768, m = 4096)
  expect_equal(parts$paper_flops(rows), c(81.5, 17.75) * 32768^2)
  expect_equal(parts$paper_flops(replace(rows, "estimator", "kde")), c(44, 14) * 32768 * 4096)
})

test_that("conjugate gradients solve each column, and say how far they are", {
  set.seed(1)
  A <- crossprod(matrix(rnorm(400), 20)) + diag(20)
  b <- cbind(rnorm(20), 1e-6 * rnorm(20))
  seen <- numeric()
  found <- parts$conjugate_gradients(\(v) A %*% v, b, tol = 1e-10, each = \(i, x, residual) seen <<- c(seen, residual))
  expect_equal(found$x, solve(A, b), tolerance = 1e-8)
  expect_length(seen, found$iterations)
  expect_lt(seen[found$iterations], 1e-10)
  few <- parts$conjugate_gradients(\(v) A %*% v, b, tol = 0, max_iter = 3)
  expect_equal(few$iterations, 3)
  left <- sqrt(colSums((b - A %*% few$x)^2) / colSums(b^2))
  expect_equal(few$residual, max(left), tolerance = 1e-8)
})
