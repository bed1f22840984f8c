# Where two samples differ: beside formulas written out, and beside package ks.

test_that("differences are those of the estimates, their errors sums of squared kernels", {
  x <- example_points(30, 2)
  y <- example_points(25, 2, seed = 2) + 0.5
  H <- example_bandwidth(2)
  at <- rbind(x[1:5, ], y[1:4, ] - 0.2, c(30, 30))
  w <- seq(1, 3, length.out = 30)
  for (weights in list(NULL, w)) {
    found <- kde_test(x, y, method = "local", newdata = at, bandwidth = H, weights_x = weights)
    one <- function(points, w) {
      k <- apply(at, 1, \(y) exp(-ref_distance2(points, y, H) / 2)) / sqrt(det(2 * pi * H))
      a <- w / sum(w)
      p <- colSums(a * k)
      list(p = p, var = colSums(a^2 * (k - rep(p, each = nrow(k)))^2), leading = sum(a^2) * p / (4 * pi * sqrt(det(H))))
    }
    of_x <- one(x, ref_weights(x, weights))
    of_y <- one(y, rep(1, 25))
    expect_equal(found$density_x, of_x$p)
    expect_equal(found$difference, of_x$p - of_y$p)
    expect_equal(found$se[1:9], sqrt(of_x$var + of_y$var)[1:9])
    expect_equal(found$statistic, c((found$difference / found$se)[1:9], 0))
    expect_equal(found$p.value, 2 * stats::pnorm(abs(found$statistic), lower.tail = FALSE))
    expect_equal(found$p.adjusted, stats::p.adjust(found$p.value, "hochberg"))
    leading <- kde_test(x, y, method = "local", newdata = at, bandwidth = H, variance = "leading",
      adjust = "BH", weights_x = weights)
    expect_equal(leading$se, sqrt(of_x$leading + of_y$leading))
    expect_equal(leading$p.adjusted, stats::p.adjust(leading$p.value, "BH"))
  }
})

test_that("the leading variance gives what package ks has", {
  skip_if_not_installed("ks")
  x <- faithful$eruptions[1:80]
  y <- faithful$eruptions[81:180] + 0.4
  peer <- ks::kde.local.test(x1 = x, x2 = y, h1 = 0.3, h2 = 0.3, gridsize = 41, binned = FALSE)
  found <- kde_test(x, y, method = "local", newdata = peer$fhat1$eval.points, bandwidth = 0.3, variance = "leading")
  expect_equal(found$statistic^2, peer$chisq, tolerance = 1e-7)
  expect_equal(found$p.value, peer$pvalue, tolerance = 1e-7)
  signs <- as.vector(peer$fhat.diff.pos$estimate - peer$fhat.diff.neg$estimate)
  expect_gt(sum(abs(signs)), 3)
  expect_equal(which_is_denser(found, 0.05), signs)
})

test_that("permutations compare with the largest difference of all exchanges", {
  x <- faithful$eruptions[1:12]
  y <- faithful$eruptions[13:29] + 0.5
  w <- seq(1, 2, length.out = 12)
  at <- c(1, 2.5, 4, NA)
  set.seed(4)
  found <- kde_test(x, y, method = "local", newdata = at, bandwidth = 0.4, adjust = "permutation", replicates = 49,
    weights_x = w)
  rows <- data.frame(z = c(x, y), w = c(w / mean(w), rep(1, 17)))
  first <- rep(c(TRUE, FALSE), c(12, 17))
  set.seed(4)
  largest <- replicate(49, {
    own <- sample(first)
    z_of <- kde_test(rows$z[own], rows$z[!own], method = "local", newdata = at, bandwidth = 0.4,
      weights_x = rows$w[own], weights_y = rows$w[!own])
    max(abs(z_of$statistic[1:3]))
  })
  share <- vapply(abs(found$statistic), \(z) (1 + sum(largest >= z)) / 50, 0)
  expect_equal(found$p.adjusted, share)
  expect_gt(stats::sd(share[1:3]), 0)
})

test_that("places are a grid or what is given, and what is missing there stays so", {
  grid <- kde_test(faithful[1:90, ], faithful[91:272, ], method = "local", n = 5)
  expect_named(grid, c(
    "eruptions", "waiting", "density_x", "density_y", "difference", "se", "statistic", "p.value", "p.adjusted"
  ))
  expect_equal(range(grid$waiting), range(faithful$waiting))
  expect_equal(nrow(grid), 25)
  some <- kde_test(c(1, 2, NA, 4), c(2, 3), method = "local", newdata = c(2, NA, Inf), bandwidth = 1)
  expect_equal(is.na(some$p.adjusted), c(FALSE, TRUE, FALSE))
  expect_equal(some$p.value[3], 1)
  expect_equal(some$density_x[1], mean(stats::dnorm(2, c(1, 2, 4))))
  missing <- kde_test(1:3, 2:4, method = "local", newdata = c(NA, Inf), bandwidth = 1, adjust = "permutation")
  expect_equal(missing$p.adjusted, c(NA, 1))
  far <- kde_test(c(1, 2, 4) + 2^30, c(2, 3) + 2^30, method = "local", newdata = c(2, 3) + 2^30, bandwidth = 1)
  expect_equal(far[-1], kde_test(c(1, 2, 4), c(2, 3), method = "local", newdata = c(2, 3), bandwidth = 1)[-1], ignore_attr = TRUE)
})

test_that("a test is printed and drawn", {
  x <- faithful$waiting
  test <- kde_test(x[x < 66], x[x > 62], method = "local")
  expect_output(print(test), "x\\[x < 66\\] is denser at [1-9][0-9]*, x\\[x > 62\\] at [1-9]")
  expect_output(print(test[1:3, ]), "points:  3")
  grDevices::pdf(NULL)
  on.exit(grDevices::dev.off())
  expect_identical(plot(test), test)
  alike <- kde_test(x, x + 1, method = "local")
  expect_identical(plot(alike), alike)
  expect_output(print(alike), "x is denser at 0, x + 1 at 0", fixed = TRUE)
  two <- kde_test(faithful[1:90, ], faithful[91:272, ], method = "local", n = 9)
  expect_identical(plot(two, level = 0.1, col = c("red", "blue"), main = "here"), two)
  expect_argument_error(plot(two[1:5, ]), "x")
  expect_argument_error(plot(test, level = 5), "level")
  expect_argument_error(plot(test, col = "red"), "col")
})

test_that("what makes no sense is refused in words", {
  x <- faithful$waiting
  expect_argument_error(kde_test(x, method = "local"), "y")
  expect_argument_error(kde_test(x, faithful, method = "local"), "y")
  expect_argument_error(kde_test(x, x, method = "local", variance = "exact"), "variance")
  expect_argument_error(kde_test(x, x, method = "local", adjust = "all"), "adjust")
  expect_argument_error(kde_test(x, x, method = "local", newdata = 50, n = 5), "n")
  expect_argument_error(kde_test(x, x, newdata = 50), "newdata")
  expect_argument_error(kde_test(x, x, adjst = "BH"), "adjst")
  expect_argument_error(kde_test(x, x, method = "local", newdata = faithful), "newdata")
  expect_argument_error(kde_test(iris[, 1:3], iris[, 1:3], method = "local"), "newdata")
  expect_argument_error(kde_test(x, x, method = "local", weights_y = 1), "weights_y")
})
