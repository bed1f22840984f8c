# Threads: a pool of the package's own. Results do not depend on them, and neither forks, interrupts nor an
# unloaded library meet them.

# More threads than this machine may have processors.
with_threads <- function(threads, code) {
  before <- Sys.getenv("FLASHKERNEL_PROCESSORS", NA)
  Sys.setenv(FLASHKERNEL_PROCESSORS = 8)
  on.exit({
    Sys.unsetenv("FLASHKERNEL_PROCESSORS")
    if (!is.na(before)) Sys.setenv(FLASHKERNEL_PROCESSORS = before)
  })
  force(code(threads))
}

expect_same_bits <- function(code, counts = c(1, 2, 3, 8)) {
  values <- lapply(counts, \(threads) with_threads(threads, code))
  for (value in values[-1]) expect_identical(value, values[[1]])
}

plain <- function(x) as.numeric(unclass(x))

# Pieces are long: these have several for each of eight threads.
points <- function(n, d) {
  set.seed(1)
  matrix(stats::rnorm(n * d), n)
}

test_that("as many threads are used as asked for, where there is work for them", {
  skip_if(nzchar(Sys.getenv("_R_CHECK_LIMIT_CORES_")), "two at most")
  x <- points(8000, 3)
  for (threads in c(1, 2, 3, 8)) {
    used <- with_threads(threads, \(threads) {
      diagnostics(kernel_sum(x, bandwidth = 0.5, control = flash_control(backend = "cpu", threads = threads)))$threads
    })
    expect_identical(used, as.integer(threads))
  }
})

test_that("exact sums have the same bits for any number of threads", {
  x <- points(8000, 3)
  y <- points(5000, 3)[, 3:1]
  b <- cbind(1, x)
  for (precision in c("double", "single")) {
    expect_same_bits(\(threads) list(
      kernel_sum(
        x, b = b, bandwidth = 0.5, tol = 0,
        control = flash_control(precision = precision, threads = threads, backend = "cpu")
      ),
      kernel_sum(
        x, y, b, bandwidth = 0.5, tol = 0,
        control = flash_control(precision = precision, threads = threads, backend = "cpu")
      ),
      kernel_sum(
        x, bandwidth = 0.5, type = "score",
        control = flash_control(precision = precision, threads = threads, backend = "cpu")
      )
    ))
  }
})

test_that("rounds of the symmetric sums that are packed block by block join in their order", {
  x <- points(9000, 80)
  expect_same_bits(\(threads) plain(kernel_sum(
    x, bandwidth = 4,
    control = flash_control(threads = threads, backend = "cpu")
  )), c(1, 2, 8))
})

test_that("estimates have the same bits for any number of threads, and in each run", {
  for (d in c(2, 5)) for (estimator in c("kde", "sdkde", "laplace")) for (precision in c("double", "single")) {
    x <- points(4000, d)
    y <- x[, d:1]
    weights <- if (d == 5) seq(0.5, 1.5, length.out = 4000)
    expect_same_bits(\(threads) {
      control <- flash_control(threads = threads, precision = precision, backend = "cpu")
      fit <- flash_kde(x, estimator, bandwidth = example_bandwidth(d, 0.3), weights = weights, control = control)
      list(
        fit$debiased, predict(fit), predict(fit, y), predict(fit, y[1:7, ]), predict(fit, y, type = "score"),
        predict(fit, loo = TRUE)
      )
    }, c(1, 1, 2, 3, 8))
  }
})

test_that("a chosen bandwidth and a distribution function have the same bits for any number of threads", {
  x <- points(1500, 2)
  expect_same_bits(\(threads) {
    fit <- flash_kde(x[, 1], control = flash_control(threads = threads, backend = "cpu"))
    list(flash_kde(x, control = flash_control(threads = threads, backend = "cpu"))$H, kde_cdf(fit, x[, 2]))
  })
})

test_that("sums to a tolerance have the same bits for any number of threads", {
  for (method in c("grid", "direct")) {
    local({
      local_method(method)
      for (d in 1:3) {
        n <- if (method == "grid") 140000 else 6000 # a grid shares no less
        x <- stats::pnorm(points(n, d))
        b <- 1.5 + sin(seq_len(nrow(x)))
        for (type in c("global", "pointwise")) {
          expect_same_bits(\(threads) plain(kernel_sum(
            x, b = b, bandwidth = c(0.002, 0.01, 0.03)[d], control = flash_control(engine = "fast", tol_type = type, precision = if (d == 2) "single" else "double", threads = threads, backend = "cpu"), tol = 1e-4
          )), c(1, 3, 8))
        }
      }
    })
  }
})

test_that("sums of other kernels to a tolerance have the same bits for any number of threads", {
  x <- points(150000, 2)
  expect_same_bits(\(threads) plain(kernel_sum(
    x, bandwidth = 0.3, kernel = "cauchy", control = flash_control(engine = "fast", threads = threads, backend = "cpu"), tol = 1e-3
  )), c(1, 3, 8))
})

test_that("many small computations one after the other are right", {
  x <- points(600, 2)
  want <- plain(kernel_sum(x, bandwidth = 0.5, control = flash_control(threads = 1, backend = "cpu")))
  got <- with_threads(8, \(threads) {
    lapply(1:200, \(i) plain(kernel_sum(
      x, bandwidth = 0.5,
      control = flash_control(threads = 1 + i %% threads, backend = "cpu")
    )))
  })
  expect_true(all(vapply(got, identical, NA, want)))
})

test_that("forked children compute the same with a pool in the parent, which goes on using it", {
  skip_on_os("windows")
  result <- in_child(function() {
    Sys.setenv(FLASHKERNEL_PROCESSORS = 4)
    set.seed(1)
    x <- matrix(stats::rnorm(18000), ncol = 3)
    work <- \(i) as.numeric(unclass(kernel_sum(
      x, bandwidth = 0.5,
      control = flash_control(threads = 4, backend = "cpu")
    )))
    before <- work()
    forked <- parallel::mclapply(1:4, work, mc.cores = 2)
    again <- parallel::mclapply(1:4, work, mc.cores = 2)
    threads <- parallel::mclapply(1:2, \(i) flashkernel:::backend_info()$threads_default, mc.cores = 2)
    list(before = before, forked = forked, again = again, threads = threads, after = work())
  }, timeout = 60)
  expect_identical(result$forked, rep(list(result$before), 4))
  expect_identical(result$again, rep(list(result$before), 4))
  expect_identical(result$threads, list(1L, 1L))
  expect_identical(result$after, result$before)
})

test_that("the library can be unloaded after its threads have worked, which end before, and loaded again", {
  skip_on_os("windows")
  result <- in_child(function() {
    Sys.setenv(FLASHKERNEL_PROCESSORS = 4)
    set.seed(1)
    x <- matrix(stats::rnorm(18000), ncol = 3)
    work <- \() as.numeric(unclass(flashkernel::kernel_sum(
      x, bandwidth = 0.5,
      control = flashkernel::flash_control(threads = 4, backend = "cpu")
    )))
    threads <- \() length(dir("/proc/self/task")) # 0 but on Linux
    before <- threads()
    rounds <- lapply(1:3, \(i) {
      value <- work()
      started <- threads() - before
      unloadNamespace("flashkernel")
      stopifnot(!"flashkernel" %in% names(getLoadedDLLs()))
      list(value = value, started = started, left = threads() - before)
    })
    c(rounds, list(list(value = work())))
  }, timeout = 60)
  for (round in result[-1]) expect_identical(round$value, result[[1]]$value)
  for (round in result[-4]) {
    if (dir.exists("/proc/self/task")) expect_gt(round$started, 0)
    expect_identical(round$left, 0L)
  }
})

test_that("limits on the number of threads are kept", {
  limits <- c("FLASHKERNEL_PROCESSORS", "FLASHKERNEL_THREADS", "OMP_NUM_THREADS", "OMP_THREAD_LIMIT", "_R_CHECK_LIMIT_CORES_")
  default <- function(...) {
    before <- Sys.getenv(limits, NA, names = TRUE)
    on.exit({
      Sys.unsetenv(limits)
      if (!all(is.na(before))) do.call(Sys.setenv, as.list(before[!is.na(before)]))
    })
    Sys.unsetenv(limits)
    Sys.setenv(FLASHKERNEL_PROCESSORS = 8)
    Sys.setenv(...)
    flashkernel:::backend_info()$threads_default
  }
  expect_identical(default(FLASHKERNEL_PROCESSORS = 8), 8L)
  expect_identical(default(OMP_NUM_THREADS = 3), 3L)
  expect_identical(default(OMP_THREAD_LIMIT = 5), 5L)
  expect_identical(default(FLASHKERNEL_THREADS = 6, OMP_NUM_THREADS = 3), 6L)
  expect_identical(default(FLASHKERNEL_THREADS = 6, OMP_THREAD_LIMIT = 4), 4L)
  expect_identical(default(FLASHKERNEL_THREADS = 20), 8L)
  expect_identical(default(`_R_CHECK_LIMIT_CORES_` = "TRUE"), 2L)
})
