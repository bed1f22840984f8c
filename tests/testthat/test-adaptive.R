# Bandwidths of each point's own, against sums in plain R.

# (log density, and its terms) of kernels with variances factors^2 H, at y, without the points `left_out`.
ref_adaptive <- function(x, y, H, factors, w = rep(1, nrow(x)), left_out = integer()) {
  keep <- setdiff(seq_len(nrow(x)), left_out)
  difference <- sweep(x[keep, , drop = FALSE], 2, y)
  q <- rowSums((difference %*% solve(H)) * difference) / factors[keep]^2
  height <- (2 * pi)^(-ncol(x) / 2) / sqrt(det(H)) * factors[keep]^(-ncol(x))
  w <- w[keep] / sum(w[keep])
  terms <- height * exp(-q / 2)
  list(
    density = sum(w * terms),
    score = colSums(w * terms * t(solve(H, t(difference))) / factors[keep]^2) / sum(w * terms),
    se = sqrt(sum(w^2 * terms^2) - sum(w * terms)^2 * sum(w^2))
  )
}

adaptive_case <- function(n = 40, d = 2) {
  set.seed(3)
  list(
    x = matrix(stats::rnorm(n * d), n), y = matrix(2 * stats::rnorm(7 * d), 7), H = example_bandwidth(d),
    factors = sample(c(0.5, 0.8, 1, 2.5), n, replace = TRUE), w = stats::runif(n, 0.1, 2)
  )
}

fit_case <- function(case, ...) flash_kde(case$x, bandwidth = case$H, adaptive = case$factors, ...)

test_that("densities, scores and standard errors are those of kernels of their own width", {
  for (d in c(1, 2, 5)) for (weighted in c(FALSE, TRUE)) {
    case <- adaptive_case(d = d)
    w <- if (weighted) case$w else rep(1, 40)
    fit <- fit_case(case, weights = if (weighted) w)
    of <- \(part, y) t(apply(y, 1, \(at) ref_adaptive(case$x, at, case$H, case$factors, w)[[part]]))
    expect_equal(predict(fit, case$y), as.vector(of("density", case$y)), tolerance = 1e-12)
    expect_equal(predict(fit), as.vector(of("density", case$x)), tolerance = 1e-12)
    expect_equal(predict(fit, case$y, se.fit = TRUE)$se.fit, as.vector(of("se", case$y)), tolerance = 1e-10)
    scores <- matrix(of("score", case$y), ncol = d, byrow = d == 1)
    expect_equal(unname(predict(fit, case$y, type = "score")), scores, tolerance = 1e-10)
  }
})

test_that("leave-one-out values by all pairs at once are those by classes of equal widths", {
  run <- cpu_run(threads = 1)
  for (d in 1:3) {
    case <- adaptive_case(d = d)
    case$x[1, ] <- 60 # so far out that its sum is below the floor
    L <- t(chol(case$H))
    others <- sum(case$w) - case$w
    log_floor <- rep(-400, 40)
    data <- list(
      x = case$x, weights = case$w, w = case$w, d = d, others = others, log_others = log(others), log_floor = log_floor
    )
    powers <- c(1 / 2, 1, 2)
    expect_true(prefers_one_pass(data, L, case$factors, run))
    pairs <- left_out_at_once(data, L, powers, case$factors, run)$log_density
    for (k in 1:3) {
      sources <- sum_sources(case$x, case$w, L / sqrt(powers[k]), factors = case$factors)
      log_density <- log_sum(sources, NULL, PLAIN_FACTOR, TRUE, run)$log_abs + log_kernel_norm(sources$L) - log(others)
      expect_equal(pairs[, k], log_add(log_density, log_floor), tolerance = 1e-13)
    }
  }
})

test_that("factors of 1 give the bits of one bandwidth", {
  case <- adaptive_case()
  plain <- flash_kde(case$x, "kde", bandwidth = case$H, weights = case$w)
  case$factors[] <- 1
  fit <- fit_case(case, weights = case$w)
  for (type in c("density", "log_density", "score")) for (loo in c(FALSE, TRUE)) {
    expect_identical(predict(fit, type = type, loo = loo), predict(plain, type = type, loo = loo))
  }
  expect_identical(predict(fit, case$y, se.fit = TRUE), predict(plain, case$y, se.fit = TRUE))
  expect_identical(simulate(fit, 20, seed = 1), simulate(plain, 20, seed = 1))
  expect_identical(logLik(fit), logLik(plain))
})

test_that("log densities of wide and narrow kernels hold in far tails", {
  case <- adaptive_case()
  far <- predict(fit_case(case), matrix(c(500, -300), 1), type = "log_density")
  q <- rowSums((sweep(case$x, 2, c(500, -300)) %*% solve(case$H)) * sweep(case$x, 2, c(500, -300))) / case$factors^2
  terms <- -q / 2 - 2 * log(case$factors) - log(2 * pi) - log(det(case$H)) / 2 - log(40)
  expect_equal(far, max(terms) + log(sum(exp(terms - max(terms)))), tolerance = 1e-13)
})

test_that("an estimate to a tolerance keeps it", {
  set.seed(4)
  x <- matrix(stats::rnorm(6000), ncol = 2)
  fit <- flash_kde(x, bandwidth = 0.3, adaptive = rep(c(1, 2, 3), 1000))
  exact <- predict(fit, x[1:500, ])
  expect_lt(max(abs(predict(fit, x[1:500, ], tol = 1e-3, control = flash_control(engine = "fast")) - exact)), 1e-3 * max(exact))
  tails <- rbind(x[1:100, ], c(6, -5), c(40, 0))
  wanted <- predict(fit, tails, type = "log_density")
  expect_lt(max(abs(predict(fit, tails, type = "log_density", tol = 1e-3, control = flash_control(engine = "fast")) - wanted)), 0.01)
  record <- diagnostics(update(fit, tol = 1e-3, control = flash_control(engine = "fast")))$tolerance
  expect_lt(record$bound, 1e-3)
  expect_lte(record$achieved, record$bound)
  off <- predict(fit, x[1:500, ], tol = 1e-3, control = flash_control(tol_type = "pointwise", engine = "fast")) / exact - 1
  expect_lt(max(abs(off)), 1e-3)
  single <- predict(flash_kde(x, bandwidth = 0.3, adaptive = rep(c(1, 2, 3), 1000), control = flash_control(precision = "single")), x[1:500, ])
  expect_lt(sqrt(sum((single - exact)^2) / sum(exact^2)), 1e-5)
})

test_that("figures have the narrow kernels", {
  fit <- fit_case(adaptive_case(60, 1))
  density <- predict(fit, seq(-15, 15, 0.005))
  grDevices::pdf(NULL)
  on.exit(grDevices::dev.off())
  drawn <- plot(fit)
  expect_gt(max(drawn$y), 0.999 * max(density))
  expect_equal(sum(diff(drawn$x) * (drawn$y[-1] + drawn$y[-length(drawn$y)]) / 2), 1, tolerance = 2e-3)
  case <- adaptive_case(60, 3)
  drawn <- plot(fit_case(case), n = 20)
  pair <- flash_kde(case$x[, 1:2], bandwidth = case$H[1:2, 1:2], adaptive = case$factors)
  at <- as.matrix(expand.grid(drawn$pairs[[1]]$x, drawn$pairs[[1]]$y))
  expect_equal(as.vector(drawn$pairs[[1]]$z), predict(pair, unname(at)), tolerance = 1e-12)
})

test_that("figures of many points merge those of one width alone", {
  set.seed(5)
  x <- matrix(stats::rnorm(3000))
  fit <- flash_kde(x, bandwidth = 0.2, adaptive = rep(c(0.5, 1, 4), 1000))
  few <- merged_points(fit)
  expect_lt(few$n, 500)
  at <- matrix(seq(-3, 3, 0.1))
  got <- predict(few, at)
  expect_lt(max(abs(got - predict(fit, at))), 2e-3 * max(got))
})

# ---- the factors ------------------------------------------------------------------------------

test_that("Abramson's factors are powers of leave-one-out densities, rounded", {
  set.seed(6)
  x <- matrix(stats::rt(400, 4), ncol = 2)
  fit <- flash_kde(x, "kde", bandwidth = 0.4)
  for (alpha in c(0.25, 0.5)) {
    factors <- adaptive_factors(fit, alpha = alpha)
    density <- predict(flash_kde(x, "kde", bandwidth = 0.8), type = "log_density", loo = TRUE)
    near <- density > -10 # where the floor is not felt
    off <- log(factors[near]) + alpha * density[near]
    expect_lt(diff(range(off)), 1.01 * log(FACTOR_STEP))
    expect_lt(abs(mean(log(factors))), 0.1)
  }
})

test_that("factors by neighbours go by the distance to the k-th one", {
  set.seed(6)
  x <- matrix(stats::rt(600, 4), ncol = 3)
  fit <- flash_kde(x, "kde", bandwidth = 0.4)
  distance <- apply(as.matrix(stats::dist(x)), 1, \(row) sort(row)[8])
  expect_lt(diff(range(log(adaptive_factors(fit, "knn", k = 7)) - log(distance))), 1.01 * log(FACTOR_STEP))
})

test_that("neither the order of the rows, nor threads, nor the unit of the weights matters", {
  set.seed(8)
  x <- cbind(stats::rt(300, 2), round(stats::rnorm(300), 1))
  order <- sample(300)
  for (method in c("abramson", "knn")) {
    fit <- flash_kde(x, adaptive = method)
    again <- flash_kde(x[order, ], adaptive = method, control = flash_control(threads = 1))
    expect_identical(again$bandwidth, fit$bandwidth)
    expect_identical(again$adaptive$factors, fit$adaptive$factors[order])
  }
  w <- stats::runif(300)
  weighted <- flash_kde(x, adaptive = TRUE, weights = w)
  expect_identical(flash_kde(x, adaptive = TRUE, weights = 4 * w)$bandwidth, weighted$bandwidth)
})

test_that("heavy tails gain, and the fit says how much", {
  set.seed(9)
  x <- matrix(stats::rt(1200, 2), ncol = 2)
  y <- matrix(stats::rt(4000, 2), ncol = 2)
  plain <- flash_kde(x, "kde", bandwidth = kde_bandwidth(x, "lcv", "kde"))
  held_out <- \(fit) mean(pmax(predict(fit, y, type = "log_density"), -20))
  for (method in c("abramson", "knn")) {
    fit <- flash_kde(x, adaptive = method)
    expect_gt(held_out(fit), held_out(plain) + 0.09)
    expect_gt(fit$adaptive$gain, 0.05)
    expect_output(print(fit), "Adaptive")
    expect_output(print(summary(fit)), "nats per point")
  }
})

test_that("one scale serves all factors where the bandwidth is chosen, and none where it is given", {
  set.seed(10)
  x <- matrix(stats::rnorm(300))
  factors <- round(exp(stats::rnorm(300, sd = 0.1)), 1)
  fit <- flash_kde(x, adaptive = factors)
  expect_identical(fit$adaptive$factors, factors)
  loss <- \(scale) -as.numeric(logLik(flash_kde(x, bandwidth = scale^2 * fit$bandwidth, adaptive = factors)))
  expect_true(all(c(loss(0.8), loss(1.25)) > loss(1)))
  given <- flash_kde(x, bandwidth = 0.3, adaptive = "knn")
  expect_identical(given$bandwidth[1], 0.3^2)
  expect_null(given$adaptive$gain)
})

test_that("many factors of one's own are rounded, and the fit says so", {
  x <- matrix(example_points(100, 1))
  fit <- flash_kde(x, bandwidth = 1, adaptive = seq(0.5, 3, length.out = 100))
  expect_identical(fit$adaptive$method, "given, rounded")
  expect_lt(max(abs(log(fit$adaptive$factors / seq(0.5, 3, length.out = 100)))), 0.501 * log(FACTOR_STEP))
  expect_output(print(fit), "rounded")
})

test_that("rows without weight leave the factors of the others alone", {
  case <- adaptive_case()
  fit <- flash_kde(rbind(case$x, c(5, 5)), adaptive = TRUE, weights = c(case$w, 0))
  expect_equal(predict(fit, case$y), predict(flash_kde(case$x, adaptive = TRUE, weights = case$w), case$y))
})

test_that("update() changes how factors are chosen, and fits tell that stage", {
  set.seed(11)
  data <- data.frame(a = stats::rt(200, 3), b = stats::rt(200, 3))
  for (adaptive in list(TRUE, "balloon")) for (estimator in c("kde", if (isTRUE(adaptive)) "sdkde")) {
    fit <- flash_kde(~ a + b, data, estimator = estimator, adaptive = adaptive)
    expect_identical(update(fit, adaptive = "knn")$adaptive$method, "knn")
    expect_true("adaptive" %in% diagnostics(fit)$stages$stage)
  }
})

test_that("what cannot be adaptive is refused", {
  x <- example_points(20, 2)
  expect_argument_error(flash_kde(x, "laplace", adaptive = TRUE), "adaptive")
  expect_argument_error(flash_kde(x, adaptive = "nearest"), "adaptive")
  expect_argument_error(flash_kde(x, adaptive = c(1, 2)), "adaptive")
  for (factor in c(0, 1e-200, 1e200)) expect_argument_error(flash_kde(x, adaptive = rep(factor, 20)), "adaptive")
  expect_argument_error(flash_kde(x[1, , drop = FALSE], bandwidth = 1, adaptive = TRUE), "adaptive")
  expect_argument_error(adaptive_factors(flash_kde(x, "laplace", bandwidth = 1)), "object")
  expect_argument_error(adaptive_factors(flash_kde(x, bandwidth = 1, adaptive = TRUE)), "object")
  fit <- flash_kde(x, "kde", bandwidth = 1)
  expect_argument_error(adaptive_factors(fit, alpha = 0), "alpha")
  expect_argument_error(adaptive_factors(fit, "knn", k = 20), "k")
})

# ---- by default -------------------------------------------------------------------------------

test_that("by default points have widths of their own where that gains, and the fit says so", {
  set.seed(12)
  heavy <- matrix(stats::rnorm(1600), ncol = 2) / sqrt(stats::rchisq(800, 2) / 2)
  fit <- flash_kde(heavy)
  expect_identical(fit$estimator, "kde")
  expect_true(fit$adaptive$auto)
  expect_gt(fit$adaptive$gain, GAIN)
  expect_output(print(fit), "by Abramson's rule")
  one <- flash_kde(heavy, adaptive = FALSE)
  expect_null(one$adaptive)
  expect_identical(one$estimator, "sdkde")
  # what the print tells: the likelihood over that of the SD-KDE, each with the floor of the criteria
  clean <- judged(clean_points(heavy, NULL))
  floored <- \(fit) log_add(
    predict(fit, type = "log_density", loo = TRUE)[clean$source], log_floor_of(clean) - sum(log(clean$unit))
  )
  expect_equal(mean(floored(fit) - floored(one)), fit$adaptive$gain, tolerance = 1e-6)
  plain <- flash_kde(heavy, "kde")
  expect_true(plain$adaptive$auto)
})

test_that("close to normal data have one bandwidth, the same as without a look", {
  set.seed(13)
  x <- matrix(stats::rnorm(1200), ncol = 2)
  for (estimator in list(names(ESTIMATORS), "kde")) {
    fit <- flash_kde(x, estimator)
    one <- flash_kde(x, estimator, adaptive = FALSE)
    expect_null(fit$adaptive)
    expect_identical(predict(fit), predict(one))
  }
  expect_identical(fit$estimator, "kde")
})

test_that("nobody who names a bandwidth or an estimator of one gets factors", {
  set.seed(14)
  x <- matrix(stats::rnorm(400), ncol = 2) / sqrt(stats::rchisq(200, 1))
  expect_false(is.null(flash_kde(x)$adaptive))
  expect_null(flash_kde(x, "sdkde")$adaptive)
  expect_null(flash_kde(x, "laplace")$adaptive)
  expect_null(flash_kde(x, bandwidth = 1)$adaptive)
  expect_null(flash_kde(x, bandwidth = "silverman")$adaptive)
  expect_null(flash_kde(x, bandwidth = kde_bandwidth(x))$adaptive)
  expect_null(flash_kde(x, debias = debiasing(bandwidth = 1))$adaptive)
  expect_null(flash_kde(x[1:49, ])$adaptive)
})

test_that("the choice is the same for any order of the rows, threads and units", {
  set.seed(15)
  x <- cbind(stats::rt(300, 1), stats::rt(300, 1))
  fit <- flash_kde(x)
  order <- sample(300)
  again <- flash_kde(x[order, ], control = flash_control(threads = 1))
  expect_identical(again$bandwidth, fit$bandwidth)
  expect_identical(again$adaptive$factors, fit$adaptive$factors[order])
  scaled <- flash_kde(x %*% diag(c(1024, 1 / 8)))
  expect_equal(scaled$adaptive$gain, fit$adaptive$gain, tolerance = 1e-6)
  expect_identical(scaled$adaptive$factors, fit$adaptive$factors)
})

test_that("no point is smoothed by less than its column was rounded", {
  set.seed(16)
  x <- cbind(round(2 * stats::rt(800, 1)), stats::rt(800, 1))
  fit <- flash_kde(x, adaptive = TRUE)
  expect_gt(length(unique(fit$adaptive$factors)), 1)
  expect_gte(min(fit$adaptive$factors) * sqrt(fit$bandwidth[1, 1]), 0.5)
  # one's own factors stay as they are
  own <- rep(c(0.01, 1), 400)
  expect_identical(flash_kde(x, adaptive = own)$adaptive$factors, own)
})

test_that("factors of more rows than time allows go by the density of a sample", {
  set.seed(17)
  x <- matrix(stats::rt(4000, 2), ncol = 2)
  clean <- judged(clean_points(x, NULL))
  run <- search_run(start_run(settle_control(flash_control())), 2)
  whole <- pilot_density(clean, diag(0.5, 2), Inf, run)$log_density
  part <- pilot_density(clean, diag(0.5, 2), 0, run)$log_density
  expect_length(part, 2000)
  expect_gt(stats::cor(whole, part, method = "spearman"), 0.9)
})

test_that("factors of rows beside a constant column are those of the other columns, in all kinds of fit", {
  set.seed(5)
  a <- rexp(60)
  g <- factor(rep(1:2, 30))
  own <- rep(c(1, 2, 3), 20)
  bounds <- list(a = kde_support(c(0, Inf), "reflect"))
  expect_same_factors <- function(with, without) {
    expect_equal(with$adaptive$factors, without$adaptive$factors)
    expect_s3_class(with, "flash_kde")
  }
  # Abramson's power is the same in one dimension as in two
  for (adaptive in list(TRUE, own)) {
    plain <- flash_kde(data.frame(a), "kde", 0.4, adaptive = adaptive)
    expect_same_factors(flash_kde(data.frame(a, c = 3), "kde", 0.4, adaptive = adaptive), plain)
    expect_same_factors(
      flash_kde(data.frame(a, c = 3, g), "kde", 0.4, adaptive = adaptive, categorical = categorical_kernel(smoothing = 0.5)),
      flash_kde(data.frame(a, g), "kde", 0.4, adaptive = adaptive, categorical = categorical_kernel(smoothing = 0.5))
    )
    for (method in c("reflect", "transform")) {
      bounds <- list(a = kde_support(c(0, Inf), method))
      expect_same_factors(
        flash_kde(data.frame(a, c = 3), "kde", 0.4, adaptive = adaptive, support = bounds),
        flash_kde(data.frame(a), "kde", 0.4, adaptive = adaptive, support = bounds)
      )
    }
  }
  fit <- flash_kde(data.frame(a, c = 3), "kde", 0.4, adaptive = own)
  kernels <- dnorm(outer(c(1, 2), a, "-"), sd = rep(0.4 * own, each = 2)) * rep(dnorm(0, sd = 0.4 * own), each = 2)
  expect_equal(predict(fit, cbind(a = c(1, 2), c = 3)), rowMeans(kernels))
  for (data in list(data.frame(a, c = 3), data.frame(a, c = 3, g))) {
    expect_identical(flash_kde(data, "kde", 0.4, adaptive = "knn")$adaptive$method, "knn")
  }
  factors_of <- \(x) adaptive_factors(flash_kde(x, "kde", 0.4))
  expect_equal(factors_of(data.frame(a, c = 3)), factors_of(a))
  # nothing varies: all points are alike
  expect_equal(unique(flash_kde(data.frame(a = rep(3, 20)), "kde", 0.4, adaptive = TRUE)$adaptive$factors), 1)
  # one row of positive weight
  one <- c(1, rep(0, 59))
  for (data in list(data.frame(a, c = 3), data.frame(a, g))) {
    lambda <- if (ncol(data) == 2 && is.factor(data[[2]])) 0.1
    expect_argument_error(flash_kde(data, "kde", 0.4, adaptive = TRUE, weights = one, categorical = categorical_kernel(smoothing = lambda)), "adaptive")
  }
  bounds <- kde_support(c(0, Inf), "reflect")
  expect_argument_error(flash_kde(a, "kde", 0.4, adaptive = TRUE, weights = one, support = bounds), "adaptive")
})
