# The CUDA engine against the CPU in double precision, on fresh data; its bits, its memory and its place
# in a session. test-gpu-reference.R holds the cases of known answer.

PRECISIONS <- c("double", "single", "fast")
ESTIMATORS <- c("kde", "sdkde", "laplace")

# Queries near the points, a full H, and weights; the more dimensions the wider, so that sums do not
# vanish.
engine_case <- function(n, m, d) {
  x <- matrix(example_points(n, d), n, d)
  set.seed(1000 * d + n + m)
  y <- x[sample(n, m, TRUE), , drop = FALSE] + matrix(stats::rnorm(m * d), m) / 2
  list(
    x = x, y = y, d = d, H = example_bandwidth(d, max(0.7, sqrt(d) / 4)),
    weights = stats::runif(n), b = matrix(stats::rnorm(3 * n), n, dimnames = list(NULL, letters[1:3])),
    where = sprintf("n = %d, m = %d, d = %d", n, m, d)
  )
}

cpu_fit <- function(case, estimator = "kde", weights = case$weights) {
  flash_kde(case$x, estimator, case$H, weights = weights, control = flash_control("cpu", "double"))
}

# ---- values -----------------------------------------------------------------------------------

expect_sums_of_cpu <- function(case) {
  kde <- cpu_fit(case)
  log_density <- predict(kde, case$y, type = "log_density")
  score <- predict(kde, case$y, type = "score")
  sums <- function(b, ...) kernel_sum_by(case$x, case$y, b, case$H, weights = case$weights, ..., tol = 0)
  want <- sums(case$b, backend = "cpu", precision = "double")
  # columns have signs: relative to the sum of absolute terms
  size <- sums(abs(case$b), backend = "cpu", precision = "double")
  for (precision in PRECISIONS) {
    where <- paste(case$where, precision)
    gpu <- on_gpu(kde, precision)
    expect_promise(predict(gpu, case$y, "log_density"), log_density, case$d, precision, where)
    expect_score_near(predict(gpu, case$y, "score"), score, case$H, precision, where)
    got <- sums(case$b, backend = "cuda", precision = precision)
    expect_identical(dimnames(got), dimnames(want))
    expect_l2(got, want, l2_bound(precision, case$d), where, size)
  }
}

SIZES <- c(1, 2, 63, 64, 65, 127, 129, 1000, 3001)

# Every number of points with another number of queries for every dimension.
for (d in c(1, 2, 3, 4, 5, 8, 15, 16, 17, 32, 33, 64, 65, 80, 96, 97, 112, 128, 129, 200, 440)) {
  test_that(paste0("sums of all sizes are those of the CPU in ", d, " dimensions"), {
    skip_if_no_gpu()
    shift <- 1 + d %% (length(SIZES) - 1)
    for (i in seq_along(SIZES)) {
      m <- SIZES[1 + (i * shift + d) %% length(SIZES)]
      expect_sums_of_cpu(engine_case(SIZES[i], m, d))
    }
  })
}

for (d in c(1, 3, 16, 33, 100)) for (estimator in ESTIMATORS) {
  test_that(sprintf("a whole %s fit in %d dimensions is that of the CPU", estimator, d), {
    skip_if_no_gpu()
    for (n in c(2, 65, 700)) {
      case <- engine_case(n, 129, d)
      cpu <- cpu_fit(case, estimator)
      plain <- cpu_fit(case, "kde")
      for (precision in PRECISIONS) {
        where <- paste(case$where, precision)
        gpu <- flash_kde(case$x, estimator, case$H, weights = case$weights, control = flash_control("cuda", precision))
        compare <- function(...) {
          if (estimator == "laplace") { # signed: relative to the terms
            want <- predict(cpu, ...)
            size <- pmax(abs(want), predict(plain, ...))
            return(expect_l2(predict(gpu, ...), want, l2_bound(precision, d), where, size))
          }
          log_density <- \(fit) predict(fit, ..., type = "log_density")
          expect_promise(log_density(gpu), log_density(cpu), d, precision, where)
        }
        compare(case$y) # queries
        compare() # the points themselves
        compare(loo = TRUE) # but for the one in question
        if (estimator == "sdkde") {
          steps <- function(fit) 2 * (fit$debiased - case$x) %*% solve(case$H)
          expect_score_near(steps(gpu), steps(cpu), case$H, precision, paste(where, "debiased"))
        }
      }
    }
  })
}

# So many points without weights meet each pair of tiles once, in strips of 768 or, "fast", 1,152: whole ones, and those
# that end with a few points.
many_points <- function(d, n) {
  x <- matrix(example_points(n, d), n, d)
  list(x = x, H = example_bandwidth(d, max(0.7, sqrt(d) / 4)), d = d, n = n)
}
debiased_steps <- function(case, precision, ...) {
  fit <- flash_kde(case$x, "sdkde", case$H, control = flash_control("cuda", precision, ...))
  2 * (fit$debiased - case$x) %*% solve(case$H)
}

expect_moves_of_double <- function(case, where) {
  want <- debiased_steps(case, "double")
  for (precision in c("single", "fast")) {
    expect_score_near(debiased_steps(case, precision), want, case$H, precision, paste(where, precision))
  }
}

for (d in c(5, 9, 16)) {
  test_that(sprintf("many points move as in double precision in %d dimensions, whatever their number", d), {
    skip_if_no_gpu()
    for (n in c(81 * 1152, 95001, 128 * 768 + 1)) expect_moves_of_double(many_points(d, n), paste(n, d))
  })
}

test_that("points far out and points alone move as in double precision among many", {
  skip_if_no_gpu()
  case <- many_points(6, 100000)
  case$x[c(1, 767, 40000, 100000), ] <- case$x[c(1, 767, 40000, 100000), ] + c(6, -7, 5, 8)
  case$x[2:5, ] <- rep(case$x[1, ], each = 4) # ties
  expect_moves_of_double(case, "far")
})

test_that("many points some thirty kernel standard deviations wide move as in double precision", {
  skip_if_no_gpu()
  for (d in c(6, 16)) {
    case <- many_points(d, 70000)
    case$x[c(TRUE, FALSE), 1] <- case$x[c(TRUE, FALSE), 1] + 45 * sqrt(case$H[1, 1])
    expect_moves_of_double(case, paste("d =", d))
  }
})

test_that("scores of kernel_sum() and plain leave-one-out scores are those of the CPU", {
  skip_if_no_gpu()
  for (d in c(2, 16, 70, 190)) {
    case <- engine_case(513, 31, d)
    cpu <- cpu_fit(case)
    want <- predict(cpu, loo = TRUE, type = "score")
    for (precision in PRECISIONS) {
      got <- predict(on_gpu(cpu, precision), loo = TRUE, type = "score")
      expect_score_near(got, want, case$H, precision, case$where)
      score <- function(...) {
        kernel_sum(case$x, bandwidth = case$H, weights = case$weights, type = "score", control = flash_control(...))
      }
      expect_score_near(
        score(backend = "cuda", precision = precision), score(backend = "cpu", precision = "double"),
        case$H, precision, case$where
      )
    }
  }
})

test_that("standard errors on the GPU are those of the CPU", {
  skip_if_no_gpu()
  case <- engine_case(400, 50, 3)
  for (estimator in ESTIMATORS) {
    cpu <- cpu_fit(case, estimator)
    want <- predict(cpu, case$y, se.fit = TRUE)$se.fit
    got <- predict(on_gpu(cpu), case$y, se.fit = TRUE)$se.fit
    expect_within(got / want, rep(1, 50), 1e-8, estimator)
    got <- predict(on_gpu(cpu, "single"), case$y, se.fit = TRUE)$se.fit
    expect_l2(got, want, 1e-3, estimator)
  }
})

test_that("bandwidths by cross-validation are those of the CPU", {
  skip_if_no_gpu()
  x <- example_points(600, 3)
  for (estimator in ESTIMATORS) {
    choose <- function(...) kde_bandwidth(x, "lcv", estimator, "scaled", control = flash_control(...))
    want <- choose(backend = "cpu", precision = "double")
    for (precision in c("double", "single")) {
      got <- choose(backend = "cuda", precision = precision)
      digits <- if (precision == "double") 1e-6 else 1e-2
      expect_equal(as.numeric(got), as.numeric(want), tolerance = digits, label = estimator)
      digits <- if (precision == "double") 1e-9 else 1e-5
      expect_equal(attr(got, "criterion"), attr(want, "criterion"), tolerance = digits, label = estimator)
    }
  }
  choose <- function(backend) {
    control <- flash_control(backend, "double")
    kde_bandwidth(x[, 1:2], "lscv", structure = "scaled", control = control)
  }
  expect_equal(as.numeric(choose(backend = "cuda")), as.numeric(choose(backend = "cpu")), tolerance = 1e-5)
})

# By wgmma on Hopper: rows that stay in shared memory and that come by, several blocks of them and runs of columns.
test_that("sums of many points of many dimensions are those in double precision, alike by every method", {
  skip_if_no_gpu()
  sums <- function(d) {
    set.seed(d)
    x <- matrix(stats::rnorm(9000 * d), 9000)
    y <- matrix(stats::rnorm(1500 * d), 1500) * 0.9
    weights <- stats::runif(9000)
    b <- matrix(stats::rnorm(9000 * 70), 9000)
    all <- function(precision) {
      control <- flashkernel::flash_control(tol = 0, engine = "exact", backend = "cuda", precision = precision)
      kde <- \(estimator = "kde", ...) {
        flashkernel::flash_kde(x, estimator, bandwidth = 0.7 * sqrt(d), control = control, ...)
      }
      plain <- kde()
      list(
        density = predict(plain, y), loo = predict(plain, loo = TRUE), weighted = predict(kde(weights = weights), y),
        laplace = predict(kde("laplace"), y), score = predict(plain, y, "score"),
        sums = flashkernel::kernel_sum(x, y, b, 0.7 * sqrt(d), weights = weights, control = control, tol = 0)
      )
    }
    list(double = all("double"), single = all("single"), again = all("single"))
  }
  for (d in c(65, 96, 128, 176, 200)) for (method in c("", "mma")) {
    got <- in_child(sums, list(d), env = c(FLASHKERNEL_CUDA_METHOD = method))
    expect_identical(got$again, got$single)
    for (what in names(got$double)) {
      gap <- max(abs(got$single[[what]] - got$double[[what]])) / max(abs(got$double[[what]]))
      expect_lt(gap, if (what %in% c("score", "sums")) 1e-4 else 3e-5, label = paste(method, d, what))
    }
  }
})

# Rows that stay in shared memory and that come by, several slots and tiles, groups of 64 values, weights of zero,
# polynomials, pairs that are left out, and rows from the middle to the tails.
test_that("Gaussian sums in double on tensor cores are those by differences", {
  skip_if_no_gpu()
  sums <- function(dimensions) lapply(dimensions, \(d) {
    set.seed(d)
    x <- (matrix(stats::rnorm(3001 * d), 3001) + 3 * stats::rbinom(3001, 1, 0.3)) * 2 / sqrt(d)
    near <- matrix(stats::rnorm(1100 * d), 1100) * 2 / sqrt(d)
    y <- rbind(near, outer(c(10, 30, 1e4, 1e140), rep(1, d)))
    weights <- stats::runif(3001) * stats::rbinom(3001, 1, 0.9)
    b <- matrix(stats::rnorm(3001 * 70), 3001)
    control <- flashkernel::flash_control(tol = 0, engine = "exact", backend = "cuda", precision = "double")
    kde <- \(estimator = "kde", ...) flashkernel::flash_kde(x, estimator, bandwidth = 1, control = control, ...)
    log_density <- \(fit, ...) predict(fit, ..., type = "log_density")
    plain <- kde()
    laplace <- kde("laplace", weights = weights)
    internal <- asNamespace("flashkernel")
    list(
      method = internal$log_estimate(plain, near, FALSE, internal$fit_control(plain))$stats$method,
      logs = list(
        density = log_density(plain, y), loo = log_density(plain, loo = TRUE),
        weighted = log_density(kde(weights = weights), y), debiased = log_density(kde("sdkde", weights = weights), near)
      ),
      scores = list(score = predict(plain, y[1:1101, ], "score"), loo = predict(plain, loo = TRUE, type = "score")),
      signed = list(
        laplace = predict(laplace, near), laplace_loo = predict(laplace, loo = TRUE),
        few = flashkernel::kernel_sum(x, y, b[, 1:3], 1, control = control, tol = 0),
        many = flashkernel::kernel_sum(x, y, b, 1, weights = weights, control = control, tol = 0)
      )
    )
  })
  dimensions <- c(5, 8, 16, 17, 33, 64, 100, 300)
  all <- in_child(sums, list(dimensions))
  expect_identical(in_child(sums, list(dimensions)), all)
  by_differences <- in_child(sums, list(dimensions), env = c(FLASHKERNEL_CUDA_METHOD = "difference"))
  for (i in seq_along(dimensions)) {
    got <- all[[i]]
    want <- by_differences[[i]]
    expect_identical(c(got$method, want$method), c("dmma", "difference"))
    where <- \(what) paste(what, dimensions[i])
    for (what in names(want$logs)) expect_within(got$logs[[what]], want$logs[[what]], 1e-11, where(what))
    for (what in names(want$scores)) expect_within(got$scores[[what]], want$scores[[what]], 1e-10, where(what))
    for (what in names(want$signed)) {
      gap <- max(abs(got$signed[[what]] - want$signed[[what]])) / max(abs(want$signed[[what]]))
      expect_lt(gap, 1e-11, label = where(what))
    }
  }
})

test_that("products take double precision as far as their rounding allows, differences beyond and in few dimensions", {
  skip_if_no_gpu()
  method <- function(d, apart) {
    x <- example_points(500, d) + rep(c(-apart, apart), each = 250)
    y <- x[seq(1, 500, by = 9), , drop = FALSE] + 0.1
    cpu <- flash_kde(x, "kde", bandwidth = 1, control = flash_control("cpu", "double"))
    gpu <- on_gpu(cpu)
    want <- predict(cpu, y, type = "log_density")
    expect_within(predict(gpu, y, "log_density"), want, 1e-10, paste(d, apart))
    expect_score_near(predict(gpu, y, "score"), predict(cpu, y, "score"), diag(d), "double", paste(d, apart))
    log_estimate(gpu, y, FALSE, fit_control(gpu))$stats$method
  }
  for (d in c(5, 16, 70)) {
    expect_identical(method(d, 0), "dmma")
    expect_identical(method(d, 30 / sqrt(d)), "dmma")
    for (apart in c(60, 300) / sqrt(d)) expect_identical(method(d, apart), "difference")
  }
  for (d in c(1, 4)) expect_identical(method(d, 0), "difference")
})

# From 1e8 pairs on kernels of so many values are a matrix, which cuBLAS multiplies with them.
many_values <- function(d, v, n = 11000, m = 9500) {
  case <- engine_case(n, m, d)
  case$b <- matrix(stats::rnorm(n * v), n)
  case$at <- seq(1, m, length.out = 40) # rows of which the CPU is asked
  case
}

test_that("sums of more columns than a launch takes are those of the CPU, the same each time", {
  skip_if_no_gpu()
  for (size in list(c(10, 800), c(64, 512), c(80, 200), c(128, 200))) {
    case <- many_values(size[1], size[2])
    sums <- function(rows, ..., b = case$b) kernel_sum_by(case$x, case$y[rows, ], b, case$H, weights = case$weights, ..., tol = 0)
    on_cpu <- function(b) sums(case$at, backend = "cpu", precision = "double", b = b)
    want <- on_cpu(case$b)
    terms <- on_cpu(abs(case$b))
    for (precision in PRECISIONS) {
      where <- paste(case$where, precision)
      got <- sums(TRUE, backend = "cuda", precision = precision)
      expect_l2(got[case$at, ], want, l2_bound(precision, case$d), where, terms)
      expect_identical(sums(TRUE, backend = "cuda", precision = precision), got)
      little <- flash_control("cuda", precision = precision, gpu_memory_limit = 3e8) # of rows and columns at a time
      expect_l2(sums(TRUE, control = little)[case$at, ], want, l2_bound(precision, case$d), where, terms)
    }
  }
})

test_that("scores of more dimensions than a launch takes are those of the CPU", {
  skip_if_no_gpu()
  for (d in c(128, 200, 300)) {
    case <- many_values(d, 0)
    near <- function(got, want, precision, what) {
      expect_score_near(got, want, case$H, precision, paste(case$where, precision, what))
    }
    for (what in c("kde", "laplace", "weighted")) {
      cpu <- cpu_fit(case, if (what == "laplace") what else "kde", if (what == "weighted") case$weights)
      want <- predict(cpu, case$y[case$at, ], "score")
      for (precision in PRECISIONS) {
        got <- predict(on_gpu(cpu, precision), case$y, "score")
        near(got[case$at, ], want, precision, what)
      }
    }
    # without themselves, as from sums with them
    x <- case$x[case$at, ]
    sums <- kernel_sum(
      case$x, x, cbind(1, case$x), case$H, weights = case$weights, tol = 0,
      control = flash_control("cpu", "double")
    )
    sums <- sums - case$weights[case$at] * cbind(1, x)
    want <- (sums[, -1] / sums[, 1] - x) %*% solve(case$H)
    fit <- cpu_fit(case)
    for (precision in PRECISIONS) {
      got <- predict(on_gpu(fit, precision), loo = TRUE, type = "score")
      near(got[case$at, ], want, precision, "loo")
    }
  }
})

# ---- data at the edge -------------------------------------------------------------------------

test_that("log densities and scores in the far tails are right on the GPU", {
  skip_if_no_gpu()
  for (d in c(1, 4, 16, 40)) {
    case <- engine_case(300, 1, d)
    sds <- sqrt(diag(case$H))
    reach <- sqrt(2 * c(100, 700, 800, 6000, 60000) / d) # in sds of each dimension
    y <- matrix(colMeans(case$x), 5, d, byrow = TRUE) + outer(reach, sds)
    y <- rbind(y, case$x[1:3, , drop = FALSE]) # bulk and tail in one call
    cpu <- cpu_fit(case)
    want <- predict(cpu, y, type = "log_density")
    expect_lt(min(want), -40000)
    for (precision in c("double", "single")) {
      gpu <- on_gpu(cpu, precision)
      expect_promise(predict(gpu, y, "log_density"), want, d, precision, paste(d, precision))
      bound <- if (precision == "double") 1e-9 else 1e-4
      expect_within(predict(gpu, y, "score"), predict(cpu, y, "score"), bound, paste(d, precision))
    }
    expect_true(all(is.finite(predict(on_gpu(cpu, "fast"), y, "log_density"))))
  }
})

test_that("queries any distance away keep their log densities on the GPU", {
  skip_if_no_gpu()
  x <- c(-1.3, 0.2, 0.7, 2.1)
  y <- 10^(2:150) * rep(c(1, -1.37), length.out = 149)
  for (estimator in c("kde", "laplace")) {
    cpu <- flash_kde(x, estimator, bandwidth = 1, control = flash_control("cpu"))
    log_abs <- function(fit) {
      internal <- asNamespace("flashkernel")
      internal$log_estimate(fit, matrix(y), FALSE, internal$fit_control(fit))$log_abs
    }
    expect_within(log_abs(on_gpu(cpu)), log_abs(cpu), 1e-12, estimator)
    expect_within(predict(on_gpu(cpu), y, "score"), predict(cpu, y, "score"), 1e-10, estimator)
    expect_within(log_abs(on_gpu(cpu, "single")), log_abs(cpu), 1e-5, estimator)
  }
})

test_that("wide data lose no digits: clusters ten thousand bandwidths apart, and far from the origin", {
  skip_if_no_gpu()
  for (d in c(1, 3, 8, 16, 33)) for (offset in c(0, 1e4)) {
    x <- example_points(400, d) + rep(c(-1e4, 0, 1e4, 5e3), each = 100) + offset
    y <- x[seq(1, 400, by = 37), , drop = FALSE] + 0.1
    cpu <- flash_kde(x, "kde", bandwidth = 1, control = flash_control("cpu", "double"))
    want <- predict(cpu, y, type = "log_density")
    score <- predict(cpu, y, type = "score")
    for (precision in PRECISIONS) {
      where <- sprintf("d = %d, offset %g, %s", d, offset, precision)
      gpu <- on_gpu(cpu, precision)
      expect_promise(predict(gpu, y, "log_density"), want, d, precision, where, 1e-9)
      if (precision != "fast") expect_score_near(predict(gpu, y, "score"), score, diag(d), precision, where)
    }
  }
})

test_that("coefficients and weights below normal numbers give the CPU's sums on the GPU", {
  skip_if_no_gpu()
  set.seed(8)
  x <- matrix(stats::rnorm(600), ncol = 2)
  for (precision in c("single", "double")) for (size in c(1e-309, 1e-312)) {
    b <- size * stats::runif(300, -1, 1)
    gap <- function(...) {
      sum_on <- \(on) kernel_sum(x, bandwidth = 0.5, control = flash_control(on, precision), ...)
      sums <- lapply(c("cuda", "cpu"), sum_on)
      max(abs(sums[[1]] - sums[[2]])) / max(abs(sums[[2]]))
    }
    expect_lt(gap(b = b), if (precision == "single") 1e-4 else 1e-10)
    expect_lt(gap(weights = abs(b)), 1e-4)
  }
})

test_that("coefficients over all decades of doubles keep the least of them on a GPU", {
  skip_if_no_gpu()
  x <- 1000 * (1:200)
  b <- 10^seq(-318, 305, length.out = 200) * c(1, -1)
  sums <- kernel_sum(x, b = b, bandwidth = 1, control = flash_control("cuda", engine = "exact", precision = "double"))
  expect_equal(as.vector(sums) / b, rep(1, 200), tolerance = 1e-12)
})

test_that("terms and points far below the largest coefficient or weight are kept on a GPU", {
  skip_if_no_gpu()
  expect_decades_kept("cuda")
  expect_light_points_kept("cuda")
})

test_that("ties, single points and weights of zero are no trouble on the GPU", {
  skip_if_no_gpu()
  x <- round(example_points(500, 3))
  weights <- rep(c(0, 1, 2, 1e-8), 125)
  for (estimator in ESTIMATORS) {
    cpu <- flash_kde(x, estimator, bandwidth = 0.5, weights = weights, control = flash_control("cpu"))
    gpu <- flash_kde(x, estimator, bandwidth = 0.5, weights = weights, control = flash_control("cuda", "double"))
    expect_within(predict(gpu) / predict(cpu), rep(1, 500), 1e-9, estimator)
    expect_within(predict(gpu, loo = TRUE) / predict(cpu, loo = TRUE), rep(1, 500), 1e-8, estimator)
    one <- flash_kde(rbind(x[1, ]), estimator, bandwidth = 1, control = flash_control("cuda", "double"))
    expect_within(predict(one), predict(one, control = flash_control("cpu")), 1e-12, estimator)
  }
})

# ---- bits -------------------------------------------------------------------------------------

# All kinds of sums of one precision.
all_sums <- function(precision, devices = NULL, n = 3001) {
  case <- engine_case(n, 515, 5)
  fits <- lapply(ESTIMATORS, \(estimator) {
    flash_kde(
      case$x, estimator, case$H, weights = case$weights,
      control = flash_control("cuda", precision, devices = devices)
    )
  })
  list(
    lapply(fits, predict, case$y), lapply(fits, predict), lapply(fits, predict, loo = TRUE),
    lapply(fits, predict, case$y, type = "score"), fits[[2]]$debiased,
    kernel_sum(case$x, case$y, case$b, case$H, control = flash_control("cuda", precision, devices = devices), tol = 0)
  )
}

test_that("the same call gives the same bits, with the points on the device and without", {
  skip_if_no_gpu()
  for (precision in PRECISIONS) {
    first <- all_sums(precision)
    expect_identical(all_sums(precision), first)
    gpu_release()
    expect_identical(all_sums(precision), first)
  }
})

test_that("many points move to the same bits each time, and on several devices", {
  skip_if_no_gpu()
  case <- many_points(7, 200003)
  n_devices <- length(gpu_info()$index)
  for (precision in c("single", "fast")) {
    one <- debiased_steps(case, precision, devices = 0)
    expect_identical(debiased_steps(case, precision, devices = 0), one)
    if (n_devices > 1) expect_identical(debiased_steps(case, precision, devices = "all"), one)
  }
})

test_that("many points on a device with little memory move in another way, to the same result", {
  skip_if_no_gpu()
  case <- many_points(5, 100000)
  want <- debiased_steps(case, "double")
  little <- debiased_steps(case, "single", gpu_memory_limit = 1.5e8)
  expect_score_near(little, want, case$H, "single", "a limit")
})

test_that("several devices give the bits of one", {
  skip_if_one_gpu()
  n_devices <- length(gpu_info()$index)
  for (precision in PRECISIONS) {
    one <- all_sums(precision, 0)
    expect_identical(all_sums(precision, n_devices - 1), one)
    expect_identical(all_sums(precision, "all"), one)
    expect_identical(all_sums(precision, c(1, 0)), one)
  }
  case <- many_values(128, 200)
  for (precision in PRECISIONS) {
    sums <- \(on) kernel_sum(
      case$x, case$y, case$b, case$H, tol = 0,
      control = flash_control("cuda", precision, devices = on)
    )
    expect_identical(sums("all"), sums(0))
  }
  x <- example_points(20000, 4)
  fit <- flash_kde(x, bandwidth = 0.5, control = flash_control("cuda", devices = "all"))
  expect_identical(diagnostics(fit)$devices, seq_len(n_devices) - 1L)
})

# ---- choice and report ------------------------------------------------------------------------

test_that("\"auto\" takes the GPU for large jobs and the CPU for small ones", {
  skip_if_no_gpu()
  internal <- asNamespace("flashkernel")
  resolve <- function(n, precision = "auto") {
    internal$resolve_control(control_list("auto", precision), n, n, 8)
  }
  small <- resolve(100)
  expect_identical(small$backend, "cpu")
  expect_identical(small$precision, "double")
  large <- resolve(1e6)
  expect_identical(large$backend, "cuda")
  expect_identical(large$precision, "single")
  expect_identical(resolve(1e6, "double")$precision, "double")
  expect_match(large$reason, "[a-z]")
})

test_that("a fit on the GPU says so, and how long the device took", {
  skip_if_no_gpu()
  fit <- flash_kde(example_points(2000, 4), bandwidth = 0.5, control = flash_control("cuda", devices = 0))
  found <- diagnostics(fit)
  expect_identical(found$backend, "cuda")
  expect_identical(found$devices, 0L)
  expect_identical(found$precision, "single")
  expect_identical(found$reason, "as asked")
  expect_gt(found$stages$device_seconds, 0)
  expect_lte(found$stages$device_seconds, found$stages$seconds)
  text <- utils::capture.output(print(found))
  expect_match(text, "on the device.*cuda \\(.*device 0\\), .*single precision$", all = FALSE)
  expect_match(text, "Back end: cuda, as asked", all = FALSE)
  expect_output(print(found), "device_seconds")
})

test_that("a device that is not there is named", {
  skip_if_no_gpu()
  x <- example_points(50, 2)
  error <- tryCatch(flash_kde(x, bandwidth = 1, control = flash_control("cuda", devices = 99)), error = identity)
  expect_s3_class(error, "flashkernel_error_no_device")
  expect_match(conditionMessage(error), "`devices`.*99")
})

test_that("a fit from the GPU can be saved and read elsewhere", {
  skip_if_no_gpu()
  file <- tempfile(fileext = ".rds")
  on.exit(unlink(file))
  fit <- flash_kde(example_points(500, 3), bandwidth = 0.5, control = flash_control("cuda"))
  saveRDS(fit, file)
  read <- readRDS(file)
  same <- setdiff(names(fit), "plan") # which has an address
  expect_identical(unclass(read)[same], unclass(fit)[same])
  expect_identical(predict(read), predict(fit))
  gpu_release()
  expect_identical(predict(read), predict(fit))
})

# ---- memory -----------------------------------------------------------------------------------

cached <- function() sum(gpu_info()$cached)

test_that("debiased points stay on the device until they are read, and outlive it", {
  skip_if_no_gpu()
  x <- example_points(3000, 3)
  y <- x[1:100, ] + 0.1
  for (weights in list(NULL, rep(c(0.5, 2), 1500))) {
    fit <- \() flash_kde(x, bandwidth = 0.4, weights = weights, control = flash_control("cuda", "double"))
    want <- flash_kde(x, bandwidth = 0.4, weights = weights, control = flash_control("cpu"))
    a <- fit()
    expect_within(a$debiased, want$debiased, 1e-10)
    first <- predict(a, y)
    expect_within(first, predict(want, y), 1e-10)
    expect_identical(predict(a, y), first) # read by the host meanwhile
    b <- fit()
    gpu_release()
    expect_identical(predict(b, y), first)
    expect_identical(b$debiased + 0, a$debiased + 0)
    changed <- b
    changed$debiased[1, 1] <- 100
    expect_identical(predict(b, y), first)
    expect_false(identical(predict(changed, y), first))
  }
})

test_that("a bandwidth matrix moves points as the CPU does", {
  skip_if_no_gpu()
  for (d in c(2, 5)) {
    x <- example_points(800, d)
    H <- example_bandwidth(d, 0.5)
    fit <- \(backend) flash_kde(x, bandwidth = H, debias = debiasing(bandwidth = 1.5 * H), control = flash_control(backend, "double"))
    expect_within(fit("cuda")$debiased, fit("cpu")$debiased, 1e-10)
  }
})

test_that("what operators keep stays within device_memory, and gives way to what is used later", {
  skip_if_no_gpu()
  gpu_release()
  x <- example_points(20000, 4)
  v <- stats::rnorm(20000)
  small <- flash_control("cuda", device_memory = 4e6, tol = 0)
  ops <- lapply(1:5, \(i) kernel_operator(x + i, bandwidth = 1, control = small))
  products <- lapply(ops, \(op) op %*% v)
  expect_lte(cached(), 4e6)
  expect_identical(lapply(ops, \(op) op %*% v), products)
  free <- kernel_operator(x, bandwidth = 1, tol = 0, control = flash_control("cuda"))
  first <- free %*% v
  expect_gt(cached(), 1e6)
  expect_identical(free %*% v, first)
  rm(free)
  gc()
  expect_lte(cached(), 4e6)
})

test_that("operators by the grid keep apart, and have the bits of single sums", {
  skip_if_no_gpu()
  x <- example_points(100000, 3)
  v <- stats::rnorm(100000)
  ops <- lapply(c(0.05, 0.08), \(h) kernel_operator(
    x, bandwidth = h, tol = 1e-6,
    control = flash_control("cuda", engine = "fast")
  ))
  once <- lapply(c(0.05, 0.08), \(h) {
    plain(kernel_sum(x, b = v, bandwidth = h, tol = 1e-6, control = flash_control("cuda", engine = "fast")))
  })
  for (i in c(1, 2, 1, 2)) expect_identical(as.vector(ops[[i]] %*% v), once[[i]])
  expect_identical(as.vector(ops[[1]] %*% (-v)), -once[[1]])
})

test_that("points stay on the device between predictions, until they are released", {
  skip_if_no_gpu()
  gpu_release()
  expect_identical(cached(), 0)
  fit <- flash_kde(example_points(20000, 4), "kde", bandwidth = 0.5, control = flash_control("cuda"))
  first <- predict(fit, fit$x[1:100, ])
  held <- cached()
  expect_gt(held, 0)
  expect_identical(predict(fit, fit$x[1:100, ]), first)
  expect_identical(cached(), held) # the same points, not a second copy
  gpu_release()
  expect_identical(cached(), 0)
  expect_identical(predict(fit, fit$x[1:100, ]), first)
})

test_that("points changed in place are not mistaken for those on the device", {
  skip_if_no_gpu()
  x <- example_points(5000, 3)
  y <- x[1:50, ]
  sums <- \(backend) kernel_sum(x, y, bandwidth = 0.5, tol = 0, control = flash_control(backend, "double"))
  sums("cuda")
  x[4999, 2] <- x[4999, 2] + 1 # R may keep the address
  expect_within(sums("cuda"), sums("cpu"), 1e-11)
  x[] <- x + 0.25
  expect_within(sums("cuda"), sums("cpu"), 1e-11)
})

test_that("repeated work leaves no memory behind on the device", {
  skip_if_no_gpu()
  expect_freed(\() all_sums("single"))
})

# More points than fit at once.
sums_of_many <- function() {
  set.seed(1)
  x <- matrix(stats::rnorm(600000 * 16), ncol = 16)
  y <- x[seq(1, 600000, by = 199), ] + 0.1
  sums <- function(precision) {
    control <- flash_control("cuda", precision)
    kernel_sum(x, y, cbind(1, x[, 1:2]), bandwidth = 2, tol = 0, control = control)
  }
  fit <- flash_kde(x, "kde", bandwidth = 2, control = flash_control("cuda", "double"))
  list(
    log_density = predict(fit, y, type = "log_density"), score = predict(fit, y, type = "score"),
    double = sums("double"), single = sums("single")
  )
}

test_that("points that the device cannot hold at once are summed in chunks, to the same result", {
  skip_if_no_gpu()
  skip_if(nzchar(Sys.getenv("FLASHKERNEL_SANITIZER")), "too much for a sanitizer")
  whole <- in_child(sums_of_many)
  chunks <- in_child(sums_of_many, env = c(FLASHKERNEL_CUDA_MEMORY = "64e6"))
  expect_within(chunks$log_density, whole$log_density, 1e-12)
  expect_within(chunks$score, whole$score, 1e-11)
  expect_l2(chunks$double, whole$double, 1e-12)
  expect_l2(chunks$single, whole$single, 1e-5)
})

test_that("a device too small for anything is an error of its own, and the CPU goes on", {
  skip_if_no_gpu()
  got <- in_child(function() {
    x <- matrix(stats::rnorm(40000), ncol = 4)
    class_of <- \(backend) {
      class(tryCatch(kernel_sum(x, bandwidth = 0.5, tol = 0, control = flash_control(backend)), error = identity))[1]
    }
    list(cuda = class_of("cuda"), again = class_of("cuda"), cpu = class_of("cpu"))
  }, env = c(FLASHKERNEL_CUDA_MEMORY = "1e4"))
  expect_identical(got$cuda, "flashkernel_error_alloc")
  expect_identical(got$again, "flashkernel_error_alloc")
  expect_identical(got$cpu, "numeric")
})

# ---- processes --------------------------------------------------------------------------------

test_that("a forked child of a process that uses CUDA gets an error, or the CPU, and never hangs", {
  skip_on_os("windows")
  skip_if_no_gpu()
  got <- in_child(function() {
    set.seed(1)
    x <- matrix(stats::rnorm(600000), ncol = 3)
    fit <- flash_kde(x, "kde", bandwidth = 0.5, control = flash_control("cuda", "double"))
    at <- x[1:5000, ] # work that "auto" would give to the GPU
    before <- predict(fit, at)
    outcomes <- parallel::mclapply(c("cuda", "auto", "status"), \(what) {
      if (what == "status") {
        gpu_release()
        return(gpu_info()$status)
      }
      tryCatch(predict(fit, at, control = flash_control(what)), error = \(e) class(e))
    }, mc.cores = 3)
    list(before = before, outcomes = outcomes, after = predict(fit, at))
  }, timeout = 60)
  expect_identical(got$outcomes[[1]][1], "flashkernel_error_forked")
  expect_within(got$outcomes[[2]] / got$before, rep(1, 5000), 1e-10)
  expect_match(got$outcomes[[3]], "fork")
  expect_identical(got$after, got$before)
})

# This repeats test-interrupt.R with work that takes a GPU long enough.
interrupted_gpu <- function(folder, do_rounds) {
  set.seed(1)
  x <- matrix(stats::rnorm(8 * 2e6), ncol = 8)
  few <- x[1:100, ]
  kde <- flash_kde(x, "kde", bandwidth = 0.5, control = flash_control("cuda", "double"))
  predict(kde, few) # CUDA starts here
  work <- expression(
    flash_kde(x, "sdkde", bandwidth = 0.5, control = flash_control("cuda", "double")),
    predict(kde, loo = TRUE),
    kernel_sum(x, x[2e6:1, ], cbind(1, x), bandwidth = 0.5, tol = 0, control = flash_control("cuda", "double"))
  )
  rounds <- do_rounds(work, environment(), folder, \() {
    gpu_release()
    list(free = gpu_info()$memory_free[1])
  })
  list(rounds = rounds, after = predict(flash_kde(few, "kde", bandwidth = 0.5, control = flash_control("cuda"))), few = few)
}

test_that("an interrupt stops work on the GPU at once, leaks nothing, and the session goes on", {
  skip_on_os("windows")
  skip_if_not_installed("callr")
  skip_if_no_gpu()
  skip_if(nzchar(Sys.getenv("FLASHKERNEL_SANITIZER")), "a sanitizer is too slow for timings")
  got <- interrupt_child(interrupted_gpu, 3)
  free <- vapply(got$rounds, `[[`, 0, "free")
  expect_gt(free[3], free[1] - 64e6)
  expect_l2(got$after, exp(ref_log_kde(got$few, got$few, diag(0.25, 8))), 1e-5)
})

# so that "auto" counts the start of CUDA again in the files that follow
gpu_release()

test_that("once CUDA has started its start does not count, and it never does where a GPU is asked for", {
  skip_if_no_gpu()
  run <- \(backend) start_run(settle_control(flash_control(backend = backend)))
  expect_lt(guessed_seconds(run("cuda"), 1000, 1000, 2), 0.01)
  expect_identical(resolve_control(run("auto"), 1e4, 1e4, 5)$backend, "cuda")
  expect_identical(resolve_control(run("auto"), 100, 100, 5)$backend, "cpu")
})
