#' Plot a kernel regression by local fits
#'
#' The fit as a curve with its pointwise confidence band, and in one variable the rows as points. Of several
#' variables a panel for each: the fit along it while the others stay at their medians, levels at the one that most rows
#' have, as `np::plot.npregression` shows it.
#'
#' @param x,object A fit from [kernel_regression()].
#' @param variables Names of the variables shown. `NULL`: the first `max_dims`.
#' @param interval `"confidence"`, `"prediction"` or `"none"`: the band.
#' @param level Of the band.
#' @param n_grid Values of a variable at which the fit is computed.
#' @param max_dims Number of variables shown.
#' @param points Draw rows as points, in one variable? A number is the most that are drawn; `TRUE` stands for
#'   2,000.
#' @param col Colour of the lines and points, several for several responses.
#' @param main Title. Each panel has its own by default.
#' @param ... Further graphical parameters, such as `las`, `bty`, `cex.axis`, `pch` and `cex`; for `autoplot()`
#'   nothing.
#' @returns `plot()`: what was drawn, invisibly, a list by variable of data frames with `value`, `estimate`, `low`,
#'   `high` and, for several responses, `group`. `autoplot()`: a ggplot object.
#' @inheritSection flash_kde Errors
#' @export
#' @examples
#' plot(kernel_regression(dist ~ speed, data = cars))
#' plot(kernel_regression(mpg ~ wt + hp, data = mtcars, bandwidth = c(0.8, 60)))
plot.kernel_regression <- function(x, variables = NULL, interval = c("confidence", "prediction", "none"),
                                   level = 0.95, n_grid = 200, max_dims = 6, points = TRUE, col = NULL,
                                   main = NULL, ...) {
  check_text(main, "main")
  check_graphical(..., d = 2)
  colours <- regression_colours(x, col)
  parts <- regression_slices(x, variables, interval, level, n_grid, max_dims)
  most <- most_shown(points, "points", 2000L)
  if (length(parts) > 1) {
    before <- graphics::par(mfrow = panel_grid(length(parts)), mar = c(4, 4.2, 3.2, 1), mgp = c(2.4, 0.8, 0))
    on.exit(graphics::par(before))
  }
  cloud <- if (is_curve(x)) slice_cloud(x, most)
  shown <- unlist(lapply(parts, \(part) part[c("estimate", "low", "high")]))
  span <- range(shown, cloud$y, finite = TRUE)
  for (name in names(parts)) {
    labels <- list(main = slice_title(x, name), sub = slice_label(x), x = name, y = slice_response(x))
    if (is.null(cloud)) {
      draw_partial(parts[[name]], name, span, TRUE, labels, colours, main, ...)
    } else {
      draw_curve(parts[[name]], cloud, span, labels, colours, main, ...)
    }
  }
  invisible(parts)
}

draw_curve <- function(part, cloud, span, labels, colours, main, ...) {
  draw_panel(range(part$value, cloud$x), span, labels, main, ...)
  draw_cloud(cloud$x, cloud$y, cloud$group, adjust_grey(colours), ...)
  group <- group_of(part)
  for (k in unique(group)) {
    draw_band(part[group == k, ], colours[k])
    graphics::lines(part$value[group == k], part$estimate[group == k], col = colours[k], lwd = 2)
  }
  draw_key(levels(part$group), colours, cbind(part$value, part$estimate))
}

# Points of one response are grey, beside the curve; those of several have its colour.
adjust_grey <- function(colours) if (length(colours) == 1) "grey40" else colours

#' @rdname plot.kernel_regression
#' @exportS3Method ggplot2::autoplot
autoplot.kernel_regression <- function(object, variables = NULL, interval = c("confidence", "prediction", "none"),
                                       level = 0.95, n_grid = 200, max_dims = 6, points = TRUE, col = NULL, ...) {
  check_dots_empty(...)
  colours <- regression_colours(object, col)
  parts <- regression_slices(object, variables, interval, level, n_grid, max_dims)
  cloud <- if (is_curve(object)) slice_cloud(object, most_shown(points, "points", 2000L))
  ggplot2::ggplot() +
    (if (is.null(cloud)) partial_layers(parts, colours) else curve_layers(with_group(parts[[1]]), cloud)) +
    group_scales(parts, colours) +
    ggplot2::labs(
      x = if (!is.null(cloud)) names(parts), y = slice_response(object), title = "Kernel regression",
      subtitle = slice_label(object)
    )
}

curve_layers <- function(part, cloud) {
  cloud$group <- levels(part$group)[cloud$group]
  list(
    ggplot2::geom_point(
      ggplot2::aes(x = .data$x, y = .data$y, colour = .data$group),
      data = cloud, alpha = cloud_opacity(nrow(cloud))
    ),
    if (!anyNA(part$low)) ggplot2::geom_ribbon(
      ggplot2::aes(x = .data$value, ymin = .data$low, ymax = .data$high, fill = .data$group),
      data = part, alpha = 0.2
    ),
    ggplot2::geom_line(
      ggplot2::aes(x = .data$value, y = .data$estimate, colour = .data$group), data = part, linewidth = 0.9
    )
  )
}

cloud_opacity <- function(n) min(0.8, max(0.2, 250 / max(n, 1)))

regression_colours <- function(fit, col) {
  check_colours(col, "col")
  rep_len(if (is.null(col)) GROUP_COLOURS else col, ncol(fit$y))
}

# ---- what is shown ----------------------------------------------------------------------------

# A list by variable of data frames.
regression_slices <- function(fit, variables, interval, level, n_grid, max_dims) {
  interval <- check_choice(interval, c("confidence", "prediction", "none"), "interval")
  n_grid <- check_count(n_grid, "n_grid", min = 2)
  variables <- slice_variables(fit, variables, check_count(max_dims, "max_dims"))
  level <- check_level(level)
  run <- start_run(fit$control, "Predicting")
  used <- used_rows(fit)
  own <- cbind(fit$x, fit$discrete$codes)[used, , drop = FALSE]
  middle <- c(
    apply(fit$x[used, , drop = FALSE], 2, stats::median),
    if (!is.null(fit$discrete)) apply(fit$discrete$codes[used, , drop = FALSE], 2, \(codes) which.max(tabulate(codes)))
  )
  stats::setNames(lapply(variables, \(name) {
    k <- match(name, c(point_names(fit), names(fit$discrete$columns)))
    levels <- fit$discrete$columns[[name]]$levels
    value <- if (is.null(levels)) seq(min(own[, k]), max(own[, k]), length.out = n_grid) else seq_along(levels)
    at <- matrix(middle, length(value), length(middle), byrow = TRUE)
    at[, k] <- value
    found <- local_predictions(fit, at, interval != "none", interval == "prediction", run)
    if (!is.null(levels)) value <- factor(levels, levels = levels)
    quantile <- if (interval == "none") NA else stats::qt((1 + level) / 2, residual_df(fit))
    structure(slice_frame(fit, value, found, quantile), data = own[, k])
  }), variables)
}

# One number is shown with its rows.
is_curve <- function(fit) fit$d == 1 && is.null(fit$discrete)

slice_names <- function(fit) if (is.null(fit$discrete)) point_names(fit) else fit$discrete$names

slice_frame <- function(fit, value, found, quantile) {
  width <- as.vector(quantile * sqrt(found$se^2 + found$noise))
  estimate <- as.vector(found$fit)
  frame <- data.frame(value = value, estimate = estimate, low = estimate - width, high = estimate + width)
  names <- output_labels(fit)
  if (length(names) > 1) frame$group <- factor(rep(names, each = length(value)), levels = names)
  frame
}

slice_variables <- function(fit, variables, max_dims) {
  known <- slice_names(fit)
  if (is.null(variables)) {
    if (length(known) > max_dims) {
      message(sprintf("showing the first %d of %d variables; `max_dims` sets how many", max_dims, length(known)))
    }
    return(utils::head(known, max_dims))
  }
  if (!is.character(variables)) stop_argument("variables", "must be names: found ", describe(variables))
  other <- setdiff(variables, known)
  if (length(other) > 0) {
    stop_argument(
      "variables", "must be among those of the fit, ", quote_names(known), ": found ", quote_names(other)
    )
  }
  variables
}

# Rows of a fit in one variable, evenly spread.
slice_cloud <- function(fit, most) {
  rows <- if (most > 0) spread_rows(fit$n, most)
  if (length(rows) == 0) return(NULL)
  t <- ncol(fit$y)
  group <- rep(seq_len(t), each = length(rows))
  data.frame(x = rep(fit$x[rows, 1], t), y = as.vector(fit$y[rows, ]), group = group)
}

slice_title <- function(fit, name) if (is_curve(fit)) "Kernel regression" else name

slice_label <- function(fit) {
  if (!is_curve(fit)) {
    if (length(slice_names(fit)) == 1) return(NULL)
    return(if (is.null(fit$discrete)) "others at their medians" else "others at their medians and commonest levels")
  }
  paste0(
    REGRESSION_TYPES[[fit$type]]$label, ", n = ", whole(fit$n), ", bandwidth ",
    format(sqrt(fit$bandwidth[1]), digits = 3)
  )
}

slice_response <- function(fit) if (ncol(fit$y) > 1) "response" else response_label(fit)
