# Without a tolerance the fast engine stands in for the exact one, where it is proven to keep 1e-12 of every sum; in one
# dimension boxes do (src/cpu/line).

PROMISED <- 1e-12

with_settings <- function(..., task) {
  settings <- c(...)
  do.call(Sys.setenv, as.list(settings))
  on.exit(Sys.unsetenv(names(settings)))
  task()
}

# With any number of points.
standing_in <- \(task) with_settings(FLASHKERNEL_AS_EXACT = "always", FLASHKERNEL_FAST_METHOD = "grid", task = task)

test_that("sums of many points in double go by a grid, as exactly as is promised", {
  need_fine_windows()
  set.seed(1)
  x <- matrix(stats::rnorm(120000), ncol = 2)
  sums <- \(...) kernel_matvec(x, bandwidth = 0.2, b = rep(1, nrow(x)), tol = 0, backend = "cpu", ...)
  grid <- sums()
  pairs <- sums(engine = "exact")
  expect_identical(c(diagnostics(grid)$engine, diagnostics(grid)$method), c("fast", "grid"))
  expect_lte(diagnostics(grid)$tol_bound, PROMISED)
  expect_gt(diagnostics(grid)$tol_bound, 0)
  expect_identical(diagnostics(pairs)$engine, "exact")
  expect_lte(max(abs(plain(grid) / plain(pairs) - 1)), PROMISED)
  expect_identical(plain(sums(threads = 2)), plain(sums(threads = 1)))
})

test_that("few points, single precision, more dimensions and narrow kernels are summed by pairs", {
  need_fine_windows()
  set.seed(2)
  engine_of <- function(n, d, h, ...) {
    x <- matrix(stats::runif(n * d), n)
    diagnostics(kernel_matvec(x, bandwidth = h, b = rep(1, n), tol = 0, backend = "cpu", ...))$engine
  }
  expect_identical(engine_of(60000, 1, 0.01), "fast")
  expect_identical(engine_of(5000, 1, 0.01), "exact")
  expect_identical(engine_of(60000, 1, 0.01, precision = "single"), "exact")
  expect_identical(engine_of(60000, 1, 0.01, kernel = "laplacian"), "exact")
  expect_identical(engine_of(30000, 4, 0.3), "exact")
  expect_identical(engine_of(60000, 2, 1e-4), "exact")
})

# Points whose sums some places have to take by themselves: far out, beside others, and between two heaps.
line_cases <- function(n) {
  list(
    normal = stats::rnorm(n), heaps = c(stats::rnorm(n / 2), stats::rnorm(n / 2, 30, 0.01)),
    lattice = sample(200, n, TRUE) / 7, lonely = c(stats::rnorm(n - 3), 50, 51, 90)
  )
}

test_that("in one dimension sums of many points go by boxes, as exactly as is promised", {
  set.seed(4)
  n <- 8000
  b <- list(ones = rep(1, n), signs = stats::rnorm(n), sizes = 10^stats::runif(n, -12, 0) * sample(c(-1, 1), n, TRUE))
  for (case in names(line_cases(n))) {
    x <- line_cases(n)[[case]]
    y <- c(stats::rnorm(3000, 0, 3), seq(-60, 90, length.out = 2000), x[1:100])
    k <- \(j) exp(-((x - y[j]) / 0.3)^2 / 2)
    for (column in names(b)) {
      got <- kernel_matvec(x, y, b = b[[column]], bandwidth = 0.3, tol = 0, backend = "cpu", threads = 1)
      expect_identical(diagnostics(got)$method, "line", label = paste(case, column))
      again <- kernel_matvec(x, y, b = b[[column]], bandwidth = 0.3, tol = 0, backend = "cpu", threads = 2)
      expect_identical(plain(again), plain(got))
      some <- seq(1, length(y), by = 5)
      want <- vapply(some, \(j) sum(b[[column]] * k(j)), 0)
      scale <- vapply(some, \(j) sum(abs(b[[column]]) * k(j)), 0)
      expect_lte(max((abs(plain(got)[some] - want) / scale)[scale > 1e-290]), PROMISED, label = paste(case, column))
    }
    both <- kernel_matvec(x, y, b = cbind(b$signs, b$sizes), bandwidth = 0.3, tol = 0, backend = "cpu")
    expect_identical(diagnostics(both)$method, "line")
    for (i in 1:2) {
      scale <- plain(kernel_matvec(x, y, b = abs(b[[i + 1]]), bandwidth = 0.3, tol = 0, backend = "cpu", engine = "exact"))
      want <- plain(kernel_matvec(x, y, b = b[[i + 1]], bandwidth = 0.3, tol = 0, backend = "cpu", engine = "exact"))
      expect_lte(max((abs(both[, i] - want) / scale)[scale > 1e-290]), PROMISED, label = case)
    }
  }
})

test_that("densities, logarithms, leave-one-out values and scores by boxes are those of all pairs", {
  set.seed(5)
  for (x in line_cases(8000)[c("normal", "lonely")]) for (weights in list(NULL, 10^stats::runif(8000, -8, 0))) {
    at <- c(x[1:500] + 0.01, seq(-80, 120, length.out = 6000))
    for (estimator in c("kde", "laplace")) {
      fit <- \(engine) flash_kde(x, estimator, 0.3, weights = weights, adaptive = FALSE, backend = "cpu", engine = engine)
      boxes <- fit("auto")
      pairs <- fit("exact")
      compare <- function(...) {
        got <- suppressWarnings(predict(boxes, ...))
        want <- suppressWarnings(predict(pairs, ...))
        expect_lte(max(abs(got - want) / pmax(1, abs(want)), na.rm = TRUE), 2e-11, label = estimator)
      }
      compare(at, type = "log_density")
      compare(loo = TRUE, type = "log_density")
      if (estimator == "kde") compare(at, type = "score")
    }
  }
})

test_that("points too far apart for boxes, and coefficients of extreme sizes, are summed by pairs", {
  set.seed(6)
  x <- stats::rnorm(8000)
  sums <- \(x, b) kernel_matvec(x, b = b, bandwidth = 0.3, tol = 0, backend = "cpu")
  far <- sums(c(x, 1e5), rep(1, 8001))
  expect_identical(diagnostics(far)$engine, "exact")
  expect_match(diagnostics(far)$reason_engine, "too far apart")
  small <- sums(x, 1e-250 * abs(x))
  expect_identical(diagnostics(small)$engine, "exact")
  expect_equal(plain(small) * 1e250, plain(sums(x, abs(x))), tolerance = 1e-12)
})

test_that("every task keeps the promise on hostile points", {
  done <- 0
  for (seed in 1:138) {
    case <- tolerance_case(seed, 200, 40)
    if (case$d > 3 || case$kernel != "gaussian") next
    case <- utils::modifyList(case, list(
      engine = "fast", method = "grid", precision = "double", tol = PROMISED, tol_type = "pointwise"
    ))
    row <- run_case(case)
    # what is achieved counts what rounding does to coordinates far away, the bound does not
    expect(row$ratio <= 1, sprintf("%s: error %.3g.", label_of(row), row$ratio))
    expect(is.na(row$bound) || row$bound <= 1, sprintf("%s: bound %.3g.", label_of(row), row$bound))
    done <- done + identical(row$method, "grid")
  }
  if (has_fine_windows()) expect_gt(done, 40)
})

test_that("estimates, their leave-one-out values and scores are those of all pairs", {
  set.seed(3)
  lonely <- cbind(c(40, -30, 25), c(0, 60, -45))
  x <- rbind(matrix(stats::rnorm(4000), ncol = 2), 0.1 * matrix(stats::rnorm(2000), ncol = 2) + 3, lonely)
  weights <- 10^stats::runif(nrow(x), -8, 0)
  at <- rbind(x[1:200, ] + 0.01, 1.5 * x[1:200, ], lonely + 1)
  for (estimator in c("kde", "laplace", "sdkde")) {
    fit <- \(engine) flash_kde(x, estimator, 0.3, weights = weights, adaptive = FALSE, control = flash_control(backend = "cpu", engine = engine))
    by_grid <- standing_in(\() fit("auto"))
    by_pairs <- fit("exact")
    compare <- function(what, ...) {
      want <- suppressWarnings(predict(by_pairs, ..., control = flash_control(engine = "exact")))
      got <- suppressWarnings(standing_in(\() predict(by_grid, ...)))
      # relative to the plain estimate, as is promised
      scale <- if (what == "density") predict(replace(by_pairs, "estimator", if (estimator == "laplace") "kde" else estimator), ...) else 1
      expect_lte(max(abs(got - want) / scale, na.rm = TRUE), 1e-11, label = paste(estimator, what))
    }
    compare("density", at)
    if (estimator != "laplace") compare("log density", at, type = "log_density")
    if (estimator != "sdkde") compare("density", loo = TRUE)
    if (estimator == "kde") compare("score", at, type = "score")
  }
})
