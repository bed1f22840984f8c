# Numbers over all decades of doubles, on the CPU and on a GPU.

# Estimates near light points must not change if other points, far away, weigh 10^600 times as much.
expect_light_points_kept <- function(backend) {
  light <- example_points(30, 2)
  heavy <- sweep(example_points(20, 2), 2, c(400, 700), "+")
  H <- example_bandwidth(2)
  w <- c(seq(1, 9, length.out = 30) * 1e-312, seq(1, 2, length.out = 20) * 1e300)
  at <- light[1:12, ] + 0.3
  for (estimator in c("kde", "sdkde", "laplace")) {
    fit <- flash_kde(rbind(light, heavy), estimator, bandwidth = H, weights = w, control = flash_control(backend = backend, precision = "double"))
    alone <- flash_kde(light, estimator, bandwidth = H, weights = w[1:30], control = flash_control(backend = backend, precision = "double"))
    share <- log(sum(w[1:30])) - log(sum(w))
    positive <- predict(alone, at) > 0
    expect_gt(sum(positive), 8)
    log_density <- \(fit, ...) suppressWarnings(predict(fit, ..., type = "log_density"))
    expect_within(log_density(fit, at)[positive] - share, log_density(alone, at)[positive], 1e-11, estimator)
    expect_within(predict(fit, at, type = "score"), predict(alone, at, type = "score"), 1e-10, estimator)
    loo <- log_density(fit, loo = TRUE)[1:30]
    loo_alone <- log_density(alone, loo = TRUE) + log(1 - w[1:30] / sum(w[1:30]))
    expect_within((loo - share)[is.finite(loo_alone)], loo_alone[is.finite(loo_alone)], 1e-11, estimator)
    if (estimator == "sdkde") expect_within(fit$debiased[1:30, ], alone$debiased, 1e-10)
  }
}

# Terms with coefficients over 600 decades must count however far below the largest they are.
expect_decades_kept <- function(backend) {
  matvec <- \(b, kernel) {
    kernel_sum(
      x, y, b, bandwidth = 1, kernel = kernel,
      control = flash_control(engine = "exact", precision = "double", backend = backend)
    )
  }
  x <- c(0, 1, 800, 805)
  b <- cbind(c(1e300, -1e290, 1e-300, 2e-310), 1, c(1e304, 0, 1, 2))
  y <- c(0.5, 38.2, 700, 802)
  r <- abs(outer(y, x, "-"))
  logs <- list(
    gaussian = -r^2 / 2, laplacian = -r, product_laplacian = -r, powered_exponential = -r^1.4, matern32 = log1p(sqrt(3) * r) - sqrt(3) * r,
    matern52 = log(1 + sqrt(5) * r + 5 * r^2 / 3) - sqrt(5) * r
  )
  for (kernel in names(logs)) {
    want <- sapply(1:3, \(v) {
      sapply(1:4, \(j) sum(sign(b[, v]) * exp(logs[[kernel]][j, ] + log(abs(b[, v])))))
    })
    error <- \(got, want) ifelse(want == 0, got, (got - want) / want)
    got <- matvec(b, kernel)
    expect_within(error(got, want), matrix(0, 4, 3), 1e-12, kernel)
    one <- matvec(b[, 1], kernel)
    expect_within(error(one, want[, 1]), numeric(4), 1e-12, kernel)
  }
}
