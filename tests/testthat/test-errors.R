# Bad input gets one clear error of class flashkernel_error_argument that names the argument.

good <- example_points(20, 2)
fit <- flash_kde(good, estimator = "kde", bandwidth = 0.5)

test_that("an argument error has its class, the package's class and the user's call", {
  error <- tryCatch(flash_kde(good, bandwidth = -1), error = identity)
  expect_s3_class(error, c("flashkernel_error_argument", "flashkernel_error", "error", "condition"),
    exact = TRUE
  )
  expect_match(conditionMessage(error), "-1", fixed = TRUE)
  expect_identical(deparse(conditionCall(error)[[1]]), "flash_kde")
})

test_that("points that are not finite numbers are refused and located", {
  for (value in c(Inf, -Inf)) {
    bad <- replace(good, 23, value)
    expect_argument_error(flash_kde(bad, bandwidth = 1), "x")
    expect_argument_error(predict(fit, bad), "newdata")
    expect_argument_error(kernel_sum(bad, bandwidth = 1), "x")
    expect_argument_error(kernel_sum(good, bad, bandwidth = 1), "y")
    expect_argument_error(kernel_score(bad, bandwidth = 1), "x")
    expect_argument_error(kernel_score(good, bad, bandwidth = 1), "at")
    expect_error(flash_kde(bad, bandwidth = 1), "row 3, column `2`", fixed = TRUE)
  }
  for (value in c(NA, NaN)) {
    bad <- replace(good, 23, value)
    expect_argument_error(flash_kde(bad, bandwidth = 1, na.action = na.pass), "x")
    expect_argument_error(predict(fit, bad, na.action = na.fail), "newdata")
    expect_argument_error(kernel_sum(bad, bandwidth = 1), "x")
    expect_argument_error(kernel_score(good, bad, bandwidth = 1), "at")
    expect_argument_error(bw_scott(bad), "x")
    expect_argument_error(bw_lcv(bad), "x")
  }
})

test_that("points of another type are refused", {
  wrong <- list(
    NULL, "a", letters, list(1, 2), sum, globalenv(), matrix("1", 2, 2), 1i, as.raw(1:3),
    factor(1:3), Sys.Date(), data.frame(a = 1:2, b = c("u", "v")), data.frame(a = factor(1:2)),
    array(0, c(2, 2, 2)), quote(x)
  )
  for (x in wrong) {
    expect_argument_error(flash_kde(x, bandwidth = 1), "x")
    expect_argument_error(kernel_sum(x, bandwidth = 1), "x")
    expect_argument_error(kernel_score(x, bandwidth = 1), "x")
    expect_argument_error(bw_silverman(x), "x")
    if (!is.null(x)) expect_argument_error(predict(fit, x), "newdata")
  }
})

test_that("zero rows and zero columns are refused", {
  for (x in list(numeric(), matrix(0, 0, 2), matrix(0, 2, 0), faithful[0, ], faithful[, 0])) {
    expect_argument_error(flash_kde(x, bandwidth = 1), "x")
    expect_argument_error(kernel_sum(x, bandwidth = 1), "x")
    expect_argument_error(kernel_score(x, bandwidth = 1), "x")
    expect_argument_error(bw_scott(x), "x")
  }
})

test_that("newdata with other columns are refused", {
  named <- flash_kde(faithful, estimator = "kde", bandwidth = 1)
  expect_argument_error(predict(named, cbind(faithful, extra = 1)), "newdata")
  expect_argument_error(predict(named, faithful["waiting"]), "newdata")
  expect_argument_error(predict(named, setNames(faithful, c("a", "b"))), "newdata")
  expect_argument_error(predict(named, matrix(0, 3, 3)), "newdata")
  expect_argument_error(predict(named, c(3, 70)), "newdata")
  expect_identical(predict(named, faithful[2:1]), predict(named, faithful)) # order is by name
  expect_argument_error(kernel_sum(good, matrix(0, 3, 3), bandwidth = 1), "y")
  expect_argument_error(kernel_score(good, matrix(0, 3, 1), bandwidth = 1), "at")
})

test_that("weights that are not finite, non-negative and of length n are refused", {
  wrong <- list(
    rep(1, 19), rep(1, 21), numeric(), -1, replace(rep(1, 20), 3, -1e-9), rep(0, 20),
    replace(rep(1, 20), 3, Inf), rep("1", 20), as.list(rep(1, 20)), rep(.Machine$double.xmax, 20)
  )
  for (weights in wrong) {
    expect_argument_error(flash_kde(good, bandwidth = 1, weights = weights), "weights")
    expect_argument_error(kernel_sum(good, bandwidth = 1, weights = weights), "weights")
    expect_argument_error(kernel_score(good, bandwidth = 1, weights = weights), "weights")
    expect_argument_error(bw_silverman(good, weights = weights), "weights")
    expect_argument_error(bw_lcv(good, weights = weights), "weights")
  }
})

test_that("a bandwidth that is not positive definite is refused", {
  wrong <- list(
    0, -1, NaN, NA_real_, Inf, numeric(), c(1, 0), c(1, -1), 1:3, TRUE, list(1), sum,
    diag(c(1, 0)), diag(c(1, -1)), matrix(1, 2, 2), matrix(c(1, 0.5, 0.4, 1), 2),
    diag(3), matrix(1, 2, 1), matrix(c(1, NA, NA, 1), 2), matrix(c(Inf, 0, 0, 1), 2),
    matrix(c(1, 2, 2, 1), 2), 1i, array(1, c(2, 2, 1))
  )
  for (bandwidth in wrong) {
    expect_argument_error(flash_kde(good, bandwidth = bandwidth), "bandwidth")
    expect_argument_error(
      flash_kde(good, bandwidth = 1, score_bandwidth = bandwidth), "score_bandwidth"
    )
    expect_argument_error(kernel_sum(good, bandwidth = bandwidth), "bandwidth")
    expect_argument_error(kernel_score(good, bandwidth = bandwidth), "bandwidth")
  }
})

test_that("unknown names are refused and the known ones listed", {
  expect_argument_error(flash_kde(good, estimator = "histogram"), "estimator")
  expect_error(flash_kde(good, estimator = "histogram"), "sdkde.*kde.*laplace")
  expect_argument_error(flash_kde(good, bandwidth = "plugin"), "bandwidth")
  for (wrong in list("tpu", NA_character_, c("cpu", "cuda"), 1, list("cpu"), character())) {
    expect_argument_error(flash_kde(good, bandwidth = 1, backend = wrong), "backend")
    expect_argument_error(kernel_sum(good, bandwidth = 1, backend = wrong), "backend")
    expect_argument_error(flash_kde(good, bandwidth = 1, precision = wrong), "precision")
    expect_argument_error(kernel_score(good, bandwidth = 1, precision = wrong), "precision")
  }
  for (wrong in list("probability", NA_character_, 1, list("score"))) {
    expect_argument_error(predict(fit, type = wrong), "type")
  }
})

test_that("thread counts that are no counts are refused", {
  for (threads in list(0, -1, 1.5, NA, Inf, "2", c(1, 2), list(1))) {
    expect_argument_error(flash_kde(good, bandwidth = 1, threads = threads), "threads")
    expect_argument_error(kernel_sum(good, bandwidth = 1, threads = threads), "threads")
  }
})

test_that("a constant column has no automatic bandwidth, and is named", {
  flat <- data.frame(height = 1:10, depth = 7)
  for (bandwidth in list(NULL, "silverman", "scott", "lcv")) {
    expect_argument_error(flash_kde(flat, bandwidth = bandwidth), "x")
    expect_error(flash_kde(flat, bandwidth = bandwidth), "`depth`", fixed = TRUE)
  }
  expect_argument_error(bw_silverman(flat), "x")
  expect_argument_error(bw_nrd0(rep(3, 9)), "x")
  expect_argument_error(bw_sj(rep(3, 9)), "x")
  expect_argument_error(flash_kde(matrix(1:3, 1)), "x") # a single row has no spread either
  expect_s3_class(flash_kde(flat, bandwidth = 1), "flash_kde")
})

test_that("predict() takes one type, logical flags, and leave-one-out only without newdata", {
  expect_argument_error(predict(fit, type = "probability"), "type")
  expect_argument_error(predict(fit, se.fit = NA), "se.fit")
  expect_argument_error(predict(fit, loo = "yes"), "loo")
  expect_argument_error(predict(fit, good, loo = TRUE), "loo")
  expect_argument_error(predict(fit, good, speed = 2), "speed")
})

test_that("kernel_sum() refuses columns that do not fit its points", {
  for (b in list(1:19, matrix(1, 21, 2), "a", matrix(NA_real_, 20, 1), list(1), matrix(0, 20, 0))) {
    expect_argument_error(kernel_sum(good, b = b, bandwidth = 1), "b")
  }
})

test_that("simulate(), cdf(), quantile() and hdr_level() name what they cannot use", {
  line <- flash_kde(faithful$eruptions, estimator = "kde", bandwidth = 0.3)
  for (nsim in list(-1, 1.5, NA, "a", c(1, 2), Inf)) {
    expect_argument_error(simulate(fit, nsim = nsim), "nsim")
  }
  expect_argument_error(quantile(line, 1.5), "probs")
  expect_argument_error(quantile(line, "a"), "probs")
  expect_argument_error(quantile(line, NaN), "probs")
  expect_argument_error(cdf(line, "a"), "q")
  for (prob in list(-0.1, 1.1, NA, "a", numeric())) {
    expect_argument_error(hdr_level(fit, prob), "prob")
  }
  expect_argument_error(cdf(fit, 1), "object") # two variables
  expect_argument_error(quantile(fit, 0.5), "x")
})

test_that("points beyond the memory limit are refused before anything is computed", {
  before <- options(flashkernel.memory_limit = 100)
  on.exit(options(before))
  expect_argument_error(flash_kde(good, bandwidth = 1), "x")
  expect_error(flash_kde(good, bandwidth = 1), "memory")
  expect_argument_error(kernel_sum(good, bandwidth = 1), "x")
  expect_argument_error(predict(fit, good), "newdata")
})

test_that("asking for CUDA where there is none is one clear error, never a silent CPU run", {
  skip_if(isTRUE(backend_info()$cuda_built), "this build has CUDA")
  for (call in expression(
    flash_kde(good, bandwidth = 1, backend = "cuda"),
    kernel_sum(good, bandwidth = 1, backend = "cuda"),
    kernel_score(good, bandwidth = 1, backend = "cuda")
  )) {
    expect_error(eval(call), "CUDA", class = "flashkernel_error", ignore.case = TRUE)
  }
})

test_that("the fast precision either runs or says in one error that it is not there", {
  result <- tryCatch(
    predict(flash_kde(good, estimator = "kde", bandwidth = 1, precision = "fast")),
    flashkernel_error = identity
  )
  if (inherits(result, "error")) {
    expect_s3_class(result, "flashkernel_error")
    expect_match(conditionMessage(result), "fast")
  } else {
    want <- exp(ref_log_kde(good, good, diag(2)))
    expect_lt(sqrt(sum((result - want)^2) / sum(want^2)), 2e-3)
  }
})
