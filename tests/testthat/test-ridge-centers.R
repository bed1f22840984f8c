# The choice of centres for kernel_ridge().

centers_case <- function(n = 400, d = 3, seed = 1) {
  set.seed(seed)
  x <- matrix(stats::rnorm(n * d), n, dimnames = list(NULL, letters[seq_len(d)]))
  rows <- ridge_rows(x)
  run <- run_control(settle_control(NULL, list(backend = "cpu")))
  choose <- function(centers, method = "uniform", weights = NULL, kernel = "gaussian", of = rows, ...) {
    L <- rows_factor(of, 1)
    choose_centers(of, centers, method, weights, L, check_kernel(kernel), run, ...)
  }
  list(x = x, rows = rows, choose = choose)
}

test_that("every method draws so many rows, once each, and the same ones after the same seed", {
  case <- centers_case()
  for (method in CENTER_METHODS) for (kernel in c("gaussian", "linear")) {
    draw <- \() {
      set.seed(7)
      case$choose(60, method, kernel = kernel)
    }
    chosen <- draw()
    expect_identical(chosen$points, case$x[chosen$index, ])
    expect_false(is.unsorted(chosen$index, strictly = TRUE))
    expect_identical(c(length(chosen$index), chosen$merged), c(60L, 0L))
    expect_identical(draw(), chosen)
  }
})

test_that("rows of weight 0 are not drawn, and all others are where there are no more", {
  case <- centers_case()
  weights <- rep(c(0, 1), 200)
  for (method in CENTER_METHODS) {
    expect_true(all(case$choose(150, method, weights)$index %% 2 == 0))
    expect_identical(case$choose(200, method, weights)$index, seq(2L, 400L, by = 2L))
    expect_warning(all <- case$choose(201, method, weights), "200 rows of positive weight")
    expect_identical(all$index, seq(2L, 400L, by = 2L))
  }
})

test_that("what is drawn does not go by how the rows are held", {
  case <- centers_case()
  nth <- 0
  chunks <- list(case$x[1:150, ], case$x[151:400, ], NULL)
  testthat::skip_if_not_installed("Matrix")
  of <- list(
    ridge_rows(\() chunks[[(nth <<- nth + 1) - 3 * ((nth - 1) %/% 3)]]),
    ridge_rows(Matrix::Matrix(case$x, sparse = TRUE))
  )
  for (method in CENTER_METHODS) for (rows in of) {
    set.seed(3)
    want <- case$choose(40, method)
    set.seed(3)
    expect_identical(case$choose(40, method, of = rows)$index, want$index)
  }
})

test_that("random pivots leave less of the trace than uniform rows do", {
  set.seed(2)
  # one cluster of nearly all rows, and a few far from it
  x <- rbind(matrix(stats::rnorm(900, sd = 0.2), 300), matrix(stats::rnorm(60, sd = 5), 20))
  rows <- ridge_rows(x)
  run <- run_control(settle_control(NULL, list(backend = "cpu")))
  K <- ref_kernel_matrix(x, x, diag(3), "gaussian")
  left <- function(method, seed) {
    set.seed(seed)
    of <- choose_centers(rows, 25, method, NULL, diag(3), check_kernel("gaussian"), run, 1e-4)$index
    sum(diag(K - K[, of] %*% solve(K[of, of] + diag(1e-12, length(of)), K[of, ])))
  }
  mean_left <- \(method) mean(vapply(1:5, \(seed) left(method, seed), 0))
  uniform <- mean_left("uniform")
  for (method in c("rpcholesky", "kmeans++")) expect_lt(mean_left(method), uniform / 2, label = method)
  expect_lt(mean_left("leverage"), uniform)
})

test_that("pivots are drawn as they are one at a time", {
  # three points: the chance of the pair that is left out, by the formula
  x <- matrix(c(0, 0.5, 2))
  K <- ref_kernel_matrix(x, x, diag(1), "gaussian")
  chance <- numeric(3)
  for (i in 1:3) {
    left <- 1 - K[i, ]^2
    for (j in setdiff(1:3, i)) chance[6 - i - j] <- chance[6 - i - j] + left[j] / sum(left) / 3
  }
  kernels <- list(between = \(at, of) ref_kernel_matrix(of, at, diag(1), "gaussian"), diagonal = \(x) rep(1, nrow(x)))
  set.seed(5)
  out <- replicate(1000, 6 - sum(random_pivots(x, 2, kernels)))
  expect_lt(max(abs(tabulate(out, 3) / 1000 - chance)), 0.05)
})

test_that("leverage scores are those of the matrix where all rows are landmarks", {
  set.seed(4)
  x <- matrix(stats::rnorm(150), 50)
  K <- ref_kernel_matrix(x, x, diag(3), "gaussian")
  kernels <- list(between = \(at, of) ref_kernel_matrix(of, at, diag(3), "gaussian"))
  ridge <- 0.3
  part <- leverage_part(x, x, chol(K + diag(ridge, 50)), kernels)
  expect_equal((1 - part) / ridge, diag(K %*% solve(K + diag(ridge, 50))))
  expect_equal(sum(eigen(K)$values / (eigen(K)$values + 50 * resolved_lambda(K, 10))), 10, tolerance = 1e-2)
})

test_that("equal centres are merged, whoever chose them", {
  case <- centers_case(90)
  x <- case$x[c(1:60, 1:30), ]
  x[61, 1] <- -0 * 1
  x[1, 1] <- 0
  rows <- ridge_rows(x)
  for (method in CENTER_METHODS) {
    chosen <- case$choose(90, method, of = rows)
    expect_identical(chosen$index, 1:60)
    expect_equal(chosen$merged, 30)
    expect_gt(nrow(case$choose(70, method, of = rows)$points), 39)
  }
  chosen <- case$choose(c(5, 64, 4, 5), of = rows)
  expect_equal(chosen, list(points = x[5:4, ], index = c(5, 64), merged = 2))
  chosen <- case$choose(x)
  expect_identical(chosen$points, x[1:60, ])
  expect_null(chosen$index)
  for (size in list(c(1, 3), c(50, 1), c(50, 2))) {
    set.seed(1)
    x <- matrix(sample(3, prod(size), TRUE), size[1]) + 0
    expect_identical(duplicated_rows(x), as.vector(duplicated(x)))
    expect_identical(duplicated_rows(as_csparse(x - 2)), as.vector(duplicated(x)))
  }
})

test_that("indices and points are checked", {
  case <- centers_case()
  refused <- \(centers, text) expect_error(case$choose(centers), text, class = "flashkernel_error_argument")
  expect_identical(case$choose(c(7, 3))$points, case$x[c(7, 3), ])
  refused("a", "number")
  refused(0, "whole")
  refused(1.5, "whole")
  refused(NA_real_, "whole")
  refused(numeric(), "none")
  refused(c(1, 401), "401")
  refused(c(1, 0), "from 1 to 400")
  refused(c(1, 2.5), "2.5")
  refused(c(1, NA), "NA")
  refused(case$x[1:2, 1:2], "c")
  refused(replace(case$x, 3, Inf), "finite")
  expect_identical(case$choose(as.data.frame(case$x[1:3, 3:1]))$points, case$x[1:3, ])
  expect_warning(case$choose(500), "400 rows: all")
})

test_that("the default number of centres is whole for every family, on a CPU and on a GPU", {
  rows <- ridge_rows(matrix(with_fixed_seed(rnorm(60)), 20))
  rows$n <- 26048
  for (on_gpu in c(FALSE, TRUE)) for (family in FAMILIES[c("poisson", "multinomial")]) {
    replace_in_package("fits_on_gpu", \(n, run) on_gpu)
    spec <- list(metric = "auto", family = family)
    found <- vapply(1:30, \(outputs) most_centers(rows, spec, outputs, cpu_run()), 0)
    expect_identical(found, floor(found))
    expect_true(all(found >= default_centers(26048) & found <= CENTERS_IN_SECONDS[[if (on_gpu) "cuda" else "cpu"]]$others[1]))
  }
})
