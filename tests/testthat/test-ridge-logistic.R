# Logistic losses of kernel_ridge(): against Newton's method on dense matrices, in plain R, and by what has to hold.

tight <- \(...) ridge_with(..., tolerance = 1e-24, iterations = 60, control = flash_control(precision = "double"))

# Two classes of points in two dimensions that overlap.
two_blobs <- function(n = 120, apart = 1, seed = 1) {
  set.seed(seed)
  code <- rep(0:1, length.out = n)
  list(x = matrix(stats::rnorm(2 * n), n) + apart * code, y = code, centers = seq(3, n, length.out = 12) %/% 1)
}

# The fitted link of (1/n) sum w l + (lambda/2) sum alpha' Kmm alpha, all of it dense; Y: indicators, n x K.
dense_softmax <- function(K, Kmm, Y, lambda, weights = rep(1, nrow(Y)), base = 0) {
  n <- nrow(K)
  classes <- ncol(Y)
  alpha <- matrix(0, ncol(K), classes)
  for (step in 1:60) {
    f <- base + K %*% alpha
    p <- exp(f - apply(f, 1, max))
    p <- p / rowSums(p)
    gradient <- crossprod(K, weights * (p - Y)) / n + lambda * Kmm %*% alpha
    H <- do.call(rbind, lapply(seq_len(classes), \(a) do.call(cbind, lapply(seq_len(classes), \(b) {
      crossprod(K, weights * p[, a] * ((a == b) - p[, b]) * K) / n + (a == b) * lambda * Kmm
    }))))
    alpha <- alpha - matrix(solve(H, as.vector(gradient)), ncol(K))
  }
  base + K %*% alpha
}

dense_logit <- function(K, Kmm, y, lambda, weights = rep(1, length(y)), base = 0) {
  n <- nrow(K)
  alpha <- numeric(ncol(K))
  for (step in 1:60) {
    f <- base + as.vector(K %*% alpha)
    p <- stats::plogis(f)
    gradient <- crossprod(K, weights * (p - y)) / n + lambda * Kmm %*% alpha
    alpha <- alpha - as.vector(solve(crossprod(K, weights * p * (1 - p) * K) / n + lambda * Kmm, gradient))
  }
  base + as.vector(K %*% alpha)
}

loss_of <- function(part, f, y = NULL, u = NULL, threads = 1) {
  row_loss(part, CLASS_LOSS, f, y, checked_run(settle_control(flash_control(threads = threads))), u)
}

test_that("the worked example has its digits", {
  x <- example_x
  y <- example_y
  index <- example_centers
  fit <- tight(x, y > mean(y), bandwidth = 1.5, lambda = 1e-3, centers = index, intercept = FALSE, family = "binomial")
  expect_true(fit$converged)
  want <- c(
    62.97673468793, -8.07043172480, -5.81393321895, 42.60805746220, -10.70382982987, -35.54563455467, -42.58524353238
  )
  expect_lt(max(abs(fit$coefficients[, 1] / want - 1)), 1e-6)
  link <- predict(fit, x, type = "link")
  loss <- mean(log1p(exp(-ifelse(y > mean(y), 1, -1) * link)))
  # what the jitter of T changes is of second order in the objective
  penalty <- 1e-3 / 2 * sum(fit$coefficients * (gaussian_kernels(x[index, ], x[index, ], 1.5) %*% fit$coefficients))
  expect_lt(abs(loss - 0.163306682019), 1e-7)
  expect_lt(abs(loss + penalty - 0.245636879369), 1e-9)
})

test_that("two classes have the link of dense Newton steps, with weights, offsets and an intercept", {
  case <- two_blobs()
  set.seed(2)
  weights <- stats::runif(120, 0.5, 2)
  offset <- stats::rnorm(120)
  K <- gaussian_kernels(case$x, case$x[case$centers, ], 1)
  for (lambda in c(1e-1, 1e-3, 1e-5)) {
    fit <- tight(case$x, factor(case$y), bandwidth = 1, lambda = lambda, centers = case$centers)
    want <- dense_logit(K, K[case$centers, ], case$y, lambda, base = log(mean(case$y) / (1 - mean(case$y))))
    expect_lt(max(abs(predict(fit, type = "link") - want)), 1e-6)
  }
  fit <- tight(
    case$x, case$y, bandwidth = 1, lambda = 1e-3, centers = case$centers, weights = weights, offset = offset,
    family = "binomial"
  )
  # the intercept is that of a model with nothing else
  null <- stats::glm(case$y ~ 1, family = stats::quasibinomial(), weights = weights, offset = offset)
  expect_equal(fit$intercept, stats::coef(null)[[1]], tolerance = 1e-7)
  want <- dense_logit(K, K[case$centers, ], case$y, 1e-3, weights, offset + fit$intercept)
  expect_lt(max(abs(predict(fit, type = "link") - want)), 1e-6)
  at <- predict(fit, case$x[1:5, ], offset = offset[1:5], type = "link")
  expect_lt(max(abs(at - want[1:5])), 1e-6)
})

test_that("more classes have the link of dense Newton steps, and its gradient is zero", {
  x <- as.matrix(iris[1:4])
  index <- seq(5, 150, by = 18)
  fit <- tight(x, iris$Species, bandwidth = 2, lambda = 1e-4, centers = index)
  expect_true(fit$converged)
  K <- gaussian_kernels(x, x[index, ], 2)
  Y <- outer(as.integer(iris$Species), 1:3, "==") + 0
  expect_identical(dimnames(fit$coefficients), list(NULL, levels(iris$Species)))
  expect_lt(max(abs(predict(fit, type = "link") - dense_softmax(K, K[index, ], Y, 1e-4))), 1e-6)
  expect_lt(max(abs(rowSums(fit$coefficients))), 1e-7 * max(abs(fit$coefficients)))
  p <- predict(fit, x, type = "prob")
  gradient <- crossprod(K, p - Y) / 150 + 1e-4 * K[index, ] %*% fit$coefficients
  expect_lt(max(abs(gradient)), 1e-10)
  # unequal shares, weights, an offset for each class, and centres that are no rows
  set.seed(3)
  part <- c(1:50, 51:70, 101:130)
  weights <- stats::runif(100)
  offset <- matrix(stats::rnorm(300), 100)
  C <- x[index, ] + 0.1
  fit <- tight(
    x[part, ], iris$Species[part], bandwidth = 2, lambda = 1e-3, centers = C, weights = weights, offset = offset
  )
  base <- offset + rep(fit$intercept, each = 100)
  want <- dense_softmax(gaussian_kernels(x[part, ], C, 2), gaussian_kernels(C, C, 2), Y[part, ], 1e-3, weights, base)
  expect_lt(max(abs(predict(fit, type = "link") - want)), 1e-6)
})

test_that("the order of classes does not matter", {
  case <- two_blobs()
  fit <- \(y) tight(case$x, y, bandwidth = 1, lambda = 1e-4, centers = case$centers)
  there <- predict(fit(factor(case$y)), case$x, type = "link")
  back <- predict(fit(factor(case$y, levels = 1:0)), case$x, type = "link")
  expect_lt(max(abs(there + back)), 1e-12 * max(abs(there)))
  x <- as.matrix(iris[1:4])
  classes <- levels(iris$Species)
  fit <- \(order) {
    made <- tight(x, factor(iris$Species, levels = order), bandwidth = 2, lambda = 1e-3, centers = seq(5, 150, by = 18))
    predict(made, x, type = "prob")[, classes]
  }
  expect_lt(max(abs(fit(classes) - fit(rev(classes)))), 1e-9)
})

test_that("weights are repetitions where lambda * n is the same, and rows of weight 0 count as rows only", {
  case <- two_blobs(60)
  times <- rep(c(1, 2, 3, 0), 15)
  C <- case$x[case$centers, ]
  y <- factor(case$y)
  weighted <- tight(case$x, y, bandwidth = 1, lambda = 1e-3, centers = C, weights = times)
  repeated <- rep(1:60, times)
  plain <- tight(case$x[repeated, ], y[repeated], bandwidth = 1, lambda = 1e-3 * 60 / length(repeated), centers = C)
  expect_equal(weighted$intercept, plain$intercept, tolerance = 1e-12)
  expect_lt(max(abs(predict(weighted, case$x, type = "link") - predict(plain, case$x, type = "link"))), 1e-8)
})

test_that("class weights are weights of their rows, in equal shares if balanced", {
  case <- two_blobs(90)
  y <- factor(ifelse(case$y == 1 & seq_len(90) %% 3 > 0, "few", "many"), levels = c("many", "few"))
  fit <- \(...) tight(case$x, y, bandwidth = 1, lambda = 1e-3, centers = case$centers, ...)
  link <- \(...) predict(fit(...), case$x, type = "link")
  counts <- table(y)
  by_hand <- link(weights = as.vector(90 / (2 * counts))[y])
  expect_lt(max(abs(link(class_weights = "balanced") - by_hand)), 1e-10)
  expect_equal(fit(class_weights = "balanced")$intercept, 0)
  named <- link(class_weights = c(few = 5, many = 2))
  expect_lt(max(abs(named - link(weights = c(2, 5)[y]))), 1e-10)
  expect_gt(min(named - link()), 0)
})

test_that("classes that can be told apart have finite coefficients, and their objective falls", {
  case <- two_blobs(100, apart = 12)
  for (lambda in c(1e-3, 1e-9)) {
    fit <- kernel_ridge(case$x, factor(case$y), bandwidth = 2, lambda = lambda, centers = case$centers, solver = list(iterations = 60))
    expect_true(all(is.finite(fit$coefficients)))
    expect_identical(predict(fit), factor(case$y))
  }
  fit <- kernel_ridge(as.matrix(iris[1:4]), iris$Species == "setosa", bandwidth = 2, lambda = 1e-8, centers = 1:150 * 1)
  p <- predict(fit)
  expect_true(all(p >= 0 & p <= 1))
  expect_identical(p > 0.5, iris$Species == "setosa")
})

test_that("extreme margins are numbers", {
  f <- matrix(c(-1e4, -800, -40, 0, 40, 800, 1e4))
  for (y in c(-1, 1)) {
    expect_equal(loss_of("value", f, matrix(y, 7)), pmax(-y * f[, 1], 0) + c(0, 0, 0, log(2), 0, 0, 0))
    slope <- loss_of("slope", f, matrix(y, 7))[, 1]
    expect_equal(slope, -y * ifelse(f[, 1] == 0, 0.5, y * f[, 1] < 0))
    expect_true(all(loss_of("curvature", f) >= 0 & loss_of("curvature", f) <= 0.25))
  }
  f <- cbind(f, -f, 0)
  y <- class_columns(rep(1L, 7), c("a", "b", "c"))
  expect_equal(loss_of("value", f, y)[c(1, 7)], c(2e4, 0))
  expect_true(all(is.finite(loss_of("slope", f, y))) && all(is.finite(loss_of("curvature", f))))
  # what is small keeps its digits: a loss of exp(-40), and the slope of its class
  sure <- matrix(c(40, 0, -100), 1)
  expect_equal(loss_of("value", sure, y[1, , drop = FALSE]), exp(-40), tolerance = 1e-14)
  expect_equal(loss_of("slope", sure, y[1, , drop = FALSE])[1], -exp(-40), tolerance = 1e-14)
  case <- two_blobs(40)
  # nothing is left to fit
  known <- 1e4 * (2 * case$y - 1)
  fit <- kernel_ridge(
    case$x, factor(case$y), bandwidth = 1, lambda = 1e-3, centers = 5, offset = known, solver = list(intercept = FALSE)
  )
  expect_true(fit$converged)
  expect_identical(as.vector(fit$coefficients), rep(0, 5))
  for (size in c(-1e4, 1e4)) {
    fit <- kernel_ridge(
      case$x, factor(case$y), bandwidth = 1, lambda = 1e-3, centers = 5, offset = rep(size, 40), solver = list(intercept = FALSE)
    )
    expect_true(all(is.finite(fit$coefficients)))
    fit <- kernel_ridge(case$x, factor(case$y), bandwidth = 1, lambda = 1e-3, centers = 5, offset = rep(size, 40))
    expect_equal(fit$intercept, -size)
  }
})

# In plain R.
literal_losses <- function(f, y, u) {
  if (ncol(f) == 1) {
    p <- stats::plogis(f)
    return(list(
      value = as.vector(log1p(exp(-abs(f))) - pmin(y * f, 0)), slope = -y * stats::plogis(-y * f),
      curvature = as.vector(p * stats::plogis(-f)), product = p * stats::plogis(-f) * u
    ))
  }
  odds <- exp(f - apply(f, 1, max))
  p <- odds / rowSums(odds)
  own <- cbind(seq_len(nrow(f)), max.col(y))
  list(
    value = -log(p[own]), slope = p - (y > 0), curvature = rowSums(p * (1 - p)) / ncol(f),
    product = p * (u - rowSums(p * u))
  )
}

test_that("losses are those of plain R, by any number of threads", {
  set.seed(11)
  n <- 3000 # some blocks, the last not full
  for (t in c(1, 3, 6)) {
    f <- matrix(stats::rnorm(n * t, sd = 3), n)
    y <- if (t == 1) matrix(sample(c(-1, 1), n, TRUE)) else class_columns(sample(t, n, TRUE), letters[1:t])
    u <- matrix(stats::rnorm(n * t), n)
    want <- literal_losses(f, y, u)
    for (part in LOSS_PARTS) {
      at <- if (part == "product" && t > 1) link_probabilities(f) else f
      got <- loss_of(part, at, y, u)
      expect_lt(max(abs(got - want[[part]]) / (abs(want[[part]]) + 0.1)), 1e-14, label = part)
      expect_identical(loss_of(part, at, y, u, threads = 4), got)
    }
    weights <- stats::runif(n)
    run <- \(threads) checked_run(settle_control(flash_control(threads = threads)))
    along <- mean_loss(CLASS_LOSS, f, y, run(1), weights, u, 0.3)
    expect_equal(along, mean(weights * literal_losses(f - 0.3 * u, y, u)$value), tolerance = 1e-14)
    expect_identical(mean_loss(CLASS_LOSS, f, y, run(4), weights, u, 0.3), along)
    expect_equal(mean_loss(CLASS_LOSS, f, y, run(1)), mean(want$value), tolerance = 1e-14)
  }
})

test_that("many centres begin with some of them, and end at the same optimum", {
  case <- two_blobs(900)
  asked <- NULL
  coarse <- coarse_point
  replace_in_package("coarse_point", function(...) {
    asked <<- coarse(...)
    asked
  })
  fit <- kernel_ridge(
    case$x, factor(case$y), bandwidth = 0.5, lambda = 1e-5, centers = 1:400 * 2, solver = list(tolerance = 1e-15, iterations = 60),
    control = flash_control(precision = "double")
  )
  # its link is that of its coefficients
  expect_false(is.null(asked))
  K <- gaussian_kernels(case$x, fit$centers, 0.5)
  expect_true(fit$converged)
  p <- stats::plogis(fit$intercept + K %*% fit$coefficients)
  gradient <- crossprod(K, p - case$y) / 900 + 1e-5 * gaussian_kernels(fit$centers, fit$centers, 0.5) %*% fit$coefficients
  expect_lt(max(abs(gradient)), 1e-7)
  expect_lt(asked$loss, log(2))
  expect_equal(fit$state$fitted[, 1], as.vector(fit$intercept + K %*% fit$coefficients), tolerance = 1e-6)
})

test_that("a Newton step takes half a sweep besides those of conjugate gradients", {
  case <- two_blobs(300)
  sweeps <- 0
  inner <- 0
  normal <- rows_normal.rows_dense
  replace_in_package("rows_normal", function(rows, centers, v, ...) {
    sweeps <<- sweeps + if (is.null(v)) 0.5 else 1
    normal(rows, centers, v, ...)
  })
  replace_in_package("rows_multiply", \(...) stop("no sweep for the link"))
  direction <- newton_direction
  replace_in_package("newton_direction", function(...) {
    step <- direction(...)
    inner <<- inner + step$iterations
    step
  })
  fit <- kernel_ridge(case$x, factor(case$y), bandwidth = 1, lambda = 1e-3, centers = case$centers)
  expect_identical(sweeps, fit$iterations / 2 + inner)
})

test_that("responses of any kind make the same fit, and predictions in their own terms", {
  case <- two_blobs()
  fit <- \(y) kernel_ridge(case$x, y, bandwidth = 1, lambda = 1e-3, centers = case$centers, family = "binomial")
  number <- fit(case$y)
  for (y in list(case$y == 1, c("no", "yes")[case$y + 1], factor(case$y), case$y * 3 - 1)) {
    expect_identical(fit(y)$coefficients, number$coefficients)
  }
  p <- stats::plogis(predict(number, type = "link"))
  expect_equal(predict(number), p)
  expect_equal(predict(fit(case$y == 1)), p)
  expect_equal(predict(number, type = "prob"), cbind("0" = 1 - p, "1" = p))
  expect_identical(predict(fit(c("no", "yes")[case$y + 1])), factor(c("no", "yes")[1 + (p > 0.5)]))
  expect_identical(predict(number, type = "class"), factor(1 * (p > 0.5)))
  made <- kernel_ridge(Species ~ ., iris, bandwidth = 2, lambda = 1e-3)
  prob <- predict(made, iris[c(1, 51, 101), ], type = "prob")
  expect_identical(colnames(prob), levels(iris$Species))
  expect_equal(rowSums(prob), rep(1, 3))
  expect_identical(predict(made, iris[c(1, 51, 101), ]), iris$Species[c(1, 51, 101)])
})

test_that("held-out rows keep the step of the least log loss, and a start goes on from a fit", {
  case <- two_blobs(200)
  other <- two_blobs(100, seed = 9)
  fit <- kernel_ridge(
    case$x, factor(case$y), bandwidth = 0.3, lambda = 1e-8, centers = 60,
    validation = list(x = other$x, y = factor(other$y))
  )
  least <- which.min(fit$trace$validation)
  expect_identical(fit$best_iteration, least)
  expect_lt(least, fit$iterations)
  p <- predict(fit, other$x, type = "prob")[cbind(1:100, other$y + 1)]
  expect_equal(mean(-log(p)), fit$trace$validation[least])
  first <- kernel_ridge(case$x, factor(case$y), bandwidth = 1, lambda = 1e-2, centers = case$centers)
  full <- tight(case$x, factor(case$y), bandwidth = 1, lambda = 1e-4, centers = case$centers)
  on <- tight(case$x, factor(case$y), lambda = 1e-4, start = first)
  expect_lt(max(abs(predict(on, case$x, type = "link") - predict(full, case$x, type = "link"))), 1e-8)
  again <- kernel_ridge(case$x, factor(case$y), solver = list(start = on))
  expect_identical(again$iterations, 1)
  expect_identical(again$center_index, on$center_index)
  # other rows, fewer than the start had
  fewer <- tight(other$x[1:20, ], factor(other$y[1:20]), lambda = 1e-4, start = first, weights = 1:20)
  expect_null(fewer$center_index)
  anew <- tight(
    other$x[1:20, ], factor(other$y[1:20]), bandwidth = 1, lambda = 1e-4, centers = first$centers, weights = 1:20
  )
  expect_lt(max(abs(predict(fewer, type = "link") - predict(anew, type = "link"))), 1e-8)
  expect_error(kernel_ridge(as.matrix(iris[1:4]), iris$Species, solver = list(start = first)), class = "flashkernel_error_argument")
})

test_that("penalties fall to lambda in as many steps as there are", {
  expect_equal(falling_penalties(1e-6, 20), c(1e-2, 1e-4, 1e-6))
  expect_equal(falling_penalties(1e-6, 2), c(1e-2, 1e-6))
  expect_equal(falling_penalties(1e-6, 1), 1e-6)
  expect_equal(falling_penalties(1, 20), 1)
})

test_that("what is not a class is an error", {
  case <- two_blobs(20)
  fit <- \(y, ...) ridge_with(case$x, y, bandwidth = 1, lambda = 1e-3, centers = 5, family = "binomial", ...)
  wrong <- "flashkernel_error_argument"
  expect_error(fit(rep("a", 20)), "at least two classes", class = wrong)
  expect_error(fit(rep(1, 20)), "at least two classes", class = wrong)
  expect_error(fit(factor(c(NA, case$y[-1]))), "missing", class = wrong)
  expect_error(fit(c(NA, case$y[-1])), "y", class = wrong)
  expect_error(fit(1:20), "two different values", class = wrong)
  expect_error(fit(cbind(case$y, case$y)), "for logistic loss", class = wrong)
  expect_error(fit(case$y, weights = case$y), "weights", class = wrong)
  expect_error(fit(case$y, class_weights = 1:3), "class_weights", class = wrong)
  expect_error(ridge_with(case$x, case$y, class_weights = 1:2), "needs classes", class = wrong)
  expect_error(fit(factor(rep(1:4, 5))), "\"multinomial\" for 4 classes", class = wrong)
  expect_error(
    kernel_ridge(case$x, case$y, bandwidth = 1, lambda = 1, centers = 5, family = "binomial", solver = list(class_weights = c(1, -2))),
    "class_weights", class = wrong
  )
})

test_that("the intercept and the null deviance are those of glm()'s null model, also with an offset", {
  set.seed(4)
  rows <- data.frame(x = stats::rnorm(60), o = stats::rnorm(60, 1), w = rep(1:3, 20))
  rows$y <- stats::rbinom(60, 1, stats::plogis(rows$x + rows$o))
  for (offset in list(NULL, rows$o)) {
    null <- stats::glm(y ~ 1, stats::binomial(), rows, weights = w, offset = offset)
    fit <- kernel_ridge(y ~ x, rows, family = "binomial", weights = w, offset = offset, bandwidth = 1, lambda = 0.1)
    expect_equal(fit$intercept, coef(null)[[1]], tolerance = 1e-7)
    expect_equal(null_deviance(fit), null$null.deviance, tolerance = 1e-7)
    expect_equal(summary(fit)$error[["explained"]], 1 - deviance(fit) / null$null.deviance)
  }
  # of more classes: mean probabilities are the shares
  offset <- matrix(stats::rnorm(450), 150)
  fit <- kernel_ridge(as.matrix(iris[1:4]), iris$Species, offset = offset, bandwidth = 2, lambda = 0.1)
  link <- offset + rep(fit$intercept, each = 150)
  p <- exp(link) / rowSums(exp(link))
  expect_equal(unname(colMeans(p)), rep(1 / 3, 3), tolerance = 1e-7)
  expect_equal(null_deviance(fit), -2 * sum(log(p[cbind(1:150, as.integer(iris$Species))])))
})
