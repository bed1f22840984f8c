# The density of one variable: a line over a rug.

# `look`: a list of col, lwd, lty, main, sub, xlab, ylab, xlim, ylim and band, as plot() takes them; `...`: its
# graphical parameters.
plot_1d <- function(fit, n_grid, add, rug, look, axes = TRUE, frame.plot = axes, ...) {
  xlim <- look$xlim
  colour <- if (is.null(look$col)) LINE_COLOUR else look$col
  shown <- if (add && is.null(xlim)) {
    graphics::par("usr")[1:2]
  } else if (!is.null(xlim)) {
    # to the frame, which R sets 4% outside of xlim
    range(xlim) + c(-0.04, 0.04) * diff(range(xlim))
  }
  grid <- grid_1d(figure_marginal(fit, to_tol = TRUE), n_grid, shown)
  band <- figure_band(fit, look$band, grid$x)
  name <- variable_names(fit)
  if (!add) {
    if (is.null(xlim)) xlim <- range(grid$x)
    ylim <- if (is.null(look$ylim)) range(density_limits(fit, grid), band$upper) else look$ylim
    graphics::plot.default(
      xlim, ylim,
      type = "n", xlim = xlim, ylim = ylim, main = "", sub = "", xlab = "", ylab = "", axes = FALSE, ...
    )
    draw_axis_titles(
      if (is.null(look$xlab)) name else look$xlab, if (is.null(look$ylab)) "Density" else look$ylab, ...
    )
    if (axes) draw_axes(...)
    if (frame.plot) draw_frame(...)
    # of the curve's colour, as lines() may add curves of other samples
    draw_titles(
      if (is.null(look$main)) paste("Density of", name) else look$main,
      if (is.null(look$sub)) fit_subtitle(fit, negative = shows_negative(grid$y)) else look$sub,
      col.sub = if (is.null(look$sub)) colour else "grey30", ...
    )
    graphics::abline(h = 0, col = "grey75", lwd = 0.8)
  }
  if (!is.null(band)) shade_band(band, colour)
  draw_density_line(grid, col = colour, lwd = look$lwd, lty = look$lty)
  if (rug > 0) draw_rug(fit$x[thinned_rows(fit, rug), 1])
  invisible(grid)
}

# Blue and orange that stay apart in every form of colour blindness (Okabe and Ito).
LINE_COLOUR <- "#0072B2"
NEGATIVE_COLOUR <- "#E69F00"

# A Laplace-corrected estimate is a little below zero all around its support; that is not worth a
# word.
shows_negative <- function(density) {
  min(density) < -0.01 * max(density)
}

draw_density_line <- function(grid, col, lwd = NULL, lty = 1) {
  if (any(grid$y < 0)) {
    negative <- crossings(grid)
    graphics::polygon(
      c(negative$x[1], negative$x, negative$x[length(negative$x)]),
      c(0, pmin(negative$y, 0), 0),
      col = grDevices::adjustcolor(NEGATIVE_COLOUR, 0.6), border = NA
    )
  }
  graphics::lines(grid$x, grid$y, col = col, lwd = if (is.null(lwd)) 2 else lwd, lty = lty)
}

# The grid with the points added where the line crosses zero, so that shading ends there.
crossings <- function(grid) {
  n <- length(grid$x)
  i <- which(grid$y[-n] * grid$y[-1] < 0)
  part <- grid$y[i] / (grid$y[i] - grid$y[i + 1])
  x <- c(grid$x, grid$x[i] + part * (grid$x[i + 1] - grid$x[i]))
  by_x <- order(x)
  list(x = x[by_x], y = c(grid$y, rep(0, length(i)))[by_x])
}

draw_rug <- function(x, side = 1, ticksize = 0.025, col = "black") {
  graphics::rug(
    x,
    ticksize = ticksize, side = side, lwd = 0.8, quiet = TRUE,
    col = grDevices::adjustcolor(col, rug_opacity(length(x)))
  )
}

# Many ticks are drawn the more lightly, so that their number still shows.
rug_opacity <- function(n) {
  min(0.6, max(0.15, 60 / n))
}
