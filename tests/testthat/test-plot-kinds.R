# Figures of other kinds: groups and maps.

test_that("groups are drawn as fits of their own, like that of all", {
  fit <- flash_kde(iris$Sepal.Length, "kde", bandwidth = 0.2, adaptive = FALSE)
  drawn <- with_null_device(withVisible(plot(fit, groups = iris$Species)))
  expect_false(drawn$visible)
  expect_identical(names(drawn$value), levels(iris$Species))
  for (species in levels(iris$Species)) {
    curve <- drawn$value[[species]]
    own <- iris$Sepal.Length[iris$Species == species]
    expect_equal(curve$y, rowMeans(stats::dnorm(outer(curve$x, own, "-"), sd = 0.2)))
  }
  plane <- flash_kde(iris[3:4], "laplace", bandwidth = 0.3, weights = iris$Sepal.Length)
  drawn <- with_null_device(plot(plane, groups = iris$Species, n = 31, prob = c(0.5, 0.9)))
  rows <- iris$Species == "virginica"
  one <- flash_kde(iris[rows, 3:4], "laplace", bandwidth = 0.3, weights = iris$Sepal.Length[rows])
  grid <- drawn$virginica
  expect_equal(as.vector(grid$z), predict(one, unname(as.matrix(expand.grid(grid$x, grid$y)))))
  expect_equal(unname(grid$levels), unname(hdr_level(one, c(0.5, 0.9))), tolerance = 1e-6)
})

test_that("groups are of the rows that na.action leaves, and are checked", {
  fit <- flash_kde(airquality["Ozone"], "kde", bandwidth = 5, adaptive = FALSE)
  kept <- !is.na(airquality$Ozone)
  all_rows <- with_null_device(plot(fit, groups = airquality$Month))
  expect_equal(with_null_device(plot(fit, groups = airquality$Month[kept])), all_rows)
  may <- airquality$Ozone[kept & airquality$Month == 5]
  expect_equal(all_rows[["5"]]$y, rowMeans(stats::dnorm(outer(all_rows[["5"]]$x, may, "-"), sd = 5)))
  expect_argument_error(plot(fit, groups = 1:3), "groups")
  expect_argument_error(plot(fit, groups = list(1)), "groups")
  expect_argument_error(plot(fit, groups = seq_len(153)), "groups")
  three <- flash_kde(iris[1:3], bandwidth = 1)
  expect_error(plot(three, groups = iris$Species), class = "flashkernel_error_unsupported")
  expect_argument_error(plot(fit, groups = airquality$Month, col = "no colour"), "col")
})

test_that("longitude and latitude are drawn as a map", {
  fit <- flash_kde(quakes[c("long", "lat")], "kde", bandwidth = 1, adaptive = FALSE)
  middle <- mean(range(quakes$lat)) * pi / 180
  expect_equal(map_aspect(fit), 1 / cos(middle))
  expect_equal(map_aspect(flash_kde(quakes[c("lat", "long")], bandwidth = 1)), cos(middle))
  grDevices::pdf(NULL, 7, 7)
  on.exit(grDevices::dev.off())
  unit <- \() graphics::par("pin") / (graphics::par("usr")[c(2, 4)] - graphics::par("usr")[c(1, 3)])
  plot(fit, n = 21)
  expect_equal(unit()[2] / unit()[1], 1 / cos(middle))
  plot(fit, n = 21, asp = 1)
  expect_equal(unit()[2] / unit()[1], 1)
  # so that the key lies in the frame of the map
  grDevices::pdf(NULL, 12, 5)
  view <- grid_view(plot(fit, n = 21, points = FALSE), matrix(0, 0, 2))
  for (corner in c("topright", "bottomleft")) {
    points <- expand.grid(x = view$x, y = view$y)
    free <- switch(corner, topright = 4, bottomleft = 1)
    key <- draw_region_key("95%", "red", as.matrix(points[-free, ]), view)$rect
    expect_true(key$left > view$x[1] && key$left + key$w < view$x[2])
    expect_true(key$top < view$y[2] && key$top - key$h > view$y[1])
  }
  grDevices::dev.off()
  # the frame is that of the map, whose sides are as far from those of the plot as the device is wide
  limits <- \(fit, width) {
    grDevices::pdf(NULL, width, 5)
    on.exit(grDevices::dev.off())
    grid <- plot(fit, n = 21, points = FALSE)
    view <- grid_view(grid, matrix(0, 0, 2))
    list(
      gaps = frame_gaps(view), pin = graphics::par("pin"),
      line = graphics::par("mai")[1] / graphics::par("mar")[1], ratio = diff(view$x) / diff(view$y) * cos(middle)
    )
  }
  for (width in c(4, 12)) {
    found <- limits(fit, width)
    room <- c(found$pin[2] - found$pin[1] / found$ratio, found$pin[1] - found$pin[2] * found$ratio) / 2
    expect_equal(found$gaps, rep(pmax(room, 0) / found$line, 2))
    expect_gt(max(found$gaps), 1)
  }
  expect_identical(frame_gaps(NULL), numeric(4))
  expect_identical(map_ticks(c(3, 1), c(0, 1.5, 2, 2.5, 4)), c(1.5, 2, 2.5))
  expect_identical(map_ticks(c(3, 1), c(0, 2, 4)), c(1, 1.5, 2, 2.5, 3))
  named <- function(names, data = quakes[c("long", "lat")]) {
    map_aspect(flash_kde(stats::setNames(data, names), bandwidth = 1))
  }
  expect_equal(named(c("start_lng", "start.Latitude")), 1 / cos(middle))
  expect_null(named(c("x", "y")))
  expect_null(named(c("long", "depth")))
  expect_null(named(c("slope_long", "flat")))
  expect_null(named(c("lon", "lat"), faithful * 10))
  skip_if_not_installed("ggplot2")
  expect_equal(ggplot2::autoplot(fit, n = 21)$coordinates$ratio, 1 / cos(middle))
})

test_that("autoplot() takes palettes and labels", {
  skip_if_not_installed("ggplot2")
  fit <- flash_kde(faithful, bandwidth = c(0.3, 4))
  plot <- ggplot2::autoplot(
    fit, prob = c(0.5, 0.9), palette = "YlOrRd", main = "Faithful", xlab = "min", sub = "", n = 21
  )
  labels <- ggplot2::ggplot_build(plot)$plot$labels
  expect_identical(labels$title, "Faithful")
  expect_identical(labels$x, "min")
  expect_identical(labels$y, "waiting")
  expect_null(labels$subtitle)
  fills <- unique(ggplot2::layer_data(plot)$fill)
  expect_setequal(fills, rev(grDevices::hcl.colors(3, "YlOrRd"))[-1])
  expect_argument_error(ggplot2::autoplot(fit, palette = "banana"), "palette")
  expect_argument_error(ggplot2::autoplot(fit, palette = "YlOrRd", col = "red"), "palette")
  expect_argument_error(ggplot2::autoplot(fit, main = 1:2), "main")
  expect_argument_error(ggplot2::autoplot(flash_kde(iris[1:3], bandwidth = 1), xlab = "a"), "xlab")
  expect_argument_error(ggplot2::autoplot(flash_kde(faithful$waiting), palette = "YlOrRd"), "palette")
})

test_that("labels that a small device has no room for are broken or smaller", {
  grDevices::png(tempfile(fileext = ".png"), width = 300, height = 300)
  on.exit(grDevices::dev.off())
  graphics::plot.new()
  expect_identical(in_two_lines("short", 1.2), "short")
  long <- "Density of one of the variables and of another one of them all"
  for (text in c("short", long)) {
    factor <- fit_width(text, 1.2, 2)
    expect_lt(graphics::strwidth(text, "inches", cex = 1.2 * factor, font = 2), graphics::par("fin")[1])
    expect_identical(factor == 1, text == "short")
  }
  broken <- in_two_lines(long, 1.2, 2)
  expect_identical(gsub("\n", " ", broken), long)
  expect_identical(count_lines(broken), 2L)
  expect_gt(fit_width(broken, 1.2, 2), 1.5 * fit_width(long, 1.2, 2))
  expect_identical(in_two_lines(quote(f[x]), 1), quote(f[x]))
})

test_that("both kinds of graphics draw the same curves and contours", {
  skip_if_not_installed("ggplot2")
  lines_of <- \(plot) Filter(\(layer) inherits(layer$geom, "GeomPath"), plot$layers)[[1]]$data
  line <- flash_kde(faithful$waiting, "kde", bandwidth = 4)
  drawn <- with_null_device(plot(line, n = 50))
  expect_identical(as.list(lines_of(ggplot2::autoplot(line, n = 50))[c("x", "y")]), drawn)
  plane <- flash_kde(faithful, "kde", bandwidth = c(0.3, 4))
  drawn <- with_null_device(plot(plane, n = 31, prob = 0.5))
  contours <- do.call(rbind, lapply(grDevices::contourLines(drawn, levels = drawn$levels), as.data.frame))
  expect_equal(lines_of(ggplot2::autoplot(plane, n = 31, prob = 0.5))[c("x", "y")], contours[c("x", "y")])
})

test_that("figures without points, with formulas as titles and with responses without a name are drawn", {
  fit <- flash_kde(faithful$waiting, "kde", bandwidth = 4)
  nameless <- kernel_regression(cbind(mpg, hp / 10) ~ wt, mtcars, bandwidth = 0.5)
  with_null_device({
    expect_no_error(plot(fit, groups = faithful$eruptions > 3, points = FALSE))
    expect_no_error(plot(nameless))
  })
  skip_if_not_installed("ggplot2")
  expect_identical(ggplot2::autoplot(fit, main = quote(x^2))$labels$title, quote(x^2))
})

test_that("names of categories shrink, stand in two lines or lose letters, in this order", {
  names <- c("Fair", "Good", "Very Good", "Premium")
  expect_equal(level_layout(names, 2), list(labels = names, lines = 1, cex = 1))
  expect_equal(level_layout(names, 0.9), list(labels = names, lines = 1, cex = 0.9))
  expect_equal(level_layout(names, 0.4), list(labels = names, lines = 2, cex = 0.8))
  expect_equal(short_names(c("type of bean", "type of soy"), 6), c("bean", "soy"))
  expect_equal(short_names(c("type of bean", "type of soy"), 12), c("type of bean", "type of soy"))
  expect_true(all(nchar(short_names(c("linseedmeal", "horsebeanmeal"), 6)) <= 6))
  short <- level_layout(names, 0.2)
  expect_equal(short[c("lines", "cex")], list(lines = 2, cex = LEAST_LABEL))
  expect_lt(max(nchar(short$labels)), 9)
  expect_identical(anyDuplicated(short$labels), 0L)
})

test_that("a clock has ticks at its quarters, and a density of positive data ends soon beyond them", {
  hours <- data.frame(time = (22 + 1:50 / 10) %% 24)
  clock <- flash_kde(hours, support = list(time = kde_circle(24)), bandwidth = 1)
  expect_equal(circle_ticks(clock, 1), c(0, 6, 12, 18, 24))
  if (requireNamespace("ggplot2", quietly = TRUE)) {
    alone <- flash_kde(hours$time, support = kde_circle(24), bandwidth = 1)
    shown <- ggplot2::ggplot_build(ggplot2::autoplot(alone))$layout$panel_params[[1]]$x$breaks
    expect_equal(shown[!is.na(shown)], c(0, 6, 12, 18, 24))
  }
  expect_null(circle_ticks(flash_kde(hours, support = list(time = kde_circle(25)), bandwidth = 1), 1))
  expect_null(circle_ticks(flash_kde(hours, bandwidth = 1), 1))
  x <- exp(qnorm(ppoints(100)))
  skewed <- flash_kde(x, support = kde_support(c(0, Inf), "transform"), estimator = "kde", bandwidth = 3)
  expect_lte(max(plot(skewed)$x), max(x) + diff(range(x)) / 2)
  expect_lt(min(plot(skewed)$x), min(x))
})

test_that("panels continue in the layout of the user", {
  fit <- flash_kde(iris[4:5], "kde", 0.1, adaptive = FALSE)
  chosen <- kde_bandwidth(faithful[1:60, ], estimator = "kde", structure = "auto")
  with_null_device({
    graphics::par(mfrow = c(2, 3), oma = c(1, 1, 1, 1))
    plot(fit)
    expect_equal(graphics::par("mfg"), c(1, 2, 2, 3))
    plot(chosen)
    expect_equal(graphics::par("mfg"), c(2, 1, 2, 3))
    expect_equal(graphics::par(c("mfrow", "oma")), list(mfrow = c(2, 3), oma = c(1, 1, 1, 1)))
  })
})
