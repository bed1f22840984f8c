# Marginals and conditionals of estimates on a support, against integrals and ratios of the estimate itself, which
# test-support.R has against literal formulas.

set.seed(12)
x <- cbind(wait = rexp(40), share = rbeta(40, 1, 2), angle = (350 + 60 * rnorm(40)) %% 360, place = rnorm(40))
x <- cbind(x, size = exp(x[, "place"] + rnorm(40)))
heavy <- runif(40, 0.5, 2)
widths <- rep(c(0.7, 1, 1.5, 1), 10)
sds <- c(wait = 0.4, share = 0.3, angle = 50, place = 0.5, size = 0.6)
support <- list(
  wait = kde_support(c(0, Inf), "reflect"), share = kde_support(c(0, 1), "mass"), angle = kde_circle(360),
  size = kde_support(c(0, Inf), "transform")
)

fit_of <- function(columns, ..., estimator = "kde", bandwidth = sds[columns]) {
  bounds <- support[names(support) %in% columns]
  flash_kde(x[, columns, drop = FALSE], estimator, bandwidth, weights = heavy, support = bounds, ...)
}

RULES <- list(
  wait = rule_between(0, 12, 30), share = rule_between(0, 1, 30), angle = rule_between(0, 360, 30),
  place = rule_between(-8, 8, 60),
  size = local({
    of_log <- rule_between(-9, 9, 60)
    list(at = exp(of_log$at), weight = of_log$weight * exp(of_log$at))
  })
)

# the integral of an estimate of the columns `kept` and one more over this
integrated <- function(fit, at, over) {
  rule <- RULES[[over]]
  vapply(seq_len(nrow(at)), \(i) {
    places <- matrix(0, length(rule$at), fit$d, dimnames = list(NULL, fit$names))
    places[, over] <- rule$at
    for (name in colnames(at)) places[, name] <- at[i, name]
    sum(rule$weight * predict(fit, places))
  }, 0)
}

places <- cbind(wait = c(0, 0.5, 3), share = c(0.1, 0.6, 1), angle = c(2, 200, 359), place = c(0, -1, 1), size = 1:3)

test_that("marginals have the support of their columns", {
  all <- fit_of(colnames(x), adaptive = widths)
  two <- kde_marginal(all, c("size", "share"))
  expect_equal(two$support$kind, c("transform", "mass"))
  same <- fit_of(c("share", "size"), adaptive = widths)
  expect_equal(predict(two, places[, c("size", "share")]), predict(same, places[, c("share", "size")]))
  expect_null(kde_marginal(all, "place")$support)
  bent <- flash_kde(x[, "wait"], "kde", 0.5, support = kde_support(c(0, Inf), "local"))
  expect_equal(predict(kde_marginal(bent, 1), 1:3), predict(bent, 1:3))
})

test_that("conditionals of correlated kernels are ratios of the estimate, beside a circle and in a rectangle", {
  # an angle with another column, and sizes with places
  H <- matrix(c(2500, 15, 15, 0.4), 2)
  for (pair in list(c("angle", "size"), c("angle", "place"))) {
    fit <- fit_of(pair, bandwidth = H)
    at <- places[, pair[2], drop = FALSE]
    expect_equal(predict(kde_marginal(fit, 2), at), integrated(fit, at, "angle"), tolerance = 1e-7)
    for (k in 1:2) {
      value <- places[2, pair[k]]
      part <- kde_conditional(fit, value)
      at <- places[, pair]
      at[, k] <- value
      expected <- predict(fit, at) / predict(kde_marginal(fit, k), value)
      expect_equal(predict(part, at[, -k, drop = FALSE]), expected, tolerance = 1e-9)
    }
  }
  # a rectangle of correlated kernels
  H <- matrix(c(0.16, 0.06, 0.06, 0.09), 2)
  masses <- list(wait = kde_support(c(0, Inf), "mass"), share = support$share)
  fit <- flash_kde(x[, c("wait", "share")], "kde", H, support = masses)
  at <- cbind(wait = 0.5, share = c(0.1, 0.6, 1))
  expected <- predict(fit, at) / integrated(fit, at[1, 1, drop = FALSE], "share")
  expect_equal(predict(kde_conditional(fit, c(wait = 0.5)), at[, 2, drop = FALSE]), expected, tolerance = 1e-7)
  expect_error(kde_marginal(fit, 1), "correlate", class = "flashkernel_error_unsupported")
})

test_that("rectangles count what of them is inside, and columns have quantiles of their own", {
  fit <- fit_of(c("wait", "share", "angle", "size"), adaptive = widths)
  q <- rbind(c(0.7, 0.4, 200, 1), c(Inf, Inf, 360, Inf), c(2, 0.2, Inf, Inf), c(NA, 1, 1, 1), c(1, 1, 1, -1))
  # the product of what each kernel has below, with its images or by its mass
  kernel <- function(q) {
    h <- outer(widths, sds[c("wait", "share", "angle", "size")])
    wait <- pnorm(q[1], x[, "wait"], h[, 1]) - pnorm(-q[1], x[, "wait"], h[, 1])
    inside <- \(q) pnorm(q, x[, "share"], h[, 2]) - pnorm(0, x[, "share"], h[, 2])
    angle <- rowSums(vapply(-4:4, \(turn) {
      pnorm(min(q[3], 360) + 360 * turn, x[, "angle"], h[, 3]) - pnorm(360 * turn, x[, "angle"], h[, 3])
    }, widths))
    wait * inside(min(q[2], 1)) / inside(1) * angle * pnorm(log(q[4]), log(x[, "size"]), h[, 4])
  }
  expected <- c(vapply(1:3, \(i) sum(heavy * kernel(q[i, ])) / sum(heavy), 0), NA, 0)
  expect_equal(kde_cdf(fit, q), expected, tolerance = 1e-12)
  lower <- rbind(c(0.2, 0.1, 100, 0.5))
  corners <- as.matrix(expand.grid(0:1, 0:1, 0:1, 0:1))
  below <- apply(corners, 1, \(up) sum(heavy * kernel(ifelse(up == 1, q[1, ], lower))) / sum(heavy))
  signed <- (-1)^rowSums(1 - corners) * below
  expect_equal(kde_cdf(fit, q[1, , drop = FALSE], lower = lower), sum(signed), tolerance = 1e-9)
  bent <- flash_kde(x[, "wait"], "kde", 0.5, support = kde_support(c(0, Inf), "boundary"))
  expect_equal(kde_cdf(bent, c(1, -1), lower = 0.2), c(kde_cdf(bent, 1) - kde_cdf(bent, 0.2), 0), tolerance = 1e-12)

  quantiles <- quantile(fit, c(0, 0.2, 0.9))
  expect_equal(quantiles[1, ], c(wait = 0, share = 0, angle = 0, size = 0))
  for (name in colnames(quantiles)) {
    expect_equal(kde_cdf(kde_marginal(fit, name), quantiles[, name]), c(0, 0.2, 0.9), tolerance = 1e-10)
  }
})

test_that("derivatives are 0 outside, and those of the other points where a point is left out", {
  at <- rbind(c(0.5, 0.4, 200, 1), c(1, 0.9, 10, 3))
  colnames(at) <- c("wait", "share", "angle", "size")
  fit <- flash_kde(x[, colnames(at)], "kde", sds[colnames(at)], support = support[colnames(at)])
  outside <- replace(at, 1, -1)
  expect_true(all(kde_derivative(fit, outside, order = 2)[1, , ] == 0))
  expect_true(all(is.nan(kde_derivative(fit, outside, log = TRUE)[1, ])))
  expect_false(anyNA(kde_derivative(fit, outside, log = TRUE)[2, ]))
  third <- kde_derivative(fit, x[3, colnames(at), drop = FALSE], order = 2)
  expect_equal(kde_derivative(fit, order = 2)[3, , ], third[1, , ])
  left <- flash_kde(x[, "size"], "kde", 0.5, support = support$size)
  y <- x[1:3, "size"]
  of_others <- \(i) flash_kde(x[-i, "size"], "kde", 0.5, support = support$size)
  without <- \(i, order) kde_derivative(of_others(i), y[i], order = order)
  for (order in 1:2) {
    found <- as.vector(kde_derivative(left, order = order, loo = TRUE))[1:3]
    expect_equal(found, vapply(1:3, \(i) as.vector(without(i, order)), 0), tolerance = 1e-9)
  }
  bent <- flash_kde(x[, "wait"], "kde", 0.5, support = kde_support(c(0, Inf), "local"))
  expect_equal(as.vector(kde_derivative(bent, 1:2, log = TRUE)), as.vector(predict(bent, 1:2, type = "score")))
})

test_that("what of this has no closed form, or no place, is refused in words", {
  corners <- rbind(c(0, 0), c(1, 0), c(0, 1))
  fit <- flash_kde(matrix(c(0.2, 0.5, 0.1, 0.3, 0.2, 0.7), 3), "kde", 0.2, support = corners)
  expect_error(kde_marginal(fit, 1), "polygon", class = "flashkernel_error_unsupported")
  expect_error(kde_conditional(fit, c(x1 = 0.2)), "polygon", class = "flashkernel_error_unsupported")
  fit <- fit_of(c("wait", "place"))
  expect_argument_error(kde_conditional(fit, c(wait = -1)), "given")
  debiased <- fit_of(c("wait", "place"), estimator = "sdkde")
  expect_argument_error(kde_marginal(debiased, 1, debias = TRUE), "debias")
})

test_that("conditional() leaves points of weight 0 out of their images on a circle and behind a bound", {
  three <- data.frame(a = c(1, 2, 3), b = c(0, 0.3, 1))
  at <- c(-1, 0, 0.5)
  for (bounds in list(kde_circle(), kde_support(c(0, 4), "reflect"))) {
    of <- \(rows, ...) flash_kde(three[rows, ], "kde", 0.3, support = list(a = bounds), ...)
    with_zero <- kde_conditional(of(1:3, weights = c(1, 1, 0)), c(a = 1))
    expect_equal(predict(with_zero, at), predict(kde_conditional(of(1:2), c(a = 1)), at), tolerance = 1e-14)
  }
})
