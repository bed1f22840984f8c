# Tiled matrices on the host, whose "devices" are places in name only; test-gpu-tiled.R has those of CUDA devices.

test_that("factors, products and solves of tiles are R's matrix algebra", {
  set.seed(1)
  for (m in c(1, 7, 64, 200)) expect_tiled(m, 16)
  expect_tiled(200, 32)
  expect_tiled(64, 0) # by the order: whole
})

test_that("several devices share the tiles, and hold some at a time where memory is short", {
  set.seed(2)
  for (devices in 1:3) {
    expect_equal(expect_tiled(70, 16, devices = rep(-1L, devices))$streamed, 0)
    most <- \(columns) tiled_room(70, 16, columns)
    for (columns in 1:2) {
      expect_equal(expect_tiled(70, 16, devices = rep(-1L, devices), most = most(columns))$streamed, 1)
    }
    # a hundredth stays free
    needed <- most(ceiling(5 / devices)) / 0.99
    expect_equal(run_tiled(diag(70), devices = rep(-1L, devices), most = needed + 1)$streamed, 0)
    expect_equal(run_tiled(diag(70), devices = rep(-1L, devices), most = needed - 100)$streamed, 1)
  }
})

test_that("tiles have the same bits for any number of devices, and where they stream", {
  set.seed(3)
  for (m in c(64, 200)) for (block in c(16, 32)) {
    places <- lapply(1:3, \(devices) list(devices = rep(-1L, devices)))
    short <- list(list(most = tiled_room(m, block, 1)))
    if (m == 200) short <- c(short, list(list(devices = c(-1L, -1L), most = tiled_room(m, block, 1))))
    expect_same_tiles(m, block, c(places, short))
  }
})

test_that("tiles tell the order of the first minor that is not positive, wherever it lies", {
  set.seed(4)
  K <- random_kernel(70)
  for (at in c(1, 16, 17, 40, 70)) for (devices in 1:2) for (most in c(0, tiled_room(70, 16, 1))) {
    bad <- replace(K, 70 * (at - 1) + at, -1)
    expect_equal(run_tiled(bad, devices = rep(-1L, devices), most = most)$pivot, at)
    if (at > 1) { # of U'U: rank at - 1 beside -lambda
      roots <- c(rep(0, 70 - at + 1), rep(1, at - 1))
      got <- run_tiled(diag(70), roots = rev(roots), lambda = 0, devices = rep(-1L, devices), most = most)
      expect_equal(got$pivot, at)
    }
  }
})

test_that("tiles look up between panels, whose fractions grow to 1, and stop when told to", {
  set.seed(5)
  K <- random_kernel(70)
  for (devices in 1:2) for (most in c(0, tiled_room(70, 16, 1))) {
    run <- \(...) run_tiled(K, devices = rep(-1L, devices), most = most, ...)
    all <- run()
    expect_equal(all$backwards, 0)
    expect_gt(all$looks, 10)
    stopped <- \(at) tryCatch(run(stop_at = at), interrupt = \(condition) "stopped")
    for (at in seq_len(all$looks)) expect_identical(stopped(at), "stopped")
  }
})

test_that("a device too small for a block column, or a host for all of them, is an error of memory", {
  short <- expression(run_tiled(diag(70), most = tiled_room(70, 16, 1) - 200))
  expect_error(eval(short), "order 70.*each device", class = "flashkernel_error_alloc")
  streamed <- \(host) run_tiled(diag(70), most = tiled_room(70, 16, 1), host = host)$streamed
  all <- 8 * 5 * 80 * 17
  expect_equal(streamed(all), 1)
  expect_error(streamed(all - 1), "order 70: it takes 5.44e\\+04 bytes", class = "flashkernel_error_alloc")
})

test_that("where halves are good enough U alone is of them, as it is for any number of devices", {
  set.seed(6)
  error <- halves_error(200, 32)
  expect_gt(error, 1e-7) # of 11 bits, as the test has them on the host
  expect_lt(error, 2e-3)
  places <- lapply(1:3, \(devices) list(devices = rep(-1L, devices), halves = TRUE))
  expect_same_tiles(200, 32, c(places, list(list(most = halves_room(200, 32, 1), halves = TRUE))))
})

test_that("where halves lead to a pivot U is made again in double, and the fractions go on", {
  set.seed(7)
  # columns of L that are the same where they have weight
  K <- tcrossprod(lower.tri(diag(64), TRUE) * stats::runif(64, 0.5, 1))
  run <- \(...) run_tiled(K, roots = rep(c(1e-4, 1), c(56, 8)), lambda = 1e-12, ...)
  double <- run()
  again <- run(halves = TRUE)
  expect_identical(again[c("U", "v", "pivot")], double[c("U", "v", "pivot")])
  expect_gt(again$looks, double$looks)
  expect_equal(again$backwards, 0)
  stopped <- \(at) tryCatch(run(halves = TRUE, stop_at = at), interrupt = \(condition) "stopped")
  for (at in c(double$looks, again$looks)) expect_identical(stopped(at), "stopped")
  none <- run_tiled(diag(64), roots = c(rep(1, 20), rep(0, 44)), lambda = 0, halves = TRUE)
  expect_equal(none$pivot, 21)
})

test_that("a rough matrix is U'U = K in half of the memory, the same for any number of devices, and where it streams", {
  set.seed(8)
  for (m in c(1, 7, 70, 200)) expect_rough(m, 16)
  expect_rough(200, 32, devices = c(-1L, -1L), most = tiled_room(200, 32, 1))
  places <- c(lapply(1:3, \(devices) list(devices = rep(-1L, devices))), list(list(most = tiled_room(200, 32, 1))))
  expect_same_tiles(200, 32, lapply(places, \(place) c(place, rough = TRUE)), c("U'", "U^-T", "U", "U^-1"))
  # the triangle and a hundredth, without buffers
  rows <- sum(ceiling(pmin(1:13 * 16, 200) / 16) * 16)
  needed <- 8 * (rows * 17 + 4 * 16^2) / 0.99
  expect_equal(run_tiled(diag(200), most = needed + 1, rough = TRUE)$streamed, 0)
  expect_equal(run_tiled(diag(200), most = needed - 100, rough = TRUE)$streamed, 1)
  expect_equal(run_tiled(replace(diag(70), 70 * 39 + 40, -1), rough = TRUE)$pivot, 40)
})
