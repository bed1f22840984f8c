# The contract of `tol` holds for every input: helper-tolerance.R makes what attacks it. The issue's own examples
# have their tests here; 5,000 cases run in bench/tolerance.R.

# ---- the yardstick ----------------------------------------------------------------------------

test_that("the sums of all pairs that the tolerance is measured by are those of 60 digits", {
  table <- utils::read.csv(testthat::test_path("fixtures", "tolerance", "sums.csv"))
  for (case in split(table, table$case)) {
    part <- \(what) {
      of <- case[case$what == what, ]
      matrix(of$value[order(of$column, of$row)], max(of$row))
    }
    b <- part("b")[, 1]
    kernel <- names(log_kernels)[part("kernel") + 1]
    got <- brute_sums(part("x"), part("y"), part("L"), log(abs(b)), sign(b), kernel, slopes = TRUE)
    label <- paste("case", case$case[1])
    expect_within(log_size(got), part("log_size")[, 1], 1e-14, label)
    for (name in c("value", "laplace", "slope", "slope_size", "laplace_slope", "laplace_slope_size")) {
      # exponents of a thousand keep thirteen digits
      expect_within(as.vector(got[[name]] / got$size), as.vector(part(name)), 2e-12, paste(label, name))
    }
  }
})

test_that("powers of two out of range are no trouble, and the contract's errors are seen", {
  expect_identical(times_power(c(3, 1, 0, Inf), c(-1200, 1100, 3000, -2000)), c(3 * 2^-600 * 2^-600, Inf, 0, Inf))
  excess <- \(got, tol = 0.1, scale = log(8)) value_excess(got, c(8, 1e-300), c(8, 1e-300), c(0, 0), scale, tol, 0, 0)
  expect_equal(excess(c(8, 0)), 1e-299 / 8)
  expect_equal(excess(c(8.4, 0)), 0.5)
  expect_equal(excess(c(8, 0), scale = log(c(8, 1e-300))), 10)
  expect_identical(excess(c(8, NaN)), Inf)
  expect_equal(value_excess(0, 1, 1, -2000, -2000, 1e-3, 0, 0), 1000)
  expect_equal(value_excess(0, 1, 1, -2000, -2000, 1e-3, 0, 2^-1022), 0)
})

test_that("the exact engine is far inside what a tolerance allows, in all cases alike", {
  for (seed in 1:69) {
    exact <- list(engine = "exact", method = "", precision = "double", tol = 1e-10)
    row <- run_case(utils::modifyList(tolerance_case(seed, 200, 40), exact))
    expect(row$ratio < 0.01, sprintf("%s: %.3g of 1e-10.", label_of(row), row$ratio))
  }
})

# ---- hostile cases ----------------------------------------------------------------------------

for (family in names(tolerance_families)) {
  test_that(paste0("the tolerance holds whatever the task, dimension, type and precision: ", family), {
    families <- length(tolerance_families)
    for (turn in 0:12) {
      case <- tolerance_case(match(family, names(tolerance_families)) + families * turn, 500, 60)
      expect_tolerance(run_case(case))
    }
  })
}

# ---- examples that broke ----------------------------------------------------------------------

expect_given <- function(...) expect_tolerance(run_case(given_case(...)))

# Some rows, and among them those where the largest sums are: near the middle of the sources
some_rows <- function(y, count = 24, middle = 0) {
  y <- as.matrix(y)
  c(order(rowSums((y - middle)^2))[seq_len(count / 2)], round(seq(1, nrow(y), length.out = count / 2)))
}

test_that("targets away from the mass have their densities and their logarithms", {
  set.seed(1)
  x <- stats::rnorm(5e4, sd = 0.5)
  y <- 4 + stats::runif(5e3)
  expect_given(x, y, h = 0.3, task = "kde density", rows = some_rows(y))
  expect_given(x, y, h = 0.3, task = "kde log_density", rows = some_rows(y))
  y <- 6 + stats::runif(5e3)
  expect_given(x, y, h = 0.3, task = "kde log_density", rows = some_rows(y))
  fit <- flash_kde(x, "kde", bandwidth = 0.3, tol = 1e-6, control = flash_control(backend = "cpu"))
  expect_true(all(is.finite(predict(fit, y, type = "log_density"))))
})

test_that("targets four bandwidths away keep a global tolerance", {
  set.seed(2)
  x <- stats::runif(2e4)
  for (away in c(2, 4, 6)) for (tol in c(1e-3, 1e-6)) {
    y <- 1 + away + stats::runif(5e3)
    expect_given(x, y, tol = tol, rows = some_rows(y))
  }
})

test_that("targets in the half plane without sources keep the tolerance", {
  set.seed(3)
  x <- matrix(stats::runif(4e4), ncol = 2) * 20 - 10
  b <- as.numeric(x[, 1] < 0)
  y <- cbind(4 + stats::runif(4000), stats::runif(4000, -8, 8))
  expect_given(x, y, b, rows = c(order(y[, 1])[1:12], 1:12))
  expect_given(x, y, b, rows = c(order(y[, 1])[1:12], 1:12), tol_type = "pointwise")
})

test_that("one heavy source does not drown sums elsewhere", {
  set.seed(4)
  x <- c(0, stats::runif(2e4, 0, 1000))
  b <- c(1e12, rep(1, 2e4))
  for (away in c(5, 7, 9)) {
    y <- away + stats::runif(4000)
    expect_given(x, y, b, rows = some_rows(y))
    expect_given(x, y, b, rows = some_rows(y), tol_type = "pointwise")
  }
})

test_that("weights below what single precision holds make no zeros and no NaN", {
  set.seed(5)
  x <- matrix(stats::rnorm(8000), 4000)
  w <- exp(-120 + stats::rnorm(4000))
  for (engine in c("auto", "fast")) for (task in c("kde density", "kde log_density", "kde score", "debiased")) {
    expect_given(x, task = task, weights = w, tol = 1e-5, engine = engine, h = 0.3, rows = seq(1, 4000, 50))
  }
  fit <- flash_kde(x, "sdkde", bandwidth = 0.3, weights = w, tol = 1e-3, control = flash_control(backend = "cpu"))
  expect_true(all(is.finite(fit$debiased)))
  expect_true(all(predict(fit) > 0))
  # the largest weight among the smallest of floats
  w <- 1e-42 * stats::runif(4000)
  expect_given(x, task = "kde density", weights = w, tol = 1e-3, engine = "fast", h = 0.3, rows = seq(1, 4000, 50))
})

test_that("coefficients beyond single precision, and beyond normal numbers, keep the tolerance", {
  set.seed(6)
  x <- matrix(stats::rnorm(10000), 5000)
  for (b in c(1e39, 1e-42, 1e-310, 1e300)) for (method in c("grid", "direct")) {
    b_used <- b * stats::runif(5000, -1, 1)
    expect_given(x, b = b_used, tol = 1e-3, engine = "fast", method = method, rows = some_rows(x))
  }
})

test_that("a pointwise tolerance holds where sums are below 1e-95, and in heavy tails", {
  set.seed(7)
  x <- stats::rnorm(20000)
  y <- stats::runif(2000, -30, 30)
  for (task in c("sums", "kde log_density")) {
    expect_given(x, y, task = task, tol = 1e-5, tol_type = "pointwise", rows = seq(1, 2000, 20), engine = "fast")
  }
  x <- matrix(stats::rt(20000, 2), ncol = 2)
  y <- matrix(stats::rt(4000, 2), ncol = 2)
  expect_given(x, y,
    task = "kde log_density", tol = 1e-5, tol_type = "pointwise", h = 0.3, engine = "fast", rows = 1:200
  )
})

test_that("a pointwise tolerance holds for coefficients over twenty and forty decades", {
  set.seed(8)
  x <- stats::runif(20000, 0, 50)
  y <- stats::runif(500, 0, 50)
  for (decades in c(10, 20)) for (order_x in c(FALSE, TRUE)) {
    b <- 10^stats::runif(20000, -decades, decades)
    if (order_x) b <- sort(b)[rank(x)]
    expect_given(x, y, b, tol = 1e-6, tol_type = "pointwise", rows = seq(1, 500, 5), engine = "fast", method = "grid")
  }
})

test_that("lattices, on whose nodes errors add up with one sign, keep the tolerance", {
  x <- 2 * (1:4000)
  expect_given(x, tol = 1e-3, engine = "fast", method = "grid", rows = 1:200)
  expect_given(4 * (1:2000), 4 * (1:2000) + 2, tol = 1e-3, engine = "fast", method = "grid", rows = 1:200)
  for (step in c(0.7, 1.5, 2.5, 3, 4, 5, 6)) for (offset in c(0, 0.25, 0.5)) for (tol in c(4e-3, 1e-3, 1e-5, 1e-8)) {
    x <- step * (1:600)
    expect_given(x, x + offset * step, tol = tol, engine = "fast", method = "grid", rows = 280:320)
  }
})

test_that("leave-one-out sums keep the tolerance of what is left, with wide weights, too", {
  for (step in c(1, 2, 4, 6)) for (spread in c(1, 3)) for (type in c("global", "pointwise")) {
    set.seed(9)
    x <- step * (1:600)
    w <- exp(spread * stats::rnorm(600))
    for (task in c("kde loo density", "kde loo log_density", "laplace loo density")) {
      expect_given(x, task = task, weights = w, tol = 1e-3, tol_type = type, engine = "fast", rows = 250:350)
    }
  }
})

test_that("b of both signs keeps a pointwise tolerance of the sum of absolute terms", {
  set.seed(10)
  x <- stats::runif(10000, 0, 10)
  y <- stats::runif(100, -4, 14)
  for (method in c("", "grid")) {
    expect_given(x, y, stats::rnorm(10000), tol_type = "pointwise", engine = "fast", method = method)
  }
})

# ---- clusters far apart -------------------------------------------------------------------------

# Places about one centre have lost digits there, and the exact engine has them.
test_that("a tolerance holds for clusters far apart", {
  for (d in 1:3) for (distance in 10^c(0, 3, 6, 8, 10, 12, 14)) {
    set.seed(d)
    x <- matrix(stats::rnorm(800 * d), 800)
    x[1:300, ] <- x[1:300, ] + distance * rep(c(1, 0.7, -0.45)[seq_len(d)], each = 300)
    y <- rbind(x[c(1:5, 501:505), , drop = FALSE] + 0.1, x[1, ] + 1.5)
    r <- apply(y, 1, \(p) sqrt(colSums(((t(x) - p) / 0.3)^2)))
    for (tol in c(1e-3, 1e-10)) for (type in c("pointwise", "global")) for (engine in c("auto", "fast")) {
      for (kernel in c("gaussian", "cauchy", "imq")) {
        control <- flash_control(tol_type = type, engine = engine, backend = "cpu")
        got <- kernel_sum(x, y, NULL, 0.3, kernel, tol = tol, control = control)
        want <- colSums(ref_kernels[[kernel]](r))
        error <- max(abs(as.vector(got) - want) / if (type == "global") max(want) else want)
        expect_lte(error, tol, label = paste(kernel, d, distance, tol, type, engine, "error", signif(error, 2)))
      }
    }
  }
})

test_that("a pointwise tolerance holds for Cauchy rows", {
  for (seed in 1:40) {
    set.seed(seed)
    d <- 1 + seed %% 3
    x <- matrix(stats::rcauchy(600 * d), ncol = d) * 10^(seed %% 5)
    h <- 10^stats::runif(1, -4, 0)
    y <- rbind(x[order(-rowSums(x^2))[1:30], , drop = FALSE] + h / 3, x[1:20, , drop = FALSE] - h)
    want <- apply(y, 1, \(p) sum(exp(-colSums(((t(x) - p) / h)^2) / 2)))
    got <- kernel_sum(
      x, y, NULL, h, tol = 1e-7,
      control = flash_control(tol_type = "pointwise", engine = "fast", backend = "cpu")
    )
    seen <- want > 1e-290
    expect_lte(max(abs(as.vector(got)[seen] / want[seen] - 1)), 1e-7, label = paste("seed", seed))
  }
})

test_that("scores to a tolerance keep it for clusters far apart", {
  for (distance in 10^c(0, 3, 6, 9, 12)) for (type in c("global", "pointwise")) {
    set.seed(4)
    x <- matrix(stats::rnorm(4000), ncol = 2)
    x[1001:2000, ] <- x[1001:2000, ] + distance
    y <- rbind(x[c(1:3, 1998:2000), ] + 0.1, x[2000, ] + 2)
    fit <- flash_kde(x, "kde", bandwidth = 0.3, tol = 1e-6, control = flash_control(tol_type = type, engine = "fast", backend = "cpu"))
    terms <- apply(y, 1, \(p) {
      u <- (t(x) - p) / 0.3
      k <- exp(-colSums(u^2) / 2)
      c(u %*% k / 0.3, sum(k))
    })
    # of the gradient, in units of a bandwidth
    error <- abs(t(predict(fit, y, type = "score")) * rep(terms[3, ], each = 2) - terms[1:2, ]) * 0.3
    size <- if (type == "global") max(terms[3, ]) else rep(terms[3, ], each = 2)
    expect_lte(max(error / size), 1e-6, label = paste(type, distance, "error", signif(max(error / size), 2)))
  }
})
