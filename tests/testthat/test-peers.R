# Agreement with other software where it is exact, and the case where R's own answers are not.

# ks calls its bandwidth h (sd) in one dimension and H (variance) above.
ks_density <- function(x, y, H, ...) {
  skip_if_not_installed("ks")
  estimate <- if (ncol(x) == 1) {
    ks::kde(x[, 1], h = sqrt(H[1, 1]), eval.points = y[, 1], ...)$estimate
  } else {
    ks::kde(x, H = H, eval.points = y, ...)$estimate
  }
  as.vector(estimate)
}

expect_agrees_with_ks <- function(x, rows = 200) {
  x <- as.matrix(x)
  H <- stats::var(x) * nrow(x)^(-2 / (ncol(x) + 4))
  y <- x[round(seq(1, nrow(x), length.out = min(rows, nrow(x)))), , drop = FALSE]
  y <- y + rep(0.1 * sqrt(diag(H)), each = nrow(y))
  got <- predict(flash_kde(x, estimator = "kde", bandwidth = H), y)
  want <- ks_density(x, y, H, binned = FALSE)
  expect_within(log(got), log(want), 1e-11, "log density against ks")
}

test_that("the plain KDE is that of ks on faithful, quakes and iris", {
  skip_if_not_installed("ks")
  expect_agrees_with_ks(faithful["eruptions"])
  expect_agrees_with_ks(faithful)
  expect_agrees_with_ks(quakes[c("lat", "long")])
  expect_agrees_with_ks(quakes[c("lat", "long", "depth")])
  expect_agrees_with_ks(iris[1:4])
})

test_that("the weighted KDE is that of ks", {
  skip_if_not_installed("ks")
  x <- as.matrix(faithful)
  set.seed(5)
  w <- stats::rexp(nrow(x))
  w <- w * nrow(x) / sum(w) # ks wants them so
  H <- stats::var(x) / 10
  got <- predict(flash_kde(x, estimator = "kde", bandwidth = H, weights = w), x)
  expect_within(log(got), log(ks_density(x, x, H, w = w, binned = FALSE)), 1e-11)
})

test_that("the plain KDE is that of ks on larger data", {
  skip_if_not_installed("ks")
  file <- system.file("extdata", "california.csv.xz", package = "flashkernel", mustWork = TRUE)
  housing <- utils::read.csv(file)
  expect_agrees_with_ks(housing[seq(1, nrow(housing), 10), ], 50)
})

test_that("the plain KDE is that of ks on the project's own data sets, where they are", {
  skip_if_not_installed("ks")
  housing <- utils::read.csv(bench_data("california_housing.csv.gz"))
  columns <- c("median_income", "housing_median_age", "longitude", "latitude")
  expect_agrees_with_ks(housing[seq(1, nrow(housing), 10), columns], 50)
  diamonds <- utils::read.csv(bench_data("diamonds.csv.gz"))
  expect_agrees_with_ks(diamonds[seq(1, nrow(diamonds), 25), c("carat", "depth", "price")], 50)
})

test_that("in one dimension the values are the mean of dnorm() and near density()", {
  for (x in list(faithful$eruptions, faithful$waiting, quakes$mag, iris$Petal.Width)) {
    h <- stats::bw.nrd0(x)
    grid <- stats::density(x, bw = h, n = 1024)
    fit <- flash_kde(x, estimator = "kde", bandwidth = h)
    got <- predict(fit, grid$x)
    want <- vapply(grid$x, \(at) mean(stats::dnorm(at, x, h)), 0)
    expect_within(log(got), log(want), 1e-12)
    expect_lt(max(abs(got - grid$y)), 2e-3 * max(got)) # density() bins its data
  }
})

test_that("one outlier makes density() and ks wrong by whole factors and leaves ours exact", {
  set.seed(1)
  x <- c(stats::rnorm(2000), 1000)
  y <- seq(-2, 2, length.out = 41)
  h <- stats::bw.nrd0(x)
  exact <- vapply(y, \(at) mean(stats::dnorm(at, x, h)), 0)
  relative_error <- function(got) max(abs(got / exact - 1))

  binned <- stats::density(x, bw = h)
  expect_gt(relative_error(stats::approx(binned$x, binned$y, y)$y), 2)
  for (precision in c("double", "auto")) {
    fit <- flash_kde(x, estimator = "kde", bandwidth = h, control = flash_control(precision = precision))
    expect_lt(relative_error(predict(fit, y)), 1e-12)
  }
  skip_if_not_installed("ks")
  expect_gt(relative_error(ks::kde(x, h = h, eval.points = y)$estimate), 2)
})

test_that("one outlier leaves ours exact in two dimensions too", {
  skip_if_not_installed("ks")
  set.seed(1)
  x <- rbind(matrix(stats::rnorm(2000), 1000), c(1000, 1000))
  y <- as.matrix(expand.grid(-2:2, -2:2))
  H <- diag(0.04, 2)
  exact <- exp(ref_log_kde(x, y, H))
  expect_gt(max(abs(ks_density(x, y, H) / exact - 1)), 2)
  got <- predict(flash_kde(x, estimator = "kde", bandwidth = H), y)
  expect_lt(max(abs(got / exact - 1)), 1e-12)
})
