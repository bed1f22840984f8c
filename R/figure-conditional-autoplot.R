#' @rdname plot.flash_conditional
#' @exportS3Method ggplot2::autoplot
autoplot.flash_conditional <- function(object, prob = c(0.1, 0.5, 0.9), n_grid = 151, points = TRUE, col = NULL,
                                       ...) {
  check_dots_empty(...)
  colours <- check_conditional_figure(object, prob, n_grid, col)$colours
  if (length(response_levels(object)) > 0) {
    return(autoplot_probabilities(object, probability_curves(object, n_grid), col))
  }
  if (!is_image(object)) return(autoplot_curves(object, conditional_curves(object, prob, n_grid), colours))
  image <- conditional_image(object, prob, n_grid)
  top <- shade_limit(image$z)
  shades <- data.frame(
    x = rep(image$x, length(image$y)), y = rep(image$y, each = length(image$x)),
    density = as.vector(pmin(pmax(image$z, 0), top))
  )
  rows <- thinned_rows(object$joint, most_shown(points, "points", 1000L))
  data <- data.frame(x = object$joint$x[rows, 2], y = object$joint$x[rows, 1])
  ggplot2::ggplot(mapping = ggplot2::aes(x = .data$x, y = .data$y)) +
    ggplot2::geom_raster(ggplot2::aes(fill = .data$density), data = shades, interpolate = TRUE) +
    ggplot2::geom_point(data = data, size = crowd_size(length(rows)), alpha = 0.35, stroke = 0) +
    quantile_layers(image$quantiles) +
    ggplot2::scale_fill_gradientn("Density", colours = colours, limits = c(0, top)) +
    ggplot2::coord_cartesian(expand = FALSE) +
    ggplot2::labs(x = object$given, y = object$response, subtitle = conditional_subtitle(object))
}

# NULL where there are none.
quantile_layers <- function(quantiles) {
  if (is.null(quantiles)) return(NULL)
  names <- colnames(quantiles$y)
  lines <- data.frame(
    x = rep(quantiles$x, length(names)), y = as.vector(quantiles$y),
    probability = factor(rep(names, each = length(quantiles$x)), names)
  )
  list(
    ggplot2::geom_line(ggplot2::aes(linetype = .data$probability), data = lines, colour = QUANTILE_COLOUR),
    ggplot2::scale_linetype_manual("Quantile", values = quantile_types(names))
  )
}

autoplot_curves <- function(object, curves, colours) {
  # of levels where there are no numbers: these have names of their own
  of_numbers <- vapply(curves, \(curve) is.numeric(curve$at), NA)
  if (any(of_numbers)) {
    curves <- curves[of_numbers]
  } else {
    colours <- level_colours(length(unique(unlist(lapply(curves, `[[`, "at")))))
  }
  frame <- do.call(rbind, lapply(names(curves), \(name) {
    curve <- curves[[name]]
    data.frame(
      y = rep(curve$y, length(curve$at)), density = as.vector(curve$density),
      variable = factor(name, names(curves)),
      quantile = factor(rep(names(curve$at), each = length(curve$y)), names(curve$at))
    )
  }))
  ggplot2::ggplot(frame, ggplot2::aes(x = .data$y, y = .data$density, colour = .data$quantile)) +
    ggplot2::geom_line(linewidth = 0.8) +
    ggplot2::facet_wrap(ggplot2::vars(.data$variable)) +
    ggplot2::scale_colour_manual(if (any(of_numbers)) "Quantile of the variable" else "Level", values = colours) +
    ggplot2::labs(x = object$response, y = "Density", subtitle = conditional_subtitle(object))
}
