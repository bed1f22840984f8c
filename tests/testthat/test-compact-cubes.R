# Kernels of bounded reach in several dimensions, against products written out, over all pairs.

# The values and slopes at y, one place, of the kernels at the rows of x, for H = A A' and widths f: a column each.
ref_cubes <- function(kernel, x, A, y, f = rep(1, nrow(x))) {
  ref <- ref_compact[[kernel]]
  inverse <- solve(A)
  reach <- rep(ref$sds * f, each = ncol(x))
  u <- inverse %*% (y - t(x)) / reach
  inside <- apply(abs(u) <= 1, 2, all)
  factors <- array(ref$value(u), dim(u)) / reach
  slopes <- array(ref$slope(u), dim(u)) / reach^2
  by_u <- vapply(seq_along(y), \(k) slopes[k, ] * apply(factors[-k, , drop = FALSE], 2, prod), numeric(nrow(x)))
  rbind(apply(factors, 2, prod), t(by_u %*% inverse)) / abs(det(A)) * rep(inside, each = 1 + length(y))
}

# D R^(1/2), by Denman and Beavers' iteration for the root.
ref_root <- function(H) {
  sds <- sqrt(diag(H))
  Y <- H / outer(sds, sds)
  Z <- diag(nrow(H))
  for (i in 1:30) {
    next_Y <- (Y + solve(Z)) / 2
    Z <- (Z + solve(Y)) / 2
    Y <- next_Y
  }
  sds * Y
}

# Columns of different units, far from the origin; ties; weights over six decades.
some_cubes <- function(n, d) {
  set.seed(n + d)
  unit <- 10^(seq_len(d) - 2)
  x <- t(unit * (1e5 + matrix(stats::rnorm(n * d), d)))
  x[2, ] <- x[1, ]
  R <- matrix(0.4, d, d) + 0.6 * diag(d)
  list(
    x = x, w = 10^stats::runif(n, -4, 2), y = rbind(x[1:4, ], t(unit * (1e5 + matrix(stats::runif(8 * d, -3, 3), d)))),
    H = list(diag((0.7 * unit)^2), outer(unit, unit) * R / 2)
  )
}

test_that("densities, scores, errors and left-out values are sums of products", {
  for (kernel in names(ref_compact)) {
    d <- if (kernel %in% c("biweight", "uniform")) 3 else 2
    data <- some_cubes(150, d)
    for (H in data$H) {
      A <- if (H[1, 2] == 0) sqrt(H) else ref_root(H)
      fit <- flash_kde(data$x, bandwidth = H, weights = data$w, kernel = kernel)
      terms <- apply(data$y, 1, \(y) ref_cubes(kernel, data$x, A, y), simplify = FALSE)
      sums <- vapply(terms, \(term) drop(term %*% data$w), numeric(1 + d))
      got <- predict(fit, data$y)
      expect_lt(relative_error(got, sums[1, ] / sum(data$w)), 1e-8)
      expect_identical(got == 0, sums[1, ] == 0)
      inside <- sums[1, ] > 0
      score <- t(sums[-1, ]) / sums[1, ]
      # in units of bandwidths
      off <- t((predict(fit, data$y, type = "score") - score)[inside, ]) * sqrt(diag(H))
      expect_lt(max(abs(off)), 1e-7)
      expect_identical(is.nan(predict(fit, data$y, type = "score")[, 1]), !inside)
      squares <- vapply(terms, \(term) sum((data$w * term[1, ])^2), 0)
      variance <- (squares - sums[1, ]^2 * sum(data$w^2) / sum(data$w)^2) / sum(data$w)^2
      expect_equal(predict(fit, data$y, se.fit = TRUE)$se.fit, sqrt(pmax(variance, 0)), tolerance = 1e-6)
      left_out <- vapply(1:4, \(i) {
        sum(data$w[-i] * ref_cubes(kernel, data$x[-i, ], A, data$x[i, ])[1, ]) / sum(data$w[-i])
      }, 0)
      expect_equal(predict(fit, loo = TRUE)[1:4], left_out, tolerance = 1e-8)
    }
  }
})

test_that("neither units nor the order of columns change the estimate, whatever the correlations", {
  x <- as.matrix(iris[1:3])
  H <- stats::cov(x) / 8
  fit <- flash_kde(x, bandwidth = H, kernel = "triangular")
  # of a power of two, which leaves all digits
  scaled <- x %*% diag(c(4, 1, 1 / 2))
  other <- flash_kde(scaled, bandwidth = diag(c(4, 1, 1 / 2)) %*% H %*% diag(c(4, 1, 1 / 2)), kernel = "triangular")
  expect_equal(predict(other), predict(fit) / 2, tolerance = 1e-12)
  turned <- flash_kde(x[, 3:1], bandwidth = H[3:1, 3:1], kernel = "triangular")
  expect_equal(predict(turned), predict(fit), tolerance = 1e-12)
  # near 0 correlations are as none
  near <- diag(diag(H))
  near[1, 2] <- near[2, 1] <- 1e-14
  of <- \(H) predict(flash_kde(unname(x), bandwidth = H, kernel = "triangular"))
  expect_equal(of(near), of(diag(diag(H))), tolerance = 1e-9)
})

test_that("each point may have a width of its own, or each place", {
  data <- some_cubes(120, 2)
  set.seed(5)
  factors <- sample(c(0.6, 1, 1.7), 120, replace = TRUE)
  H <- data$H[[1]]
  fit <- flash_kde(data$x, bandwidth = H, weights = data$w, adaptive = factors, kernel = "biweight")
  want <- apply(data$y, 1, \(y) drop(ref_cubes("biweight", data$x, sqrt(H), y, factors) %*% data$w))
  expect_lt(relative_error(predict(fit, data$y), want[1, ] / sum(data$w)), 1e-8)
  found <- predict(fit, data$y, type = "score")
  inside <- want[1, ] > 0
  expect_equal(found[inside, ], (t(want[-1, ]) / want[1, ])[inside, ], tolerance = 1e-6, ignore_attr = TRUE)
  others <- flash_kde(data$x[-7, ], bandwidth = H, weights = data$w[-7], adaptive = factors[-7], kernel = "biweight")
  expect_equal(predict(fit, loo = TRUE)[7], predict(others, data$x[7, , drop = FALSE]), tolerance = 1e-8)
  balloon <- flash_kde(data$x, bandwidth = H, adaptive = "balloon", kernel = "biweight")
  factor <- balloon$adaptive$at_points[5]
  alone <- flash_kde(data$x[-5, ], bandwidth = factor^2 * H, kernel = "biweight")
  expect_equal(predict(balloon, loo = TRUE)[5], predict(alone, data$x[5, , drop = FALSE]), tolerance = 1e-8)
})

test_that("probabilities, marginals and conditionals are integrals of the product", {
  x <- unname(as.matrix(faithful))
  w <- rep(1:2, 136)
  sds <- c(0.4, 5)
  limits <- rbind(c(3, 70), c(2, 90), c(Inf, 55), c(9, 200))
  lower <- rbind(c(2, 50), c(-Inf, 60), c(1, -Inf), c(-9, -200))
  for (kernel in names(ref_compact)) {
    ref <- ref_compact[[kernel]]
    b <- ref$sds * sds
    below <- \(q, k) ref$below(pmax(pmin((q - x[, k]) / b[k], 1), -1))
    want <- vapply(1:4, \(j) {
      sum(w * Reduce(`*`, lapply(1:2, \(k) below(limits[j, k], k) - below(lower[j, k], k)))) / sum(w)
    }, 0)
    fit <- flash_kde(x, bandwidth = sds, weights = w, kernel = kernel)
    expect_equal(kde_cdf(fit, limits, lower = lower), want, tolerance = 1e-13, info = kernel)
    expect_equal(kde_cdf(fit, cbind(3, 70)), sum(w * below(3, 1) * below(70, 2)) / sum(w), tolerance = 1e-13)
    expect_identical(kde_cdf(fit, cbind(9, 200)), 1, tolerance = 1e-14)
    marginal <- kde_marginal(fit, 2)
    alone <- flash_kde(x[, 2], bandwidth = 5, weights = w, kernel = kernel)
    expect_identical(predict(marginal, c(50, 77)), predict(alone, c(50, 77)))
    expect_identical(unname(quantile(fit, c(0, 0.3))[, 2]), quantile(alone, c(0, 0.3), names = FALSE))
    given <- kde_conditional(fit, c(x2 = 70))
    y <- seq(1, 6, 0.5)
    expect_equal(predict(given, y), predict(fit, cbind(y, 70)) / predict(alone, 70), tolerance = 1e-12, info = kernel)
  }
  expect_equal(kde_cdf(alone, 70, lower = 50), diff(kde_cdf(alone, c(50, 70))), tolerance = 1e-13)
  expect_error(kde_conditional(fit, c(x2 = 300)), "cutoff radius", class = "flashkernel_error_argument")
  adapted <- flash_kde(x, bandwidth = sds, weights = w, adaptive = rep(c(0.7, 1.5), 136), kernel = "epanechnikov")
  given <- kde_conditional(adapted, c(x2 = 70))
  at_70 <- predict(kde_marginal(adapted, 2), 70)
  expect_equal(predict(given, y), predict(adapted, cbind(y, 70)) / at_70, tolerance = 1e-12)
  inside <- vapply(1:2, \(k) {
    u <- pmax(pmin((c(3, 70)[k] - x[, k]) / (sqrt(5) * sds[k] * rep(c(0.7, 1.5), 136)), 1), -1)
    ref_compact$epanechnikov$below(u)
  }, numeric(272))
  expect_equal(kde_cdf(adapted, cbind(3, 70)), sum(w * inside[, 1] * inside[, 2]) / sum(w), tolerance = 1e-13)
})

test_that("draws, regions and the integral of the square are those of the estimate", {
  x <- unname(as.matrix(faithful))[seq(1, 272, 3), ]
  step <- c(0.06, 0.9)
  grid <- as.matrix(expand.grid(seq(-0.5, 7.5, step[1]), seq(15, 125, step[2])))
  correlated <- matrix(c(0.16, 1.2, 1.2, 36), 2)
  for (kernel in names(ref_compact)) for (H in list(diag(c(0.16, 36)), correlated)) {
    fit <- flash_kde(x, bandwidth = H, kernel = kernel)
    density <- predict(fit, grid)
    edges <- kernel == "uniform" # a grid sees them badly
    expect_equal(sum(density) * prod(step), 1, tolerance = if (edges) 0.02 else 1e-3, info = kernel)
    square <- log_square_integral(unclass(fit), TRUE, fit_control(fit))
    expect_equal(exp(square$log), sum(density^2) * prod(step), tolerance = if (edges) 0.03 else 1e-3, info = kernel)
    without <- flash_kde(x[-9, ], bandwidth = H, kernel = kernel)
    expect_equal(square$log_loo[9], log_square_integral(unclass(without), FALSE, fit_control(fit))$log, tolerance = 1e-12)
    draws <- as.matrix(simulate(fit, 2000, seed = 3))
    at_draws <- predict(fit, unname(draws))
    expect_true(all(at_draws > 0))
    expect_lt(max(abs(stats::cov(draws) / (stats::cov(x) * 90 / 91 + H) - 1)), 0.15, label = kernel)
    if (H[1, 2] == 0 || kernel != "biweight") next
    expect_lt(max(abs(vapply(hdr_level(fit), \(level) mean(at_draws >= level), 0) - c(0.5, 0.95))), 0.03, label = kernel)
  }
})

test_that("bandwidths are diagonal, and changed for the kernel as in one dimension", {
  gaussian <- flash_kde(faithful, "kde", bandwidth = "silverman")
  fit <- flash_kde(faithful, kernel = "biweight", bandwidth = "silverman")
  roughness <- c(5 / 7, 1 / (2 * sqrt(pi))) / c(sqrt(7), 1)
  expect_equal(coef(fit) / coef(gaussian), c(eruptions = 1, waiting = 1) * (roughness[1] / roughness[2])^(2 / 6))
  expect_identical(flash_kde(faithful, kernel = "biweight")$bandwidth[1, 2], 0)
  asked <- flash_kde(faithful, kernel = "biweight", bandwidth = kde_bandwidth(structure = "full"))
  expect_false(asked$bandwidth[1, 2] == 0)
  # least squares: of the integral by a grid, and densities left out
  x <- unname(as.matrix(faithful))[1:60, ]
  step <- c(0.05, 0.8)
  grid <- as.matrix(expand.grid(seq(-1, 8, step[1]), seq(5, 135, step[2])))
  fit <- flash_kde(x, bandwidth = c(0.5, 6), kernel = "triangular")
  want <- sum(predict(fit, grid)^2) * prod(step) - 2 * mean(predict(fit, loo = TRUE))
  got <- lscv_value(list(points = x), diag(c(0.5, 6)), compact_kernel("triangular"), fit_control(fit))
  expect_equal(got, want, tolerance = 1e-3)
  chosen <- flash_kde(x, bandwidth = "lscv", kernel = "triangular")
  of <- \(factor) {
    lscv_value(list(points = x), factor * fit_factor(chosen), compact_kernel("triangular"), fit_control(fit))
  }
  for (factor in c(0.8, 0.95, 1.05, 1.25)) expect_lt(of(1), of(factor))
  # of many rows by some, whose best bandwidth is wider
  data <- list(points = rbind(x, x), weights = rep(c(1, 0), each = 60))
  replace_in_package("LSCV_ROWS", 45)
  part <- with_fixed_seed(sample.int(60, 45))
  wide <- (60 / 45)^(1 / 6)
  got <- lscv_factor(data, diag(c(0.5, 6)), compact_kernel("epanechnikov"), fit_control(fit))
  data <- list(points = x[part, ])
  of <- \(factor) lscv_value(data, factor * wide * diag(c(0.5, 6)), compact_kernel("epanechnikov"), fit_control(fit))
  for (factor in c(0.9, 1.1)) expect_lt(of(got), of(got * factor))
})

test_that("an SD-KDE in several dimensions moves its points by the score of the Gaussian", {
  fit <- flash_kde(faithful, "sdkde", bandwidth = c(0.4, 6), kernel = "epanechnikov")
  gaussian <- flash_kde(faithful, "sdkde", bandwidth = c(0.4, 6))
  expect_identical(fit$debiased, gaussian$debiased)
  y <- c(3, 70)
  want <- mean(ref_cubes("epanechnikov", unname(fit$debiased), diag(c(0.4, 6)), y)[1, ])
  expect_equal(predict(fit, data.frame(eruptions = 3, waiting = 70)), want, tolerance = 1e-12)
  # left out of both stages, with bandwidths that do not commute, weights, and a block at a time
  H <- matrix(c(0.16, 1.2, 1.2, 36), 2)
  w <- rep(c(1, 0, 3, 2), 68)
  of <- \(rows) flash_kde(
    faithful[rows, ], "sdkde", bandwidth = H, debias = debiasing(bandwidth = c(0.5, 4)), weights = w[rows],
    kernel = "triangular"
  )
  got <- compact_debiased_loo(unclass(of(1:272)), fit_control(fit), pairs = 3e4)$log_abs
  expect_identical(got, compact_debiased_loo(unclass(of(1:272)), fit_control(fit))$log_abs)
  expect_equal(predict(of(1:272), loo = TRUE)[c(2, 5, 60)], vapply(c(2, 5, 60), \(i) {
    predict(of(-i), faithful[i, ])
  }, 0), tolerance = 1e-10)
})

test_that("results have the same bits for any number of threads, and few targets those of many", {
  set.seed(6)
  x <- matrix(stats::rnorm(9000), 3000)
  fit <- \(threads) flash_kde(x, bandwidth = 0.6, kernel = "biweight", control = flash_control(threads = threads))
  all <- predict(fit(1), x)
  expect_identical(predict(fit(2), x), all)
  expect_identical(predict(fit(2), type = "score"), predict(fit(1), type = "score"))
  # in another order of the points
  expect_lt(relative_error(predict(fit(1), x[1:3, ]), all[1:3]), 1e-14)
  stats <- cube_sums(fit_sources(fit(1)), x, FALSE, fit_control(fit(1)))$stats
  expect_identical(stats$method, "cubes")
  expect_true(stats$skipped > 0.2 * stats$pairs && stats$skipped < stats$pairs)
})

test_that("what is not known of products is refused in words", {
  x <- as.matrix(iris[1:3])
  fit <- flash_kde(x, bandwidth = stats::cov(x) / 8, kernel = "biweight")
  unsupported <- \(code) expect_error(code, class = "flashkernel_error_unsupported")
  unsupported(kde_marginal(fit, 1))
  unsupported(kde_conditional(fit, c(Sepal.Length = 5)))
  unsupported(quantile(fit))
  unsupported(flash_kde(x, kernel = "biweight", control = flash_control(backend = "cuda")))
  unsupported(flash_kde(x, kernel = "biweight", control = flash_control(engine = "fast"), tol = 1e-3))
  unsupported(flash_kde(x, "laplace", kernel = "biweight"))
  unsupported(flash_kde(eruptions ~ waiting, faithful, kernel = "biweight"))
})

test_that("points are left out of an SD-KDE whose columns have very different scales", {
  x <- cbind(c(0, 0.1, 0.3), c(0, 1, 2))
  loo <- \(scale) predict(
    flash_kde(x * rep(c(1, scale), each = 3), "sdkde", c(0.1, scale), kernel = "biweight"), loo = TRUE
  )
  expect_gt(min(loo(1)), 0.01)
  for (scale in c(1e-100, 1e-26, 1e26, 1e100)) expect_equal(loo(scale) * scale, loo(1), tolerance = 1e-12)
})
