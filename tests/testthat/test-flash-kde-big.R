# A fit reads its rows in pieces of so many; the expectations in `code` see that.
in_pieces <- function(rows, code, d = 2) {
  old <- options(flashkernel.chunk_bytes = 8 * (d + 1) * rows)
  on.exit(options(old))
  force(code)
}

big_case <- function(n = 730, d = 2, seed = 1) {
  testthat::skip_if_not_installed("bigmemory")
  set.seed(seed)
  x <- matrix(stats::rnorm(n * d), n, dimnames = list(NULL, paste0("v", seq_len(d))))
  list(
    x = x, big = big_matrix(x), w = stats::runif(n),
    y = rbind(matrix(stats::rnorm(60 * d), 60), rep(30, d), rep(-300, d))
  )
}

both_fits <- function(case, ...) {
  list(big = flash_kde(case$big, ..., control = flash_control(backend = "cpu")), small = flash_kde(case$x, ..., control = flash_control(backend = "cpu")))
}

test_that("a big.matrix gives the predictions of the matrix, in the far tails, too", {
  case <- big_case()
  in_pieces(100, {
    for (estimator in c("kde", "laplace")) for (weights in list(NULL, case$w)) {
      fits <- both_fits(case, estimator = estimator, bandwidth = 0.4, weights = weights)
      at <- \(fit, ...) suppressWarnings(predict(fit, ...))
      for (type in c("density", "log_density", "score")) {
        expect_equal(at(fits$big, case$y, type), at(fits$small, case$y, type), tolerance = 1e-9, label = paste(estimator, type))
        expect_equal(at(fits$big, type = type), at(fits$small, type = type), tolerance = 1e-9, label = paste(estimator, type))
      }
      se <- \(fit) at(fit, case$y[1:60, ], se.fit = TRUE)
      expect_equal(se(fits$big), se(fits$small), tolerance = 1e-8)
    }
  })
})

test_that("a big.matrix leaves each row out of its own piece", {
  case <- big_case()
  in_pieces(100, {
    for (estimator in c("kde", "laplace")) {
      fits <- both_fits(case, estimator = estimator, bandwidth = matrix(c(0.2, 0.05, 0.05, 0.3), 2), weights = case$w)
      loo <- \(fit, type) suppressWarnings(predict(fit, type = type, loo = TRUE))
      expect_equal(loo(fits$big, "log_density"), loo(fits$small, "log_density"), tolerance = 1e-9)
      expect_equal(loo(fits$big, "score"), loo(fits$small, "score"), tolerance = 1e-9)
      expect_equal(suppressWarnings(logLik(fits$big)), suppressWarnings(logLik(fits$small)), tolerance = 1e-9)
    }
    # a last piece of one row has no others in it
    case <- big_case(n = 201)
    fits <- both_fits(case, estimator = "kde", bandwidth = 0.4)
    expect_equal(predict(fits$big, type = "log_density", loo = TRUE), predict(fits$small, type = "log_density", loo = TRUE))
    expect_equal(predict(fits$big, type = "score", loo = TRUE), predict(fits$small, type = "score", loo = TRUE))
  })
})

test_that("a big.matrix keeps the tolerance, and logarithms of what it does not tell from zero", {
  case <- big_case(n = 20000)
  in_pieces(1500, {
    y <- case$y
    exact <- predict(flash_kde(case$x, "kde", bandwidth = 0.3, control = flash_control(backend = "cpu")), y, type = "log_density")
    for (type in c("global", "pointwise")) {
      fit <- flash_kde(case$big, bandwidth = 0.3, control = flash_control(backend = "cpu", tol_type = type), tol = 1e-4)
      found <- predict(fit, y, type = "log_density")
      error <- abs(exp(found) - exp(exact)) / (if (type == "global") max(exp(exact)) else exp(exact))
      expect_lte(max(error[1:60]), 1e-4, label = type)
      expect_equal(found[61:62], exact[61:62], tolerance = 1e-6, label = type)
    }
    global <- flash_kde(case$big, bandwidth = 0.3, control = flash_control(backend = "cpu"), tol = 1e-4)
    own <- predict(global)
    want <- predict(flash_kde(case$x, "kde", bandwidth = 0.3, control = flash_control(backend = "cpu")))
    expect_lte(max(abs(own - want)) / max(want), 1e-4)
    expect_lte(diagnostics(global)$tolerance$achieved, 1e-4)
  })
})

test_that("errors of a big.matrix's pieces add up to its bound, but relative to each target the largest counts", {
  case <- big_case(n = 8000)
  sums <- function(x, tol, type) {
    run <- run_control(settle_control(NULL, list(backend = "cpu", engine = "fast", tol = tol, tol_type = type)))
    log_sum(sum_sources(x, NULL, diag(0.3, 2)), case$y[1:60, ], ESTIMATORS$laplace$factor(2), FALSE, run)$stats
  }
  for (type in c("global", "pointwise")) {
    whole <- in_pieces(2000, d = 1, sums(case$big, 1e-3, type))
    each <- lapply(split(seq_len(8000), rep(1:4, each = 2000)), \(rows) {
      sums(case$x[rows, ], if (type == "global") 1e-3 / 4 else 1e-3, type)
    })
    join <- if (type == "global") sum else max
    for (what in c("tol_bound", "tol_achieved")) {
      parts <- vapply(each, `[[`, 0, what)
      expect_true(all(parts > 0))
      expect_equal(whole[[what]], join(parts), tolerance = 1e-12, label = paste(type, what))
    }
  }
})

test_that("floats in a file are read as they are, and a fit that lost its file says so", {
  case <- big_case(n = 300)
  folder <- tempfile()
  dir.create(folder)
  file <- bigmemory::big.matrix(300, 2, type = "float", backingpath = folder, backingfile = "x", descriptorfile = "x.desc")
  old <- options(bigmemory.typecast.warning = FALSE)
  file[, ] <- case$x
  options(old)
  fit <- flash_kde(file, bandwidth = 0.4, control = flash_control(backend = "cpu"))
  rounded <- flash_kde(file[, ], "kde", bandwidth = 0.4, control = flash_control(backend = "cpu"))
  in_pieces(70, expect_equal(predict(fit, case$y, "log_density"), predict(rounded, case$y, "log_density")))
  lost <- unserialize(serialize(fit, NULL))
  expect_error(predict(lost, case$y), "`object` must be attached", class = "flashkernel_error_argument")
  lost$x <- bigmemory::attach.big.matrix(file.path(folder, "x.desc"))
  expect_identical(predict(lost, case$y), predict(fit, case$y))
  unlink(folder, recursive = TRUE)
})

test_that("rows of weight 0 and whole pieces of them do not count", {
  case <- big_case(n = 400)
  in_pieces(100, {
    w <- replace(case$w, 101:250, 0)
    fits <- both_fits(case, estimator = "kde", bandwidth = 0.4, weights = w)
    expect_equal(predict(fits$big, case$y), predict(fits$small, case$y))
    expect_equal(logLik(fits$big), logLik(fits$small))
  })
})

test_that("draws from a big.matrix are those from the matrix", {
  case <- big_case()
  in_pieces(100, {
    for (estimator in c("kde", "laplace")) {
      fits <- both_fits(case, estimator = estimator, bandwidth = 0.4)
      expect_equal(simulate(fits$big, 50, seed = 3), simulate(fits$small, 50, seed = 3))
    }
    expect_output(print(fits$big), "730 in 2 dimensions")
  })
})

test_that("what a big.matrix cannot have is refused by name, before it is read", {
  case <- big_case(n = 50)
  expect_error(flash_kde(case$big, "sdkde", bandwidth = 1), "`estimator`.*big.matrix", class = "flashkernel_error_argument")
  expect_error(flash_kde(case$big), "`bandwidth` must be given", class = "flashkernel_error_argument")
  expect_error(flash_kde(case$big, bandwidth = "lcv"), "`bandwidth` must be given", class = "flashkernel_error_argument")
  expect_error(flash_kde(case$big, bandwidth = 1:3), "`bandwidth`", class = "flashkernel_error_argument")
  expect_error(flash_kde(case$big, bandwidth = 1, weights = 1:3), "`weights`", class = "flashkernel_error_argument")
  expect_error(flash_kde(case$big, bandwidth = 1, H = 2), "`H`", class = "flashkernel_error_argument")
  case$big[7, 2] <- NA
  expect_error(flash_kde(case$big, bandwidth = 1), "row 7.*rows 1 to 50", class = "flashkernel_error_argument")
  fit <- flash_kde(big_case(n = 50)$big, bandwidth = 1)
  for (method in list(summary, as.data.frame, plot, hdr_level)) {
    expect_error(method(fit), "big.matrix", class = "flashkernel_error_argument")
  }
  one <- flash_kde(big_case(n = 50, d = 1)$big, bandwidth = 1)
  expect_error(quantile(one), "`x` has its points in a big.matrix", class = "flashkernel_error_argument")
  expect_error(kde_cdf(one, 0), "big.matrix", class = "flashkernel_error_argument")
})
