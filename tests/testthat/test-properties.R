# What holds for any data, whatever the code looks like.

estimators <- c("kde", "sdkde", "laplace")

# ---- mass

test_that("each estimate integrates to one in one dimension", {
  x <- faithful$eruptions
  for (estimator in estimators) {
    fit <- flash_kde(x, estimator = estimator, bandwidth = 0.3)
    grid <- seq(min(x) - 4, max(x) + 4, length.out = 4001)
    expect_equal(sum(predict(fit, grid)) * diff(grid[1:2]), 1, tolerance = 1e-10)
  }
})

test_that("each estimate integrates to one in two dimensions, weights and full H included", {
  x <- example_points(60, 2)
  w <- seq(0, 2, length.out = 60)
  H <- example_bandwidth(2)
  side <- seq(-11, 11, length.out = 201)
  grid <- as.matrix(expand.grid(side, side))
  for (estimator in estimators) {
    fit <- flash_kde(x, estimator = estimator, bandwidth = H, weights = w)
    expect_equal(sum(predict(fit, grid)) * diff(side[1:2])^2, 1, tolerance = 1e-8)
  }
})

# ---- weights

test_that("weights of one equal no weights, bit for bit", {
  x <- example_points(70, 3)
  y <- example_points(20, 3, seed = 2)
  for (estimator in estimators) {
    bare <- flash_kde(x, estimator = estimator, bandwidth = 0.8)
    ones <- flash_kde(x, estimator = estimator, bandwidth = 0.8, weights = rep(1, 70))
    expect_identical(predict(ones, y), predict(bare, y))
    expect_identical(predict(ones, y, type = "score"), predict(bare, y, type = "score"))
    expect_identical(ones$debiased, bare$debiased)
  }
})

test_that("a doubled weight equals a repeated row", {
  x <- example_points(40, 3)
  y <- example_points(15, 3, seed = 2)
  w <- rep(1:2, c(30, 10))
  repeated <- x[rep(1:40, w), ]
  for (estimator in estimators) {
    a <- flash_kde(x, estimator = estimator, bandwidth = 0.8, weights = w)
    b <- flash_kde(repeated, estimator = estimator, bandwidth = 0.8)
    expect_within(predict(a, y) / predict(b, y), rep(1, 15), 1e-11, estimator)
    expect_within(predict(a, y, type = "score"), predict(b, y, type = "score"), 1e-10, estimator)
  }
})

test_that("only the ratios of the weights matter, and a zero weight removes its row", {
  x <- example_points(40, 2)
  y <- example_points(15, 2, seed = 2)
  w <- rep(c(0.5, 2, 0, 1), 10)
  for (estimator in estimators) {
    a <- flash_kde(x, estimator = estimator, bandwidth = 0.8, weights = w)
    b <- flash_kde(x, estimator = estimator, bandwidth = 0.8, weights = 1e6 * w)
    c <- flash_kde(x[w > 0, ], estimator = estimator, bandwidth = 0.8, weights = w[w > 0])
    expect_within(predict(b, y) / predict(a, y), rep(1, 15), 1e-11, estimator)
    expect_within(predict(c, y) / predict(a, y), rep(1, 15), 1e-11, estimator)
  }
})

# ---- invariance

test_that("rotating and shifting points, queries and H together changes nothing", {
  x <- example_points(50, 3)
  y <- example_points(20, 3, seed = 2)
  H <- example_bandwidth(3)
  set.seed(3)
  Q <- qr.Q(qr(matrix(stats::rnorm(9), 3)))
  move <- function(z) z %*% t(Q) + rep(c(5, -3, 100), each = nrow(z))
  for (estimator in estimators) {
    a <- flash_kde(x, estimator = estimator, bandwidth = H)
    b <- flash_kde(move(x), estimator = estimator, bandwidth = Q %*% H %*% t(Q))
    expect_within(predict(b, move(y)) / predict(a, y), rep(1, 20), 1e-9, estimator)
    score <- predict(a, y, type = "score")
    expect_within(predict(b, move(y), type = "score"), score %*% t(Q), 1e-9, estimator)
  }
})

test_that("points far from the origin lose nothing to the offset", {
  x <- round(example_points(300, 16) * 2^20) / 2^20 # so that the shifted values are exact
  y <- round(example_points(20, 16, seed = 2) * 2^20) / 2^20
  for (precision in c("double", "single")) for (estimator in c("kde", "sdkde")) {
    fit <- function(x) flash_kde(x, estimator = estimator, bandwidth = 1, precision = precision)
    near <- predict(fit(x), y, type = "log_density")
    far <- predict(fit(x + 2^20), y + 2^20, type = "log_density")
    expect_within(far, near, if (precision == "double") 1e-11 else 1e-6, estimator)
  }
})

test_that("clusters any distance apart keep the precision promised", {
  # Squared norms grow far above the distances within a cluster: cancellation, if nothing is done.
  for (d in c(2, 8, 16, 33)) for (apart in c(3, 10, 30, 60, 100, 300, 1e3, 1e5)) {
    x <- example_points(200, d) + rep(c(-apart, apart), each = 100)
    y <- x[c(1:5, 101:105), ] + 0.1
    H <- example_bandwidth(d, 1)
    for (precision in c("double", "single")) {
      where <- sprintf("d = %d, %g apart, %s", d, apart, precision)
      fit <- flash_kde(x, estimator = "kde", bandwidth = H, precision = precision)
      got <- predict(fit, y, type = "log_density")
      bound <- if (precision == "double") 1e-10 else 1e-6 # relative; the promise is 1e-4 absolute
      expect_within(got, ref_log_kde(x, y, H), bound, where)
      debiased <- flash_kde(x, estimator = "sdkde", bandwidth = H, precision = precision)$debiased
      error <- max(abs(debiased - ref_debias(x, H)))
      bound <- if (precision == "double") 1e-9 else 1e-4
      expect(isTRUE(error <= bound), sprintf("%s: debiased points off by %.3g.", where, error))
    }
  }
})

test_that("a change of units divides the density by the scale", {
  x <- example_points(50, 2)
  scale <- c(1e-6, 1e4)
  for (estimator in estimators) {
    a <- flash_kde(x, estimator = estimator, bandwidth = c(0.5, 0.7))
    b <- flash_kde(x %*% diag(scale), estimator = estimator, bandwidth = c(0.5, 0.7) * scale)
    ratio <- predict(b) * prod(scale) / predict(a)
    expect_within(ratio, rep(1, 50), 1e-10, estimator)
  }
})

test_that("a number, sds and a variance matrix are the same bandwidth", {
  x <- example_points(30, 3)
  fits <- lapply(list(0.6, rep(0.6, 3), diag(0.36, 3)), \(bandwidth) {
    flash_kde(x, estimator = "sdkde", bandwidth = bandwidth)
  })
  expect_equal(unname(fits[[1]]$bandwidth), diag(0.36, 3))
  expect_equal(predict(fits[[2]]), predict(fits[[1]]), tolerance = 1e-13)
  expect_equal(predict(fits[[3]]), predict(fits[[1]]), tolerance = 1e-13)
})

# ---- definitions

test_that("the SD-KDE is the KDE of the points moved by half of H times the score", {
  x <- example_points(60, 4)
  y <- example_points(20, 4, seed = 2)
  H <- example_bandwidth(4)
  H_score <- H / 2
  w <- seq(0.1, 2, length.out = 60)
  fit <- flash_kde(x, estimator = "sdkde", bandwidth = H, score_bandwidth = H_score, weights = w)
  moved <- x + kernel_score(x, bandwidth = H_score, weights = w) %*% H / 2
  expect_within(fit$debiased, moved, 1e-12)
  kde <- flash_kde(moved, estimator = "kde", bandwidth = H, weights = w)
  expect_within(predict(fit, y) / predict(kde, y), rep(1, 20), 1e-11)
  want <- ref_log_sdkde(x, y, H, H_score, w)
  expect_within(predict(fit, y, type = "log_density"), want, 1e-11)
})

test_that("with a wide score bandwidth the SD-KDE tends to the KDE of shrunk points", {
  # score_{s^2 I}(x) = (mean - x) / s^2 + O(s^-4)
  x <- example_points(50, 2)
  H <- example_bandwidth(2)
  toward_mean <- rep(colMeans(x), each = 50) - x
  error <- vapply(c(20, 40, 80), \(s) {
    fit <- flash_kde(x, estimator = "sdkde", bandwidth = H, score_bandwidth = s)
    shrunk <- x + (toward_mean / s^2) %*% H / 2
    kde <- flash_kde(shrunk, estimator = "kde", bandwidth = H)
    expect_within(predict(fit, x), predict(kde, x), 2 / s^4)
    max(abs(fit$debiased - shrunk))
  }, 0)
  expect_within(error[1:2] / error[2:3], c(16, 16), 0.05) # fourth order in 1 / s

  # With H as wide the points go half the way to the mean.
  fit <- flash_kde(x, estimator = "sdkde", bandwidth = 1e4)
  expect_within(fit$debiased, x + toward_mean / 2, 1e-6)
})

test_that("the score is the gradient of the log density", {
  x <- example_points(60, 3)
  H <- example_bandwidth(3)
  w <- seq(0.5, 2, length.out = 60)
  y <- x[1:12, ] + 0.2
  for (estimator in estimators) {
    fit <- flash_kde(x, estimator = estimator, bandwidth = H, weights = w)
    log_density <- function(at) log(abs(predict(fit, at)))
    expect_within(
      predict(fit, y, type = "score"), ref_gradient(log_density, y, 1e-5), 1e-7, estimator
    )
  }
})

test_that("leave-one-out values are those of a fit without the point", {
  x <- example_points(25, 2)
  H <- example_bandwidth(2)
  w <- seq(0.2, 1.5, length.out = 25)
  for (estimator in estimators) for (weighted in c(FALSE, TRUE)) {
    weights <- if (weighted) w
    fit <- flash_kde(x, estimator = estimator, bandwidth = H, weights = weights)
    refit <- vapply(1:25, \(i) {
      without <- flash_kde(x[-i, ], estimator = estimator, bandwidth = H, weights = weights[-i])
      predict(without, x[i, , drop = FALSE])
    }, 0)
    got <- predict(fit, loo = TRUE)
    expect_within(got / refit, rep(1, 25), 1e-10, estimator)
    expect_within(got / ref_loo_density(estimator, x, H, weights), rep(1, 25), 1e-10, estimator)
  }
})

test_that("leave-one-out log densities of the SD-KDE are exact in the tails, for any size", {
  for (n in c(2, 3, 17, 64, 65, 129)) {
    x <- matrix(example_points(n, 3), n, 3)
    x[n, ] <- c(300, -20, 5) # alone, a long way out
    H <- example_bandwidth(3)
    H_score <- H / 2
    w <- seq(0.5, 2, length.out = n)
    fit <- flash_kde(x, estimator = "sdkde", bandwidth = H, score_bandwidth = H_score, weights = w)
    want <- ref_leave_out(\(x, y, w) ref_log_sdkde(x, y, H, H_score, w), x, w)
    expect_within(predict(fit, loo = TRUE, type = "log_density"), want, 1e-10, paste("n =", n))
  }
})

test_that("leave-one-out scores and standard errors are those of a fit without the point", {
  x <- example_points(20, 2)
  H <- example_bandwidth(2)
  w <- seq(0.2, 1.5, length.out = 20)
  for (estimator in c("kde", "laplace")) {
    fit <- flash_kde(x, estimator = estimator, bandwidth = H, weights = w)
    refit <- lapply(1:20, \(i) {
      without <- flash_kde(x[-i, ], estimator = estimator, bandwidth = H, weights = w[-i])
      at <- x[i, , drop = FALSE]
      list(predict(without, at, type = "score"), predict(without, at, se.fit = TRUE)$se.fit)
    })
    score <- do.call(rbind, lapply(refit, `[[`, 1))
    expect_within(predict(fit, loo = TRUE, type = "score"), score, 1e-9, estimator)
    se <- vapply(refit, `[[`, 0, 2)
    expect_within(predict(fit, loo = TRUE, se.fit = TRUE)$se.fit / se, rep(1, 20), 1e-8, estimator)
  }
})

test_that("a leave-one-out value does not see its own point's position among ties", {
  x <- rbind(example_points(10, 2), example_points(10, 2))
  fit <- flash_kde(x, estimator = "kde", bandwidth = 0.5)
  loo <- predict(fit, loo = TRUE)
  expect_within(loo[1:10] / loo[11:20], rep(1, 10), 1e-12)
  expect_within(loo / ref_loo_density("kde", x, diag(0.25, 2)), rep(1, 20), 1e-12)
})

test_that("a kernel sum is linear in its columns, and symmetric in points and queries", {
  x <- example_points(70, 3)
  y <- example_points(40, 3, seed = 2)
  set.seed(4)
  b <- matrix(stats::rnorm(210), 70)
  H <- example_bandwidth(3)
  V <- kernel_sum(x, y, b, bandwidth = H)
  expect_equal(dim(V), c(40L, 3L))
  expect_within(V, ref_kernel_sum(x, y, b, H), 1e-12)
  mixed <- kernel_sum(x, y, cbind(b %*% c(2, -1, 0.5)), bandwidth = H)
  expect_within(mixed, V %*% c(2, -1, 0.5), 1e-12)
  a <- matrix(stats::rnorm(40), 40)
  backward <- kernel_sum(y, x, a, bandwidth = H)
  expect_equal(sum(a * V[, 1]), sum(b[, 1] * backward), tolerance = 1e-12)
})

test_that("weights in a kernel sum multiply the columns, and no columns means ones", {
  x <- example_points(30, 2)
  y <- example_points(10, 2, seed = 2)
  w <- seq(0, 2, length.out = 30)
  b <- cbind(sin(1:30), 1)
  H <- diag(0.5, 2)
  weighted <- kernel_sum(x, y, b, bandwidth = H, weights = w)
  expect_within(weighted, ref_kernel_sum(x, y, w * b, H), 1e-12)
  expect_within(kernel_sum(x, y, bandwidth = H), ref_kernel_sum(x, y, matrix(1, 30), H), 1e-12)
})

test_that("the symmetric pass over the training points is that of explicit queries", {
  for (n in c(1, 2, 37, 256, 300)) {
    x <- example_points(n, 3)
    x <- matrix(x, n, 3)
    same <- x + 0 # equal values, another object
    H <- example_bandwidth(3)
    b <- cbind(1, cos(seq_len(n)))
    expect_within(kernel_sum(x, b = b, bandwidth = H), kernel_sum(x, same, b, bandwidth = H), 1e-13)
    expect_within(kernel_score(x, bandwidth = H), kernel_score(x, same, bandwidth = H), 1e-11)
    for (estimator in estimators) {
      fit <- flash_kde(x, estimator = estimator, bandwidth = H)
      expect_within(predict(fit), predict(fit, same), 1e-12, estimator)
    }
  }
})

# ---- tails

test_that("a log density a thousand sds away is finite and right", {
  x <- example_points(50, 2)
  y <- rbind(c(1000, 0), c(0, -1000), c(1e6, 1e6), c(700, 700))
  H <- example_bandwidth(2, 0.5)
  for (precision in c("double", "single")) {
    relative <- if (precision == "double") 1e-12 else 1e-5
    kde <- flash_kde(x, estimator = "kde", bandwidth = H, precision = precision)
    got <- predict(kde, y, type = "log_density")
    expect_true(all(is.finite(got)))
    expect_within(got, ref_log_kde(x, y, H), relative)
    sdkde <- flash_kde(x, estimator = "sdkde", bandwidth = H, precision = precision)
    expect_within(
      predict(sdkde, y, type = "log_density"), ref_log_sdkde(x, y, H), relative
    )
    expect_identical(predict(kde, y), numeric(4))
    score <- predict(kde, y, type = "score")
    expect_within(score, ref_score(x, y, H), if (precision == "double") 1e-10 else 1e-4)
    laplace <- flash_kde(x, estimator = "laplace", bandwidth = H, precision = precision)
    expect_true(all(is.finite(predict(laplace, y, type = "score"))))
    expect_identical(abs(predict(laplace, y)), numeric(4))
  }
})

test_that("points keep their estimate beside others that weigh 10^600 times as much, far away", {
  expect_light_points_kept("cpu")
})

test_that("standard errors count every weight, however far apart their squares are", {
  x <- c(0, 0.4, 1, seq(50, 50.9, by = 0.1))
  w <- c(1e-180, 3e-180, 1e-181, seq(1, 2, length.out = 10))
  at <- c(0.1, 0.7, 50.1)
  p <- w / sum(w)
  kernels <- stats::dnorm(outer(at, x, "-"), sd = 0.5)
  fit <- flash_kde(x, "kde", bandwidth = 0.5, weights = w)
  got <- predict(fit, at, se.fit = TRUE)$se.fit
  # in units in which the squares are numbers
  unit <- c(1e-180, 1e-180, 1)
  want <- sqrt(rowSums((kernels * outer(1 / unit, p))^2) - (kernels %*% p / unit)^2 * sum(p^2)) * unit
  expect_within(got / want, rep(1, 3), 1e-10) # logarithms of 1e-360 have no more

  loo <- predict(fit, se.fit = TRUE, loo = TRUE)$se.fit
  for (i in c(1, 13)) {
    without <- flash_kde(x[-i], "kde", bandwidth = 0.5, weights = w[-i])
    expect_within(loo[i] / predict(without, x[i], se.fit = TRUE)$se.fit, 1, 1e-10)
  }
})

test_that("queries any distance away, and weights of any size, keep their log densities and scores", {
  x <- c(-1.3, 0.2, 0.7, 2.1)
  y <- 10^(2:150) * rep(c(1, -1.37), length.out = 149)
  nearest <- ifelse(y > 0, 2.1, -1.3)
  for (estimator in c("kde", "laplace")) {
    fit <- flash_kde(x, estimator, bandwidth = 1)
    # from 100 sds on, the nearest point is all that counts
    z <- y - nearest
    laplace <- estimator == "laplace"
    want <- log(if (laplace) z^2 / 2 - 1.5 else 1) - z^2 / 2 - log(4) - log(2 * pi) / 2
    # log|p|, as the score goes by it; negative there
    got <- log_estimate(fit, matrix(y), FALSE, fit_control(fit))$log_abs
    expect_within(got, want, 1e-14)
    score <- if (laplace) z / (z^2 / 2 - 1.5) - z else -z
    expect_within(predict(fit, y, type = "score"), score, 1e-12)
  }
  far <- flash_kde(x, "kde", bandwidth = 1)
  for (weight in 10^-c(20, 60, 99, 200)) {
    light <- flash_kde(x, "kde", bandwidth = 1, weights = rep(weight, 4))
    at <- c(0, 30, 38, 60)
    expect_within(predict(light, at, "log_density"), predict(far, at, "log_density"), 1e-13)
  }
})

test_that("a score-debiased estimate has all its digits far from the origin", {
  grid <- \(x) round(x * 1024) / 1024 # and so is the sum with an offset
  set.seed(8)
  x <- matrix(grid(stats::rnorm(240)), ncol = 2)
  y <- matrix(grid(stats::rnorm(40)), ncol = 2)
  H <- matrix(c(0.2, 0.05, 0.05, 0.1), 2)
  for (offset in list(c(1e8, 0), c(-1e12, 1e12))) for (weights in list(NULL, rep(0:3, 30))) {
    far <- \(points) points + rep(offset, each = nrow(points))
    expect_identical(far(x) - rep(offset, each = 120), x)
    near <- flash_kde(x, bandwidth = H, score_bandwidth = H / 2, weights = weights)
    fit <- flash_kde(far(x), bandwidth = H, score_bandwidth = H / 2, weights = weights)
    fit <- unserialize(serialize(fit, NULL))
    logs <- \(fit, ...) predict(fit, ..., type = "log_density")
    expect_within(logs(fit, far(y)), logs(near, y), 1e-12)
    expect_within(logs(fit), logs(near), 1e-12)
    expect_within(logs(fit, loo = TRUE), logs(near, loo = TRUE), 1e-12)
    expect_within(predict(fit, far(y), type = "score"), predict(near, y, type = "score"), 1e-11)
    expect_within(predict(fit, far(y), se.fit = TRUE)$se.fit, predict(near, y, se.fit = TRUE)$se.fit, 1e-12)
    expect_within(logs(fit, far(y), tol = 1e-9, tol_type = "pointwise"), logs(near, y), 1e-8)
    expect_within(as.data.frame(fit)$log_density, logs(near), 1e-12)
    expect_within(logLik(fit), logLik(near), 1e-12)
    # what is in the points' own units has their rounding
    expect_lt(max(abs(fit$debiased - far(near$debiased)) / max(abs(offset))), 2^-52)
    draws <- as.matrix(simulate(fit, 20, seed = 1))
    expect_lt(max(abs(draws - far(as.matrix(simulate(near, 20, seed = 1)))) / max(abs(offset))), 2^-52)
    expect_within(hdr_level(fit) / hdr_level(near), c(1, 1), 1e-3)
    expect_true(is.finite(diagnostics(update(fit, tol = 1e-6))$tolerance$achieved))
  }
  line <- flash_kde(x[, 1], bandwidth = 0.3)
  fit <- flash_kde(x[, 1] + 1e12, bandwidth = 0.3)
  expect_within(cdf(fit, y[, 1] + 1e12), cdf(line, y[, 1]), 1e-13)
  expect_lt(max(abs(quantile(fit, 1:9 / 10) - 1e12 - quantile(line, 1:9 / 10))), 1e-4)
  expect_equal(plain(bw_lcv(x + 1e12, "sdkde")), plain(bw_lcv(x, "sdkde")), tolerance = 1e-6, ignore_attr = TRUE)
  expect_null(line$centred)
})

test_that("an outlier takes no digits from the others, however far it is and wherever they are", {
  x <- example_points(60, 3)
  H <- example_bandwidth(3, 0.4)
  for (offset in c(0, 1e6)) for (distance in 10^c(2, 4, 8, 12, 16, 100)) {
    all <- rbind(x, c(distance, -distance, 0)) + offset
    near <- all[1:60, ] # rounded as they are
    fit <- flash_kde(all, "kde", bandwidth = H)
    want <- ref_log_kde(near, near, H) + log(60 / 61)
    expect_within(predict(fit, near, type = "log_density"), want, if (offset > 0) 1e-9 else 1e-12)
    debiased <- flash_kde(all, "sdkde", bandwidth = H)$debiased[1:60, ]
    expect_within(debiased - offset, ref_debias(near, H) - offset, if (offset > 0) 1e-8 else 1e-11)
  }
})

test_that("a point out of all proportion leaves the leave-one-out values of the others alone", {
  x <- c(-1, 0, 0.5, 1e170)
  for (score_bandwidth in c(1, sqrt(1 / 2))) {
    fit <- flash_kde(x, "sdkde", bandwidth = 1, score_bandwidth = score_bandwidth)
    near <- flash_kde(x[1:3], "sdkde", bandwidth = 1, score_bandwidth = score_bandwidth)
    want <- predict(near, type = "log_density", loo = TRUE) + log(2 / 3)
    expect_within(predict(fit, type = "log_density", loo = TRUE)[1:3], want, 1e-12)
  }
})

test_that("inputs too large to be packed at once give what queries give", {
  set.seed(11)
  x <- matrix(stats::rnorm(4000 * 180), ncol = 180)
  H <- 60 * (diag(180) + 0.5)
  w <- stats::rexp(4000) * rep(c(0, 1), c(10, 3990))
  rows <- c(1:20, 3980:4000)
  for (precision in c("double", "single")) {
    loss <- if (precision == "double") 1e-11 else 1e-4
    all <- kernel_score(x, bandwidth = H, weights = w, precision = precision)
    some <- kernel_score(x, x[rows, ], H, w, precision = precision)
    expect_lt(max(abs(all[rows, ] - some)), loss * max(abs(some)))
  }
  want <- ref_log_kde(x, x[rows, ], H, w)
  expect_within(predict(flash_kde(x, "kde", H, weights = w), type = "log_density")[rows], want, 1e-10)
})

test_that("an isolated training point keeps a finite leave-one-out log density and score", {
  x <- rbind(example_points(30, 3), c(1e4, -1e4, 0))
  fit <- flash_kde(x, estimator = "kde", bandwidth = 0.5)
  got <- predict(fit, loo = TRUE, type = "log_density")
  want <- ref_log_kde(x[-31, ], x[31, , drop = FALSE], diag(0.25, 3))
  expect_within(got[31], want, 1e-12)
  sdkde <- flash_kde(x, estimator = "sdkde", bandwidth = 0.5)
  expect_equal(sdkde$debiased[31, ], x[31, ], ignore_attr = TRUE) # alone: score zero
})

# ---- determinism

test_that("the bits do not depend on the number of threads or on the run", {
  x <- example_points(700, 5)
  y <- example_points(333, 5, seed = 2)
  H <- example_bandwidth(5)
  w <- seq(0.5, 1.5, length.out = 700)
  all_values <- function(threads, precision) {
    fits <- lapply(estimators, \(estimator) {
      flash_kde(x,
        estimator = estimator, bandwidth = H, weights = w, threads = threads,
        precision = precision
      )
    })
    list(
      lapply(fits, predict, y), lapply(fits, predict), lapply(fits, predict, y, type = "score"),
      lapply(fits, predict, loo = TRUE), fits[[2]]$debiased,
      kernel_sum(x, y, cbind(1, x), bandwidth = H, threads = threads, precision = precision),
      kernel_score(x, bandwidth = H, threads = threads, precision = precision)
    )
  }
  for (precision in c("double", "single")) {
    one <- all_values(1, precision)
    expect_identical(all_values(1, precision), one)
    expect_identical(all_values(2, precision), one)
  }
})

test_that("the bits do not depend on the threads where there is work for many", {
  x <- example_points(5000, 3)
  b <- cbind(1, x)
  for (precision in c("double", "single")) {
    values <- lapply(1:2, \(threads) {
      fit <- flash_kde(x, bandwidth = 0.4, threads = threads, precision = precision)
      list(
        fit$debiased, predict(fit), predict(fit, x[1:7, ]),
        kernel_sum(x, b = b, bandwidth = 0.4, threads = threads, precision = precision),
        kernel_sum(x, x[1:7, ], b, bandwidth = 0.4, threads = threads, precision = precision)
      )
    })
    expect_identical(values[[2]], values[[1]])
  }
})

test_that("a query's value depends only on that query's place by rounding", {
  x <- example_points(100, 3)
  y <- example_points(77, 3, seed = 2)
  fit <- flash_kde(x, estimator = "kde", bandwidth = 0.6)
  together <- predict(fit, y)
  alone <- vapply(1:77, \(i) predict(fit, y[i, , drop = FALSE]), 0)
  expect_within(together / alone, rep(1, 77), 1e-12)
})

# ---- sizes

expect_values <- function(n, m, d) {
  x <- matrix(example_points(n, d, seed = n), n, d)
  y <- matrix(example_points(m, d, seed = m + 1000), m, d)
  H <- example_bandwidth(d, 1 + d / 20)
  where <- sprintf("n = %d, m = %d, d = %d", n, m, d)
  b <- cbind(1, sin(seq_len(n)))
  expect_within(kernel_sum(x, y, b, bandwidth = H), ref_kernel_sum(x, y, b, H), 1e-11, where)
  kde <- flash_kde(x, estimator = "kde", bandwidth = H)
  expect_within(predict(kde, y, type = "log_density"), ref_log_kde(x, y, H), 1e-11, where)
  expect_within(kernel_score(x, y, bandwidth = H), ref_score(x, y, H), 1e-9, where)
  expect_within(
    flash_kde(x, bandwidth = H, estimator = "sdkde")$debiased, ref_debias(x, H), 1e-10, where
  )
}

test_that("every small number of points and queries is right", {
  for (n in 1:50) expect_values(n, 51L - n, 1L + n %% 4L)
})

test_that("sizes around the tile edges are right", {
  for (size in c(191:193, 255:257)) {
    expect_values(size, 5L, 2L)
    expect_values(5L, size, 16L)
    expect_values(size, size, 5L)
  }
})

test_that("every dimension from 1 to 40 is right", {
  for (d in 1:40) expect_values(37L, 29L, d)
})

test_that("dimensions far above the register blocks are right", {
  for (d in c(63:65, 127:129, 257)) expect_values(19L, 9L, d)
})

test_that("several columns of b at once are right", {
  x <- example_points(45, 3)
  y <- example_points(21, 3, seed = 2)
  H <- example_bandwidth(3)
  for (r in c(1:9, 15:17, 33)) {
    b <- matrix(sin(seq_len(45 * r)), 45)
    expect_within(kernel_sum(x, y, b, bandwidth = H), ref_kernel_sum(x, y, b, H), 1e-12)
  }
})

test_that("integer and logical matrices, data frames and plain vectors are taken as numbers", {
  x <- matrix(c(1:9, 4L, 4L, 7L), 6)
  storage <- x
  storage.mode(storage) <- "double"
  fit <- flash_kde(x, estimator = "kde", bandwidth = 1)
  expect_identical(predict(fit, x), predict(flash_kde(storage, estimator = "kde", bandwidth = 1)))
  framed <- flash_kde(as.data.frame(x), estimator = "kde", bandwidth = 1)
  expect_identical(predict(framed, as.data.frame(x)), predict(fit, x))
  expect_identical(
    predict(flash_kde(1:5, estimator = "kde", bandwidth = 1), 3L),
    predict(flash_kde(matrix(as.double(1:5)), estimator = "kde", bandwidth = 1), 3)
  )
})

test_that("one bar covers a search of many sums and never goes back", {
  internal <- getNamespace("flashkernel")
  control <- list(progress = internal$progress_closure(TRUE))
  state <- environment(control$progress)
  state$show <- \(fraction) NULL # no bar in here
  internal$name_stage(control, "Searching")
  furthest <- numeric()
  for (i in 0:3) for (sum in 1:2) { # two sums a step, each from 0 to 1
    internal$share_stage(control, i / 4, 1 / 4)
    for (fraction in c(0, 0.5, 1)) control$progress(fraction)
    furthest <- c(furthest, state$furthest)
    expect_false(is.null(state$started)) # the end of a sum is not the end of the stage
  }
  expect_equal(furthest, rep(1:4 / 4, each = 2))
  internal$close_progress(control)
  expect_null(state$started)
  for (fraction in c(0, 0.5, 1)) control$progress(fraction) # a stage of one sum ends with it
  expect_null(state$started)
})

test_that("work is silent where nobody watches, and tells its progress in order", {
  x <- example_points(40, 2)
  expect_silent(predict(flash_kde(x, bandwidth = 0.5)))
  seen <- numeric()
  control <- list(
    backend = "cpu", precision = "double", threads = 1L, devices = integer(),
    progress = function(fraction) seen <<- c(seen, fraction)
  )
  log_sum <- get("ffi_log_sum", asNamespace("flashkernel"))
  y <- x[rep(1:40, 250), ]
  with_progress <- .Call(log_sum, sum_sources(y + 1, NULL, diag(2)), y, c(1, 0, 0), FALSE, control)$log_abs
  without <- .Call(
    log_sum, sum_sources(y + 1, NULL, diag(2)), y, c(1, 0, 0), FALSE, replace(control, "progress", list(NULL))
  )
  expect_identical(with_progress, without$log_abs)
  expect_gte(length(seen), 1)
  expect_false(is.unsorted(seen))
  expect_true(all(seen >= 0 & seen <= 1))
})

test_that("arguments are left as they were", {
  x <- example_points(40, 3)
  y <- example_points(10, 3, seed = 2)
  before <- list(x + 0, y + 0)
  fit <- flash_kde(x, bandwidth = 0.5)
  predict(fit, y)
  predict(fit, y, type = "score")
  kernel_sum(x, y, bandwidth = 0.5)
  expect_identical(list(x, y), before)
})
