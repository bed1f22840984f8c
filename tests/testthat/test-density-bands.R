# Confidence bands: beside literal formulas, and their coverage.

# psi_j(y), n x m, of estimates without the correction of bands. `x`: the points, `xd`: the debiased ones.
ref_psi <- function(estimator, x, xd, y, H, H_score = H, factors = rep(1, nrow(x))) {
  d <- ncol(x)
  kernel <- function(x, y, C) { # of variance f^2 C, with q
    q <- ref_distance2(x, y, C) / factors^2
    list(k = exp(-q / 2 + ref_log_norm(C, 1)) / factors^d, q = q)
  }
  psi <- function(y) {
    own <- kernel(x, y, H)
    if (estimator == "kde") return(own$k)
    if (estimator == "laplace") return(own$k * (1 + d / 2 - own$q / 2))
    both <- H + H_score
    wide <- kernel(x, y, both)
    u <- (rep(y, each = nrow(x)) - x) %*% solve(both)
    bend <- rowSums((u %*% H) * u) / factors^2 - sum(diag(solve(both, H))) # tr(H K'') / K
    kernel(xd, y, H)$k - wide$k * bend / 2
  }
  apply(y, 1, psi)
}

ref_se <- function(psi, w) {
  mean <- colSums(w * psi) / sum(w)
  sqrt(colSums(w^2 * (psi - rep(mean, each = nrow(psi)))^2)) / sum(w)
}

test_that("standard errors are those of the mean of what each point adds", {
  x <- example_points(60, 2)
  y <- x[1:12, ] + 0.3
  H <- example_bandwidth(2)
  H_score <- 0.7 * H + diag(0.05, 2)
  w <- seq(0.5, 2, length.out = 60)
  factors <- rep(c(0.7, 1, 1.6), 20)
  for (estimator in c("kde", "sdkde", "laplace")) for (weights in list(NULL, w)) for (f in list(FALSE, factors)) {
    if (estimator == "laplace" && !isFALSE(f)) next
    score <- if (estimator == "sdkde") H_score
    fit <- flash_kde(x, estimator, bandwidth = H, debias = debiasing(bandwidth = score), weights = weights, adaptive = f)
    found <- kde_bands(fit, y, correct = FALSE)
    psi <- ref_psi(estimator, x, fit$debiased, y, H, H_score, if (isFALSE(f)) rep(1, 60) else f)
    weight <- ref_weights(x, weights)
    expect_within(found$se / ref_se(psi, weight), rep(1, 12), 1e-5, estimator)
    expect_equal(found$estimate, predict(fit, y))
    # the corrected one, of the same bandwidth where that is a plain estimate's
    if (estimator != "kde" || !isFALSE(f)) next
    corrected <- kde_bands(fit, y)
    psi <- ref_psi("laplace", x, NULL, y, H)
    expect_within(corrected$se / ref_se(psi, weight), rep(1, 12), 1e-5)
    expect_equal(corrected$estimate, colSums(weight * psi) / sum(weight))
  }
})

test_that("the correction of adaptive and debiased estimates narrows their bandwidths by the rules' ratio", {
  x <- matrix(sin(1:80 * 1.7) + 1:80 / 40)
  n <- 80
  y <- c(-0.5, 0.3, 1.8)
  h <- 0.4
  kde <- (4 / 3 / n)^(1 / 5)
  sdkde <- (32 * (1 + sqrt(2 / 3) * (1 / 3) + 3 / sqrt(2) / 64) / 75 / n)^(1 / 9)
  laplace <- (8 * 9 / 35 / n)^(1 / 9)
  as_is <- function(bandwidth, ...) {
    as.data.frame(kde_bands(flash_kde(x, bandwidth = bandwidth, ...), y, correct = FALSE))
  }
  corrected <- \(...) as.data.frame(kde_bands(flash_kde(x, bandwidth = h, ...), y))
  ratio <- kde / laplace
  expect_equal(corrected("laplace"), as_is(ratio * h, "laplace"), ignore_attr = TRUE)
  expect_equal(
    corrected("sdkde", debias = debiasing(bandwidth = 0.3)),
    as_is(kde / sdkde * h, "sdkde", debias = debiasing(bandwidth = kde / sdkde * 0.3)), ignore_attr = TRUE
  )
  f <- rep(c(0.8, 1.5), 40)
  q <- outer(x[, 1], y, "-")^2 / (f * ratio * h)^2
  found <- corrected("kde", adaptive = f)
  expect_equal(found$estimate, colMeans(exp(-q / 2) * (3 - q) / 2 / (f * ratio * h)) / sqrt(2 * pi))
})

test_that("the standard error of an SD-KDE is near the infinitesimal jackknife's", {
  set.seed(3)
  x <- stats::rnorm(80)
  y <- c(-1, 0, 0.6, 1.5)
  fit <- flash_kde(x, "sdkde", bandwidth = 0.5, debias = debiasing(bandwidth = 0.4))
  slope <- vapply(1:80, function(j) {
    w <- replace(rep(1, 80), j, 1 + 1e-4)
    (predict(update(fit, weights = w), y) - predict(fit, y)) / 1e-4
  }, y)
  # by weights whose sum is not n any more: sum_j (psi_j - mean)^2 / n^2
  jackknife <- sqrt(rowSums(slope^2))
  found <- kde_bands(fit, y, correct = FALSE)$se
  expect_true(all(abs(found / jackknife - 1) < 0.12))
  naive <- predict(fit, y, se.fit = TRUE)$se.fit
  expect_true(all(naive < 0.9 * jackknife))
})

# The standard error by how the estimate changes with each weight: sums of squared derivatives with the logarithm of a weight.
jackknife_se <- function(fit_to, y, w, at = \(fit) predict(fit, y)) {
  here <- at(fit_to(w))
  slope <- vapply(seq_along(w), \(j) (at(fit_to(replace(w, j, w[j] * (1 + 1e-4)))) - here) / 1e-4, here)
  sqrt(rowSums(slope^2))
}

test_that("standard errors of what is no sum of Gaussian kernels are the infinitesimal jackknife's", {
  set.seed(3)
  x <- stats::rnorm(60)
  z <- stats::rgamma(60, 2)
  w <- rep(c(1, 2, 0.5), 20)
  on <- \(method) \(w) flash_kde(z, "kde", 0.4, support = kde_support(c(0, Inf), method), weights = w)
  of <- \(...) \(w) flash_kde(x, ..., bandwidth = 0.5, weights = w)
  cells <- list(
    list(on("boundary"), 1e-3), list(on("local"), 1e-2), list(of("kde", kernel = "epanechnikov"), 1e-3),
    list(of("kde", kernel = "biweight", adaptive = rep(c(0.8, 1.2), 30)), 1e-3),
    list(of("sdkde", debias = debiasing(score = \(x) -x)), 1e-3), list(of("sdkde", kernel = "biweight"), 0.15),
    list(of("sdkde", debias = debiasing(steps = 2)), 0.2), list(of("sdkde", debias = debiasing(steps = 4)), 0.25)
  )
  for (i in seq_along(cells)) {
    y <- if (i <= 2) c(0.05, 0.5, 1.5, 3) else c(-1, 0, 0.6, 1.5)
    found <- kde_bands(cells[[i]][[1]](w), y, correct = FALSE)
    expect_within(found$se / jackknife_se(cells[[i]][[1]], y, w), rep(1, 4), cells[[i]][[2]], i)
    expect_equal(found$estimate, predict(cells[[i]][[1]](w), y))
  }
  d <- data.frame(x, y = x + z, g = factor(rep_len(c("u", "v"), 60)))[1:30, ]
  w <- w[1:30]
  smooth <- categorical_kernel(smoothing = 0.2)
  given <- list(
    \(w) flash_kde(y ~ x + g, d, bandwidth = c(0.5, 0.4), weights = w, categorical = smooth, estimator = "kde"),
    \(w) flash_kde(y ~ x, d, bandwidth = c(0.5, 0.4), weights = w, estimator = "laplace"),
    \(w) flash_kde(g ~ x, d, bandwidth = 0.4, weights = w, categorical = smooth, estimator = "kde")
  )
  for (fit_to in given) {
    found <- kde_bands(fit_to(w), d[1:4, ], correct = FALSE)
    expect_within(found$se / jackknife_se(fit_to, d[1:4, ], w), rep(1, 4), 1e-3)
    expect_equal(found$estimate, predict(fit_to(w), d[1:4, ]))
    limits <- confint(fit_to(w), d[1:4, ], correct = FALSE)
    expect_equal(unname(limits), cbind(found$lower, found$upper))
  }
  far <- kde_bands(given[[2]](w), data.frame(x = 1e6, y = 0))
  expect_equal(c(far$lower, far$upper), c(0, Inf))
})

test_that("estimates without second derivatives are corrected by those of a wider kernel", {
  x <- faithful$eruptions
  y <- c(0, 2, 3, 4.5)
  fit_of <- \(h) flash_kde(x, "kde", h, kernel = "biweight")
  want <- 5 * predict(fit_of(0.3), y) - 4 * predict(fit_of(0.3 * sqrt(1.25)), y)
  expect_equal(kde_bands(fit_of(0.3), y)$estimate, pmax(want, 0))
})

# The contributions of points to a local quadratic estimate at y, by sums over the cells of a grid over the domain.
local_quadratic <- function(x, y, H, cells, size) {
  basis <- \(at) {
    u <- t(solve(t(chol(H)), t(at) - y))
    squares <- lapply(seq_len(ncol(u)), \(k) u[, k] * u[, k:ncol(u)])
    do.call(cbind, c(list(1, u), squares)) * exp(-rowSums(u^2) / 2) / sqrt(det(2 * pi * H))
  }
  phi <- basis(cells)
  moments <- size * t(phi / phi[, 1]) %*% phi
  drop(basis(x) %*% solve(moments, replace(numeric(ncol(phi)), 1, 1)))
}

test_that("near bounds intervals are around local quadratic estimates", {
  x <- stats::qexp(stats::ppoints(60))
  w <- rep_len(1:3, 60)
  y <- c(0, 0.1, 0.5)
  cells <- matrix(seq(5e-5, 4, by = 1e-4))
  psi <- vapply(y, \(one) local_quadratic(matrix(x), one, matrix(0.09), cells, 1e-4), x)
  for (method in c("reflect", "mass", "boundary")) {
    fit <- flash_kde(x, "kde", 0.3, support = kde_support(c(0, Inf), method), weights = w)
    found <- kde_bands(fit, y)
    expect_equal(found$estimate, colSums(w * psi) / sum(w), tolerance = 1e-6)
    expect_equal(found$se, ref_se(psi, w), tolerance = 1e-6)
  }
  # intervals of debiased and adaptive fits are those of plain ones, whatever the factors of rows of weight 0
  of <- \(...) confint(flash_kde(x, ..., support = kde_support(c(0, Inf), "mass")), y)
  expect_equal(of("kde", 0.3, adaptive = rep(c(0.5, 1, 2), 20)), of("kde", 0.3))
  x <- c(x, x)
  found <- of("kde", 0.2, adaptive = rep(c(0.5, 1, 2, 9), c(20, 20, 20, 60)), weights = rep(1:0, each = 60))
  x <- x[1:60]
  expect_equal(found, of("kde", 0.2))
  expect_equal(of("sdkde", 0.3), of("kde", 0.3 * reference_sd("kde", 60, 1) / reference_sd("sdkde", 60, 1)))
  # far from the bound it is the Laplace-corrected estimate
  u <- outer(c(1.6, 1.8), x, "-") / 0.3
  far <- drop((stats::dnorm(u) * (3 - u^2) / 2 / 0.3) %*% w) / sum(w)
  expect_equal(kde_bands(fit, c(1.6, 1.8))$estimate, far, tolerance = 1e-4)

  # on a triangle, with a slanted kernel
  x <- as.matrix(expand.grid(seq(0.01, 1, by = 0.05), seq(0.01, 1, by = 0.05)))
  x <- x[rowSums(x) < 1, ]
  H <- matrix(c(0.004, 0.002, 0.002, 0.006), 2)
  y <- rbind(c(0, 0), c(0.3, 0.69), c(0.5, 0.02))
  psi <- vapply(1:3, \(i) {
    cells <- as.matrix(expand.grid(seq(0.001, 1, by = 0.002), seq(0.001, 1, by = 0.002)))
    local_quadratic(x, y[i, ], H, cells[rowSums(cells) < 1 - 1e-9, ], 4e-6)
  }, x[, 1])
  found <- kde_bands(flash_kde(x, "kde", H, support = rbind(c(0, 0), c(0.999, 0), c(0, 0.999))), y)
  expect_equal(found$estimate, pmax(colMeans(psi), 0), tolerance = 1e-2)
  expect_equal(found$se, ref_se(psi, rep(1, nrow(x))), tolerance = 1e-2)
})

test_that("intervals are Wilson's with Cai's correction, of counts if the kernel were a box", {
  # the corrected kernel of sd 1, its integrals of squares and cubes
  k <- \(u) stats::dnorm(u) * (3 - u^2) / 2
  squares <- stats::integrate(\(u) k(u)^2, -10, 10, rel.tol = 1e-10)$value
  cubes <- stats::integrate(\(u) k(u)^3, -10, 10, rel.tol = 1e-10)$value
  x <- faithful$eruptions
  fit <- flash_kde(x, "kde", bandwidth = 0.3)
  y <- c(1, 2, 3, 4.5, 6)
  found <- kde_bands(fit, y, level = 0.9)
  z <- stats::qnorm(0.95)
  psi <- k(outer(x, y, "-") / 0.3) / 0.3
  u <- squares / 272 / 0.3
  p <- pmax(colMeans(psi), 0) # a negative one counts as 0
  variance <- ref_se(psi, rep(1, 272))^2
  # third cumulant, of psi^3 by psi^2, over the variance
  skew <- (cubes / squares^2 * u * (variance + p^2 / 272) - 3 * p * variance / 272 - p^3 / 272^2) / variance
  s <- pmax(pmin(skew, 1.5 * u), -1.5 * u) * (z^2 - 1) / 6
  # all f that are not too far from p, by the spread that an estimate of f would have
  # (below p one that falls with f, no faster)
  spread <- \(f, j) variance[j] + ifelse(f > p[j], u, pmin(u, variance[j] / p[j] + p[j] / 272)) * (f - p[j]) -
    (f^2 - p[j]^2) / 272
  reached <- \(f, j) (p[j] - s[j] - f)^2 - z^2 * spread(f, j)
  end <- \(j, from, to) stats::uniroot(reached, c(from, to), j, tol = 1e-12)$root
  expect_lt(min(colMeans(psi)), 0)
  expect_true(all(found$upper > u))
  inside <- which(p > s & reached(0, seq_along(p)) > 0)
  expect_gte(length(inside), 2)
  lower <- vapply(inside, \(j) end(j, 0, (p - s)[j]), 0)
  expect_equal(found$lower[inside], lower, tolerance = 1e-4)
  expect_true(all(found$lower[-inside] == 0))
  middle <- p + (z^2 * (u / 2 - p / 272) - s) / (1 + z^2 / 272)
  expect_equal(found$upper, vapply(seq_along(p), \(j) end(j, middle[j], 2), 0), tolerance = 1e-4)
  # of 7 points, z = 2: the roots of Cai (2005), with the sum of the squares for the variance
  counts <- wilson_interval(7, sqrt(7), 1, 2)
  expect_equal(unlist(counts[2:3]), c(7 + 1.5 - 2 * sqrt(7.5), 7 + 1.5 + 2 * sqrt(7.5)), ignore_attr = TRUE)
  # and of 7 out of 20, the skewness of which is 1 - 2 p: Wilson's with the variance q - q^2
  share <- wilson_interval(7 / 20, sqrt(7 * 13 / 20) / 20, 1 / 20, 2, share = 1 / 20)
  s <- (1 - 2 * 7 / 20) / 20 / 2
  limits <- vapply(list(c(0, 7 / 20), c(7 / 20, 1)), \(range) {
    stats::uniroot(\(q) (7 / 20 - s - q)^2 - 4 * q * (1 - q) / 20, range, tol = 1e-12)$root
  }, 0)
  expect_equal(unlist(share[2:3]), limits, ignore_attr = TRUE)
})

test_that("a point far from all others proves no density, and bands are no narrower than intervals", {
  x <- c(stats::qnorm(stats::ppoints(100)), 6)
  fit <- flash_kde(x, "kde", bandwidth = 0.4)
  y <- seq(4.5, 7.5, by = 0.1)
  set.seed(1)
  for (type in c("pointwise", "simultaneous")) {
    b <- kde_bands(fit, y, type = type, replicates = 200)
    # of one point: next to nothing, also where it counts for a part of itself
    expect_true(all(b$lower < 0.06 * max(b$estimate)))
    expect_gt(max(b$estimate), 0.01)
  }
  far <- kde_bands(fit, 1e6, type = "simultaneous", replicates = 20)
  expect_equal(as.list(far), as.list(kde_bands(fit, 1e6)), ignore_attr = TRUE)
})

test_that("simultaneous bands take the quantile of the largest of a process by counts as multipliers", {
  x <- faithful$waiting
  fit <- flash_kde(x, "kde", bandwidth = 4)
  y <- seq(45, 95, by = 5)
  set.seed(5)
  band <- kde_bands(fit, y, type = "simultaneous", replicates = 4000)
  # the process itself: its covariance, and its skewness
  psi <- ref_psi("laplace", matrix(x), NULL, matrix(y), matrix(16))
  psi <- psi - rep(colMeans(psi), each = 272)
  cross <- crossprod(psi) / 272^2
  # what little is added to the variances: that of one point
  squares <- stats::integrate(\(u) (stats::dnorm(u) * (3 - u^2) / 2)^2, -10, 10)$value
  sd <- sqrt(diag(cross) + (squares / 272 / 4)^2 / 4)
  draws <- crossprod(psi, matrix(stats::rpois(272 * 4000, 1) - 1, 272)) / 272
  want <- stats::quantile(apply(abs(draws) / sd, 2, max), 0.95)
  expect_lt(abs(attr(band, "band")$critical - want), 0.08)
  expect_gt(want, 2.5)
  # 190 of 200 draws would be exceeded in 10.5 of 201 cases
  expect_equal(largest_quantile(matrix(sqrt(1:200), 1), list(se = 1, unit = 0), 0.95), sqrt(191))
  pointwise <- kde_bands(fit, y)
  expect_true(all(band$lower <= pointwise$lower & band$upper >= pointwise$upper))
  # from the generator's state
  set.seed(5)
  expect_identical(kde_bands(fit, y, type = "simultaneous", replicates = 4000), band)
})

test_that("a bootstrap has the spread of estimates of rows drawn again", {
  x <- faithful$waiting[1:60]
  y <- c(50, 60, 80)
  w <- rep(1:3, 20)
  for (estimator in c("kde", "sdkde", "laplace")) for (weights in list(NULL, w)) {
    fit <- flash_kde(x, estimator, bandwidth = 5, weights = weights)
    set.seed(7)
    found <- kde_bands(fit, y, method = "bootstrap", correct = FALSE, replicates = 60)
    set.seed(7)
    draws <- replicate(60, {
      rows <- sample.int(60, replace = TRUE)
      predict(flash_kde(x[rows], estimator, bandwidth = 5, weights = weights[rows]), y)
    })
    expect_equal(found$se, apply(draws, 1, stats::sd) * sqrt(59 / 60), tolerance = 1e-5)
    expect_equal(found$estimate, predict(fit, y))
  }
})

test_that("a bootstrap may choose bandwidths and factors anew", {
  x <- faithful$waiting[1:60]
  y <- c(50, 54, 80) # where all estimates are positive
  w <- rep(1:3, 20)
  for (adaptive in list(FALSE, TRUE)) {
    fit_to <- \(rows) flash_kde(x[rows], "kde", bandwidth = "silverman", weights = w[rows], adaptive = adaptive)
    set.seed(7)
    found <- kde_bands(fit_to(1:60), y, method = "bootstrap", replicates = 20, refit = TRUE)
    set.seed(7)
    draws <- replicate(20, kde_bands(fit_to(sample.int(60, replace = TRUE)), y)$estimate)
    expect_equal(found$se, apply(draws, 1, stats::sd) * sqrt(19 / 20), tolerance = 1e-5)
    expect_equal(found$estimate, kde_bands(fit_to(1:60), y)$estimate)
  }
  expect_error(kde_bands(fit_to(1:60), y, refit = TRUE), class = "flashkernel_error_argument")
})

test_that("bands are the same in any unit, far from the origin, and of a fit that was saved", {
  x <- faithful$eruptions
  y <- c(2, 3, 4.5)
  for (estimator in c("kde", "sdkde", "laplace")) for (adaptive in list(FALSE, TRUE)) {
    if (estimator == "laplace" && adaptive) next
    fit_of <- \(x, h) flash_kde(x, estimator, bandwidth = h, adaptive = adaptive)
    values <- \(fit, y) as.matrix(as.data.frame(kde_bands(fit, y))[, c("estimate", "lower", "upper", "se")])
    want <- values(fit_of(x, 0.3), y)
    expect_equal(values(fit_of(1e5 * x, 3e4), 1e5 * y) * 1e5, want, tolerance = 1e-8)
    expect_equal(values(fit_of(x + 2^20, 0.3), y + 2^20), want, tolerance = 1e-4)
    file <- tempfile()
    saveRDS(fit_of(x, 0.3), file)
    expect_equal(values(readRDS(file), y), want)
  }
})

test_that("pointwise intervals hold their level, where points are few, too, and uncorrected ones do not", {
  skip_on_cran()
  set.seed(2)
  y <- c(0, 1, 2, 3)
  inside <- function(correct) function(i) {
    b <- kde_bands(flash_kde(stats::rnorm(100), "kde", bandwidth = "silverman"), y, correct = correct)
    b$lower <= stats::dnorm(y) & b$upper >= stats::dnorm(y)
  }
  covered <- rowMeans(vapply(1:400, inside(TRUE), logical(4)))
  expect_true(all(covered > 0.905)) # 0.95 less four standard errors
  plain <- rowMeans(vapply(1:200, inside(FALSE), logical(4)))
  expect_lt(plain[1], 0.9)
})

test_that("rows with missing values, names and formulas are as predict() has them", {
  data <- data.frame(a = c(faithful$eruptions, NA), b = c(faithful$waiting, 50))
  fit <- flash_kde(~ a + b, data = data, bandwidth = c(0.3, 4), estimator = "kde", na.action = na.exclude)
  at <- data.frame(a = c(2, NA, 4), b = c(50, 60, 80))
  b <- kde_bands(fit, at)
  expect_s3_class(b, c("kde_bands", "data.frame"), exact = TRUE)
  expect_named(b, c("a", "b", "estimate", "lower", "upper", "se"))
  expect_equal(is.na(b$upper), c(FALSE, TRUE, FALSE))
  expect_equal(as.list(b[c(1, 3), ]), as.list(kde_bands(fit, at[c(1, 3), ])), ignore_attr = TRUE)
  expect_equal(nrow(kde_bands(fit, at, na.action = na.omit)), 2)
  expect_equal(nrow(kde_bands(fit, at[2, ], na.action = na.omit)), 0)
  expect_equal(dim(kde_bands(fit, n = 7)), c(49, 6))
  ci <- confint(fit, at, level = 0.9)
  expect_identical(colnames(ci), c("5 %", "95 %"))
  expect_equal(ci[, 1], kde_bands(fit, at, 0.9)$lower)
  expect_equal(nrow(confint(fit)), 272)
  expect_identical(colnames(confint(fit, at[1, ], 0.999)), c("0.05 %", "99.95 %"))
  one <- kde_bands(flash_kde(faithful$waiting, "kde", bandwidth = 4), c(50, Inf))
  expect_equal(one$upper[2], 0)
  # a variable that is called as one of the columns
  named <- flash_kde(data.frame(upper = faithful$waiting), "kde", bandwidth = 4)
  expect_named(kde_bands(named, 50), c("upper.1", "estimate", "lower", "upper", "se"))
  expect_equal(confint(named, 50)[2], one$upper[1])
})

test_that("what makes no sense is refused in words", {
  fit <- flash_kde(faithful$waiting, "kde", bandwidth = 4)
  refused <- \(class, ...) expect_error(kde_bands(...), class = paste0("flashkernel_error_", class))
  refused("argument", fit, level = 1)
  refused("argument", fit, type = "joint")
  refused("argument", fit, 50, n = 10)
  refused("argument", fit, replicates = 3)
  refused("argument", fit, correct = NA)
  refused("argument", fit, newdta = 50)
  refused("argument", 1)
  refused("argument", flash_kde(iris[, 1:3], "kde", bandwidth = 0.3))
  refused("argument", flash_kde(c(1, 2), "kde", bandwidth = 1, weights = c(1, 0)))
  refused("unsupported", flash_kde(faithful$waiting, bandwidth = 4, adaptive = "balloon"))
  two <- flash_kde(faithful, "kde", bandwidth = c(0.3, 4))
  expect_error(plot(two, band = TRUE), class = "flashkernel_error_argument")
  expect_error(plot(fit, band = "both"), class = "flashkernel_error_argument")
  expect_error(plot(kde_bands(two, n = 5)[1:5, ]), class = "flashkernel_error_argument")
  expect_error(plot(kde_bands(two, faithful)), class = "flashkernel_error_argument")
})

test_that("figures of bands are drawn, and draw nothing from the generator", {
  grDevices::pdf(NULL)
  on.exit(grDevices::dev.off())
  fit <- flash_kde(faithful$waiting, "kde", bandwidth = 4)
  b <- kde_bands(fit, c(60, NA, 50, 80))
  expect_identical(plot(b), b)
  expect_identical(plot(b, add = TRUE, border = "grey"), b)
  two <- kde_bands(flash_kde(faithful, "kde", bandwidth = c(0.3, 4)), n = 9)
  expect_identical(plot(two), two)
  set.seed(1)
  before <- .Random.seed
  grid <- plot(fit, band = "simultaneous")
  expect_identical(.Random.seed, before)
  expect_equal(grid$y, predict(fit, grid$x))
  # the frame holds the band
  expect_gt(graphics::par("usr")[4], max(kde_bands(fit, grid$x)$upper))
  skip_if_not_installed("ggplot2")
  for (drawn in list(b, two)) {
    figure <- ggplot2::autoplot(drawn)
    expect_s3_class(figure, "ggplot")
    expect_silent(ggplot2::ggplot_build(figure))
  }
})

test_that("bands print what they are, and some of many rows", {
  fit <- flash_kde(faithful$waiting, "kde", bandwidth = 4)
  many <- capture.output(print(kde_bands(fit)))
  expect_length(many, 14)
  expect_match(many[1], "95% pointwise band, bias-corrected, KDE, n = 272")
  expect_match(many[14], "191 more rows")
  few <- kde_bands(fit, c(50, 60))
  expect_length(capture.output(print(few)), 5)
  expect_identical(capture.output(print(few))[-(1:2)], capture.output(print(as.data.frame(unclass(few)))))
})

test_that("kernels of corrected bands are at most as wide as maximal smoothing, also near bounds", {
  x <- stats::qexp(stats::ppoints(60))
  y <- c(0, 0.3, 1, 4)
  h <- 1.144 * stats::sd(x) * 60^(-1 / 5) # Terrell (1990)
  laplace <- \(u) stats::dnorm(u) * (3 - u^2) / 2
  sums <- rowMeans(laplace(outer(y, x, "-") / h)) / h
  wide <- flash_kde(x, "kde", bandwidth = 3)
  expect_equal(kde_bands(wide, y)$estimate, sums, tolerance = 1e-3)
  narrow <- flash_kde(x, "kde", bandwidth = h / 2)
  expect_equal(kde_bands(narrow, y)$estimate, rowMeans(laplace(2 * outer(y, x, "-") / h)) * 2 / h, tolerance = 1e-6)
  bounded <- flash_kde(x, "kde", bandwidth = 3, support = kde_support(c(0, Inf), "mass"))
  found <- kde_bands(bounded, y)
  psi <- vapply(y, \(one) local_quadratic(matrix(x), one, matrix((0.65 * h)^2), matrix(seq(5e-5, 12, by = 1e-4)), 1e-4), x)
  expect_equal(found$estimate, colMeans(psi), tolerance = 1e-3)
  expect_equal(found$se, ref_se(psi, rep(1, 60)), tolerance = 1e-3)
})

test_that("where no points are near a bound, the upper limit there is that of the mean density", {
  x <- c(2, 2.2, seq(3, 9, length.out = 18))
  fit <- flash_kde(x, "kde", 0.5, support = kde_support(c(0, Inf), "mass"))
  psi <- 2 * stats::dnorm(x, sd = 0.5)
  mean <- wilson_interval(mean(psi), sqrt(mean((psi - mean(psi))^2) / 20), 1 / (0.5 * sqrt(pi) * 20), stats::qnorm(0.975), 2 / sqrt(3), 1 / 20)
  found <- kde_bands(fit, 0)
  expect_equal(found$upper, 1.5 * (mean$upper + 2 * (found$estimate - mean$estimate)))
  # where they are, it is that of the local quadratic estimate
  band <- kde_bands(flash_kde(stats::qexp(ppoints(200)), "kde", 0.3, support = kde_support(c(0, Inf), "mass")), 0)
  expect_gt(band$upper, band$estimate + 1.9 * band$se)
})
