# SD-KDEs of several steps and along a given score: against loops in plain R, and what normal data become exactly.

# x + (H / 2) score((x + y) / 2) of the KDE of y, `steps` - 1 times after the first step
ref_steps <- function(x, H, H_score, steps, weights = NULL, first = ref_score(x, x, H_score, weights)) {
  y <- x + first %*% H / 2
  for (step in seq_len(steps - 1)) y <- x + ref_score(y, (x + y) / 2, H_score, weights) %*% H / 2
  y
}

test_that("each step takes the score of the last one's points, half way to them", {
  for (d in c(1, 3)) for (weighted in c(FALSE, TRUE)) {
    x <- matrix(example_points(40, max(d, 2))[, seq_len(d)], 40)
    H <- example_bandwidth(d)
    w <- if (weighted) c(0, seq(0.3, 2, length.out = 39))
    at <- matrix(example_points(10, max(d, 2), seed = 2)[, seq_len(d)], 10)
    for (steps in 1:4) {
      fit <- flash_kde(x, bandwidth = H, debias = debiasing(bandwidth = H / 2, steps = steps), weights = w)
      moved <- ref_steps(x, H, H / 2, steps, w)
      expect_within(fit$debiased, moved, 1e-10, paste("points,", steps))
      expect_within(predict(fit, at, type = "log_density"), ref_log_kde(moved, at, H, w), 1e-9, paste("logs,", steps))
    }
  }
  expect_identical(fit$estimator, "sdkde")
  expect_equal(flash_kde(x, bandwidth = H, debias = debiasing(steps = 2))$score_bandwidth, H / 2)
  expect_equal(flash_kde(x, "sdkde", bandwidth = H)$score_bandwidth, H)
})

test_that("of a normal density, smoothed exactly, one step leaves a bias of order h^4, two of h^6", {
  x <- seq(-9, 9, by = 0.05) # the trapezoid rule of a smooth function has no error
  at <- c(0, 0.7, 1.5)
  # points move to a x: (1 + a) / 2 x has the score -(1 + a) / 2 x / (a^2 + h^2 / 2) among N(0, a^2) with h^2 / 2
  shrink <- function(h, steps) {
    a <- 1
    for (step in seq_len(steps)) a <- 1 - h^2 / 2 * (1 + a) / 2 / (a^2 + h^2 / 2)
    a
  }
  bias <- function(h, steps) {
    fit <- flash_kde(x, "sdkde", bandwidth = h, debias = debiasing(bandwidth = h / sqrt(2), steps = steps), weights = dnorm(x))
    sd <- sqrt(shrink(h, steps)^2 + h^2)
    expect_within(predict(fit, at), dnorm(at, sd = sd), 1e-10, paste("steps", steps))
    abs(predict(fit, 0) - dnorm(0))
  }
  order <- \(steps) log2(bias(0.4, steps) / bias(0.2, steps))
  expect_within(order(1), 4, 0.15)
  expect_within(order(2), 6, 0.3)
  expect_lt(bias(0.4, 3), bias(0.4, 2) / 2)
})

test_that("far from the origin, and for every thread, the points are the same", {
  x <- example_points(60, 2)
  near <- flash_kde(x, bandwidth = 0.5, debias = debiasing(steps = 3))
  far <- flash_kde(x + 2^30, bandwidth = 0.5, debias = debiasing(steps = 3))
  expect_within(predict(far, x + 2^30), predict(near, x), 1e-6)
  for (threads in 1:2) {
    again <- flash_kde(x, bandwidth = 0.5, debias = debiasing(steps = 3), control = flash_control(threads = threads))
    expect_identical(again$debiased, near$debiased)
  }
})

test_that("a chosen bandwidth is wider for more steps, a given one is not", {
  one <- flash_kde(faithful, "sdkde", bandwidth = "silverman")
  two <- flash_kde(faithful, bandwidth = "silverman", debias = debiasing(steps = 2))
  wider <- 0.9 * 272^(1 / 10 - 1 / 14)
  expect_equal(diag(two$bandwidth), diag(one$bandwidth) * wider^2)
  expect_equal(flash_kde(faithful, bandwidth = c(0.3, 4), debias = debiasing(steps = 2))$bandwidth, diag(c(0.09, 16)), ignore_attr = TRUE)
  expect_output(print(two), "own score, in 2 steps")
})

test_that("a score may be a function, a matrix or a fit", {
  x <- example_points(50, 2)
  colnames(x) <- c("a", "b")
  H <- example_bandwidth(2)
  S <- solve(stats::cov(x))
  normal <- \(points) -(points - rep(colMeans(x), each = nrow(points))) %*% S
  by_function <- flash_kde(x, bandwidth = H, debias = debiasing(score = normal))
  expect_within(by_function$debiased, x + normal(x) %*% H / 2, 1e-12)
  expect_null(by_function$score_bandwidth)
  expect_equal(flash_kde(x, bandwidth = H, debias = debiasing(score = normal(x)))$debiased, by_function$debiased)
  expect_equal(flash_kde(x, bandwidth = H, debias = debiasing(score = as.data.frame(normal(x))))$debiased, by_function$debiased)
  pilot <- flash_kde(x, "kde", bandwidth = 0.9)
  by_fit <- flash_kde(x, bandwidth = H, debias = debiasing(score = pilot))
  expect_within(by_fit$debiased, x + predict(pilot, x, type = "score") %*% H / 2, 1e-12)
  later <- flash_kde(x, bandwidth = H, debias = debiasing(score = normal, steps = 3))
  expect_within(later$debiased, ref_steps(x, H, H / 2, 3, first = normal(x)), 1e-10)
  far <- flash_kde(x + 2^30, "kde", bandwidth = 0.9)
  by_far <- flash_kde(x + 2^30, bandwidth = H, debias = debiasing(score = far))
  expect_within(predict(by_far, x + 2^30), predict(by_fit, x), 1e-6)
  expect_output(print(by_function), "the score that was given")
})

test_that("rows that are missing lose their rows of the score", {
  x <- example_points(30, 2)
  score <- -x
  x[4, 1] <- NA
  fit <- flash_kde(x, bandwidth = 0.6, debias = debiasing(score = score), na.action = na.exclude)
  expect_within(fit$debiased, x[-4, ] - 0.18 * x[-4, ], 1e-12)
  expect_identical(which(is.na(predict(fit))), 4L)
  # of several steps, too
  expect_equal(flash_kde(x, bandwidth = 0.6, debias = debiasing(steps = 2), na.action = na.omit)$n, 29)
})

test_that("a given score knows of no point, so leaving one out is exact, in blocks and beyond them", {
  x <- example_points(1100, 2)
  x[1, ] <- 200
  w <- seq(0, 1, length.out = 1100)
  H <- example_bandwidth(2)
  for (weights in list(NULL, w)) {
    fit <- flash_kde(x, bandwidth = H, debias = debiasing(score = -x / 4), weights = weights)
    rows <- c(1, 2, 512, 513, 1100)
    want <- vapply(rows, \(i) ref_log_kde(fit$debiased[-i, ], x[i, , drop = FALSE], H, weights[-i]), 0)
    expect_within(predict(fit, loo = TRUE, type = "log_density")[rows], want, 1e-9)
  }
  small <- flash_kde(x[2:20, ], bandwidth = H, debias = debiasing(score = -x[2:20, ] / 4))
  want <- vapply(1:19, \(i) ref_log_kde(small$debiased[-i, ], small$x[i, , drop = FALSE], H), 0)
  expect_equal(as.numeric(logLik(small)), sum(want))
})

test_that("points are left out of all steps, as by fits without each", {
  x <- example_points(25, 2)
  w <- rep(c(1, 0, 3, 2, 1), 5)
  fits <- list(
    \(rows) flash_kde(x[rows, ], bandwidth = 0.5, debias = debiasing(steps = 2)),
    \(rows) flash_kde(1e7 + x[rows, ], bandwidth = 0.5, debias = debiasing(bandwidth = 0.7, steps = 3), weights = w[rows]),
    \(rows) flash_kde(x[rows, ], bandwidth = 0.5, debias = debiasing(steps = 2, score = -x[rows, ] / 2), weights = w[rows]),
    \(rows) flash_kde(x[rows, ], bandwidth = 0.5, debias = debiasing(steps = 2, score = \(p) -p), tol = 1e-2, control = flash_control(engine = "fast"))
  )
  for (fit in fits) {
    all <- fit(1:25)
    found <- predict(all, loo = TRUE, type = "log_density")
    without <- vapply(c(1, 2, 25), \(i) {
      predict(fit(-i), all$x[i, , drop = FALSE], type = "log_density", tol = 0, control = flash_control(engine = "exact"))
    }, 0)
    tolerance <- if (all$tol > 0) 1e-2 else 1e-8
    expect_equal(found[c(1, 2, 25)], without, tolerance = tolerance)
  }
  two <- fits[[1]](1:25)
  expect_equal(as.numeric(logLik(two)), sum(predict(two, loo = TRUE, type = "log_density")))
  # a column's own scores are lost where columns are put in another order
  turned <- kde_marginal(fits[[3]](1:25), 2:1)
  expect_argument_error(predict(turned, loo = TRUE), "object")
})

test_that("what steps cannot be is refused in words", {
  x <- example_points(20, 2)
  two <- flash_kde(x, bandwidth = 0.5, debias = debiasing(steps = 2))
  expect_null(summary(two)$loglik)
  # of many points that would take too long
  many <- flash_kde(matrix(seq(0, 1, length.out = 3000)), bandwidth = 0.01, debias = debiasing(steps = 2))
  for (asks in list(\() logLik(many), \() predict(many, loo = TRUE))) {
    expect_error(asks(), "cross_validate", class = "flashkernel_error_unsupported")
  }
  expect_error(flash_kde(x, bandwidth = 0.5, debias = debiasing(steps = 2), adaptive = TRUE), class = "flashkernel_error_unsupported")
  expect_argument_error(flash_kde(x, "kde", bandwidth = 0.5, debias = debiasing(steps = 2)), "debias$steps")
  expect_argument_error(flash_kde(x, "laplace", bandwidth = 0.5, debias = debiasing(score = -x)), "debias$score")
  for (bad in list(0, 1.5, NA, "a", 1:2, 21, NULL)) expect_argument_error(flash_kde(x, debias = debiasing(steps = bad)), "steps")
  bad_scores <- list(1, x[-1, ], x[, 1], "a", \(p) p[-1, ], \(p) NULL, flash_kde(x[, 1], "kde", bandwidth = 1))
  for (bad in bad_scores) expect_argument_error(flash_kde(x, bandwidth = 0.5, debias = debiasing(score = bad)), "debias$score")
  expect_argument_error(flash_kde(x, bandwidth = 0.5, debias = debiasing(score = replace(x, 3, Inf))), "debias$score")
  expect_argument_error(flash_kde(x, bandwidth = 0.5, debias = debiasing(score = -x, bandwidth = 1)), "debias$bandwidth")
})

test_that("on many points two steps are closer to the truth than one, each at its best bandwidth", {
  set.seed(3)
  x <- stats::rnorm(4000)
  at <- seq(-4, 4, by = 0.02)
  ise <- \(steps) min(vapply(c(0.3, 0.4, 0.5, 0.6, 0.7), \(h) {
    sum((predict(flash_kde(x, "sdkde", bandwidth = h, debias = debiasing(bandwidth = h / sqrt(2), steps = steps)), at) - dnorm(at))^2)
  }, 0))
  expect_lt(ise(2), ise(1))
})
