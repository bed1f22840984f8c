# Steps, given scores, order 6, clipped estimates and their scores on a GPU, beside the CPU. (Rows of `laplace6` are in
# test-parity.R.)

on_both <- function(x, ...) {
  lapply(c(here = "cpu", there = "cuda"), \(backend) flash_kde(x, control = flash_control(backend, "double"), ...))
}

test_that("a GPU takes the steps of the CPU", {
  skip_if_no_gpu()
  for (d in c(1, 3, 20)) {
    x <- matrix(example_points(1500, max(d, 2))[, seq_len(d)], 1500)
    w <- seq(0, 2, length.out = 1500)
    for (steps in 2:3) {
      fits <- on_both(x, bandwidth = 0.8, weights = w, debias = debiasing(steps = steps))
      expect_equal(unname(fits$there$debiased[, ]), unname(fits$here$debiased[, ]), tolerance = 1e-10)
      at <- x[1:50, , drop = FALSE]
      expect_equal(predict(fits$there, at), predict(fits$here, at), tolerance = 1e-9)
    }
    given <- on_both(x, bandwidth = 0.8, debias = debiasing(score = -x / 3))
    expect_equal(logLik(given$there), logLik(given$here), tolerance = 1e-10)
  }
})

test_that("a GPU has the same scores of fits, and of order 6 in any precision", {
  skip_if_no_gpu()
  x <- example_points(1200, 3)
  y <- example_points(200, 3, seed = 2)
  factors <- sample(c(0.7, 1, 1.6), 1200, replace = TRUE)
  for (estimator in c("kde", "adaptive", "laplace", "laplace6")) {
    fits <- if (estimator == "adaptive") {
      on_both(x, "kde", bandwidth = 0.7, adaptive = factors)
    } else {
      on_both(x, estimator, bandwidth = 0.7)
    }
    expect_equal(predict(fits$there, y), predict(fits$here, y), tolerance = 1e-10, info = estimator)
    # divided by an estimate that may be near 0
    clear <- abs(predict(fits$here, y)) > 1e-4
    score <- \(fit) predict(fit, y[clear, ], type = "score")
    expect_equal(score(fits$there), score(fits$here), tolerance = 1e-7, info = estimator)
    if (estimator == "laplace6") next
    found <- lapply(fits, \(fit) compare_fits(fit, fit, score = "quadratic")$scores)
    expect_equal(found$there, found$here, tolerance = 1e-9, info = estimator)
  }
  clipped <- on_both(x, "laplace6", bandwidth = 0.7, debias = debiasing(nonnegative = TRUE))
  expect_equal(clipped$there$nonnegative$value, clipped$here$nonnegative$value, tolerance = 1e-6)
  for (precision in c("single", "fast")) {
    there <- flash_kde(x, "laplace6", bandwidth = 0.7, control = flash_control("cuda", precision))
    exact <- flash_kde(x, "laplace6", bandwidth = 0.7)
    error <- predict(there, y) - predict(exact, y)
    expect_lt(sqrt(sum(error^2) / sum(predict(exact, y)^2)), c(single = 1e-4, fast = 1e-2)[[precision]])
  }
})

test_that("a GPU leaves out some points over some of the sources as the CPU does, and any of them as all at once", {
  skip_if_no_gpu()
  controls <- lapply(c(here = "cpu", there = "cuda"), \(backend) {
    run_control(settle_control(flash_control(backend, "double")))
  })
  for (d in c(1, 2, 9, 16, 33, 64)) for (with in c("nothing", "weights", "factors")) for (n in c(2, 64, 1100)) {
    case <- left_out_case(n, d, with)
    whole <- lapply(controls, case$whole)
    told <- paste0("d = ", d, ", n = ", n, ", ", with)
    expect_equal(whole$there, whole$here, tolerance = 1e-10, info = told)
    half <- ceiling(n / 2)
    blocks <- list(seq_len(half), seq(half + 1, n))
    for (rows in unique(c(blocks, list(1, n, seq(max(1, half - 40), half))))) {
      expect_identical(case$some(seq_len(n), rows, controls$there), whole$there[rows], info = told)
      for (block in blocks) {
        sums <- lapply(controls, \(control) case$some(block, rows, control))
        expect_equal(sums$there, sums$here, tolerance = 1e-10, info = told)
      }
    }
  }
})

test_that("a GPU leaves points out of both stages in single precision, to the bounds of log densities", {
  skip_if_no_gpu()
  here <- run_control(settle_control(flash_control("cpu")))
  there <- run_control(settle_control(flash_control("cuda", "single")))
  kinds <- expand.grid(d = c(1, 2, 9, 16, 17, 70), n = c(64, 1100), with = c("nothing", "weights", "even weights"))
  for (kind in split(kinds, seq_len(nrow(kinds)))) {
    n <- kind$n
    d <- kind$d
    case <- left_out_case(n, d, kind$with, sqrt(0.5)) # a point beyond the reach of tensor cores is among them
    told <- paste0("d = ", d, ", n = ", n, ", ", kind$with)
    expect_promise(case$whole(there), case$whole(here), d, "single", told)
    half <- ceiling(n / 2)
    for (block in list(seq_len(half), seq(half + 1, n))) for (rows in list(1, n, seq(max(1, half - 40), half))) {
      expect_promise(case$some(block, rows, there), case$some(block, rows, here), d, "single", told)
    }
  }
})

# Twice the bound, as ?tolerance says of points with few neighbours.
test_that("leave-one-out log densities of an SD-KDE in single precision keep their bounds whatever the bandwidth", {
  skip_if_no_gpu()
  for (d in c(1, 3, 16)) for (h in c(0.02, 0.3, 3)) for (weighted in c(FALSE, TRUE)) {
    x <- example_points(2500, d)
    x[2400:2500, ] <- x[2300:2400, ] # ties
    w <- if (weighted) rep_len(c(1, 0, 2, 5), 2500)
    left_out <- function(...) {
      fit <- flash_kde(x, "sdkde", bandwidth = h, weights = w, control = flash_control(...))
      predict(fit, type = "log_density", loo = TRUE)
    }
    expect_promise(left_out("cuda", "single") / 2, left_out("cpu") / 2, d, "single", paste0("d = ", d, ", h = ", h))
  }
})

test_that("a GPU leaves out points beside a heavy one as the CPU does", {
  skip_if_no_gpu()
  for (n in c(5, 80, 1100)) for (ratio in 10^-c(2, 6, 16, 30)) {
    here <- heavy_cases(ratio, n, control = flash_control("cpu"))
    there <- heavy_cases(ratio, n, control = flash_control("cuda", "double"))
    for (kind in setdiff(names(here), c("compact", "window"))) {
      found <- lapply(list(here[[kind]], there[[kind]]), \(case) {
        predict(case$fit(seq_len(n)), loo = TRUE, type = "log_density")
      })
      expect_lt(max(abs(expm1(found[[2]] - found[[1]]))), 1e-11, label = paste(kind, n, ratio))
    }
  }
})
