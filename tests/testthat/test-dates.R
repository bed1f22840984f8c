# Dates and times as columns of densities; those of regressions are in test-regression.R.

dated <- with_fixed_seed({
  data <- data.frame(day = as.Date("2024-01-01") + round(stats::rnorm(60, 40, 12)), z = stats::rnorm(60), g = gl(2, 30))
  data$time <- as.POSIXct("2024-03-01", tz = "UTC") + 3600 * stats::rnorm(60)
  data
}, 1)
as_plain <- \(data) transform(data, day = as.numeric(day), time = as.numeric(time))

test_that("densities of dates and times are those of days and seconds", {
  plain <- as_plain(dated)
  new <- dated[c(3, 8, 1), ]
  for (formula in c(~day, ~ time + day, ~ z + day + g, day ~ z, z ~ time, day ~ g)) {
    fit <- flash_kde(formula, dated)
    numbers <- flash_kde(formula, plain)
    expect_identical(predict(fit, new), predict(numbers, as_plain(new)))
    expect_identical(fitted(fit), fitted(numbers))
  }
  for (columns in list("day", c("z", "time"), c("day", "g"))) {
    expect_identical(predict(flash_kde(dated[columns]), new), predict(flash_kde(plain[columns]), as_plain(new)))
  }
  classes <- flash_kda(g ~ day + z, dated)
  expect_identical(predict(classes, new, type = "prob"), predict(flash_kda(g ~ day + z, plain), as_plain(new), type = "prob"))
  of_frame <- flash_kda(dated[c("day", "z")], dated$g)
  expect_identical(predict(of_frame, new[c("day", "z")], type = "prob"), predict(classes, new, type = "prob"))
})

test_that("places of a density of dates are dates, and those of another kind are refused", {
  fit <- flash_kde(dated$day)
  numbers <- flash_kde(as.numeric(dated$day))
  expect_identical(predict(fit, dated$day[1:2]), predict(numbers, as.numeric(dated$day[1:2])))
  expect_identical(kde_cdf(fit, dated$day[1:2]), kde_cdf(numbers, as.numeric(dated$day[1:2])))
  for (own in list(median(fit), mean(fit), quantile(fit, 0.1), kde_modes(fit)[[1]], hdr_regions(fit)$to)) expect_s3_class(own, "Date")
  expect_identical(as.numeric(median(fit)), median(numbers))
  two <- flash_kde(~ time + z, dated)
  for (own in list(kde_modes(two), simulate(two, 2, seed = 1), kde_bands(two, dated[1:2, ]), kde_ridges(two))) {
    expect_s3_class(own$time, "POSIXct")
  }
  expect_s3_class(kde_modes(flash_kde(~ day + g, dated))$day, "Date")
  expect_argument_error(predict(fit, dated$time), "newdata")
  expect_argument_error(kde_cdf(fit, dated$time), "q")
  bounds <- as.Date(c("2023-12-01", "2024-06-01"))
  within <- flash_kde(dated$day, support = bounds)
  expect_identical(quantile(within, c(0, 1), names = FALSE), bounds)
  expect_identical(kde_test(day ~ g, dated)$statistic, kde_test(as.numeric(day) ~ g, dated)$statistic)
  independent <- \(data) with_fixed_seed(kde_test(data$day, data["time"], method = "independence", replicates = 9)$p.value, 1)
  expect_identical(independent(dated), independent(as_plain(dated)))
  expect_argument_error(kde_test(dated$day, dated$time), "y")
  both <- flash_kde(~ time + day, dated)
  limits <- dated[1:2, c("time", "day")]
  expect_identical(kde_cdf(both, limits), kde_cdf(flash_kde(~ time + day, as_plain(dated)), as_plain(dated)[1:2, c("time", "day")]))
})

test_that("axes of dates have their names in each kind of figure", {
  feb <- as.numeric(as.Date("2024-02-01"))
  ticks <- function(figure, axis = "x") {
    found <- lapply(figure$panels, \(panel) if (identical(panel[[axis]]$label, "day")) panel[[axis]]$ticks)
    Find(Negate(is.null), found)
  }
  asked <- \(fit) density_options(fit, 0.5, 40, 6, TRUE, NULL)
  for (formula in c(~day, ~ day + z, ~ day + z + time)) {
    fit <- flash_kde(formula, dated)
    expect_match(names(Filter(\(at) at == feb, ticks(density_figure(fit, asked(fit))))), "^Feb")
  }
  expect_true(feb %in% ticks(mixed_figure(flash_kde(~ day + g, dated), "g", 40, 6, TRUE, NULL)))
  expect_true(feb %in% ticks(conditional_figure(flash_kde(day ~ g, dated), 0.5, 40, TRUE, NULL)))
  expect_true(feb %in% ticks(conditional_figure(flash_kde(day ~ z, dated), 0.5, 40, TRUE, NULL), "y"))
  expect_true(feb %in% ticks(kda_figure(flash_kda(g ~ day, dated), 40, TRUE, NULL, NULL, NULL)))
  one <- flash_kde(~day, dated)
  day <- dated$day
  expect_true(feb %in% ticks(density_figure(flash_kde(day), asked(one))))
  expect_true(feb %in% ticks(group_figure(one, dated$g, asked(one), list())))
  expect_true(feb %in% ticks(band_figure(kde_bands(one), NULL)))
  expect_true(feb %in% ticks(band_figure(kde_bands(flash_kde(~ day + z, dated), n = 8), NULL)))
  grDevices::pdf(NULL)
  on.exit(grDevices::dev.off())
  expect_silent(plot(flash_kde(~ day + z + time, dated)))
  bands <- kde_bands(one)
  expect_identical(plot(bands), bands)
  skip_if_not_installed("ggplot2")
  labels <- \(fit, axis) ggplot2::ggplot_build(autoplot.flash_kde(fit))$layout$panel_params[[1]][[axis]]$get_labels()
  expect_true("Mar" %in% labels(one, "x") || "Mar 01" %in% labels(one, "x"))
  expect_match(labels(flash_kde(~ z + day, dated), "y"), "Feb|Jan|Mar", all = FALSE)
  expect_match(labels(flash_kde(~ day + z + time, dated), "y"), "Feb|Jan|Mar", all = FALSE)
})
