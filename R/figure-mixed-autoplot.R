# The figures of figure-mixed.R with ggplot2.

#' Plot a density estimate of numbers and levels with ggplot2
#'
#' The figure of [plot.flash_kde_mixed()] as a ggplot2 object: for each numeric column a panel with a line for each
#' level of one column, `by`, and a rug. Where there are no numeric columns, for each column of levels a panel with
#' their probabilities. Needs the package ggplot2; call `ggplot2::autoplot(fit)`.
#'
#' @param object A fit with levels, from [flash_kde()].
#' @inheritParams plot.flash_kde_mixed
#' @param max_dims Number of panels: the first columns that have one.
#' @param main,sub Title, `NULL` for none, and the line under it, `NULL` for that of [plot.flash_kde_mixed()]; `""` for
#'   none.
#' @param ... Not used; anything here is an error.
#' @return A ggplot object.
#' @examplesIf requireNamespace("ggplot2", quietly = TRUE)
#' ggplot2::autoplot(flash_kde(iris[3:5]))
#' @exportS3Method ggplot2::autoplot
autoplot.flash_kde_mixed <- function(object, by = names(object$discrete$columns)[1], n_grid = 512, max_dims = 9,
                                     rug = TRUE, col = NULL, main = NULL, sub = NULL, ...) {
  check_dots_empty(...)
  columns <- object$discrete$columns
  if (!is.null(by)) by <- check_choice(by, names(columns), "by")
  n_grid <- check_count(n_grid, "n_grid", min = 10)
  max_dims <- check_count(max_dims, "max_dims")
  check_colours(col, "col")
  check_text(main, "main")
  check_text(sub, "sub")
  rug <- most_shown(rug, "rug", 300L)
  hold_limits(object)
  numeric <- object$d > 0
  shown <- first_columns(if (numeric) point_names(object) else names(columns), max_dims)
  levels <- if (is.null(by)) "all" else columns[[by]]$levels
  if (is.null(col)) col <- level_colours(length(levels))
  look <- list(col = rep_len(col, length(levels)), levels = levels, by = by)
  draw <- if (numeric) autoplot_level_lines(object, shown, n_grid, rug, look) else autoplot_shares(object, shown, look)
  labels <- list(title = main, subtitle = sub)
  draw + ggplot_labels(labels, NULL, if (numeric) "Density" else "Probability", mixed_subtitle(object))
}

autoplot_level_lines <- function(fit, shown, n_grid, rug, look) {
  lines <- do.call(rbind, lapply(shown, \(name) {
    lines <- Filter(length, level_lines(fit, name, look$by, n_grid, length(shown)))
    do.call(rbind, Map(\(line, level) data.frame(x = line$x, y = line$y, level, column = name), lines, names(lines)))
  }))
  rows <- thinned_rows(fit, rug)
  ticks <- data.frame(
    x = as.vector(fit$x[rows, match(shown, point_names(fit))]), column = factor(rep(shown, each = length(rows)), shown)
  )
  lines$level <- factor(lines$level, look$levels)
  lines$column <- factor(lines$column, shown)
  ggplot2::ggplot(lines, ggplot2::aes(x = .data$x, y = .data$y)) +
    ggplot2::geom_hline(yintercept = 0, colour = "grey75", linewidth = 0.3) +
    ggplot2::geom_line(ggplot2::aes(colour = .data$level), linewidth = 0.8) +
    ggplot2::geom_rug(
      ggplot2::aes(x = .data$x), data = ticks, inherit.aes = FALSE, sides = "b", alpha = rug_opacity(length(rows))
    ) +
    ggplot2::scale_colour_manual(
      look$by, values = look$col, drop = FALSE, guide = if (is.null(look$by)) "none" else "legend"
    ) +
    ggplot2::facet_wrap(ggplot2::vars(.data$column), scales = "free")
}

autoplot_shares <- function(fit, shown, look) {
  shares <- do.call(rbind, lapply(shown, \(name) {
    share <- level_shares(fit, name)
    fill <- if (identical(name, look$by)) look$col else "grey75"
    data.frame(place = paste(name, names(share), sep = "\r"), share, fill, column = name)
  }))
  shares$place <- factor(shares$place, shares$place)
  shares$column <- factor(shares$column, shown)
  ggplot2::ggplot(shares, ggplot2::aes(x = .data$place, y = .data$share, fill = .data$fill)) +
    ggplot2::geom_col(width = 0.8) +
    ggplot2::scale_fill_identity() +
    # of equal levels of two columns each has its place
    ggplot2::scale_x_discrete(
      labels = \(place) sub("^[^\r]*\r", "", place), guide = ggplot2::guide_axis(check.overlap = TRUE)
    ) +
    ggplot2::facet_wrap(ggplot2::vars(.data$column), scales = "free")
}
