# What users give to kernel_ridge() and its kin by mistake, or at the edge of what numbers can hold: a right answer, or an
# error that names the argument.

input_x <- with_fixed_seed(matrix(stats::rnorm(180), 60, dimnames = list(NULL, c("a", "b", "c"))), 1)
input_y <- sin(input_x[, 1]) + input_x[, 2]
input_data <- data.frame(input_x, y = input_y, f = factor(rep(letters[1:3], 20)))

input_fit <- \(x = input_x, y = input_y, ...) ridge_with(x, y, bandwidth = 1, lambda = 1e-3, ...)

expect_refused <- function(object, arg, why = NULL) {
  error <- expect_error(object, why, class = "flashkernel_error_argument")
  expect_identical(error$arg, arg)
}

test_that("arrays of one dimension are vectors", {
  expect_identical(predict(input_fit(y = as.table(input_y))), predict(input_fit()))
})

test_that("variables that make no columns are refused", {
  input_data$l <- as.list(1:60)
  expect_refused(kernel_ridge(input_data[c("a", "l")], input_y), "x", "list")
})

test_that("two rows of two classes are enough", {
  expect_identical(as.character(predict(kernel_ridge(input_x[1:2, ], factor(c("p", "q"))))), c("p", "q"))
})

test_that("responses may be as large or small as doubles go", {
  set.seed(1)
  plain <- kernel_ridge(input_x, input_y)
  for (scale in 2^c(-1000, 1000)) {
    set.seed(1)
    fit <- kernel_ridge(input_x, scale * input_y)
    expect_identical(fit$bandwidth, plain$bandwidth)
    expect_equal(predict(fit) / scale, predict(plain), tolerance = 1e-10)
    expect_equal(sigma(fit) / scale, sigma(plain), tolerance = 1e-10)
  }
  expect_refused(kernel_ridge(input_x * 1e-300, input_y), "bandwidth")
})

test_that("weights that no sum can hold are told", {
  expect_error(
    input_fit(y = factor(input_y > 0), class_weights = c(1e300, 1e-300)), "weights",
    class = "flashkernel_error_singular"
  )
})

test_that("rows that are held out leave some of every class", {
  expect_refused(input_fit(validation = 0.999), "validation")
  rare <- factor(c("p", rep("q", 59)))
  for (seed in 1:5) {
    set.seed(seed)
    expect_false(1 %in% input_fit(y = rare, centers = 10, validation = 0.8)$held)
  }
})

test_that("validation data without the response are refused", {
  expect_refused(kernel_ridge(y ~ a, input_data, validation = input_data["a"]), "validation", "no `y`")
})

test_that("new rows in sparse matrices and chunks have the columns of the fit", {
  skip_if_not_installed("Matrix")
  fit <- input_fit()
  sparse <- Matrix::Matrix(input_x[1:3, ], sparse = TRUE)
  expect_equal(predict(fit, sparse[, 3:1]), predict(fit, input_x[1:3, ]), tolerance = 1e-12)
  expect_refused(predict(fit, sparse[, 1:2]), "newdata")
  expect_refused(predict(kernel_ridge(y ~ a + f, input_data), sparse), "newdata")
  chunks <- \(x) { left <- list(x); \() if (length(left) > 0) { now <- left[[1]]; left <<- NULL; now } else { left <<- list(x); NULL } }
  expect_equal(predict(fit, chunks(input_x[1:3, ])), predict(fit, input_x[1:3, ]), tolerance = 1e-12)
  expect_refused(predict(fit, chunks(input_x[1:3, 3:1])), "newdata")
  expect_refused(predict(fit, chunks(input_x[1:3, 1:2])), "newdata")
})

test_that("probabilities with standard errors are of logistic loss only, also of two numbers", {
  expect_refused(predict(input_fit(), input_x[1:3, ], type = "prob", se.fit = TRUE), "type")
  fit <- input_fit(y = as.numeric(input_y > 0), family = "binomial")
  expect_identical(predict(fit, input_x[1:3, ], se.fit = TRUE)$fit, predict(fit, input_x[1:3, ]))
})

test_that("counts that are too large are told what is the most", {
  expect_refused(input_fit(iterations = 1e10), "iterations", "at most")
})

test_that("tuning takes data first, and tells which kernel failed", {
  tuned <- input_data |> tune_ridge(y ~ a + f, rows = 30, kernel = "gaussian")
  expect_s3_class(tuned, "kernel_ridge")
  expect_identical(tuned$names, c("a", "fb", "fc"))
  replace_in_package("criterion_at", \(...) NULL)
  expect_refused(tune_ridge(input_x, input_y, rows = 30, kernel = c("sigmoid", "linear")), "bandwidth", "sigmoid")
})

test_that("a factor of one level is refused by name, and what the message advises works", {
  data <- data.frame(a = c(1, 2), g = factor(c("w", "w")), t = "w", y = 1:2)
  expect_refused(kernel_ridge(data[c("a", "g")], data$y), "x", "`g` is \"w\" in all rows. Leave it out")
  expect_refused(kernel_ridge(y ~ a + g, data), "formula", "`g`")
  expect_refused(kernel_ridge(y ~ a:t, data), "formula", "`t`")
  expect_s3_class(kernel_ridge(y ~ a, data), "kernel_ridge")
  # levels that no row has make no difference
  expect_refused(kernel_ridge(y ~ a + g, transform(data, g = factor(g, c("u", "w")))), "formula", "`g`")
})

test_that("a kernel that is not positive definite is named, with others that are", {
  indefinite <- list("sigmoid", kernel_spec("linear", coef0 = -100))
  for (kernel in indefinite) {
    error <- expect_error(kernel_ridge(mpg ~ wt, mtcars, kernel = kernel, bandwidth = 3, lambda = 1e-9), class = "flashkernel_error_singular")
    expect_match(conditionMessage(error), "not positive definite.*Use another `kernel`, such as \"polynomial\" or \"gaussian\"")
  }
  expect_error(kernel_ridge(mpg ~ wt, mtcars, kernel = "sigmoid", bandwidth = 3, lambda = 1e-9, centers = 5), "not positive definite")
  for (kernel in c("polynomial", "gaussian")) expect_s3_class(kernel_ridge(mpg ~ wt, mtcars, kernel = kernel), "kernel_ridge")
})

test_that("new rows in chunks are called what the user calls them", {
  fit <- kernel_ridge(mpg ~ wt, mtcars)
  expect_refused(predict(fit, \() stop("oops")), "newdata", "failed at chunk 1: oops")
  expect_refused(predict(fit, \() NULL), "newdata", "at least one chunk")
  expect_refused(predict(fit, \() "a"), "newdata")
  reset <- function(reset) if (reset) stop("oops") else NULL
  expect_refused(predict(fit, reset), "newdata", "failed at its reset")
  expect_refused(kernel_ridge(\() stop("oops")), "x", "failed at chunk 1: oops")
})

test_that("new data may have logical variables as numbers or text, and lack variables that were subtracted", {
  rows <- transform(mtcars[c("mpg", "wt", "am")], am = am == 1, one = factor("a"))
  fit <- kernel_ridge(mpg ~ . - one, rows, bandwidth = 1, lambda = 0.1)
  for (as in list(as.numeric, as.character)) expect_equal(predict(fit, transform(rows[1:3, -4], am = as(am))), fitted(fit)[1:3])
  expect_error(predict(fit, transform(mtcars, am = "yes")), "TRUE or FALSE in `am`")
  for (wrong in c(mpg ~ k(wt, by = hp), mpg ~ k(wt, 2))) expect_error(kernel_ridge(wrong, mtcars), "term of its own")
})
