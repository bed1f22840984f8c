# Figures of fits with categories: the density of each number with each category of one column, in colours, and the
# probabilities of the categories of each column.

#' @rdname plot.flash_kde
#' @export
plot.flash_kde_mixed <- function(x, by = names(x$discrete$columns)[1], n = 512, max_dims = 9, points = TRUE,
                                 col = NULL, ...) {
  check_graphical(..., d = 2)
  draw_figure(mixed_figure(x, by, n, max_dims, points, col), ...)
}

#' @rdname plot.flash_kde
#' @exportS3Method ggplot2::autoplot
autoplot.flash_kde_mixed <- function(object, by = names(object$discrete$columns)[1], n = 512, max_dims = 9,
                                     points = TRUE, col = NULL, main = "", sub = NULL, ...) {
  check_dots_empty(...)
  ggplot_figure(mixed_figure(object, by, n, max_dims, points, col), figure_titles(main, sub))
}

mixed_figure <- function(fit, by, n, max_dims, points, col) {
  columns <- fit$discrete$columns
  if (!is.null(by)) by <- check_choice(by, names(columns), "by")
  n <- check_count(n, "n", min = 10)
  check_colours(col, "col")
  most <- most_shown(points, "points", 300L)
  hold_limits(fit)
  names <- first_shown(fit$discrete$names, check_count(max_dims, "max_dims"))
  colours <- group_colours(col, if (is.null(by)) "all" else columns[[by]]$levels)
  n_lines <- sum(!names %in% names(columns))
  shown <- lapply(stats::setNames(nm = names), \(name) {
    if (is.null(columns[[name]])) level_lines(fit, name, by, n, n_lines) else level_shares(fit, name)
  })
  panels <- lapply(stats::setNames(nm = names), \(name) {
    if (is.null(columns[[name]])) return(level_panel(fit, name, shown[[name]], most, length(names) == 1))
    share_panel(name, shown[[name]], if (!identical(name, by)) "grey75")
  })
  figure <- new_figure(
    panels, main = if (identical(names, by)) paste("Probabilities of", by) else {
      paste(c("Marginal", if (fit$d > 0) "densities" else "probabilities", if (!is.null(by)) c("by", by)), collapse = " ")
    },
    sub = fit_subtitle(fit, bandwidth = FALSE), colours = colours, key = by,
    outer_key = if (!is.null(by)) colours, shown = shown,
    y = "Density or probability"
  )
  with_date_axes(figure, fit)
}

level_panel <- function(fit, name, lines, most, alone) {
  known <- Filter(length, lines)
  layers <- Map(\(line, level) curve_layers(line, group = factor(level, names(lines))), known, names(known))
  rug <- figure_rug(fit, match(name, point_names(fit)), most)
  curve_panel(
    c(unlist(unname(layers), FALSE), list(new_layer("rug", rug))), name, range(lapply(known, `[[`, "x")),
    range(0, lapply(known, `[[`, "y")), key = if (alone) "corner"
  )
}

share_panel <- function(name, shares, colour) {
  data <- data.frame(x = seq_along(shares), y = unname(shares), group = factor(names(shares), names(shares)))
  new_panel(
    list(new_layer("bars", data, colour)), new_axis(name, c(0.5, length(shares) + 0.5), levels = names(shares)),
    new_axis("Probability", c(0, 1.04 * max(shares)))
  )
}

# ---- what is drawn --------------------------------------------------------------------------------

# A list by category: grid_1d() of the joint density with the number; NULL if the category has probability 0.
level_lines <- function(fit, name, by, n, n_panels) {
  dim <- match(name, point_names(fit))
  w <- if (is.null(fit$weights)) rep(1, fit$n) else fit$weights
  line <- function(share) {
    part <- numbers_alone(fit, w * share)
    if (any(part$weights > 0)) {
      grid <- figure_curve(part, n, x_range, dim, n_panels)
      list(x = grid$x, y = grid$y * sum(part$weights) / sum(w))
    }
  }
  x_range <- figure_range(numbers_alone(fit, fit$weights), dim)
  if (is.null(by)) return(list(all = line(1)))
  table <- level_tables(fit$discrete)[[by]]
  levels <- fit$discrete$columns[[by]]$levels
  lapply(stats::setNames(seq_along(levels), levels), \(level) line(table[level, fit$discrete$codes[, by]]))
}

# The density of the numbers alone, with weights that say how much each point contributes to some categories.
numbers_alone <- function(fit, weights) {
  fit <- unclass(fit)
  fit[c("discrete", "kind", "weights")] <- list(NULL, NULL, weights)
  fit
}

level_shares <- function(fit, name) {
  shares <- summarise_levels(fit)[[name]]
  stats::setNames(drop(level_tables(fit$discrete)[[name]] %*% shares), names(shares))
}
