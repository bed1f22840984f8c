#' @rdname plot.kernel_regression
#' @export
plot.flash_conditional <- function(x, prob = c(0.1, 0.5, 0.9), n = 151, points = TRUE, col = NULL, ...) {
  check_graphical(..., d = 2)
  draw_figure(conditional_figure(x, prob, n, points, col, limits_of(...)), ...)
}

#' @rdname plot.kernel_regression
#' @exportS3Method ggplot2::autoplot
autoplot.flash_conditional <- function(object, prob = c(0.1, 0.5, 0.9), n = 151, points = TRUE, col = NULL, ...) {
  check_dots_empty(...)
  ggplot_figure(conditional_figure(object, prob, n, points, col), list(title = ""))
}

conditional_figure <- function(object, prob, n, points, col, limits = NULL) {
  if (length(object$response) > 1) {
    stop_argument("x", "must have one variable on the left side: found ", length(object$response),
      " (plot(kde_conditional(fit, given)) draws several at one x)")
  }
  check_prob(prob, "prob", open = TRUE)
  if (is.unsorted(prob, strictly = TRUE)) stop_argument("prob", "must increase: found ", describe(prob))
  check_count(n, "n", min = 10)
  check_colours(col, "col")
  most <- most_shown(points, "points", 1000L)
  figure <- if (length(response_levels(object)) > 0) probability_figure(object, n, col) else if (is_image(object)) {
    image_figure(object, prob, n, col, most, limits)
  } else {
    curves_figure(object, prob, n, col)
  }
  figure$main <- paste0("Density of ", object$response, " given ", paste(object$given, collapse = ", "))
  figure$sub <- fit_subtitle(object$joint)
  with_date_axes(figure, object)
}

# Whether x is one number and y is a number.
is_image <- function(object) length(object$given) == 1 && is.null(object$joint$discrete)

# ---- one x ------------------------------------------------------------------------------------

image_figure <- function(object, prob, n, col, most, limits) {
  image <- conditional_image(object, prob, n, limits$x, limits$y)
  shades <- if (is.null(col)) c("white", grDevices::hcl.colors(9, "Blues 3", rev = TRUE)[-1]) else col
  points <- figure_points(object$joint, 2:1, most)
  points$size <- NULL
  lines <- image$quantiles
  layers <- list(
    new_layer(
      "raster", x = image$x, y = image$y, z = image$z, top = shade_limit(image$z), smooth = TRUE,
      colours = grDevices::colorRampPalette(shades)(64)
    ),
    new_layer("points", points, "black", size = 0.7 * crowd_size(nrow(points)), opacity = 0.35),
    if (!is.null(lines)) new_layer(
      "line", matrix_frame(lines$x, lines$y), QUANTILE_COLOUR, width = 1.6,
      type = ifelse(colnames(lines$y) == "50%", 1, 2)
    ),
    if (!is.null(lines)) new_layer("labels", draw = \(view) label_lines(lines))
  )
  panel <- map_panel(layers, c(object$given, object$response), range(image$x), range(image$y))
  new_figure(list(panel), key = "Quantile", shown = image)
}

# list(x, y, z, quantiles): z[i, j] = p(y_j | x_i).
conditional_image <- function(object, prob, n, xlim = NULL, ylim = NULL) {
  joint <- object$joint
  check_memory(BYTES_PER_NODE * n^2, "n")
  used <- used_rows(joint)
  if (is.null(xlim)) {
    xlim <- weighted_quantile(joint$x[used, 2], joint$weights[used], c(0.005, 0.995))
    if (xlim[1] == xlim[2]) xlim <- figure_range(joint, 2)
  }
  if (is.null(ylim)) ylim <- figure_range(joint, 1)
  x <- seq(min(xlim), max(xlim), length.out = max(10, round(2 * n / 3)))
  y <- seq(min(ylim), max(ylim), length.out = n)
  at <- cbind(rep(y, each = length(x)), rep(x, length(y)))
  log_density <- \(dims, at) log_shown(shown_part(joint, dims, to_tol = TRUE), at)
  # the ratio is computed from logarithms: both densities may underflow
  z <- signed_ratio(log_density(1:2, at), log_density(2, cbind(x)))
  few <- seq(min(xlim), max(xlim), length.out = 61)
  lines <- if (!is_signed(joint)) {
    conditional_quantiles(object, prob, cbind(few), start_run(fit_asked(joint), "Finding quantiles"))
  }
  if (!is.null(lines)) colnames(lines) <- percent_label(prob)
  quantiles <- if (!is.null(lines)) list(x = few, y = lines)
  list(x = x, y = y, z = matrix(signed_density(z), length(x)), quantiles = quantiles)
}

# Upper limit of the colour scale. Without it, high peaks at a few x would make the rest pale.
shade_limit <- function(z) {
  tops <- apply(z, 1, max)
  tops <- tops[!is.na(tops)]
  min(max(tops), 2 * stats::median(tops))
}

# Writes labels where the lines are furthest apart, if there is room.
label_lines <- function(quantiles, cex = 0.8) {
  labels <- colnames(quantiles$y)
  gaps <- apply(quantiles$y, 1, \(y) if (length(y) > 1) min(diff(sort(y))) else Inf)
  inside <- seq(ceiling(0.1 * length(gaps)), floor(0.9 * length(gaps)))
  best <- inside[which.max(gaps[inside])]
  if (gaps[best] < 1.5 * graphics::strheight("0", cex = cex)) return(invisible())
  for (k in seq_along(labels)) {
    at <- c(
      graphics::grconvertX(quantiles$x[best], "user", "inches"),
      graphics::grconvertY(quantiles$y[best, k], "user", "inches")
    )
    draw_halo_text(at, labels[k], QUANTILE_COLOUR, cex)
  }
}

# ---- several x --------------------------------------------------------------------------------

curves_figure <- function(object, prob, n, col) {
  curves <- conditional_curves(object, prob, n)
  of_numbers <- vapply(curves, \(curve) is.numeric(curve$at), NA)
  k <- length(prob)
  own <- if (is.null(col)) grDevices::hcl.colors(k + 1, "viridis", rev = TRUE)[-1] else rep_len(col, k)
  levels <- unique(unlist(lapply(curves[!of_numbers], `[[`, "at")))
  colours <- c(if (any(of_numbers)) stats::setNames(own, percent_label(prob)), group_colours(NULL, levels))
  top <- max(vapply(curves, \(curve) max(curve$density, na.rm = TRUE), 0))
  panels <- lapply(stats::setNames(nm = names(curves)), \(name) {
    curve <- curves[[name]]
    data <- matrix_frame(curve$y, curve$density, names(curve$at))
    labels <- stats::setNames(paste(name, "=", vapply(curve$at, format, "", digits = 3)), names(curve$at))
    new_panel(
      list(new_layer("line", data)), new_axis(object$response, range(curve$y)), new_axis("Density", c(0, top)),
      key = labels
    )
  })
  kinds <- c(if (any(of_numbers)) "Quantile", if (!all(of_numbers)) "category")
  new_figure(
    panels, colours = colours, key = paste(sub("^c", "C", paste(kinds, collapse = " or ")), "of the variable"),
    shown = curves
  )
}

# For each variable of x list(y, density, at): p(y | x) at its quantiles `prob`, or at each of its categories.
conditional_curves <- function(object, prob, n) {
  y_range <- figure_range(object$joint, 1)
  y <- seq(y_range[1], y_range[2], length.out = n)
  run <- start_run(fit_asked(object$joint), "Predicting")
  along_given(object, \(values, weights) weighted_quantile(values, weights, prob), \(at, x) {
    density <- vapply(seq_len(nrow(x)), \(i) {
      signed_density(log_conditional(object, cbind(y, x[rep(i, n), , drop = FALSE]), run))
    }, y)
    list(y = y, density = density, at = stats::setNames(at, if (is.numeric(at)) percent_label(prob) else at))
  })
}

# For each variable of x calls `of_rows(at, x)`. `at`: its categories, or the numbers that `numbers(values, weights)`
# returns; `x`: rows as from given_columns(), with these values and with medians and most frequent categories of the
# other variables.
along_given <- function(object, numbers, of_rows) {
  joint <- object$joint
  used <- used_rows(joint)
  own <- own_places(joint)[used, given_columns(object), drop = FALSE]
  weights <- joint$weights[used]
  of_numbers <- seq_along(given_dims(object))
  middle <- c(
    apply(own[, of_numbers, drop = FALSE], 2, weighted_quantile, weights, 0.5),
    vapply(given_levels(object), \(name) which.max(summarise_levels(joint)[[name]]), 0L)
  )
  lapply(stats::setNames(nm = object$given), \(name) {
    levels <- joint$discrete$columns[[name]]$levels
    at <- if (is.null(levels)) numbers(joint$x[used, name], weights) else levels
    x <- matrix(middle, length(at), length(middle), byrow = TRUE, dimnames = list(NULL, names(middle)))
    x[, name] <- if (is.null(levels)) at else seq_along(levels)
    of_rows(at, x)
  })
}

# ---- categorical y ------------------------------------------------------------------------------

# A line of probabilities for each category of y, or bars if the variable of x is categorical.
probability_figure <- function(object, n, col) {
  curves <- probability_curves(object, n)
  levels <- colnames(curves[[1]]$probability)
  colours <- group_colours(col, levels)
  panels <- lapply(stats::setNames(nm = names(curves)), \(name) {
    curve <- curves[[name]]
    is_line <- is.numeric(curve$x)
    data <- matrix_frame(if (is_line) curve$x else seq_along(curve$x), curve$probability)
    x <- if (is_line) new_axis(name, range(curve$x)) else {
      new_axis(name, c(0.5, length(curve$x) + 0.5), levels = curve$x)
    }
    key <- if (length(curves) == 1) "corner"
    new_panel(list(new_layer(if (is_line) "line" else "bars", data)), x, new_axis("Probability", 0:1), key = key)
  })
  new_figure(panels, colours = colours, key = object$response, outer_key = colours, shown = curves)
}

# For each variable of x list(x, probability): numbers or categories, and a matrix with a column for each category of y.
probability_curves <- function(object, n) {
  run <- start_run(fit_asked(object$joint), "Predicting")
  along <- function(values, weights) {
    ends <- weighted_quantile(values, weights, c(0.005, 0.995))
    seq(ends[1], ends[2], length.out = n)
  }
  along_given(object, along, \(at, x) list(x = at, probability = level_probabilities(object, x, run)))
}
