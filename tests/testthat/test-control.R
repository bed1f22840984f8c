# flash_control(), what `control` means to the functions that take it, and the engine of a fit.

x <- example_points(60, 2)
y <- example_points(10, 2)
set.seed(11)
many <- matrix(stats::runif(6000), ncol = 2)

test_that("a control holds what was said, and prints it", {
  control <- flash_control("cpu", tol = 1e-6, devices = "all", memory_limit = 1e9)
  expect_s3_class(control, "flash_control")
  expect_identical(control$backend, "cpu")
  expect_null(control$precision)
  shown <- capture.output(print(control))
  expect_match(shown, "backend: +\"cpu\"", all = FALSE)
  expect_match(shown, "tol: +1e-06", all = FALSE)
  expect_match(shown, "memory_limit: +1 GB", all = FALSE)
  expect_no_match(shown, "precision")
  expect_output(print(flash_control()), "all by default")
  expect_identical(flash_control(precision = "sing")$precision, "single")
  capture.output(expect_invisible(print(control)))
})

test_that("every part of a control is checked when it is made", {
  wrong <- list(
    backend = "gpu", precision = "half", threads = 0, devices = -1, engine = "all", tol = 2, tol_type = "local",
    memory_limit = "1 GB", chunk_bytes = 1, device_memory = -1, host_memory = -1,
    gpu_memory_limit = 0, cluster = 2, worker_timeout = 0
  )
  expect_setequal(names(wrong), names(formals(flash_control)))
  for (name in names(wrong)) expect_argument_error(do.call(flash_control, wrong[name]), name)
  expect_argument_error(flash_control(devices = integer()), "devices")
  for (bytes in list(NA, Inf, c(1, 2), 0)) expect_argument_error(flash_control(memory_limit = bytes), "memory_limit")
})

test_that("a control that was changed by hand is checked where it is used", {
  control <- flash_control("cpu")
  control$backend <- "gpu"
  expect_argument_error(flash_kde(x, bandwidth = 1, control = control), "backend")
})

test_that("all functions that sum refuse a control that is none", {
  fit <- flash_kde(x, "kde", bandwidth = 1)
  calls <- expression(
    flash_kde(x, bandwidth = 1, control = control), flash_kde(~eruptions, faithful, bandwidth = 1, control = control),
    predict(fit, y, control = control), kernel_sum(x, bandwidth = 1, control = control, tol = 0),
    kernel_sum(x, bandwidth = 1, control = control, type = "score"), kernel_sum(x, bandwidth = 1, control = control),
    kde_bandwidth(x, "lcv", control = control), kde_bandwidth(x, "lscv", control = control)
  )
  for (control in list(list(thread = 2), list(2), "cpu", 1)) {
    for (call in calls) expect_argument_error(eval(call), "control")
  }
})

test_that("a control is the same as its parts by their short names", {
  control <- flash_control("cpu", "single", threads = 1)
  values <- \(control) list(
    predict(flash_kde(x, bandwidth = 1, control = control), y),
    lapply(c("sum", "log", "score"), \(type) as.vector(kernel_sum(x, y, bandwidth = 1, type = type, control = control))),
    kde_bandwidth(x, "lcv", "kde", control = control), kde_bandwidth(x, "lscv", control = control)
  )
  expect_identical(values(control), values(list(backend = "cpu", precision = "single")))
  expect_identical(
    predict(flash_kde(~ eruptions + waiting, faithful, bandwidth = 1, control = control)),
    predict(flash_kde(faithful, bandwidth = 1, control = control))
  )
  expect_identical(diagnostics(kernel_sum(x, y, bandwidth = 1, tol = 0, control = control))$precision, "single")
})

test_that("`tol` beside a control counts before that of the control, and no other part changes", {
  control <- flash_control(precision = "single", threads = 1, tol = 1e-3)
  fit <- flash_kde(x, bandwidth = 1, tol = 1e-2, control = control)
  expect_identical(fit[c("precision", "threads", "tol")], list(precision = "single", threads = 1, tol = 1e-2))
  # also where it is the default, and by a formula
  expect_identical(flash_kde(x, bandwidth = 1, tol = 0, control = control)$tol, 0)
  expect_identical(flash_kde(~eruptions, faithful, bandwidth = 1, tol = 0, control = control)$tol, 0)
  record <- diagnostics(kernel_sum(x, bandwidth = 1, tol = 0, control = control))
  expect_identical(record[c("tol", "precision")], list(tol = 0, precision = "single"))
})

test_that("what a control does not say is left to the function", {
  control <- flash_control(threads = 1)
  expect_identical(diagnostics(kernel_sum(x, bandwidth = 1, control = control))$tol, 1e-6)
  expect_identical(flash_kde(x, bandwidth = 1, control = control)$tol, 0)
  fit <- flash_kde(x, "kde", bandwidth = 1, control = flash_control(precision = "single", tol_type = "pointwise"), tol = 1e-3)
  expect_identical(predict(fit, y, control = control), predict(fit, y))
})

test_that("predict() goes by the fit, by a control before it, and by `tol` before that", {
  fit <- flash_kde(many, "kde", bandwidth = 0.02, control = flash_control(backend = "cpu", engine = "fast"), tol = 1e-3)
  exact <- predict(flash_kde(many, "kde", bandwidth = 0.02, control = flash_control(backend = "cpu")), many)
  expect_false(identical(predict(fit, many), exact))
  expect_identical(predict(fit, many, control = flash_control(engine = "exact")), exact)
  expect_identical(predict(fit, many, control = flash_control(engine = "auto"), tol = 0), exact)
})

test_that("limits of memory hold for the call, and leave the options as they were", {
  before <- options(flashkernel.memory_limit = NULL, flashkernel.chunk_bytes = NULL)
  on.exit(options(before))
  little <- flash_control(memory_limit = 1000)
  for (points in list(x, as.data.frame(x))) {
    expect_argument_error(flash_kde(points, bandwidth = 1, control = little), "x")
    for (type in c("sum", "score")) {
      expect_argument_error(kernel_sum(points, bandwidth = 1, control = little, type = type), "x")
    }
  }
  expect_null(getOption("flashkernel.memory_limit"))
  # over the option
  options(flashkernel.memory_limit = 1000)
  fit <- flash_kde(x, bandwidth = 1, control = flash_control(memory_limit = 1e8))
  expect_identical(getOption("flashkernel.memory_limit"), 1000)
  # the fit keeps it
  expect_identical(fit$memory_limit, 1e8)
  expect_length(predict(fit, y), 10)
  expect_length(hdr_level(fit, 0.5), 1)
  expect_identical(nrow(simulate(fit, 100)), 100L)
  expect_argument_error(predict(fit, y, control = little), "newdata")
  expect_argument_error(flash_kde(x, bandwidth = 1), "x")
})

test_that("the chunks of a control are those of the option", {
  big <- big_matrix(x)
  fit <- flash_kde(big, bandwidth = 1, control = flash_control(chunk_bytes = 400, backend = "cpu"))
  expect_identical(fit$chunk_bytes, 400)
  want <- predict(flash_kde(x, "kde", bandwidth = 1, control = flash_control(backend = "cpu")), y)
  expect_within(predict(fit, y), want, 1e-12)
  before <- options(flashkernel.chunk_bytes = 400)
  on.exit(options(before))
  expect_identical(predict(flash_kde(big, bandwidth = 1, control = flash_control(backend = "cpu")), y), predict(fit, y))
})

test_that("what C gets has the device's memory as asked", {
  expect_identical(control_list(device_memory = 1e9)$device_memory, 1e9)
  expect_null(control_list()$device_memory)
  expect_identical(control_list(gpu_memory_limit = 1e9)$gpu_memory_limit, 1e9)
})

# ---- the engine of a fit ------------------------------------------------------------------------

test_that("a fit keeps its engine, and all that it computes goes by it", {
  for (estimator in c("sdkde", "kde", "laplace")) {
    fit_by <- \(engine) flash_kde(many, estimator, 0.02, control = flash_control("cpu", engine = engine), tol = 1e-4)
    fit <- fit_by("fast")
    expect_identical(fit$engine, "fast")
    expect_identical(diagnostics(fit)$engine, "fast", label = estimator)
    expect_identical(diagnostics(fit)$requested$engine, "fast")
    expect_identical(diagnostics(fit)$tolerance$engine, "fast", label = estimator)
    expect_output(print(diagnostics(fit)), ", fast, [a-z]+ precision")
    expect_identical(update(fit, control = flash_control(engine = "exact"))$engine, "exact")
    exact <- fit_by("exact")
    expect_identical(predict(exact, y), predict(flash_kde(many, estimator, 0.02, control = flash_control("cpu")), y))
    top <- max(abs(predict(exact, many)))
    expect_lte(max(abs(predict(fit, many) - predict(exact, many))), 2e-3 * top)
  }
})

test_that("a fast engine that there is not is an error at the fit", {
  expect_argument_error(flash_kde(x, bandwidth = 1, control = flash_control(engine = "fast")), "tol")
  expect_error(
    flash_kde(example_points(50, 8), bandwidth = 1, control = flash_control(engine = "fast"), tol = 1e-3), "8 dimensions",
    class = "flashkernel_error_unsupported"
  )
  expect_argument_error(flash_kde(x, bandwidth = 1, control = flash_control(engine = "grid")), "engine")
  expect_argument_error(predict(flash_kde(x, bandwidth = 1), y, control = flash_control(engine = "fast")), "tol")
})

test_that("leave-one-out values of an SD-KDE are exact sums whatever its engine is", {
  fits <- lapply(c("fast", "exact"), \(engine) {
    flash_kde(x, bandwidth = 1, control = flash_control(backend = "cpu", engine = engine), tol = 1e-3)
  })
  expect_identical(predict(fits[[1]], loo = TRUE), predict(fits[[2]], loo = TRUE))
})

# ---- fits ---------------------------------------------------------------------------------------

test_that("fits saved by earlier versions predict and print as they did", {
  for (estimator in c("sdkde", "kde", "laplace")) {
    fit <- flash_kde(x, estimator, bandwidth = 1)
    old <- fit
    old$diagnostics <- flashkernel:::fit_record(fit)
    new_fields <- c("engine", "memory_limit", "chunk_bytes", "device_memory", "host_memory", "gpu_memory_limit", "factor", "computed")
    old[c(new_fields, "tol", "tol_type", "devices")] <- NULL
    expect_identical(predict(old, y), predict(fit, y))
    expect_identical(predict(old, loo = TRUE), predict(fit, loo = TRUE))
    expect_identical(capture.output(print(old)), capture.output(print(fit)))
    expect_identical(diagnostics(old)$stages, diagnostics(fit)$stages)
  }
})

test_that("the kept factor is that of the bandwidth, also of one that was put into the fit", {
  fit <- flash_kde(x, "kde", bandwidth = 1)
  fit$bandwidth <- diag(4, 2)
  expect_identical(predict(fit, y), predict(flash_kde(x, "kde", bandwidth = 2), y))
})
