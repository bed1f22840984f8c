# Points that reach too far for halves about one centre: local frames on tensor cores.

# Two clusters, each with far companions, and a few points that no frame takes.
far_clusters <- function(n, d) {
  x <- example_points(n, d)
  x[1:(n / 2), 1] <- x[1:(n / 2), 1] + 20000
  x[1:20, d] <- x[1:20, d] + 300 * (1:20)
  x[n / 2 + 1:10, 1] <- 1e6
  x
}

method_of <- function(fit, y) log_estimate(fit, y, FALSE, fit_control(fit))$stats$method

near_both <- function(x, m) x[rep_len(seq(1, nrow(x), by = 7), m), , drop = FALSE] + 0.05

test_that("clusters far apart stay on tensor cores, within what the precision promises", {
  skip_if_no_gpu()
  for (d in c(2, 9, 20)) {
    x <- far_clusters(6000, d)
    y <- near_both(x, 12000)
    some <- seq(1, 12000, by = 61)
    for (estimator in c("kde", "sdkde")) {
      cpu <- flash_kde(x, estimator, bandwidth = 0.9, control = flash_control("cpu", "double"))
      want <- predict(cpu, y[some, ], type = "log_density")
      score <- predict(cpu, y[some, ], type = "score")
      for (precision in c("single", "fast")) {
        where <- sprintf("%s, d = %d, %s", estimator, d, precision)
        gpu <- on_gpu(cpu, precision)
        expect_promise(predict(gpu, y, "log_density")[some], want, d, precision, where, 1e-9)
        if (precision == "single") expect_score_near(predict(gpu, y, "score")[some, ], score, diag(d), precision, where)
        expect_true(method_of(gpu, y) %in% c("wgmma", "mma"), info = where)
      }
    }
  }
})

test_that("points that one centre reaches, but not well, are as exact as the others", {
  skip_if_no_gpu()
  # between two thirds of the reach of halves and all of it
  for (reach in list(c(d = 3, at = 60), c(d = 20, at = 42))) {
    d <- reach[["d"]]
    x <- example_points(4000, d)
    away <- 1:40
    x[away, ] <- x[away, ] / 2
    x[away, 1:2] <- x[away, 1:2] + reach[["at"]] / sqrt(2)
    cpu <- flash_kde(x, "kde", bandwidth = 1, control = flash_control("cpu", "double"))
    y <- x[rep(away, 50), ] + 0.25 * cos(seq_len(2000 * d))
    expect_l2(predict(on_gpu(cpu, "single"), y), predict(cpu, y), 1e-5, paste("d =", d))
  }
})

# Rows that what no frame takes alone is near to have masses that no float holds.
test_that("sums of columns in frames are numbers where a row's mass is next to nothing", {
  skip_if_no_gpu()
  at <- seq_len(2 * 12001)
  x <- 60 * matrix((at * (sqrt(5) - 1) / 2 + sqrt(at)) %% 1, ncol = 2)
  y <- x[seq(1, 12001, by = 8), ] + 15 # some well outside
  b <- cbind(seq_len(12001) %% 7 - 3, 1, cos(seq_len(12001)))
  sums <- \(on, ..., columns = b) kernel_sum_by(
    x, y, columns, bandwidth = 0.5, tol = 0, ...,
    control = flash_control(on)
  )
  want <- sums("cpu", precision = "double")
  got <- sums("cuda", precision = "single")
  size <- sums("cpu", precision = "double", columns = abs(b))
  for (k in 1:3) expect_l2(got[, k], want[, k], 1e-5, k, size[, k])
})

test_that("in frames a point leaves itself out, and weights and columns are its own", {
  skip_if_no_gpu()
  x <- far_clusters(6000, 3)
  weights <- rep(c(1, 5, 0, 2), 1500)
  cpu <- flash_kde(x, "kde", bandwidth = 0.5, weights = weights, control = flash_control("cpu", "double"))
  gpu <- on_gpu(cpu, "single")
  want <- predict(cpu, loo = TRUE, type = "log_density")
  expect_lt(max(abs(predict(gpu, loo = TRUE, type = "log_density") - want)), 1e-4)
  b <- cbind(seq_len(6000) %% 7 - 3, 1, cos(seq_len(6000)))
  sums <- lapply(c("cuda", "cpu"), \(on) {
    kernel_sum(x, b = b, bandwidth = 0.5, control = flash_control(on, if (on == "cuda") "single" else "double"))
  })
  for (k in 1:3) expect_lt(sqrt(sum((sums[[1]] - sums[[2]])[, k]^2) / sum(sums[[2]][, k]^2)), 1e-5)
})

# More clusters than there are frames, of 400 points down to a single one; the least go to no frame.
many_clusters <- function(d) {
  size <- c(400, 257, 256, 255, rep(c(90, 40, 12, 5), 15), rep(1, 30))
  x <- example_points(sum(size), d)
  x[, 1] <- x[, 1] + 300 * rep(seq_along(size), size)
  x[order(example_points(sum(size), 1)), ]
}

test_that("more clusters than frames, of all sizes, are as exact as any", {
  skip_if_no_gpu()
  for (d in c(3, 20, 40)) {
    x <- many_clusters(d)
    h <- if (d == 3) 0.6 else sqrt(d) / 3
    cpu <- flash_kde(x, "kde", bandwidth = h, weights = 1 + seq_len(nrow(x)) %% 3, control = flash_control("cpu", "double"))
    gpu <- on_gpu(cpu, "single")
    y <- x[rep(seq_len(nrow(x)), 3), ] + 0.1
    expect_promise(predict(gpu, y, "log_density"), predict(cpu, y, "log_density"), d, "single", paste("d =", d))
    expect_score_near(predict(gpu, y, "score"), predict(cpu, y, "score"), h^2 * diag(d), "single", paste("d =", d))
    loo <- \(fit) predict(fit, loo = TRUE, type = "log_density")
    expect_promise(loo(gpu), loo(cpu), d, "single", paste("leave-one-out, d =", d))
  }
})

test_that("the same call in frames gives the same bits, on several devices, too", {
  skip_if_no_gpu()
  x <- far_clusters(20000, 4)
  fit <- on_gpu(flash_kde(x, "kde", bandwidth = 0.5, control = flash_control("cpu")), "single")
  first <- predict(fit, x, type = "log_density")
  expect_identical(predict(fit, x, type = "log_density"), first)
  # what an earlier call has left on the device does not matter
  predict(fit, x[1:64, ])
  expect_identical(predict(fit, x, type = "log_density"), first)
  devices <- gpu_info()$index
  if (length(devices) > 1) expect_identical(predict(on_gpu(fit, "single", devices), x, type = "log_density"), first)
})
