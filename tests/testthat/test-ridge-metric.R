# y depends on one column of four, quickly.
metric_rows <- function(n = 150) {
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
  expect_lt(error(kernel_ridge(train$x, train$y, metric = "auto")), 1.1 * error(kernel_ridge(train$x, train$y, metric = "none")))
})

test_that("a full metric finds a direction", {
  x <- metric_rows()$x
  fit <- kernel_ridge(x, sin(6 * (x[, 1] - x[, 3])), metric = "full", kernel = "gaussian")
  steepest <- eigen(solve(fit$bandwidth), symmetric = TRUE)$vectors[, 1]
  expect_gt(abs(sum(steepest * c(1, 0, -1, 0))) / sqrt(2), 0.99)
})

test_that("a learnt metric is the same in every call, for any number of threads, and leaves R's generator alone", {
  train <- metric_rows(80)
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
  z <- metric_points(scale_columns(x, 1 / spread), root, 1.7, cpu_run())
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

test_that("metrics that were learnt on some rows go on with more rows, and are known as learnt ones", {
  train <- metric_rows(120)
  replace_in_package("FIRST_ROWS", 60)
  entries <- portfolio_entries(check_kernel("gaussian"), "diagonal")
  trails <- search_portfolio(list(x = train$x, y = as.matrix(train$y)), entries, FINALISTS, NULL, start_run(settle_control(NULL), ""))
  rounds <- vapply(unlist(trails, recursive = FALSE), `[[`, 0, "round")
  expect_true(all(rounds > 0))
  expect_length(trails[[1]], SECOND_ROUNDS + 1)
})

test_that("the first two trails of the portfolio have metrics of two types", {
  trail <- \(metric, error) list(list(entry = list(metric = metric), error = error))
  trails <- list(trail("full", 3), trail("full", 1), trail("diagonal", 4), trail("full", 2))
  expect_identical(order_of_trails(trails), c(2L, 3L, 4L, 1L))
  expect_identical(order_of_trails(trails[c(1, 4)]), 2:1)
  expect_length(order_of_trails(list()), 0)
})

test_that("errors at held-out rows are those of fits to the other rows, of several responses", {
  train <- metric_rows(90)
  y <- cbind(train$y, train$x[, 1])
  fold <- list(z = train$x[1:60, ], at = train$x[61:90, ], kept = 1:60, out = 61:90, kernel = check_kernel("gaussian"))
  got <- squares_held_out(fold, y, c(0.1, 1), start_run(settle_control(NULL), ""))
  K <- exp(-as.matrix(stats::dist(train$x))^2 / 2)
  want <- vapply(c(0.1, 1), \(s) rowMeans((K[61:90, 1:60] %*% solve(K[1:60, 1:60] + diag(s, 60), y[1:60, ]) - y[61:90, ])^2), y[1:30, 1])
  expect_equal(got, unname(want), tolerance = 1e-10)
})

test_that("noise does not look like relevance where columns are many: a learnt metric is judged at other rows", {
  x <- with_fixed_seed(matrix(stats::rnorm(60 * 12), 60), 5)
  y <- with_fixed_seed(stats::rnorm(60), 6)
  expect_lt(stats::sd(predict(kernel_ridge(x, y), x)), 0.8 * stats::sd(y))
})

test_that("noise does not look like relevance to the likelihood where columns are many: it is judged at other rows", {
  of <- new.env()
  keep <- bquote(assign("judged", c(get("judged", .(of)), judged), .(of)))
  suppressMessages(trace("pick_simplest", keep, print = FALSE, where = asNamespace("flashkernel")))
  on.exit(suppressMessages(untrace("pick_simplest", where = asNamespace("flashkernel"))))
  least <- vapply(1:4, \(seed) {
    of$judged <- NULL
    n <- c(76, 100, 76, 100)[seed] # folds of 76 rows have less than 8 rows for each column
    rows <- with_fixed_seed(matrix(stats::rnorm(9 * n), n), seed)
    kernel_ridge(rows[, -9], rows[, 9], control = flash_control(threads = 2))
    by_column <- Filter(\(one) one$metric$type == "none" && length(unique(one$metric$root)) > 1, of$judged)
    min(vapply(by_column, `[[`, 0, "error"))
  }, 0)
  expect_gt(mean(least), 1)
})

test_that("a fit does not depend on the order of the rows, or on R's random numbers unless they are asked for", {
  replace_in_package("SAMPLE_ROWS", 100)
  train <- metric_rows(190)
  train$y[1:95] <- train$y[96:190]
  train$x[1:95, ] <- train$x[96:190, ]
  other <- with_fixed_seed(sample.int(190), 9)
  new <- train$x[1:5, ] + 0.01
  for (metric in c("none", "diagonal")) {
    fit <- \(rows, seed = 1) {
      kernel_ridge(train$x[rows, ], train$y[rows], kernel = "gaussian", metric = metric, centers = 40, solver = list(seed = seed, tolerance = 1e-14))
    }
    fits <- list(fit(seq_len(190)), fit(other), fit(seq_len(190), 2))
    expect_equal(fits[[1]]$bandwidth, fits[[2]]$bandwidth)
    expect_equal(predict(fits[[1]], new), predict(fits[[2]], new), tolerance = 1e-6)
    expect_false(identical(fits[[1]]$center_index, fits[[3]]$center_index))
  }
  draw <- \() with_fixed_seed(fit(seq_len(190), NULL)$center_index, 5)
  expect_identical(draw(), draw())
})

test_that("the default choice does not depend on units, or on the order of the columns", {
  x <- with_fixed_seed(matrix(stats::rnorm(180), 60), 4)
  y <- sin(2 * x[, 1]) + x[, 2] / 5 + with_fixed_seed(stats::rnorm(60), 5) / 5
  fitted_to <- \(x, y) stats::fitted(kernel_ridge(x, y))
  want <- fitted_to(x, y)
  expect_equal(fitted_to(1.8 * x + 32, 1e20 * y) / 1e20, want, tolerance = 1e-6)
  expect_equal(fitted_to(x[, 3:1], y), want, tolerance = 1e-6)
})

test_that("classes have a learnt metric, with probabilities that were not chosen on the rows of the metric", {
  x <- with_fixed_seed(matrix(stats::runif(4 * 300), 300), 3)
  y <- factor(with_fixed_seed(stats::runif(300), 4) < stats::plogis(6 * sin(9 * x[, 2])))
  fit <- kernel_ridge(x, y, metric = "diagonal", kernel = "gaussian")
  expect_identical(which.min(fit$bandwidth), 2L)
  new <- with_fixed_seed(matrix(stats::runif(4 * 500), 500), 5)
  p <- stats::plogis(6 * sin(9 * new[, 2]))
  expect_lt(mean((predict(fit, new, type = "prob")[, 2] - p)^2), 0.02)
})

test_that("the contest of candidates has the errors at held-out rows of the normal equations", {
  made <- with_fixed_seed({
    x <- matrix(stats::rnorm(1200), 400)
    list(x = x, y = as.matrix(sin(2 * x[, 1]) + x[, 2] + stats::rnorm(400, sd = 0.2)), w = stats::runif(400, 0.5, 2))
  }, 1)
  some <- list(rows = ridge_rows(made$x), response = list(y = made$y), weights = made$w, offset = made$y^2 / 10, centers = 40)
  task <- with_fixed_seed(contest_task(some, TRUE))
  candidate <- list(kernel = kernel_spec("gaussian"), bandwidth = c(1, 2, 3))
  found <- contest_errors(candidate, c(1e-4, 1e-2), task, cpu_run())
  held <- match(task$held[, 1], made$x[, 1])
  kept <- setdiff(1:400, held)
  k <- \(a, b) exp(-outer(1:nrow(a), 1:nrow(b), Vectorize(\(i, j) sum(((a[i, ] - b[j, ]) / c(1, 2, 3))^2))) / 2)
  y <- made$y - some$offset
  y <- y - weighted.mean(y[kept], made$w[kept])
  K <- k(made$x[kept, ], task$centers)
  for (i in 1:2) {
    A <- crossprod(K, made$w[kept] * K) + 400 * c(1e-4, 1e-2)[i] * k(task$centers, task$centers)
    a <- solve(A + 1e-10 * mean(diag(A)) * diag(40), crossprod(K, made$w[kept] * y[kept]))
    expect_equal(found[i], mean((k(made$x[held, ], task$centers) %*% a - y[held])^2), tolerance = 1e-8)
  }
})

test_that("the next metric is the mean outer product of the gradients of all outputs", {
  n <- 140 # two blocks of rows
  x <- with_fixed_seed(matrix(stats::runif(3 * n), n), 5)
  a <- with_fixed_seed(matrix(stats::rnorm(2 * n), n), 6)
  root <- cbind(c(1, 0.2, 0), c(0.5, 2, 0.1), c(0, 0.3, 1.5))
  kernels <- lapply(c("gaussian", "product_laplacian", "laplacian", "matern52", "matern32", "cauchy", "imq"), kernel_spec)
  for (kernel in c(kernels, list(kernel_spec("powered_exponential", power = 1.4)))) {
    for (type in c("diagonal", if (has_directions(kernel)) "full")) {
      metric <- list(root = if (type == "full") root else diag(root), unit = 0.7, type = type)
      map <- \(x) metric_points(x, metric$root, metric$unit, cpu_run())
      values <- \(new) kernel_matrix_of(metric_sources(map(x), kernel), map(new), cpu_run()) %*% a
      step <- \(k) 1e-6 * outer(rep(1, n), 1:3 == k)
      slopes <- vapply(1:3, \(k) as.vector(values(x + step(k)) - values(x - step(k))) / 2e-6, numeric(2 * n))
      M <- crossprod(slopes)
      if (type == "diagonal") M <- diag(diag(M))
      fit <- list(a = a, z = map(x), metric = metric, entry = list(kernel = kernel, power = 1))
      found <- learnt_roots(list(fit), cpu_run())[[1]]
      expect_identical(learnt_roots(list(replace(fit, "a", list(a[, 1, drop = FALSE])), fit), cpu_run(threads = 2))[[2]], found)
      found <- if (type == "full") tcrossprod(found) else diag(found^2)
      expect_equal(found, 3 * M / sum(diag(M)), tolerance = 1e-6)
    }
  }
})
