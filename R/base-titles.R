# Titles and labels of axes, reduced in size if they do not fit.

# Draws title and subtitle. `...`: all other graphical parameters of the plot; `gaps`: from frame_gaps().
draw_titles <- function(main, sub, ann = graphics::par("ann"), adj = graphics::par("adj"),
                        cex.main = graphics::par("cex.main"), col.main = graphics::par("col.main"),
                        font.main = graphics::par("font.main"), family = graphics::par("family"),
                        col.sub = "grey30", gaps = numeric(4), ...) {
  if (!ann) return(invisible())
  main <- in_two_lines(main, cex.main, font.main)
  sub <- in_two_lines(sub, 0.95)
  above <- if (is_text(sub)) 1.7 + 0.9 * (count_lines(sub) - 1) else 1.2
  graphics::title(
    main = main, line = above - gaps[3], adj = adj, col.main = col.main,
    cex.main = cex.main * fit_width(main, cex.main, font.main), font.main = font.main,
    family = family
  )
  graphics::mtext(
    sub, side = 3, line = 0.45 - gaps[3], adj = adj, col = col.sub, family = family,
    cex = 0.95 * graphics::par("cex") * fit_width(sub, 0.95)
  )
}

# Draws the labels of both axes. `...`, `gaps`: see draw_titles().
draw_axis_titles <- function(xlab, ylab, ann = graphics::par("ann"), cex.lab = graphics::par("cex.lab"),
                             font.lab = graphics::par("font.lab"), col.lab = graphics::par("col.lab"),
                             mgp = graphics::par("mgp"), family = graphics::par("family"), gaps = numeric(4), ...) {
  if (!ann) return(invisible())
  draw <- function(label, room, gap, ...) {
    fit <- min(1, 0.97 * room / max(graphics::strwidth(label, "inches", cex = cex.lab, font = font.lab)))
    graphics::title(
      ..., line = mgp[1] - gap, cex.lab = cex.lab * fit, font.lab = font.lab, col.lab = col.lab, family = family
    )
  }
  # centred on the plot, not on the figure
  margins <- graphics::par("mai")
  room <- graphics::par("fin") - abs(margins[2:1] - margins[4:3])
  draw(xlab, room[1], gaps[1], xlab = xlab)
  draw(ylab, room[2], gaps[2], ylab = ylab)
}

# Breaks a text near its middle if it would have to shrink below 3/4 of its size.
in_two_lines <- function(text, cex, font = 1) {
  if (!is.character(text) || fit_width(text, cex, font) > 0.75) return(text)
  gaps <- gregexpr(" ", text)[[1]]
  if (gaps[1] < 0 || grepl("\n", text)) return(text)
  at <- gaps[which.min(abs(gaps - nchar(text) / 2))]
  paste0(substr(text, 1, at - 1), "\n", substring(text, at + 1))
}

count_lines <- function(text) if (is.character(text)) lengths(strsplit(text, "\n")) else 1

# FALSE for ""; a title may also be an expression.
is_text <- function(title) !is.character(title) || any(nzchar(title))

# The factor, 1 at most, by which a line centred above the plot must shrink to stay on its figure.
fit_width <- function(text, cex, font = 1) {
  margins <- graphics::par("mai")
  room <- graphics::par("fin")[1] - abs(margins[2] - margins[4])
  min(1, 0.97 * room / max(graphics::strwidth(text, "inches", cex = cex, font = font)))
}

# Whether the user has divided the page, by par(mfrow = ) or layout(). As of plot.lm(), panels then continue there.
has_layout <- function() prod(graphics::par("mfrow")) > 1
