# Distribution functions and probabilities of rectangles in several dimensions, and quantiles of columns.

rect_points <- function(n, d, seed = 5) {
  set.seed(seed)
  matrix(stats::rnorm(n * d), n)
}

# sum w prod_k (Phi((b_k - x_k) / h_k) - Phi((a_k - x_k) / h_k)), the differences by the smaller tails
literal_box <- function(x, lower, upper, h, w, factors = rep(1, nrow(x))) {
  total <- 0
  for (i in seq_len(nrow(x))) {
    p <- 1
    for (k in seq_along(h)) {
      a <- (lower[k] - x[i, k]) / (h[k] * factors[i])
      b <- (upper[k] - x[i, k]) / (h[k] * factors[i])
      p <- p * if (a > 0) {
        stats::pnorm(a, lower.tail = FALSE) - stats::pnorm(b, lower.tail = FALSE)
      } else {
        stats::pnorm(b) - stats::pnorm(a)
      }
    }
    total <- total + w[i] * p
  }
  total / sum(w)
}

test_that("rectangles of a diagonal bandwidth are literal products, to the digits of small ones", {
  for (d in 1:4) {
    x <- rect_points(150, d)
    h <- seq(0.3, 0.5, length.out = d)
    w <- seq(0.1, 1, length.out = 150)
    upper <- rbind(rep(0, d), rep(0.7, d), rep(-4, d), rep(5, d), rep(Inf, d))
    lower <- rbind(rep(-Inf, d), rep(0.5, d), rep(-5, d), rep(4, d), c(-Inf, rep(0, d - 1)))
    fit <- flash_kde(x, "kde", bandwidth = diag(h^2, d), weights = w)
    got <- kde_cdf(fit, upper, lower = lower)
    want <- vapply(1:5, \(j) literal_box(x, lower[j, ], upper[j, ], h, w), 0)
    expect_within(got / want, rep(1, 5), 1e-11)
    first <- upper[1, , drop = FALSE]
    if (d > 1) expect_identical(kde_cdf(fit, first), kde_cdf(fit, first, lower = t(rep(-Inf, d))))
  }
  line <- flash_kde(x[, 1], "kde", bandwidth = 0.3)
  expect_within(kde_cdf(line, c(1, 2), lower = c(0, 1)), kde_cdf(line, c(1, 2)) - kde_cdf(line, c(0, 1)), 1e-14)
})

test_that("adaptive, debiased and far points have their own kernels", {
  x <- rect_points(200, 2)
  upper <- rbind(c(0, 0.5), c(-1, 1))
  factors <- rep(c(0.5, 1, 1.5, 2), 50)
  fit <- flash_kde(x, "kde", bandwidth = c(0.2, 0.4), adaptive = factors)
  below <- c(-Inf, -Inf)
  want <- vapply(1:2, \(j) literal_box(x, below, upper[j, ], c(0.2, 0.4), rep(1, 200), factors), 0)
  expect_within(kde_cdf(fit, upper), want, 1e-14)
  sdkde <- flash_kde(x, "sdkde", bandwidth = c(0.2, 0.4))
  want <- vapply(1:2, \(j) literal_box(sdkde$debiased, below, upper[j, ], c(0.2, 0.4), rep(1, 200)), 0)
  expect_within(kde_cdf(sdkde, upper), want, 1e-14)
  far <- flash_kde(x + 2^32, "sdkde", bandwidth = c(0.2, 0.4))
  near <- flash_kde(x + 2^32 - 2^32, "sdkde", bandwidth = c(0.2, 0.4))
  expect_within(kde_cdf(far, upper + 2^32), kde_cdf(near, upper), 1e-12)
})

test_that("many points go by whole nodes of a tree", {
  x <- rect_points(20000, 2)
  upper <- rbind(c(0.3, 0.1), c(-3, -2), c(2, 2), c(0, Inf), c(5, 5), c(Inf, Inf))
  fit <- flash_kde(x, "kde", bandwidth = c(0.02, 0.05))
  want <- apply(upper, 1, \(q) {
    mean(stats::pnorm((q[1] - x[, 1]) / 0.02) * stats::pnorm((q[2] - x[, 2]) / 0.05))
  })
  expect_within(kde_cdf(fit, upper) / want, rep(1, 6), 1e-12)
  one <- flash_kde(x, "kde", bandwidth = c(0.02, 0.05), control = flash_control(threads = 1))
  expect_identical(kde_cdf(one, x[1:50, ]), kde_cdf(fit, x[1:50, ]))
})

test_that("correlated kernels in two dimensions are integrals of the density", {
  x <- rect_points(30, 2)
  upper <- rbind(c(0.2, 0.4), c(1, -0.5))
  for (r in c(-0.95, -0.5, 0.2, 0.8, 0.99)) {
    H <- matrix(c(0.09, 0.15 * r, 0.15 * r, 0.25), 2)
    fit <- flash_kde(x, "kde", bandwidth = H)
    want <- apply(upper, 1, \(q) mean(vapply(1:30, \(i) {
      end <- (q[1] - x[i, 1]) / 0.3
      if (end < -8) return(0)
      inner <- \(z) stats::dnorm(z) * stats::pnorm(((q[2] - x[i, 2]) / 0.5 - r * z) / sqrt(1 - r^2))
      stats::integrate(inner, -9, min(end, 9), rel.tol = 1e-10, subdivisions = 500L)$value
    }, 0)))
    expect_within(kde_cdf(fit, upper), want, 1e-9, r)
    corners <- rbind(c(1, 1), c(-1, 1), c(1, -1), c(-1, -1))
    by_corners <- sum(c(1, -1, -1, 1) * kde_cdf(fit, corners))
    expect_within(kde_cdf(fit, cbind(1, 1), lower = cbind(-1, -1)), by_corners, 1e-13)
  }
})

test_that("two correlated Gaussians agree with mvtnorm", {
  skip_if_not_installed("mvtnorm")
  upper <- rect_points(10, 2)
  for (r in c(-0.9999, -0.93, -0.7, 0.1, 0.5, 0.924, 0.926, 0.999)) {
    S <- matrix(c(1, r, r, 1), 2)
    fit <- flash_kde(rbind(c(0, 0)), "kde", bandwidth = S)
    want <- apply(upper, 1, \(q) mvtnorm::pmvnorm(upper = q, sigma = S, algorithm = mvtnorm::TVPACK(1e-14))[1])
    expect_within(kde_cdf(fit, upper), want, 1e-14, r)
  }
})

test_that("a correlated bandwidth is exact to 1e-9 in four dimensions, to 1e-6 in six, in eight it has an error", {
  x <- rect_points(40, 3)
  h <- c(0.5, 0.4, 0.6)
  R <- matrix(c(1, 0.6, -0.3, 0.6, 1, 0.2, -0.3, 0.2, 1), 3)
  H <- R * outer(h, h)
  upper <- rbind(c(0, 0, 0), c(1, Inf, 0.3), c(Inf, Inf, Inf), c(0.4, NA, 1))
  got <- kde_cdf(flash_kde(x, "kde", bandwidth = H), upper)
  expect_identical(is.na(got), c(FALSE, FALSE, FALSE, TRUE))
  # the third coordinate integrated literally, of the other one's conditional Gaussian
  pair <- flash_kde(x[, c(1, 3)], "kde", bandwidth = H[c(1, 3), c(1, 3)])
  expect_within(got[2:3], c(kde_cdf(pair, cbind(1, 0.3)), 1), 1e-9)
  # positive orthants of one kernel whose correlations are one half: 1 / (d + 1)
  half <- \(d) kde_cdf(flash_kde(matrix(0, 1, d), "kde", bandwidth = diag(0.5, d) + 0.5), matrix(0, 1, d))
  expect_within(vapply(3:4, half, 0), 1 / 4:5, 1e-9)
  expect_within(vapply(5:6, half, 0), 1 / 6:7, 1e-6)
  # a Gaussian autoregression that stays in an interval, by quadrature from each coordinate to the next
  at <- seq(-1, 0.5, length.out = 601)
  weights <- c(1, rep(c(4, 2), 299), 4, 1) * 0.0025 / 3
  density <- stats::dnorm(at)
  for (step in 1:3) density <- drop((weights * density) %*% outer(at, at, \(a, b) stats::dnorm(b, 0.8 * a, 0.6)))
  chain <- flash_kde(matrix(0, 2, 4), "kde", bandwidth = 0.8^abs(outer(1:4, 1:4, "-")) / 4, adaptive = c(2, 2))
  expect_within(kde_cdf(chain, matrix(0.5, 1, 4), lower = matrix(-1, 1, 4)), sum(weights * density), 1e-9)
  wide <- abs(outer(1:8, 1:8, "-"))
  orthant <- kde_cdf(flash_kde(matrix(0, 1, 8), "kde", bandwidth = 0.8^wide), matrix(0, 1, 8))
  expect_lt(attr(orthant, "error"), 1e-3)
  skip_if_not_installed("mvtnorm")
  want <- mean(apply(x, 1, \(at) mvtnorm::pmvnorm(upper = -at, sigma = H, algorithm = mvtnorm::TVPACK(1e-12))[1]))
  expect_within(got[1], want, 1e-9)
  best <- mvtnorm::GenzBretz(1e6, abseps = 1e-6)
  want <- with_fixed_seed(mvtnorm::pmvnorm(upper = rep(0, 8), sigma = 0.8^wide, algorithm = best)[1])
  expect_within(orthant[1], want, attr(orthant, "error"))
})

test_that("the corrected kernel is that less its derivative by the variance", {
  # k (1 + d / 2 - q / 2) = k - d/ds k_sH at s = 1; central differences, of a smooth function of s
  x <- rect_points(60, 2)
  upper <- rbind(c(0, 0.5), c(1, 0.2), c(Inf, 0))
  lower <- rbind(c(-Inf, -Inf), c(0, 0.1), c(-1, -Inf))
  for (r in c(0, 0.6, -0.9)) {
    H <- matrix(c(0.09, 0.15 * r, 0.15 * r, 0.25), 2)
    p <- \(s) kde_cdf(flash_kde(x, "kde", bandwidth = s * H), upper, lower = lower)
    want <- p(1) - (p(1 + 1e-4) - p(1 - 1e-4)) / 2e-4
    expect_within(kde_cdf(flash_kde(x, "laplace", bandwidth = H), upper, lower = lower), want, 1e-8, r)
  }
})

test_that("missing and empty rectangles, names, and fits that are no density", {
  fit <- flash_kde(faithful, "kde", bandwidth = c(0.3, 5))
  expect_identical(kde_cdf(fit, rbind(c(NA, 1), c(3, 70)))[1], NA_real_)
  expect_identical(kde_cdf(fit, cbind(3, 70), lower = cbind(4, 60)), 0)
  expect_identical(kde_cdf(fit, cbind(-Inf, 70)), 0)
  expect_identical(kde_cdf(fit, data.frame(waiting = 70, eruptions = 3)), kde_cdf(fit, cbind(3, 70)))
  balloon <- flash_kde(faithful, "kde", adaptive = "balloon")
  expect_error(kde_cdf(balloon, cbind(3, 70)), class = "flashkernel_error_unsupported")
})

test_that("quantiles are a row for each probability, a column for each variable", {
  probs <- c(0, 0.1, 0.5, 0.99, 1)
  fit <- flash_kde(faithful, "kde", bandwidth = matrix(c(0.09, 0.5, 0.5, 16), 2))
  expect_identical(dimnames(quantile(fit, probs)), list(c("0%", "10%", "50%", "99%", "100%"), names(faithful)))
  expect_identical(dim(quantile(fit, 0.3, names = FALSE)), c(1L, 2L))
})
