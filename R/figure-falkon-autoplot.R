#' Plot a kernel regression with ggplot2
#'
#' One kind of panel of [plot.kernel_ridge()] as a ggplot object; partial dependence with a facet for each variable. Needs the
#' package ggplot2; call `ggplot2::autoplot(fit)`.
#'
#' @param object A fit from [kernel_ridge()] that keeps its rows.
#' @param which One of `"partial"`, `"fitted"`, `"residuals"` and `"iterations"`.
#' @inheritParams plot.kernel_ridge
#' @param ... Not used; anything here is an error.
#' @return A ggplot object.
#' @inheritSection flash_kde Errors
#' @examplesIf requireNamespace("ggplot2", quietly = TRUE)
#' fit <- kernel_ridge(mpg ~ wt + hp + factor(cyl), data = mtcars)
#' ggplot2::autoplot(fit) + ggplot2::theme_minimal()
#' @exportS3Method ggplot2::autoplot
autoplot.kernel_ridge <- function(object, which = c("partial", "fitted", "residuals", "iterations"), variables = NULL,
                            se = NULL, level = 0.95, n_grid = 50, max_dims = 6, points = TRUE, col = NULL, ...) {
  check_dots_empty(...)
  which <- check_choice(which, c("partial", "fitted", "residuals", "iterations"), "which")
  colours <- ridge_colours(object, col)
  parts <- ridge_panels(object, which, variables, se, level, n_grid, max_dims, points)
  if (is.null(parts[[which]])) stop_argument("which", "must be something that the fit has: found no iterations")
  squared <- object$loss == "squared"
  labels <- panel_labels(object, parts, if (which == "iterations") "residual" else which)
  layers <- switch(which,
    partial = partial_layers(parts$partial, colours),
    fitted = if (squared) observed_layers(parts$fitted, colours) else calibration_layers(parts$fitted, colours),
    residuals = if (squared) residual_layers(parts$residuals, colours) else roc_layers(parts$residuals, colours),
    iterations = iteration_layers(parts$iterations, panel_labels(object, parts, "validation")$y, colours)
  )
  names <- ggplot2::labs(
    x = if (which != "partial") labels$x, y = if (which != "iterations") labels$y, title = labels$main,
    subtitle = if (nzchar(labels$sub)) labels$sub
  )
  ggplot2::ggplot() + layers + group_scales(parts[[which]], colours) + names
}

# Frames without groups have one, which no key names.
with_group <- function(frame) {
  if (is.null(frame$group)) frame$group <- factor("all")
  frame
}

group_scales <- function(frame, colours) {
  if (is.list(frame) && !is.data.frame(frame)) frame <- frame[[1]]
  groups <- levels(with_group(frame)$group)
  guide <- if (length(groups) > 1) "legend" else "none"
  values <- stats::setNames(colours[seq_along(groups)], groups)
  list(ggplot2::scale_colour_manual(NULL, values = values, guide = guide, aesthetics = c("colour", "fill")))
}

observed_layers <- function(frame, colours) {
  list(
    ggplot2::geom_abline(colour = "grey60"),
    ggplot2::geom_point(
      ggplot2::aes(x = .data$fitted, y = .data$observed, colour = .data$group),
      data = with_group(frame), alpha = min(0.8, max(0.2, 250 / nrow(frame)))
    )
  )
}

residual_layers <- function(frame, colours) {
  frame <- with_group(frame)
  smooth <- do.call(rbind, lapply(split(frame, frame$group), \(part) {
    if (nrow(part) >= 10) cbind(as.data.frame(stats::lowess(part$fitted, part$residual)), group = part$group[1])
  }))
  list(
    ggplot2::geom_hline(yintercept = 0, colour = "grey60"),
    ggplot2::geom_point(
      ggplot2::aes(x = .data$fitted, y = .data$residual, colour = .data$group),
      data = frame, alpha = min(0.8, max(0.2, 250 / nrow(frame)))
    ),
    if (!is.null(smooth)) ggplot2::geom_line(
      ggplot2::aes(x = .data$x, y = .data$y, group = .data$group), data = smooth, colour = SMOOTH_COLOUR, linewidth = 0.8
    )
  )
}

calibration_layers <- function(frame, colours) {
  list(
    ggplot2::geom_abline(colour = "grey60"),
    ggplot2::geom_pointrange(
      ggplot2::aes(x = .data$fitted, y = .data$observed, ymin = .data$low, ymax = .data$high, colour = .data$group),
      data = with_group(frame)
    ),
    ggplot2::coord_cartesian(xlim = c(0, 1), ylim = c(0, 1))
  )
}

roc_layers <- function(frame, colours) {
  list(
    ggplot2::geom_abline(colour = "grey60"),
    ggplot2::geom_path(
      ggplot2::aes(x = .data$false, y = .data$true, colour = .data$group), data = with_group(frame), linewidth = 0.8
    ),
    ggplot2::coord_equal(xlim = c(0, 1), ylim = c(0, 1))
  )
}

# The residual, and the error of held-out rows above it where there are some.
iteration_layers <- function(trace, error, colours) {
  frame_of <- \(rows, what, value) data.frame(iteration = trace$iteration[rows], what = what, value = value[rows])
  held <- which(!is.na(trace$validation))
  error <- paste(error, "of rows held out")
  long <- frame_of(seq_len(nrow(trace)), "Relative residual", trace$residual)
  if (length(held) > 0) long <- rbind(long, frame_of(held, error, trace$validation))
  long <- long[long$value > 0, ]
  at <- ggplot2::aes(x = .data$iteration, y = .data$value)
  layers <- list(
    ggplot2::geom_line(at, data = long, colour = colours[1], linewidth = 0.8),
    ggplot2::geom_point(at, data = long, colour = colours[1]),
    ggplot2::scale_y_log10(), ggplot2::facet_wrap(ggplot2::vars(.data$what), scales = "free_y")
  )
  if (length(held) == 0) return(layers)
  best <- frame_of(which.min(trace$validation), error, trace$validation)
  c(layers, list(ggplot2::geom_point(at, data = best, shape = 1, size = 4, stroke = 1, colour = SMOOTH_COLOUR)))
}

# A facet has one kind of axis: levels lie at whole numbers far away from the values of the other variables, where the
# axis finds their names.
partial_layers <- function(parts, colours) {
  far <- 10 * max(1, unlist(lapply(parts, \(part) if (is.numeric(part$value)) abs(part$value))))
  names <- character()
  long <- do.call(rbind, lapply(seq_along(parts), \(i) {
    part <- with_group(parts[[i]])
    is_line <- is.numeric(part$value)
    x <- if (is_line) part$value else round(far * (i + 1)) + as.integer(part$value)
    if (!is_line) names[as.character(x)] <<- as.character(part$value)
    data.frame(
      variable = factor(names(parts)[i], levels = names(parts)), x = x, estimate = part$estimate, low = part$low,
      high = part$high, group = part$group, line = is_line
    )
  }))
  places <- as.numeric(names(names))
  breaks <- \(limits) {
    inside <- places[places >= limits[1] & places <= limits[2]]
    if (length(inside) > 0) inside else pretty(limits)
  }
  label <- \(at) ifelse(as.character(at) %in% names(names), names[as.character(at)], axis_labels_of(at))
  at <- ggplot2::aes(x = .data$x, y = .data$estimate, colour = .data$group)
  level <- long[!long$line, ]
  ends <- ggplot2::aes(x = .data$x, ymin = .data$low, ymax = .data$high, colour = .data$group)
  band <- long[long$line & !is.na(long$low), ]
  list(
    if (nrow(band) > 0) ggplot2::geom_ribbon(
      ggplot2::aes(x = .data$x, ymin = .data$low, ymax = .data$high, fill = .data$group), data = band, alpha = 0.2
    ),
    if (any(long$line)) ggplot2::geom_line(at, data = long[long$line, ], linewidth = 0.8),
    if (!anyNA(level$low)) ggplot2::geom_linerange(ends, data = level, position = ggplot2::position_dodge(0.3)),
    ggplot2::geom_point(at, data = level, size = 2.5, position = ggplot2::position_dodge(0.3)),
    ggplot2::scale_x_continuous(breaks = breaks, labels = label),
    ggplot2::facet_wrap(ggplot2::vars(.data$variable), scales = "free_x")
  )
}
