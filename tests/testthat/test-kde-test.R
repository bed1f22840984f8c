# Tests for two samples, and of fit: beside formulas written out, their level and their power.

normal_matrix <- function(differences, C) { # densities at all differences, n x m x d
  q <- apply(differences, 1:2, \(u) sum(u * solve(C, u)))
  exp(-q / 2) / sqrt(det(2 * pi * C))
}

all_differences <- function(x, y) {
  pairs <- expand.grid(seq_len(nrow(x)), seq_len(nrow(y)))
  array(x[pairs[, 1], ] - y[pairs[, 2], ], c(nrow(x), nrow(y), ncol(x)))
}

test_that("the statistic is the integral of the squared difference", {
  x <- faithful$eruptions[1:40]
  y <- faithful$eruptions[41:100] + 0.5
  found <- kde_test(x, y, bandwidth = 0.3, replicates = 19)
  p1 <- \(at) rowMeans(stats::dnorm(outer(at, x, "-"), sd = 0.3))
  p2 <- \(at) rowMeans(stats::dnorm(outer(at, y, "-"), sd = 0.3))
  integral <- \(f) stats::integrate(f, -1, 9, subdivisions = 500, rel.tol = 1e-9)$value
  expect_equal(found$statistic, c(T = integral(\(at) (p1(at) - p2(at))^2)), tolerance = 1e-7)
  expect_equal(unname(found$estimate), c(
    integral(\(at) p1(at)^2), integral(\(at) p2(at)^2), integral(\(at) p1(at) * p2(at))
  ), tolerance = 1e-7)
  expect_equal(found$bandwidth, matrix(0.09))
  expect_s3_class(found, "htest")
  expect_output(print(found), "Two-sample kernel density test")
  skip_if_not_installed("ks")
  peer <- ks::kde.test(x, y, h1 = sqrt(2) * 0.3, h2 = sqrt(2) * 0.3, binned = FALSE)
  expect_equal(unname(found$statistic), peer$Tstat, tolerance = 1e-7)
})

test_that("permutations give the share of exchanges that differ as much", {
  x <- example_points(12, 2)
  y <- example_points(9, 2, seed = 2) + 0.6
  H <- example_bandwidth(2)
  set.seed(6)
  found <- kde_test(x, y, bandwidth = H, replicates = 199)
  both <- rbind(x, y)
  K <- normal_matrix(all_differences(both, both), 2 * H)
  a <- rep(c(1 / 12, -1 / 9), c(12, 9))
  want <- sum(a * (K %*% a))
  set.seed(6)
  draws <- replicate(199, {
    b <- sample(a)
    sum(b * (K %*% b))
  })
  expect_equal(found$statistic, c(T = want))
  expect_equal(found$p.value, (1 + sum(draws >= want)) / 200)
  # the moments: those of all exchanges, nearly
  set.seed(1)
  many <- replicate(4000, {
    b <- sample(a)
    sum(b * (K %*% b))
  })
  moments <- kde_test(x, y, bandwidth = H, method = "asymptotic")
  centred <- K - outer(rowMeans(K), rep(1, 21)) - outer(rep(1, 21), colMeans(K)) + mean(K)
  s <- 1 / 12 + 1 / 9
  mean <- s * sum(diag(centred)) / 20
  variance <- 2 * s^2 * (sum(centred^2) - sum(diag(centred)^2)) / 21^2
  expect_equal(moments$parameter, c(df = 2 * mean^2 / variance))
  df <- 2 * mean^2 / variance
  expect_equal(moments$p.value, stats::pchisq(df * want / mean, df, lower.tail = FALSE))
  expect_lt(abs(mean / mean(many) - 1), 0.02)
  expect_lt(abs(sqrt(variance) / stats::sd(many) - 1), 0.15)
})

test_that("rows are exchanged with their weights", {
  x <- example_points(12, 2)
  y <- example_points(9, 2, seed = 2) + 0.6
  H <- example_bandwidth(2)
  w <- c(seq(0.5, 2, length.out = 12), rep(c(3, 9, 6), 3))
  set.seed(6)
  found <- kde_test(x, y, bandwidth = H, replicates = 99, weights_x = w[1:12], weights_y = w[13:21])
  both <- rbind(x, y)
  K <- normal_matrix(all_differences(both, both), 2 * H)
  first <- rep(c(TRUE, FALSE), c(12, 9))
  w <- w / rep(c(mean(w[1:12]), mean(w[13:21])), c(12, 9))
  parts <- function(first) {
    one <- ifelse(first, w, 0) / sum(w[first])
    two <- ifelse(first, 0, w) / sum(w[!first])
    T <- sum((one - two) * (K %*% (one - two)))
    # sum of a_i^2 |phi(z_i) - mean|^2
    own <- \(a) sum(a^2 * (diag(K) - 2 * drop(K %*% a) + sum(a * (K %*% a))))
    c(T, T / (own(one) + own(two)))
  }
  set.seed(6)
  draws <- replicate(99, parts(sample(first))[2])
  expect_equal(found$statistic, c(T = parts(first)[1]))
  expect_equal(found$p.value, (1 + sum(draws >= parts(first)[2])) / 100)
  moments <- kde_test(x, y, bandwidth = H, method = "asymptotic", weights_x = w[1:12], weights_y = 5 * w[13:21])
  q <- w / sum(w)
  mean_of <- drop(K %*% q)
  centred <- K - outer(mean_of, mean_of, `+`) + sum(q * mean_of)
  v <- (w / rep(c(12, 9), c(12, 9)))^2
  mean <- sum(v * diag(centred)) / (1 - sum(q^2))
  variance <- 2 * (sum(outer(v, v) * centred^2) - sum((v * diag(centred))^2))
  expect_equal(moments$parameter, c(df = 2 * mean^2 / variance))
  expect_equal(moments$p.value, stats::pchisq(2 * mean / variance * parts(first)[1], 2 * mean^2 / variance,
    lower.tail = FALSE))
})

test_that("weights are as rows repeated, and rows without weight are none", {
  x <- faithful$eruptions[1:30]
  y <- faithful$eruptions[31:70]
  w <- rep(1:3, 10)
  few <- \(...) kde_test(..., bandwidth = 0.3, replicates = 19)
  many <- rep(x, w)
  expect_equal(few(x, y, weights_x = w)$statistic, few(many, y)$statistic)
  fit_of <- \(...) kde_test(..., bandwidth = 0.3, replicates = 19)
  expect_equal(fit_of(x, "norm", weights_x = w, mean = 3, sd = 1)$statistic, fit_of(many, "norm", mean = 3, sd = 1)$statistic)
  expect_equal(fit_of(x, "exp", rate = 1, weights_x = w)$statistic, fit_of(many, "exp", rate = 1)$statistic)
  fitted <- fit_of(x, "norm", weights_x = w)$estimate
  expect_equal(unname(fitted), c(mean(many), sum(w * (x - mean(many))^2) / (60 - sum(w^2) / 60)))
  rate <- fit_of(x, "exp", weights_x = w, estimate = \(x, w) list(rate = sum(w) / sum(w * x)))$estimate
  expect_equal(rate, c(rate = 1 / mean(many)))
  parts <- c("statistic", "p.value", "bandwidth")
  same <- function(a, b) expect_equal(a[parts], b[parts])
  seeded <- function(value) {
    set.seed(2)
    force(value)
  }
  by_name <- \(...) kde_test(..., replicates = 19)
  same(seeded(by_name(c(x, 9, 1), y, weights_x = c(w, 0, NA))), seeded(by_name(x, y, weights_x = 10 * w)))
  same(seeded(fit_of(c(x, 9, 1), "norm", weights_x = c(w, 0, NA))), seeded(fit_of(x, "norm", weights_x = 10 * w)))
})

test_that("samples that are all the same point do not differ", {
  for (method in c("permutation", "asymptotic")) {
    expect_identical(kde_test(rep(1, 10), rep(1, 8), 1, method, replicates = 99)$p.value, 1)
  }
})

test_that("the level is held, the power is there, and the methods agree", {
  skip_on_cran()
  set.seed(3)
  p_of <- function(shift, ...) {
    vapply(1:100, \(i) kde_test(stats::rnorm(30), stats::rnorm(40) + shift, ...)$p.value, 0)
  }
  null <- p_of(0, replicates = 99)
  expect_lt(mean(null <= 0.1), 0.22) # 0.1 and four standard errors
  expect_gt(stats::ks.test(null - stats::runif(100) / 100, "punif")$p.value, 0.01)
  expect_lt(mean(p_of(0, method = "asymptotic") <= 0.1), 0.22)
  expect_gt(mean(p_of(1, replicates = 99) <= 0.05), 0.85)
  expect_gt(mean(p_of(1, method = "asymptotic") <= 0.05), 0.85)
})

test_that("the statistic of a normal null is in closed form", {
  x <- example_points(25, 2)
  H <- example_bandwidth(2)
  mu <- c(0.3, -0.2)
  S <- matrix(c(2, 0.5, 0.5, 1.5), 2)
  formula <- function(x, mu, S) {
    to_mean <- sweep(x, 2, mu)
    at <- \(u, C) exp(-sum(u * solve(C, u)) / 2) / sqrt(det(2 * pi * C))
    mean(normal_matrix(all_differences(x, x), 2 * H)) - 2 * mean(apply(to_mean, 1, at, S + 2 * H)) +
      at(c(0, 0), 2 * S + 2 * H)
  }
  found <- kde_test(x, "norm", mean = mu, sigma = S, bandwidth = H, replicates = 19)
  expect_equal(found$statistic, c(T = formula(x, mu, S)))
  estimated <- kde_test(x, "norm", bandwidth = H, replicates = 19)
  expect_equal(estimated$statistic, c(T = formula(x, colMeans(x), stats::cov(x))))
  expect_equal(unname(estimated$estimate), c(colMeans(x), stats::cov(x)))
  # the integral itself
  z <- faithful$waiting
  p <- \(at) rowMeans(stats::dnorm(outer(at, z, "-"), sd = 3)) - stats::dnorm(at, 70, sqrt(14^2 + 9))
  want <- stats::integrate(\(at) p(at)^2, 0, 140, subdivisions = 1000, rel.tol = 1e-9)$value
  found <- kde_test(z, "norm", mean = 70, sd = 14, bandwidth = 3, replicates = 19)
  expect_equal(unname(found$statistic), want, tolerance = 1e-6)
})

test_that("other nulls stand for their quantiles or draws", {
  x <- stats::qexp(stats::ppoints(60), 2)^1.1
  p <- \(at) rowMeans(stats::dnorm(outer(at, x, "-"), sd = 0.1))
  null <- \(at) vapply(at, \(t) stats::integrate(\(u) stats::dexp(u, 2) * stats::dnorm(t - u, sd = 0.1), 0, 20,
    subdivisions = 1000)$value, 0)
  grid <- seq(-0.6, 6, by = 0.004)
  want <- sum((p(grid) - null(grid))^2) * 0.004
  found <- kde_test(x, "exp", rate = 2, bandwidth = 0.1, replicates = 19)
  expect_equal(unname(found$statistic), want, tolerance = 0.02)
  set.seed(2)
  drawn <- kde_test(x, \(n, rate) stats::rexp(n, rate), rate = 2, bandwidth = 0.1, replicates = 19)
  expect_lt(abs(drawn$statistic - want), 0.1)
  square <- kde_test(example_points(30, 2), \(n) matrix(stats::rnorm(2 * n, sd = 2), n), replicates = 19)
  expect_gte(square$p.value, 1 / 20)
})

test_that("tests of fit hold their level, with parameters estimated, too", {
  skip_on_cran()
  set.seed(9)
  null <- replicate(100, kde_test(stats::rnorm(25), "norm", replicates = 19)$p.value)
  expect_lt(mean(null <= 0.1), 0.22) # 0.1 and four standard errors
  expect_gt(mean(null <= 0.5), 0.3)
  rate <- \(x) list(rate = 1 / mean(x))
  rate_test <- \() kde_test(stats::rexp(25, 3), "exp", estimate = rate, bandwidth = 0.15, replicates = 19)
  rates <- replicate(60, rate_test()$p.value)
  expect_lt(mean(rates <= 0.1), 0.26)
  power <- replicate(40, kde_test(stats::rexp(40), "norm", bandwidth = 0.4, replicates = 19)$p.value)
  expect_gt(mean(power <= 0.05), 0.8)
})

test_that("rows with missing values are left out, and names are matched", {
  set.seed(1)
  a <- kde_test(faithful[1:50, ], faithful[51:99, 2:1], replicates = 19)
  set.seed(1)
  b <- kde_test(rbind(faithful[1:50, ], NA), faithful[51:99, ], replicates = 19)
  expect_equal(a[c("statistic", "p.value")], b[c("statistic", "p.value")])
  expect_equal(kde_test(c(1, 2, 4, NA), "norm", replicates = 19, bandwidth = 1)$statistic,
    kde_test(c(1, 2, 4), "norm", replicates = 19, bandwidth = 1)$statistic)
})

test_that("what makes no sense is refused in words", {
  x <- faithful$waiting
  expect_argument_error(kde_test(x), "y")
  expect_argument_error(kde_test(x, faithful), "y")
  expect_argument_error(kde_test(x, 1), "y")
  expect_argument_error(kde_test(x, x, method = "normal"), "method")
  expect_argument_error(kde_test(x, x, replicates = 0), "replicates")
  expect_argument_error(kde_test(x, x, bandwidth = -1), "bandwidth")
  expect_argument_error(kde_test(x, x, weights_x = -1), "weights_x")
  expect_argument_error(kde_test(x, x, weights_y = rep(-1, 272)), "weights_y")
  expect_argument_error(kde_test(x, "norm", weights_x = c(1, rep(0, 271))), "x")
  expect_argument_error(kde_test("a", "norm"), "x")
  expect_argument_error(kde_test(x, "nosuch"), "y")
  expect_argument_error(kde_test(faithful, "exp", rate = 1), "y")
  expect_argument_error(kde_test(x, 3), "y")
  expect_argument_error(kde_test(x, "norm", mean = 70), "...")
  expect_argument_error(kde_test(x, "exp", 2), "...")
  expect_argument_error(kde_test(x, "norm", mean = c(1, 2), sd = 1), "mean")
  expect_argument_error(kde_test(x, "norm", sigma = diag(2), mean = 1), "sigma")
  expect_argument_error(kde_test(x, "exp", rate = 1, estimate = mean), "rate")
  expect_argument_error(kde_test(x, "exp", estimate = 1), "estimate")
  expect_argument_error(kde_test(x, "exp", estimate = mean), "estimate")
  expect_argument_error(kde_test(x, \(n) numeric(n - 1)), "y")
})

test_that("a formula gives the samples of two groups", {
  of <- split(ToothGrowth["len"], ToothGrowth$supp)
  alike <- \(found, sample) expect_identical(
    found[setdiff(names(found), "data.name")], with_fixed_seed(kde_test(sample[[1]], sample[[2]]), 1)[setdiff(names(found), "data.name")]
  )
  by_formula <- with_fixed_seed(kde_test(len ~ supp, ToothGrowth), 1)
  alike(by_formula, of)
  expect_identical(by_formula$data.name, "len by supp")
  two <- split(mtcars[c("mpg", "hp")], mtcars$cyl)[c("4", "8")]
  alike(with_fixed_seed(kde_test(mtcars, formula = cbind(mpg, hp) ~ cyl, subset = cyl != 6), 1), two)
  local <- kde_test(len ~ supp, ToothGrowth, method = "local")
  expect_identical(attr(local, "test")$samples, c("supp = OJ", "supp = VC"))
  expect_identical(names(local)[1], "len")
  for (wrong in list(len ~ supp + dose, ~len, len ~ 1)) expect_argument_error(kde_test(wrong, ToothGrowth), "formula")
})
