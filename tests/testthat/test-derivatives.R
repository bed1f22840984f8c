# Gradients and Hessians of estimates, by literal sums, by differences, and where densities underflow.

points2 <- example_points(60, 2)
H2 <- example_bandwidth(2)
weights2 <- seq(0.2, 2, length.out = 60)

# sum w f(q / 2) K (H^-1 z z' H^-1 - H^-1) of kernels of variance factor^2 H, z = x - y
literal_hessian <- function(x, y, H, w, factors = rep(1, nrow(x))) {
  total <- 0
  for (i in seq_len(nrow(x))) {
    P <- solve(factors[i]^2 * H)
    z <- x[i, ] - y
    k <- exp(-sum(z * (P %*% z)) / 2) * sqrt(det(P)) / (2 * pi)^(ncol(x) / 2)
    total <- total + w[i] * k * (P %*% z %*% t(z) %*% P - P)
  }
  total / sum(w)
}

# by central differences of the gradient, whose error is of order step^2
differences <- function(gradient, y, step = 1e-5) {
  vapply(seq_along(y), \(k) {
    move <- step * (seq_along(y) == k)
    (gradient(t(y + move)) - gradient(t(y - move)))[1, ] / (2 * step)
  }, numeric(length(y)))
}

test_that("gradients and Hessians of a weighted estimate are literal sums", {
  y <- points2[1:8, ] + 0.2
  fit <- flash_kde(points2, "kde", bandwidth = H2, weights = weights2)
  hessian <- kde_derivative(fit, y, order = 2)
  gradient <- kde_derivative(fit, y)
  expect_equal(dim(hessian), c(8, 2, 2))
  scale <- max(abs(hessian))
  for (j in 1:8) {
    expect_within(hessian[j, , ], literal_hessian(points2, y[j, ], H2, weights2), 1e-12 * scale)
    k <- exp(-ref_distance2(points2, y[j, ], H2) / 2 + ref_log_norm(H2, sum(weights2)))
    want <- solve(H2, colSums(weights2 * k * (points2 - rep(y[j, ], each = 60))))
    expect_within(gradient[j, ], drop(want), 1e-12 * max(abs(want)))
  }
  log_hessian <- kde_derivative(fit, y, order = 2, log = TRUE)
  score <- kde_derivative(fit, y, log = TRUE)
  p <- predict(fit, y)
  for (j in 1:8) expect_within(log_hessian[j, , ], hessian[j, , ] / p[j] - score[j, ] %o% score[j, ], 1e-9)
})

test_that("kernels of several widths, and several dimensions, are literal sums", {
  for (d in c(1, 3)) {
    x <- example_points(70, d)
    H <- diag(0.3, d)
    factors <- rep(c(0.5, 1, 2), length.out = 70)
    fit <- flash_kde(x, "kde", bandwidth = H, adaptive = factors)
    y <- x[1:5, , drop = FALSE] - 0.1
    got <- kde_derivative(fit, y, order = 2)
    for (j in 1:5) {
      want <- literal_hessian(x, y[j, ], H, rep(1, 70), factors)
      expect_within(matrix(got[j, , ], d), want, 1e-12 * max(abs(want)))
    }
  }
})

test_that("a point is left out of its own derivatives", {
  fit <- flash_kde(points2, "kde", bandwidth = H2, weights = weights2)
  got <- kde_derivative(fit, order = 2, loo = TRUE)
  for (i in c(1, 33, 60)) {
    expect_within(got[i, , ], literal_hessian(points2[-i, ], points2[i, ], H2, weights2[-i]), 1e-12)
  }
  twice <- flash_kde(points2[c(1:60, 7), ], "kde", bandwidth = H2)
  expect_equal(
    kde_derivative(twice, order = 2, loo = TRUE)[7, , ],
    kde_derivative(flash_kde(points2, "kde", bandwidth = H2), order = 2)[7, , ], tolerance = 1e-12
  )
  sdkde <- flash_kde(points2, "sdkde", bandwidth = H2)
  expect_argument_error(kde_derivative(sdkde, loo = TRUE), "loo")
  expect_argument_error(kde_derivative(fit, points2, loo = TRUE), "loo")
})

test_that("derivatives of the logarithm are right where the density underflows, and far from the origin", {
  fit <- flash_kde(points2, "kde", bandwidth = H2)
  far <- rbind(c(300, -200))
  expect_identical(predict(fit, far), 0)
  # only one kernel counts there
  expect_within(kde_derivative(fit, far, 2, TRUE)[1, , ], -solve(H2), 1e-9)
  moved <- flash_kde(points2 + 2^30, "kde", bandwidth = H2)
  there <- flash_kde(points2 + 2^30 - 2^30, "kde", bandwidth = H2)
  y <- points2[1:5, ] + 2^30
  expect_within(kde_derivative(moved, y, 2, TRUE), kde_derivative(there, y - 2^30, 2, TRUE), 1e-10)
})

test_that("what a tree leaves out matters to no digit, and threads not at all", {
  set.seed(4)
  x <- matrix(stats::rnorm(6000), ncol = 2)
  fit <- flash_kde(x, "kde", bandwidth = 0.02)
  got <- kde_derivative(fit, x[1:100, ], order = 2, log = FALSE)
  for (j in 1:3) {
    want <- literal_hessian(x, x[j, ], diag(0.02^2, 2), rep(1, 3000))
    expect_within(got[j, , ], want, 1e-12 * max(abs(want)))
  }
  one <- kde_derivative(fit, x, order = 2, log = TRUE, control = flash_control(threads = 1))
  two <- kde_derivative(fit, x, order = 2, log = TRUE, control = flash_control(threads = 2))
  expect_identical(one, two)
})

test_that("points that are too far away for their distance to have a square count for nothing", {
  near <- as.matrix(faithful[1:20, ])
  for (estimator in c("kde", "laplace")) {
    fit <- flash_kde(near, estimator, bandwidth = c(0.3, 5))
    for (far in c(1e150, 1e200, 1e300)) {
      with_far <- flash_kde(rbind(near, far), estimator, bandwidth = c(0.3, 5))
      for (order in 1:2) {
        expect_equal(kde_derivative(with_far, near, order = order) * 21 / 20, kde_derivative(fit, near, order = order))
        out <- kde_derivative(fit, rbind(near[1:2, ], far, 1e15), order = order)
        expect_identical(as.vector(out), as.vector(replace(out, slice.index(out, 1) > 2, 0)))
      }
    }
  }
})

test_that("missing rows stay missing, and shapes are kept", {
  fit <- flash_kde(faithful, "kde", bandwidth = c(0.3, 5))
  y <- rbind(c(2, 50), c(NA, 50), c(4, 80))
  got <- kde_derivative(fit, y, order = 2)
  expect_identical(which(is.na(got[, 1, 1])), 2L)
  expect_identical(dimnames(got)[2:3], list(names(faithful), names(faithful)))
  expect_identical(got[3, , ], kde_derivative(fit, y[3, , drop = FALSE], order = 2)[1, , ])
  expect_true(all(is.na(kde_derivative(fit, y[c(2, 2), ], order = 2))))
  holed <- flash_kde(rbind(NA, faithful), "kde", bandwidth = c(0.3, 5), na.action = stats::na.exclude)
  expect_true(is.na(kde_derivative(holed, order = 2)[1, 1, 1]))
  expect_equal(dim(kde_derivative(holed)), c(273, 2))
  line <- flash_kde(faithful$waiting, "kde", bandwidth = 4)
  expect_equal(kde_derivative(line, c(-Inf, 70))[1], 0)
  expect_argument_error(kde_derivative(fit, y, order = 3), "order")
  balloon <- flash_kde(faithful, "kde", adaptive = "balloon")
  expect_error(kde_derivative(balloon), class = "flashkernel_error_unsupported")
})
