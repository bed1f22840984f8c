# p(y | x) with factors, ordered factors, texts and logical values on either side, beside loops in plain R.

# ---- formulas

ref_level_kernel <- function(a, b, lambda, levels, ordered) {
  l <- function(a) if (ordered) lambda^abs(a - b) else if (a == b) 1 - lambda else lambda / (levels - 1)
  l(a) / sum(vapply(seq_len(levels), l, 0))
}

level_case <- function(n = 60) {
  set.seed(8)
  data <- data.frame(
    kind = factor(sample(c("u", "v", "w"), n, TRUE)), size = ordered(sample(1:4, n, TRUE)), a = stats::rnorm(n)
  )
  data$y <- as.integer(data$kind) * data$a + stats::rnorm(n) / 3
  data$won <- data$y + stats::rnorm(n) > 2
  data
}

# What each row of the data weighs at a place, by the kernels of the columns that are named.
ref_weights_at <- function(data, at, columns, sds, lambda, w = 1) {
  k <- rep(w, length.out = nrow(data))
  for (name in columns) {
    one <- data[[name]]
    k <- k * if (is.numeric(one)) {
      stats::dnorm(at[[name]], one, sds[[name]])
    } else {
      one <- factor(one)
      vapply(as.integer(one), \(b) {
        a <- match(as.character(at[[name]]), levels(one))
        ref_level_kernel(a, b, lambda[[name]], nlevels(one), is.ordered(data[[name]]))
      }, 0)
    }
  }
  k
}

# ---- densities and what goes by them

test_that("p(y | x) with levels is the ratio of two sums of products", {
  data <- level_case()
  sds <- c(y = 0.4, a = 0.5)
  lambda <- c(kind = 0.2, size = 0.3)
  w <- stats::runif(60)
  at <- data[c(3, 17, 40), ]
  x <- c("kind", "a", "size")
  for (weights in list(NULL, w)) {
    fit <- flash_kde(y ~ kind + a + size, data, bandwidth = sds, categorical = categorical_kernel(smoothing = lambda), weights = weights)
    own <- if (is.null(weights)) rep(1, 60) else weights
    k <- lapply(1:3, \(j) ref_weights_at(data, at[j, ], x, sds, lambda, own))
    want <- vapply(1:3, \(j) sum(k[[j]] * stats::dnorm(at$y[j], data$y, 0.4)) / sum(k[[j]]), 0)
    expect_within(predict(fit, at), want, 1e-13)
    expect_within(predict(fit)[c(3, 17, 40)], want, 1e-13)
    mean <- vapply(k, \(k) sum(k * data$y) / sum(k), 0)
    expect_within(predict(fit, at, type = "mean"), mean, 1e-12)
    variance <- vapply(1:3, \(j) sum(k[[j]] * (data$y - mean[j])^2) / sum(k[[j]]) + 0.16, 0)
    expect_within(predict(fit, at, type = "variance"), variance, 1e-11)
    below <- vapply(1:3, \(j) sum(k[[j]] * stats::pnorm((at$y[j] - data$y) / 0.4)) / sum(k[[j]]), 0)
    expect_within(predict(fit, at, type = "cdf"), below, 1e-13)
    there <- kde_conditional(fit, list(kind = "v", a = 0.3, size = "2"))
    k <- ref_weights_at(data, list(kind = "v", a = 0.3, size = "2"), x, sds, lambda, own)
    expect_within(predict(there, 1), sum(k * stats::dnorm(1, data$y, 0.4)) / sum(k), 1e-13)
  }
})

test_that("a left side of levels has their probabilities", {
  data <- level_case()
  sds <- c(y = 0.5, a = 0.5)
  lambda <- c(won = 0.1, kind = 0.2)
  fit <- flash_kde(won ~ y + kind, data, bandwidth = sds["y"], categorical = categorical_kernel(smoothing = lambda))
  at <- data[c(2, 9, 33), ]
  want <- t(vapply(1:3, \(j) {
    k <- ref_weights_at(data, at[j, ], c("y", "kind"), sds, lambda)
    share <- sum(k[data$won]) / sum(k)
    won <- 0.9 * share + 0.1 * (1 - share)
    c(1 - won, won)
  }, numeric(2)))
  found <- predict(fit, at, type = "probability")
  expect_within(unname(found), want, 1e-13)
  expect_identical(colnames(found), c("FALSE", "TRUE"))
  expect_within(predict(fit, at), want[cbind(1:3, at$won + 1)], 1e-13)
  expect_identical(predict(fit, at, type = "class"), want[, 2] > 0.5)
  expect_identical(fitted(fit), predict(fit, data, type = "probability"))
  far <- predict(fit, data.frame(y = 1e4, kind = "u"), type = "probability")
  expect_within(far[, "TRUE"], 0.9, 1e-12) # the largest y has won
  draws <- unlist(simulate(fit, 4000, seed = 1, newdata = at[1, ]))
  expect_type(draws, "logical")
  expect_lt(abs(mean(draws) - want[1, 2]), 4 * sqrt(0.25 / 4000))
  # levels alone, on both sides
  table <- flash_kde(kind ~ size, data, categorical = categorical_kernel(smoothing = c(kind = 0, size = 0)))
  want <- prop.table(table(data$size, data$kind), 1)
  expect_within(unname(predict(table, data.frame(size = 1:4), type = "probability")), unname(unclass(want)), 1e-14)
  expect_s3_class(predict(table, data, type = "class"), "factor")
})

test_that("the numbers are those of np 0.60-9", {
  # npcdens() of iris, bws = 0.1, 0.3 and lambda 0.2
  at <- data.frame(
    Petal.Width = c(0.2, 1.5, 1), Petal.Length = c(1.4, 4.5, 5), Species = c("setosa", "virginica", "versicolor")
  )
  fit <- flash_kde(Petal.Width ~ Petal.Length + Species, iris, bandwidth = c(0.1, 0.3), categorical = categorical_kernel(smoothing = 0.2))
  expect_equal(predict(fit, at), c(3.025132441620, 1.019993877606, 0.035969036106), tolerance = 1e-10)
  fit <- flash_kde(Species ~ Petal.Length + Petal.Width, iris, bandwidth = c(0.3, 0.1), categorical = categorical_kernel(smoothing = 0.2))
  expect_equal(predict(fit, at), c(0.8, 0.12707690987, 0.79972337549), tolerance = 1e-10)
})

test_that("levels that nothing is given to have no density, and others are far, not lost", {
  data <- level_case()
  data <- data[data$kind != "v", ]
  fit <- flash_kde(y ~ a + kind, data, bandwidth = c(0.4, 0.5), categorical = categorical_kernel(smoothing = 0))
  at <- data.frame(y = 1, a = c(0, 1e4), kind = c("v", "u"))
  expect_identical(is.nan(predict(fit, at)), c(TRUE, FALSE))
  expect_identical(is.nan(predict(fit, at, type = "mean")), c(TRUE, FALSE))
  expect_identical(is.nan(quantile(fit, at, 0.5)[, 1]), c(TRUE, FALSE))
  expect_identical(is.nan(predict(fit, at, type = "cdf")), c(TRUE, FALSE))
  expect_identical(is.na(simulate(fit, newdata = at)[, 1]), c(TRUE, FALSE))
  last <- data$y[data$kind == "u"][which.max(data$a[data$kind == "u"])]
  expect_within(predict(fit, at)[2], stats::dnorm(1, last, 0.4), 1e-12)
  expect_within(predict(fit, at, type = "mean")[2], last, 1e-12)
})

# ---- the choice of bandwidths and lambdas

test_that("the criterion with levels is the leave-one-out conditional likelihood, with its gradient", {
  case <- level_case(50)
  columns <- lapply(case[c("kind", "size")], mixed_column)
  columns <- choose_level_kernels(columns, NULL)
  run <- run_control(CONTROL_DEFAULTS)
  data <- clean_mixed(list(
    points = as.matrix(case[c("y", "a")]), weights = NULL, discrete = list(
      columns = columns, codes = cbind(kind = as.integer(case$kind), size = as.integer(case$size)),
      lambda = c(kind = 0.2, size = 0.3), given = c("kind", "size")
    )
  ), "x")
  own <- data.frame(data$x, kind = levels(case$kind)[data$discrete$codes[, 1]], size = data$discrete$codes[, 2])
  own$size <- ordered(own$size)
  sds <- c(y = 0.3, a = 0.5)
  floor <- 1e-6 / (pi * (1 + own$y^2))
  value <- -mean(vapply(1:50, \(i) {
    k <- ref_weights_at(own[-i, ], own[i, ], c("a", "kind", "size"), sds, data$discrete$lambda)
    log(sum(k * stats::dnorm(own$y[i], own$y[-i], 0.3)) / sum(k) + floor[i])
  }, 0))
  criterion <- conditional_criterion(data, 1, run, list2env(list(evaluations = 0)))
  at <- \(sds) criterion$gradient(diag(sds))
  expect_within(at(sds)$value, value, 1e-11)
  slopes <- vapply(1:2, \(k) {
    step <- exp(1e-5 * (1:2 == k))
    (at(sds * step)$value - at(sds / step)$value) / 2e-5
  }, 0)
  expect_within(at(sds)$E, slopes, 1e-7)
  expect_within(given_loss(judged(data), diag(sds), 1, run)(data$discrete$lambda, NULL)$value, value, 1e-11)
})

test_that("bandwidths and lambdas are at the maximum, and levels that tell nothing drop out", {
  data <- level_case(200)
  fit <- flash_kde(y ~ a + kind + size, data)
  lambda <- fit$joint$discrete$lambda
  expect_lt(lambda[["kind"]], 0.1)
  expect_gt(lambda[["size"]], 0.7)
  best <- as.numeric(logLik(fit))
  sds <- coef(fit)[c("y", "a")]
  expect_identical(coef(fit), c(sds, lambda))
  at <- \(by, to) as.numeric(logLik(update(fit, bandwidth = sds * by, categorical = categorical_kernel(smoothing = to))))
  expect_within(at(1, lambda), best, 1e-9)
  for (by in list(c(1.2, 1), c(1 / 1.2, 1), c(1, 1.2), c(1, 1 / 1.2))) expect_lt(at(by, lambda), best + 0.3)
  expect_lt(at(1, replace(lambda, "kind", 0.3)), best)
  expect_lt(at(1, replace(lambda, "size", 0.3)), best)
  # lambda alone is chosen for a bandwidth that is given
  half <- flash_kde(y ~ a + kind + size, data, bandwidth = sds)
  expect_equal(half$joint$discrete$lambda, lambda, tolerance = 0.02)
  expect_true(all(half$joint$discrete$chosen))
  expect_output(print(half), "Kernel standard deviations, given:")
  # of levels alone, one of which tells nothing
  odd <- data.frame(y = rep(c("a", "b"), 20), x = rep(c("u", "u", "v", "v"), 10), z = rep(c("k", "l"), c(20, 20)))
  odd$y[1:8] <- "b"
  alone <- flash_kde(y ~ x + z, odd)
  expect_identical(alone$search$wide, "x")
  expect_output(print(alone), "x drops out")
  plain <- flash_kde(y ~ a + kind, data[1:100, ])
  debiased <- update(plain, estimator = "sdkde")
  expect_true(all(coef(debiased)[c("y", "a")] > coef(plain)[c("y", "a")]))
  expect_within(predict(debiased, data[1:3, ], type = "mean"), predict(plain, data[1:3, ], type = "mean"), 0.3)
})

# ---- methods

test_that("figures hold densities by levels, and probabilities of levels", {
  data <- level_case()
  fit <- flash_kde(y ~ kind + a, data, bandwidth = c(0.4, 0.5), categorical = categorical_kernel(smoothing = 0.1))
  curves <- with_null_device(plot(fit, n = 20))
  middle <- data.frame(y = curves$kind$y, kind = "w", a = stats::median(data$a))
  expect_within(curves$kind$density[, 3], predict(fit, middle), 1e-12)
  often <- names(which.max(table(data$kind)))
  at <- data.frame(y = curves$a$y, kind = often, a = curves$a$at[[1]])
  expect_within(curves$a$density[, 1], predict(fit, at), 1e-12)
  won <- flash_kde(won ~ kind + a, data, bandwidth = 0.5, categorical = categorical_kernel(smoothing = 0.1))
  curves <- with_null_device(plot(won, n = 20))
  expect_identical(curves$kind$x, levels(data$kind))
  at <- data.frame(kind = often, a = curves$a$x)
  expect_within(curves$a$probability, predict(won, at, type = "probability"), 1e-12)
  skip_if_not_installed("ggplot2")
  alone <- flash_kde(won ~ kind, data, categorical = categorical_kernel(smoothing = 0.1))
  for (one in list(fit, won, alone)) expect_s3_class(ggplot2::autoplot(one), "ggplot")
  expect_silent(with_null_device(print(ggplot2::autoplot(won))))
})

test_that("conditional densities with levels have the methods of a model", {
  data <- level_case()
  data$size[4] <- NA
  fit <- flash_kde(y ~ kind + log(a + 5) + size, data, bandwidth = 0.4, na.action = na.exclude)
  expect_identical(which(is.na(residuals(fit))), 4L)
  expect_equal((fitted(fit) + residuals(fit))[-4], data$y[-4])
  expect_output(print(summary(fit)), "Shares of kind")
  expect_identical(nobs(fit), 59L)
  expect_s3_class(kde_marginal(fit, c("size", "y")), "flash_kde_mixed")
  two <- flash_kde(cbind(y, a) ~ kind, data, bandwidth = 0.4)
  expect_identical(dim(predict(two, data[1:5, ], type = "mean")), c(5L, 2L))
  expect_identical(names(simulate(two)), c("sim_1.y", "sim_1.a"))
  expect_identical(which(is.na(predict(fit, data, type = "mean"))), 4L)
  won <- flash_kde(won ~ y, data, bandwidth = 0.5)
  expect_output(print(summary(won)), "log-likelihood")
  for (call in list(quote(quantile(won, data)), quote(kde_cdf(won, 1, data)), quote(predict(won, type = "mean")))) {
    expect_error(eval(call), class = "flashkernel_error_unsupported")
  }
  expect_argument_error(predict(fit, type = "probability"), "type")
  expect_argument_error(predict(fit, replace(data, "kind", "z")), "newdata")
  expect_argument_error(kde_conditional(fit, c(kind = "u", a = 1, size = "2")), "given")
  expect_argument_error(flash_kde(y ~ kind, data, categorical = categorical_kernel(smoothing = 0.9)), "categorical$smoothing")
  expect_argument_error(flash_kde(y ~ kind, data, categorical = categorical_kernel(kernel = "wangvanryzin")), "categorical$kernel")
  expect_argument_error(flash_kde(y ~ a, data, categorical = categorical_kernel(smoothing = 0.1)), "categorical")
  expect_argument_error(flash_kde(won ~ kind, data, estimator = "sdkde"), "estimator")
})

test_that("a lambda that makes no difference is chosen as the largest one", {
  y <- c(0.3, 1.1, 1.9, 2.2, 3.7)
  data <- data.frame(y = y, one = factor("u", c("u", "v", "w")), g = c("a", "a", "b", "b", "b"), left = y > 2)
  chosen <- \(fit) fit$joint$discrete$lambda
  alone <- flash_kde(y ~ one, data, bandwidth = 0.5)
  expect_equal(chosen(alone)[["one"]], 2 / 3)
  expect_equal(predict(alone, data), predict(flash_kde(y, "kde", 0.5), y), tolerance = 1e-12)
  expect_equal(chosen(flash_kde(left ~ one, data))[["one"]], 2 / 3)
  expect_equal(chosen(flash_kde(y ~ one + g, data, bandwidth = 0.5))[["one"]], 2 / 3)
  expect_no_warning(heavy <- flash_kde(y ~ g, data[c(1, 3), ], bandwidth = 1, weights = c(1, 4e-20)))
  expect_equal(chosen(heavy)[["g"]], 1 / 2)
})

test_that("a lambda is not chosen so that a row left out has no estimate", {
  data <- data.frame(y = c(0, 0, 1, -1), b = 3, k = c(FALSE, FALSE, FALSE, TRUE))
  fit <- flash_kde(cbind(y, b) ~ k, data, bandwidth = 0.01)
  expect_gt(fit$joint$discrete$lambda, 0)
  expect_true(is.finite(predict(fit, loo = TRUE, type = "log_density")[4]))
  expect_false(is.nan(logLik(fit)))
})
