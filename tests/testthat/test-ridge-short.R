# 250 places of two rows each, 500 of one, and new rows at the former, whose responses share a level that no column shows
clustered <- with_fixed_seed({
  place <- c(1:750, 1:250, 1:250)
  x <- matrix(stats::rnorm(4500), 750)[place, ] + matrix(stats::rnorm(7500) / 1000, 1250)
  smooth <- x[, 1] + sin(x[, 2]) + x[, 3] / 2
  list(x = x, smooth = x[, 1] + stats::rnorm(1250), y = smooth + stats::rnorm(750)[place] + stats::rnorm(1250) / 20)
}, 1)
in_fit <- 1:1000

run <- run_control(settle_control(NULL, list(backend = "cpu")))
sample_of <- function(y, rows) {
  points <- clustered$x[rows, ]
  list(points = points, y = matrix(y[rows] - mean(y[rows])), rows = ridge_rows(points))
}
choice <- list(kernel = kernel_spec("gaussian"), bandwidth = rep(8, 6), noise = 1)

test_that("add_short_range() adds a term where close rows agree, and none where the mean is smooth", {
  found <- add_short_range(choice, sample_of(clustered$y, in_fit), list(), run)
  terms <- found$kernel$terms
  expect_identical(lapply(terms, `[[`, "columns"), list(1:6, 1:6))
  expect_equal(sum(vapply(terms, `[[`, 0, "scale")), 1)
  expect_equal(terms[[2]]$L, SHORT_RANGE * diag(8, 6))
  expect_null(found$folds)
  expect_null(add_short_range(choice, sample_of(clustered$smooth, in_fit), list(), run)$kernel$terms)
  few <- sample_of(clustered$y, seq_len(SHORT_ROWS - 1))
  expect_identical(add_short_range(choice, few, list(), run), choice)
})

test_that("add_short_range() compares leave-one-out errors of the sums of both kernels, and keeps a given lambda", {
  sample <- sample_of(clustered$y, in_fit)
  squares <- short_range_squares(choice, 1, sample, run)
  distance <- as.matrix(stats::dist(sample$points / 8))
  K <- 0.7 * exp(-distance^2 / 2) + 0.3 * exp(-(distance / SHORT_RANGE)^2 / 2)
  inverse <- solve(K + diag(1000))
  expect_equal(squares[, 3], as.vector((inverse %*% sample$y / diag(inverse))^2), tolerance = 1e-8)
  expect_identical(add_short_range(choice, sample, list(lambda = 1), run)$noise, choice$noise)
})

test_that("kernel_ridge() predicts rows at known places by a term of short range, and tune_ridge() keeps it", {
  fit <- kernel_ridge(clustered$x[in_fit, ], clustered$y[in_fit])
  tuned <- tune_ridge(clustered$x[in_fit, ], clustered$y[in_fit], seconds = 1e-3) # the default, as there is no time for more
  expect_identical(coef(tuned), coef(fit))
  expect_output(print(fit), "0.05 times as wide one with share 0.3")
  new <- clustered$x[-in_fit, ]
  # the levels, which no smooth function of the columns has, have standard deviation 1
  expect_lt(sqrt(mean((predict(fit, new) - clustered$y[-in_fit])^2)), 0.6)
  expect_true(all(predict(fit, new[1:3, ], se.fit = TRUE)$se.fit > 0))
})

test_that("kernel_ridge() has a term of short range for classes, but not for a given bandwidth", {
  class <- factor(ifelse(clustered$y > 0, "high", "low"))
  fit <- kernel_ridge(clustered$x[in_fit, ], class[in_fit])
  expect_output(print(fit), "0.05 times as wide one")
  right <- mean(predict(fit, clustered$x[-in_fit, ], type = "class") == class[-in_fit])
  expect_gt(right, 0.85)
  given <- kernel_ridge(clustered$x[in_fit, ], clustered$y[in_fit], bandwidth = 8)
  expect_null(given$kernel$terms)
})
