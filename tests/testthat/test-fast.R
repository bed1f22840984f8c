# The fast engine: sums to a tolerance, checked against the exact engine.

kinds <- list(
  uniform = \(n, d) matrix(stats::runif(n * d), n),
  normal = \(n, d) matrix(stats::rnorm(n * d), n) / 5,
  clustered = \(n, d) matrix(stats::runif(20 * d), 20)[sample(20, n, TRUE), , drop = FALSE] +
    matrix(stats::rnorm(n * d), n) / 80,
  path = \(n, d) apply(matrix(stats::rnorm(n * d), n), 2, cumsum) / sqrt(n)
)

test_that("every sum is within the tolerance of the largest, whatever the points, d and bandwidth", {
  set.seed(1)
  for (d in 1:7) for (kind in names(kinds)) {
    n <- if (d <= 3) 4000 else 1200
    x <- kinds[[kind]](n, d)
    y <- rbind(x[1:300, , drop = FALSE], x[301:600, , drop = FALSE] + 0.02)
    b <- stats::rnorm(n)
    for (range in if (d <= 3) c(0.5, 10, 300) else if (d <= 5) c(1, 6, 100) else c(1, 30)) {
      for (tol in c(1e-3, 1e-7)) {
        error <- fast_error(x, y, b, 1 / range, tol)
        label <- paste(kind, "d =", d, "range/h =", range, "tol =", tol, error$diagnostics$method)
        expect_lte(error$relative, tol, label = label)
      }
    }
  }
})

test_that("a pointwise tolerance holds for each sum, also where it is small beside others", {
  set.seed(2)
  for (d in c(1, 2, 3, 4)) {
    x <- kinds$clustered(3000, d)
    y <- rbind(x[1:200, , drop = FALSE], matrix(stats::runif(200 * d, -0.3, 1.3), 200))
    for (tol in c(1e-3, 1e-8)) {
      error <- fast_error(x, y, rep(1, 3000), 0.05, tol, "pointwise")
      expect_lte(error$relative, tol, label = paste("d =", d, "tol =", tol))
    }
  }
})

test_that("a pointwise tolerance holds for each column, also one that is nearly empty", {
  set.seed(13)
  x <- kinds$uniform(20000, 2)
  b <- cbind(1, as.numeric(x[, 1] < 0.02), 0)
  y <- x[1:500, ]
  fast <- kernel_sum(
    x, y, b, 0.05, tol = 1e-6,
    control = flash_control(engine = "fast", tol_type = "pointwise", backend = "cpu")
  )
  expect_identical(diagnostics(fast)$method, "grid")
  exact <- plain(kernel_sum(x, y, b, 0.05, control = flash_control(engine = "exact", backend = "cpu")))
  error <- abs(plain(fast) - exact) / exact
  expect_lte(max(error[exact > 1e-290]), 1e-6)
  expect_identical(plain(fast)[, 3], numeric(500))
})

test_that("the error on a sample is told, and is no more than the tolerance", {
  set.seed(3)
  x <- kinds$normal(20000, 2)
  sums <- kernel_sum(x, bandwidth = 0.05, control = flash_control(engine = "fast", backend = "cpu"), tol = 1e-5)
  record <- diagnostics(sums)
  expect_identical(record$engine, "fast")
  expect_identical(record$method, "grid")
  expect_gt(record$tol_achieved, 0)
  expect_lte(record$tol_achieved, 1e-5)
  expect_output(print(record), "Error \\(global\\): at most .* on a sample; allowed")
  exact <- kernel_sum(x, bandwidth = 0.05, tol = 0)
  expect_identical(diagnostics(exact)$engine, "exact")
  expect_true(is.na(diagnostics(exact)$tol_achieved))
})

test_that("both methods give several columns, weights and full bandwidth matrices", {
  set.seed(4)
  x <- kinds$normal(3000, 3)
  b <- cbind(a = stats::rnorm(3000), b = 1, c = seq(-1, 1, length.out = 3000))
  w <- stats::runif(3000)
  for (scale in c(0.2, 0.01)) {
    H <- scale^2 * (diag(3) + 0.5)
    fast <- kernel_sum(
      x, NULL, b, H, weights = w, tol = 1e-8,
      control = flash_control(engine = "fast", backend = "cpu")
    )
    exact <- kernel_sum(x, NULL, b, H, weights = w, control = flash_control(engine = "exact", backend = "cpu"))
    expect_identical(colnames(fast), colnames(b))
    K <- kernel_sum(x, NULL, abs(b), H, weights = w, control = flash_control(engine = "exact", backend = "cpu"))
    expect_lte(max(abs(plain(fast) - plain(exact))) / max(plain(K)), 1e-8)
  }
  expect_identical(diagnostics(fast)$method, "direct")
})

test_that("one point, ties, equal points, far outliers and far targets are no special cases", {
  sums <- \(x, y, ...) plain(kernel_sum_by(
    x, y, bandwidth = 1, ...,
    control = flash_control(engine = "fast", backend = "cpu")
  ))
  expect_equal(sums(matrix(0.3, 1, 2), matrix(0.3, 1, 2)), 1, tolerance = 1e-6)
  expect_equal(sums(matrix(1, 500, 3), matrix(c(1, 1, 2), 1)), 500 * exp(-0.5), tolerance = 1e-6)
  set.seed(5)
  x <- round(matrix(stats::rnorm(2000), 1000), 1)
  expect_lte(fast_error(x, x, rep(1, 1000), 0.3, 1e-7)$relative, 1e-7)
  x[1, ] <- 1e6
  expect_lte(fast_error(x, x, rep(1, 1000), 0.3, 1e-7)$relative, 1e-7)
  expect_identical(sums(x, matrix(-1e5, 1, 2)), 0)
})

test_that("results have the same bits for any number of threads", {
  set.seed(6)
  x <- kinds$clustered(30000, 2)
  for (h in c(0.1, 0.001)) {
    run <- \(threads) plain(kernel_sum(
      x, bandwidth = h, tol = 1e-6,
      control = flash_control(engine = "fast", threads = threads, backend = "cpu")
    ))
    expect_identical(run(1), run(2))
  }
})

# predict() by the fast engine and one of its methods: few points would be summed exactly, on both sides.
fast_predict <- function(fit, at, type, method, tol, tol_type = "pointwise", loo = FALSE) {
  local_method(method)
  done <- predict_with(fit, at, type, loo, control_list("cpu", engine = "fast", tol = tol, tol_type = tol_type))
  expect_identical(done$stats[c("engine", "method")], list(engine = "fast", method = method))
  done$got
}

test_that("all estimators predict densities, logs and scores to a tolerance", {
  set.seed(7)
  x <- kinds$normal(3000, 2)
  y <- rbind(x[1:300, ], matrix(stats::runif(100, -1.5, 1.5), 50))
  for (estimator in c("kde", "sdkde", "laplace")) for (method in c("grid", "direct")) {
    fit <- flash_kde(x, estimator, bandwidth = 0.05, control = flash_control(backend = "cpu"))
    label <- paste(estimator, method)
    fast <- \(type, at = y, ...) fast_predict(fit, at, type, method, 1e-7, ...)
    p <- predict(fit, y)
    # the size of the plain estimate, beside which a Laplace-corrected one may be small
    plain_fit <- replace(fit, "estimator", if (estimator == "laplace") "kde" else estimator)
    size <- abs(p) + predict(plain_fit, y)
    expect_lte(max(abs(fast("density") - p) / size), 1e-6, label = label)
    score_error <- abs(fast("score") - predict(fit, y, type = "score"))
    # near its zero a Laplace-corrected estimate has no score to compare
    clear <- abs(p) > size / 20
    expect_gt(sum(clear), 200)
    expect_lte(max(score_error[clear, ]) * 0.05, 1e-4, label = paste(label, "score"))
    if (estimator == "laplace") next
    log_error <- abs(fast("log_density") - predict(fit, y, type = "log_density"))
    expect_lte(max(log_error), 1e-6, label = paste(label, "log density"))
  }
})

test_that("scores at the points themselves, with weights and left out, are those of exact sums", {
  need_fine_windows()
  set.seed(14)
  x <- kinds$clustered(2000, 2)
  w <- stats::rexp(2000)
  for (estimator in c("kde", "laplace")) for (method in c("grid", "direct")) for (loo in c(FALSE, TRUE)) {
    fit <- flash_kde(x, estimator, bandwidth = 0.05, weights = w, control = flash_control(backend = "cpu"))
    want <- predict(fit, type = "score", loo = loo)
    got <- fast_predict(fit, NULL, "score", method, 1e-9, loo = loo)
    size <- predict(replace(fit, "estimator", "kde"), loo = loo)
    clear <- abs(predict(fit, loo = loo)) > size / 20
    expect_lte(max(abs(got - want)[clear, ]) * 0.05, 1e-6, label = paste(estimator, method, if (loo) "left out"))
  }
})

test_that("many points are debiased and predicted by the fast engine where there is a tolerance", {
  set.seed(15)
  x <- kinds$normal(60000, 2)
  y <- rbind(x[1:19000, ] + 0.001, matrix(stats::runif(2000, -1.5, 1.5), 1000))
  some <- seq(1, 20000, by = 67)
  for (estimator in c("kde", "sdkde", "laplace")) {
    fit <- flash_kde(x, estimator, bandwidth = 0.05, control = flash_control(backend = "cpu", tol_type = "pointwise"), tol = 1e-7)
    if (estimator == "sdkde") expect_identical(diagnostics(fit)$engine, "fast")
    expect_identical(log_estimate(fit, y, FALSE, fit_control(fit))$stats$engine, "fast", label = estimator)
    got <- predict(fit, y)[some]
    want <- predict(fit, y[some, ], tol = 0)
    size <- abs(want) + predict(replace(fit, "estimator", if (estimator == "laplace") "kde" else estimator), y[some, ], tol = 0)
    expect_lte(max(abs(got - want) / size), 1e-6, label = estimator)
  }
})

test_that("log densities in the tails hold, leave-one-out too, and a global tolerance leaves no log of noise", {
  set.seed(8)
  x <- rbind(kinds$normal(5000, 2), c(30, 30))
  far <- cbind(seq(1, 60, length.out = 50), 0)
  exact <- flash_kde(x, "kde", bandwidth = 0.1, control = flash_control(backend = "cpu"))
  want <- predict(exact, far, type = "log_density")
  left_out <- predict(exact, type = "log_density", loo = TRUE)
  for (type in c("global", "pointwise")) for (method in c("grid", "direct")) {
    got <- fast_predict(exact, far, "log_density", method, 1e-6, type)
    expect_true(all(is.finite(got)))
    bound <- if (type == "global") 0.011 else 1.1e-6
    expect_lte(max(abs(got - want)), bound, label = paste(type, method))
    loo <- fast_predict(exact, NULL, "log_density", method, 1e-6, type, loo = TRUE)
    expect_lte(max(abs(loo - left_out)), bound, label = paste("leave-one-out,", type, method))
  }
})

test_that("the summary of a large SD-KDE with a tolerance leaves out what only exact sums give", {
  set.seed(12)
  fit <- flash_kde(stats::rnorm(60000), bandwidth = 0.05, tol = 1e-6, control = flash_control(backend = "cpu"))
  expect_null(summary(fit)$loglik)
  expect_false(is.null(summary(flash_kde(stats::rnorm(200), bandwidth = 0.3, tol = 1e-6))$loglik))
})

test_that("small jobs are summed exactly, and tol = 0 is exact for any size", {
  x <- example_points(200, 2)
  small <- flash_kde(x, "kde", bandwidth = 0.5, tol = 1e-3, control = flash_control(backend = "cpu"))
  expect_identical(predict(small, x), predict(flash_kde(x, "kde", bandwidth = 0.5, control = flash_control(backend = "cpu")), x))
  expect_identical(diagnostics(small)$tolerance$engine, "exact")
})

test_that("a fit tells its tolerance and what it achieves", {
  set.seed(9)
  fit <- flash_kde(stats::rnorm(30000), "kde", bandwidth = 0.05, tol = 1e-6, control = flash_control(backend = "cpu"))
  tolerance <- diagnostics(fit)$tolerance
  expect_identical(tolerance$engine, "fast")
  expect_lte(tolerance$achieved, 1e-6)
  expect_output(print(diagnostics(fit)), "allowed 1e-06")
  expect_null(diagnostics(flash_kde(1:10, "kde", bandwidth = 1))$tolerance)
})

test_that("cross-validation finds the same bandwidth with and without the fast engine", {
  set.seed(10)
  x <- c(stats::rnorm(2500), stats::rnorm(1200, 4, 0.3))
  for (select in list(\(...) kde_bandwidth(x, "lcv", "kde", ...), \(...) kde_bandwidth(x, "lscv", ...))) {
    exact <- select(tol = 0, control = flash_control(backend = "cpu"))
    fast <- select(control = flash_control(backend = "cpu"))
    expect_equal(as.numeric(fast), as.numeric(exact), tolerance = 1e-3)
    expect_equal(attr(fast, "criterion"), attr(exact, "criterion"), tolerance = 1e-5)
  }
})

test_that("sources in chunks keep the tolerance", {
  set.seed(11)
  x <- kinds$uniform(12000, 2)
  b <- stats::rnorm(12000)
  y <- x[1:400, ]
  scale <- max(plain(kernel_sum(x, y, abs(b), 0.1, control = flash_control(engine = "exact", backend = "cpu"))))
  exact <- plain(kernel_sum(x, y, b, 0.1, control = flash_control(engine = "exact", backend = "cpu")))
  chunks <- chunks_of(x, b, rep(3000, 4))
  sums <- kernel_sum(chunks, y, bandwidth = 0.1, tol = 1e-6, control = flash_control(engine = "fast", backend = "cpu"))
  expect_lte(max(abs(plain(sums) - exact)) / scale, 1e-6)
})

test_that("what the fast engine cannot do is one clear error, and only where it was asked for", {
  x <- example_points(100, 2)
  expect_error(kernel_sum(x, bandwidth = 1, kernel = "laplacian", control = flash_control(engine = "fast")),
    class = "flashkernel_error_unsupported")
  expect_error(kernel_sum(example_points(100, 8), bandwidth = 1, control = flash_control(engine = "fast")),
    class = "flashkernel_error_unsupported")
  expect_error(flash_kde(x, tol = -1), "`tol` must be")
  expect_error(flash_kde(x, control = flash_control(tol_type = "local")), "`tol_type` must be")
  expect_silent(kernel_sum(x, bandwidth = 1, kernel = "laplacian", tol = 1e-3))
})
