# Importance of variables and directions of kernel ridge regressions, and what other packages ask of fits.

importance_of <- function(fit) {
  table <- fit_importance(fit, start_run(fit$control, "Importance"))$importance
  stats::setNames(table$importance, table$term)
}

friedman <- with_fixed_seed({
  x <- matrix(stats::runif(2400), 300, 8, dimnames = list(NULL, paste0("x", 1:8)))
  y <- 10 * sin(pi * x[, 1] * x[, 2]) + 20 * (x[, 3] - 0.5)^2 + 10 * x[, 4] + 5 * x[, 5] + stats::rnorm(300)
  data.frame(y = y, x)
}, 1)

test_that("importance is the mean squared change after values were replaced by those of other rows", {
  rows <- transform(friedman[1:60, c("y", "x1", "x4")], g = factor(rep(c("a", "b", "b", "c", "c", "c"), 10)), w = rep(1:2, 30))
  fit <- kernel_ridge(y ~ x1 + x4 + g, rows, bandwidth = 1.5, lambda = 1e-3, weights = w)
  # of all pairs of rows
  square <- vapply(c("x1", "x4", "g"), \(name) sum(vapply(1:60, \(k) {
    other <- predict(fit, replace(rows, name, list(rep(rows[[name]][k], 60))))
    rows$w[k] * sum(rows$w * (other - predict(fit))^2)
  }, 0)), 0)
  expect_equal(importance_of(fit)[names(square)], square / sum(square), tolerance = 0.02)
})

test_that("importance of a skewed column does not depend on where it is steep", {
  rows <- with_fixed_seed(data.frame(a = exp(stats::rnorm(90, sd = 2)), b = stats::rnorm(90)), 1)
  fit <- kernel_ridge(y ~ a + b, transform(rows, y = log(a) + b))
  expect_equal(importance_of(fit)[["a"]], 0.8, tolerance = 0.05)
  expect_gt(min(subset(fit_importance(fit, start_run(fit$control))$directions, direction == 1)$loading), 0.2)
  # rows beyond those of the scores
  fit$kernel$terms[[2]]$scores <- lapply(fit$kernel$terms[[2]]$scores, \(map) if (!is.null(map)) lapply(map, `[`, -1))
  expect_true(all(is.finite(fit_importance(fit, start_run(fit$control))$directions$loading)))
})

test_that("importance of a known function is found", {
  x <- with_fixed_seed(matrix(stats::runif(6e4), ncol = 3), 2)
  wave <- \(a, b) 10 * sin(pi * a * b)
  of_wave <- mean((wave(x[, 1], x[, 2]) - wave(x[, 3], x[, 2]))^2) / 2
  truth <- c(x2 = of_wave, x1 = of_wave, x3 = 400 / 180, x4 = 100 / 12, x5 = 25 / 12)
  found <- importance_of(kernel_ridge(y ~ ., friedman))
  expect_lt(max(abs(found[names(truth)] - truth / sum(truth))), 0.06)
  expect_lt(sum(found[c("x6", "x7", "x8")]), 0.02)
})

test_that("several responses count in their own units, and transformed variables as one", {
  several <- \(unit) kernel_ridge(
    cbind(mpg, qsec * unit) ~ log(wt) + I(wt^2) + hp, mtcars, bandwidth = c(1, 10, 100), lambda = 0.01
  )
  shares <- importance_of(several(1))
  expect_setequal(names(shares), c("wt", "hp"))
  expect_equal(importance_of(several(1000)), shares)
  expect_equal(sum(importance_of(kernel_ridge(Species ~ ., iris, bandwidth = 2, lambda = 1e-3))), 1)
  constant <- kernel_ridge(cbind(a = 1:9, b = 9:1), rep(1, 9), bandwidth = 1, lambda = 1)
  expect_identical(unname(importance_of(constant)), c(0, 0))
  counts <- kernel_ridge(carb ~ wt + offset(log(cyl)), mtcars, family = "poisson", bandwidth = 1, lambda = 0.1)
  expect_identical(c(names(importance_of(counts)), marginal_effects(counts)$term), c("wt", "wt"))
})

test_that("directions are eigenvectors of the gradients in standardised columns", {
  fit <- kernel_ridge(y ~ ., friedman, bandwidth = 1.5, lambda = 1e-3)
  shown <- with_null_device(plot(fit, "directions"))$directions
  standard <- scale(friedman[-1])
  gradient <- predict(fit, friedman, type = "gradient") * rep(attr(standard, "scaled:scale"), each = 300)
  of <- eigen(crossprod(gradient))
  first <- shown[shown$direction == 1, ]
  expect_equal(abs(first$loading), abs(of$vectors[, 1]))
  expect_gt(first$loading[which.max(abs(first$loading))], 0)
  expect_equal(first$share[1], of$values[1] / sum(of$values))
})

test_that("figures and the summary have them", {
  fit <- kernel_ridge(mpg ~ wt + hp + factor(cyl), mtcars, bandwidth = c(1, 80, 2, 2), lambda = 0.01)
  before <- with_null_device({ drawn <- plot(fit, c("importance", "directions")); graphics::par("mar") })
  expect_equal(before, c(5.1, 4.1, 4.1, 2.1))
  expect_equal(drawn$importance, summary(fit)$importance)
  expect_null(summary(fit, effects = FALSE)$importance)
  expect_output(print(summary(fit)), "Importance: wt")
  skip_if_not_installed("ggplot2")
  for (which in names(drawn)) expect_silent(with_null_device(print(ggplot2::autoplot(fit, which))))
})

test_that("marginaleffects and insight read fits", {
  skip_if_not_installed("insight")
  skip_if_not_installed("marginaleffects")
  of <- \(name) getExportedValue("marginaleffects", name)
  rows <- transform(mtcars, cyl = factor(cyl))
  fit <- kernel_ridge(mpg ~ wt + cyl, rows, bandwidth = 2, lambda = 0.01)
  slopes <- as.data.frame(of("avg_slopes")(fit))
  ours <- marginal_effects(fit, se.fit = FALSE)
  of_term <- \(table) table$estimate[order(table$term, table$contrast)]
  expect_equal(of_term(slopes), of_term(ours), tolerance = 1e-4)
  species <- kernel_ridge(Species ~ ., iris, bandwidth = 2, lambda = 1e-3)
  table <- of("predictions")(species)
  expect_equal(table$estimate[table$group == "virginica"], unname(predict(species, type = "prob")[, "virginica"]))
  asked <- \(name, ...) getExportedValue("insight", name)(fit, ...)
  expect_identical(unlist(asked("find_predictors"), use.names = FALSE), c("wt", "cyl"))
  expect_identical(asked("find_response"), "mpg")
  expect_equal(asked("get_data", verbose = FALSE)$wt, mtcars$wt)
  expect_true(asked("model_info")$is_linear)
})
