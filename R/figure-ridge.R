#' @rdname plot.kernel_regression
#' @export
plot.kernel_ridge <- function(x, which = c("fitted", "residuals", "iterations", "partial"), variables = NULL, se.fit = NULL,
                        level = 0.95, n = 50, max_dims = 6, points = TRUE, col = NULL, ...) {
  check_graphical(..., d = 2)
  draw_figure(ridge_figure(x, which, variables, se.fit, level, n, max_dims, points, col), ...)
}

#' @rdname plot.kernel_regression
#' @exportS3Method ggplot2::autoplot
autoplot.kernel_ridge <- function(object, which = c("partial", setdiff(PANELS, "partial")), variables = NULL, se.fit = NULL,
                            level = 0.95, n = 50, max_dims = 6, points = TRUE, col = NULL, ...) {
  check_dots_empty(...)
  which <- check_choice(which, c("partial", setdiff(PANELS, "partial")), "which")
  figure <- ridge_figure(object, which, variables, se.fit, level, n, max_dims, points, col)
  if (length(figure$panels) == 0) stop_argument("which", "must be a panel that the fit has: found no ", which)
  ggplot_figure(figure, list(title = if (which == "terms" && length(figure$panels) > 1) "Effects of terms"))
}

ridge_figure <- function(fit, which, variables, se.fit, level, n, max_dims, points, col) {
  check_colours(col, "col")
  parts <- ridge_parts(fit, which, variables, se.fit, level, n, max_dims, points)
  groups <- unique(unlist(lapply(c(parts[c("fitted", "residuals")], parts$partial, parts$terms), \(part) levels(part$group))))
  colours <- group_colours(col, if (length(groups) == 0) "all" else groups)
  makers <- list(
    fitted = if (!has_probabilities(fit)) observed_panel else calibration_panel,
    residuals = if (!has_probabilities(fit)) residual_panel else roc_panel,
    iterations = \(fit, trace) trace_panels(fit, trace, colours[[1]]), partial = partial_panels,
    importance = importance_panel, directions = direction_panels, terms = term_panels
  )
  panels <- lapply(names(parts), \(name) makers[[name]](fit, parts[[name]]))
  new_figure(unlist(panels, FALSE), colours = colours, key = "", shown = parts)
}

# ---- panels: lists of them by name ----------------------------------------------------------------

observed_panel <- function(fit, frame) {
  data <- placed(frame, "fitted", "observed")
  list(Fitted = new_panel(
    list(new_layer("rule", diagonal = TRUE), cloud_layer(data)), new_axis("Fitted", range(data$x)),
    new_axis(response_label(fit), range(data$y)), "Observed and fitted", error_label(fit), key = "corner"
  ))
}

residual_panel <- function(fit, frame) {
  data <- placed(frame, "fitted", "residual")
  smooth <- lapply(split(data, data$group), \(part) {
    part <- part[is.finite(part$x), ]
    if (nrow(part) >= 10) cbind(as.data.frame(stats::lowess(part$x, part$y)), piece = part$group[1])
  })
  smooth <- do.call(rbind, unname(smooth))
  layers <- list(
    new_layer("rule", h = 0, colour = "grey60"), cloud_layer(data),
    if (!is.null(smooth)) new_layer("line", smooth, SMOOTH_COLOUR)
  )
  half <- paste("half of them within", format(stats::median(abs(frame$residual)), digits = 2))
  list(Residuals = new_panel(
    layers, new_axis("Fitted", range(data$x)), new_axis("Residual", range(data$y)), "Residuals", half
  ))
}

# A panel of shares: both axes are from 0 to 1.
share_panel_of <- function(layers, x, y, main, sub) {
  layers <- c(list(new_layer("rule", diagonal = TRUE)), layers)
  new_panel(layers, new_axis(x, 0:1), new_axis(y, 0:1), main, sub, key = "corner")
}

calibration_panel <- function(fit, frame) {
  data <- placed(frame, "fitted", "observed")
  layers <- list(new_layer("ranges", data, width = 1.5), new_layer("points", data, size = 1, opacity = 1))
  x <- paste("Fitted", probability_label(fit))
  list(Fitted = share_panel_of(layers, x, "Share of rows", "Calibration", error_label(fit)))
}

roc_panel <- function(fit, frame) {
  data <- placed(frame, "false", "true")
  areas <- tapply(data$auc, data$group, `[`, 1)
  area <- paste("area", paste(format(areas, digits = 3), collapse = ", "))
  layers <- list(new_layer("line", data))
  list(Residuals = share_panel_of(layers, "False positives", "True positives", "ROC curve", area))
}

# Panels of the residual and of the validation error by iteration. A ring marks the iteration with the least error.
trace_panels <- function(fit, trace, colour) {
  step <- sub("^i", "I", step_name(fit))
  panel <- function(what, x, label, main, sub) {
    data <- data.frame(x = trace$iteration, y = trace[[what]])
    data <- data[if (what == "residual") data$y > 0 else !is.na(data$y), ]
    layers <- list(
      new_layer("line", data, colour, dots = TRUE),
      if (what == "validation") {
        new_layer("points", data[which.min(data$y), ], SMOOTH_COLOUR, shape = 1, size = 1.8, width = 2, opacity = 1)
      }
    )
    y <- new_axis(label, range(data$y), log = all(data$y > 0))
    new_panel(layers, new_axis(step, range(if (is.null(x)) data$x else x)), y, main, sub)
  }
  solver <- sub(" \\(.*", "", solver_label(fit))
  panels <- list("Relative residual" = panel("residual", trace$iteration, "Relative residual", "Convergence", solver))
  if (all(is.na(trace$validation))) return(panels)
  error <- error_name(fit)
  substr(error, 1, 1) <- toupper(substr(error, 1, 1))
  held <- panel("validation", NULL, error, "Rows held out", paste("least after", fit$best_iteration))
  c(panels, stats::setNames(list(held), paste(error, "of rows held out")))
}

partial_panels <- function(fit, slices) {
  # all variables have the same scale
  span <- range(unlist(lapply(slices, `[`, c("estimate", "low", "high"))), na.rm = TRUE, finite = TRUE)
  label <- if (has_probabilities(fit)) paste("Mean", probability_label(fit)) else {
    paste("Mean fitted", if (length(fit$outputs) > 1) "response" else response_label(fit))
  }
  panels <- lapply(stats::setNames(nm = names(slices)), \(name) {
    panel <- slice_panel(slices[[name]], name, span, label, TRUE)
    panel[c("main", "sub")] <- c("Partial dependence", "")
    panel
  })
  panels[[1]]$key <- "corner"
  panels
}

term_panels <- function(fit, curves) {
  # all terms have the same scale
  span <- range(unlist(lapply(curves, `[`, c("estimate", "low", "high"))), na.rm = TRUE, finite = TRUE)
  label <- paste("Effect on", response_label(fit))
  lapply(stats::setNames(nm = names(curves)), \(name) {
    curve <- curves[[name]]
    panel <- slice_panel(curve, attr(curve, "variable"), span, label, TRUE)
    panel[c("main", "sub")] <- c(name, "")
    if (nlevels(curve$group) > 1) panel[c("key", "groups")] <- list("corner", levels(curve$group))
    panel
  })
}

# The most variables of a panel of importance, and the most directions and columns of panels of directions.
IMPORTANCE_SHOWN <- c(variables = 20, directions = 3, columns = 10)

# A line from 0 to each number, and a point at its end, beside the names: those of the first number are on top.
lollipop_panel <- function(values, names, label, limits, ...) {
  place <- rev(seq_along(values))
  stems <- data.frame(x = as.vector(rbind(0, values)), y = rep(place, each = 2), piece = rep(names, each = 2))
  ends <- data.frame(x = values, y = place)
  layers <- list(
    new_layer("line", stems, LINE_COLOUR, width = 2), new_layer("points", ends, LINE_COLOUR, size = 1.2, opacity = 1)
  )
  y <- new_axis(NULL, c(0.5, length(values) + 0.5), levels = rev(names))
  new_panel(layers, new_axis(label, limits), y, ...)
}

importance_panel <- function(fit, table) {
  top <- utils::head(table, IMPORTANCE_SHOWN[["variables"]])
  sub <- if (nrow(table) > nrow(top)) paste("the first", nrow(top), "of", nrow(table), "variables")
  list(Importance = lollipop_panel(
    top$importance, top$term, "Share of the mean squared change", c(0, max(top$importance)), "Importance", sub
  ))
}

direction_panels <- function(fit, table) {
  # the same columns in all panels: those that matter most
  size <- rowsum(table$share * table$loading^2, table$term, reorder = FALSE)
  top <- utils::head(rownames(size)[order(-size)], IMPORTANCE_SHOWN[["columns"]])
  parts <- utils::head(split(table, table$direction), IMPORTANCE_SHOWN[["directions"]])
  names(parts) <- paste0("Direction ", names(parts), ": ", vapply(parts, \(part) percent_label(signif(part$share[1], 2)), ""))
  Map(\(part, name) {
    loading <- part$loading[match(top, part$term)]
    lollipop_panel(loading, top, name, c(-1, 1), "Directions")
  }, parts, names(parts))
}

# ---- what the panels show ---------------------------------------------------------------------

PANELS <- c("fitted", "residuals", "iterations", "partial", "importance", "directions", "terms")

# A list of data frames by panel, without panels that do not apply to the fit.
ridge_parts <- function(fit, which, variables, se.fit, level, n, max_dims, points) {
  which <- check_panels(which)
  explained <- c("importance", "directions")
  if (inherits(fit$centers, "sparseMatrix")) which <- setdiff(which, c("partial", explained))
  level <- check_level(level)
  n <- check_count(n, "n", min = 2)
  most <- most_shown(points, "points", 2000L)
  if (any(which != "iterations")) kept_data(fit)
  run <- start_run(fit$control, "Partial dependence")
  max_dims <- check_count(max_dims, "max_dims")
  shown_names <- check_variables(fit, variables)
  if (is.null(variables) && "partial" %in% which) shown_names <- first_shown(shown_names, max_dims)
  if (is.null(se.fit)) se.fit <- nrow(fit$coefficients) <= 3000
  by_row <- any(which %in% c("fitted", "residuals"))
  shown <- if (by_row) fit_to_show(fit)
  rows <- if (by_row && !has_probabilities(fit)) row_frame(shown, most)
  parts <- c(list(
    fitted = if ("fitted" %in% which) if (is.null(rows)) calibration_frame(shown) else rows,
    residuals = if ("residuals" %in% which) if (is.null(rows)) roc_frame(shown) else rows,
    iterations = if ("iterations" %in% which && has_trace(fit)) fit$trace,
    partial = if ("partial" %in% which) {
      partial_dependences(fit, shown_names, n, check_flag(se.fit, "se.fit"), level, run)
    }
  ), if (any(explained %in% which)) fit_importance(fit, run)[intersect(explained, which)])
  if ("terms" %in% which) {
    inputs <- shown_terms(fit, variables, max_dims)
    parts$terms <- term_curves(fit, inputs, n, check_flag(se.fit, "se.fit"), level, run)
  }
  Filter(length, parts)
}

# The variables of each term shown: those of some of the `variables`.
shown_terms <- function(fit, variables, max_dims) {
  if (!has_terms(fit)) stop_argument("which", "must not have \"terms\" if the formula of the fit has no k()")
  if (ncol(fit$coefficients) > 1) stop_argument("which", "must not have \"terms\" if there are several responses")
  inputs <- term_inputs(fit)
  if (!is.null(variables)) inputs <- Filter(\(of) any(of %in% variables), inputs)
  inputs[first_shown(names(inputs), max_dims)]
}

check_panels <- function(which) {
  if (is.numeric(which) && all(which %in% seq_along(PANELS))) which <- PANELS[which]
  if (!is.character(which) || length(which) == 0 || anyNA(which)) {
    stop_argument("which", "must be some of ", quote_choices(PANELS), ": found ", describe(which))
  }
  unique(vapply(which, check_choice, "", PANELS, "which", USE.NAMES = FALSE))
}

# Whether there is a trace that a logarithmic axis can show: not all residuals are 0.
has_trace <- function(fit) is.data.frame(fit$trace) && nrow(fit$trace) > 1 && any(fit$trace$residual > 0)

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

# The classes that panels show: the second of two, or all of more.
shown_classes <- function(fit) if (length(fit$classes) == 2) fit$classes[2] else fit$classes

# For each class list(p, is, w): fitted probabilities, whether each row is of the class, weights.
class_views <- function(fit) {
  p <- fit_means(fit)
  codes <- class_codes(fit$data$y)
  of <- match(shown_classes(fit), fit$classes)
  w <- fit_weights(fit)
  lapply(seq_along(of), \(k) list(p = p[, k], is = codes == of[k], w = w))
}

# Groups of nearly equal size by fitted probability: `fitted`, the mean probability; `observed`, the share of the class;
# `low` and `high`, the interval; and `rows`.
calibration_frame <- function(fit, most = 20) {
  groups <- min(most, max(2, floor(fit$n / 10)))
  of_class <- \(view) {
    cut <- ceiling(groups * rank(view$p, ties.method = "average") / length(view$p))
    one <- \(rows) {
      w <- view$w[rows]
      if (sum(w) == 0) return(NULL)
      share <- sum(w * view$is[rows]) / sum(w)
      # two pseudo-observations of each kind are added, so that the interval has a width at shares 0 and 1
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

# For each threshold the share of rows of the class, and of the other rows, above it.
roc_frame <- function(fit, most = 500) {
  of_class <- \(view) {
    order <- order(view$p, decreasing = TRUE)
    last <- !duplicated(view$p[order], fromLast = TRUE)
    w <- view$w[order]
    hits <- c(0, cumsum(w * view$is[order])[last]) / sum(view$w * view$is)
    false <- c(0, cumsum(w * !view$is[order])[last]) / sum(view$w * !view$is)
    area <- sum(diff(false) * (utils::head(hits, -1) + hits[-1]) / 2)
    shown <- spread_rows(length(hits), most)
    data.frame(false = false[shown], true = hits[shown], auc = area)
  }
  bind_classes(fit, lapply(class_views(fit), of_class))
}

bind_classes <- function(fit, frames) {
  classes <- shown_classes(fit)
  if (length(classes) == 1) return(frames[[1]])
  do.call(rbind, lapply(seq_along(frames), \(k) cbind(group = factor(classes[k], levels = classes), frames[[k]])))
}

# ---- labels of both kinds of figures ------------------------------------------------------------

response_label <- function(fit) {
  if (is.null(fit$response)) name_of(fit$call$y, "y") else fit$response
}

probability_label <- function(fit) if (length(fit$classes) == 2) paste0("P(", fit$classes[2], ")") else "probability"

error_label <- function(fit) {
  error <- fit_error(fit)
  if (is.matrix(error)) return(paste("R-squared", paste(format(error[, 2], digits = 2), collapse = ", ")))
  error <- error[setdiff(names(error), "deviance")]
  describe_error(error, 3)
}
