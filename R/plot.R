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
#' grid; they are those of [hdr_level()]. The estimate is evaluated exactly at every node, up to
#' 2e9 kernel pairs in a figure (50,000 points for two variables, 660,000 for one, 8,000 for
#' four); beyond, points closer than a third of a bandwidth are merged first, which changes the
#' density by less than 0.1% of its maximum.
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
#'   its weight, within limits.
#' @param labels Write the probability on each contour (two variables)? What finds no room on its
#'   contour goes to a key in the corner.
#' @param col One variable: colour of the line. Otherwise the colours of the regions, outermost
#'   first, or one colour, of which lighter tints are made; with `fill = FALSE` the colour of the
#'   contours.
#' @param lwd,lty Width and type of the line or the contours.
#' @param main,sub Title, and the line of smaller type under it, which by default names the
#'   estimator, the number of points and the bandwidth (kernel standard deviations). `""` leaves one
#'   out.
#' @param xlab,ylab,xlim,ylim As in [graphics::plot.default()] (one or two variables). The density
#'   is evaluated within `xlim` and `ylim`.
#' @param ... Further graphical parameters, such as `las`, `bty`, `cex.axis`, and, for the data,
#'   `pch` and `cex`. For one or two variables also `asp`, `axes`, `cex.main` and the like. Names
#'   that the figure would not heed are an error.
#' @return What was drawn, invisibly. One variable: a list of `x` and `y` (the density), as
#'   [graphics::lines()] takes it. Two: a list of `x`, `y`, the matrix `z` of densities, as
#'   [graphics::contour()], [graphics::image()] and [graphics::persp()] take it, and the
#'   `levels` of the regions. More: a list of lists of these, `marginals` and `pairs`, named by the
#'   variables (`"a:b"` has `a` on the x axis).
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
#' plot(kde, prob = c(0.5, 0.9), add = TRUE, lty = 2)
#'
#' plot(flash_kde(iris[, 1:4]))
#' @export
plot.flash_kde <- function(x, prob = c(0.25, 0.5, 0.75, 0.95), n_grid = NULL, max_dims = 6,
                           add = FALSE, fill = !add, points = !add, rug = !add, labels = !add,
                           col = NULL, lwd = NULL, lty = 1, main = NULL, sub = NULL,
                           xlab = NULL, ylab = NULL, xlim = NULL, ylim = NULL, ...) {
  check_in_memory(x, "x")
  prob <- sort(unique(check_prob(prob, "prob", open = TRUE)))
  add <- check_flag(add, "add")
  n_grid <- check_grid_size(n_grid, x$d)
  check_limits(xlim, "xlim")
  check_limits(ylim, "ylim")
  check_line_type(lty, "lty")
  check_graphical(..., d = x$d)
  if (x$d == 1) {
    plot_1d(
      x, n_grid, add, most_shown(rug, "rug", 1000L), col, lwd, lty, main, sub, xlab, ylab, xlim,
      ylim, ...
    )
  } else if (x$d == 2) {
    plot_2d(
      x, prob, n_grid, add, check_flag(fill, "fill"), most_shown(points, "points", 2000L),
      check_flag(labels, "labels"), col, lwd, lty, main, sub, xlab, ylab, xlim, ylim, ...
    )
  } else {
    if (add) stop_argument("add", "must be FALSE for more than two variables: found TRUE")
    check_unused(list(xlim = xlim, ylim = ylim, xlab = xlab, ylab = ylab))
    dims <- shown_dims(x, max_dims)
    points <- most_shown(points, "points", pair_points(dims))
    plot_pairs(x, prob, n_grid, dims, points, col, lwd, lty, main, sub, ...)
  }
}

#' @rdname plot.flash_kde
#' @importFrom graphics lines
#' @export
lines.flash_kde <- function(x, ...) {
  plot.flash_kde(x, add = TRUE, ...)
}

# ---- arguments shared by plot() and autoplot() ------------------------------------------------

check_grid_size <- function(n_grid, d) {
  if (is.null(n_grid)) c(1024L, 151L, 101L)[min(d, 3)] else check_count(n_grid, "n_grid", min = 10)
}

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
check_graphical <- function(..., d) {
  names <- if (is.null(...names())) rep("", ...length()) else ...names()
  known <- c(GRAPHICAL, if (d <= 2) FRAME_GRAPHICAL, if (d == 1) LINE_GRAPHICAL)
  unknown <- setdiff(names, known)
  if (length(unknown) == 0) return(invisible())
  if (is.na(unknown[1]) || !nzchar(unknown[1])) {
    stop_argument("...", "must be graphical parameters by name: found an unnamed argument")
  }
  stop_argument(unknown[1], "is not an argument of this function, nor a graphical parameter for it")
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

# Row indices of at most `most` points, evenly spread over the rows so that R's random numbers stay
# out of it; points without weight are not part of the estimate and not shown.
thinned_rows <- function(fit, most) {
  rows <- which(used_rows(fit))
  if (length(rows) <= most) rows else rows[round(seq(1, length(rows), length.out = most))]
}

# Relative size of points whose area goes with the weight, within what stays visible.
weight_size <- function(fit, rows) {
  if (is.null(fit$weights)) {
    return(rep(1, length(rows)))
  }
  w <- fit$weights[used_rows(fit)]
  pmin(pmax(sqrt(fit$weights[rows] / mean(w)), 0.5), 3)
}

# Names for the axes. A vector has no column name; then `x` or `data$x`, as the user wrote it, says
# most.
variable_names <- function(fit) {
  written <- fit$call$x
  if (fit$d == 1 && is.null(fit$names) && (is.name(written) || is_element(written))) {
    return(deparse(written)[1])
  }
  point_names(fit)
}

is_element <- function(written) {
  is.call(written) && is.name(written[[1]]) && as.character(written[[1]]) %in% c("$", "[[", "[")
}

# "SD-KDE, n = 272, bandwidth sds 0.33, 4.1": the line under the title.
fit_subtitle <- function(fit, bandwidth = TRUE, negative = FALSE) {
  sds <- vapply(bandwidth_sds(fit$bandwidth), format, "", digits = 3)
  paste0(
    SHORT_TITLES[[fit$estimator]], ", n = ", format(fit$n, big.mark = ",", scientific = FALSE),
    if (bandwidth) {
      paste0(", bandwidth sd", if (fit$d > 1) "s", " ", paste(sds, collapse = ", "))
    },
    if (negative) "; negative where orange"
  )
}

# Title and subtitle above the plot. `...`: all other graphical parameters of the plot.
draw_titles <- function(main, sub, ann = graphics::par("ann"), adj = graphics::par("adj"),
                        cex.main = graphics::par("cex.main"), col.main = graphics::par("col.main"),
                        font.main = graphics::par("font.main"), family = graphics::par("family"),
                        ...) {
  if (!ann) {
    return(invisible())
  }
  graphics::title(
    main = main, line = if (nzchar(sub)) 1.7 else 1.2, adj = adj, col.main = col.main,
    cex.main = cex.main * fit_width(main, cex.main, font.main), font.main = font.main,
    family = family
  )
  graphics::mtext(
    sub, side = 3, line = 0.45, adj = adj, col = "grey30", family = family,
    cex = 0.95 * graphics::par("cex") * fit_width(sub, 0.95)
  )
}

# The factor, 1 at most, by which a line centred above the plot must shrink to stay on its figure.
fit_width <- function(text, cex, font = 1) {
  margins <- graphics::par("mai")
  room <- graphics::par("fin")[1] - abs(margins[2] - margins[4])
  min(1, 0.97 * room / max(graphics::strwidth(text, "inches", cex = cex, font = font)))
}
