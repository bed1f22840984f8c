# p-values of rows: beside counts written out, and uniform where they are promised to be.

ref_loo <- function(x, H, w, factor = \(q) 1, f = rep(1, nrow(x))) {
  vapply(seq_len(nrow(x)), \(i) {
    q <- ref_distance2(x, x[i, ], H) / f^2
    k <- w * exp(-q / 2) * factor(q) / f^ncol(x)
    sum(k[-i]) / sum(w[-i])
  }, 0)
}

test_that("ranks are those of leave-one-out densities", {
  x <- example_points(40, 2)
  y <- rbind(x[1:4, ] + 0.2, c(9, 9))
  H <- example_bandwidth(2)
  w <- seq(0.5, 2, length.out = 40)
  for (weights in list(NULL, w)) for (estimator in c("kde", "laplace", "adaptive")) {
    adaptive <- estimator == "adaptive"
    f <- if (adaptive) rep(c(0.8, 1.4), 20) else rep(1, 40)
    own <- list(bandwidth = H, weights = weights, adaptive = if (adaptive) f else FALSE)
    fit <- do.call(flash_kde, c(list(x, if (adaptive) "kde" else estimator), own))
    factor <- if (estimator == "laplace") \(q) 2 - q / 2 else \(q) 1
    weight <- ref_weights(x, weights)
    known <- ref_loo(x, H, weight, factor, f)
    # negative ones by the plain estimate, below all others
    known <- ifelse(known < 0, ref_loo(x, H, weight) - 10, known)
    own <- vapply(known, \(at) sum(weight[known <= at]), 0) / sum(weight)
    expect_equal(kde_pvalue(fit), own, label = estimator)
    at <- vapply(seq_len(nrow(y)), \(j) {
      q <- ref_distance2(x, y[j, ], H) / f^2
      p <- sum(weight * exp(-q / 2) * factor(q) / f^2) / sum(weight)
      if (p > 0) p else sum(weight * exp(-q / 2)) / sum(weight) - 10
    }, 0)
    below <- vapply(at, \(at) sum(weight[known <= at]), 0)
    expect_equal(kde_pvalue(fit, y), (mean(weight) + below) / (mean(weight) + sum(weight)), label = estimator)
  }
})

test_that("an SD-KDE is left out of both its stages", {
  x <- faithful$eruptions[1:30]
  fit <- flash_kde(x, "sdkde", bandwidth = 0.4)
  known <- vapply(1:30, \(i) predict(flash_kde(x[-i], "sdkde", bandwidth = 0.4), x[i]), 0)
  expect_equal(kde_pvalue(fit), rank(known, ties.method = "max") / 30)
})

test_that("p-values of training rows are 1/n to 1, whatever is fitted", {
  for (estimator in c("kde", "sdkde", "laplace")) {
    # without ties
    fit <- flash_kde(faithful$waiting + 1:272 / 1e4, estimator, bandwidth = 4)
    expect_equal(sort(kde_pvalue(fit)), 1:272 / 272, tolerance = 1e-12)
  }
  balloon <- flash_kde(faithful, adaptive = "balloon")
  expect_lte(mean(kde_pvalue(balloon) <= 0.1), 0.1)
})

test_that("calibration compares with rows that the fit has not seen", {
  fit <- flash_kde(faithful[1:150, ], bandwidth = c(0.3, 5))
  y <- data.frame(waiting = c(60, 95), eruptions = c(3, 2))
  known <- predict(fit, faithful[151:272, ])
  want <- vapply(predict(fit, y), \(at) (1 + sum(known <= at)) / 123, 0)
  expect_equal(kde_pvalue(fit, y, calibration = faithful[151:272, ]), want)
})

test_that("the integral is the mass of what is less dense", {
  fit <- flash_kde(faithful$waiting, "kde", bandwidth = 4)
  set.seed(4)
  y <- c(40, 65, 80)
  p <- kde_pvalue(fit, y, type = "integral", n_samples = 20000)
  grid <- seq(20, 120, by = 0.01)
  density <- predict(fit, grid)
  want <- vapply(predict(fit, y), \(at) sum(density[density <= at]) * 0.01, 0)
  expect_true(all(abs(p - want) < 0.015))
  # beside hdr_level(): in the region of 90% exactly where p > 0.1
  y <- seq(35, 105, by = 5)
  p <- kde_pvalue(fit, y, type = "integral")
  clear <- abs(p - 0.1) > 0.015
  expect_equal((predict(fit, y) >= hdr_level(fit, 0.9))[clear], (p > 0.1)[clear], ignore_attr = TRUE)
  # of the positive part
  signed <- flash_kde(faithful$waiting, "laplace", bandwidth = 4)
  expect_lt(kde_pvalue(signed, 120, type = "integral", n_samples = 500), 0.01)
})

test_that("p-values of new rows are uniform under the null", {
  skip_on_cran()
  set.seed(8)
  p <- replicate(400, {
    x <- matrix(stats::rt(2 * 61, 4), 61)
    fit <- flash_kde(x[1:60, ], "kde", bandwidth = "silverman")
    kde_pvalue(fit, x[61, , drop = FALSE])
  })
  expect_gt(stats::ks.test(p + stats::runif(400, -1, 0) / 61, "punif")$p.value, 0.01)
})

test_that("missing and infinite values, and what makes no sense", {
  fit <- flash_kde(c(faithful$waiting, NA), "kde", bandwidth = 4, na.action = na.exclude)
  expect_equal(is.na(kde_pvalue(fit)), c(rep(FALSE, 272), TRUE))
  p <- kde_pvalue(fit, c(NA, Inf, 70))
  expect_equal(p[1:2], c(NA, 1 / 273))
  expect_gt(p[3], 0.1)
  expect_argument_error(kde_pvalue(fit, type = "mass"), "type")
  expect_argument_error(kde_pvalue(fit, calibration = 1:3), "calibration|`calibration")
  expect_argument_error(kde_pvalue(fit, 50, type = "integral", calibration = 1:3), "calibration")
  expect_argument_error(kde_pvalue(fit, 50, calibration = c(1, NA)), "calibration")
  expect_argument_error(kde_pvalue(flash_kde(1, "kde", bandwidth = 1)), "object")
  expect_error(kde_pvalue(flash_kde(faithful, adaptive = "balloon"), type = "integral"), class = "flashkernel_error_unsupported")
  expect_error(kde_pvalue(1), class = "flashkernel_error_argument")
})
