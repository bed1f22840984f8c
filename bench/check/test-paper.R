# Tests the measures of the scripts of bench/paper: exact errors, true scores and integrals by points. A mistake in them
# would make the figures wrong unnoticed.

oracle <- local({
  bench_folder <- ".."
  backend <- "cpu"
  source(file.path(bench_folder, "paper", "oracle.R"), local = TRUE)
  environment()
})

test_that("the exact error of an estimate is that of its mean and of its variance", {
  at <- matrix(seq(-14, 14, length.out = 4001))
  step <- at[2] - at[1]
  for (mixture in list(oracle$PAPER_1D, oracle$SDKDE_1D[[2]])) for (h in c(0.2, 0.6)) {
    f <- exp(oracle$log_density_mixture(at, mixture))
    for (estimator in c("kde", "laplace")) {
      mean <- oracle$mixture_smoothed(at, mixture, matrix(h^2), estimator == "laplace")
      kernel <- oracle$ESTIMATORS[[estimator]](0, at, h, NULL)
      by_grid <- sum((mean - f)^2) * step + (sum(kernel^2) - sum(mean^2)) * step / 50
      expect_equal(oracle$exact_mise(mixture, h, 50, estimator), by_grid, tolerance = 1e-8)
    }
  }
})

test_that("in several dimensions it is what samples have", {
  set.seed(1)
  mixture <- oracle$normal_mixture(c(1, 2), rbind(c(0, 0, 0), c(2, 1, 0)), list(diag(3), diag(c(0.5, 1, 2))))
  for (estimator in c("kde", "laplace")) {
    errors <- replicate(30, {
      x <- oracle$draw_mixture(100, mixture)
      points <- oracle$drawn_points(mixture, 1000, 0.6, sample.int(1e6, 1))
      value <- oracle$ESTIMATORS[[estimator]](x, points$at, 0.6, NULL)
      oracle$losses(value, points$truth, points$weight)[["mise"]]
    })
    exact <- oracle$exact_mise(mixture, 0.6, 100, estimator)
    expect_lt(abs(mean(errors) - exact), 4 * sd(errors) / sqrt(30))
    expect_lt(sd(errors) / sqrt(30), 0.06 * exact)
  }
})

test_that("the true score is the slope of the log density, and two passes are one", {
  mixture <- oracle$standardised(oracle$paper_16d(1), 1:16 / 10, 1 + 1:16 / 10)
  set.seed(2)
  x <- oracle$draw_mixture(40, mixture)
  shifted <- x
  shifted[, 3] <- x[, 3] + 1e-5
  slope <- (oracle$log_density_mixture(shifted, mixture) - oracle$log_density_mixture(x, mixture)) / 1e-5
  expect_equal(oracle$mixture_score(x, mixture)[, 3], slope, tolerance = 1e-4)
  fused <- oracle$ESTIMATORS$laplace(x[1:30, ], x[31:40, ], 0.7)
  twice <- oracle$laplace_two_passes(x[1:30, ], x[31:40, ], 0.7)
  expect_equal(twice / max(abs(fused)), fused / max(abs(fused)), tolerance = 1e-9)
})
