# Formulas with k(): literal sums of kernels, and generalised least squares for the linear terms.
cars4 <- mtcars[c("mpg", "am", "wt", "hp", "qsec")]
cars5 <- mtcars[c("mpg", "cyl", "hp")]
bandwidth <- c(am = 1, wt = 1, hp = 50, qsec = 2)
gaussian <- function(x, h) exp(-as.matrix(dist(t(t(x) / h)))^2 / 2)

literal <- function(lambda, w = rep(1, 32)) {
  K <- list(gaussian(cars4[c("wt", "hp")], c(1, 50)), gaussian(cars4["qsec"], 2))
  n <- nrow(cars4)
  Z <- cbind(1, cars4$am)
  W <- solve(K[[1]] + K[[2]] + diag(n * lambda / w))
  V <- solve(t(Z) %*% W %*% Z)
  P <- W - W %*% Z %*% V %*% t(Z) %*% W
  alpha <- P %*% cars4$mpg
  beta <- V %*% t(Z) %*% W %*% cars4$mpg
  list(
    K = K, Z = Z, V = V, P = P, alpha = alpha, beta = beta,
    fitted = as.vector(Z %*% beta + (K[[1]] + K[[2]]) %*% alpha), unit = n * lambda
  )
}

test_that("an exact fit is generalised least squares with the sum of the kernels, with weights, too", {
  w <- rep(c(1, 2, 0.5, 1), 8)
  for (weights in list(rep(1, 32), w)) {
    fit <- kernel_ridge(mpg ~ am + k(wt, hp) + k(qsec), cars4, weights = weights, bandwidth = bandwidth, lambda = 0.02)
    expect_equal(as.vector(fitted(fit)), literal(0.02, weights)$fitted, tolerance = 1e-5)
    expect_equal(summary(fit)$linear[1, "Estimate"], literal(0.02, weights)$beta[2], tolerance = 1e-5)
  }
})

test_that("standard errors of linear terms and of effects are those of the Gaussian process", {
  fit <- kernel_ridge(mpg ~ am + k(wt, hp) + k(qsec), cars4, bandwidth = bandwidth, lambda = 0.02)
  dense <- literal(0.02)
  scale <- sigma(fit)^2 / dense$unit
  expect_equal(summary(fit)$linear[1, "Std. Error"], sqrt(scale * dense$V[2, 2]), tolerance = 1e-4)
  half <- qt(0.95, df.residual(fit)) * sqrt(scale * dense$V[2, 2])
  expect_equal(confint(fit, "linear", level = 0.9)[1, ], dense$beta[2] + c("5 %" = -half, "95 %" = half), tolerance = 1e-4)
  expect_argument_error(confint(kernel_ridge(mpg ~ k(wt), cars4), "linear"), "parm")
  found <- predict(fit, type = "terms", se.fit = TRUE)
  expect_equal(colnames(found$fit), c("am", "k(wt, hp)", "k(qsec)"))
  expect_equal(rowSums(found$fit) + attr(found$fit, "constant"), fitted(fit), tolerance = 1e-6)
  centred <- diag(32) - 1 / 32
  K <- dense$K[[2]]
  expect_equal(as.vector(found$fit[, 3]), as.vector(centred %*% K %*% dense$alpha), tolerance = 1e-4)
  variance <- diag(centred %*% (K - K %*% dense$P %*% K) %*% centred)
  expect_equal(as.vector(found$se.fit[, 3]), unname(sqrt(scale * variance)), tolerance = 1e-4)
})

test_that("fits with all rows as centres equal exact fits", {
  of <- \(...) kernel_ridge(mpg ~ am + k(wt, hp) + k(qsec), cars4, bandwidth = bandwidth, lambda = 0.02, ...)
  many <- of(centers = 1:32, solver = list(exact = FALSE, tolerance = 1e-10))
  expect_equal(fitted(many), fitted(of()), tolerance = 1e-4)
  expect_equal(marginal_effects(many)$Estimate, marginal_effects(of())$Estimate, tolerance = 1e-3)
})

test_that("gradients of sums of kernels are derivatives of predictions", {
  fit <- kernel_ridge(mpg ~ am + k(wt, hp) + k(qsec), cars4, bandwidth = bandwidth, lambda = 0.02)
  moved <- cars4
  moved$hp <- moved$hp + 1e-3
  expect_equal(predict(fit, type = "gradient")[, "hp"], (predict(fit, moved) - fitted(fit)) / 1e-3, tolerance = 1e-3)
})

test_that("bandwidths, scales and lambda are chosen, and fits with terms are updated", {
  fit <- kernel_ridge(mpg ~ am + k(wt, hp) + k(qsec), cars4)
  expect_output(print(fit), "linear am; k(wt, hp)", fixed = TRUE)
  expect_equal(predict(fit, cars4), fitted(fit), tolerance = 1e-6)
  expect_equal(formula(update(fit, . ~ . - k(qsec))), mpg ~ am + k(wt, hp), ignore_formula_env = TRUE)
  expect_true(all(is.na(predict(fit, replace(cars4[1, ], "wt", NA), type = "terms"))))
  smooth <- kernel_ridge(mpg ~ k(factor(cyl)) + k(hp), cars5, kernel = "matern52")
  expect_equal(predict(smooth, cars5), fitted(smooth), tolerance = 1e-6)
  expect_error(kernel_ridge(factor(am) ~ k(wt) + qsec, cars4), "family")
  expect_equal(nobs(kernel_ridge(mpg ~ wt + k, transform(cars4, k = hp))), 32)
  expect_error(kernel_ridge(mpg ~ am:k(wt), cars4), "term of its own")
  expect_error(predict(kernel_ridge(mpg ~ wt, cars4), type = "terms"), "k()", fixed = TRUE)
})

test_that("plots of terms are the effects that predict() returns", {
  fit <- kernel_ridge(mpg ~ am + k(wt, hp) + k(qsec), cars4, bandwidth = bandwidth, lambda = 0.02)
  shown <- with_null_device(plot(fit, "terms", n = 5))$terms
  expect_named(shown, c("am", "k(wt, hp)", "k(qsec)"))
  found <- predict(fit, transform(cars4[1:5, ], qsec = shown[[3]]$value), type = "terms", se.fit = TRUE)
  expect_equal(shown[[3]]$estimate, unname(found$fit[, 3]))
  expect_equal(shown[[3]]$high - shown[[3]]$low, unname(2 * qt(0.975, found$df) * found$se.fit[, 3]))
  both <- predict(fit, transform(cars4[1:5, ], wt = shown[[2]]$value[6:10], hp = 123), type = "terms")
  expect_equal(shown[[2]]$estimate[6:10], unname(both[, 2]))
  expect_identical(levels(shown[[2]]$group)[2], "hp = 123")
  other <- kernel_ridge(mpg ~ log(qsec) + k(factor(am), wt) + k(wt, hp, qsec), cars4, bandwidth = 1, lambda = 0.1)
  shown <- with_null_device(plot(other, "terms", se.fit = FALSE))$terms
  expect_named(shown, c("log(qsec)", "k(factor(am), wt)"))
  expect_identical(levels(shown[[2]]$group), c("am = 0", "am = 1"))
  expect_argument_error(plot(kernel_ridge(mpg ~ wt, cars4, bandwidth = 1, lambda = 1), "terms"), "which")
  skip_if_not_installed("ggplot2")
  for (of in list(fit, other)) expect_silent(with_null_device(print(ggplot2::autoplot(of, "terms"))))
})

test_that("tune_ridge() compares kernels of terms by the restricted likelihood", {
  tuned <- tune_ridge(mpg ~ am + k(wt, hp) + k(qsec), cars4)
  task <- with_fixed_seed(tuning_task(
    with_row_keys(tuned$data$rows, list(y = tuned$data$y), NULL), list(y = tuned$data$y, family = FAMILIES$gaussian), NULL,
    tuned$search$settings$spec, tuned$search$settings$asked
  ))
  found <- choose_by_way("criterion", task, Inf, checked_run(settle_control(NULL)))
  expect_setequal(found$path$kernel, c("gaussian", "matern52"))
  # literally, for y of unit variance
  y <- as.vector(scale(cars4$mpg, scale = FALSE))
  y <- y / sqrt(mean(y^2))
  noise <- 32 * found$lambda
  K <- Reduce(`+`, lapply(found$kernel$terms[-1], \(term) {
    term$scale * as.matrix(kernel_operator(as.matrix(cars4[names(found$bandwidth)[term$columns]]),
      bandwidth = found$bandwidth[term$columns], kernel = found$kernel$name))
  }))
  C <- diag(32) + K / noise
  Z <- qr.Q(qr(cbind(1, cars4$am)))
  inner <- t(Z) %*% solve(C, Z)
  left <- y - Z %*% solve(inner, t(Z) %*% solve(C, y))
  variance <- sum(left * solve(C, left)) / 30
  literal <- 30 * log(2 * pi * variance) + 30 + determinant(C)$modulus + determinant(inner)$modulus
  expect_equal(found$value, as.vector(literal) / 64, tolerance = 1e-6)
  expect_equal(found$value, min(found$path$criterion), tolerance = 1e-5)
  expect_argument_error(tune_ridge(mpg ~ k(wt), cars4, criterion = "loo"), "criterion")
  expect_argument_error(tune_ridge(mpg ~ k(wt), cars4, structure = "scalar"), "structure")
  again <- tune_ridge(mpg ~ am + k(wt), cars4, kernel = "matern32", lambda = c(1e-4, 1e-1))
  expect_identical(again$kernel$terms[[2]]$kernel$name, "matern32")
  expect_true(again$lambda %in% c(1e-4, 1e-1))
  expect_equal(predict(again, cars4), fitted(again), tolerance = 1e-6)
})
