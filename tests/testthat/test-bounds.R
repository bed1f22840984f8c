# Bounds that the data give evidence of, and the censored likelihood that chooses the bandwidth of one column.

internal <- \(name) getFromNamespace(name, "flashkernel")

even <- (seq_len(300) - 0.5) / 300 # quantiles instead of draws

ranges <- function(x, ...) {
  lapply(internal("found_support")(as.matrix(x), paste0("v", seq_len(NCOL(x))), ...), `[[`, "range")
}

test_that("bounds are found where the density ends, and nowhere else", {
  expect_equal(ranges(qexp(even))$v1, c(0, Inf))
  expect_equal(ranges(-qexp(even))$v1, c(-Inf, 0))
  expect_equal(ranges(100 * even)$v1, c(0, 100))
  expect_equal(ranges(18 + 18.6 * even)$v1, c(18, 36.6), tolerance = 0.01)
  expect_equal(ranges(0.004 * round(qexp(even) / 0.004))$v1, c(0, Inf))
  expect_equal(ranges(c(rep(0, 100), qexp(even)))$v1, c(0, Inf))
  for (x in list(qnorm(even), 5 + qnorm(even), qt(even, 3), qlogis(even), even[1:40])) expect_length(ranges(x), 0)
  expect_named(ranges(cbind(qnorm(even), even, qexp(even))), c("v2", "v3"))
  # the hint needs mass at the bound
  expect_length(ranges(qgamma(even, 3), jumps = TRUE), 0)
  expect_equal(ranges(qexp(even), jumps = TRUE)$v1, c(0, Inf))
})

test_that("ends a period apart are a circle if they are alike", {
  method <- \(x) internal("column_support")(x, FALSE)$method
  expect_equal(method((22 + 5 * qnorm(even)) %% 24), "circular")
  expect_equal(method(360 * even), "circular")
  expect_equal(method(360 * even^2), "auto")
})

test_that("the evidence is the ratio of the likelihoods of a power and of an exponential tail", {
  y <- sort(even[1:40]^0.7)
  k <- 39
  power <- k / sum(log(y[40] / y[1:k]))
  by_power <- sum(log(power / y[40] * (y[1:k] / y[40])^(power - 1)))
  excess <- y[40] - y[1:k]
  evidence <- by_power - sum(dexp(excess, 1 / mean(excess), log = TRUE))
  expect_true(internal("has_bound")(y, 0, evidence - 1e-9, FALSE))
  expect_false(internal("has_bound")(y, 0, evidence + 1e-9, FALSE))
})

test_that("support = \"auto\" fits inside the bounds, and fits without support hint at them", {
  session <- internal("session")
  before <- session$support_suggested
  on.exit(session$support_suggested <- before)
  session$support_suggested <- NULL
  x <- qexp(even)
  expect_message(free <- flash_kde(x), class = "flashkernel_message_support")
  expect_no_message(flash_kde(x))
  expect_output(print(free), "end at the bounds of \\[0, Inf\\)")
  bounded <- flash_kde(x, support = "auto")
  expect_equal(predict(bounded, c(-1, 1)), predict(flash_kde(x, support = c(0, Inf)), c(-1, 1)))
  expect_output(print(bounded), "Support: \\[0, Inf\\)")
  expect_null(flash_kde(qnorm(even), support = "auto")$support)
  expect_equal(flash_kde(~x, data.frame(x), support = "auto")$support$lower, 0)
})

test_that("an SD-KDE of one column has the optimum of censored likelihood, squared error and prior", {
  x <- qt(even[seq(1, 300, 8)], 3)
  clean <- internal("judged")(internal("clean_points")(matrix(x), NULL))
  z <- clean$x[, 1]
  n <- length(z)
  rule <- \(estimator) internal("rule_factor")("silverman", n, 1, estimator)
  plugin <- as.vector(kde_bandwidth(x, "plugin", estimator = "kde")) / clean$unit
  loss <- function(h) {
    loo <- ref_leave_out(\(x, y, w) ref_log_sdkde(x, y, matrix(h^2), matrix(h^2 / 2), w), clean$x, NULL)
    kernel <- exp(-outer(z, z, "-")^2 / h^2)
    moved <- z + h^2 / 2 * (kernel %*% z / rowSums(kernel) - z) / (h^2 / 2)
    a <- exp(-z^2 / 8)
    p <- 2 / sqrt(4 + h^2) * exp(-moved^2 / (2 * (4 + h^2)))
    rest <- 1 - (sum(p) - p) / (n - 1)
    likelihood <- mean(a * loo + (1 - a) * log(rest))
    square <- mean(dnorm(outer(moved, moved, "-"), sd = sqrt(2) * h))
    share <- 1000 / (1000 + n)
    prior <- log(h / (plugin * rule("sdkde") / rule("kde")))^2 / (2 * 0.35^2 * n)
    prior - share * likelihood - (1 - share) * (log(mean(exp(loo))) - log(square) / 2)
  }
  best <- stats::optimize(loss, c(0.2, 3))$minimum * clean$unit
  expect_equal(as.vector(kde_bandwidth(x)), best, tolerance = 0.01)
})
