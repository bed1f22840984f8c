# Matrices of kernels, and preconditioners on the host; test-gpu-preconditioner.R has those on a GPU.

test_that("a matrix of kernels is that of the formulas, for all kernels, at the points themselves and at others", {
  set.seed(1)
  for (d in c(1, 3, 20)) {
    x <- some_points(100, d)
    y <- some_points(51, d)
    for (H in list(diag(0.3, d), crossprod(matrix(stats::rnorm(d * (d + 2)), d + 2)) / d)) {
      expect_kernel_matrices(x, y, H)
    }
  }
})

test_that("a matrix of kernels at itself is symmetric to the bit, and the same for any number of threads", {
  set.seed(2)
  for (m in c(1, 2, 47, 49, 193, 400)) for (kernel in list("gaussian", kernel_spec("polynomial"))) {
    sources <- centres(some_points(m, 6), 0.7, kernel)
    K <- kernel_matrix_of(sources, NULL, cpu_run(threads = 1))
    expect_identical(K, t(K))
    expect_identical(kernel_matrix_of(sources, NULL, cpu_run(threads = 3)), K)
    expect_identical(kernel_matrix_of(sources, sources$points, cpu_run(threads = 2)), K)
  }
})

test_that("far offsets cost a matrix of kernels no digits", {
  set.seed(3)
  x <- matrix(sample(0:1000, 600, TRUE), 100) / 1024 # numbers that the offset leaves as they are
  for (kernel in names(ref_kernels)) {
    near <- kernel_matrix_of(centres(x, 0.4, kernel), NULL, cpu_run())
    expect_equal(kernel_matrix_of(centres(x + 2^30, 0.4, kernel), NULL, cpu_run()), near, tolerance = 1e-14)
  }
})

test_that("the factors are those of their definitions, with weights and without", {
  set.seed(4)
  for (m in c(1, 2, 49, 130)) expect_factors(cpu_run(), m, "cpu")
})

test_that("every product with the factors and every solve is base R's, one after the other", {
  set.seed(5)
  P <- new_preconditioner(centres(some_points(120, 3), 0.3), cpu_run(), 1e-12)
  precondition(P, stats::runif(120), lambda = 1e-4)
  expect_steps(P, 120)
})

test_that("the matrix of a sum of kernels is factored in parts of any size", {
  set.seed(6)
  x <- matrix(rnorm(3 * 700), 700)
  sources <- sources_of_sum(x)
  K <- 0.25 * exp(-as.matrix(dist(x[, 1:2] / 0.3))^2 / 2) +
    2 * exp(-as.matrix(dist(normal_scores(score_maps(x[, 3, drop = FALSE]), x[, 3, drop = FALSE]) / 0.7)))
  P <- new_preconditioner(sources, cpu_run(), NULL, diagonal = 0.1)
  T <- factor_numbers(P, "T", TRUE)
  expect_equal(crossprod(T), unname(K) + diag(0.1, 700), tolerance = 1e-9)
})

test_that("A is made again for other weights while T stays", {
  set.seed(6)
  P <- new_preconditioner(centres(some_points(50, 2), 0.2), cpu_run(), 1e-12)
  R <- factor_of(P)
  expect_error(apply_factors(P, 1:50, "A"), "no factor A", class = "flashkernel_error_internal")
  for (lambda in c(1e-2, 1e-6)) {
    precondition(P, lambda = lambda)
    expect_equal(crossprod(factor_of(P, "A")), tcrossprod(R) / 50 + diag(lambda, 50), tolerance = 1e-12)
    expect_identical(factor_of(P), R)
  }
  # weights of 0 leave out
  precondition(P, rep(c(1, 0), 25), scale = 1, lambda = 0.1)
  want <- tcrossprod(R[, c(TRUE, FALSE)]) + diag(0.1, 50)
  expect_equal(crossprod(factor_of(P, "A")), want, tolerance = 1e-12)
})

test_that("duplicates are factored with the jitter that it takes, which is told", {
  set.seed(7)
  x <- some_points(60, 2)
  sources <- centres(rbind(x, x[1:20, ]), 0.5)
  expect_error(new_preconditioner(sources, cpu_run()), "duplicates.*`bandwidth`.*`lambda`",
    class = "flashkernel_error_singular"
  )
  P <- new_preconditioner(sources, cpu_run(), 0)
  expect_gt(P$jitter, 0)
  expect_gt(P$steps, 1)
  K <- kernel_matrix_of(sources, NULL, cpu_run())
  expect_equal(crossprod(factor_of(P)), K + diag(80 * P$jitter, 80), tolerance = 1e-12)
  # enough of it from the start
  P <- new_preconditioner(sources, cpu_run(), 1e-9)
  expect_identical(c(P$jitter, P$steps), c(1e-9, 1))
})

test_that("the ladder goes up to a jitter of 1e-6, or stays at a larger one that was asked for", {
  # eigenvalues 1 + a and 1 - a, and a jitter of 2 e for a mean of 1 and m = 2
  with_least <- \(value) matrix(c(1, 1 + value, 1 + value, 1), 2)
  P <- new_preconditioner(with_least(1e-6), cpu_run(), 1e-13)
  expect_identical(c(P$jitter, P$steps), c(1e-6, 5))
  expect_error(new_preconditioner(with_least(1e-5), cpu_run(), 1e-13), class = "flashkernel_error_singular")
  P <- new_preconditioner(with_least(1e-5), cpu_run(), 1e-3)
  expect_identical(c(P$jitter, P$steps), c(1e-3, 1))
})

test_that("where nothing helps the error says so, and no memory is lost", {
  bad <- list(matrix(c(1, 3, 3, 1), 2), matrix(NaN, 3, 3), matrix(0, 2, 2), matrix(c(1, Inf, Inf, 1), 2))
  for (K in bad) {
    expect_error(new_preconditioner(K, cpu_run(), 1e-10), "duplicates", class = "flashkernel_error_singular")
  }
  P <- new_preconditioner(matrix(c(1, 1, 1, 1), 2), cpu_run(), 1e-15)
  expect_error(precondition(P, c(0, 0), lambda = 0), "`lambda`", class = "flashkernel_error_singular")
  expect_error(apply_factors(P, 1:2, "A^-1"), "no factor A")
  skip_if_not(file.exists("/proc/self/status"))
  resident <- \() number_in("/proc/self/status", "^VmRSS:")
  K <- diag(c(-1, rep(1, 999)))
  try_it <- \() try(new_preconditioner(K, cpu_run(), 1e-10), silent = TRUE)
  try_it()
  before <- resident()
  for (i in 1:30) try_it()
  expect_lt(resident() - before, 30 * 8 * 1000 / 2) # kB; 8 MB each
})

test_that("a diagonal is added before the jitter: a number, or one for each", {
  set.seed(8)
  sources <- centres(some_points(40, 2), 0.3)
  K <- kernel_matrix_of(sources, NULL, cpu_run())
  for (diagonal in list(0.5, stats::runif(40))) {
    P <- new_preconditioner(sources, cpu_run(), diagonal = diagonal)
    expect_equal(crossprod(factor_of(P)), K + diag(diagonal, 40), tolerance = 1e-13)
    expect_identical(P$steps, 1L)
    want <- determinant(K + diag(diagonal, 40))$modulus[1]
    expect_equal(log_det(P), want, tolerance = 1e-12)
    P <- new_preconditioner(K, cpu_run(), 1e-3, diagonal)
    jitter <- 1e-3 * sum(diag(K) + diagonal)
    expect_equal(crossprod(factor_of(P)), K + diag(diagonal + jitter, 40), tolerance = 1e-13)
  }
})

test_that("a preconditioner that was freed, or comes from a file, is an error of its own class", {
  P <- new_preconditioner(diag(3), cpu_run())
  copy <- unserialize(serialize(P, NULL))
  expect_error(apply_factors(copy, 1:3, "T"), class = "flashkernel_error_lost")
  expect_error(precondition(copy, lambda = 1), class = "flashkernel_error_lost")
  free_preconditioner(copy)
  free_preconditioner(P)
  free_preconditioner(P)
  expect_error(factor_of(P), class = "flashkernel_error_lost")
})

test_that("preconditioners are freed by R's collector", {
  skip_if_not(file.exists("/proc/self/status"))
  skip_if(nzchar(Sys.getenv("FLASHKERNEL_SANITIZER")), "a sanitizer keeps what is freed")
  # in a process of its own: a heap that others have used stays in pieces
  grown <- in_child(function() {
    own <- asNamespace("flashkernel")
    run <- own$run_control(own$settle_control(NULL, list(backend = "cpu")))
    K <- diag(600)
    after <- function(count) {
      for (i in seq_len(count)) own$new_preconditioner(K, run)
      gc()
      as.numeric(gsub("[^0-9]", "", grep("^VmRSS:", readLines("/proc/self/status"), value = TRUE)))
    }
    before <- after(10)
    after(40) - before
  })
  expect_lt(grown, 40 * 8 * 360 / 4)
})

test_that("an interrupt ends the factorisation between blocks, and what there was before is still right", {
  set.seed(9)
  stopper <- function(after) {
    calls <- 0
    function(fraction) {
      calls <<- calls + 1
      if (calls > after) stop("enough")
    }
  }
  sources <- centres(some_points(1100, 3), 0.1)
  run <- cpu_run()
  for (after in c(0, 5)) {
    run$progress <- stopper(after)
    got <- tryCatch(new_preconditioner(sources, run, 1e-12), interrupt = \(i) "interrupted")
    expect_identical(got, "interrupted")
  }
  P <- new_preconditioner(sources, cpu_run(), 1e-12)
  R <- apply_factors(P, 1:1100, "T")
  got <- tryCatch(precondition(P, lambda = 1, progress = stopper(2)), interrupt = \(i) "interrupted")
  expect_identical(got, "interrupted")
  expect_error(apply_factors(P, 1:1100, "A"), "no factor A")
  expect_identical(apply_factors(P, 1:1100, "T"), R)
})

test_that("orders that are done in blocks have the same factors, and the same bits for any number of threads", {
  set.seed(10)
  sources <- centres(some_points(1100, 3), 0.1)
  P <- new_preconditioner(sources, cpu_run(threads = 1), 1e-12)
  expect_identical(factor_of(new_preconditioner(sources, cpu_run(threads = 3), 1e-12)), factor_of(P))
  v <- matrix(stats::rnorm(2200), 1100)
  K <- kernel_matrix_of(sources, NULL, cpu_run())
  expect_equal(apply_factors(P, v, c("T", "T'")), K %*% v + 1e-12 * 1100 * v, tolerance = 1e-13)
  precondition(P, lambda = 1e-3)
  want <- apply_factors(P, v, c("T'", "T")) / 1100 + 1e-3 * v
  expect_equal(apply_factors(P, v, c("A", "A'")), want, tolerance = 1e-13)
})

test_that("progress goes from 0 to 1 and never back", {
  told <- numeric()
  run <- cpu_run()
  run$progress <- \(fraction) told <<- c(told, fraction)
  P <- new_preconditioner(centres(some_points(1050, 2), 0.05), run, 1e-12)
  expect_false(is.unsorted(told))
  expect_identical(utils::tail(told, 1), 1)
  told <- numeric()
  precondition(P, lambda = 1e-3, progress = run$progress)
  expect_false(is.unsorted(told))
  expect_identical(utils::tail(told, 1), 1)
})
