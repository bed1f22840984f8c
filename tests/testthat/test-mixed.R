# Numbers and levels together, against their formula in loops (helper-mixed.R).

H <- matrix(c(0.3, 0.1, 0.1, 0.4), 2)
lambda <- c(kind = 0.3, grade = 0.4)
usual <- list(kind = "aitchisonaitken", grade = "liracine")

mixed_fit <- function(data = mixed_data(), ..., kernels = NULL) {
  flash_kde(data, ..., bandwidth = H, categorical = categorical_kernel(lambda, kernels))
}

numbers_of <- function(data) unname(as.matrix(data[c("a", "b")]))

test_that("the density is the sum of the formula, for each kernel of levels and with weights", {
  data <- mixed_data()
  to <- mixed_data(12, seed = 8)
  w <- stats::rexp(nrow(data))
  choices <- list(
    usual, list(kind = "liracine", grade = "liracine"), list(kind = "aitchisonaitken", grade = "wangvanryzin")
  )
  for (kernels in choices) {
    fit <- mixed_fit(data, "kde", weights = w, kernels = unlist(kernels))
    want <- rowSums(ref_shares(to, data, kernels, lambda, w) * ref_gauss(numbers_of(to), numbers_of(data), H)) / sum(w)
    expect_equal(predict(fit, to), want, tolerance = 1e-12)
    expect_equal(predict(fit, to[4:1], "log_density"), log(want), tolerance = 1e-12)
  }
})

test_that("standard errors are those of the formula, and scores have the names of the numbers", {
  data <- mixed_data()
  x <- numbers_of(data)
  n <- nrow(data)
  fit <- mixed_fit(data)
  terms <- ref_shares(data, data, usual, lambda) * ref_gauss(x, x, H)
  p <- rowMeans(terms)
  expect_equal(colnames(predict(fit, type = "score")), c("a", "b"))
  se <- sqrt(rowSums(terms^2) / n^2 - p^2 / n)
  expect_equal(predict(fit, se.fit = TRUE)$se.fit, se, tolerance = 1e-9)
})

test_that("the Laplace-corrected estimate has the corrected kernel of the numbers", {
  data <- mixed_data()
  to <- mixed_data(12, seed = 8)
  fit <- mixed_fit(data, "laplace")
  terms <- ref_shares(to, data, usual, lambda) * ref_gauss(numbers_of(to), numbers_of(data), H, laplace = TRUE)
  expect_equal(predict(fit, to), rowMeans(terms), tolerance = 1e-11)
  # its negative part, by the formula on a grid
  grid <- expand.grid(a = seq(-6, 6, 0.2), b = seq(-4, 8, 0.2))
  mass <- 0
  for (kind in levels(data$kind)) {
    for (grade in levels(data$grade)) mass <- mass - sum(pmin(predict(fit, cbind(grid, kind, grade)), 0)) * 0.2^2
  }
  found <- diagnostics(fit)$negative_mass
  expect_lt(abs(found$value - mass), 4 * found$se)
})

# Both stages by the formula; `out`: a row that is left out of them.
sdkde_by_formula <- function(data, to, out = NULL) {
  if (!is.null(out)) data <- data[-out, ]
  x <- numbers_of(data)
  terms <- ref_shares(data, data, usual, lambda) * ref_gauss(x, x, H / 2)
  mean <- terms %*% x / rowSums(terms)
  moved <- x + (mean - x) %*% solve(H / 2) %*% H / 2
  rowMeans(ref_shares(to, data, usual, lambda) * ref_gauss(numbers_of(to), moved, H))
}

test_that("an SD-KDE moves points along the score of numbers and levels, and is left out of both stages", {
  data <- mixed_data(25)
  to <- mixed_data(6, seed = 8)
  fit <- mixed_fit(data, "sdkde", debias = debiasing(bandwidth = H / 2))
  expect_equal(predict(fit, to), sdkde_by_formula(data, to), tolerance = 1e-11)
  lone <- vapply(seq_len(25), \(i) sdkde_by_formula(data, data[i, ], out = i), 0)
  expect_equal(predict(fit, loo = TRUE), lone, tolerance = 1e-10)
})

test_that("points may have bandwidths of their own", {
  data <- mixed_data()
  to <- mixed_data(9, seed = 8)
  x <- numbers_of(data)
  f <- rep(c(0.5, 1, 2, 1.3), 10)
  fit <- mixed_fit(data, adaptive = f)
  terms_at <- function(y) {
    K <- vapply(seq_along(f), \(i) ref_gauss(numbers_of(y), x[i, , drop = FALSE], f[i]^2 * H)[, 1], numeric(nrow(y)))
    ref_shares(y, data, usual, lambda) * K
  }
  expect_equal(predict(fit, to), rowMeans(terms_at(to)), tolerance = 1e-12)
  own <- terms_at(data)
  expect_equal(predict(fit, loo = TRUE), (rowSums(own) - diag(own)) / 39, tolerance = 1e-12)
  expect_equal(predict(fit, se.fit = TRUE)$se.fit, sqrt(rowSums(own^2) / 40^2 - rowMeans(own)^2 / 40), tolerance = 1e-9)
  # taken where they gain: two widths, by level
  set.seed(12)
  side <- rep(c("narrow", "wide"), each = 150)
  data <- data.frame(x = stats::rnorm(300, 0, ifelse(side == "narrow", 0.05, 2)), side)
  fit <- flash_kde(data)
  expect_true(fit$adaptive$auto)
  one <- flash_kde(data, adaptive = FALSE)
  expect_null(one$adaptive)
  expect_gt(fit$adaptive$gain, 0.1)
  expect_gt(as.numeric(logLik(fit) - logLik(one)) / 300, 0.1)
  draws <- simulate(fit, 4000, seed = 3)
  spread <- tapply(draws$x, draws$side, stats::mad)
  expect_gt(spread[["wide"]], 10 * spread[["narrow"]])
  expect_false(is.null(flash_kde(data, adaptive = "knn")$adaptive))
  again <- flash_kde(data, adaptive = TRUE, bandwidth = one$bandwidth, categorical = categorical_kernel(smoothing = coef(one)["side"]))
  expect_identical(adaptive_factors(one), again$adaptive$factors)
  expect_argument_error(adaptive_factors(flash_kde(data["side"])), "object")
})

test_that("far from the origin an estimate is the same, of an SD-KDE, too", {
  data <- mixed_data()
  far <- transform(data, a = a + 2^40, b = b - 2^38)
  data <- transform(far, a = a - 2^40, b = b + 2^38) # as they were rounded
  for (estimator in c("kde", "sdkde")) {
    near <- mixed_fit(data, estimator)
    expect_equal(predict(mixed_fit(far, estimator), far), predict(near, data), tolerance = 1e-9)
  }
})

test_that("with lambda 0 each level has the estimate of its own points", {
  fit <- flash_kde(iris, "sdkde", bandwidth = 0.3, categorical = categorical_kernel(smoothing = 0))
  for (level in levels(iris$Species)) {
    rows <- iris$Species == level
    own <- flash_kde(iris[rows, 1:4], "sdkde", bandwidth = 0.3)
    expect_equal(predict(fit, iris[rows, ]), predict(own, iris[rows, 1:4]) / 3, tolerance = 1e-12)
    expect_equal(predict(fit, loo = TRUE)[rows], predict(own, loo = TRUE) * 49 / 149, tolerance = 1e-11)
  }
  # a combination of levels that none has
  data <- data.frame(x = c(0, 1, 5), f = c("u", "u", "v"), g = c("s", "t", "s"))
  fit <- flash_kde(data, bandwidth = 1, categorical = categorical_kernel(smoothing = 0))
  nowhere <- data.frame(x = 5, f = "v", g = "t")
  expect_identical(predict(fit, nowhere), 0)
  expect_identical(predict(fit, nowhere, "log_density"), -Inf)
  expect_true(all(is.nan(predict(fit, nowhere, "score"))))
  # nor one whose points weigh nothing
  w <- as.numeric(iris$Species != "setosa")
  for (estimator in c("kde", "sdkde", "laplace")) {
    fit <- flash_kde(iris, estimator, bandwidth = 0.5, categorical = categorical_kernel(smoothing = 0), weights = w)
    alone <- flash_kde(iris[51:150, ], estimator, bandwidth = 0.5, categorical = categorical_kernel(smoothing = 0))
    expect_equal(predict(fit), c(numeric(50), predict(alone)), tolerance = 1e-12)
    expect_equal(predict(fit, loo = TRUE), c(numeric(50), predict(alone, loo = TRUE)), tolerance = 1e-11)
  }
  expect_equal(logLik(flash_kde(iris, bandwidth = 0.5, categorical = categorical_kernel(smoothing = 0), weights = w)),
    logLik(flash_kde(iris[51:150, ], bandwidth = 0.5, categorical = categorical_kernel(smoothing = 0))), tolerance = 1e-12)
})

test_that("levels alone are frequencies, smoothed", {
  data <- data.frame(f = c("u", "u", "v", "w", "u"), g = c(TRUE, FALSE, TRUE, TRUE, TRUE))
  fit <- flash_kde(data, categorical = categorical_kernel(smoothing = c(f = 0.2, g = 0.1)))
  to <- data.frame(f = c("u", "w"), g = c(TRUE, FALSE))
  want <- c(
    mean(c(0.8 * 0.9, 0.8 * 0.1, 0.1 * 0.9, 0.1 * 0.9, 0.8 * 0.9)),
    mean(c(0.1 * 0.1, 0.1 * 0.9, 0.1 * 0.1, 0.8 * 0.1, 0.1 * 0.1))
  )
  expect_equal(predict(fit, to), want, tolerance = 1e-14)
  # the best lambda by leave-one-out likelihood, looked for on a grid
  set.seed(2)
  data <- data.frame(f = factor(sample(letters[1:4], 60, TRUE, c(0.45, 0.35, 0.15, 0.05)), letters[1:4]))
  counts <- table(data$f)
  loss <- \(l) -sum(counts * log(((counts - 1) * (1 - l) + (60 - counts) * l / 3) / 59))
  grid <- seq(0, 0.75, 0.0005)
  best <- grid[which.min(vapply(grid, loss, 0))]
  fit <- flash_kde(data)
  expect_gt(best, 0)
  expect_lt(best, 0.75)
  expect_lt(abs(coef(fit)[["f"]] - best), 6e-4)
  expect_equal(as.numeric(logLik(fit)), -loss(coef(fit)[["f"]]), tolerance = 1e-10)
  for (type in c("density", "log_density")) expect_length(predict(fit, type = type), 60)
  expect_argument_error(predict(fit, type = "score"), "type")
  expect_argument_error(flash_kde(data, bandwidth = 1), "bandwidth")
  expect_argument_error(flash_kde(data, "sdkde"), "estimator")
})

test_that("bandwidth and lambdas are the optimum of their likelihood together", {
  for (seed in c(1, 3, 8)) {
    set.seed(seed)
    f <- factor(sample(c("u", "v", "w"), 90, TRUE))
    data <- data.frame(x = stats::rnorm(90, c(0, 0.7, 1.4)[f]), f = f)
    u <- outer(data$x, data$x, "-")
    loss <- function(theta) {
      terms <- stats::dnorm(u, sd = exp(theta[1])) * ifelse(outer(f, f, "=="), 1 - theta[2], theta[2] / 2)
      diag(terms) <- 0
      -mean(log(rowSums(terms) / 89))
    }
    best <- stats::optim(c(-1, 0.2), loss, method = "L-BFGS-B", lower = c(-4, 1e-6), upper = c(2, 0.66))
    fit <- flash_kde(data, adaptive = FALSE)
    found <- c(log(coef(fit)[["x"]]), coef(fit)[["f"]])
    expect_gt(best$par[2], 0.05)
    expect_lt(loss(found), best$value + 2e-5)
    expect_lt(abs(found[2] - best$par[2]), 0.01)
    expect_equal(as.numeric(logLik(fit)), -90 * loss(found), tolerance = 1e-10)
  }
  # of a given bandwidth the lambdas are the best for it
  given <- flash_kde(data, bandwidth = 0.9)
  one <- stats::optimise(\(l) loss(c(log(0.9), l)), c(0, 2 / 3), tol = 1e-6)
  expect_equal(coef(given)[["f"]], one$minimum, tolerance = 1e-3)
  # and some of them may be given, too
  data$g <- rep(c("s", "t"), 45)
  expect_identical(coef(flash_kde(data, categorical = categorical_kernel(smoothing = c(g = 0.25))))[["g"]], 0.25)
})

test_that("a column of levels that tells nothing is smoothed out, one that tells all is not", {
  set.seed(11)
  x <- c(stats::rnorm(100), stats::rnorm(100, 4))
  data <- data.frame(x, side = rep(c("left", "right"), each = 100), noise = sample(letters[1:3], 200, TRUE))
  lambda <- coef(flash_kde(data))
  expect_gt(lambda[["noise"]], 0.4)
  expect_lt(lambda[["side"]], 0.05)
})

test_that("moments of cells are the gradient of the likelihood", {
  data <- mixed_data(30)
  discrete <- flash_kde(data, bandwidth = H, categorical = categorical_kernel(smoothing = lambda))$discrete
  x <- numbers_of(data)
  clean <- clean_points(x, stats::rexp(30), "x", discrete)
  criterion <- new_criterion("lcv", clean, "kde", run_control(CONTROL_DEFAULTS))
  L <- matrix(c(0.7, 0.2, 0, 0.5), 2)
  E <- criterion$gradient(L, "full")$E
  expect_equal(E, difference_gradient(criterion$value, L, "full", 1e-4), tolerance = 1e-6)
  expect_equal(criterion$gradient(L, "diagonal")$E, diag(E), tolerance = 1e-12)
})

test_that("pair by pair, sums of cells are those of the formula, and of the engines", {
  set.seed(7)
  n <- 400
  data <- list(x = matrix(stats::rnorm(2 * n), n), w = stats::rexp(n), factors = sample(c(0.5, 1, 3), n, TRUE), d = 2)
  data$x[2, ] <- 1e3 # far from all others
  data$discrete <- list(codes = cbind(sample(3, n, TRUE), sample(2, n, TRUE)))
  cells <- cells_of(data$discrete$codes)
  L <- matrix(c(0.7, 0.2, 0, 0.5), 2)
  at <- 1:100
  sums_by <- function(pairs, threads = 1) {
    replace_in_package("PAIRS_OF_A_CALL", pairs)
    cell_sums(data, L, cells, at, run_control(replace(CONTROL_DEFAULTS, "threads", threads)))
  }
  found <- sums_by(1e9)
  i <- at[3]
  u <- forwardsolve(L, t(data$x) - data$x[i, ])
  terms <- replace(data$w / data$factors^2 * exp(-colSums(u^2) / (2 * data$factors^2)), i, 0)
  expect_equal(found$sums[3, ] * exp(found$top[3]), vapply(cells$rows, \(rows) sum(terms[rows]), 0), tolerance = 1e-12)
  expect_lt(found$top[2], -1e4)
  expect_identical(sums_by(1e9, 2)[1:2], found[1:2])
  logs <- \(found) log(found$sums) + found$top
  expect_equal(logs(sums_by(0)), logs(found), tolerance = 1e-11)
})

test_that("the slope of the lambdas' loss is its change", {
  data <- rbind(mixed_data(60), transform(mixed_data(30, 5), a = a + 1, kind = factor("none", levels(kind))))
  discrete <- flash_kde(data, bandwidth = H, categorical = categorical_kernel(smoothing = lambda))$discrete
  data <- judged(clean_points(numbers_of(data), NULL, "x", discrete))
  losses <- list()
  replace_in_package("optimise_lambdas", \(loss, discrete, free) {
    losses <<- c(losses, loss)
    list(value = 0)
  })
  lambda_search(data, c(TRUE, TRUE), 5, run_control(CONTROL_DEFAULTS), new_tally())(diag(2) / 2, lambda)
  choose_lambdas(replace(data, "points", list(matrix(0, 90, 0))), NULL, c(TRUE, TRUE), 5, CONTROL_DEFAULTS)
  expect_length(losses, 2)
  for (loss in losses) {
    for (k in 1:2) {
      step <- replace(0 * lambda, k, 1e-5)
      change <- (loss(lambda + step, c(TRUE, TRUE))$value - loss(lambda - step, c(TRUE, TRUE))$value) / 2e-5
      expect_equal(loss(lambda, c(TRUE, TRUE))$slope[k], change, tolerance = 1e-7)
      expect_identical(loss(lambda, k == 1:2)$slope, loss(lambda, c(TRUE, TRUE))$slope[k])
    }
  }
})

test_that("the bandwidth of an SD-KDE is chosen by its own likelihood", {
  set.seed(21)
  f <- sample(c("u", "v"), 150, TRUE)
  data <- data.frame(x = stats::rnorm(150, ifelse(f == "u", 0, 3)), f)
  fit <- flash_kde(data, "sdkde")
  at <- \(c) as.numeric(logLik(flash_kde(
    data, "sdkde", bandwidth = c^2 * fit$bandwidth, debias = debiasing(bandwidth = c^2 * fit$score_bandwidth),
    categorical = categorical_kernel(smoothing = coef(fit)[["f"]])
  )))
  expect_equal(fit$score_bandwidth, fit$bandwidth / 2, tolerance = 1e-12)
  expect_gt(at(1), max(at(0.85), at(1.18)))
})

test_that("sums over points that agree are those of each cell of targets", {
  data <- cbind(mixed_data(60), side = rep(c("l", "m", "r"), 20), flag = rep(c(TRUE, FALSE, TRUE, TRUE, NA), 12))
  data <- stats::na.omit(data)
  to <- data[30:3, ]
  to$kind[1:3] <- "none"
  w <- stats::rexp(nrow(data))
  replace_in_package("CELLS_OF_A_PASS", 0)
  all_sums <- function(most, lambda) {
    replace_in_package("MOST_AGREEING", most)
    unlist(lapply(c("kde", "laplace"), \(estimator) {
      fit <- flash_kde(data, estimator, bandwidth = H, weights = w, categorical = categorical_kernel(lambda))
      list(
        predict(fit), predict(fit, to, se.fit = TRUE), predict(fit, loo = TRUE), predict(fit, to, type = "score"),
        predict(fit, type = "score", loo = TRUE)
      )
    }))
  }
  some <- c(kind = 0.3, grade = 0.4, side = 0.2, flag = 0.1)
  for (lambda in list(some, c(kind = 0, side = 2 / 3, flag = 0.5, grade = 0))) {
    expect_equal(all_sums(1e9, lambda), all_sums(0, lambda), tolerance = 1e-10)
  }
  # by either, points of widths of their own, and debiased ones
  lambda <- lambda[names(lambda) != "grade"]
  sums <- \(most, ...) {
    replace_in_package("MOST_AGREEING", most)
    predict(flash_kde(data[names(data) != "grade"], ..., bandwidth = H, categorical = categorical_kernel(smoothing = lambda)), to)
  }
  f <- rep(c(1, 2), 24)
  expect_equal(sums(1e9, adaptive = f), sums(0, adaptive = f), tolerance = 1e-12)
  expect_equal(sums(1e9, "sdkde"), sums(0, "sdkde"), tolerance = 1e-11)
})

# ---- data -----------------------------------------------------------------------------------------

test_that("texts, logical values and formulas make the same fit as factors", {
  data <- mixed_data()
  plain <- transform(data, kind = as.character(kind), grade = as.integer(grade) > 1)
  as_factors <- transform(plain, kind = factor(kind), grade = factor(grade))
  a <- flash_kde(plain, bandwidth = H, categorical = categorical_kernel(smoothing = 0.2))
  b <- flash_kde(as_factors, bandwidth = H, categorical = categorical_kernel(smoothing = 0.2))
  expect_identical(predict(a), predict(b))
  c <- flash_kde(~ a + kind + b + grade, plain, bandwidth = H, categorical = categorical_kernel(smoothing = 0.2))
  expect_identical(predict(a), predict(c))
  expect_identical(predict(c, plain[7:3, 4:1]), predict(a)[7:3])
  expect_equal(predict(flash_kde(~ cbind(a, b) + kind, plain, bandwidth = H, categorical = categorical_kernel(smoothing = 0.2)), plain[1:3, ]),
    predict(flash_kde(plain[-4], bandwidth = H, categorical = categorical_kernel(smoothing = 0.2)))[1:3])
  half <- update(a, categorical = categorical_kernel(smoothing = 0.5))
  expect_identical(coef(half)[c("kind", "grade")], c(kind = 0.5, grade = 0.5))
})

test_that("rows with missing values go, or are NA", {
  data <- mixed_data()
  data$a[3] <- NA
  data$kind[5] <- NA
  fit <- mixed_fit(data, na.action = stats::na.exclude)
  expect_identical(which(is.na(predict(fit))), c(3L, 5L))
  expect_equal(predict(fit)[-c(3, 5)], predict(mixed_fit(data[-c(3, 5), ])))
  expect_identical(which(is.na(predict(fit, data))), c(3L, 5L))
  expect_argument_error(mixed_fit(data, na.action = stats::na.fail), "x")
})

test_that("levels and columns that the fit does not know are errors that name them", {
  fit <- mixed_fit()
  data <- mixed_data(3)
  expect_error(predict(fit, transform(data, kind = "other")), "\"other\" in column `kind`")
  expect_error(predict(fit, data[-2]), "found no `kind`")
  expect_identical(predict(fit, cbind(more = data, data)), predict(fit, data)) # others do not matter
  expect_argument_error(predict(fit, as.matrix(data[c(1, 3)])), "newdata")
  expect_argument_error(predict(fit, transform(data, a = Inf)), "newdata")
})

test_that("arguments are checked by column", {
  data <- mixed_data()
  for (wrong in list(-0.1, 0.7, NA_real_, "a", c(0.1, 0.2), c(other = 0.1), c(kind = 0.7), numeric())) {
    expect_argument_error(flash_kde(data, categorical = categorical_kernel(smoothing = wrong)), "categorical$smoothing")
  }
  for (wrong in list(1, "gaussian", c(kind = "wangvanryzin"), c(other = "liracine"), character())) {
    expect_argument_error(flash_kde(data, categorical = categorical_kernel(kernel = wrong)), "categorical$kernel")
  }
  expect_argument_error(flash_kde(data[-4], categorical = categorical_kernel(kernel = "wangvanryzin")), "categorical$kernel")
  expect_argument_error(flash_kde(faithful, categorical = categorical_kernel(smoothing = 0.1)), "categorical")
  expect_argument_error(flash_kde(faithful, categorical = categorical_kernel(kernel = "liracine")), "categorical")
  expect_argument_error(flash_kde(data, adaptive = "balloon"), "adaptive")
  expect_argument_error(flash_kde(data, "sdkde", adaptive = TRUE), "adaptive")
  expect_argument_error(flash_kde(data["kind"], adaptive = TRUE), "adaptive")
  expect_argument_error(flash_kde(data, bandwidth = "lscv"), "bandwidth")
  expect_argument_error(flash_kde(data, debias = debiasing(bandwidth = 1)), "debias$bandwidth")
})

# ---- engines --------------------------------------------------------------------------------------

test_that("threads do not change a bit, and a tolerance holds", {
  set.seed(9)
  data <- data.frame(x = stats::rnorm(4000), f = sample(letters[1:4], 4000, TRUE))
  fit <- flash_kde(data, bandwidth = 0.2, categorical = categorical_kernel(smoothing = 0.3))
  exact <- predict(fit)
  for (passes in c(4, 0)) {
    replace_in_package("CELLS_OF_A_PASS", passes)
    expect_identical(predict(fit, control = flash_control(threads = 1)), predict(fit, control = flash_control(threads = 2)))
    expect_identical(predict(fit, loo = TRUE, control = flash_control(threads = 1)), predict(fit, loo = TRUE, control = flash_control(threads = 2)))
    for (type in c("global", "pointwise")) {
      fast <- predict(fit, tol = 1e-5, control = flash_control(tol_type = type, engine = "fast"))
      expect_lt(max(abs(fast - exact) / if (type == "global") max(exact) else exact), 1e-5)
      expect_false(identical(fast, exact))
    }
  }
  expect_identical(coef(flash_kde(data, control = flash_control(threads = 1))), coef(flash_kde(data, control = flash_control(threads = 2))))
})

test_that("the order of the rows does not matter to what is chosen", {
  set.seed(10)
  data <- mixed_data(120)
  expect_identical(coef(flash_kde(data)), coef(flash_kde(data[sample(120), ])))
})

# ---- methods --------------------------------------------------------------------------------------

test_that("draws have the columns of the data", {
  data <- mixed_data()
  draws <- simulate(mixed_fit(data), 20, seed = 1)
  expect_identical(lapply(draws, class), lapply(data, class))
  expect_identical(levels(draws$kind), levels(data$kind))
})

test_that("a fit prints, sums up, and comes as a data frame", {
  fit <- flash_kde(iris)
  expect_output(print(fit), "Species unordered 3")
  expect_output(print(summary(fit)), "Shares of Species")
  expect_output(print(flash_kde(iris["Species"])), "150 in 1 categorical column")
  expect_named(coef(fit), names(iris))
  frame <- as.data.frame(fit)
  expect_equal(frame[names(iris)], iris, ignore_attr = TRUE)
  expect_identical(frame$density, fitted(fit))
  expect_identical(nobs(fit), 150L)
  expect_named(hdr_level(fit, 0.5), "50%")
})

test_that("with one number, probabilities are those of the number", {
  fit <- flash_kde(~ Sepal.Length + Species, iris, bandwidth = 0.3, categorical = categorical_kernel(smoothing = 0.1))
  number <- flash_kde(iris$Sepal.Length, "kde", bandwidth = 0.3)
  expect_identical(kde_cdf(fit, 5.5), kde_cdf(number, 5.5))
  both <- flash_kde(iris, bandwidth = 0.3, categorical = categorical_kernel(smoothing = 0.1))
  expect_identical(kde_cdf(both, iris[1:2, 5:1]), kde_cdf(both, iris[1:2, 1:4]))
  expect_identical(quantile(fit, 0.3), quantile(number, 0.3))
})

test_that("figures draw the marginals of the formula", {
  data <- mixed_data()
  fit <- mixed_fit(data)
  path <- tempfile(fileext = ".pdf")
  grDevices::pdf(path)
  on.exit({
    grDevices::dev.off()
    unlink(path)
  })
  drawn <- plot(fit, by = "grade", n = 50)
  expect_named(drawn, names(data))
  for (name in c("kind", "grade")) expect_equal(drawn[[name]], ref_level_shares(data, name, usual, lambda), tolerance = 1e-12)
  for (level in levels(data$grade)) {
    line <- drawn$b[[level]]
    from <- as.integer(data$grade)
    shares <- vapply(from, \(i) ref_level("liracine", TRUE, match(level, levels(data$grade)), i, 0.4, 4), 0)
    want <- vapply(line$x, \(y) mean(shares * stats::dnorm(y, data$b, sqrt(H[2, 2]))), 0)
    expect_equal(line$y, want, tolerance = 1e-9)
  }
  expect_alone <- \(line) expect_equal(
    line$y, vapply(line$x, \(y) mean(stats::dnorm(y, data$a, sqrt(H[1, 1]))), 0), tolerance = 1e-9
  )
  expect_alone(plot(fit, by = NULL, n = 50)$a$all)
  expect_argument_error(plot(fit, by = "a"), "by")
  expect_argument_error(plot(fit, lwdd = 2), "lwdd")
  expect_message(plot(fit, max_dims = 2), "first 2 of 4")
  plot(flash_kde(data["kind"]))
  # a line for the sum over the levels, where that is of one or two numbers
  plot(flash_kde(data$a))
  expect_alone(lines(flash_kde(data[c("a", "kind")], bandwidth = sqrt(H[1, 1]), categorical = categorical_kernel(smoothing = 0.3)), n = 50))
  expect_argument_error(lines(flash_kde(iris, bandwidth = 0.5, categorical = categorical_kernel(smoothing = 0))), "x")
  expect_argument_error(lines(flash_kde(data["kind"])), "x")
})

test_that("ggplot2 draws the same lines and probabilities", {
  skip_if_not_installed("ggplot2")
  fit <- mixed_fit()
  path <- tempfile(fileext = ".pdf")
  grDevices::pdf(path)
  on.exit({
    grDevices::dev.off()
    unlink(path)
  })
  drawn <- plot(fit, by = "grade", n = 50)
  figure <- ggplot2::autoplot(fit, by = "grade", n = 50, main = "Numbers")
  of_geom <- \(figure, geom) {
    do.call(rbind, lapply(Filter(\(layer) inherits(layer$geom, geom), figure$layers), `[[`, "data"))
  }
  lines <- of_geom(figure, "GeomPath")
  for (name in c("a", "b")) {
    for (level in levels(mixed_data()$grade)) {
      shown <- lines[lines$panel == name & lines$group == level, ]
      expect_identical(shown[c("x", "y")], data.frame(drawn[[name]][[level]]), ignore_attr = TRUE)
    }
  }
  expect_identical(figure$labels$title, "Numbers")
  bars <- ggplot2::autoplot(kde_marginal(fit, c("kind", "grade")))
  expect_identical(of_geom(bars, "GeomCol")$y, unname(c(drawn$kind, drawn$grade)))
  for (one in list(figure, bars, ggplot2::autoplot(fit, by = NULL))) print(one)
  expect_argument_error(ggplot2::autoplot(fit, by = "a"), "by")
  expect_argument_error(ggplot2::autoplot(fit, prob = 0.5), "prob")
})

test_that("probabilities of levels at numbers sum to one, and what is given is checked", {
  data <- mixed_data()
  to <- data[c(3, 17), ]
  fit <- mixed_fit(data, "sdkde", weights = rep(1:4, 10))
  every <- expand.grid(kind = levels(data$kind), grade = levels(data$grade))
  expect_equal(sum(predict(kde_conditional(fit, to[2, c("a", "b")]), every)), 1, tolerance = 1e-12)
  some <- kde_conditional(fit, c(kind = "u"))
  expect_error(logLik(some), "of other categories", class = "flashkernel_error_unsupported")
  expect_argument_error(kde_conditional(fit, c(kind = "none of them")), "given")
  expect_argument_error(kde_conditional(fit, list(kind = NA)), "given")
  expect_argument_error(kde_conditional(fit, c(a = "1")), "given")
  expect_argument_error(kde_conditional(fit, to[1, ]), "given")
  lone <- transform(data, kind = factor("here", c("here", "nowhere")))
  expect_argument_error(kde_conditional(flash_kde(lone, bandwidth = H, categorical = categorical_kernel(smoothing = 0)), c(kind = "nowhere")), "given")
})

test_that("marginals keep the levels that they name, and sum over the others", {
  data <- mixed_data()
  fit <- mixed_fit(data)
  kept <- kde_marginal(fit, c("b", "grade"))
  grades <- data.frame(b = 0.7, grade = levels(data$grade))
  expect_equal(sum(predict(kept, grades)), predict(kde_marginal(fit, "b"), 0.7), tolerance = 1e-12)
  anew <- kde_marginal(mixed_fit(data, "sdkde", debias = debiasing(bandwidth = H)), c("b", "grade"), debias = TRUE)
  h <- sqrt(H[2, 2])
  own <- flash_kde(data[c("b", "grade")], "sdkde", h, categorical = categorical_kernel(smoothing = lambda["grade"]), debias = debiasing(bandwidth = h))
  expect_equal(predict(anew, grades), predict(own, grades), tolerance = 1e-11)
  turned <- kde_marginal(fit, c("grade", "b", "kind", "a"))
  expect_equal(predict(turned, data), predict(fit, data), tolerance = 1e-12)
  expect_named(simulate(turned, 2), c("grade", "b", "kind", "a"))
  expect_argument_error(kde_marginal(fit, c("b", "kinds")), "vars")
})

test_that("p-values of rows go by rows of the same kind, that the fit has not seen", {
  data <- mixed_data()
  fit <- mixed_fit(data[1:20, ])
  heights <- predict(fit, data[21:40, ])
  to <- data[c(22, 7), ]
  want <- vapply(predict(fit, to), \(p) (1 + sum(heights <= p)) / 21, 0)
  expect_equal(kde_pvalue(fit, to, calibration = data[21:40, ]), want)
  expect_argument_error(kde_pvalue(fit, to, calibration = data["a"]), "calibration")
})

test_that("what levels have not is refused, and where to find it said", {
  fit <- mixed_fit()
  expect_error(quantile(kde_marginal(fit, c("kind", "grade"))), "predict", class = "flashkernel_error_unsupported")
  expect_error(kde_conditional(fit, c(a = 1, kind = "x")), "list()", fixed = TRUE)
  expect_gt(nrow(kde_modes(kde_marginal(fit, c("a", "b")))), 0)
})

test_that("a fit with levels and one row of positive weight needs a smoothing parameter, and says so", {
  two <- data.frame(a = c(1, 2), g = c(TRUE, FALSE))
  w <- c(1, 0)
  smoothing <- "categorical_kernel(smoothing = 0))"
  both <- paste("`bandwidth` as a number and", smoothing)
  expect_refused <- function(expr, cure) {
    error <- expect_error(expr, class = "flashkernel_error_argument")
    expect_match(conditionMessage(error), "at least two rows of positive weight")
    expect_match(conditionMessage(error), paste0("(give ", cure), fixed = TRUE)
  }
  expect_refused(flash_kde(two, "kde", 0.5, weights = w), smoothing)
  expect_refused(flash_kde(two["g"], "kde", weights = w), smoothing)
  expect_refused(flash_kde(two, "kde", weights = w), both)
  expect_refused(flash_kde(g ~ a, data = two, weights = w, bandwidth = 0.5), smoothing)
  expect_refused(flash_kde(a ~ g, data = two, weights = w), both)
  by_rule <- \() flash_kde(a ~ g, data = two, weights = w, bandwidth = "silverman")
  expect_refused(by_rule(), both)
  # as advised
  smoothed <- c(0.9, 0.1)
  expect_equal(predict(flash_kde(two["g"], "kde", weights = w, categorical = categorical_kernel(smoothing = 0.1)), two), smoothed)
  for (estimator in c("kde", "sdkde", "laplace")) {
    fit <- flash_kde(two, estimator, 0.5, weights = w, categorical = categorical_kernel(smoothing = 0.1))
    expect_equal(predict(fit, data.frame(a = 1, g = two$g)), predict(flash_kde(1, estimator, 0.5), 1) * smoothed)
  }
  given <- flash_kde(a ~ g, data = two, weights = w, bandwidth = 0.5, categorical = categorical_kernel(smoothing = 0.1))
  expect_equal(predict(given, two), dnorm(c(0, 1), sd = 0.5))
})

test_that("the memory of a fit with levels is reckoned by what it copies, and refused in words", {
  data <- data.frame(a = sin(seq_len(5000)), g = factor(rep(1:2, 2500)))
  limited <- \(estimator) {
    flash_kde(data, estimator, 0.3, categorical = categorical_kernel(smoothing = 0.1), tol = 1e-6, control = flash_control(memory_limit = 2e5))
  }
  expect_argument_error(limited("sdkde"), "x")
  expect_error(limited("sdkde"), "320 kB")
  expect_s3_class(limited("kde"), "flash_kde")
})

test_that("levels alone are conditioned on levels", {
  data <- data.frame(k = c(TRUE, TRUE, FALSE), o = factor(c(4, 1, 4), 1:4, ordered = TRUE))
  fit <- flash_kde(data, categorical = categorical_kernel(smoothing = 0.4), weights = c(1, 2, 1))
  expect_no_warning(given <- kde_conditional(fit, list(o = "4")))
  k <- data.frame(k = c(TRUE, FALSE))
  joint <- predict(fit, cbind(k, o = factor(4, 1:4, ordered = TRUE)))
  expect_equal(predict(given, k), joint / sum(joint))
})

test_that("a factor alone is a fit of one column", {
  alone <- flash_kde(iris$Species, weights = 1:150)
  frame <- flash_kde(iris["Species"], weights = 1:150)
  expect_identical(all_names(alone), "iris$Species")
  expect_equal(predict(alone, iris$Species[c(1, 60, 120)]), predict(frame, iris["Species"][c(1, 60, 120), , drop = FALSE]))
  expect_equal(sum(predict(alone, levels(iris$Species))), 1)
  with_null_device(expect_silent(plot(alone)))
})
