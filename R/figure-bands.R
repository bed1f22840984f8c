# Figures of bands: a line in its band, or with two variables three maps.

#' Plot confidence bands of a density
#'
#' One variable: the estimate as a line, the band shaded. Two variables, on a grid: the lower limit, the estimate
#' and the upper limit side by side, on one scale.
#'
#' @param x,object Bands, from [kde_bands()].
#' @param add Add to the present plot (one variable)?
#' @param col One variable: colour of the line; the band is a light tint of it. Two: colours from low to high.
#' @param border Colour of the limits; `NA`: none (one variable).
#' @param ... For `plot()`: graphical parameters, as `main`, `xlab`, `ylab`, `ylim` and `las`. For `autoplot()`: not used.
#' @returns `plot()`: `x`, invisibly. `autoplot()`: a ggplot object.
#' @examples
#' fit <- flash_kde(faithful$eruptions)
#' plot(kde_bands(fit, level = 0.9))
#' plot(kde_bands(flash_kde(faithful)))
#' @export
plot.kde_bands <- function(x, add = FALSE, col = NULL, border = NA, ...) {
  check_graphical(..., d = 2)
  add <- check_flag(add, "add")
  if (add && drawn_variables(x) == 2) stop_argument("add", "must be FALSE for two variables: found TRUE")
  draw_figure(band_figure(x, col, border), ..., add = add)
}

#' @rdname plot.kde_bands
#' @exportS3Method ggplot2::autoplot
autoplot.kde_bands <- function(object, col = NULL, ...) {
  check_dots_empty(...)
  ggplot_figure(band_figure(object, col), list(title = ""))
}

band_figure <- function(bands, col, border = NA) {
  check_colours(col, "col")
  if (drawn_variables(bands) == 2) return(band_maps(bands, col))
  band <- attr(bands, "band")
  by_place <- order(bands[[1]])
  at <- bands[by_place[!is.na(bands$se[by_place])], ]
  data <- data.frame(x = at[[1]], y = at$estimate, low = at$lower, high = at$upper)
  colour <- if (is.null(col)) LINE_COLOUR else col[1]
  layers <- list(
    new_layer("rule", h = 0, colour = "grey75"),
    new_layer("band", data, colour, opacity = BAND_OPACITY, border = border), new_layer("line", data, colour)
  )
  panel <- new_panel(layers, new_axis(band$labels, range(data$x)), new_axis("Density", range(0, data$high)))
  new_figure(
    list(panel), main = paste("Density of", band$labels), sub = band_title(band), sub_colour = colour, shown = bands
  )
}

# What can be drawn: one variable anywhere, two on a grid.
drawn_variables <- function(bands) {
  band <- attr(bands, "band")
  d <- length(band$variables)
  whole <- !is.null(band) && all(c(band$variables, "lower", "upper", "se") %in% names(bands))
  if (!whole || d > 2 || d == 2 && !(band$grid && is_whole_grid(bands))) {
    stop_argument("x", "must be bands of one variable, or of two on the grid of kde_bands()")
  }
  d
}

# ---- two variables ----------------------------------------------------------------------------

BAND_MAPS <- c(lower = "Lower limit", estimate = "Estimate", upper = "Upper limit")

band_map_colours <- function(col) {
  if (length(col) > 1) return(col)
  grDevices::colorRampPalette(c("white", if (is.null(col)) LINE_COLOUR else col, "black"))(64)
}

band_maps <- function(bands, col) {
  band <- attr(bands, "band")
  axes <- band_axes(bands)
  top <- max(bands$upper)
  levels <- pretty(c(0, top), 6)[-1]
  of_map <- function(name) {
    z <- matrix(pmax(bands[[name]], 0), length(axes[[1]]))
    lines <- outline_frame(grDevices::contourLines(axes[[1]], axes[[2]], z, levels = levels), "")
    new_panel(
      list(
        new_layer("raster", x = axes[[1]], y = axes[[2]], z = z, top = top, colours = band_map_colours(col)),
        if (!is.null(lines)) new_layer("line", lines, "grey40", width = 1)
      ),
      new_axis(band$labels[1], image_sides(axes[[1]]), exact = TRUE),
      new_axis(band$labels[2], image_sides(axes[[2]]), exact = TRUE), main = BAND_MAPS[[name]]
    )
  }
  panels <- stats::setNames(lapply(names(BAND_MAPS), of_map), BAND_MAPS)
  main <- paste("Density of", paste(band$labels, collapse = " and "))
  new_figure(panels, main = main, sub = band_title(band), rows = 1, shown = bands)
}
