# Laplace-corrected conditional densities, beside loops in plain R and integrals.

# The corrected kernel of each point at a place, by its definition.
ref_corrected <- function(x, at, H, w) {
  d <- length(at)
  q <- apply(x, 1, \(row) sum((at - row) * solve(H, at - row)))
  w * exp(-q / 2) * (1 + d / 2 - q / 2) / sqrt(det(2 * pi * H))
}

laplace_case <- function(n = 50) {
  set.seed(4)
  data <- data.frame(a = stats::rnorm(n), b = stats::rnorm(n), w = stats::runif(n))
  data$y <- sin(data$a) + data$b / 2 + stats::rnorm(n) / 3
  data
}

test_that("p(y | x) is the ratio of two corrected sums, with its sign", {
  data <- laplace_case()
  at <- data.frame(y = c(0, 1, -2.5), a = c(0, 1, 2), b = c(0.5, 0.1, -2))
  x <- as.matrix(data[c("y", "a", "b")])
  for (H in list(diag(c(0.3, 0.4, 0.5)^2), example_bandwidth(3) / 4)) {
    fit <- flash_kde(y ~ a + b, data, estimator = "laplace", bandwidth = H, weights = data$w)
    want <- apply(as.matrix(at), 1, \(row) {
      sum(ref_corrected(x, row, H, data$w)) / sum(ref_corrected(x[, -1], row[-1], H[-1, -1], data$w))
    })
    expect_within(predict(fit, at), want, 1e-11)
    logs <- suppressWarnings(predict(fit, at, type = "log_density"))
    expect_identical(is.nan(logs), want < 0)
    expect_within(logs[want > 0], log(want[want > 0]), 1e-10)
    alone <- c(2, 31)
    left <- vapply(alone, \(i) {
      sum(ref_corrected(x[-i, ], x[i, ], H, data$w[-i])) /
        sum(ref_corrected(x[-i, -1], x[i, -1], H[-1, -1], data$w[-i]))
    }, 0)
    expect_within(predict(fit, loo = TRUE)[alone], left, 1e-10)
    # moments and the distribution function by integrals
    grid <- seq(-9, 9, 0.005)
    for (j in 1:2) {
      p <- predict(fit, data.frame(y = grid, at[rep(j, length(grid)), -1])) * 0.005
      expect_within(sum(p), 1, 1e-9)
      mean <- sum(p * grid)
      expect_within(predict(fit, at[j, ], type = "mean"), mean, 1e-8)
      expect_within(predict(fit, at[j, ], type = "variance"), sum(p * (grid - mean)^2), 1e-7)
      to <- which(grid > 0.4)[1]
      expect_within(kde_cdf(fit, grid[to], at[j, ])[1], sum(p[seq_len(to)]) - p[to] / 2, 1e-5)
    }
  }
  two <- flash_kde(cbind(y, b) ~ a, data, estimator = "laplace", bandwidth = 0.5)
  one <- flash_kde(b ~ a, data, estimator = "laplace", bandwidth = 0.5)
  expect_within(predict(two, data[1:5, ], type = "mean")[, 2], predict(one, data[1:5, ], type = "mean"), 1e-12)
  expect_within(predict(two, data[1:5, ], type = "variance")[, 2], predict(one, data[1:5, ], type = "variance"), 1e-12)
})

test_that("far from the points the nearest decides, whose kernel then is a plain one", {
  data <- laplace_case()
  fit <- flash_kde(y ~ a, data, estimator = "laplace", bandwidth = c(0.3, 0.2))
  far <- data.frame(a = c(40, 1e6), y = c(0.4, 0.4))
  last <- data$y[which.max(data$a)]
  q <- ((far$a - max(data$a)) / 0.2)^2
  share <- 1 + (1 - ((0.4 - last) / 0.3)^2) / 2 / (1.5 - q / 2)
  expect_equal(predict(fit, far), stats::dnorm(0.4, last, 0.3) * share, tolerance = 1e-9)
  expect_equal(predict(fit, far, type = "mean"), rep(last, 2))
  expect_equal(predict(fit, far, type = "cdf")[2], stats::pnorm(0.4, last, 0.3))
  expect_argument_error(predict(fit, data.frame(a = 1e200, y = 1), type = "mean"), "newdata")
})

test_that("levels of x weigh the points, and bandwidths are chosen", {
  data <- laplace_case(150)
  data$k <- ifelse(data$b > 0, "u", "v")
  lambda <- 0.1
  fit <- flash_kde(y ~ a + k, data, estimator = "laplace", bandwidth = c(0.4, 0.5), categorical = categorical_kernel(smoothing = lambda))
  at <- data.frame(y = 0.3, a = c(0, 50), k = c("u", "v"))
  data$own <- ifelse(data$k == "u", 1 - lambda, lambda)
  H <- diag(c(0.16, 0.25))
  x <- as.matrix(data[c("y", "a")])
  want <- sum(ref_corrected(x, c(0.3, 0), H, data$own)) /
    sum(ref_corrected(x[, 2, drop = FALSE], 0, H[2, 2, drop = FALSE], data$own))
  expect_within(predict(fit, at)[1], want, 1e-12)
  expect_true(all(is.finite(predict(fit, at, type = "mean"))))
  same <- flash_kde(y ~ a, data, estimator = "laplace", bandwidth = c(0.4, 0.5), weights = own)
  expect_within(predict(fit, at, type = "mean")[1], predict(same, at, type = "mean")[1], 1e-12)
  expect_within(predict(fit, at, type = "cdf")[1], predict(same, at, type = "cdf")[1], 1e-12)
  chosen <- flash_kde(y ~ a, data, estimator = "laplace")
  expect_true(all(coef(chosen) > coef(flash_kde(y ~ a, data))))
  for (call in list(quote(quantile(fit, at)), quote(simulate(fit)), quote(kde_conditional(fit, list(a = 0, k = "u"))))) {
    expect_error(eval(call), class = "flashkernel_error_unsupported")
  }
  expect_argument_error(flash_kde(k ~ a, data, estimator = "laplace"), "estimator")
  expect_argument_error(flash_kde(y ~ a, data, estimator = "laplace6"), "estimator")
  drawn <- with_null_device(plot(same, n = 30))
  expect_within(as.vector(drawn$z), predict(same, expand.grid(a = drawn$x, y = drawn$y)), 1e-11)
  expect_null(drawn$quantiles)
})

test_that("points without weight are no part of a Laplace-corrected conditional density far from the others", {
  x <- data.frame(y = c(1.9, 9.9), b = c(-0.1, -16.47), a = c(1.3, -13.08))
  fit <- \(rows, w) flash_kde(cbind(y, b) ~ a, x[rows, ], estimator = "laplace", bandwidth = 0.25, weights = w)
  new <- data.frame(y = c(0.6, 9.9, 2), b = c(-16.47, -16.47, -0.1), a = -13.08 + c(0, 0.1, 0))
  for (type in c("density", "log_density")) {
    expect_equal(predict(fit(1:2, 1:0), new, type), predict(fit(1, 1), new, type), tolerance = 1e-12)
  }
})
