# What summary() holds and prints.

test_that("without weights, columns are summarised as summary() of the data does", {
  found <- summary(flash_kde(faithful, estimator = "kde"))
  want <- vapply(faithful, \(column) as.vector(summary(column, digits = 15)), numeric(6))
  expect_equal(found$columns, t(want), ignore_attr = "dimnames")
  expect_identical(rownames(found$columns), names(faithful))
  density <- predict(flash_kde(faithful, estimator = "kde"), type = "log_density")
  expect_equal(found$log_density[["50%"]], stats::median(density))
})

test_that("rows of weight 0 do not count, and the weights of the others do", {
  x <- c(faithful$waiting, 1e6)
  for (estimator in c("kde", "laplace")) {
    there <- summary(flash_kde(x, estimator, bandwidth = 5, weights = rep(2:0, c(100, 172, 1))))
    gone <- summary(
      flash_kde(x[1:272], estimator, bandwidth = 5, weights = rep(2:1, c(100, 172)))
    )
    for (part in c("columns", "log_density", "negative")) expect_equal(there[[part]], gone[[part]])
    expect_equal(
      gone$columns[, "Mean"], stats::weighted.mean(faithful$waiting, rep(2:1, c(100, 172)))
    )
  }
  # a heavy row draws the median to itself
  heavy <- summary(flash_kde(1:5, "kde", bandwidth = 1, weights = c(1, 1, 1, 1, 100)))
  expect_equal(heavy$columns[, "Median"], 5, tolerance = 0.05)
  expect_equal(heavy$columns[, "Max."], 5)
  single <- summary(flash_kde(1:2, "kde", bandwidth = 1, weights = c(0, 3)))
  expect_equal(unname(single$columns[1, ]), rep(2, 6))
})

test_that("nothing in it is as long as the data", {
  x <- faithful
  x[1:9, 1] <- NA
  fit <- flash_kde(x, weights = faithful$waiting, bandwidth = 1, na.action = na.omit)
  found <- summary(fit)
  expect_true(all(lengths(unclass(found)) < 100))
  expect_true(found$weighted)
  expect_identical(found$omitted, 9L)
  expect_output(print(found), "263 in 2 dimensions, weighted (9 left out", fixed = TRUE)
})

test_that("a negative estimate is counted without a warning, others come through", {
  fit <- flash_kde(c(rep(0, 20), 2.2), estimator = "laplace", bandwidth = 1)
  expect_identical(summary(flash_kde(c(0, 0.1), "laplace", bandwidth = 1))$negative, 0L)
  suppressWarnings(found <- summary(fit)) # of logLik(), which is -Inf
  expect_identical(found$negative, 1L)
  expect_false(anyNA(found$log_density))
  expect_warning(summary(fit), class = "flashkernel_warning_negative")
})

test_that("digits given to summary() or to print() are those printed", {
  fit <- flash_kde(faithful$eruptions, "kde", bandwidth = 0.123456789)
  text <- function(...) paste(utils::capture.output(print(...)), collapse = "\n")
  expect_match(text(summary(fit)), "0.1235", fixed = TRUE)
  expect_match(text(summary(fit, digits = 2)), "0.12\\s*\n")
  expect_match(text(summary(fit), digits = 6), "0.123457", fixed = TRUE)
  expect_argument_error(summary(fit, digits = 0), "digits")
})
