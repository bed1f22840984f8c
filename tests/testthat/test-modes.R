# Modes, clusters and ridges.

three_groups <- function(n = 300, seed = 3) {
  set.seed(seed)
  centres <- rbind(c(0, 0), c(5, 0), c(0, 5))
  own <- rep(1:3, length.out = n)
  list(x = centres[own, ] + matrix(stats::rnorm(2 * n, sd = 0.7), n), own = own, centres = centres)
}

# the mean shift itself, of all points at once
literal_mean_shift <- function(x, h, factors = rep(1, nrow(x)), steps = 1000, w = factors^-(length(h) + 2)) {
  y <- x
  for (step in seq_len(steps)) {
    q <- 0
    for (k in seq_along(h)) q <- q + outer(y[, k], x[, k], `-`)^2 / h[k]^2
    weight <- exp(-t(t(q) / factors^2) / 2) * rep(w, each = nrow(y))
    before <- y
    y <- weight %*% x / rowSums(weight)
    if (max(abs(y - before)) < 1e-10) break
  }
  y
}

expect_ends <- function(clusters, ends, h) {
  modes <- as.matrix(clusters$modes[seq_along(h)])[clusters$cluster, , drop = FALSE]
  expect_within(t(t(modes) / h), t(t(ends) / h), 1e-6)
}

test_that("modes are where the gradient is 0 and the density is curved downwards", {
  x <- three_groups()$x
  for (estimator in c("kde", "sdkde", "laplace")) {
    fit <- flash_kde(x, estimator, bandwidth = 0.6)
    found <- kde_modes(fit)
    at <- as.matrix(found[1:2])
    expect_gte(nrow(found), 3)
    expect_true(all(found$mode))
    expect_equal(sum(found$share), 1)
    expect_false(is.unsorted(-found$density))
    expect_within(kde_derivative(fit, at, log = TRUE), matrix(0, nrow(found), 2), 1e-8)
    curvature <- kde_derivative(fit, at, order = 2, log = TRUE)
    expect_no_error(with_null_device(plot(found))) # all columns are vectors
    for (j in seq_len(nrow(found))) {
      # where H is the identity
      want <- eigen(0.36 * curvature[j, , ], symmetric = TRUE)$values
      expect_within(unlist(found[j, c("curvature.1", "curvature.2")]), want, 1e-9)
    }
  }
  near <- apply(three_groups()$centres, 1, \(centre) min(sqrt(colSums((t(at) - centre)^2))))
  expect_lt(max(near), 0.5)
})

test_that("two kernels have two modes, or one where they are less than two sds apart", {
  for (apart in c(1.9, 2.1, 6)) {
    found <- kde_modes(flash_kde(c(0, apart), "kde", bandwidth = 1))
    expect_identical(nrow(found), if (apart < 2) 1L else 2L)
    if (apart < 2) expect_within(found$x, apart / 2, 1e-6)
  }
  # between them is no mode
  saddle <- kde_modes(flash_kde(c(0, 3), "kde", bandwidth = 1), start = 1.5)
  expect_false(saddle$mode)
  expect_within(saddle$x, 1.5, 1e-10)
})

test_that("clusters are where mean shifts lead", {
  x <- as.matrix(faithful)[1:120, ]
  for (h in list(c(0.15, 3), c(0.3, 6))) {
    clusters <- mean_shift(flash_kde(x, "kde", bandwidth = h))
    expect_ends(clusters, literal_mean_shift(x, h), h)
    expect_identical(unname(c(table(clusters$cluster))), clusters$modes$points)
  }
  adaptive <- flash_kde(x, "kde", bandwidth = c(0.3, 6), adaptive = TRUE)
  clusters <- mean_shift(adaptive)
  expect_ends(clusters, literal_mean_shift(x, c(0.3, 6), adaptive$adaptive$factors), c(0.3, 6))
})

test_that("starts from far away arrive where mean shifts do, over gaps of thousands of bandwidths", {
  set.seed(9)
  x <- rbind(matrix(stats::rnorm(60), 30), matrix(stats::rnorm(60), 30) + 5000)
  for (factors in list(FALSE, rep(c(0.7, 1, 1.4), 20))) {
    fit <- flash_kde(x, "kde", bandwidth = 1, adaptive = factors)
    clusters <- mean_shift(fit)
    expect_identical(nrow(clusters$modes), 2L)
    expect_identical(clusters$cluster, rep(clusters$cluster[c(1, 31)], each = 30))
    found <- kde_modes(fit, start = rbind(c(-1e5, 0), c(2400, 2500), c(2600, 2510), c(9e4, 1e5)))
    expect_equal(as.matrix(found[1:2]), as.matrix(kde_modes(fit)[1:2]), tolerance = 1e-8)
    expect_identical(found$share, c(0.5, 0.5))
  }
})

test_that("clusters find groups, for all estimators, and do not depend on order or threads", {
  groups <- three_groups()
  for (estimator in c("kde", "sdkde", "laplace")) {
    clusters <- mean_shift(flash_kde(groups$x, estimator, bandwidth = 0.9))
    found <- table(clusters$cluster, groups$own)
    expect_gt(sum(apply(found, 2, max)), 0.98 * 300)
    set.seed(8)
    order <- sample(300)
    mixed <- mean_shift(flash_kde(groups$x[order, ], estimator, bandwidth = 0.9, control = flash_control(threads = 1)))
    expect_identical(mixed$cluster, clusters$cluster[order])
  }
})

test_that("a tolerance leads to the same clusters", {
  x <- three_groups(3000)$x
  exact <- mean_shift(flash_kde(x, "kde", bandwidth = 0.5))
  fast <- mean_shift(flash_kde(x, "kde", bandwidth = 0.5, control = flash_control(engine = "fast"), tol = 1e-6))
  expect_gt(mean(exact$cluster == fast$cluster), 0.999)
  expect_within(as.matrix(exact$modes[1:2]), as.matrix(fast$modes[1:2]), 1e-8)
})

test_that("slopes of many points at once are those of few, and explicit engines are heeded", {
  x <- three_groups(1200)$x
  for (estimator in c("kde", "sdkde")) {
    fit <- flash_kde(x, estimator, bandwidth = 0.5, weights = rep(1:2, 600))
    field <- shape_field(fit, NULL, "Climbing")
    u <- to_field(field, x)
    all <- slopes_at(field, u)
    few <- slopes_at(field, u[1:100, ])
    expect_within(all$score[1:100, ], few$score, 1e-5)
    expect_within(few$score, 0.5 * kde_derivative(fit, x[1:100, ], log = TRUE), 1e-10)
    # from engines, which have no scale, to sums about the points
    expect_equal(slopes_at(field, u[1:100, ], all$log_scale[1:100]), few)
  }
  exact <- mean_shift(flash_kde(x, "kde", bandwidth = 0.5, control = flash_control(engine = "exact")))
  expect_identical(mean_shift(flash_kde(x, "kde", bandwidth = 0.5))$cluster, exact$cluster)
  expect_identical(shape_field(exact$fit, NULL, "Climbing")$steps$tol, 0)
})

test_that("weights count, missing rows are NA, and other points find their clusters", {
  groups <- three_groups()
  w <- c(10, 1, 1)[groups$own]
  clusters <- mean_shift(flash_kde(groups$x, "kde", bandwidth = 0.9, weights = w))
  expect_equal(clusters$modes$share[1], 10 / 12, tolerance = 0.02)
  expect_identical(predict(clusters, groups$x), clusters$cluster)
  expect_identical(predict(clusters, rbind(c(NA, 0), groups$x[2, ])), c(NA, clusters$cluster[2]))
  again <- unserialize(serialize(clusters, NULL))
  expect_identical(predict(again, groups$x[1:5, ]), clusters$cluster[1:5])
  other <- mean_shift(clusters$fit, rbind(c(0, 5), c(5, 0)))
  expect_identical(other$cluster, predict(clusters, rbind(c(0, 5), c(5, 0))))
  x <- rbind(NA, groups$x)
  holed <- mean_shift(flash_kde(x, "kde", bandwidth = 0.9, weights = c(1, w), na.action = stats::na.exclude))
  expect_identical(holed$cluster, c(NA, clusters$cluster))
  far <- mean_shift(flash_kde(groups$x + 2^30, "kde", bandwidth = 0.9, weights = w))
  expect_identical(far$cluster, clusters$cluster)
  line <- mean_shift(flash_kde(faithful$waiting, "kde", bandwidth = 4))
  expect_identical(nrow(line$modes), 2L)
})

test_that("clusters print, and plot in one dimension and more", {
  grDevices::pdf(NULL)
  on.exit(grDevices::dev.off())
  for (d in c(1, 2, 4)) {
    clusters <- mean_shift(flash_kde(iris[seq_len(d)], "kde", bandwidth = 0.5))
    expect_output(print(clusters), "of 150 points")
    expect_identical(plot(clusters), clusters)
  }
  # columns with the names of ours
  named <- stats::setNames(iris[1:2], c("points", "density"))
  clusters <- mean_shift(flash_kde(named, "kde", bandwidth = 0.5))
  expect_output(print(clusters), "of 150 points.*points density density.1 points.1 +share")
  expect_argument_error(kde_modes(clusters$fit, start = matrix(0, 0, 2)), "start")
  expect_argument_error(plot(clusters, dims = 5), "dims")
})

test_that("ridges of a noisy circle are a circle, where the gradient lies along them", {
  set.seed(1)
  angle <- stats::runif(500, 0, 2 * pi)
  circle <- cbind(cos(angle), sin(angle)) + stats::rnorm(1000, sd = 0.1)
  fit <- flash_kde(circle, "kde", bandwidth = 0.15)
  ridge <- kde_ridges(fit)
  radius <- sqrt(ridge$x1^2 + ridge$x2^2)
  expect_gt(nrow(ridge), 50)
  expect_lt(stats::quantile(abs(radius - 1), 0.9), 0.1)
  at <- as.matrix(ridge[1:2])
  score <- kde_derivative(fit, at, log = TRUE)
  hessian <- kde_derivative(fit, at, order = 2, log = TRUE)
  for (j in c(1, 20, 40)) {
    across <- eigen(hessian[j, , ], symmetric = TRUE)
    expect_lt(across$values[2], 0)
    expect_within(sum(across$vectors[, 2] * score[j, ]), 0, 1e-5)
  }
  expect_equal(ridge$density, predict(fit, at))
  own <- kde_ridges(fit, start = circle[1:7, ])
  expect_lte(nrow(own), 7)
})

test_that("ridges know weights, widths and dimensions", {
  set.seed(2)
  along <- stats::runif(400, -2, 2)
  line <- cbind(along, 0.5 * along, 0) + stats::rnorm(1200, sd = 0.1)
  fit <- flash_kde(line, "kde", bandwidth = 0.2, adaptive = rep(c(0.8, 1.2), 200), weights = rep(1:2, each = 200))
  ridge <- kde_ridges(fit, trim = 0.3)
  expect_lt(stats::median(abs(ridge$x2 - 0.5 * ridge$x1)), 0.06)
  expect_lt(stats::median(abs(ridge$x3)), 0.06)
  expect_gt(nrow(kde_ridges(fit, dimension = 2, start = line[1:20, ])), 0)
  expect_argument_error(kde_ridges(fit, dimension = 3), "dimension")
  expect_argument_error(kde_ridges(flash_kde(along, "kde", bandwidth = 1)), "object")
  expect_argument_error(kde_ridges(fit, trim = 1), "trim")
  balloon <- flash_kde(faithful, "kde", adaptive = "balloon")
  for (call in list(kde_modes, mean_shift, kde_ridges)) expect_error(call(balloon), class = "flashkernel_error_unsupported")
})

test_that("modes, clusters and ridges of mixed data are those of the numbers in each combination of categories", {
  fit <- flash_kde(iris[c(1, 2, 5)], "kde", 0.3, categorical = categorical_kernel(smoothing = 0.1))
  modes <- kde_modes(fit)
  expect_named(modes, c(names(iris)[c(1, 2, 5)], "density", "share", "mode", "curvature.1", "curvature.2"))
  expect_equal(modes$density, predict(fit, modes[1:3]))
  expect_equal(sum(modes$share), 1)
  clusters <- mean_shift(fit)
  expect_identical(clusters$modes$Species[clusters$cluster], iris$Species)
  expect_identical(predict(clusters, iris), clusters$cluster)
  expect_identical(mean_shift(fit, iris)$cluster, clusters$cluster)
  ridges <- kde_ridges(fit)
  for (species in levels(iris$Species)) {
    alone <- kde_conditional(fit, list(Species = species))
    own <- \(table) unname(as.matrix(table[table$Species == species, 1:2]))
    expect_equal(own(modes), unname(as.matrix(kde_modes(alone)[1:2])))
    literal <- literal_mean_shift(as.matrix(iris[1:2]), c(0.3, 0.3), w = ifelse(iris$Species == species, 0.9, 0.05))
    rows <- iris$Species == species
    expect_within(as.matrix(clusters$modes[1:2])[clusters$cluster[rows], ] / 0.3, literal[rows, ] / 0.3, 1e-5)
    expect_equal(own(ridges), unname(as.matrix(kde_ridges(alone)[1:2])))
  }
  expect_equal(nrow(kde_modes(fit, start = iris[c(1, 60, 120), ])), 3)
})

test_that("kernels with bounded support have second derivatives, modes and ridges, those with kinks do not", {
  x <- as.matrix(faithful)
  aslant <- 0.09 * stats::cov(x)
  for (kernel in c("epanechnikov", "biweight", "triweight")) for (H in list(c(0.4, 6), aslant)) {
    fit <- flash_kde(x, "kde", H, kernel = kernel)
    at <- x[c(1, 7), ] + 0.01
    found <- kde_derivative(fit, at, order = 2)
    step <- c(1e-4, 1e-3)
    slope <- \(k, move) kde_derivative(fit, at + rep(move, each = 2))[, k]
    for (i in 1:2) for (j in 1:2) {
      move <- replace(c(0, 0), j, step[j])
      want <- (slope(i, move) - slope(i, -move)) / (2 * step[j])
      expect_within(unname(found[, i, j]), unname(want), 1e-5 * max(abs(found[, i, j])))
    }
    modes <- kde_modes(fit)
    expect_true(all(modes$mode))
    expect_within(kde_derivative(fit, modes[1:2], log = TRUE), matrix(0, nrow(modes), 2), 1e-8)
    clusters <- mean_shift(fit)
    expect_identical(predict(clusters, x), clusters$cluster)
  }
  line <- flash_kde(x[, 1], "kde", 0.3, kernel = "biweight")
  grid <- seq(1.5, 5.3, length.out = 2001)
  p <- predict(line, grid)
  tops <- grid[which(diff(sign(diff(p))) < 0) + 1]
  expect_within(sort(kde_modes(line, start = tops)[[1]]), tops, 0.002)
  expect_error(kde_modes(flash_kde(x, "kde", 1, kernel = "uniform")), "kinks", class = "flashkernel_error_unsupported")
})

test_that("many modes are printed in part", {
  few <- kde_modes(flash_kde(faithful, "kde"))
  expect_identical(utils::capture.output(print(few)), utils::capture.output(print(as.data.frame(few))))
  many <- kde_modes(flash_kde(100 * 1:50, "kde", bandwidth = 1))
  expect_length(utils::capture.output(print(many)), 12)
  expect_output(print(many), "... and 40 more rows: see as.data.frame()", fixed = TRUE)
})
