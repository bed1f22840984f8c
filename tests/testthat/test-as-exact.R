# Without a tolerance the fast engine stands in for the exact one, where it is proven to keep 1e-12 of every sum; in one
# dimension boxes do (src/cpu/line).

PROMISED <- 1e-12

# With any number of points.
standing_in <- \(task) with_method(c("as exact", "grid"), task())

test_that("sums of many points in double go by a grid, as exactly as is promised", {
  need_fine_windows()
  set.seed(1)
  x <- matrix(stats::rnorm(120000), ncol = 2)
  sums <- \(...) kernel_sum_by(
    x, bandwidth = 0.2, b = rep(1, nrow(x)), tol = 0, ...,
    control = flash_control(backend = "cpu")
  )
  grid <- sums()
  pairs <- sums(engine = "exact")
  expect_identical(c(diagnostics(grid)$engine, diagnostics(grid)$method), c("fast", "grid"))
  expect_lte(diagnostics(grid)$tol_bound, PROMISED)
  expect_gt(diagnostics(grid)$tol_bound, 0)
  expect_identical(diagnostics(pairs)$engine, "exact")
  expect_lte(max(abs(plain(grid) / plain(pairs) - 1)), PROMISED)
  expect_identical(plain(sums(threads = 2)), plain(sums(threads = 1)))
})

test_that("columns of uneven coefficients go by a grid, each as exactly as is promised", {
  need_fine_windows()
  set.seed(3)
  x <- matrix(stats::rnorm(40000), ncol = 2)
  b <- cbind(stats::rnorm(nrow(x)), stats::rexp(nrow(x))^2, 1)
  sums <- \(b, at = NULL, ...) kernel_sum_by(
    x, at, bandwidth = 0.4, b = b, tol = 0, ..., control = flash_control(backend = "cpu")
  )
  grid <- standing_in(\() sums(b))
  expect_identical(diagnostics(grid)$method, "grid")
  some <- seq(1, nrow(x), length.out = 200)
  pairs <- plain(sums(b, x[some, ], engine = "exact"))
  absolute <- plain(sums(abs(b), x[some, ], engine = "exact"))
  expect_lte(max(abs(plain(grid)[some, ] - pairs) / absolute), PROMISED)
})

test_that("few points, single precision, more dimensions and narrow kernels are summed by pairs", {
  need_fine_windows()
  set.seed(2)
  engine_of <- function(n, d, h, ...) {
    x <- matrix(stats::runif(n * d), n)
    diagnostics(kernel_sum_by(
      x, bandwidth = h, b = rep(1, n), tol = 0, ...,
      control = flash_control(backend = "cpu")
    ))$engine
  }
  expect_identical(engine_of(60000, 1, 0.01), "fast")
  expect_identical(engine_of(2000, 1, 0.01), "exact")
  expect_identical(engine_of(60000, 1, 0.01, precision = "single"), "exact")
  expect_identical(engine_of(60000, 1, 0.01, kernel = "powered_exponential"), "exact")
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
  n <- 2000
  x_of <- line_cases(n)
  b <- cbind(ones = 1, signs = stats::rnorm(n), sizes = 10^stats::runif(n, -12, 0) * sample(c(-1, 1), n, TRUE))
  for (case in names(x_of)) {
    x <- x_of[[case]]
    y <- c(stats::rnorm(500, 0, 3), seq(-60, 90, length.out = 500), x[1:100])
    sums <- \(..., method = "line") {
      with_method(method, kernel_sum_by(x, ..., bandwidth = 0.3, tol = 0, control = flash_control(backend = "cpu")))
    }
    K <- exp(-outer(y, x, `-`)^2 / 0.18)
    want <- K %*% b
    size <- K %*% abs(b)
    # further out, what rounding does to coordinates shows
    error <- \(got, column) max((abs(plain(got) - want[, column]) / size[, column])[size[, column] > 1e-100])
    for (column in colnames(b)) {
      got <- sums(y, b = b[, column], threads = 1)
      expect_identical(c(diagnostics(got)$engine, diagnostics(got)$method), c("fast", "line"))
      expect_identical(plain(sums(y, b = b[, column], threads = 2)), plain(got))
      expect_lte(error(got, column), PROMISED, label = paste(case, column))
    }
    all <- sums(y, b = b)
    expect_identical(diagnostics(all)$method, "line")
    for (column in 1:3) expect_lte(error(all[, column], column), PROMISED, label = paste(case, "of three"))
    own <- plain(sums(b = b[, 1])) / plain(sums(b = b[, 1], method = "pairs"))
    expect_lte(max(abs(own - 1)), PROMISED, label = case)
  }
})

test_that("sums of Matern kernels in one dimension go by states, as exactly as is promised", {
  set.seed(4)
  x_of <- c(line_cases(1000), list(equal = seq(0, 3, length.out = 2e5)))
  for (kernel in MARKOV_KERNELS) for (case in names(x_of)) {
    x <- x_of[[case]]
    y <- if (case != "equal") c(seq(-60, 90, length.out = 500), x[1:100], 250) else x[c(1, 1e5, 2e5)]
    b <- cbind(0.1, stats::rnorm(length(x)))
    sums <- \(b, y, method, ...) {
      control <- flash_control(backend = "cpu", ...)
      with_method(method, kernel_sum(x, y, b = b, bandwidth = 0.3, kernel = kernel, tol = 0, control = control))
    }
    got <- sums(b, y, "line")
    expect_identical(diagnostics(got)$method, "line")
    expect_identical(plain(sums(b, y, "line", threads = 2)), plain(got))
    error <- abs(plain(got) - plain(sums(b, y, "pairs"))) / plain(sums(abs(b), y, "pairs"))
    # further out, what rounding does to coordinates shows
    expect_lte(max(error[abs(y) < 200, ]), PROMISED, label = paste(kernel, case))
    if (case == "equal") next
    own <- sums(b, NULL, "line") - sums(b, NULL, "pairs")
    expect_lte(max(abs(own) / sums(abs(b), NULL, "pairs")), PROMISED, label = paste(kernel, case))
  }
})

test_that("densities, logarithms, leave-one-out values and scores by boxes are those of all pairs", {
  set.seed(5)
  x_of <- line_cases(2000)[c("normal", "lonely")]
  for (x in x_of) for (weights in list(NULL, 10^stats::runif(2000, -8, 0))) {
    at <- c(x[1:200] + 0.01, seq(-80, 120, length.out = 1000))
    for (estimator in c("kde", "laplace")) {
      fit <- flash_kde(x, estimator, 0.3, weights = weights, adaptive = FALSE, control = flash_control(backend = "cpu"))
      compare <- function(...) {
        got <- suppressWarnings(with_method("line", predict(fit, ...)))
        want <- suppressWarnings(predict(fit, ...))
        expect_false(identical(got, want))
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
  x <- stats::rnorm(1000)
  sums <- \(x, b) {
    with_method("line", kernel_sum(x, b = b, bandwidth = 0.3, tol = 0, control = flash_control(backend = "cpu")))
  }
  far <- sums(c(x, 1e5), rep(1, 1001))
  expect_identical(diagnostics(far)$engine, "exact")
  expect_match(diagnostics(far)$reason_engine, "too far apart")
  small <- sums(x, 1e-250 * abs(x))
  expect_identical(diagnostics(small)$engine, "exact")
  expect_equal(plain(small) * 1e250, plain(sums(x, abs(x))), tolerance = 1e-12)
})

test_that("every task keeps the promise on hostile points", {
  done <- c(grid = 0, line = 0)
  for (seed in 1:138) {
    case <- tolerance_case(seed, 200, 40)
    if (case$d > 3 || case$kernel != "gaussian") next
    for (method in c("grid", if (case$d == 1) "line")) {
      case <- utils::modifyList(case, list(
        engine = "fast", method = method, precision = "double", tol = PROMISED, tol_type = "pointwise"
      ))
      row <- run_case(case)
      # what is achieved counts what rounding does to coordinates far away, the bound does not
      expect(row$ratio <= 1, sprintf("%s: error %.3g.", label_of(row), row$ratio))
      expect(is.na(row$bound) || row$bound <= 1, sprintf("%s: bound %.3g.", label_of(row), row$bound))
      done[method] <- done[method] + identical(row$method, method)
    }
  }
  if (has_fine_windows()) expect_gt(done["grid"], 40)
  expect_gt(done["line"], 15)
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
