# Kernel regressions as data frames for broom, and as an engine of parsnip.

cars_fit <- kernel_ridge(mpg ~ wt + hp, data = mtcars, bandwidth = c(2, 150), lambda = 1e-3)

test_that("tidy() has the effects, glance() one row, augment() the data", {
  skip_if_not_installed("generics")
  effects <- generics::tidy(cars_fit, conf.int = TRUE, conf.level = 0.9)
  expect_equal(effects$estimate, marginal_effects(cars_fit)$estimate)
  expect_equal(effects$conf.high, effects$estimate + stats::qnorm(0.95) * effects$std.error)
  expect_false("conf.low" %in% names(generics::tidy(cars_fit)))
  row <- generics::glance(cars_fit)
  expect_identical(nrow(row), 1L)
  expect_equal(row$rmse, summary(cars_fit)$error[["rmse"]])
  own <- generics::augment(cars_fit, se.fit = TRUE)
  expect_equal(own$.resid, mtcars$mpg - own$.fitted)
  expect_identical(own$.rownames, rownames(mtcars))
  expect_identical(own$mpg, mtcars$mpg)
  new <- generics::augment(cars_fit, newdata = mtcars[1:3, -1], se.fit = TRUE)
  expect_equal(new$.fitted, unname(predict(cars_fit, mtcars[1:3, ])))
  expect_equal(new$.se.fit, own$.se.fit[1:3])
})

test_that("classes have their probabilities, responses their columns", {
  skip_if_not_installed("generics")
  fit <- kernel_ridge(Species ~ ., data = iris, bandwidth = 2, lambda = 1e-3)
  own <- generics::augment(fit)
  expect_identical(own$.pred_class, predict(fit))
  expect_equal(own$.pred_virginica, unname(predict(fit, type = "prob")[, "virginica"]))
  expect_equal(generics::glance(fit)$accuracy, mean(predict(fit) == iris$Species))
  several <- generics::augment(kernel_ridge(cbind(mpg, hp) ~ wt, mtcars, bandwidth = 1, lambda = 0.1))
  expect_true(all(c(".fitted_mpg", ".fitted_hp", ".resid_mpg") %in% names(several)))
})

test_that("rows left out for missing values are as na.action has it", {
  skip_if_not_installed("generics")
  for (action in list(na.omit, na.exclude)) {
    fit <- kernel_ridge(Ozone ~ Wind + Temp, data = airquality, bandwidth = 10, lambda = 1e-3, na.action = action)
    expect_identical(nrow(generics::augment(fit)), 116L)
    expect_identical(nrow(generics::augment(fit, airquality)), if (identical(action, na.omit)) 116L else 153L)
    expect_argument_error(generics::augment(fit, airquality[1:5, ]), "data")
  }
})

of_parsnip <- function(name) getExportedValue("parsnip", name)

test_that("parsnip's numbers stand for the penalty and the bandwidth", {
  parts <- c("lambda", "bandwidth", "coefficients")
  fit <- kernel_ridge(mpg ~ wt + hp, data = mtcars, cost = 10, rbf_sigma = 0.125)
  expect_identical(fit[parts], kernel_ridge(mpg ~ wt + hp, data = mtcars, bandwidth = 2, lambda = 1 / 640)[parts])
  x <- as.matrix(iris[1:4])
  fit <- kernel_ridge(x, iris$Species, cost = 10, bandwidth = 2)
  expect_identical(fit[parts], kernel_ridge(x, iris$Species, bandwidth = 2, lambda = 1 / 1500)[parts])
  expect_argument_error(kernel_ridge(mpg ~ wt, mtcars, cost = 1, lambda = 1), "cost")
  expect_argument_error(kernel_ridge(mpg ~ wt, mtcars, rbf_sigma = -1), "rbf_sigma")
  expect_argument_error(tune_ridge(mpg ~ wt, mtcars, cost = 1), "cost")
})

test_that("the registration calls exported functions of parsnip by its arguments, and of this package", {
  calls <- list()
  of_parsnip <- list(get_from_env = \(model) list(engine = "kernlab"))
  note <- \(name, arguments) \(...) {
    expect_true(all(names(list(...)) %in% c("", arguments)))
    calls[[length(calls) + 1]] <<- c(name, list(...))
  }
  arguments <- list(
    set_model_engine = c("mode", "eng"), set_dependency = c("eng", "pkg", "mode"), set_fit = c("mode", "eng", "value"),
    set_encoding = c("mode", "eng", "options"), set_model_arg = c("eng", "parsnip", "original", "func", "has_submodel"),
    set_pred = c("mode", "eng", "type", "value")
  )
  of_parsnip <- c(of_parsnip, Map(note, names(arguments), arguments))
  replace_in_package("parsnip_function", \(name) of_parsnip[[name]])
  register_parsnip()
  expect_setequal(vapply(calls, `[[`, "", 1), names(arguments))
  fits <- Filter(\(call) call[[1]] == "set_fit", calls)
  expect_identical(vapply(fits, `[[`, "", "mode"), c("regression", "classification"))
  for (fit in fits) expect_true(fit$value$func[["fun"]] %in% getNamespaceExports("flashkernel"))
})

test_that("parsnip fits and predicts with the engine", {
  skip_if_not_installed("parsnip")
  spec <- \(mode) of_parsnip("set_engine")(of_parsnip("svm_rbf")(mode = mode, cost = 10, rbf_sigma = 0.125), "flashkernel")
  fit <- of_parsnip("fit")(spec("regression"), mpg ~ wt + hp, data = mtcars)
  direct <- kernel_ridge(mpg ~ wt + hp, data = mtcars, bandwidth = 2, lambda = 1 / 640)
  expect_equal(predict(fit, mtcars)$.pred, unname(predict(direct, mtcars)))
  classes <- of_parsnip("fit")(spec("classification"), Species ~ ., data = iris)
  direct <- kernel_ridge(Species ~ ., data = iris, bandwidth = 2, lambda = 1 / 1500)
  expect_identical(predict(classes, iris)$.pred_class, predict(direct, iris))
  p <- predict(classes, iris, type = "prob")
  expect_equal(p$.pred_setosa, unname(predict(direct, iris, type = "prob")[, "setosa"]))
})
