# Fits that are stopped in the middle and go on from their file.

go_on_x <- with_fixed_seed(matrix(stats::rnorm(600), 200), 4)
go_on_y <- sin(go_on_x[, 1]) + go_on_x[, 2] * go_on_x[, 3]

# Products are counted, and the task is stopped at the one of that number.
stop_at_product <- function(frame = parent.frame()) {
  calls <- 0
  until <- Inf
  count <- \(product) function(...) {
    calls <<- calls + 1
    if (calls == until) stop("the power went off")
    product(...)
  }
  replace_in_package("CHECKPOINT_SECONDS", 0, frame)
  replace_in_package("rows_normal", count(rows_normal.rows_dense), frame)
  replace_in_package("rows_multiply", count(rows_multiply.rows_dense), frame)
  list(calls = \() calls, restart = \(at = Inf) { calls <<- 0; until <<- at })
}

# What a fit is, but for its seconds.
numbers_of <- function(fit) {
  fit$trace$seconds <- NULL
  unclass(fit)[c(
    "coefficients", "intercept", "kernel", "bandwidth", "lambda", "chosen", "center_index", "centers_given", "merged", "exact", "held",
    "trace", "iterations", "converged", "best_iteration", "jitter"
  )]
}

# Stopped early, in the middle and at its last product, in a session whose random numbers are others.
expect_same_bits <- function(fit, at_least = 8, stops = 6) {
  file <- tempfile()
  power <- stop_at_product()
  whole <- with_fixed_seed(fit(), 1)
  needed <- power$calls()
  expect_gte(needed, at_least)
  for (at in unique(round(seq(4, needed, length.out = stops)))) {
    power$restart(at)
    expect_error(with_fixed_seed(fit(checkpoint = file), 1), "power")
    power$restart()
    resumed <- with_fixed_seed(fit(checkpoint = file), if (file.exists(file)) 2 else 1)
    expect_identical(numbers_of(resumed), numbers_of(whole))
    expect_false(file.exists(file))
  }
  invisible(whole)
}

test_that("fits of squared loss that were stopped go on with the same bits", {
  expect_same_bits(\(...) ridge_with(go_on_x, cbind(go_on_y, go_on_x[, 1]^3), bandwidth = 1, lambda = 1e-6, centers = 20, ...))
  expect_same_bits(\(...) {
    ridge_with(go_on_x, go_on_y, centers = 20, center_method = "kmeans++", tolerance = 1e-4, weights = rep(0:3, 50),
      validation = 0.2, metric = "none", ...)
  })
  few <- \(...) ridge_with(go_on_x[1:60, ], go_on_y[1:60], centers = 20, metric = "auto", iterations = 20, ...)
  learnt <- expect_same_bits(few, 4, stops = 2)
  expect_true("kernel" %in% learnt$chosen)
  copies <- rbind(go_on_x, go_on_x[1:20, ])
  fit <- expect_same_bits(\(...) {
    ridge_with(copies, c(go_on_y, go_on_y[1:20]), bandwidth = 1, lambda = 1e-6, centers = 180, tolerance = 1e-3, ...)
  })
  expect_gt(fit$merged, 0)
})

test_that("fits of logistic losses that were stopped go on with the same bits", {
  fit_to <- \(y, ..., centers = 20, lambda = 1e-7) {
    suppressWarnings(ridge_with(go_on_x, y, bandwidth = 1, lambda = lambda, centers = centers, ...))
  }
  expect_same_bits(\(...) fit_to(go_on_y > 0.2, tolerance = 1e-12, iterations = 30, ...))
  expect_same_bits(\(...) fit_to(cut(go_on_y, 3), weights = rep(1:2, 100), lambda = 1e-4, iterations = 8, ...))
  expect_same_bits(\(...) fit_to(factor(go_on_y > 0.5), class_weights = "balanced", validation = 0.25, ...))
  # centres that are no rows
  expect_same_bits(\(...) fit_to(go_on_y > 0.2, centers = go_on_x[1:9, ] + 0.1, ...))
  # all rows
  expect_same_bits(\(...) ridge_with(go_on_x[1:40, ], go_on_y[1:40] > 0.2, bandwidth = 1, lambda = 1e-4, ...))
})

test_that("fits from a start, or from a coarser fit, go on with the same bits", {
  first <- kernel_ridge(go_on_x, go_on_y, bandwidth = 1, lambda = 1e-3, centers = 20)
  expect_same_bits(\(...) ridge_with(go_on_x, go_on_y, lambda = 1e-6, start = first, ...))
  y <- go_on_y > 0.2
  first <- kernel_ridge(go_on_x, y, bandwidth = 1, lambda = 1e-3, centers = 20)
  expect_same_bits(\(...) ridge_with(go_on_x, y, lambda = 1e-6, start = first, tolerance = 1e-9, ...))
  replace_in_package("LEAST_COARSE", 5)
  expect_same_bits(\(...) ridge_with(go_on_x, y, bandwidth = 1, lambda = 1e-6, centers = 60, ...))
})

test_that("a file spares what was done", {
  fit <- \(...) ridge_with(go_on_x, go_on_y, bandwidth = 1, lambda = 1e-6, centers = 1:20, iterations = 6, tolerance = 1e-12, ...)
  file <- tempfile()
  power <- stop_at_product()
  power$restart(5)
  expect_error(fit(checkpoint = file), "power")
  power$restart()
  fit(checkpoint = file)
  expect_identical(power$calls(), 4) # the right-hand side and three steps
})

test_that("files of something else, or of another task, are refused and kept", {
  fit <- \(..., y = go_on_y) ridge_with(go_on_x, y, bandwidth = 1, lambda = 1e-6, centers = 1:20, ...)
  refuse <- \(..., why) expect_error(fit(...), why, class = "flashkernel_error_argument")
  file <- tempfile()
  writeLines("my thesis", file)
  refuse(checkpoint = file, why = "another")
  refuse(checkpoint = file, validation = 0.2, why = "another")
  expect_identical(readLines(file), "my thesis")
  unlink(file)
  power <- stop_at_product()
  power$restart(4)
  expect_error(fit(checkpoint = file), "power")
  power$restart()
  refuse(checkpoint = file, y = go_on_y + 1, why = "other rows or arguments")
  refuse(checkpoint = file, weights = 1:200, why = "other rows or arguments")
  expect_true(file.exists(file))
  # what the message advises: another file, or without this one
  expect_s3_class(fit(checkpoint = tempfile(), y = go_on_y + 1), "kernel_ridge")
  unlink(file)
  expect_s3_class(fit(checkpoint = file, y = go_on_y + 1), "kernel_ridge")
})
