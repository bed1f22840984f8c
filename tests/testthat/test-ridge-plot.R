# Figures of kernel regressions: that they are drawn, and what they show.

cars_fit <- kernel_ridge(mpg ~ wt + factor(cyl), data = mtcars, bandwidth = c(1, 1, 1), lambda = 1e-2)
set.seed(1)
held_fit <- kernel_ridge(mpg ~ wt + hp, data = mtcars, bandwidth = c(1, 50), lambda = 1e-4, centers = 12, validation = 0.3)
two_fit <- kernel_ridge(am ~ wt, data = transform(mtcars, am = factor(am)), bandwidth = 1, lambda = 1e-2)
three_fit <- kernel_ridge(iris[, 1:2], iris$Species, bandwidth = 1, lambda = 1e-2)

test_that("every fit has a figure, and it is returned invisibly", {
  for (fit in list(cars_fit, held_fit, two_fit, three_fit, kernel_ridge(cbind(mpg, hp) ~ wt, mtcars, bandwidth = 1, lambda = 0.1))) {
    shown <- with_null_device(withVisible(plot(fit)))
    expect_false(shown$visible)
    expect_true(all(names(shown$value) %in% PANELS))
  }
  expect_identical(names(with_null_device(plot(held_fit))), PANELS[1:4])
  before <- with_null_device({ plot(cars_fit); graphics::par("mfrow") })
  expect_identical(before, c(1L, 1L))
})

test_that("panels are what their names say", {
  shown <- with_null_device(plot(cars_fit, n = 5))
  expect_equal(shown$fitted$residual, unname(residuals(cars_fit)))
  part <- shown$partial$wt
  by_hand <- vapply(part$value, \(wt) mean(predict(cars_fit, replace(mtcars, "wt", wt))), 0)
  expect_equal(part$estimate, by_hand, tolerance = 1e-10)
  expect_true(all(part$low < part$estimate & part$estimate < part$high))
  expect_identical(levels(shown$partial$cyl$value), c("4", "6", "8"))
  expect_equal(shown$partial$cyl$estimate[2], mean(predict(cars_fit, transform(mtcars, cyl = 6))), tolerance = 1e-10)
})

test_that("calibration, ROC curve and probabilities are right", {
  shown <- with_null_device(plot(two_fit))
  p <- fitted(two_fit)
  pairs <- outer(p[mtcars$am == 1], p[mtcars$am == 0], "-")
  expect_equal(shown$residuals$auc[1], mean((pairs > 0) + (pairs == 0) / 2))
  expect_equal(sum(shown$fitted$rows), 32)
  expect_equal(stats::weighted.mean(shown$fitted$observed, shown$fitted$rows), mean(mtcars$am))
  expect_true(all(shown$partial$wt$low >= 0 & shown$partial$wt$high <= 1))
  several <- with_null_device(plot(three_fit, "partial"))$partial[[1]]
  expect_equal(as.vector(tapply(several$estimate, several$value, sum)), rep(1, 50))
})

test_that("panels and variables are chosen, and bad ones are errors", {
  expect_identical(names(with_null_device(plot(cars_fit, "fitted"))), "fitted")
  expect_identical(names(with_null_device(plot(cars_fit, 4, variables = "wt"))$partial), "wt")
  expect_message(with_null_device(plot(cars_fit, max_dims = 1)), "first 1 of 2")
  for (which in list("colour", c(1, -1), 8)) expect_argument_error(plot(cars_fit, which), "which")
  expect_argument_error(plot(cars_fit, variables = "hp"), "variables")
  expect_argument_error(plot(cars_fit, colour = 2), "colour")
  expect_argument_error(plot(update(cars_fit, solver = list(keep = FALSE))), "object")
})

test_that("ggplot2 draws the same", {
  skip_if_not_installed("ggplot2")
  for (fit in list(cars_fit, held_fit, two_fit, three_fit)) {
    for (which in c("partial", "fitted", "residuals", if (nrow(fit$trace) > 1) "iterations")) {
      expect_silent(with_null_device(print(ggplot2::autoplot(fit, which))))
    }
  }
  expect_argument_error(ggplot2::autoplot(cars_fit, "iterations"), "which")
})

test_that("two values that agree in three digits have labels of their own", {
  rows <- data.frame(t = rep(c(36.61, 36.64), 15), z = stats::rnorm(30))
  fit <- kernel_ridge(rows, stats::rnorm(30), bandwidth = 1, lambda = 0.1)
  with_null_device(parts <- plot(fit))
  expect_identical(levels(parts$partial$t$value), c("36.61", "36.64"))
  expect_identical(distinct_labels(c(1, 1 + 2^-52)), c("1", "1.0000000000000002"))
  expect_identical(distinct_labels(c(0.1234, 2)), c("0.123", "2"))
})

test_that("autoplot() draws fits of one row or of equal rows", {
  skip_if_not_installed("ggplot2")
  rows <- data.frame(a = c(0.3, 0.3), b = c(0.4, 0.4))
  for (n in 1:2) {
    fit <- kernel_ridge(rows[seq_len(n), ], rep(1.2, n), bandwidth = 0.3, lambda = 1e-3)
    expect_s3_class(ggplot2::ggplot_build(ggplot2::autoplot(fit)), "ggplot_built")
  }
})

test_that("values that differ by rounding alone, or are smaller than doubles have digits for, have axes", {
  alike <- list(
    kernel_ridge(data.frame(a = 1:4), 1e10 + 1e-5 * 1:4, bandwidth = 1, lambda = 0.1),
    kernel_ridge(data.frame(a = 1:4 * 1e-310), 1:4, bandwidth = 1, lambda = 0.1),
    kernel_ridge(data.frame(a = c(10.010033, 10.003139), b = 1:2), 1:2, "laplacian", 1.5, lambda = 0.77)
  )
  for (fit in alike) with_null_device(expect_silent(plot(fit)))
  # residuals that are 0 have no panel of iterations
  equal <- kernel_ridge(data.frame(a = c(1, 1)), factor(c("n", "p")), "laplacian", 1, lambda = 1e-3, solver = list(class_weights = "balanced"))
  with_null_device(expect_silent(plot(equal)))
  expect_identical(axis_limits(c(1, 1)), c(1, 1))
  expect_identical(axis_limits(c(1, 1 + 1e-9)), c(1, 1 + 1e-9))
})

test_that("dates have few ticks with their names", {
  days <- data.frame(day = as.Date("2024-01-01") + 0:59, z = 1:2, y = sin(1:60))
  fit <- kernel_ridge(y ~ day + z, days, bandwidth = c(10, 1), lambda = 0.1)
  figure <- ridge_figure(fit, "partial", NULL, FALSE, 0.95, 7, 6, TRUE, NULL)
  expect_s3_class(figure$shown$partial$day$value, "Date")
  expect_equal(range(figure$shown$partial$day$value), range(days$day))
  ticks <- figure$panels$day$x$ticks
  expect_identical(names(ticks)[ticks == as.numeric(as.Date("2024-02-15"))], "Feb 15")
  if (!requireNamespace("ggplot2", quietly = TRUE)) return(invisible())
  shown <- ggplot2::ggplot_build(ggplot2::autoplot(fit))$layout$panel_params[[1]]$x$get_labels()
  expect_true(all(shown[!is.na(shown)] %in% names(ticks)))
})

test_that("columns of a matrix are variables of their own", {
  data <- data.frame(y = mtcars$mpg, z = mtcars$cyl)
  data$m <- as.matrix(mtcars[c("wt", "hp")])
  apart <- data.frame(data[1:2], mwt = mtcars$wt, mhp = mtcars$hp)
  of <- \(formula, data) kernel_ridge(formula, data, bandwidth = c(1, 50, 2), lambda = 1e-2)
  fit <- of(y ~ m + z, data)
  other <- of(y ~ mwt + mhp + z, apart)
  effects <- \(...) as.list(marginal_effects(...))
  expect_equal(effects(fit), effects(other), tolerance = 1e-6)
  expect_equal(effects(fit, data[1:9, ], "mhp"), effects(other, apart[1:9, ], "mhp"), tolerance = 1e-6)
  drawn <- \(fit) with_null_device(plot(fit, c("partial", "importance")))
  expect_equal(drawn(fit), drawn(other), tolerance = 1e-10)
  expect_output(print(summary(fit)), "mwt")
})
