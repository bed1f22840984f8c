# Signed estimates, clipped at 0 and divided by the mass that is left.

test_that("a clipped estimate is the positive part over its mass, and integrates to one", {
  x <- faithful$eruptions
  for (estimator in c("laplace", "laplace6")) for (weighted in c(FALSE, TRUE)) {
    w <- if (weighted) seq(0, 1, length.out = length(x))
    fit <- flash_kde(x, estimator, bandwidth = 0.25, weights = w, debias = debiasing(nonnegative = TRUE))
    signed <- flash_kde(x, estimator, bandwidth = 0.25, weights = w)
    side <- seq(-2, 9, by = 5e-4)
    p <- predict(signed, side)
    expect_gt(sum(p < 0), 100)
    below <- -sum(pmin(p, 0)) * 5e-4
    expect_within(fit$nonnegative$value, below, 1e-5)
    expect_within(predict(fit, side), pmax(p, 0) / (1 + fit$nonnegative$value), 1e-14)
    expect_equal(sum(predict(fit, side)) * 5e-4, 1, tolerance = 1e-5)
    logs <- predict(fit, side, type = "log_density")
    expect_identical(is.finite(logs), p > 0)
    expect_false(anyNA(logs))
  }
})

test_that("in two dimensions, too; in more its mass is known up to a standard error", {
  x <- example_points(80, 2)
  fit <- flash_kde(x, "laplace", bandwidth = example_bandwidth(2, 0.5), debias = debiasing(nonnegative = TRUE))
  side <- seq(-9, 9, by = 0.06)
  expect_equal(sum(predict(fit, as.matrix(expand.grid(side, side)))) * 0.06^2, 1, tolerance = 1e-3)
  fit <- flash_kde(iris[1:4], "laplace", bandwidth = 0.3, debias = debiasing(nonnegative = TRUE))
  expect_identical(fit$nonnegative$method, "sampling")
  expect_lt(fit$nonnegative$se, 0.01)
  # of draws from the plain estimate those with the positive part have its mass
  plain <- flash_kde(iris[1:4], "kde", bandwidth = 0.3, adaptive = FALSE)
  draws <- simulate(plain, 20000, seed = 1)
  share <- predict(fit, draws) / predict(plain, draws)
  expect_within(mean(share), 1, 4 * stats::sd(share) / sqrt(20000) + 4 * fit$nonnegative$se)
})

test_that("errors and scores are those of the positive part, levels and figures, too", {
  x <- example_points(60, 2)
  H <- example_bandwidth(2, 0.5)
  fit <- flash_kde(x, "laplace", bandwidth = H, debias = debiasing(nonnegative = TRUE))
  signed <- flash_kde(x, "laplace", bandwidth = H)
  y <- rbind(x[1:5, ], c(0, 6), c(20, 20))
  scale <- 1 + fit$nonnegative$value
  expect_equal(predict(fit, y, se.fit = TRUE)$se.fit, predict(signed, y, se.fit = TRUE)$se.fit / scale)
  positive <- predict(signed, y) > 0
  expect_true(any(!positive))
  expect_equal(predict(fit, y, type = "score")[positive, ], predict(signed, y, type = "score")[positive, ])
  expect_true(all(is.nan(predict(fit, y, type = "score")[!positive, ])))
  expect_equal(hdr_level(fit), hdr_level(signed) / scale)
  expect_equal(signed_density(log_shown(shown_part(fit), y)), predict(fit, y))
  expect_true(all(predict(fit, as.matrix(simulate(fit, 200, seed = 2))) > 0))
  expect_within(predict(fit, loo = TRUE), pmax(predict(signed, loo = TRUE), 0) / scale, 1e-15)
})

test_that("its mass is told, kept, and found again", {
  fit <- flash_kde(faithful, "laplace", bandwidth = c(0.3, 4), debias = debiasing(nonnegative = TRUE))
  expect_output(print(fit), "non-negative")
  expect_output(print(fit), format(fit$nonnegative$value, digits = 4), fixed = TRUE)
  expect_identical(diagnostics(fit)$negative_mass, fit$nonnegative)
  expect_equal(fit$nonnegative, diagnostics(flash_kde(faithful, "laplace", bandwidth = c(0.3, 4)))$negative_mass)
  expect_output(print(summary(fit)), "Clipped at 0")
  # without a name it is the estimator that can be
  expect_identical(flash_kde(faithful, debias = debiasing(nonnegative = TRUE))$estimator, "laplace")
  far <- flash_kde(faithful + 2^30, "laplace", bandwidth = c(0.3, 4), debias = debiasing(nonnegative = TRUE))
  expect_equal(far$nonnegative$value, fit$nonnegative$value, tolerance = 1e-4)
})

test_that("the distribution function is the integral of the positive part, and quantiles invert it", {
  x <- c(faithful$eruptions, 9, 30)
  side <- seq(-3, 36, by = 1e-3)
  q <- c(-1, 1.2, 3, 5.3, 6, 9, 20, 30.1)
  for (estimator in c("laplace", "laplace6")) for (offset in c(0, 2^20)) {
    fit <- flash_kde(x + offset, estimator, bandwidth = 0.25, debias = debiasing(nonnegative = TRUE))
    p <- predict(fit, side + offset)
    area <- vapply(q, \(at) (sum(p[side < at - 1e-9]) + p[which.min(abs(side - at))] / 2) * 1e-3, 0)
    expect_within(kde_cdf(fit, q + offset), area, 1e-4, estimator)
    expect_gte(min(diff(kde_cdf(fit, side + offset))), -1e-15)
    probs <- c(1e-9, 0.2, 0.6, 0.99, 1 - 1e-9)
    expect_within(kde_cdf(fit, quantile(fit, probs)), probs, 1e-7)
  }
  expect_identical(kde_cdf(fit, c(-Inf, Inf)), c(0, 1))
  apart <- flash_kde(c(0, 1, 1e6), "laplace", bandwidth = 0.3, debias = debiasing(nonnegative = TRUE))
  expect_error(kde_cdf(apart, 0), "simulate", class = "flashkernel_error_unsupported")
})

test_that("what has no sign is refused in words", {
  expect_argument_error(flash_kde(faithful, "kde", debias = debiasing(nonnegative = TRUE)), "debias$nonnegative")
  for (bad in list(NA, 1, "yes", NULL)) {
    expect_argument_error(flash_kde(faithful, "laplace", debias = debiasing(nonnegative = bad)), "nonnegative")
  }
})

test_that("rectangles under a clipped estimate are differences of its distribution function, or shares of draws", {
  line <- flash_kde(faithful$eruptions, "laplace", 0.3, debias = debiasing(nonnegative = TRUE))
  expect_equal(kde_cdf(line, matrix(c(4, Inf)), lower = 2), kde_cdf(line, c(4, Inf)) - kde_cdf(line, 2))
  plane <- flash_kde(faithful, "laplace", c(0.3, 5), debias = debiasing(nonnegative = TRUE))
  found <- kde_cdf(plane, cbind(4, 80), lower = cbind(2, 50))
  side <- \(from, to) from + (to - from) * (1:200 - 0.5) / 200
  area <- sum(predict(plane, expand.grid(eruptions = side(2, 4), waiting = side(50, 80)))) * 2 * 30 / 200^2
  expect_lt(abs(found - area), attr(found, "error"))
})
