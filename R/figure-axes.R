# Axes, frames and keys of base graphics.

# The axes below and on the left, with labels such as 100,000 instead of 1e+05. Ticks that the user sets keep R's
# labels. `...`: all graphical parameters of the plot; `view`: see frame_gaps(); `marks`: a list of the
# ticks of both axes, NULL for R's.
draw_axes <- function(..., col.sub = NULL, xaxt = graphics::par("xaxt"), yaxt = graphics::par("yaxt"), ann = TRUE,
                      log = "", xaxp = NULL, yaxp = NULL, lab = NULL, xaxs = NULL, yaxs = NULL,
                      asp = NULL, adj = NULL, axes = TRUE, frame.plot = TRUE, panel.first = NULL,
                      panel.last = NULL, cex = NULL, pch = NULL, bg = NULL, bty = NULL, view = NULL, marks = NULL) {
  draw <- function(side, type, ticks, is_log) {
    if (type == "n") return(invisible())
    at <- if (is.null(ticks) && is.null(lab) && !is_log) first_given(marks[[side]], graphics::axTicks(side))
    if (!is.null(view)) at <- map_ticks(view[[side]], at)
    labels <- if (is.null(at)) TRUE else first_given(names(at), axis_labels(at))
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

# Ticks at the quarters of a circle whose quarters are whole numbers, as of 24 hours or 360 degrees; otherwise NULL.
circle_ticks <- function(fit, axis) {
  if (is.null(fit$support)) return(NULL)
  domain <- domain_columns(fit$support, axis)
  quarter <- (domain$upper - domain$lower) / 4
  if (identical(domain$kind, "circular") && quarter == round(quarter)) domain$lower + quarter * 0:4
}

# Ticks of dates or times, as of axis.Date(), with their labels as names. NULL for other values.
date_ticks <- function(values) {
  if (!inherits(values, c("Date", "POSIXct"))) return(NULL)
  at <- pretty(values)
  stats::setNames(as.numeric(at), attr(at, "labels"))
}

# A figure with dates and times on the axes of the columns that have them in the fit.
with_date_axes <- function(figure, fit) {
  dates <- fit$dates
  if (length(dates) == 1 && is.null(fit[["names"]]) && isTRUE(fit[["d"]] == 1)) names(dates) <- variable_names(fit)
  figure$panels <- lapply(figure$panels, \(panel) {
    for (axis in c("x", "y")) {
      kind <- if (!is.null(panel[[axis]]$label)) dates[[panel[[axis]]$label]]
      if (!is.null(kind)) panel[[axis]]$ticks <- date_ticks(as_dates(panel[[axis]]$limits, kind))
    }
    panel
  })
  figure
}

# Labels of ticks without powers of ten, as long as they are readable: 0, 100,000, 200,000.
axis_labels <- function(at) {
  size <- max(abs(at), 0)
  if (size >= 1e4 && size < 1e9) return(format(at, big.mark = ",", scientific = FALSE, trim = TRUE))
  format(at, trim = TRUE)
}

# Labels of ticks for narrow panels: 0, 100k, 200k.
short_labels <- function(at) {
  size <- max(abs(at), 0)
  unit <- if (size >= 1e9 || size < 1e4) 1 else if (size >= 1e6) 1e6 else 1e3
  labels <- format(at / unit, trim = TRUE)
  suffix <- c("1" = "", "1000" = "k", "1e+06" = "M")[[as.character(unit)]]
  ifelse(at == 0, "0", paste0(labels, suffix))
}

# Limits wide enough for axis(), which draws no ticks for values that differ only by rounding. Equal limits stay: axis()
# handles them itself.
axis_limits <- function(limits) {
  least <- max(1e-12 * abs(limits), 1e-300)
  if (diff(limits) == 0 || abs(diff(limits)) >= least) limits else mean(limits) + c(-least, least) / 2
}

# An axis that shows each name, however narrow the panel: in one line or in two, smaller, or abbreviated.
draw_levels <- function(levels, cex.axis = graphics::par("cex.axis"), mgp = graphics::par("mgp"), ...) {
  room <- 0.95 * graphics::par("pin")[1] / length(levels)
  width <- max(graphics::strwidth(levels, "inches", cex = cex.axis))
  shown <- level_layout(levels, room / width)
  given <- list(...)
  given <- given[names(given) %in% c("las", "col.axis", "font.axis", "tck", "tcl", "family")]
  for (line in seq_len(shown$lines)) {
    some <- seq(line, length(levels), by = shown$lines)
    do.call(graphics::axis, c(list(
      1, some, shown$labels[some], gap.axis = -1, cex.axis = cex.axis * shown$cex, mgp = mgp + c(0, 0.6 * (line - 1), 0)
    ), given))
  }
}

# Returns list(labels, lines, cex). `share`: the room of a label over the width of the widest. Labels in two lines have
# twice the room. They shrink to LEAST_LABEL, and lose letters beyond.
level_layout <- function(levels, share) {
  lines <- if (share < 0.8 && length(levels) > 1) 2 else 1
  cex <- min(1, lines * share)
  if (cex < LEAST_LABEL) {
    levels <- short_names(levels, max(3, floor(max(nchar(levels)) * cex / LEAST_LABEL)))
  }
  list(labels = levels, lines = lines, cex = max(LEAST_LABEL, cex))
}

# Names of at most `most` letters, or nearly: without the words that all begin with, and abbreviated if that is not enough.
short_names <- function(names, most) {
  if (length(names) < 2 || all(nchar(names) <= most)) return(names)
  words <- strsplit(names, "(?<=[ ._-])", perl = TRUE)
  alike <- 0
  while (all(lengths(words) > alike + 1) && length(unique(vapply(words, `[`, "", alike + 1))) == 1) alike <- alike + 1
  names <- vapply(words, \(own) paste(own[(alike + 1):length(own)], collapse = ""), "")
  if (all(nchar(names) <= most)) names else unname(abbreviate(names, most, named = FALSE))
}

LEAST_LABEL <- 0.65

# Names at the left side, one below another.
draw_side_levels <- function(levels, cex.axis = graphics::par("cex.axis"), col.axis = graphics::par("col.axis"), ...) {
  room <- 0.95 * graphics::par("pin")[2] / length(levels)
  cex <- cex.axis * max(0.4, min(1, room / graphics::strheight("X", "inches", cex = 1.3 * cex.axis)))
  graphics::axis(
    2, seq_along(levels), levels, las = 1, gap.axis = -1, tick = FALSE, cex.axis = cex, col.axis = col.axis
  )
}

# Inches of a left margin with these names, at most 0.45 of the figure.
side_room <- function(levels, cex.axis = graphics::par("cex.axis"), ...) {
  width <- max(graphics::strwidth(levels, "inches", cex = cex.axis)) + 0.3
  min(0.45 * graphics::par("fin")[1], max(graphics::par("mai")[2] / 2, width))
}

# A key in the upper right, at most half as wide and half as high as the panel.
draw_curve_key <- function(labels, colours) {
  key <- \(cex, plot) graphics::legend(
    "topright", legend = labels, col = colours, lwd = 2, bty = "n", cex = cex, seg.len = 1, plot = plot
  )
  size <- key(0.9, FALSE)$rect
  panel <- graphics::par("usr")
  key(0.9 * min(1, (panel[2] - panel[1]) / (2 * size$w), (panel[4] - panel[3]) / (2 * size$h)), TRUE)
}
