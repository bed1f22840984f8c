# What a kernel regression prints, sums up, and has in common with other models.

cars_fit <- kernel_ridge(mpg ~ wt + hp, data = mtcars, bandwidth = c(2, 150), lambda = 1e-3)
two <- transform(iris[51:150, ], Species = droplevels(Species))
two_fit <- kernel_ridge(Species ~ ., data = two, bandwidth = 2, lambda = 1e-3)
three_fit <- kernel_ridge(Species ~ ., data = iris, bandwidth = 2, lambda = 1e-3)

test_that("print() fits one screen and says what was fitted", {
  shown <- capture.output(print(cars_fit))
  expect_lt(length(shown), 15)
  for (text in c("Kernel ridge", "32 in 2 columns", "gaussian kernel", "wt 2, hp 150", "0.001", "all 32 rows", "converged", "RMSE")) {
    expect_true(any(grepl(text, shown, fixed = TRUE)), info = text)
  }
  expect_output(print(kernel_ridge(mpg ~ wt, mtcars)), "Lambda: .* chosen from the data")
  expect_output(print(kernel_ridge(mpg ~ wt + disp + qsec, mtcars[-(10:11), ], bandwidth = 1, lambda = 1, centers = 5)), "Centres:   5, drawn by \"uniform\"")
  expect_output(print(two_fit), "Kernel logistic regression.*versicolor, virginica.*misclassified")
  expect_output(print(three_fit), "Multinomial")
  expect_output(print(kernel_ridge(Species ~ ., iris, family = "gaussian", bandwidth = 2, lambda = 1e-3)), "by squared loss")
  expect_identical(withVisible(print(cars_fit))$visible, FALSE) |> capture.output() |> invisible()
})

test_that("summary() has what print() does not, and nothing as long as the data", {
  found <- summary(kernel_ridge(mpg ~ wt, data = mtcars[rep(1:32, 20), ], bandwidth = 2, lambda = 1e-3, centers = 20))
  expect_true(all(lengths(unclass(found)) < 100))
  expect_output(print(found), "Residuals:.*RMSE.*effective degrees of freedom.*Average marginal effects:\n.*wt")
  expect_null(summary(cars_fit, effects = FALSE)$effects)
  expect_null(summary(update(cars_fit, solver = list(keep = FALSE)))$error)
})

test_that("errors at the rows of the fit are what they are called", {
  error <- summary(cars_fit)$error
  residual <- mtcars$mpg - fitted(cars_fit)
  expect_equal(error[["rmse"]], sqrt(mean(residual^2)))
  expect_equal(error[["r.squared"]], 1 - sum(residual^2) / sum((mtcars$mpg - mean(mtcars$mpg))^2))
  of_classes <- summary(three_fit)$error
  expect_equal(of_classes[["misclassified"]], mean(predict(three_fit) != iris$Species))
  expect_equal(of_classes[["explained"]], 1 - deviance(three_fit) / (2 * 150 * log(3)))
})

test_that("residuals of each type are those of the model", {
  expect_equal(unname(residuals(cars_fit)), mtcars$mpg - unname(fitted(cars_fit)))
  weighted <- update(cars_fit, weights = cyl)
  expect_equal(residuals(weighted, "pearson"), sqrt(mtcars$cyl) * residuals(weighted))
  expect_equal(deviance(weighted), sum(mtcars$cyl * residuals(weighted)^2))
  p <- predict(two_fit, type = "prob")[, 2]
  is <- two$Species == "virginica"
  expect_equal(unname(fitted(two_fit)), unname(p))
  expect_equal(residuals(two_fit), is - p, ignore_attr = TRUE)
  expect_equal(residuals(two_fit, "pearson"), (is - p) / sqrt(p * (1 - p)), ignore_attr = TRUE)
  expect_equal(residuals(two_fit, "deviance"), ifelse(is, 1, -1) * sqrt(-2 * log(ifelse(is, p, 1 - p))), ignore_attr = TRUE)
  expect_equal(deviance(two_fit), -2 * sum(log(ifelse(is, p, 1 - p))))
  all <- predict(three_fit, type = "prob")
  expect_equal(residuals(three_fit), stats::model.matrix(~ 0 + Species, iris) - all, ignore_attr = TRUE)
  expect_equal(deviance(three_fit), -2 * sum(log(all[cbind(1:150, as.integer(iris$Species))])))
})

test_that("other models' functions work", {
  expect_length(coef(cars_fit), 32)
  expect_identical(colnames(coef(three_fit)), levels(iris$Species))
  expect_equal(nobs(cars_fit), 32)
  expect_equal(nobs(update(cars_fit, weights = rep(0:1, 16))), 16)
  expect_identical(variable.names(cars_fit), c("wt", "hp"))
  expect_identical(family(cars_fit)$family, "gaussian")
  expect_identical(family(two_fit)$family, "binomial")
  expect_identical(family(three_fit)$family, "multinomial")
  expect_equal(formula(cars_fit), mpg ~ wt + hp, ignore_attr = TRUE)
  expect_equal(formula(kernel_ridge(mpg ~ ., mtcars[1:4], bandwidth = 1, lambda = 1)), mpg ~ cyl + disp + hp, ignore_attr = TRUE)
  expect_identical(names(model.frame(cars_fit)), c("mpg", "wt", "hp"))
  expect_argument_error(formula(kernel_ridge(mtcars["wt"], mtcars$mpg)), "x")
  expect_argument_error(fitted(update(cars_fit, solver = list(keep = FALSE))), "object")
})

test_that("update() changes the formula and the numbers", {
  expect_identical(update(cars_fit, . ~ . - hp, bandwidth = 1)$names, "wt")
  expect_identical(update(cars_fit, lambda = 0.5)$lambda, 0.5)
  expect_equal(update(cars_fit, log(.) ~ .)$response, "log(mpg)")
  expect_equal(update(cars_fit, subset = cyl > 4)$n, 21)
})

test_that("data may come first, and calls be made", {
  want <- coef(cars_fit)
  expect_equal(coef(mtcars |> kernel_ridge(formula = mpg ~ wt + hp, bandwidth = c(2, 150), lambda = 1e-3)), want)
  piped <- mtcars |> kernel_ridge(mpg ~ wt + hp, bandwidth = c(2, 150), lambda = 1e-3, weights = rep(1, 32), subset = cyl > 0)
  expect_equal(coef(piped), want)
  expect_identical(names(piped$call)[2:3], c("formula", "data"))
  expect_equal(coef(kernel_ridge(data = mtcars, formula = mpg ~ wt + hp, bandwidth = c(2, 150), lambda = 1e-3)), want)
  called <- do.call(kernel_ridge, list(mpg ~ wt + hp, data = mtcars, bandwidth = c(2, 150), lambda = 1e-3))
  expect_equal(coef(called), want)
  expect_lt(length(capture.output(print(called))), 20)
})

test_that("a list of settings is a ridge_solver()", {
  fit <- \(solver) kernel_ridge(mpg ~ wt, mtcars, bandwidth = 1, lambda = 1e-3, centers = 5, solver = solver)$trace$residual
  set.seed(1)
  one <- fit(ridge_solver(iterations = 3))
  set.seed(1)
  expect_identical(fit(list(iterations = 3)), one)
  expect_length(one, 3)
})

test_that("misspelt arguments and those of other packages get a hint", {
  for (wrong in list(list("sigma", "bandwidth"), list("C", "lambda"), list("M", "centers"), list("bandwith", "bandwidth"), list("lamda", "lambda"), list("loss", "family"),
    list("maxit", "solver = ridge_solver\\(iterations = \\)"), list("exact", "solver = ridge_solver\\(exact = \\)"))) {
    call <- c(list(mpg ~ wt, mtcars), stats::setNames(list(2), wrong[[1]]))
    expect_error(do.call(kernel_ridge, call), paste0("did you mean `", wrong[[2]], "`"), class = "flashkernel_error_argument")
  }
})
