# Leave-one-out values in tails, among ties and beside heavy points. Laws of test-contract.R have those of all fits.

test_that("leave-one-out log densities of the SD-KDE are exact in the tails, for any size", {
  for (n in c(2, 3, 17, 64, 65, 129)) {
    x <- matrix(example_points(n, 3), n, 3)
    x[n, ] <- c(300, -20, 5) # alone, a long way out
    H <- example_bandwidth(3)
    H_score <- H / 2
    w <- seq(0.5, 2, length.out = n)
    fit <- flash_kde(x, estimator = "sdkde", bandwidth = H, debias = debiasing(bandwidth = H_score), weights = w)
    want <- ref_leave_out(\(x, y, w) ref_log_sdkde(x, y, H, H_score, w), x, w)
    expect_within(predict(fit, loo = TRUE, type = "log_density"), want, 1e-10, paste("n =", n))
    single <- predict(replace(fit, "precision", "single"), loo = TRUE, type = "log_density")
    expect_promise(single, want, 3, "single", paste("single, n =", n))
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
    fit <- flash_kde(x, "sdkde", bandwidth = 1, debias = debiasing(bandwidth = score_bandwidth))
    near <- flash_kde(x[1:3], "sdkde", bandwidth = 1, debias = debiasing(bandwidth = score_bandwidth))
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

test_that("points of an SD-KDE beside a heavy one are left out without loss of digits", {
  n <- 80
  some <- c(1:4, n)
  for (ratio in 10^-c(0, 2, 6, 9, 12, 16, 30)) {
    cases <- heavy_cases(ratio, n)
    for (kind in names(cases)) {
      case <- cases[[kind]]
      got <- predict(case$fit(seq_len(n)), loo = TRUE)[some]
      want <- vapply(some, \(i) predict(case$fit(-i), case$data[i, , drop = FALSE]), 0)
      expect_lt(max(ifelse(got == want, 0, abs(got / want - 1))), 1e-12, label = paste(kind, ratio))
    }
  }
  # as few as can be, so that one dominates all others
  x <- c(0, 0.3, 0.7, -0.4, 1.1)
  w <- c(1, rep(1e-16, 4))
  got <- predict(flash_kde(x, "sdkde", 1, weights = w), loo = TRUE)
  expect_equal(got[1], predict(flash_kde(x[-1], "sdkde", 1, weights = w[-1]), x[1]), tolerance = 1e-13)
  pair <- flash_kde(c(0, 1), "sdkde", 1, weights = c(1, 1e-20))
  expect_equal(predict(pair, loo = TRUE), c(1, 1) * stats::dnorm(1), tolerance = 1e-13)
})

test_that("what is computed of left-out points of an SD-KDE beside a heavy one is that of fits without them", {
  n <- 30
  w <- heavy_weights(1e-16, n)
  x <- example_points(n, 2)
  fit <- flash_kde(x, "sdkde", bandwidth = 0.7, weights = w)
  left_out <- vapply(1:n, \(i) {
    predict(flash_kde(x[-i, ], "sdkde", bandwidth = 0.7, weights = w[-i]), x[i, , drop = FALSE], type = "log_density")
  }, 0)
  likelihood <- n * stats::weighted.mean(left_out, w)
  expect_equal(as.numeric(logLik(fit)), likelihood, tolerance = 1e-13)
  expect_equal(AIC(fit), -2 * likelihood, tolerance = 1e-13)
  expect_equal(kde_pvalue(fit), vapply(left_out, \(own) sum(w[left_out <= own]), 0) / sum(w), tolerance = 1e-12)
})

test_that("dominated points are those with one other above 7/8 of their kernel sum, and have the mean of the others", {
  set.seed(1)
  x <- matrix(stats::rnorm(400), 200)
  w <- exp(4 * stats::rnorm(200))
  sources <- sum_sources(x, w, diag(0.3, 2))
  control <- run_control(settle_control(flash_control()))
  mass <- log_sum(sources, NULL, PLAIN_FACTOR, FALSE, control)$log_abs
  share <- unname(exp(outer(-mass, log(w), "+") - as.matrix(stats::dist(x))^2 / (2 * 0.3^2)))
  diag(share) <- 0
  want <- ifelse(apply(share, 1, max) > MOST_SHARE, max.col(share, "first"), 0)
  expect_gt(sum(want > 0), 20)
  by <- replace(dominants(sources, x, mass, control), apply(share, 1, max) <= MOST_SHARE, 0)
  expect_identical(as.double(by), want)
  found <- dominated_among(sources, 1:200, mass, control)
  expect_identical(found$rows[order(found$rows)], which(want > 0))
  expect_identical(found$by, as.integer(want[found$rows]))
  for (i in seq_along(found$rows)[1:5]) {
    j <- found$rows[i]
    k <- w * exp(-colSums((t(x) - x[j, ])^2) / (2 * 0.3^2))
    k[found$by[i]] <- 0
    expect_equal(found$toward[i, ], drop(k %*% sweep(x, 2, x[j, ])) / sum(k), tolerance = 1e-12)
  }
})
