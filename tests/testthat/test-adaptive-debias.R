# SD-KDEs whose points have bandwidths of their own, against sums in plain R.

# The points after their steps: each along the score of all points with their weights times squared factors, by a kernel
# as wide as its own.
ref_debias_widths <- function(x, H, Hs, factors, w) {
  moved <- vapply(seq_len(nrow(x)), \(j) {
    own <- ref_score(x, x[j, , drop = FALSE], factors[j]^2 * Hs, w * factors^2)
    x[j, ] + factors[j]^2 * as.vector(own %*% H) / 2
  }, numeric(ncol(x)))
  matrix(moved, nrow(x), byrow = TRUE)
}

ref_log_sdkde_widths <- function(x, y, H, Hs, factors, w) {
  centres <- ref_debias_widths(x, H, Hs, factors, w)
  apply(y, 1, \(at) {
    terms <- log(w) - ncol(x) * log(factors) - ref_distance2(centres, at, H) / factors^2 / 2
    max(terms) + log(sum(exp(terms - max(terms))))
  }) + ref_log_norm(H, sum(w))
}

widths_case <- function(n = 40, d = 2) {
  set.seed(3)
  H <- example_bandwidth(d)
  list(
    x = matrix(stats::rnorm(n * d), n), y = matrix(2 * stats::rnorm(7 * d), 7), H = H, Hs = H / 2 + diag(0.1, d),
    factors = sample(c(0.5, 0.8, 1, 2.5), n, replace = TRUE), w = stats::runif(n, 0.1, 2)
  )
}

fit_widths <- function(case, x = case$x, ...) {
  flash_kde(x, "sdkde", bandwidth = case$H, debias = debiasing(bandwidth = case$Hs), adaptive = case$factors, ...)
}

test_that("points move along the score of squared factors, and densities and scores are of them", {
  for (d in c(1, 2, 5)) for (weighted in c(FALSE, TRUE)) {
    case <- widths_case(d = d)
    w <- if (weighted) case$w else rep(1, 40)
    fit <- fit_widths(case, weights = if (weighted) w)
    expect_equal(unname(fit$debiased), ref_debias_widths(case$x, case$H, case$Hs, case$factors, w), tolerance = 1e-12)
    of <- \(y) ref_log_sdkde_widths(case$x, y, case$H, case$Hs, case$factors, w)
    expect_equal(predict(fit, case$y, type = "log_density"), of(case$y), tolerance = 1e-12)
    expect_equal(predict(fit, type = "log_density"), of(case$x), tolerance = 1e-12)
    step <- 1e-5
    slope <- (of(case$y + rep(c(step, rep(0, d - 1)), each = 7)) - of(case$y - rep(c(step, rep(0, d - 1)), each = 7)))
    expect_equal(unname(predict(fit, case$y, type = "score"))[, 1], slope / (2 * step), tolerance = 1e-6)
  }
})

test_that("leave-one-out values leave a point out of both stages, in the tails, too", {
  for (d in c(1, 3)) for (weighted in c(FALSE, TRUE)) for (n in c(2, 17, 65)) {
    case <- widths_case(n, d)
    case$x[n, ] <- 300 # alone, a long way out
    case$factors[1] <- 9 # alone in its class
    w <- if (weighted) case$w else rep(1, n)
    fit <- fit_widths(case, weights = if (weighted) w)
    want <- vapply(seq_len(n), \(i) {
      ref_log_sdkde_widths(
        case$x[-i, , drop = FALSE], case$x[i, , drop = FALSE], case$H, case$Hs, case$factors[-i], w[-i]
      )
    }, 0)
    expect_equal(predict(fit, type = "log_density", loo = TRUE), want, tolerance = 1e-10)
  }
})

test_that("factors of 1 leave the estimate of one bandwidth", {
  case <- widths_case()
  case$factors[] <- 1
  one <- flash_kde(case$x, "sdkde", bandwidth = case$H, debias = debiasing(bandwidth = case$Hs), weights = case$w)
  fit <- fit_widths(case, weights = case$w)
  for (loo in c(FALSE, TRUE)) {
    of <- \(fit) predict(fit, type = "log_density", loo = loo)
    expect_equal(of(fit), of(one), tolerance = 1e-12)
  }
  expect_equal(predict(fit, case$y, type = "score"), predict(one, case$y, type = "score"), tolerance = 1e-11)
})

# A sample without chance, of quantiles, whose estimate has its bias alone.
test_that("the bias is of order h^4, where that of kernels with the same factors is of order h^2", {
  x <- stats::qnorm(stats::ppoints(4000))
  factors <- exp(round(x^2 / 8 * 60 / 1.6) * 1.6 / 60) # of power 1/4
  at <- seq(-1.5, 1.5, 0.25)
  bias <- function(estimator, h) {
    max(abs(predict(flash_kde(x, estimator, bandwidth = h, adaptive = factors), at) - stats::dnorm(at)))
  }
  expect_lt(bias("kde", 0.4) / bias("kde", 0.2), 5)
  expect_gt(bias("sdkde", 0.4) / bias("sdkde", 0.2), 10)
  expect_lt(bias("sdkde", 0.2), bias("kde", 0.2) / 10)
})

test_that("the order of the rows, threads, the origin and points of no weight change nothing", {
  case <- widths_case(300)
  fit <- fit_widths(case)
  expect_identical(fit_widths(case, control = flash_control(threads = 1))$debiased, fit$debiased)
  expect_identical(predict(fit, loo = TRUE, control = flash_control(threads = 1)), predict(fit, loo = TRUE))
  far <- fit_widths(case, case$x + 2^40)
  near <- fit_widths(case, case$x + 2^40 - 2^40)
  for (loo in c(FALSE, TRUE)) {
    of <- \(fit) predict(fit, type = "log_density", loo = loo)
    expect_equal(of(far), of(near), tolerance = 1e-12)
  }
  more <- case
  more$factors <- c(case$factors, 1e-150, 1e150)
  with_none <- fit_widths(more, rbind(case$x, c(1e200, 1), c(0, 0)), weights = c(rep(1, 300), 0, 0))
  expect_equal(predict(with_none, case$y), predict(fit, case$y), tolerance = 1e-13)
  expect_equal(predict(with_none, loo = TRUE)[1:300], predict(fit, loo = TRUE), tolerance = 1e-13)
})

test_that("the distribution function and marginals are of the moved points", {
  case <- widths_case(60, 1)
  fit <- fit_widths(case, weights = case$w)
  centres <- ref_debias_widths(case$x, case$H, case$Hs, case$factors, case$w)[, 1]
  q <- c(-3, -0.2, 0.4, 2)
  want <- vapply(q, \(at) {
    sum(case$w * stats::pnorm((at - centres) / (case$factors * sqrt(case$H[1])))) / sum(case$w)
  }, 0)
  expect_equal(kde_cdf(fit, q), want, tolerance = 1e-13)
  case <- widths_case(60, 3)
  fit <- fit_widths(case)
  at <- cbind(seq(-2, 2, 0.5))
  terms <- vapply(at, \(q) {
    mean(stats::dnorm(q, fit$debiased[, 2], case$factors * sqrt(case$H[2, 2])))
  }, 0)
  expect_equal(signed_density(log_shown(shown_part(fit, 2), at)), terms, tolerance = 1e-12)
})

test_that("an estimate to a tolerance keeps it, and its leave-one-out values are exact", {
  set.seed(4)
  x <- matrix(stats::rnorm(6000), ncol = 2)
  fit <- \(...) flash_kde(x, "sdkde", bandwidth = 0.3, adaptive = rep(c(1, 2, 3), 1000), ...)
  exact <- predict(fit(), x[1:500, ])
  expect_lt(max(abs(predict(fit(tol = 1e-3, control = flash_control(engine = "fast")), x[1:500, ]) - exact)), 1e-2 * max(exact))
  expect_identical(predict(fit(tol = 1e-3), loo = TRUE), predict(fit(), loo = TRUE))
})

test_that("where the bandwidth is chosen, the scale is that of the debiased estimate's censored likelihood", {
  set.seed(9)
  x <- matrix(stats::rt(1200, 2), ncol = 2)
  one <- flash_kde(x, "sdkde")
  # both with the floor of the criteria
  clean <- judged(clean_points(x, NULL))
  floored <- \(fit) log_add(
    predict(fit, type = "log_density", loo = TRUE)[clean$source], log_floor_of(clean) - sum(log(clean$unit))
  )
  for (method in c("abramson", "knn")) {
    fit <- flash_kde(x, "sdkde", adaptive = method)
    expect_identical(fit$estimator, "sdkde")
    expect_identical(fit$score_bandwidth, SCORE_RATIO * fit$bandwidth)
    expect_gt(fit$adaptive$gain, 0.02)
    loss <- function(scale) {
      other <- update(
        fit, bandwidth = scale^2 * fit$bandwidth, debias = debiasing(bandwidth = scale^2 * fit$score_bandwidth),
        adaptive = fit$adaptive$factors
      )
      L <- t(chol(other$bandwidth)) / clean$unit
      -sum(clean$v * censored_terms(clean, floored(other), L, factors = fit$adaptive$factors[clean$source]))
    }
    expect_true(all(c(loss(0.7), loss(1.4)) > loss(1)))
    expect_equal(mean(floored(fit) - floored(one)), fit$adaptive$gain, tolerance = 1e-6)
  }
  expect_output(print(fit), "times the same factors")
  expect_output(print(summary(fit)), "Leave-one-out")
  given <- flash_kde(x, "sdkde", debias = debiasing(bandwidth = 0.5), adaptive = TRUE)
  expect_identical(unname(given$score_bandwidth), diag(0.25, 2))
})

test_that("nobody is given a debiased estimate with factors who did not ask for it", {
  set.seed(14)
  x <- matrix(stats::rnorm(400), ncol = 2) / sqrt(stats::rchisq(200, 1))
  expect_identical(flash_kde(x)$estimator, "kde")
  expect_identical(flash_kde(x, adaptive = TRUE)$estimator, "kde")
  expect_null(flash_kde(x, "sdkde")$adaptive)
  expect_argument_error(flash_kde(x, "sdkde", adaptive = "balloon"), "adaptive")
  expect_argument_error(predict(flash_kde(x, "sdkde", adaptive = TRUE), se.fit = TRUE, loo = TRUE), "loo")
})
