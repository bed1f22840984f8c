# predict(interval = "conformal") of kernel_ridge(), against literal refits.

ridge_at <- function(x, y, at, h, n_lambda, w = rep(1, nrow(x))) {
  kernels <- \(a, b) exp(-0.5 * (outer(rowSums((a / h)^2), rowSums((b / h)^2), "+") - 2 * (a / h) %*% t(b / h)))
  A <- kernels(x, x) + diag(n_lambda / w)
  k <- kernels(at, x)
  mean <- sum(w * y) / sum(w)
  ones <- outer(rep(1, nrow(x)), w / sum(w))
  H <- kernels(x, x) %*% solve(A, diag(nrow(x)) - ones) + ones
  variance <- (1 - rowSums(k * t(solve(A, t(k))))) / n_lambda
  list(link = as.vector(mean + k %*% solve(A, y - mean)), scale = sqrt(1 + variance),
       left = as.vector(y - H %*% y) / (1 - diag(H)))
}

# Ends of the intervals from fits without each of `folds`, a list of row numbers. `lambda` is for all rows.
literal_ends <- function(x, y, at, h, lambda, folds, level, w = rep(1, nrow(x))) {
  of <- lapply(folds, \(out) {
    left <- setdiff(seq_along(y), out)
    fit <- \(at) ridge_at(x[left, , drop = FALSE], y[left], at, h, length(left) * lambda, w[left])
    held <- fit(x[out, , drop = FALSE])
    new <- fit(at)
    unit <- exp(mean(log(held$scale)))
    list(link = new$link, scale = new$scale / unit, scores = abs(y[out] - held$link) / (held$scale / unit), w = w[out],
         left = replace(rep(NA, length(y)), left, held$left))
  })
  columns <- \(name) vapply(of, `[[`, numeric(nrow(at)), name)
  scores <- unlist(lapply(of, `[[`, "scores"))
  all_w <- w
  w <- unlist(lapply(of, `[[`, "w"))
  left <- vapply(of, `[[`, y, "left")
  ratio <- weighted.mean(rowMeans(left, na.rm = TRUE)^2, all_w) / weighted.mean(rowMeans(left^2, na.rm = TRUE), all_w)
  ranked <- scores[order(scores)] * sqrt(ratio)
  share <- cumsum(w[order(scores)]) / mean(w)
  width <- exp(rowMeans(log(columns("scale")))) * ranked[which(share >= level * (length(scores) + 1) - 1e-9)[1]]
  cbind(lwr = rowMeans(columns("link")) - width, upr = rowMeans(columns("link")) + width)
}

case <- with_fixed_seed({
  x <- matrix(stats::runif(80, -1, 1), 40)
  list(x = x, y = sin(3 * x[, 1]) + 0.3 * stats::rnorm(40), at = matrix(stats::runif(10, -1.5, 1.5), 5),
       w = stats::runif(40, 0.5, 2))
}, 3)

test_that("conformal intervals are those of literal fits without each fold", {
  for (w in list(NULL, case$w)) {
    fit <- kernel_ridge(case$x, case$y, bandwidth = 0.7, lambda = 1e-2, weights = w)
    folds <- held_folds(fit)
    expect_identical(sort(unlist(folds)), 1:40)
    expect_true(all(lengths(folds) == 4))
    found <- predict(fit, case$at, interval = "conformal", level = 0.8)
    weights <- if (is.null(w)) rep(1, 40) else w
    want <- literal_ends(case$x, case$y, case$at, 0.7, 1e-2, folds, 0.8, weights)
    expect_equal(found[, 2:3], want, tolerance = 1e-7)
    expect_equal(found[, "fit"], predict(fit, case$at))
  }
})

test_that("quantiles are widened as in conformalised quantile regression", {
  levels <- ridge_family("quantile", levels = c(0.2, 0.5, 0.8))
  by <- \(rows = 1:40, w = case$w) kernel_ridge(
    case$x[rows, ], case$y[rows], family = levels, bandwidth = 0.7, lambda = 1e-2, weights = w[rows], offset = case$x[rows, 1]
  )
  fit <- by()
  shift <- case$at[, 1]
  found <- predict(fit, case$at, interval = "conformal", level = 0.8, offset = shift)
  expect_identical(colnames(found), c("0.2", "0.5", "0.8", "lwr", "upr"))
  expect_equal(found[, 1:3], predict(fit, case$at, offset = shift))
  of <- lapply(held_folds(fit), \(out) {
    one <- by(-out)
    held <- predict(one, case$x[out, ], offset = case$x[out, 1])
    list(scores = pmax(held[, 1] - case$y[out], case$y[out] - held[, 3]), w = case$w[out],
         ends = predict(one, case$at, offset = shift)[, c(1, 3)])
  })
  width <- conformal_quantile(unlist(lapply(of, `[[`, "scores")), unlist(lapply(of, `[[`, "w")), 0.8)
  ends <- Reduce(`+`, lapply(of, `[[`, "ends")) / 10
  expect_equal(unname(found[, 4:5]), unname(ends + rep(c(-width, width), each = 5)), tolerance = 1e-4)
  expect_identical(dim(predict(fit, case$at[1, , drop = FALSE], interval = "conformal", offset = 0)), c(1L, 5L))
  expect_argument_error(predict(kernel_ridge(dist ~ speed, cars, family = "quantile"), interval = "conformal"), "interval")
})

test_that("an offset moves the ends, and another unit of the response scales them", {
  fit <- kernel_ridge(case$x, case$y, bandwidth = 0.7, lambda = 1e-2)
  shift <- seq_len(40) / 10
  moved <- kernel_ridge(case$x, case$y + shift, bandwidth = 0.7, lambda = 1e-2, offset = shift)
  want <- predict(fit, interval = "conformal")
  expect_equal(predict(moved, interval = "conformal"), want + shift, tolerance = 1e-10)
  expect_equal(predict(moved, case$at, offset = 1:5, interval = "conformal"),
               predict(fit, case$at, interval = "conformal") + 1:5, tolerance = 1e-10)
  both <- kernel_ridge(case$x, cbind(a = case$y, b = 1e3 * case$y), bandwidth = 0.7, lambda = 1e-2)
  found <- predict(both, case$at, interval = "conformal")
  expect_equal(found[, , "b"], 1e3 * found[, , "a"], tolerance = 1e-10)
  expect_equal(found[, , "a"], predict(fit, case$at, interval = "conformal"), tolerance = 1e-10)
})

test_that("rows of weight 0 are left out, and weights count rows", {
  zero <- kernel_ridge(case$x, case$y, bandwidth = 0.7, lambda = 1e-2, weights = rep(0:1, 20))
  expect_setequal(unlist(held_folds(zero)), seq(2, 40, by = 2))
  expect_true(all(is.finite(predict(zero, case$at, interval = "conformal", level = 0.9))))
  expect_identical(conformal_quantile(c(1, 3, 2), c(2, 1, 1), 0.5), 2)
  expect_identical(conformal_quantile(c(1, 3, 2), c(6, 1, 1), 0.5), 1)
  expect_identical(conformal_quantile(c(1, 3, 2), c(1, 1, 1), 0.75), 3)
  expect_identical(conformal_quantile(c(1, 3, 2), c(1, 1, 1), 0.76), Inf)
})

test_that("the choices from the data are made again without each fold, and R's generator is left alone", {
  fit <- kernel_ridge(mpg ~ wt + hp, data = mtcars, metric = "none", centers = 10)
  set.seed(2)
  before <- .Random.seed
  first <- predict(fit, mtcars[1:3, ], interval = "conformal")
  expect_identical(.Random.seed, before)
  of <- lapply(fit$state$calibration, `[[`, "fit")
  expect_length(of, 10)
  expect_true(all(vapply(of, \(one) one$n, 0) < 30))
  expect_gt(length(unique(vapply(of, \(one) one$lambda, 0))), 1)
  set.seed(3)
  fit$state$calibration <- NULL
  expect_identical(predict(fit, mtcars[1:3, ], interval = "conformal"), first)
})

test_that("few rows are left out of many, and many folds of few rows", {
  of <- \(n) held_folds(list(n = n))
  expect_identical(lengths(of(5)), rep(1L, 5))
  expect_identical(lengths(of(1500)), rep(150L, 7))
  expect_identical(lengths(of(10000)), 1000L)
  expect_identical(lengths(of(1e5)), 1000L)
  expect_gt(min(diff(of(1e5)[[1]])), 50)
})

test_that("missing values, standard errors, names and infinite ends are as for other intervals", {
  fit <- kernel_ridge(mpg ~ wt + hp, data = mtcars, bandwidth = c(2, 150), lambda = 1e-3)
  new <- data.frame(wt = c(2, NA, 3), hp = 100)
  found <- predict(fit, new, interval = "conformal", level = 0.9, se.fit = TRUE)
  expect_identical(is.na(found$fit[, "lwr"]), c(FALSE, TRUE, FALSE))
  expect_identical(found[-1], predict(fit, new, se.fit = TRUE)[-1])
  expect_identical(rownames(predict(fit, interval = "conformal")), rownames(mtcars))
  expect_identical(unname(predict(fit, new[1, ], interval = "conformal", level = 0.99)[1, 2:3]), c(-Inf, Inf))
  skip_if_not_installed("generics")
  added <- generics::augment(fit, newdata = new, interval = "conformal", conf.level = 0.9)
  expect_equal(as.data.frame(added)[c(".lower", ".upper")], as.data.frame(found$fit[, 2:3]), ignore_attr = TRUE)
})

test_that("conformal intervals are refused where there are none", {
  expect_argument_error(predict(kernel_ridge(Species ~ ., iris, bandwidth = 2, lambda = 1e-3), type = "link",
    interval = "conformal"), "interval")
  x <- as.matrix(mtcars[c("wt", "hp")])
  done <- FALSE
  chunk <- function(reset = FALSE) {
    if (!reset && !done) return({ done <<- TRUE; list(x = x, y = mtcars$mpg) })
    done <<- FALSE
    NULL
  }
  fit <- kernel_ridge(chunk, bandwidth = c(2, 150), lambda = 1e-3, centers = x[1:10, ])
  expect_argument_error(predict(fit, x, interval = "conformal"), "interval")
  one <- kernel_ridge(x[1, , drop = FALSE], 1, bandwidth = 1, lambda = 1)
  expect_argument_error(predict(one, interval = "conformal"), "object")
})
