#' Plot a kernel discriminant analysis
#'
#' In one variable the densities of the classes times their priors; in two the regions in which each class is the
#' likeliest, paler where it is less so, with the rows as points.
#'
#' @param x,object A fit from [flash_kda()] in one or two variables.
#' @param n_grid Points of the grid, along each variable.
#' @param points Draw rows? A number is the most that are drawn; `TRUE` stands for 2,000. In one variable they are
#'   a rug.
#' @param col Colours of the classes.
#' @param main Title.
#' @param xlim,ylim Limits. `NULL`: those of the rows, with a margin.
#' @param ... Further graphical parameters, such as `las`, `bty`, `cex.axis`, `pch` and `cex`; for `autoplot()`
#'   nothing.
#' @returns `plot()`: what was drawn, invisibly, a list of the grid's `x` (and `y`), and `prob`, of the classes at its
#'   points, a matrix; in one variable `density`, times priors, too. `autoplot()`: a ggplot object.
#' @inheritSection flash_kde Errors
#' @export
#' @examples
#' plot(flash_kda(iris$Petal.Length, iris$Species))
#' plot(flash_kda(Species ~ Sepal.Length + Sepal.Width, data = iris))
plot.flash_kda <- function(x, n_grid = NULL, points = TRUE, col = NULL, main = NULL, xlim = NULL, ylim = NULL,
                           ...) {
  check_text(main, "main")
  check_graphical(..., d = 2)
  given <- check_kda_plot(x, n_grid, points, col, xlim, ylim)
  draw <- if (x$d == 1) draw_class_curves else draw_class_regions
  invisible(draw(x, given, if (is.null(main)) KDA_TITLE else main, ...))
}

KDA_TITLE <- "Kernel discriminant analysis"

# list(shown, colours, most, ylim): what both figures are of, of checked arguments.
check_kda_plot <- function(fit, n_grid, points, col, xlim, ylim) {
  if (fit$d > 2) {
    stop(new_error("unsupported", paste0(
      "figures are of one or two variables: found ", fit$d, " (fit two of them to see their classes)"
    ), user_call()))
  }
  check_colours(col, "col")
  if (!is.null(xlim)) check_numbers(xlim, "xlim", 2)
  if (!is.null(ylim)) check_numbers(ylim, "ylim", 2)
  n_grid <- check_count(if (is.null(n_grid)) c(400, 150)[fit$d] else n_grid, "n_grid", min = 2)
  run <- start_run(fit_asked(unclass(fit$fits[[1]])), "Predicting")
  list(
    shown = if (fit$d == 1) class_curves(fit, n_grid, xlim, run) else class_regions(fit, n_grid, xlim, ylim, run),
    colours = rep_len(if (is.null(col)) GROUP_COLOURS else col, length(fit$classes)),
    most = most_shown(points, "points", 2000L), ylim = ylim
  )
}

# list(x, density, prob) along one variable.
class_curves <- function(fit, n_grid, xlim, run) {
  h <- max(vapply(fit$fits, \(one) sqrt(one$bandwidth[1]), 0))
  if (is.null(xlim)) xlim <- range(kda_points(fit)) + c(-3, 3) * h
  x <- seq(min(xlim), max(xlim), length.out = n_grid)
  decision <- as_kda_type(class_logs(fit, matrix(x), run), fit$prior, "decision")
  list(x = x, density = exp(decision), prob = as_kda_type(decision, rep(1, ncol(decision)), "prob"))
}

# list(x, y, prob) on a grid of two.
class_regions <- function(fit, n_grid, xlim, ylim, run) {
  rows <- kda_points(fit)
  along <- function(limits, own) {
    if (is.null(limits)) limits <- range(own) + c(-0.04, 0.04) * diff(range(own))
    seq(min(limits), max(limits), length.out = n_grid)
  }
  x <- along(xlim, rows[, 1])
  y <- along(ylim, rows[, 2])
  at <- unname(as.matrix(expand.grid(x, y)))
  list(x = x, y = y, prob = as_kda_type(class_logs(fit, at, run), fit$prior, "prob"))
}

# The regions as an image, its first row at the top: from white, where another class is as likely, to half of the
# colour.
region_image <- function(shown, colours) {
  p <- shown$prob
  best <- likeliest(p)
  sure <- p[cbind(seq_along(best), best)]
  share <- 0.12 + 0.33 * (sure - 1 / ncol(p)) / (1 - 1 / ncol(p))
  share[is.na(best)] <- 0 # white, where no class has a density
  best[is.na(best)] <- 1
  pale <- 1 - rep(share, each = 3) * (1 - grDevices::col2rgb(colours)[, best] / 255)
  image <- matrix(grDevices::rgb(pale[1, ], pale[2, ], pale[3, ]), length(shown$x))
  t(image)[rev(seq_along(shown$y)), ]
}

# Its sides: pixels are about their points.
image_sides <- function(along) range(along) + c(-0.5, 0.5) * diff(along[1:2])

draw_class_curves <- function(fit, given, title, ...) {
  shown <- given$shown
  labels <- list(main = title, sub = kda_label(fit), x = variable_names(fit), y = "density times prior")
  draw_panel(range(shown$x), if (is.null(given$ylim)) c(0, max(shown$density)) else given$ylim, labels, NULL, ...)
  graphics::abline(h = 0, col = "grey75", lwd = 0.8)
  for (k in seq_along(given$colours)) {
    colour <- given$colours[k]
    around <- c(shown$density[, k], numeric(length(shown$x)))
    graphics::polygon(c(shown$x, rev(shown$x)), around, col = grDevices::adjustcolor(colour, 0.15), border = NA)
    graphics::lines(shown$x, shown$density[, k], col = colour, lwd = 2)
    ticks <- if (given$most > 0) fit$fits[[k]]$x[spread_rows(length(fit$rows[[k]]), given$most), 1]
    if (length(ticks) > 0) graphics::rug(ticks, col = grDevices::adjustcolor(colour, 0.6), quiet = TRUE)
  }
  draw_key(fit$classes, given$colours, cbind(rep(shown$x, ncol(shown$density)), as.vector(shown$density)))
  shown
}

draw_class_regions <- function(fit, given, title, ...) {
  shown <- given$shown
  names <- variable_names(fit)
  labels <- list(main = title, sub = kda_label(fit), x = names[1], y = names[2])
  draw_panel(range(shown$x), range(shown$y), labels, NULL, frame.plot = FALSE, xaxs = "i", yaxs = "i", ...)
  sides <- c(image_sides(shown$x), image_sides(shown$y))
  graphics::rasterImage(
    region_image(shown, given$colours), sides[1], sides[3], sides[2], sides[4], interpolate = FALSE
  )
  cloud <- class_cloud(fit, given$most)
  draw_class_points(as.matrix(cloud[1:2]), as.integer(cloud$class), given$colours, ...)
  draw_frame(...)
  draw_key(fit$classes, given$colours, kda_points(fit))
  shown
}

# At most so many of the rows, evenly spread, with their class.
class_cloud <- function(fit, most) {
  rows <- if (most > 0) spread_rows(fit$n, most)
  points <- kda_points(fit)[rows, , drop = FALSE]
  class <- factor(fit$classes[kda_codes(fit)[rows]], levels = fit$classes)
  data.frame(x = points[, 1], y = points[, fit$d], class = class)
}

draw_class_points <- function(rows, codes, colours, pch = 21, cex = if (nrow(rows) > 500) 0.6 else 0.9, ...) {
  edge <- if (pch == 21) "white" else colours[codes]
  graphics::points(rows, pch = pch, cex = cex, bg = colours[codes], col = edge, lwd = 0.6)
}

#' @rdname plot.flash_kda
#' @exportS3Method ggplot2::autoplot
autoplot.flash_kda <- function(object, n_grid = NULL, points = TRUE, col = NULL, xlim = NULL, ylim = NULL, ...) {
  check_dots_empty(...)
  given <- check_kda_plot(object, n_grid, points, col, xlim, ylim)
  cloud <- class_cloud(object, given$most)
  values <- stats::setNames(given$colours, object$classes)
  layers <- if (object$d == 1) {
    class_curve_layers(given, cloud, object$classes)
  } else {
    class_region_layers(given, cloud)
  }
  names <- variable_names(object)
  ggplot2::ggplot() +
    layers +
    ggplot2::scale_colour_manual(NULL, values = values, aesthetics = c("colour", "fill"), drop = FALSE) +
    ggplot2::labs(
      x = names[1], y = if (object$d == 1) "density times prior" else names[2], title = KDA_TITLE,
      subtitle = kda_label(object)
    )
}

class_curve_layers <- function(given, cloud, classes) {
  shown <- given$shown
  curves <- data.frame(
    x = rep(shown$x, length(classes)), density = as.vector(shown$density),
    class = factor(rep(classes, each = length(shown$x)), levels = classes)
  )
  aes <- ggplot2::aes(x = .data$x, y = .data$density, colour = .data$class, fill = .data$class)
  list(
    ggplot2::geom_area(
      aes, data = curves, stat = "identity", position = "identity", alpha = 0.15, linewidth = 0.9
    ),
    if (nrow(cloud) > 0) ggplot2::geom_rug(
      ggplot2::aes(x = .data$x, colour = .data$class), data = cloud, sides = "b", alpha = 0.6, show.legend = FALSE
    ),
    if (!is.null(given$ylim)) ggplot2::coord_cartesian(ylim = given$ylim)
  )
}

class_region_layers <- function(given, cloud) {
  shown <- given$shown
  sides <- c(image_sides(shown$x), image_sides(shown$y))
  list(
    ggplot2::annotation_raster(region_image(shown, given$colours), sides[1], sides[2], sides[3], sides[4]),
    ggplot2::geom_point(
      ggplot2::aes(x = .data$x, y = .data$y, fill = .data$class), data = cloud, shape = 21, colour = "white",
      stroke = 0.3, size = if (nrow(cloud) > 500) 1.2 else 2
    ),
    ggplot2::coord_cartesian(xlim = range(shown$x), ylim = range(shown$y), expand = FALSE)
  )
}

kda_label <- function(fit) {
  used <- unique(vapply(fit$fits, \(one) estimator_of(one)$short, ""))
  paste0(paste(used, collapse = ", "), ", n = ", whole(fit$n), if (fit$shared) ", one bandwidth")
}
