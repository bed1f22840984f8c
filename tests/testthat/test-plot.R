# Figures draw the estimate itself, and leave the session as it was.

test_that("figures of 1, 2 and more variables draw, return what they drew, invisibly, and leave the session as it was", {
  with_null_device({
    graphics::plot.new()
    before <- graphics::par(no.readonly = TRUE)[c("mar", "mfrow", "oma", "las", "cex")]
    set.seed(3)
    state <- .Random.seed
    for (estimator in c("kde", "sdkde", "laplace")) for (data in list(faithful["eruptions"], faithful, iris[1:3])) {
      fit <- flash_kde(data, estimator = estimator)
      drawn <- withVisible(plot(fit))
      expect_false(drawn$visible || is.null(drawn$value))
      hdr_level(fit, 0.5)
      if (requireNamespace("ggplot2", quietly = TRUE)) expect_silent(ggplot2::ggplot_build(ggplot2::autoplot(fit)))
    }
    expect_identical(.Random.seed, state)
    expect_identical(graphics::par(names(before)), before)
  })
})

test_that("the grids that plot() returns hold the estimate itself", {
  fit <- flash_kde(faithful$eruptions, estimator = "sdkde")
  drawn <- with_null_device(plot(fit))
  expect_equal(drawn$y, predict(fit, drawn$x), tolerance = 1e-10)
  expect_equal(sum(drawn$y) * diff(drawn$x[1:2]), 1, tolerance = 0.01)

  fit <- flash_kde(faithful, estimator = "laplace", bandwidth = c(0.3, 4))
  drawn <- with_null_device(plot(fit, prob = c(0.5, 0.9), n = 40))
  at <- unname(as.matrix(expand.grid(drawn$x, drawn$y)))
  expect_equal(dim(drawn$z), lengths(drawn[c("x", "y")]), ignore_attr = TRUE)
  expect_equal(as.vector(drawn$z), predict(fit, at), tolerance = 1e-10)
  expect_equal(unname(drawn$levels), unname(hdr_level(fit, c(0.5, 0.9))), tolerance = 1e-6)
})

test_that("the marginals in a plot of more variables are estimates of those variables", {
  # The marginal of a Gaussian mixture is the mixture of the marginals; that of the
  # Laplace-corrected estimate is the one of the lower dimension.
  for (estimator in c("kde", "laplace")) {
    fit <- flash_kde(iris[1:3], estimator = estimator, bandwidth = c(0.3, 0.2, 0.4))
    drawn <- with_null_device(plot(fit, n = 25))
    one <- flash_kde(iris[[2]], estimator = estimator, bandwidth = 0.2)
    line <- drawn$marginals$Sepal.Width
    expect_equal(line$y, predict(one, line$x), tolerance = 1e-10)
    two <- flash_kde(iris[c(1, 3)], estimator = estimator, bandwidth = c(0.3, 0.4))
    pair <- drawn$pairs[["Sepal.Length:Petal.Length"]]
    want <- predict(two, unname(as.matrix(expand.grid(pair$x, pair$y))))
    expect_equal(as.vector(pair$z), want, tolerance = 1e-10)
  }
})

test_that("lines() and plot(add = TRUE) draw on the figure that is there", {
  fit <- flash_kde(faithful$eruptions, estimator = "kde")
  with_null_device({
    plot(fit)
    usr <- graphics::par("usr")
    lines(flash_kde(faithful$eruptions), lty = 2)
    plot(flash_kde(faithful$eruptions), add = TRUE)
    expect_identical(graphics::par("usr"), usr)
  })
  expect_argument_error(plot(flash_kde(iris[1:3]), add = TRUE), "add")
  expect_argument_error(plot(fit, prob = 2), "prob")
  expect_argument_error(plot(fit, n = -1), "n")
  plane <- flash_kde(faithful, "kde", bandwidth = c(0.3, 4))
  with_null_device(expect_identical(contour(plane, n = 21), plot(plane, n = 21, fill = FALSE)))
  expect_argument_error(contour(fit), "x")
  expect_argument_error(contour(flash_kde(data.frame(faithful, level = faithful$waiting > 70))), "x")
})

test_that("graphical parameters that a figure would not heed, or of a wrong type or value, are refused by name", {
  fits <- list(flash_kde(faithful$waiting), flash_kde(faithful), flash_kde(iris[1:3]))
  wrong <- list(
    type = "h", banana = 1, col = list(1), col = "no colour", lwd = "a", lwd = -1, main = 1:3, sub = list(), las = "x",
    las = 7, bty = 1, cex = "big", cex.axis = -1, mgp = 1, fg = TRUE, xpd = "no"
  )
  refused <- \(fit, given) expect_argument_error(do.call(plot, c(list(fit), given)), names(given))
  with_null_device({
    for (fit in fits) {
      for (i in seq_along(wrong)) refused(fit, wrong[i])
      expect_no_error(plot(fit, las = 1, pch = 3, cex = 0.5, family = "serif"))
    }
    for (arg in c("xlim", "ylim", "xlab", "ylab")) refused(fits[[3]], stats::setNames(list(1:2), arg))
    refused(fits[[3]], list(cex.main = 2))
    expect_no_error(plot(fits[[1]], cex.main = 2, panel.first = graphics::grid(), bty = "l"))
    expect_no_error(plot(fits[[2]], asp = 1, xaxs = "r", col.main = "red"))
    expect_argument_error(lines(fits[[1]], banana = 1), "banana")
    expect_argument_error(lines(fits[[1]], lwd = NA), "lwd")
    refused(fits[[1]], list(xlim = "a"))
    refused(fits[[1]], list(xlab = 1:2))
    refused(fits[[2]], list(axes = "no"))
    expect_silent(plot(fits[[2]], main = quote(x^2), sub = expression(alpha), col = 4, axes = FALSE))
  })
})

test_that("contour labels do not cover each other, and the key goes where no data are", {
  box <- c(0.4, 0.15)
  grDevices::pdf(NULL)
  on.exit(grDevices::dev.off())
  graphics::plot.new()
  # nested circles, 0.07 inches apart: a label is twice as high
  angle <- seq(0, 2 * pi, length.out = 100)
  circle <- function(r) list(cbind(3 + r * cos(angle), 3.5 + r * sin(angle)))
  spots <- label_spots(lapply(c(0.5, 0.57, 0.64, 0.71), circle), box)
  spots <- spots[!is.na(spots[, 1]), ]
  expect_gt(nrow(spots), 1)
  apart <- pmax(as.matrix(dist(spots[, 1])) / box[1], as.matrix(dist(spots[, 2])) / box[2])
  expect_true(all(apart[upper.tri(apart)] >= 1))

  graphics::plot.window(0:1, 0:1)
  corners <- as.matrix(expand.grid(c(0:30, 70:100) / 100, c(0:30, 70:100) / 100))
  key <- draw_region_key(c("95%", "50%"), c("red", "blue"), corners)
  expect_identical(covered_points(key$rect, corners), 0L)
  # a contour no larger than its label goes to the key
  expect_identical(vapply(c(0.3, 1), \(r) holds_label(circle(r)[[1]], box), NA), c(FALSE, TRUE))
})

test_that("the size of the axes' numbers is not that of the points", {
  drawn <- function(...) {
    file <- tempfile(fileext = ".pdf")
    on.exit(unlink(file))
    grDevices::pdf(file, compress = FALSE)
    plot(flash_kde(faithful, "kde", bandwidth = c(0.3, 4)), n = 21, ...)
    grDevices::dev.off()
    grep("Date", readLines(file, warn = FALSE), value = TRUE, invert = TRUE)
  }
  expect_identical(drawn(cex.axis = 1), drawn())
  expect_false(identical(drawn(cex = 1), drawn()))
})

test_that("a grid beyond the memory limit is refused by name", {
  plane <- flash_kde(faithful, estimator = "kde")
  before <- options(flashkernel.memory_limit = 1e8)
  on.exit(options(before))
  expect_argument_error(with_null_device(plot(plane, n = 1e6)), "n")
})

test_that("line types that crash R's own graphics are refused by name", {
  # lines(1:2, lty = 1e200) is a segmentation fault in R 4.2
  refused <- in_child(function() {
    grDevices::pdf(NULL)
    fits <- list(flash_kde(faithful$waiting), flash_kde(faithful), flash_kde(iris[1:3]))
    vapply(fits, \(fit) {
      vapply(list(1e200, Inf, -1e9), \(lty) {
        tryCatch({ plot(fit, lty = lty); "drawn" }, error = conditionMessage)
      }, "")
    }, character(3))
  })
  expect_match(as.vector(refused), "^`lty` must")
})

test_that("dots of crowded points are few and light, lone ones dark", {
  ink <- point_ink(c(0.5, 5.5, rep(9.5, 500)), c(0.5, 5.5, rep(9.5, 500)))
  expect_identical(ink$drawn, 1:6)
  expect_equal(ink$opacity[1:2], c(0.6, 0.6))
  # together 0.3, so that the region below shows
  expect_equal(1 - prod(1 - ink$opacity[3:6]), 0.3)
})

test_that("axes of large numbers have no powers of ten", {
  expect_identical(axis_labels(c(0, 1e5, 2e5)), c("0", "100,000", "200,000"))
  expect_identical(axis_labels(c(0, 0.5, 1)), c("0.0", "0.5", "1.0"))
  expect_identical(short_labels(c(0, 1e5, 2e5)), c("0", "100k", "200k"))
  expect_identical(short_labels(c(0, 5e5, 1e6)), c("0", "0.5M", "1.0M"))
  expect_identical(short_number(c(10737.2, 0.0487)), c("10,700", "0.0487"))
})

test_that("an axis of a panel has at least three labels, apart from each other", {
  for (usr in list(c(-124.6, -114.1), c(0.3, 15.8), c(15000, 500000), c(31.9, 42.1))) {
    # a label takes a ninth of the panel
    extent <- function(labels) rep(diff(usr) / 9, length(labels))
    ticks <- panel_ticks(usr, extent)
    shown <- nzchar(ticks$labels)
    expect_gte(sum(shown), 3)
    expect_lte(sum(shown), 6)
    expect_gt(min(diff(ticks$at[shown])), diff(usr) / 9)
    expect_true(all(ticks$at >= usr[1] & ticks$at <= usr[2]))
  }
})

test_that("texts of a diagonal panel leave the curve its room", {
  grDevices::pdf(NULL, width = 1.2, height = 1.2)
  on.exit(grDevices::dev.off())
  graphics::par(mar = rep(0.1, 4))
  graphics::plot.new()
  texts <- corner_texts(c("a_rather_long_name", "sd 1.23"), c(1.3, 1.15), c(2, 1))
  expect_lte(texts$share, 0.6)
  width <- graphics::strwidth(texts$text[1], "inches", cex = texts$cex[1], font = 2)
  expect_lt(width, graphics::par("pin")[1])
})

test_that("large figures, evaluated to a tolerance, show the exact estimate", {
  set.seed(1)
  x <- cbind(stats::rnorm(4000), stats::rexp(4000))
  fit <- flash_kde(x, estimator = "kde")
  drawn <- with_null_device(plot(fit, n = 60, prob = 0.5))
  exact <- predict(fit, unname(as.matrix(expand.grid(drawn$x, drawn$y))))
  expect_lt(max(abs(as.vector(drawn$z) - exact)), 1e-6 * max(exact))
  again <- with_null_device(plot(fit, n = 60, prob = 0.5))
  expect_identical(drawn, again)
  # kernels of several widths; a low level wants more than the tolerance says
  fit <- flash_kde(x, "kde", bandwidth = 0.1, adaptive = rep(c(1, 3), 2000))
  part <- shown_part(fit, to_tol = TRUE)
  at <- unname(as.matrix(expand.grid(seq(-6, 6, length.out = 30), seq(-1, 15, length.out = 30))))
  exact <- predict(fit, at)
  expect_within(seen_density(part$density, at, 1e-3 * max(exact), part$control), exact, 1e-6 * max(exact))
  expect_within(seen_density(part$density, at, 1e-20, part$control) / exact, rep(1, 900), 0.01)
})

test_that("a wide kernel of a single point does not widen the figure, nor narrow a region", {
  fit <- flash_kde(c(seq(0, 1, 0.01), 3), "kde", 0.1, adaptive = c(rep(1, 101), 60))
  expect_within(range(with_null_device(plot(fit))$x), c(-0.25, 3), 0.1)
  expect_gt(max(hdr_regions(fit, 0.999)$to), 5)
})

test_that("autoplot() takes colours", {
  skip_if_not_installed("ggplot2")
  fit <- flash_kde(faithful$eruptions, estimator = "kde")
  built <- with_null_device(ggplot2::ggplot_build(ggplot2::autoplot(fit, col = "red")))
  expect_true(any(vapply(built$data, \(d) "red" %in% d$colour, NA)))
  plane <- flash_kde(faithful, estimator = "kde")
  built <- with_null_device(ggplot2::ggplot_build(ggplot2::autoplot(plane, prob = c(0.5, 0.9), col = c("pink", "red"))))
  expect_setequal(built$data[[1]]$fill, c("pink", "red"))
  expect_argument_error(ggplot2::autoplot(fit, col = list(1)), "col")
  expect_argument_error(ggplot2::autoplot(fit, colour = "red"), "colour")
})

test_that("a band whose line leaves it shows its centre, and only then", {
  x <- stats::qgamma(stats::ppoints(100), 2)
  asked <- list(n = 101, band = "pointwise", most = 100)
  lines_of <- \(fit) {
    figure <- line_figure(fit, asked, NULL)
    list(sub = figure$sub, lines = sum(vapply(figure$panels[[1]]$layers, \(layer) layer$role == "line", NA)))
  }
  wide <- lines_of(flash_kde(x, "kde", 2, support = kde_support(c(0, Inf), "reflect")))
  expect_identical(wide$lines, 2L)
  expect_match(wide$sub, "dashed: corrected for bias")
  expect_identical(lines_of(flash_kde(x, "kde", 0.4))$lines, 1L)
})

test_that("names in strips of pairs fit the open device", {
  grDevices::pdf(NULL, 4, 4)
  on.exit(grDevices::dev.off())
  expect_true(all(nchar(strip_names(names(swiss), 6)) <= 8))
  expect_identical(unname(strip_names(c("a b", "c", "d"), 3)), c("a b", "c", "d"))
  expect_identical(unname(strip_names(c("width of leaves", "c", "d"), 3)), c("width of\nleaves", "c", "d"))
})
