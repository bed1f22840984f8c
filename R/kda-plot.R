#' Plot a kernel discriminant analysis
#'
#' In one variable the densities of the classes times their priors; in two the regions in which each class is the
#' likeliest, paler where it is less so, with the rows as points.
#'
#' @param x A fit from [flash_kda()] in one or two variables.
#' @param n_grid Points of the grid, along each variable.
#' @param points Draw rows? A number is the most that are drawn; `TRUE` stands for 2,000. In one variable they are
#'   a rug.
#' @param col Colours of the classes.
#' @param main Title.
#' @param xlim,ylim Limits. `NULL`: those of the rows, with a margin.
#' @param ... Further graphical parameters, such as `las`, `bty`, `cex.axis`, `pch` and `cex`.
#' @returns What was drawn, invisibly: a list of the grid's `x` (and `y`), and `prob`, of the classes at its
#'   points, a matrix; in one variable `density`, times priors, too.
#' @inheritSection flash_kde Errors
#' @export
#' @examples
#' plot(flash_kda(iris$Petal.Length, iris$Species))
#' plot(flash_kda(Species ~ Sepal.Length + Sepal.Width, data = iris))
plot.flash_kda <- function(x, n_grid = NULL, points = TRUE, col = NULL, main = NULL, xlim = NULL, ylim = NULL,
                           ...) {
  if (x$d > 2) {
    stop(new_error("unsupported", paste0(
      "figures are of one or two variables: found ", x$d, " (fit two of them to see their classes)"
    ), user_call()))
  }
  check_text(main, "main")
  check_colours(col, "col")
  if (!is.null(xlim)) check_numbers(xlim, "xlim", 2)
  if (!is.null(ylim)) check_numbers(ylim, "ylim", 2)
  check_graphical(..., d = 2)
  colours <- rep_len(if (is.null(col)) GROUP_COLOURS else col, length(x$classes))
  most <- most_shown(points, "points", 2000L)
  n_grid <- check_count(if (is.null(n_grid)) c(400, 150)[x$d] else n_grid, "n_grid", min = 2)
  title <- if (is.null(main)) "Kernel discriminant analysis" else main
  run <- start_run(fit_asked(unclass(x$fits[[1]])), "Predicting")
  draw <- if (x$d == 1) draw_class_curves else draw_class_regions
  invisible(draw(x, n_grid, most, colours, title, list(x = xlim, y = ylim), run, ...))
}

draw_class_curves <- function(fit, n_grid, most, colours, title, limits, run, ...) {
  rows <- kda_points(fit)
  h <- max(vapply(fit$fits, \(one) sqrt(one$bandwidth[1]), 0))
  xlim <- if (is.null(limits$x)) range(rows) + c(-3, 3) * h else limits$x
  at <- seq(min(xlim), max(xlim), length.out = n_grid)
  decision <- as_kda_type(class_logs(fit, matrix(at), run), fit$prior, "decision")
  density <- exp(decision)
  labels <- list(main = title, sub = kda_label(fit), x = point_names(fit), y = "density times prior")
  draw_panel(xlim, if (is.null(limits$y)) c(0, max(density)) else limits$y, labels, NULL, ...)
  graphics::abline(h = 0, col = "grey75", lwd = 0.8)
  for (k in seq_along(colours)) {
    pale <- grDevices::adjustcolor(colours[k], 0.15)
    graphics::polygon(c(at, rev(at)), c(density[, k], numeric(n_grid)), col = pale, border = NA)
    graphics::lines(at, density[, k], col = colours[k], lwd = 2)
    shown <- if (most > 0) fit$fits[[k]]$x[spread_rows(length(fit$rows[[k]]), most), 1]
    if (length(shown) > 0) graphics::rug(shown, col = grDevices::adjustcolor(colours[k], 0.6), quiet = TRUE)
  }
  draw_key(fit$classes, colours, cbind(rep(at, ncol(density)), as.vector(density)))
  list(x = at, density = density, prob = as_kda_type(decision, rep(1, ncol(decision)), "prob"))
}

draw_class_regions <- function(fit, n_grid, most, colours, title, limits, run, ...) {
  rows <- kda_points(fit)
  limits_of <- \(given, own) if (is.null(given)) range(own) + c(-0.04, 0.04) * diff(range(own)) else given
  xlim <- limits_of(limits$x, rows[, 1])
  ylim <- limits_of(limits$y, rows[, 2])
  x <- seq(min(xlim), max(xlim), length.out = n_grid)
  y <- seq(min(ylim), max(ylim), length.out = n_grid)
  at <- unname(as.matrix(expand.grid(x, y)))
  p <- as_kda_type(class_logs(fit, at, run), fit$prior, "prob")
  labels <- list(main = title, sub = kda_label(fit), x = point_names(fit)[1], y = point_names(fit)[2])
  draw_panel(xlim, ylim, labels, NULL, frame.plot = FALSE, xaxs = "i", yaxs = "i", ...)
  best <- max.col(p, "first")
  # from white, where another class is as likely, to half of the colour
  sure <- p[cbind(seq_along(best), best)]
  share <- 0.12 + 0.33 * (sure - 1 / ncol(p)) / (1 - 1 / ncol(p))
  rgb <- grDevices::col2rgb(colours)[, best] / 255
  pale <- 1 - rep(share, each = 3) * (1 - rgb)
  image <- matrix(grDevices::rgb(pale[1, ], pale[2, ], pale[3, ]), n_grid)
  half <- c(diff(x[1:2]), diff(y[1:2])) / 2
  graphics::rasterImage(
    t(image)[rev(seq_len(n_grid)), ], x[1] - half[1], y[1] - half[2], x[n_grid] + half[1], y[n_grid] + half[2],
    interpolate = FALSE
  )
  codes <- kda_codes(fit)
  shown <- if (most > 0) spread_rows(fit$n, most)
  draw_class_points(rows[shown, , drop = FALSE], codes[shown], colours, ...)
  draw_frame(...)
  draw_key(fit$classes, colours, rows)
  list(x = x, y = y, prob = p)
}

draw_class_points <- function(rows, codes, colours, pch = 21, cex = if (nrow(rows) > 500) 0.6 else 0.9, ...) {
  edge <- if (pch == 21) "white" else colours[codes]
  graphics::points(rows, pch = pch, cex = cex, bg = colours[codes], col = edge, lwd = 0.6)
}

kda_label <- function(fit) {
  used <- unique(vapply(fit$fits, `[[`, "", "estimator"))
  paste0(paste(used, collapse = ", "), ", n = ", whole(fit$n), if (fit$shared) ", one bandwidth")
}
