#' Plot a density estimate
#'
#' One variable: the density as a line over a rug of the data. Two variables: filled
#' highest-density regions, the smallest regions that hold the given probabilities, each contour
#' marked with its probability, over the data. More variables: a matrix of the marginals of one
#' (diagonal) and two variables (regions below the diagonal, contours and data above).
#'
#' The marginals are exact: integrating a Gaussian kernel estimate over the other variables leaves a
#' kernel estimate with the matching block of the bandwidth matrix, from the same (for SD-KDE: the
#' same debiased) points, and a Laplace-corrected kernel leaves a Laplace-corrected one.
#'
#' The grid spans the data plus three bandwidths (standard deviations) on each side. It is
#' even unless its steps would exceed half a bandwidth: far outliers then get nodes of their own
#' and the bulk keeps its resolution, at uneven steps. The contour levels do not depend on the
#' grid; they are those of [hdr_level()]. The estimate is summed exactly at every node up to 1e8
#' kernel pairs in a figure (2,500 points for two variables, 33,000 for one); beyond, by the fast
#' engine, within 1e-6 of its maximum (or the `tol` of the fit, where that is wider). Beyond 2e9
#' pairs (50,000 points for two variables, 660,000 for one, 8,000 for four) points closer than a
#' third of a bandwidth are merged first, which changes the density by less than 0.1% of its
#' maximum. Nothing is random: the same fit gives the same figure.
#'
#' Two variables that are longitude and latitude, by their names (`lon`, `long`, `lng`, `longitude`, `lat`,
#' `latitude`, also after a dot or an underscore) and values, are drawn as a map: a degree of longitude is
#' cos(latitude) times as long as one of latitude, unless `asp` says otherwise. Its frame is that of the map, and may be
#' narrower than the plot.
#'
#' Surfaces are drawn on a grid of 41 nodes per axis, unless `n_grid` says otherwise; the grid is linear between
#' nodes. They take `prob`, `col`, `main` and `sub`.
#'
#' A Laplace-corrected estimate can be negative. Such parts are drawn as they are and shaded in
#' orange; with two variables, where the estimate is below minus 1% of its maximum.
#'
#' @param x A fit, from [flash_kde()].
#' @param prob Probabilities of the regions, above 0 and below 1 (two variables or more).
#' @param n_grid Nodes of the grid per axis. By default 1024 for one variable, 151 for two, 101 for
#'   each marginal of two when there are more.
#' @param max_dims Number of variables shown when there are more than two: the first `max_dims`.
#' @param add Add to the present plot: the line, or contours without filling (one or two
#'   variables).
#' @param fill Fill the regions (two variables)?
#' @param points,rug Draw the data, as points (two variables or more) or as a rug (one variable)?
#'   A number is the most that are drawn; `TRUE` stands for 2,000 points (shared by the panels of a
#'   row) and 1,000 ticks. Larger data are thinned evenly. The area of a point is proportional to
#'   its weight, within limits. Points that lie on each other are drawn the more lightly, four of
#'   them at most, so that the regions below stay visible.
#' @param labels Write the probability on each contour (two variables)? Where one finds no room on
#'   its contour, or would hide it, a key in the corner names all of them.
#' @param col One variable: colour of the line. Otherwise the colours of the regions, outermost
#'   first, or one colour, of which lighter tints are made; with `fill = FALSE` the colour of the
#'   contours.
#' @param lwd,lty Width and type of the line or the contours.
#' @param main,sub Title, and the line of smaller type under it, which by default names the
#'   estimator, the number of points and the bandwidth (kernel standard deviations). `""` leaves one
#'   out. For one variable it has the colour of the line that it describes, as [lines()] may add
#'   those of other samples.
#' @param band One variable: `TRUE` or `"pointwise"`, or `"simultaneous"`, shades the 95% confidence band of
#'   [density_bands()], which for `"kde"` is about the bias-corrected estimate, not about the line.
#' @param xlab,ylab,xlim,ylim As in [graphics::plot.default()] (one or two variables). The density
#'   is evaluated within `xlim` and `ylim`.
#' @param groups A factor, or what can be one, with a value for each row of the data: the densities of its groups
#'   in one figure, with a key (one or two variables). Each is a fit of its own to the rows of the group, with the
#'   arguments of `x`; rows whose group is missing are left out. `col` has their colours. [lines()] and `add` serve
#'   fits that differ otherwise.
#' @param type What to draw: `"density"`; `"isosurface"`, of three variables, the borders of the regions as
#'   surfaces, or the same to turn with the mouse by package `"rgl"` or `"plotly"`; `"criterion"`, of a bandwidth
#'   that was searched, what the search has seen (as [plot.flashkernel_bandwidth()]).
#' @param ... Further graphical parameters, such as `las`, `bty`, `cex.axis`, and, for the data,
#'   `pch` and `cex`. For one or two variables also `asp`, `axes`, `cex.main` and the like. Names
#'   that the figure would not heed are an error.
#' @return What was drawn, invisibly. One variable: a list of `x` and `y` (the density), as
#'   [graphics::lines()] takes it. Two: a list of `x`, `y`, the matrix `z` of densities, as
#'   [graphics::contour()], [graphics::image()] and [graphics::persp()] take it, and the
#'   `levels` of the regions. More: a list of lists of these, `marginals` and `pairs`, named by the
#'   variables (`"a:b"` has `a` on the x axis). Groups: a list of these, named by group. Surfaces: a list of
#'   `axes`, `levels` and `triangles`, for each level a matrix with a row for each corner, three to a triangle;
#'   with `"plotly"` the widget, visibly. `"criterion"`: the bandwidth.
#' @seealso [hdr_level()] for the levels. With the package ggplot2 loaded,
#'   `autoplot()` draws the same figures ([autoplot.flash_kde()]).
#' @examples
#' plot(flash_kde(faithful$eruptions), main = "Old Faithful", xlab = "Eruption (min)")
#'
#' fit <- flash_kde(~ eruptions + waiting, data = faithful)
#' grid <- plot(fit)
#' str(grid)
#'
#' # the plain estimate for comparison, as dashed contours
#' plot(fit, prob = c(0.5, 0.9), points = FALSE, col = "darkgreen")
#' kde <- flash_kde(~ eruptions + waiting, data = faithful, estimator = "kde")
#' contour(kde, prob = c(0.5, 0.9), add = TRUE, lty = 2)
#'
#' plot(flash_kde(iris[, 1:4]))
#' plot(flash_kde(iris[3:4], bandwidth = "silverman"), groups = iris$Species)
#' plot(flash_kde(quakes[c("long", "lat")], bandwidth = 0.8))
#' plot(flash_kde(iris[1:3], bandwidth = "silverman"), type = "isosurface", prob = c(0.5, 0.9))
#' @export
plot.flash_kde <- function(x, prob = c(0.25, 0.5, 0.75, 0.95), n_grid = NULL, max_dims = 6,
                           add = FALSE, fill = !add, points = !add, rug = !add, labels = !add,
                           col = NULL, lwd = NULL, lty = 1, main = NULL, sub = NULL,
                           xlab = NULL, ylab = NULL, xlim = NULL, ylim = NULL, band = FALSE, groups = NULL,
                           type = c("density", "isosurface", "rgl", "plotly", "criterion"), ...) {
  check_in_memory(x, "x")
  type <- check_choice(type, c("density", "isosurface", "rgl", "plotly", "criterion"), "type")
  hold_limits(x)
  prob <- sort(unique(check_prob(prob, "prob", open = TRUE)))
  add <- check_flag(add, "add")
  asked_grid <- !is.null(n_grid)
  n_grid <- check_grid_size(n_grid, x$d)
  check_limits(xlim, "xlim")
  check_limits(ylim, "ylim")
  check_line_type(lty, "lty")
  check_colours(col, "col")
  if (!is.null(lwd)) check_width(lwd, "lwd")
  check_text(main, "main")
  check_text(sub, "sub")
  check_text(xlab, "xlab")
  check_text(ylab, "ylab")
  check_graphical(..., d = x$d)
  look <- list(
    col = col, lwd = lwd, lty = lty, main = main, sub = sub, xlab = xlab, ylab = ylab, xlim = xlim, ylim = ylim,
    band = check_band(band, x$d)
  )
  if (type == "criterion") return(plot_criterion(x, look, ...))
  if (type != "density") return(plot_isosurface(x, prob, if (asked_grid) n_grid else 41L, type, look))
  if (!is.null(groups)) {
    shown <- list(
      add = add, fill = check_flag(fill, "fill"), points = most_shown(points, "points", 2000L),
      rug = most_shown(rug, "rug", 1000L)
    )
    return(plot_groups(x, groups, prob, n_grid, shown, look, ...))
  }
  if (x$d == 1) {
    plot_1d(x, n_grid, add, most_shown(rug, "rug", 1000L), look, ...)
  } else if (x$d == 2) {
    shown <- list(
      add = add, fill = check_flag(fill, "fill"), points = most_shown(points, "points", 2000L),
      labels = check_flag(labels, "labels")
    )
    plot_2d(x, prob, n_grid, shown, look, ...)
  } else {
    if (add) stop_argument("add", "must be FALSE for more than two variables: found TRUE")
    check_unused(list(xlim = xlim, ylim = ylim, xlab = xlab, ylab = ylab))
    dims <- shown_dims(x, max_dims)
    points <- most_shown(points, "points", pair_points(dims))
    plot_pairs(x, prob, n_grid, dims, points, look, ...)
  }
}

#' @rdname plot.flash_kde
#' @importFrom graphics lines
#' @export
lines.flash_kde <- function(x, ...) {
  if (!x$d %in% 1:2) {
    stop_argument("x", "must be a fit to one or two variables for lines(): found ", x$d, " (marginal() makes one of them)")
  }
  plot.flash_kde(x, add = TRUE, ...)
}

#' @rdname plot.flash_kde
#' @importFrom graphics contour
#' @export
contour.flash_kde <- function(x, points = FALSE, ...) {
  if (x$d != 2 || !is.null(x$discrete)) {
    stop_argument("x", "must be a fit to two variables, both of numbers, for contour() (marginal() makes one of them)")
  }
  plot.flash_kde(x, fill = FALSE, points = points, ...)
}

# `...`: graphical parameters.
plot_criterion <- function(fit, look, ...) {
  if (is.null(fit$search)) {
    stop_argument(
      "type", "must be another than \"criterion\" for a bandwidth without a search: that of the fit is by \"",
      fit$selector, "\""
    )
  }
  given <- look[c("main", "xlab", "ylab")]
  do.call(plot.flashkernel_bandwidth, c(list(fit$search), given[lengths(given) > 0], list(...)))
}

# ---- arguments shared by plot() and autoplot() ------------------------------------------------

# Limits of an axis; the grid is laid between them. Reversed ones turn the axis round.
check_limits <- function(limits, arg) {
  if (is.null(limits)) {
    return(invisible())
  }
  if (!is.numeric(limits) || length(limits) != 2 || !all(is.finite(limits)) ||
    limits[1] == limits[2]) {
    stop_argument(arg, "must be two different finite numbers: found ", describe(limits))
  }
}

# The dots of plot() may hold what the figure heeds. Other names, misspelt ones and `type`, would be
# ignored, or clash with what draws the figure.
check_graphical <- function(..., d, .known = names(formals(sys.function(caller)))) {
  if (...length() == 0) return(invisible())
  caller <- sys.parent()
  names <- if (is.null(...names())) rep("", ...length()) else ...names()
  known <- c(GRAPHICAL, if (d <= 2) FRAME_GRAPHICAL, if (d == 1) LINE_GRAPHICAL)
  unknown <- setdiff(names, known)
  if (length(unknown) == 0) {
    # `panel.first` is an expression to evaluate later
    for (i in which(!names %in% c("panel.first", "panel.last"))) {
      check_graphical_value(...elt(i), names[i])
    }
    return(invisible())
  }
  if (is.na(unknown[1]) || !nzchar(unknown[1])) {
    stop_argument("...", "must be graphical parameters by name: found an unnamed argument")
  }
  meant <- nearest_choice(unknown[1], setdiff(c(.known, known), "..."))
  hint <- if (!is.null(meant)) paste0(" (did you mean `", meant, "`?)")
  stop_argument(unknown[1], "is not an argument of this function, nor a graphical parameter for it", hint)
}

GRAPHICAL <- c(
  "bg", "bty", "cex", "cex.axis", "col.axis", "family", "fg", "font", "font.axis", "lab", "las",
  "lend", "ljoin", "lmitre", "mgp", "pch", "tck", "tcl", "xaxt", "xpd", "yaxt"
)
# One frame, with labels and titles of its own.
FRAME_GRAPHICAL <- c(
  "adj", "ann", "asp", "axes", "cex.lab", "cex.main", "col.lab", "col.main", "font.lab",
  "font.main", "frame.plot", "xaxp", "xaxs", "yaxp", "yaxs"
)
# `panel.first` must stay unevaluated until the frame is there.
LINE_GRAPHICAL <- c("log", "panel.first", "panel.last")

check_graphical_value <- function(value, arg) {
  if (arg %in% names(GRAPHICAL_CHOICES)) {
    choices <- GRAPHICAL_CHOICES[[arg]]
    if (!is.atomic(value) || length(value) != 1 || is.object(value) || !value %in% choices) {
      shown <- if (is.character(choices)) paste0('"', choices, '"') else format(choices)
      stop_argument(arg, "must be one of ", paste(shown, collapse = ", "), ": found ", describe(value))
    }
  } else if (arg %in% GRAPHICAL_COLOURS) {
    check_colours(value, arg)
  } else if (arg %in% names(GRAPHICAL_LENGTHS)) {
    check_numbers(value, arg, GRAPHICAL_LENGTHS[[arg]])
  } else if (arg %in% c("cex", "cex.axis", "cex.lab", "cex.main")) {
    check_positive(value, arg)
  }
}

GRAPHICAL_CHOICES <- list(
  ann = c(TRUE, FALSE), axes = c(TRUE, FALSE), frame.plot = c(TRUE, FALSE), las = 0:3,
  bty = c("o", "l", "7", "c", "u", "]", "n", "L", "C", "U"), xaxs = c("r", "i"),
  yaxs = c("r", "i"), xaxt = c("s", "l", "t", "n"), yaxt = c("s", "l", "t", "n"),
  log = c("", "x", "y", "xy", "yx"), xpd = c(FALSE, TRUE, NA)
)
GRAPHICAL_COLOURS <- c("bg", "col.axis", "col.lab", "col.main", "fg")
GRAPHICAL_LENGTHS <- c(
  adj = 1, asp = 1, font = 1, font.axis = 1, font.lab = 1, font.main = 1, lab = 3, lmitre = 1,
  mgp = 3, tcl = 1, xaxp = 3, yaxp = 3
)

check_numbers <- function(value, arg, length) {
  if (!is.numeric(value) || is.object(value) || length(value) != length || anyNA(value)) {
    numbers <- if (length == 1) "one number" else paste(length, "numbers")
    stop_argument(arg, "must be ", numbers, ": found ", describe(value))
  }
}

check_positive <- function(value, arg) {
  if (!is.numeric(value) || is.object(value) || length(value) == 0 || !all(is.finite(value)) ||
    any(value <= 0)) {
    stop_argument(arg, "must be positive: found ", describe(value))
  }
}

check_width <- function(value, arg) {
  if (!is.numeric(value) || is.object(value) || length(value) != 1 || !isTRUE(value > 0) ||
    !is.finite(value)) {
    stop_argument(arg, "must be one positive number: found ", describe(value))
  }
}

# A title or label: a text, a number or a formula of ?plotmath.
check_text <- function(value, arg) {
  if (is.null(value) || is.language(value) && length(value) >= 1) return(invisible())
  if (!is.atomic(value) || length(value) != 1 || is.na(value)) {
    stop_argument(arg, "must be one text or expression: found ", describe(value))
  }
}

# Arguments that make sense for one or two variables only.
check_unused <- function(arguments) {
  for (arg in names(arguments)) {
    if (!is.null(arguments[[arg]])) {
      stop_argument(
        arg, "must be NULL for more than two variables: found ", describe(arguments[[arg]])
      )
    }
  }
}

# R's own graphics check no number here, and read whatever memory a large one points at.
check_line_type <- function(lty, arg) {
  valid <- length(lty) == 1 && if (is.character(lty)) {
    lty %in% LINE_TYPES || grepl("^([1-9A-Fa-f]{2}){1,4}$", lty)
  } else {
    is.numeric(lty) && isTRUE(lty %in% 0:99)
  }
  if (!valid) {
    stop_argument(
      arg, "must be a line type, such as 2 or \"dashed\" (see ?par): found ", describe(lty)
    )
  }
}

LINE_TYPES <- c("blank", "solid", "dashed", "dotted", "dotdash", "longdash", "twodash")

# `points` and `rug` are TRUE, FALSE or the largest number to draw.
most_shown <- function(value, arg, default) {
  if (is.logical(value)) {
    return(if (check_flag(value, arg)) default else 0L)
  }
  check_count(value, arg, min = 0)
}

shown_dims <- function(fit, max_dims) {
  max_dims <- check_count(max_dims, "max_dims", min = 2)
  if (fit$d > max_dims) {
    message(sprintf(
      "showing the first %d of %d variables; `max_dims` sets how many", max_dims, fit$d
    ))
  }
  seq_len(min(fit$d, max_dims))
}

# Small panels hold fewer points before they turn black.
pair_points <- function(dims) {
  2000L %/% length(dims)
}

# Relative size of points whose area goes with the weight, within what stays visible.
weight_size <- function(fit, rows) {
  if (is.null(fit$weights)) {
    return(rep(1, length(rows)))
  }
  w <- fit$weights[used_rows(fit)]
  pmin(pmax(sqrt(fit$weights[rows] / mean(w)), 0.5), 3)
}

# "SD-KDE, n = 272, bandwidth sds 0.33, 4.1": the line under the title.
fit_subtitle <- function(fit, bandwidth = TRUE, negative = FALSE) {
  sds <- short_number(bandwidth_sds(fit$bandwidth))
  paste0(
    estimator_of(fit)$short, ", n = ", format(fit$n, big.mark = ",", scientific = FALSE),
    if (bandwidth) {
      paste0(", bandwidth sd", if (fit$d > 1) "s", " ", paste(sds, collapse = ", "), working_note(fit$support))
    },
    if (!is.null(fit$adaptive)) ", adaptive", if (!has_gaussian(fit)) paste0(", ", fit$kernel, " kernel"),
    if (negative) "; negative where orange"
  )
}

# ---- numbers on axes --------------------------------------------------------------------------

# The axes below and on the left, with 100,000 for R's 1e+05. Ticks that the user sets stay R's own.
# `...`: all graphical parameters of the plot; `view`: see frame_gaps().
draw_axes <- function(..., xaxt = graphics::par("xaxt"), yaxt = graphics::par("yaxt"), ann = TRUE,
                      log = "", xaxp = NULL, yaxp = NULL, lab = NULL, xaxs = NULL, yaxs = NULL,
                      asp = NULL, adj = NULL, axes = TRUE, frame.plot = TRUE, panel.first = NULL,
                      panel.last = NULL, cex = NULL, pch = NULL, bg = NULL, bty = NULL, view = NULL) {
  draw <- function(side, type, ticks, is_log) {
    if (type == "n") return(invisible())
    at <- if (is.null(ticks) && is.null(lab) && !is_log) graphics::axTicks(side)
    if (!is.null(view)) at <- map_ticks(view[[side]], at)
    labels <- if (is.null(at)) TRUE else axis_labels(at)
    # `xaxp` and `lab` are read by axis() alone
    given <- Filter(Negate(is.null), list(xaxp = xaxp, yaxp = yaxp, lab = lab, pos = view[[3 - side]][1]))
    do.call(graphics::axis, c(list(side, at = at, labels = labels), given, list(...)))
  }
  draw(1, xaxt, xaxp, grepl("x", log))
  draw(2, yaxt, yaxp, grepl("y", log))
}

# `panel.first` among the dots must not be evaluated again.
draw_frame <- function(bty = graphics::par("bty"), fg = graphics::par("fg"), view = NULL, ...) {
  if (is.null(view)) return(graphics::box(bty = bty, col = fg))
  if (bty != "n") graphics::rect(view$x[1], view$y[1], view$x[2], view$y[2], border = fg)
}

# Labels of ticks without powers of ten, as long as they are readable: 0, 100,000, 200,000.
axis_labels <- function(at) {
  size <- max(abs(at), 0)
  if (size >= 1e4 && size < 1e9) {
    return(format(at, big.mark = ",", scientific = FALSE, trim = TRUE))
  }
  format(at, trim = TRUE)
}

# The same for narrow panels: 0, 100k, 200k.
short_labels <- function(at) {
  size <- max(abs(at), 0)
  unit <- if (size >= 1e9 || size < 1e4) 1 else if (size >= 1e6) 1e6 else 1e3
  labels <- format(at / unit, trim = TRUE)
  suffix <- c("1" = "", "1000" = "k", "1e+06" = "M")[[as.character(unit)]]
  ifelse(at == 0, "0", paste0(labels, suffix))
}
