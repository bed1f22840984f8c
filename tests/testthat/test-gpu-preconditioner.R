# Matrices of kernels and preconditioners on a GPU.

test_that("the factors on a GPU are those of their definitions, for all kernels' forms and orders of any size", {
  skip_if_no_gpu()
  set.seed(1)
  for (m in c(1, 2, 63, 65, 300)) expect_factors(cuda_run(), m, "cuda")
})

test_that("kernels on a GPU are those of the CPU: all kernels, many dimensions, far offsets, a full matrix H", {
  skip_if_no_gpu()
  set.seed(2)
  for (kernel in c(names(ref_kernels), some_product_kernels())) for (d in c(1, 5, 40)) {
    x <- some_points(150, d)
    L <- if (d == 5) t(chol(crossprod(matrix(stats::rnorm(40), 8)))) else diag(0.5, d)
    for (offset in if (is.character(kernel)) c(0, 2^30) else 0) {
      at <- round(x * 1024) / 1024 + offset
      sources <- sum_sources(at, NULL, L, check_kernel(kernel), new_plan())
      K <- kernel_matrix_of(sources, NULL, cpu_run())
      ridge <- 1e-3 + 200 * max(abs(K)) # of the sigmoid, too, there is a factor then
      P <- new_preconditioner(sources, cuda_run(), diagonal = ridge)
      expect_equal(crossprod(factor_of(P)), K + diag(ridge, 150), tolerance = 1e-13)
    }
  }
})

test_that("every product with the factors on a GPU and every solve is base R's", {
  skip_if_no_gpu()
  set.seed(3)
  P <- new_preconditioner(centres(some_points(200, 3), 0.3), cuda_run(), 1e-12)
  precondition(P, stats::runif(200), lambda = 1e-4)
  expect_steps(P, 200)
})

test_that("duplicates on a GPU are factored with the jitter that it takes, and what is singular is an error", {
  skip_if_no_gpu()
  set.seed(4)
  x <- some_points(60, 2)
  sources <- centres(rbind(x, x[1:20, ]), 0.5)
  P <- new_preconditioner(sources, cuda_run(), 1e-13)
  K <- kernel_matrix_of(sources, NULL, cpu_run())
  expect_equal(crossprod(factor_of(P)), K + diag(80 * P$jitter, 80), tolerance = 1e-12)
  expect_error(new_preconditioner(matrix(c(1, 3, 3, 1), 2), cuda_run(), 1e-10), class = "flashkernel_error_singular")
})

test_that("a large preconditioner has the bits of the one before, and is right on vectors", {
  skip_if_no_gpu()
  set.seed(5)
  m <- 6000
  sources <- centres(some_points(m, 4), 0.2)
  v <- matrix(stats::rnorm(m), m)
  results <- lapply(1:2, \(i) {
    P <- new_preconditioner(sources, cuda_run(), 1e-12)
    precondition(P, lambda = 1e-3)
    on.exit(free_preconditioner(P))
    list(K = apply_factors(P, v, c("T", "T'")), A = apply_factors(P, v, c("A", "A'")),
      TT = apply_factors(P, v, c("T'", "T")), log_det = log_det(P))
  })
  expect_identical(results[[1]], results[[2]])
  one <- results[[1]]
  want <- kernel_operator(
    sources$points, bandwidth = 0.2, tol = 0,
    control = flash_control("cpu")
  ) %*% v + 1e-12 * m * v
  expect_equal(one$K, want, tolerance = 1e-12)
  expect_equal(one$A, one$TT / m + 1e-3 * v, tolerance = 1e-12)
})

test_that("beside sums in single precision A is of halves, T never, and A is nearly that in double", {
  skip_if_no_gpu()
  skip_if(nzchar(Sys.getenv("FLASHKERNEL_SANITIZER")), "too much for a sanitizer")
  set.seed(8)
  m <- 20000 # of several tiles
  x <- some_points(m, 4)
  v <- matrix(stats::rnorm(m), m)
  w <- stats::rexp(m)
  results <- \(precision) {
    P <- new_preconditioner(centres(x, 0.2), cuda_run(precision = precision), 1e-10)
    on.exit(free_preconditioner(P))
    precondition(P, w, lambda = 1e-9)
    K <- apply_factors(P, v, c("T", "T'"))
    want <- apply_factors(P, w * apply_factors(P, v, "T'"), "T") / m + 1e-9 * v
    list(K = K, error = max(abs(apply_factors(P, v, c("A", "A'")) - want)) / max(abs(want)))
  }
  double <- results("double")
  single <- results("single")
  expect_equal(single$K, double$K, tolerance = 1e-10)
  expect_lt(double$error, 1e-11)
  expect_gt(single$error, 1e-11)
  expect_lt(single$error, 1e-3)
  gpu_release()
})

test_that("\"auto\" takes the GPU from some order on", {
  skip_if_no_gpu()
  run <- run_control(settle_control(NULL))
  set.seed(6)
  of <- \(m) new_preconditioner(centres(some_points(m, 2), 0.01), run, 1e-9)$backend
  expect_identical(c(of(100), of(3000)), c("cpu", "cuda"))
})

test_that("giving the GPU back takes preconditioners there with it, and their memory", {
  skip_if_no_gpu()
  set.seed(7)
  sources <- centres(some_points(4000, 2), 0.05)
  make <- \() new_preconditioner(sources, cuda_run(), 1e-9)
  make()
  gc()
  gpu_release()
  before <- gpu_info()$memory_free[1]
  P <- make()
  gpu_release()
  expect_error(apply_factors(P, numeric(4000), "T"), class = "flashkernel_error_lost")
  make() # another in its place
  expect_error(apply_factors(P, numeric(4000), "T"), class = "flashkernel_error_lost")
  rm(P)
  gc()
  gpu_release()
  expect_gt(gpu_info()$memory_free[1], before - 64e6) # others may use the device, too
})

test_that("preconditioners on a GPU that fail or are freed leave no memory behind", {
  skip_if_no_gpu()
  K <- diag(c(-1, rep(1, 3999))) # 128 MB
  expect_freed(\() {
    try(new_preconditioner(K, cuda_run(), 1e-10), silent = TRUE)
    free_preconditioner(new_preconditioner(abs(K), cuda_run()))
  })
  large <- \() new_preconditioner(diag(1000), cuda_run())
  with_variable("FLASHKERNEL_CUDA_MEMORY", "1e6", expect_error(large(), class = "flashkernel_error_alloc"))
})

test_that("a forked child has no preconditioners of its parent's GPU", {
  skip_on_os("windows")
  skip_if_no_gpu()
  P <- new_preconditioner(diag(4), cuda_run())
  expect_no_fork(\() apply_factors(P, 1:4, "T"))
  expect_equal(apply_factors(P, 1:4, "T")[, 1], 1:4)
})

# so that "auto" counts the start of CUDA again in the files that follow
gpu_release()
