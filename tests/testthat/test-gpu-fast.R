# The fast engine on a GPU, against exact sums on the CPU.

test_that("sums on the GPU's grid are within the tolerance, in any dimension and precision", {
  skip_if_no_gpu()
  for (d in 1:7) {
    set.seed(d)
    n <- 20000
    x <- matrix(stats::runif(n * d), n)
    y <- rbind(x[1:400, , drop = FALSE], x[401:500, , drop = FALSE] + 0.03, matrix(1.2, 1, d))
    b <- stats::rnorm(n)
    for (range in if (d <= 3) c(1.5, 10, 60) else if (d <= 5) c(1, 4) else 1.5) {
      for (tol in if (d <= 3) c(1e-3, 1e-5, 1e-9) else c(1e-2, 1e-4)) {
        error <- fast_error(x, y, b, 1 / range, tol, backend = "cuda")
        label <- paste("d =", d, "range/h =", range, "tol =", tol)
        expect_identical(error$diagnostics$backend, "cuda", label = label)
        expect_identical(error$diagnostics$method, "grid", label = label)
        expect_lte(error$relative, tol, label = label)
      }
    }
  }
})

test_that("columns, weights, bandwidth matrices, outliers and a pointwise tolerance work there, too", {
  skip_if_no_gpu()
  set.seed(8)
  x <- matrix(stats::rnorm(45000), 15000)
  b <- cbind(stats::rnorm(15000), 1)
  w <- stats::runif(15000)
  H <- 0.04 * (diag(3) + 0.5)
  fast <- kernel_sum(x, NULL, b, H, weights = w, control = flash_control(engine = "fast", backend = "cuda"), tol = 1e-7)
  exact <- kernel_sum(x, NULL, b, H, weights = w, control = flash_control(engine = "exact", backend = "cpu"))
  K <- plain(kernel_sum(x, NULL, abs(b), H, weights = w, control = flash_control(engine = "exact", backend = "cpu")))
  expect_lte(max(abs(plain(fast) - plain(exact))) / max(K), 1e-7)
  y <- rbind(x[1:200, ], matrix(stats::runif(300, -4, 4), 100))
  expect_lte(fast_error(x, y, rep(1, 15000), 0.3, 1e-6, "pointwise", "cuda")$relative, 1e-6)
  x[1, ] <- 1e5
  expect_lte(fast_error(x, x[1:500, ], rep(1, 15000), 0.3, 1e-7, backend = "cuda")$relative, 1e-7)
})

test_that("all estimators go by a tolerance on the GPU, with the same bits each time", {
  skip_if_no_gpu()
  set.seed(9)
  x <- matrix(stats::rnorm(60000), 30000)
  y <- x[1:1000, ] + 0.01
  # few targets: exact sums would be faster
  control <- \(...) control_list("cuda", "double", engine = "fast", tol = 1e-8, ...)
  predict_fast <- function(fit, at, type, control, loo = FALSE) {
    done <- predict_with(fit, at, type, loo, control)
    expect_identical(done$stats[c("backend", "engine", "method")], list(backend = "cuda", engine = "fast", method = "grid"))
    done$got
  }
  for (estimator in c("kde", "sdkde", "laplace")) {
    fit <- flash_kde(x, estimator, bandwidth = 0.1, control = flash_control("cpu"))
    exact <- predict(fit, y)
    fast <- predict_fast(fit, y, "density", control())
    expect_lte(max(abs(fast - exact)) / max(abs(exact)), 1e-6, label = estimator)
    expect_identical(predict_fast(fit, y, "density", control()), fast)
    clear <- exact > max(exact) / 100
    error <- abs(predict_fast(fit, y, "score", control()) - predict(fit, y, type = "score"))
    expect_lte(max(error[clear, ]) * 0.1, 1e-5, label = paste(estimator, "score"))
  }
  kde <- flash_kde(x, "kde", bandwidth = 0.1, control = flash_control("cpu"))
  for (type in c("log_density", "score")) {
    want <- predict(kde, type = type, loo = TRUE)
    got <- predict_fast(kde, NULL, type, control(tol_type = "pointwise"), loo = TRUE)
    expect_lte(max(abs(got - want)) * if (type == "score") 0.1 else 1, 1e-6, label = type)
  }
  # "auto" takes it for many
  sums <- kernel_sum(
    x[rep(1:30000, 10), ] + stats::rnorm(6e5) / 100, bandwidth = 0.1, tol = 1e-8,
    control = flash_control("cuda")
  )
  expect_identical(diagnostics(sums)$engine, "fast")
})

test_that("points too thin for a grid on the GPU are the CPU's where it may be either", {
  skip_if_no_gpu()
  set.seed(11)
  x <- matrix(stats::runif(6e6), ncol = 3)
  # one thread: the guess before the points are looked at is for the GPU
  sums <- kernel_sum(x, bandwidth = 1 / 3000, tol = 1e-6, control = flash_control(threads = 1))
  record <- diagnostics(sums)
  expect_identical(record[c("backend", "engine", "method")], list(backend = "cpu", engine = "fast", method = "direct"))
  expect_true(is.na(record$device_seconds))
  expect_lte(record$tol_achieved, 1e-6)
})

test_that("several GPUs give the bits of one", {
  skip_if_one_gpu()
  set.seed(10)
  x <- matrix(stats::rnorm(300000), 100000)
  b <- stats::rnorm(100000)
  # 1e-5: windows of nearly the same cost, of which one device may not take another than two
  for (tol in c(1e-6, 1e-5)) for (h in c(0.2, 0.3)) for (coefficients in list(NULL, b)) {
    run <- \(devices) {
      plain(kernel_sum(
        x, b = coefficients, bandwidth = h, tol = tol,
        control = flash_control(engine = "fast", backend = "cuda", devices = devices)
      ))
    }
    expect_identical(run(0), run("all"))
  }
})

test_that("Cauchy and inverse multiquadric sums on the GPU are within the tolerance", {
  skip_if_no_gpu()
  for (d in c(1, 2, 3, 5)) {
    set.seed(d)
    n <- 20000
    x <- matrix(stats::runif(n * d), n)
    y <- rbind(x[1:300, , drop = FALSE], x[301:400, , drop = FALSE] + 0.03, matrix(1.2, 1, d))
    b <- stats::rnorm(n)
    for (kernel in c("cauchy", "imq")) for (type in c("global", "pointwise")) {
      for (range in if (d <= 3) c(1.5, 30) else 1.5) for (tol in if (d <= 3) c(1e-3, 1e-6, 1e-9) else c(1e-2, 1e-4)) {
        error <- fast_error(x, y, b, 1 / range, tol, type, "cuda", kernel)
        label <- paste(kernel, type, "d =", d, "range/h =", range, "tol =", tol)
        expect_identical(error$diagnostics$backend, "cuda", label = label)
        expect_identical(error$diagnostics$engine, "fast", label = label)
        expect_lte(error$relative, tol, label = label)
        expect_lte(error$diagnostics$tol_achieved, tol, label = label)
      }
    }
  }
})
