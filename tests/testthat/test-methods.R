# The class: formula interface, missing values, storage, printing, extraction.

estimators <- c("kde", "sdkde", "laplace")

# ---- interfaces

test_that("the object holds what it promises", {
  fit <- flash_kde(faithful, bandwidth = c(0.3, 4), debias = debiasing(bandwidth = c(0.2, 3)))
  expect_s3_class(fit, "flash_kde")
  expect_identical(fit$estimator, "sdkde")
  expect_equal(c(fit$n, fit$d), c(272, 2))
  expect_equal(fit$bandwidth, diag(c(0.09, 16)), ignore_attr = TRUE)
  expect_identical(dimnames(fit$bandwidth), list(names(faithful), names(faithful)))
  expect_equal(fit$score_bandwidth, diag(c(0.04, 9)), ignore_attr = TRUE)
  expect_identical(fit$selector, "user")
  expect_identical(dim(fit$debiased), c(272L, 2L))
  expect_null(flash_kde(faithful, estimator = "kde")$debiased)
  expect_false(flash_kde(faithful)$selector == "user")
  expect_type(fit$call, "language")
})

test_that("the formula takes transformations and evaluates them in newdata", {
  fit <- flash_kde(~ log(eruptions) + I(waiting / 60), data = faithful, estimator = "kde")
  by_hand <- cbind(log(faithful$eruptions), faithful$waiting / 60)
  want <- predict(flash_kde(by_hand, estimator = "kde"), by_hand[5:8, ])
  expect_identical(predict(fit, faithful[5:8, ]), want)
})

test_that("the formula finds weights and subset in the data", {
  data <- transform(faithful, w = seq_len(272))
  a <- flash_kde(~ eruptions + waiting,
    data = data, subset = waiting > 60, weights = w, bandwidth = 1
  )
  keep <- faithful$waiting > 60
  b <- flash_kde(faithful[keep, ], weights = which(keep), bandwidth = 1)
  expect_identical(predict(a, faithful), predict(b, faithful))
  expect_identical(a$n, b$n)
  inside <- function() {
    local_weights <- rep(1:2, 136)
    flash_kde(~waiting, data = faithful, weights = local_weights, bandwidth = 1)
  }
  want <- flash_kde(faithful$waiting, weights = rep(1:2, 136), bandwidth = 1)
  expect_identical(predict(inside(), faithful), predict(want, faithful$waiting))
})

test_that("newdata must have what came from the data, whatever the workspace holds by then", {
  divisor <- 60
  fit <- flash_kde(~ eruptions + I(waiting / divisor), data = faithful, estimator = "kde")
  waiting <- 5
  expect_argument_error(predict(fit, data.frame(eruptions = 2)), "newdata")
  expect_length(predict(fit, faithful[1:3, ]), 3) # the constant is found beside the formula
  rm(waiting)

  long <- faithful$waiting # not from `data`, but no constant either
  fit <- flash_kde(~ eruptions + long, data = faithful, estimator = "kde", bandwidth = 1)
  long <- 70
  expect_argument_error(predict(fit, faithful[1:3, ]), "newdata")
  expect_length(predict(fit, data.frame(eruptions = 2, long = 80)), 1)
})

test_that("a formula with an interaction or no variable is refused", {
  expect_argument_error(flash_kde(eruptions ~ 1, data = faithful), "formula")
  expect_argument_error(flash_kde(~ eruptions * waiting, data = faithful), "formula")
  expect_argument_error(flash_kde(~1, data = faithful), "formula")
  expect_argument_error(flash_kde(~no_such_variable, data = faithful), "formula")
  expect_argument_error(flash_kde(~waiting, data = faithful, weights = rep(-1, 272)), "weights")
  expect_argument_error(flash_kde(~waiting, data = faithful, bandwith = 1), "bandwith")
})

test_that("rows with missing values are treated as na.action says", {
  holes <- faithful
  holes[c(3, 10), 1] <- NA
  holes[20, 2] <- NaN
  complete <- faithful[-c(3, 10, 20), ]
  want <- flash_kde(complete, bandwidth = c(0.3, 4))
  by_action <- function(action) {
    list(
      flash_kde(holes, bandwidth = c(0.3, 4), na.action = action),
      flash_kde(as.matrix(holes), bandwidth = c(0.3, 4), na.action = action),
      flash_kde(~ eruptions + waiting, data = holes, bandwidth = c(0.3, 4), na.action = action)
    )
  }
  for (action in list(na.omit, na.exclude, "na.omit")) for (fit in by_action(action)) {
    expect_identical(fit$n, want$n)
    expect_identical(predict(fit, faithful), predict(want, faithful))
    expect_equal(as.vector(fit$na.action), c(3, 10, 20))
  }
  for (fit in by_action(na.omit)) expect_length(predict(fit), 269)
  for (fit in by_action(na.exclude)) { # R's meaning: predictions padded with NA
    expect_length(predict(fit), 272)
    expect_identical(which(is.na(predict(fit))), c(3L, 10L, 20L))
  }
  expect_error(flash_kde(holes, na.action = na.fail), class = "flashkernel_error_argument")
  expect_error(flash_kde(holes, na.action = na.pass), class = "flashkernel_error_argument")
  expect_argument_error(flash_kde(faithful, na.action = "no such function"), "na.action")

  before <- options(na.action = "na.fail")
  on.exit(options(before))
  expect_error(flash_kde(holes), class = "flashkernel_error_argument")
})

test_that("what a user's na.action does wrong is told as such", {
  holes <- faithful
  holes[3, 1] <- NA
  fit <- flash_kde(faithful, "kde", bandwidth = 1)
  wrong <- list(function(x) NULL, function(x) stop("out of order"), function(x) as.list(x))
  for (action in wrong) {
    expect_argument_error(flash_kde(holes, bandwidth = 1, na.action = action), "na.action")
    expect_argument_error(predict(fit, holes, na.action = action), "na.action")
  }
  expect_error(predict(fit, holes, na.action = wrong[[2]]), "out of order")
  expect_error(flash_kde(holes, bandwidth = 1, na.action = na.fail), "row 3, column `eruptions`")
})

test_that("a missing weight removes its row, and all rows missing is an error", {
  w <- rep(1, 272)
  w[5] <- NA
  fit <- flash_kde(faithful, bandwidth = 1, weights = w, na.action = na.omit)
  expect_identical(fit$n, 271L)
  expect_identical(length(fit$weights), 271L)
  expect_argument_error(flash_kde(c(NA_real_, NaN), bandwidth = 1), "x")
  expect_error(flash_kde(1:2, bandwidth = 1, weights = c(NA, NA)), "^`weights`.*missing")
})

test_that("update() changes one argument and keeps the others", {
  fit <- flash_kde(faithful, estimator = "kde", bandwidth = c(0.3, 4))
  wider <- update(fit, bandwidth = c(0.6, 8))
  expect_identical(wider$estimator, "kde")
  expect_equal(unname(wider$bandwidth), diag(c(0.36, 64)))
  by_formula <- flash_kde(~ eruptions + waiting, data = faithful, bandwidth = 1)
  expect_identical(update(by_formula, estimator = "laplace")$estimator, "laplace")
  expect_identical(update(by_formula, ~ . - waiting)$d, 1L)
  # options given by position, too
  by_position <- flash_kde(~eruptions, faithful, "kde", 0.2)
  expect_identical(predict(eval(by_position$call)), predict(by_position))
  expect_equal(update(by_position, bandwidth = 0.4)$bandwidth[[1]], 0.16)
  expect_identical(update(by_position, bandwidth = 0.4)$estimator, "kde")
})

test_that("a fit read back in a fresh session predicts the same bits", {
  file <- tempfile(fileext = ".rds")
  on.exit(unlink(file))
  fit <- flash_kde(faithful, bandwidth = c(0.3, 4))
  saveRDS(fit, file)
  there <- in_child(function(file) predict(readRDS(file)), list(file))
  expect_identical(there, predict(fit))
})

# ---- text

test_that("print() says that H is a variance, the standard deviations and the selector, and nothing of the machine", {
  fit <- flash_kde(faithful, bandwidth = c(0.3, 4))
  text <- paste(utils::capture.output(shown <- withVisible(print(fit))), collapse = "\n")
  expect_identical(shown$value, fit)
  expect_false(shown$visible)
  for (word in c("272", "variance", "sd", "eruptions", "waiting", "0.3")) expect_match(text, word, ignore.case = TRUE)
  expect_no_match(text, "cpu|thread|avx|Engine|precision")
  for (estimator in estimators) {
    expect_output(print(flash_kde(faithful, estimator = estimator)), "by \"auto\"")
    expect_output(print(flash_kde(iris[1:4], estimator = estimator)), "Sepal.Length")
  }
})

test_that("summary() and diagnostics() print their content", {
  fit <- flash_kde(faithful, estimator = "laplace", bandwidth = c(0.3, 4), weights = rep(1:2, 136))
  expect_output(print(summary(fit)), "effective|log-?likelihood", ignore.case = TRUE)
  expect_output(print(diagnostics(fit)), "negative", ignore.case = TRUE)
  expect_output(print(diagnostics(flash_kde(faithful))), "cpu.*pairs_per_second")
})

test_that("diagnostics() reports where the work was done and how much it was", {
  w <- rep(1:2, 136)
  fit <- flash_kde(faithful, bandwidth = c(0.3, 4), weights = w, control = flash_control(threads = 1))
  found <- diagnostics(fit)
  text <- paste(names(unlist(found)), collapse = " ")
  for (item in c("backend", "device", "engine", "precision", "threads", "pairs", "seconds")) expect_match(text, item)
  flat <- unlist(found)
  expect_true("cpu" %in% flat)
  size <- unname(unlist(found)[grep("effective", names(flat))])
  expect_equal(as.numeric(size[1]), sum(w)^2 / sum(w^2))
})

test_that("selection stages count their sums, and a fit without sums knows where they will run", {
  fit <- flash_kde(faithful, "kde", bandwidth = kde_bandwidth(method = "lcv", structure = "scaled"), control = flash_control(threads = 1))
  found <- diagnostics(fit)
  expect_identical(found$stages$stage, "bandwidth")
  # a scan by one pass over all pairs and some evaluations, and for the standard error some over fifths of the rows
  evaluations <- attr(kde_bandwidth(faithful, "lcv", "kde", "scaled"), "evaluations")
  expect_lt(found$stages$pairs, evaluations * 272^2)
  expect_gt(found$stages$pairs, 2 * 272^2)
  expect_match(utils::capture.output(print(found)), "bandwidth in .*sums on cpu", all = FALSE)

  lazy <- flash_kde(faithful, "kde", bandwidth = 1, control = flash_control(precision = "single", threads = 1))
  found <- diagnostics(lazy)
  expect_identical(unlist(found[c("backend", "engine", "precision")], use.names = FALSE), c("cpu", "exact", "single"))
  expect_identical(found$threads, 1L)
  expect_identical(found$tail_rows, NA_real_)
  expect_match(utils::capture.output(print(found)), "no sums yet.*cpu", all = FALSE)
  expect_identical(diagnostics(flash_kde(faithful, bandwidth = 1))$tail_rows, 0)
})

test_that("the negative mass of a Laplace estimate is that of a fine grid", {
  x <- c(-1, 1) * 0.5
  fit <- flash_kde(x, estimator = "laplace", bandwidth = 1)
  grid <- seq(-12, 12, length.out = 200001)
  density <- ref_laplace(cbind(x), cbind(grid[seq(1, 200001, 100)]), diag(1))
  want <- sum(pmax(-density, 0)) * diff(grid[c(1, 101)])
  found <- diagnostics(fit)$negative_mass
  expect_equal(found$value, want, tolerance = 1e-3)
  expect_identical(found$method, "grid")

  for (spread in c(3, 20)) { # the grid is 128 sds wide at most
    set.seed(1)
    points <- matrix(stats::runif(80, -spread, spread), 40)
    fit <- flash_kde(points, estimator = "laplace", bandwidth = 0.5)
    side <- seq(-spread - 4, spread + 4, length.out = 601)
    density <- predict(fit, as.matrix(expand.grid(side, side)))
    want <- sum(pmax(-density, 0)) * diff(side[1:2])^2
    expect_equal(diagnostics(fit)$negative_mass$value, want, tolerance = 2e-3)
  }

  cloud <- example_points(60, 4)
  fit <- flash_kde(cloud, estimator = "laplace", bandwidth = 0.6)
  set.seed(1)
  found <- diagnostics(fit)$negative_mass
  expect_identical(found$method, "sampling")
  # An independent estimate: the kernel's mixture as proposal
  draws <- cloud[sample(60, 20000, TRUE), ] + 0.6 * matrix(stats::rnorm(80000), ncol = 4)
  ratio <- ref_laplace(cloud, draws, diag(0.36, 4)) / exp(ref_log_kde(cloud, draws, diag(0.36, 4)))
  se <- stats::sd(pmax(-ratio, 0)) / sqrt(20000)
  expect_lt(abs(found$value - mean(pmax(-ratio, 0))), 5 * (se + found$se))
  expect_null(diagnostics(flash_kde(cloud, estimator = "kde", bandwidth = 1))$negative_mass)
})

test_that("a far row of weight 0 does not change how the negative mass is computed", {
  x <- c(-0.5, 0.5, 1e9)
  fit <- flash_kde(x, estimator = "laplace", bandwidth = 1, weights = c(1, 1, 0))
  want <- diagnostics(flash_kde(x[1:2], estimator = "laplace", bandwidth = 1))$negative_mass
  expect_equal(diagnostics(fit)$negative_mass, want)
})

# ---- extraction

test_that("as.data.frame() keeps data columns that are called as its own", {
  x <- data.frame(density = faithful$waiting, log_density = faithful$eruptions)
  table <- as.data.frame(flash_kde(x, estimator = "kde"))
  expect_named(table, c("density", "log_density", "density.1", "log_density.1"))
  expect_equal(table$density, faithful$waiting)
  expect_equal(table$log_density.1, log(table$density.1))
})

test_that("AIC() and BIC() are -2 times the leave-one-out log likelihood, without a penalty", {
  fit <- flash_kde(faithful, "kde", bandwidth = c(0.4, 6))
  expect_equal(c(AIC(fit), BIC(fit)), rep(-2 * as.numeric(logLik(fit)), 2))
})

test_that("coef() are the kernel's sds, fitted() the densities, and residuals() an error", {
  holes <- faithful
  holes[3, 1] <- NA
  fit <- flash_kde(holes, bandwidth = c(0.4, 6), na.action = na.exclude)
  expect_equal(coef(fit), c(eruptions = 0.4, waiting = 6))
  expect_identical(fitted(fit), predict(fit))
  expect_length(fitted(fit), 272)
  expect_error(residuals(fit), "no residuals", class = "flashkernel_error_unsupported")
})

test_that("data may come first where the formula is named", {
  want <- flash_kde(~waiting, faithful, "kde", bandwidth = 5, weights = eruptions)
  fits <- list(
    flash_kde(faithful, formula = ~waiting, "kde", bandwidth = 5, weights = eruptions),
    faithful |> flash_kde(bandwidth = 5, ~waiting, "kde", weights = eruptions),
    flash_kde(data = faithful, formula = ~waiting, estimator = "kde", bandwidth = 5, weights = eruptions),
    flash_kde(formula = ~waiting, faithful, "kde", 5, weights = eruptions)
  )
  for (fit in fits) {
    expect_identical(predict(fit), predict(want))
    expect_identical(as.list(fit$call)$data, quote(faithful))
    expect_identical(predict(update(fit, bandwidth = 6)), predict(update(want, bandwidth = 6)))
  }
  # in a function, with its own variables; and the data are evaluated once
  times <- 0
  within_function <- function(width, rows) {
    make <- \() {
      times <<- times + 1
      faithful
    }
    flash_kde(make(), formula = ~waiting, bandwidth = width, subset = rows)
  }
  expect_identical(within_function(5, 1:50)$n, 50L)
  expect_identical(times, 1)
  expect_argument_error(flash_kde(faithful, formula = ~waiting, data = faithful), "data")
})

test_that("update() keeps what a fit has chosen, for other rows or the same", {
  d <- transform(faithful, g = factor(eruptions > 3), h = rep(letters[1:3], length.out = 272))[1:60, ]
  more <- rbind(d, d[1:40, ])
  fits <- list(
    flash_kde(~ eruptions + waiting, d), flash_kde(~waiting, d, "laplace"), flash_kde(~ eruptions + g + h, d),
    flash_kde(~waiting, d, support = c(0, Inf)), flash_kde(eruptions ~ waiting + h, d), flash_kde(h ~ waiting, d),
    flash_kda(g ~ waiting, d, shared = TRUE), kernel_regression(eruptions ~ waiting + h, d),
    kernel_ridge(eruptions ~ waiting + h, d), kernel_ridge(h ~ waiting, d)
  )
  for (fit in fits) {
    same <- update(fit, bandwidth = "keep")
    expect_equal(predict(same, d[1:20, ]), predict(fit, d[1:20, ]), tolerance = 1e-10, label = class(fit)[1])
    grown <- update(fit, data = more, bandwidth = "keep")
    expect_equal(nobs(grown), 100)
    expect_equal(grown$bandwidth, same$bandwidth)
  }
  # the classical estimate is the mean of those of the old and the new rows
  old <- flash_kde(faithful$waiting, "kde")
  new <- c(50, 60.5, 90)
  grown <- update(old, x = c(faithful$waiting, new), bandwidth = "keep")
  of_new <- vapply(40:100, \(at) mean(stats::dnorm(at, new, coef(old))), 0)
  expect_equal(predict(grown, 40:100), (272 * predict(old, 40:100) + 3 * of_new) / 275)
  expect_identical(update(old, bandwidth = "keep", estimator = "laplace")$estimator, "laplace")
  expect_argument_error(update(flash_kda(g ~ waiting, d), bandwidth = "keep"), "bandwidth")
  expect_error(update(kernel_ridge(eruptions ~ k(waiting), d), bandwidth = "keep"), "leave \"keep\" out")
})

test_that("update() changes a formula", {
  fit <- flash_kde(~ eruptions + waiting, faithful, bandwidth = 5)
  for (formula in list(. ~ . - waiting, ~ . - waiting)) expect_identical(update(fit, formula)$names, "eruptions")
  expect_identical(update(fit, . ~ . + I(waiting^2))$d, 3L)
  change <- function(fit) {
    width <- 2
    update(fit, . ~ . - waiting, bandwidth = width)
  }
  expect_equal(unname(change(fit)$bandwidth), matrix(4))
  expect_equal(update(fit, . ~ . - waiting, evaluate = FALSE)$formula, ~eruptions, ignore_formula_env = TRUE)
  expect_argument_error(update(fit, y ~ .), "formula")
  expect_argument_error(update(flash_kde(faithful, bandwidth = 1), . ~ . - waiting), "formula.")
  expect_argument_error(update(flash_kde(faithful, bandwidth = 1), "kde"), "formula.")
  expect_argument_error(update(fit, "kde"), "formula.")
})

test_that("print() shows the correlations of a full bandwidth", {
  H <- matrix(c(0.1, 0.5, 0.5, 30), 2)
  expect_output(print(flash_kde(faithful, "kde", bandwidth = H)), "correlation 0.2887")
  full <- flash_kde(iris[1:4], "kde", bandwidth = kde_bandwidth(iris[1:4], "scott", "kde", structure = "full"))
  expect_output(print(full), "Petal.Width +0.818 +-0.366 +0.963")
  shown <- paste(utils::capture.output(print(flash_kde(faithful, "kde", bandwidth = c(1, 2)))), collapse = "")
  expect_no_match(shown, "correlation")
})

test_that("predict() takes infinite values in one dimension", {
  at <- c(Inf, 2, NA, -Inf)
  for (estimator in c("kde", "sdkde", "laplace")) {
    fit <- flash_kde(faithful$eruptions, estimator, bandwidth = 0.3)
    inside <- predict(fit, 2, type = "log_density", se.fit = TRUE)
    expect_identical(predict(fit, at), c(0, exp(inside$fit), NA, 0))
    logs <- predict(fit, at, type = "log_density", se.fit = TRUE)
    expect_identical(logs$fit, c(-Inf, inside$fit, NA, -Inf))
    expect_identical(logs$se.fit, c(NaN, inside$se.fit, NA, NaN))
    expect_identical(predict(fit, at, se.fit = TRUE)$se.fit[c(1, 4)], c(0, 0))
    score <- predict(fit, at, type = "score")
    expect_identical(score[c(1, 2, 4), 1], c(NaN, predict(fit, 2, type = "score")[1], NaN))
    expect_identical(predict(fit, Inf), 0)
  }
  by_formula <- flash_kde(~ log(eruptions), faithful, bandwidth = 0.3)
  expect_identical(predict(by_formula, data.frame(eruptions = 0)), 0)
})

test_that("logLik() leaves out rows of weight zero, and is -Inf below zero density", {
  x <- example_points(40, 2)
  w <- rep(c(0, 1, 3, 0.5), 10)
  fit <- flash_kde(x, estimator = "kde", bandwidth = 0.8, weights = w)
  without <- flash_kde(x[w > 0, ], estimator = "kde", bandwidth = 0.8, weights = w[w > 0])
  expect_equal(logLik(fit), logLik(without), tolerance = 1e-12)
  expect_identical(c(nobs(fit), attr(logLik(fit), "nobs")), c(30L, 30L))

  far <- flash_kde(c(0, 0.1, 0.2, 2.5), estimator = "laplace", bandwidth = 1)
  expect_warning(value <- logLik(far), "negative", class = "flashkernel_warning_negative")
  expect_identical(as.numeric(value), -Inf)
  expect_error(logLik(flash_kde(1, estimator = "kde", bandwidth = 1)), "two points")
})

test_that("rows of newdata with missing values are dealt with as na.action says", {
  fit <- flash_kde(faithful, estimator = "kde")
  new <- faithful[1:5, ]
  new[2, 1] <- NA
  new[4, 2] <- NaN
  expect_identical(predict(fit, new, na.action = na.omit), predict(fit, new)[c(1, 3, 5)])
  expect_argument_error(predict(fit, new, na.action = na.fail), "newdata")
})

test_that("predict() can run elsewhere than the fit asked for", {
  fit <- flash_kde(faithful, "kde", bandwidth = 1)
  elsewhere <- fit
  elsewhere$backend <- "cuda"
  elsewhere$threads <- 64
  expect_identical(predict(elsewhere, control = flash_control(backend = "cpu", threads = 1)), predict(fit))
  expect_argument_error(predict(fit, control = flash_control(backend = "tpu")), "backend")
  expect_argument_error(predict(fit, control = flash_control(threads = 0)), "threads")
})

test_that("predictions carry the rows' count, and scores the columns' names", {
  fit <- flash_kde(faithful, bandwidth = c(0.3, 4))
  expect_length(predict(fit, faithful[1:7, ]), 7)
  expect_null(dim(predict(fit, faithful[1:7, ])))
  score <- predict(fit, faithful[1:7, ], type = "score")
  expect_identical(dim(score), c(7L, 2L))
  expect_identical(colnames(score), c("eruptions", "waiting"))
  expect_identical(dim(kernel_sum(faithful, faithful[1:7, ], bandwidth = 1, type = "score")), c(7L, 2L))
  expect_identical(dim(predict(fit, faithful[1, ], type = "score")), c(1L, 2L))
})

test_that("the log density of a Laplace estimate warns and is NaN where it is negative", {
  fit <- flash_kde(c(-0.5, 0.5), estimator = "laplace", bandwidth = 1)
  expect_warning(got <- predict(fit, c(0, 3), type = "log_density"), "negative", class = "flashkernel_warning_negative")
  expect_identical(is.nan(got), c(FALSE, TRUE))
  expect_lt(predict(fit, 3), 0)
  expect_warning(predict(fit, 0, type = "log_density"), NA)
})

# ---- data at the edge

test_that("a point of weight 0 changes nothing, however far it lies", {
  x <- example_points(50, 1)[, 1]
  for (estimator in estimators) {
    want <- flash_kde(x, estimator = estimator, bandwidth = 0.5)
    for (far in c(1e3, 1e155)) {
      fit <- flash_kde(c(x, far), estimator = estimator, bandwidth = 0.5, weights = c(rep(1, 50), 0))
      expect_equal(predict(fit, c(-1, 0, 1)), predict(want, c(-1, 0, 1)), tolerance = 1e-12)
      expect_equal(quantile(fit, 1:9 / 10), quantile(want, 1:9 / 10), tolerance = 1e-10)
      expect_equal(kde_cdf(fit, 0), kde_cdf(want, 0), tolerance = 1e-12)
      expect_false(anyNA(predict(fit)))
    }
  }
})

test_that("every method works on single points, ties, flat columns and points worlds apart", {
  data <- list(
    3, rep(3, 5), cbind(1, 2), matrix(1, 6, 2), cbind(1, 2, 3), cbind(1:6, 2, 3), c(0, 1e9),
    rbind(c(0, 0), c(1e9, 1e9)), rbind(example_points(20, 2), c(1e6, 0)),
    matrix(1:30, 10, dimnames = list(NULL, c("a", "a", "")))
  )
  methods <- list(
    predict, simulate, summary, diagnostics, as.data.frame, hdr_level, plot,
    \(fit) if (fit$d == 1) quantile(fit)
  )
  for (x in data) for (estimator in estimators) {
    fit <- flash_kde(x, estimator = estimator, bandwidth = 1)
    for (method in methods) expect_error(suppressWarnings(utils::capture.output(with_null_device(method(fit)))), NA)
    expect_true(all(is.finite(predict(fit))))
    expect_output(print(fit), "variance")
  }
})
