# The Laplace-corrected estimate of order 6: the kernel times the second Laguerre polynomial.

ref_laplace6 <- function(x, y, H, weights = NULL) {
  kind <- ref_polynomials$laplace6(ncol(x))
  s <- ref_log_sum(x, y, H, weights, \(q) kind$value(q / 2))
  s$sign * exp(s$log_abs + ref_log_norm(H, sum(ref_weights(x, weights))))
}

test_that("the kernel has mass 1 and no moments below the sixth, and is that of its marginals", {
  for (d in 1:2) {
    fit <- flash_kde(matrix(0, 1, d), "laplace6", bandwidth = 1)
    side <- seq(-11, 11, by = 0.1)
    at <- as.matrix(expand.grid(rep(list(side), d)))
    k <- predict(fit, at) * 0.1^d
    moment <- \(power) sum(k * at[, 1]^power)
    expect_within(vapply(0:6, moment, 0), c(1, 0, 0, 0, 0, 0, 15), 1e-9, paste("d =", d))
    if (d == 2) {
      marginal <- rowSums(matrix(k, length(side))) / 0.1
      line <- flash_kde(0, "laplace6", bandwidth = 1)
      expect_within(marginal, predict(line, side), 1e-10)
      expect_within(sum(k * at[, 1]^2 * at[, 2]^2), 0, 1e-9)
    }
  }
})

test_that("densities and scores are those of the formula", {
  for (d in c(1, 2, 5)) {
    x <- matrix(example_points(40, max(d, 2))[, seq_len(d)], 40)
    y <- matrix(example_points(15, max(d, 2), seed = 2)[, seq_len(d)], 15)
    H <- example_bandwidth(d)
    w <- seq(0.1, 2, length.out = 40)
    fit <- flash_kde(x, "laplace6", bandwidth = H, weights = w)
    expect_within(predict(fit, y), ref_laplace6(x, y, H, w), 1e-13)
    gradient <- ref_gradient(\(y) log(abs(ref_laplace6(x, y, H, w))), y, 1e-5)
    score <- predict(fit, y, type = "score")
    expect_within(score / (1 + abs(gradient)), matrix(gradient, 15) / (1 + abs(gradient)), 1e-4)
  }
})

test_that("on normal data, smoothed exactly, the bias is of order h^6", {
  x <- seq(-9, 9, by = 0.05)
  # (1 - A + A^2 / 2) of N(0, 1 + h^2) at 0: A = h^2 / 2 D^2
  exact <- \(h) dnorm(0, sd = sqrt(1 + h^2)) * (1 + h^2 / 2 / (1 + h^2) + 3 / 8 * h^4 / (1 + h^2)^2)
  at_0 <- \(h) predict(flash_kde(x, "laplace6", bandwidth = h, weights = dnorm(x)), 0)
  expect_within(at_0(0.4), exact(0.4), 1e-12)
  expect_within(log2((at_0(0.4) - dnorm(0)) / (at_0(0.2) - dnorm(0))), 6, 0.4)
})

test_that("the bound of the rejection holds, and is not idle", {
  for (d in c(1, 2, 4, 8)) {
    fit <- flash_kde(matrix(0, 1, d), "laplace6", bandwidth = 1)
    envelope <- envelope_of(unclass(fit))
    t <- seq(0, 60, by = 0.001)
    value <- ref_polynomials$laplace6(d)$value(t)
    ratio <- max(value * exp(-t)) # at 0 or far out, over the wider kernel
    over <- max(value * exp(-t + t / envelope$inflate^2) * envelope$inflate^d)
    expect_within(over / envelope$bound, 1, 1e-6, paste("d =", d))
    expect_gte(envelope$bound, ratio)
  }
})

test_that("bandwidths are found for it, wider than those of order 4", {
  set.seed(1)
  x <- matrix(stats::rnorm(600), ncol = 2)
  for (name in c("auto", "silverman")) {
    four <- flash_kde(x, "laplace", bandwidth = name)$bandwidth
    six <- flash_kde(x, "laplace6", bandwidth = name)$bandwidth
    expect_gt(six[1, 1], four[1, 1])
  }
  # the rule minimises R / (n h^d) + h^12 times the squared bias of normal data, in one dimension by quadrature
  u <- seq(-12, 12, by = 0.01)
  k <- ref_polynomials$laplace6(1)$value(u^2 / 2) * dnorm(u)
  sixth <- (u^6 - 15 * u^4 + 45 * u^2 - 15) * dnorm(u)
  roughness <- sum(k^2) * 0.01
  squared_bias <- sum((sixth / 8 / 6)^2) * 0.01
  expect_equal(ESTIMATORS$laplace6$reference(1), roughness / (12 * squared_bias), tolerance = 1e-8)
  for (d in 1:7) expect_equal(laplace_reference(d, 2), ESTIMATORS$laplace$reference(d))
})

test_that("it has no local factors, and says that it may be negative", {
  fit <- flash_kde(faithful, "laplace6", bandwidth = c(0.3, 4))
  expect_argument_error(flash_kde(faithful, "laplace6", adaptive = TRUE), "adaptive")
  expect_output(print(fit), "order 6 \\(signed\\)")
})
