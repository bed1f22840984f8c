# A fit and a prediction on a GPU send their points while they check them (send_points()). What is computed has the bits of
# points that are sent when they are summed, as they are where operators may keep nothing on the device.

sent_case <- function(n = 20000, m = 12000, d = 3) {
  set.seed(n)
  list(x = matrix(stats::rnorm(n * d), n), y = matrix(stats::rnorm(m * d), m), w = stats::runif(n))
}

sent_control <- function(..., precision = "single") flash_control(backend = "cuda", precision = precision, ...)

test_that("densities have the same bits whether their points were sent before or not", {
  skip_if_no_gpu()
  case <- sent_case()
  case$y[7, ] <- 40 # in the tails
  for (estimator in c("kde", "laplace", "sdkde")) {
    for (weights in list(NULL, case$w)) {
      for (precision in c("single", "double")) {
        of <- function(...) {
          control <- sent_control(precision = precision, ...)
          fit <- flash_kde(case$x, estimator, bandwidth = 0.4, weights = weights, control = control)
          at <- \(...) suppressWarnings(predict(fit, ...), "flashkernel_warning_negative") # of "laplace"
          list(at(case$y, "log_density"), at(case$y, "log_density"), at())
        }
        expect_identical(of(), of(device_memory = 0), info = paste(estimator, precision))
      }
    }
  }
})

test_that("points that are sent are checked", {
  skip_if_no_gpu()
  case <- sent_case()
  fit <- flash_kde(case$x, "kde", bandwidth = 0.4, control = sent_control())
  density <- predict(fit, case$y)
  case$y[5000, 2] <- NA
  expect_identical(predict(fit, case$y), replace(density, 5000, NA))
  case$y[5000, 2] <- Inf
  expect_error(predict(fit, case$y), "row 5000", class = "flashkernel_error_argument")
  case$x[19999, 3] <- -Inf
  expect_error(flash_kde(case$x, "kde", bandwidth = 0.4, control = sent_control()), "row 19999")
  case$x[19999, 3] <- NA
  fits <- lapply(list(case$x, case$x[-19999, ]), flash_kde, "sdkde", bandwidth = 0.4, control = sent_control())
  expect_identical(predict(fits[[1]], case$y[1:100, ]), predict(fits[[2]], case$y[1:100, ]))
})

test_that("points that were sent are not those of a later call, and a fit that is saved is summed again", {
  skip_if_no_gpu()
  case <- sent_case()
  fit <- flash_kde(case$x, "kde", bandwidth = 0.4, control = sent_control())
  before <- predict(fit, case$y)
  case$y[1:10, ] <- case$y[1:10, ] + 1
  expect_identical(predict(fit, case$y)[-(1:10)], before[-(1:10)])
  expect_false(any(predict(fit, case$y)[1:10] == before[1:10]))
  waiting <- flash_kde(case$x, "kde", bandwidth = 0.4, control = sent_control())
  case$x[1, ] <- 9
  other <- flash_kde(case$x, "kde", bandwidth = 0.4, control = sent_control())
  expect_false(identical(predict(other, case$y), predict(waiting, case$y)))
  expect_identical(predict(waiting, case$y), predict(fit, case$y))
  unsummed <- flash_kde(case$x, "kde", bandwidth = 0.4, control = sent_control())
  bytes <- serialize(unsummed, NULL)
  expect_lt(length(bytes), 1.1 * utils::object.size(case$x))
  expect_identical(predict(unserialize(bytes), case$y), predict(other, case$y))
})

test_that("memory of points that were sent is free after their sum, and when nobody sums them", {
  skip_if_no_gpu()
  case <- sent_case()
  gpu_release()
  invisible(gc())
  cached <- \() sum(gpu_info()$cached)
  fit <- flash_kde(case$x, "kde", bandwidth = 0.4, control = sent_control())
  expect_gte(cached(), 8 * length(case$x))
  rm(fit)
  invisible(gc())
  expect_equal(cached(), 0)
})
