# Figures of bands: a line in its band for one variable, three maps for two.

#' @rdname plot.flash_kde
#' @export
plot.kde_bands <- function(x, add = FALSE, col = NULL, border = NA, ...) {
  check_graphical(..., d = 2)
  add <- check_flag(add, "add")
  if (add && drawn_variables(x) == 2) stop_argument("add", "must be FALSE for two variables: found TRUE")
  draw_figure(band_figure(x, col, border), ..., add = add)
}

#' @rdname plot.flash_kde
#' @exportS3Method ggplot2::autoplot
autoplot.kde_bands <- function(object, col = NULL, ...) {
  check_dots_empty(...)
  ggplot_figure(band_figure(object, col), list(title = ""))
}

band_figure <- function(bands, col, border = NA) {
  check_colours(col, "col")
  several <- drawn_variables(bands) == 2
  band <- attr(bands, "band")
  dates <- stats::setNames(lapply(bands[band$variables], \(at) if (is_date(at)) at[0]), band$labels)
  numbers <- replace(bands, band$variables, lapply(bands[band$variables], as.numeric))
  figure <- (if (several) band_maps else band_lines)(numbers, band, col, border)
  figure$shown <- bands
  with_date_axes(figure, list(dates = dates))
}

band_lines <- function(bands, band, col, border) {
  by_place <- order(bands[[1]])
  at <- bands[by_place[!is.na(bands$se[by_place])], ]
  data <- data.frame(x = at[[1]], y = at$estimate, low = at$lower, high = at$upper)
  colour <- if (is.null(col)) LINE_COLOUR else col[1]
  layers <- list(
    new_layer("band", data, colour, opacity = BAND_OPACITY, border = border), new_layer("line", data, colour)
  )
  panel <- curve_panel(layers, band$labels, range(data$x), range(0, data$high))
  new_figure(
    list(panel), main = paste("Density of", band$labels), sub = band_title(band), sub_colour = colour
  )
}

# The number of variables of bands that can be drawn: one at any points, two on a grid.
drawn_variables <- function(bands) {
  band <- attr(bands, "band")
  if (!can_be_drawn(bands, band, c("lower", "upper", "se"))) {
    stop_argument("x", "must be bands of one numeric variable, or of two on a grid: call kde_bands() without `newdata`")
  }
  length(band$variables)
}

# `about`: an attribute of the data frame, a list with its `variables` and whether it is on a `grid`.
can_be_drawn <- function(frame, about, columns) {
  d <- length(about$variables)
  whole <- !is.null(about) && all(c(about$variables, columns) %in% names(frame))
  numbers <- whole && all(vapply(frame[about$variables], \(at) is.numeric(at) || is_date(at), NA))
  numbers && (d == 1 || d == 2 && about$grid && is_whole_grid(frame))
}

# ---- two variables ----------------------------------------------------------------------------

BAND_MAPS <- c(lower = "Lower limit", estimate = "Estimate", upper = "Upper limit")

band_map_colours <- function(col) {
  if (length(col) > 1) return(col)
  grDevices::colorRampPalette(c("white", if (is.null(col)) LINE_COLOUR else col, "black"))(64)
}

band_maps <- function(bands, band, col, border) {
  axes <- band_axes(bands)
  top <- max(bands$upper)
  levels <- pretty(c(0, top), 6)[-1]
  of_map <- function(name) {
    z <- matrix(pmax(bands[[name]], 0), length(axes[[1]]))
    lines <- contour_frame(axes[[1]], axes[[2]], z, levels)
    layers <- list(
      new_layer("raster", x = axes[[1]], y = axes[[2]], z = z, top = top, colours = band_map_colours(col)),
      if (!is.null(lines)) new_layer("line", lines, "grey40", width = 1)
    )
    map_panel(layers, band$labels, image_sides(axes[[1]]), image_sides(axes[[2]]), main = BAND_MAPS[[name]])
  }
  panels <- stats::setNames(lapply(names(BAND_MAPS), of_map), BAND_MAPS)
  main <- paste("Density of", paste(band$labels, collapse = " and "))
  new_figure(panels, main = main, sub = band_title(band), rows = 1)
}
