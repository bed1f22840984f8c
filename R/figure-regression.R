#' Plot regressions, classifiers and conditional densities
#'
#' `plot()` draws with base graphics, `autoplot()` with package ggplot2.
#'
#' **[kernel_regression()]**: the fit as a curve with its pointwise confidence band, and with one variable the rows as
#' points. With several variables there is a panel for each. Numeric variables that are not on the axis are at their
#' medians, categorical ones at their most frequent category, as in `np::plot.npregression`.
#'
#' **[kernel_ridge()]**: a panel for each of
#' * observed against fitted values;
#' * residuals against fitted values;
#' * the error by iteration;
#' * the partial dependence on each variable: the mean prediction over the rows if that variable has the value on the
#'   axis in all, with intervals;
#' * the importance of each variable: its share of the mean squared change of the fitted function (for probabilities, of
#'   the log odds) after the values of the variable were replaced by those of other rows. Several responses are added,
#'   each in units of its standard deviation;
#' * directions: eigenvectors of the mean outer product of gradients in standardised columns or normal scores;
#' * for a formula with `k()`, terms of one or two variables: effects minus their means over the centres. Of two, the
#'   second is at three of its quantiles, or its categories.
#'
#' For probabilities the first two panels are calibration, the share of a class among rows of similar fitted probability
#' (up to 20 groups of equal size, with intervals of two standard errors), and the ROC curve of each class against all
#' others. These panels use the training rows, so they are optimistic.
#'
#' **[flash_kda()]**: with one variable the densities of the classes times their priors. With two, the regions where
#' each class is the most probable, paler where its probability is lower, with the rows as points.
#'
#' **[Conditional densities][flash_conditional]**:
#' * one numeric x: p(y | x) as shades over x and y, with lines of conditional quantiles and the data. The
#'   Laplace-corrected estimate has no quantiles, and its negative values are drawn as 0. The grid of x spans the middle
#'   99% of the data, the grid of y the data plus three kernel standard deviations. In each column p(. | x) integrates
#'   to 1. Sums are as accurate as in [plot.flash_kde()]. Quantiles are computed at 61 values of x;
#' * several x: for each variable a panel with the density of y at three of its quantiles, or at each of its categories.
#'   The other variables are at their medians and most frequent categories;
#' * categorical y: for each variable a panel with the probabilities of the categories;
#' * several y: no figure. Use `plot(kde_conditional(fit, given))` at one x.
#'
#' @param x,object A fit. From [kernel_ridge()] one that keeps its rows; from [flash_kda()] one with one or two
#'   variables.
#' @param variables Names of the variables shown. `NULL` (default): the first `max_dims`.
#' @param interval Type of the band: `"confidence"` (default), `"prediction"` or `"none"`.
#' @param level Level of the band or intervals.
#' @param n Number of values of a variable at which the fit is computed. For partial dependence each is a mean over up
#'   to 1,000 rows, evenly spread. For classes the number of grid points along each variable, by default 400 for one
#'   variable and 150 for two. For conditional densities the number of nodes of y; with one x there are two thirds as
#'   many nodes of x.
#' @param max_dims Number of variables shown.
#' @param points Whether to draw rows as points (for classes in one variable as a rug). A number is the largest number
#'   drawn; `TRUE` means 2,000, and 1,000 for a conditional density.
#' @param col Colour of the lines and points; several for several responses or classes. For conditional densities the
#'   colours of the shades, from low to high density, or of the curves, one for each of `prob`. For a categorical y one
#'   for each category.
#' @param which Some of `"fitted"`, `"residuals"`, `"iterations"`, `"partial"`, `"importance"`, `"directions"` and
#'   `"terms"` (the last four not for sparse rows); for `autoplot()` one of them.
#' @param se.fit Whether partial dependence and terms have intervals (not for more than two classes). `NULL` (default): up to 3,000
#'   centres.
#' @param prob Probabilities of the quantile lines (one x), or of the quantiles of each x at which the density is drawn
#'   (several x).
#' @param xlim,ylim Limits. `NULL`: those of the rows, with a margin.
#' @param ... For `plot()`: graphical parameters, such as `main`, `xlab`, `ylab`, `xlim`, `ylim`, `las`, `bty`,
#'   `cex.axis`, `pch` and `cex`. Classes, and conditional densities of one x, are computed within `xlim` and `ylim`.
#'   For `autoplot()`: not used.
#' @returns `autoplot()`: a ggplot object. `plot()`: what was drawn, invisibly:
#'   * [kernel_regression()]: a list by variable of data frames with `value`, `estimate`, `low`, `high`, and `group` for
#'     several responses.
#'   * [kernel_ridge()]: a list of data frames by panel; `partial` is a list by variable, `terms` by term, and
#'     `importance` has all variables.
#'   * [flash_kda()]: a list of `x` (and `y`) of the grid, and `prob`, a matrix of class probabilities at its points;
#'     with one variable also `density`, times priors.
#'   * Conditional density, one x: a list of `x`, `y`, the matrix `z` of p(y | x), and `quantiles`, a list of `x` and a
#'     matrix with a column for each of `prob`.
#'   * Conditional density, several x: for each variable a list of `y`, `density` (a column for each of `prob`) and
#'     `at`, the values of the variable.
#'   * Categorical y: for each variable a list of `x` and a matrix `probability`, with a column for each category.
#' @rawRd \concept{partial dependence}\concept{residual plot}\concept{variable importance}\concept{feature importance}
#' @export
#' @examples
#' plot(kernel_regression(dist ~ speed, data = cars))
#' plot(kernel_regression(mpg ~ wt + hp, data = mtcars, bandwidth = c(0.8, 60)))
#'
#' fit <- kernel_ridge(mpg ~ wt + hp + factor(cyl), data = mtcars)
#' plot(fit)
#' plot(fit, "partial", variables = "wt")
#' plot(fit, "importance")$importance
#' if (requireNamespace("ggplot2", quietly = TRUE)) ggplot2::autoplot(fit)
#'
#' plot(flash_kda(Species ~ Sepal.Length + Sepal.Width, data = iris))
#' plot(flash_kde(waiting ~ eruptions, faithful))
#' plot(flash_kde(Petal.Width ~ Petal.Length + Sepal.Width, iris))
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
    response <- if (ncol(fit$y) > 1) "response" else response_label(fit)
    panel <- slice_panel(parts[[name]], name, span, response, is.null(cloud))
    # points of a single response are grey, to differ from the curve
    if (!is.null(cloud)) {
      panel$layers <- c(list(cloud_layer(cloud, if (length(groups) == 1) "grey40")), panel$layers)
      panel$x$limits <- range(panel$x$limits, cloud$x)
    }
    panel[c("main", "sub", "key")] <- list(if (is_curve(fit)) "Kernel regression" else name, slice_label(fit), "corner")
    panel
  })
  new_figure(panels, colours = group_colours(col, groups), key = "", shown = parts)
}

# A panel of one variable: lines in their bands, or points with intervals for categories. `part`: a data frame of value,
# estimate, low, high and perhaps group, with the data as attribute.
slice_panel <- function(part, name, span, label, ticks) {
  levels <- levels(part$value)
  data <- placed(part, "value", "estimate")
  data$x <- as.numeric(data$x)
  if (is.null(levels)) {
    own <- attr(part, "data")
    rug <- data.frame(x = as.numeric(own[spread_rows(length(own), 500)]))
    layers <- c(line_with_band(data), if (ticks) list(new_layer("rug", rug)))
    limits <- range(data$x)
  } else {
    # groups are drawn beside each other
    data$x <- data$x + 0.12 * (as.integer(data$group) - (1 + nlevels(data$group)) / 2)
    layers <- list(
      if (!anyNA(data$low)) new_layer("ranges", data, width = 3), new_layer("points", data, size = 1.2, opacity = 1)
    )
    limits <- c(0.5, length(levels) + 0.5)
  }
  new_panel(layers, new_axis(name, limits, levels = levels, ticks = date_ticks(part$value)), new_axis(label, span))
}

# ---- what is shown ----------------------------------------------------------------------------

# A data frame for each variable, in a list.
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
    value <- if (is.null(levels)) as_dates(value, fit$dates[[name]]) else factor(levels, levels = levels)
    quantile <- if (interval == "none") NA else stats::qt((1 + level) / 2, residual_df(fit))
    structure(slice_frame(fit, value, found, quantile), data = own[, k])
  }), variables)
}

# Whether the fit has one numeric variable, so that its rows are shown.
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
  if (is.null(variables)) return(first_shown(known, max_dims))
  if (!is.character(variables)) stop_argument("variables", "must be names: found ", describe(variables))
  other <- setdiff(variables, known)
  if (length(other) > 0) {
    stop_argument("variables", "must be among those of the fit, ", quote_names(known), ": found ", quote_names(other))
  }
  variables
}

# Rows of a fit with one variable, evenly spread.
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
    return(paste0("others at their medians", if (!is.null(fit$discrete)) " and most frequent categories"))
  }
  paste0(
    REGRESSION_TYPES[[fit$type]]$label, ", n = ", whole(fit$n), ", bandwidth ",
    format(sqrt(fit$bandwidth[1]), digits = 3)
  )
}
