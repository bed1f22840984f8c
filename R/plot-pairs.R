# Matrix of the one- and two-variable marginals of a fit with more than two variables.

plot_pairs <- function(fit, prob, n_grid, dims, points, col, lwd, lty, main, sub, pch = NULL,
                       cex = NULL, ...) {
  k <- length(dims)
  names <- variable_names(fit)
  grids <- pair_grids(fit, prob, n_grid, dims)
  if (is.null(main)) main <- "Marginal densities"
  if (is.null(sub)) {
    negative <- any(vapply(grids$pairs, \(grid) shows_negative(grid$z), NA))
    sub <- fit_subtitle(fit, bandwidth = FALSE, negative = negative)
  }
  colours <- region_colours(length(prob), col)
  rows <- thinned_rows(fit, points)
  limits <- pair_limits(grids, fit$x[rows, dims, drop = FALSE], k)

  old <- pairs_layout(k, ...)
  on.exit(graphics::par(old))
  for (i in seq_len(k)) {
    for (j in seq_len(k)) {
      if (i == j) {
        grid <- grids$marginals[[i]]
        draw_diagonal(grid, limits[[i]], fit, dims[i], names[dims[i]], colours, lwd, lty)
      } else {
        draw_off_diagonal(grids, i, j, limits, colours, fit, dims, rows, lwd, lty, pch, cex)
      }
      draw_pair_axes(i, j, k)
    }
  }
  draw_pairs_titles(main, sub, prob, colours)
  invisible(grids)
}

# Sets up k x k panels; `...`: graphical parameters of the user. Returns those before.
pairs_layout <- function(k, ...) {
  layout <- list(
    mfrow = c(k, k), mar = rep(0.25, 4), oma = c(2.8, 2.8, 5.6, 2.8), mgp = c(2, 0.5, 0),
    tcl = -0.3, cex.axis = 1.15
  )
  graphics::par(utils::modifyList(layout, list(...)))
}

# All marginals of the variables `dims`. The budget of kernel pairs is shared by the panels.
pair_grids <- function(fit, prob, n_grid, dims) {
  names <- variable_names(fit)[dims]
  k <- length(dims)
  n_pairs <- k * (k - 1) / 2
  marginals <- lapply(dims, function(dim) {
    grid_1d(marginal(fit, dim, k), 3L * n_grid)
  })
  names(marginals) <- names
  pairs <- utils::combn(k, 2)
  grids <- lapply(seq_len(ncol(pairs)), function(p) {
    pair <- dims[pairs[, p]]
    grid_2d(marginal(fit, pair, n_pairs), n_grid, prob)
  })
  names(grids) <- paste(names[pairs[1, ]], names[pairs[2, ]], sep = ":")
  list(marginals = marginals, pairs = grids)
}

# What to show of each variable: enough for all of its panels.
pair_limits <- function(grids, data, k) {
  pairs <- utils::combn(k, 2)
  views <- lapply(seq_along(grids$pairs), function(p) {
    grid_view(grids$pairs[[p]], data[, pairs[, p], drop = FALSE])
  })
  lapply(seq_len(k), function(i) {
    range(lapply(views[pairs[1, ] == i], `[[`, "x"), lapply(views[pairs[2, ] == i], `[[`, "y"))
  })
}

# The grid with the variable j on the x axis and i on the y axis.
pair_grid <- function(grids, i, j) {
  names <- names(grids$marginals)
  a <- min(i, j)
  b <- max(i, j)
  grid <- grids$pairs[[pair_index(a, b, length(names))]]
  if (j == a) {
    return(grid)
  }
  list(x = grid$y, y = grid$x, z = t(grid$z), levels = grid$levels)
}

# Position of the pair a < b among the columns of combn(k, 2).
pair_index <- function(a, b, k) {
  (a - 1) * k - a * (a - 1) / 2 + b - a
}

draw_diagonal <- function(grid, xlim, fit, dim, name, colours, lwd, lty) {
  range <- range(0, grid$y)
  graphics::plot.default(
    xlim, range + c(0, 0.45) * diff(range),
    type = "n", axes = FALSE, xlab = "", ylab = "", xaxs = "i"
  )
  graphics::abline(h = 0, col = "grey75", lwd = 0.8)
  draw_density_line(grid, contour_colour(colours), if (is.null(lwd)) 1.5 else lwd, lty)
  draw_rug(fit$x[thinned_rows(fit, 300L), dim], ticksize = 0.04)
  graphics::box(col = "grey40")
  sd <- paste("sd", format(sqrt(fit$bandwidth[dim, dim]), digits = 3))
  corner_text(name, 1.3, line = 1, font = 2)
  corner_text(sd, 1.15, line = 2, col = "grey30")
}

# A line of text in the upper left corner of a panel, smaller where it would not fit.
corner_text <- function(text, cex, line, ...) {
  usr <- graphics::par("usr")
  width <- usr[2] - usr[1]
  height <- 1.4 * graphics::strheight("M", cex = cex)
  cex <- cex * min(1, 0.92 * width / graphics::strwidth(text, cex = cex, ...))
  graphics::text(
    usr[1] + 0.02 * width, usr[4] - (line - 0.4) * height, text,
    cex = cex, adj = c(0, 0.5), ...
  )
}

draw_off_diagonal <- function(grids, i, j, limits, colours, fit, dims, rows, lwd, lty,
                              pch, cex) {
  graphics::plot.default(
    limits[[j]], limits[[i]],
    type = "n", axes = FALSE, xlab = "", ylab = "", xaxs = "i", yaxs = "i"
  )
  grid <- pair_grid(grids, i, j)
  if (i > j) {
    draw_regions(grid, colours)
  } else if (length(rows) > 0) {
    draw_points(fit, dims[c(j, i)], rows, pch = pch, cex = if (is.null(cex)) 0.8 else cex)
  }
  draw_contours(grid, contour_colour(colours), if (is.null(lwd)) 0.8 else lwd, lty)
  graphics::box(col = "grey40")
}

# Axes on the outside: below, on the left, and on the right of the first row, whose left panel shows
# a density.
draw_pair_axes <- function(i, j, k) {
  if (i == k) draw_panel_axis(1)
  if (j == 1 && i > 1) draw_panel_axis(2)
  if (j == k && i == 1) draw_panel_axis(4)
}

# A label that reaches beyond its panel would run into one of the next panel: only its tick is drawn.
draw_panel_axis <- function(side) {
  if (graphics::par(if (side == 1) "xaxt" else "yaxt") == "n") {
    return(invisible())
  }
  at <- graphics::axTicks(side)
  labels <- format(at, trim = TRUE)
  along <- graphics::par("las") %in% (if (side == 1) c(0, 1) else c(0, 3))
  cex <- graphics::par("cex.axis")
  size <- if (along) {
    graphics::strwidth(labels, "inches", cex = cex)
  } else {
    graphics::strheight(labels, "inches", cex = cex)
  }
  x <- side == 1
  usr <- graphics::par("usr")[if (x) 1:2 else 3:4]
  half <- size / 2 * diff(usr) / graphics::par("pin")[if (x) 1 else 2]
  inside <- at - half >= usr[1] & at + half <= usr[2]
  graphics::axis(side, at, labels = ifelse(inside, labels, ""))
}

draw_pairs_titles <- function(main, sub, prob, colours) {
  graphics::mtext(main, side = 3, outer = TRUE, line = 3.8, font = 2, cex = 1.1)
  graphics::mtext(sub, side = 3, outer = TRUE, line = 2.4, cex = 0.9, col = "grey30")
  draw_outer_key(percent_label(rev(prob)), colours)
}

# A row of coloured squares with their probabilities, in the outer margin above the panels.
draw_outer_key <- function(labels, colours, cex = 0.85) {
  # laid out in inches on the device, drawn in the coordinates of the last panel
  square <- 0.12
  gap <- c(0.06, 0.18)
  width <- graphics::strwidth(labels, "inches", cex = cex / graphics::par("cex"))
  total <- sum(square + gap[1] + width) + gap[2] * (length(labels) - 1)
  left <- graphics::par("din")[1] / 2 - total / 2 +
    c(0, cumsum(square + gap[1] + width + gap[2]))[seq_along(labels)]
  middle <- graphics::par("din")[2] - graphics::par("omi")[3] + 0.17
  x <- function(inches) graphics::grconvertX(inches, "inches", "user")
  y <- function(inches) graphics::grconvertY(inches, "inches", "user")
  old <- graphics::par(xpd = NA)
  on.exit(graphics::par(old))
  graphics::rect(
    x(left), y(middle - square / 2), x(left + square), y(middle + square / 2),
    col = colours, border = "grey40"
  )
  graphics::text(
    x(left + square + gap[1]), y(middle), labels,
    adj = c(0, 0.5), cex = cex / graphics::par("cex")
  )
}
