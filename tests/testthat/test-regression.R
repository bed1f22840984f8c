# Beside literal local least squares, row by row.

# The weights of the responses in the fit at each target, m x n.
smoother <- function(x, at, H, w = rep(1, nrow(x)), linear = TRUE, penalty = 0) {
  t(vapply(seq_len(nrow(at)), \(j) {
    u <- x - rep(at[j, ], each = nrow(x))
    k <- w * exp(-rowSums(u %*% solve(H) * u) / 2)
    X <- if (linear) cbind(1, u) else matrix(1, nrow(x))
    A <- crossprod(X, k * X)
    if (linear) A[-1, -1] <- A[-1, -1] + penalty
    (solve(A) %*% t(k * X))[1, ]
  }, numeric(nrow(x))))
}

# The penalty on slopes: the ridge times the mean weight, in units of the kernel, or of the rows if they vary less.
ridge_penalty <- function(x, H, w, ridge) {
  L <- t(chol(H))
  ridge * mean(w) * L %*% (pmin(1, colMeans(scale(x %*% t(solve(L)), scale = FALSE)^2)) * t(L))
}

regression_case <- function(d, n = 60) {
  set.seed(d)
  x <- matrix(rnorm(n * d), n)
  list(
    x = x, y = cbind(rowSums(sin(x)), x[, 1]^2) + rnorm(2 * n, sd = 0.2) + 1e4, w = runif(n, 0.2, 2),
    H = diag(0.5, d) + 0.2, at = x[1:6, , drop = FALSE] + 0.2
  )
}

test_that("fits, leave-one-out fits, leverages and standard errors are those of local least squares", {
  for (d in 1:3) for (linear in c(TRUE, FALSE)) for (ridge in c(0, 0.7)) {
    case <- regression_case(d)
    fit <- kernel_regression(
      case$x, case$y, if (linear) "local_linear" else "constant", case$H, weights = case$w, ridge = ridge
    )
    penalty <- ridge_penalty(case$x, case$H, case$w, ridge)
    own <- smoother(case$x, case$x, case$H, case$w, linear, penalty)
    expect_equal(unname(fitted(fit)), own %*% case$y, tolerance = 1e-10)
    expect_equal(hatvalues(fit), diag(own), tolerance = 1e-8)
    left_out <- t(vapply(1:8, \(i) {
      l <- smoother(case$x[-i, , drop = FALSE], case$x[i, , drop = FALSE], case$H, case$w[-i], linear, penalty)
      drop(l %*% case$y[-i, ])
    }, numeric(2)))
    expect_equal(fit$left_out[1:8, ], left_out, tolerance = 1e-10)
    l <- smoother(case$x, case$at, case$H, case$w, linear, penalty)
    found <- predict(fit, case$at, se.fit = TRUE)
    expect_equal(unname(found$fit), l %*% case$y, tolerance = 1e-10)
    # what shrinking does to lines with the slopes of the rows
    slopes <- array(predict(fit, type = "gradient"), c(60, d, 2))
    bias <- if (linear) vapply(1:2, \(r) {
      rowMeans(((l %*% case$x - case$at) %*% t(matrix(slopes[, , r], 60)))^2 %*% diag(case$w / mean(case$w)))
    }, numeric(6)) else 0
    square <- l^2 %*% predict(fit, type = "variance") + bias
    expect_equal(unname(found$se.fit), unname(sqrt(square)), tolerance = 1e-8)
    expect_equal(fit$df, sum(diag(own)), tolerance = 1e-10)
  }
})

test_that("squared standard errors of a chosen bandwidth hold a squared bias, at least its local mean", {
  case <- regression_case(1)
  fit <- kernel_regression(case$x, case$y, bandwidth = "aicc", ridge = 0.1)
  penalty <- ridge_penalty(case$x, fit$bandwidth, rep(1, 60), 0.1)
  of <- \(at) smoother(case$x, at, fit$bandwidth, rep(1, 60), TRUE, penalty)
  l <- of(case$at)
  own <- of(case$x)
  missed <- case$y - fitted(fit)
  twice <- fitted(fit) + own %*% missed
  bias <- l %*% (twice - case$y - missed)
  around <- smoother(case$x, case$at, fit$bandwidth, linear = FALSE) %*% (own %*% twice - twice)^2
  shrunk <- drop(l %*% case$x - case$at)^2 %o% colMeans(predict(fit, type = "gradient")[, 1, ]^2)
  square <- l^2 %*% predict(fit, type = "variance") + pmax(bias^2, around)
  expect_equal(unname(predict(fit, case$at, se.fit = TRUE)$se.fit), unname(sqrt(square + shrunk)), tolerance = 1e-6)
})

test_that("the variance of the noise is the local mean of residuals' products, of lone rows that of all", {
  case <- regression_case(1)
  fit <- kernel_regression(case$x, case$y[, 1], bandwidth = 0.5)
  m <- smoother(case$x, case$x, matrix(0.25)) %*% case$y[, 1]
  h <- diag(smoother(case$x, case$x, matrix(0.25)))
  products <- (case$y[, 1] - m)^2 / (1 - h)
  sigma <- sqrt(sum((case$y[, 1] - m)^2) / (60 - sum(h)))
  mean <- smoother(case$x, case$x, matrix(0.25), linear = FALSE) %*% ((1 - h) * products + h * sigma^2)
  expect_equal(predict(fit, type = "variance"), drop(mean), tolerance = 1e-8)
  expect_equal(predict(fit, case$x[1:5, ], type = "variance"), mean[1:5], tolerance = 1e-8)
  expect_equal(sigma(fit), sigma, tolerance = 1e-10)
  alone <- kernel_regression(c(case$x, 50), c(case$y[, 1], 1), bandwidth = 0.5)
  expect_equal(alone$leverage[61], 1)
  expect_equal(predict(alone, type = "variance")[61], alone$sigma^2)
})

# At each of `at` the local mean and line of y given x, of all rows but `left_out`: kernels relative to the largest,
# moments about their own mean.
literal_line <- function(x, y, w, h, at, left_out = NULL) {
  t(vapply(seq_along(at), \(j) {
    keep <- setdiff(which(w > 0), left_out[j])
    u <- (x[keep] - at[j]) / h
    near <- which.min(abs(u))
    k <- w[keep] * exp(-(u - u[near]) * (u + u[near]) / 2)
    p <- k / sum(k)
    mean <- sum(p * y[keep])
    slope <- sum(p * (u - sum(p * u)) * y[keep]) / sum(p * (u - sum(p * u))^2)
    c(mean, mean - slope * sum(p * u))
  }, numeric(2)))
}

test_that("rows in one column are summed to rounding: many and few in a box, far ones, weights of all sizes", {
  set.seed(11)
  shapes <- list(
    rnorm(300), rt(300, 2), round(rnorm(300), 1), rnorm(300, sd = 1e-3), c(rnorm(40), rnorm(9, 30), 60),
    2^20 + rnorm(50)
  )
  for (x in shapes) for (h in c(0.02, 0.3, 5)) {
    n <- length(x)
    y <- cos(x) + rnorm(n)
    w <- list(rep(1, n), 10^runif(n, -25, 0))[[1 + (h == 0.3)]]
    constant <- kernel_regression(x, y, "constant", h, weights = w)
    linear <- kernel_regression(x, y, bandwidth = h, weights = w)
    rows <- sample(n, 20)
    at <- sample(x, 20) + rnorm(20, sd = 2 * h)
    own <- literal_line(x, y, w, h, x[rows])
    expect_equal(constant$fitted[rows], own[, 1], tolerance = 1e-10)
    without <- literal_line(x, y, w, h, x[rows], rows)
    expect_equal(constant$left_out[rows], without[, 1], tolerance = 1e-9)
    there <- literal_line(x, y, w, h, at)
    expect_equal(predict(constant, at), there[, 1], tolerance = 1e-9)
    # lines where slopes are known
    known <- linear$leverage[rows] < 0.9
    expect_equal(linear$fitted[rows][known], own[known, 2], tolerance = 1e-7)
  }
  with_threads <- \(threads) kernel_regression(x, y, bandwidth = h, control = flash_control(threads = threads))$fitted
  expect_identical(with_threads(2), with_threads(1))
})

test_that("rows of weight 0 that all kernels are far from have leverage 0", {
  fit <- kernel_regression(mtcars$wt, mtcars$mpg, bandwidth = 0.01, weights = c(1, 1, rep(0, 30)))
  expect_equal(fit$leverage, c(1, 1, rep(0, 30)))
  expect_equal(fit$df, 2)
})

test_that("gradients are the slopes of local lines, or derivatives of the local mean", {
  case <- regression_case(2)
  u <- case$x - rep(case$at[3, ], each = 60)
  k <- exp(-rowSums(u %*% solve(case$H) * u) / 2)
  line <- stats::lm.wfit(cbind(1, u), case$y, k)$coefficients[-1, ]
  fit <- kernel_regression(case$x, case$y, bandwidth = case$H)
  found <- predict(fit, case$at, type = "gradient")
  expect_equal(dim(found), c(6, 2, 2))
  expect_equal(unname(found[3, , ]), unname(line), tolerance = 1e-8)
  step <- 1e-4
  mean_at <- \(at) drop(smoother(case$x, at, case$H, linear = FALSE) %*% (case$y[, 1] - 1e4))
  slope <- vapply(1:2, \(k) {
    by <- rep(replace(c(0, 0), k, step), each = 6)
    (mean_at(case$at + by) - mean_at(case$at - by)) / (2 * step)
  }, numeric(6))
  constant <- kernel_regression(case$x, case$y[, 1], "constant", case$H)
  expect_equal(unname(predict(constant, case$at, type = "gradient")), slope, tolerance = 1e-6)
})

# The weights of the responses in the fit at each row of `at`, of numbers and factors.
mixed_smoother <- function(x, levels, at, at_levels, h, lambda, w, linear) {
  t(vapply(seq_len(nrow(at)), \(j) {
    u <- x - rep(at[j, ], each = nrow(x))
    k <- w * exp(-rowSums((u / rep(h, each = nrow(x)))^2) / 2)
    for (name in names(lambda)) {
      f <- levels[[name]]
      steps <- abs(as.integer(f) - as.integer(at_levels[[name]][j]))
      count <- nlevels(f)
      l <- lambda[[name]]
      k <- k * if (is.ordered(f)) l^steps else ifelse(steps == 0, 1 - l, l / (count - 1))
    }
    X <- if (linear) cbind(1, u) else matrix(1, nrow(x))
    (solve(crossprod(X, k * X)) %*% t(k * X))[1, ]
  }, numeric(nrow(x))))
}

test_that("factors have kernels of levels: fits, leave-one-out fits, errors and slopes beside literal ones", {
  set.seed(13)
  n <- 150
  f <- data.frame(f = factor(sample(letters[1:3], n, TRUE)), o = factor(sample(4, n, TRUE), ordered = TRUE))
  w <- runif(n, 0.5, 1)
  lambda <- c(f = 0.1, o = 0.3)
  for (d in 0:2) for (linear in unique(c(FALSE, d > 0))) {
    x <- matrix(rnorm(n * d), n, dimnames = list(NULL, c("a", "b")[seq_len(d)]))
    data <- cbind(as.data.frame(x), f)
    h <- c(a = 0.4, b = 0.8)[seq_len(d)]
    y <- rowSums(sin(x)) + as.integer(f$f) + rnorm(n)
    fit <- kernel_regression(
      data, y, if (linear) "local_linear" else "constant", if (d > 0) h, weights = w, categorical = categorical_kernel(lambda)
    )
    own <- mixed_smoother(x, f, x, f, h, lambda, w, linear)
    expect_equal(fitted(fit), drop(own %*% y), tolerance = 1e-10)
    expect_equal(hatvalues(fit), diag(own), tolerance = 1e-9)
    left_out <- vapply(1:8, \(i) {
      here <- x[i, , drop = FALSE]
      sum(mixed_smoother(x[-i, , drop = FALSE], f[-i, ], here, f[i, ], h, lambda, w[-i], linear) * y[-i])
    }, 0)
    expect_equal(fit$left_out[1:8], left_out, tolerance = 1e-10)
    l <- mixed_smoother(x, f, x[5:9, , drop = FALSE] + 0.1, f[1:5, ], h, lambda, w, linear)
    at <- cbind(as.data.frame(x[5:9, , drop = FALSE] + 0.1), f[1:5, ])
    found <- predict(fit, at[rev(names(at))], se.fit = TRUE)
    expect_equal(found$fit, drop(l %*% y), tolerance = 1e-10)
    expect_equal(found$se.fit, drop(sqrt(l^2 %*% predict(fit, type = "variance"))), tolerance = 1e-8)
    if (!linear || d != 1) next
    slope <- kernel_regression(x[f$f == "b", 1], y[f$f == "b"], bandwidth = 0.4, weights = w[f$f == "b"])
    alone <- kernel_regression(y ~ a + f, cbind(data, y), bandwidth = 0.4, weights = w, categorical = categorical_kernel(0))
    slopes <- predict(alone, type = "gradient")[f$f == "b", 1]
    expect_equal(slopes, drop(predict(slope, type = "gradient")), tolerance = 1e-8)
  }
})

test_that("lambdas are chosen with the bandwidth, and levels that no row has see the nearest", {
  set.seed(14)
  data <- data.frame(x = runif(120), f = factor(sample(letters[1:3], 120, TRUE)), g = factor(sample(2, 120, TRUE)))
  data$y <- sin(4 * data$x) + as.integer(data$f) + rnorm(120, sd = 0.3)
  fit <- kernel_regression(y ~ x + f + g, data, bandwidth = "cv", ridge = 0)
  value_at <- function(h, lambda) {
    other <- kernel_regression(y ~ x + f + g, data, bandwidth = h, categorical = categorical_kernel(lambda))
    mean((data$y - other$left_out)^2) / var(data$y)
  }
  h <- sqrt(fit$bandwidth[1])
  lambda <- fit$discrete$lambda
  expect_equal(fit$search$value, value_at(h, lambda))
  for (by in c(0.8, 1.25)) {
    expect_lte(fit$search$value, value_at(by * h, lambda))
    for (name in c("f", "g")) {
      other <- replace(lambda, name, min(by * lambda[[name]], c(f = 2 / 3, g = 1 / 2)[[name]]))
      expect_lte(fit$search$value, value_at(h, other) + 1e-5)
    }
  }
  # f matters, g does not
  expect_lt(lambda[["f"]], 0.2)
  expect_gt(lambda[["g"]], 0.2)
  given <- kernel_regression(y ~ x + f + g, data, bandwidth = 0.1, categorical = categorical_kernel(c(g = 0.5)))
  expect_equal(given$discrete$lambda[["g"]], 0.5)
  expect_equal(given$bandwidth[1], 0.01)
  apart <- kernel_regression(y ~ f + g, subset(data, !(f == "a" & g == "2")), categorical = categorical_kernel(c(f = 0, g = 0)))
  means <- tapply(data$y, data[c("f", "g")], mean)
  # rows that differ in g count half as much again as those in f, of three levels, as lambdas go to 0
  counts <- c(sum(data$f == "a" & data$g == "1"), table(data$f, data$g)[2:3, "2"])
  near <- weighted.mean(c(means["a", "1"], means["b", "2"], means["c", "2"]), c(3, 2, 2) * counts)
  expect_equal(predict(apart, data.frame(f = "a", g = "2")), near, tolerance = 1e-6)
  expect_equal(predict(apart, data.frame(f = "b", g = "1")), means["b", "1"], tolerance = 1e-6)
  expect_error(predict(apart, data.frame(f = "z", g = "1")), "categories", class = "flashkernel_error_argument")
})

test_that("rows of other categories are moved by their effects, so that lm() is one of the fits", {
  given <- function(data, h = 0.5, ridge = 0.01, lambda = 0.3) {
    kernel_regression(
      Sepal.Width ~ Sepal.Length + Species, data, bandwidth = h, ridge = ridge, categorical = categorical_kernel(lambda)
    )
  }
  line <- lm(Sepal.Width ~ Sepal.Length + Species, iris)
  flat <- given(iris, 1e4, 1e-9, 0.66)
  expect_equal(flat$fitted[, 1], unname(fitted(line)), tolerance = 1e-3)
  expect_equal(flat$df, 4, tolerance = 1e-2)
  expect_equal(predict(flat, type = "gradient")[, 1], rep(coef(line)[[2]], 150), tolerance = 1e-2)
  errors <- predict(flat, iris[c(1, 60, 120), ], se.fit = TRUE)$se.fit
  expect_equal(errors, unname(predict(line, iris[c(1, 60, 120), ], se.fit = TRUE)$se.fit), tolerance = 0.02)
  fit <- given(iris)
  expect_equal(predict(fit, iris), fit$fitted[, 1])
  for (i in c(1, 60, 120)) {
    expect_equal(predict(given(iris[-i, ]), iris[i, ]), fit$left_out[i, 1], tolerance = 1e-8)
    more <- given(within(iris, Sepal.Width[i] <- Sepal.Width[i] + 1))
    expect_equal(more$fitted[i, 1] - fit$fitted[i, 1], fit$leverage[i], tolerance = 1e-8)
  }
  # at its largest lambda a column has no effects
  alone <- kernel_regression(Sepal.Width ~ Sepal.Length, iris, bandwidth = 0.5, ridge = 0.01)
  expect_equal(given(iris, lambda = 2 / 3)$fitted, alone$fitted)
})

test_that("where levels of all other rows differ so much that their weights underflow, the mean of all is left", {
  far <- as.data.frame(lapply(seq_len(30), \(k) factor(1:6)), col.names = paste0("f", 1:30))
  alone <- kernel_regression(cbind(far, x = 1:6), (1:6)^2, bandwidth = 1, categorical = categorical_kernel(0))
  expect_equal(alone$left_out[, 1], rep(mean((1:6)^2), 6))
  expect_equal(alone$fitted[, 1], (1:6)^2)
})

test_that("methods know levels", {
  data <- transform(iris, wide = Sepal.Width > 3)
  data$Species[2] <- NA
  fit <- kernel_regression(
    Petal.Width ~ Sepal.Length + Species + wide, data, bandwidth = 0.5, categorical = categorical_kernel(0.1), na.action = na.exclude
  )
  expect_equal(which(is.na(fitted(fit))), 2)
  expect_equal(predict(fit, data), fitted(fit), tolerance = 1e-10)
  expect_equal(colnames(predict(fit, type = "gradient")), "Sepal.Length")
  expect_output(print(summary(fit)), "Lambda: +Species 0.1, wide 0.1")
  grDevices::pdf(NULL)
  on.exit(grDevices::dev.off())
  shown <- plot(fit, n = 5)
  expect_equal(levels(shown$Species$value), levels(iris$Species))
  at <- data.frame(Sepal.Length = median(data$Sepal.Length[-2]), Species = levels(iris$Species), wide = FALSE)
  expect_equal(shown$Species$estimate, predict(fit, at))
  skip_if_not_installed("ggplot2")
  expect_no_error(ggplot2::ggplot_build(ggplot2::autoplot(fit, n = 5)))
  skip_if_not_installed("broom")
  expect_equal(broom::tidy(fit)$lambda, c(NA, 0.1, 0.1))
  expect_equal(broom::augment(fit)$wide, data$wide[-2])
})

test_that("a very wide kernel gives the straight line, or the mean", {
  line <- lm(dist ~ speed, cars)
  wide <- kernel_regression(dist ~ speed, cars, bandwidth = 1e6)
  expect_equal(fitted(wide), unname(fitted(line)), tolerance = 1e-8)
  expect_equal(wide$df, 2, tolerance = 1e-6)
  expect_equal(summary(wide)$slopes[, "Mean"], coef(line)[[2]], tolerance = 1e-6)
  expect_equal(wide$sigma, sigma(line), tolerance = 1e-6)
  expect_equal(fitted(kernel_regression(dist ~ speed, cars, "constant", 1e6)), rep(mean(cars$dist), 50))
})

test_that("bandwidths make the criterion least", {
  set.seed(5)
  x <- matrix(runif(240), 120)
  y <- sin(6 * x[, 1]) + rnorm(120, sd = 0.3)
  literal <- function(sds, type, criterion) {
    L <- smoother(x, x, diag(sds^2), linear = type == "local_linear", penalty = ridge_penalty(x, diag(sds^2), 1, 0.01))
    e <- y - L %*% y
    # AICc counts the bandwidths that matter
    trace <- sum(diag(L)) + sum(sds < 10)
    # of responses over their standard deviation
    if (criterion == "cv") mean((e / (1 - diag(L)))^2) / var(y) else {
      log(mean(e^2) / var(y)) + (1 + trace / 120) / (1 - (trace + 2) / 120)
    }
  }
  for (type in c("local_linear", "constant")) for (criterion in c("cv", "aicc")) {
    fit <- kernel_regression(x, y, type, criterion)
    sds <- sqrt(diag(fit$bandwidth))
    expect_equal(fit$search$value, literal(sds, type, criterion), tolerance = 1e-6)
    for (k in 1:2) for (by in c(0.8, 1.25)) {
      expect_lte(fit$search$value, literal(replace(sds, k, by * sds[k]), type, criterion) + 1e-5)
    }
    # the second column does not matter
    if (type == "constant" && criterion == "cv") expect_gt(sds[2], 3 * sds[1])
  }
})

test_that("heavy tails of a column do not keep the search from narrow bandwidths", {
  set.seed(15)
  x <- rt(500, 1)
  y <- sin(2 * x) + rnorm(500, sd = 0.3)
  fit <- kernel_regression(x, y)
  expect_true(fit$search$converged)
  at <- vapply(sd(x) * c(0.005, 0.01, 0.02, 0.04), \(h) {
    mean((y - kernel_regression(x, y, bandwidth = h)$left_out)^2) / var(y)
  }, 0)
  expect_lte(fit$search$value, min(at))
})

test_that("a search that begins with a part of the rows ends at a minimum over all", {
  set.seed(12)
  x <- matrix(runif(1400), 700, dimnames = list(NULL, c("a", "b")))
  y <- sin(9 * x[, 1]) + x[, 2]^2 + rnorm(700, sd = 0.3)
  fit <- kernel_regression(x, y, "constant", "cv")
  value_at <- \(sds) mean((y - kernel_regression(x, y, "constant", sds)$left_out)^2) / var(y)
  sds <- sqrt(diag(fit$bandwidth))
  expect_equal(fit$search$rows, 700)
  expect_equal(fit$search$value, value_at(sds))
  for (k in 1:2) for (by in c(0.8, 1.25)) expect_lte(fit$search$value, value_at(replace(sds, k, by * sds[k])))
})

test_that("many rows are searched by some of them, whatever their order", {
  set.seed(6)
  x <- rnorm(400)
  y <- sin(3 * x) + rnorm(400, sd = 0.2)
  some <- kernel_regression(x, y, rows = 100)
  expect_equal(some$search$rows, 100)
  order <- sample(400)
  expect_equal(kernel_regression(x[order], y[order], rows = 100)$bandwidth, some$bandwidth)
  expect_equal(sqrt(some$bandwidth[1] / kernel_regression(x, y)$bandwidth[1]), 1, tolerance = 0.5)
})

test_that("intervals cover, where the noise varies, too", {
  set.seed(7)
  x <- runif(2000)
  y <- 2 * x + (0.1 + x) * rnorm(2000)
  fit <- kernel_regression(x, y, bandwidth = 0.05)
  at <- c(0.1, 0.3, 0.5, 0.7, 0.9)
  noise <- predict(fit, at, interval = "prediction")
  expect_equal(unname((noise[, 3] - noise[, 2]) / 2 / (1.96 * (0.1 + at))), rep(1, 5), tolerance = 0.12)
  hits <- rowMeans(vapply(1:40, \(i) {
    x <- runif(150)
    fit <- kernel_regression(x, 2 * x + (0.1 + x) * rnorm(150), bandwidth = 0.15)
    inside <- predict(fit, at, interval = "confidence")
    inside[, 2] < 2 * at & 2 * at < inside[, 3]
  }, logical(5)))
  expect_gt(mean(hits), 0.88)
})

test_that("fits hold far from the rows, far from the origin and in many bandwidths", {
  x <- c(1, 2, 3, 4.5)
  y <- c(5, 1, 4, 2)
  constant <- kernel_regression(x, y, "constant", 0.1)
  expect_equal(predict(constant, c(-1e4, 1e4)), c(5, 2))
  linear <- kernel_regression(x, y, bandwidth = 0.1)
  expect_true(all(is.finite(unlist(predict(linear, c(-1e4, 1e4), se.fit = TRUE)))))
  # the nearest row's, whose error is that row's, however far
  far <- predict(constant, c(-1e3, -1e9, 20, 1e9), se.fit = TRUE)
  expect_equal(far$se.fit, sqrt(predict(constant, type = "variance")[c(1, 1, 4, 4)]))
  # a line along which the rows do not vary
  expect_equal(predict(kernel_regression(cbind(x, 1), y, bandwidth = 0.7), cbind(2, 1)), predict(
    kernel_regression(x, y, bandwidth = 0.7), 2
  ))
  case <- regression_case(2)
  near <- kernel_regression(case$x, case$y, bandwidth = case$H)
  there <- kernel_regression(case$x + 2^40, case$y, bandwidth = case$H)
  moved <- (case$x + 2^40) - 2^40
  expect_equal(fitted(there), fitted(kernel_regression(moved, case$y, bandwidth = case$H)), tolerance = 1e-8)
  # several boxes
  wide <- rbind(case$x, case$x + 5000, case$x - 1e9)
  fit <- kernel_regression(wide, rep(case$y[, 1], 3), bandwidth = case$H)
  expect_equal(fitted(fit)[61:120], fitted(near)[, 1], tolerance = 1e-8, ignore_attr = TRUE)
  expect_equal(fit$left_out[1:60], near$left_out[, 1], tolerance = 1e-8)
})

test_that("a row that is nearly alone has the leave-one-out fit of the others", {
  set.seed(8)
  x <- c(rnorm(30), 6)
  y <- c(rnorm(30), 3)
  fit <- kernel_regression(x, y, "constant", 0.5)
  k <- exp(-(x[31] - x[-31])^2 / 2 / 0.25)
  expect_lt(sum(k), 1e-10)
  expect_equal(fit$left_out[31], sum(k * y[-31]) / sum(k), tolerance = 1e-9)
  tiny <- kernel_regression(x, y, "constant", 0.01)
  expect_equal(tiny$left_out[31], y[which.max(x[-31])])
})

test_that("a tolerance is kept, in the tails and without the row, too", {
  set.seed(9)
  x <- c(rt(20000, 2))
  y <- sin(x) + rnorm(20000, sd = 0.1)
  exact <- kernel_regression(x, y, bandwidth = 0.1)
  fast <- kernel_regression(x, y, bandwidth = 0.1, tol = 1e-6, control = flash_control(engine = "fast"))
  expect_lt(max(abs(fitted(fast) - fitted(exact))), 1e-5)
  # beside a row that is nearly alone a line is extrapolated
  expect_lt(max(abs(fast$left_out - exact$left_out) * (1 - exact$leverage)), 1e-5)
  expect_false(identical(fitted(fast), fitted(exact)))
})

test_that("weights are copies of rows, and rows of weight 0 do not count", {
  set.seed(10)
  x <- rnorm(40)
  y <- x^2 + rnorm(40)
  w <- rep(c(1, 2, 0), length.out = 40)
  fit <- kernel_regression(x, y, bandwidth = 0.5, weights = w)
  copies <- kernel_regression(rep(x, w), rep(y, w), bandwidth = 0.5)
  expect_equal(predict(fit, c(-1, 0, 1)), predict(copies, c(-1, 0, 1)), tolerance = 1e-10)
  expect_equal(fit$r.squared, copies$r.squared)
  expect_equal(nobs(fit), sum(w > 0))
  expect_equal(predict(kernel_regression(x, y, weights = w), 1), predict(
    kernel_regression(x[w > 0], y[w > 0], weights = w[w > 0]), 1
  ))
})

test_that("missing values go by na.action", {
  data <- transform(cars, speed = replace(speed, 3, NA), dist = replace(dist, 5, NA))
  omit <- kernel_regression(dist ~ speed, data, bandwidth = 3)
  expect_equal(omit$n, 48)
  expect_equal(fitted(omit), fitted(kernel_regression(dist ~ speed, cars[-c(3, 5), ], bandwidth = 3)))
  exclude <- kernel_regression(dist ~ speed, data, bandwidth = 3, na.action = na.exclude)
  expect_equal(which(is.na(fitted(exclude))), c(3, 5))
  expect_equal(which(is.na(residuals(exclude))), c(3, 5))
  expect_equal(predict(exclude, interval = "confidence")[-c(3, 5), 1], fitted(omit))
  expect_equal(which(is.na(predict(omit, data))), 3)
  expect_error(kernel_regression(dist ~ speed, data, na.action = na.fail), class = "flashkernel_error_argument")
})

test_that("methods have what others have", {
  fit <- kernel_regression(mpg ~ wt + hp, mtcars, bandwidth = c(hp = 60, wt = 0.8))
  expect_equal(diag(fit$bandwidth), c(0.64, 3600))
  expect_equal(predict(fit), fitted(fit))
  expect_equal(residuals(fit), mtcars$mpg - fitted(fit))
  expect_equal(predict(fit, mtcars[5:9, c("hp", "wt")]), fitted(fit)[5:9], tolerance = 1e-10)
  expect_equal(formula(fit), mpg ~ wt + hp, ignore_attr = TRUE)
  expect_equal(update(fit, . ~ . - hp, bandwidth = 0.8)$d, 1)
  h <- c(0.8, 60)
  expect_equal(predict(kernel_regression(mtcars[c("wt", "hp")], mtcars$mpg, bandwidth = h), mtcars), fitted(fit))
  expect_equal(fitted(kernel_regression(mtcars, mpg ~ wt + hp, bandwidth = h)), fitted(fit))
  expect_equal(fitted(kernel_regression(formula = mpg ~ wt + hp, data = mtcars, bandwidth = h)), fitted(fit))
  both <- kernel_regression(cbind(mpg, qsec) ~ wt, mtcars, bandwidth = 0.5)
  expect_equal(fitted(both)[, "mpg"], fitted(kernel_regression(mpg ~ wt, mtcars, bandwidth = 0.5)))
  expect_equal(
    dimnames(predict(both, mtcars, interval = "confidence"))[2:3], list(c("fit", "lwr", "upr"), c("mpg", "qsec"))
  )
  expect_output(print(fit), "local linear.*R-squared")
  expect_output(print(summary(both)), "Slopes.*mpg wt")
  file <- tempfile()
  on.exit(unlink(file))
  saveRDS(fit, file)
  expect_identical(predict(readRDS(file), mtcars), predict(fit, mtcars))
})

test_that("confint() returns the ends of predict()", {
  data <- transform(airquality, Month = factor(Month))
  fit <- kernel_regression(cbind(Ozone, Temp) ~ Wind + Month, data, bandwidth = 3, weights = Day, na.action = na.exclude)
  ends <- predict(fit, interval = "confidence", level = 0.9)[, -1, ]
  dimnames(ends)[[2]] <- c("5 %", "95 %")
  expect_identical(confint(fit, level = 0.9), ends)
  expect_identical(confint(fit, 7:5, 0.9), ends[7:5, , ])
  one <- update(fit, Ozone ~ .)
  new <- data.frame(Wind = c(9, NA, 11), Month = factor(5:7))
  expect_equal(unname(confint(one, new)), unname(predict(one, new, interval = "confidence")[, -1]))
  expect_identical(dimnames(confint(one, new, na.action = na.omit)), list(NULL, c("2.5 %", "97.5 %")))
  expect_argument_error(confint(one, 154), "parm")
  expect_argument_error(confint(one, level = 2), "level")
})

test_that("dates and times are numbers of days and seconds, with names on axes", {
  data <- data.frame(day = as.Date("2024-01-01") + 0:59, z = 1:60 %% 7, g = gl(2, 1, 60), y = sin(1:60 / 9))
  data$time <- as.POSIXct("2024-03-01", tz = "UTC") + 3600 * (1:60)^1.5
  plain <- transform(data, day = as.numeric(day), time = as.numeric(time))
  new <- data.frame(day = as.Date(c("2024-01-09", NA, "2024-02-03")), z = 3, g = "2", time = data$time[8:6])
  new_plain <- transform(new, day = as.numeric(day), time = as.numeric(time))
  for (columns in list("day", c("time", "day"), c("z", "day", "g"))) {
    fit <- kernel_regression(reformulate(columns, "y"), data)
    of_frame <- kernel_regression(data[columns], data$y)
    numbers <- kernel_regression(plain[columns], plain$y)
    expect_identical(fitted(fit), fitted(numbers))
    for (own in list(fit, of_frame)) {
      expect_identical(predict(own, new, se.fit = TRUE), predict(numbers, new_plain, se.fit = TRUE))
    }
    figure <- regression_figure(of_frame, NULL, "confidence", 0.95, 20, 6, TRUE, NULL)
    expect_equal(range(figure$shown$day$value), range(data$day))
    expect_true(any(figure$panels$day$x$ticks == as.numeric(as.Date("2024-02-15"))))
    expect_s3_class(augment.kernel_regression(fit)$day, "Date")
    grDevices::pdf(NULL)
    plot(fit)
    grDevices::dev.off()
  }
  alone <- kernel_regression(data$time, data$y, bandwidth = 1e5)
  expect_identical(predict(alone, data$time[3:4]), predict(alone, plain$time[3:4]))
  expect_argument_error(predict(fit, transform(new, day = as.POSIXct(day))), "newdata")
  expect_argument_error(predict(alone, new$day), "newdata")
})

test_that("plots show the fit and its band", {
  grDevices::pdf(NULL)
  on.exit(grDevices::dev.off())
  fit <- kernel_regression(dist ~ speed, cars, bandwidth = 3)
  shown <- plot(fit, n = 11)
  at <- data.frame(speed = seq(4, 25, length.out = 11))
  expect_equal(shown$speed$estimate, predict(fit, at))
  expect_equal(shown$speed$low, predict(fit, at, interval = "confidence")[, 2])
  two <- kernel_regression(mpg ~ wt + hp, mtcars, bandwidth = c(0.8, 60))
  parts <- plot(two, variables = "hp", interval = "none")
  at <- data.frame(wt = median(mtcars$wt), hp = parts$hp$value)
  expect_equal(parts$hp$estimate, predict(two, at))
  expect_silent(plot(kernel_regression(cbind(mpg, qsec) ~ wt, mtcars, bandwidth = 0.5), interval = "prediction"))
  skip_if_not_installed("ggplot2")
  expect_s3_class(ggplot2::autoplot(two), "ggplot")
  expect_no_error(ggplot2::ggplot_build(ggplot2::autoplot(fit)))
})

test_that("broom's functions have rows for slopes, fits and rows", {
  skip_if_not_installed("broom")
  fit <- kernel_regression(mpg ~ wt + hp, mtcars, bandwidth = c(0.8, 60))
  expect_equal(broom::tidy(fit)$estimate, unname(colMeans(predict(fit, type = "gradient"))))
  expect_equal(broom::glance(fit)$r.squared, 1 - sum(residuals(fit)^2) / sum((mtcars$mpg - mean(mtcars$mpg))^2))
  expect_equal(broom::augment(fit)$.resid, residuals(fit))
  few <- mtcars[1:3, ]
  expect_equal(broom::augment(fit, newdata = few, se.fit = TRUE)$.se.fit, predict(fit, few, se.fit = TRUE)$se.fit)
})

test_that("what cannot be is refused in words", {
  refused <- \(expr, text) expect_error(expr, text, class = "flashkernel_error_argument")
  refused(kernel_regression(iris[, 1:2], iris$Species), "flash_kda")
  refused(kernel_regression(Sepal.Width ~ Sepal.Length, iris, categorical = categorical_kernel(0.1)), "`categorical`")
  refused(kernel_regression(Sepal.Width ~ Species, iris, bandwidth = 1), "`bandwidth`")
  refused(kernel_regression(iris[5], iris$Sepal.Width, categorical = categorical_kernel(0.7)), "Aitchison-Aitken")
  refused(kernel_regression(1:3, 1:2), "one value per row")
  refused(kernel_regression(1:3, c(1, Inf, 2)), "`y` must be finite")
  for (size in c(1e-200, 1e200)) refused(kernel_regression(1:3, cbind(1:3, size * 1:3)), "`y` must .*rescale the response")
  refused(kernel_regression(1:3, 1:3, bandwidth = "plugin"), "`bandwidth`")
  refused(kernel_regression(1:3, 1:3, bw = 1), "did you mean")
  refused(kernel_regression(rep(1, 9), 1:9), "must vary")
  refused(kernel_regression(1, 1, bandwidth = 1), "two rows")
  refused(kernel_regression(~speed, cars), "response")
  fit <- kernel_regression(dist ~ speed, cars, bandwidth = 3)
  refused(predict(fit, data.frame(dist = 1)), "`speed`")
  refused(predict(fit, type = "gradient", se.fit = TRUE), "`type`")
  expect_equal(predict(fit, cars[0, ][1, , drop = FALSE]), NA_real_)
})

test_that("a prediction far from the rows warns by how much it multiplies errors, and names the row", {
  fit <- kernel_regression(mpg ~ wt, mtcars, bandwidth = 1.04)
  # weights l_i of the responses: predictions of unit vectors
  weights_at <- \(at) vapply(seq_len(32), \(i) {
    predict(kernel_regression(mtcars$wt, as.double(seq_len(32) == i), bandwidth = 1.04), at)
  }, numeric(length(at)))
  factors <- rowSums(abs(suppressWarnings(weights_at(c(3, 5.4, 8.1, 10, 20)))))
  expect_lt(max(factors[1:2]), 2)
  at <- data.frame(wt = c(a = 3, b = NA, c = 5.4, d = 10, e = 8.1), row.names = letters[1:5])
  expect_warning(
    predict(fit, at), paste0("rows d, e of .* up to ", format(factors[4], digits = 2)),
    class = "flashkernel_warning_extrapolated"
  )
  expect_warning(predict(fit, data.frame(wt = c(3, 10)), interval = "prediction"), "at row 2 of")
  suppressWarnings(predict(fit, at), classes = "flashkernel_warning_extrapolated") |> expect_no_warning()
  found <- local_predictions(fit, matrix(c(3, 5.4, 8.1, 10, 20)), FALSE, FALSE, start_run(fit$control))$multiplied
  expect_equal(found[3:5], factors[3:5], tolerance = 1e-8)
  expect_identical(found[1:2], c(1, 1))
  expect_no_warning(predict(update(fit, type = "constant"), at))
  # in two columns, with levels, and with so many rows that some are looked at
  rows <- transform(mtcars, cyl = factor(cyl))
  mixed <- kernel_regression(mpg ~ wt + hp + cyl, rows, bandwidth = c(1, 50), categorical = categorical_kernel(0.3))
  expect_warning(predict(mixed, data.frame(wt = c(3, 12), hp = c(100, 600), cyl = "6")), "at row 2 of")
  expect_warning(predict(fit, data.frame(wt = seq(12, 13, length.out = 1e5))), "and perhaps at others")
})

test_that("predictions among the rows do not warn, left out of folds neither", {
  set.seed(1)
  quiet <- function(formula, data, bandwidth) {
    expect_no_warning(predict(kernel_regression(formula, data, bandwidth = bandwidth), data))
    folds <- sample(rep_len(1:5, nrow(data)))
    for (k in 1:5) {
      fit <- kernel_regression(formula, data[folds != k, ], bandwidth = bandwidth)
      expect_no_warning(predict(fit, data[folds == k, ], interval = "confidence"))
    }
  }
  quiet(waiting ~ eruptions, faithful, 0.44)
  quiet(dist ~ speed, cars, 4.9)
  quiet(mpg ~ wt + hp, mtcars, c(4.5, 46))
  quiet(mag ~ lat + long + depth + stations, quakes[seq(1, 1000, 4), ], c(2.6, 6.3, 135, 26))
  expect_warning(
    predict(kernel_regression(Fertility ~ ., swiss[-45, ], bandwidth = c(2131, 4.5, 7.2, 188, 18)), swiss[45, ]),
    "V. De Geneve"
  )
})

test_that("where few rows carry a line it shrinks to the local mean, and errors grow with the distance", {
  fit <- kernel_regression(mpg ~ wt, mtcars)
  expect_equal(fit[c("selector", "ridge")], list(selector = "aicc", ridge = 0.01))
  at <- data.frame(wt = c(5, 6, 8, 10, 1e4))
  expect_warning(found <- predict(fit, at, se.fit = TRUE), "at rows .* of `newdata` .*slopes shrink to 0")
  expect_true(all(found$fit > 5))
  # far out the fit is that of the heaviest car
  expect_equal(found$fit[5], mtcars$mpg[which.max(mtcars$wt)], tolerance = 1e-3)
  slope <- sqrt(mean(predict(fit, type = "gradient")^2))
  expect_equal(found$se.fit[5], slope * (1e4 - max(mtcars$wt)), tolerance = 1e-3)
  expect_true(all(diff(found$se.fit) > 0))
  expect_no_warning(predict(fit, data.frame(wt = range(mtcars$wt))))
  alone <- kernel_regression(Fertility ~ ., swiss[-45, ], bandwidth = c(11600, 3970, 9.66, 22500, 1560), ridge = 0.1)
  expect_warning(found <- predict(alone, swiss[45, ], interval = "prediction"), "V. De Geneve")
  expect_true(found[2] < swiss$Fertility[45] && swiss$Fertility[45] < found[3])
  # a given bandwidth shrinks nothing unless a ridge is given
  expect_equal(kernel_regression(mpg ~ wt, mtcars, bandwidth = 1)$ridge, 0)
  refit <- kernel_regression(mpg ~ wt, mtcars, bandwidth = sqrt(fit$bandwidth[1]), ridge = 0.01)
  expect_equal(refit$left_out, fit$left_out)
  expect_equal(kernel_regression(mpg ~ wt, mtcars, weights = rep(7, 32))$left_out, fit$left_out)
})

test_that("a straight line is found where the data have no more, and few rows of many columns have a fit", {
  expect_equal(fitted(kernel_regression(dist ~ speed, cars)), unname(fitted(lm(dist ~ speed, cars))), tolerance = 0.01)
  # also beside a weak effect: the difference of the criteria is below 3 / n
  x <- stats::qnorm(stats::ppoints(60))
  nearly <- data.frame(x, y = x + 0.3 * sin(3 * x) * c(1, -0.9) + sin(1:60))
  expect_gt(min(kernel_regression(y ~ x, nearly)$bandwidth), 100)
  expect_lt(max(kernel_regression(y ~ x, transform(nearly, y = y + 2 * sin(3 * x)))$bandwidth), 1)
  few <- kernel_regression(mtcars[1:8, 2:7], mtcars$mpg[1:8])
  expect_equal(few$selector, "cv")
  expect_true(all(is.finite(few$fitted)))
})

test_that("a category with few rows keeps some weight of the others, unless smoothing or bandwidth is given", {
  x <- stats::qnorm(stats::ppoints(90))
  d <- data.frame(x, g = factor(rep(c("a", "b"), c(81, 9))[order((37 * 1:90) %% 90)]))
  d$y <- ifelse(d$g == "a", x, -3 * x) + 0.1 * sin(50 * x)
  expect_equal(kernel_regression(y ~ x + g, d)$discrete$lambda, 2 * 2 / 90 / 2, tolerance = 1e-6, ignore_attr = TRUE)
  expect_lt(kernel_regression(y ~ x + g, d, bandwidth = 1)$discrete$lambda, 0.01)
})
