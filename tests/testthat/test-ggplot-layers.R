# Layers of ggplot2: what they draw is the estimate of each group.

skip_if_not_installed("ggplot2")

# One panel of one layer.
drawn <- function(layer, data, mapping) ggplot2::layer_data(ggplot2::ggplot(data, mapping) + layer)

petals <- ggplot2::aes(x = Petal.Length, y = Petal.Width, fill = Species)

test_that("stat_flash_density() is the estimate of each group at common places", {
  layer <- stat_flash_density(estimator = "kde", bandwidth = 0.2, n = 64)
  data <- drawn(layer, iris, ggplot2::aes(Sepal.Length, fill = Species))
  groups <- split(iris$Sepal.Length, iris$Species)
  expect_identical(as.vector(table(data$group)), rep(sum(data$group == 1), 3))
  for (g in 1:3) {
    own <- data[data$group == g, ]
    want <- rowMeans(stats::dnorm(outer(own$x, groups[[g]], "-"), sd = 0.2))
    expect_equal(own$density, want)
    expect_equal(own$y, want)
    expect_equal(own$count, 50 * want)
    expect_equal(own$scaled, want / max(want))
    expect_identical(own$x, data$x[data$group == 1])
  }
  expect_identical(length(unique(data$fill)), 3L)
})

test_that("weights, trimming and the other axis are heeded", {
  cars <- ggplot2::aes(x = mpg, weight = wt)
  layer <- \(...) stat_flash_density(estimator = "kde", bandwidth = 2, n = 50, ...)
  data <- drawn(layer(trim = TRUE), mtcars, cars)
  want <- as.vector(stats::dnorm(outer(data$x, mtcars$mpg, "-"), sd = 2) %*% mtcars$wt) / sum(mtcars$wt)
  expect_equal(data$density, want)
  expect_equal(data$wdensity, sum(mtcars$wt) * want)
  expect_identical(range(data$x), range(mtcars$mpg))
  along <- drawn(layer(trim = TRUE), mtcars, ggplot2::aes(y = mpg, weight = wt))
  expect_equal(along$y, data$x)
  expect_equal(along$x, data$y)
  expect_true(all(along$flipped_aes))
})

test_that("values without a weight are left out with a warning, regions between nodes without one", {
  cars <- transform(mtcars, wt = replace(wt, 3, NA))
  layer <- stat_flash_density(estimator = "kde", bandwidth = 2, n = 50)
  expect_warning(data <- drawn(layer, cars, ggplot2::aes(x = mpg, weight = wt)), "Removed 1 row")
  expect_equal(data, drawn(layer, mtcars[-3, ], ggplot2::aes(x = mpg, weight = wt)))
  few <- \(prob) drawn(geom_flash_hdr(prob = prob, bandwidth = 0.3, n = 31), iris, petals[1:2])
  expect_identical(unique(few(c(1e-7, 0.5))$prob), 0.5)
})

test_that("facets have a fit each, and stacks add up", {
  plot <- ggplot2::ggplot(mtcars, ggplot2::aes(mpg, fill = factor(am))) +
    stat_flash_density(estimator = "kde", bandwidth = 2, position = "stack", n = 40) +
    ggplot2::facet_wrap(~gear)
  data <- ggplot2::layer_data(plot)
  expect_identical(length(unique(data$PANEL)), 3L)
  four <- data[data$PANEL == 2, ]
  sums <- tapply(four$density, four$x, sum)
  expect_equal(as.vector(tapply(four$ymax, four$x, max)), as.vector(sums))
  own <- four[four$group == 1, ]
  rows <- mtcars$gear == 4 & mtcars$am == 0
  expect_equal(own$density, rowMeans(stats::dnorm(outer(own$x, mtcars$mpg[rows], "-"), sd = 2)))
})

test_that("geom_flash_hdr() draws bands whose borders are at the levels", {
  layer <- geom_flash_hdr(prob = c(0.5, 0.9), estimator = "kde", bandwidth = 0.3, n = 101)
  data <- drawn(layer, iris, petals)
  expect_identical(levels(data$probability), c("90%", "50%"))
  expect_identical(length(unique(data$fill)), 3L)
  expect_identical(length(unique(data$alpha)), 2L)
  for (species in levels(iris$Species)) {
    fit <- flash_kde(as.matrix(iris[iris$Species == species, 3:4]), "kde", bandwidth = 0.3, adaptive = FALSE)
    own <- data[data$fill == unique(data$fill)[match(species, levels(iris$Species))], ]
    levels <- hdr_level(fit, c(0.5, 0.9))
    inner <- own[own$probability == "50%", ]
    expect_equal(unique(inner$level), levels[["50%"]], tolerance = 1e-6)
    expect_equal(predict(fit, cbind(inner$x, inner$y)), rep(levels[["50%"]], nrow(inner)), tolerance = 0.02)
    # that of 90% has the region of 50% as its hole
    outer <- own[own$probability == "90%", ]
    heights <- predict(fit, cbind(outer$x, outer$y))
    nearest <- levels[1 + (abs(heights - levels[[2]]) < abs(heights - levels[[1]]))]
    expect_equal(heights, unname(nearest), tolerance = 0.02)
    expect_setequal(unname(nearest), unname(levels))
  }
})

test_that("lines have a group for each ring, and grids the density", {
  layer <- geom_flash_hdr(lines = TRUE, prob = 0.5, bandwidth = 0.3, n = 51)
  data <- drawn(layer, iris, ggplot2::aes(Petal.Length, Petal.Width))
  rings <- split(data, data$group)
  expect_gt(length(rings), 1)
  for (ring in rings) expect_equal(ring[1, c("x", "y")], ring[nrow(ring), c("x", "y")], ignore_attr = TRUE)

  data <- drawn(stat_flash_density_2d(estimator = "kde", bandwidth = 0.3, n = 20), iris, petals[1:2])
  fit <- flash_kde(as.matrix(iris[3:4]), "kde", bandwidth = 0.3, adaptive = FALSE)
  expect_equal(data$density, predict(fit, cbind(data$x, data$y)))
  expect_identical(nrow(data), 400L)
  expect_equal(data$count, 150 * data$density)
})

test_that("rasters of groups and panels have pixels of one size, with the fit of each", {
  layer <- stat_flash_density_2d(estimator = "kde", bandwidth = 0.3, n = 20)
  plot <- ggplot2::ggplot(iris, petals[1:2]) + layer + ggplot2::facet_wrap(~Species)
  expect_silent(built <- ggplot2::ggplot_build(plot))
  data <- built$data[[1]]
  for (axis in c("x", "y")) {
    nodes <- sort(unique(data[[axis]]))
    expect_length(nodes, 20)
    expect_equal(diff(nodes), rep(diff(nodes)[1], 19))
  }
  for (panel in 1:3) {
    own <- data[data$PANEL == panel, ]
    x <- as.matrix(iris[iris$Species == levels(iris$Species)[panel], 3:4])
    expect_equal(own$density, predict(flash_kde(x, "kde", bandwidth = 0.3, adaptive = FALSE), cbind(own$x, own$y)))
  }
  # panels with scales of their own have nodes of their own
  free <- ggplot2::ggplot(iris, petals[1:2]) + layer + ggplot2::facet_wrap(~Species, scales = "free_x")
  data <- suppressWarnings(ggplot2::layer_data(free))
  expect_identical(as.vector(tapply(data$x, data$PANEL, \(x) length(unique(x)))), rep(20L, 3))
  expect_gt(length(unique(data$x)), 40)
  expect_length(unique(data$y), 20)
})

test_that("kernels and supports are those of flash_kde(), and layers have weights of their own", {
  for (options in list(list(kernel = "epanechnikov"), list(support = c(10, Inf)))) {
    given <- c(list(estimator = "kde", bandwidth = 2), options)
    data <- drawn(do.call(stat_flash_density, given), mtcars, ggplot2::aes(mpg))
    fit <- do.call(flash_kde, c(list(mtcars$mpg), given))
    expect_equal(data$density, predict(fit, data$x))
  }
  expect_gte(min(data$x), 10)
  layers <- list(
    \(...) geom_flash_hdr(bandwidth = 1, n = 21, ...), \(...) geom_flash_hdr(lines = TRUE, bandwidth = 1, n = 21, ...),
    \(...) stat_flash_density_2d(bandwidth = 1, n = 21, support = list(y = c(0, Inf)), ...)
  )
  for (of in layers) {
    expect_silent(layer <- of(ggplot2::aes(weight = hp)))
    one <- drawn(layer, mtcars, ggplot2::aes(wt, mpg))
    expect_equal(one, drawn(of(), mtcars, ggplot2::aes(wt, mpg, weight = hp)))
    expect_false(identical(one, drawn(of(), mtcars, ggplot2::aes(wt, mpg))))
  }
  expect_argument_error(geom_flash_hdr(estimator = "kdes"), "estimator")
})

test_that("figures have a legend, and build", {
  plot <- ggplot2::ggplot(iris, petals) + geom_flash_hdr(bandwidth = 0.3, n = 31)
  table <- with_null_device(ggplot2::ggplotGrob(plot))
  expect_true(any(grepl("guide-box", table$layout$name)))
  expect_silent(with_null_device(print(plot)))
  built <- ggplot2::ggplot_build(plot)$plot
  expect_identical(unname(unlist(built$labels[c("alpha", "fill")])), c("probability", "Species"))
})

test_that("groups without a fit are left out, and bad arguments named", {
  data <- rbind(iris[1:50, ], iris[101, ])
  sepals <- ggplot2::aes(Sepal.Length, group = Species)
  expect_warning(built <- drawn(stat_flash_density(), data, sepals), "group of 1 points was left out")
  expect_identical(unique(built$group), 1L)
  expect_warning(built <- drawn(geom_flash_hdr(n = 31), data, petals), "left out")
  expect_identical(length(unique(built$fill)), 1L)
  expect_argument_error(geom_flash_hdr(prob = 1), "prob")
  expect_argument_error(geom_flash_hdr(lines = 1), "lines")
  expect_argument_error(stat_flash_density(n = 0), "n")
  expect_argument_error(stat_flash_density(trim = NA), "trim")
  expect_error(ggplot2::ggplot_build(ggplot2::ggplot(iris) + stat_flash_density()), "x.*y")
})
