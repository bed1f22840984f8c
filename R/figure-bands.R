# Figures of bands: a line in its band, or with two variables three maps.

#' Plot confidence bands of a density
#'
#' One variable: the estimate as a line, the band shaded. Two variables, on a grid: the lower limit, the estimate
#' and the upper limit side by side, on one scale.
#'
#' @param x,object Bands, from [density_bands()].
#' @param add Add to the present plot (one variable)?
#' @param col One variable: colour of the line; the band is a light tint of it. Two: colours from low to high.
#' @param border Colour of the limits; `NA`: none (one variable).
#' @param main,xlab,ylab,ylim,... As in [graphics::plot.default()]. For `autoplot()` nothing may be in `...`.
#' @returns `plot()`: `x`, invisibly. `autoplot()`: a ggplot object.
#' @inheritSection flash_kde Errors
#' @examples
#' fit <- flash_kde(faithful$eruptions)
#' plot(density_bands(fit, level = 0.9))
#' plot(density_bands(flash_kde(faithful)))
#' @export
plot.density_bands <- function(x, add = FALSE, col = NULL, border = NA, main = NULL, xlab = NULL, ylab = "Density",
                               ylim = NULL, ...) {
  add <- check_flag(add, "add")
  check_colours(col, "col")
  if (drawn_variables(x) == 2) {
    if (add) stop_argument("add", "must be FALSE for two variables: found TRUE")
    return(invisible(draw_band_maps(x, band_map_colours(col), main, ...)))
  }
  band <- attr(x, "band")
  by_place <- order(x[[1]])
  at <- x[by_place[!is.na(x$se[by_place])], ]
  col <- if (is.null(col)) LINE_COLOUR else col[1]
  if (!add) {
    graphics::plot.default(
      range(at[[1]]), range(0, at$upper), type = "n",
      xlab = if (is.null(xlab)) band$labels else xlab, ylab = ylab,
      ylim = if (is.null(ylim)) range(0, at$upper) else ylim, ...
    )
    draw_titles(if (is.null(main)) paste("Density of", band$labels) else main, band_title(band), col.sub = col)
    graphics::abline(h = 0, col = "grey75", lwd = 0.8)
  }
  shade_band(list(x = at[[1]], lower = at$lower, upper = at$upper), col, border)
  graphics::lines(at[[1]], at$estimate, col = col, lwd = 2)
  invisible(x)
}

#' @rdname plot.density_bands
#' @exportS3Method ggplot2::autoplot
autoplot.density_bands <- function(object, col = NULL, ...) {
  check_dots_empty(...)
  check_colours(col, "col")
  band <- attr(object, "band")
  titles <- ggplot2::labs(subtitle = band_title(band))
  if (drawn_variables(object) == 2) {
    return(
      ggplot2::ggplot(band_map_frame(object), ggplot2::aes(x = .data$x, y = .data$y, fill = .data$density)) +
        ggplot2::geom_raster() + ggplot2::facet_wrap(ggplot2::vars(.data$map)) +
        ggplot2::scale_fill_gradientn("Density", colours = band_map_colours(col)) +
        ggplot2::coord_cartesian(expand = FALSE) +
        ggplot2::labs(x = band$labels[1], y = band$labels[2]) + titles
    )
  }
  colour <- if (is.null(col)) LINE_COLOUR else col[1]
  data <- data.frame(x = object[[1]], estimate = object$estimate, lower = object$lower, upper = object$upper)
  ggplot2::ggplot(data[!is.na(object$se), ], ggplot2::aes(x = .data$x)) +
    ggplot2::geom_hline(yintercept = 0, colour = "grey75", linewidth = 0.3) +
    ggplot2::geom_ribbon(
      ggplot2::aes(ymin = .data$lower, ymax = .data$upper), fill = colour, alpha = BAND_OPACITY
    ) +
    ggplot2::geom_line(ggplot2::aes(y = .data$estimate), colour = colour, linewidth = 0.8) +
    ggplot2::labs(x = band$labels, y = "Density") + titles
}

BAND_OPACITY <- 0.25

# `band`: a list of x, increasing, lower and upper.
shade_band <- function(band, col, border = NA) {
  graphics::polygon(
    c(band$x, rev(band$x)), c(band$lower, rev(band$upper)), col = grDevices::adjustcolor(col, BAND_OPACITY),
    border = border
  )
}

# What can be drawn: one variable anywhere, two on a grid.
drawn_variables <- function(bands) {
  band <- attr(bands, "band")
  d <- length(band$variables)
  whole <- !is.null(band) && all(c(band$variables, "lower", "upper", "se") %in% names(bands))
  if (!whole || d > 2 || d == 2 && !(band$grid && is_whole_grid(bands))) {
    stop_argument("x", "must be bands of one variable, or of two on the grid of density_bands()")
  }
  d
}

# ---- two variables ----------------------------------------------------------------------------

BAND_MAPS <- c(lower = "Lower limit", estimate = "Estimate", upper = "Upper limit")

band_map_colours <- function(col) {
  if (length(col) > 1) return(col)
  grDevices::colorRampPalette(c("white", if (is.null(col)) LINE_COLOUR else col, "black"))(64)
}

draw_band_maps <- function(bands, colours, main, ...) {
  band <- attr(bands, "band")
  axes <- band_axes(bands)
  before <- graphics::par(mfrow = c(1, 3), oma = c(0, 0, 2.5, 0), mar = c(4, 4, 2, 0.5))
  on.exit(graphics::par(before))
  for (name in names(BAND_MAPS)) {
    z <- matrix(pmax(bands[[name]], 0), length(axes[[1]]))
    graphics::image(
      axes[[1]], axes[[2]], z, zlim = c(0, max(bands$upper)), col = colours, xlab = band$labels[1],
      ylab = band$labels[2], main = BAND_MAPS[[name]], ...
    )
    levels <- pretty(c(0, max(bands$upper)), 6)[-1]
    graphics::contour(axes[[1]], axes[[2]], z, add = TRUE, col = "grey40", levels = levels)
  }
  title <- if (is.null(main)) band_title(band) else main
  graphics::mtext(title, outer = TRUE, line = 0.7, font = 2, cex = min(1, 3 * fit_width(title, 1, 2)))
  bands
}

band_map_frame <- function(bands) {
  of <- function(name) {
    data.frame(x = bands[[1]], y = bands[[2]], density = pmax(bands[[name]], 0), map = BAND_MAPS[[name]])
  }
  frame <- do.call(rbind, lapply(names(BAND_MAPS), of))
  frame$map <- factor(frame$map, BAND_MAPS)
  frame
}

# ---- plot(fit, band = TRUE) -------------------------------------------------------------------

# The type of a band, or NULL for none.
check_band <- function(band, d) {
  type <- if (is.character(band)) check_choice(band, c("pointwise", "simultaneous"), "band") else {
    if (check_flag(band, "band")) "pointwise"
  }
  if (!is.null(type) && d > 1) {
    stop_argument("band", "must be FALSE for more than one variable: density_bands() has bands of two")
  }
  type
}

# list(x, lower, upper) for the nodes of a figure; NULL without a type. Nothing is random: simultaneous ones have a
# fixed seed.
figure_band <- function(fit, type, nodes) {
  if (is.null(type)) return(NULL)
  at <- nodes[unique(round(seq(1, length(nodes), length.out = min(length(nodes), 256))))]
  bands <- with_fixed_seed(density_bands(fit, at, type = type))
  list(x = at, lower = bands$lower, upper = bands$upper)
}
