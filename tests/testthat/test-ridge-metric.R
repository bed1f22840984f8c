# y depends on one column of four, quickly.
metric_rows <- function(n = 300) {
  x <- with_fixed_seed(matrix(stats::runif(4 * n), n), 3)
  list(x = x, y = sin(12 * x[, 2]) + with_fixed_seed(stats::rnorm(n, sd = 0.05), 3))
}

test_that("a learnt diagonal metric finds the column that matters, and predicts better than none", {
  train <- metric_rows()
  new <- with_fixed_seed(matrix(stats::runif(800), 200), 4)
  error <- \(fit) sqrt(mean((predict(fit, new) - sin(12 * new[, 2]))^2))
  gaussian <- kernel_ridge(train$x, train$y, metric = "diagonal", kernel = "gaussian")
  expect_identical(which.min(gaussian$bandwidth), 2L)
  expect_gt(min(gaussian$bandwidth[-2]) / gaussian$bandwidth[2], 5)
  expect_lt(error(kernel_ridge(train$x, train$y, metric = "auto")), 1.1 * error(kernel_ridge(train$x, train$y)))
})

test_that("a full metric finds a direction", {
  x <- metric_rows()$x
  fit <- kernel_ridge(x, sin(6 * (x[, 1] - x[, 3])), metric = "full", kernel = "gaussian")
  steepest <- eigen(solve(fit$bandwidth), symmetric = TRUE)$vectors[, 1]
  expect_gt(abs(sum(steepest * c(1, 0, -1, 0))) / sqrt(2), 0.99)
})

test_that("a learnt metric is the same in every call, for any number of threads, and leaves R's generator alone", {
  train <- metric_rows(150)
  set.seed(1)
  before <- .Random.seed
  fits <- lapply(1:2, \(threads) kernel_ridge(train$x, train$y, metric = "auto", control = flash_control(threads = threads)))
  expect_identical(.Random.seed, before)
  expect_identical(fits[[1]][c("bandwidth", "lambda")], fits[[2]][c("bandwidth", "lambda")])
})

test_that("the bandwidth of a metric gives the distances of the metric", {
  x <- metric_rows(50)$x
  root <- full_root(base::crossprod(x), 0.5)
  metric <- list(root = root, unit = 1.7, type = "full")
  spread <- c(1, 2, 3, 4)
  z <- metric_points(scale_columns(x, 1 / spread), root, 1.7)
  difference <- x[1, ] - x[2, ]
  expect_equal(sum((z[1, ] - z[2, ])^2), sum(difference * solve(metric_bandwidth(metric, spread), difference)))
})

test_that("a warm start goes on with the kernel and the bandwidth of its fit", {
  fit_with <- \(...) kernel_ridge(metric_rows(60)$x, metric_rows(60)$y, ...)
  fit <- fit_with(metric = "diagonal", kernel = "product_laplacian", centers = 20)
  expect_identical(fit_with(solver = list(start = fit))[c("kernel", "bandwidth")], fit[c("kernel", "bandwidth")])
})

test_that("a metric is learnt on rows with weights, an offset, several responses and on a flash_data()", {
  train <- metric_rows(200)
  weighted <- kernel_ridge(train$x, cbind(train$y, 1), weights = rep(c(2, 0.5), 100), offset = train$y / 2, metric = "diagonal")
  expect_identical(which.min(weighted$bandwidth), 2L)
  replace_in_package("SAMPLE_ROWS", 100)
  stored <- flash_data(cbind(train$x, y = train$y, w = rep(1:2, 100)), response = "y", weights = "w")
  expect_identical(unname(which.min(kernel_ridge(stored, metric = "diagonal")$bandwidth)), 2L)
})

test_that("metrics of a smaller sample are judged as learnt ones in a larger one", {
  train <- metric_rows(120)
  replace_in_package("FIRST_ROWS", 60)
  entries <- portfolio_entries(check_kernel("gaussian"), "diagonal")
  candidates <- search_portfolio(train$x, as.matrix(train$y), entries, NULL, start_run(settle_control(NULL), ""))
  is_first <- vapply(candidates, \(candidate) length(unique(candidate$metric$root)) == 1, NA)
  expect_identical(vapply(candidates, `[[`, 0, "round") == 0, is_first)
})
