# Criteria of tune_ridge() against their literal formulas and finite differences, what it finds, and the defaults of
# kernel_ridge() on columns that are none too nice.

tune_case <- function(n = 60, d = 3, t = 1, seed = 1) {
  set.seed(seed)
  x <- matrix(rnorm(n * d), n)
  y <- sin(2 * x[, 1]) + x[, 2]^2 / 2 + 0.1 * matrix(rnorm(n * t), n)
  y <- y - rep(colMeans(y), each = n)
  list(x = x, y = y / sqrt(mean(y^2)))
}

task_of <- function(case, criterion, kernel = "gaussian", together = FALSE, ...) {
  modifyList(list(
    points = case$x, y = case$y, kernel = check_kernel(kernel), criterion = criterion, base = c(1.2, 0.8, 2),
    together = together, run = start_run(settle_control(flash_control("cpu")))
  ), list(...))
}

difference_quotients <- function(f, theta, step = 1e-5) {
  vapply(seq_along(theta), \(i) {
    shift <- replace(0 * theta, i, step)
    (f(theta + shift) - f(theta - shift)) / (2 * step)
  }, 0)
}

expect_gradient <- function(task, theta) {
  found <- criterion_at(task, theta)
  expected <- difference_quotients(\(theta) criterion_at(task, theta)$value, theta)
  expect_lt(max(abs(found$gradient - expected)) / max(1, max(abs(expected))), 1e-5)
}

# family_noise() of classes by their codes.
noise_of_classes <- function(K, codes) {
  classes <- check_response(factor(codes), length(codes), family = FAMILIES$multinomial)
  family_noise(thirds_of(K), list(own = list(y = classes$y), family = classes$family), checked_run(settle_control(NULL)))
}

test_that("kernels of a sample are those of the operators", {
  case <- tune_case(30)
  for (name in names(kernel_table())) {
    kernel <- check_kernel(name)
    h <- c(1.2, 0.8, 2)
    z <- case$x / rep(h, each = 30)
    expected <- as.matrix(kernel_operator(case$x, case$x[1:7, ], bandwidth = h, kernel = kernel))
    got <- kernel_pairs(z, z[1:7, ], kernel, cpu_run())$K
    if (!identical(dim(expected), dim(got))) expected <- t(expected)
    expect_lt(max(abs(got - expected)) / max(abs(expected)), 1e-7, label = name)
    expect_lt(max(abs(kernel_pairs(z, NULL, kernel, cpu_run())$K[, 1:7] - got)) / max(abs(got)), 1e-7, label = name)
  }
})

test_that("gradients of every criterion are difference quotients", {
  case <- tune_case(t = 2)
  theta <- c(0.1, -0.2, 0.3, log(0.05))
  for (criterion in c("likelihood", "loo", "gcv")) {
    for (kernel in setdiff(names(kernel_table()), "sigmoid")) {
      expect_gradient(task_of(case, criterion, kernel), theta)
    }
    expect_gradient(task_of(case, criterion, together = TRUE), c(0.1, log(0.05)))
  }
  for (kernel in c("gaussian", "matern52", "polynomial")) {
    expect_gradient(task_of(case, "holdout", kernel, held = 1:15), theta)
    expect_gradient(task_of(case, "likelihood", kernel, inducing = 5:10), theta)
  }
  expect_gradient(task_of(case, "holdout", held = 1:15, together = TRUE), c(0.1, log(0.05)))
  expect_gradient(task_of(case, "likelihood", "matern32", inducing = 5:24, together = TRUE), c(0.1, log(0.05)))
})

test_that("inverses and determinants are those of R, of any order, and none of an indefinite matrix", {
  run <- start_run(settle_control(flash_control("cpu")))
  for (n in c(1, 7, 150)) {
    C <- crossprod(matrix(stats::rnorm(n * (n + 3)), n + 3))
    found <- inverse_of(C, run)
    expect_equal(found$inverse, solve(C), tolerance = 1e-9)
    expect_equal(found$log_det, as.vector(determinant(C)$modulus), tolerance = 1e-10)
  }
  expect_null(inverse_of(diag(c(1, -1, 1)), run))
})

test_that("the likelihood is that of a normal distribution, and the bound meets it where all rows are inducing", {
  case <- tune_case(40)
  theta <- c(0, 0, 0, log(0.1))
  C <- kernel_pairs(case$x / rep(c(1.2, 0.8, 2), each = 40), NULL, check_kernel("gaussian"), cpu_run())$K + diag(0.1, 40)
  signal <- sum(case$y * solve(C, case$y)) / 40
  literal <- (40 * log(2 * pi) + as.vector(determinant(signal * C)$modulus) + sum(case$y * solve(signal * C, case$y))) / 80
  exact <- criterion_at(task_of(case, "likelihood"), theta)$value
  expect_equal(exact, literal, tolerance = 1e-10)
  bounds <- vapply(c(3, 10, 20, 30, 40), \(m) {
    criterion_at(task_of(case, "likelihood", inducing = seq_len(m)), theta)$value
  }, 0)
  expect_true(all(bounds > exact - 1e-7))
  expect_true(all(diff(bounds) < 1e-7))
  expect_equal(bounds[5], exact, tolerance = 1e-5)
})

test_that("leave-one-out and generalised cross-validation are their definitions", {
  case <- tune_case(40)
  theta <- c(0, 0, 0, log(0.1))
  K <- kernel_pairs(case$x / rep(c(1.2, 0.8, 2), each = 40), NULL, check_kernel("gaussian"), cpu_run())$K
  left <- vapply(1:40, \(i) case$y[i] - K[i, -i] %*% solve(K[-i, -i] + diag(0.1, 39), case$y[-i]), 0)
  expect_equal(criterion_at(task_of(case, "loo"), theta)$value, log(sqrt(mean(left^2))), tolerance = 1e-10)
  expect_equal(leave_one_out(list(K), case$y, 0.1, cpu_run())[[1]]$error, mean(left^2), tolerance = 1e-10)
  H <- K %*% solve(K + diag(0.1, 40))
  gcv <- mean((case$y - H %*% case$y)^2) / (1 - sum(diag(H)) / 40)^2
  expect_equal(criterion_at(task_of(case, "gcv"), theta)$value, log(sqrt(gcv)), tolerance = 1e-10)
  held <- 1:10
  error <- case$y[held] - K[held, -held] %*% solve(K[-held, -held] + diag(0.1, 30), case$y[-held])
  expect_equal(
    criterion_at(task_of(case, "holdout", held = held), theta)$value, log(sqrt(mean(error^2))), tolerance = 1e-10
  )
})

test_that("columns that matter get small bandwidths, and the error falls", {
  set.seed(2)
  x <- matrix(rnorm(200 * 5), 200) * rep(c(1, 100, 0.01, 1, 1), each = 200)
  y <- sin(2 * x[, 1]) + cos(x[, 2] / 50) + 0.05 * rnorm(200)
  new <- matrix(rnorm(200 * 5), 200) * rep(c(1, 100, 0.01, 1, 1), each = 200)
  truth <- sin(2 * new[, 1]) + cos(new[, 2] / 50)
  by_default <- sqrt(mean((predict(kernel_ridge(x, y), new) - truth)^2))
  expect_lt(by_default, 0.15)
  for (criterion in c("likelihood", "holdout")) {
    set.seed(3)
    tuned <- tune_ridge(x, y, criterion = criterion, kernel = "gaussian")
    expect_true(all(tuned$search$relevance[3:5] < 0.5 * min(tuned$search$relevance[1:2])), label = criterion)
    expect_lt(sqrt(mean((predict(tuned, new) - truth)^2)), if (criterion == "holdout") 0.3 else 0.1)
    path <- tuned$search$path
    expect_identical(tuned$search$value, min(path$criterion[path$rows == 200]))
  }
})

test_that("the same seed chooses the same", {
  case <- tune_case(200)
  chosen <- \() {
    set.seed(5)
    tune_ridge(case$x, case$y, kernel = "matern52", rows = 100)$search[c("bandwidth", "lambda", "value", "path")]
  }
  expect_identical(chosen(), chosen())
})

test_that("what is given stays, and several values are compared", {
  case <- tune_case(300)
  tuned <- tune_ridge(case$x, case$y, bandwidth = c(1, 2, 3), rows = 100)
  expect_equal(tuned$bandwidth, c(1, 2, 3))
  tuned <- tune_ridge(case$x, case$y, lambda = 1e-3, rows = 100, structure = "scalar", centers = 50, kernel = "imq")
  expect_identical(tuned$lambda, 1e-3)
  expect_lt(diff(range(tuned$bandwidth / apply(case$x, 2, sd))), 0.3 * max(tuned$bandwidth))
  expect_identical(nrow(tuned$centers), 50L)
  tuned <- tune_ridge(case$x, case$y, lambda = 10^(-6:-1), centers = c(10, 40), rows = 100, kernel = "gaussian")
  expect_identical(nrow(tuned$search$held_out), 12L)
  expect_true(tuned$lambda %in% tuned$search$held_out$lambda)
  expect_true(nrow(tuned$centers) %in% c(10, 40))
  again <- kernel_ridge(tuned, centers = 20)
  expect_identical(nrow(again$centers), 20L)
  expect_identical(again$bandwidth, tuned$bandwidth)
})

test_that("a tuned fit has the centres that a fit without a search would have, without rows of weight 0", {
  set.seed(1)
  x <- matrix(rnorm(2040), 1020)
  y <- rpois(1020, exp(sin(x[, 1])))
  tuned <- \(...) tune_ridge(x, y, family = "poisson", kernel = "gaussian", rows = 100, ...)
  expect_equal(nrow(tuned()$centers), 1020)
  expect_equal(nrow(tuned(weights = rep(0:1, c(10, 1010)))$centers), 1010)
  expect_no_warning(tuned(weights = rep(0:1, c(10, 1010))))
})

test_that("fits that are compared are solved as others are, of squared and of logistic loss", {
  case <- tune_case(300)
  for (y in list(case$y, factor(case$y > median(case$y)))) {
    tuned <- tune_ridge(case$x, y, lambda = c(1e-6, 1), centers = c(3, 60), rows = 60, kernel = "gaussian")
    error <- tuned$search$held_out$error
    expect_lt(error[4], 0.8 * min(error[1:3]))
    expect_identical(tuned$search[c("centers", "lambda")], list(centers = 60, lambda = 1e-6))
  }
})

test_that("hold-out errors along lambda are those of fits", {
  case <- tune_case(200)
  rows <- ridge_rows(case$x)
  run <- run_control(settle_control(NULL))
  spec <- spec_of_options(list(solver = list(iterations = 200, tolerance = 1e-12)), list(kernel = list(check_kernel("gaussian"))), c(1, 1, 2), rows)
  spec$family <- check_family("gaussian", "family")
  centers <- case$x[1:25, ]
  set.seed(1)
  held <- sort(sample.int(200, 40))
  set.seed(1)
  table <- hold_out_path(rows, check_response(case$y, 200), NULL, spec, list(centers), c(1e-4, 1e-2), run)$table
  expect_identical(table$lambda, c(1e-2, 1e-4))
  w <- replace(rep(1, 200), held, 0)
  for (i in 1:2) {
    fit <- kernel_ridge(
      case$x, case$y, weights = w, bandwidth = c(1, 1, 2), lambda = table$lambda[i], centers = centers, solver = list(iterations = 200, tolerance = 1e-12)
    )
    expect_equal(table$error[i], mean((predict(fit, case$x[held, ]) - case$y[held])^2), tolerance = 1e-6)
  }
})

test_that("several kernels are compared by the criterion", {
  set.seed(1)
  x <- matrix(runif(150))
  y <- abs(x - 0.5) + rnorm(150, sd = 1e-3)
  tuned <- tune_ridge(x, y, kernel = c("gaussian", "laplacian", "matern32"))
  best <- tapply(tuned$search$path$criterion, tuned$search$path$kernel, min)
  expect_identical(names(which.min(best)), tuned$kernel$name)
  expect_equal(tuned$search$value, min(best))
  expect_output(print(tuned), "Criterion:.*evaluations")
  with_null_device(expect_no_error(plot(tuned)))
})

test_that("classes and weights are tuned", {
  set.seed(1)
  x <- matrix(rnorm(600), 300)
  y <- factor(ifelse(x[, 1]^2 + x[, 2]^2 + rnorm(300, sd = 0.3) > 1.4, "out", "in"))
  tuned <- tune_ridge(x, y, family = "gaussian", kernel = "gaussian", rows = 150)
  expect_lt(mean(predict(tuned, x) != y), 0.12)
  # a row of weight 0 is never drawn
  sample <- draw_sample(ridge_rows(x), check_response(y, 300), rep(0:1, c(100, 200)), NULL, 250)
  expect_identical(sort(sample$index), 101:300)
  expect_identical(sample$points, x[sample$index, ])
  expect_equal(sample$per_row, 2 / 3 / 300)
  logistic <- noise_of_classes(kernel_pairs(x, NULL, check_kernel("gaussian"), cpu_run())$K, as.integer(y))
  expect_true(logistic > 1e-3 && logistic < 30)
})

test_that("defaults for few rows do not hang on the random numbers", {
  few <- iris[seq(1, 150, 3), ]
  for (formula in list(Species ~ ., Sepal.Length ~ Sepal.Width + Petal.Length)) {
    set.seed(1)
    first <- kernel_ridge(formula, data = few)
    set.seed(2)
    expect_identical(coef(kernel_ridge(formula, data = few)), coef(first))
  }
})

test_that("every row is left out of one fit for the penalty of classes", {
  x <- matrix(seq(-2, 2, length.out = 90))
  K <- kernel_pairs(x, NULL, check_kernel("gaussian"), cpu_run())$K
  truth <- rep(1:2, each = 45)
  noises <- vapply(seq(5, 85, 5), \(i) {
    wrong <- replace(truth, i, 3L - truth[i])
    noise_of_classes(K, wrong)
  }, 0)
  # the one wrong row asks for a larger penalty, wherever it is
  expect_true(all(noises >= noise_of_classes(K, truth)))
  expect_gt(min(noises[c(1, 4, 14, 17)]), noise_of_classes(K, truth))
})

test_that("losses at rows held out are those of penalised fits, which optim() finds", {
  set.seed(3)
  x <- matrix(rnorm(60), 30)
  K <- kernel_pairs(x, NULL, check_kernel("gaussian"), cpu_run())$K
  run <- checked_run(settle_control(NULL))
  y <- matrix(as.double(rpois(30, exp(x[, 1]))))
  fold <- thirds_of(K)[[1]]
  at <- \(rows) list(y = y[rows, , drop = FALSE], base = 0 * y[rows, , drop = FALSE] + 0.2)
  noises <- c(3, 0.3)
  got <- newton_losses(fold, list(FAMILIES$poisson), at(fold$kept), at(fold$out), noises, run)
  loss <- \(f, y) ifelse(y > 0, y * log(y), 0) - y - y * f + exp(f)
  want <- vapply(noises, \(s) {
    f <- \(a) sum(loss(0.2 + fold$K %*% a, y[fold$kept])) + s * sum(a * (fold$K %*% a)) / 2
    a <- optim(rep(0, length(fold$kept)), f, method = "BFGS", control = list(maxit = 1000, reltol = 1e-14))$par
    as.vector(loss(0.2 + fold$at %*% a, y[fold$out]))
  }, numeric(length(fold$out)))
  expect_equal(got, want, tolerance = 1e-3)
})

test_that("a family has a penalty for a single row", {
  fit <- kernel_ridge(matrix(1), 2, family = "poisson")
  expect_true(is.finite(fit$lambda) && fit$lambda > 0)
})

test_that("the contest takes the candidate of least error at rows held out, and its best penalty", {
  set.seed(4)
  x <- matrix(rnorm(600), 300)
  y <- as.matrix(sin(2 * x[, 1]))
  candidates <- lapply(c(50, 1), \(h) list(kernel = check_kernel("gaussian"), bandwidth = c(h, h), lambda = 1e-4))
  run <- checked_run(settle_control(NULL))
  spec <- list(family = FAMILIES$gaussian, lambda = NULL, center_method = "uniform", intercept = TRUE, exact = FALSE)
  won <- win_contest(candidates, ridge_rows(x), list(y = y, family = FAMILIES$gaussian), NULL, spec, run)
  expect_lte(won$bandwidth[1], 1)
  expect_lt(won$lambda, 1e-4)
})

residuals_of <- function(fit, x, y) predict(fit, x) - y

test_that("the defaults stand columns of any kind", {
  set.seed(4)
  n <- 120
  x <- cbind(
    constant = 3, large = 1e6 * rnorm(n), counts = rpois(n, 2), tails = exp(4 * rnorm(n)), rare = rep(c(0, 1), c(n - 5, 5)),
    small = 1e-6 * rnorm(n)
  )
  y <- sin(x[, "large"] / 1e6) + 0.3 * x[, "counts"] + 0.05 * rnorm(n)
  x <- rbind(x, x[1:30, ])
  y <- c(y, y[1:30])
  expect_lt(sqrt(mean(residuals_of(kernel_ridge(x, y), x, y)^2)), 0.35 * sd(y))
  expect_lt(sqrt(mean(residuals_of(tune_ridge(x, y, kernel = "gaussian"), x, y)^2)), 0.15 * sd(y))
  expect_no_error(kernel_ridge(matrix(1, 20, 2), rnorm(20), lambda = 1e-3))
  expect_equal(as.vector(predict(kernel_ridge(x, rep(2, 150)), x[1:3, ])), rep(2, 3))
  expect_error(tune_ridge(x, rep(2, 150)), class = "flashkernel_error_argument")
})

test_that("data frames and formulas are tuned as they are fitted", {
  tuned <- tune_ridge(Sepal.Length ~ Sepal.Width + Species, data = iris, kernel = "gaussian", rows = 80)
  expect_length(predict(tuned, iris[1:3, ]), 3)
  expect_identical(unique(marginal_effects(tuned)$term), c("Sepal.Width", "Species"))
  expect_length(predict(kernel_ridge(tuned), iris[1:3, ]), 3)
  expect_named(tuned$bandwidth, c("Sepal.Width", "Speciesversicolor", "Speciesvirginica"))
  tuned <- tune_ridge(iris[, 2:5], iris$Sepal.Length, kernel = "gaussian", rows = 80)
  expect_length(predict(tuned, iris[1:3, 2:5]), 3)
})

test_that("arguments are checked, and time is kept", {
  case <- tune_case(50)
  bad <- \(...) expect_error(tune_ridge(case$x, case$y, ...), class = "flashkernel_error_argument")
  bad(criterion = "aic")
  bad(lambda = -1)
  bad(kernel = "triangle")
  bad(seconds = 0)
  bad(sigma = 1)
  bad(start = 3)
  bad(solver = list(start = 3))
  bad(refit = FALSE)
  bad(bandwidth = diag(3))
  tuned <- tune_ridge(case$x, case$y, kernel = "matern52", seconds = 1e-9)
  expect_identical(nrow(tuned$search$path), 1L)
})

# The generics with a method for fits, as NAMESPACE lists them, with arguments where a call needs some.
METHOD_ARGUMENTS <- list(
  predict = list(list(), list(mtcars[1:3, ], interval = "prediction"), list(mtcars[1:3, ], se.fit = TRUE)),
  residuals = list(list(), list(type = "pearson"), list(type = "deviance")), simulate = list(list(2, seed = 1)),
  confint = list(list(), list(1:2, level = 0.5)), plot = list(list("partial"), list(which = "residuals")),
  augment = list(list(), list(newdata = mtcars[1:2, ])), with_frame = list(), kept_choices = list()
)

test_that("every method of a fit works on a tuned fit and returns the same", {
  skip_if_not_installed("generics")
  lines <- readLines(system.file("NAMESPACE", package = "flashkernel"))
  generics <- sub("^S3method\\((.*),kernel_ridge\\)$", "\\1", grep("^S3method.*,kernel_ridge\\)$", lines, value = TRUE))
  expect_gt(length(generics), 25)
  tuned <- tune_ridge(mpg ~ wt + hp, data = mtcars, kernel = "gaussian", rows = 30)
  plain <- tuned
  class(plain) <- "kernel_ridge"
  generics <- c(generics, "update", "AIC", "BIC", "marginal_effects", "compare_fits", "cross_validate")
  refused <- c("mean", "median", "quantile", "Math", "Summary")
  without <- c("judge_of", "print", "ggplot2::autoplot", "update", "compare_fits", "cross_validate", refused)
  for (generic in setdiff(generics, without)) {
    f <- eval(str2lang(generic), asNamespace("flashkernel"))
    name <- sub(".*:", "", generic)
    for (arguments in if (is.null(METHOD_ARGUMENTS[[name]])) list(list()) else METHOD_ARGUMENTS[[name]]) {
      on <- \(fit) with_null_device(do.call(f, c(list(fit), arguments)))
      of <- on(tuned)
      if (name == "plot") next
      expect_equal(of, on(plain), label = name, ignore_function_env = TRUE)
    }
  }
  expect_output(print(tuned), "Time:")
  if (requireNamespace("ggplot2", quietly = TRUE)) expect_s3_class(ggplot2::autoplot(tuned), "ggplot")
  expect_s3_class(update(tuned, . ~ . - hp), "tune_ridge")
  file <- tempfile()
  on.exit(unlink(file))
  saveRDS(tuned, file)
  expect_identical(predict(readRDS(file), mtcars), predict(tuned, mtcars))
})

test_that("a tuned fit can be fitted again with its numbers, and tuned again by its call", {
  x <- as.matrix(mtcars[c("wt", "hp")])
  y <- mtcars$mpg
  for (tuned in list(
    tune_ridge(mpg ~ wt + hp, data = mtcars, kernel = "gaussian", weights = seq_len(32), criterion = "loo", rows = 30),
    tune_ridge(mtcars[c("wt", "hp")], y, "loo", kernel = kernel_spec("polynomial", degree = 2), rows = 30),
    tune_ridge(x, y, kernel = "gaussian", centers = c(5, 10), lambda = c(1e-3, 1e-2), rows = 30),
    tune_ridge(x, y, kernel = "gaussian", centers = x[1:8, ], rows = 30),
    mtcars |> tune_ridge(mpg ~ wt + hp, kernel = "gaussian", rows = 30)
  )) {
    expect_identical(coef(kernel_ridge(tuned)), coef(tuned))
    expect_identical(kernel_ridge(tuned, lambda = 0.5)$lambda, 0.5)
    expect_identical(coef(update(tuned)), coef(tuned))
  }
})

test_that("ways to choose are compared at rows that they have not seen, and the default wins if time is short", {
  case <- tune_case(50)
  tuned <- tune_ridge(case$x, case$y, rows = 40)
  ways <- tuned$search$ways
  expect_identical(ways$way, names(TUNE_WAYS))
  expect_identical(sum(ways$chosen), 1L)
  if (ways$chosen[1]) expect_identical(coef(tuned), coef(kernel_ridge(case$x, case$y)))
  expect_true(tune_ridge(case$x, case$y, rows = 40, seconds = 1e-3)$search$ways$chosen[1])

  # the loss of the default, literally
  fold <- rep_len(1:5, 50)
  response <- check_response(case$y, 50)
  rows <- with_row_keys(ridge_rows(case$x), response, NULL)
  spec <- replace(tuned$search$settings$spec, "family", list(FAMILIES$gaussian))
  task <- tuning_task(rows, response, NULL, spec, tuned$search$settings$asked)
  found <- losses_of_ways("plain", list(rows = rows, y = matrix(case$y)), fold == 1, task, Inf, run_control(settle_control(NULL)))
  fit <- kernel_ridge(case$x[fold != 1, ], case$y[fold != 1], metric = "none")
  expect_equal(as.vector(found), (predict(fit, case$x[fold == 1, ]) - case$y[fold == 1])^2, ignore_attr = TRUE)
})

test_that("the best way is chosen if the default is worse by more than two standard errors", {
  case <- tune_case(40)
  up_and_down <- rep_len(c(-1, 1), 40)
  for (gain in c(1.9, 2.1) * stats::sd(up_and_down) / sqrt(40)) {
    replace_in_package("losses_of_ways", \(ways, data, held, ...) cbind(up_and_down, -gain, 0.1)[held, ])
    ways <- tune_ridge(case$x, case$y, rows = 30)$search$ways
    expect_identical(ways$way[ways$chosen], if (gain < 2 / sqrt(40)) "default" else "plain")
  }
})
