# Tests with many bandwidths, of independence, and by Stein discrepancies: beside dense formulas.

gauss <- function(x, L) exp(-as.matrix(stats::dist(t(solve(L, t(as.matrix(x))))))^2 / 4) # variance 2 L L'
quiet_run <- \() start_run(settle_control(NULL))
centring <- \(n) diag(n) - 1 / n

test_that("forms of bins sum kernels of rows, in halves and with columns", {
  x <- example_points(700, 2)
  L <- matrix(c(0.8, 0.2, 0, 0.5), 2)
  size <- c(rep(9, 75), 20, 5)
  Z <- outer(rep(seq_along(size), size), seq_along(size), `==`) + 0
  K <- gauss(x, L / sqrt(2))
  expect_equal(bin_forms(x, size, L, quiet_run()), t(Z) %*% K %*% Z, tolerance = 1e-10, ignore_attr = TRUE)
  a <- cbind(sin(1:700), cos(1:700))
  b <- cbind(1, sqrt(1:700))
  found <- bin_forms(x, size, L, quiet_run(), a, b)
  expect_equal(found, t(Z) %*% (K * tcrossprod(a, b)) %*% Z, tolerance = 1e-9, ignore_attr = TRUE)
})

test_that("two samples are tested with ten bandwidths at once", {
  x <- example_points(14, 2)
  y <- example_points(11, 2, seed = 2) + 0.5
  set.seed(4)
  found <- kde_test(x, y, "aggregated", replicates = 199)
  both <- rbind(x, y)
  L <- t(chol(kde_test(x, y, "silverman", replicates = 1)$bandwidth))
  ends <- log(stats::quantile(stats::dist(t(solve(L, t(both)))), c(0.05, 0.95)) * c(0.5, 2))
  factors <- lapply(exp(seq(ends[1], ends[2], length.out = 10)) / 2, `*`, L)
  a <- rep(c(1 / 14, -1 / 11), c(14, 11))
  set.seed(4)
  v <- cbind(a, replicate(199, sample(a)))
  draws <- vapply(factors, \(L) colSums(v * (gauss(both, L) %*% v)), numeric(200))
  p <- apply(draws, 2, \(T) vapply(T, \(t) mean(T >= t - 1e-12), 0))
  key <- apply(p, 1, min) + rowMeans(p) / 1e6 # the mean decides where the smallest ties
  expect_equal(c(found$statistic, found$p.value), c(min(p[1, ]), mean(key <= key[1] + 1e-14)), ignore_attr = TRUE)
  expect_equal(found$bandwidth, tcrossprod(factors[[which.min(p[1, ])]]), ignore_attr = TRUE)
  expect_equal(found$parameter, c(bandwidths = 10, replicates = 199))
})

test_that("bins of equal sizes are exchanged, and what is left over never is", {
  for (n in list(c(2, 9), c(100, 156), c(150, 150), c(20, 5000), c(5000, 400), c(300, 1e5))) {
    bins <- sample_bins(n)
    size <- tabulate(bins$bin)
    expect_length(unique(size[seq_len(sum(bins$count))]), 1)
    expect_lte(sum(bins$count), 256)
    expect_gte(min(bins$count), min(32, n))
    expect_length(intersect(bins$bin[seq_len(n[1])], bins$bin[-seq_len(n[1])]), 0)
  }
  for (weights in list(NULL, 1 + (1:400) %% 3)) {
    rows <- both_samples(sin(1:400), cos(1:500)^3, weights, NULL)
    K <- gauss(rows$points, matrix(0.3))
    one <- function(own) {
      a <- if (is.null(rows$weights)) rep(1, 900) else rows$weights
      q <- list(a * own / sum(a * own), a * (1 - own) / sum(a * (1 - own)))
      spread <- vapply(q, \(q) sum(q^2 * (1 - 2 * drop(K %*% q) + sum(q * (K %*% q)))), 0)
      v <- q[[1]] - q[[2]]
      sum(v * (K %*% v)) / if (is.null(rows$weights)) 1 else sum(spread)
    }
    set.seed(2)
    bins <- sample_bins(rows$n)
    first <- rows$first[match(seq_len(max(bins$bin)), bins$bin)]
    free <- seq_len(sum(bins$count))
    first[free] <- sample(first[free])
    set.seed(2)
    replace_in_package("permuted", \(draws, ...) list(draws = draws))
    found <- by_permutation(rows, list(matrix(0.3)), 1, quiet_run())
    expect_equal(drop(found$draws), c(one(rows$first), one(first[bins$bin])), tolerance = 1e-8)
    expect_equal(found$parts, (t(rows$shares) %*% K %*% rows$shares)[c(1, 4, 2)], tolerance = 1e-8)
  }
})

test_that("independence is tested by permutations of y", {
  x <- example_points(20, 2)
  y <- drop(x[, 1]^2 + example_points(20, 1, seed = 5))
  H <- matrix(c(0.3, 0.1, 0, 0.1, 0.5, 0, 0, 0, 0.4), 3)
  set.seed(3)
  found <- kde_test(x, y, H, "independence", replicates = 99)
  K <- centring(20) %*% gauss(x, t(chol(H[1:2, 1:2]))) %*% centring(20)
  M <- gauss(y, matrix(sqrt(0.4)))
  T <- \(order) sum(K * M[order, order]) / 20^2
  set.seed(3)
  draws <- c(T(1:20), replicate(99, T(sample(20))))
  expect_equal(found$statistic, c(T = draws[1] / sqrt(det(4 * pi * H))), tolerance = 1e-8)
  expect_equal(found$p.value, mean(draws >= draws[1]))
  # the integral itself
  z <- kde_test(x[, 1], y, c(0.5, 0.6), "independence", replicates = 1)$statistic
  at <- seq(-8, 20, by = 0.05)
  k <- \(u, h) stats::dnorm(outer(at, u, "-"), sd = h)
  difference <- k(x[, 1], 0.5) %*% centring(20) %*% t(k(y, 0.6)) / 20
  expect_equal(unname(z), sum(difference^2) * 0.05^2, tolerance = 1e-6)
})

test_that("categories have the kernel 1 where they agree, in the formula, at the level and with power", {
  x <- example_points(30, 1)
  g <- factor(c("a", "b", "c")[1 + (seq_len(30) * 7) %% 3])
  data <- data.frame(z = drop(example_points(30, 1, seed = 3)), g = g, l = drop(x) > 0)
  test <- \(x, y, ...) kde_test(x, y, method = "independence", ...)
  same <- \(g) outer(as.character(g), as.character(g), `==`) + 0
  hsic <- \(K, M, order = 1:30) sum((centring(30) %*% K %*% centring(30)) * M[order, order]) / 30^2
  set.seed(6)
  found <- test(x, g, 0.4, replicates = 99)
  set.seed(6)
  draws <- c(hsic(gauss(x, 0.4), same(g)), replicate(99, hsic(gauss(x, 0.4), same(g), sample(30))))
  expect_equal(found$statistic, c(T = draws[1] / sqrt(4 * pi * 0.16)))
  expect_equal(c(found$p.value, found$bandwidth), c(mean(draws >= draws[1] - 1e-12), 0.16))
  T <- test(data, as.character(g), 0.4, replicates = 1)$statistic * sqrt(4 * pi * 0.16)
  expect_equal(unname(T), hsic(gauss(data$z, 0.4) * same(g) * same(data$l), same(g)))
  expect_equal(unname(test(data$l, data["g"], replicates = 1)$statistic), hsic(same(data$l), same(g)))
  # many rows, in strata
  z <- c(outer(drop(x), sin(1:10)))
  of_many <- test(gl(3, 1, 300), z, 0.4, replicates = 9)
  expect_equal(unname(of_many$statistic * sqrt(4 * pi * 0.16)), sum(
    (centring(300) %*% gauss(z, 0.4) %*% centring(300)) * same(gl(3, 1, 300))
  ) / 300^2)
  p <- replicate(400, test(stats::rnorm(15), gl(3, 5), replicates = 19)$p.value)
  expect_true(abs(mean(p <= 0.05) - 0.05) < 0.035 && abs(mean(p <= 0.5) - 0.5) < 0.1)
  expect_lt(test(stats::rnorm(60) + 2 * (1:60 %% 3 == 0), factor(1:60 %% 3), replicates = 199)$p.value, 0.02)
  lost <- test(1:9, replace(g[1:9], 2, NA), 1, replicates = 9)$statistic
  expect_equal(lost, test(c(1, 3:9), g[c(1, 3:9)], 1, replicates = 9)$statistic)
  expect_argument_error(test(1:30, factor(1:30)), "y")
  expect_argument_error(test(g, g, 1), "bandwidth")
})

test_that("many rows are permuted in strata of bins", {
  n <- 300
  x <- matrix(sin(seq_len(n)))
  y <- matrix(cos(seq_len(n)^2) + x)
  set.seed(8)
  joint <- lapply(c(0.2, 0.4), \(l) diag(c(l, 0.3)))
  factors <- list(list(matrix(0.2), matrix(0.4)), list(matrix(0.3)))
  found <- by_strata(list(x, y), factors, joint, expand.grid(1:2, 1), 3, quiet_run())
  set.seed(8)
  rows <- sample(n)
  size <- ceiling(n * 8 / 512)
  for (i in 1:4) {
    order <- seq_len(n)
    for (m in if (i > 1) seq_len(n %/% (8 * size))) {
      own <- matrix(rows[(m - 1) * 8 * size + seq_len(8 * size)], size)
      order[own] <- own[, sample(8)]
    }
    M <- centring(n) %*% gauss(y, matrix(0.3))[order, order] %*% centring(n)
    expect_equal(found[i, ], c(sum(M * gauss(x, matrix(0.2))), sum(M * gauss(x, matrix(0.4)))) / n^2, tolerance = 1e-8)
  }
})

test_that("Stein discrepancies are those of the scores", {
  x <- example_points(15, 2)
  fit <- flash_kde(example_points(30, 2, seed = 7), "kde")
  H <- example_bandwidth(2)
  stein <- function(x, s, V) { # of the kernel with variance V, by its derivatives
    S <- solve(V)
    outer(seq_len(nrow(x)), seq_len(nrow(x)), Vectorize(\(i, j) {
      to <- x[i, ] - x[j, ]
      k <- exp(-sum(to * (S %*% to)) / 2)
      k * (sum(s[i, ] * (V %*% s[j, ])) + sum((s[i, ] - s[j, ]) * to) + ncol(x) - sum(to * (S %*% to)))
    }))
  }
  U <- stein(x, predict(fit, x, type = "score"), 2 * H)
  set.seed(2)
  found <- kde_test(x, fit, H, replicates = 99)
  set.seed(2)
  signs <- cbind(1, matrix(sample(c(-1, 1), 99 * 15, TRUE), 15))
  draws <- colSums(signs * (U %*% signs)) / 15^2
  expect_equal(found$statistic, c(T = draws[1]))
  expect_equal(found$p.value, mean(draws >= draws[1] - 1e-12))
  expect_identical(c(sum(random_signs(40)), abs(sum(random_signs(21)))), c(0, 1)) # balanced, if there are at least 20
  z <- matrix(stats::qnorm(stats::ppoints(280)))
  of_user <- \(...) kde_test(z, \(x, mean) mean - x, mean = 1, method = "stein", bandwidth = 0.5, replicates = 9, ...)$statistic
  expect_equal(unname(of_user()), mean(stein(z, 1 - z, 0.5)), tolerance = 1e-6)
  expect_equal(of_user(weights_x = rep(2, 280)), of_user())
  expect_equal(of_user(control = list(tol = 1e-10, engine = "fast")), of_user(), tolerance = 1e-5)
})

test_that("alternatives are found, and what these tests do not take is refused", {
  set.seed(5)
  x <- stats::rnorm(400)
  p_of <- \(...) kde_test(..., replicates = 99)$p.value
  expect_lt(p_of(x, x^2 + stats::rnorm(400), method = "independence"), 0.03)
  expect_lt(p_of(x, 1.5 * stats::rnorm(400), "aggregated"), 0.03)
  expect_lt(p_of(1.3 * x, flash_kde(stats::rnorm(2000), "kde")), 0.06)
  expect_argument_error(kde_test(x, x[-1], method = "independence"), "y")
  expect_error(kde_test(factor(x > 0), x > 1), "`x` must have numbers.*independence", class = "flashkernel_error_argument")
  expect_argument_error(kde_test(x, x, method = "independence", weights_x = x), "weights_x")
  expect_argument_error(kde_test(x, x, "aggregated", "asymptotic"), "bandwidth")
  expect_argument_error(kde_test(x, "exp", rate = 1, method = "stein"), "y")
  expect_argument_error(kde_test(x, \(x) x[-1], method = "stein"), "y")
  expect_argument_error(kde_test(x, \(x) x, method = "stein", estimate = mean), "estimate")
  expect_argument_error(kde_test(x, flash_kde(abs(x), support = c(0, Inf))), "y")
  expect_argument_error(kde_test(faithful, flash_kde(x)), "x")
})

test_that("forms of many rows, summed at nodes of a lattice, are those of all pairs", {
  set.seed(11)
  x <- matrix(c(stats::rnorm(2390), stats::runif(10, -900, 900)))
  size <- c(rep(100, 20), 400)
  expect_true(any(form_lattice(x, length(size), matrix(0.2))$far))
  b <- cbind(stats::rexp(2400), stats::rnorm(2400))
  bin <- rep(seq_along(size), size)
  by_bins <- \(K) unname(rowsum(t(rowsum(K, bin)), bin))
  K <- exp(-outer(drop(x), drop(x), `-`)^2 / (2 * 0.2^2))
  expect_equal(bin_forms(x, size, matrix(0.2), quiet_run()), by_bins(K), tolerance = 1e-12)
  found <- bin_forms(x, size, matrix(0.2), quiet_run(), b[, 1, drop = FALSE], b[, 2, drop = FALSE])
  expect_equal(found, t(by_bins(tcrossprod(b[, 1], b[, 2]) * K)), tolerance = 1e-12)
})
