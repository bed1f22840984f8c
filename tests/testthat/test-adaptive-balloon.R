# Balloon estimates, against sums in plain R: at each place a kernel estimate with a bandwidth of that place.

balloon_case <- function(n = 60, d = 2, weighted = FALSE) {
  set.seed(3)
  x <- matrix(stats::rt(n * d, 4), n)
  list(
    x = x, y = matrix(2 * stats::rnorm(7 * d), 7), H = example_bandwidth(d),
    w = if (weighted) stats::runif(n, 0.1, 2) else NULL
  )
}

fit_balloon <- function(case, ...) flash_kde(case$x, bandwidth = case$H, adaptive = "balloon", weights = case$w, ...)

ref_kth_to <- function(x, y, H, k) sort(sqrt(stats::mahalanobis(x, y, H)))[k]

# The factors at the rows of y and, by the other points, of x.
ref_balloon <- function(case, y) {
  n <- nrow(case$x)
  k <- round(sqrt(n))
  own <- log(vapply(seq_len(n), \(i) ref_kth_to(case$x[-i, , drop = FALSE], case$x[i, ], case$H, k), 0))
  judges <- if (is.null(case$w)) rep(1, n) else pmin(case$w, 10 * stats::median(case$w))
  level <- stats::weighted.mean(own, judges)
  there <- log(apply(y, 1, \(at) ref_kth_to(case$x, at, case$H, k)))
  list(at = on_lattice(there - level), own = on_lattice(own - level))
}

# Density, score and standard error of the plain estimate with variance f^2 H.
ref_with_factor <- function(case, at, f, left_out = integer()) {
  keep <- setdiff(seq_len(nrow(case$x)), left_out)
  difference <- sweep(case$x[keep, , drop = FALSE], 2, at)
  H <- f^2 * case$H
  w <- if (is.null(case$w)) rep(1, length(keep)) else case$w[keep]
  w <- w / sum(w)
  terms <- exp(-rowSums((difference %*% solve(H)) * difference) / 2) / sqrt(det(2 * pi * H))
  density <- sum(w * terms)
  list(
    density = density, score = colSums(w * terms * t(solve(H, t(difference)))) / density,
    se = sqrt(sum(w^2 * terms^2) - density^2 * sum(w^2))
  )
}

test_that("values are those of kernels as wide as the place wants them", {
  for (d in c(1, 2, 4)) for (weighted in c(FALSE, TRUE)) {
    case <- balloon_case(60, d, weighted)
    fit <- fit_balloon(case)
    for (y in list(case$y, case$x)) {
      f <- ref_balloon(case, y)$at
      want <- vapply(seq_along(f), \(i) unlist(ref_with_factor(case, y[i, ], f[i])), rep(0, d + 2))
      expect_equal(predict(fit, y), want["density", ], tolerance = 1e-12)
      expect_equal(predict(fit, y, type = "log_density"), log(want["density", ]), tolerance = 1e-12)
      expect_equal(predict(fit, y, se.fit = TRUE)$se.fit, want["se", ], tolerance = 1e-10)
      scores <- unname(t(want[1 + seq_len(d), , drop = FALSE]))
      expect_equal(unname(predict(fit, y, type = "score")), scores, tolerance = 1e-10)
    }
    expect_identical(predict(fit), predict(fit, case$x))
  }
})

test_that("left out, a point is no neighbour of its own either", {
  for (weighted in c(FALSE, TRUE)) {
    case <- balloon_case(60, 2, weighted)
    fit <- fit_balloon(case)
    f <- ref_balloon(case, case$x)$own
    expect_equal(fit$adaptive$at_points, f)
    want <- vapply(1:60, \(i) unlist(ref_with_factor(case, case$x[i, ], f[i], i)), rep(0, 4))
    expect_equal(predict(fit, loo = TRUE), want["density", ], tolerance = 1e-12)
    expect_equal(predict(fit, loo = TRUE, se.fit = TRUE)$se.fit, want["se", ], tolerance = 1e-10)
    expect_equal(unname(predict(fit, loo = TRUE, type = "score")), unname(t(want[2:3, ])), tolerance = 1e-10)
    w <- if (weighted) 60 * case$w / sum(case$w) else rep(1, 60)
    expect_equal(as.numeric(logLik(fit)), sum(w * log(want["density", ])), tolerance = 1e-12)
  }
})

test_that("far from all points the factor has a limit, and log densities hold", {
  case <- balloon_case()
  fit <- fit_balloon(case)
  far <- c(5000, -3000)
  most <- max(on_lattice(100))
  difference <- sweep(case$x, 2, far)
  terms <- -rowSums((difference %*% solve(case$H)) * difference) / (2 * most^2)
  height <- -log(2 * pi) - log(det(case$H)) / 2 - 2 * log(most)
  wanted <- max(terms) + log(mean(exp(terms - max(terms)))) + height
  expect_equal(predict(fit, t(far), type = "log_density"), wanted, tolerance = 1e-12)
})

test_that("one scale is chosen by leave-one-out likelihood, and the fit says what it is", {
  set.seed(9)
  x <- matrix(stats::rt(1200, 2), ncol = 2)
  fit <- flash_kde(x, adaptive = "balloon")
  expect_identical(fit$estimator, "kde")
  expect_null(fit$adaptive$gain) # its likelihood is not that of a density
  loss <- \(scale) -as.numeric(logLik(flash_kde(x, bandwidth = scale^2 * fit$bandwidth, adaptive = "balloon")))
  expect_true(all(c(loss(0.8), loss(1.25)) > loss(1)))
  expect_lt(abs(mean(log(fit$adaptive$at_points))), 0.1)
  expect_output(print(fit), "does not integrate to 1")
  expect_output(print(summary(fit)), "Balloon")
})

test_that("neither the order of the rows nor threads nor the unit of the weights matters", {
  set.seed(8)
  x <- cbind(stats::rt(300, 2), round(stats::rnorm(300), 1))
  order <- sample(300)
  fit <- flash_kde(x, adaptive = "balloon")
  again <- flash_kde(x[order, ], adaptive = "balloon", control = flash_control(threads = 1))
  expect_identical(again$bandwidth, fit$bandwidth)
  expect_identical(again$adaptive$at_points, fit$adaptive$at_points[order])
  expect_equal(predict(again, x), predict(fit, x), tolerance = 1e-13)
  w <- stats::runif(300)
  weighted <- flash_kde(x, adaptive = "balloon", weights = w)
  expect_identical(flash_kde(x, adaptive = "balloon", weights = 4 * w)$bandwidth, weighted$bandwidth)
})

test_that("rows without weight are no part of it", {
  case <- balloon_case(60, 2, TRUE)
  more <- rbind(case$x, c(5, 5))
  fit <- flash_kde(more, bandwidth = case$H, adaptive = "balloon", weights = c(case$w, 0))
  expect_equal(predict(fit, case$y), predict(fit_balloon(case), case$y), tolerance = 1e-14)
  # they leave nothing out
  expect_equal(predict(fit, loo = TRUE)[61], predict(fit)[61], tolerance = 1e-14)
})

test_that("an estimate to a tolerance keeps it", {
  set.seed(4)
  x <- matrix(stats::rt(6000, 4), ncol = 2)
  fit <- flash_kde(x, bandwidth = 0.3, adaptive = "balloon")
  exact <- predict(fit, x[1:500, ])
  expect_lt(max(abs(predict(fit, x[1:500, ], tol = 1e-3, control = flash_control(engine = "fast")) - exact)), 1e-3 * max(exact))
  record <- diagnostics(update(fit, tol = 1e-3, control = flash_control(engine = "fast")))$tolerance
  expect_lt(record$bound, 1e-3)
  expect_lte(record$achieved, record$bound)
  expect_identical(record$engine, "fast")
})

test_that("figures show regions that hold so many of the points", {
  grDevices::pdf(NULL)
  on.exit(grDevices::dev.off())
  fit <- fit_balloon(balloon_case(200, 2))
  drawn <- plot(fit, n = 20)
  expect_equal(mean(predict(fit) >= drawn$levels[["50%"]]), 0.5, tolerance = 0.02)
})

test_that("what needs a density is refused", {
  fit <- flash_kde(example_points(30, 1), adaptive = "balloon")
  expect_error(simulate(fit), class = "flashkernel_error_unsupported")
  expect_error(kde_cdf(fit, 0), class = "flashkernel_error_unsupported")
  expect_error(quantile(fit), class = "flashkernel_error_unsupported")
  expect_error(hdr_level(fit), class = "flashkernel_error_unsupported")
  expect_error(plot(flash_kde(example_points(30, 3), adaptive = "balloon")), class = "flashkernel_error_unsupported")
  expect_argument_error(flash_kde(example_points(30, 1), "sdkde", adaptive = "balloon"), "adaptive")
  expect_argument_error(adaptive_factors(fit), "object")
})
