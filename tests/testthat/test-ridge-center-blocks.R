# Fits with more centres than one matrix holds, by blocks of centres, against solve().

center_blocks <- function(size = 20, frame = parent.frame()) {
  replace_in_package("exceeds_matrix", \(m, d, run, rough = FALSE) !rough, frame)
  replace_in_package("block_rows", \(system, run) size, frame)
}

centers_case <- with_fixed_seed({
  x <- matrix(stats::rnorm(300 * 6), 300)
  list(x = x, y = cbind(sin(x[, 1]), x[, 2] * x[, 3]) + 0.1 * stats::rnorm(600), w = stats::runif(300, 0.5, 2))
}, 5)

centers_fit <- function(..., centers = 3 * 1:80, case = centers_case, control = NULL) {
  kernel_ridge(
    case$x, case$y, kernel = "laplacian", bandwidth = 3, lambda = 1e-3, centers = centers, control = control,
    solver = list(...), weights = case$w
  )
}

test_that("blocks of centres solve weighted systems of several outputs, whatever the blocks and the centres", {
  case <- centers_case
  K <- exp(-as.matrix(stats::dist(case$x)) / 3)
  mean <- colSums(case$w * case$y) / sum(case$w)
  at <- 3 * 1:80
  A <- crossprod(K[, at], case$w * K[, at]) + 300 * 1e-3 * K[at, at]
  want <- K[, at] %*% solve(A, crossprod(K[, at], case$w * sweep(case$y, 2, mean)))
  for (size in c(20, 80)) {
    center_blocks(size)
    for (centers in list(at, case$x[at, ])) {
      fit <- centers_fit(centers = centers, tolerance = 1e-9, iterations = 100)
      expect_true(fit$converged)
      expect_equal(predict(fit), sweep(want, 2, mean, `+`), tolerance = 1e-6, ignore_attr = TRUE)
    }
  }
  rough <- centers_fit(tolerance = 1e-2)
  expect_lt(rough$iterations, fit$iterations)
  expect_lt(max(abs(predict(rough) - predict(fit))), 0.05)
  again <- centers_fit(start = rough, centers = NULL, tolerance = 1e-9)
  expect_equal(predict(again), predict(fit), tolerance = 1e-6)
})

test_that("their bits depend on neither threads nor random numbers, nor on a stop in the middle", {
  center_blocks()
  one <- centers_fit(control = flash_control("cpu", threads = 1))
  expect_identical(one$coefficients, centers_fit(control = flash_control("cpu", threads = 2))$coefficients)
  file <- tempfile()
  replace_in_package("CHECKPOINT_SECONDS", 0)
  calls <- 0
  local({
    solve <- nearly_solve
    replace_in_package("nearly_solve", \(...) if ((calls <<- calls + 1) > 4) stop("the power went off") else solve(...))
    expect_error(centers_fit(checkpoint = file), "power")
  })
  expect_identical(centers_fit(checkpoint = file)$coefficients, one$coefficients)
})

test_that("centres are taken in blocks where their matrix does not fit, and a plan says so", {
  run <- start_run(settle_control(NULL))
  withr_limit <- options(flashkernel.memory_limit = 8e9)
  on.exit(options(withr_limit))
  replace_in_package("gpu_room", \(run, bytes) 0)
  expect_true(exceeds_matrix(40000, 6, run))
  expect_false(exceeds_matrix(30000, 6, run))
  replace_in_package("gpu_room", \(run, bytes) 14.2e9)
  expect_false(exceeds_matrix(40000, 6, run))
  expect_true(exceeds_matrix(40000, 1280, run))
  center_blocks()
  replace_in_package("probe_clock", local({ looks <- 0; \() 0.03 * (looks <<- looks + 1) }))
  plan <- centers_fit(plan = TRUE)
  expect_output(print(plan), "80 centres, 2 responses, .*centres in 4 blocks, as one matrix would take 51.8 kB")
  expect_gt(plan$seconds[["blocks"]], 0)
})

test_that("sparse rows are solved by blocks of centres, too", {
  skip_if_not_installed("Matrix")
  x <- with_fixed_seed(matrix(stats::rbinom(200 * 20, 1, 0.1), 200))
  y <- x[, 1] - x[, 2] + with_fixed_seed(stats::rnorm(200), 2)
  fit <- \(x, ...) kernel_ridge(x, y, bandwidth = 2, lambda = 1e-3, centers = 1:60, solver = list(...))
  want <- predict(fit(x, tolerance = 1e-14))
  center_blocks()
  expect_equal(predict(fit(Matrix::Matrix(x, sparse = TRUE), tolerance = 1e-9)), want, tolerance = 1e-5)
})
