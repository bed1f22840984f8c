# Beside Bayes' rule with literal densities.

literal_density <- function(x, at, H, w = rep(1, nrow(x))) {
  vapply(seq_len(nrow(at)), \(j) {
    u <- x - rep(at[j, ], each = nrow(x))
    sum(w * exp(-rowSums(u %*% solve(H) * u) / 2)) / sum(w) / sqrt(det(2 * pi * H))
  }, 0)
}

iris_points <- as.matrix(iris[, 1:2])
iris_class <- split(seq_len(150), iris$Species)

test_that("probabilities are those of Bayes' rule, with given priors, weights and bandwidths", {
  H <- matrix(c(0.15, 0.05, 0.05, 0.1), 2)
  at <- iris_points[c(1, 60, 120), ] + 0.1
  w <- rep(1:3, 50)
  prior <- c(setosa = 0.2, virginica = 0.5, versicolor = 0.3)
  fit <- flash_kda(iris_points, iris$Species, prior = prior, estimator = "kde", bandwidth = H, weights = w)
  p <- vapply(names(iris_class), \(name) {
    own <- iris_class[[name]]
    prior[[name]] * literal_density(iris_points[own, ], at, H, w[own])
  }, numeric(3))
  expect_equal(predict(fit, at, type = "prob"), p / rowSums(p), tolerance = 1e-10)
  expect_equal(predict(fit, at, type = "decision"), log(p), tolerance = 1e-10)
  logs <- predict(fit, at, type = "log_density")
  expect_equal(logs + rep(log(prior[names(iris_class)]), each = 3), log(p), tolerance = 1e-10)
  expect_equal(predict(fit, at), factor(names(iris_class)[max.col(p)], levels(iris$Species)))
  # shares of the weights
  expect_equal(flash_kda(iris_points, iris$Species, estimator = "kde", bandwidth = H, weights = w)$prior, c(
    tapply(w, iris$Species, sum) / sum(w)
  ))
  expect_equal(predict(fit, at, type = "prob", prior = c(1, 0, 0))[, 1], c(1, 1, 1))
})

test_that("classes are those of ks::kda with the same bandwidths", {
  skip_if_not_installed("ks")
  H <- list(diag(c(0.1, 0.05)), diag(c(0.2, 0.1)), matrix(c(0.2, 0.05, 0.05, 0.1), 2))
  peer <- ks::kda(iris[, 1:2], iris$Species, Hs = do.call(rbind, H), binned = FALSE, compute.cont = FALSE)
  fits <- lapply(1:3, \(k) flash_kda(iris[, 1:2], iris$Species, estimator = "kde", bandwidth = H[[k]]))
  fit <- fits[[1]]
  for (k in 2:3) fit$fits[[k]] <- fits[[k]]$fits[[k]]
  expect_equal(as.vector(predict(fit)), as.vector(peer$x.group.estimate))
})

test_that("leaving one row out is fitting without it", {
  for (estimator in c("kde", "sdkde", "laplace")) {
    fit <- flash_kda(iris_points, iris$Species, estimator = estimator, bandwidth = 0.4)
    found <- cross_validate(fit)
    rows <- c(3, 77, 134)
    # of the same priors
    p <- t(vapply(rows, \(i) {
      less <- flash_kda(iris_points[-i, ], iris$Species[-i], fit$prior, estimator = estimator, bandwidth = 0.4)
      predict(less, iris_points[i, , drop = FALSE], type = "prob")[1, ]
    }, numeric(3)))
    expect_equal(found$prob[rows, ], p, tolerance = 1e-8)
    expect_equal(found$error, mean(found$class != iris$Species))
    expect_equal(found$log_score, mean(log(found$prob[cbind(1:150, as.integer(iris$Species))])))
    expect_equal(sum(diag(found$confusion)), sum(found$class == iris$Species))
  }
})

test_that("folds are fitted anew", {
  fit <- flash_kda(Species ~ Sepal.Length + Sepal.Width, iris, estimator = "kde", bandwidth = "silverman")
  folds <- rep(1:3, 50)
  found <- cross_validate(fit, folds = folds)
  less <- flash_kda(
    Species ~ Sepal.Length + Sepal.Width, iris[folds != 2, ], estimator = "kde", bandwidth = "silverman",
    prior = fit$prior
  )
  expect_equal(found$prob[folds == 2, ], predict(less, iris[folds == 2, ], type = "prob"))
  set.seed(1)
  drawn <- cross_validate(fit, folds = 10)
  expect_equal(range(table(drawn$folds, iris$Species)), c(5, 5))
  expect_lt(drawn$error, 0.35)
})

test_that("adaptive fits, chosen ones too, and other estimators classify", {
  set.seed(2)
  x <- c(rt(300, 2), rt(300, 2) + 3)
  class <- rep(c("a", "b"), each = 300)
  fit <- flash_kda(x, class, adaptive = TRUE)
  expect_equal(fit$classes, c("a", "b"))
  expect_equal(fit$fits$a$adaptive$method, "abramson")
  expect_lt(cross_validate(fit)$error, 0.2)
  factors <- exp(rnorm(600) / 5)
  own <- flash_kda(x, class, estimator = "kde", bandwidth = 0.5, adaptive = round(factors, 1))
  b <- which(class == "b")
  h <- 0.5 * round(factors, 1)[b]
  density <- exp(predict(own, 1, type = "log_density"))
  expect_equal(density[, "b"], c(b = mean(dnorm(1, x[b], h))), tolerance = 1e-10)
  # a bandwidth that is chosen, in each class alone
  chosen <- flash_kda(x, class)
  expect_equal(chosen$fits$b$bandwidth, flash_kde(x[b])$bandwidth)
})

test_that("one bandwidth can serve all classes", {
  fit <- flash_kda(iris_points, iris$Species, shared = TRUE, estimator = "kde", bandwidth = "silverman")
  apart <- iris_points - apply(iris_points, 2, ave, iris$Species)
  H <- 3^(2 / 6) * flash_kde(apart, "kde", bandwidth = "silverman")$bandwidth
  for (k in 1:3) expect_equal(fit$fits[[k]]$bandwidth, H, ignore_attr = TRUE)
  expect_output(print(fit), "one for all classes")
})

test_that("far points, negative densities and missing values have probabilities, or NA", {
  fit <- flash_kda(c(0, 1, 10, 11), c("a", "a", "b", "b"), estimator = "kde", bandwidth = 0.1)
  expect_equal(predict(fit, c(-1e6, 1e6), type = "prob"), cbind(a = c(1, 0), b = c(0, 1)))
  signed <- flash_kda(iris_points, iris$Species, estimator = "laplace", bandwidth = 0.3)
  expect_true(all(is.finite(predict(signed, iris_points * 3, type = "prob"))))
  there <- flash_kda(iris_points + 2^30, iris$Species, estimator = "sdkde", bandwidth = 0.4)
  here <- flash_kda((iris_points + 2^30) - 2^30, iris$Species, estimator = "sdkde", bandwidth = 0.4)
  expect_equal(predict(there, type = "prob"), predict(here, type = "prob"), tolerance = 1e-6)
  data <- iris
  data$Species[4] <- NA
  data$Sepal.Length[60] <- NA
  lacking <- flash_kda(Species ~ Sepal.Length, data, estimator = "kde", bandwidth = 0.4, na.action = na.exclude)
  expect_equal(lacking$n, 148)
  expect_equal(which(is.na(predict(lacking))), c(4, 60))
  expect_equal(which(is.na(cross_validate(lacking)$class)), c(4, 60))
  expect_equal(which(is.na(predict(lacking, data))), 60)
})

test_that("methods and figures work", {
  fit <- flash_kda(Species ~ Petal.Length + Petal.Width, iris, estimator = "kde", bandwidth = 0.2)
  piped <- flash_kda(iris, Species ~ Petal.Length + Petal.Width, estimator = "kde", bandwidth = 0.2)
  expect_equal(predict(piped), predict(fit))
  columns <- flash_kda(iris[, 3:4], iris$Species, estimator = "kde", bandwidth = 0.2)
  expect_equal(predict(columns, iris), predict(fit))
  expect_equal(update(fit, . ~ . - Petal.Width)$d, 1)
  expect_equal(nobs(fit), 150)
  expect_output(print(summary(fit)), "Leave-one-out.*misclassified")
  grDevices::pdf(NULL)
  on.exit(grDevices::dev.off())
  regions <- plot(fit, n = 20)
  at <- data.frame(Petal.Length = regions$x[1], Petal.Width = regions$y[2])
  expect_equal(regions$prob[21, ], predict(fit, at, type = "prob")[1, ])
  curves <- plot(flash_kda(iris$Petal.Length, iris$Species, estimator = "kde", bandwidth = 0.2))
  expect_equal(rowSums(curves$prob), rep(1, 400))
  expect_output(print(cross_validate(fit)), "versicolor +0 +[0-9]+ +[0-9]+ +[0-9]+%")
  three <- flash_kda(iris[, 1:3], iris$Species, bandwidth = 0.4)
  expect_error(plot(three), class = "flashkernel_error_unsupported")
  file <- tempfile()
  on.exit(unlink(file), add = TRUE)
  saveRDS(fit, file)
  expect_identical(predict(readRDS(file), type = "prob"), predict(fit, type = "prob"))
})

test_that("figures of ggplot2 show the same", {
  skip_if_not_installed("ggplot2")
  one <- flash_kda(iris$Petal.Length, iris$Species, estimator = "kde", bandwidth = 0.2)
  built <- ggplot2::ggplot_build(ggplot2::autoplot(one, n = 50))
  # the line at 0 and the areas are below
  at <- built$data[[3]]$x[1:50]
  expect_equal(built$data[[3]]$y, as.vector(exp(predict(one, matrix(at), type = "decision"))), tolerance = 1e-10)
  two <- flash_kda(Species ~ Petal.Length + Petal.Width, iris, estimator = "kde", bandwidth = 0.2)
  cloud <- ggplot2::ggplot_build(ggplot2::autoplot(two, n = 20, col = c("red", "green", "blue")))$data[[2]]
  expect_equal(cloud$x, iris$Petal.Length)
  expect_equal(cloud$fill, rep(c("red", "green", "blue"), each = 50))
  expect_error(ggplot2::autoplot(flash_kda(iris[, 1:3], iris$Species, bandwidth = 0.4)), "two variables")
})

test_that("what cannot be is refused in words", {
  refused <- \(expr, text) expect_error(expr, text, class = "flashkernel_error_argument")
  refused(flash_kda(1:3, 1:2), "`class`")
  refused(flash_kda(1:4, rep("a", 4)), "two classes")
  refused(flash_kda(iris[1:100, 1:2], iris$Species[1:100]), "virginica")
  refused(flash_kda(1:4, c(1, 1, 2, 2), prior = 1), "`prior`")
  refused(flash_kda(1:4, c(1, 1, 2, 2), prior = c(a = 1, b = 2)), "`prior`")
  refused(flash_kda(c(1, 2, 3), c(1, 1, 2)), "class 2")
  refused(flash_kda(1:4, c(1, 1, 2, 2), h = 1), "did you mean")
  balloon <- quote(flash_kda(iris_points, iris$Species, estimator = "kde", adaptive = "balloon"))
  expect_error(eval(balloon), "adaptive", class = "flashkernel_error_unsupported")
  refused(flash_kda(1:4, c(1, 1, 2, 2), debias = debiasing(score = identity)), "score")
  # as many fits as rows, which take their time
  steps <- flash_kda(iris_points[c(1:9, 51:59, 101:109), ], rep(1:3, each = 9), debias = debiasing(steps = 2), bandwidth = 0.4)
  expect_equal(cross_validate(steps)$prob, cross_validate(steps, folds = 1:27)$prob, tolerance = 1e-9)
  expect_null(summary(steps)$validation)
})

test_that("a row outside of the support of all classes has no class, which one warning tells", {
  set.seed(1)
  x <- rexp(40)
  class <- rep(c("a", "b"), 20)
  fit <- flash_kda(x, class, estimator = "kde", bandwidth = 0.3, support = kde_support(c(0, Inf), "reflect"))
  at <- c(-1, 1, NA, 1e5, -2)
  for (type in c("class", "prob")) {
    found <- NULL
    warnings <- testthat::capture_warnings(found <- predict(fit, at, type = type))
    expect_length(warnings, 1)
    expect_match(warnings, "^2 of 4 rows have density 0 in every class, such as rows outside of the `support`")
    expect_identical(is.na(if (type == "prob") found[, "b"] else found), c(TRUE, FALSE, TRUE, FALSE, TRUE))
  }
  expect_warning(predict(fit, -1), class = "flashkernel_warning_no_density")
  expect_identical(predict(fit, -1, type = "log_density")[1, ], c(a = -Inf, b = -Inf))
  expect_silent(predict(fit, at, type = "decision"))
  # where densities underflow their logarithms tell
  far <- c(60, 1e5)
  logs <- predict(fit, far, type = "log_density")
  expect_true(all(exp(logs) == 0) && all(is.finite(logs)))
  expect_identical(as.character(expect_silent(predict(fit, far))), c("a", "b")[max.col(logs)])
  expect_true(all(predict(fit, far, type = "prob") %in% c(0, 1)))
  # figures leave such places white
  triangle <- rbind(c(0, 0), c(1, 0), c(0, 1))
  in_triangle <- flash_kda(matrix(runif(60) / 2, 30), rep(1:2, 15), support = triangle, bandwidth = 0.2)
  grDevices::pdf(NULL)
  on.exit(grDevices::dev.off())
  shown <- expect_silent(plot(in_triangle))
  expect_true(anyNA(shown$prob))
  expect_silent(plot(fit, xlim = c(-1, 3)))
})

test_that("a numeric response by mistake is told as one", {
  error <- expect_error(flash_kda(Sepal.Length ~ ., iris[1:4]), class = "flashkernel_error_argument")
  expect_match(conditionMessage(error), "^`class` must have at least two rows .* class 4.3 .* 35 numeric values")
  # as advised elsewhere
  expect_error(flash_kda(1:3, c("u", "u", "v")), "of class v (give `bandwidth` as a number)", fixed = TRUE)
  expect_s3_class(flash_kda(1:3, c("u", "u", "v"), bandwidth = 0.3), "flash_kda")
  expect_s3_class(flash_kda(1:3, c("u", "u", "v"), shared = TRUE), "flash_kda")
})
