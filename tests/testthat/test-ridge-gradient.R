# Derivatives of kernel regressions against differences, and their averages.

example_fit <- function(kernel, bandwidth = 1.5, outputs = 2) {
  set.seed(3)
  x <- matrix(stats::rnorm(60), 20, 3, dimnames = list(NULL, c("a", "b", "c"))) + 2
  y <- cbind(u = sin(x[, 1]) + x[, 2] * x[, 3], v = x[, 1]^2)[, seq_len(outputs)]
  kernel_ridge(x, y, kernel = kernel, bandwidth = bandwidth, lambda = 0.05, centers = 8)
}

differences <- function(fit, at, h = 1e-4) {
  slopes <- lapply(seq_len(ncol(at)), \(k) {
    move <- replace(numeric(ncol(at)), k, h)
    (as.matrix(predict(fit, sweep(at, 2, move, "+"))) - as.matrix(predict(fit, sweep(at, 2, move)))) / (2 * h)
  })
  aperm(simplify2array(slopes), c(1, 3, 2))
}

kernels <- c(
  sapply(setdiff(names(kernel_table()), "sigmoid"), kernel_spec, simplify = FALSE),
  list(line = kernel_spec("polynomial", degree = 1), rough = kernel_spec("powered_exponential", power = 0.7)),
  list(square = kernel_spec("powered_exponential", power = 2))
)

test_that("gradients are those of differences, for every kernel and form of bandwidth", {
  set.seed(4)
  at <- matrix(stats::rnorm(15), 5, 3, dimnames = list(NULL, c("a", "b", "c"))) + 2
  for (kernel in names(kernels)) {
    for (bandwidth in list(1.5, c(1, 2, 3), example_bandwidth(3, 2))) {
      fit <- example_fit(kernels[[kernel]], bandwidth)
      got <- predict(fit, at, type = "gradient")
      want <- differences(fit, at)
      expect_lt(max(abs(got - want)) / max(abs(want)), 1e-6)
    }
  }
  expect_identical(dimnames(got), list(NULL, c("a", "b", "c"), c("u", "v")))
})

test_that("gradients of one centre at one point are those of differences", {
  fit <- kernel_ridge(cbind(a = 1:3, b = c(2, 0, 1)), cbind(1:3, 0), kernel = "matern52", bandwidth = 1.5, lambda = 1, centers = 1)
  at <- cbind(a = 0.3, b = 0.7)
  expect_equal(predict(fit, at, type = "gradient"), differences(fit, at), tolerance = 1e-6, ignore_attr = TRUE)
})

test_that("the sigmoid kernel's too", {
  fit <- example_fit("gaussian")
  fit$kernel <- kernel_spec("sigmoid", gamma = 0.1, coef0 = 0.2)
  fit$state <- new.env()
  at <- fit$centers[1:4, ] + 0.1
  expect_lt(max(abs(predict(fit, at, type = "gradient") - differences(fit, at))), 1e-6)
})

test_that("a kink at a centre counts 0, and far away derivatives are 0", {
  fit <- example_fit("laplacian", outputs = 1)
  one <- fit
  one$coefficients[-1, ] <- 0
  expect_identical(as.vector(predict(one, fit$centers[1, , drop = FALSE], type = "gradient")), c(0, 0, 0))
  far <- fit$centers[1, , drop = FALSE] + 1e5
  for (kernel in c("gaussian", "laplacian", "matern32", "matern52")) {
    expect_identical(as.vector(predict(example_fit(kernel, outputs = 1), far, type = "gradient")), c(0, 0, 0))
  }
})

test_that("a kink of one coordinate counts 0 in this coordinate alone", {
  fit <- example_fit("product_laplacian", c(1, 2, 4), outputs = 1)
  fit$coefficients[-1, ] <- 0
  centre <- fit$centers[1, ]
  at <- rbind(centre + c(0, 1, -2), centre)
  k <- fit$coefficients[1, 1] * exp(-1 / 2 - 2 / 4)
  expect_equal(unname(predict(fit, at, type = "gradient")), rbind(k * c(0, -1 / 2, 1 / 4), 0), tolerance = 1e-14)
})

test_that("gradients do not depend on where the origin is", {
  fit <- example_fit("gaussian", outputs = 1)
  moved <- fit
  moved$centers <- fit$centers + 2^20
  moved$state <- new.env()
  at <- round(fit$centers[1:3, ] + 0.3, 3)
  fit$centers <- moved$centers - 2^20
  fit$state <- new.env()
  expect_equal(predict(moved, at + 2^20, type = "gradient"), predict(fit, (at + 2^20) - 2^20, type = "gradient"), tolerance = 1e-9)
})

test_that("blocks of rows change nothing", {
  fit <- example_fit("cauchy")
  want <- predict(fit, type = "gradient")
  before <- options(flashkernel.chunk_bytes = 8 * 3 * 4)
  on.exit(options(before))
  expect_equal(predict(fit, type = "gradient"), want, tolerance = 1e-13)
})

# ---- averages ---------------------------------------------------------------------------------

test_that("average effects of columns are means of gradients, weighted as the rows are", {
  for (kernel in c("gaussian", "imq", "polynomial", "product_laplacian")) {
    fit <- example_fit(kernel)
    means <- apply(predict(fit, type = "gradient"), 2:3, mean)
    effects <- marginal_effects(fit, se.fit = FALSE)
    expect_equal(effects$estimate, as.vector(t(means)), tolerance = 1e-10)
    expect_identical(effects$group, rep(c("u", "v"), 3))
  }
  w <- mtcars$cyl
  fit <- kernel_ridge(mpg ~ wt + hp, data = mtcars, weights = cyl, bandwidth = c(2, 150), lambda = 1e-3)
  want <- colSums(w * predict(fit, type = "gradient")) / sum(w)
  expect_equal(marginal_effects(fit)$estimate, unname(want), tolerance = 1e-10)
  expect_equal(marginal_effects(fit, variables = "hp")$estimate, want[["hp"]], tolerance = 1e-10)
})

test_that("a variable of several columns moves all of them", {
  rows <- transform(mtcars, drat = as.Date("2020-01-01") + 10 * drat)
  fit <- kernel_ridge(mpg ~ log(wt) * hp + I(qsec^2) + drat, rows, bandwidth = c(1, 100, 100, 10, 200), lambda = 1e-2)
  slope <- function(name, h) {
    moved <- \(h) predict(fit, replace(rows, name, list(rows[[name]] + h)))
    mean(moved(h) - moved(-h)) / (2 * h)
  }
  effects <- marginal_effects(fit, se.fit = FALSE)
  expect_identical(effects$term, c("wt", "hp", "qsec", "drat"))
  expect_equal(effects$estimate, mapply(slope, effects$term, c(1e-4, 1e-3, 1e-4, 1e-3), USE.NAMES = FALSE), tolerance = 1e-5)
})

test_that("levels differ from the first by what predictions do", {
  fit <- kernel_ridge(mpg ~ wt + factor(cyl) + am, data = transform(mtcars, am = am == 1), bandwidth = 2, lambda = 1e-2)
  with <- \(...) mean(predict(fit, transform(mtcars, ...)))
  effects <- marginal_effects(fit, se.fit = FALSE)
  expect_identical(effects$contrast, c("dY/dX", "6 - 4", "8 - 4", "TRUE - FALSE"))
  start <- predict(fit, transform(mtcars, am = am == 1, cyl = 4))
  expect_equal(effects$estimate[2], mean(predict(fit, transform(mtcars, am = am == 1, cyl = 6)) - start), tolerance = 1e-10)
  both <- lapply(c(TRUE, FALSE), \(am) predict(fit, replace(mtcars, "am", am)))
  expect_equal(effects$estimate[4], mean(both[[1]] - both[[2]]), tolerance = 1e-10)
})

test_that("standard errors are those of the functional by the covariance of the coefficients", {
  x <- as.matrix(mtcars[, c("wt", "hp")])
  fit <- kernel_ridge(x, mtcars$mpg, bandwidth = c(2, 150), lambda = 1e-2, centers = 1:10)
  K <- as.matrix(kernel_operator(fit$centers, x, bandwidth = c(2, 150)))
  Kmm <- as.matrix(kernel_operator(fit$centers, bandwidth = c(2, 150)))
  S <- crossprod(K)
  A <- S + 32 * 1e-2 * Kmm
  # the mean derivative in wt of each kernel
  a <- vapply(1:10, \(j) mean(-K[, j] * (x[, "wt"] - fit$centers[j, "wt"]) / 4), 0)
  effects <- marginal_effects(fit)
  expect_equal(effects$estimate[1], sum(a * fit$coefficients), tolerance = 1e-8)
  expect_equal(effects$std.error[1], sigma(fit) * sqrt(sum(a * solve(A, a))), tolerance = 1e-5)
  expect_equal(effects$p.value, 2 * stats::pt(-abs(effects$estimate / effects$std.error), df.residual(fit)))
})

test_that("a linear kernel has the effects of ridge regression", {
  fit <- kernel_ridge(mpg ~ wt + hp, data = mtcars, kernel = "linear", bandwidth = 1, lambda = 1e-9, centers = as.matrix(mtcars[1:2, c("wt", "hp")]))
  want <- solve(crossprod(as.matrix(mtcars[, c("wt", "hp")])), crossprod(as.matrix(mtcars[, c("wt", "hp")]), mtcars$mpg - mean(mtcars$mpg)))
  expect_equal(marginal_effects(fit, se.fit = FALSE)$estimate, as.vector(want), tolerance = 1e-4)
})

test_that("bad requests are errors that name what was wrong", {
  fit <- example_fit("gaussian")
  expect_argument_error(marginal_effects(fit, variables = "z"), "variables")
  expect_argument_error(marginal_effects(1), "object")
  expect_argument_error(marginal_effects(fit, level = 2), "level")
  expect_argument_error(marginal_effects(fit, newdata = matrix(NA_real_, 2, 3)), "newdata")
  expect_output(print(marginal_effects(fit)), "a \\[u\\]")
})
