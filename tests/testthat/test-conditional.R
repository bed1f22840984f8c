# Marginal and conditional densities as fits, and p(y | x) by formula, beside loops in plain R.

# ---- formulas

# log of sum w f^-d K_H((at - x) / f) / sum w in the columns `dims`.
ref_log_density <- function(x, at, H, w = rep(1, nrow(x)), f = rep(1, nrow(x)), dims = seq_len(ncol(x))) {
  H <- H[dims, dims, drop = FALSE]
  logs <- vapply(seq_len(nrow(x)), \(i) {
    u <- (at - x[i, dims]) / f[i]
    log(w[i]) - length(dims) * log(f[i]) - sum(u * solve(H, u)) / 2 - log(det(2 * pi * H)) / 2
  }, 0)
  max(logs) + log(sum(exp(logs - max(logs)))) - log(sum(w))
}

ref_log_conditional <- function(x, y, given, H, ..., dims) {
  all <- numeric(ncol(x))
  all[dims] <- given
  all[-dims] <- y
  ref_log_density(x, all, H, ...) - ref_log_density(x, given, H, ..., dims = dims)
}

# The weights that the points have for the columns after the first at `given`, and where they are then, for diagonal H.
ref_given_weights <- function(x, given, sds, w = rep(1, nrow(x))) {
  z <- vapply(seq_along(given), \(k) (given[k] - x[, k + 1]) / sds[k + 1], numeric(nrow(x)))
  k <- w * exp(-rowSums(matrix(z, nrow(x))^2) / 2)
  k / sum(k)
}

conditional_case <- function(n = 40, d = 3) {
  x <- example_points(n, d)
  colnames(x) <- letters[seq_len(d)]
  list(x = x, H = example_bandwidth(d), w = stats::runif(n), f = exp(stats::rnorm(n) / 4))
}

regression_case <- function(n = 300) {
  set.seed(5)
  data <- data.frame(a = stats::rnorm(n), b = stats::runif(n))
  data$y <- sin(2 * data$a) + (0.2 + 0.3 * data$b) * stats::rnorm(n)
  data
}

# ---- marginals

test_that("a marginal is the sum of the kernels' marginals", {
  case <- conditional_case()
  at <- matrix(stats::rnorm(12), 6)
  for (weights in list(NULL, case$w)) for (f in list(NULL, case$f)) {
    fit <- flash_kde(case$x, "kde", bandwidth = case$H, weights = weights, adaptive = if (is.null(f)) FALSE else f)
    part <- kde_marginal(fit, c("c", "a"))
    want <- apply(at, 1, \(y) {
      ref_log_density(case$x, y, case$H, ref_weights(case$x, weights), if (is.null(f)) rep(1, 40) else f, c(3, 1))
    })
    expect_s3_class(part, "flash_kde")
    expect_identical(part$names, c("c", "a"))
    expect_within(predict(part, unname(at), type = "log_density"), want, 1e-12)
    expect_identical(predict(kde_marginal(fit, c(3, 1))), predict(part))
    expect_within(logLik(kde_marginal(fit, 2)), logLik(flash_kde(case$x[, 2], "kde", bandwidth = case$H[2, 2, drop = FALSE],
      weights = weights, adaptive = if (is.null(f)) FALSE else f)), 1e-10)
  }
})

test_that("a marginal is the integral of the estimate", {
  case <- conditional_case(30, 2)
  grid <- seq(-12, 14, 0.01)
  for (estimator in c("kde", "sdkde", "laplace")) {
    fit <- flash_kde(case$x, estimator, bandwidth = case$H)
    part <- kde_marginal(fit, "b")
    for (at in c(-1, 0.5, 2)) {
      expect_within(predict(part, at), sum(predict(fit, data.frame(a = grid, b = at))) * 0.01, 1e-9, estimator)
    }
  }
})

test_that("marginals of an SD-KDE have its points, or debias their own", {
  case <- conditional_case()
  for (f in list(FALSE, case$f)) {
    fit <- flash_kde(case$x, "sdkde", bandwidth = case$H, debias = debiasing(bandwidth = case$H / 2), adaptive = f)
    part <- kde_marginal(fit, 2:3)
    expect_identical(part$debiased, fit$debiased[, 2:3])
    expect_identical(part$debiased_in, 3L)
    expect_error(logLik(part), class = "flashkernel_error_unsupported")
    expect_error(predict(part, loo = TRUE), class = "flashkernel_error_unsupported")
    expect_error(logLik(kde_marginal(part, 1)), "debiased in 3")
    anew <- kde_marginal(fit, 2:3, debias = TRUE)
    own <- flash_kde(
      case$x[, 2:3], "sdkde", bandwidth = case$H[2:3, 2:3],
      debias = debiasing(bandwidth = case$H[2:3, 2:3] / 2), adaptive = f
    )
    expect_equal(predict(anew, loo = TRUE), predict(own, loo = TRUE), tolerance = 1e-13)
    expect_identical(diagnostics(anew)$stages$stage, "debias")
    expect_output(print(summary(part)), "SD-KDE")
  }
  expect_argument_error(kde_marginal(flash_kde(case$x, "kde", bandwidth = case$H), 1, debias = TRUE), "debias")
})

test_that("a marginal of a fit by formula knows its variables", {
  fit <- flash_kde(~ log(waiting) + eruptions, faithful, estimator = "kde", bandwidth = c(0.1, 0.5))
  expect_within(
    predict(kde_marginal(fit, "log(waiting)"), faithful[1:5, ]),
    predict(flash_kde(log(faithful$waiting), "kde", bandwidth = 0.1))[1:5], 1e-13
  )
  matrix_term <- flash_kde(~ poly(waiting, 2), faithful, estimator = "kde", bandwidth = 0.1)
  expect_null(kde_marginal(matrix_term, 2)$terms)
  holes <- faithful
  holes[3, 1] <- NA
  fit <- flash_kde(~ eruptions + waiting, holes, estimator = "kde", bandwidth = c(0.1, 0.5), na.action = na.exclude)
  expect_identical(which(is.na(predict(kde_marginal(fit, "waiting")))), 3L)
})

test_that("variables that are not there are refused", {
  fit <- flash_kde(faithful, "kde", bandwidth = c(0.3, 4))
  for (vars in list("no", 3, 0, 1.5, NA, character(), c(1, 1), TRUE, NULL)) {
    expect_argument_error(kde_marginal(fit, vars), "vars")
  }
  expect_argument_error(kde_marginal(fit), "vars")
  expect_argument_error(kde_marginal(1, 1), "object")
  balloon <- flash_kde(faithful, adaptive = "balloon", bandwidth = c(0.3, 4))
  expect_error(kde_marginal(balloon, 1), class = "flashkernel_error_unsupported")
  expect_error(kde_conditional(balloon, c(waiting = 1)), class = "flashkernel_error_unsupported")
  for (given in list(c(no = 1), 1, c(waiting = NA), c(waiting = Inf), c(waiting = "a"), faithful, list(), NULL)) {
    expect_argument_error(kde_conditional(fit, given), "given")
  }
  expect_argument_error(kde_conditional(fit, c(waiting = 1, eruptions = 2)), "given")
  expect_argument_error(kde_conditional(fit, c(waiting = 1), 2), "...")
})

# ---- conditionals

test_that("a conditional is the ratio of the joint density and the marginal", {
  case <- conditional_case()
  for (weights in list(NULL, case$w)) for (f in list(NULL, case$f)) for (estimator in c("kde", "sdkde")) {
    fit <- flash_kde(
      case$x, estimator, bandwidth = case$H, weights = weights, adaptive = if (is.null(f)) FALSE else f
    )
    points <- if (estimator == "sdkde") fit$debiased else case$x
    given <- c(c = -0.4, b = 0.3)
    for (dims in list(3, c(3, 2))) {
      there <- kde_conditional(fit, given[seq_along(dims)])
      at <- matrix(stats::rnorm(2 * (3 - length(dims))), 2)
      want <- apply(at, 1, \(y) ref_log_conditional(
        points, y, given[seq_along(dims)], case$H, w = ref_weights(points, weights),
        f = if (is.null(f)) rep(1, 40) else f, dims = dims
      ))
      expect_within(predict(there, at, type = "log_density"), want, 1e-11, paste(estimator, length(dims)))
    }
  }
})

test_that("conditionals serve all methods", {
  fit <- flash_kde(faithful, bandwidth = c(0.3, 4))
  there <- kde_conditional(fit, data.frame(eruptions = 2))
  q <- quantile(there, c(0.1, 0.5, 0.9))
  expect_within(kde_cdf(there, q), c(0.1, 0.5, 0.9), 1e-12)
  expect_gt(stats::ks.test(simulate(there, 2000, seed = 1)[[1]], \(q) kde_cdf(there, q))$p.value, 0.01)
  expect_silent(with_null_device(plot(there)))
  expect_output(print(there), "kde_conditional\\(object = fit")
  expect_output(print(summary(there)), "weighted")
  expect_equal(hdr_level(there, 0.5), hdr_level(there, 0.5))
  file <- tempfile()
  on.exit(unlink(file))
  saveRDS(there, file)
  expect_identical(predict(readRDS(file), 50:60), predict(there, 50:60))
  # once more, of what is left
  three <- flash_kde(iris[1:3], "kde", bandwidth = c(0.3, 0.2, 0.4))
  twice <- kde_conditional(kde_conditional(three, c(Sepal.Width = 3)), c(Petal.Length = 4))
  once <- kde_conditional(three, list(Sepal.Width = 3, Petal.Length = 4))
  expect_within(predict(twice, c(5, 6)), predict(once, c(5, 6)), 1e-12)
  # and marginals of it commute
  expect_within(
    predict(kde_marginal(kde_conditional(three, c(Sepal.Width = 3)), 1), c(5, 6)),
    predict(kde_conditional(kde_marginal(three, 1:2), c(Sepal.Width = 3)), c(5, 6)), 1e-12
  )
})

test_that("far from the origin, and far from the points, nothing is lost", {
  case <- conditional_case()
  case$x <- round(case$x * 64) / 64 # what an offset leaves as it is
  for (estimator in c("kde", "sdkde")) {
    here <- kde_conditional(flash_kde(case$x, estimator, bandwidth = case$H), c(b = 0.5))
    offset <- 2^40
    there <- kde_conditional(flash_kde(case$x + offset, estimator, bandwidth = case$H), c(b = 0.5 + offset))
    at <- case$x[1:5, c(1, 3)]
    # the points themselves move by fractions of a bandwidth, which the offset rounds to 2^-12, but not of an SD-KDE
    bound <- if (estimator == "kde") 1e-3 else 1e-9
    want <- predict(here, at, type = "log_density")
    expect_within(predict(there, at + offset, type = "log_density"), want, bound, estimator)
  }
  # the point that is nearest decides: c moves with b as H says
  fit <- flash_kde(case$x, "kde", bandwidth = diag(0.25, 3))
  far <- kde_conditional(fit, c(b = 1e7))
  nearest <- which.max(case$x[, 2])
  expect_identical(far$n, 1L)
  expect_equal(unname(far$x[1, ]), unname(case$x[nearest, c(1, 3)]))
  expect_equal(predict(far, rbind(case$x[nearest, c(1, 3)])), 1 / (2 * pi * 0.25))
  expect_argument_error(kde_conditional(fit, c(b = 1e200)), "given")
})

test_that("the Laplace-corrected estimate has no conditional", {
  fit <- flash_kde(faithful, "laplace", bandwidth = c(0.3, 4))
  expect_error(kde_conditional(fit, c(eruptions = 2)), class = "flashkernel_error_unsupported")
  fit <- flash_kde(waiting ~ eruptions, faithful, estimator = "laplace", bandwidth = c(4, 0.3))
  expect_error(kde_conditional(fit, c(eruptions = 2)), class = "flashkernel_error_unsupported")
})

# ---- by formula

test_that("p(y | x) by formula is the ratio of two sums", {
  data <- regression_case(60)
  sds <- c(0.3, 0.4, 0.5)
  x <- as.matrix(data[c("y", "a", "b")])
  w <- stats::runif(60)
  for (weights in list(NULL, w)) {
    fit <- flash_kde(y ~ a + b, data, bandwidth = sds, weights = weights)
    weight <- ref_weights(x, weights)
    at <- data.frame(y = c(0, 1, -2), a = c(0, 1, -2), b = c(0.5, 0.1, 3))
    want <- vapply(1:3, \(j) {
      ref_log_conditional(x, at$y[j], c(at$a[j], at$b[j]), diag(sds^2), w = weight, dims = 2:3)
    }, 0)
    expect_within(predict(fit, at, type = "log_density"), want, 1e-12)
    expect_within(predict(fit, at), exp(want), 1e-12)
    expect_within(predict(fit, as.matrix(at)), exp(want), 1e-12)
    k <- lapply(1:3, \(j) ref_given_weights(x, c(at$a[j], at$b[j]), sds, weight))
    mean <- vapply(k, \(k) sum(k * x[, 1]), 0)
    variance <- vapply(1:3, \(j) sum(k[[j]] * (x[, 1] - mean[j])^2) + sds[1]^2, 0)
    expect_within(predict(fit, at[2:3], type = "mean"), mean, 1e-11)
    expect_within(predict(fit, at[2:3], type = "variance"), variance, 1e-10)
    below <- vapply(1:3, \(j) sum(k[[j]] * stats::pnorm((at$y[j] - x[, 1]) / sds[1])), 0)
    expect_within(predict(fit, at, type = "cdf"), below, 1e-13)
    expect_within(diag(kde_cdf(fit, at$y, at)), below, 1e-13)
    q <- quantile(fit, at, c(0, 0.01, 0.5, 0.999, 1))
    for (j in 1:3) {
      expect_within(
        vapply(q[j, 2:4], \(q) sum(k[[j]] * stats::pnorm((q - x[, 1]) / sds[1])), 0), c(0.01, 0.5, 0.999), 1e-11
      )
    }
    expect_identical(unname(q[, c(1, 5)]), cbind(rep(-Inf, 3), Inf))
    # without each point
    logs <- vapply(1:60, \(i) {
      k <- weight[-i] * exp(-colSums(((t(x[-i, ]) - x[i, ])[-1, ] / sds[-1])^2) / 2)
      log(sum(k * stats::dnorm(x[i, 1], x[-i, 1], sds[1])) / sum(k))
    }, 0)
    expect_within(predict(fit, type = "log_density", loo = TRUE), logs, 1e-10)
    expect_within(logLik(fit), sum(weight * logs) / mean(weight), 1e-10)
    expect_equal(fitted(fit) + residuals(fit), data$y)
  }
})

test_that("correlated bandwidths, factors and several y are those of the joint fit", {
  case <- conditional_case()
  data <- as.data.frame(case$x)
  at <- data.frame(a = c(0.3, -1), b = c(0.2, 1), c = c(0.5, -0.3))
  for (f in list(NULL, case$f)) {
    factors <- if (is.null(f)) rep(1, 40) else f
    adaptive <- if (is.null(f)) FALSE else f
    fit <- flash_kde(a ~ b + c, data, bandwidth = case$H, adaptive = adaptive)
    want <- apply(as.matrix(at), 1, \(y) ref_log_conditional(case$x, y[1], y[2:3], case$H, f = factors, dims = 2:3))
    expect_within(predict(fit, at, type = "log_density"), want, 1e-11)
    # moments by the integral
    grid <- seq(-15, 15, 0.005)
    for (j in 1:2) {
      p <- predict(fit, data.frame(a = grid, at[rep(j, length(grid)), 2:3])) * 0.005
      mean <- sum(p * grid)
      expect_within(predict(fit, at[j, ], type = "mean"), mean, 1e-8)
      expect_within(predict(fit, at[j, ], type = "variance"), sum(p * (grid - mean)^2), 1e-7)
      there <- kde_conditional(fit, at[j, 2:3])
      expect_within(predict(fit, at[j, ], type = "cdf"), kde_cdf(there, at$a[j]), 1e-12)
      expect_within(quantile(fit, at[j, ], c(1e-9, 0.4, 0.9))[1, ], quantile(there, c(1e-9, 0.4, 0.9)), 1e-10)
    }
    two <- flash_kde(cbind(a, b) ~ c, data, bandwidth = case$H, adaptive = adaptive)
    want <- apply(as.matrix(at), 1, \(y) ref_log_conditional(case$x, y[1:2], y[3], case$H, f = factors, dims = 3))
    expect_within(predict(two, at, type = "log_density"), want, 1e-11)
    there <- lapply(1:2, \(j) kde_conditional(two, at["c"][j, , drop = FALSE]))
    means <- t(vapply(there, \(one) colSums(one$weights * one$x) / sum(one$weights), numeric(2)))
    expect_within(predict(two, at, type = "mean"), means, 1e-10)
    expect_identical(dim(predict(two, at, type = "variance")), c(2L, 2L))
  }
  expect_argument_error(quantile(two, at), "x")
  expect_argument_error(kde_cdf(two, 1, at), "object")
  expect_argument_error(plot(two), "x")
})

test_that("the numbers are those of np 0.60-9", {
  # npcdens(), npcdist(), npqreg(tau = 0.25), npreg() of faithful, with bws = c(3, 0.3)
  fit <- flash_kde(waiting ~ eruptions, faithful, bandwidth = c(3, 0.3))
  at <- data.frame(eruptions = c(2, 3, 4.5), waiting = c(50, 70, 80))
  expect_equal(predict(fit, at), c(0.05354585053, 0.03144452981, 0.06610757651), tolerance = 1e-9)
  expect_equal(predict(fit, at, type = "cdf"), c(0.2811881058, 0.6788067088, 0.4609525752), tolerance = 1e-8)
  expect_equal(quantile(fit, at, 0.25)[, 1], c(49.40499168, 57.76775159, 76.61502631), tolerance = 1e-4)
  expect_equal(predict(fit, at, type = "mean"), c(54.00772714, 65.98453866, 80.85088944), tolerance = 1e-9)
  # where npcdensbw(nmulti = 3) ends
  there <- update(fit, bandwidth = c(2.3615293326, 0.2677708857))
  expect_equal(as.numeric(logLik(there)), -863.5029629, tolerance = 1e-9)
  chosen <- update(fit, bandwidth = NULL)
  expect_equal(unname(coef(chosen)), c(2.36, 0.268), tolerance = 0.03) # waiting is rounded, for which ours is wider
  expect_gt(logLik(chosen), -863.53)
})

test_that("rows far from all points have the density of the nearest", {
  data <- regression_case(50)
  fit <- flash_kde(y ~ a, data, bandwidth = c(0.3, 0.2))
  far <- data.frame(a = c(20, 1e6), y = c(0.4, 0.4))
  last <- data$y[which.max(data$a)]
  expect_equal(predict(fit, far), stats::dnorm(c(0.4, 0.4), last, 0.3), tolerance = 1e-9)
  expect_equal(predict(fit, far["a"], type = "mean"), rep(last, 2))
  expect_equal(predict(fit, far["a"], type = "variance"), rep(0.09, 2))
  expect_equal(unname(quantile(fit, far, 0.9)[, 1]), rep(stats::qnorm(0.9, last, 0.3), 2))
  draws <- unlist(simulate(fit, 500, seed = 1, newdata = far))
  expect_gt(stats::ks.test(draws, "pnorm", last, 0.3)$p.value, 0.01)
})

test_that("distribution functions and quantiles are the same on any number of threads, and keep their lower tails", {
  data <- regression_case(2000)
  fit <- flash_kde(y ~ a + b, data, bandwidth = c(0.2, 0.3, 0.4))
  by <- \(threads) predict(fit, data, type = "cdf", control = flash_control(threads = threads))
  expect_identical(by(1), by(2))
  probs <- c(1e-12, 0.3, 1 - 1e-6)
  both <- lapply(1:2, \(threads) {
    fit$joint$threads <- threads
    quantile(fit, data, probs)
  })
  expect_identical(both[[1]], both[[2]])
  expect_equal(diag(kde_cdf(fit, both[[1]][1:20, 1], data[1:20, ])), rep(1e-12, 20), tolerance = 1e-9)
  expect_true(all(diff(t(kde_cdf(fit, seq(-3, 3, 0.5), data[1:20, ]))) > 0))
  expect_identical(unname(kde_cdf(fit, c(-Inf, Inf), data[1, ])), cbind(0, 1))
  x <- as.matrix(data[c("y", "a", "b")])
  k <- ref_given_weights(x, c(0.5, 0.5), c(0.2, 0.3, 0.4))
  want <- sum(k * stats::pnorm((-3.5 - data$y) / 0.2))
  expect_lt(want, 1e-12)
  expect_equal(kde_cdf(fit, -3.5, data.frame(a = 0.5, b = 0.5))[1], want, tolerance = 1e-12)
})

test_that("a distribution function has the digits of R's, and knows points that weigh e^-72", {
  one <- flash_kde(y ~ a, data.frame(y = 0, a = c(1, 1)), bandwidth = c(0.5, 1))
  z <- seq(-36, 9, 0.01)
  error <- abs(kde_cdf(one, z / 2, data.frame(a = 1))[1, ] / stats::pnorm(z) - 1)
  expect_lt(max(error / (1 + z^2 / 8)), 1e-15) # of an exponent z^2 / 2 the last bit
  two <- flash_kde(y ~ a, data.frame(y = c(10, 0), a = c(0, 12)), bandwidth = c(0.5, 1))
  expect_equal(kde_cdf(two, c(10, 0.2), data.frame(a = 0))[1, ], c(0.5, exp(-72) * stats::pnorm(0.4)), ignore_attr = TRUE)
  expect_equal(quantile(two, data.frame(a = 0), exp(-72) / 4)[1], stats::qnorm(0.25) / 2)
})

test_that("draws follow the conditional distribution, by R's generator", {
  data <- regression_case()
  for (estimator in c("kde", "sdkde")) {
    fit <- flash_kde(y ~ a + b, data, estimator = estimator)
    at <- data.frame(a = c(-1, 1), b = 0.5)
    draws <- as.matrix(simulate(fit, 2000, seed = 3, newdata = at))
    for (j in 1:2) expect_gt(stats::ks.test(draws[j, ], \(q) kde_cdf(fit, q, at[j, ])[1, ])$p.value, 0.01)
    set.seed(3)
    expect_identical(simulate(fit, 2, newdata = at)[[1]], simulate(fit, 2, seed = 3, newdata = at)[[1]])
  }
  two <- simulate(flash_kde(cbind(y, b) ~ a, data, bandwidth = 0.2), 2)
  expect_identical(names(two), c("sim_1.y", "sim_2.y", "sim_1.b", "sim_2.b"))
})

# ---- the choice of bandwidths

test_that("the criterion is the leave-one-out conditional likelihood, with its gradient", {
  data <- clean_points(as.matrix(regression_case(80)[c("y", "a", "b")]), NULL)
  run <- run_control(CONTROL_DEFAULTS)
  criterion <- conditional_criterion(data, 1, run, list2env(list(evaluations = 0)))
  sds <- c(0.3, 0.5, 0.8)
  at <- \(sds) criterion$gradient(diag(sds))
  floor <- 1e-6 / (pi * (1 + data$x[, 1]^2))
  value <- -mean(vapply(1:80, \(i) {
    log(exp(ref_log_conditional(data$x[-i, ], data$x[i, 1], data$x[i, 2:3], diag(sds^2), dims = 2:3)) + floor[i])
  }, 0))
  expect_within(at(sds)$value, value, 1e-11)
  slopes <- vapply(1:3, \(k) {
    step <- exp(1e-5 * (1:3 == k))
    (at(sds * step)$value - at(sds / step)$value) / 2e-5
  }, 0)
  expect_within(at(sds)$E, slopes, 1e-7)
  # alone in x: the floor alone
  data$x[1, 2] <- 1e3
  alone <- conditional_criterion(data, 1, run, list2env(list(evaluations = 0)))$gradient(diag(sds))
  expect_true(is.finite(alone$value) && all(is.finite(alone$E)))
})

test_that("the bandwidths are at the maximum, whatever the order and the units, and irrelevant variables drop out", {
  data <- regression_case(400)
  data$noise <- stats::rnorm(400)
  fit <- flash_kde(y ~ a + noise, data)
  expect_identical(fit$search$wide, "noise")
  expect_output(print(fit), "noise drops out")
  spread <- min(stats::sd(data$y), stats::IQR(data$y) / 1.34)
  floor <- 1e-6 * stats::dcauchy(data$y, stats::median(data$y), spread)
  criterion <- \(...) mean(log(predict(update(fit, ...), loo = TRUE) + floor))
  best <- criterion()
  expect_equal(best, fit$search$loglik, tolerance = 1e-3)
  for (by in list(c(1.1, 1, 1), c(1 / 1.1, 1, 1), c(1, 1.1, 1), c(1, 1 / 1.1, 1), c(1, 1, 0.2))) {
    expect_lt(criterion(bandwidth = coef(fit) * by), best)
  }
  expect_gt(best, criterion(bandwidth = "silverman"))
  expect_identical(coef(flash_kde(y ~ a + noise, data[400:1, ])), coef(fit))
  scaled <- transform(data, y = 1024 * y, a = a / 64)
  expect_equal(coef(flash_kde(y ~ a + noise, scaled))[1:2], coef(fit)[1:2] * c(1024, 1 / 64), tolerance = 1e-6)
  few <- flash_kde(y ~ a + noise, data, bandwidth = kde_bandwidth(rows = 100))
  expect_identical(few$search$rows, 400)
  expect_identical(few$search$batches, 4)
  expect_equal(coef(few)[1:2], coef(fit)[1:2], tolerance = 0.5)
  debiased <- flash_kde(y ~ a + noise, data, estimator = "sdkde")
  expect_true(all(coef(debiased)[1:2] > coef(fit)[1:2]))
  expect_error(logLik(debiased), class = "flashkernel_error_unsupported")
  expect_error(predict(debiased, loo = TRUE), class = "flashkernel_error_unsupported")
})

test_that("a conditional density with chosen bandwidths is nearer to the truth than that of the joint rule", {
  data <- regression_case(1000)
  at <- expand.grid(a = seq(-1.5, 1.5, 0.3), b = c(0.2, 0.5, 0.8), y = seq(-2, 2, 0.1))
  truth <- stats::dnorm(at$y, sin(2 * at$a), 0.2 + 0.3 * at$b)
  error <- \(...) mean((predict(flash_kde(y ~ a + b, data, ...), at) - truth)^2)
  expect_lt(error(), 0.7 * error(bandwidth = "silverman"))
})

# ---- methods

test_that("the fit has the methods of a model", {
  data <- regression_case(100)
  data$y[4] <- NA
  fit <- flash_kde(y ~ a + log(b), data, na.action = na.exclude)
  expect_length(predict(fit), 100)
  expect_identical(which(is.na(residuals(fit))), 4L)
  expect_identical(which(is.na(predict(fit, data))), 4L)
  expect_identical(which(is.na(predict(fit, data, type = "mean"))), integer())
  expect_identical(dim(quantile(fit, replace(data, "a", c(NA, data$a[-1])), 0.5)), c(100L, 1L))
  expect_identical(nrow(simulate(fit)), 100L)
  expect_identical(nobs(fit), 99L)
  expect_identical(names(coef(fit)), c("y", "a", "log(b)"))
  expect_output(print(fit), "p\\(y \\| a, log\\(b\\)\\)")
  expect_output(print(summary(fit)), "Residuals")
  expect_s3_class(kde_conditional(fit, c(a = 1, b = 0.5)), "flash_kde")
  alone <- flash_kde(data$a[-4], "kde", bandwidth = coef(fit)[["a"]])
  expect_within(predict(kde_marginal(fit, "a"), c(-1, 0, 2)), predict(alone, c(-1, 0, 2)), 1e-12)
  file <- tempfile()
  on.exit(unlink(file))
  saveRDS(fit, file)
  expect_identical(predict(readRDS(file)), predict(fit))
  expect_identical(update(fit, . ~ . - a)$given, "log(b)")
  expect_identical(flash_kde(y ~ ., data, bandwidth = 1)$given, c("a", "b"))
  one <- \(...) predict(flash_kde(y ~ a, data, bandwidth = 1, ...))
  expect_identical(one(control = flash_control(threads = 1)), one())
  expect_length(predict(fit, data[NA_integer_, ], na.action = na.omit), 0)
  expect_identical(formula(fit), y ~ a + log(b), ignore_attr = TRUE)
})

test_that("what makes no sense is refused by name", {
  data <- regression_case(50)
  expect_argument_error(flash_kde(y ~ 1, data), "formula")
  expect_argument_error(flash_kde(list(y) ~ a, data), "formula")
  expect_argument_error(flash_kde(y ~ a * b, data), "formula")
  expect_argument_error(flash_kde(y ~ a, data, bandwidth = kde_bandwidth(structure = "full")), "structure")
  expect_argument_error(flash_kde(y ~ a, data, adaptive = "balloon"), "adaptive")
  expect_argument_error(flash_kde(y ~ a, transform(data, a = 1)), "formula")
  fit <- flash_kde(y ~ a, data, bandwidth = 0.3)
  expect_argument_error(predict(fit, data["a"]), "newdata")
  expect_argument_error(predict(fit, data["y"], type = "mean"), "newdata")
  expect_argument_error(predict(fit, 1:3), "newdata")
  expect_argument_error(predict(fit, data, loo = TRUE), "loo")
  expect_argument_error(predict(fit, type = "mean", loo = TRUE), "loo")
  expect_argument_error(quantile(fit, data, 2), "probs")
  expect_argument_error(kde_cdf(fit, NA_real_, data), "q")
  expect_argument_error(kde_conditional(fit, c(b = 1)), "given")
  expect_argument_error(plot(fit, prob = c(0.9, 0.1)), "prob")
  far <- data.frame(y = 1, a = 1e200)
  for (type in c("density", "mean", "cdf")) expect_argument_error(predict(fit, far, type), "newdata")
  expect_argument_error(quantile(fit, far), "newdata")
})

test_that("figures hold the density and its quantiles", {
  data <- regression_case(100)
  fit <- flash_kde(y ~ a, data)
  drawn <- with_null_device(plot(fit, n = 45))
  at <- expand.grid(a = drawn$x, y = drawn$y)
  expect_within(drawn$z, predict(fit, at), 1e-12)
  expect_equal(rowSums(drawn$z) * diff(drawn$y[1:2]), rep(1, length(drawn$x)), tolerance = 0.02)
  expect_identical(drawn$quantiles$y, quantile(fit, data.frame(a = drawn$quantiles$x), c(0.1, 0.5, 0.9)))
  two <- flash_kde(y ~ a + b, data)
  curves <- with_null_device(plot(two, n = 30))
  expect_within(
    curves$a$density[, 2],
    predict(two, data.frame(y = curves$a$y, a = curves$a$at[[2]], b = stats::median(data$b))), 1e-12
  )
  skip_if_not_installed("ggplot2")
  expect_s3_class(with_null_device(print(ggplot2::autoplot(fit, n = 30))), "ggplot")
  expect_s3_class(ggplot2::autoplot(two, n = 30), "ggplot")
})

test_that("figures of a conditional density of one row, or of rows far apart, have numbers everywhere", {
  rows <- data.frame(a = 1:5 / 5, y = 5:1 / 5, g = factor(1:5 %% 2))
  one <- c(1, 0, 0, 0, 0)
  fit <- flash_kde(y ~ a, rows, bandwidth = 0.3, weights = one)
  drawn <- with_null_device(plot(fit, n = 20))
  expect_equal(range(drawn$x), 0.2 + c(-0.9, 0.9))
  expect_equal(drawn$z[7, ], dnorm(drawn$y, 1, 0.3))
  for (formula in list(y ~ a + g, g ~ a)) {
    mixed <- flash_kde(formula, rows, bandwidth = 0.3, categorical = categorical_kernel(smoothing = 0.2), weights = one)
    expect_false(anyNA(unlist(lapply(with_null_device(plot(mixed, n = 20)), unclass))))
  }
  level <- flash_kde(y ~ a, data.frame(a = 1, y = 1:3), bandwidth = 0.3)
  expect_gt(diff(range(with_null_device(plot(level, n = 20))$x)), 1)
  for (estimator in c("kde", "sdkde", "laplace")) {
    far <- flash_kde(y ~ a, data.frame(y = c(0, 1000), a = c(0, 1000)), estimator = estimator, bandwidth = 0.64)
    drawn <- with_null_device(plot(far, n = 20))
    at <- expand.grid(a = drawn$x, y = drawn$y)
    expect_within(as.vector(drawn$z), predict(far, at[2:1]), 1e-8)
  }
  skip_if_not_installed("ggplot2")
  expect_s3_class(ggplot2::ggplot_build(ggplot2::autoplot(fit, n = 20)), "ggplot_built")
})

test_that("the logarithm of a conditional density has points whose weight at x underflows", {
  x <- cbind(y = c(-0.856, -1.157, 34.883), a = c(0.501, 3.559, 31.890))
  w <- c(1, 5e-8, 5e-8)
  fit <- \(x, ...) flash_kde(y ~ a, as.data.frame(x), bandwidth = 0.4794, weights = w, ...)
  at <- data.frame(y = -1.157, a = 24.39)
  H <- diag(0.4794^2, 2)
  want <- ref_log_conditional(x, -1.157, 24.39, H, w = w, dims = 2)
  expect_equal(predict(fit(x), at, type = "log_density"), want, tolerance = 1e-12)
  for (other in list(list(estimator = "sdkde"), list(adaptive = c(1, 1.2, 0.9)))) {
    of <- do.call(fit, c(list(x), other))
    far <- log_conditional_far(of, as.matrix(at["y"]), as.matrix(at["a"]), run_control(settle_control(NULL)))
    want <- predict(of$joint, at, type = "log_density") - predict(kde_marginal(of, "a"), at$a, type = "log_density")
    expect_equal(far$log_abs, want, tolerance = 1e-11)
  }
  # with levels on either side, of which a point that is far has the one that is asked for
  data <- data.frame(x, g = factor(c("u", "v", "u")))
  at$g <- "v"
  of <- flash_kde(cbind(y) ~ a + g, data, bandwidth = 0.4794, categorical = categorical_kernel(smoothing = 0.1), weights = w)
  k <- ifelse(data$g == "v", 0.9, 0.1)
  expect_equal(predict(of, at, type = "log_density"), ref_log_conditional(x, -1.157, 24.39, H, w = w * k, dims = 2))
  of <- flash_kde(g ~ a, data, bandwidth = 0.4794, categorical = categorical_kernel(smoothing = 0), weights = w)
  want <- ref_log_density(x[2, "a", drop = FALSE], 24.39, H[1, 1, drop = FALSE], w[2]) + log(w[2] / sum(w)) -
    ref_log_density(x[, "a", drop = FALSE], 24.39, H[1, 1, drop = FALSE], w)
  expect_equal(predict(of, at, type = "log_density"), want)
})
