# Rows of a larger matrix, and floats, are sent to a GPU as doubles of their own: the same bits.

gpu_views <- function(n, m, d) {
  set.seed(n + d)
  list(
    x = matrix(stats::runif(n * d), n) + 3, y = matrix(stats::runif(m * d), m) + 3, b = stats::rnorm(n),
    L = t(chol(example_bandwidth(d, 0.3)))
  )
}

test_that("exact sums of views on a GPU are those of their numbers, in every precision", {
  skip_if_no_gpu()
  case <- gpu_views(5000, 1200, 3)
  case$y[5, ] <- case$y[5, ] + 60 # a row in the tails
  columns <- cbind(case$b, case$b^2)
  for (precision in c("double", "single", "fast")) {
    control <- view_control(backend = "cuda", precision = precision)
    of <- \(what, ...) sums_of_views(case$L, "gaussian", ..., control, what)
    for (y in list(case$y, NULL)) {
      expect_same_of_views(case$x, y, of("sums", columns), paste("columns", precision))
      expect_same_of_views(case$x, y, of("logs", abs(case$b)), paste("logarithms", precision))
      expect_same_of_views(case$x, y, of("scores", NULL), paste("scores", precision))
    }
    expect_same_of_views(case$x, NULL, of("debiased", NULL), paste("debiased", precision))
  }
  control <- view_control(backend = "cuda")
  expect_same_of_views(case$x, NULL, sums_of_views(case$L, "gaussian", NULL, control, "debiased_loo"), "leave-one-out")
})

test_that("views are sent to a GPU in pieces", {
  skip_if_no_gpu()
  case <- gpu_views(400003, 50, 3) # more than a staging buffer's part of a column
  for (precision in c("double", "single")) {
    control <- view_control(backend = "cuda", precision = precision)
    expect_same_of_views(case$x, case$y, sums_of_views(case$L, "gaussian", case$b, control), precision)
    expect_same_of_views(case$y, case$x, sums_of_views(case$L, "gaussian", NULL, control), paste("targets", precision))
  }
})

test_that("grids of views on a GPU are those of their numbers", {
  skip_if_no_gpu()
  for (d in 1:3) with_method("grid", {
    case <- gpu_views(200003, 20000, d)
    case$y[1:20, ] <- case$y[1:20, ] + 9 # done again, by direct sums
    for (type in c("global", "pointwise")) {
      control <- view_control("fast", "cuda", "auto", tol = 1e-4, tol_type = type)
      where <- paste(type, "in", d, "dimensions")
      expect_same_of_views(case$x, case$y, sums_of_views(case$L, "gaussian", case$b, control), where)
      expect_same_of_views(case$x, NULL, sums_of_views(case$L, "gaussian", case$b, control), paste(where, "at the points"))
    }
    control <- view_control("fast", "cuda", "auto", tol = 1e-4)
    expect_same_of_views(case$x, case$y, sums_of_views(case$L, "gaussian", NULL, control, "scores"), paste("scores", d))
  })
})
