# Figures of conditional densities with a y of levels: their probabilities as each variable of x changes.

# A row of x, as given_columns() has it: the median of each number, and the most frequent level.
middle_given <- function(object) {
  joint <- object$joint
  used <- used_rows(joint)
  x <- own_places(joint)[used, given_columns(object), drop = FALSE]
  weights <- joint$weights[used]
  numbers <- seq_along(given_dims(object))
  middle <- apply(x[, numbers, drop = FALSE], 2, weighted_quantile, weights, 0.5)
  c(middle, vapply(given_levels(object), \(name) which.max(summarise_levels(joint)[[name]]), 0L))
}

# Rows of x as `middle`, with `values` of one variable.
with_values <- function(middle, name, values) {
  x <- matrix(middle, length(values), length(middle), byrow = TRUE, dimnames = list(NULL, names(middle)))
  x[, name] <- values
  x
}

# For each variable of x list(x, probability): numbers or levels, and a column of probabilities for each level of y.
probability_curves <- function(object, n_grid) {
  joint <- object$joint
  used <- used_rows(joint)
  middle <- middle_given(object)
  run <- start_run(fit_asked(joint), "Predicting")
  lapply(stats::setNames(nm = object$given), \(name) {
    column <- joint$discrete$columns[[name]]
    values <- if (is.null(column)) {
      ends <- weighted_quantile(joint$x[used, name], joint$weights[used], c(0.005, 0.995))
      seq(ends[1], ends[2], length.out = n_grid)
    } else {
      seq_along(column$levels)
    }
    probability <- level_probabilities(object, with_values(middle, name, values), run)
    list(x = if (is.null(column)) values else column$levels, probability = probability)
  })
}

draw_probability_curves <- function(curves, object, col, main, ylab, ...) {
  levels <- colnames(curves[[1]]$probability)
  colours <- if (is.null(col)) level_colours(length(levels)) else rep_len(col, length(levels))
  layout <- replace(mixed_layout(length(curves)), "mfrow", list(panel_rows(length(curves))))
  old <- graphics::par(utils::modifyList(layout, list(...)))
  on.exit(graphics::par(old))
  if (is.null(ylab)) ylab <- "Probability"
  for (name in names(curves)) {
    curve <- curves[[name]]
    if (is.numeric(curve$x)) {
      graphics::plot.default(range(curve$x), c(0, 1), type = "n", xlab = name, ylab = ylab, axes = FALSE)
      graphics::matlines(curve$x, curve$probability, lty = 1, lwd = 2, col = colours)
      draw_axes()
    } else {
      graphics::barplot(
        t(curve$probability), names.arg = curve$x, col = colours, border = NA, xlab = name, ylab = ylab, space = 0.3
      )
    }
    draw_frame(fg = "grey40")
  }
  draw_mixed_titles(main, conditional_subtitle(object), object$joint, object$response, levels, list(col = colours))
  curves
}

# Of the numbers of x, or where it has none of its levels: panels share one kind of axis.
autoplot_probabilities <- function(object, curves, col) {
  of_numbers <- vapply(curves, \(curve) is.numeric(curve$x), NA)
  if (any(of_numbers)) curves <- curves[of_numbers]
  levels <- colnames(curves[[1]]$probability)
  frame <- do.call(rbind, lapply(names(curves), \(name) {
    curve <- curves[[name]]
    x <- rep(curve$x, length(levels))
    data.frame(
      x = if (any(of_numbers)) x else factor(x, curve$x), probability = as.vector(curve$probability),
      level = factor(rep(levels, each = length(curve$x)), levels), variable = factor(name, names(curves))
    )
  }))
  colours <- if (is.null(col)) level_colours(length(levels)) else rep_len(col, length(levels))
  ggplot2::ggplot(frame, ggplot2::aes(x = .data$x, y = .data$probability)) +
    (if (any(of_numbers)) ggplot2::geom_line(ggplot2::aes(colour = .data$level), linewidth = 0.8)
     else ggplot2::geom_col(ggplot2::aes(fill = .data$level))) +
    ggplot2::facet_wrap(ggplot2::vars(.data$variable), scales = "free_x") +
    ggplot2::scale_colour_manual(object$response, values = colours, aesthetics = c("colour", "fill")) +
    ggplot2::labs(x = NULL, y = "Probability", subtitle = conditional_subtitle(object))
}
