# The estimate as a distribution: standard errors, cdf, quantiles, draws, highest-density levels.

estimators <- c("kde", "sdkde", "laplace")

centres <- function(fit) if (fit$estimator == "sdkde") fit$debiased else fit$x

# ---- standard errors

test_that("the standard error is that of a mean of kernels", {
  # se^2 = sum w^2 K^2 / W^2 - p^2 sum w^2 / W^2
  x <- example_points(40, 2)
  y <- x[1:15, ] + 0.3
  H <- example_bandwidth(2)
  w <- seq(0.5, 2, length.out = 40)
  for (estimator in estimators) for (weights in list(NULL, w)) {
    fit <- flash_kde(x, estimator = estimator, bandwidth = H, weights = weights)
    found <- predict(fit, y, se.fit = TRUE)
    expect_equal(found$fit, predict(fit, y))
    weight <- ref_weights(x, weights)
    want <- vapply(1:15, \(j) {
      q <- ref_distance2(centres(fit), y[j, ], H)
      k <- exp(-q / 2 + ref_log_norm(H, 1)) * if (estimator == "laplace") 2 - q / 2 else 1
      p <- sum(weight * k) / sum(weight)
      sqrt((sum(weight^2 * k^2) - p^2 * sum(weight^2)) / sum(weight)^2)
    }, 0)
    expect_within(found$se.fit / want, rep(1, 15), 1e-9, estimator)
    if (estimator != "laplace") { # delta method
      logs <- predict(fit, y, type = "log_density", se.fit = TRUE)
      expect_within(logs$se.fit, want / found$fit, 1e-9, estimator)
    }
  }
})

test_that("the standard error is the spread over samples", {
  set.seed(11)
  y <- cbind(c(-1, 0, 0.5, 2))
  estimate <- function(i) {
    fit <- flash_kde(stats::rnorm(200), estimator = "kde", bandwidth = 0.4)
    unlist(predict(fit, y, se.fit = TRUE)[c("fit", "se.fit")])
  }
  draws <- vapply(1:400, estimate, numeric(8))
  spread <- apply(draws[1:4, ], 1, stats::sd)
  claimed <- sqrt(rowMeans(draws[5:8, ]^2))
  expect_true(all(abs(claimed / spread - 1) < 0.15))
})

# ---- one dimension

test_that("the cdf of many points, by boxes, is that of each place by itself, in the tails too", {
  set.seed(12)
  for (estimator in estimators) {
    fit <- flash_kde(c(stats::rnorm(3000), 40, 41), estimator, bandwidth = 0.3, adaptive = FALSE)
    q <- c(-Inf, -40, seq(-10, 60, length.out = 600), 1e6, Inf)
    together <- kde_cdf(fit, q)
    apart <- vapply(q, \(at) kde_cdf(fit, at), 0)
    expect_lte(max((abs(together - apart) / abs(apart))[apart != 0]), 1e-12, label = estimator)
    expect_identical(together[apart == 0], apart[apart == 0])
  }
})

test_that("the cdf is the sum of the kernels'", {
  x <- faithful$eruptions
  w <- seq(0.2, 2, length.out = 272)
  q <- seq(0, 7, length.out = 701)
  for (estimator in estimators) for (weights in list(NULL, w)) {
    fit <- flash_kde(x, estimator = estimator, bandwidth = 0.3, weights = weights)
    p <- kde_cdf(fit, q)
    want <- ref_cdf(centres(fit)[, 1], q, 0.3, weights, estimator == "laplace")
    expect_within(p, want, 1e-12, estimator)
    expect_equal(kde_cdf(fit, c(-1e6, 1e6)), c(0, 1))
    expect_equal(kde_cdf(fit, c(-Inf, Inf)), c(0, 1))
  }
})

test_that("the lower tail of the cdf keeps its relative precision", {
  x <- example_points(50, 1)
  fit <- flash_kde(x, estimator = "kde", bandwidth = 0.5)
  q <- min(x) - c(2, 5, 10)
  want <- vapply(q, \(at) mean(stats::pnorm((at - x) / 0.5)), 0)
  expect_within(kde_cdf(fit, q) / want, rep(1, 3), 1e-10)
})

test_that("quantiles close to 1 are as precise as those close to 0", {
  x <- faithful$eruptions
  probs <- 1 - c(1e-15, 1e-12, 1e-9, 1e-4, 0.02, 0.3, 0.49)
  for (estimator in estimators) {
    up <- quantile(flash_kde(x, estimator, bandwidth = 0.25), probs, names = FALSE)
    down <- quantile(flash_kde(-x, estimator, bandwidth = 0.25), 1 - probs, names = FALSE)
    expect_lt(max(abs(up + down)) / 0.25, 1e-11)
    expect_false(is.unsorted(rev(up)))
  }
  fit <- flash_kde(rep(3, 4), "kde", bandwidth = 0.1)
  expect_lt(max(abs(quantile(fit, probs) - qnorm(1 - probs, 3, 0.1, lower.tail = FALSE))) / 0.1, 1e-11)
})

test_that("quantiles increase over one half where the distribution function does not", {
  fit <- flash_kde(c(-2, 2), "laplace", bandwidth = 0.6)
  expect_lt(min(diff(kde_cdf(fit, seq(-2, 2, 0.01)))), 0)
  probs <- 0.5 + c(-10:10) * 1e-3
  expect_false(is.unsorted(quantile(fit, probs)))
})

test_that("integer64 is refused where its bits would be read, and too many values by their memory", {
  fit <- flash_kde(faithful$eruptions, "kde", bandwidth = 0.25)
  bits <- structure(c(1, 2) * 4.94e-324, class = "integer64")
  expect_argument_error(kde_cdf(fit, bits), "q")
  expect_argument_error(quantile(fit, bits), "probs")
  expect_argument_error(hdr_level(fit, bits), "prob")
  before <- options(flashkernel.memory_limit = 1e6)
  on.exit(options(before))
  expect_silent(kde_cdf(fit, 1:1000))
  expect_error(kde_cdf(fit, 1:1e6), "`q` is too large: this call needs about")
  expect_error(quantile(fit, rep(0.5, 1e5)), "`probs` is too large")
  expect_error(hdr_level(fit, rep(0.5, 1e5)), "`prob` is too large")
  options(flashkernel.memory_limit = NULL)
  for (call in expression(kde_cdf(fit, 1:1e15), quantile(fit, 0:1e15), hdr_level(fit, 0:1e15))) {
    expect_error(eval(call), "is too large", class = "flashkernel_error_argument")
  }
})

test_that("quantiles of a gap, of ties and of far outliers are found", {
  for (x in list(c(0, 1000), rep(3, 10), c(stats::qnorm(ppoints(50)), 1e6))) {
    fit <- flash_kde(x, estimator = "kde", bandwidth = 0.1)
    probs <- c(0.05, 0.3, 0.6, 0.95)
    expect_within(kde_cdf(fit, quantile(fit, probs)), probs, 1e-9)
  }
  fit <- flash_kde(rep(3, 4), estimator = "kde", bandwidth = 0.1)
  expect_equal(unname(quantile(fit, c(0.025, 0.5))), stats::qnorm(c(0.025, 0.5), 3, 0.1))
})

# ---- draws

test_that("the seed of simulate() works as in stats", {
  fit <- flash_kde(faithful, estimator = "kde")
  set.seed(7)
  state <- .Random.seed
  a <- simulate(fit, nsim = 5, seed = 42)
  expect_identical(.Random.seed, state)
  expect_identical(simulate(fit, nsim = 5, seed = 42), a)
  set.seed(9)
  b <- simulate(fit, nsim = 5)
  set.seed(9)
  expect_identical(simulate(fit, nsim = 5), b)
  expect_false(identical(as.matrix(a), as.matrix(b)))
  expect_false(is.null(attr(a, "seed")))
  expect_identical(dim(a), c(5L, 2L))
  expect_identical(colnames(a), names(faithful))
})

test_that("draws are a data frame that prints without the state of the generator", {
  for (estimator in estimators) {
    draws <- simulate(flash_kde(faithful$waiting, estimator = estimator), nsim = 3)
    expect_s3_class(draws, "data.frame", exact = TRUE)
    expect_identical(names(draws), "x")
    expect_length(utils::capture.output(print(draws)), 4)
  }
  fit <- flash_kde(~ log(eruptions) + waiting, data = faithful)
  expect_named(simulate(fit), c("log(eruptions)", "waiting"))
})

# ---- highest-density levels

test_that("a level holds its probability in one and two dimensions", {
  prob <- c(0.1, 0.5, 0.9, 0.95)
  grid <- seq(-8, 9, length.out = 20001)
  x <- example_points(80, 1)
  side <- seq(-8, 8, length.out = 601)
  plane <- as.matrix(expand.grid(side, side))
  z <- example_points(80, 2)
  for (estimator in c("kde", "sdkde")) {
    fit <- flash_kde(x, estimator = estimator, bandwidth = 0.4)
    level <- hdr_level(fit, prob)
    density <- predict(fit, grid)
    inside <- vapply(level, \(l) sum(density[density >= l]) * diff(grid[1:2]), 0)
    expect_within(inside, prob, 2e-3, estimator)

    fit <- flash_kde(z, estimator = estimator, bandwidth = example_bandwidth(2))
    density <- predict(fit, plane)
    inside <- vapply(hdr_level(fit, prob), \(l) sum(density[density >= l]) * diff(side[1:2])^2, 0)
    expect_within(inside, prob, 3e-3, estimator)
  }
})

test_that("the levels of a kernel on one point are those of the normal density", {
  prob <- c(0.5, 0.9)
  for (d in 1:3) {
    fit <- flash_kde(matrix(0, 1, d), estimator = "kde", bandwidth = 2)
    level <- hdr_level(fit, prob)
    want <- exp(-stats::qchisq(prob, d) / 2) / (2 * sqrt(2 * pi))^d
    expect_true(all(abs(level / want - 1) < if (d < 3) 5e-3 else 0.1))
  }
})

test_that("levels fall with the probability and keep the random state", {
  fit <- flash_kde(iris[1:4], estimator = "kde")
  set.seed(1)
  state <- .Random.seed
  level <- hdr_level(fit, c(0.2, 0.5, 0.95))
  expect_identical(.Random.seed, state)
  expect_true(all(diff(level) < 0))
  expect_identical(hdr_level(fit, c(0.2, 0.5, 0.95)), level)
})

test_that("levels of points too scattered for tiles come from draws, as precise as promised", {
  side <- 100 * seq_len(60)
  far_apart <- as.matrix(expand.grid(side, side)) # their tiles would take 2e10 kernel pairs
  prob <- c(0.2, 0.5, 0.95)
  for (estimator in c("kde", "laplace")) {
    one <- flash_kde(cbind(0, 0), estimator = estimator, bandwidth = 1)
    all <- flash_kde(far_apart, estimator = estimator, bandwidth = 1)
    level <- hdr_level(all, prob)
    expect_identical(hdr_level(all, prob), level)
    # what the levels of one kernel, which come from tiles, hold of it
    fine <- hdr_level(one, seq(0.01, 0.99, 0.01)) / 3600
    held <- stats::approx(fine, seq(0.01, 0.99, 0.01), level)$y
    expect_true(all(abs(held - prob) < 4 * sqrt(prob * (1 - prob) / 1e4)), label = estimator)
  }
})

test_that("levels from draws depend on their seed alone, NULL on the present state", {
  fit <- flash_kde(iris[1:4], estimator = "laplace", bandwidth = 0.3)
  level <- hdr_level(fit)
  kinds <- RNGkind("Wichmann-Hill")
  on.exit(RNGkind(kinds[1], kinds[2], kinds[3]))
  expect_identical(hdr_level(fit), level)
  expect_false(identical(hdr_level(fit, seed = 2), level))
  draw <- function() {
    set.seed(5)
    hdr_level(fit, seed = NULL)
  }
  expect_identical(draw(), draw())
  expect_false(identical(hdr_level(fit, seed = NULL), draw()))
  expect_argument_error(hdr_level(fit, seed = "a"), "seed")
})
