#' Plot a density estimate with ggplot2
#'
#' The figures of [plot.flash_kde()] as ggplot2 objects: a line and a rug for one variable,
#' filled highest-density regions and the data for two, a matrix of the marginals for more (on the
#' diagonal the density of each variable, scaled to the height of its panel). Needs the package
#' ggplot2; call `ggplot2::autoplot(fit)`.
#'
#' @param object A fit, from [flash_kde()].
#' @inheritParams plot.flash_kde
#' @param points,rug Draw the data, as points (two variables or more) or as a rug (one variable)?
#'   A number is the most that are drawn; `TRUE` stands for 2,000 points (shared by the panels of a
#'   row) and 1,000 ticks. Larger data are thinned evenly. The area of a point is proportional to
#'   its weight, within limits.
#' @param col Colour of the line (one variable) or of the regions: one for each, outermost first, or
#'   one, of which lighter tints are made.
#' @param palette In place of `col`, for two variables and more: a palette of [grDevices::hcl.colors()]
#'   by its name, as `"YlOrRd"`, its light end outermost.
#' @param main,sub,xlab,ylab Title, the line under it, and labels of the axes (these for one or two variables).
#'   `NULL`: none for the title, else those of [plot.flash_kde()]; `""`: none.
#' @param ... Not used; anything here is an error.
#' @return A ggplot object.
#' @examplesIf requireNamespace("ggplot2", quietly = TRUE)
#' fit <- flash_kde(~ eruptions + waiting, data = faithful)
#' ggplot2::autoplot(fit) + ggplot2::theme_minimal()
#' ggplot2::autoplot(fit, palette = "YlOrRd", main = "Old Faithful", xlab = "Eruption (min)")
#' @exportS3Method ggplot2::autoplot
autoplot.flash_kde <- function(object, prob = c(0.25, 0.5, 0.75, 0.95), n_grid = NULL,
                               max_dims = 6, points = TRUE, rug = TRUE, col = NULL, palette = NULL, main = NULL,
                               sub = NULL, xlab = NULL, ylab = NULL, ...) {
  check_dots_empty(...)
  check_colours(col, "col")
  labels <- list(title = main, subtitle = sub, x = xlab, y = ylab)
  for (arg in c("main", "sub", "xlab", "ylab")) check_text(get(arg), arg)
  check_in_memory(object)
  hold_limits(object)
  prob <- sort(unique(check_prob(prob, "prob", open = TRUE)))
  n_grid <- check_grid_size(n_grid, object$d)
  if (object$d == 1) {
    if (!is.null(palette)) stop_argument("palette", "is for two variables and more: `col` is the line's colour")
    return(autoplot_1d(object, n_grid, most_shown(rug, "rug", 1000L), col, labels))
  }
  if (!is.null(palette)) col <- palette_colours(palette, length(prob), col)
  if (object$d == 2) {
    rows <- thinned_rows(object, most_shown(points, "points", 2000L))
    autoplot_2d(object, prob, n_grid, rows, region_colours(length(prob), col), labels)
  } else {
    check_unused(list(xlab = xlab, ylab = ylab))
    dims <- shown_dims(object, max_dims)
    rows <- thinned_rows(object, most_shown(points, "points", pair_points(dims)))
    autoplot_pairs(object, prob, n_grid, dims, rows, region_colours(length(prob), col), col, labels)
  }
}

# n colours of hcl.colors(), the lightest first.
palette_colours <- function(palette, n, col) {
  if (!is.null(col)) stop_argument("palette", "must be NULL beside `col`: found ", describe(palette))
  known <- grDevices::hcl.pals()
  plain <- \(name) gsub("[^a-z0-9]", "", tolower(name))
  if (!is.character(palette) || length(palette) != 1 || !plain(palette) %in% plain(known)) {
    stop_argument("palette", "must be a name of grDevices::hcl.pals(), as \"YlOrRd\": found ", describe(palette))
  }
  colours <- grDevices::hcl.colors(n + 1, palette)
  light <- \(colour) sum(grDevices::col2rgb(colour) * c(0.3, 0.59, 0.11))
  if (light(colours[1]) < light(colours[n + 1])) colours <- rev(colours)
  # the very lightest hardly stands out from paper
  colours[-1]
}

# The pronoun of ggplot2's aes().
utils::globalVariables(".data")

autoplot_1d <- function(fit, n_grid, rug, col, labels) {
  grid <- grid_1d(figure_marginal(fit, to_tol = TRUE), n_grid)
  data <- data.frame(x = fit$x[thinned_rows(fit, rug), 1])
  layers <- list(ggplot2::geom_hline(yintercept = 0, colour = "grey75", linewidth = 0.3))
  if (any(grid$y < 0)) {
    negative <- as.data.frame(crossings(grid))
    layers <- c(layers, ggplot2::geom_ribbon(
      ggplot2::aes(x = .data$x, ymin = pmin(.data$y, 0), ymax = 0),
      data = negative, fill = NEGATIVE_COLOUR, alpha = 0.6
    ))
  }
  ggplot2::ggplot(as.data.frame(grid), ggplot2::aes(x = .data$x, y = .data$y)) +
    layers +
    ggplot2::geom_line(colour = if (is.null(col)) LINE_COLOUR else col[1], linewidth = 0.8) +
    ggplot2::geom_rug(
      ggplot2::aes(x = .data$x),
      data = data, inherit.aes = FALSE, sides = "b", alpha = rug_opacity(nrow(data))
    ) +
    ggplot2::coord_cartesian(ylim = if (!is.null(fit$support)) density_limits(fit, grid)) +
    ggplot_labels(labels, variable_names(fit), "Density", fit_subtitle(fit, negative = shows_negative(grid$y)))
}

autoplot_2d <- function(fit, prob, n_grid, rows, colours, labels) {
  grid <- grid_2d(figure_marginal(fit, to_tol = TRUE), n_grid, prob)
  names <- variable_names(fit)
  view <- grid_view(grid, fit$x[rows, , drop = FALSE])
  ggplot2::ggplot(mapping = ggplot2::aes(x = .data$x, y = .data$y)) +
    region_layers(region_frame(grid), negative_frame(grid), colours) +
    point_layer(point_frame(fit, rows, c(1, 2), view)) +
    ggplot2::scale_x_continuous(labels = axis_labels_of) +
    ggplot2::scale_y_continuous(labels = axis_labels_of) +
    ggplot_frame(view, map_aspect(fit)) +
    ggplot_labels(labels, names[1], names[2], fit_subtitle(fit, negative = shows_negative(grid$z)))
}

# `aspect`: of map_aspect().
ggplot_frame <- function(view, aspect) {
  if (is.null(aspect)) return(ggplot2::coord_cartesian(xlim = view$x, ylim = view$y, expand = FALSE))
  ggplot2::coord_fixed(aspect, xlim = view$x, ylim = view$y, expand = FALSE)
}

# What the user gave, else these. `""` leaves one out.
ggplot_labels <- function(given, x, y, subtitle) {
  own <- list(x = x, y = y, subtitle = subtitle, title = NULL)
  labels <- utils::modifyList(own, given[lengths(given) > 0], keep.null = TRUE)
  list(
    do.call(ggplot2::labs, lapply(labels, \(label) if (is.null(label) || is_text(label)) label)),
    # a line longer than a narrow panel has the room of all
    ggplot2::theme(plot.title.position = "plot")
  )
}

autoplot_pairs <- function(fit, prob, n_grid, dims, rows, colours, col, labels) {
  grids <- pair_grids(fit, prob, n_grid, dims)
  k <- length(dims)
  names <- variable_names(fit)[dims]
  limits <- pair_limits(grids, fit$x[rows, dims, drop = FALSE], k)
  # the panel (row i, column j) as factors, for facets
  panel <- function(data, i, j) {
    if (is.null(data) || nrow(data) == 0) {
      return(NULL)
    }
    cbind(data, row = factor(names[i], names), column = factor(names[j], names))
  }
  collect <- function(cells, make) {
    do.call(rbind, lapply(seq_len(nrow(cells)), function(r) {
      i <- cells$i[r]
      j <- cells$j[r]
      panel(make(i, j), i, j)
    }))
  }
  cells <- expand.grid(i = seq_len(k), j = seq_len(k))
  lower <- cells[cells$i > cells$j, ]
  upper <- cells[cells$i < cells$j, ]
  regions <- collect(lower, function(i, j) region_frame(pair_grid(grids, i, j)))
  negative <- collect(lower, function(i, j) negative_frame(pair_grid(grids, i, j)))
  contours <- collect(upper, function(i, j) region_frame(pair_grid(grids, i, j)))
  points <- collect(upper, function(i, j) {
    # a panel is smaller than one plot: as many dots wide
    point_frame(fit, rows, dims[c(j, i)], list(x = limits[[j]], y = limits[[i]]), dots = 120 / k)
  })
  diagonal <- collect(cells[cells$i == cells$j, ], function(i, j) {
    diagonal_frame(grids$marginals[[i]], limits[[i]])
  })
  ggplot2::ggplot(mapping = ggplot2::aes(x = .data$x, y = .data$y)) +
    region_layers(regions, negative, colours) +
    point_layer(points) +
    ggplot2::geom_path(
      ggplot2::aes(group = .data$piece),
      data = contours, colour = contour_colour(colours), linewidth = 0.3
    ) +
    ggplot2::geom_line(
      data = diagonal, colour = if (is.null(col)) LINE_COLOUR else contour_colour(colours),
      linewidth = 0.6) +
    ggplot2::facet_grid(
      rows = ggplot2::vars(.data$row), cols = ggplot2::vars(.data$column), scales = "free",
      labeller = ggplot2::label_wrap_gen(ceiling(48 / k))
    ) +
    ggplot2::theme(strip.text = ggplot2::element_text(size = ggplot2::rel(if (k > 3) 0.7 else 0.8))) +
    ggplot2::scale_x_continuous(
      n.breaks = 4, labels = short_labels_of, guide = ggplot2::guide_axis(check.overlap = TRUE)
    ) +
    ggplot2::scale_y_continuous(labels = short_labels_of) +
    ggplot_labels(labels, NULL, NULL, fit_subtitle(fit, bandwidth = FALSE, negative = !is.null(negative)))
}

# ---- data frames ------------------------------------------------------------------------------

# The outlines of the regions, the outermost first: `probability` (a factor), and `piece`, unique to
# each closed line.
region_frame <- function(grid) {
  levels <- sort(grid$levels)
  frames <- lapply(names(levels), function(name) {
    outline_frame(upper_set(grid, levels[[name]]), name)
  })
  frame <- do.call(rbind, frames)
  frame$probability <- factor(frame$probability, names(levels))
  frame
}

negative_frame <- function(grid) {
  if (!shows_negative(grid$z)) {
    return(NULL)
  }
  level <- negative_level(grid$z)
  grid$z <- -grid$z
  outline_frame(upper_set(grid, -level), "negative")
}

outline_frame <- function(lines, name) {
  do.call(rbind, lapply(seq_along(lines), function(i) {
    data.frame(
      x = lines[[i]]$x, y = lines[[i]]$y, probability = name, piece = paste(name, i)
    )
  }))
}

# `view`: limits of the axes, which are about `dots` dots long.
point_frame <- function(fit, rows, dims, view, dots = 120) {
  x <- fit$x[rows, dims[1]]
  y <- fit$x[rows, dims[2]]
  if (length(rows) == 0) return(data.frame(x = x, y = y))
  ink <- point_ink(dots * x / abs(diff(view$x)), dots * y / abs(diff(view$y)))
  size <- 1.2 * crowd_size(length(rows)) * weight_size(fit, rows)
  data.frame(x = x, y = y, size = size, row.names = NULL)[ink$drawn, ] |>
    cbind(opacity = ink$opacity)
}

# ggplot2 gives NA for breaks outside of the limits.
axis_labels_of <- function(at) ifelse(is.na(at), NA, axis_labels(replace(at, is.na(at), 0)))

short_labels_of <- function(at) ifelse(is.na(at), NA, short_labels(replace(at, is.na(at), 0)))

# The density of one variable, drawn to the height of a panel whose y axis is the variable itself.
diagonal_frame <- function(grid, limits) {
  shown <- grid$x >= limits[1] & grid$x <= limits[2]
  bottom <- min(0, grid$y)
  height <- (grid$y - bottom) / (max(grid$y) - bottom)
  data.frame(x = grid$x, y = limits[1] + 0.95 * diff(limits) * height)[shown, ]
}

# ---- layers -----------------------------------------------------------------------------------

# Groups are drawn in the order of the factor; `subgroup` cuts the holes.
region_layers <- function(regions, negative, colours) {
  layers <- list(
    ggplot2::geom_polygon(
      ggplot2::aes(
        fill = .data$probability, group = .data$probability, subgroup = .data$piece
      ),
      data = regions, colour = contour_colour(colours), linewidth = 0.3
    ),
    ggplot2::scale_fill_manual("Probability", values = colours, drop = FALSE)
  )
  if (!is.null(negative)) {
    layers <- c(layers, ggplot2::geom_polygon(
      ggplot2::aes(group = .data$probability, subgroup = .data$piece),
      data = negative, fill = NEGATIVE_COLOUR, alpha = 0.4
    ))
  }
  layers
}

point_layer <- function(data) {
  if (is.null(data) || nrow(data) == 0) {
    return(NULL)
  }
  list(
    ggplot2::geom_point(
      ggplot2::aes(size = .data$size, alpha = .data$opacity),
      data = data, stroke = 0, shape = 16
    ),
    ggplot2::scale_size_identity(), ggplot2::scale_alpha_identity()
  )
}
