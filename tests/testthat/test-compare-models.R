# compare_fits() and cross_validate() of conditional densities, regressions and discriminant analyses, against predictions of
# fits to the other rows.

some_rows <- function(n = 60) {
  set.seed(8)
  x <- stats::runif(n, 0, 6)
  data.frame(x = x, z = stats::rnorm(n), y = sin(x) + stats::rnorm(n, sd = 0.3), w = rep(1:3, length.out = n))
}

test_that("conditional densities are judged by log p(y | x), left out as their likelihood, and by folds", {
  rows <- some_rows()
  narrow <- flash_kde(y ~ x, rows, bandwidth = c(0.3, 0.5), weights = w)
  wide <- flash_kde(y ~ x, rows, bandwidth = c(1, 1), weights = w)
  found <- compare_fits(narrow, wide)
  expect_null(found$folds)
  of_row <- \(i) predict(update(narrow, data = rows[-i, ]), rows[i, ], type = "log_density")
  expect_equal(found$scores[c(1, 30), "narrow"], c(of_row(1), of_row(30)), tolerance = 1e-10)
  equal <- flash_kde(y ~ x, rows, bandwidth = c(0.3, 0.5))
  expect_equal(compare_fits(equal, equal)$table$score[1], as.numeric(logLik(equal)) / 60, tolerance = 1e-12)
  expect_identical(row.names(found$table)[1], "narrow")
  folds <- rep(c("a", "b", "c"), 20)
  out <- folds == "b"
  without <- flash_kde(y ~ x, rows[!out, ], bandwidth = c(0.3, 0.5), weights = w)
  judged <- cross_validate(narrow, folds)
  expect_equal(judged$scores[out], predict(without, rows[out, ], type = "log_density"), tolerance = 1e-12)
  expect_equal(judged$mean, stats::weighted.mean(judged$scores, rows$w))
  squared <- cross_validate(narrow, folds, score = "squared")
  expect_equal(squared$scores[out], -(rows$y[out] - predict(without, rows[out, ], type = "mean"))^2, tolerance = 1e-12)
  expect_output(print(squared), "3-fold cross-validation, minus the squared error")
  # no values left out: by folds
  debiased <- flash_kde(y ~ x, rows, "sdkde", bandwidth = c(0.3, 0.5), weights = w)
  expect_length(unique(compare_fits(narrow, debiased)$folds), 10)
})

test_that("a bandwidth that was searched for is searched for again, and with it that of the score", {
  rows <- some_rows(40)
  folds <- rep(1:2, 20)
  out <- folds == 2
  fit <- flash_kde(y ~ x, rows, estimator = "sdkde")
  without <- flash_kde(y ~ x, rows[!out, ], estimator = "sdkde")
  judged <- cross_validate(fit, folds)
  expect_equal(judged$by_fold$bandwidth[2, ], coef(without))
  expect_equal(judged$scores[out], predict(without, rows[out, ], type = "log_density"))
  rows$y[3] <- NA
  fit <- kernel_regression(y ~ x, rows, rows = 30, na.action = na.exclude)
  without <- kernel_regression(y ~ x, rows[-3, ][folds[-3] == 2, ], rows = 30)
  judged <- cross_validate(fit, folds[-3])
  expect_equal(judged$by_fold$bandwidth[1, ], sqrt(without$bandwidth[1, 1]), ignore_attr = TRUE)
  expect_identical(which(is.na(judged$scores)), 3L)
  expect_equal(judged$scores[1], -(rows$y[1] - predict(without, rows[1, ]))^2)
})

test_that("regressions are judged by squared errors, as their criterion, and beside conditional means", {
  rows <- some_rows()
  line <- kernel_regression(y ~ x + z, rows, bandwidth = c(0.5, 2), weights = w)
  mean <- kernel_regression(y ~ x + z, rows, bandwidth = matrix(c(0.3, 0.1, 0.1, 4), 2), type = "constant", weights = w)
  curve <- flash_kde(y ~ x + z, rows, bandwidth = c(0.3, 0.5, 2), weights = w)
  found <- compare_fits(line, mean)
  expect_null(found$folds)
  p <- rows$w / sum(rows$w)
  expect_equal(found$table["line", "score"], -REGRESSION_CRITERIA$cv(line, line$y, p))
  expect_setequal(found$table$estimator, c("constant", "local_linear"))
  folds <- rep(1:3, 20)
  out <- folds == 2
  found <- compare_fits(curve, line, mean, score = "squared", folds = folds)
  for (name in c("line", "mean", "curve")) {
    fit <- list(line = line, mean = mean, curve = curve)[[name]]
    without <- update(fit, data = rows[!out, ])
    at <- if (name == "curve") predict(without, rows[out, ], type = "mean") else predict(without, rows[out, ])
    expect_equal(found$scores[out, name], -(rows$y[out] - at)^2, tolerance = 1e-10, info = name)
  }
  expect_error(compare_fits(curve, line), "`score`", class = "flashkernel_error_argument")
  expect_error(compare_fits(line, curve, score = "log"), "`score`", class = "flashkernel_error_argument")
  expect_error(compare_fits(line, kernel_regression(y ~ x, rows)), "same points", class = "flashkernel_error_argument")
  expect_error(compare_fits(line), "...", class = "flashkernel_error_argument")
  # several responses: the sum
  both <- kernel_regression(cbind(y, z) ~ x, rows, bandwidth = 0.5)
  expect_equal(compare_fits(both, both)$scores[, 1], -rowSums((both$y - both$left_out)^2), ignore_attr = TRUE)
})

test_that("discriminant analyses are judged by their classes, as their own validation has it", {
  set.seed(2)
  some <- iris[sort(sample(150, 75)), ]
  narrow <- flash_kda(Species ~ Petal.Length, some, estimator = "kde", bandwidth = 0.1)
  wide <- flash_kda(Species ~ Petal.Length, some, estimator = "kde", bandwidth = 1, prior = c(1, 1, 2) / 4)
  by_log <- compare_fits(narrow, wide)
  by_class <- compare_fits(narrow, wide, score = "class")
  for (name in c("narrow", "wide")) {
    own <- cross_validate(list(narrow = narrow, wide = wide)[[name]])
    expect_equal(by_log$table[name, "score"], own$log_score)
    expect_equal(1 - by_class$table[name, "score"], own$error)
  }
  expect_output(print(by_class), "share in the right class of 75 points, leave-one-out", fixed = TRUE)
  folds <- rep(1:5, 15)
  own <- cross_validate(narrow, folds)
  expect_equal(compare_fits(narrow, wide, folds = folds)$table["narrow", "score"], own$log_score)
  other <- flash_kda(Species ~ Petal.Width, some, estimator = "kde", bandwidth = 1)
  expect_equal(compare_fits(narrow, other)$table["other", "score"], cross_validate(other)$log_score)
  expect_error(compare_fits(narrow, flash_kda(rev(Species) ~ Petal.Width, some, bandwidth = 1)), "same points")
})

test_that("fits of kernel_ridge() are judged by fits to the other rows", {
  rows <- some_rows()
  folds <- rep(1:3, 20)
  out <- folds == 2
  fit <- kernel_ridge(y ~ x + z, rows, bandwidth = c(1, 3), lambda = 1e-3, weights = w, offset = z / 2)
  without <- update(fit, data = rows[!out, ])
  judged <- cross_validate(fit, folds)
  found <- unname(predict(without, rows[out, ], offset = rows$z[out] / 2))
  expect_equal(judged$scores[out], -(rows$y[out] - found)^2, tolerance = 1e-10)
  expect_equal(judged$mean, stats::weighted.mean(judged$scores, rows$w))
  expect_output(print(judged), paste("Root mean squared error:", format(sqrt(-judged$mean), digits = 4)), fixed = TRUE)
  # by number of centres, or with those that were given
  some <- kernel_ridge(y ~ x + z, rows, bandwidth = 1, lambda = 1e-3, centers = 50)
  expect_length(suppressWarnings(cross_validate(some, folds))$scores, 60)
  at <- as.matrix(rows[1:8, c("x", "z")])
  some <- kernel_ridge(y ~ x + z, rows, bandwidth = 1, lambda = 1e-3, centers = at, na.action = na.exclude)
  without <- update(some, data = rows[!out, ])
  expect_equal(cross_validate(some, folds)$scores[out], -(rows$y[out] - unname(predict(without, rows[out, ])))^2)
  # several responses: the sum
  both <- kernel_ridge(cbind(y, z) ~ x, rows, bandwidth = 1, lambda = 1e-3)
  without <- update(both, data = rows[!out, ])
  expect_equal(
    cross_validate(both, folds)$scores[out],
    -rowSums((as.matrix(rows[out, c("y", "z")]) - predict(without, rows[out, ]))^2), ignore_attr = TRUE
  )
})

test_that("numbers that were chosen for a fit of kernel_ridge() are chosen again, and tuned ones tuned again", {
  rows <- some_rows()
  folds <- rep(1:2, 30)
  out <- folds == 2
  fit <- kernel_ridge(y ~ x + z, rows)
  without <- update(fit, data = rows[!out, ])
  judged <- cross_validate(fit, folds)
  expect_equal(judged$by_fold$bandwidth[2, ], without$bandwidth, ignore_attr = TRUE)
  expect_equal(judged$scores[out], -(rows$y[out] - unname(predict(without, rows[out, ])))^2)
  tuned <- tune_ridge(y ~ x + z, rows, kernel = "gaussian")
  without <- update(tuned, data = rows[!out, ])
  judged <- cross_validate(tuned, folds)
  expect_equal(judged$by_fold$bandwidth[2, ], without$bandwidth, ignore_attr = TRUE)
  expect_equal(judged$scores[out], -(rows$y[out] - unname(predict(without, rows[out, ])))^2)
  expect_equal(cross_validate(kernel_ridge(tuned), folds)$by_fold$bandwidth[2, ], tuned$bandwidth, ignore_attr = TRUE)
})

test_that("classes of kernel_ridge() are judged by their probabilities, in folds that have all of them", {
  folds <- rep(1:3, 50)
  out <- folds == 3
  fit <- kernel_ridge(Species ~ ., iris, bandwidth = 2, lambda = 1e-2)
  without <- update(fit, data = iris[!out, ])
  p <- predict(without, iris[out, ], type = "prob")
  expect_equal(cross_validate(fit, folds)$scores[out], log(p[cbind(1:50, as.integer(iris$Species[out]))]))
  expect_equal(cross_validate(fit, folds, "class")$scores[out], as.double(predict(without, iris[out, ]) == iris$Species[out]))
  weighted <- kernel_ridge(Species ~ ., iris[31:150, ], bandwidth = 2, lambda = 1e-2, solver = list(class_weights = "balanced"))
  of_classes <- (120 / 3 / table(iris$Species[31:150]))[iris$Species[31:150]]
  some <- folds[31:150] != 3
  without <- kernel_ridge(
    as.matrix(iris[31:150, 1:4])[some, ], iris$Species[31:150][some], bandwidth = 2, lambda = 1e-2, family = "multinomial",
    weights = as.double(of_classes)[some]
  )
  p <- predict(without, as.matrix(iris[31:150, 1:4])[!some, ], type = "prob")
  judged <- cross_validate(weighted, folds[31:150])
  expect_equal(judged$scores[!some], log(p[cbind(1:40, as.integer(iris$Species[31:150][!some]))]))
  expect_equal(judged$mean, stats::weighted.mean(judged$scores, as.double(of_classes)))
  squared <- kernel_ridge(Species ~ ., iris, family = "gaussian", bandwidth = 2, lambda = 1e-2)
  expect_identical(cross_validate(squared, folds)$score, "class")
  expect_identical(cross_validate(kernel_ridge(am ~ wt, mtcars, family = "binomial"), 3)$score, "log")
  expect_error(cross_validate(fit, rep(1:3, each = 50)), "all of `setosa`", class = "flashkernel_error_argument")
  tuned <- tune_ridge(Species ~ ., iris, kernel = "gaussian", rows = 60)
  expect_gt(cross_validate(tuned, folds)$mean, log(1 / 3))
  # beside a discriminant analysis
  kda <- flash_kda(Species ~ ., iris, estimator = "kde", bandwidth = 0.4)
  found <- compare_fits(fit, kda, score = "class", folds = folds)
  expect_equal(found$table["fit", "score"], cross_validate(fit, folds, "class")$mean)
  expect_equal(found$table["kda", "score"], 1 - cross_validate(kda, folds)$error)
})

test_that("fits of kernel_ridge() are compared with each other and with other regressions, each row left out", {
  rows <- some_rows()
  wide <- kernel_ridge(y ~ x + z, rows, bandwidth = 2, lambda = 1e-3, weights = w)
  few <- kernel_ridge(y ~ x + z, rows, bandwidth = 2, lambda = 1e-3, weights = w, centers = 20)
  line <- kernel_regression(y ~ x + z, rows, bandwidth = c(0.5, 2), weights = w)
  found <- compare_fits(wide, few, line)
  expect_null(found$folds)
  expect_equal(unname(found$scores[, "wide"]), -as.vector(left_out_residuals(wide, start_run(wide$control)))^2)
  expect_setequal(found$table$estimator, c("kernel_ridge", "local_linear"))
  tuned <- tune_ridge(y ~ x + z, rows, kernel = "gaussian", weights = w)
  expect_setequal(compare_fits(tuned, wide, folds = 2)$table$estimator, c("kernel_ridge", "kernel_ridge, tuned"))
  expect_error(compare_fits(wide, kernel_ridge(y ~ x, rows)), "same points", class = "flashkernel_error_argument")
  expect_error(cross_validate(lm(y ~ x, rows)), "kernel_ridge\\(\\)", class = "flashkernel_error_argument")
  expect_error(cross_validate(update(wide, solver = list(keep = FALSE))), "keep", class = "flashkernel_error_argument")
})

test_that("a validation set of kernel_ridge() ends fits without a fold where it ended the fit", {
  rows <- some_rows()
  set.seed(3)
  fit <- kernel_ridge(y ~ x + z, rows, bandwidth = 0.5, lambda = 1e-12, centers = 30, validation = 0.3)
  expect_lt(fit$best_iteration, fit$iterations)
  expect_length(cross_validate(fit, 3)$scores, fit$n)
  there <- flash_data(as.matrix(rows[c("x", "z", "y")]), columns = c("x", "z"), response = "y")
  remote <- kernel_ridge(there, bandwidth = 1, lambda = 1e-3, centers = 10)
  expect_error(cross_validate(remote), "validation", class = "flashkernel_error_unsupported")
})

test_that("sparse rows are judged as dense ones", {
  skip_if_not_installed("Matrix")
  rows <- some_rows()
  x <- as.matrix(rows[c("x", "z")])
  folds <- rep(1:3, 20)
  found <- lapply(list(x, Matrix::Matrix(x, sparse = TRUE)), \(x) {
    fit <- kernel_ridge(x, rows$y, bandwidth = 1, lambda = 1e-3, solver = list(exact = FALSE, keep = TRUE), centers = 1:60)
    expect_silent(compare_fits(fit, fit, folds = folds))
    cross_validate(fit, folds)$scores
  })
  expect_equal(found[[1]], found[[2]], tolerance = 1e-5)
})

test_that("regressions on other columns of the same response can be compared", {
  big <- kernel_ridge(mpg ~ wt + hp, mtcars, bandwidth = c(2, 100), lambda = 1e-2)
  small <- kernel_regression(mpg ~ wt, mtcars, bandwidth = 0.5)
  found <- compare_fits(big, small, flash_kde(mpg ~ hp, mtcars, bandwidth = c(3, 50)), score = "squared", folds = rep(1:4, 8))
  for (name in c("big", "small")) expect_equal(found$table[name, "score"], cross_validate(get(name), found$folds)$mean)
  expect_error(compare_fits(big, update(small, qsec ~ wt)), "same points")
})
