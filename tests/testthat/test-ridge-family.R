# Families of kernel_ridge(): against the optimum of the penalised loss in plain R, glm(), and conditions of optimality.

family_x <- matrix(sin(1:160 * 1.7) * 2, 80, 2)
family_mean <- exp(0.8 + sin(family_x[, 1]) + 0.3 * family_x[, 2])
family_counts <- stats::qpois((1:80 * (sqrt(5) - 1) / 2) %% 1, family_mean)
family_weights <- rep(c(1, 2, 0.5, 0), 20)
family_offset <- log(rep(1:4, each = 20) / 2)
family_fit <- function(y, family, ..., lambda = 1e-2) {
  kernel_ridge(
    family_x, y, family = family, bandwidth = 1.5, lambda = lambda, solver = list(tolerance = 1e-13, iterations = 200), ...
  )
}

# Half the unit deviance, as stats has it.
literal_half <- function(family, y, f) family$dev.resids(y, family$linkinv(f), rep(1, length(y))) / 2

test_that("Poisson and Gamma fits are the optimum of the penalised deviance, with weights and offset", {
  K <- gaussian_kernels(family_x, family_x, c(1.5, 1.5))
  for (family in list(stats::poisson(), stats::Gamma("log"))) {
    y <- family_counts + (family$family == "Gamma") * 0.5
    fit <- family_fit(y, family, weights = family_weights, offset = family_offset)
    null <- stats::glm(y ~ 1, family, weights = family_weights, offset = family_offset)
    expect_equal(fit$intercept, unname(coef(null)), tolerance = 1e-7)
    expect_equal(null_deviance(fit), null$deviance, tolerance = 1e-8)
    objective <- \(alpha) {
      f <- fit$intercept + family_offset + K %*% alpha
      mean(family_weights * literal_half(family, y, f)) + 1e-2 * sum(alpha * K %*% alpha) / 2
    }
    alpha <- coef(fit)
    found <- stats::optim(alpha, objective, method = "BFGS", control = list(reltol = 1e-14))
    expect_lt(objective(alpha) - found$value, 1e-9)
    mu <- exp(predict(fit, type = "link"))
    expect_equal(predict(fit), mu)
    expect_equal(fitted(fit), mu)
    expect_equal(deviance(fit), sum(family$dev.resids(y, mu, family_weights)), tolerance = 1e-10)
    expect_equal(residuals(fit, "deviance"), sign(y - mu) * sqrt(family$dev.resids(y, mu, family_weights)), tolerance = 1e-7)
    expect_equal(residuals(fit, "pearson"), (y - mu) * sqrt(family_weights / family$variance(mu)))
    expect_identical(family(fit)$family, family$family)
  }
})

test_that("losses and their derivatives are those of plain R", {
  run <- checked_run(settle_control(NULL))
  f <- matrix(seq(-3, 3, length.out = 60), 30)
  y <- matrix(rep(c(0, 1, 5), 20), 30)
  check <- function(family, y, value) {
    loss <- family$loss
    got <- matrix(row_loss("value", loss, f, y, run))
    expect_equal(rowSums(matrix(value(y, f), 30)), got[, 1], tolerance = 1e-12)
    h <- 1e-5
    slope <- (value(y, f + h) - value(y, f - h)) / (2 * h)
    expect_equal(row_loss("slope", loss, f, y, run), matrix(slope, 30), tolerance = 1e-5)
    bend <- (row_loss("slope", loss, f + h, y, run) - row_loss("slope", loss, f - h, y, run)) / (2 * h)
    expect_equal(row_loss("product", loss, f, y, run, 2 + f), bend * (2 + f), tolerance = 1e-5)
    expect_equal(row_loss("curvature", loss, f, y, run), rowMeans(bend), tolerance = 1e-5)
  }
  check(FAMILIES$poisson, y, \(y, f) literal_half(stats::poisson(), y, f))
  check(FAMILIES$Gamma, y + 1, \(y, f) literal_half(stats::Gamma("log"), y, f))
  check(ridge_family("negbin", theta = 2), y, \(y, f) {
    stats::dnbinom(y, 2, mu = y, log = TRUE) - stats::dnbinom(y, 2, mu = exp(f), log = TRUE)
  })
  check(ridge_family("huber", delta = 1.1), y, \(y, f) ifelse(abs(y - f) < 1.1, (y - f)^2 / 2, 1.1 * abs(y - f) - 1.1^2 / 2))
  quantile <- ridge_family("quantile", levels = c(0.2, 0.7))
  quantile$loss[2] <- 0.3
  check(quantile, y, \(y, f) {
    r <- y - f
    r * (rep(c(0.2, 0.7), each = 30) - (r < 0)) + 0.3 * log1p(exp(-abs(r) / 0.3))
  })
})

test_that("quantiles satisfy the condition of the subgradient, and do not cross", {
  y <- family_mean + (1:80 * (sqrt(5) - 1)) %% 2
  levels <- c(0.1, 0.5, 0.8)
  fit <- kernel_ridge(
    family_x, y, family = ridge_family("quantile", levels = levels), bandwidth = 0.2, lambda = 1e-3,
    solver = list(tolerance = 1e-13, iterations = 200)
  )
  f <- predict(fit, type = "link")
  expect_identical(colnames(f), c("0.1", "0.5", "0.8"))
  # the slopes n lambda alpha are level - 1 above the quantile and level below, and between at the quantile
  slope <- 80 * 1e-3 * coef(fit)
  r <- y - f
  far <- abs(r) > 0.02
  expect_lt(max(abs(slope - ifelse(r > 0, 1, 0) * rep(levels, each = 80) - ifelse(r < 0, 1, 0) * rep(levels - 1, each = 80))[far]), 1e-3)
  expect_true(all(slope > rep(levels - 1, each = 80) - 1e-5 & slope < rep(levels, each = 80) + 1e-5))
  p <- predict(fit, matrix(seq(-4, 4, length.out = 60), 30))
  expect_true(all(p[, 1] <= p[, 2] & p[, 2] <= p[, 3]))
  expect_identical(dim(residuals(fit)), c(80L, 3L))
  expect_lte(max(abs(colMeans(outer(y, fit$intercept, `<=`)) - levels)), 1 / 80)
  expect_error(logLik(fit), "likelihood", class = "flashkernel_error_argument")
  expect_output(print(summary(fit)), "Kernel quantile regression")
  expect_error(family_fit(cbind(y, y), "quantile"), "one column", class = "flashkernel_error_argument")
})

test_that("quantiles without a penalty are those of leave-one-out residuals around the fit by squared loss", {
  y <- family_mean + (1:80 * (sqrt(5) - 1)) %% 2 + family_offset
  levels <- ridge_family("quantile", levels = c(0.1, 0.5, 0.8))
  at <- family_x[1:9, ] / 2
  for (bandwidth in list(1.5, NULL)) {
    by <- \(y, ...) kernel_ridge(family_x, y, bandwidth = bandwidth, weights = family_weights, ...)
    fit <- by(y, family = levels, offset = family_offset)
    base <- by(y, offset = family_offset)
    of_left <- kernel_ridge(
      family_x, residuals(base) / (1 - hatvalues(base)), family = levels, kernel = base$kernel, bandwidth = base$bandwidth,
      lambda = fit$lambda[2], weights = family_weights, centers = which(family_weights > 0)
    )
    want <- as.vector(predict(base, at, offset = rep(2, 9))) + predict(of_left, at, type = "link")
    expect_equal(predict(fit, at, type = "link", offset = rep(2, 9)), want, tolerance = 1e-6)
    expect_identical(fit$chosen, base$chosen)
    expect_equal(predict(fit, type = "link"), fitted(fit), tolerance = 1e-10)
  }
  expect_gt(cross_validate(fit, 3)$mean, -1)
  # more rows than centres of the quantiles
  x <- as.matrix(sin(seq_len(1200)^1.3))
  y <- x[, 1] + 0.1 * (seq_len(1200) * (sqrt(5) - 1)) %% 1
  many <- kernel_ridge(x, y, family = "quantile", bandwidth = 1, solver = list(exact = TRUE))
  expect_identical(nrow(many$centers), 1200L)
  expect_equal(unname(predict(many, cbind(c(-0.5, 0.5)))), c(-0.45, 0.55), tolerance = 0.02)
})

test_that("quantiles have two penalties, of which tune_ridge() searches that of the location", {
  levels <- ridge_family("quantile", levels = c(0.1, 0.8))
  y <- sin(family_x[, 1]) + 0.1 * family_x[, 2] * cos(1:80 * 2.3)
  of <- \(lambda) kernel_ridge(family_x, y, family = levels, bandwidth = 1.5, lambda = lambda)
  fit <- of(NULL)
  expect_length(fit$lambda, 2)
  expect_identical(coef(of(fit$lambda)), coef(fit))
  expect_identical(coef(of(c(fit$lambda[1], NA))), coef(fit))
  expect_false(identical(coef(of(c(fit$lambda[1], 10))), coef(fit)))
  expect_argument_error(kernel_ridge(family_x, y, lambda = c(1, 2)), "lambda")
  expect_argument_error(kernel_ridge(family_x, y, family = levels, lambda = 1:2, validation = 0.2), "lambda")
  tuned <- tune_ridge(family_x, y, family = levels, bandwidth = 1.5)
  squared <- tune_ridge(family_x, y, bandwidth = 1.5)
  expect_equal(tuned$lambda[1], squared$lambda)
  expect_identical(coef(of(tuned$lambda)), coef(tuned))
})

test_that("Huber's loss takes its width from the residuals, and outliers move the fit little", {
  y <- log(family_mean) + 0.1 * sin(50 * 1:80)
  wild <- replace(y, c(5, 40, 61), 50)
  robust <- predict(family_fit(wild, "huber"))
  expect_lt(max(abs(robust - predict(family_fit(y, "huber")))), 0.25)
  wide <- family_fit(y, ridge_family("huber", delta = 100))
  expect_equal(predict(wide), predict(family_fit(y, "gaussian")) + 0 * y, tolerance = 0.05)
})

test_that("effective degrees of freedom, AIC and standard errors are those of the penalised fit", {
  fit <- family_fit(family_counts, "poisson")
  K <- gaussian_kernels(family_x, family_x, c(1.5, 1.5))
  W <- diag(fitted(fit))
  edf <- sum(diag(solve(W %*% K / 80 + 1e-2 * diag(80), W %*% K / 80))) + 1
  expect_equal(attr(logLik(fit), "df"), edf, tolerance = 1e-5)
  expect_equal(as.numeric(logLik(fit)), sum(stats::dpois(family_counts, fitted(fit), log = TRUE)))
  expect_equal(AIC(fit), 2 * edf - 2 * as.numeric(logLik(fit)), tolerance = 1e-6)
  at <- predict(fit, se.fit = TRUE)
  of_link <- predict(fit, se.fit = TRUE, type = "link")
  expect_equal(at$se.fit, exp(of_link$fit) * of_link$se.fit)
  se <- sqrt(diag(solve(K %*% W + 80 * 1e-2 * diag(80), K)))
  expect_equal(of_link$se.fit, se, tolerance = 1e-4)
  effects <- marginal_effects(fit)
  gradient <- predict(fit, type = "gradient")
  expect_equal(effects$estimate, unname(colMeans(fitted(fit) * gradient)), tolerance = 1e-8)
  gamma <- family_fit(family_counts + 1, "Gamma")
  expect_equal(sigma(gamma)^2, sum(residuals(gamma, "pearson")^2) / df.residual(gamma))
  expect_true(all(simulate(gamma, 1, seed = 1)[[1]] > 0))
})

test_that("defaults, centres, validation and cross-validation work for every family", {
  for (family in list("poisson", "Gamma", ridge_family("negbin", theta = 3), "huber", ridge_family("quantile", levels = c(0.3, 0.6)))) {
    x <- family_x[1:50, ]
    y <- family_counts[1:50] + 1
    fit <- kernel_ridge(x, y, family = family, centers = 20, validation = 0.2)
    expect_lt(deviance(fit), null_deviance(fit))
    expect_true(all(is.finite(fit$trace$validation)))
    expect_output(print(fit), fit$family$error)
    expect_s3_class(marginal_effects(fit), "marginal_effects")
    grDevices::pdf(NULL)
    plot(fit)
    grDevices::dev.off()
    expect_identical(cross_validate(kernel_ridge(x, y, family = family, metric = "none"), 3)$score, "loss")
  }
  expect_lt(deviance(tune_ridge(x, y, family = "poisson", rows = 40, seconds = 0.2)), 1000)
})

test_that("a response that does not suit its family is an error, as is another link", {
  refuse <- \(pattern, ...) expect_error(family_fit(...), pattern, class = "flashkernel_error_argument")
  refuse("at least 0", family_counts - 5, "poisson")
  refuse("positive", family_counts, "Gamma")
  refuse("numeric", factor(family_counts > 1), "poisson")
  refuse("only 0", 0 * family_counts, "poisson")
  refuse("log link", family_counts, stats::Gamma())
  refuse("theta", family_counts, "negbin")
  refuse("family", family_counts, "weibull")
  expect_error(ridge_family("quantile", levels = c(0.9, 0.1)), "levels", class = "flashkernel_error_argument")
  expect_error(ridge_family("negbin"), "theta", class = "flashkernel_error_argument")
})
