# The specification of a figure, which draw_figure() draws with base graphics and ggplot_figure() with ggplot2.
#
# A figure is a list of panels. A panel is a list of layers over two axes. A layer has a role and a data frame; its
# column `group` has the colour, `piece` separates lines of one group. The roles, with the columns of their data:
#
#   line       x, y: lines along the rows
#   band       x, low, high: the area between two lines
#   ranges     x, low, high: a vertical segment for each row
#   points     x, y, and `size`, relative to the others
#   rug        x: ticks below
#   bars       x, a whole number, and y: bars, those of one x stacked
#   regions    x, y, piece: closed lines, filled by the even-odd rule
#   raster     no data frame: `x`, `y` and the matrix `z` of densities, or the matrix `image` of colours
#   rule       no data frame: a line at `h`, at `v`, or the `diagonal`
#   marginal   x, y: the density on the diagonal of a matrix of panels
#   labels     what names the lines in base graphics, a function without arguments

# `colour`: a constant colour instead of the colours of groups. `...`: width, type, opacity, shape, size, border.
new_layer <- function(role, data = NULL, colour = NULL, ...) {
  c(list(role = role, data = data, colour = colour), list(...))
}

# `limits`: NULL for those of the data; `exact`: whether the panel ends at the limits; `levels`: names of 1, 2, ...;
# `ticks`: places of the ticks, whose names, if there are any, are their labels.
new_axis <- function(label = NULL, limits = NULL, exact = FALSE, levels = NULL, log = FALSE, ticks = NULL) {
  list(label = label, limits = limits, exact = exact, levels = levels, log = log, ticks = ticks)
}

# `aspect`: see map_aspect(). `key`: NULL for none, "corner", or labels of lines instead of the names of groups. A panel
# may have an element `groups`, the names of those in its key, otherwise all.
new_panel <- function(layers, x, y, main = NULL, sub = NULL, aspect = NULL, key = NULL) {
  list(layers = Filter(Negate(is.null), layers), x = x, y = y, main = main, sub = sub, aspect = aspect, key = key)
}

# `panels`: a list, with names if there are several. `main`, `sub`: titles of the figure; NULL if panels have titles.
# `colours`: of the groups, by name. `key`: the title of the key. `shown`: the value of plot().
new_figure <- function(panels, main = NULL, sub = NULL, colours = NULL, key = NULL, shown = NULL, ...) {
  list(panels = panels, main = main, sub = sub, colours = colours, key = key, shown = shown, ...)
}

# A panel with densities of one variable above a line at 0.
curve_panel <- function(layers, name, x, y, label = "Density", ...) {
  zero <- new_layer("rule", h = 0, colour = "grey75")
  new_panel(c(list(zero), layers), new_axis(name, x), new_axis(label, y), ...)
}

# A panel of two variables whose axes end at its limits.
map_panel <- function(layers, names, x, y, ...) {
  new_panel(layers, new_axis(names[1], x, exact = TRUE), new_axis(names[2], y, exact = TRUE), ...)
}

# The data frame with two of its columns as x and y. A frame without groups gets one group without a name.
placed <- function(frame, x, y) {
  if (is.null(frame$group)) frame$group <- factor("all")
  cbind(data.frame(x = frame[[x]], y = frame[[y]]), frame)
}

# A layer of rows as points, smaller and lighter if there are many.
cloud_layer <- function(data, colour = NULL) {
  n <- max(nrow(data), 1)
  new_layer("points", data, colour, size = if (n > 500) 0.7 else 1, opacity = min(0.8, max(0.2, 250 / n)))
}

# A line with its band.
line_with_band <- function(data, ...) {
  list(if (!anyNA(data$low)) new_layer("band", data, opacity = 0.2), new_layer("line", data, ...))
}

# Binds a named list of data frames, with the name as factor `group`. NULL elements have no rows.
bind_groups <- function(frames, levels = names(frames)) {
  frames <- Filter(\(frame) NROW(frame) > 0, frames)
  grouped <- Map(\(frame, name) cbind(frame, group = factor(name, levels)), frames, names(frames))
  do.call(rbind, unname(grouped))
}

# A data frame of the columns of the matrix `y`, one group for each.
matrix_frame <- function(x, y, names = colnames(y)) {
  data.frame(x = rep(x, ncol(y)), y = as.vector(y), group = factor(rep(names, each = length(x)), names))
}

# A data frame of lines from contourLines().
outline_frame <- function(lines, name = "") {
  do.call(rbind, lapply(seq_along(lines), \(i) {
    data.frame(x = lines[[i]]$x, y = lines[[i]]$y, piece = paste(name, i))
  }))
}

# The contour lines of the matrix z at `levels`, as a data frame.
contour_frame <- function(x, y, z, levels) outline_frame(grDevices::contourLines(x, y, z, levels = levels))

# The names of the first `most` variables.
first_shown <- function(names, most) {
  if (length(names) <= most) return(names)
  message(sprintf("showing the first %d of %d variables; `max_dims` sets how many", most, length(names)))
  utils::head(names, most)
}

# ---- colours ----------------------------------------------------------------------------------

# Blue and orange stay apart in every form of colour blindness (Okabe and Ito).
LINE_COLOUR <- "#0072B2"
NEGATIVE_COLOUR <- "#E69F00"

# Trends and the best iteration.
SMOOTH_COLOUR <- "#D55E00"

# Orange stands out from the blues for all eyes.
QUANTILE_COLOUR <- "#B35900"

BAND_OPACITY <- 0.25

# Colours of Okabe and Ito for groups, responses and classes.
GROUP_COLOURS <- c("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7F7F7F")

# The colours of groups, by name: given ones, or GROUP_COLOURS while there are enough.
group_colours <- function(col, names) {
  n <- length(names)
  colours <- if (!is.null(col)) rep_len(col, n) else if (n <= 8) GROUP_COLOURS[seq_len(n)] else {
    grDevices::hcl.colors(n, "Dark 3")
  }
  stats::setNames(colours, names)
}

# Colours of n regions, the outermost first, from a sequential palette with one hue. Lightness gives the order, which
# survives grey printing and colour blindness.
region_colours <- function(n, col = NULL) {
  if (length(col) > 1) return(rep_len(col, n))
  if (is.null(col)) return(grDevices::hcl.colors(n + 3, "Blues 3", rev = TRUE)[seq_len(n) + 1])
  grDevices::colorRampPalette(c("white", col))(n + 2)[seq_len(n) + 1]
}

contour_colour <- function(colours) {
  darker <- grDevices::col2rgb(colours[length(colours)])[, 1] * 0.55 / 255
  grDevices::rgb(darker[1], darker[2], darker[3])
}

# n colours of hcl.colors(), the lightest first.
palette_colours <- function(palette, n, col) {
  if (!is.null(col)) stop_argument("palette", "must be NULL beside `col`: found ", describe(palette))
  known <- grDevices::hcl.pals()
  plain <- \(name) gsub("[^a-z0-9]", "", tolower(name))
  if (!is.character(palette) || length(palette) != 1 || !plain(palette) %in% plain(known)) {
    stop_argument("palette", "must be a name of grDevices::hcl.pals(), such as \"YlOrRd\": found ", describe(palette))
  }
  colours <- grDevices::hcl.colors(n + 1, palette)
  light <- \(colour) sum(grDevices::col2rgb(colour) * c(0.3, 0.59, 0.11))
  if (light(colours[1]) < light(colours[n + 1])) colours <- rev(colours)
  # the lightest colour can hardly be seen on paper
  colours[-1]
}

# ---- crowds of points -------------------------------------------------------------------------

# Opacity of the ticks of a rug: lower for many, so that their density shows.
rug_opacity <- function(n) min(0.6, max(0.15, 60 / n))

# Relative size of n points: 1 up to 300, 0.5 from 1,200 on.
crowd_size <- function(n) {
  min(1, max(0.5, sqrt(300 / max(n, 1))))
}

# Largest number of dots drawn on each other. More would only hide what is below.
MAX_STACK <- 4

# Which dots to draw, and their opacity, so that regions stay visible below the most crowded dots. `x`, `y`: positions
# on paper, in widths of a dot. A lone dot has opacity 0.6, a stack of MAX_STACK or more 0.3 in all.
point_ink <- function(x, y) {
  cell <- cell_group(floor(cbind(x, y)))
  rank <- stats::ave(cell, cell, FUN = seq_along)
  drawn <- which(rank <= MAX_STACK)
  stack <- stats::ave(cell[drawn], cell[drawn], FUN = length)
  total <- 0.6 - 0.1 * (stack - 1)
  list(drawn = drawn, opacity = 1 - (1 - total)^(1 / stack))
}

# Relative size of points: the area is proportional to the weight, within limits that stay visible.
weight_size <- function(fit, rows) {
  if (is.null(fit$weights)) return(rep(1, length(rows)))
  w <- fit$weights[used_rows(fit)]
  pmin(pmax(sqrt(fit$weights[rows] / mean(w)), 0.5), 3)
}

# The sides of an image whose pixels are centred at `along`.
image_sides <- function(along) range(along) + c(-0.5, 0.5) * diff(along[1:2])
