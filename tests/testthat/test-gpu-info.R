# What the package says about GPUs, and what holds on machines without one.

internal <- asNamespace("flashkernel")
good <- example_points(60, 2)

DEVICE_FIELDS <- c(
  "index", "name", "capability", "multiprocessors", "memory_total", "memory_free",
  "architecture_built", "cached", "memory_peak"
)

# What C reports for two devices, the second without code in this build.
two_devices <- function() {
  structure(class = "flashkernel_gpu_info", list(
    engine = "engine.so", toolkit = "13.0", architectures = "80 90a", driver = "13.0", status = "available",
    index = 0:1, name = c("NVIDIA H200", "Quadro K2"), capability = c("9.0", "3.5"),
    multiprocessors = c(132L, 2L), memory_total = c(150e9, 2^31), memory_free = c(149e9, 2^30),
    architecture_built = c(TRUE, FALSE), cached = c(1e6, 0), memory_peak = c(2e6, 0)
  ))
}

test_that("gpu_info() describes the build, the driver and every device, and never fails", {
  info <- gpu_info()
  expect_s3_class(info, "flashkernel_gpu_info")
  expect_named(info, c("engine", "toolkit", "architectures", "driver", "status", DEVICE_FIELDS, "cpu"))
  expect_identical(!is.na(info$engine), flashkernel:::backend_info()$gpu_engine)
  expect_match(info$status, "[a-z]")
  expect_length(info$status, 1)
  expect_length(unique(lengths(unclass(info)[DEVICE_FIELDS])), 1)
  for (field in c("memory_total", "memory_free", "cached", "memory_peak")) expect_type(info[[field]], "double")
})

test_that("gpu_info() tells why CUDA is off", {
  info <- gpu_info()
  skip_if(info$status == "available", "CUDA is on")
  expect_gt(nchar(info$status), 10)
  expect_output(print(info), info$status, fixed = TRUE)
  off <- two_devices()
  off$status <- "no CUDA driver is installed"
  off$driver <- NA_character_
  off[DEVICE_FIELDS] <- lapply(unclass(off)[DEVICE_FIELDS], \(field) field[0])
  expect_output(print(off), "not available, no CUDA driver is installed\nEngine with CUDA 13.0 [^;]*$")
})

test_that("gpu_info() prints a line for every device and returns its argument", {
  info <- two_devices()
  text <- utils::capture.output(returned <- withVisible(print(info)))
  expect_identical(returned, list(value = info, visible = FALSE))
  expect_match(text[1], "CUDA: available")
  expect_match(text[2], "13.0.*80 90a.*driver.*13.0")
  expect_match(text, "0 +NVIDIA H200 +9.0 +132 +150 GB .*yes", all = FALSE)
  expect_match(text, "1 +Quadro K2 .* 2.1 GB .*no code", all = FALSE)
})

test_that("gpu_release() is harmless, as often as it is called, and silent", {
  expect_silent(gpu_release())
  expect_invisible(gpu_release())
  expect_null(gpu_release())
  expect_identical(predict(flash_kde(good, bandwidth = 1)), predict(flash_kde(good, bandwidth = 1)))
})

# ---- devices ----------------------------------------------------------------------------------

test_that("devices become whole numbers for C, and the option holds where none are given", {
  check <- internal$check_devices
  expect_identical(check(NULL), integer())
  expect_identical(check("all"), -1L)
  expect_identical(check(0), 0L)
  expect_identical(check(c(2, 0)), c(2L, 0L))
  before <- options(flashkernel.devices = 1:2)
  on.exit(options(before))
  expect_identical(check(NULL), 1:2)
  expect_identical(check(0), 0L)
  options(flashkernel.devices = "none")
  expect_argument_error(check(NULL), "devices")
})

test_that("devices that are no device numbers are refused by every function that takes them", {
  fit <- flash_kde(good, "kde", bandwidth = 1)
  wrong <- list(-1, 0.5, NA, NA_real_, Inf, "0", "any", c(0, 0), list(0), integer(), TRUE, 1e10, 0:16)
  for (devices in wrong) {
    expect_argument_error(flash_kde(good, bandwidth = 1, control = flash_control(devices = devices)), "devices")
    expect_argument_error(kernel_sum(
      good, bandwidth = 1, tol = 0,
      control = flash_control(devices = devices)
    ), "devices")
    expect_argument_error(kernel_sum(
      good, bandwidth = 1, type = "score",
      control = flash_control(devices = devices)
    ), "devices")
    expect_argument_error(predict(fit, control = flash_control(devices = devices)), "devices")
  }
  expect_argument_error(flash_kde(~eruptions, faithful, control = flash_control(devices = -1)), "devices")
  expect_argument_error(kde_bandwidth(good, "lcv", "kde", devices = -1), "devices")
  expect_argument_error(kde_bandwidth(good, "lscv", devices = -1), "devices")
  expect_error(flash_kde(good, bandwidth = 1, control = flash_control(devices = c(1, 1))), "1 twice")
})

test_that("a fit keeps the devices as asked, and one from before there were any still works", {
  fit <- flash_kde(good, bandwidth = 1, control = flash_control(devices = "all"))
  expect_identical(fit$devices, "all")
  expect_identical(diagnostics(fit)$requested$devices, "all")
  want <- predict(fit)
  old <- fit
  old[c("devices", "engine", "factor", "computed")] <- NULL
  old$diagnostics <- diagnostics(fit)
  old$diagnostics[c("devices", "reason")] <- NULL
  old$diagnostics$stages$device_seconds <- NULL
  expect_identical(predict(old), want)
  expect_identical(predict(old, control = flash_control(devices = 0)), want)
  expect_output(print(old), "Points: ")
  expect_output(print(diagnostics(old)), "sums on cpu")
  expect_output(print(diagnostics(old)), "pairs_per_second")
})

# ---- the CPU ----------------------------------------------------------------------------------

test_that("backend = \"cuda\" without a GPU is one clear error, at the fit or at the sum", {
  skip_if(has_gpu(), "this machine has a CUDA device")
  fit <- flash_kde(good, "kde", bandwidth = 1)
  for (call in expression(
    flash_kde(good, bandwidth = 1, control = flash_control("cuda")),
    flash_kde(good, "kde", bandwidth = 1, control = flash_control("cuda")), # sums nothing itself
    predict(fit, control = flash_control("cuda")),
    kernel_sum(good, bandwidth = 1, control = flash_control("cuda"), tol = 0),
    kernel_sum(good, bandwidth = 1, control = flash_control("cuda"), type = "score"),
    kde_bandwidth(good, "lcv", "kde", control = list(backend = "cuda"))
  )) {
    error <- tryCatch(eval(call), error = identity)
    expect_s3_class(error, c("flashkernel_error_no_device", "flashkernel_error", "error", "condition"), exact = TRUE)
    expect_match(conditionMessage(error), "GPU|CUDA")
  }
})

test_that("\"auto\" without a GPU computes on the CPU and says nothing", {
  skip_if(has_gpu(), "this machine has a CUDA device")
  x <- example_points(3000, 2)
  expect_silent(fit <- flash_kde(x, bandwidth = 0.5, control = flash_control(devices = 3)))
  expect_silent(predict(fit, x[1:100, ]))
  found <- diagnostics(fit)
  expect_identical(found$backend, "cpu")
  expect_identical(found$devices, integer())
  expect_identical(found$precision, "double")
  expect_identical(found$stages$device_seconds, NA_real_)
  # a job that a GPU would win
  huge <- internal$resolve_control(control_list(), 1e7, 1e7, 16)
  expect_identical(huge$backend, "cpu")
  expect_match(huge$reason, "[a-z]")
})

test_that("diagnostics() says why the back end was chosen", {
  expect_match(diagnostics(flash_kde(good, bandwidth = 1))$reason, "[a-z]")
  expect_identical(diagnostics(flash_kde(good, bandwidth = 1, control = flash_control("cpu")))$reason, "as asked")
})

test_that("loading, small jobs and backend_info() open neither the GPU engine nor the driver", {
  skip_if_not(file.exists("/proc/self/maps"), "there is no list of loaded libraries")
  found <- in_child(function() {
    driver <- \() any(grepl("flashkernel-gpu|libcuda[.]so|/dev/nvidia", readLines("/proc/self/maps")))
    x <- as.matrix(faithful)
    fit <- flash_kde(x)
    predict(fit)
    predict(fit, loo = TRUE)
    kernel_sum(x, bandwidth = 1, tol = 0)
    kernel_sum(x, bandwidth = 1, type = "score")
    kde_bandwidth(x, "lcv", "kde")
    flashkernel:::backend_info()
    gpu_release()
    before <- driver()
    list(before = before, backend = diagnostics(fit)$backend, after = {
      gpu_info()
      driver()
    })
  })
  expect_false(found$before)
  expect_identical(found$backend, "cpu")
  if (has_gpu()) expect_true(found$after) # or the above means nothing
})

test_that("the package unloads, also after it has looked for a GPU", {
  gone <- in_child(function() {
    gpu_info()
    unloadNamespace("flashkernel")
    !"flashkernel" %in% c(loadedNamespaces(), names(getLoadedDLLs()))
  })
  expect_true(gone)
})

# so that "auto" counts the start of CUDA again in the files that follow
gpu_release()
