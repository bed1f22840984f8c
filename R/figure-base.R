# Draws the specification of a figure (figure-spec.R) with base graphics.

# `add`: whether to add to the present plot. `...`: titles, labels, limits and graphical parameters of the user. Returns
# invisibly what the figure has as the value of plot().
draw_figure <- function(figure, ..., add = FALSE) {
  if (!is.null(figure$pairs)) {
    draw_pairs(figure, ...)
    return(invisible(figure$shown))
  }
  several <- length(figure$panels) > 1
  own_layout <- several && !has_layout()
  outer <- own_layout && !is.null(figure$main)
  if (own_layout) {
    before <- set_panels(figure, outer)
    on.exit(graphics::par(before))
  } else if (several && !is.null(figure$outer_key)) figure$panels[[1]]$key <- "corner"
  for (panel in figure$panels) {
    if (!outer && !is.null(figure$main) && !(several && !is.null(panel$main))) panel[c("main", "sub")] <- figure[c("main", "sub")]
    draw_panel(panel, figure, add, outer, ...)
  }
  if (outer) draw_outer_titles(figure, ...)
  invisible(figure$shown)
}

# Sets the layout. Returns the previous graphical parameters.
set_panels <- function(figure, outer) {
  count <- length(figure$panels)
  before <- graphics::par(c("mfrow", "mar", "oma", "mgp"))
  graphics::par(mfrow = if (is.null(figure$rows)) panel_grid(count) else c(figure$rows, count))
  titled <- !is.null(figure$panels[[1]]$main)
  # margins are in lines of the panels' text, which is smaller if there are many panels
  above <- if (outer) (2.7 + 1.2 * !is.null(figure$outer_key)) / graphics::par("cex") else 0
  top <- if (!titled) 0.8 else if (outer) 2.2 else 3.2
  graphics::par(mar = c(3.6, 3.8, top, 1), oma = c(0, 0, above, 0), mgp = c(2.3, 0.7, 0))
  lines <- vapply(figure$panels, \(panel) count_lines(in_two_lines(or_empty(panel$sub), 0.95)), 1)
  if (any(lines > 1)) graphics::par(mar = graphics::par("mar") + c(0, 0, 0.9, 0))
  before
}

# Rows and columns for n panels, with panels wider than high if the device is.
panel_grid <- function(n) {
  size <- grDevices::dev.size()
  cost <- function(rows) {
    columns <- ceiling(n / rows)
    abs(log((size[1] / columns) / (size[2] / rows) / 1.25)) + 0.15 * (rows * columns - n)
  }
  rows <- which.min(vapply(seq_len(n), cost, 0))
  c(rows, ceiling(n / rows))
}

draw_outer_titles <- function(figure, main = figure$main, sub = figure$sub, ...) {
  line <- (c(1.3, 0.2) + 1.2 * !is.null(figure$outer_key)) / graphics::par("cex")
  write <- \(text, line, cex, ...) graphics::mtext(
    text, side = 3, outer = TRUE, line = line, cex = cex * min(1, fit_width(text, cex / graphics::par("cex")) *
      graphics::par("din")[1] / graphics::par("fin")[1]), ...
  )
  write(main, line[1], 1.1, font = 2)
  write(sub, line[2], 0.9, col = "grey30")
  if (!is.null(figure$outer_key)) draw_outer_key(names(figure$outer_key), figure$outer_key)
}

# ---- one panel ----------------------------------------------------------------------------------

# Arguments of the user take precedence over the figure's. draw_outer_titles() draws titles of the whole figure.
draw_panel <- function(panel, figure, add, outer, main = NULL, sub = NULL, xlab = NULL, ylab = NULL, xlim = NULL,
                       ylim = NULL, lwd = NULL, lty = NULL, pch = NULL, cex = NULL, ...) {
  if (!is.null(xlim)) panel$x$limits <- xlim
  if (!is.null(ylim)) panel$y$limits <- ylim
  if (!is.null(xlab)) panel$x$label <- xlab
  if (!is.null(ylab)) panel$y$label <- ylab
  if (!outer && !is.null(main)) panel$main <- main
  # the line below the title has the colour of the curve that it describes
  col.sub <- if (!is.null(figure$sub_colour) && is.null(sub)) figure$sub_colour else "grey30"
  if (!outer && !is.null(sub)) panel$sub <- sub
  if (!is.null(panel$y$levels)) {
    before <- graphics::par("mai")
    on.exit(graphics::par(mai = before))
    graphics::par(mai = replace(before, 2, side_room(panel$y$levels, ...)))
  }
  view <- if (!add) open_panel(panel, ..., col.sub = col.sub)
  look <- list(lwd = lwd, lty = lty, pch = pch, cex = cex, view = view)
  draw_within(view, draw_layers(panel, figure$colours, look, c("labels", "rug"), FALSE))
  draw_layers(panel, figure$colours, look, c("labels", "rug"), TRUE)
  # last: a layer may cover it
  if (!add) close_panel(view, ...)
  if (!is.null(panel$key)) draw_panel_key(panel, figure$colours, view)
}

# Draws the layers whose role is among `roles`, or, if `among` is FALSE, all others.
draw_layers <- function(panel, colours, look, roles, among) {
  for (layer in panel$layers) if ((layer$role %in% roles) == among) BASE_ROLES[[layer$role]](layer, colours, look)
}

# Opens a plot with axes and titles, without its frame. Returns the limits list(x, y) of a map if its aspect makes the
# limits of the plot wider; otherwise NULL.
open_panel <- function(panel, axes = TRUE, frame.plot = axes, asp = NULL, log = panel_log(panel),
                       xaxs = axis_style(panel$x, "xaxs"), yaxs = axis_style(panel$y, "yaxs"),
                       xaxt = graphics::par("xaxt"), yaxt = graphics::par("yaxt"), ...) {
  xlim <- axis_limits(panel$x$limits)
  ylim <- axis_limits(panel$y$limits)
  aspect <- if (is.null(asp)) panel$aspect
  graphics::plot.default(
    xlim, ylim, type = "n", xlim = xlim, ylim = ylim, log = log, asp = c(asp, aspect, NA)[1], xaxs = xaxs, yaxs = yaxs,
    main = "", sub = "", xlab = "", ylab = "", axes = FALSE, ...
  )
  view <- if (!is.null(aspect)) list(x = xlim, y = ylim)
  gaps <- frame_gaps(view)
  draw_axis_titles(panel$x$label, panel$y$label, ..., gaps = gaps)
  if (axes) {
    type_of <- \(axis, type) if (is.null(axis$levels)) type else "n"
    draw_axes(log = log, ..., xaxt = type_of(panel$x, xaxt), yaxt = type_of(panel$y, yaxt), view = view,
      marks = list(panel$x$ticks, panel$y$ticks))
    if (!is.null(panel$x$levels) && xaxt != "n") draw_levels(panel$x$levels, ...)
    if (!is.null(panel$y$levels) && yaxt != "n") draw_side_levels(panel$y$levels, ...)
  }
  draw_titles(or_empty(panel$main), or_empty(panel$sub), ..., gaps = gaps)
  view
}

close_panel <- function(view, axes = TRUE, frame.plot = axes, ...) if (frame.plot) draw_frame(..., view = view)

or_empty <- function(text) if (is.null(text)) "" else text

panel_log <- function(panel) paste(c("x", "y")[c(panel$x$log, panel$y$log)], collapse = "")

axis_style <- function(axis, name) if (axis$exact) "i" else graphics::par(name)

# A key in a corner without data, or in the upper right if it has the labels of lines.
draw_panel_key <- function(panel, colours, view) {
  if (!identical(panel$key, "corner")) return(draw_curve_key(panel$key, colours[names(panel$key)]))
  if (!is.null(panel$groups)) colours <- colours[panel$groups]
  if (length(colours) < 2) return(invisible())
  places <- lapply(panel$layers, \(layer) if (!is.null(layer$data$y)) cbind(layer$data$x, layer$data$y))
  draw_region_key(names(colours), colours, do.call(rbind, places), view)
}

# ---- layers -------------------------------------------------------------------------------------

# A data frame for each group, or for each line (`piece`) of each group.
split_layer <- function(data, pieces = TRUE) {
  key <- paste(as.integer(data$group), if (pieces) data$piece)
  if (length(key) != nrow(data)) return(list(data))
  split(data, factor(key, unique(key)))
}

layer_colour <- function(part, layer, colours) {
  if (is.null(layer$colour)) group_ink(part$group[1], colours) else layer$colour
}

# The colour of each group. A name may be empty.
group_ink <- function(group, colours) unname(colours[match(as.character(group), names(colours))])

draw_line_layer <- function(layer, colours, look) {
  for (part in split_layer(layer$data)) {
    group <- if (is.null(part$group)) 1L else as.integer(part$group[1])
    types <- first_given(look$lty, layer$type, 1)
    graphics::lines(
      part$x, part$y, type = if (isTRUE(layer$dots)) "o" else "l", pch = 16, cex = 0.7,
      col = layer_colour(part, layer, colours), lwd = first_given(look$lwd, layer$width, 2),
      lty = types[(group - 1) %% length(types) + 1]
    )
  }
}

draw_band_layer <- function(layer, colours, look) {
  for (part in split_layer(layer$data)) {
    if (anyNA(part$low)) next
    colour <- grDevices::adjustcolor(layer_colour(part, layer, colours), layer$opacity)
    border <- if (is.null(layer$border)) NA else layer$border
    graphics::polygon(c(part$x, rev(part$x)), c(part$low, rev(part$high)), col = colour, border = border)
  }
}

draw_ranges_layer <- function(layer, colours, look) {
  colour <- grDevices::adjustcolor(group_ink(layer$data$group, colours), 0.5)
  graphics::segments(layer$data$x, layer$data$low, layer$data$x, layer$data$high, col = colour, lwd = layer$width)
}

# Draws points. Without a given opacity, point_ink() computes it.
draw_points_layer <- function(layer, colours, look) {
  data <- layer$data
  if (nrow(data) == 0) return(invisible())
  cex <- first_given(look$cex, layer$size) * (if (is.null(data$size)) 1 else data$size)
  ink <- list(drawn = seq_len(nrow(data)), opacity = layer$opacity)
  if (is.null(layer$opacity)) {
    # cells of the width of a dot
    side <- DOT_INCHES * stats::median(cex) * graphics::par("cex")
    ink <- point_ink(
      graphics::grconvertX(data$x, "user", "inches") / side, graphics::grconvertY(data$y, "user", "inches") / side
    )
  }
  colour <- if (is.null(layer$colour)) group_ink(data$group, colours) else rep(layer$colour, nrow(data))
  solid <- grDevices::rgb(t(grDevices::col2rgb(colour)), maxColorValue = 255)[ink$drawn]
  shape <- first_given(look$pch, layer$shape, 16)
  outlined <- isTRUE(shape == 21)
  graphics::points(
    data$x[ink$drawn], data$y[ink$drawn], pch = shape, cex = rep_len(cex, nrow(data))[ink$drawn], bg = solid,
    col = if (outlined) "white" else paste0(solid, sprintf("%02X", as.integer(round(255 * ink$opacity)))),
    lwd = first_given(layer$width, if (outlined) 0.6, 1)
  )
}

# The diameter in inches of a dot (pch 16) with cex 1.
DOT_INCHES <- 0.075

draw_rug_layer <- function(layer, colours, look) {
  for (part in split_layer(layer$data)) {
    colour <- if (is.null(part$group)) "black" else layer_colour(part, layer, colours)
    graphics::rug(
      part$x, ticksize = first_given(layer$size, 0.025), lwd = 0.8, quiet = TRUE,
      col = grDevices::adjustcolor(colour, rug_opacity(nrow(part)))
    )
  }
}

draw_bars_layer <- function(layer, colours, look) {
  top <- stats::ave(layer$data$y, layer$data$x, FUN = cumsum)
  colour <- if (is.null(layer$colour)) group_ink(layer$data$group, colours) else layer$colour
  graphics::rect(layer$data$x - 0.4, top - layer$data$y, layer$data$x + 0.4, top, col = colour, border = NA)
}

# Draws one path per region. Cells of filled.contour() leave hairlines in PDF and antialiased bitmaps.
draw_regions_layer <- function(layer, colours, look) {
  for (part in split_layer(layer$data, pieces = FALSE)) {
    last <- !duplicated(part$piece, fromLast = TRUE)
    join <- \(values) utils::head(unlist(Map(\(value, last) c(value, if (last) NA), values, last)), -1)
    colour <- grDevices::adjustcolor(layer_colour(part, layer, colours), first_given(layer$opacity, 1))
    graphics::polypath(join(part$x), join(part$y), rule = "evenodd", col = colour, border = NA)
  }
}

draw_raster_layer <- function(layer, colours, look) {
  image <- layer$image
  if (is.null(image)) {
    shade <- 1 + round((length(layer$colours) - 1) * pmin(pmax(layer$z / layer$top, 0), 1))
    image <- matrix(layer$colours[shade], length(layer$x))
  }
  x <- image_sides(layer$x)
  y <- image_sides(layer$y)
  graphics::rasterImage(t(image)[rev(seq_along(layer$y)), ], x[1], y[1], x[2], y[2], interpolate = isTRUE(layer$smooth))
}

draw_rule_layer <- function(layer, colours, look) {
  if (isTRUE(layer$diagonal)) return(graphics::abline(0, 1, col = "grey60"))
  graphics::abline(h = layer$h, col = layer$colour, lwd = 0.8)
}

BASE_ROLES <- list(
  line = draw_line_layer, band = draw_band_layer, ranges = draw_ranges_layer, points = draw_points_layer,
  rug = draw_rug_layer, bars = draw_bars_layer, regions = draw_regions_layer, raster = draw_raster_layer,
  rule = draw_rule_layer, labels = \(layer, colours, look) layer$draw(look$view)
)
