skewed <- local({
  u <- (seq_len(120) * (sqrt(5) - 1) / 2) %% 1
  v <- (seq_len(120) * (sqrt(3) - 1)) %% 1
  x <- cbind(size = exp(6 * u), share = round(v, 1))
  list(x = x, y = sin(6 * u) + u * v + 0.02 * cos(1:120 * 7))
})

delayedAssign("skewed_fit", kernel_ridge(skewed$x, skewed$y))

# the map of one column, by its definition
scores_by_hand <- function(known, x) {
  values <- sort(unique(known))
  at <- (rank(known, ties.method = "average") - 0.5) / length(known)
  stats::approx(values, stats::qnorm(at[match(values, known)]), x, rule = 2)$y
}

# Laplacian, Matern and other kernels of rows of a and b, which are scaled already
kernel_by_hand <- function(kernel, a, b) {
  r <- sqrt(pmax(outer(rowSums(a^2), rowSums(b^2), `+`) - 2 * a %*% t(b), 0))
  absolute <- Reduce(`+`, lapply(seq_len(ncol(a)), \(k) abs(outer(a[, k], b[, k], `-`))))
  switch(kernel$name,
    gaussian = exp(-r^2 / 2), laplacian = exp(-r), product_laplacian = exp(-absolute),
    powered_exponential = exp(-r^kernel$parameters[["power"]]),
    matern32 = (1 + sqrt(3) * r) * exp(-sqrt(3) * r), matern52 = (1 + sqrt(5) * r + 5 * r^2 / 3) * exp(-sqrt(5) * r)
  )
}

test_that("normal scores are quantiles of ranks between the values and constant outside", {
  x <- cbind(c(3, 1, 10, 1, 7), c(0, 1, 1, 0, 0))
  maps <- score_maps(x)
  new <- cbind(c(-1, 1, 2, 8.5, 99), c(0, 1, 2, 3, 4))
  expect_equal(normal_scores(maps, new)[, 1], scores_by_hand(x[, 1], new[, 1]))
  # a column of two values stays as it is
  expect_equal(normal_scores(maps, new)[, 2], new[, 2])
  # values that differ by rounding alone, as those of poly() do, are one value
  expect_equal(score_maps(x * (1 + c(0, 1, 0, -1, 0) * 1e-15)), maps)
  # slopes between the values whose scores differ by half a standard deviation, or the ends
  of <- \(value) scores_by_hand(x[, 1], value)
  value <- \(score) stats::approx(of(c(1, 3, 7, 10)), c(1, 3, 7, 10), score)$y
  from <- c(1, 1, value(of(8.5) - 0.5))
  to <- c(3, value(of(2) + 0.5), 10)
  expect_equal(normal_score_slopes(maps, new), cbind(c(0, (of(to) - of(from)) / (to - from), 0), 1))
  # neighbouring values of random samples are close by chance
  samples <- with_fixed_seed(matrix(exp(stats::rnorm(2000)), 100), 1)
  expect_equal(mean(normal_score_slopes(score_maps(samples), samples)), mean(1 / samples), tolerance = 0.1)
  many <- score_maps(matrix(1:1000))[[1]]
  expect_equal(many$at[c(1, SCORE_KNOTS)], c(1, 1000))
})

test_that("kernel_ridge() of skewed columns has the sum of a kernel of the columns and one of normal scores", {
  fit <- skewed_fit
  terms <- fit$kernel$terms
  expect_length(terms, 2)
  expect_output(print(fit), "of normal scores")
  new <- cbind(size = c(1.5, 40, 900), share = c(0.25, 0.5, 1))
  scaled <- \(x, L) t(forwardsolve(t(chol(L %*% t(L))), t(x)))
  scored <- \(x) cbind(scores_by_hand(skewed$x[, 1], x[, 1]), scores_by_hand(skewed$x[, 2], x[, 2]))
  K <- \(a) {
    plain <- kernel_by_hand(terms[[1]]$kernel, scaled(a, fit$L), scaled(skewed$x, fit$L))
    (plain + kernel_by_hand(terms[[2]]$kernel, scaled(scored(a), terms[[2]]$L), scaled(scored(skewed$x), terms[[2]]$L))) / 2
  }
  # as many knots as values
  kernel <- fit$kernel
  kernel$terms[[2]]$scores <- Map(\(k) {
    values <- sort(unique(skewed$x[, k]))
    list(at = values, to = scores_by_hand(skewed$x[, k], values))
  }, 1:2)
  again <- kernel_ridge(skewed$x, skewed$y, kernel = kernel, bandwidth = fit$bandwidth, lambda = fit$lambda)
  y <- skewed$y - mean(skewed$y)
  by_hand <- mean(skewed$y) + K(new) %*% solve(K(skewed$x) + diag(120 * fit$lambda, 120), y)
  expect_equal(as.vector(predict(again, new)), as.vector(by_hand), tolerance = 1e-6)
})

test_that("kernel_ridge() with a sum of kernels has gradients, effects and standard errors", {
  fit <- skewed_fit
  new <- cbind(size = c(1.5, 40, 290), share = c(0.25, 0.55, 0.85))
  # scores have their slopes at the points
  replace_in_package("SLOPE_WIDTH", 1e-7)
  step <- 1e-5
  differences <- vapply(1:2, \(k) {
    move <- replace(0 * new, cbind(1:3, k), step)
    (predict(fit, new + move) - predict(fit, new - move)) / (2 * step)
  }, numeric(3))
  expect_equal(unname(predict(fit, new, type = "gradient")), differences, tolerance = 1e-5)
  effects <- marginal_effects(fit)
  expect_equal(effects$estimate, unname(colMeans(predict(fit, type = "gradient"))), tolerance = 1e-8)
  expect_true(all(effects$std.error > 0))
  errors <- predict(fit, new, se.fit = TRUE)$se.fit
  expect_true(all(errors > 0 & errors < stats::sd(skewed$y)))
  shares <- summary(fit)$importance
  expect_equal(sum(shares$importance), 1)
})

test_that("kernel_ridge() keeps the kernel of a fit that is given", {
  fit <- skewed_fit
  again <- kernel_ridge(skewed$x, skewed$y, kernel = fit$kernel, bandwidth = fit$bandwidth, lambda = fit$lambda)
  expect_equal(fitted(again), fitted(fit))
})

test_that("kernel_ridge() of classes may have a sum of kernels", {
  class <- factor(ifelse(skewed$y + 0.5 * cos(1:120 * 11) > 0.4, "high", "low"))
  fit <- kernel_ridge(skewed$x, class, kernel = skewed_fit$kernel, bandwidth = c(500, 1), lambda = 1e-3, solver = list(tolerance = 1e-10))
  probabilities <- predict(fit, type = "prob")
  expect_equal(unname(rowSums(probabilities)), rep(1, 120))
  # at the optimum the gradient of the penalised loss is 0: lambda alpha is the mean residual of each row
  residual <- as.numeric(class == "low") - probabilities[, "low"]
  expect_equal(as.vector(fit$coefficients) * 120 * fit$lambda, unname(residual), tolerance = 1e-3)
})

test_that("normal scores of rows are computed once for all products of a fit", {
  calls <- 0
  suppressMessages(trace("normal_scores", \() calls <<- calls + 1, print = FALSE, where = asNamespace("flashkernel")))
  on.exit(suppressMessages(untrace("normal_scores", where = asNamespace("flashkernel"))))
  # in single precision kernels are not kept
  count_of <- function(iterations) {
    calls <<- 0
    kernel_ridge(skewed$x, skewed$y, kernel = skewed_fit$kernel, bandwidth = skewed_fit$bandwidth, lambda = 1e-4,
      centers = 30, solver = ridge_solver(iterations = iterations, tolerance = 0), control = flash_control(precision = "single"))
    calls
  }
  expect_gt(count_of(2), 0)
  expect_identical(count_of(12), count_of(2))
})
