# Figures of other kinds: groups, surfaces of three variables, maps, the criterion of a search.

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
  drawn <- with_null_device(plot(plane, groups = iris$Species, n_grid = 31, prob = c(0.5, 0.9)))
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

# Every edge is of two triangles.
expect_closed <- function(triangles) {
  key <- apply(signif(triangles, 9), 1, paste, collapse = " ")
  first <- seq(1, length(key), by = 3)
  edges <- rbind(
    cbind(key[first], key[first + 1]), cbind(key[first + 1], key[first + 2]), cbind(key[first + 2], key[first])
  )
  flat <- edges[, 1] == edges[, 2]
  pairs <- table(paste(pmin(edges[, 1], edges[, 2]), pmax(edges[, 1], edges[, 2]))[!flat])
  expect_true(all(pairs %% 2 == 0))
}

test_that("triangles lie on the surface of a ball, and close it", {
  to <- \(low, high, n) seq(low, high, length.out = n)
  nodes <- list(a = to(-1.5, 1.5, 25), b = to(-1.4, 1.6, 28), c = to(-1.6, 1.5, 23))
  at <- expand.grid(nodes)
  inside <- array(1 - sqrt(rowSums(at^2)), lengths(nodes))
  triangles <- level_triangles(nodes, inside, 0)
  expect_identical(colnames(triangles), c("a", "b", "c"))
  expect_lt(max(abs(sqrt(rowSums(triangles^2)) - 1)), 0.01)
  corner <- \(k) triangles[seq(k, nrow(triangles), by = 3), ]
  a <- corner(1)
  b <- corner(2)
  c <- corner(3)
  normal <- cbind(
    (b[, 2] - a[, 2]) * (c[, 3] - a[, 3]) - (b[, 3] - a[, 3]) * (c[, 2] - a[, 2]),
    (b[, 3] - a[, 3]) * (c[, 1] - a[, 1]) - (b[, 1] - a[, 1]) * (c[, 3] - a[, 3]),
    (b[, 1] - a[, 1]) * (c[, 2] - a[, 2]) - (b[, 2] - a[, 2]) * (c[, 1] - a[, 1])
  )
  expect_equal(sum(sqrt(rowSums(normal^2))) / 2, 4 * pi, tolerance = 0.01)
  # the volume of the cones from the centre to the triangles
  expect_equal(sum(abs(rowSums(normal * a))) / 6, 4 / 3 * pi, tolerance = 0.01)
  expect_closed(triangles)
})

test_that("isosurfaces are where the density is at the levels", {
  fit <- flash_kde(iris[1:3], "kde", bandwidth = 0.4, adaptive = FALSE)
  drawn <- with_null_device(plot(fit, type = "isosurface", prob = c(0.5, 0.9), n_grid = 31))
  expect_equal(drawn$levels, sort(hdr_level(fit, c(0.5, 0.9))))
  for (k in 1:2) {
    points <- drawn$triangles[[k]][seq(1, nrow(drawn$triangles[[k]]), by = 50), ]
    expect_equal(predict(fit, unname(points)), rep(drawn$levels[[k]], nrow(points)), tolerance = 0.03)
  }
  # closed where the region is larger than the grid: of one kernel a ball of radius 4, cut by a cube of side 6
  one <- flash_kde(rbind(c(1, 2, 3)), "kde", bandwidth = 1)
  drawn <- with_null_device(plot(one, type = "isosurface", prob = 0.9988, n_grid = 13))
  expect_closed(drawn$triangles[[1]])
  extent <- unname(apply(drawn$triangles[[1]], 2, range))
  expect_equal(extent, rbind(c(-2, -1, 0), c(4, 5, 6)), tolerance = 1e-5)
  expect_argument_error(plot(flash_kde(faithful, bandwidth = 1), type = "isosurface"), "type")
  expect_argument_error(plot(fit, type = "banana"), "type")
  before <- with_null_device({
    graphics::plot.new()
    mar <- graphics::par("mar")
    plot(fit, type = "isosurface", n_grid = 11)
    expect_identical(graphics::par("mar"), mar)
  })
})

test_that("plotly and rgl have the same triangles", {
  fit <- flash_kde(iris[1:3], "kde", bandwidth = 0.4, adaptive = FALSE)
  want <- with_null_device(plot(fit, type = "isosurface", prob = c(0.5, 0.9), n_grid = 15))
  if (requireNamespace("plotly", quietly = TRUE)) {
    made <- plotly::plotly_build(plot(fit, type = "plotly", prob = c(0.5, 0.9), n_grid = 15))$x$data
    expect_identical(vapply(made, `[[`, "", "type"), rep("mesh3d", 2))
    for (k in 1:2) {
      expect_equal(as.vector(made[[k]]$x), unname(want$triangles[[k]][, 1]))
      corners <- rbind(as.vector(made[[k]]$i), as.vector(made[[k]]$j), as.vector(made[[k]]$k))
      expect_equal(as.vector(corners), seq_len(nrow(want$triangles[[k]])) - 1)
    }
  }
  before <- options(rgl.useNULL = TRUE) # no screen is needed
  on.exit(options(before))
  skip_if_not_installed("rgl")
  drawn <- plot(fit, type = "rgl", prob = c(0.5, 0.9), n_grid = 15)
  expect_equal(drawn, want)
  shapes <- rgl::rgl.ids()
  triangles <- shapes$id[shapes$type == "triangles"]
  expect_length(triangles, 2)
  expect_equal(nrow(rgl::rgl.attrib(triangles[1], "vertices")), nrow(want$triangles[[1]]))
  rgl::close3d()
})

test_that("longitude and latitude are drawn as a map", {
  fit <- flash_kde(quakes[c("long", "lat")], "kde", bandwidth = 1, adaptive = FALSE)
  middle <- mean(range(quakes$lat)) * pi / 180
  expect_equal(map_aspect(fit), 1 / cos(middle))
  expect_equal(map_aspect(flash_kde(quakes[c("lat", "long")], bandwidth = 1)), cos(middle))
  grDevices::pdf(NULL, 7, 7)
  on.exit(grDevices::dev.off())
  unit <- \() graphics::par("pin") / (graphics::par("usr")[c(2, 4)] - graphics::par("usr")[c(1, 3)])
  plot(fit, n_grid = 21)
  expect_equal(unit()[2] / unit()[1], 1 / cos(middle))
  plot(fit, n_grid = 21, asp = 1)
  expect_equal(unit()[2] / unit()[1], 1)
  # so that the key lies in the frame of the map
  grDevices::pdf(NULL, 12, 5)
  view <- grid_view(plot(fit, n_grid = 21, points = FALSE), matrix(0, 0, 2))
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
    grid <- plot(fit, n_grid = 21, points = FALSE)
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
  expect_equal(ggplot2::autoplot(fit, n_grid = 21)$coordinates$ratio, 1 / cos(middle))
})

test_that("the criterion of the search is drawn, where there was one", {
  fit <- flash_kde(faithful)
  expect_identical(with_null_device(plot(fit, type = "criterion", main = "By what")), fit$search)
  expect_argument_error(plot(flash_kde(faithful, bandwidth = 1), type = "criterion"), "type")
})

test_that("autoplot() takes palettes and labels", {
  skip_if_not_installed("ggplot2")
  fit <- flash_kde(faithful, bandwidth = c(0.3, 4))
  plot <- ggplot2::autoplot(
    fit, prob = c(0.5, 0.9), palette = "YlOrRd", main = "Faithful", xlab = "min", sub = "", n_grid = 21
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
  long <- "Density of one of the variables and of another of them"
  broken <- in_two_lines(long, 1.2, 2)
  expect_identical(gsub("\n", " ", broken), long)
  expect_identical(count_lines(broken), 2L)
  expect_gt(fit_width(broken, 1.2, 2), 1.5 * fit_width(long, 1.2, 2))
  expect_identical(in_two_lines(quote(f[x]), 1), quote(f[x]))
})
