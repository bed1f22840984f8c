# Kernel ridge regression without centres, against solve().

exact_case <- function(n = 80, d = 3) {
  with_fixed_seed({
    x <- matrix(stats::runif(n * d), n)
    list(
      x = x, y = cos(4 * x[, 1]) * x[, 2] + 0.1 * stats::rnorm(n), w = stats::rexp(n) + 0.1,
      at = matrix(stats::runif(10 * d), 10), h = 0.5, lambda = 1e-3
    )
  }, 11)
}

literal_ridge <- function(case, w = rep(1, nrow(case$x)), at = case$at) {
  n <- nrow(case$x)
  mean <- sum(w * case$y) / sum(w)
  alpha <- solve(gaussian_kernels(case$x, case$x, case$h) + diag(n * case$lambda / w), case$y - mean)
  list(alpha = alpha, value = as.vector(mean + gaussian_kernels(at, case$x, case$h) %*% alpha))
}

exact_fit <- function(case, ...) ridge_with(case$x, case$y, bandwidth = case$h, lambda = case$lambda, exact = TRUE, ...)

# as fits of more rows are solved: by conjugate gradients or by blocks
without_factor <- function(case, fast, tol = 1e-11, ...) {
  replace_in_package("is_factorised", \(system) FALSE)
  replace_in_package("is_fast", \(system, run) fast)
  exact_fit(case, tolerance = tol, ...)
}
by_gradients <- function(case, ...) without_factor(case, TRUE, ...)
by_blocks <- function(case, ...) without_factor(case, FALSE, ...)

test_that("coefficients and predictions are those of solve(), weighted or not", {
  case <- exact_case()
  expect_equal(coef(exact_fit(case)), literal_ridge(case)$alpha, tolerance = 1e-9)
  fit <- exact_fit(case, weights = case$w)
  expect_equal(fit$coefficients[, 1], literal_ridge(case, case$w)$alpha, tolerance = 1e-9)
  expect_equal(predict(fit, case$at), literal_ridge(case, case$w)$value, tolerance = 1e-11)
  expect_lt(fit$trace$residual, 1e-13)
})

test_that("conjugate gradients and blocks come to the same, to their tolerance", {
  case <- exact_case(300)
  for (weights in list(NULL, case$w)) {
    direct <- exact_fit(case, weights = weights)
    for (iterated in list(by_gradients(case, weights = weights), by_blocks(case, weights = weights))) {
      expect_true(iterated$converged)
      expect_lt(iterated$iterations, 100)
      expect_lt(tail(iterated$trace$residual, 1), 1e-11)
      expect_equal(predict(iterated, case$at), predict(direct, case$at), tolerance = 1e-9)
    }
  }
})

test_that("sums to a tolerance do not keep conjugate gradients from theirs", {
  case <- exact_case(1500)
  case$lambda <- 1e-4 / 1500
  loose <- flash_control(engine = "fast", tol = 1e-4, backend = "cpu")
  replace_in_package("iterations_in_factor", \(...) Inf)
  expect_warning(iterated <- by_gradients(case, tol = 1e-8, control = loose), "relative residual")
  expect_false(iterated$converged)
  iterated <- by_gradients(case, tol = 1e-8)
  expect_true(iterated$converged)
  expect_equal(predict(iterated, case$at), literal_ridge(case)$value, tolerance = 1e-6)
})

test_that("conjugate gradients that stall, or take as long as a factor of all rows, go on by refinement with that", {
  case <- exact_case(400)
  case$lambda <- 1e-9
  direct <- exact_fit(case)
  for (turns in c(0, 6)) {
    replace_in_package("iterations_in_factor", \(...) turns)
    iterated <- by_gradients(case, tol = 1e-7)
    expect_true(iterated$converged)
    expect_gt(iterated$iterations, turns)
    expect_lt(iterated$iterations, turns + 6)
    expect_equal(predict(iterated, case$at), predict(direct, case$at), tolerance = 1e-5)
  }
})

test_that("a fit with all rows for centres is the exact one", {
  case <- exact_case()
  all_rows <- suppressWarnings(kernel_ridge(
    case$x, case$y, bandwidth = case$h, lambda = case$lambda, centers = 1:80, solver = list(iterations = 50, tolerance = 1e-12)
  ))
  expect_equal(predict(all_rows, case$at), predict(exact_fit(case), case$at), tolerance = 1e-8)
})

test_that("with lambda to 0 the function goes through the data", {
  case <- exact_case(30, 2)
  case$h <- 0.15
  case$lambda <- 1e-14
  expect_equal(predict(exact_fit(case)), case$y, tolerance = 1e-9)
})

test_that("a weight of 2 is two rows at the same n lambda, and one of 0 none", {
  case <- exact_case()
  counts <- rep(c(1, 2, 0, 3), 20)
  rows <- rep(1:80, counts)
  repeated <- kernel_ridge(
    case$x[rows, ], case$y[rows], bandwidth = case$h, lambda = case$lambda * 80 / length(rows), solver = list(exact = TRUE)
  )
  weighted <- exact_fit(case, weights = counts)
  expect_equal(predict(weighted, case$at), predict(repeated, case$at), tolerance = 1e-10)
  expect_identical(weighted$center_index, which(counts > 0))
  expect_equal(predict(by_gradients(case, weights = counts), case$at), predict(weighted, case$at), tolerance = 1e-9)
})

test_that("several responses, an offset and a validation set are as elsewhere", {
  case <- exact_case()
  y <- cbind(case$y, 1 + case$x[, 3])
  offset <- case$x[, 1]
  held <- list(x = case$at, y = cbind(case$at[, 1], 1), offset = rep(0, 10))
  case$y <- y
  fits <- list(exact_fit(case, offset = offset, validation = held), by_gradients(case, offset = offset))
  best <- by_gradients(case, offset = offset, validation = held)
  case$y <- y[, 2] - offset
  single <- exact_fit(case)
  for (fit in fits) {
    expect_equal(predict(fit, case$at, offset = rep(0, 10))[, 2], predict(single, case$at), tolerance = 1e-9)
  }
  expect_true(all(best$trace$validation > 0))
  expect_identical(best$best_iteration, which.min(best$trace$validation))
})

test_that("a warm start saves iterations, and one of another size is an error", {
  case <- exact_case(300)
  for (solve in list(by_gradients, by_blocks)) {
    cold <- solve(case)
    warm <- solve(case, start = cold)
    expect_lt(warm$iterations, cold$iterations / 2)
  }
  case$x <- case$x[-1, ]
  case$y <- case$y[-1]
  expect_error(by_gradients(case, start = cold), "start", class = "flashkernel_error_argument")
})

test_that("an exact fit that was stopped goes on from its file, with the same bits", {
  case <- exact_case(1500)
  case$lambda <- 1e-4 / 1500
  file <- tempfile()
  # the second takes sums that are more exact on the way, the third goes on with a factor of all rows
  ways <- list(
    list(by_gradients, "exact_product", 1e-6, Inf), list(by_gradients, "exact_product", 1e-10, Inf),
    list(by_gradients, "exact_product", 1e-10, 3), list(by_blocks, "solve_block", 1e-6, Inf)
  )
  for (way in ways) {
    products <- 0
    until <- Inf
    product <- get(way[[2]], asNamespace("flashkernel"))
    tol <- way[[3]]
    local({
      replace_in_package("CHECKPOINT_SECONDS", 0)
      replace_in_package("iterations_in_factor", \(...) way[[4]])
      replace_in_package(way[[2]], function(...) {
        products <<- products + 1
        if (products == until) stop("the power went off")
        product(...)
      })
      whole <- way[[1]](case, tol = tol)
      until <<- products
      products <<- 0
      expect_error(way[[1]](case, tol = tol, checkpoint = file), "power")
      expect_true(file.exists(file))
      products <<- 0
      resumed <- way[[1]](case, tol = tol, checkpoint = file)
      expect_lt(products, until / 2)
      expect_identical(resumed$coefficients, whole$coefficients)
      expect_identical(resumed$trace[c("iteration", "residual")], whole$trace[c("iteration", "residual")])
      expect_false(file.exists(file))
    })
  }
})

test_that("an estimate of the degrees of freedom is near their number, and standard errors are right", {
  case <- exact_case(600)
  replace_in_package("is_factorised", \(system) FALSE)
  fit <- exact_fit(case)
  found <- predict(fit, case$at, se.fit = TRUE)
  estimate <- df.residual(fit)
  expect_error(hatvalues(fit), "factorise", class = "flashkernel_error_argument")
  replace_in_package("is_factorised", \(system) TRUE)
  direct <- exact_fit(case)
  edf <- 600 - df.residual(direct)
  expect_lt(abs(600 - estimate - edf), 4 * sqrt(edf / 4))
  literal <- predict(direct, case$at, se.fit = TRUE)$se.fit / sigma(direct)
  expect_equal(found$se.fit / found$residual.scale, literal, tolerance = 1e-4)
})

test_that("logistic regression on all rows is for few of them", {
  many <- list(rows = list(n = EXACT_LOGISTIC + 1))
  expect_error(fit_exact(many, list(family = FAMILIES$binomial), NULL), "exact", class = "flashkernel_error_argument")
})

test_that("noise that is nothing beside the kernel matrix leaves a right answer, or a warning that names lambda", {
  set.seed(1)
  n <- 800
  x <- matrix(stats::runif(2 * n), n)
  y <- sin(5 * x[, 1]) + x[, 2] + stats::rnorm(n) / 10
  fit <- \(...) ridge_with(x, y, bandwidth = 0.3, lambda = 1e-7 / n, exact = TRUE, control = flash_control(backend = "cpu"), ...)
  direct <- predict(fit(), x)
  replace_in_package("is_factorised", \(system) FALSE)
  expect_lt(max(abs(predict(fit(tolerance = 1e-7), x) - direct)), 1e-5)
  replace_in_package("is_fast", \(system, run) TRUE)
  found <- fit()
  expect_true(found$converged)
  expect_lt(max(abs(predict(found, x) - direct)), 1e-5)
  expect_warning(fit(iterations = 2), "lambda")
})

test_that("sums at midpoints whose errors are not small beside the noise are not gone by", {
  set.seed(1)
  n <- 6000
  x <- matrix(stats::runif(2 * n), n)
  y <- sin(5 * x[, 1]) + x[, 2] + stats::rnorm(n) / 10
  fit <- kernel_ridge(x, y, bandwidth = 0.3, lambda = 1e-6, solver = list(exact = TRUE), control = flash_control(backend = "cpu"))
  expect_true(fit$converged)
  expect_lt(fit$iterations, 20)
})

# ---- one column --------------------------------------------------------------------------------

# Rows with ties, weights, one of them 0, and gaps from 0 to a thousand bandwidths.
line_case <- function(kernel, lambda, n = 300) {
  with_fixed_seed({
    x <- c(round(stats::runif(n / 3) * 20) / 10, exp(6 * stats::rnorm(n / 3)), 1e3 + 1e-6 * stats::runif(n / 3))
    w <- c(0, stats::rexp(n - 1) + 0.01)
    kernel_ridge(
      cbind(a = x), cbind(sin(x), x > 1), kernel = kernel, bandwidth = 0.7, lambda = lambda, weights = w,
      solver = list(exact = TRUE), control = flash_control(backend = "cpu")
    )
  }, 3)
}

test_that("a fit by the states of a Markov process is that by a factor", {
  at <- cbind(a = c(-3, 0.55, 1.2, 40, 1000, 1e5))
  found <- \(fit) list(
    coef(fit), predict(fit, at, se.fit = TRUE), hatvalues(fit), rstandard(fit), logLik(fit), logLik(fit, marginal = TRUE),
    residuals(fit), left_out_residuals(fit, start_run(fit$control, "")), vcov(fit), simulate(fit, 2, seed = 1)
  )
  for (kernel in MARKOV_KERNELS) for (lambda in c(1e-2, 1e-5)) {
    by_states <- line_case(kernel, lambda)
    local({
      replace_in_package("is_markov", \(system) FALSE)
      expect_equal(found(by_states), found(line_case(kernel, lambda)), tolerance = 1e-9)
    })
    expect_lt(by_states$trace$residual, 1e-13)
  }
  # the noise is below all digits of the kernel matrix: its factor is no longer the better solution
  expect_lt(line_case("matern52", 1e-14)$trace$residual, 1e-4)
})

test_that("fits by states take linear time and provide leave-one-out errors at any number of rows", {
  set.seed(2)
  x <- stats::runif(40000)
  # the memory of a GPU has room for a factor of all rows
  spec <- list(kernel = "matern32", bandwidth = 0.1, lambda = 1e-6, control = flash_control(backend = "cpu"))
  fit <- do.call(kernel_ridge, c(list(x, sin(9 * x), solver = list(exact = TRUE)), spec))
  expect_lt(fit$trace$residual, 1e-11)
  expect_equal(sum(hatvalues(fit)), 40000 - df.residual(fit))
  expect_error(vcov(fit), "factorise", class = "flashkernel_error_argument")
  plan <- do.call(kernel_ridge, c(list(x, x, solver = list(exact = TRUE, plan = TRUE)), spec))
  expect_output(print(plan), "Markov")
})

test_that("all rows of one column are centres by default with a Matern kernel and squared loss", {
  x <- seq(0, 1, length.out = 1500)
  is_exact <- \(x, y, ...) kernel_ridge(x, y, bandwidth = 0.1, lambda = 1e-5, ...)$exact
  expect_true(is_exact(x, sin(9 * x), kernel = "laplacian"))
  expect_false(is_exact(x, sin(9 * x), kernel = "gaussian"))
  expect_false(is_exact(x, sin(9 * x) > 0, kernel = "laplacian"))
  expect_false(is_exact(cbind(x, x^2), sin(9 * x), kernel = "laplacian"))
  # a sum of kernels of one column has no such states
  fit <- kernel_ridge(y ~ x + k(x), data.frame(x, y = sin(9 * x)), kernel = "laplacian", bandwidth = 0.1, lambda = 1e-5)
  expect_false(fit$exact)
  exact <- update(fit, solver = ridge_solver(exact = TRUE))
  expect_lt(exact$trace$residual, 1e-8)
  expect_equal(predict(exact, data.frame(x = 0.5)), sin(4.5), tolerance = 1e-2)
})
