# Estimates on bounded and circular domains, against the formulas of ?kde_support written out.

set.seed(4)
waits <- rexp(60)
heavy <- runif(60, 0.5, 2)
shares <- rbeta(50, 1, 2)
hours <- (23 + 4 * rnorm(70)) %% 24

# sum_i w_i k(y - image of x_i) over images, K the kernel of sd h_i: a matrix of places by points
image_kernels <- function(y, images, h) {
  Reduce(`+`, lapply(images, \(x) t(dnorm(outer(x, y, "-") / h) / h)))
}

integral <- function(f, edges) {
  sum(vapply(seq_along(edges)[-1], \(i) integrate(f, edges[i - 1], edges[i], rel.tol = 1e-11)$value, 0))
}

expect_score <- function(fit, y, tolerance = 1e-7) {
  y <- as.matrix(y)
  step <- 1e-5
  slopes <- vapply(seq_len(ncol(y)), \(k) {
    by <- replace(y * 0, cbind(seq_len(nrow(y)), k), step)
    up <- predict(fit, y + by, type = "log_density")
    (up - predict(fit, y - by, type = "log_density")) / (2 * step)
  }, numeric(nrow(y)))
  expect_equal(unname(predict(fit, y, type = "score")), matrix(slopes, nrow(y)), tolerance = tolerance)
}

plot_quietly <- function(fit, ...) {
  grDevices::pdf(NULL)
  on.exit(grDevices::dev.off())
  plot(fit, ...)
}

test_that("a reflected estimate is the sum over points and images", {
  y <- c(0, 0.01, 0.3, 2, 5)
  factors <- rep(c(0.5, 1, 2), 20)
  reflect <- kde_support(c(0, Inf), "reflect")
  fit <- flash_kde(waits, "kde", 0.4, weights = heavy, support = reflect, adaptive = factors)
  kernels <- image_kernels(y, list(waits, -waits), 0.4 * factors)
  expect_equal(predict(fit, y), drop(kernels %*% heavy) / sum(heavy), tolerance = 1e-13)
  expect_equal(predict(fit, c(-1, NA, 1)), c(0, NA, predict(fit, 1)))
  expect_equal(predict(fit, -1, type = "log_density"), -Inf)

  p <- predict(fit, y)
  variance <- drop(kernels^2 %*% heavy^2) / sum(heavy)^2 - p^2 * sum(heavy^2) / sum(heavy)^2
  expect_equal(predict(fit, y, se.fit = TRUE)$se.fit, sqrt(variance), tolerance = 1e-10)

  below <- \(q) drop(vapply(seq_along(waits), \(i) {
    (pnorm(q, waits[i], 0.4 * factors[i]) - pnorm(0, waits[i], 0.4 * factors[i])) +
      (pnorm(q, -waits[i], 0.4 * factors[i]) - pnorm(0, -waits[i], 0.4 * factors[i]))
  }, q) %*% heavy) / sum(heavy)
  expect_equal(kde_cdf(fit, c(-1, y, Inf)), c(0, below(y), 1), tolerance = 1e-13)
  expect_equal(quantile(fit, c(0, 1), names = FALSE), c(0, Inf))
})

test_that("an isolated point by its own image keeps its digits when it is left out", {
  x <- c(0.01, 30 + waits)
  fit <- flash_kde(x, "kde", 1, support = kde_support(c(0, Inf), "reflect"))
  terms <- -(0.01 - x[-1])^2 / 2
  expected <- max(terms) + log(sum(exp(terms - max(terms)))) - log(sqrt(2 * pi) * 60)
  expect_equal(predict(fit, type = "log_density", loo = TRUE)[1], expected, tolerance = 1e-12)
})

test_that("between two bounds images have images", {
  y <- c(0, 0.2, 0.9, 1)
  images <- unlist(lapply(-9:9, \(k) list(shares + 2 * k, 2 * k - shares)), recursive = FALSE)
  for (estimator in c("kde", "laplace")) {
    fit <- flash_kde(shares, estimator, 0.7, support = kde_support(c(0, 1), "reflect"))
    u <- lapply(images, \(x) outer(y, x, "-") / 0.7)
    factor <- if (estimator == "kde") \(u) 1 else \(u) 1.5 - u^2 / 2
    expected <- rowMeans(Reduce(`+`, lapply(u, \(u) factor(u) * dnorm(u) / 0.7)))
    expect_equal(predict(fit, y), expected, tolerance = 1e-13)
  }
})

test_that("an SD-KDE moves points and images along the score of both", {
  x <- waits[1:40]
  y <- c(0, 0.5, 2)
  all <- c(x, -x)
  terms <- dnorm(outer(x, all, "-") / 0.4)
  score <- -rowSums(terms * outer(x, all, "-")) / rowSums(terms) / 0.4^2
  moved <- x + 0.5^2 / 2 * score
  fit <- flash_kde(x, "sdkde", 0.5, debias = debiasing(bandwidth = 0.4), support = kde_support(c(0, Inf), "reflect"))
  expect_equal(predict(fit, y), rowMeans(image_kernels(y, list(moved, -moved), 0.5)), tolerance = 1e-13)
  expect_null(summary(fit)$loglik)
})

test_that("an SD-KDE with images in one column and masses in another has each as it should be", {
  x <- cbind(waits, rep_len(shares, 60))
  y <- rbind(c(0, 0.1), c(0.6, 0.9))
  mass <- \(x) pnorm((1 - x[, 2]) / 0.3) - pnorm(-x[, 2] / 0.3)
  both <- rbind(x, cbind(-x[, 1], x[, 2]))
  score <- t(apply(x, 1, \(at) {
    apart <- t(t(both) - at)
    kernel <- dnorm(apart[, 1], 0, 0.4) * dnorm(apart[, 2], 0, 0.3) / mass(both)
    colSums(kernel * apart) / sum(kernel) / c(0.4, 0.3)^2
  }))
  moved <- x + t(c(0.4, 0.3)^2 / 2 * t(score))
  left <- moved[, 2] < 0 | moved[, 2] > 1
  moved[left, ] <- x[left, ]
  support <- list(kde_support(c(0, Inf), "reflect"), kde_support(c(0, 1), "mass"))
  fit <- flash_kde(x, "sdkde", c(0.4, 0.3), debias = debiasing(bandwidth = c(0.4, 0.3)), support = support)
  kernels <- image_kernels(y[, 1], list(moved[, 1], -moved[, 1]), 0.4) * image_kernels(y[, 2], list(moved[, 2]), 0.3)
  expect_equal(predict(fit, y), rowMeans(t(t(kernels) / mass(moved))), tolerance = 1e-12)
  # left out of the score, too
  of <- \(rows) flash_kde(x[rows, ], "sdkde", c(0.4, 0.3), debias = debiasing(bandwidth = c(0.4, 0.3)), support = support)
  want <- vapply(c(1, 30), \(i) predict(of(setdiff(1:40, i)), x[i, , drop = FALSE]), 0)
  expect_equal(predict(of(1:40), loo = TRUE)[c(1, 30)], want, tolerance = 1e-11)
})

test_that("circular columns have images a period away", {
  y <- c(0, 5, 23.9)
  fit <- flash_kde(hours, "kde", 3, support = kde_circle(24))
  wrapped <- rowMeans(image_kernels(y, lapply(-9:9, \(k) hours + 24 * k), 3))
  expect_equal(predict(fit, y), wrapped, tolerance = 1e-13)
  expect_equal(predict(fit, y - 48), predict(fit, y), tolerance = 1e-12)
  expect_equal(flash_kde(hours + 240, "kde", 3, support = kde_circle(24))$x, fit$x, tolerance = 1e-12)
  expect_equal(predict(flash_kde(hours + 240, "kde", 3, support = kde_circle(24)), y), wrapped, tolerance = 1e-12)
  expect_equal(kde_cdf(fit, c(0, 24)), c(0, 1), tolerance = 1e-13)
  # one turned by six hours, the others with it
  chosen <- \(x) coef(flash_kde(x, "kde", support = kde_circle(24), adaptive = FALSE))
  expect_equal(chosen((hours + 6) %% 24), chosen(hours), tolerance = 1e-3)
})

test_that("a transformed estimate is that of the transformed points times the derivative", {
  y <- c(0.1, 0.6, 0.95)
  supports <- list(c(0, Inf), c(-Inf, 1), c(0, 1), c(-1, 3))
  maps <- list(log, \(x) -log(1 - x), qnorm, \(x) qnorm((x + 1) / 4))
  slopes <- list(\(x) 1 / x, \(x) 1 / (1 - x), \(x) 1 / dnorm(qnorm(x)), \(x) 1 / dnorm(qnorm((x + 1) / 4)) / 4)
  for (i in seq_along(supports)) for (estimator in c("kde", "sdkde", "laplace")) {
    fit <- flash_kde(shares, estimator, 0.5, support = kde_support(supports[[i]], "transform"))
    there <- flash_kde(maps[[i]](shares), estimator, 0.5)
    expect_equal(predict(fit, y), predict(there, maps[[i]](y)) * slopes[[i]](y), tolerance = 1e-12)
    se <- predict(there, maps[[i]](y), se.fit = TRUE)$se.fit * slopes[[i]](y)
    expect_equal(predict(fit, y, se.fit = TRUE)$se.fit, se, tolerance = 1e-11)
    expect_equal(kde_cdf(fit, y), kde_cdf(there, maps[[i]](y)), tolerance = 1e-13)
  }
  fit <- flash_kde(shares, support = kde_support(c(0, 1), "transform"))
  expect_equal(predict(fit, c(0, 1)), c(0, 0))
  edges <- c(0, 10^(-6:-1), 0.5, 1 - 10^(-1:-6), 1)
  expect_equal(integral(\(y) predict(fit, y), edges), 1, tolerance = 1e-8)
})

# Literally: f exp(f_L / f - 1) for bounds a < b, not divided by its integral.
jones_foster <- function(y, x, w, h, a, b) {
  moment <- function(l, y) {
    integrate(\(u) u^l * dnorm(u), max((y - b) / h, -40), min((y - a) / h, 40), rel.tol = 1e-11)$value
  }
  vapply(y, \(y) {
    u <- (y - x) / h
    S <- vapply(0:1, \(l) sum(w * u^l * dnorm(u)) / h / sum(w), 0)
    m <- vapply(0:2, moment, 0, y = y)
    plain <- S[1] / m[1]
    plain * exp((m[3] * S[1] - m[2] * S[2]) / (m[1] * m[3] - m[2]^2) / plain - 1)
  }, 0)
}

test_that("a boundary kernel is Jones and Foster's, of integral 1", {
  for (range in list(c(0, Inf), c(-Inf, 9), c(0, 9), c(0, 30))) {
    y <- c(0, 0.2, 2, 8.9)
    fit <- flash_kde(waits, "kde", 0.8, weights = heavy, support = kde_support(range, "boundary"))
    edges <- sort(unique(pmin(pmax(c(range, -4:12), -8, range[1]), 16, range[2])))
    total <- integral(\(y) jones_foster(y, waits, heavy, 0.8, range[1], range[2]), edges)
    expect_equal(predict(fit, y), jones_foster(y, waits, heavy, 0.8, range[1], range[2]) / total, tolerance = 1e-9)
    expect_equal(integral(\(y) predict(fit, y), edges), 1, tolerance = 1e-9)
    expect_equal(kde_cdf(fit, 0.7), integral(\(y) predict(fit, y), c(edges[edges < 0.7], 0.7)), tolerance = 1e-9)
    expect_score(fit, c(0.2, 2, 5))
    expect_equal(kde_cdf(fit, quantile(fit, c(0.001, 0.5, 0.99))), c(0.001, 0.5, 0.99), tolerance = 1e-11)
  }
  one_out <- jones_foster(waits[3], waits[-3], heavy[-3], 0.8, 0, Inf)
  fit <- flash_kde(waits, "kde", 0.8, weights = heavy, support = kde_support(c(0, Inf), "boundary"))
  total <- integral(\(y) jones_foster(y, waits, heavy, 0.8, 0, Inf), c(0:8, 16))
  expect_equal(predict(fit, loo = TRUE)[3], one_out / total, tolerance = 1e-9)
})

# Literally, with `range` the bounds and z the map to the whole line: not divided by its integral.
local_quadratic <- function(y, x, w, h, z, one = dnorm(0) * sum(w^2) / sum(w)) {
  vapply(z(y), \(y) {
    u <- (z(x) - y) / h
    k <- w * dnorm(u)
    m <- sum(k * u) / sum(k)
    v <- (sum(k * (u - m)^2) + one) / (sum(k) + one)
    sum(k) / h / sum(w) * exp(-m^2 / (2 * v)) / sqrt(v)
  }, 0)
}

test_that("a local likelihood estimate fits a parabola to the log density of the transformed points", {
  supports <- list(c(0, Inf), c(-Inf, 9), c(-1, 9))
  maps <- list(log, \(x) -log(9 - x), \(x) qnorm((x + 1) / 10))
  backs <- list(exp, \(z) 9 - exp(-z), \(z) 10 * pnorm(z) - 1)
  y <- c(0.01, 0.3, 2, 7)
  for (i in seq_along(supports)) {
    z <- maps[[i]]
    slope <- \(y) (z(y + 1e-6) - z(y - 1e-6)) / 2e-6
    fit <- flash_kde(waits, "kde", 0.8, weights = heavy, support = kde_support(supports[[i]], "local"))
    of <- \(y) local_quadratic(y, waits, heavy, 0.8, z)
    total <- integral(\(z) of(backs[[i]](z)), seq(min(z(waits)) - 6, max(z(waits)) + 6, by = 0.5))
    expect_equal(predict(fit, y), of(y) * slope(y) / total, tolerance = 1e-7)
    edges <- unique(backs[[i]](c(-30:8)))
    expect_equal(integral(\(y) predict(fit, y), edges), 1, tolerance = 1e-8)
    expect_score(fit, y[-1])
    expect_equal(kde_cdf(fit, 0.7), integral(\(y) predict(fit, y), c(edges[edges < 0.7], 0.7)), tolerance = 1e-8)
    expect_equal(kde_cdf(fit, quantile(fit, c(0.001, 0.5, 0.99))), c(0.001, 0.5, 0.99), tolerance = 1e-10)
    expect_equal(predict(fit, supports[[i]]), c(0, 0))
    one <- dnorm(0) * sum(heavy^2) / sum(heavy)
    without <- local_quadratic(waits[3], waits[-3], heavy[-3], 0.8, z, one)
    expect_equal(predict(fit, loo = TRUE)[3], without * slope(waits[3]) / total, tolerance = 1e-7)
    expect_equal(quantile(fit, c(0, 1), names = FALSE), supports[[i]])
  }
})

test_that("each kernel is divided by its mass inside", {
  y <- c(0, 0.4, 1)
  fit <- flash_kde(shares, "kde", 0.3, support = kde_support(c(0, 1), "mass"))
  mass <- pnorm((1 - shares) / 0.3) - pnorm(-shares / 0.3)
  kernels <- t(t(image_kernels(y, list(shares), 0.3)) / mass)
  expect_equal(predict(fit, y), rowMeans(kernels), tolerance = 1e-13)
  p <- predict(fit, y)
  se <- sqrt(rowSums(kernels^2) / 50^2 - p^2 / 50)
  expect_equal(predict(fit, y, se.fit = TRUE)$se.fit, se, tolerance = 1e-10)
  expect_equal(kde_cdf(fit, 0.4), mean((pnorm((0.4 - shares) / 0.3) - pnorm(-shares / 0.3)) / mass), tolerance = 1e-13)
})

test_that("the mass of a Gaussian in a polygon is its integral", {
  H <- matrix(c(0.3, 0.2, 0.2, 0.4), 2)
  # a square with a square hole, whose first ring goes the wrong way round
  rings <- list(rbind(c(0, 0), c(0, 2), c(2, 2), c(2, 0)), rbind(c(0.5, 0.5), c(1, 0.5), c(1, 1), c(0.5, 1)))
  points <- rbind(c(0.1, 1.9), c(1.5, 1.5), c(0.2, 0.3))
  in_box <- function(at, low, high) {
    slope <- H[2, 1] / H[1, 1]
    sd <- sqrt(H[2, 2] - H[2, 1]^2 / H[1, 1])
    given <- \(x) at[2] + slope * (x - at[1])
    integrate(\(x) {
      dnorm(x, at[1], sqrt(H[1, 1])) * (pnorm(high, given(x), sd) - pnorm(low, given(x), sd))
    }, low, high, rel.tol = 1e-12)$value
  }
  expected <- apply(points, 1, \(at) in_box(at, 0, 2) - in_box(at, 0.5, 1))
  fit <- flash_kde(points, "kde", H, support = rings)
  expect_equal(fit$inner$weights, 1 / expected, tolerance = 1e-11)
  distance <- mahalanobis(points, c(1.5, 0.2), H)
  density <- mean(exp(-distance / 2) / (2 * pi * sqrt(det(H))) / expected)
  expect_equal(predict(fit, rbind(c(1.5, 0.2), c(0.7, 0.7), c(3, 0))), c(density, 0, 0), tolerance = 1e-11)

  # rings as package sf keeps them, and a box as a polygon
  closed <- lapply(rings, \(ring) rbind(ring, ring[1, ]))
  of_sf <- structure(list(closed), class = c("XY", "MULTIPOLYGON", "sfg"))
  of_sf <- structure(list(of_sf), class = c("sfc_MULTIPOLYGON", "sfc"))
  weights_of <- \(support, H) flash_kde(points, "kde", H, support = support)$inner$weights
  expect_identical(weights_of(of_sf, H), fit$inner$weights)
  expect_equal(weights_of(kde_support(c(0, 2), "mass"), H), weights_of(rings[[1]], H), tolerance = 1e-13)
  expect_equal(weights_of(rings, H / 1e6), rep(1, 3), tolerance = 1e-13)
  # moments of a box are those of its sides
  box <- as_rings(rbind(c(-1, -2), c(1.5, -2), c(1.5, 9), c(-1, 9)))
  moments <- polygon_mass(cbind(0.3, c(-1, 4)), box, diag(2), NULL, run_control(CONTROL_DEFAULTS), moments = TRUE)
  of_box <- \(y) as.vector(outer(interval_moments(-1.3, 1.2), interval_moments(-2 - y, 9 - y)))
  expect_equal(moments, rbind(of_box(-1), of_box(4)), tolerance = 1e-12)
})

test_that("columns of all kinds go together", {
  set.seed(2)
  x <- cbind(wait = rexp(80), place = rnorm(80), angle = (350 + 40 * rnorm(80)) %% 360)
  y <- rbind(c(0.2, 0.1, 2), c(1, -1, 300))
  sds <- c(wait = 0.4, place = 0.5, angle = 30)
  support <- list(angle = kde_circle(360), wait = kde_support(c(0, Inf), "reflect"))
  fit <- flash_kde(x, "kde", sds, support = support)
  others <- function(y) {
    image_kernels(y[, 2], list(x[, 2]), 0.5) * image_kernels(y[, 3], lapply(-3:3, \(k) x[, 3] + 360 * k), 30)
  }
  expect_kernels <- function(fit, of_wait, tolerance) {
    kernel <- \(y) of_wait(y[, 1]) * others(y)
    at_points <- kernel(x)
    expect_equal(predict(fit, y), rowMeans(kernel(y)), tolerance = tolerance)
    expect_equal(predict(fit, loo = TRUE), (rowSums(at_points) - diag(at_points)) / 79, tolerance = 1e-10)
  }
  expect_kernels(fit, \(wait) image_kernels(wait, list(x[, 1], -x[, 1]), 0.4), 1e-13)
  expect_score(fit, y)
  by_position <- list(kde_support(c(0, Inf), "reflect"), NULL, kde_circle(360))
  expect_identical(predict(flash_kde(x, "kde", sds, support = by_position), y), predict(fit, y))

  # a transformed column beside an angle
  mixed <- flash_kde(x, "kde", sds, support = replace(support, "wait", list(kde_support(c(0, Inf), "transform"))))
  expect_kernels(mixed, \(wait) image_kernels(log(wait), list(log(x[, 1])), 0.4) / wait, 1e-12)
  expect_score(mixed, y)

  # marginals: the estimates of the columns alone
  grid <- plot_quietly(fit)$marginals
  expect_equal(grid$wait$y, rowMeans(image_kernels(grid$wait$x, list(x[, 1], -x[, 1]), 0.4)), tolerance = 1e-12)
  expect_equal(range(grid$wait$x)[1], 0)
  expect_equal(range(grid$angle$x), c(0, 360))
})

test_that("figures end at the bounds", {
  for (method in c("transform", "local", "reflect", "boundary", "mass")) {
    fit <- flash_kde(waits, "kde", 0.5, support = kde_support(c(0, Inf), method))
    grid <- plot_quietly(fit)
    expect_gte(min(grid$x), 0)
  }
  corners <- rbind(c(0, 0), c(1, 0), c(0, 1))
  x <- matrix(c(0.2, 0.5, 0.1, 0.3, 0.2, 0.7), 3)
  grid <- plot_quietly(flash_kde(x, "kde", 0.2, support = corners))
  expect_true(all(grid$z[outer(grid$x, grid$y, "+") > 1.01] == 0))
  skip_if_not_installed("ggplot2")
  expect_s3_class(ggplot2::autoplot(flash_kde(waits, "kde", 0.5, support = c(0, Inf))), "ggplot")
})

test_that("selected bandwidths make the left-out likelihood largest", {
  for (method in c("reflect", "boundary", "mass")) {
    fit <- flash_kde(waits, "kde", support = kde_support(c(0, Inf), method), adaptive = FALSE)
    there <- \(factor) as.numeric(logLik(update(fit, bandwidth = factor * coef(fit))))
    expect_gt(there(1) + 1e-3, max(there(0.9), there(1.1)))
  }
  set.seed(3)
  x <- cbind(runif(150), 100 * runif(150)^2)
  fit <- flash_kde(x, "kde", support = kde_support(c(0, Inf), "reflect"), bandwidth = kde_bandwidth(structure = "diagonal"), adaptive = FALSE)
  there <- \(by) as.numeric(logLik(update(fit, bandwidth = kde_bandwidth(method = by * coef(fit), structure = "auto"))))
  expect_gt(there(c(1, 1)) + 0.1, max(there(c(0.7, 1)), there(c(1.4, 1)), there(c(1, 0.7)), there(c(1, 1.4))))
})

test_that("transformed columns beside circular ones, and rounded ones, have bandwidths of their own coordinates", {
  set.seed(9)
  x <- cbind(size = 1000 * rexp(150), angle = (30 + 40 * rnorm(150)) %% 360)
  support <- list(size = kde_support(c(0, Inf), "transform"), angle = kde_circle(360))
  fit <- flash_kde(x, "kde", support = support, adaptive = FALSE, bandwidth = kde_bandwidth(structure = "diagonal"))
  there <- \(by) as.numeric(logLik(update(fit, bandwidth = kde_bandwidth(method = by * coef(fit), structure = "auto"))))
  expect_gt(there(1) + 0.1, max(there(c(0.7, 1)), there(c(1.4, 1)), there(c(1, 0.7)), there(c(1, 1.4))))
  adaptive <- update(fit, adaptive = TRUE, bandwidth = kde_bandwidth(structure = "auto"))
  expect_lt(max(abs(log(coef(adaptive) / coef(fit)))), log(3))

  exact <- rgamma(300, 2)
  of <- \(x) coef(flash_kde(x, "kde", support = kde_support(c(0, Inf), "transform"), adaptive = FALSE))
  expect_equal(of(round(exact, 1) + 0.05), of(exact), tolerance = 0.2)
})

test_that("the method that is chosen suits the density at the bound", {
  set.seed(1)
  chosen <- \(x, support) flash_kde(x, support = support)$support$kind
  expect_equal(chosen(rbeta(300, 0.4, 0.4), c(0, 1)), "local")
  expect_true(chosen(runif(300), c(0, 1)) %in% c("reflect", "boundary"))
  expect_true(chosen(c(0, rexp(300)), c(0, Inf)) %in% c("reflect", "boundary")) # a point on the bound
  # what is for one bandwidth of "kde" alone is not taken for others
  x <- rexp(200)
  for (estimator in c("sdkde", "laplace")) {
    expect_true(flash_kde(x, estimator, support = c(0, Inf))$support$kind %in% c("reflect", "transform"))
  }
  expect_true(flash_kde(x, adaptive = TRUE, support = c(0, Inf))$support$kind %in% c("reflect", "transform"))
  # beside the unbounded estimate
  x <- rexp(500)
  y <- seq(0.005, 6, 0.01)
  error <- \(fit) sum((predict(fit, y) - dexp(y))^2) * 0.01
  expect_lt(error(flash_kde(x, support = c(0, Inf))), error(flash_kde(x)) / 2)
})

test_that("adaptive factors go by the estimate on its domain", {
  set.seed(6)
  x <- c(rexp(150, 20), rexp(100, 0.2))
  fit <- flash_kde(x, "kde", support = kde_support(c(0, Inf), "reflect"))
  expect_gt(fit$adaptive$gain, 0.02)
  one <- update(fit, adaptive = FALSE)
  expect_gt(as.numeric(logLik(fit)), as.numeric(logLik(one)))
  expect_length(fit$adaptive$factors, 250)
  expect_equal(kde_cdf(fit, c(0, Inf)), c(0, 1), tolerance = 1e-12)
  pilot <- predict(update(one, bandwidth = 2 * coef(one)), loo = TRUE)
  expect_gt(stats::cor(fit$adaptive$factors, -pilot, method = "spearman"), 0.85)
})

test_that("fits on a support are shown, keep their points, and lose nothing far from the origin", {
  frame <- data.frame(wait = replace(waits, 7, NA), w = heavy)
  fit <- flash_kde(~wait, data = frame, weights = w, support = list(wait = c(0, Inf)), na.action = na.exclude)
  expect_output(print(fit), "Support: [0, Inf)", fixed = TRUE)
  expect_output(print(summary(fit)), "Support: [0, Inf)", fixed = TRUE)
  expect_identical(fit$x[, "wait"], waits[-7])
  expect_output(print(diagnostics(fit)), "Computed")
  expect_output(print(kde_circle(24)), "period 24")
  expect_null(flash_kde(waits, "kde", 1, support = c(-Inf, Inf))$support)

  # far from the origin
  near <- flash_kde(waits, "sdkde", 0.5, support = kde_support(c(0, Inf), "reflect"))
  offset <- 2^30
  far <- flash_kde(waits + offset, "sdkde", 0.5, support = kde_support(c(offset, Inf), "reflect"))
  y <- c(0, 0.5, 3)
  expect_equal(predict(far, y + offset), predict(near, y), tolerance = 1e-6)
  expect_equal(kde_cdf(far, y + offset), kde_cdf(near, y), tolerance = 1e-6)
})

test_that("one column of the debiased positive part has its negative mass told", {
  fit <- flash_kde(shares, "laplace", 0.2, support = kde_support(c(0, 1), "reflect"))
  nodes <- (seq_len(20000) - 0.5) / 20000
  expected <- mean(pmax(-predict(fit, nodes), 0))
  mass <- diagnostics(fit)$negative_mass
  expect_lt(abs(mass$value - expected), 4 * mass$se + 1e-6)
})

test_that("what does not go is refused in words", {
  refuses <- function(expr, text, kind = "argument") {
    expect_error(expr, text, fixed = TRUE, class = paste0("flashkernel_error_", kind))
  }
  reflect <- kde_support(c(0, Inf), "reflect")
  refuses(flash_kde(c(waits, -1), support = c(0, Inf)), "found -1 in row 61")
  refuses(flash_kde(cbind(a = waits), support = list(b = c(0, 1))), "found `b`")
  refuses(flash_kde(cbind(a = waits, b = 1), support = list(c(0, 1))), "for each of 2 columns")
  refuses(flash_kde(waits, support = c(1, 0)), "lower < upper")
  refuses(flash_kde(waits, support = "positive"), "lower < upper")
  refuses(flash_kde(c(0, waits), support = kde_support(c(0, Inf), "transform")), "inside its bounds")
  refuses(kde_support(c(0, 1), "beta"), "must be one of")
  refuses(flash_kde(rep(1, 20), support = c(0, Inf)), "must vary")
  refuses(kde_circle(-1), "positive")
  refuses(flash_kde(cbind(waits, waits), support = kde_support(c(0, Inf), "boundary")), "one column only")
  boundary <- kde_support(c(0, Inf), "boundary")
  refuses(flash_kde(waits, "sdkde", support = boundary), "use \"reflect\"", "unsupported")
  refuses(flash_kde(waits, "laplace", support = kde_support(c(0, Inf), "mass")), "not available for \"laplace\"", "unsupported")
  refuses(flash_kde(shares, "kde", 20, support = kde_support(c(0, 1), "reflect")), "at most ten times")
  refuses(flash_kde(cbind(waits, waits), support = kde_support(c(0, Inf), "local")), "one column only")
  local <- kde_support(c(0, Inf), "local")
  refuses(flash_kde(waits, "sdkde", support = local), "use \"reflect\"", "unsupported")
  refuses(flash_kde(waits, adaptive = "balloon", support = reflect), "balloon")
  refuses(flash_kde(waits, adaptive = "knn", support = reflect), "abramson", "unsupported")
  full <- matrix(c(1, 0.5, 0.5, 1), 2)
  refuses(flash_kde(cbind(waits, waits^2), "kde", full, support = reflect), "must not correlate")
  refuses(flash_kde(cbind(waits, waits^2), "kde", bandwidth = kde_bandwidth(structure = "full"), support = reflect), "\"diagonal\"")
  refuses(flash_kde(cbind(waits, waits), support = cbind(c(0, 1, 2), c(0, 1, 2))), "area")
  refuses(flash_kde(cbind(waits, waits, waits), support = cbind(c(0, 1, 1), c(0, 0, 1))), "two columns only")
  corners <- cbind(c(0, 1, 1), c(0, 0, 1))
  refuses(flash_kde(cbind(waits, waits), "kde", 1, support = corners), "must lie in its support")
})

test_that("columns whose bounds no point is near have no images", {
  set.seed(4)
  data <- data.frame(near = stats::rexp(40), far = stats::rnorm(40, 50), other = stats::rexp(40))
  fit <- flash_kde(data, "kde", bandwidth = 0.4, support = kde_support(c(0, Inf), "reflect"))
  grDevices::pdf(NULL)
  on.exit(grDevices::dev.off())
  drawn <- expect_no_warning(plot(fit))$marginals
  for (name in names(data)) {
    alone <- flash_kde(data[name], "kde", bandwidth = 0.4, support = kde_support(c(0, Inf), "reflect"))
    expect_equal(drawn[[name]]$y, predict(alone, drawn[[name]]$x), tolerance = 1e-6, info = name)
  }
})

test_that("a ring of one vertex is refused in words", {
  expect_argument_error(flash_kde(faithful, support = cbind(1, 2)), "support")
  expect_argument_error(kde_support(matrix(0, 0, 2)), "support")
})

test_that("rings of a polygon may cross themselves and each other: inside is what an odd number surrounds", {
  bow <- rbind(c(0, 0), c(1, 1), c(1, 0), c(0, 1))
  in_bow <- \(y) abs(y[, 2] - 0.5) <= abs(y[, 1] - 0.5) & y[, 1] >= 0 & y[, 1] <= 1
  area <- \(support) sum(vapply(kde_support(support)$polygon, ring_area, 0))
  expect_equal(area(bow), 1 / 2)
  angle <- 4 * pi * (0:4) / 5
  star <- cbind(cos(angle), sin(angle))
  # five points, without the middle, which the star goes round twice
  inner <- cos(2 * pi / 5) / cos(pi / 5) # of the radius
  expect_equal(area(star), 5 * inner * sin(pi / 5) - 5 / 2 * inner^2 * sin(2 * pi / 5))
  crossing <- list(rbind(c(0, 0), c(1, 0), c(1, 1), c(0, 1)), rbind(c(0.5, 0.5), c(1.2, 0.5), c(1.2, 1.2), c(0.5, 1.2)))
  expect_equal(area(crossing), 1 + 0.49 - 2 * 0.25)
  beside <- list(rbind(c(0, 0), c(1, 0), c(1, 1), c(0, 1)), rbind(c(1, 0), c(1.2, 0), c(1.2, 1), c(1, 1)))
  expect_equal(area(beside), 1.2)
  at_corner <- list(rbind(c(0, 0), c(1, 0), c(1, 1), c(0, 1)), rbind(c(1, 1), c(1.2, 1), c(1.2, 1.2), c(1, 1.2)))
  expect_equal(area(at_corner), 1.04)

  # sides that overlap, and many that meet in one point
  set.seed(8)
  walk <- matrix(sample(0:4, 60, TRUE), 30) / 4
  middles <- (seq_len(500) - 0.4987) / 500
  grid <- as.matrix(expand.grid(middles, middles + 1e-4))
  expect_equal(area(walk), mean(in_rings(grid, list(rbind(walk, walk[1, ])))), tolerance = 3e-3)

  points <- rbind(c(0.1, 0.5), c(0.9, 0.6), c(0.2, 0.3))
  mass <- apply(points, 1, \(at) stats::integrate(\(x) {
    half <- abs(x - 0.5)
    dnorm(x, at[1], 0.3) * (pnorm(0.5 + half, at[2], 0.3) - pnorm(0.5 - half, at[2], 0.3))
  }, 0, 1, rel.tol = 1e-12)$value)
  for (support in list(bow, bow[4:1, ], list(bow))) {
    fit <- flash_kde(points, "kde", 0.3, support = support)
    expect_equal(fit$inner$weights, 1 / mass, tolerance = 1e-11)
    expect_identical(predict(fit, rbind(c(0.5, 0.9), c(0.5, 0.1))), c(0, 0))
    expect_true(all(in_bow(as.matrix(simulate(fit, 200, seed = 1)))))
  }
  # the star as its five points, triangles that meet in corners
  turn <- \(angle, radius) radius * c(cos(angle), sin(angle))
  triangles <- lapply(2 * pi * (0:4) / 5, \(at) {
    rbind(turn(at, 1), turn(at + pi / 5, inner), turn(at - pi / 5, inner))
  })
  expect_equal(sum(vapply(kde_support(triangles)$polygon, ring_area, 0)), area(star))
  tips <- 0.7 * star
  weights_of <- \(support) flash_kde(tips, "kde", 0.3, support = support)$inner$weights
  expect_equal(weights_of(star), weights_of(triangles), tolerance = 1e-12)
  fit <- flash_kde(tips, "kde", 0.3, support = star)
  expect_true(all(predict(fit, rbind(c(0, 0), turn(pi / 5, 0.5))) == 0))
  by_parts <- vapply(triangles, \(one) {
    alone <- kde_support(one)$polygon
    polygon_mass(tips[1, , drop = FALSE], alone, diag(0.3, 2), NULL, run_control(CONTROL_DEFAULTS))
  }, 0)
  expect_equal(fit$inner$weights[1], 1 / sum(by_parts), tolerance = 1e-12)
  for (line in list(rbind(c(0, 0), c(1, 1), c(2, 2)), rbind(c(0, 0), c(1, 0), c(1, 1), c(1, 0)))) {
    expect_argument_error(kde_support(line), "support")
  }
})

test_that("the memory of a fit on a support is reckoned by what it copies, and refused in words", {
  x <- abs(sin(seq_len(5000)))
  bounds <- kde_support(c(0, Inf), "reflect")
  limited <- \(limit, ...) {
    flash_kde(x, bandwidth = 0.3, support = bounds, control = flash_control(memory_limit = limit), ...)
  }
  expect_argument_error(limited(2e4), "x")
  expect_error(limited(2e4), "40 kB")
  expect_argument_error(limited(1e5, estimator = "sdkde"), "x")
  expect_error(limited(1e5, estimator = "sdkde"), "160 kB") # the score and its sums, too
  expect_s3_class(limited(1e7, estimator = "kde"), "flash_kde")
})

# A domain as check_support() makes it.
domain_of <- function(kind, lower, upper) {
  list(kind = kind, lower = lower, upper = upper, polygon = NULL, names = paste0("x", seq_along(kind)))
}

test_that("images are those that are in reach of the bounds, and are counted before they are made", {
  domain <- domain_of(c("reflect", "reflect", "circular", "free"), c(0, 2, -1, -Inf), c(1, Inf, 3, Inf))
  set.seed(8)
  points <- cbind(c(0, 1, runif(8)), 2 + 9 * rexp(10), runif(10, -1, 3), rnorm(10))
  for (h in c(0.02, 0.3, 1, 4)) {
    reach <- pmin(12 * h, sqrt(c(1, Inf, 4)^2 + 75 * h^2))
    turns <- -60:60
    candidates <- list(
      c(outer(points[, 1], 2 * turns, "+"), outer(-points[, 1], 2 * turns, "+")), 4 - points[, 2],
      outer(points[, 3], 4 * turns[turns != 0], "+")
    )
    for (k in 1:3) {
      found <- column_images(points[, k], domain, k, h)
      want <- candidates[[k]]
      if (k == 1) want <- want[-(60 * 10 + 1:10)] # the points themselves
      want <- want[want >= domain$lower[k] - reach[k] & want <= c(1, Inf, 3)[k] + reach[k]]
      expect_equal(sort(found$at), sort(want), tolerance = 1e-14)
    }
    made <- with_images(domain, points, rep(h, 4), NULL)
    expect_equal(tabulate(made$row, 10), image_counts(domain, points, rep(h, 4)))
  }
})

test_that("sums of products over columns are the sums over all images", {
  domain <- domain_of(
    c("reflect", "reflect", "circular", "mass", "free", "reflect"), c(0, 0, 0, 0, -Inf, -Inf), c(1, Inf, 1, 1, Inf, 2)
  )
  set.seed(9)
  points <- cbind(runif(40), rexp(40), runif(40), runif(40), rnorm(40), 2 - rexp(40))
  points[1, ] <- c(0, 0, 0, 0, 0, 2)
  weights <- replace(runif(40), 3, 0)
  run <- start_run(settle_control(flash_control(backend = "cpu")))
  at <- points[40:21, ] / 2
  for (sds in list(rep(0.05, 6), rep(0.3, 6), c(0.7, 0.7, 0.2, 0.5, 1, 0.3), c(0.24, 1, 0.12, 0.2, 1, 1))) {
    L <- diag(sds)
    for (factors in list(NULL, rep(c(0.5, 1, 2), length.out = 40))) {
      product <- \(at, loo) log_product_sum(domain, mass_sources(domain, points, weights, L, factors, run), L, at, loo)
      sources <- domain_sources(domain, points, weights, L, factors, run)
      sources$L <- L
      expect_equal(
        product(at, FALSE)$log_abs, log_sum(rows_of(sources, TRUE), at, PLAIN_FACTOR, FALSE, run)$log_abs,
        tolerance = 1e-11
      )
      left_out <- left_out_sum(sources, 40, PLAIN_FACTOR, run)$log_abs
      # of sums below 1e-31 kernels, images that are not made may be a part
      near <- which(left_out > -60)
      expect_equal(product(NULL, TRUE)$log_abs[near], left_out[near], tolerance = 1e-9)
    }
  }
})

test_that("the search for a bandwidth ends where the estimate is uniform, within its seconds and the memory limit", {
  set.seed(1)
  fits <- function(n, d, support, ...) flash_kde(matrix(runif(n * d), n), support = support, ...)
  took <- system.time({
    few <- fits(10, 3, c(0, 1))
    many <- fits(200, 4, c(0, 1))
    circle <- fits(10, 3, kde_circle(1))
  })
  # of the processor, which others may share; more than 100 s where nothing ended the search
  expect_lt(sum(took[c("user.self", "sys.self")]), 15)
  # nobody can tell the uniform density from these
  for (fit in list(few, many)) expect_lt(abs(as.numeric(logLik(fit))), 1)
  expect_true(all(coef(few) <= 1))
  expect_true(all(coef(circle) <= 0.5))
  expect_lt(many$inner$n, 2.1e6)

  limited <- fits(10, 3, c(0, 1), control = flash_control(memory_limit = 5e6))
  expect_lt(max(coef(limited)), 1)
  expect_lt(abs(as.numeric(logLik(limited))), 1)
  one <- flash_kde(runif(500), support = kde_support(c(0, 1), "reflect"))
  expect_true(coef(one) <= 1)
  # factors stop there, too
  adaptive <- fits(100, 2, kde_support(c(0, 1), "reflect"), adaptive = TRUE)
  expect_lt(min(adaptive$adaptive$factors) * max(coef(adaptive)), 1.01)
})

test_that("images that do not fit are refused before they are made, with a way out that works", {
  set.seed(2)
  x <- abs(matrix(rnorm(60 * 300), 60))
  reflect <- kde_support(c(0, Inf), "reflect")
  took <- system.time({
    expect_argument_error(flash_kde(x, "kde", 1, support = reflect), "support")
    refused <- expect_argument_error(flash_kde(x, "kde", support = reflect), "support")
    expect_match(conditionMessage(refused), "smaller `bandwidth`.*\"mass\"")
    expect_argument_error(flash_kde(x[, 1:20], "kde", 0.5, support = kde_circle(3)), "support")
  })
  expect_lt(sum(took[c("user.self", "sys.self")]), 5)
  expect_identical(flash_kde(x, "kde", 1e-4, support = reflect)$inner$d, 300L)
  by_mass <- flash_kde(x, "kde", 1, support = kde_support(c(0, Inf), "mass"))
  expect_true(all(is.finite(predict(by_mass, type = "log_density"))))
  # "auto" takes what fits
  expect_true(all(flash_kde(x, "kde", 1, support = c(0, Inf))$support$kind == "transform"))
  expect_true(all(flash_kde(x, support = c(0, Inf))$support$kind == "transform"))
  x[1, ] <- 0
  expect_true(all(flash_kde(x, support = c(0, Inf))$support$kind == "mass"))
  expect_argument_error(flash_kde(x, "laplace", support = c(0, Inf)), "support")
  # of which not even the masses can be told
  expect_argument_error(flash_kde(matrix(0, 20, 1000), "kde", 1, support = c(0, Inf)), "support")
})

test_that("points that are left out are summed by the others where every one is far from all", {
  far <- flash_kde(c(0.01, 99.99), "kde", 0.1, support = kde_support(c(0, 100), "reflect"))
  expect_equal(predict(far, loo = TRUE), c(0, 0))
  expect_equal(as.numeric(logLik(far)), 2 * dnorm(99.98, 0, 0.1, log = TRUE), tolerance = 1e-12)

  # each of them has more from its own image than from all others
  x <- cbind(c(0.01, 7, 14, 21, 28), c(0.02, 0.01, 0.03, 0.05, 0.04))
  w <- c(1, 2, 3, 1, 1)
  fit <- flash_kde(x, "kde", 1, weights = w, support = kde_support(c(0, Inf), "reflect"))
  kernel <- \(y, x) (dnorm(y - x) + dnorm(y + x))
  K <- outer(x[, 1], x[, 1], kernel) * outer(x[, 2], x[, 2], kernel)
  diag(K) <- 0
  expect_equal(predict(fit, loo = TRUE), drop(K %*% w) / (sum(w) - w), tolerance = 1e-12)

  set.seed(1)
  fit <- flash_kde(matrix(rexp(60 * 9), 60), "kde", support = kde_support(c(0, Inf), "reflect"))
  expect_true(is.finite(logLik(fit)))
  signed <- flash_kde(c(0.01, 9, 18), "laplace", 1, support = kde_support(c(0, Inf), "reflect"))
  corrected <- \(y, x) (1.5 - (y - x)^2 / 2) * dnorm(y - x) + (1.5 - (y + x)^2 / 2) * dnorm(y + x)
  K <- outer(c(0.01, 9, 18), c(0.01, 9, 18), corrected)
  diag(K) <- 0
  expect_equal(predict(signed, loo = TRUE), rowSums(K) / 2, tolerance = 1e-12)
})

test_that("standard errors of kernels as wide as the range are those of all pairs of images, and take no time", {
  x <- cbind(c(0.1, 0.4, 0.35, 0.9), c(0.2, 0.8, 0.7, 0.6))
  w <- c(1, 2, 0, 0.5)
  at <- rbind(c(0.5, 0.5), c(0.9, 0.1))
  for (support in list(c(0, 1), kde_circle(1))) for (h in c(0.1, 0.4)) for (adaptive in list(FALSE, c(1, 0.7, 1.2, 0.9))) {
    bounds <- if (is.numeric(support)) kde_support(support, "reflect") else support
    fit <- flash_kde(x, "kde", h, weights = w, support = bounds, adaptive = adaptive)
    sources <- list(points = x, weights = w, factors = if (is.numeric(adaptive)) adaptive)
    L <- fit_factor(fit$inner)
    squares <- log_sum_squares(with_middles(fit$inner), at, FALSE, fit_control(fit))
    expect_equal(log_product_sum(fit$support, sources, L, at, FALSE, power = 2)$log_abs, squares, tolerance = 1e-11)
  }
  wide <- flash_kde(cbind(x, x[4:1, ]), "kde", 0.5, support = kde_support(c(0, 1), "reflect"))
  expect_gt(count_middles(wide$inner), MOST_MIDDLES)
  taken <- system.time(se <- predict(wide, cbind(at, at), se.fit = TRUE)$se.fit)
  expect_true(all(se >= 0 & se < 0.2))
  expect_lt(sum(taken[1:2]), 3)
})

test_that("standard errors outside of a support are 0, without a warning", {
  x <- matrix(c(0.2, 0.35, 0.41, 0.6, 0.7, 0.8), 2)
  for (method in c("transform", "reflect")) {
    fit <- flash_kde(x, "kde", 0.4, support = kde_support(c(0, 1), method))
    all <- expect_silent(predict(fit, rbind(x, 3, c(0.5, 0.5, -1)), se.fit = TRUE))
    expect_identical(all$se.fit, c(predict(fit, x, se.fit = TRUE)$se.fit, 0, 0))
    expect_identical(predict(fit, matrix(3, 2, 3), se.fit = TRUE)$se.fit, c(0, 0))
  }
})

test_that("a transformed density, its standard error and its derivatives are 0 on the bound", {
  bounds <- list(c(0, 1), c(-Inf, 1), c(0, Inf))
  for (range in bounds) for (estimator in c("kde", "sdkde", "laplace")) {
    fit <- flash_kde(c(0.2, 0.6, 0.7), estimator, 1, support = kde_support(range, "transform"))
    at <- range[is.finite(range)]
    expect_no_warning(found <- predict(fit, at, se.fit = TRUE))
    expect_identical(found, list(fit = 0 * at, se.fit = 0 * at))
    for (order in 1:2) expect_identical(as.vector(kde_derivative(fit, at, order)), 0 * at)
  }
  two <- flash_kde(cbind(a = c(0.2, 0.6), b = 1:2), "kde", 1, support = list(a = kde_support(c(0, 1), "transform")))
  expect_identical(as.vector(kde_derivative(two, cbind(0, 1.5))), c(0, 0))
  local <- flash_kde(c(0.2, 0.7), "kde", 0.24, support = kde_support(c(-Inf, 1), "local"))
  expect_identical(as.vector(kde_derivative(local, c(1, 1 - 1e-6))), c(0, 0))
})

test_that("the method on a support is chosen by the rows of positive weight", {
  one <- c(1, rep(0, 59))
  fit <- flash_kde(waits, "kde", 0.4, weights = one, support = c(0, Inf))
  expect_equal(predict(fit, 1), predict(flash_kde(waits[1], "kde", 0.4, support = c(0, Inf)), 1))
  expect_identical(fit$support$kind, "reflect")
  # rows without weight change no choice
  w <- rep(c(1, 0), c(30, 30))
  kind <- \(...) flash_kde(..., "kde", 0.4, support = c(0, Inf))$support$kind
  expect_identical(kind(waits, weights = w), kind(waits[1:30]))
  expect_error(
    flash_kde(
      cbind(1:2, 3:4), "kde", 0.5, adaptive = TRUE, weights = c(0, 1), support = kde_support(c(0, Inf), "reflect")
    ),
    "`adaptive` needs at least two points of positive weight", class = "flashkernel_error_argument"
  )
})

test_that("the search for a bandwidth on a polygon or by masses ends where the estimate is uniform, and can be drawn from", {
  square <- rbind(c(0, 0), c(0, 1), c(1, 1), c(1, 0))
  set.seed(8)
  x <- matrix(stats::runif(120), 60)
  for (support in list(square, kde_support(c(0, 1), "mass"))) {
    fit <- flash_kde(x, support = support)
    expect_lt(max(bandwidth_sds(fit$bandwidth)), 10.5)
    draws <- as.matrix(simulate(fit, 20, seed = 1))
    expect_true(all(draws >= 0 & draws <= 1))
  }
})
