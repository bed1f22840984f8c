test_that("the mean and the median of a density are those of its distribution function", {
  x <- stats::qgamma(stats::ppoints(80), 2)
  mean_of <- \(fit, from, to) from + stats::integrate(\(q) 1 - kde_cdf(fit, q), from, to, subdivisions = 1000L)$value
  fits <- list(
    flash_kde(x, "kde", 0.3), flash_kde(x, "sdkde", 0.3, weights = rev(x)), flash_kde(x, "laplace", 0.3),
    flash_kde(x, "kde", 0.3, adaptive = TRUE), flash_kde(x, "kde", 0.3, kernel = "biweight"),
    flash_kde(x, "kde", 0.3, support = kde_support(c(0, Inf), "reflect")),
    flash_kde(x, "kde", 0.3, support = kde_support(c(0, Inf), "boundary")),
    flash_kde(x, "laplace", 0.3, debias = debiasing(nonnegative = TRUE))
  )
  for (fit in fits) {
    expect_equal(mean(fit), mean_of(fit, -10, 20), tolerance = 1e-4)
    expect_equal(kde_cdf(fit, median(fit)), 0.5, tolerance = 1e-9)
  }
  two <- flash_kde(iris[c("Sepal.Length", "Petal.Width", "Species")], "kde", 0.2)
  expect_equal(mean(two), colMeans(iris[c("Sepal.Length", "Petal.Width")]))
  expect_equal(median(two), quantile(two, 0.5)[1, ])
  expect_error(mean(flash_kde(x, adaptive = "balloon")), "quantiles are not available", class = "flashkernel_error_unsupported")
})

test_that("the mean on a polygon is that of kernels cut off at its sides, without a search for quantiles", {
  fit <- flash_kde(cbind(c(0.1, 0.4, 0.9), 0.5), "kde", 0.3, support = cbind(c(0, 1, 1, 0), c(0, 0, 1, 1)))
  replace_in_package("halve", \(...) stop("searched by bisection"))
  cut <- \(x) x + 0.3 * (dnorm(x / 0.3) - dnorm((1 - x) / 0.3)) / (pnorm((1 - x) / 0.3) - pnorm(-x / 0.3))
  expect_equal(unname(mean(fit)), c(mean(cut(c(0.1, 0.4, 0.9))), 0.5), tolerance = 1e-6)
})

test_that("the mean on a circle is the direction of the mean vector, wherever the circle is cut", {
  hours <- c(22.5, 23, 23.5, 1, 1.5, 2.5)
  mean_at <- \(zero) mean(flash_kde((hours + zero) %% 24, "kde", 1.3, support = kde_circle(24)))
  expect_equal(c(mean_at(0), mean_at(6)), c(0, 6) + Arg(sum(exp(2i * pi * hours / 24))) * 24 / (2 * pi), tolerance = 1e-4)
})

test_that("a conditional density has a mean and a median at each row", {
  fit <- flash_kde(Petal.Width ~ Petal.Length, iris, "kde", c(0.1, 0.3))
  at <- data.frame(Petal.Length = c(1.5, 4, NA))
  expect_equal(mean(fit, at), predict(fit, at, type = "mean"))
  expect_equal(kde_cdf(fit, median(fit, newdata = at)[2], at)[2], 0.5, tolerance = 1e-9)
  expect_error(median(fit, at), "`na.rm`")
  expect_equal(median(fit), quantile(fit, probs = 0.5)[, 1])
  expect_error(median(flash_kde(Species ~ Petal.Width, iris, "kde", 0.2)), "need a numeric response")
})
