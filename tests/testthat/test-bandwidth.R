# Selectors: equal to base R's where they carry its names, of the stated rate, and at the minimum of
# their criterion written out by hand.

estimators <- c("kde", "sdkde", "laplace")

plain <- function(bandwidth) as.vector(bandwidth)

test_that("\"nrd0\" and \"sj\" are those of stats", {
  for (x in list(faithful$eruptions, quakes$mag, iris$Sepal.Width, precip)) {
    expect_identical(plain(kde_bandwidth(x, "nrd0")), stats::bw.nrd0(x))
    expect_identical(plain(kde_bandwidth(x, "sj")), stats::bw.SJ(x))
    expect_identical(plain(kde_bandwidth(cbind(x), "nrd0")), stats::bw.nrd0(x))
  }
})

test_that("selectors by name give what their functions give", {
  x <- faithful$eruptions
  by_name <- function(name, estimator = "kde", data = x) {
    fit <- flash_kde(data, estimator = estimator, bandwidth = name)
    expect_identical(fit$selector, tolower(name))
    unname(sqrt(diag(fit$bandwidth)))
  }
  expect_equal(by_name("nrd0"), stats::bw.nrd0(x))
  expect_equal(by_name("sj"), stats::bw.SJ(x))
  expect_equal(by_name("SJ"), stats::bw.SJ(x)) # as stats writes it
  expect_equal(by_name("lscv"), plain(kde_bandwidth(x, "lscv")))
  expect_equal(by_name("lscv", "laplace"), plain(kde_bandwidth(x, "lscv", "laplace")))
  expect_equal(by_name("lscv", "sdkde"), plain(kde_bandwidth(x, "lscv")))
  expect_equal(by_name("plugin"), plain(kde_bandwidth(x, "plugin")))
  expect_equal(by_name("scv"), plain(kde_bandwidth(x, "scv")))
  for (estimator in estimators) {
    expect_equal(by_name("lcv", estimator), plain(kde_bandwidth(x, "lcv", estimator)))
    expect_equal(by_name("auto", estimator), plain(kde_bandwidth(x, "auto", estimator)))
  }
  for (estimator in estimators) {
    expect_equal(by_name("silverman", estimator, faithful), plain(kde_bandwidth(faithful, "silverman", estimator)))
    expect_equal(by_name("scott", estimator, faithful), plain(kde_bandwidth(faithful, "scott", estimator)))
  }
})

test_that("the rules follow their rate in n, exactly", {
  # Repeated points have the same spread as the points, except for the n - 1 of the variance.
  x <- example_points(200, 3)
  for (estimator in estimators) {
    power <- if (estimator == "kde") 1 / 7 else 1 / 11
    for (rule in c("silverman", "scott")) {
      ratio <- kde_bandwidth(x[rep(1:200, 50), ], rule, estimator) / kde_bandwidth(x, rule, estimator)
      spread <- sqrt((199 / 200) / (9999 / 10000))
      expect_equal(unname(plain(ratio)), rep(50^-power * spread, 3), tolerance = 1e-12)
    }
  }
  expect_equal(plain(kde_bandwidth(x, "scott", "kde")), apply(x, 2, stats::sd) * 200^(-1 / 7))
  expect_equal(plain(kde_bandwidth(x, "silverman", "kde")), apply(x, 2, stats::sd) * (4 / 5)^(1 / 7) * 200^(-1 / 7))
})

test_that("Silverman's constants minimise the asymptotic error for a normal density", {
  # d = 1. Squared bias and variance integrals of f - the standard normal density - by quadrature.
  integral <- function(f) stats::integrate(f, -Inf, Inf, rel.tol = 1e-10)$value
  n <- 1e4
  constant <- function(estimator) {
    set.seed(1)
    x <- stats::rnorm(n)
    plain(kde_bandwidth(x, "silverman", estimator)) / stats::sd(x)
  }
  # plain: bias (h^2 / 2) f'', roughness 1 / (2 sqrt(pi))
  bias2 <- integral(\(x) ((x^2 - 1) * stats::dnorm(x) / 2)^2)
  best <- (1 / (2 * sqrt(pi)) / (4 * bias2 * n))^(1 / 5)
  expect_equal(constant("kde"), best, tolerance = 1e-8)
  # Laplace-corrected: bias -(h^4 / 8) f'''', roughness of (3 - z^2) / 2 phi
  bias2 <- integral(\(x) ((x^4 - 6 * x^2 + 3) * stats::dnorm(x) / 8)^2)
  roughness <- integral(\(z) ((1.5 - z^2 / 2) * stats::dnorm(z))^2)
  best <- (roughness / (8 * bias2 * n))^(1 / 9)
  expect_equal(constant("laplace"), best, tolerance = 1e-8)
})

test_that("the debiased rate gives the wider bandwidth", {
  x <- example_points(500, 4)
  for (estimator in c("sdkde", "laplace")) {
    expect_true(all(kde_bandwidth(x, "scott", estimator) > kde_bandwidth(x, "scott", "kde")))
    expect_true(all(kde_bandwidth(x, "silverman", estimator) > kde_bandwidth(x, "silverman", "kde")))
  }
  first_sd <- function(estimator) {
    sqrt(flash_kde(x, estimator = estimator, bandwidth = "scott")$bandwidth[1, 1])
  }
  h <- vapply(estimators, first_sd, 0)
  expect_gt(h[["sdkde"]], h[["kde"]])
  expect_equal(h[["laplace"]], h[["sdkde"]])
})

test_that("rules scale with the columns, and the full structure with the covariance", {
  x <- example_points(100, 2)
  stretched <- x %*% diag(c(1e-8, 1e8))
  expect_equal(plain(kde_bandwidth(stretched, "silverman")), plain(kde_bandwidth(x, "silverman")) * c(1e-8, 1e8))
  full <- kde_bandwidth(x, "scott", "kde", structure = "full")
  expect_equal(unclass(full), stats::var(x) * 100^(-2 / 6), ignore_attr = TRUE)
  expect_length(kde_bandwidth(x, "scott", structure = "scalar"), 1)
})

test_that("equal weights are no weights, and doubled ones count as an effective size", {
  x <- example_points(80, 2)
  expect_equal(kde_bandwidth(x, "scott", weights = rep(3, 80)), kde_bandwidth(x, "scott"), tolerance = 1e-12)
  w <- rep(c(0, 1), 40)
  expect_equal(kde_bandwidth(x, "scott", weights = w), kde_bandwidth(x[w > 0, ], "scott"), tolerance = 1e-12)
  expect_equal(
    kde_bandwidth(x, "lcv", "kde", weights = w), kde_bandwidth(x[w > 0, ], "lcv", "kde"), tolerance = 1e-6,
    ignore_attr = TRUE
  )
  w <- stats::dexp(seq(0, 3, length.out = 80))
  size <- sum(w)^2 / sum(w^2)
  sds <- sqrt(diag(stats::cov.wt(x, w / sum(w))$cov))
  expect_equal(plain(kde_bandwidth(x, "scott", "kde", weights = w)), sds * size^(-1 / 6), tolerance = 1e-10)
})

# ---- cross-validation: the criteria by brute force

ref_lcv <- function(estimator, x, H, weights = NULL) {
  w <- ref_weights(x, weights)
  density <- ref_loo_density(estimator, x, H, weights)
  if (estimator == "laplace") { # floored at a thousandth of the plain density, see ?kde_bandwidth
    density <- pmax(density, ref_loo_density("kde", x, H, weights) / 1000)
  }
  sum(w * log(density)) / sum(w)
}

ref_lscv <- function(x, H, weights = NULL) {
  w <- ref_weights(x, weights)
  square <- sum(w * exp(ref_log_kde(x, x, 2 * H, weights))) / sum(w)
  square - 2 * sum(w * ref_loo_density("kde", x, H, weights)) / sum(w)
}

# `criterion` takes a variance matrix; no other bandwidth of the same shape may do better.
expect_optimal <- function(criterion, H, label) {
  best <- criterion(H)
  values <- vapply(c(0.5, 0.8, 0.97, 1.03, 1.25, 2), \(f) criterion(H * f^2), 0)
  expect(
    all(values <= best + 1e-6 * abs(best)),
    sprintf("%s: a neighbour has %.8g, the selected one %.8g.", label, max(values), best)
  )
}

as_variance <- function(bandwidth, d) {
  if (is.matrix(bandwidth)) return(unclass(bandwidth)[, , drop = FALSE])
  diag(rep_len(plain(bandwidth)^2, d), d)
}

# An SD-KDE's score has the variance H / 2.
ref_own_lcv <- function(estimator, x, H, weights = NULL) {
  if (estimator != "sdkde") return(ref_lcv(estimator, x, H, weights))
  w <- ref_weights(x, weights)
  loo <- ref_leave_out(\(x, y, w) ref_log_sdkde(x, y, H, H / 2, w), x, weights)
  sum(w * loo) / sum(w)
}

test_that("\"lcv\" maximises the leave-one-out likelihood of each estimator", {
  x <- example_points(40, 2)
  w <- seq(0.5, 1.5, length.out = 40)
  for (estimator in estimators) for (weights in list(NULL, w)) {
    h <- kde_bandwidth(x, "lcv", estimator, "scaled", weights = weights)
    H <- as_variance(h, 2)
    # up to the share, 1e-6, of the wide density beside the estimate: see ?kde_bandwidth
    expect_equal(attr(h, "criterion"), ref_own_lcv(estimator, x, H, weights), tolerance = 1e-5)
    if (estimator != "laplace") { # has several optima on a small sample
      expect_optimal(\(H) ref_own_lcv(estimator, x, H, weights), H, estimator)
    }
  }
})

test_that("\"lcv\" is at an optimum in every structure, the richer ones no worse", {
  x <- example_points(60, 2)
  likelihood <- function(H) ref_lcv("kde", x, H)
  found <- vapply(c("scaled", "scalar", "diagonal", "sphered", "full"), \(structure) {
    h <- kde_bandwidth(x, "lcv", "kde", structure = structure)
    expect_equal(attr(h, "convergence"), 0)
    H <- as_variance(h, 2)
    expect_optimal(likelihood, H, structure)
    likelihood(H)
  }, 0)
  slack <- 1e-6
  expect_gte(found[["diagonal"]], max(found[c("scaled", "scalar")]) - slack)
  expect_gte(found[["full"]], max(found[c("diagonal", "sphered")]) - slack)
})

test_that("the diagonal optimum cannot be improved one column at a time", {
  x <- example_points(50, 3)
  H <- as_variance(kde_bandwidth(x, "lcv", "kde", structure = "diagonal"), 3)
  best <- ref_lcv("kde", x, H)
  for (k in 1:3) for (f in c(0.95, 1.05)) {
    D <- diag(replace(rep(1, 3), k, f))
    expect_lte(ref_lcv("kde", x, D %*% H %*% D), best + 1e-7)
  }
})

test_that("\"lscv\" minimises the least-squares criterion, weights included", {
  x <- example_points(60, 2)
  w <- seq(0.5, 1.5, length.out = 60)
  for (weights in list(NULL, w)) {
    h <- kde_bandwidth(x, "lscv", structure = "scaled", weights = weights)
    H <- as_variance(h, 2)
    expect_equal(attr(h, "criterion"), ref_lscv(x, H, weights), tolerance = 1e-8)
    expect_optimal(\(H) -ref_lscv(x, H, weights), H, "lscv")
  }
})

test_that("\"lscv\" finds what ks::hlscv() finds, or better", {
  skip_if_not_installed("ks")
  x <- example_points(150, 1)
  theirs <- suppressWarnings(ks::hlscv(x[, 1], binned = FALSE))
  ours <- plain(kde_bandwidth(x, "lscv"))
  criterion <- function(h) ref_lscv(x, matrix(h^2))
  expect_lte(criterion(ours), criterion(theirs) + 1e-9)
})

test_that("the cross-validated bandwidth carries the units of the columns", {
  x <- example_points(50, 2)
  scale <- c(1e-3, 1e3)
  for (structure in c("scaled", "full")) {
    a <- as_variance(kde_bandwidth(x, "lcv", "kde", structure), 2)
    b <- as_variance(kde_bandwidth(x %*% diag(scale), "lcv", "kde", structure), 2)
    expect_equal(b / outer(scale, scale), a, tolerance = 1e-3)
  }
})

test_that("one far outlier does not decide the likelihood bandwidth", {
  x <- example_points(100, 1)
  for (estimator in estimators) {
    ratio <- plain(kde_bandwidth(c(x, 1e4), "lcv", estimator)) / plain(kde_bandwidth(x, "lcv", estimator))
    expect_lt(abs(log(ratio)), log(2))
  }
})

# ---- rows: their order, ties, weights

test_that("the order of the rows does not matter, bit for bit, whatever repeats in them", {
  set.seed(4)
  smooth <- matrix(stats::rnorm(600), ncol = 2)
  cases <- list(smooth, round(smooth, 1), smooth[sample(300, replace = TRUE), ], cbind(smooth[, 1], smooth[, 2] > 0))
  for (x in cases) for (w in list(NULL, stats::rexp(300))) {
    order <- sample(300)
    expect_identical(kde_bandwidth(x[order, ], "auto", "kde", weights = w[order]), kde_bandwidth(x, "auto", "kde", weights = w))
  }
  order <- sample(300)
  expect_identical(kde_bandwidth(smooth[order, ]), kde_bandwidth(smooth))
  # also where some of the rows are looked at
  expect_identical(kde_bandwidth(smooth[order, ], "auto", "kde", rows = 80), kde_bandwidth(smooth, "auto", "kde", rows = 80))
})

test_that("the search has the same bits for any number of threads", {
  x <- example_points(700, 3)
  for (estimator in estimators) {
    choose <- \(threads) kde_bandwidth(x, "auto", estimator, control = flash_control(threads = threads))
    expect_identical(choose(1), choose(3))
  }
})

test_that("copies of all rows are no news, and those of a bootstrap sample do not shrink the bandwidth", {
  set.seed(7)
  x <- stats::rnorm(400)
  h <- plain(kde_bandwidth(x, "auto", "kde"))
  expect_equal(plain(kde_bandwidth(rep(x, 2), "auto", "kde")), h, tolerance = 1e-3)
  expect_equal(attr(kde_bandwidth(rep(x, 2), "auto", "kde"), "copies"), 400)
  again <- kde_bandwidth(sample(x, replace = TRUE), "auto", "kde")
  expect_gt(plain(again), 0.6 * h)
  expect_gt(attr(again, "copies"), 100)
  # equal by rounding alone, also of data that were rounded twice
  expect_equal(attr(kde_bandwidth(round(x, 1), "auto", "kde"), "copies"), 0)
  expect_equal(attr(kde_bandwidth(faithful$eruptions, "auto", "kde"), "copies"), 0)
  # of rounded columns, too
  all <- sqrt(diag(flash_kde(faithful, "kde")$bandwidth))
  for (seed in 1:2) {
    boot <- faithful[with_fixed_seed(sample(272, replace = TRUE), seed), ]
    expect_lt(max(abs(log(sqrt(diag(flash_kde(boot, "kde")$bandwidth)) / all))), 0.3)
  }
})

test_that("rounding to a fifth of the bandwidth hardly moves it, and integers are smoothed by their width", {
  set.seed(8)
  x <- stats::rnorm(1500)
  h <- plain(kde_bandwidth(x, "auto", "kde"))
  step <- h / 5
  expect_lt(abs(log(plain(kde_bandwidth(step * round(x / step), "auto", "kde")) / h)), 0.05)
  counts <- kde_bandwidth(stats::rpois(500, 2), "auto", "kde")
  expect_gte(plain(counts), 0.5)
  expect_equal(attr(counts, "columns")$width, 1)
  expect_true(attr(counts, "columns")$raised)
  fit <- flash_kde(stats::rpois(500, 2))
  expect_output(print(fit), "Rounded: x to 1")
  expect_output(print(summary(fit)), "Rounded: x to 1")
})

test_that("a value that half of the rows have is told, and does not decide", {
  set.seed(9)
  x <- cbind(zeros = c(rep(0, 300), stats::rexp(300)), other = stats::rnorm(600))
  h <- kde_bandwidth(x, "auto", "kde", structure = "diagonal")
  expect_gt(h[["zeros"]], 0.03)
  expect_output(print(h), "50% of zeros are 0")
})

test_that("one heavy weight does not choose the bandwidth alone", {
  set.seed(10)
  x <- stats::rnorm(300)
  for (estimator in estimators) {
    h <- plain(kde_bandwidth(x, "auto", estimator))
    half <- plain(kde_bandwidth(x, "auto", estimator, weights = c(299, rep(1, 299))))
    all <- plain(kde_bandwidth(x, "auto", estimator, weights = c(1e6, rep(1, 299))))
    expect_gt(half, h / 2)
    expect_gt(all, h / 2)
    expect_lt(all, 3)
  }
})

test_that("heavy tails do not smooth the middle away, and are told", {
  set.seed(11)
  x <- stats::rcauchy(2000)
  for (estimator in c("kde", "sdkde")) {
    h <- kde_bandwidth(x, "auto", estimator)
    expect_lt(plain(h), 0.8 * plain(kde_bandwidth(x, "lcv", estimator)))
    expect_output(print(h), "Heavy tails")
  }
})

test_that("leave-one-out sums of an SD-KDE by those of all points are exact, in tails, too", {
  x <- with_fixed_seed(matrix(stats::rcauchy(2000)), 3)
  run <- run_to_tolerance(start_run(settle_control(NULL, list())), 1e-6)
  sums <- \(run) pmax(left_out_sums("sdkde")(x, NULL, matrix(0.5), run)$log_sum, -20)
  expect_lt(mean(abs(sums(run) - sums(run_in_double(run)))), 1e-3)
})

test_that("heavy tails are told in several columns, too", {
  set.seed(15)
  expect_true(attr(kde_bandwidth(matrix(stats::rt(1000, 2), ncol = 2), "auto", "kde"), "heavy"))
  expect_false(attr(kde_bandwidth(matrix(stats::rnorm(1000), ncol = 2), "auto", "kde"), "heavy"))
})

test_that("a factor is at the bottom of a skew valley that looks symmetric where it is first tried", {
  # -0.2, 0 and 0.2 have their parabola's vertex at 0
  valley <- list(rows = 1, value = \(L) log(L[1])^2 + 0.75 * log(L[1])^3 - 0.03 * log(L[1]))
  bottom <- (-2 + sqrt(4 + 9 * 0.03)) / 4.5
  expect_lt(abs(log(minimise(valley, list(diag(1)))$L[1]) - bottom), 1e-3)
  expect_lt(abs(log(minimise(valley, list(diag(1)), schedule = list(scan = c(0.5, 2)))$L[1]) - bottom), 1e-3)
})

test_that("repeated values do not drive the likelihood bandwidth to zero", {
  h <- kde_bandwidth(round(faithful$eruptions, 1), "lcv", "kde")
  expect_gt(plain(h), 0.05)
  expect_lt(plain(h), 1)
})

test_that("two rows and five will do", {
  for (estimator in estimators) {
    expect_gt(plain(kde_bandwidth(c(1, 2), "auto", estimator)), 0)
    expect_true(all(as.vector(kde_bandwidth(example_points(5, 2), "auto", estimator)) > 0))
  }
})

# ---- structures

test_that("the structure follows from the data", {
  set.seed(12)
  independent <- matrix(stats::rnorm(1500), ncol = 3)
  chosen <- \(x) attr(kde_bandwidth(x, "auto", "kde"), "structure")
  expect_true(chosen(independent) %in% c("scaled", "diagonal"))
  # parallel streets: correlated within each, and not at all as a whole
  along <- stats::rnorm(600)
  street <- rep(c(-1, 0, 1), 200) + stats::rnorm(600, sd = 0.05)
  expect_identical(chosen(cbind(along + street, along - street)), "full")
  # a column of fine structure beside one without
  fine <- rep(c(0, 1, 2), 200) + stats::rnorm(600, sd = 0.01)
  expect_true(chosen(cbind(fine, stats::rnorm(600))) %in% c("diagonal", "full"))
  path <- attr(kde_bandwidth(independent, "auto", "kde"), "path")
  expect_identical(path$structure, c("scaled", "sphered", "diagonal", "full"))
  expect_true(all(diff(path$loglik[c(1, 3, 4)]) > -1e-4))
})

test_that("more parameters than a tenth of the rows are not tried", {
  expect_false("full" %in% attr(kde_bandwidth(example_points(50, 4), "auto", "kde"), "path")$structure)
  expect_identical(attr(kde_bandwidth(example_points(60, 20), "auto", "kde"), "path")$structure, "scaled")
})

test_that("correlations are known from all rows, also where a search has time for few of them", {
  set.seed(8)
  factors <- matrix(rnorm(2000 * 3), 2000)
  x <- cbind(factors, factors %*% matrix(rnorm(3 * 33), 3) + 0.1 * rnorm(2000 * 33))
  h <- kde_bandwidth(x, "auto", seconds = 0.3)
  expect_lt(attr(h, "rows") / attr(h, "batches"), free_parameters("full", 36) * 2) # by those alone it is not tried
  expect_identical(attr(h, "structure"), "sphered")
  few <- list(x = x[1:1000, ], d = 36, n = 1000)
  expect_null(correlation_of(few, 500, "auto")) # nor is time spent on what cannot be tried
  expect_null(correlation_of(replace(few, "x", list(x)), 500, "diagonal"))
})

test_that("gradients keep the number of evaluations small", {
  x <- example_points(600, 5)
  expect_lt(attr(kde_bandwidth(x, "lcv", "kde", structure = "full"), "evaluations"), 200)
})

test_that("a search on few rows is carried to all at the estimator's rate", {
  set.seed(13)
  x <- stats::rnorm(4000)
  whole <- plain(kde_bandwidth(x, "auto", "kde"))
  part <- kde_bandwidth(x, "auto", "kde", rows = 500)
  expect_identical(attr(part, "batches"), 4)
  expect_lt(abs(log(plain(part) / whole)), 0.3)
})

test_that("a budget decides on rows, and no clock", {
  x <- example_points(3000, 2)
  small <- kde_bandwidth(x, "auto", "kde", seconds = 0.01, tol = 0)
  expect_lt(attr(small, "rows"), 3000)
  expect_identical(small, kde_bandwidth(x, "auto", "kde", seconds = 0.01, tol = 0))
  expect_identical(attr(kde_bandwidth(x, "auto", "kde", seconds = 0.01, rows = Inf), "rows"), 3000L)
})

test_that("the standard error is about that of samples", {
  set.seed(14)
  samples <- replicate(12, {
    h <- kde_bandwidth(stats::rnorm(500), "auto", "kde")
    c(log(plain(h)), attr(h, "se"))
  })
  ratio <- stats::median(samples[2, ]) / stats::sd(samples[1, ])
  expect_gt(ratio, 1 / 4)
  expect_lt(ratio, 4)
})

test_that("selectors refuse what they cannot use, by name", {
  x <- example_points(20, 2)
  expect_argument_error(kde_bandwidth(x, "nrd0"), "method")
  expect_argument_error(kde_bandwidth(x, "sj"), "method")
  expect_argument_error(kde_bandwidth(x, "best"), "method")
  expect_error(kde_bandwidth("a", "sj"), "^`x` must be numeric")
  expect_argument_error(flash_kde(x, bandwidth = "sj"), "bandwidth")
  expect_argument_error(kde_bandwidth(x, "scott", structure = "sphered"), "structure")
  expect_argument_error(kde_bandwidth(x, "scott", structure = "round"), "structure")
  expect_argument_error(kde_bandwidth(x, "lcv", "none"), "estimator")
  expect_argument_error(kde_bandwidth(x, "lcv", structure = "round"), "structure")
  expect_argument_error(kde_bandwidth(x, "lcv", start = -1), "start")
  expect_argument_error(kde_bandwidth(x, "lscv", control = flash_control(precision = "half")), "precision")
  expect_argument_error(kde_bandwidth(x, "lcv", rows = 1), "rows")
  expect_argument_error(kde_bandwidth(x, "lcv", seconds = 0), "seconds")
  expect_argument_error(flash_kde(x, bandwidth = kde_bandwidth(seconds = "2")), "seconds")
  expect_argument_error(flash_kde(x, bandwidth = kde_bandwidth(method = 1, structure = "full")), "structure")
  expect_argument_error(flash_kde(x, bandwidth = kde_bandwidth(method = "scott", structure = "full")), "structure")
  expect_argument_error(kde_bandwidth(x, "lscv", "sdkde"), "estimator")
  expect_argument_error(kde_bandwidth(cbind(x, x[, 1]), "scott", structure = "full"), "x") # singular covariance
  expect_argument_error(kde_bandwidth(x[1, , drop = FALSE], "scott"), "x")
})

test_that("nrd0 and sj do not leave weights out silently", {
  x <- faithful$eruptions
  w <- seq_along(x)
  expect_argument_error(flash_kde(x, bandwidth = "sj", weights = w), "bandwidth")
  expect_argument_error(flash_kde(x, bandwidth = "nrd0", weights = w), "bandwidth")
})

# ---- what a selector returns

test_that("a selected bandwidth prints in a line or two and computes as plain numbers", {
  h <- kde_bandwidth(faithful, "lcv", "kde", "scaled")
  text <- utils::capture.output(shown <- withVisible(print(h)))
  expect_false(shown$visible)
  expect_gte(length(text), 3) # names, numbers, record
  expect_match(text[3], "lcv.*criterion.*evaluations")
  for (value in list(2 * h, h / 2, -h, sqrt(h), h + h, h[1], c(h))) {
    expect_true(all(names(attributes(value)) %in% "names"))
  }
  expect_identical(2 * h, 2 * stats::setNames(as.vector(h), names(faithful)))
  H <- kde_bandwidth(faithful, "lcv", "kde", structure = "sphered")
  expect_identical(attributes(2 * H), list(dim = c(2L, 2L), dimnames = rep(list(names(faithful)), 2)))
  expect_gte(length(utils::capture.output(print(H))), 4)
})

test_that("a fit names the selector only where it takes just what was selected", {
  h <- kde_bandwidth(faithful, "lcv", "kde", "scaled")
  by <- function(bandwidth) flash_kde(faithful, "kde", bandwidth = bandwidth)$selector
  expect_identical(by(h), "lcv")
  expect_identical(by(kde_bandwidth(faithful, "lscv", structure = "sphered")), "lscv")
  expect_identical(by(2 * h), "user")
  expect_identical(by(replace(h, 1, 1)), "user")
  expect_identical(by(as.vector(h)), "user")
})

test_that("a selector of flash_kde() blames what the user wrote", {
  line <- data.frame(a = c(1, 1, 1, 1))
  expect_argument_error(flash_kde(~a, line, bandwidth = "sj"), "formula")
  expect_error(flash_kde(line, bandwidth = "sj"), "(give `bandwidth` as a number)", fixed = TRUE)
  expect_error(
    flash_kde(line, bandwidth = 1, debias = debiasing(bandwidth = "sj")), "(give `debias$bandwidth` as a number)",
    fixed = TRUE
  )
  for (unit in c(1e-320, 1e-200, 1e200)) {
    tiny <- data.frame(a = 1:40, b = unit * c(1:20, 25:44))
    expect_argument_error(kde_bandwidth(tiny), "x")
    expect_argument_error(flash_kde(~ a + b, tiny), "formula")
    expect_error(flash_kde(tiny), "in column `b` (rescale it)", fixed = TRUE)
  }
  expect_error(flash_kde(tiny, bandwidth = 1e-200), "found standard deviations from 1e-200 to 1e-200")
  # outside flash_kde() there is no such argument
  message <- tryCatch(kde_bandwidth(3, "nrd0"), error = conditionMessage)
  expect_no_match(message, "bandwidth`")
})

test_that("the default is what \"auto\" chooses", {
  x <- example_points(300, 3)
  for (estimator in estimators) {
    fit <- flash_kde(x, estimator)
    expect_identical(fit$selector, "auto")
    h <- kde_bandwidth(x, "auto", estimator)
    expect_equal(unname(fit$bandwidth), unname(as_variance(h, 3)))
    expect_equal(fit$bandwidth, flash_kde(x, estimator, bandwidth = h)$bandwidth)
    expect_identical(fit$search, h)
  }
  fit <- flash_kde(x, "kde", bandwidth = kde_bandwidth(structure = "full", rows = 200))
  expect_equal(fit$bandwidth, unclass(kde_bandwidth(x, "auto", "kde", "full", rows = 200)), ignore_attr = TRUE)
  frame <- as.data.frame(x)
  expect_equal(
    flash_kde(~., frame, estimator = "kde", bandwidth = kde_bandwidth(structure = "diagonal"))$search, kde_bandwidth(frame, "auto", "kde", "diagonal")
  )
})

test_that("the score of an SD-KDE has half the variance where the search went by that", {
  x <- example_points(100, 2)
  for (bandwidth in list(NULL, "lcv", kde_bandwidth(x, "lcv"), kde_bandwidth(x))) {
    fit <- flash_kde(x, bandwidth = bandwidth)
    expect_equal(fit$score_bandwidth, fit$bandwidth / 2)
  }
  for (bandwidth in list(0.5, "scott", "lscv", 1 * kde_bandwidth(x, "lcv", structure = "scaled"))) {
    fit <- flash_kde(x, bandwidth = bandwidth)
    expect_equal(fit$score_bandwidth, fit$bandwidth)
  }
  expect_equal(flash_kde(x, debias = debiasing(bandwidth = 0.3))$score_bandwidth, diag(0.09, 2), ignore_attr = TRUE)
})

test_that("many dimensions and hardly varying columns have a bandwidth", {
  set.seed(6)
  # in many dimensions the points are far from each other, and that is no reason for outliers
  x <- matrix(stats::rnorm(300 * 200), ncol = 200)
  expect_gt(min(diag(flash_kde(x, "kde")$bandwidth)), 0.5)
  x <- cbind(x[, 1], replace(numeric(300), 2, 1))
  expect_gte(min(diag(flash_kde(x, "kde")$bandwidth)), 0.25 * (1 - 1e-9))
})

test_that("plot() draws the criterion and the structures", {
  grDevices::pdf(NULL)
  on.exit(grDevices::dev.off())
  for (h in list(kde_bandwidth(faithful, "auto", "kde"), kde_bandwidth(faithful$waiting, "lcv"), kde_bandwidth(c(1, 2, 4), "lscv"))) {
    shown <- withVisible(plot(h))
    expect_false(shown$visible)
    expect_identical(shown$value, h)
  }
  expect_argument_error(plot(replace(h, 1, 2)), "x")
})

test_that("on a GPU the budget goes by what it costs there", {
  # a GPU that takes 1e-12 s a pair, in double 20e-12, after a second
  there <- list2env(list(
    backend_info = \() list(gpu_engine = TRUE), gpu_info = \() list(index = 0L),
    guessed_seconds = \(run, n, m, d) 1 + as.double(n) * m * if (run$precision == "double") 2e-11 else 1e-12
  ), parent = environment(plan_rows))
  for (name in c("pair_seconds", "pass_seconds", "plan_rows", "goes_to_gpu", "run_of_search", "run_of_many", "starts_gpu")) {
    assign(name, `environment<-`(get(name), there), envir = there)
  }
  plan <- function(n, backend = "auto", shape = "lcv", factor = NULL, tol = 0) {
    search <- list(shape = shape, factor = factor, run = list(backend = backend, precision = "auto", tol = tol))
    there$plan_rows(list(x = matrix(0, n, 4), d = 4), search, list(structure = "diagonal", seconds = 5, rows = NULL))
  }
  expect_equal(there$pair_seconds(1e5, 4, list(backend = "auto", precision = "auto", tol = 0)), 1e-12)
  expect_equal(plan(1e5)$rows, 1e5)
  expect_lt(plan(1e5, "cpu")$rows, 5000)
  expect_identical(plan(8900)$rows, plan(8900, "cpu")$rows)
  # of more, samples: what a sample may cost is the budget's share by the guess, in double where a tolerance counts
  expect_equal(plan(1e6)$rows, floor(sqrt(2 / 50e-12)))
  expect_equal(plan(1e6, tol = 1e-6)$rows, floor(sqrt(2 / (50 * 2e-11))))
  expect_false(plan(1e6)$all_rows)
  expect_true(plan(5e5)$all_rows)
  expect_false(plan(5e5, factor = c("lcv", "sdkde"))$all_rows)
  # the guess itself is there on any machine
  run <- start_run(settle_control(flash_control(backend = "cpu")))
  expect_gt(guessed_seconds(run, 2e5, 1e5, 4), 1.5 * guessed_seconds(run, 1e5, 1e5, 4))
  # samples of rows that go there go there, too, however few these are
  expect_identical(there$run_of_search(list(backend = "auto"), 1e5, 4)$backend, "cuda")
  expect_identical(there$run_of_search(list(backend = "auto"), 1e3, 4)$backend, "auto")
  expect_identical(there$run_of_search(list(backend = "cpu"), 1e5, 4)$backend, "cpu")
  # pilots are computed on the CPU
  expect_identical(plan(1e5, shape = "plugin")$rows, plan(1e5, "cpu", "plugin")$rows)
})

test_that("weighted standard deviations keep their digits beside a heavy row", {
  x <- cbind(a = c(0, 1, 5, -2))
  sd_of <- function(w) {
    p <- w / sum(w)
    pairs <- outer(p, p)
    sqrt(sum(pairs * outer(x[, 1], x[, 1], "-")^2) / 2 / sum(pairs[row(pairs) != col(pairs)]))
  }
  for (light in c(1, 1e-6, 1e-12, 1e-19)) {
    w <- c(1, light, 2 * light, light)
    expect_equal(weighted_sds(x, w), c(a = sd_of(w)), tolerance = 1e-12, label = format(light))
  }
})
