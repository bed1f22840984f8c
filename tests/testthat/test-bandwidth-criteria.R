# Criteria of bandwidths: values against formulas written out, gradients against differences.

criteria_run <- function(threads = 1L, tol = 0) {
  start_run(settle_control(flash_control(backend = "cpu", threads = threads, tol = tol)))
}

# Points in the form in which a search passes them on.
criterion_data <- function(x, weights = NULL) {
  x <- as.matrix(x)
  v <- if (!is.null(weights)) pmin(weights, 10 * stats::median(weights))
  n <- if (is.null(weights)) nrow(x) else sum(weights)^2 / sum(weights^2)
  list(
    x = x, weights = if (!is.null(weights)) weights / max(weights), row_weights = if (!is.null(weights)) v / sum(v),
    n = n, d = ncol(x), centre = apply(x, 2, stats::median),
    scale = apply(x, 2, \(column) min(stats::sd(column), stats::IQR(column) / 1.34))
  )
}

# A factor for d columns that is not diagonal, about `h` large.
skew_factor <- function(d, h) {
  L <- diag(h * seq(1, 1.4, length.out = d), d)
  L[lower.tri(L)] <- 0.2 * h * cos(seq_len(d * (d - 1) / 2))
  L
}

# n points in d dimensions; the last ones are far away.
scattered <- function(n, d, far = 0) {
  i <- seq_len(n)
  x <- vapply(seq_len(d), \(k) stats::qnorm((i * sqrt(k * k + 1)) %% 1), numeric(n))
  if (far > 0) x[n - seq_len(far) + 1, ] <- far_out(far, d)
  x
}
far_out <- function(far, d) 1e3 * (seq_len(far) + outer(numeric(far), seq_len(d), "+"))

# The sums of pair_moments(), as they are defined.
ref_moments <- function(x, L, w, r, floor, ratio, f) {
  n <- nrow(x)
  d <- ncol(x)
  U <- t(forwardsolve(L, t(x)))
  S <- numeric(n)
  M <- matrix(0, d, d)
  fourth <- 0
  for (i in seq_len(n)) {
    u <- sweep(U[-i, , drop = FALSE], 2, U[i, ])
    s <- rowSums(u^2) / 2
    S[i] <- sum(w[-i] * (f[1] + f[2] * s + f[3] * s^2) * exp(-s))
    a <- w[-i] * (f[1] - f[2] + (f[2] - 2 * f[3]) * s + f[3] * s^2) * exp(-s)
    own <- if (ratio) r[i] / (S[i] + floor[i]) else r[i]
    M <- M + own * crossprod(u, a * u)
    squares <- u[, rep(seq_len(d), d)] * u[, rep(seq_len(d), each = d)]
    fourth <- fourth + own * crossprod(squares, a * squares)
  }
  list(S = S, M = M, fourth = array(fourth, rep(d, 4)))
}

expect_close <- function(found, wanted, tol = 1e-12) {
  expect_lte(max(abs(found - wanted)), tol * max(abs(wanted)))
}

test_that("moments of pairs are what they say", {
  for (d in c(1, 2, 3, 5, 8)) {
    n <- 55
    x <- scattered(n, d) + 1e3
    L <- skew_factor(d, 0.7)
    w <- 0.1 + (seq_len(n) * 0.37) %% 1
    r <- 0.1 + (seq_len(n) * 0.71) %% 1
    floor <- r / 100
    run <- criteria_run()
    for (f in list(PLAIN_FACTOR, c(2, -1, 0.3))) {
      ref <- ref_moments(x, L, w, r, floor, TRUE, f)
      order <- if (d <= 3) "order4" else "full"
      full <- pair_moments(x, L, w, r, floor, order, ratio = TRUE, factor = f, run = run)
      diagonal <- pair_moments(x, L, w, r, floor, "diagonal", ratio = TRUE, factor = f, run = run)
      expect_close(full$S, ref$S)
      expect_close(full$M, ref$M)
      if (d <= 3) expect_close(full$fourth, ref$fourth)
      expect_close(diagonal$M, diag(ref$M))
    }
    both <- pair_moments(x, L, NULL, r, moments = "full", wide = w, run = run)
    near <- ref_moments(x, L, rep(1, n), r, NULL, FALSE, PLAIN_FACTOR)
    far <- ref_moments(x, sqrt(2) * L, rep(1, n), w, NULL, FALSE, PLAIN_FACTOR)
    expect_close(c(both$S, both$M), c(near$S, near$M))
    expect_close(c(both$S_wide, both$M_wide), c(far$S, far$M))
  }
})

test_that("moments of pairs have the same bits for any number of threads", {
  x <- scattered(1500, 3)
  found <- lapply(1:3, \(threads) {
    found <- pair_moments(x, skew_factor(3, 0.4), moments = "full", ratio = TRUE, run = criteria_run(threads))
    found[c("S", "M")]
  })
  expect_identical(found[[2]], found[[1]])
  expect_identical(found[[3]], found[[1]])
})

# Chains of squares, with odd powers of their first, one that begins anew, numbers that are alone, and one twice.
many_powers <- c(2^(0:11), 3, 5, 6, 7, 10, 3072, 0.3, 0.3, sqrt(2)) / 9

test_that("sums of many bandwidths are those of each", {
  for (n in c(1, 2, 60, 900, 2100)) for (d in c(1, 2, 5)) {
    x <- matrix(scattered(n, d, far = if (n > 60) 3 else 0), n)
    w <- if (d > 1) 1 + (seq_len(n) %% 5)
    L <- skew_factor(d, 0.5)
    for (f in list(PLAIN_FACTOR, c(1.5, -0.5, 0.1))) {
      found <- pair_scales(x, L, many_powers, w, f, run = criteria_run())$S
      each <- \(power) pair_moments(x, L / sqrt(power), w, factor = f, run = criteria_run())$S
      wanted <- vapply(many_powers, each, numeric(n))
      expect_identical(dim(found), c(as.integer(n), length(many_powers)))
      expect_true(all(abs(found - wanted) <= 1e-12 * abs(wanted) + 1e-100))
    }
  }
})

test_that("sums of many bandwidths have the same bits for any number of threads", {
  x <- scattered(1700, 3)
  by <- \(threads) pair_scales(x, skew_factor(3, 0.4), many_powers, run = criteria_run(threads))$S
  expect_identical(by(2L), by(1L))
  expect_identical(by(3L), by(1L))
})

test_that("criteria have the values of many factors that they have of each", {
  for (d in c(1, 3)) {
    data <- criterion_data(scattered(250, d), 1 + (seq_len(250) %% 4))
    L <- skew_factor(d, 1.5)
    powers <- c(2^(0:6), 3, 1.7)
    each <- list(
      c("lcv", "kde"), c("csl", "kde"), c("lscv", "kde"), c("lscv", "laplace"), c("bcv2", "kde"), c("scv", "kde"),
      c("lcv", "sdkde"), c("lcv", "laplace")
    )
    for (measure in each) {
      criterion <- new_criterion(measure[1], data, measure[2], criteria_run())
      wanted <- vapply(powers, \(power) criterion$value(L / sqrt(power)), 0)
      expect_close(criterion$values(L, powers), wanted, 1e-11)
    }
  }
})

test_that("the engines have the moments that a pass over pairs has", {
  x <- scattered(300, 3)
  w <- 0.1 + (seq_len(300) * 0.37) %% 1
  L <- skew_factor(3, 0.5)
  arguments <- list(x, L, w, w / 2, w / 100, "full", TRUE, w, PLAIN_FACTOR, run = criteria_run())
  pairs <- do.call(pair_moments, arguments)
  engines <- do.call(engine_moments, arguments)
  for (part in c("S", "M", "S_wide", "M_wide")) expect_close(engines[[part]], pairs[[part]], 1e-10)
})

test_that("rows that are nearly alone cost the moments no digits", {
  x <- rbind(scattered(60, 6), c(60, numeric(5)), c(60, 6, numeric(4)))
  arguments <- list(x, skew_factor(6, 0.9), NULL, rep(1, 62), rep(1e-12, 62), "full", TRUE, NULL, PLAIN_FACTOR)
  pairs <- do.call(pair_moments, c(arguments, run = list(criteria_run())))
  expect_close(do.call(moments_of, c(arguments, run = list(criteria_run())))$M, pairs$M, 1e-10)
})

# Every criterion, and how many columns it is tried in.
plain_criteria <- c("lcv", "csl", "lscv", "bcv2", "scv", "plugin")

expect_gradient <- function(criterion, L) {
  d <- nrow(L)
  for (structure in c("scalar", "diagonal", "full")) {
    found <- criterion$gradient(L, structure)
    numeric <- richardson(criterion$value, L, structure)
    expect_equal(found$value, criterion$value(L), tolerance = 1e-12)
    expect_lt(max(abs(found$E - numeric)), 1e-6 * max(1e-3, abs(numeric)))
  }
}
richardson <- function(value, L, structure) {
  coarse <- difference_gradient(value, L, structure, step = 1e-3)
  (4 * difference_gradient(value, L, structure, step = 5e-4) - coarse) / 3
}

test_that("gradients of criteria are those of their values", {
  for (d in c(1:3, 5, 6)) {
    x <- scattered(40, d, far = 2)
    data <- criterion_data(x, if (d %% 2 == 0) 0.1 + (seq_len(40) * 0.37) %% 1)
    for (name in plain_criteria) expect_gradient(new_criterion(name, data, "kde", criteria_run()), skew_factor(d, 0.6))
    expect_gradient(new_criterion("lscv", data, "laplace", criteria_run()), skew_factor(d, 0.8))
  }
})

test_that("criteria are finite for clusters out of each other's reach", {
  x <- rbind(scattered(20, 2), scattered(20, 2) + 1e6, c(1e9, 0))
  for (name in plain_criteria) {
    criterion <- new_criterion(name, criterion_data(x), "kde", criteria_run())
    found <- criterion$gradient(diag(1e-3, 2), "full")
    expect_true(is.finite(found$value) && all(is.finite(found$E)))
  }
})

test_that("at the best full bandwidth of the likelihood the weighted second moments are the unit matrix", {
  set.seed(1)
  x <- matrix(stats::rnorm(240), 120) %*% matrix(c(1, 0.8, 0, 0.6), 2)
  data <- criterion_data(x)
  criterion <- new_criterion("lcv", data, "kde", criteria_run())
  L <- diag(0.4, 2)
  for (step in 1:60) L <- L %*% (diag(2) - 0.5 * criterion$gradient(L, "full")$E)
  M <- pair_moments(x, L, row_weights = rep(1 / 120, 120), moments = "full", ratio = TRUE, run = criteria_run())$M
  expect_close(M, diag(2), 0.01) # but for what the floor takes
  own <- vapply(seq_len(120), \(i) sum(exp(-colSums(forwardsolve(L, t(x[-i, ]) - x[i, ])^2) / 2)), 0)
  plain <- -mean(log(own / 119 / (2 * pi * det(L))))
  expect_equal(criterion$value(L), plain, tolerance = 1e-3) # the floor hardly counts
})

# ISE criterion of the pairs, written out.
ref_lscv <- function(x, H) {
  n <- nrow(x)
  phi <- \(V) exp(-mahalanobis_of_pairs(x, V) / 2) / sqrt(det(2 * pi * V))
  near <- phi(H)
  mean(phi(2 * H)) - 2 * (sum(near) - sum(diag(near))) / (n * (n - 1))
}
mahalanobis_of_pairs <- function(x, V) as.matrix(stats::dist(t(forwardsolve(t(chol(V)), t(x)))))^2

test_that("least-squares cross-validation is its formula, and that of ks", {
  x <- scattered(80, 2)
  L <- skew_factor(2, 0.5)
  criterion <- new_criterion("lscv", criterion_data(x), "kde", criteria_run())
  expect_equal(criterion$value(L), ref_lscv(x, tcrossprod(L)), tolerance = 1e-12)
  # of f^2 and of f by quadrature, f the corrected estimate
  y <- scattered(40, 1)
  h <- 0.6
  f <- function(q, y) {
    vapply(q, \(at) mean(stats::dnorm(at, y, h) * (1.5 - ((at - y) / h)^2 / 2)), 0)
  }
  signed <- new_criterion("lscv", criterion_data(y), "laplace", criteria_run())
  square <- stats::integrate(\(q) f(q, y)^2, -10, 10, rel.tol = 1e-10)$value
  out <- mean(vapply(seq_along(y), \(i) f(y[i], y[-i]), 0))
  expect_equal(signed$value(matrix(h)), square - 2 * out, tolerance = 1e-8)

  skip_if_not_installed("ks")
  set.seed(1)
  z <- c(stats::rnorm(150), stats::rnorm(50, 4, 0.5))
  criterion <- new_criterion("lscv", criterion_data(z), "kde", criteria_run())
  ours <- stats::optimize(\(h) criterion$value(matrix(h)), c(0.05, 2))$minimum
  expect_equal(ours, ks::hlscv(z), tolerance = 0.02)
})

# Sheather and Jones's direct plug-in as stats::bw.SJ() has it, without bins and with means over all n^2 pairs.
ref_sj <- function(x) {
  n <- length(x)
  scale <- min(stats::sd(x), stats::IQR(x) / 1.34)
  at <- \(g) outer(x, x, "-") / g
  sixth <- \(g) mean((at(g)^6 - 15 * at(g)^4 + 45 * at(g)^2 - 15) * stats::dnorm(at(g))) / g^7
  fourth <- \(g) mean((at(g)^4 - 6 * at(g)^2 + 3) * stats::dnorm(at(g))) / g^5
  g6 <- scale * (2 * stats::dnorm(0) * 15 / (n * 105 / (32 * sqrt(pi))))^(1 / 9)
  g4 <- (2 * stats::dnorm(0) * 3 / (n * abs(sixth(g6))))^(1 / 7)
  (1 / (2 * sqrt(pi) * n * fourth(g4)))^(1 / 5)
}

test_that("the plug-in bandwidth of one column is Sheather and Jones's", {
  x <- c(scattered(150, 1), 4 + scattered(50, 1) / 3)
  criterion <- new_criterion("plugin", criterion_data(x), "kde", criteria_run())
  h <- stats::optimize(\(h) criterion$value(matrix(h)), c(0.05, 2), tol = 1e-8)$minimum
  expect_equal(h, ref_sj(x), tolerance = 1e-5)
  expect_equal(h, stats::bw.SJ(x, method = "dpi"), tolerance = 0.02)
})

test_that("smoothed cross-validation and the plug-in bandwidth are near those of ks, whose pilots are others", {
  skip_if_not_installed("ks")
  x <- scattered(200, 2) %*% matrix(c(1, 0.5, 0, 1), 2)
  full <- function(name) {
    criterion <- new_criterion(name, criterion_data(x), "kde", criteria_run())
    factor <- \(theta) matrix(c(exp(theta[1]), theta[3], 0, exp(theta[2])), 2)
    tcrossprod(factor(stats::optim(c(-1, -1, 0), \(theta) criterion$value(factor(theta)))$par))
  }
  expect_equal(sqrt(det(full("plugin"))), sqrt(det(ks::Hpi(x))), tolerance = 0.25)
  expect_equal(sqrt(det(full("scv"))), sqrt(det(ks::Hscv(x))), tolerance = 0.25)
})

test_that("the likelihood of an SD-KDE leaves each point out of a score of half the variance, too", {
  x <- scattered(25, 2)
  data <- criterion_data(x)
  L <- skew_factor(2, 0.6)
  log_f <- vapply(seq_len(25), function(i) {
    others <- x[-i, ]
    fit <- flash_kde(others, "sdkde", bandwidth = tcrossprod(L), debias = debiasing(bandwidth = tcrossprod(L) / 2))
    log(predict(fit, x[i, , drop = FALSE]))
  }, 0)
  floor <- log_rescue_share(2) + cauchy_log_density(x, data$centre, data$scale)
  tally <- new_tally()
  criterion <- new_criterion("lcv", data, "sdkde", criteria_run(), tally)
  expect_equal(criterion$value(L), -mean(log_add(log_f, floor)), tolerance = 1e-6)
  expect_true(is.finite(criterion$gradient(L, "scalar")$E))
  expect_gt(tally$stats$pairs, 0)
  expect_identical(tally$evaluations, 2)
})

test_that("moments by scores are those of the pairs", {
  for (d in c(1, 3, 6)) {
    x <- with_fixed_seed(matrix(rnorm(600 * d), 600), d)
    x[600, ] <- 100 # alone
    w <- with_fixed_seed(runif(600), 7)
    r <- with_fixed_seed(runif(600) * (runif(600) > 0.1), 8)
    L <- diag(0.5, d) + 0.1 * lower.tri(diag(d))
    run <- criteria_run()
    for (weights in list(NULL, w)) {
      wanted <- pair_moments(x, L, weights, r, NULL, "full", run = run)
      Y <- t(forwardsolve(L, t(x) - colMeans(x)))
      found <- moments_by_scores(sum_sources(x, weights, L, plan = new_plan()), Y, wanted$S, r, run)
      expect_equal(found$M, wanted$M, tolerance = 1e-10)
    }
  }
})

test_that("the censored likelihood of a diagonal bandwidth is that of one with hardly any correlation", {
  criterion <- new_criterion("csl", criterion_data(scattered(60, 3, far = 2)), "kde", criteria_run())
  L <- diag(c(0.4, 0.5, 0.7))
  skew <- L
  skew[lower.tri(L)] <- 1e-11
  for (moves in c("scalar", "diagonal", "full")) {
    expect_equal(criterion$gradient(L, moves), criterion$gradient(skew, moves), tolerance = 1e-9)
  }
  expect_equal(criterion$value(L), criterion$value(skew), tolerance = 1e-12)
})

test_that("criteria of equal widths in all columns are the same of points in as many columns as rows", {
  set.seed(3)
  data <- clean_points(matrix(rnorm(40 * 600), 40) * rexp(40), runif(40, 1, 2))
  few <- in_few_columns(data)
  expect_identical(dim(few$x), c(40L, 40L))
  for (h in c(0.5, 2)) {
    for (measure in list(c("lcv", "kde"), c("csl", "kde"), c("lcv", "sdkde"))) {
      criteria <- lapply(list(data, few), \(data) new_criterion(measure[1], data, measure[2], criteria_run()))
      L <- lapply(list(data, few), \(data) h * unit_factor(data))
      expect_equal(criteria[[2]]$value(L[[2]]), criteria[[1]]$value(L[[1]]), tolerance = 1e-12)
      slopes <- lapply(1:2, \(i) criteria[[i]]$gradient(L[[i]], "scalar")$E)
      if (measure[2] == "kde") expect_equal(slopes[[2]], slopes[[1]], tolerance = 1e-9)
    }
  }
  expect_identical(whole_factor(h * unit_factor(few)), diag(h, 600))
  expect_equal(factor_sds(h * unit_factor(few)), rep(h, 600))
})

test_that("a search of wide data finds the same in as many columns as rows", {
  set.seed(4)
  x <- matrix(rnorm(30 * 500), 30, dimnames = list(NULL, paste0("v", 1:500))) * rep(c(0.3, 1), each = 15)
  found <- \() list(kde_bandwidth(x), flash_kde(x, "kde")$adaptive$factors, coef(flash_kde(x)))
  few <- suppressWarnings(found()) # noise in 500 columns has no best bandwidth
  replace_in_package("is_wide", \(data) FALSE)
  expect_equal(few, suppressWarnings(found()), tolerance = 1e-10)
})

test_that("a default fit of thousands of columns takes no products of d x d matrices", {
  skip_on_cran()
  set.seed(1)
  x <- matrix(rnorm(1.5e5), 50)
  took <- system.time(fit <- flash_kde(x))
  expect_identical(dim(fit$bandwidth), c(3000L, 3000L))
  # of the processor, which others may share; more than 20 s with such products
  expect_lt(sum(took[c("user.self", "sys.self")]), 8)
})
