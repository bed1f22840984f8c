# Leave-one-out values against fits without the point.

estimators <- c("kde", "sdkde", "laplace")

test_that("leave-one-out values are those of a fit without the point", {
  x <- example_points(25, 2)
  H <- example_bandwidth(2)
  w <- seq(0.2, 1.5, length.out = 25)
  for (estimator in estimators) for (weighted in c(FALSE, TRUE)) {
    weights <- if (weighted) w
    fit <- flash_kde(x, estimator = estimator, bandwidth = H, weights = weights)
    refit <- vapply(1:25, \(i) {
      without <- flash_kde(x[-i, ], estimator = estimator, bandwidth = H, weights = weights[-i])
      predict(without, x[i, , drop = FALSE])
    }, 0)
    got <- predict(fit, loo = TRUE)
    expect_within(got / refit, rep(1, 25), 1e-10, estimator)
    expect_within(got / ref_loo_density(estimator, x, H, weights), rep(1, 25), 1e-10, estimator)
  }
})

test_that("leave-one-out log densities of the SD-KDE are exact in the tails, for any size", {
  for (n in c(2, 3, 17, 64, 65, 129)) {
    x <- matrix(example_points(n, 3), n, 3)
    x[n, ] <- c(300, -20, 5) # alone, a long way out
    H <- example_bandwidth(3)
    H_score <- H / 2
    w <- seq(0.5, 2, length.out = n)
    fit <- flash_kde(x, estimator = "sdkde", bandwidth = H, score_bandwidth = H_score, weights = w)
    want <- ref_leave_out(\(x, y, w) ref_log_sdkde(x, y, H, H_score, w), x, w)
    expect_within(predict(fit, loo = TRUE, type = "log_density"), want, 1e-10, paste("n =", n))
  }
})

test_that("an SD-KDE left out at some points has the bits of all, and sums over parts of the points add up", {
  control <- run_control(settle_control(flash_control(threads = 2)))
  for (d in c(1, 3)) for (with in c("nothing", "weights", "factors")) {
    case <- left_out_case(210, d, with)
    whole <- case$whole(control)
    expect_within(whole, case$known(control), 1e-10, paste(d, with))
    for (rows in list(1:3, 1:64, 60:135, 151:210)) {
      expect_identical(case$some(1:210, rows, control), whole[rows])
      parts <- log_add(case$some(1:150, rows, control), case$some(151:210, rows, control))
      expect_within(parts, whole[rows], 1e-12, paste(d, with))
    }
  }
})

test_that("leave-one-out scores and standard errors are those of a fit without the point", {
  x <- example_points(20, 2)
  H <- example_bandwidth(2)
  w <- seq(0.2, 1.5, length.out = 20)
  for (estimator in c("kde", "laplace")) {
    fit <- flash_kde(x, estimator = estimator, bandwidth = H, weights = w)
    refit <- lapply(1:20, \(i) {
      without <- flash_kde(x[-i, ], estimator = estimator, bandwidth = H, weights = w[-i])
      at <- x[i, , drop = FALSE]
      list(predict(without, at, type = "score"), predict(without, at, se.fit = TRUE)$se.fit)
    })
    score <- do.call(rbind, lapply(refit, `[[`, 1))
    expect_within(predict(fit, loo = TRUE, type = "score"), score, 1e-9, estimator)
    se <- vapply(refit, `[[`, 0, 2)
    expect_within(predict(fit, loo = TRUE, se.fit = TRUE)$se.fit / se, rep(1, 20), 1e-8, estimator)
  }
})

test_that("a leave-one-out value does not see its own point's position among ties", {
  x <- rbind(example_points(10, 2), example_points(10, 2))
  fit <- flash_kde(x, estimator = "kde", bandwidth = 0.5)
  loo <- predict(fit, loo = TRUE)
  expect_within(loo[1:10] / loo[11:20], rep(1, 10), 1e-12)
  expect_within(loo / ref_loo_density("kde", x, diag(0.25, 2)), rep(1, 20), 1e-12)
})

test_that("a point out of all proportion leaves the leave-one-out values of the others alone", {
  x <- c(-1, 0, 0.5, 1e170)
  for (score_bandwidth in c(1, sqrt(1 / 2))) {
    fit <- flash_kde(x, "sdkde", bandwidth = 1, score_bandwidth = score_bandwidth)
    near <- flash_kde(x[1:3], "sdkde", bandwidth = 1, score_bandwidth = score_bandwidth)
    want <- predict(near, type = "log_density", loo = TRUE) + log(2 / 3)
    expect_within(predict(fit, type = "log_density", loo = TRUE)[1:3], want, 1e-12)
  }
})

test_that("an isolated training point keeps a finite leave-one-out log density and score", {
  x <- rbind(example_points(30, 3), c(1e4, -1e4, 0))
  fit <- flash_kde(x, estimator = "kde", bandwidth = 0.5)
  got <- predict(fit, loo = TRUE, type = "log_density")
  want <- ref_log_kde(x[-31, ], x[31, , drop = FALSE], diag(0.25, 3))
  expect_within(got[31], want, 1e-12)
  sdkde <- flash_kde(x, estimator = "sdkde", bandwidth = 0.5)
  expect_equal(sdkde$debiased[31, ], x[31, ], ignore_attr = TRUE) # alone: score zero
})
