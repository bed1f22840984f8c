# Fits by squared loss, beside the normal equations in base R.

example_fit <- function(..., y = example_y, lambda = 1e-3, centers = example_centers, iterations = 100, tol = 1e-14) {
  ridge_with(
    example_x, y, bandwidth = 1.5, lambda = lambda, centers = centers, intercept = FALSE, iterations = iterations, tolerance = tol,
    ...
  )
}

# Fitted values of weighted kernel ridge regression with centres, literally.
nystroem <- function(x, y, centers, sd, lambda, weights = rep(1, nrow(x)), n = nrow(x)) {
  K <- gaussian_kernels(x, x[centers, ], sd)
  as.vector(K %*% solve(crossprod(K, weights * K) + lambda * n * K[centers, ], crossprod(K, weights * y)))
}

test_that("the worked example comes out digit by digit", {
  fit <- example_fit()
  expect_equal(fitted(fit)[1:4], c(-0.292546584859, 2.419973768075, -0.656910664588, 1.215147005681), tolerance = 1e-9)
  expect_equal(
    as.vector(fit$coefficients),
    c(43.61437903732, -2.53481678323, -1.14290356222, 13.42045284624, 5.93559992132, -10.94652305674, -45.65099330582),
    tolerance = 1e-8
  )
  weighted <- example_fit(weights = rep(c(1, 3), 20))
  expect_equal(
    as.vector(weighted$coefficients),
    c(43.55690793192, -2.55107025097, -1.21643289759, 13.70259186338, 5.72746525813, -11.12597574551, -45.39372130862),
    tolerance = 1e-8
  )
})

test_that("conjugate gradients reach the solution in as many steps as there are centres", {
  fit <- example_fit(tol = 1e-5)
  expect_true(fit$converged)
  # the last one finds nothing more
  expect_lte(fit$iterations, 9)
  expect_identical(fit$trace$iteration, seq_len(fit$iterations))
  expect_identical(example_fit(iterations = 3)[c("converged", "iterations")], list(converged = FALSE, iterations = 3))
})

test_that("a response that is shifted and scaled gives the same fit, shifted and scaled", {
  one <- kernel_ridge(example_x, example_y, bandwidth = 1.5, lambda = 1e-3, centers = example_centers, solver = list(iterations = 5))
  other <- kernel_ridge(example_x, 1024 * example_y + 7, bandwidth = 1.5, lambda = 1e-3, centers = example_centers, solver = list(iterations = 5))
  expect_equal(predict(other), 1024 * predict(one) + 7, tolerance = 1e-11)
  expect_identical(other$iterations, one$iterations)
})

test_that("rows far from the origin, and other units, change nothing", {
  one <- fitted(example_fit())
  far <- kernel_ridge(
    example_x + 1e6, example_y, bandwidth = 1.5, lambda = 1e-3, centers = example_centers, solver = list(intercept = FALSE, iterations = 100, tolerance = 1e-14)
  )
  expect_equal(fitted(far), one, tolerance = 1e-6)
  units <- c(1e3, 1, 1e-3)
  scaled <- kernel_ridge(
    example_x * rep(units, each = 40), example_y, bandwidth = 1.5 * units, lambda = 1e-3, centers = example_centers,
    solver = list(intercept = FALSE, iterations = 100, tolerance = 1e-14)
  )
  expect_equal(fitted(scaled), one, tolerance = 1e-9)
})

test_that("whole weights are rows that come several times, rows of weight 0 are none", {
  weights <- rep(c(0, 1, 2, 1), 10)
  weights[example_centers] <- 1
  literal <- nystroem(example_x, example_y, example_centers, 1.5, 1e-3, weights)
  expect_equal(fitted(example_fit(weights = weights)), literal, tolerance = 1e-8)
  rows <- rep(1:40, weights)
  again <- kernel_ridge(
    example_x[rows, ], example_y[rows], bandwidth = 1.5, lambda = 1e-3 * 40 / length(rows),
    centers = example_x[example_centers, ], solver = list(intercept = FALSE, iterations = 100, tolerance = 1e-14)
  )
  expect_equal(predict(again, example_x), literal, tolerance = 1e-7)
})

test_that("each of several responses is fitted as if it were alone", {
  y <- cbind(a = example_y, b = 100 * sin(1:40), zero = 0)
  together <- example_fit(y = y)
  expect_identical(dim(predict(together)), c(40L, 3L))
  expect_identical(colnames(coef(together)), c("a", "b", "zero"))
  expect_equal(predict(together)[, 1], fitted(example_fit()), tolerance = 1e-10)
  expect_equal(predict(together)[, 2], fitted(example_fit(y = y[, 2])), tolerance = 1e-10)
  expect_identical(unname(predict(together)[, 3]), rep(0, 40))
})

test_that("offsets are taken off before the fit and added to predictions", {
  offset <- seq(-1, 1, length.out = 40)
  fit <- kernel_ridge(
    example_x, example_y + offset, bandwidth = 1.5, lambda = 1e-3, centers = example_centers, offset = offset,
    solver = list(iterations = 50, tolerance = 1e-14)
  )
  plain <- kernel_ridge(
    example_x, example_y, bandwidth = 1.5, lambda = 1e-3, centers = example_centers, solver = list(iterations = 50, tolerance = 1e-14)
  )
  expect_equal(predict(fit), predict(plain) + offset, tolerance = 1e-10)
  expect_equal(predict(fit, example_x[1:2, ], offset = c(5, 6)), predict(plain, example_x[1:2, ]) + 5:6, tolerance = 1e-10)
  expect_error(predict(fit, example_x), class = "flashkernel_error_argument")
})

test_that("two classes are -1 and 1 under squared loss, more are one against all", {
  labels <- factor(ifelse(example_y > 1, "high", "low"), levels = c("low", "high"))
  fit <- example_fit(y = labels, family = "gaussian")
  literal <- nystroem(example_x, ifelse(labels == "high", 1, -1), example_centers, 1.5, 1e-3)
  expect_equal(predict(fit, type = "link"), literal, tolerance = 1e-8)
  expect_identical(predict(fit), factor(ifelse(literal > 0, "high", "low"), levels = c("low", "high")))
  three <- kernel_ridge(iris[1:4], iris$Species, bandwidth = 2, lambda = 1e-4, centers = 50, family = "gaussian")
  expect_identical(levels(predict(three)), levels(iris$Species))
  expect_lt(mean(predict(three) != iris$Species), 0.05)
  # in whatever order the levels are
  other <- factor(iris$Species, levels = rev(levels(iris$Species)))
  set.seed(1)
  one <- kernel_ridge(iris[1:4], iris$Species, bandwidth = 2, lambda = 1e-3, centers = 50, family = "gaussian")
  set.seed(1)
  two <- kernel_ridge(iris[1:4], other, bandwidth = 2, lambda = 1e-3, centers = 50, family = "gaussian")
  expect_identical(as.character(predict(one)), as.character(predict(two)))
})

test_that("a fit goes on from the coefficients of another", {
  first <- example_fit(iterations = 2)
  expect_gt(max(abs(fitted(first) - fitted(example_fit()))), 1e-3)
  second <- kernel_ridge(example_x, example_y, solver = list(start = first, intercept = FALSE, iterations = 100, tolerance = 1e-14))
  expect_equal(fitted(second), fitted(example_fit()), tolerance = 1e-8)
  done <- kernel_ridge(example_x, example_y, solver = list(start = second, intercept = FALSE, tolerance = 1e-6))
  expect_lte(done$iterations, 1)
})

test_that("the iterate of the least error at rows that were held out is kept", {
  set.seed(2)
  noisy <- example_y + rnorm(40)
  held <- list(x = example_x[1:10, ], y = noisy[1:10])
  fit <- kernel_ridge(
    example_x[11:40, ], noisy[11:40], bandwidth = 0.7, lambda = 1e-9, centers = 1:30, solver = list(iterations = 30), validation = held
  )
  errors <- fit$trace$validation
  expect_identical(fit$best_iteration, which.min(errors))
  expect_equal(sqrt(mean((predict(fit, held$x) - held$y)^2)), min(errors), tolerance = 1e-10)
  set.seed(3)
  part <- kernel_ridge(example_x, example_y, bandwidth = 1.5, lambda = 1e-3, centers = 10, validation = 0.25)
  expect_identical(part$n, 30L)
  expect_false(anyNA(part$trace$validation))
})

test_that("formulas make the columns, at the fit and for new data", {
  cars2 <- mtcars
  cars2$cyl <- factor(cars2$cyl)
  fit <- kernel_ridge(mpg ~ wt + cyl, cars2, bandwidth = 1, lambda = 1e-3)
  expect_identical(fit$names, c("wt", "cyl6", "cyl8"))
  by_hand <- cbind(wt = cars2$wt, cyl6 = cars2$cyl == "6", cyl8 = cars2$cyl == "8")
  plain <- kernel_ridge(by_hand, cars2$mpg, bandwidth = 1, lambda = 1e-3)
  expect_identical(fit$coefficients, plain$coefficients)
  expect_equal(predict(fit, cars2[3:5, ]), predict(fit)[3:5], tolerance = 1e-12)
  expect_equal(predict(fit, data.frame(wt = 3, cyl = "6")), predict(plain, cbind(wt = 3, cyl6 = 1, cyl8 = 0)), tolerance = 1e-12)
})

test_that("arguments that cannot be are named", {
  refuse <- function(arg, ...) {
    error <- expect_error(kernel_ridge(...), class = "flashkernel_error_argument")
    expect_identical(error$arg, arg)
  }
  x <- example_x
  y <- example_y
  refuse("lambda", x, y, lambda = 0)
  refuse("lambda", x, y, lambda = c(1, 2))
  refuse("bandwidth", x, y, bandwidth = -1, lambda = 1)
  refuse("bandwidth", x, y, bandwidth = NA_real_, lambda = 1)
  refuse("y", x, y[-1], bandwidth = 1, lambda = 1)
  refuse("y", x, replace(y, 3, NA), bandwidth = 1, lambda = 1)
  refuse("x", replace(x, 3, Inf), y, bandwidth = 1, lambda = 1)
  refuse("y", x, rep("a", 40), bandwidth = 1, lambda = 1)
  refuse("weights", x, y, bandwidth = 1, lambda = 1, weights = -1:38)
  refuse("sigma", x, y, sigma = 1)
  refuse("iterations", x, y, solver = list(iterations = 0))
  refuse("solver", x, y, solver = list(steps = 2))
  refuse("solver", x, y, solver = list(20))
  refuse("solver", x, y, solver = 20)
  refuse("exact", x, y, exact = TRUE)
  refuse("family", x, y, family = "hinge")
  refuse("start", x, y, solver = list(start = 1))
  refuse("validation", x, y, bandwidth = 1, lambda = 1, validation = 2)
  chunks <- local({
    ended <- TRUE
    \() if (ended <<- !ended) NULL else x
  })
  refuse("validation", chunks, y, bandwidth = 1, lambda = 1, centers = x[1:3, ], validation = 0.2)
  refuse("checkpoint", x, y, solver = list(checkpoint = 1))
  refuse("formula", ~wt, mtcars)
})

test_that("bandwidths that are hardly any, or huge, give a fit or an error in words", {
  for (sd in c(1e-300, 1e-8, 1e8, 1e150)) {
    fit <- tryCatch(
      kernel_ridge(example_x, example_y, bandwidth = sd, lambda = 1e-6, centers = 10),
      flashkernel_error = \(e) NULL, warning = \(w) NULL
    )
    if (!is.null(fit)) expect_true(all(is.finite(predict(fit))))
  }
  expect_error(kernel_ridge(example_x, example_y, bandwidth = 1e300, lambda = 1), class = "flashkernel_error_argument")
})

test_that("conjugate gradients on an operator that is not quite symmetric stop where they were best, and say so", {
  set.seed(5)
  n <- 60
  A <- crossprod(matrix(rnorm(n * n), n)) / n + diag(1e-6, n)
  noise <- matrix(rnorm(n * n), n) * 2e-3
  b <- matrix(rnorm(n))
  good <- conjugate_gradients(\(v) A %*% v, b, start_run(settle_control(NULL, list())), max_iter = 500, tol = 1e-6)
  expect_true(good$converged)
  expect_false(good$stalled)
  bad <- conjugate_gradients(\(v) (A + noise) %*% v, b, start_run(settle_control(NULL, list())), max_iter = 500, tol = 1e-6)
  expect_true(bad$stalled)
  expect_false(bad$converged)
  expect_lt(bad$iterations, 500)
  expect_equal(bad$residual, sqrt(sum((b - (A + noise) %*% bad$x)^2) / sum(b^2)), tolerance = 1e-8)
})

# A task whose products are those of centres that are a little elsewhere, so that conjugate gradients stall.
rough_case <- function(frame = parent.frame()) {
  x <- with_fixed_seed(matrix(rnorm(2000 * 2), 2000), 6)
  y <- sin(x[, 1]) + 0.1 * with_fixed_seed(rnorm(2000), 7)
  normal <- rows_normal.rows_dense
  rough <- 1 + 1e-4 * with_fixed_seed(matrix(rnorm(200), 200), 8)
  calls <- list(sums = 0, moments = 0, until = Inf)
  replace_in_package("rows_normal", function(rows, centers, v, w, weights, run) {
    what <- if (is.null(v)) "moments" else "sums"
    calls[[what]] <<- calls[[what]] + 1
    if (calls$sums == calls$until) stop("the power went off")
    normal(rows, centers, if (!is.null(v)) v * rough[seq_along(v)], w, weights, run)
  }, frame)
  list(
    fit = \(...) suppressWarnings(
      ridge_with(x, y, bandwidth = 3, lambda = 1e-9, centers = seq(10, 2000, by = 10), iterations = 200, ...)
    ),
    calls = \() calls, restart = \(until) calls <<- list(sums = 0, moments = 0, until = until)
  )
}

test_that("where conjugate gradients stall far from the solution, the jitter is raised, and told", {
  case <- rough_case()
  fit <- case$fit()
  expect_gte(fit$jitter, 1e-11)
  expect_identical(fit$trace$iteration, seq_len(fit$iterations))
  # the moments are those of any jitter
  expect_identical(case$calls()$moments, 1)
})

test_that("a fit that was stopped after the jitter was raised goes on with the same bits", {
  file <- tempfile()
  case <- rough_case()
  whole <- case$fit()
  sums <- case$calls()$sums
  made <- new_preconditioner
  last <- NULL
  replace_in_package("CHECKPOINT_SECONDS", 0)
  replace_in_package("new_preconditioner", function(...) {
    last <<- case$calls()$sums
    made(...)
  })
  case$restart(sums)
  expect_error(case$fit(checkpoint = file), "power")
  expect_gt(last, 0) # raised before
  raised <- last
  # right after it was raised, when the state is still that of the first, and at the last product
  for (until in c(raised + 1, sums)) {
    unlink(file)
    case$restart(until)
    expect_error(case$fit(checkpoint = file), "power")
    case$restart(Inf)
    resumed <- case$fit(checkpoint = file)
    expect_identical(resumed$coefficients, whole$coefficients)
    expect_identical(resumed$trace$residual, whole$trace$residual)
  }
})

test_that("centres where halves can hold them are next to where they were", {
  set.seed(7)
  x <- matrix(rnorm(500), 100) * rep(c(1e3, 1, 1e-3, 1, 1), each = 100) + 1e4
  L <- t(chol(diag(c(1e6, 1, 1e-6, 2, 0.5)) + c(1e3, 1, 1e-3, 0, 0) %o% c(1e3, 1, 1e-3, 0, 0) * 0.5))
  for (L in list(L, diag(diag(L)))) {
    moved <- on_halves(x, L, cpu_run())
    expect_lt(max(abs(forwardsolve(L, t(moved - x)))), 2^-17)
    u <- forwardsolve(L, t(moved) - colMeans(x)) * sqrt(log2(exp(1)))
    expect_lt(max(abs(u / 2^-17 - round(u / 2^-17))), 0.05)
  }
})
