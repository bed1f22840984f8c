# Ctrl-C stops long work on the CPU at once, leaks nothing and leaves the session in order; forking is safe.

# One piece of work after the other, each far too long to finish and each to be interrupted.
interrupted_session <- function(folder, do_rounds) {
  resident <- function() {
    if (!file.exists("/proc/self/status")) return(NA_real_)
    line <- grep("^VmRSS:", readLines("/proc/self/status"), value = TRUE)
    as.numeric(gsub("[^0-9]", "", line)) * 1024
  }
  set.seed(1)
  x <- matrix(stats::rnorm(8 * 250000), ncol = 8)
  fit <- \(x, estimator) flash_kde(x, estimator, bandwidth = 0.5, control = flash_control(backend = "cpu"))
  kde <- fit(x, "kde")
  laplace <- fit(x, "laplace")
  small <- fit(x[1:40000, ], "sdkde")
  op <- kernel_operator(x[1:5000, ], x, bandwidth = 0.5, tol = 0, control = flash_control(backend = "cpu"))
  work <- expression(
    fit(x, "sdkde"),
    predict(kde),
    predict(laplace, x[250000:1, ], type = "score"),
    predict(small, loo = TRUE),
    kde_bandwidth(x, "lcv", "kde", control = flash_control(backend = "cpu")),
    kernel_sum(
      x, x[250000:1, ], cbind(1, x), bandwidth = 0.5, control = flash_control(backend = "cpu", precision = "single")
    , tol = 0),
    flashkernel:::normal_product(op, matrix(1, 5000, 60)),
    fit(x, "sdkde")
  )
  rounds <- do_rounds(work, environment(), folder, \() {
    gc()
    list(resident = resident())
  })
  after <- predict(fit(x[1:100, ], "kde"))
  list(rounds = rounds, after = after, first = x[1:100, ])
}

test_that("an interrupt stops long work at once, leaks nothing, and the session goes on", {
  skip_on_cran()
  skip_on_os("windows")
  skip_if_not_installed("callr")
  skip_if(nzchar(Sys.getenv("FLASHKERNEL_SANITIZER")), "a sanitizer is too slow for timings")
  got <- interrupt_child(interrupted_session, 8)
  message("interrupted after ", paste(sprintf("%.3f", got$latency), collapse = ", "), " s")
  want <- exp(ref_log_kde(got$first, got$first, diag(0.25, 8)))
  expect_within(got$after / want, rep(1, 100), 1e-11)
  resident <- vapply(got$rounds, `[[`, 0, "resident")
  # The last piece of work is the first again: less than one copy of the points may have stayed.
  if (!anyNA(resident)) expect_lt(resident[8] - resident[1], 8 * 8 * 250000)
})

test_that("a forked child computes the same, after the parent has used its threads", {
  skip_on_os("windows")
  result <- in_child(function() {
    set.seed(1)
    x <- matrix(stats::rnorm(9000), ncol = 3)
    fit <- flash_kde(x, estimator = "sdkde", bandwidth = 0.5, control = flash_control(threads = 2))
    before <- predict(fit, x[1:500, ])
    forked <- parallel::mclapply(1:2, \(i) predict(fit, x[1:500, ]), mc.cores = 2)
    refit <- parallel::mclapply(1:2, \(i) {
      flash_kde(x, estimator = "sdkde", bandwidth = 0.5, control = flash_control(threads = 2))$debiased
    }, mc.cores = 2)
    list(
      before = before, forked = forked, after = predict(fit, x[1:500, ]),
      debiased = fit$debiased, refit = refit
    )
  }, timeout = 60)
  expect_identical(result$forked, list(result$before, result$before))
  expect_identical(result$after, result$before)
  expect_identical(result$refit, list(result$debiased, result$debiased))
})
