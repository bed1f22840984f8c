# Far from all points, and far from the origin.

test_that("a log density a thousand sds away is finite and right", {
  x <- example_points(50, 2)
  y <- rbind(c(1000, 0), c(0, -1000), c(1e6, 1e6), c(700, 700))
  H <- example_bandwidth(2, 0.5)
  for (precision in c("double", "single")) {
    relative <- if (precision == "double") 1e-12 else 1e-5
    kde <- flash_kde(x, estimator = "kde", bandwidth = H, control = flash_control(precision = precision))
    got <- predict(kde, y, type = "log_density")
    expect_true(all(is.finite(got)))
    expect_within(got, ref_log_kde(x, y, H), relative)
    sdkde <- flash_kde(x, estimator = "sdkde", bandwidth = H, control = flash_control(precision = precision))
    expect_within(
      predict(sdkde, y, type = "log_density"), ref_log_sdkde(x, y, H), relative
    )
    expect_identical(predict(kde, y), numeric(4))
    score <- predict(kde, y, type = "score")
    expect_within(score, ref_score(x, y, H), if (precision == "double") 1e-10 else 1e-4)
    laplace <- flash_kde(x, estimator = "laplace", bandwidth = H, control = flash_control(precision = precision))
    expect_true(all(is.finite(predict(laplace, y, type = "score"))))
    expect_identical(abs(predict(laplace, y)), numeric(4))
  }
})

test_that("queries any distance away, and weights of any size, keep their log densities and scores", {
  x <- c(-1.3, 0.2, 0.7, 2.1)
  y <- 10^(2:150) * rep(c(1, -1.37), length.out = 149)
  nearest <- ifelse(y > 0, 2.1, -1.3)
  for (estimator in c("kde", "laplace")) {
    fit <- flash_kde(x, estimator, bandwidth = 1)
    # from 100 sds on, the nearest point is all that counts
    z <- y - nearest
    laplace <- estimator == "laplace"
    want <- log(if (laplace) z^2 / 2 - 1.5 else 1) - z^2 / 2 - log(4) - log(2 * pi) / 2
    # log|p|, as the score goes by it; negative there
    got <- log_estimate(fit, matrix(y), FALSE, fit_control(fit))$log_abs
    expect_within(got, want, 1e-14)
    score <- if (laplace) z / (z^2 / 2 - 1.5) - z else -z
    expect_within(predict(fit, y, type = "score"), score, 1e-12)
  }
  far <- flash_kde(x, "kde", bandwidth = 1)
  for (weight in 10^-c(20, 60, 99, 200)) {
    light <- flash_kde(x, "kde", bandwidth = 1, weights = rep(weight, 4))
    at <- c(0, 30, 38, 60)
    expect_within(predict(light, at, "log_density"), predict(far, at, "log_density"), 1e-13)
  }
})

test_that("a score-debiased estimate has all its digits far from the origin", {
  grid <- \(x) round(x * 1024) / 1024 # and so is the sum with an offset
  set.seed(8)
  x <- matrix(grid(stats::rnorm(240)), ncol = 2)
  y <- matrix(grid(stats::rnorm(40)), ncol = 2)
  H <- matrix(c(0.2, 0.05, 0.05, 0.1), 2)
  for (offset in list(c(1e8, 0), c(-1e12, 1e12))) for (weights in list(NULL, rep(0:3, 30))) {
    far <- \(points) points + rep(offset, each = nrow(points))
    expect_identical(far(x) - rep(offset, each = 120), x)
    near <- flash_kde(x, bandwidth = H, debias = debiasing(bandwidth = H / 2), weights = weights)
    fit <- flash_kde(far(x), bandwidth = H, debias = debiasing(bandwidth = H / 2), weights = weights)
    fit <- unserialize(serialize(fit, NULL))
    logs <- \(fit, ...) predict(fit, ..., type = "log_density")
    expect_within(logs(fit, far(y)), logs(near, y), 1e-12)
    expect_within(logs(fit), logs(near), 1e-12)
    expect_within(logs(fit, loo = TRUE), logs(near, loo = TRUE), 1e-12)
    expect_within(predict(fit, far(y), type = "score"), predict(near, y, type = "score"), 1e-11)
    expect_within(predict(fit, far(y), se.fit = TRUE)$se.fit, predict(near, y, se.fit = TRUE)$se.fit, 1e-12)
    expect_within(logs(fit, far(y), tol = 1e-9, control = flash_control(tol_type = "pointwise")), logs(near, y), 1e-8)
    expect_within(as.data.frame(fit)$log_density, logs(near), 1e-12)
    expect_within(logLik(fit), logLik(near), 1e-12)
    # what is in the points' own units has their rounding
    expect_lt(max(abs(fit$debiased - far(near$debiased)) / max(abs(offset))), 2^-52)
    draws <- as.matrix(simulate(fit, 20, seed = 1))
    expect_lt(max(abs(draws - far(as.matrix(simulate(near, 20, seed = 1)))) / max(abs(offset))), 2^-52)
    expect_within(hdr_level(fit) / hdr_level(near), c(1, 1), 1e-3)
    expect_true(is.finite(diagnostics(update(fit, tol = 1e-6))$tolerance$achieved))
  }
  line <- flash_kde(x[, 1], bandwidth = 0.3)
  fit <- flash_kde(x[, 1] + 1e12, bandwidth = 0.3)
  expect_within(kde_cdf(fit, y[, 1] + 1e12), kde_cdf(line, y[, 1]), 1e-13)
  expect_lt(max(abs(quantile(fit, 1:9 / 10) - 1e12 - quantile(line, 1:9 / 10))), 1e-4)
  expect_equal(plain(kde_bandwidth(x + 1e12, "lcv", "sdkde")), plain(kde_bandwidth(x, "lcv", "sdkde")), tolerance = 1e-4, ignore_attr = TRUE)
  expect_null(line$centred)
})

test_that("an outlier takes no digits from the others, however far it is and wherever they are", {
  x <- example_points(60, 3)
  H <- example_bandwidth(3, 0.4)
  for (offset in c(0, 1e6)) for (distance in 10^c(2, 4, 8, 12, 16, 100)) {
    all <- rbind(x, c(distance, -distance, 0)) + offset
    near <- all[1:60, ] # rounded as they are
    fit <- flash_kde(all, "kde", bandwidth = H)
    want <- ref_log_kde(near, near, H) + log(60 / 61)
    expect_within(predict(fit, near, type = "log_density"), want, if (offset > 0) 1e-9 else 1e-12)
    debiased <- flash_kde(all, "sdkde", bandwidth = H)$debiased[1:60, ]
    expect_within(debiased - offset, ref_debias(near, H) - offset, if (offset > 0) 1e-8 else 1e-11)
  }
})
