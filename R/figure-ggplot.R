# Draws the specification of a figure (figure-spec.R) with ggplot2.

# The pronoun `.data` of ggplot2's aes().
utils::globalVariables(".data")

# `labels`: a list of title, subtitle, x and y from the user; `""` removes one.
ggplot_figure <- function(figure, labels = list()) {
  panels <- figure$panels
  several <- length(panels) > 1
  figure$places <- if (several && is.null(figure$pairs)) facet_places(panels)
  layers <- lapply(seq_along(panels), \(i) {
    facet <- if (!is.null(figure$pairs)) panels[[i]]$facet else {
      if (several) list(panel = factor(names(panels)[i], names(panels)))
    }
    lapply(panels[[i]]$layers, \(layer) GGPLOT_ROLES[[layer$role]](layer_in_facet(layer, facet, figure, i), figure))
  })
  ggplot2::ggplot() + unlist(layers, FALSE) + figure_scales(figure) +
    (if (several) figure_facets(figure) else panel_frame(panels[[1]])) + figure_labels(figure, labels)
}

# The layer with the columns that name its facet. Categories are moved to positions of their own.
layer_in_facet <- function(layer, facet, figure, i) {
  layer$facet <- facet
  if (NROW(layer$data) == 0) return(layer)
  if (!is.null(figure$places)) layer$data$x <- layer$data$x + figure$places$shift[i]
  layer$data[names(facet)] <- facet
  layer
}

# ---- layers -------------------------------------------------------------------------------------

# A geom with a constant colour, or the colours of groups. `at`: names of further aesthetics and their columns.
geom_of <- function(geom, layer, at, aesthetic = "colour", ...) {
  grouped <- is.null(layer$colour) && !is.null(layer$data$group)
  mapped <- c(at, if (grouped) stats::setNames("group", aesthetic))
  pronouns <- lapply(mapped, \(column) call("$", quote(.data), as.name(column)))
  constant <- if (!is.null(layer$colour)) stats::setNames(list(layer$colour), aesthetic)
  do.call(geom, c(list(do.call(ggplot2::aes, pronouns), data = layer$data), constant, list(...)))
}

ggplot_line <- function(layer, figure) {
  data <- layer$data
  layer$data$line <- paste(as.integer(data$group), data$piece)[seq_len(nrow(data))]
  if (is.null(data$group) && is.null(data$piece)) layer$data$line <- 1L
  typed <- length(layer$type) > 1
  c(
    list(geom_of(
      ggplot2::geom_path, layer, c(x = "x", y = "y", group = "line", if (typed) c(linetype = "group")),
      linewidth = 0.4 * first_given(layer$width, 2)
    )),
    if (isTRUE(layer$dots)) list(geom_of(ggplot2::geom_point, layer, c(x = "x", y = "y")))
  )
}

ggplot_points <- function(layer, figure) {
  data <- layer$data
  if (nrow(data) == 0) return(NULL)
  if (is.null(data$size)) data$size <- 1
  data$size <- (if (is.null(layer$opacity)) 1.6 else 2.4) * layer$size * data$size
  data$opacity <- if (is.null(layer$opacity)) 1 else layer$opacity
  if (is.null(layer$opacity)) {
    # an axis is about as long as 120 dots, in smaller panels fewer
    dots <- 120 / max(1, figure$pairs)
    along <- \(values, limits) dots * values / abs(diff(range(limits, if (is.null(limits)) values)))
    limits <- layer$limits
    ink <- point_ink(along(data$x, limits$x), along(data$y, limits$y))
    data <- data[ink$drawn, ]
    data$opacity <- ink$opacity
  }
  layer$data <- data
  at <- c(x = "x", y = "y", size = "size", alpha = "opacity")
  if (isTRUE(layer$shape == 21)) {
    return(list(geom_of(ggplot2::geom_point, layer, at, "fill", shape = 21, colour = "white", stroke = 0.3)))
  }
  stroke <- if (isTRUE(layer$shape == 1)) 1 else 0
  list(geom_of(ggplot2::geom_point, layer, at, shape = first_given(layer$shape, 16), stroke = stroke))
}

ggplot_raster <- function(layer, figure) {
  if (!is.null(layer$image)) {
    x <- image_sides(layer$x)
    y <- image_sides(layer$y)
    image <- t(layer$image)[rev(seq_along(layer$y)), ]
    return(list(ggplot2::annotation_raster(image, x[1], x[2], y[1], y[2])))
  }
  data <- data.frame(
    x = rep(layer$x, length(layer$y)), y = rep(layer$y, each = length(layer$x)),
    density = as.vector(pmin(pmax(layer$z, 0), layer$top))
  )
  data[names(layer$facet)] <- layer$facet
  list(ggplot2::geom_raster(
    ggplot2::aes(x = .data$x, y = .data$y, fill = .data$density), data = data, interpolate = isTRUE(layer$smooth)
  ))
}

ggplot_regions <- function(layer, figure) {
  layer$data$path <- if (is.null(layer$data$group)) "all" else layer$data$group
  at <- c(x = "x", y = "y", group = "path", subgroup = "piece")
  list(geom_of(ggplot2::geom_polygon, layer, at, "fill", alpha = first_given(layer$opacity, 1)))
}

ggplot_rule <- function(layer, figure) {
  if (isTRUE(layer$diagonal)) return(list(ggplot2::geom_abline(colour = "grey60")))
  list(ggplot2::geom_hline(yintercept = layer$h, colour = layer$colour, linewidth = 0.3))
}

# The density of one variable, drawn to the height of a panel whose y axis is the variable itself.
ggplot_marginal <- function(layer, figure) {
  limits <- layer$limits
  bottom <- min(0, layer$data$y)
  height <- (layer$data$y - bottom) / (max(layer$data$y) - bottom)
  layer$data$y <- limits[1] + 0.95 * diff(limits) * height
  layer$data <- layer$data[layer$data$x >= limits[1] & layer$data$x <= limits[2], ]
  list(geom_of(ggplot2::geom_line, layer, c(x = "x", y = "y"), linewidth = 0.6))
}

GGPLOT_ROLES <- list(
  line = ggplot_line, points = ggplot_points, raster = ggplot_raster, regions = ggplot_regions, rule = ggplot_rule,
  marginal = ggplot_marginal, labels = \(layer, figure) NULL,
  band = \(layer, figure) list(geom_of(
    ggplot2::geom_ribbon, layer, c(x = "x", ymin = "low", ymax = "high"), "fill", alpha = layer$opacity
  )),
  ranges = \(layer, figure) list(geom_of(
    ggplot2::geom_linerange, layer, c(x = "x", ymin = "low", ymax = "high"), alpha = 0.5, linewidth = 0.8
  )),
  rug = \(layer, figure) if (nrow(layer$data) > 0) list(geom_of(
    ggplot2::geom_rug, layer, c(x = "x"), sides = "b", alpha = rug_opacity(nrow(layer$data)), show.legend = FALSE
  )),
  bars = \(layer, figure) list(geom_of(
    ggplot2::geom_col, layer, c(x = "x", y = "y"), "fill", width = 0.8,
    position = ggplot2::position_stack(reverse = TRUE)
  ))
)

# ---- scales and facets --------------------------------------------------------------------------

# Facets share the type of their axes, so categories and dates are put at places far from the values of the other
# variables, where the axis finds their names. list(shift, names): the shift for each panel, and the names by position.
facet_places <- function(panels) {
  known <- lapply(panels, \(panel) named_places(panel$x, MOST_LETTERS))
  if (all(lengths(known) == 0)) return(NULL)
  far <- 10 * max(1, unlist(lapply(panels, \(panel) abs(panel$x$limits))))
  shift <- unname(ifelse(lengths(known) == 0, 0, round(far * (1 + seq_along(panels)))))
  list(shift = shift, names = inverted(unlist(Map(`+`, unname(known), shift))))
}

# The places of an axis that have names: categories, or dates. Names of categories have at most `most` letters.
named_places <- function(axis, most) {
  if (is.null(axis$levels)) return(if (!is.null(names(axis$ticks))) axis$ticks)
  stats::setNames(seq_along(axis$levels), short_names(axis$levels, most))
}

inverted <- function(places) if (!is.null(places)) stats::setNames(names(places), places)

# Longer names are shortened below narrow panels, and a key of longer names is below the panels.
MOST_LETTERS <- 12

figure_scales <- function(figure) {
  colours <- figure$colours
  panels <- figure$panels
  guide <- if (length(colours) > 1 && !is.null(figure$key)) "legend" else "none"
  labels <- known_labels(if (is.null(figure$pairs)) axis_labels else short_labels)
  single <- length(panels) == 1 || !is.null(figure$pairs)
  names <- if (single) names_along(panels, "x") else figure$places$names
  layers <- unlist(lapply(panels, `[[`, "layers"), FALSE)
  shades <- Find(\(layer) !is.null(layer$z), layers)
  typed <- Find(\(layer) length(layer$type) > 1, layers)
  list(
    ggplot2::scale_size_identity(), ggplot2::scale_alpha_identity(),
    if (!is.null(shades)) ggplot2::scale_fill_gradientn("Density", colours = shades$colours, limits = c(0, shades$top)),
    if (!is.null(typed)) ggplot2::scale_linetype_manual(
      figure$key, values = stats::setNames(typed$type, levels(typed$data$group))
    ),
    if (!is.null(colours)) ggplot2::scale_colour_manual(
      if (nzchar(or_empty(figure$key))) figure$key, values = colours, guide = guide, breaks = Filter(nzchar, names(colours)),
      aesthetics = c("colour", if (is.null(shades)) "fill"), drop = FALSE
    ),
    if (length(panels) > 1 && guide == "legend" && any(nchar(names(colours)) > MOST_LETTERS)) {
      ggplot2::theme(legend.position = "bottom", legend.direction = "vertical")
    },
    level_scale(ggplot2::scale_x_continuous, names, labels, figure$pairs, panels[[1]]$x$ticks),
    if (all(vapply(panels, \(panel) panel$y$log, NA))) ggplot2::scale_y_log10() else {
      sides <- panels[[1]]$y$levels
      if (is.null(sides)) {
        level_scale(ggplot2::scale_y_continuous, names_along(panels, "y"), labels, NULL, panels[[1]]$y$ticks)
      } else {
        ggplot2::scale_y_continuous(breaks = seq_along(sides), labels = sides, minor_breaks = NULL)
      }
    }
  )
}

ticks_of <- function(ticks) if (is.null(ticks)) ggplot2::waiver() else ticks

# The names of places of panels whose axes have values of their own, by position.
names_along <- function(panels, axis) inverted(unlist(lapply(unname(panels), \(panel) named_places(panel[[axis]], Inf))))

# `names`: names of categories or dates by position; NULL for none. `ticks`: those of a single panel, or NULL.
level_scale <- function(scale, names, labels, pairs, ticks) {
  if (is.null(names)) {
    return(if (is.null(pairs)) scale(breaks = ticks_of(ticks), labels = labels) else {
      scale(n.breaks = 4, labels = labels, guide = ggplot2::guide_axis(check.overlap = TRUE))
    })
  }
  places <- unique(as.numeric(names(names)))
  breaks <- \(limits) {
    inside <- places[places >= limits[1] & places <= limits[2]]
    if (length(inside) > 0) inside else pretty(limits, if (is.null(pairs)) 5 else 4)
  }
  label <- \(at) ifelse(as.character(at) %in% names(names), names[as.character(at)], labels(at))
  scale(breaks = breaks, labels = label, guide = ggplot2::guide_axis(check.overlap = TRUE))
}

# ggplot2 passes NA for breaks outside of the limits.
known_labels <- function(labels) \(at) ifelse(is.na(at), NA, labels(replace(at, is.na(at), 0)))

# The limits of one panel.
panel_frame <- function(panel) {
  limits <- list(xlim = panel$x$limits, ylim = if (!panel$y$log) panel$y$limits, expand = !panel$x$exact)
  if (is.null(panel$aspect)) return(do.call(ggplot2::coord_cartesian, limits))
  do.call(ggplot2::coord_fixed, c(list(panel$aspect), limits))
}

figure_facets <- function(figure) {
  panels <- figure$panels
  if (!is.null(figure$pairs)) {
    k <- figure$pairs
    return(list(
      ggplot2::facet_grid(
        rows = ggplot2::vars(.data$row), cols = ggplot2::vars(.data$column), scales = "free",
        labeller = ggplot2::as_labeller(\(names) strip_names(names, k))
      ),
      ggplot2::theme(
        strip.text = ggplot2::element_text(size = ggplot2::rel(if (k > 3) 0.7 else 0.8)), legend.position = "bottom"
      )
    ))
  }
  differ <- \(axis) length(unique(lapply(panels, \(panel) panel[[axis]]$limits))) > 1 ||
    length(unique(lapply(panels, \(panel) panel[[axis]]$levels))) > 1
  free <- c(if (differ("x")) "x", if (differ("y")) "y")
  scales <- switch(length(free) + 1, "fixed", paste0("free_", free), "free")
  list(
    ggplot2::facet_wrap(ggplot2::vars(.data$panel), scales = scales),
    if (panels[[1]]$x$exact) ggplot2::coord_cartesian(expand = FALSE)
  )
}

# Names of k variables as they fit in strips of the open device, or of one of 7 inches: in lines, or shortened.
strip_names <- function(names, k) {
  side <- if (grDevices::dev.cur() > 1) min(grDevices::dev.size("in")) else 7
  letters <- max(4, floor((side - 1.2) / k * 14))
  if (max(nchar(unlist(strsplit(names, " ")))) > letters) return(short_names(names, letters))
  vapply(names, \(name) paste(strwrap(name, letters + 1), collapse = "\n"), "")
}

# Labels from the user, otherwise those of the figure if they are equal in all panels.
figure_labels <- function(figure, given) {
  first <- figure$panels[[1]]
  of_axis <- \(axis) {
    labels <- unique(lapply(figure$panels, \(panel) panel[[axis]]$label))
    if (length(labels) == 1 && is.null(figure$pairs)) labels[[1]] else figure[[axis]]
  }
  own <- list(
    x = of_axis("x"), y = of_axis("y"), title = if (is.null(figure$main)) first$main else figure$main,
    subtitle = if (is.null(figure$main)) first$sub else figure$sub
  )
  labels <- utils::modifyList(own, given[lengths(given) > 0], keep.null = TRUE)
  list(
    do.call(ggplot2::labs, lapply(labels, \(label) if (!is.null(label) && is_text(label)) label), quote = TRUE),
    # a line longer than a narrow panel is the subtitle of the whole figure
    ggplot2::theme(plot.title.position = "plot")
  )
}
