# Matrix of the one- and two-variable marginals of a fit with more than two variables.

pairs_figure <- function(fit, asked, limits) {
  dims <- asked$dims
  k <- length(dims)
  names <- variable_names(fit)[dims]
  grids <- pair_grids(fit, asked$prob, asked$n, dims)
  rows <- thinned_rows(fit, asked$most)
  limits <- pair_limits(grids, fit$x[rows, dims, drop = FALSE], k)
  colours <- stats::setNames(asked$colours, rev(names(grids$pairs[[1]]$levels)))
  dark <- contour_colour(colours)
  panel <- function(i, j) {
    of_panel <- if (i == j) marginal_layers(fit, grids$marginals[[i]], dims[i], limits[[i]], dark) else {
      pair_layers(fit, pair_grid(grids, i, j), dims[c(j, i)], limits[c(j, i)], i > j, asked$most, dark)
    }
    facet <- list(row = factor(names[i], names), column = factor(names[j], names))
    made <- new_panel(of_panel, new_axis(names[j], limits[[j]], TRUE), new_axis(names[i], limits[[i]], TRUE))
    c(made, list(facet = facet, row = i, column = j))
  }
  cells <- expand.grid(j = seq_len(k), i = seq_len(k))
  negative <- any(vapply(grids$pairs, \(grid) shows_negative(grid$z), NA))
  new_figure(
    Map(panel, cells$i, cells$j), main = "Marginal densities",
    sub = fit_subtitle(fit, bandwidth = FALSE, negative = negative), colours = colours, key = "Probability",
    outer_key = colours, shown = grids, pairs = k
  )
}

# Layers of a panel: regions below the diagonal, points above, contours in both.
pair_layers <- function(fit, grid, dims, limits, below, most, colour) {
  points <- if (!below) figure_points(fit, dims, most)
  c(
    if (below) region_layers(grid),
    if (!below) list(new_layer("points", points, "black", size = 0.8, limits = list(x = limits[[1]], y = limits[[2]]))),
    contour_layers(grid, colour, width = 0.8)
  )
}

marginal_layers <- function(fit, grid, dim, limits, colour) {
  texts <- c(variable_names(fit)[dim], paste("sd", short_number(sqrt(fit$bandwidth[dim, dim]))))
  list(new_layer(
    "marginal", data.frame(x = grid$x, y = grid$y), colour, texts = texts, limits = limits,
    span = density_limits(fit, grid, dim), rug = figure_rug(fit, dim, 300L)
  ))
}

# All marginals of the variables `dims`. The panels share the budget of kernel pairs.
pair_grids <- function(fit, prob, n, dims) {
  names <- variable_names(fit)[dims]
  k <- length(dims)
  n_pairs <- k * (k - 1) / 2
  marginals <- stats::setNames(lapply(dims, \(dim) figure_curve(fit, 3L * n, NULL, dim, k)), names)
  pairs <- utils::combn(k, 2)
  grids <- lapply(seq_len(ncol(pairs)), \(p) figure_grid(fit, n, prob, NULL, dims[pairs[, p]], n_pairs))
  names(grids) <- paste(names[pairs[1, ]], names[pairs[2, ]], sep = ":")
  list(marginals = marginals, pairs = grids)
}

# Limits of each variable that are wide enough for all of its panels.
pair_limits <- function(grids, data, k) {
  pairs <- utils::combn(k, 2)
  views <- lapply(seq_along(grids$pairs), function(p) {
    grid_view(grids$pairs[[p]], data[, pairs[, p], drop = FALSE])
  })
  lapply(seq_len(k), function(i) {
    range(lapply(views[pairs[1, ] == i], `[[`, "x"), lapply(views[pairs[2, ] == i], `[[`, "y"))
  })
}

# The grid with the variable j on the x axis and i on the y axis; grids are in the order of combn().
pair_grid <- function(grids, i, j) {
  k <- length(grids$marginals)
  of <- matrix(0, k, k)
  of[lower.tri(of)] <- seq_along(grids$pairs)
  grid <- grids$pairs[[of[max(i, j), min(i, j)]]]
  if (j < i) grid else list(x = grid$y, y = grid$x, z = t(grid$z), levels = grid$levels)
}

# ---- base graphics ------------------------------------------------------------------------------

# `...`: graphical parameters of the user, for all panels.
draw_pairs <- function(figure, main = NULL, sub = NULL, lwd = NULL, lty = NULL, pch = NULL, cex = NULL, ...) {
  k <- figure$pairs
  layout <- list(
    mfrow = c(k, k), mar = rep(0.25, 4), oma = c(2.8, 2.8, 5.6, 2.8), mgp = c(2, 0.5, 0), tcl = -0.3, cex.axis = 1.15
  )
  old <- graphics::par(utils::modifyList(layout, list(...)))
  on.exit(graphics::par(old))
  look <- list(lwd = lwd, lty = lty, pch = pch, cex = cex)
  for (panel in figure$panels) {
    if (panel$row == panel$column) draw_diagonal(panel$layers[[1]], look) else {
      graphics::plot.default(
        panel$x$limits, panel$y$limits, type = "n", axes = FALSE, xlab = "", ylab = "", xaxs = "i", yaxs = "i"
      )
      draw_layers(panel, figure$colours, look, character(), FALSE)
    }
    graphics::box(col = "grey40")
    # axes on the outside: below, on the left, and on the right of the first row, whose left panel shows a density
    if (panel$row == k) draw_panel_axis(1, panel$x$ticks)
    if (panel$column == 1 && panel$row > 1) draw_panel_axis(2, panel$y$ticks)
    if (panel$column == k && panel$row == 1) draw_panel_axis(4, panel$y$ticks)
  }
  graphics::mtext(first_given(main, figure$main), side = 3, outer = TRUE, line = 3.8, font = 2, cex = 1.1)
  graphics::mtext(first_given(sub, figure$sub), side = 3, outer = TRUE, line = 2.4, cex = 0.9, col = "grey30")
  draw_outer_key(names(figure$outer_key), figure$outer_key)
}

draw_diagonal <- function(layer, look) {
  graphics::plot.new()
  texts <- corner_texts(layer$texts, cex = c(1.3, 1.15), font = c(2, 1))
  # the curve ends below the text
  span <- layer$span
  height <- diff(span) / (1 - texts$share - 0.06)
  graphics::plot.window(layer$limits, span[1] + c(-0.04 * diff(span), height), xaxs = "i", yaxs = "i")
  graphics::abline(h = 0, col = "grey75", lwd = 0.8)
  curve <- list(layers = Filter(length, curve_layers(layer$data, layer$colour)))
  draw_layers(curve, NULL, utils::modifyList(list(lwd = 1.5), Filter(length, look)), character(), FALSE)
  draw_rug_layer(list(data = layer$rug, size = 0.04), NULL, look)
  usr <- graphics::par("usr")
  graphics::text(
    usr[1] + 0.03 * diff(usr[1:2]), usr[4] - texts$middle * diff(usr[3:4]), texts$text,
    cex = texts$cex, font = texts$font, adj = c(0, 0.5), col = c("black", "grey30")[texts$line]
  )
}

# Lines of text for the upper left corner of a panel: list(text, cex, font, line, middle, share). Text is smaller if it
# would not fit; the second line is dropped if it would leave too little of the panel. `middle` and `share` (of all
# lines) are parts of the height of the panel.
corner_texts <- function(text, cex, font, most = 0.45) {
  pin <- graphics::par("pin")
  width <- mapply(\(t, c, f) graphics::strwidth(t, "inches", cex = c, font = f), text, cex, font)
  cex <- cex * pmin(1, 0.92 * pin[1] / width)
  cex[-1] <- pmin(cex[-1], 1.1 * cex[1])
  line <- 1.6 * graphics::strheight("M", "inches", cex = 1) * cex / pin[2]
  n <- max(1, sum(cumsum(line) <= most))
  shown <- seq_len(n)
  end <- cumsum(line)[shown]
  list(
    text = text[shown], cex = cex[shown], font = font[shown], line = shown,
    middle = end - line[shown] / 2 + 0.02, share = min(end[n] + 0.02, 0.6)
  )
}

# `own`: ticks with their labels as names; NULL: of numbers.
draw_panel_axis <- function(side, own = NULL) {
  x <- side == 1
  if (graphics::par(if (x) "xaxt" else "yaxt") == "n") return(invisible())
  cex <- graphics::par("cex.axis")
  along <- graphics::par("las") %in% (if (x) c(0, 1) else c(0, 3))
  if (!is.null(own)) return(graphics::axis(side, own, names(own), cex.axis = cex, gap.axis = 0.5))
  # the length of a label along its axis, in user coordinates
  usr <- graphics::par("usr")[if (x) 1:2 else 3:4]
  per_inch <- abs(diff(usr)) / graphics::par("pin")[if (x) 1 else 2]
  size <- if (along) graphics::strwidth else graphics::strheight
  ticks_of <- \(cex) panel_ticks(sort(usr), \(labels) per_inch * size(labels, "inches", cex = cex))
  ticks <- ticks_of(cex)
  # in a small panel, smaller labels are better than none
  if (sum(nzchar(ticks$labels)) < 3) {
    cex <- 0.75 * cex
    ticks <- ticks_of(cex)
  }
  graphics::axis(side, ticks$at, labels = ticks$labels, cex.axis = cex, gap.axis = 0)
}

# Chooses among sets of round numbers the one with most labels that do not overlap and lie within `usr`. A label
# that would come close to the next panel is omitted, and only its tick is drawn. At least three labels make a scale, and
# more than five are no better. `extent`: function that returns the lengths of labels.
panel_ticks <- function(usr, extent) {
  sets <- lapply(c(3, 4, 5, 2, 7), function(n) {
    at <- pretty(usr, n)
    at <- at[at >= usr[1] & at <= usr[2]]
    labels <- short_labels(at)
    half <- extent(labels) / 2
    room <- 1.25 * half
    labels[at - room < usr[1] | at + room > usr[2]] <- ""
    apart <- \() {
      shown <- which(nzchar(labels))
      length(shown) < 2 || 2 * max(room[shown]) < min(diff(at[shown]))
    }
    # every other label, starting from the first or the second, whichever keeps more
    if (!apart()) {
      odd <- round(at / (at[2] - at[1])) %% 2 == 1
      labels[odd == (sum(nzchar(labels[!odd])) >= sum(nzchar(labels[odd])))] <- ""
    }
    n <- sum(nzchar(labels))
    list(at = at, labels = labels, value = if (!apart()) 0 else if (n <= 5) min(n, 4) else 3)
  })
  sets[[which.max(vapply(sets, `[[`, 0, "value"))]]
}

# A row of coloured squares with their probabilities, in the outer margin above the panels.
draw_outer_key <- function(labels, colours, cex = 0.85) {
  # positions are in inches on the device; drawing is in the coordinates of the last panel
  width_of <- \(labels) graphics::strwidth(labels, "inches", cex = cex / graphics::par("cex"))
  total_of <- \(width) sum(0.18 + width) + 0.18 * (length(width) - 1)
  room <- 0.97 * graphics::par("din")[1]
  share <- room / total_of(width_of(labels))
  if (share < LEAST_LABEL) labels <- short_names(labels, max(3, floor(max(nchar(labels)) * share / LEAST_LABEL)))
  width <- width_of(labels)
  total <- total_of(width)
  fit <- min(1, room / total)
  square <- fit * 0.12
  gap <- fit * c(0.06, 0.18)
  width <- fit * width
  total <- fit * total
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
  graphics::text(x(left + square + gap[1]), y(middle), labels, adj = c(0, 0.5), cex = fit * cex / graphics::par("cex"))
}
