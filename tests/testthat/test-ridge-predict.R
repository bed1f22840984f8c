# predict() for a kernel regression: missing values, names, levels, and few rows.

cars_fit <- kernel_ridge(mpg ~ wt + hp, data = mtcars, bandwidth = c(2, 150), lambda = 1e-3)

test_that("rows with missing values are NA, left out, or an error, as na.action says", {
  new <- data.frame(wt = c(2, NA, 3, 4), hp = c(100, 100, NA, 120))
  whole <- predict(cars_fit, new[c(1, 4), ])
  expect_identical(predict(cars_fit, new), c(whole[1], NA, NA, whole[2]))
  expect_identical(predict(cars_fit, new, na.action = na.omit), whole)
  expect_identical(predict(cars_fit, new, na.action = na.exclude), c(whole[1], NA, NA, whole[2]))
  expect_argument_error(predict(cars_fit, new, na.action = na.fail), "newdata")
  expect_identical(predict(cars_fit, new[2:3, ]), c(NA_real_, NA_real_))
  expect_identical(predict(cars_fit, new[2:3, ], na.action = na.omit), numeric())
  gradient <- predict(cars_fit, new, type = "gradient")
  expect_identical(is.na(gradient[, "wt"]), c(FALSE, TRUE, TRUE, FALSE))
  expect_argument_error(predict(cars_fit, data.frame(wt = Inf, hp = 1)), "newdata")
})

test_that("matrices with missing values are treated as data frames are", {
  x <- as.matrix(mtcars[, c("wt", "hp")])
  fit <- kernel_ridge(x, mtcars$mpg, bandwidth = c(2, 150), lambda = 1e-3)
  new <- rbind(a = c(2, 100), b = c(NA, 100))
  expect_identical(unname(is.na(predict(fit, new))), c(FALSE, TRUE))
  expect_identical(names(predict(fit, new)), c("a", "b"))
  expect_identical(names(predict(fit, new, na.action = na.omit)), "a")
  expect_equal(predict(fit, x), predict(cars_fit, mtcars), tolerance = 1e-8)
})

test_that("columns are found by name, and others may be there, too", {
  want <- predict(cars_fit, mtcars)
  expect_identical(predict(cars_fit, mtcars[, rev(names(mtcars))]), want)
  fit <- kernel_ridge(mtcars[, c("wt", "hp")], mtcars$mpg, bandwidth = c(2, 150), lambda = 1e-3)
  expect_identical(predict(fit, mtcars), predict(fit, mtcars[, c("hp", "wt")]))
  expect_argument_error(predict(fit, mtcars["hp"]), "newdata")
  expect_error(predict(cars_fit, data.frame(wt = 1)), "found no `hp`", class = "flashkernel_error_argument")
  # text for a number is refused by the name of the variable
  expect_error(predict(cars_fit, data.frame(wt = "3", hp = 110)), "`wt` is of class character")
  expect_identical(predict(cars_fit, data.frame(wt = NA, hp = 110)), NA_real_, ignore_attr = TRUE)
})

test_that("rows are named as those of newdata, or of the fit, are", {
  expect_identical(names(predict(cars_fit, mtcars[3:4, ])), rownames(mtcars)[3:4])
  expect_null(names(predict(cars_fit, data.frame(wt = 1:3, hp = 100))))
  expect_identical(names(fitted(cars_fit)), rownames(mtcars))
  expect_identical(names(residuals(cars_fit)), rownames(mtcars))
  expect_identical(names(fitted(kernel_ridge(as.matrix(mtcars["wt"]), mtcars$mpg))), rownames(mtcars))
})

test_that("one row and no rows are enough", {
  expect_length(predict(cars_fit, mtcars[1, ]), 1)
  expect_identical(predict(cars_fit, mtcars[0, ]), stats::setNames(numeric(), character()))
  expect_identical(dim(predict(cars_fit, data.frame(wt = numeric(), hp = numeric()), type = "gradient")), c(0L, 2L))
  two <- kernel_ridge(cbind(mpg, disp) ~ wt, data = mtcars, bandwidth = 1, lambda = 1e-3)
  expect_identical(dim(predict(two, data.frame(wt = 3))), c(1L, 2L))
  expect_identical(colnames(predict(two, data.frame(wt = 3))), c("mpg", "disp"))
  expect_length(predict(cars_fit, data.frame(wt = NA_real_, hp = 1), se.fit = TRUE)$se.fit, 1)
})

test_that("a level that the fit has not seen is taken as the mean of its levels, with a warning", {
  cars <- transform(mtcars, cyl = factor(cyl))
  fit <- kernel_ridge(mpg ~ wt + cyl, data = cars, bandwidth = 1, lambda = 1e-2)
  new <- data.frame(wt = 3, cyl = c("5", "8", NA))
  expect_warning(found <- predict(fit, new), '`cyl` = "5"', class = "flashkernel_warning_level")
  columns <- kernel_ridge(model.matrix(~ wt + cyl, cars)[, -1], cars$mpg, bandwidth = 1, lambda = 1e-2)
  expect_equal(found, c(predict(columns, rbind(c(3, 1 / 3, 1 / 3), c(3, 0, 1))), NA), ignore_attr = TRUE)
  expect_equal(found[2], predict(fit, data.frame(wt = 3, cyl = factor("8"))))
  slopes <- kernel_ridge(mpg ~ wt:cyl, data = cars, bandwidth = 1, lambda = 1e-2)
  expect_error(predict(slopes, new), '`cyl`: found "5"', class = "flashkernel_error_argument")
})

test_that("an offset of the formula is found in newdata, and may be missing there", {
  fit <- kernel_ridge(mpg ~ wt + offset(hp / 10), data = mtcars, bandwidth = 1, lambda = 1e-2)
  new <- data.frame(wt = 3, hp = c(100, 200, NA))
  found <- predict(fit, new)
  expect_equal(found[2] - found[1], 10)
  expect_identical(found[3], NA_real_)
})

test_that("na.exclude pads what the fit has by row, with the names of the rows left out", {
  holes <- mtcars
  holes$wt[c(2, 5)] <- NA
  fit <- kernel_ridge(mpg ~ wt, data = holes, bandwidth = 1, lambda = 1e-2, na.action = na.exclude)
  for (values in list(fitted(fit), residuals(fit), predict(fit), weights(fit))) {
    expect_identical(names(values), rownames(mtcars))
    expect_identical(unname(which(is.na(values))), c(2L, 5L))
  }
  expect_length(fitted(update(fit, na.action = na.omit)), 30)
  expect_argument_error(update(fit, na.action = na.fail), "na.action")
})

test_that("missing values without a formula are an error that says where they are", {
  x <- as.matrix(mtcars[, c("wt", "hp")])
  x[3, "hp"] <- NA
  expect_error(kernel_ridge(x, mtcars$mpg), "row 3, column `hp`", class = "flashkernel_error_argument")
  expect_error(kernel_ridge(x[-3, ], replace(mtcars$mpg[-3], 4, NA)), "position 4", class = "flashkernel_error_argument")
})
