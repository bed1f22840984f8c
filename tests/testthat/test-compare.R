# Proper scores at points that were not seen, against fits without them and integrals by quadrature.

# A sum on this grid has all digits for Gaussian kernels with standard deviations of 0.3 or more.
ref_square <- function(fit, side = seq(-12, 12, by = if (is.null(fit$nonnegative)) 0.15 else 0.06)) {
  at <- as.matrix(expand.grid(rep(list(side), fit$d)))
  sum(predict(fit, at)^2) * (side[2] - side[1])^fit$d
}

kinds_of_fits <- function(x, weights = NULL) {
  set.seed(5)
  factors <- sample(c(0.7, 1, 1.6), nrow(x), replace = TRUE)
  fit <- \(...) flash_kde(x, bandwidth = 0.6, weights = weights, ...)
  list(
    kde = fit("kde"), adaptive = fit("kde", adaptive = factors), laplace = fit("laplace"), sdkde = fit("sdkde"),
    steps = fit("sdkde", debias = debiasing(steps = 2)), clipped = fit("laplace", debias = debiasing(nonnegative = TRUE))
  )
}

test_that("the integral of the square without a heavy point has all digits", {
  x <- example_points(30, 2)
  kinds <- list(
    kde = list("kde"), adaptive = list("kde", adaptive = rep_len(c(1, 2, 0.5), 30)), laplace = list("laplace"),
    compact = list("kde", kernel = "biweight"), given = list("sdkde", debias = debiasing(score = \(at) -at / 2))
  )
  for (ratio in c(1e-2, 1e-6, 1e-16, 1e-30, 1e-180)) for (kind in names(kinds)) {
    w <- c(1, sqrt(ratio), rep(ratio, 28))
    fit <- function(rows) {
      own <- kinds[[kind]]
      if (!is.null(own$adaptive)) own$adaptive <- own$adaptive[rows]
      do.call(flash_kde, c(list(x[rows, ], bandwidth = 0.7, weights = w[rows]), own))
    }
    square <- \(fit, loo) log_square_integral(unclass(fit), loo, fit_control(fit))
    got <- square(fit(1:30), TRUE)$log_loo
    want <- vapply(1:30, \(i) square(fit(-i), FALSE)$log, 0)
    expect_lt(max(abs(got - want)), 1e-11, label = paste(kind, ratio))
  }
})

test_that("the integral of the square is that of a fine grid", {
  for (d in 1:2) for (weighted in c(FALSE, TRUE)) {
    x <- matrix(example_points(25, 2)[, seq_len(d)], 25)
    fits <- kinds_of_fits(x, if (weighted) seq(0, 1, length.out = 25))
    for (kind in names(fits)) {
      fit <- unclass(fits[[kind]])
      got <- exp(log_square_integral(fit, FALSE, fit_control(fit))$log)
      tolerance <- if (kind == "clipped") 2e-3 else 1e-9 # its zeros are kinks on a grid
      expect_equal(got, ref_square(fits[[kind]]), tolerance = tolerance, info = paste(kind, d))
    }
  }
})

test_that("the integrals without each point are those of fits without it", {
  x <- example_points(15, 2)
  w <- c(0, seq(0.5, 20, length.out = 14))
  for (weights in list(NULL, w)) for (kind in c("kde", "adaptive", "laplace")) {
    fit <- kinds_of_fits(x, weights)[[kind]]
    got <- log_square_integral(unclass(fit), TRUE, fit_control(fit))$log_loo
    want <- vapply(c(2, 15), \(i) {
      factors <- if (is.null(fit$adaptive)) FALSE else fit$adaptive$factors[-i]
      without <- flash_kde(x[-i, ], fit$estimator, bandwidth = 0.6, weights = weights[-i], adaptive = factors)
      log(ref_square(without))
    }, 0)
    expect_equal(got[c(2, 15)], want, tolerance = 1e-8, info = kind)
  }
})

test_that("scores are what their names say, of points left out and of folds", {
  x <- example_points(30, 2)
  w <- seq(0.2, 1, length.out = 30)
  score_of <- list(
    log = \(fit, y) predict(fit, y, type = "log_density"),
    quadratic = \(fit, y) 2 * predict(fit, y) - ref_square(fit),
    spherical = \(fit, y) predict(fit, y) / sqrt(ref_square(fit))
  )
  fit <- flash_kde(x, "kde", bandwidth = 0.6, weights = w)
  other <- flash_kde(x, "kde", bandwidth = 0.8, weights = w)
  folds <- rep(c("a", "b", "c"), 10)
  for (score in names(score_of)) {
    found <- compare_fits(fit, other, score = score)$scores[, "fit"]
    want <- score_of[[score]](flash_kde(x[-7, ], "kde", bandwidth = 0.6, weights = w[-7]), x[7, , drop = FALSE])
    expect_equal(found[7], want, tolerance = 1e-8, info = score)
    validated <- cross_validate(fit, folds, score)
    out <- folds == "b"
    want <- score_of[[score]](flash_kde(x[!out, ], "kde", bandwidth = 0.6, weights = w[!out]), x[out, ])
    expect_equal(validated$scores[out], want, tolerance = 1e-8, info = score)
    expect_equal(validated$mean, stats::weighted.mean(validated$scores, w))
    expect_equal(validated$by_fold$score[2], stats::weighted.mean(want, w[out]), tolerance = 1e-8)
  }
  expect_identical(validated$by_fold$fold, c("a", "b", "c"))
})

test_that("without weights the mean log score is the leave-one-out likelihood, and AIC has the same order", {
  fits <- kinds_of_fits(example_points(60, 2))[c("kde", "adaptive", "sdkde")]
  found <- do.call(compare_fits, fits)
  expect_equal(found$table[names(fits), "score"], vapply(fits, logLik, 0) / 60, ignore_attr = TRUE)
  expect_identical(row.names(found$table), names(sort(vapply(fits, AIC, 0))))
})

test_that("differences are paired, with their standard errors, and ranks go by the mean", {
  x <- example_points(50, 2)
  one <- flash_kde(x, "kde", bandwidth = 0.5)
  two <- flash_kde(x, "kde", bandwidth = 1)
  three <- flash_kde(x, "kde", bandwidth = 3)
  found <- compare_fits(one, two, three)
  left_out <- \(fit) predict(fit, loo = TRUE, type = "log_density")
  s <- vapply(list(one = one, two = two, three = three), left_out, numeric(50))
  expect_equal(found$scores, s)
  expect_equal(found$differences["one", "three"], mean(s[, "one"] - s[, "three"]))
  expect_equal(found$errors["one", "three"], stats::sd(s[, "one"] - s[, "three"]) / sqrt(50))
  expect_equal(found$differences, -t(found$differences))
  expect_identical(row.names(found$table), names(sort(colMeans(s), decreasing = TRUE)))
  expect_identical(found$table$rank, 1:3)
  expect_equal(found$table["three", "se"], stats::sd(s[, "three"]) / sqrt(50))
  named <- compare_fits(narrow = one, wide = two)
  expect_setequal(row.names(named$table), c("narrow", "wide"))
})

test_that("folds go where points cannot be left out, drawn by R's random numbers", {
  x <- example_points(40, 2)
  fits <- kinds_of_fits(x)
  set.seed(1)
  found <- compare_fits(fits$kde, fits$steps)
  expect_length(unique(found$folds), 10)
  set.seed(1)
  again <- compare_fits(fits$kde, fits$steps)
  expect_identical(again$scores, found$scores)
  expect_identical(compare_fits(fits$kde, fits$steps, folds = found$folds)$table, found$table)
  expect_null(compare_fits(fits$kde, fits$laplace, score = "quadratic")$folds)
  expect_length(unique(compare_fits(fits$kde, fits$sdkde, score = "quadratic")$folds), 10)
})

test_that("a refit chooses again what was chosen, and keeps what was given, a point at a time where it was", {
  x <- example_points(60, 2)
  x[3, 2] <- NA
  factors <- seq(0.5, 2, length.out = 60)
  score <- -x
  folds <- rep(1:2, length.out = 59)
  second <- which(!is.na(x[, 2]))[folds == 2]
  chosen <- flash_kde(x, "kde", bandwidth = "silverman", adaptive = FALSE, na.action = na.exclude)
  by_fold <- cross_validate(chosen, folds)$by_fold
  expect_equal(by_fold$bandwidth[1, ], coef(flash_kde(x[second, ], "kde", bandwidth = "silverman", adaptive = FALSE)),
    ignore_attr = TRUE)
  expect_identical(which(is.na(cross_validate(chosen, folds)$scores)), 3L)
  first <- which(!is.na(x[, 2]))[folds == 1]
  wide <- flash_kde(x, "kde", bandwidth = 0.5, adaptive = factors, na.action = na.omit)
  without <- flash_kde(x[second, ], "kde", bandwidth = 0.5, adaptive = factors[second])
  expect_equal(cross_validate(wide, folds)$scores[folds == 1], predict(without, x[first, ], type = "log_density"))
  moved <- flash_kde(x, bandwidth = 0.5, debias = debiasing(score = score), na.action = na.omit)
  without <- flash_kde(x[second, ], bandwidth = 0.5, debias = debiasing(score = score[second, ]))
  expect_equal(cross_validate(moved, folds)$scores[folds == 1], predict(without, x[first, ], type = "log_density"))
})

test_that("the quadratic score finds the better estimate where the logarithm has no word for a negative one", {
  set.seed(2)
  x <- matrix(stats::rt(400, 3), ncol = 1)
  signed <- flash_kde(x, "laplace", bandwidth = 0.6)
  narrow <- flash_kde(x, "kde", bandwidth = 0.05)
  by_log <- compare_fits(signed, narrow)
  expect_identical(by_log$table["signed", "score"], -Inf)
  expect_output(print(by_log), "signed: no positive density at")
  by_square <- compare_fits(signed, narrow, score = "quadratic")
  expect_identical(row.names(by_square$table)[1], "signed")
  # it is minus the integrated squared error, up to what is the same for all
  side <- seq(-40, 40, by = 0.005)
  ise <- \(fit) sum((predict(fit, side) - stats::dt(side, 3))^2) * 0.005
  se <- by_square$errors["signed", "narrow"]
  expect_within(by_square$differences["signed", "narrow"], ise(narrow) - ise(signed), 4 * se)
})

test_that("a comparison prints and is drawn, signed and infinite ones, too", {
  x <- example_points(40, 1)
  fits <- list(a = flash_kde(x, "kde", bandwidth = 0.5), b = flash_kde(x, "laplace", bandwidth = 0.3))
  for (score in names(PROPER_SCORES)) {
    found <- do.call(compare_fits, c(fits, score = score))
    expect_output(print(found), paste("Comparison of 2 fits:", PROPER_SCORES[[score]]$title))
    with_null_device(expect_identical(plot(found), found))
  }
  expect_output(print(cross_validate(fits$a, 4)), "4-fold cross-validation, log score")
})

test_that("what cannot be compared is refused, by name", {
  x <- example_points(20, 2)
  fit <- flash_kde(x, "kde", bandwidth = 0.5)
  other <- flash_kde(x[-1, ], "kde", bandwidth = 0.5)
  weighted <- flash_kde(x, "kde", bandwidth = 0.5, weights = 1:20)
  expect_argument_error(compare_fits(fit, other), "other")
  expect_argument_error(compare_fits(fit, weighted), "weighted")
  expect_argument_error(compare_fits(fit), "...")
  expect_argument_error(compare_fits(fit, 1), "1")
  expect_argument_error(compare_fits(1, fit), "1")
  expect_argument_error(compare_fits(fit, fit, score = "brier"), "score")
  for (bad in list(1, 21, "a", c(1, 2), rep(1, 20), replace(1:20, 2, NA))) {
    expect_argument_error(cross_validate(fit, bad), "folds")
  }
  expect_error(cross_validate(flash_kde(x, "kde", adaptive = "balloon")), class = "flashkernel_error_unsupported")
  expect_argument_error(cross_validate(replace(fit, "settings", list(NULL))), "object")
  expect_argument_error(cross_validate(fit, k = 5), "k")
})

test_that("fits to other levels, or to levels and none, are of other points", {
  data <- data.frame(x = example_points(30, 1)[, 1], a = rep(c("p", "q"), 15), b = rep(c("p", "q", "q"), 10))
  fit <- \(columns, h = 1) flash_kde(data[columns], "kde", bandwidth = h)
  both <- fit(c("x", "a", "b"))
  one <- fit(c("x", "a"))
  expect_argument_error(compare_fits(both, one), "one")
  expect_argument_error(compare_fits(one, none = fit("x")), "none")
  expect_s3_class(compare_fits(one, fit(c("x", "a"), 2)), "flash_kde_comparison")
})

test_that("conditional densities and regressions with categories are judged by fits to the other folds", {
  data <- data.frame(x = example_points(30, 1)[, 1], a = rep(c("p", "q"), 15))
  data$y <- data$x + (data$a == "p")
  kernel <- categorical_kernel(smoothing = 0.2)
  fold <- rep(1:3, 10)
  regression <- kernel_regression(y ~ x + a, data, bandwidth = 1, categorical = kernel)
  numbers <- flash_kde(y ~ x + a, data, bandwidth = c(1, 1), categorical = kernel)
  for (fit in list(numbers, flash_kde(a ~ x, data, bandwidth = 1, categorical = kernel), regression)) {
    own <- update(fit, data = data[fold != 2, ])
    there <- data[fold == 2, ]
    score <- if (identical(fit, regression)) -(predict(own, there) - there$y)^2 else predict(own, there, type = "log_density")
    expect_equal(cross_validate(fit, folds = fold)$scores[fold == 2], score)
  }
  # what was chosen is chosen again
  expect_length(unique(cross_validate(flash_kde(y ~ x + a, data), folds = fold)$by_fold$bandwidth[, "x"]), 3)
})

test_that("fits that both have no density at a point do not differ there", {
  wide <- flash_kde(c(0, 100, 100.1, 300), "kde", 0.1, kernel = "biweight")
  wider <- flash_kde(c(0, 100, 100.1, 300), "kde", 0.2, kernel = "biweight")
  found <- compare_fits(wide, wider)
  expect_identical(found$table$score, c(-Inf, -Inf))
  by_hand <- predict(wide, loo = TRUE, type = "log_density")[2:3] - predict(wider, loo = TRUE, type = "log_density")[2:3]
  expect_equal(found$differences["wide", "wider"], sum(by_hand) / 4)
  expect_identical(compare_fits(wide, again = wide)$differences[1, 2], 0)
  # the one that has a density at more points is the best
  all <- flash_kde(c(0, 100, 100.1, 300), "kde", 0.01, kernel = "biweight")
  expect_identical(row.names(compare_fits(all, wide)$table), c("wide", "all"))
  expect_identical(compare_fits(all, wide)$table$difference, c(0, -Inf))
  expect_identical(compare_fits(wider, wide)$table$difference[1], 0)
  expect_lt(compare_fits(wide, wider)$table$difference[2], 0)
  expect_lt(compare_fits(wider, wide)$table$difference[2], 0)
  # each has a density at a point where the other has none
  of <- \(factors) flash_kde(c(0, 1, 10, 11), "kde", 0.25, adaptive = factors, kernel = "biweight")
  crossed <- compare_fits(left = of(c(2, 2, 0.5, 0.5)), right = of(c(0.5, 0.5, 2, 2)))
  expect_identical(crossed$table$difference, c(0, NA))
  expect_false(is.nan(crossed$table$difference[2]))
  with_null_device(plot(crossed))
  expect_output(print(crossed), "right: no positive density at 2 points")
})

test_that("negative estimates on shards differ as those in memory do", {
  x <- with_fixed_seed(cbind(c(stats::rnorm(200), 2.2, -2.3, 2.9)), 3)
  fits <- lapply(list(flash_data(x), x), \(z) list(a = flash_kde(z, "laplace", 0.1), b = flash_kde(z, "laplace", 0.12)))
  found <- lapply(fits, \(own) suppressWarnings(do.call(compare_fits, own))$table)
  expect_equal(found[[1]], found[[2]])
  expect_identical(row.names(found[[1]]), c("b", "a"))
  expect_true(all(is.finite(found[[1]]$difference)))
})
