#' Plot a kernel regression by local fits
#'
#' The fit as a curve with its pointwise confidence band, and in one variable the rows as points. Of several
#' variables a panel for each: the fit along it while the others stay at their medians, as `np::plot.npregression`
#' shows it.
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
  cloud <- if (x$d == 1) slice_cloud(x, most)
  shown <- unlist(lapply(parts, \(part) part[c("estimate", "low", "high")]))
  span <- range(shown, cloud$y, finite = TRUE)
  for (name in names(parts)) draw_slice(x, parts[[name]], name, cloud, span, colours, main, ...)
  invisible(parts)
}

draw_slice <- function(fit, part, name, cloud, span, colours, main, ...) {
  labels <- list(main = slice_title(fit, name), sub = slice_label(fit, name), x = name, y = slice_response(fit))
  draw_panel(range(part$value, cloud$x), span, labels, main, ...)
  if (!is.null(cloud)) draw_cloud(cloud$x, cloud$y, cloud$group, adjust_grey(colours), ...)
  group <- group_of(part)
  for (k in unique(group)) {
    draw_band(part[group == k, ], colours[k])
    graphics::lines(part$value[group == k], part$estimate[group == k], col = colours[k], lwd = 2)
  }
  if (is.null(cloud)) draw_rug(fit$x[spread_rows(fit$n, 500), match(name, point_names(fit))])
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
  all <- do.call(rbind, Map(\(part, name) cbind(with_group(part), variable = name), parts, names(parts)))
  all$variable <- factor(all$variable, levels = names(parts))
  cloud <- if (object$d == 1) slice_cloud(object, most_shown(points, "points", 2000L))
  if (!is.null(cloud)) cloud$group <- levels(all$group)[cloud$group]
  aes <- ggplot2::aes(x = .data$value, y = .data$estimate, colour = .data$group)
  ggplot2::ggplot() +
    (if (!is.null(cloud)) ggplot2::geom_point(
      ggplot2::aes(x = .data$x, y = .data$y, colour = .data$group),
      data = cloud, alpha = cloud_opacity(nrow(cloud))
    )) +
    (if (!anyNA(all$low)) ggplot2::geom_ribbon(
      ggplot2::aes(x = .data$value, ymin = .data$low, ymax = .data$high, fill = .data$group),
      data = all, alpha = 0.2
    )) +
    ggplot2::geom_line(aes, data = all, linewidth = 0.9) +
    (if (length(parts) > 1) ggplot2::facet_wrap(ggplot2::vars(.data$variable), scales = "free_x")) +
    group_scales(all, colours) +
    ggplot2::labs(
      x = if (length(parts) == 1) names(parts), y = slice_response(object), title = "Kernel regression",
      subtitle = slice_label(object, names(parts)[1])
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
  middle <- apply(fit$x[used, , drop = FALSE], 2, stats::median)
  stats::setNames(lapply(variables, \(name) {
    k <- match(name, point_names(fit))
    value <- seq(min(fit$x[used, k]), max(fit$x[used, k]), length.out = n_grid)
    at <- matrix(middle, n_grid, fit$d, byrow = TRUE)
    at[, k] <- value
    found <- local_predictions(fit, at, interval != "none", interval == "prediction", run)
    slice_frame(fit, value, found, if (interval == "none") NA else stats::qt((1 + level) / 2, residual_df(fit)))
  }), variables)
}

slice_frame <- function(fit, value, found, quantile) {
  width <- as.vector(quantile * sqrt(found$se^2 + found$noise))
  estimate <- as.vector(found$fit)
  frame <- data.frame(value = value, estimate = estimate, low = estimate - width, high = estimate + width)
  names <- output_labels(fit)
  if (length(names) > 1) frame$group <- factor(rep(names, each = length(value)), levels = names)
  frame
}

slice_variables <- function(fit, variables, max_dims) {
  known <- point_names(fit)
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

spread_rows <- function(n, most) unique(round(seq(1, n, length.out = min(n, most))))

slice_title <- function(fit, name) if (fit$d == 1) "Kernel regression" else name

slice_label <- function(fit, name) {
  if (fit$d > 1) return("others at their medians")
  paste0(
    REGRESSION_TYPES[[fit$type]]$label, ", n = ", whole(fit$n), ", bandwidth ",
    format(sqrt(fit$bandwidth[1]), digits = 3)
  )
}

slice_response <- function(fit) if (ncol(fit$y) > 1) "response" else response_label(fit)
