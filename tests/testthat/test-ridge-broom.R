# Kernel regressions as data frames for broom, and as a model of parsnip.

cars_fit <- kernel_ridge(mpg ~ wt + hp, data = mtcars, bandwidth = c(2, 150), lambda = 1e-3)

test_that("tidy() has the effects, glance() one row, augment() the data", {
  skip_if_not_installed("generics")
  effects <- generics::tidy(cars_fit, conf.int = TRUE, conf.level = 0.9)
  expect_equal(effects$estimate, marginal_effects(cars_fit)$estimate)
  expect_equal(effects$conf.high, effects$estimate + stats::qt(0.95, df.residual(cars_fit)) * effects$std.error)
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

test_that("the registration calls exported functions of parsnip by its arguments, and of this package", {
  calls <- list()
  of_parsnip <- list(get_from_env = \(name) "svm_rbf")
  note <- \(name, arguments) \(...) {
    expect_true(all(names(list(...)) %in% c("", arguments)))
    calls[[length(calls) + 1]] <<- c(name, list(...))
  }
  arguments <- list(
    set_new_model = character(), set_model_mode = "mode", set_model_engine = c("mode", "eng"),
    set_dependency = c("eng", "pkg", "mode"), set_fit = c("mode", "eng", "value"),
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
  set <- Filter(\(call) call[[1]] == "set_model_arg", calls)
  expect_true(all(vapply(set, `[[`, "", "original") %in% names(formals(kernel_ridge.default))))
})

test_that("parsnip fits and predicts with flash_ridge()", {
  skip_if_not_installed("parsnip")
  penalty <- 0.01
  fit <- of_parsnip("fit")(flash_ridge("regression", penalty = penalty, bandwidth = 2), mpg ~ wt + hp, data = mtcars)
  direct <- kernel_ridge(mpg ~ wt + hp, data = mtcars, bandwidth = 2, lambda = penalty)
  expect_equal(predict(fit, mtcars)$.pred, unname(predict(direct, mtcars)))
  bounds <- predict(fit, mtcars, type = "pred_int", level = 0.8)
  expect_equal(bounds$.pred_upper, unname(predict(direct, mtcars, interval = "prediction", level = 0.8)[, "upr"]))
  classes <- of_parsnip("fit")(flash_ridge("classification", penalty = penalty, bandwidth = 2), Species ~ ., data = iris)
  direct <- kernel_ridge(Species ~ ., data = iris, bandwidth = 2, lambda = penalty)
  expect_identical(predict(classes, iris)$.pred_class, predict(direct, iris))
  p <- predict(classes, iris, type = "prob")
  expect_equal(p$.pred_setosa, unname(predict(direct, iris, type = "prob")[, "setosa"]))
})

test_that("package tune tunes the arguments of flash_ridge() in a workflow", {
  for (package in c("parsnip", "tune", "workflows", "dials", "rsample", "yardstick")) skip_if_not_installed(package)
  of <- \(package, name) getExportedValue(package, name)
  spec <- flash_ridge("regression", penalty = tune(), bandwidth = tune(), kernel = tune())
  expect_setequal(of("generics", "tunable")(spec)$name, names(formals(flash_ridge))[-(1:2)])
  expect_identical(of("rlang", "quo_get_expr")(update(spec, kernel = "matern52")$args$kernel), "matern52")
  flow <- of("workflows", "workflow")(mpg ~ wt + hp, spec)
  grid <- expand.grid(penalty = c(1e-3, 1), bandwidth = 1, kernel = c("gaussian", "matern52"), stringsAsFactors = FALSE)
  set.seed(1)
  found <- of("tune", "tune_grid")(flow, of("rsample", "vfold_cv")(mtcars, 2), grid = grid)
  best <- of("tune", "select_best")(found, metric = "rmse")
  expect_identical(best$penalty, 1e-3)
  fit <- of("generics", "fit")(of("tune", "finalize_workflow")(flow, best), mtcars)
  expect_length(predict(fit, mtcars)$.pred, 32)
})
