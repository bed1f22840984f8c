#' Plot a kernel regression
#'
#' One figure with a panel for each of these: observed against fitted values; residuals against fitted values; the error
#' by iteration; and the partial dependence of the prediction on each variable, which is the mean prediction over the
#' rows when that variable has the value on the axis in all of them, with intervals.
#'
#' For probabilities the first two panels are others: calibration, the share of a class in rows of about the same fitted
#' probability (up to 20 groups of equally many rows, with intervals of two standard errors), and the ROC curve of each
#' class against all others. All are of the rows of the fit: the function is too good there by as much as it is free to
#' follow them.
#'
#' @param x,object A fit from [kernel_ridge()] that keeps its rows.
#' @param which Some of `"fitted"`, `"residuals"`, `"iterations"` and `"partial"` (not of sparse rows); for `autoplot()`
#'   one of them.
#' @param variables Names of the variables whose partial dependence is shown. `NULL`: the first `max_dims`.
#' @param se.fit Whether partial dependence has intervals (not for more than two classes). `NULL`: where there are up to
#'   3,000 centres.
#' @param level Of these intervals.
#' @param n Values of a variable at which partial dependence is computed: a mean over up to 1,000 rows, evenly
#'   spread.
#' @param max_dims Number of variables shown.
#' @param points Draw rows as points? A number is the most that are drawn; `TRUE` stands for 2,000.
#' @param col Colour of the lines and points, several for classes or responses.
#' @param ... For `plot()`: graphical parameters, such as `main`, `las`, `bty`, `cex.axis`, `pch` and `cex`. For
#'   `autoplot()`: not used.
#' @returns What was drawn, invisibly: a list of data frames by panel, `partial` a list by variable.
#'   `autoplot()`: a ggplot object.
#' @export
#' @examples
#' fit <- kernel_ridge(mpg ~ wt + hp + factor(cyl), data = mtcars)
#' plot(fit)
#' plot(fit, "partial", variables = "wt")
#' if (requireNamespace("ggplot2", quietly = TRUE)) ggplot2::autoplot(fit)
plot.kernel_ridge <- function(x, which = c("fitted", "residuals", "iterations", "partial"), variables = NULL, se.fit = NULL,
                        level = 0.95, n = 50, max_dims = 6, points = TRUE, col = NULL, ...) {
  check_graphical(..., d = 2)
  draw_figure(ridge_figure(x, which, variables, se.fit, level, n, max_dims, points, col), ...)
}

#' @rdname plot.kernel_ridge
#' @exportS3Method ggplot2::autoplot
autoplot.kernel_ridge <- function(object, which = c("partial", "fitted", "residuals", "iterations"), variables = NULL,
                            se.fit = NULL, level = 0.95, n = 50, max_dims = 6, points = TRUE, col = NULL, ...) {
  check_dots_empty(...)
  which <- check_choice(which, c("partial", "fitted", "residuals", "iterations"), "which")
  figure <- ridge_figure(object, which, variables, se.fit, level, n, max_dims, points, col)
  if (length(figure$panels) == 0) stop_argument("which", "must be something that the fit has: found no iterations")
  ggplot_figure(figure)
}

ridge_figure <- function(fit, which, variables, se.fit, level, n, max_dims, points, col) {
  check_colours(col, "col")
  parts <- ridge_panels(fit, which, variables, se.fit, level, n, max_dims, points)
  groups <- unique(unlist(lapply(c(parts[c("fitted", "residuals")], parts$partial), \(part) levels(part$group))))
  colours <- group_colours(col, if (length(groups) == 0) "all" else groups)
  squared <- fit$loss == "squared"
  make <- \(panel, of_part, ...) {
    labels <- panel_labels(fit, parts, panel)
    made <- of_part(..., labels)
    made[c("main", "sub")] <- labels[c("main", "sub")]
    made
  }
  panels <- list()
  if (!is.null(parts$fitted)) {
    panels$Fitted <- make("fitted", if (squared) observed_panel else calibration_panel, with_group(parts$fitted))
  }
  if (!is.null(parts$residuals)) {
    panels$Residuals <- make("residuals", if (squared) residual_panel else roc_panel, with_group(parts$residuals))
  }
  trace <- parts$iterations
  if (!is.null(trace)) {
    panels[["Relative residual"]] <- make("residual", trace_panel, trace, "residual", colours[[1]])
    if (!all(is.na(trace$validation))) {
      name <- paste(panel_labels(fit, parts, "validation")$y, "of rows held out")
      panels[[name]] <- make("validation", trace_panel, trace, "validation", colours[[1]])
    }
  }
  if (length(parts$partial) > 0) {
    # one scale for all variables, so that their sizes compare
    span <- range(unlist(lapply(parts$partial, `[`, c("estimate", "low", "high"))), na.rm = TRUE, finite = TRUE)
    for (name in names(parts$partial)) {
      panel <- make("partial", \(labels) slice_panel(parts$partial[[name]], name, span, labels$y, TRUE))
      if (name == names(parts$partial)[1]) panel$key <- "corner"
      panels <- c(panels, stats::setNames(list(panel), name))
    }
  }
  new_figure(panels, colours = colours, key = "", shown = parts)
}

# Frames without groups have one, which no key names.
with_group <- function(frame) {
  if (is.null(frame$group)) frame$group <- factor("all")
  frame
}

# ---- panels -------------------------------------------------------------------------------------

cloud_layer <- function(data) {
  new_layer("points", data, size = if (nrow(data) > 500) 0.7 else 1, opacity = cloud_opacity(nrow(data)))
}

observed_panel <- function(frame, labels) {
  data <- data.frame(x = frame$fitted, y = frame$observed, group = frame$group)
  new_panel(
    list(new_layer("rule", diagonal = TRUE), cloud_layer(data)), new_axis(labels$x, range(data$x)),
    new_axis(labels$y, range(data$y)), key = "corner"
  )
}

residual_panel <- function(frame, labels) {
  data <- data.frame(x = frame$fitted, y = frame$residual, group = frame$group)
  smooth <- lapply(split(data, data$group), \(part) {
    part <- part[is.finite(part$x), ]
    if (nrow(part) >= 10) cbind(as.data.frame(stats::lowess(part$x, part$y)), piece = part$group[1])
  })
  smooth <- do.call(rbind, unname(smooth))
  layers <- list(
    new_layer("rule", h = 0, colour = "grey60"), cloud_layer(data),
    if (!is.null(smooth)) new_layer("line", smooth, SMOOTH_COLOUR)
  )
  new_panel(layers, new_axis(labels$x, range(data$x)), new_axis(labels$y, range(data$y)))
}

calibration_panel <- function(frame, labels) {
  data <- data.frame(x = frame$fitted, y = frame$observed, low = frame$low, high = frame$high, group = frame$group)
  layers <- list(
    new_layer("rule", diagonal = TRUE), new_layer("ranges", data, width = 1.5),
    new_layer("points", data, size = 1, opacity = 1)
  )
  new_panel(layers, new_axis(labels$x, 0:1), new_axis(labels$y, 0:1), key = "corner")
}

roc_panel <- function(frame, labels) {
  data <- data.frame(x = frame$false, y = frame$true, group = frame$group)
  layers <- list(new_layer("rule", diagonal = TRUE), new_layer("line", data))
  new_panel(layers, new_axis(labels$x, 0:1), new_axis(labels$y, 0:1), key = "corner")
}

# The residual or the error of held-out rows by iteration, the best of the latter with a ring.
trace_panel <- function(trace, what, colour, labels) {
  data <- data.frame(x = trace$iteration, y = trace[[what]])
  data <- data[if (what == "residual") data$y > 0 else !is.na(data$y), ]
  layers <- list(
    new_layer("line", data, colour, dots = TRUE),
    if (what == "validation") {
      new_layer("points", data[which.min(data$y), ], SMOOTH_COLOUR, shape = 1, size = 1.8, width = 2, opacity = 1)
    }
  )
  x <- new_axis(labels$x, range(if (what == "residual") trace$iteration else data$x))
  new_panel(layers, x, new_axis(labels$y, range(data$y), log = all(data$y > 0)))
}

# ---- what the panels show ---------------------------------------------------------------------

PANELS <- c("fitted", "residuals", "iterations", "partial")

# A list by panel of data frames; those that do not apply to the fit are left out.
ridge_panels <- function(fit, which, variables, se.fit, level, n, max_dims, points) {
  which <- check_panels(which)
  if (inherits(fit$centers, "sparseMatrix")) which <- setdiff(which, "partial")
  level <- check_level(level)
  n <- check_count(n, "n", min = 2)
  most <- most_shown(points, "points", 2000L)
  if (any(which != "iterations")) kept_data(fit)
  run <- start_run(fit$control, "Partial dependence")
  variables <- shown_variables(fit, variables, check_count(max_dims, "max_dims"), "partial" %in% which)
  if (is.null(se.fit)) se.fit <- nrow(fit$coefficients) <= 3000
  shown <- if (any(which %in% c("fitted", "residuals"))) fit_to_show(fit)
  by_row <- if (any(c("fitted", "residuals") %in% which) && fit$loss == "squared") row_frame(shown, most)
  parts <- list(
    fitted = if ("fitted" %in% which) if (fit$loss == "squared") by_row else calibration_frame(shown),
    residuals = if ("residuals" %in% which) if (fit$loss == "squared") by_row else roc_frame(shown),
    iterations = if ("iterations" %in% which && has_trace(fit)) fit$trace,
    partial = if ("partial" %in% which) {
      partial_dependences(fit, variables, n, check_flag(se.fit, "se.fit"), level, run)
    }
  )
  Filter(Negate(is.null), parts)
}

check_panels <- function(which) {
  if (is.numeric(which) && all(which %in% seq_along(PANELS))) which <- PANELS[which]
  if (!is.character(which) || length(which) == 0 || anyNA(which)) {
    stop_argument("which", "must be some of ", quote_choices(PANELS), ": found ", describe(which))
  }
  unique(vapply(which, check_choice, "", PANELS, "which", USE.NAMES = FALSE))
}

# Its axis is logarithmic, and has no place for residuals that are all 0.
has_trace <- function(fit) is.data.frame(fit$trace) && nrow(fit$trace) > 1 && any(fit$trace$residual > 0)

shown_variables <- function(fit, variables, max_dims, needed) {
  all <- check_variables(fit, variables)
  if (!is.null(variables) || length(all) <= max_dims) return(all)
  if (needed) message(sprintf("showing the first %d of %d variables; `max_dims` sets how many", max_dims, length(all)))
  all[seq_len(max_dims)]
}

# Observed and fitted values, at rows evenly spread.
row_frame <- function(fit, most) {
  rows <- seq_len(fit$n)
  if (fit$n > most) rows <- if (most == 0) integer() else round(seq(1, fit$n, length.out = most))
  y <- fit$data$y[rows, , drop = FALSE]
  fitted <- fit_means(fit)[rows, , drop = FALSE]
  frame <- data.frame(fitted = as.vector(fitted), observed = as.vector(y), residual = as.vector(y - fitted))
  if (ncol(y) > 1) frame$group <- factor(rep(output_names(fit), each = length(rows)), levels = output_names(fit))
  frame
}

# The classes that panels show: the second of two, or all.
shown_classes <- function(fit) if (length(fit$classes) == 2) fit$classes[2] else fit$classes

# list by class of list(p, is, w): fitted probabilities, whether rows are of the class, weights.
class_views <- function(fit) {
  p <- fit_means(fit)
  codes <- class_codes(fit$data$y)
  of <- match(shown_classes(fit), fit$classes)
  w <- fit_weights(fit)
  lapply(seq_along(of), \(k) list(p = p[, k], is = codes == of[k], w = w))
}

# Groups of about equally many rows by fitted probability: `fitted`, the mean of these, `observed`, the share of the
# class, `low` and `high`, and `rows`.
calibration_frame <- function(fit, most = 20) {
  groups <- min(most, max(2, floor(fit$n / 10)))
  of_class <- \(view) {
    cut <- ceiling(groups * rank(view$p, ties.method = "average") / length(view$p))
    one <- \(rows) {
      w <- view$w[rows]
      if (sum(w) == 0) return(NULL)
      share <- sum(w * view$is[rows]) / sum(w)
      # of the share with two rows more of either kind, so that it has a width at 0 and 1
      size <- sum(w)^2 / sum(w^2)
      middle <- (size * share + 2) / (size + 4)
      width <- 2 * sqrt(middle * (1 - middle) / (size + 4))
      data.frame(
        fitted = sum(w * view$p[rows]) / sum(w), observed = share, low = max(0, middle - width),
        high = min(1, middle + width), rows = length(rows)
      )
    }
    do.call(rbind, unname(lapply(split(seq_along(cut), cut), one)))
  }
  bind_classes(fit, lapply(class_views(fit), of_class))
}

# The part of rows of the class, and of others, above every threshold.
roc_frame <- function(fit, most = 500) {
  of_class <- \(view) {
    order <- order(view$p, decreasing = TRUE)
    last <- !duplicated(view$p[order], fromLast = TRUE)
    w <- view$w[order]
    hits <- c(0, cumsum(w * view$is[order])[last]) / sum(view$w * view$is)
    false <- c(0, cumsum(w * !view$is[order])[last]) / sum(view$w * !view$is)
    area <- sum(diff(false) * (utils::head(hits, -1) + hits[-1]) / 2)
    shown <- unique(round(seq(1, length(hits), length.out = min(length(hits), most))))
    data.frame(false = false[shown], true = hits[shown], auc = area)
  }
  bind_classes(fit, lapply(class_views(fit), of_class))
}

bind_classes <- function(fit, frames) {
  classes <- shown_classes(fit)
  if (length(classes) == 1) return(frames[[1]])
  do.call(rbind, lapply(seq_along(frames), \(k) cbind(group = factor(classes[k], levels = classes), frames[[k]])))
}

# ---- in words, for both kinds of figures ------------------------------------------------------

response_label <- function(fit) {
  if (!is.null(fit$response)) return(fit$response)
  written <- fit$call$y
  if (is.name(written) || is_element(written)) deparse1(written) else "y"
}

# list(main, sub, x, y) of a panel of the name `panel`.
panel_labels <- function(fit, parts, panel) {
  y <- response_label(fit)
  squared <- fit$loss == "squared"
  probability <- if (length(fit$classes) == 2) paste0("P(", fit$classes[2], ")") else "Probability"
  switch(panel,
    fitted = list(
      main = if (squared) "Observed and fitted" else "Calibration", sub = error_label(fit),
      x = if (squared) "Fitted" else paste("Fitted", sub("^Prob", "prob", probability)),
      y = if (squared) y else "Share of rows"
    ),
    residuals = list(
      main = if (squared) "Residuals" else "ROC curve",
      sub = if (squared) sigma_label(parts$residuals) else auc_label(parts$residuals),
      x = if (squared) "Fitted" else "False positives", y = if (squared) "Residual" else "True positives"
    ),
    residual = list(
      main = "Convergence", sub = sub(" \\(.*", "", solver_label(fit)), x = step_label(fit), y = "Relative residual"
    ),
    validation = list(
      main = "Rows held out", sub = paste("least after", fit$best_iteration), x = step_label(fit),
      y = if (!squared) "Log loss" else if (is.null(fit$classes)) "RMSE" else "Part misclassified"
    ),
    partial = list(
      main = "Partial dependence", sub = "", y = if (squared) {
        paste("Mean fitted", if (length(fit$outputs) > 1) "response" else y)
      } else {
        paste("Mean", sub("^Prob", "prob", probability))
      }
    )
  )
}

step_label <- function(fit) sub("^i", "I", step_name(fit))

error_label <- function(fit) {
  error <- fit_error(fit)
  if (is.matrix(error)) return(paste("R-squared", paste(format(error[, 2], digits = 2), collapse = ", ")))
  error <- error[setdiff(names(error), "deviance")]
  describe_error(error, 3)
}

sigma_label <- function(frame) paste("half of them within", format(stats::median(abs(frame$residual)), digits = 2))

auc_label <- function(frame) {
  areas <- if (is.null(frame$group)) frame$auc[1] else tapply(frame$auc, frame$group, `[`, 1)
  paste("area", paste(format(areas, digits = 3), collapse = ", "))
}
