# Standard errors, degrees of freedom, likelihoods and draws of kernel regressions, against literal formulas.

posterior_case <- function(n = 60, d = 2, m = 12, noise = 0.2) {
  with_fixed_seed({
    x <- matrix(stats::runif(n * d, -1, 1), n)
    list(
      x = x, y = sin(3 * x[, 1]) + x[, d]^2 + noise * stats::rnorm(n), w = stats::runif(n, 0.5, 2),
      at = matrix(stats::runif(8 * d, -1.5, 1.5), 8), index = round(seq(1, n, length.out = m)), h = 0.5, lambda = 1e-3
    )
  }, 7)
}

# H, R R' and all else by solve(), with a mean taken off before where there is an intercept
literal_posterior <- function(case, w = rep(1, nrow(case$x)), intercept = TRUE) {
  n <- nrow(case$x)
  C <- case$x[case$index, , drop = FALSE]
  K <- gaussian_kernels(case$x, C, case$h)
  A <- crossprod(K, w * K) + n * case$lambda * gaussian_kernels(C, C, case$h)
  own <- K %*% solve(A, t(K * w))
  off <- if (intercept) matrix(w / sum(w), n, n, byrow = TRUE) else matrix(0, n, n)
  H <- own + off - own %*% off
  residual <- as.vector(case$y - H %*% case$y)
  edf <- sum(diag(H))
  list(H = H, A = A, K = K, C = C, edf = edf, residual = residual, sigma = sqrt(sum(w * residual^2) / (n - edf)))
}

fit_case <- function(case, ...) {
  ridge_with(case$x, case$y, bandwidth = case$h, lambda = case$lambda, iterations = 60, tolerance = 1e-12, ...)
}

test_that("degrees of freedom, leverages and sigma are those of the matrix that smooths", {
  case <- posterior_case()
  for (weights in list(NULL, case$w)) for (intercept in c(TRUE, FALSE)) {
    w <- if (is.null(weights)) rep(1, 60) else weights
    fit <- suppressWarnings(fit_case(case, centers = case$index, weights = weights, intercept = intercept))
    ref <- literal_posterior(case, w, intercept)
    expect_equal(60 - df.residual(fit), ref$edf, tolerance = 1e-8)
    expect_equal(hatvalues(fit), diag(ref$H), tolerance = 1e-8)
    expect_equal(sigma(fit), ref$sigma, tolerance = 1e-8)
    expect_equal(rstandard(fit), ref$residual * sqrt(w) / (ref$sigma * sqrt(1 - diag(ref$H))), tolerance = 1e-7)
    expect_equal(vcov(fit), ref$sigma^2 * solve(ref$A), tolerance = 1e-5)
  }
})

test_that("degrees of freedom of an exact fit are those of its matrix", {
  case <- posterior_case()
  case$index <- 1:60
  case$lambda <- 1e-2
  for (intercept in c(TRUE, FALSE)) {
    fit <- fit_case(case, exact = TRUE, weights = case$w, intercept = intercept)
    K <- gaussian_kernels(case$x, case$x, case$h)
    own <- K %*% solve(K + diag(60 * case$lambda / case$w))
    off <- if (intercept) matrix(case$w / sum(case$w), 60, 60, byrow = TRUE) else 0 * own
    H <- own + off - own %*% off
    expect_equal(hatvalues(fit), diag(H), tolerance = 1e-9)
    expect_equal(60 - df.residual(fit), sum(diag(H)), tolerance = 1e-9)
  }
})

test_that("standard errors of functions of the coefficients are those of their covariance, also where all rows are centres", {
  case <- posterior_case(30)
  case$index <- 1:30
  functional <- gaussian_kernels(case$x, case$at, case$h)
  for (exact in c(TRUE, FALSE)) for (weights in list(NULL, case$w)) {
    fit <- fit_case(case, exact = exact, centers = if (!exact) 30, weights = weights)
    errors <- as.vector(functional_errors(fit, functional, cpu_run()))
    ref <- literal_posterior(case, if (is.null(weights)) rep(1, 30) else weights)
    expect_equal(errors, sigma(fit) * sqrt(colSums(functional * solve(ref$A, functional))), tolerance = 1e-5)
    expect_equal(vcov(fit), ref$sigma^2 * solve(ref$A), tolerance = 1e-3)
  }
})

test_that("rows of weight 0 have no part in it", {
  case <- posterior_case()
  case$w[1:10] <- 0
  rest <- case
  rest[c("x", "y", "w")] <- list(case$x[-(1:10), ], case$y[-(1:10)], case$w[-(1:10)])
  rest$lambda <- case$lambda * 60 / 50
  a <- fit_case(case, exact = TRUE, weights = case$w)
  b <- fit_case(rest, exact = TRUE, weights = rest$w)
  expect_equal(logLik(a), logLik(b), tolerance = 1e-10)
  expect_equal(hatvalues(a), c(rep(0, 10), hatvalues(b)), tolerance = 1e-10)
  expect_equal(predict(a, case$at, se.fit = TRUE), predict(b, case$at, se.fit = TRUE), tolerance = 1e-10)
})

test_that("standard errors of exact fits are those of the Gaussian process", {
  case <- posterior_case()
  fit <- fit_case(case, exact = TRUE)
  found <- predict(fit, case$at, se.fit = TRUE)
  K <- gaussian_kernels(case$x, case$x, case$h)
  k <- gaussian_kernels(case$x, case$at, case$h)
  n_lambda <- 60 * case$lambda
  variance <- 1 - diag(crossprod(k, solve(K + diag(n_lambda, 60), k)))
  expect_equal(found$se.fit, sigma(fit) * sqrt(variance / n_lambda), tolerance = 1e-8)
  expect_equal(found$fit, predict(fit, case$at))
  # far away, the prior's
  far <- predict(fit, matrix(100, 1, 2), se.fit = TRUE)$se.fit
  expect_equal(far, sigma(fit) / sqrt(n_lambda), tolerance = 1e-10)
})

test_that("standard errors with centres are the formula of the help page, and with all rows those of the process", {
  case <- posterior_case()
  fit <- suppressWarnings(fit_case(case, centers = case$index, weights = case$w))
  ref <- literal_posterior(case, case$w)
  k <- gaussian_kernels(ref$C, case$at, case$h)
  unseen <- 1 - diag(crossprod(k, solve(gaussian_kernels(ref$C, ref$C, case$h), k)))
  variance <- diag(crossprod(k, solve(ref$A, k))) + unseen / (60 * case$lambda)
  expect_equal(predict(fit, case$at, se.fit = TRUE)$se.fit, ref$sigma * sqrt(variance), tolerance = 1e-6)
  all_rows <- suppressWarnings(fit_case(case, centers = 1:60))
  exact <- fit_case(case, exact = TRUE)
  expect_equal(
    predict(all_rows, case$at, se.fit = TRUE)$se.fit, predict(exact, case$at, se.fit = TRUE)$se.fit, tolerance = 1e-5
  )
})

test_that("residuals of rows left out are those of fits without them, at the same n lambda", {
  case <- posterior_case(n = 25, m = 6)
  out <- function(fit) left_out_residuals(fit, start_run(fit$control))[, 1]
  for (exact in c(TRUE, FALSE)) for (intercept in c(TRUE, FALSE)) {
    how <- if (exact) list(exact = TRUE) else list(centers = case$x[case$index, ])
    make <- function(rows, lambda) suppressWarnings(do.call(ridge_with, c(list(
      case$x[rows, ], case$y[rows], bandwidth = case$h, lambda = lambda, weights = case$w[rows], intercept = intercept,
      iterations = 60, tolerance = 1e-13
    ), how)))
    found <- out(make(1:25, 1e-2))
    literal <- vapply(c(1, 7, 25), \(i) {
      case$y[i] - predict(make(setdiff(1:25, i), 1e-2 * 25 / 24), case$x[i, , drop = FALSE])
    }, 0)
    expect_equal(found[c(1, 7, 25)], literal, tolerance = 1e-7)
  }
})

test_that("logLik is that of normal noise, with which AIC and BIC work", {
  case <- posterior_case()
  fit <- fit_case(case, exact = TRUE, weights = case$w)
  residual <- case$y - predict(fit)
  s <- sqrt(mean(case$w * residual^2))
  expect_equal(as.numeric(logLik(fit)), sum(stats::dnorm(residual, 0, s / sqrt(case$w), log = TRUE)), tolerance = 1e-10)
  expect_equal(AIC(fit), -2 * as.numeric(logLik(fit)) + 2 * (60 - df.residual(fit) + 1), tolerance = 1e-10)
})

test_that("the marginal likelihood is that of a normal response at the best variance, with centres and without", {
  skip_if_not_installed("mvtnorm")
  case <- posterior_case()
  K <- gaussian_kernels(case$x, case$x, case$h)
  few <- K[, case$index]
  responses <- cbind(a = case$y, b = case$y^2)
  literal <- function(y, K) {
    C <- K + diag(60 * case$lambda / case$w)
    centred <- y - stats::weighted.mean(y, case$w)
    C <- C * mean(centred * solve(C, centred))
    mvtnorm::dmvnorm(centred, sigma = (C + t(C)) / 2, log = TRUE)
  }
  exact <- kernel_ridge(
    case$x, responses, bandwidth = case$h, lambda = case$lambda, weights = case$w, solver = list(exact = TRUE)
  )
  with_centers <- fit_case(case, centers = case$index, weights = case$w)
  expect_equal(as.numeric(logLik(exact, marginal = TRUE)), literal(case$y, K) + literal(case$y^2, K), tolerance = 1e-8)
  Q <- few %*% solve(K[case$index, case$index], t(few))
  expect_equal(as.numeric(logLik(with_centers, marginal = TRUE)), literal(case$y, Q), tolerance = 1e-7)
})

test_that("prediction intervals hold what they promise, and widen away from the data", {
  case <- posterior_case(400, 1, noise = 0.3)
  case$lambda <- 1e-4
  new <- with_fixed_seed(matrix(stats::runif(2000, -1, 1)), 3)
  y <- with_fixed_seed(sin(3 * new[, 1]) + 0.3 * stats::rnorm(2000), 4)
  case$y <- with_fixed_seed(sin(3 * case$x[, 1]) + 0.3 * stats::rnorm(400), 5)
  for (fit in list(fit_case(case, exact = TRUE), suppressWarnings(fit_case(case, centers = 30)))) {
    found <- predict(fit, new, interval = "prediction")
    expect_identical(colnames(found), c("fit", "lwr", "upr"))
    expect_lt(abs(mean(y > found[, "lwr"] & y < found[, "upr"]) - 0.95), 0.025)
    inner <- predict(fit, new, interval = "confidence", level = 0.95)
    expect_true(all(inner[, "upr"] < found[, "upr"]))
    truth <- sin(3 * new[, 1])
    expect_gt(mean(truth > inner[, "lwr"] & truth < inner[, "upr"]), 0.85)
    width <- \(at) diff(predict(fit, matrix(at), interval = "confidence")[1, 2:3])
    expect_gt(width(3), 5 * width(0))
    few <- predict(fit, case$x[1:3, , drop = FALSE], interval = "confidence")
    expect_equal(unname(confint(fit, 1:3)), unname(few[, 2:3]), tolerance = 1e-9)
  }
})

test_that("several responses have a sigma each, and intervals in an array", {
  case <- posterior_case()
  y <- cbind(a = case$y, b = 10 * rev(case$y))
  fit <- kernel_ridge(case$x, y, bandwidth = case$h, lambda = case$lambda, solver = list(exact = TRUE))
  one <- kernel_ridge(case$x, y[, 2], bandwidth = case$h, lambda = case$lambda, solver = list(exact = TRUE))
  expect_equal(sigma(fit)[["b"]], sigma(one), tolerance = 1e-12)
  both <- predict(fit, case$at, se.fit = TRUE, interval = "prediction")
  single <- predict(one, case$at, se.fit = TRUE, interval = "prediction")
  expect_equal(both$fit[, , "b"], single$fit, tolerance = 1e-10)
  expect_equal(both$se.fit[, "b"], single$se.fit, tolerance = 1e-10)
  expect_named(vcov(fit), c("a", "b"))
})

test_that("draws have the variance of noise and coefficients together, and the seed is as simulate() has it", {
  case <- posterior_case(40)
  fit <- fit_case(case, exact = TRUE)
  set.seed(1)
  before <- .Random.seed
  draws <- simulate(fit, 2000, seed = 5)
  expect_identical(.Random.seed, before)
  expect_identical(draws, simulate(fit, 2000, seed = 5))
  spread <- predict(fit, se.fit = TRUE)
  expect_lt(max(abs(rowMeans(draws) - predict(fit))), 5 * sigma(fit) / sqrt(1000))
  ratio <- apply(as.matrix(draws), 1, var) / (spread$se.fit^2 + sigma(fit)^2)
  expect_lt(max(abs(ratio - 1)), 0.2)
})

test_that("what there is no answer to is an error that says so", {
  case <- posterior_case()
  fit <- fit_case(case, exact = TRUE)
  expect_error(predict(fit, interval = "prediction", level = 2), "level", class = "flashkernel_error_argument")
  classes <- kernel_ridge(case$x, factor(case$y > 0), family = "gaussian", bandwidth = 1, lambda = 1e-3)
  expect_error(predict(classes, se.fit = TRUE), "link", class = "flashkernel_error_argument")
  expect_length(predict(classes, se.fit = TRUE, type = "link")$se.fit, 60)
  loose <- fit_case(case, exact = TRUE, keep = FALSE)
  expect_error(sigma(loose), "keep", class = "flashkernel_error_argument")
})

test_that("all of it is there again after a fit was saved", {
  case <- posterior_case()
  fit <- suppressWarnings(fit_case(case, centers = case$index))
  expected <- predict(fit, case$at, se.fit = TRUE)
  file <- tempfile(fileext = ".rds")
  on.exit(unlink(file))
  saveRDS(fit, file)
  expect_equal(predict(readRDS(file), case$at, se.fit = TRUE), expected)
})

test_that("logistic fits have Laplace's approximation, and the log-likelihood of the classes", {
  case <- posterior_case()
  class <- factor(case$y > 0.3)
  fit <- suppressWarnings(kernel_ridge(
    case$x, class, bandwidth = case$h, lambda = 1e-2, family = "binomial", centers = case$index, weights = case$w,
    solver = list(iterations = 60)
  ))
  C <- case$x[case$index, ]
  K <- gaussian_kernels(case$x, C, case$h)
  link <- predict(fit, type = "link")
  p <- stats::plogis(link)
  information <- crossprod(K, case$w * p * (1 - p) * K)
  V <- solve(information + 60 * 1e-2 * gaussian_kernels(C, C, case$h))
  k <- gaussian_kernels(C, case$at, case$h)
  unseen <- 1 - diag(crossprod(k, solve(gaussian_kernels(C, C, case$h), k)))
  se <- sqrt(diag(crossprod(k, V %*% k)) + unseen / (60 * 1e-2))
  expect_equal(predict(fit, case$at, type = "link", se.fit = TRUE)$se.fit, se, tolerance = 1e-6)
  loglik <- logLik(fit)
  expect_equal(as.numeric(loglik), sum(case$w * log(ifelse(class == "TRUE", p, 1 - p))), tolerance = 1e-10)
  expect_equal(attr(loglik, "df"), 1 + sum(V * information), tolerance = 1e-7)
  inner <- solve(gaussian_kernels(C, C, case$h), information) / (60 * 1e-2)
  energy <- 60 * 1e-2 * sum(coef(fit) * gaussian_kernels(C, C, case$h) %*% coef(fit))
  marginal <- as.numeric(loglik) - energy / 2 - as.numeric(determinant(diag(12) + inner)$modulus) / 2
  expect_equal(as.numeric(logLik(fit, marginal = TRUE)), marginal, tolerance = 1e-7)
  expect_identical(levels(simulate(fit, 1, seed = 1)$sim_1), levels(class))
  several <- kernel_ridge(iris[1:4], iris$Species, bandwidth = 2, lambda = 1e-3, centers = 20)
  draws <- simulate(several, 50, seed = 2)
  expect_gt(mean(vapply(draws, \(draw) mean(draw == iris$Species), 0)), 0.8)
  expect_identical(dim(predict(several, type = "link", se.fit = TRUE)$se.fit), c(150L, 3L))
  expect_identical(dim(confint(several, 1:4)), c(4L, 2L, 3L))
})

# ---- more than two classes --------------------------------------------------------------------

test_that("the posterior of more classes is that of the whole Hessian, and probabilities go by it", {
  x <- as.matrix(iris[1:4])
  index <- seq(5, 150, by = 18)
  w <- rep(c(1, 2), 75)
  lambda <- 1e-3
  fit <- kernel_ridge(x, iris$Species, bandwidth = 2, lambda = lambda, centers = index, weights = w, solver = list(tolerance = 1e-20))
  C <- x[index, ]
  K <- gaussian_kernels(x, C, 2)
  Kmm <- gaussian_kernels(C, C, 2)
  p <- predict(fit, x, type = "prob")
  m <- length(index)
  of <- \(k) (k - 1) * m + seq_len(m)
  H <- 150 * lambda * kronecker(diag(3), Kmm)
  for (a in 1:3) for (b in 1:3) H[of(a), of(b)] <- H[of(a), of(b)] + crossprod(K, w * p[, a] * ((a == b) - p[, b]) * K)
  V <- solve(H)
  at <- x[c(1, 60, 110, 140), ] + 0.3
  k <- gaussian_kernels(at, C, 2)
  unseen <- (1 - rowSums(k * t(solve(Kmm, t(k))))) / (150 * lambda)
  there <- predict(fit, at, type = "prob")
  for (i in 1:4) {
    big <- kronecker(diag(3), k[i, , drop = FALSE])
    S <- big %*% V %*% t(big) + diag(unseen[i], 3)
    J <- diag(there[i, ]) - tcrossprod(there[i, ])
    one <- at[i, , drop = FALSE]
    expect_equal(unname(drop(predict(fit, one, type = "link", se.fit = TRUE)$se.fit)), sqrt(diag(S)), tolerance = 1e-5)
    found <- predict(fit, one, type = "prob", se.fit = TRUE)
    expect_equal(unname(drop(found$se.fit)), sqrt(diag(J %*% S %*% J)), tolerance = 1e-5)
    expect_equal(drop(found$fit), there[i, ])
  }
  D <- H - 150 * lambda * kronecker(diag(3), Kmm)
  run <- start_run(fit$control)
  expect_equal(freedom_of(fit, run), sum(diag(V %*% D)) + 2, tolerance = 1e-6)
  expect_equal(sum(leverage_of(fit, run)$leverage), sum(diag(V %*% D)), tolerance = 1e-6)
  ends <- predict(fit, at, type = "prob", interval = "confidence")
  expect_true(all(ends > 0 & ends < 1) && all(ends[, "lwr", ] < ends[, "upr", ]))
  # draws of a sum of classes that nothing is known of less than the prior says
  set.seed(5)
  draws <- draw_links(fit, list(roots = coefficient_roots(fit, run), noise = fit_noise(fit, run)), 4000, run)
  around <- vapply(1:3, \(a) draws[[a]][60, ], numeric(4000))
  big <- kronecker(diag(3), K[60, , drop = FALSE])
  want <- big %*% V %*% t(big)
  expect_lt(max(abs(stats::cov(around) - want)), 0.12 * max(abs(want)))
})

test_that("where the whole Hessian would be large, each class has a posterior of its own", {
  x <- as.matrix(iris[1:4])
  fit <- kernel_ridge(x, iris$Species, bandwidth = 2, lambda = 1e-2, centers = seq(5, 150, by = 18))
  whole <- predict(fit, x[c(1, 60), ], type = "prob", se.fit = TRUE)$se.fit
  replace_in_package("is_joint", \(fit) FALSE)
  fit$state$posterior <- NULL
  own <- predict(fit, x[c(1, 60), ], type = "prob", se.fit = TRUE)$se.fit
  expect_identical(dimnames(own), dimnames(whole))
  expect_true(all(own > 0) && max(abs(log(own / whole))) < log(2))
})

# ---- exact fits without factors ---------------------------------------------------------------

test_that("exact fits that are not factorised have the same standard errors, and estimates within their errors", {
  case <- posterior_case(600)
  case$lambda <- 1e-4
  factorised <- fit_case(case, exact = TRUE, weights = case$w)
  run <- start_run(factorised$control)
  want <- link_errors(factorised, ridge_rows(case$at), run)
  part <- posterior_of(factorised, run)$parts[[1]]
  marginal <- logLik(factorised, marginal = TRUE)
  replace_in_package("is_factorised", \(system) FALSE)
  made <- 0
  parts_of <- nystrom_parts
  replace_in_package("nystrom_parts", function(...) {
    made <<- made + 1
    parts_of(...)
  })
  fit <- factorised
  fit$state <- new.env()
  got <- link_errors(fit, ridge_rows(case$at), run)
  expect_equal(got, want, tolerance = 1e-3)
  found <- posterior_of(fit, run)$parts[[1]]
  expect_lt(abs(found$edf - part$edf), 4 * found$edf_error)
  expect_lt(found$edf_error, 0.05 * part$edf)
  expect_equal(fit$state$ones, residual_ones(factorised, posterior_of(factorised, run), run), tolerance = 1e-2)
  estimated <- logLik(fit, marginal = TRUE)
  expect_lt(abs(as.numeric(estimated - marginal)), 4 * attr(estimated, "error"))
  expect_lt(attr(estimated, "error"), 0.1 * abs(as.numeric(marginal)))
  # all of it by one preconditioner, and the same again
  expect_identical(made, 1)
  fit$state <- new.env()
  expect_identical(posterior_of(fit, run)$parts, list(found))
  expect_error(hatvalues(fit), "too many rows")
  # conjugate gradients that take long go on with a factor of all rows
  replace_in_package("is_fast", \(...) TRUE)
  replace_in_package("energy_gradients", \(system, nystrom, b, ...) list(x = 0 * b, converged = FALSE))
  fit$state <- new.env()
  expect_equal(link_errors(fit, ridge_rows(case$at), run), want, tolerance = 1e-3)
})

test_that("probabilities of 0 and 1 have errors of 0, and intervals that are numbers", {
  x <- as.matrix(iris[1:4])
  fit <- kernel_ridge(
    x, iris$Species, bandwidth = 2, lambda = 1e-3, centers = seq(5, 150, by = 18), offset = 1e4 * diag(3)[iris$Species, ]
  )
  found <- predict(fit, type = "prob", se.fit = TRUE, interval = "confidence")
  expect_true(all(is.finite(found$fit)) && all(found$se.fit == 0))
})

test_that("probabilities of two classes with errors are matrices by class, as those of more", {
  two <- droplevels(iris[c(51:70, 101:120), ])
  fit <- kernel_ridge(Species ~ Petal.Length + Petal.Width, two, bandwidth = 1, lambda = 1e-2)
  at <- two[c(1, 19, 30), ]
  p <- predict(fit, at, type = "prob")
  link <- predict(fit, at, type = "link", se.fit = TRUE, interval = "confidence")
  found <- predict(fit, at, type = "prob", se.fit = TRUE)
  expect_identical(found$fit, p)
  expect_identical(dimnames(found$se.fit), dimnames(p))
  expect_equal(found$se.fit[, "virginica"], p[, 1] * p[, 2] * link$se.fit)
  expect_equal(found$se.fit[, 1], found$se.fit[, 2])
  ends <- predict(fit, at, type = "prob", interval = "confidence")
  expect_identical(dim(ends), c(3L, 3L, 2L))
  expect_equal(unname(ends[, , "virginica"]), unname(stats::plogis(link$fit)))
  expect_equal(unname(ends[, , "versicolor"]), unname(stats::plogis(-link$fit[, c(1, 3, 2)])))
  # the mean of a response of numbers stays one for each row
  number <- kernel_ridge(am ~ wt, mtcars, family = "binomial", bandwidth = 1, lambda = 1e-2)
  found <- predict(number, mtcars[1:2, ], se.fit = TRUE)
  expect_null(dim(found$fit))
  expect_equal(found$se.fit, predict(number, mtcars[1:2, ], type = "prob", se.fit = TRUE)$se.fit[, 2])
  expect_identical(dim(predict(number, mtcars[1:2, ], interval = "confidence")), c(2L, 3L))
})

test_that("a fit without residuals has intervals of width 0, and effects without a z value", {
  set.seed(1)
  x <- matrix(stats::rnorm(60), 30)
  # with and without degrees of freedom that are left, and with few centres
  of <- list(list(bandwidth = 0.2, lambda = 1e-10), list(bandwidth = 1, lambda = 0.1),
    list(bandwidth = 1, lambda = 0.1, centers = 5), list(bandwidth = 1e-3, lambda = 1e-300))
  for (numbers in of) {
    fit <- do.call(kernel_ridge, c(list(x, rep(2, 30)), numbers))
    expect_identical(sigma(fit), 0)
    for (interval in c("confidence", "prediction")) {
      found <- predict(fit, x[1:3, ] + 0.1, interval = interval)
      expect_identical(unname(found), matrix(2, 3, 3))
    }
    effects <- marginal_effects(fit)
    expect_identical(effects$estimate, c(0, 0))
    expect_true(all(is.na(effects$statistic) & is.na(effects$p.value)))
    expect_false(any(is.nan(effects$statistic) | is.nan(effects$p.value)))
    expect_output(print(effects), "x1")
  }
})

test_that("one row of positive weight has the likelihood and the intervals of one row", {
  x <- data.frame(a = 1:5 / 5, b = 5:1 / 5)
  y <- c(1.2, 3, 1, 2, 3)
  of <- \(rows, ...) ridge_with(x[rows, ], y[rows], bandwidth = 0.3, lambda = 1e-3, ...)
  one <- of(3)
  for (fit in list(of(1:5, weights = c(0, 0, 1, 0, 0)), suppressWarnings(of(1:5, weights = c(0, 0, 1, 0, 0), centers = 2)))) {
    expect_identical(as.numeric(logLik(fit)), as.numeric(logLik(one)))
    expect_identical(c(AIC(fit), BIC(fit)), c(AIC(one), BIC(one)))
    expect_identical(sigma(fit), sigma(one))
    expect_identical(unname(confint(fit, x[3, ])), unname(confint(one)))
  }
  expect_identical(as.numeric(logLik(one)), as.numeric(logLik(lm(1 ~ 1))))
})

test_that("three classes that share one centre have leverages", {
  fit <- kernel_ridge(data.frame(a = c(1, 1, 1)), factor(c("r", "s", "t")), bandwidth = 1, lambda = 0.1)
  # of each row and class, for p = 1 / 3 and K = 1: p (1 - p)^2 and 2 p^3 by the posterior variance of the coefficients
  R <- chol2inv(chol(3 * (diag(1 / 3, 3) - 1 / 9) + diag(0.3, 3)))
  D <- diag(1 / 3, 3) - 1 / 9
  expect_equal(unname(hatvalues(fit)), matrix(diag(D %*% R), 3, 3, byrow = TRUE), tolerance = 1e-6)
})

test_that("a response without residuals leaves those beside it their noise", {
  case <- posterior_case(30)
  both <- fit_case(replace(case, "y", list(cbind(u = 2, v = case$y))))
  alone <- fit_case(case)
  expect_equal(sigma(both), c(u = 0, v = sigma(alone)))
  expect_identical(as.numeric(logLik(both)), Inf)
  # also where squares need other units
  for (scale in c(1e-200, 1e200)) {
    fit <- fit_case(replace(case, "y", list(cbind(u = 2, v = case$y, w = scale * case$y))))
    expect_equal(unname(sigma(fit)), c(0, 1, scale) * sigma(alone))
  }
})

test_that("residuals of rows that the fit goes through have no standard deviation, as those of lm()", {
  w <- c(1, rep(2e-16, 39))
  data <- with_fixed_seed(data.frame(a = stats::rnorm(40), y = stats::rnorm(40)), 1)
  fit <- kernel_ridge(y ~ a, data, "linear", bandwidth = 1, lambda = 1e-4, weights = w)
  expect_silent(found <- rstandard(fit))
  expect_true(is.nan(found[1]) && all(is.finite(found[-1])))
  # draws of a fit without noise are its values, also where rows have no weight
  fit <- kernel_ridge(data["a"], data$y, bandwidth = 1, lambda = 1e-3, weights = replace(numeric(40), 3, 1))
  expect_identical(simulate(fit, 1, seed = 1)$sim_1, unname(fitted(fit)))
})
