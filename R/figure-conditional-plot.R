#' Plot a conditional density
#'
#' One variable x: p(y | x) as shades over x and y, with lines of conditional quantiles (not of `"laplace"`, of which
#' what is negative is drawn as 0) and the data. Several: for
#' each variable a panel with the density of y at three of its quantiles, or with each of its levels, the others being
#' at their medians and most frequent levels. A y of levels: for each variable a panel with their probabilities.
#' Several y have no figure here: `plot(conditional(fit, given))` draws them at one x.
#'
#' The grid of x spans the middle 99% of the data, that of y the data plus three kernel standard deviations. In
#' each column of the image, p(. | x) integrates to 1. It is summed as the figures of [plot.flash_kde()] are,
#' exactly up to 1e8 kernel pairs. Quantiles are those of [quantile.flash_conditional()][flash_conditional], at 61
#' values of x.
#'
#' @param x,object A fit from [flash_kde()] with a two-sided formula.
#' @param prob Probabilities of the quantile lines (one x), or at which quantiles of each x the density is drawn
#'   (several).
#' @param n_grid Nodes of the grid of y; for one x that of x has two thirds as many.
#' @param points Draw the data (one x)? A number is the most that are drawn; `TRUE` stands for 1,000.
#' @param col Colours of the shades, from low to high density, or of the curves, one for each of `prob`; of a y of
#'   levels one for each.
#' @param main,xlab,ylab,xlim,ylim As in [graphics::plot.default()]; `xlab`, `xlim` and `ylim` for one x.
#' @param ... Graphical parameters, as `las`, `cex.axis`, `bty`; for `autoplot()` nothing.
#' @returns `plot()`: what was drawn, invisibly. One x: a list of `x`, `y`, the matrix `z` of p(y | x) and
#'   `quantiles`, a list of `x` and a matrix with a column for each of `prob`. Several: a list with for each
#'   variable a list of `y`, `density` (a column for each of `prob`) and `at`, the values of the variable. A y of
#'   levels: a list with for each variable a list of `x` and a matrix `probability`, with a column for each.
#'   `autoplot()`: a ggplot object.
#' @examples
#' plot(flash_kde(waiting ~ eruptions, faithful))
#' plot(flash_kde(Petal.Width ~ Petal.Length + Sepal.Width, iris))
#' @export
plot.flash_conditional <- function(x, prob = c(0.1, 0.5, 0.9), n_grid = 151, points = TRUE, col = NULL, main = NULL,
                                   xlab = NULL, ylab = NULL, xlim = NULL, ylim = NULL, ...) {
  shown <- check_conditional_figure(x, prob, n_grid, col, xlim, ylim)
  for (text in c("main", "xlab", "ylab")) check_text(get(text), text)
  check_graphical(..., d = 2)
  if (is.null(main)) main <- paste0("Density of ", x$response, " given ", paste(x$given, collapse = ", "))
  if (length(response_levels(x)) > 0) {
    check_unused(list(xlim = xlim, ylim = ylim, xlab = xlab))
    return(invisible(draw_probability_curves(probability_curves(x, n_grid), x, col, main, ylab, ...)))
  }
  if (!is_image(x)) {
    check_unused(list(xlim = xlim, ylim = ylim, xlab = xlab))
    curves <- conditional_curves(x, prob, n_grid)
    return(invisible(draw_conditional_curves(curves, x, shown$colours, main, ylab, ...)))
  }
  image <- conditional_image(x, prob, n_grid, xlim, ylim)
  rows <- thinned_rows(x$joint, most_shown(points, "points", 1000L))
  if (is.null(xlab)) xlab <- x$given
  if (is.null(ylab)) ylab <- x$response
  labels <- list(main = main, xlab = xlab, ylab = ylab)
  draw_conditional_image(image, x, rows, shown$colours, labels, ...)
  invisible(image)
}

# Has it one number x, and a number y?
is_image <- function(object) length(object$given) == 1 && is.null(object$joint$discrete)

# list(colours), all being checked.
check_conditional_figure <- function(object, prob, n_grid, col, xlim = NULL, ylim = NULL) {
  if (length(object$response) > 1) {
    stop_argument("x", "must have one variable on the left side: found ", length(object$response),
      " (plot(conditional(fit, given)) draws them at one x)")
  }
  check_prob(prob, "prob", open = TRUE)
  if (is.unsorted(prob, strictly = TRUE)) stop_argument("prob", "must increase: found ", describe(prob))
  check_count(n_grid, "n_grid", min = 10)
  check_limits(xlim, "xlim")
  check_limits(ylim, "ylim")
  check_colours(col, "col")
  shades <- if (is.null(col)) c("white", grDevices::hcl.colors(9, "Blues 3", rev = TRUE)[-1]) else col
  k <- length(prob)
  curves <- if (is.null(col)) grDevices::hcl.colors(k + 1, "viridis", rev = TRUE)[-1] else rep_len(col, k)
  list(colours = if (is_image(object)) grDevices::colorRampPalette(shades)(64) else curves)
}

# ---- one x ------------------------------------------------------------------------------------

# list(x, y, z, quantiles): z[i, j] = p(y_j | x_i).
conditional_image <- function(object, prob, n_grid, xlim = NULL, ylim = NULL) {
  joint <- object$joint
  check_memory(BYTES_PER_NODE * n_grid^2, "n_grid")
  used <- used_rows(joint)
  if (is.null(xlim)) {
    xlim <- weighted_quantile(joint$x[used, 2], joint$weights[used], c(0.005, 0.995))
    if (xlim[1] == xlim[2]) xlim <- grid_range(figure_marginal(joint, 2), 1)
  }
  if (is.null(ylim)) ylim <- grid_range(figure_marginal(joint, 1), 1)
  x <- seq(min(xlim), max(xlim), length.out = max(10, round(2 * n_grid / 3)))
  y <- seq(min(ylim), max(ylim), length.out = n_grid)
  at <- cbind(rep(y, each = length(x)), rep(x, length(y)))
  log_density <- \(dims, at) log_marginal(figure_marginal(joint, dims, to_tol = TRUE), at)
  # the ratio of logarithms is known where both densities are too small for a double
  z <- signed_ratio(log_density(1:2, at), log_density(2, cbind(x)))
  few <- seq(min(xlim), max(xlim), length.out = 61)
  lines <- if (!is_signed(joint)) {
    conditional_quantiles(object, prob, cbind(few), start_run(fit_asked(joint), "Finding quantiles"))
  }
  if (!is.null(lines)) colnames(lines) <- percent_label(prob)
  quantiles <- if (!is.null(lines)) list(x = few, y = lines)
  list(x = x, y = y, z = matrix(signed_density(z), length(x)), quantiles = quantiles)
}

# Peaks of a few x would leave the rest pale.
shade_limit <- function(z) {
  tops <- apply(z, 1, max)
  tops <- tops[!is.na(tops)]
  min(max(tops), 2 * stats::median(tops))
}

draw_conditional_image <- function(image, object, rows, colours, labels, axes = TRUE, frame.plot = axes, ...) {
  graphics::plot.default(
    range(image$x), range(image$y), type = "n", xaxs = "i", yaxs = "i", axes = FALSE, xlab = labels$xlab,
    ylab = labels$ylab, ...
  )
  top <- shade_limit(image$z)
  shades <- colours[1 + round((length(colours) - 1) * pmin(pmax(image$z / top, 0), 1))]
  raster <- t(matrix(shades, length(image$x)))[rev(seq_along(image$y)), ]
  graphics::rasterImage(raster, min(image$x), min(image$y), max(image$x), max(image$y))
  at <- object$joint$x[rows, , drop = FALSE]
  ink <- grDevices::rgb(0, 0, 0, 0.35)
  graphics::points(at[, 2], at[, 1], pch = 16, cex = 0.7 * crowd_size(length(rows)), col = ink)
  quantiles <- image$quantiles
  if (!is.null(quantiles)) {
    types <- quantile_types(colnames(quantiles$y))
    graphics::matlines(quantiles$x, quantiles$y, lty = types, lwd = 1.6, col = QUANTILE_COLOUR)
    label_lines(quantiles)
  }
  if (axes) draw_axes(...)
  if (frame.plot) draw_frame(...)
  draw_titles(labels$main, conditional_subtitle(object), ...)
}

# Orange stands out from the blues for all eyes.
QUANTILE_COLOUR <- "#B35900"

quantile_types <- function(names) ifelse(names == "50%", 1, 2)

# Where they are furthest apart, if that is far enough.
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

conditional_subtitle <- function(object) {
  sds <- short_number(bandwidth_sds(object$joint$bandwidth))
  paste0(
    estimator_of(object$joint)$short, ", n = ", format(object$joint$n, big.mark = ",", scientific = FALSE),
    if (length(sds) > 0) ", kernel sds ", paste(sds, collapse = ", ")
  )
}

# ---- several x --------------------------------------------------------------------------------

# For each variable list(y, density, at): p(y | x) where it has its quantiles `prob`, or each of its levels, and the
# others their medians and most frequent levels.
conditional_curves <- function(object, prob, n_grid) {
  joint <- object$joint
  used <- used_rows(joint)
  y_range <- grid_range(figure_marginal(joint, 1), 1)
  y <- seq(y_range[1], y_range[2], length.out = n_grid)
  middle <- middle_given(object)
  run <- start_run(fit_asked(joint), "Predicting")
  lapply(stats::setNames(nm = object$given), \(name) {
    levels <- joint$discrete$columns[[name]]$levels
    at <- if (is.null(levels)) weighted_quantile(joint$x[used, name], joint$weights[used], prob) else seq_along(levels)
    density <- vapply(at, \(value) {
      signed_density(log_conditional(object, cbind(y, with_values(middle, name, rep(value, length(y)))), run))
    }, y)
    at <- if (is.null(levels)) stats::setNames(at, percent_label(prob)) else stats::setNames(nm = levels)
    list(y = y, density = density, at = at)
  })
}

# In the upper right, of at most half of the panel's width and height.
draw_curve_key <- function(labels, colours) {
  key <- \(cex, plot) graphics::legend(
    "topright", legend = labels, col = colours, lwd = 2, bty = "n", cex = cex, seg.len = 1, plot = plot
  )
  size <- key(0.9, FALSE)$rect
  panel <- graphics::par("usr")
  key(0.9 * min(1, (panel[2] - panel[1]) / (2 * size$w), (panel[4] - panel[3]) / (2 * size$h)), TRUE)
}

# Side by side where the device is wide.
panel_rows <- function(count) {
  rows <- grDevices::n2mfrow(count)
  room <- graphics::par("din")
  if (room[1] > room[2]) rev(rows) else rows
}

draw_conditional_curves <- function(curves, object, colours, main, ylab, ...) {
  old <- graphics::par(mfrow = panel_rows(length(curves)), mar = c(4, 4, 1, 1), oma = c(0, 0, 2.5, 0))
  on.exit(graphics::par(old))
  top <- max(vapply(curves, \(curve) max(curve$density, na.rm = TRUE), 0))
  for (name in names(curves)) {
    curve <- curves[[name]]
    graphics::plot.default(
      range(curve$y), c(0, top), type = "n", xlab = object$response, ylab = if (is.null(ylab)) "Density" else ylab,
      axes = FALSE, ...
    )
    own <- if (is.numeric(curve$at)) colours else level_colours(length(curve$at))
    graphics::matlines(curve$y, curve$density, lty = 1, lwd = 2, col = own)
    draw_axes(...)
    draw_frame(...)
    draw_curve_key(paste(name, "=", vapply(curve$at, format, "", digits = 3)), own)
  }
  graphics::mtext(main, side = 3, outer = TRUE, line = 1, font = 2)
  graphics::mtext(conditional_subtitle(object), side = 3, outer = TRUE, line = 0, cex = 0.75, col = "grey30")
  curves
}
