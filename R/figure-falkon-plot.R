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
#' @param x A fit from [kernel_ridge()] that keeps its rows.
#' @param which Some of `"fitted"`, `"residuals"`, `"iterations"` and `"partial"` (not of sparse rows).
#' @param variables Names of the variables whose partial dependence is shown. `NULL`: the first `max_dims`.
#' @param se Whether partial dependence has intervals (not for more than two classes). `NULL`: where there are up to
#'   3,000 centres.
#' @param level Of these intervals.
#' @param n_grid Values of a variable at which partial dependence is computed: a mean over up to 1,000 rows, evenly
#'   spread.
#' @param max_dims Number of variables shown.
#' @param points Draw rows as points? A number is the most that are drawn; `TRUE` stands for 2,000.
#' @param col Colour of the lines and points, several for classes or responses.
#' @param main Title. Each panel has its own by default.
#' @param ... Further graphical parameters, such as `las`, `bty`, `cex.axis`, `pch` and `cex`.
#' @returns What was drawn, invisibly: a list of data frames by panel, `partial` a list by variable.
#' @inheritSection flash_kde Errors
#' @seealso `ggplot2::autoplot()` draws the same figures where package ggplot2 is loaded ([autoplot.kernel_ridge()]).
#' @export
#' @examples
#' fit <- kernel_ridge(mpg ~ wt + hp + factor(cyl), data = mtcars)
#' plot(fit)
#' plot(fit, "partial", variables = "wt")
plot.kernel_ridge <- function(x, which = c("fitted", "residuals", "iterations", "partial"), variables = NULL, se = NULL,
                        level = 0.95, n_grid = 50, max_dims = 6, points = TRUE, col = NULL, main = NULL, ...) {
  check_text(main, "main")
  check_graphical(..., d = 2)
  colours <- ridge_colours(x, col)
  parts <- ridge_panels(x, which, variables, se, level, n_grid, max_dims, points)
  drawings <- panel_drawings(x, parts)
  if (length(drawings) > 1) {
    before <- graphics::par(mfrow = panel_grid(length(drawings)), mar = c(4, 4.2, 3.2, 1), mgp = c(2.4, 0.8, 0))
    on.exit(graphics::par(before))
  }
  for (draw in drawings) draw(colours, main, ...)
  invisible(parts)
}

# Rows and columns of panels: wide rather than high where the device is.
panel_grid <- function(n) {
  size <- grDevices::dev.size()
  cost <- function(rows) {
    columns <- ceiling(n / rows)
    abs(log((size[1] / columns) / (size[2] / rows) / 1.25)) + 0.15 * (rows * columns - n)
  }
  rows <- which.min(vapply(seq_len(n), cost, 0))
  c(rows, ceiling(n / rows))
}

# Okabe and Ito, as LINE_COLOUR.
GROUP_COLOURS <- c("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7F7F7F")

ridge_colours <- function(fit, col) {
  check_colours(col, "col")
  rep_len(if (is.null(col)) GROUP_COLOURS else col, max(length(fit$classes), ncol(fit$coefficients)))
}

# ---- what the panels show ---------------------------------------------------------------------

PANELS <- c("fitted", "residuals", "iterations", "partial")

# A list by panel of data frames; those that do not apply to the fit are left out.
ridge_panels <- function(fit, which, variables, se, level, n_grid, max_dims, points) {
  which <- check_panels(which)
  if (inherits(fit$centers, "sparseMatrix")) which <- setdiff(which, "partial")
  level <- check_level(level)
  n_grid <- check_count(n_grid, "n_grid", min = 2)
  most <- most_shown(points, "points", 2000L)
  if (any(which != "iterations")) kept_data(fit)
  run <- start_run(fit$control, "Partial dependence")
  variables <- shown_variables(fit, variables, check_count(max_dims, "max_dims"), "partial" %in% which)
  if (is.null(se)) se <- nrow(fit$coefficients) <= 3000
  shown <- if (any(which %in% c("fitted", "residuals"))) fit_to_show(fit)
  by_row <- if (any(c("fitted", "residuals") %in% which) && fit$loss == "squared") row_frame(shown, most)
  parts <- list(
    fitted = if ("fitted" %in% which) if (fit$loss == "squared") by_row else calibration_frame(shown),
    residuals = if ("residuals" %in% which) if (fit$loss == "squared") by_row else roc_frame(shown),
    iterations = if ("iterations" %in% which && has_trace(fit)) fit$trace,
    partial = if ("partial" %in% which) {
      partial_dependences(fit, variables, n_grid, check_flag(se, "se"), level, run)
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

# ---- drawing ----------------------------------------------------------------------------------

# Functions of colours, main and graphical parameters, one for each panel in their order.
panel_drawings <- function(fit, parts) {
  squared <- fit$loss == "squared"
  on <- \(panel, draw) list(\(colours, main, ...) draw(parts, panel_labels(fit, parts, panel), colours, main, ...))
  drawings <- list()
  if (!is.null(parts$fitted)) drawings <- c(drawings, on("fitted", if (squared) draw_observed else draw_calibration))
  if (!is.null(parts$residuals)) drawings <- c(drawings, on("residuals", if (squared) draw_residuals else draw_roc))
  if (!is.null(parts$iterations)) {
    drawings <- c(drawings, on("residual", draw_convergence))
    if (!all(is.na(parts$iterations$validation))) drawings <- c(drawings, on("validation", draw_validation))
  }
  span <- if (length(parts$partial) > 0) partial_span(parts$partial)
  for (name in names(parts$partial)) {
    drawings <- c(drawings, local({
      own <- name
      key <- name == names(parts$partial)[1]
      list(\(colours, main, ...) {
        draw_partial(parts$partial[[own]], own, span, key, panel_labels(fit, parts, "partial"), colours, main, ...)
      })
    }))
  }
  drawings
}

# One scale for all variables, so that their sizes compare.
partial_span <- function(parts) {
  range(unlist(lapply(parts, \(part) c(part$estimate, part$low, part$high))), na.rm = TRUE, finite = TRUE)
}

# An empty frame with its titles and axes. `levels`: names on the x axis in place of numbers.
draw_panel <- function(xlim, ylim, labels, main, log = "", levels = NULL, xlab = labels$x, ylab = labels$y, axes = TRUE,
                       frame.plot = axes, ...) {
  xlim <- axis_limits(xlim)
  ylim <- axis_limits(ylim)
  graphics::plot.default(
    xlim, ylim, type = "n", xlim = xlim, ylim = ylim, main = "", sub = "", axes = FALSE, xlab = xlab, ylab = ylab,
    log = log, ...
  )
  if (axes) {
    draw_axes(log = log, ..., xaxt = if (is.null(levels)) graphics::par("xaxt") else "n")
    if (!is.null(levels)) draw_levels(levels, ...)
  }
  if (frame.plot) draw_frame(...)
  draw_titles(if (is.null(main)) labels$main else main, labels$sub, ...)
}

# Limits wide enough for axis(), which has no ticks for values that differ by rounding alone. Equal limits are its own
# matter.
axis_limits <- function(limits) {
  least <- max(1e-12 * abs(limits), 1e-300)
  if (diff(limits) == 0 || diff(limits) >= least) limits else mean(limits) + c(-least, least) / 2
}

# An axis with every name, however narrow the panel.
draw_levels <- function(levels, cex.axis = graphics::par("cex.axis"), ...) {
  room <- 0.95 * graphics::par("pin")[1] / length(levels)
  width <- max(graphics::strwidth(levels, "inches", cex = cex.axis))
  given <- list(...)
  given <- given[names(given) %in% c("las", "col.axis", "font.axis", "mgp", "tck", "tcl", "family")]
  do.call(graphics::axis, c(
    list(1, seq_along(levels), levels, gap.axis = -1, cex.axis = cex.axis * max(0.4, min(1, room / width))), given
  ))
}

group_of <- function(frame) if (is.null(frame$group)) rep(1L, nrow(frame)) else as.integer(frame$group)

draw_cloud <- function(x, y, group, colours, pch = 16, cex = if (length(x) > 500) 0.7 else 1, ...) {
  opacity <- min(0.8, max(0.2, 250 / max(length(x), 1)))
  graphics::points(x, y, pch = pch, cex = cex, col = grDevices::adjustcolor(colours, opacity)[group])
}

draw_observed <- function(parts, labels, colours, main, ...) {
  frame <- parts$fitted
  draw_panel(range(frame$fitted), range(frame$observed), labels, main, ...)
  graphics::abline(0, 1, col = "grey60", lwd = 1)
  draw_cloud(frame$fitted, frame$observed, group_of(frame), colours, ...)
  draw_key(levels(frame$group), colours, cbind(frame$fitted, frame$observed))
}

draw_residuals <- function(parts, labels, colours, main, ...) {
  frame <- parts$residuals
  draw_panel(range(frame$fitted), range(frame$residual), labels, main, ...)
  graphics::abline(h = 0, col = "grey60", lwd = 1)
  group <- group_of(frame)
  draw_cloud(frame$fitted, frame$residual, group, colours, ...)
  for (k in unique(group)) {
    rows <- group == k & is.finite(frame$fitted)
    if (sum(rows) < 10) next
    graphics::lines(stats::lowess(frame$fitted[rows], frame$residual[rows]), col = SMOOTH_COLOUR, lwd = 2)
  }
}

# Of what is not the fit's own: trends and the best iteration.
SMOOTH_COLOUR <- "#D55E00"

draw_calibration <- function(parts, labels, colours, main, ...) {
  frame <- parts$fitted
  draw_panel(c(0, 1), c(0, 1), labels, main, ...)
  graphics::abline(0, 1, col = "grey60", lwd = 1)
  colour <- colours[group_of(frame)]
  pale <- grDevices::adjustcolor(colour, 0.5)
  graphics::segments(frame$fitted, frame$low, frame$fitted, frame$high, col = pale, lwd = 1.5)
  graphics::points(frame$fitted, frame$observed, pch = 16, col = colour)
  draw_key(levels(frame$group), colours, cbind(frame$fitted, frame$observed))
}

draw_roc <- function(parts, labels, colours, main, ...) {
  frame <- parts$residuals
  draw_panel(c(0, 1), c(0, 1), labels, main, ...)
  graphics::abline(0, 1, col = "grey60", lwd = 1)
  group <- group_of(frame)
  for (k in unique(group)) graphics::lines(frame$false[group == k], frame$true[group == k], col = colours[k], lwd = 2)
  draw_key(levels(frame$group), colours, cbind(frame$false, frame$true))
}

draw_convergence <- function(parts, labels, colours, main, ...) {
  trace <- parts$iterations[parts$iterations$residual > 0, ]
  draw_panel(range(parts$iterations$iteration), range(trace$residual), labels, main, log = "y", ...)
  graphics::lines(trace$iteration, trace$residual, type = "o", pch = 16, cex = 0.7, col = colours[1], lwd = 2)
}

draw_validation <- function(parts, labels, colours, main, ...) {
  trace <- parts$iterations[!is.na(parts$iterations$validation), ]
  log <- if (all(trace$validation > 0)) "y" else ""
  draw_panel(range(trace$iteration), range(trace$validation), labels, main, log = log, ...)
  graphics::lines(trace$iteration, trace$validation, type = "o", pch = 16, cex = 0.7, col = colours[1], lwd = 2)
  best <- which.min(trace$validation)
  graphics::points(trace$iteration[best], trace$validation[best], pch = 1, cex = 1.8, lwd = 2, col = SMOOTH_COLOUR)
}

# `span`: of the y axis; `key`: whether groups are named.
draw_partial <- function(part, name, span, key, labels, colours, main, ...) {
  group <- group_of(part)
  is_line <- is.numeric(part$value)
  levels <- levels(part$value)
  x <- as.numeric(part$value)
  xlim <- if (is_line) range(x) else c(0.5, length(levels) + 0.5)
  draw_panel(xlim, span, labels, main, levels = levels, xlab = name, ...)
  for (k in unique(group)) {
    rows <- group == k
    if (is_line) {
      draw_band(part[rows, ], colours[k])
      graphics::lines(x[rows], part$estimate[rows], col = colours[k], lwd = 2)
    } else {
      at <- x[rows] + (k - mean(unique(group))) * 0.12
      pale <- grDevices::adjustcolor(colours[k], 0.5)
      graphics::segments(at, part$low[rows], at, part$high[rows], col = pale, lwd = 3)
      graphics::points(at, part$estimate[rows], pch = 16, cex = 1.2, col = colours[k])
    }
  }
  own <- attr(part, "data")
  if (is_line) draw_rug(own[unique(round(seq(1, length(own), length.out = min(length(own), 500))))])
  if (key) draw_key(levels(part$group), colours, cbind(x, part$estimate))
}

draw_band <- function(part, colour) {
  if (anyNA(part$low)) return(invisible())
  pale <- grDevices::adjustcolor(colour, 0.2)
  graphics::polygon(c(part$value, rev(part$value)), c(part$low, rev(part$high)), col = pale, border = NA)
}

# Of several classes or responses.
draw_key <- function(groups, colours, data) {
  if (length(groups) > 1) draw_region_key(groups, colours[seq_along(groups)], data)
}
