# Tests with many bandwidths, of independence, and by Stein discrepancies: beside dense formulas.

gauss <- function(x, L) exp(-as.matrix(stats::dist(t(solve(L, t(as.matrix(x))))))^2 / 4) # variance 2 L L'

# The p-value of the smallest p-value, of which the mean decides where it ties; the first row is observed.
smallest_p <- function(draws) {
  p <- apply(draws, 2, \(T) vapply(T, \(t) mean(T >= t - 1e-12), 0))
  key <- apply(p, 1, min) + rowMeans(p) / 1e6
  c(min(p[1, ]), mean(key <= key[1] + 1e-14))
}

test_that("forms of bins sum kernels of rows, in halves and with columns", {
  x <- example_points(700, 2)
  L <- matrix(c(0.8, 0.2, 0, 0.5), 2)
  size <- c(rep(9, 75), 20, 5)
  Z <- outer(rep(seq_along(size), size), seq_along(size), `==`) + 0
  K <- exp(-as.matrix(stats::dist(t(solve(L, t(x)))))^2 / 2)
  run <- start_run(settle_control(NULL))
  expect_equal(bin_forms(x, size, L, run), t(Z) %*% K %*% Z, tolerance = 1e-10, ignore_attr = TRUE)
  a <- cbind(sin(1:700), cos(1:700))
  b <- cbind(1, sqrt(1:700))
  want <- t(Z) %*% (K * tcrossprod(a, b)) %*% Z
  expect_equal(bin_forms(x, size, L, run, a, b), want, tolerance = 1e-9, ignore_attr = TRUE)
})

test_that("bins have equal sizes, and what is left over is never exchanged", {
  for (n in list(c(2, 9), c(100, 156), c(150, 150), c(20, 5000), c(5000, 400), c(300, 1e5))) {
    bins <- sample_bins(n)
    size <- tabulate(bins$bin)
    free <- seq_len(sum(bins$count))
    expect_length(unique(size[free]), 1)
    expect_lte(length(free), 256)
    expect_gte(min(bins$count), min(32, n))
    first <- bins$bin[seq_len(n[1])]
    expect_length(intersect(first, bins$bin[-seq_len(n[1])]), 0)
    expect_true(all(seq_len(bins$count[1]) %in% first))
  }
})

test_that("two samples are tested with ten bandwidths at once", {
  x <- example_points(14, 2)
  y <- example_points(11, 2, seed = 2) + 0.5
  set.seed(4)
  found <- kde_test(x, y, "aggregated", replicates = 199)
  both <- rbind(x, y)
  L <- kde_test(both, both, "silverman", replicates = 1)$bandwidth # of as many points twice
  L <- t(chol(L * 2^(2 / 6)))
  far <- as.vector(stats::dist(t(solve(L, t(both)))))
  ends <- stats::quantile(far, c(0.05, 0.95)) * c(0.5, 2)
  lengths <- exp(seq(log(ends[1]), log(ends[2]), length.out = 10))
  a <- rep(c(1 / 14, -1 / 11), c(14, 11))
  set.seed(4)
  v <- cbind(a, replicate(199, sample(a)))
  draws <- vapply(lengths, \(l) {
    K <- gauss(both, l / 2 * L)
    colSums(v * (K %*% v))
  }, numeric(200))
  expect_equal(c(found$statistic, found$p.value), smallest_p(draws), ignore_attr = TRUE)
  best <- which.min(apply(draws, 2, \(T) mean(T >= T[1])))
  expect_equal(found$bandwidth, lengths[best]^2 / 4 * tcrossprod(L), ignore_attr = TRUE)
  expect_equal(found$parameter, c(bandwidths = 10, replicates = 199))
  expect_output(print(found), "aggregated over 10 bandwidths")
})

test_that("exchanges of bins of many rows are exchanges of rows", {
  x <- matrix(sin(1:400), ncol = 1)
  y <- matrix(cos(1:500)^3, ncol = 1)
  w <- 1 + (1:400) %% 3
  for (weights in list(NULL, w)) {
    rows <- both_samples(x, y, weights, NULL)
    set.seed(2)
    bins <- sample_bins(rows$n)
    first <- rows$first[match(seq_len(max(bins$bin)), bins$bin)]
    free <- seq_len(sum(bins$count))
    first[free] <- sample(first[free])
    own <- first[bins$bin]
    K <- gauss(rows$points, 0.3)
    one <- \(own) {
      a <- rows$weights
      if (is.null(a)) return(sum(outer(s <- own / 400 - (!own) / 500, s) * K))
      p <- lapply(list(own, !own), \(i) a * i / sum(a * i))
      spread <- vapply(p, \(q) sum(q^2 * (1 - 2 * drop(K %*% q) + sum(q * (K %*% q)))), 0)
      sum((p[[1]] - p[[2]]) * (K %*% (p[[1]] - p[[2]]))) / sum(spread)
    }
    set.seed(2)
    run <- start_run(settle_control(NULL))
    seen <- NULL
    replace_in_package("permuted", \(draws, ...) seen <<- draws)
    by_permutation(rows, list(matrix(0.3)), 1, run)
    expect_equal(drop(seen), c(one(rows$first), one(own)), tolerance = 1e-8)
  }
})

test_that("independence is tested by permutations of y", {
  n <- 20
  x <- example_points(n, 2)
  y <- drop(x[, 1]^2 + example_points(n, 1, seed = 5))
  H <- diag(c(0.3, 0.5, 0.4))
  H[1, 2] <- H[2, 1] <- 0.1
  set.seed(3)
  found <- kde_test(x, y, H, "independence", replicates = 99)
  K <- gauss(x, t(chol(H[1:2, 1:2])))
  M <- gauss(y, t(chol(H[3, 3, drop = FALSE])))
  C <- diag(n) - 1 / n
  T <- \(order) sum((C %*% K %*% C) * M[order, order]) / n^2
  set.seed(3)
  draws <- c(T(1:n), replicate(99, T(sample(n))))
  height <- 1 / sqrt(det(4 * pi * H))
  expect_equal(found$statistic, c(T = height * draws[1]), tolerance = 1e-8)
  expect_equal(found$p.value, mean(draws >= draws[1]))
  # the integral of (p_xy - p_x p_y)^2, of two columns
  z <- kde_test(x[, 1], y, c(0.5, 0.6), "independence", replicates = 1)$statistic
  at <- seq(-8, 20, by = 0.05)
  k <- \(u, h) stats::dnorm(outer(at, u, "-"), sd = h) / sqrt(n)
  difference <- tcrossprod(k(x[, 1], 0.5), k(y, 0.6)) - outer(rowSums(k(x[, 1], 0.5)), rowSums(k(y, 0.6))) / n
  expect_equal(unname(z), sum(difference^2) * 0.05^2, tolerance = 1e-6)
})

test_that("many rows are permuted in strata of bins", {
  n <- 300
  x <- matrix(sin(seq_len(n)))
  y <- matrix(cos(seq_len(n)^2) + x)
  factors <- list(list(matrix(0.2), matrix(0.4)), list(matrix(0.3)))
  pairs <- expand.grid(1:2, 1)
  joint <- lapply(c(0.2, 0.4), \(l) diag(c(l, 0.3)))
  set.seed(8)
  found <- by_strata(list(x, y), factors, joint, pairs, 3, start_run(settle_control(NULL)))
  set.seed(8)
  rows <- sample(n)
  size <- ceiling(n * 8 / 1024)
  strata <- n %/% (8 * size)
  C <- diag(n) - 1 / n
  for (i in 1:4) {
    order <- seq_len(n)
    for (m in if (i > 1) seq_len(strata)) {
      own <- matrix(rows[(m - 1) * 8 * size + seq_len(8 * size)], size)
      order[own] <- own[, sample(8)]
    }
    want <- vapply(c(0.2, 0.4), \(l) sum((C %*% gauss(x, matrix(l)) %*% C) * gauss(y, matrix(0.3))[order, order]) / n^2, 0)
    expect_equal(found[i, ], want, tolerance = 1e-8)
  }
})

test_that("Stein discrepancies are those of the scores", {
  n <- 15
  x <- example_points(n, 2)
  fit <- flash_kde(example_points(30, 2, seed = 7), "kde")
  s <- predict(fit, x, type = "score")
  H <- example_bandwidth(2)
  stein <- function(s) {
    S <- solve(2 * H)
    outer(1:n, 1:n, Vectorize(\(i, j) {
      to <- drop(S %*% (x[i, ] - x[j, ]))
      k <- exp(-sum((x[i, ] - x[j, ]) * to) / 2)
      # in whitened columns, A = 2 H: s'As k + s'A grad k ... + tr(A grad grad' k)
      k * (sum(s[i, ] * (2 * H %*% s[j, ])) + sum((s[i, ] - s[j, ]) * (x[i, ] - x[j, ])) + 2 - sum((x[i, ] - x[j, ]) * to))
    }))
  }
  set.seed(2)
  found <- kde_test(x, fit, H, replicates = 99)
  set.seed(2)
  signs <- cbind(1, matrix(sample(c(-1, 1), 99 * n, TRUE), n))
  draws <- colSums(signs * (stein(s) %*% signs)) / n^2
  expect_equal(found$statistic, c(T = draws[1]))
  expect_equal(found$p.value, mean(draws >= draws[1] - 1e-12))
  V <- matrix(c(2, 0.4, 0.4, 1), 2)
  normal <- kde_test(x, "norm", mean = c(1, 0), sigma = V, method = "stein", bandwidth = H, replicates = 9)
  score <- \(x, mean) -t(solve(V, t(x) - mean))
  expect_equal(normal$statistic, c(T = sum(stein(score(x, c(1, 0)))) / n^2))
  by_user <- kde_test(x, score, mean = c(1, 0), method = "stein", bandwidth = H, replicates = 9, weights_x = rep(2, n))
  expect_equal(by_user$statistic, normal$statistic)
  # many rows, in bins
  z <- stats::qnorm(stats::ppoints(700))
  large <- kde_test(z, \(x) -x, method = "stein", bandwidth = 0.5, replicates = 9)$statistic
  D <- outer(z, z, "-") / sqrt(0.5)
  literal <- exp(-D^2 / 2) * (outer(-z, -z) * 0.5 - D^2 + 1 - D^2 * 0.5)
  expect_equal(unname(large), mean(literal), tolerance = 1e-6)
})

test_that("levels are held and alternatives found", {
  skip_on_cran()
  set.seed(5)
  null <- replicate(100, c(
    kde_test(stats::rnorm(20), stats::rnorm(25), "aggregated", replicates = 99)$p.value,
    kde_test(stats::rnorm(20), stats::rnorm(20), method = "independence", replicates = 99)$p.value,
    kde_test(stats::rnorm(30), \(x) -x, method = "stein", replicates = 99)$p.value
  ))
  expect_true(all(rowMeans(null <= 0.1) < 0.22)) # 0.1 and four standard errors
  x <- stats::rnorm(400)
  expect_lt(kde_test(x, x^2 + stats::rnorm(400), method = "independence", replicates = 99)$p.value, 0.03)
  expect_lt(kde_test(x, 1.5 * stats::rnorm(400), "aggregated", replicates = 99)$p.value, 0.03)
  expect_lt(kde_test(1.3 * x, flash_kde(stats::rnorm(2000), "kde"), replicates = 99)$p.value, 0.06)
  stein <- \(...) kde_test(x, \(x) -x, method = "stein", bandwidth = 0.4, replicates = 9, ...)$statistic
  expect_equal(stein(control = list(tol = 1e-10, engine = "fast")), stein(), tolerance = 1e-5)
})

test_that("what these tests do not take is refused", {
  x <- faithful$waiting
  expect_argument_error(kde_test(x, x[-1], method = "independence"), "y")
  expect_argument_error(kde_test(x, x, method = "independence", weights_x = x), "weights_x")
  expect_argument_error(kde_test(x, x, "aggregated", "asymptotic"), "bandwidth")
  expect_argument_error(kde_test(x, "exp", rate = 1, method = "stein"), "y")
  expect_argument_error(kde_test(x, \(x) x[-1], method = "stein"), "y")
  expect_argument_error(kde_test(x, \(x) x, method = "stein", estimate = mean), "estimate")
  expect_argument_error(kde_test(x, flash_kde(x, support = c(0, Inf))), "y")
  expect_argument_error(kde_test(faithful, flash_kde(x)), "x")
})
