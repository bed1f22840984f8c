# What the CPU keeps of operators and fits between calls: never more than host_memory, and no bit different for it.

kept_bytes <- function() c_unit("kept")

# a product of the operator again and again, with other coefficients between
expect_bits_of_matvec <- function(op, x, y, h, ...) {
  v <- stats::rnorm(nrow(x))
  want <- plain(kernel_sum_by(x, y, v, h, control = flash_control(backend = "cpu"), ...))
  first <- as.vector(op %*% v)
  before <- kept_bytes()
  op %*% cbind(1, v)
  expect_identical(first, want)
  expect_identical(as.vector(op %*% v), want)
  before
}

test_that("sources that are kept packed give the bits of those that are packed anew", {
  set.seed(1)
  ops <- list() # none is collected while bytes are counted
  gc()
  for (d in c(2, 6)) for (precision in c("double", "single")) for (kernel in c("gaussian", "matern32")) {
    x <- matrix(stats::rnorm(1000 * d), ncol = d)
    y <- matrix(stats::rnorm(77 * d), ncol = d)
    op <- kernel_operator(x, y, 0.4, kernel, tol = 0, control = flash_control(precision = precision, backend = "cpu"))
    ops <- c(ops, op)
    bytes <- kept_bytes()
    kept <- expect_bits_of_matvec(op, x, y, 0.4, kernel = kernel, tol = 0, precision = precision)
    constant <- kernel == "gaussian" && d > 4 # of the Gram form
    expect_identical(kept - bytes, (if (precision == "double") 8 else 4) * 1152 * (d + constant))
  }
})

test_that("tails, weights, leave-one-out and other precisions take what is kept, or their own", {
  set.seed(2)
  x <- matrix(stats::rnorm(3000), ncol = 3)
  y <- rbind(matrix(stats::rnorm(60), ncol = 3), c(90, 0, 0), c(0, -400, 7))
  in_single <- flash_control(precision = "single")
  for (w in list(NULL, stats::rexp(1000))) for (estimator in c("kde", "sdkde", "laplace")) {
    made <- \() flash_kde(x, estimator, bandwidth = 0.5, weights = w, control = flash_control(backend = "cpu"))
    results <- list(
      \(fit) predict(fit, y, type = "log_density"), \(fit) predict(fit, y, se.fit = TRUE),
      \(fit) predict(fit, y, type = "score"), \(fit) predict(fit, loo = TRUE),
      \(fit) predict(fit, y, control = in_single)
    )
    fit <- made()
    for (i in c(1:5, 5:1)) {
      expect_identical(suppressWarnings(results[[i]](fit)), suppressWarnings(results[[i]](made())))
    }
  }
})

test_that("cells and grids that are kept give the bits of those that are made anew", {
  set.seed(3)
  clusters <- matrix(stats::runif(50 * 6), ncol = 6)[sample(50, 8000, TRUE), ] + stats::rnorm(48000, sd = 0.02)
  cases <- list(direct = list(x = clusters, h = 0.02), grid = list(x = matrix(stats::runif(40000), ncol = 2), h = 0.05))
  ops <- list() # none is collected while bytes are counted
  gc()
  for (method in names(cases)) for (tol_type in c("global", "pointwise")) {
    x <- cases[[method]]$x
    for (y in list(NULL, x[1:3000, ] + 0.01)) {
      op <- kernel_operator(
        x, y, cases[[method]]$h, tol = 1e-5,
        control = flash_control(tol_type = tol_type, engine = "fast", backend = "cpu")
      )
      ops <- c(ops, op)
      bytes <- kept_bytes()
      kept <- expect_bits_of_matvec(op, x, y, cases[[method]]$h, tol = 1e-5, tol_type = tol_type, engine = "fast")
      expect_identical(diagnostics(op)$method, method)
      expect_gte(kept - bytes, 8 * length(x))
    }
  }
})

test_that("no more is kept than host_memory, and what was used longest ago gives way", {
  set.seed(4)
  one <- 2 * 8 * 1920 # bytes of as many points in the plane
  limit <- flash_control(backend = "cpu", host_memory = 4 * one)
  operator_of <- function(parts) {
    kernel_operator(matrix(stats::rnorm(3840 * parts), ncol = 2), matrix(0, 1, 2), 1, tol = 0, control = limit)
  }
  product <- \(op) as.vector(op %*% rep(1, ncol(op)))
  gc()
  product(operator_of(4)) # all that others left gives way
  gc()
  expect_identical(kept_bytes(), 0)
  ops <- lapply(c(1, 2, 2), operator_of)
  results <- lapply(ops[c(1, 2, 1, 3)], product)
  expect_identical(kept_bytes(), 3 * one) # without the second
  product(operator_of(5))
  expect_identical(kept_bytes(), 3 * one)
  for (i in 1:3) {
    expect_identical(product(ops[[i]]), results[[c(1, 2, 4)[i]]])
    expect_lte(kept_bytes(), 4 * one)
  }
  nothing <- kernel_operator(matrix(0, 500), 1:3, 1, tol = 0, control = flash_control(backend = "cpu", host_memory = 0))
  before <- kept_bytes()
  product(nothing)
  expect_identical(kept_bytes(), before)
  rm(ops, nothing)
  gc()
  expect_identical(kept_bytes(), 0)
})

test_that("the samples by which methods are chosen count, too", {
  set.seed(5)
  x <- matrix(stats::runif(40000), ncol = 2)
  sample <- 8 * 8192 * 2 # bytes; all else takes more
  for (limit in c(0, sample)) {
    control <- flash_control(backend = "cpu", host_memory = limit)
    op <- kernel_operator(x, bandwidth = 0.05, tol = 1e-5, control = replace(control, "engine", "fast"))
    gc()
    other <- kernel_operator(x, bandwidth = 0.06, tol = 1e-5, control = replace(control, "engine", "fast"))
    first <- op %*% x[, 1]
    other %*% x[, 1]
    expect_identical(kept_bytes(), limit)
    expect_identical(op %*% x[, 1], first)
    expect_identical(kept_bytes(), limit)
  }
})

test_that("fits leave nothing behind when they go", {
  x <- matrix(stats::rnorm(400), ncol = 2)
  gc()
  before <- kept_bytes()
  for (i in 1:200) {
    fit <- flash_kde(x, "kde", bandwidth = 0.5, tol = c(0, 1e-3)[1 + i %% 2])
    predict(fit, x[1:3, ] + 1)
  }
  expect_gt(kept_bytes(), before)
  rm(fit)
  gc()
  expect_identical(kept_bytes(), before)
})

# R wraps vectors whose attributes change, and a wrapper copies what it shares when somebody may write to it.
test_that("sums of a fit read its points and weights where R has them now", {
  wrapped <- \(x) tryCatch(.Internal(wrap_meta(x, NA_integer_, FALSE)), error = \(e) skip("R has no wrappers here"))
  for (round in 1:3) {
    x <- example_points(100, 3)
    w <- seq_len(100) / 100
    fit <- flash_kde(wrapped(x), "kde", bandwidth = 0.3, weights = wrapped(w))
    new <- x[1:5, ] + 30 # in the tails, which are summed without what is kept
    before <- predict(fit, new, type = "log_density")
    sort(fit$x)
    order(fit$weights)
    serialize(fit, NULL)
    rm(x, w)
    gc()
    other <- lapply(1:500, \(i) rep(0.5, 300))
    expect_identical(predict(fit, new, type = "log_density"), before)
  }
})
