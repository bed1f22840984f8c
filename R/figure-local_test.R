# Figures of local tests: where one of two samples is denser.

#' @rdname plot.flash_kde
#' @export
plot.kde_local_test <- function(x, level = 0.05, col = c(LINE_COLOUR, "#D55E00"), ...) {
  check_graphical(..., d = 2)
  draw_figure(local_test_figure(x, check_level(level), col), ...)
}

local_test_figure <- function(x, level, col) {
  check_colours(col, "col")
  if (length(col) != 2) stop_argument("col", "must be two colours: found ", length(col))
  test <- attr(x, "test")
  if (!can_be_drawn(x, test, c("density_x", "density_y", "p.adjusted"))) {
    stop_argument("x", "must be a test of one variable, or of two on a grid: call kde_test() without `newdata`")
  }
  d <- length(test$variables)
  panel <- (if (d == 1) local_lines else local_map)(x, level, col)
  panel$key <- stats::setNames(test$samples, c("x", "y"))
  marked <- paste0(if (d == 1) "bands" else "regions", ": denser at level ", format(level), ", ", test$adjust)
  new_figure(
    list(panel), main = "Where two samples differ", sub = marked, colours = stats::setNames(col, c("x", "y")), shown = x
  )
}

local_lines <- function(x, level, col) {
  name <- names(x)[1]
  x <- x[order(x[[1]], na.last = NA), ]
  at <- x[[1]]
  top <- max(x$density_x, x$density_y)
  # a band ends half way to the neighbouring points
  between <- (at[-1] + at[-length(at)]) / 2
  ends <- rbind(c(at[1], between), c(between, at[length(at)]))
  denser <- which_is_denser(x, level)
  bands <- lapply(c(x = 1, y = -1), \(side) {
    here <- which(denser == side)
    if (length(here) > 0) {
      data.frame(x = as.vector(ends[, here]), low = -0.06 * top, high = -0.02 * top, piece = rep(here, each = 2))
    }
  })
  lines <- matrix_frame(at, cbind(x = x$density_x, y = x$density_y))
  layers <- list(
    if (any(denser != 0)) new_layer("band", bind_groups(bands, c("x", "y")), opacity = 1), new_layer("line", lines)
  )
  curve_panel(layers, name, range(at), c(-0.06, 1.25) * top)
}

local_map <- function(x, level, col) {
  axes <- band_axes(x)
  as_map <- \(z) matrix(z, length(axes[[1]]))
  tint <- grDevices::adjustcolor(col, BAND_OPACITY * 2)
  levels <- pretty(c(0, max(x$density_x, x$density_y)), 6)[-1]
  lines <- bind_groups(lapply(list(x = x$density_x, y = x$density_y), \(z) {
    contour_frame(axes[[1]], axes[[2]], as_map(z), levels)
  }))
  image <- as_map(c(tint[2], NA, tint[1])[which_is_denser(x, level) + 2])
  layers <- list(new_layer("raster", x = axes[[1]], y = axes[[2]], image = image), new_layer("line", lines, width = 1))
  map_panel(layers, names(x), image_sides(axes[[1]]), image_sides(axes[[2]]))
}
