# Highest-density regions of two variables.

# `shown`: a list of add, fill, points and labels, as plot() takes them; `look`: see plot_1d().
plot_2d <- function(fit, prob, n_grid, shown, look, ...) {
  fill <- shown$fill
  if (shown$add) {
    usr <- graphics::par("usr")
    if (is.null(look$xlim)) look$xlim <- usr[1:2]
    if (is.null(look$ylim)) look$ylim <- usr[3:4]
  }
  grid <- grid_2d(figure_marginal(fit, to_tol = TRUE), n_grid, prob, look$xlim, look$ylim)
  rows <- thinned_rows(fit, shown$points)
  dots <- list(...)
  view <- if (!shown$add) open_2d(fit, grid, rows, look, fill && shows_negative(grid$z), ...)
  colours <- region_colours(length(prob), if (fill) look$col)
  line_colour <- if (!fill && !is.null(look$col)) look$col else contour_colour(colours)
  draw_within(view, {
    if (fill) draw_regions(grid, colours)
    if (length(rows) > 0) draw_points(fit, c(1, 2), rows, pch = dots[["pch"]], cex = dots[["cex"]])
    contours <- draw_contours(grid, line_colour, look$lwd, look$lty)
  })
  if (shown$labels) {
    placed <- draw_contour_labels(contours, names(grid$levels), line_colour, all_or_none = fill)
    if (!placed && fill) {
      contour <- unlist(contours, recursive = FALSE, use.names = FALSE)
      outlines <- cbind(unlist(lapply(contour, `[[`, "x")), unlist(lapply(contour, `[[`, "y")))
      draw_region_key(rev(names(grid$levels)), colours, rbind(outlines, fit$x[rows, ]), view)
    }
  }
  # last: the regions may cover it
  if (!shown$add && !isFALSE(dots$axes) && !isFALSE(dots$frame.plot)) do.call(draw_frame, c(dots, list(view = view)))
  invisible(grid)
}

# An empty plot with axes and titles, without its frame. Returns its limits, list(x, y), where they are not those of the
# plot: of a map.
open_2d <- function(fit, grid, rows, look, negative, ...) {
  dots <- list(...)
  names <- variable_names(fit)
  limits <- grid_view(grid, fit$x[rows, , drop = FALSE])
  if (!is.null(look$xlim)) limits$x <- look$xlim
  if (!is.null(look$ylim)) limits$y <- look$ylim
  aspect <- if (is.null(dots$asp)) map_aspect(fit)
  dots$asp <- if (is.null(aspect)) dots$asp else aspect
  frame <- list(
    limits$x, limits$y,
    type = "n", xlim = limits$x, ylim = limits$y, xaxs = "i", yaxs = "i", main = "", sub = "", xlab = "", ylab = "",
    frame.plot = FALSE, axes = FALSE
  )
  do.call(graphics::plot.default, c(frame, dots[setdiff(names(dots), names(frame))]))
  view <- if (!is.null(aspect)) limits
  gaps <- frame_gaps(view)
  draw_axis_titles(
    if (is.null(look$xlab)) names[1] else look$xlab, if (is.null(look$ylab)) names[2] else look$ylab, ...,
    gaps = gaps
  )
  if (!isFALSE(dots$axes)) draw_axes(..., view = view)
  draw_titles(
    if (is.null(look$main)) paste("Density of", names[1], "and", names[2]) else look$main,
    if (is.null(look$sub)) fit_subtitle(fit, negative = negative) else look$sub, ..., gaps = gaps
  )
  view
}

# What is worth showing: the outermost region and the data drawn, with a margin. The grid reaches
# further, so that no contour is cut.
grid_view <- function(grid, data) {
  z <- grid$z
  inside <- z >= min(grid$levels)
  if (shows_negative(z)) inside <- inside | z <= negative_level(z)
  limits <- function(nodes, shown, data) {
    # nothing is shown when xlim and ylim leave all regions out
    range <- range(if (any(shown)) nodes[shown] else nodes, data)
    range + c(-0.04, 0.04) * diff(range)
  }
  list(
    x = limits(grid$x, rowSums(inside) > 0, data[, 1]),
    y = limits(grid$y, colSums(inside) > 0, data[, 2])
  )
}

# The level below which a region counts as negative.
negative_level <- function(z) {
  -0.01 * max(z)
}

# Colours of n regions, outermost first. A sequential palette of one hue: lightness alone carries
# the order, so it survives grey printing and colour blindness.
region_colours <- function(n, col = NULL) {
  if (length(col) > 1) {
    return(rep_len(col, n))
  }
  if (is.null(col)) {
    return(grDevices::hcl.colors(n + 3, "Blues 3", rev = TRUE)[seq_len(n) + 1])
  }
  grDevices::colorRampPalette(c("white", col))(n + 2)[seq_len(n) + 1]
}

contour_colour <- function(colours) {
  darker <- grDevices::col2rgb(colours[length(colours)])[, 1] * 0.55 / 255
  grDevices::rgb(darker[1], darker[2], darker[3])
}

# Nested regions, painted from the outside in. One path per region leaves none of the hairlines
# that the cells of filled.contour() show in PDF and antialiased bitmaps.
draw_regions <- function(grid, colours) {
  levels <- sort(grid$levels)
  for (i in seq_along(levels)) draw_upper_set(grid, levels[i], colours[i])
  if (shows_negative(grid$z)) {
    level <- negative_level(grid$z)
    grid$z <- -grid$z
    draw_upper_set(grid, -level, grDevices::adjustcolor(NEGATIVE_COLOUR, 0.4))
  }
}

# Fills the set where z >= level.
draw_upper_set <- function(grid, level, colour) {
  lines <- upper_set(grid, level)
  if (length(lines) == 0) {
    return(invisible())
  }
  join <- function(axis) utils::head(unlist(lapply(lines, \(line) c(line[[axis]], NA))), -1)
  graphics::polypath(join("x"), join("y"), rule = "evenodd", col = colour, border = NA)
}

draw_points <- function(fit, dims, rows, pch = NULL, cex = NULL, col = "black") {
  at <- fit$x[rows, dims, drop = FALSE]
  cex <- (if (is.null(cex)) 0.7 * crowd_size(length(rows)) else cex) * weight_size(fit, rows)
  # cells as wide as a dot
  side <- DOT_INCHES * stats::median(cex) * graphics::par("cex")
  ink <- point_ink(
    graphics::grconvertX(at[, 1], "user", "inches") / side,
    graphics::grconvertY(at[, 2], "user", "inches") / side
  )
  graphics::points(
    at[ink$drawn, , drop = FALSE],
    pch = if (is.null(pch)) 16 else pch, cex = rep_len(cex, length(rows))[ink$drawn],
    col = paste0(grDevices::rgb(t(grDevices::col2rgb(col)), maxColorValue = 255), opacity_code(ink$opacity))
  )
}

# As the last two digits of "#RRGGBBAA".
opacity_code <- function(opacity) sprintf("%02X", as.integer(round(255 * opacity)))

# The diameter of a dot (pch 16) of cex 1.
DOT_INCHES <- 0.075

# Many points are drawn the smaller: 1 up to 300, a half from 1,200 on.
crowd_size <- function(n) {
  min(1, max(0.5, sqrt(300 / max(n, 1))))
}

# At most this many dots lie on each other: more would only blacken what is below them.
MAX_STACK <- 4

# Which dots to draw and how opaque, such that the regions stay visible below the most crowded of
# them. `x`, `y`: positions on paper, in widths of a dot. A lone dot has an opacity of 0.6, a stack of
# MAX_STACK and more 0.3 in all.
point_ink <- function(x, y) {
  cell <- cell_group(floor(cbind(x, y)))
  rank <- stats::ave(cell, cell, FUN = seq_along)
  drawn <- which(rank <= MAX_STACK)
  stack <- stats::ave(cell[drawn], cell[drawn], FUN = length)
  total <- 0.6 - 0.1 * (stack - 1)
  list(drawn = drawn, opacity = 1 - (1 - total)^(1 / stack))
}

# Draws the contours; returns, for each level of the grid, the list of its lines.
draw_contours <- function(grid, colour, lwd = NULL, lty = 1) {
  contours <- lapply(grid$levels, function(level) {
    grDevices::contourLines(grid$x, grid$y, grid$z, levels = level)
  })
  for (line in unlist(contours, recursive = FALSE, use.names = FALSE)) {
    graphics::lines(line$x, line$y, col = colour, lwd = if (is.null(lwd)) 1 else lwd, lty = lty)
  }
  contours
}
