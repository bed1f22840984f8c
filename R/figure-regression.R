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
#' @param n Values of a variable at which the fit is computed.
#' @param max_dims Number of variables shown.
#' @param points Draw rows as points, in one variable? A number is the most that are drawn; `TRUE` stands for
#'   2,000.
#' @param col Colour of the lines and points, several for several responses.
#' @param ... For `plot()`: graphical parameters, such as `main`, `las`, `bty`, `cex.axis`, `pch` and `cex`. For
#'   `autoplot()`: not used.
#' @returns `plot()`: what was drawn, invisibly, a list by variable of data frames with `value`, `estimate`, `low`,
#'   `high` and, for several responses, `group`. `autoplot()`: a ggplot object.
#' @export
#' @examples
#' plot(kernel_regression(dist ~ speed, data = cars))
#' plot(kernel_regression(mpg ~ wt + hp, data = mtcars, bandwidth = c(0.8, 60)))
plot.kernel_regression <- function(x, variables = NULL, interval = c("confidence", "prediction", "none"),
                                   level = 0.95, n = 200, max_dims = 6, points = TRUE, col = NULL, ...) {
  check_graphical(..., d = 2)
  draw_figure(regression_figure(x, variables, interval, level, n, max_dims, points, col), ...)
}

#' @rdname plot.kernel_regression
#' @exportS3Method ggplot2::autoplot
autoplot.kernel_regression <- function(object, variables = NULL, interval = c("confidence", "prediction", "none"),
                                       level = 0.95, n = 200, max_dims = 6, points = TRUE, col = NULL, ...) {
  check_dots_empty(...)
  figure <- regression_figure(object, variables, interval, level, n, max_dims, points, col)
  ggplot_figure(figure, list(title = "Kernel regression"))
}

regression_figure <- function(fit, variables, interval, level, n, max_dims, points, col) {
  check_colours(col, "col")
  groups <- if (ncol(fit$y) > 1) output_labels(fit) else "all"
  parts <- regression_slices(fit, variables, interval, level, n, max_dims)
  cloud <- if (is_curve(fit)) slice_cloud(fit, most_shown(points, "points", 2000L))
  span <- range(unlist(lapply(parts, `[`, c("estimate", "low", "high"))), cloud$y, finite = TRUE)
  panels <- lapply(stats::setNames(nm = names(parts)), \(name) {
    panel <- slice_panel(parts[[name]], name, span, slice_response(fit), is.null(cloud))
    # points of one response are grey, beside the curve
    if (!is.null(cloud)) {
      colour <- if (length(groups) == 1) "grey40"
      size <- if (nrow(cloud) > 500) 0.7 else 1
      dots <- new_layer("points", cloud, colour, size = size, opacity = cloud_opacity(nrow(cloud)))
      panel$layers <- c(list(dots), panel$layers)
      panel$x$limits <- range(panel$x$limits, cloud$x)
    }
    panel[c("main", "sub", "key")] <- list(if (is_curve(fit)) "Kernel regression" else name, slice_label(fit), "corner")
    panel
  })
  new_figure(panels, colours = group_colours(col, groups), key = "", shown = parts)
}

# A panel of one variable: lines in their bands, or of categories points with intervals. `part`: a data frame of value,
# estimate, low, high and perhaps group, with the data as attribute.
slice_panel <- function(part, name, span, label, ticks) {
  levels <- levels(part$value)
  data <- data.frame(x = as.numeric(part$value), y = part$estimate, low = part$low, high = part$high)
  data$group <- if (is.null(part$group)) factor("all") else part$group
  groups <- levels(data$group)
  if (is.null(levels)) {
    own <- attr(part, "data")
    rug <- data.frame(x = own[unique(round(seq(1, length(own), length.out = min(length(own), 500))))])
    layers <- c(line_with_band(data), if (ticks) list(new_layer("rug", rug)))
    limits <- range(data$x)
  } else {
    # beside each other
    data$x <- data$x + 0.12 * (as.integer(data$group) - (1 + length(groups)) / 2)
    layers <- list(
      if (!anyNA(data$low)) new_layer("ranges", data, width = 3), new_layer("points", data, size = 1.2, opacity = 1)
    )
    limits <- c(0.5, length(levels) + 0.5)
  }
  new_panel(layers, new_axis(name, limits, levels = levels), new_axis(label, span))
}

# ---- what is shown ----------------------------------------------------------------------------

# A list by variable of data frames.
regression_slices <- function(fit, variables, interval, level, n, max_dims) {
  interval <- check_choice(interval, c("confidence", "prediction", "none"), "interval")
  n <- check_count(n, "n", min = 2)
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
    value <- if (is.null(levels)) seq(min(own[, k]), max(own[, k]), length.out = n) else seq_along(levels)
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
  labels <- output_labels(fit)
  group <- factor(rep(labels, each = length(rows)), labels)
  data.frame(x = rep(fit$x[rows, 1], t), y = as.vector(fit$y[rows, ]), group = group)
}

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
