# Kernels of bounded reach, against their formulas written out, in loops over all points.

# Heavy tails, so that windows have from none to most of the points; weights over eleven decades; ties.
some_windows <- function(n, origin = 0) {
  set.seed(n)
  x <- origin + c(stats::rcauchy(n - 2), 0.25, 0.25)
  list(x = x, w = 10^stats::runif(n, -8, 3), y = c(origin + stats::runif(60, -8, 8), x[c(1:20, n)], origin + 1e6))
}

test_that("densities are sums of the kernels, to the last digits, and 0 beyond their reach", {
  for (kernel in names(ref_compact)) for (origin in c(0, 1e8)) {
    ref <- ref_compact[[kernel]]
    data <- some_windows(700, origin)
    for (h in c(0.02, 0.4, 30)) {
      fit <- flash_kde(data$x, bandwidth = h, weights = data$w, kernel = kernel)
      want <- ref_windows(ref$value, ref$sds, data$x, data$w, h, data$y) / sum(data$w)
      got <- predict(fit, data$y)
      # what a loop itself knows of 1 - u^2 near an edge is not more
      expect_lt(relative_error(got, want), 1e-12, label = paste(kernel, origin, h))
      expect_identical(got == 0, want == 0)
      expect_identical(predict(fit, data$y, type = "log_density"), log(got), tolerance = 1e-13)
    }
  }
})

test_that("points are left out of their own densities, also where they are all but alone", {
  for (kernel in names(ref_compact)) {
    ref <- ref_compact[[kernel]]
    data <- some_windows(300)
    fit <- flash_kde(data$x, bandwidth = 0.3, weights = data$w, kernel = kernel)
    others <- \(i) ref_windows(ref$value, ref$sds, data$x[-i], data$w[-i], 0.3, data$x[i]) / sum(data$w[-i])
    want <- vapply(seq_along(data$x), others, 0)
    got <- predict(fit, loo = TRUE)
    expect_lt(relative_error(got, want), 1e-12, label = kernel)
    expect_identical(got == 0, want == 0)
    expect_identical(as.numeric(logLik(fit)), -Inf) # some are alone
  }
})

test_that("a light window keeps its digits beside heavy ones, in blocks and at their edges", {
  # all of the weight on one side, and none of it within reach of y but a crowd that weighs 1e-200 as much
  crowd <- seq(2, 2.5, length.out = 1000)
  x <- c(crowd, seq(0, 1, length.out = 1000))
  w <- rep(c(1e-200, 1), each = 1000)
  for (kernel in names(ref_compact)) {
    ref <- ref_compact[[kernel]]
    h <- 0.5 / ref$sds
    fit <- flash_kde(x, bandwidth = h, weights = w, kernel = kernel)
    # at the last of these only the end of the crowd is within the edge, by 1e-9, which the last bit of the reach
    # changes
    y <- c(1.6, 2.2, 2.999, 3 - 1e-9)
    away <- function(at) {
      s <- (0.5 - abs(at - crowd)) / 0.5
      u <- 1 - s
      # by the distance from the edge, of which no digit is lost
      power <- match(kernel, c("epanechnikov", "biweight", "triweight"))
      value <- if (is.na(power)) ref$value(u) else ref$value(0) * (s * (2 - s))^power
      sum(1e-200 * value[s >= 0]) / 0.5 / sum(w)
    }
    want <- vapply(y, away, 0)
    expect_lt(relative_error(predict(fit, y[1:3]), want[1:3]), 2e-13, label = kernel)
    expect_lt(relative_error(predict(fit, y[4]), want[4]), 1e-6, label = kernel)
  }
})

test_that("scores and standard errors are those of the formulas", {
  for (kernel in names(ref_compact)) {
    ref <- ref_compact[[kernel]]
    data <- some_windows(300)
    h <- 0.3
    fit <- flash_kde(data$x, bandwidth = h, weights = data$w, kernel = kernel)
    value <- ref_windows(ref$value, ref$sds, data$x, data$w, h, data$y)
    slope <- ref_windows(ref$slope, ref$sds, data$x, data$w, h, data$y) / (ref$sds * h)
    got <- predict(fit, data$y, type = "score")
    expect_identical(dimnames(got), list(NULL, "x"))
    expect_equal(got[, 1], ifelse(value > 0, slope / value, NaN), tolerance = 1e-10, info = kernel)
    square <- ref_windows(\(u) ref$value(u)^2, ref$sds, data$x, data$w^2, h, data$y) / (ref$sds * h)
    variance <- (square - value^2 * sum(data$w^2) / sum(data$w)^2) / sum(data$w)^2
    got <- predict(fit, data$y, se.fit = TRUE)$se.fit
    expect_equal(got, sqrt(pmax(variance, 0)), tolerance = 1e-8, info = kernel)
    alone <- predict(fit, type = "score", loo = TRUE)
    others <- flash_kde(data$x[-7], bandwidth = h, weights = data$w[-7], kernel = kernel)
    expect_equal(alone[7, ], predict(others, data$x[7], type = "score")[1, ], tolerance = 1e-10)
  }
})

test_that("distribution functions are integrals, and quantiles their inverse, up to where kernels end", {
  for (kernel in names(ref_compact)) {
    ref <- ref_compact[[kernel]]
    data <- some_windows(300)
    b <- ref$sds * 0.3
    whole <- \(u) ifelse(u <= -1, 0, ifelse(u >= 1, 1, ref$below(pmax(pmin(u, 1), -1))))
    want <- vapply(data$y, \(at) sum(data$w * whole((at - data$x) / b)) / sum(data$w), 0)
    fit <- flash_kde(data$x, bandwidth = 0.3, weights = data$w, kernel = kernel)
    expect_equal(kde_cdf(fit, data$y), want, tolerance = 1e-13, info = kernel)
    # the lower tail to its own digits
    first <- min(data$x)
    tail <- data$w[which.min(data$x)] * whole(-0.5) / sum(data$w)
    expect_equal(kde_cdf(fit, first - b / 2) / tail, 1, tolerance = 1e-12, info = kernel)
    expect_identical(kde_cdf(fit, c(first - 1.001 * b, max(data$x) + 1.001 * b)), c(0, 1), tolerance = 1e-15)
    probs <- c(0.02, 0.3, 0.5, 0.9, 1 - 1e-3)
    expect_equal(kde_cdf(fit, quantile(fit, probs)), probs, tolerance = 1e-11, info = kernel)
    expect_equal(kde_cdf(fit, quantile(fit, 1:99 / 100)), 1:99 / 100, tolerance = 1e-11, info = kernel)
    expect_equal(quantile(fit, 0:1, names = FALSE), range(data$x) + c(-b, b), tolerance = 1e-14)
  }
})

test_that("each point may have a width of its own", {
  data <- some_windows(200)
  set.seed(2)
  factors <- sample(c(0.5, 1, 1.7), 200, replace = TRUE)
  for (kernel in names(ref_compact)) {
    ref <- ref_compact[[kernel]]
    fit <- flash_kde(data$x, bandwidth = 0.3, weights = data$w, adaptive = factors, kernel = kernel)
    value <- ref_windows(ref$value, ref$sds, data$x, data$w, 0.3 * factors, data$y)
    expect_lt(relative_error(predict(fit, data$y), value / sum(data$w)), 1e-12, label = kernel)
    slope <- ref_windows(ref$slope, ref$sds, data$x, data$w / factors, 0.3 * factors, data$y) / (0.3 * ref$sds)
    got <- predict(fit, data$y, type = "score")[, 1]
    expect_equal(got[value > 0], (slope / value)[value > 0], tolerance = 1e-10, info = kernel)
    expect_identical(is.nan(got), value == 0)
    others <- flash_kde(data$x[-3], bandwidth = 0.3, weights = data$w[-3], adaptive = factors[-3], kernel = kernel)
    expect_equal(predict(fit, loo = TRUE)[3], predict(others, data$x[3]), tolerance = 1e-12, info = kernel)
    whole <- \(u) ifelse(u <= -1, 0, ifelse(u >= 1, 1, ref$below(pmax(pmin(u, 1), -1))))
    want <- sum(data$w * whole((0.4 - data$x) / (0.3 * factors * ref$sds))) / sum(data$w)
    expect_equal(kde_cdf(fit, 0.4), want, tolerance = 1e-13, info = kernel)
    expect_equal(kde_cdf(fit, quantile(fit, 0.3)), 0.3, tolerance = 1e-11)
    expect_false(any(predict(fit, simulate(fit, 50, seed = 1)$x) == 0))
  }
  tolerant <- flash_kde(data$x, bandwidth = 0.3, adaptive = factors, kernel = "biweight", tol = 1e-3)
  exact <- flash_kde(data$x, bandwidth = 0.3, adaptive = factors, kernel = "biweight")
  expect_identical(predict(tolerant, data$y), predict(exact, data$y))
  balloon <- flash_kde(data$x, bandwidth = 0.3, adaptive = "balloon", kernel = "biweight")
  expect_equal(
    predict(balloon, loo = TRUE)[5], predict(flash_kde(
      data$x[-5], bandwidth = 0.3 * balloon$adaptive$at_points[5], kernel = "biweight"
    ), data$x[5]), tolerance = 1e-12
  )
})

test_that("an SD-KDE moves its points by the score of the Gaussian, and then has the other kernel", {
  x <- faithful$eruptions
  h <- 0.3
  score <- vapply(x, \(at) {
    k <- dnorm(at, x, h)
    sum(k * (x - at)) / sum(k) / h^2
  }, 0)
  y <- seq(1, 6, length.out = 40)
  for (kernel in names(ref_compact)) {
    ref <- ref_compact[[kernel]]
    fit <- flash_kde(x, "sdkde", bandwidth = h, kernel = kernel)
    want <- ref_windows(ref$value, ref$sds, x + h^2 / 2 * score, rep(1, length(x)), h, y) / length(x)
    expect_equal(predict(fit, y), want, tolerance = 1e-11, info = kernel)
  }
  factors <- rep(c(0.6, 1, 1.5, 1), 68)
  adapted <- flash_kde(x, "sdkde", bandwidth = h, adaptive = factors, kernel = "uniform")
  moved <- flash_kde(x, "sdkde", bandwidth = h, adaptive = factors)$debiased
  expect_identical(adapted$debiased, moved)
  want <- ref_windows(ref_compact$uniform$value, sqrt(3), moved, rep(1, 272), h * factors, y) / 272
  expect_equal(predict(adapted, y), want, tolerance = 1e-12)
  # left out of both stages: the fit without the point, at the point
  for (fit in list(fit, adapted)) {
    without <- \(i) {
      adaptive <- if (is.null(fit$adaptive)) FALSE else factors[-i]
      predict(flash_kde(x[-i], "sdkde", bandwidth = h, adaptive = adaptive, kernel = fit$kernel), x[i])
    }
    expect_equal(predict(fit, loo = TRUE)[c(1, 40, 149)], vapply(c(1, 40, 149), without, 0), tolerance = 1e-10)
  }
  fit <- flash_kde(x, "sdkde", bandwidth = h, kernel = "biweight")
  expect_equal(as.numeric(logLik(fit)), sum(predict(fit, loo = TRUE, type = "log_density")))
  expect_identical(summary(fit)$loglik, logLik(fit))
  # a score that is given knows of none
  given <- flash_kde(x, "sdkde", bandwidth = h, kernel = "biweight", debias = debiasing(score = matrix(score)))
  moved <- x[-9] + h^2 / 2 * score[-9]
  want <- ref_windows(ref_compact$biweight$value, sqrt(7), moved, rep(1, 271), h, x[9]) / 271
  expect_equal(predict(given, loo = TRUE)[9], want, tolerance = 1e-12)
  set.seed(1)
  expect_true(is.finite(cross_validate(fit, folds = 3, score = "quadratic")$mean))
})

test_that("an isolated point of an SD-KDE with these kernels is left out as the fit without it has it", {
  expect_identical(predict(flash_kde(c(0, 0.5, 1, 10), "sdkde", 1, kernel = "epanechnikov"), loo = TRUE)[4], 0)
  set.seed(3)
  x <- c(stats::rnorm(300), 8)
  for (kernel in c("biweight", "epanechnikov", "triangular")) for (adaptive in list(FALSE, rep_len(c(1, 0.7), 301))) {
    fit <- flash_kde(x, "sdkde", kernel = kernel, adaptive = adaptive, bandwidth = 0.5)
    expect_identical(predict(fit, loo = TRUE)[301], 0)
    expect_equal(kde_pvalue(fit)[301], 1 / 301, tolerance = 1e-12)
    expect_identical(as.numeric(logLik(fit)), -Inf)
    expect_identical(AIC(fit), Inf)
  }
  judged <- compare_fits(fit, flash_kde(x, "sdkde", bandwidth = 0.5))
  expect_identical(judged$infinite[[1]], 1)
})

test_that("the bias of an SD-KDE is of order h^4 with these kernels, too", {
  # of quantiles of the normal, which stand for all of a sample
  x <- stats::qnorm((seq_len(4e3) - 0.5) / 4e3)
  bias <- \(estimator, h) predict(flash_kde(x, estimator, bandwidth = h, kernel = "biweight"), 0) - dnorm(0)
  expect_lt(abs(log2(bias("kde", 0.4) / bias("kde", 0.2)) - 2), 0.2)
  expect_gt(log2(bias("sdkde", 0.4) / bias("sdkde", 0.2)), 3.5)
})

test_that("draws, regions and integrals of the square are those of the estimate", {
  x <- faithful$eruptions
  grid <- seq(0, 7, length.out = 70001)
  for (kernel in names(ref_compact)) {
    fit <- flash_kde(x, bandwidth = 0.25, kernel = kernel)
    draws <- simulate(fit, 2000, seed = 3)$x
    expect_gt(stats::ks.test(draws, \(q) kde_cdf(fit, q))$p.value, 1e-3)
    density <- predict(fit, grid)
    level <- hdr_level(fit, c(0.5, 0.9))
    # a sum of steps has regions of no more probabilities than it has steps
    limit <- if (kernel == "uniform") 1e-2 else 2e-3
    for (i in 1:2) expect_lt(abs(sum(density[density >= level[i]]) * 1e-4 - c(0.5, 0.9)[i]), limit, label = kernel)
    log_square <- \(fit) log_square_integral(unclass(fit), TRUE, fit_control(fit))
    square <- exp(log_square(fit)$log)
    expect_equal(square, sum(density^2) * 1e-4, tolerance = 2e-4, info = kernel)
    without <- flash_kde(x[-9], bandwidth = 0.25, kernel = kernel)
    expect_equal(log_square(fit)$log_loo[9], log_square(without)$log, tolerance = 1e-12)
    # as the integral is by pieces, so is it of three points at known distances
    three <- flash_kde(c(0, 0.2, 0.7), bandwidth = 0.3, kernel = kernel)
    integral <- stats::integrate(\(at) predict(three, at)^2, -1, 2, subdivisions = 2000L, rel.tol = 1e-7)$value
    expect_equal(exp(log_square(three)$log), integral, tolerance = 1e-4)
  }
})

test_that("the bandwidth is the kernel's standard deviation, as that of stats::density()", {
  x <- faithful$waiting
  for (kernel in c("epanechnikov", "biweight", "triangular", "rectangular")) {
    peer <- stats::density(x, bw = 4, kernel = kernel, n = 2048)
    fit <- flash_kde(x, bandwidth = 4, kernel = kernel)
    # it bins the points: where a rectangle has its edge, that counts or does not
    error <- abs(predict(fit, peer$x) - peer$y) / max(peer$y)
    expect_lt(if (kernel == "rectangular") mean(error) else max(error), 2e-3, label = kernel)
  }
  expect_identical(fit$kernel, "uniform")
})

test_that("a bandwidth that is chosen is changed by the ratio of canonical bandwidths", {
  # Marron and Nolan (1988), of kernels on [-1, 1]
  canonical <- c(
    epanechnikov = 1.7188, biweight = 2.0362, triweight = 2.3122, triangular = 1.8882, uniform = 1.3510
  )
  x <- faithful$eruptions
  gaussian <- flash_kde(x, "kde", bandwidth = "silverman")
  for (kernel in names(canonical)) {
    fit <- flash_kde(x, bandwidth = "silverman", kernel = kernel)
    want <- canonical[[kernel]] / 0.7764 / ref_compact[[kernel]]$sds
    expect_equal(coef(fit) / coef(gaussian), c(x = want), tolerance = 2e-4, info = kernel)
    expect_identical(fit$estimator, "kde")
  }
  debiased <- flash_kde(x, "sdkde", bandwidth = "silverman", kernel = "biweight")
  expect_identical(coef(debiased), coef(flash_kde(x, "sdkde", bandwidth = "silverman")))
})

test_that("least-squares cross-validation is that of the kernel itself", {
  x <- faithful$waiting[1:80]
  w <- rep(c(1, 3), 40)
  for (kernel in names(ref_compact)) {
    ref <- ref_compact[[kernel]]
    value <- function(h) {
      b <- ref$sds * h
      density <- \(at, rows) ref_windows(ref$value, ref$sds, x[rows], w[rows], h, at) / sum(w[rows])
      grid <- seq(min(x) - b, max(x) + b, length.out = 5e3)
      left_out <- vapply(seq_along(x), \(i) density(x[i], -i), 0)
      sum(density(grid, seq_along(x))^2) * (grid[2] - grid[1]) - 2 * sum(w * left_out) / sum(w)
    }
    data <- list(points = matrix(x), weights = w)
    got <- lscv_value(data, matrix(3), compact_kernel(kernel), run_control(CONTROL_DEFAULTS))
    expect_equal(got, value(3), tolerance = 1e-3, info = kernel)
  }
  set.seed(4)
  x <- c(rnorm(150), rnorm(50, 3, 0.3))
  fit <- flash_kde(x, bandwidth = "lscv", kernel = "biweight")
  of <- \(factor) {
    lscv_value(list(points = fit$x), factor * fit_factor(fit), compact_kernel("biweight"), fit_control(fit))
  }
  expect_identical(fit$selector, "lscv")
  for (factor in c(0.7, 0.95, 1.05, 1.4)) expect_lt(of(1), of(factor))
  # asymptotically as that of the Gaussian
  expect_lt(abs(log(coef(fit) / coef(flash_kde(x, "kde", bandwidth = "lscv")))), 0.3)
})

test_that("a fit prints its kernel, which update() changes, and has no density at infinity", {
  fit <- flash_kde(~eruptions, faithful, kernel = "epan", bandwidth = 0.3)
  expect_identical(predict(fit, data.frame(eruptions = c(-Inf, Inf))), c(0, 0))
  expect_output(print(fit), "Kernel: epanechnikov, 0 beyond 2.24 standard deviations", fixed = TRUE)
  expect_output(print(summary(fit)), "Kernel: epanechnikov", fixed = TRUE)
  expect_identical(update(fit, kernel = "gaussian")$kernel, "gaussian")
})

test_that("results have the same bits for any number of threads and hardly depend on the order of points", {
  data <- some_windows(5000)
  fit <- \(threads, rows = 1:5000) {
    flash_kde(data$x[rows], bandwidth = 0.3, weights = data$w[rows], kernel = "biweight", control = flash_control(threads = threads))
  }
  expect_identical(predict(fit(1), data$y), predict(fit(2), data$y))
  expect_identical(predict(fit(1), loo = TRUE), predict(fit(2), loo = TRUE))
  expect_lt(relative_error(predict(fit(1, 5000:1), data$y), predict(fit(1), data$y)), 1e-14)
})

test_that("classes out of reach of all points are those of the Gaussian kernel", {
  of <- \(kernel) flash_kda(Species ~ Petal.Length, iris, bandwidth = 0.2, estimator = "kde", kernel = kernel)
  fit <- of("biweight")
  gaussian <- of("gaussian")
  far <- data.frame(Petal.Length = c(2.45, 30, 4.5))
  p <- predict(fit, far, type = "prob")
  expect_equal(p[1:2, ], predict(gaussian, far, type = "prob")[1:2, ])
  own <- vapply(fit$classes, \(class) predict(fit$fits[[class]], 4.5), 0)
  expect_equal(p[3, ], own / sum(own), tolerance = 1e-12)
  # alone among its class, and out of reach of others
  odd <- rbind(iris[c(1:40, 60:90), ], data.frame(
    Sepal.Length = 5, Sepal.Width = 3, Petal.Length = 2.65, Petal.Width = 1, Species = "setosa"
  ))
  fit <- flash_kda(Species ~ Petal.Length, droplevels(odd), bandwidth = 0.1, estimator = "kde", kernel = "biweight")
  expect_true(all(is.finite(cross_validate(fit)$prob)))
})

test_that("what goes with the Gaussian kernel alone is refused in words", {
  x <- faithful$eruptions
  refused <- \(...) expect_error(flash_kde(..., bandwidth = 0.3), class = "flashkernel_error_unsupported")
  refused(eruptions ~ waiting, faithful, kernel = "biweight")
  refused(x, "laplace", kernel = "biweight")
  refused(x, debias = debiasing(nonnegative = TRUE), kernel = "biweight")
  refused(x, debias = debiasing(steps = 2), kernel = "biweight")
  refused(x, control = flash_control(backend = "cuda"), kernel = "biweight")
  refused(x, control = flash_control(engine = "fast"), tol = 1e-3, kernel = "biweight")
  fit <- flash_kde(x, bandwidth = 0.3, kernel = "biweight")
  expect_error(predict(fit, control = flash_control(backend = "cuda")), class = "flashkernel_error_unsupported")
  adaptive <- flash_kde(x, bandwidth = 0.3, kernel = "biweight", adaptive = TRUE)
  expect_error(cross_validate(adaptive, 2, "quadratic"), class = "flashkernel_error_unsupported")
  expect_error(flash_kde(x, kernel = "quartic"), "nearest is \"biweight\"", class = "flashkernel_error_argument")
  expect_error(flash_kde(x, kernel = 3), "`kernel`", class = "flashkernel_error_argument")
  expect_identical(predict(flash_kde(x, bandwidth = 0.3, kernel = NULL)), predict(flash_kde(x, bandwidth = 0.3)))
})
