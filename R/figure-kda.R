#' @rdname plot.kernel_regression
#' @export
plot.flash_kda <- function(x, n = NULL, points = TRUE, col = NULL, ...) {
  check_graphical(..., d = 2)
  limits <- limits_of(...)
  draw_figure(kda_figure(x, n, points, col, limits$x, limits$y), ...)
}

#' @rdname plot.kernel_regression
#' @exportS3Method ggplot2::autoplot
autoplot.flash_kda <- function(object, n = NULL, points = TRUE, col = NULL, xlim = NULL, ylim = NULL, ...) {
  check_dots_empty(...)
  check_limits(xlim, "xlim")
  check_limits(ylim, "ylim")
  ggplot_figure(kda_figure(object, n, points, col, xlim, ylim))
}

kda_figure <- function(fit, n, points, col, xlim, ylim) {
  if (fit$d > 2) {
    stop(new_error("unsupported", paste0(
      "plots are available for one or two variables, not ", fit$d, ": fit two of them"
    ), user_call()))
  }
  check_colours(col, "col")
  n <- check_count(if (is.null(n)) c(400, 150)[fit$d] else n, "n", min = 2)
  run <- start_run(fit_asked(unclass(fit$fits[[1]])), "Predicting")
  colours <- group_colours(col, fit$classes)
  cloud <- class_cloud(fit, most_shown(points, "points", 2000L))
  names <- variable_names(fit)
  if (fit$d == 1) {
    shown <- class_curves(fit, n, xlim, run)
    panel <- class_curve_panel(shown, fit$classes, cloud, names, first_given(ylim, c(0, max(shown$density))))
  } else {
    shown <- class_regions(fit, n, xlim, ylim, run)
    panel <- class_region_panel(shown, cloud, names, colours)
  }
  figure <- new_figure(
    list(panel), main = "Kernel discriminant analysis", sub = kda_label(fit), colours = colours, key = "", shown = shown
  )
  with_date_axes(figure, fit)
}

class_curve_panel <- function(shown, classes, cloud, name, ylim) {
  curves <- matrix_frame(shown$x, shown$density, classes)
  curves[c("low", "high")] <- list(0, curves$y)
  layers <- list(new_layer("band", curves, opacity = 0.15), new_layer("line", curves), new_layer("rug", cloud))
  curve_panel(layers, name, range(shown$x), ylim, "density times prior", key = "corner")
}

class_region_panel <- function(shown, cloud, names, colours) {
  size <- if (nrow(cloud) > 500) 0.6 else 0.9
  layers <- list(
    new_layer("raster", x = shown$x, y = shown$y, image = region_image(shown, colours), smooth = TRUE),
    new_layer("points", cloud, shape = 21, size = size, opacity = 1)
  )
  map_panel(layers, names, range(shown$x), range(shown$y), key = "corner")
}

# list(x, density, prob) along one variable.
class_curves <- function(fit, n, xlim, run) {
  h <- max(vapply(fit$fits, \(one) sqrt(one$bandwidth[1]), 0))
  if (is.null(xlim)) xlim <- range(kda_points(fit)) + c(-3, 3) * h
  x <- seq(min(xlim), max(xlim), length.out = n)
  decision <- as_kda_type(class_logs(fit, matrix(x), run), fit$prior, "decision")
  list(x = x, density = exp(decision), prob = as_kda_type(decision, rep(1, ncol(decision)), "prob"))
}

# list(x, y, prob) on a grid of two.
class_regions <- function(fit, n, xlim, ylim, run) {
  rows <- kda_points(fit)
  along <- function(limits, own) {
    if (is.null(limits)) limits <- range(own) + c(-0.04, 0.04) * diff(range(own))
    seq(min(limits), max(limits), length.out = n)
  }
  x <- along(xlim, rows[, 1])
  y <- along(ylim, rows[, 2])
  at <- unname(as.matrix(expand.grid(x, y)))
  list(x = x, y = y, prob = as_kda_type(class_logs(fit, at, run), fit$prior, "prob"))
}

# The regions as a matrix of colours, from white, where another class is as probable, to half of the colour.
region_image <- function(shown, colours) {
  p <- shown$prob
  best <- likeliest(p)
  sure <- p[cbind(seq_along(best), best)]
  share <- 0.12 + 0.33 * (sure - 1 / ncol(p)) / (1 - 1 / ncol(p))
  share[is.na(best)] <- 0 # white, where no class has a density
  best[is.na(best)] <- 1
  pale <- 1 - rep(share, each = 3) * (1 - grDevices::col2rgb(colours)[, best] / 255)
  matrix(grDevices::rgb(pale[1, ], pale[2, ], pale[3, ]), length(shown$x))
}

# At most `most` of the rows, evenly spread, with their class.
class_cloud <- function(fit, most) {
  rows <- if (most > 0) spread_rows(fit$n, most)
  points <- kda_points(fit)[rows, , drop = FALSE]
  class <- factor(fit$classes[kda_codes(fit)[rows]], levels = fit$classes)
  data.frame(x = points[, 1], y = points[, fit$d], group = class)
}

kda_label <- function(fit) {
  used <- unique(vapply(fit$fits, \(one) estimator_of(one)$short, ""))
  paste0(paste(used, collapse = ", "), ", n = ", whole(fit$n), if (fit$shared) ", one bandwidth")
}
