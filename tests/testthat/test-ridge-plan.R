# What plans say. That it is what fits take is measured by bench/falkon-plan.R.

plan_x <- with_fixed_seed(matrix(stats::rnorm(1200), 400), 3)
plan_y <- plan_x[, 1]^2 + sin(plan_x[, 2])

plan_of <- function(y = plan_y, lambda = 1e-6, ...) ridge_with(plan_x, y, bandwidth = 1.5, lambda = lambda, ..., plan = TRUE)

fit_of <- function(...) ridge_with(plan_x, plan_y, bandwidth = 1.5, lambda = 1e-6, ...)

# For plans whose seconds do not matter: each look at the clock is 0.03 s later, so that no piece is timed twice; and no
# garbage is collected to see how much room R has.
quick_probes <- function(frame = parent.frame()) {
  looks <- 0
  replace_in_package("probe_clock", \() 0.03 * (looks <<- looks + 1), frame)
  replace_in_package("waste_room", \() 2^20, frame)
}

test_that("a plan tells what a fit would need, and fits nothing", {
  quick_probes()
  set.seed(1)
  before <- .Random.seed
  plan <- plan_of(centers = 10)
  expect_s3_class(plan, "ridge_plan")
  expect_identical(.Random.seed, before)
  expect_identical(plan$memory$host[["factors"]], 8 * 10 * 11)
  expect_true(all(plan$seconds >= 0) && sum(plan$seconds) > 0)
  expect_output(print(plan), "400 rows, 3 columns, 10 centres")
})

test_that("the iterations of a plan are those of the fit where all of it is tried", {
  quick_probes()
  for (y in list(plan_y, factor(plan_y > 1), cut(plan_y, 3))) {
    plan <- plan_of(y, centers = spread_rows(400, 20))
    fit <- kernel_ridge(plan_x, y, bandwidth = 1.5, lambda = 1e-6, centers = spread_rows(400, 20))
    expect_identical(plan$iterations, fit$iterations)
  }
  expect_identical(plan_of(centers = 20, iterations = 3)$iterations, 3)
  expect_identical(plan_of(start = fit_of(centers = 30))$m, 30L)
})

test_that("exact fits have plans, by a factor or by iterations", {
  quick_probes()
  plan <- plan_of(exact = TRUE)
  expect_identical(plan$iterations, 1)
  expect_identical(plan$memory$host[["factors"]], 8 * 400 * 401)
  expect_output(print(plan), "400 rows, 3 columns, exact")
  replace_in_package("is_factorised", \(system) FALSE)
  replace_in_package("EXACT_PAIRS", c(cpu = 200^2))
  for (fast in c(TRUE, FALSE)) {
    replace_in_package("is_fast", \(system, run) fast)
    plan <- plan_of(exact = TRUE, weights = rep(0:3, 100))
    expect_gt(plan$iterations, 1)
    expect_gt(plan$seconds[["products"]], 0)
    expect_output(print(plan), if (fast) "conjugate gradients" else "blocks of rows")
  }
})

test_that("times that grow with the square and the cube are told apart", {
  seconds <- \(m) 3 * m^2 + 0.1 * m^3
  sizes <- c(100, 200)
  expect_equal(extrapolate(list(sizes = sizes, A = seconds(sizes)), "A", 1000), seconds(1000))
  expect_equal(extrapolate(list(sizes = sizes, A = c(1, 2)), "A", 400), 8)
})

test_that("tuning has a plan, which searches nothing and leaves random numbers alone", {
  quick_probes()
  set.seed(1)
  before <- .Random.seed
  plan <- tune_ridge(plan_x, plan_y, rows = 60, centers = c(10, 20), lambda = c(1e-6, 1e-3), solver = list(plan = TRUE))
  expect_s3_class(plan, "tune_ridge_plan")
  expect_identical(.Random.seed, before)
  expect_gt(plan$seconds[["comparison"]], plan$seconds[["fit"]])
  expect_gt(plan$seconds[["ways"]], plan$seconds[["search"]])
  expect_identical(plan$fit$n, 400L)
  expect_output(print(plan), "60 of 400 rows, gaussian, matern52.*Plan of a kernel ridge regression: 400 rows")
  # time for the search is kept
  expect_lte(tune_ridge(plan_x, plan_y, rows = 60, kernel = "gaussian", seconds = 1e-3, solver = list(plan = TRUE))$seconds[["search"]], 1e-3)
  data <- data.frame(plan_x, y = plan_y > 1, f = factor(rep(1:4, 100)))
  plan <- tune_ridge(y ~ X1 + f, data, kernel = "gaussian", rows = 60, solver = list(plan = TRUE))
  expect_identical(plan$fit$family$squared, FALSE)
  expect_identical(plan$seconds[["ways"]], 0)
  plan <- tune_ridge(mpg ~ am + k(wt), mtcars, solver = list(plan = TRUE))
  expect_identical(plan$kernels, c("gaussian", "matern52"))
  expect_gt(plan$seconds[["ways"]], 0)
})

test_that("plans count what coarser fits take in part, and the reading of chunks", {
  replace_in_package("LEAST_COARSE", 10)
  y <- factor(plan_y > 1)
  task <- NULL
  probe <- probe_iterations
  replace_in_package("probe_iterations", \(given) probe(task <<- given))
  plan_of(y, centers = spread_rows(400, 80))
  found <- probe(task)
  expect_lt(found$solves, sum(found$calls))
  expect_lt(sum(found$calls), found$passes)
  chunks <- list(plan_x[1:200, ], plan_x[201:400, ], NULL)
  at <- 0
  slow <- function() {
    Sys.sleep(0.02)
    at <<- at %% 3 + 1
    chunks[[at]]
  }
  plan <- kernel_ridge(slow, plan_y, bandwidth = 1.5, lambda = 1e-6, centers = plan_x[1:20, ], solver = list(iterations = 4, plan = TRUE))
  expect_gt(plan$seconds[["reading"]], 4 * 0.05)
})

test_that("a fit of many pairs is worth starting a GPU for, one of few pairs and rows in chunks are not", {
  replace_in_package("backend_info", \() list(gpu_engine = TRUE))
  replace_in_package("gpu_info", \() list(index = 1L))
  run <- replace(cpu_run(), "backend", "auto")
  rows <- structure(list(n = 1e5, d = 10), class = "rows_dense")
  expect_identical(run_of_fit(rows, 2000, run)$backend, "cuda")
  expect_identical(run_of_fit(rows, 20, run)$backend, "auto")
  expect_identical(run_of_fit(unclass(rows), 2000, run)$backend, "auto")
  expect_identical(run_of_fit(rows, 2000, cpu_run())$backend, "cpu")
})
