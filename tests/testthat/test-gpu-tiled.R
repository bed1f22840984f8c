# Tiled matrices on GPUs: one, several where there are, and streamed through them where memory is short.

gpus <- function() length(gpu_info()$index)

test_that("factors, products and solves of tiles on a GPU are R's matrix algebra, streamed and not", {
  skip_if_no_gpu()
  set.seed(1)
  for (m in c(1, 7, 64, 200)) expect_equal(expect_tiled(m, 16, devices = 0L)$streamed, 0)
  for (columns in 1:2) {
    expect_equal(expect_tiled(200, 32, devices = 0L, most = tiled_room(200, 32, columns))$streamed, 1)
  }
})

test_that("tiles have the same bits on one GPU and on several, and where they stream", {
  skip_if_no_gpu()
  set.seed(2)
  all <- seq_len(gpus()) - 1L
  for (size in list(c(200, 16), c(1000, 64), c(3000, 256))) {
    m <- size[1]
    block <- size[2]
    places <- list(list(devices = 0L), list(devices = 0L, most = tiled_room(m, block, 2)))
    if (length(all) > 1) {
      short <- list(devices = all, most = tiled_room(m, block, 1))
      places <- c(places, list(list(devices = all), list(devices = rev(all)), list(devices = 0:1), short))
    }
    expect_same_tiles(m, block, places)
  }
})

test_that("U by halves on GPUs is right to the norms of its columns, with the same bits for any number of them", {
  skip_if_no_gpu()
  set.seed(4)
  error <- halves_error(1000, 128, devices = 0L)
  expect_gt(error, 1e-9)
  expect_lt(error, 1e-4)
  all <- seq_len(gpus()) - 1L
  for (size in list(c(200, 16), c(1000, 64))) {
    places <- list(list(devices = 0L), list(devices = 0L, most = halves_room(size[1], size[2], 2)))
    if (length(all) > 1) places <- c(places, list(list(devices = all), list(devices = rev(all))))
    expect_same_tiles(size[1], size[2], lapply(places, \(place) c(place, halves = TRUE)))
  }
})

test_that("a rough matrix on GPUs is U'U = K to FP16 terms, with the same bits for any number of them", {
  skip_if_no_gpu()
  set.seed(5)
  expect_equal(expect_rough(1000, 128, devices = 0L)$streamed, 0)
  expect_rough(1000, 128, devices = 0L, halves = TRUE, tolerance = 1e-5)
  all <- seq_len(gpus()) - 1L
  places <- list(list(devices = 0L), list(devices = 0L, most = halves_room(1000, 64, 2)), list(devices = all))
  places <- lapply(places, \(place) c(place, halves = TRUE, rough = TRUE))
  expect_same_tiles(1000, 64, places, c("U^-T", "U^-1"))
})

test_that("a preconditioner beyond the limit of a GPU's memory is that of one within it, and keeps the limit", {
  skip_if_no_gpu()
  skip_if(nzchar(Sys.getenv("FLASHKERNEL_SANITIZER")), "too much for a sanitizer")
  set.seed(3)
  m <- 20000
  x <- some_points(m, 4)
  w <- stats::runif(m)
  v <- matrix(stats::rnorm(2 * m), m)
  results <- function(...) {
    gpu_release()
    P <- new_preconditioner(centres(x, 0.2), cuda_run(...), 1e-10)
    on.exit(free_preconditioner(P))
    precondition(P, w, lambda = 1e-3)
    list(v = apply_factors(P, v, c("T", "A'", "A^-1", "T^-1")), K = apply_factors(P, v, c("T", "T'")),
      A = apply_factors(P, v, c("A", "A'")), streamed = P$streamed, peak = gpu_info()$memory_peak[1])
  }
  limit <- 2e9 # of 3.2 GB
  short <- results(gpu_memory_limit = limit)
  expect_true(short$streamed)
  expect_lte(short$peak, limit)
  expect_gt(short$peak, limit / 2)
  again <- results(gpu_memory_limit = 0.75 * limit)
  expect_identical(again[c("v", "K", "A")], short[c("v", "K", "A")])
  whole <- results()
  expect_false(whole$streamed)
  expect_equal(whole[c("K", "A")], short[c("K", "A")], tolerance = 1e-10)
  expect_error(results(gpu_memory_limit = 5e8), "each device", class = "flashkernel_error_alloc")
  gpu_release()
})

test_that("preconditioners have the same bits on one GPU and on several", {
  skip_if_no_gpu()
  skip_if(gpus() < 2, "one GPU")
  skip_if(nzchar(Sys.getenv("FLASHKERNEL_SANITIZER")), "too much for a sanitizer")
  set.seed(5)
  m <- 40000 # beyond what the library gets whole
  x <- some_points(m, 4)
  v <- matrix(stats::rnorm(m), m)
  results <- lapply(list(0L, 0:1, "all"), \(devices) {
    P <- new_preconditioner(centres(x, 0.2), cuda_run(devices = devices), 1e-10)
    on.exit(free_preconditioner(P))
    precondition(P, lambda = 1e-3)
    list(apply_factors(P, v, c("T", "A'", "A^-1", "T^-1")), log_det(P))
  })
  expect_identical(results[[2]], results[[1]])
  expect_identical(results[[3]], results[[1]])
})

test_that("sums and what operators keep stay within the limit of a GPU's memory", {
  skip_if_no_gpu()
  set.seed(6)
  x <- some_points(1e6, 10)
  y <- some_points(2000, 10)
  gpu_release()
  of <- \(...) kernel_sum(x, y, bandwidth = 0.5, tol = 0, control = flash_control("cuda", "single", ...))
  want <- of()
  gpu_release()
  got <- of(gpu_memory_limit = 64e6)
  expect_lte(max(gpu_info()$memory_peak), 64e6)
  expect_equal(got, want, tolerance = 1e-5)
  expect_identical(of(), want) # the limit was that call's
  gpu_release()
})
