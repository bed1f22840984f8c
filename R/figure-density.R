#' Plot densities, bands and local tests
#'
#' `plot()` draws with base graphics, `autoplot()` with package ggplot2. The figure of a fit depends on its variables:
#'
#' * One variable: the density as a line over a rug of the data.
#' * Two: highest-density regions, filled, under the data. These are the smallest regions with the given probabilities.
#'   `plot()` writes the probability on each contour.
#' * More: a matrix of the marginal densities of one variable (diagonal) and of two variables (regions below the
#'   diagonal, contours and data above).
#' * Numbers and categories: for each number a panel with a line for each category of the column `by`. The line is the
#'   joint density of the number and that category, \eqn{p(x_k, c)}{p(x_k, c)}. It integrates to the probability of the
#'   category, so the lines add up to the density of the number. For each categorical column a panel with the
#'   probabilities.
#'
#' **Bands** of one variable are a shaded band around the line of the estimate. Bands of two variables on a grid are
#' three maps on one scale: lower limit, estimate, upper limit. **Local tests** of one variable show both densities,
#' and below them coloured bands where one is significantly higher. Tests of two variables on a grid show such regions
#' with the contours of both densities.
#'
#' **Grid.** The grid spans the data plus three bandwidths (standard deviations) on each side. It is even, unless its
#' steps would exceed half a bandwidth. Then the steps are uneven, and outliers have nodes of their own. Contour
#' levels are those of [hdr_level()] and do not depend on the grid.
#'
#' **Accuracy.** Up to 1e8 kernel pairs (2,500 points for two variables, 33,000 for one), the estimate is summed exactly at every
#' node. Beyond, it is computed within 1e-6 of its maximum, or within the `tol` of the fit. Beyond 2e9 pairs (50,000 points for
#' two variables), points closer than a third of a bandwidth are merged first, which changes the density by less than 0.1% of
#' its maximum.
#'
#' **Maps.** Two variables are drawn as a map if their values and names (`lon`, `long`, `lng`, `longitude`, `lat`,
#' `latitude`, also after a dot or an underscore) are those of longitude and latitude. A degree of longitude is then
#' cos(latitude) times as long as a degree of latitude. `asp` overrides this.
#'
#' **Negative values.** A Laplace-corrected estimate can be negative. Negative parts are shaded in orange; with two
#' variables, where the estimate is below minus 1% of its maximum.
#'
#' @param x,object A fit from [flash_kde()], bands from [kde_bands()], or a test from [kde_test()] with
#'   `method = "local"`.
#' @param prob Probabilities of the regions, above 0 and below 1 (two variables or more).
#' @param n Number of nodes of the grid per axis. `NULL` (default): 1024 for one variable, 151 for two, 101 for each
#'   marginal of two variables, 512 for each line with categories.
#' @param max_dims Number of variables shown if there are more than two: the first `max_dims`. With categories, the
#'   number of panels.
#' @param by Name of the categorical column whose categories have colours. Default: the first one. `NULL`: none, one
#'   line for each number.
#' @param add Whether to add to the present plot: the line, the band, or contours without filling (one or two
#'   variables).
#' @param fill Whether to fill the regions (two variables).
#' @param points Whether to draw the data, as points, or as a rug for one variable. A number is the largest number of
#'   points drawn; `TRUE` means 2,000 points (shared by the panels of a row), 1,000 ticks, and 300 ticks with
#'   categories. Larger data are thinned evenly. The area of a point is proportional to its weight, within limits.
#'   Overlapping points are drawn more lightly, at most four on each other, so that the regions below stay visible.
#' @param labels Whether to write the probability on each contour (two variables). If a contour has no room for its
#'   label, a key in the corner names all contours.
#' @param col Colour of the line (one variable). Otherwise the colours of the regions, outermost first, or one colour,
#'   from which lighter tints are made; with `fill = FALSE` the colour of the contours. With categories one for each
#'   category of `by`, with `groups` one for each group. For bands the colour of the line, or for two variables
#'   colours from low to high. For a local test two colours, of x and of y.
#' @param border Colour of the limits of a band; `NA` (default): none (one variable).
#' @param level Significance level for adjusted p-values.
#' @param palette Instead of `col`, for two variables and more: the name of a palette of [grDevices::hcl.colors()],
#'   such as `"YlOrRd"`. Its light end is outermost.
#' @param main,sub,xlab,ylab Title, subtitle and axis labels (labels for one or two variables). `""`: none. `NULL`:
#'   those of `plot()`. By default, a ggplot has no title.
#' @param band One variable: `TRUE` or `"pointwise"`, or `"simultaneous"`, shades the 95% confidence band of
#'   [kde_bands()]. That band is around the bias-corrected estimate, which is dashed where the line leaves the band.
#' @param groups A factor, or a vector that can be one, with a value for each row of the data: draws the densities of
#'   the groups with a key (one or two variables). Each group has a fit with the arguments of `x`. Rows with a missing
#'   group are dropped. To compare fits with other arguments, use [lines()] or `add`.
#' @param ... For `plot()`: graphical parameters such as `lwd`, `lty` (with categories, one for each category of
#'   `by`), `las`, `bty`, `cex.axis`, and `pch` and `cex` for the data; `main`, and `sub`, the subtitle (default:
#'   estimator, number of points and bandwidth as kernel standard deviations). For one or two variables also `xlab`,
#'   `ylab`, `xlim` and `ylim`, within which the density is evaluated, `asp`, `axes`, `cex.main` and similar ones.
#'   Unknown names are an error. For `autoplot()`: not used.
#' @return `plot()`: what was drawn, invisibly.
#'   * One variable: a list of `x` and `y` (the density), as for [graphics::lines()].
#'   * Two: a list of `x`, `y`, the matrix `z` of densities, as for [graphics::contour()], [graphics::image()] and
#'     [graphics::persp()], and the `levels` of the regions.
#'   * More: `marginals` and `pairs`, lists of these by variable (`"a:b"` has `a` on the x axis).
#'   * Groups: a list of these by group.
#'   * Categories: a list by column: for a number a list by category of `x` and `y`, for a categorical column the
#'     probabilities.
#'   * Bands and tests: `x`.
#'
#'   `autoplot()`: a ggplot object.
#' @seealso [hdr_level()] for the levels; [kde_bandwidth()] for a plot of the bandwidth search.
#' @examples
#' plot(flash_kde(faithful$eruptions), main = "Old Faithful", xlab = "Eruption (min)")
#'
#' fit <- flash_kde(~ eruptions + waiting, data = faithful)
#' grid <- plot(fit)
#' str(grid)
#'
#' # the plain estimate for comparison, as dashed contours
#' plot(fit, prob = c(0.5, 0.9), points = FALSE, col = "darkgreen")
#' kde <- flash_kde(~ eruptions + waiting, data = faithful, estimator = "kde")
#' contour(kde, prob = c(0.5, 0.9), add = TRUE, lty = 2)
#'
#' plot(flash_kde(iris[, 1:4]))
#' plot(flash_kde(iris[3:4], bandwidth = "silverman"), groups = iris$Species)
#' plot(flash_kde(quakes[c("long", "lat")], bandwidth = 0.8))
#' plot(flash_kde(iris[3:5]))
#'
#' plot(kde_bands(fit))
#' flowers <- split(iris[, 1:2], iris$Species)
#' plot(kde_test(flowers$versicolor, flowers$setosa, method = "local"))
#'
#' if (requireNamespace("ggplot2", quietly = TRUE)) {
#'   ggplot2::autoplot(fit, palette = "YlOrRd", main = "Old Faithful", xlab = "Eruption (min)")
#' }
#' @rawRd \concept{contour plot}\concept{scatterplot matrix}\concept{autoplot}
#' @export
plot.flash_kde <- function(x, prob = c(0.25, 0.5, 0.75, 0.95), n = NULL, max_dims = 6, add = FALSE, fill = !add,
                           points = !add, labels = !add, col = NULL, band = FALSE, groups = NULL, ...) {
  add <- check_flag(add, "add")
  if (add && x$d > 2) stop_argument("add", "must be FALSE for more than two variables: found TRUE")
  check_graphical(..., d = x$d)
  asked <- density_options(x, prob, n, max_dims, points, col, fill, labels, band)
  limits <- limits_of(..., add = add)
  figure <- if (is.null(groups)) density_figure(x, asked, limits) else group_figure(x, groups, asked, limits)
  draw_figure(figure, ..., add = add)
}

#' @rdname plot.flash_kde
#' @importFrom graphics lines
#' @export
lines.flash_kde <- function(x, ...) {
  if (!x$d %in% 1:2) {
    stop_argument("x", "must be a fit to one or two variables for lines(): found ", x$d, " (use kde_marginal() first)")
  }
  plot.flash_kde(x, add = TRUE, ...)
}

#' @rdname plot.flash_kde
#' @importFrom graphics contour
#' @export
contour.flash_kde <- function(x, points = FALSE, ...) {
  if (x$d != 2 || !is.null(x$discrete)) {
    stop_argument("x", "must be a fit to two numeric variables for contour() (use kde_marginal() first)")
  }
  plot.flash_kde(x, fill = FALSE, points = points, ...)
}

#' @rdname plot.flash_kde
#' @exportS3Method ggplot2::autoplot
autoplot.flash_kde <- function(object, prob = c(0.25, 0.5, 0.75, 0.95), n = NULL, max_dims = 6, points = TRUE,
                               col = NULL, palette = NULL, main = "", sub = NULL, xlab = NULL, ylab = NULL, ...) {
  check_dots_empty(...)
  labels <- figure_titles(main, sub, xlab, ylab)
  if (object$d > 2) check_unused(list(xlab = xlab, ylab = ylab))
  asked <- density_options(object, prob, n, max_dims, points, col)
  if (!is.null(palette)) {
    if (object$d == 1) stop_argument("palette", "must be NULL for one variable: use `col` for the colour of the line")
    asked$colours <- palette_colours(palette, length(asked$prob), col)
  }
  ggplot_figure(density_figure(object, asked), labels)
}

# Checked arguments: list(prob, n, dims, most, col, colours, fill, labels, band).
density_options <- function(fit, prob, n, max_dims, points, col, fill = TRUE, labels = TRUE, band = FALSE) {
  check_in_memory(fit, "x")
  hold_limits(fit)
  prob <- sort(unique(check_prob(prob, "prob", open = TRUE)))
  check_colours(col, "col")
  fill <- check_flag(fill, "fill")
  dims <- seq_len(fit$d)
  if (fit$d > 2) dims <- first_shown(dims, check_count(max_dims, "max_dims", min = 2))
  # small panels show fewer points
  default <- if (fit$d == 1) 1000L else if (fit$d == 2) 2000L else 2000L %/% length(dims)
  list(
    prob = prob, n = check_grid_size(n, fit$d), dims = dims, most = most_shown(points, "points", default), col = col,
    colours = region_colours(length(prob), if (fill) col), fill = fill, labels = check_flag(labels, "labels"),
    band = check_band(band, fit$d)
  )
}

# list(x, y): the limits within which the density is drawn: given ones, those of the present plot, or NULL, of the data.
limits_of <- function(xlim = NULL, ylim = NULL, add = FALSE, ...) {
  usr <- if (add) graphics::par("usr")
  list(
    x = first_given(xlim, usr[1:2]), y = first_given(ylim, usr[3:4]), given = c(x = !is.null(xlim), y = !is.null(ylim))
  )
}

# `asked`: from density_options(); `limits`: from limits_of().
density_figure <- function(fit, asked, limits = NULL) {
  with_date_axes(switch(min(fit$d, 3), line_figure, region_figure, pairs_figure)(fit, asked, limits), fit)
}

# ---- one variable -------------------------------------------------------------------------------

line_figure <- function(fit, asked, limits) {
  colour <- first_given(asked$col[1], LINE_COLOUR)
  grid <- figure_curve(fit, asked$n, frame_limits(limits))
  band <- figure_band(fit, asked$band, grid$x)
  name <- variable_names(fit)
  # the line of a fit with much bias is outside of the corrected band: then the centre of the band is a line, too
  line <- if (!is.null(band)) grid$y[match(band$x, grid$x)]
  leaves <- isTRUE(any(pmax(line - band$high, band$low - line) > 0.005 * max(grid$y), na.rm = TRUE))
  layers <- c(
    if (!is.null(band)) list(new_layer("band", band, colour, opacity = BAND_OPACITY)),
    if (leaves) list(new_layer("line", band[c("x", "y")], colour, type = 2, width = 1)),
    curve_layers(grid, colour), list(new_layer("rug", figure_rug(fit, 1, asked$most)))
  )
  # at a bound of the support the upper limit of a band may be many times the density
  span <- density_limits(fit, grid)
  panel <- curve_panel(layers, name, range(grid$x), range(span, pmin(band$high, BAND_ROOM * max(span))))
  panel$x$ticks <- circle_ticks(fit, 1)
  new_figure(
    list(panel), main = paste("Density of", name),
    sub = paste0(fit_subtitle(fit, negative = shows_negative(grid$y)), if (leaves) "; dashed: corrected for bias"),
    shown = grid, sub_colour = colour
  )
}

# The part of a band that is shown, in multiples of the largest density.
BAND_ROOM <- 2

# The x limits of the frame, which R draws 4% outside of `xlim`.
frame_limits <- function(limits) {
  if (isTRUE(limits$given[["x"]])) range(limits$x) + c(-0.04, 0.04) * diff(range(limits$x)) else limits$x
}

# The line of a density, above an area for its negative part.
curve_layers <- function(grid, colour = NULL, group = NULL) {
  data <- data.frame(x = grid$x, y = grid$y)
  data$group <- group
  negative <- crossings(grid)
  list(
    if (any(grid$y < 0)) new_layer(
      "band", data.frame(x = negative$x, low = pmin(negative$y, 0), high = 0), NEGATIVE_COLOUR, opacity = 0.6
    ),
    new_layer("line", data, colour)
  )
}

# ---- two variables ------------------------------------------------------------------------------

region_figure <- function(fit, asked, limits) {
  grid <- figure_grid(fit, asked$n, asked$prob, limits)
  points <- figure_points(fit, 1:2, asked$most)
  view <- grid_view(grid, points)
  view[c("x", "y")] <- list(first_given(limits$x, view$x), first_given(limits$y, view$y))
  colours <- stats::setNames(asked$colours, rev(names(grid$levels)))
  colour <- if (!asked$fill && !is.null(asked$col)) asked$col else contour_colour(colours)
  layers <- c(
    if (asked$fill) region_layers(grid),
    list(new_layer("points", points, "black", size = 0.7 * crowd_size(nrow(points)), limits = view)),
    contour_layers(grid, colour),
    if (asked$labels) list(new_layer("labels", draw = label_regions(grid, points, colours, colour, asked$fill)))
  )
  names <- variable_names(fit)
  panel <- map_panel(layers, names, view$x, view$y, aspect = map_aspect(fit))
  for (axis in 1:2) panel[[c("x", "y")[axis]]]$ticks <- circle_ticks(fit, axis)
  new_figure(
    list(panel), main = paste("Density of", names[1], "and", names[2]),
    sub = fit_subtitle(fit, negative = asked$fill && shows_negative(grid$z)), colours = colours, key = "Probability",
    shown = grid
  )
}

# Nested regions from the outside in, and the negative part.
region_layers <- function(grid) {
  levels <- sort(grid$levels)
  outlines <- lapply(levels, \(level) outline_frame(upper_set(grid, level)))
  negative <- if (shows_negative(grid$z)) {
    level <- negative_level(grid$z)
    outline_frame(upper_set(replace(grid, "z", list(-grid$z)), -level))
  }
  list(
    new_layer("regions", bind_groups(outlines)),
    if (!is.null(negative)) new_layer("regions", negative, NEGATIVE_COLOUR, opacity = 0.4)
  )
}

# The contours of a grid: for each level its lines.
grid_contours <- function(grid) {
  lapply(grid$levels, \(level) grDevices::contourLines(grid$x, grid$y, grid$z, levels = level))
}

grid_lines <- function(grid) {
  contours <- grid_contours(grid)
  do.call(rbind, unname(Map(outline_frame, contours, names(contours))))
}

contour_layers <- function(grid, colour, width = 1) {
  lines <- grid_lines(grid)
  list(if (!is.null(lines)) new_layer("line", lines, colour, width = width))
}

# Returns a function that writes the probabilities on the contours, or draws a key if a contour has no room.
label_regions <- function(grid, points, colours, colour, fill) {
  function(view) {
    contours <- grid_contours(grid)
    placed <- draw_contour_labels(contours, names(grid$levels), colour, all_or_none = fill)
    if (placed || !fill) return(invisible())
    outlines <- outline_frame(unlist(contours, FALSE))
    draw_region_key(names(colours), colours, as.matrix(rbind(outlines[1:2], points[1:2])), view)
  }
}
