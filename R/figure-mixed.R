# Figures of fits with levels: for each number its density with each level of one column, in colours, and for each
# column of levels their probabilities.

#' Plot a density estimate of numbers and levels
#'
#' For each numeric column a panel with a line for each level of one column, `by`: the estimate of that number
#' together with that level, \eqn{p(x_k, c)}{p(x_k, c)}, which integrates to the level's probability, so that the
#' lines add up to the density of the number. For each column of levels a panel with their probabilities under the
#' estimate. All are exact marginals: kernels are integrated and summed over all that a panel does not show.
#'
#' @param x A fit with levels, from [flash_kde()].
#' @param by Name of the column of levels whose levels have colours. By default the first; `NULL`: none, and one
#'   line for all.
#' @param n_grid Nodes of a line.
#' @param max_dims Number of panels: the first columns.
#' @param rug Draw the data of numeric columns as a rug? A number is the most ticks; `TRUE` stands for 300.
#' @param col One colour for each level of `by`.
#' @param lwd,lty Width and type of the lines; types may be one for each level.
#' @param main,sub Title, and the line under it. `""` leaves one out.
#' @param ... Further graphical parameters: `las`, `bty`, `cex.axis` and the like.
#' @return What was drawn, invisibly: a list by column, of a number a list by level of `x` and `y`, of levels their
#'   probabilities.
#' @seealso [plot.flash_kde()] for fits to numbers alone.
#' @examples
#' plot(flash_kde(iris[3:5]))
#' @export
plot.flash_kde_mixed <- function(x, by = names(x$discrete$columns)[1], n_grid = 512, max_dims = 9, rug = TRUE,
                                 col = NULL, lwd = 2, lty = 1, main = NULL, sub = NULL, ...) {
  columns <- x$discrete$columns
  if (!is.null(by)) by <- check_choice(by, names(columns), "by")
  n_grid <- check_count(n_grid, "n_grid", min = 10)
  max_dims <- check_count(max_dims, "max_dims")
  check_colours(col, "col")
  check_width(lwd, "lwd")
  for (type in lty) check_line_type(type, "lty")
  check_text(main, "main")
  check_text(sub, "sub")
  check_graphical(..., d = 3)
  rug <- most_shown(rug, "rug", 300L)
  hold_limits(x)
  shown <- first_columns(x$discrete$names, max_dims)
  levels <- if (is.null(by)) "all" else columns[[by]]$levels
  count <- length(levels)
  if (is.null(col)) col <- level_colours(count)
  look <- list(col = rep_len(col, count), lwd = lwd, lty = rep_len(lty, count))
  n_lines <- sum(!shown %in% names(columns))
  drawn <- lapply(stats::setNames(nm = shown), \(name) {
    if (is.null(columns[[name]])) level_lines(x, name, by, n_grid, n_lines) else level_shares(x, name)
  })
  old <- graphics::par(utils::modifyList(mixed_layout(length(shown)), list(...)))
  on.exit(graphics::par(old))
  for (name in shown) {
    if (is.null(columns[[name]])) {
      draw_level_lines(drawn[[name]], name, look)
      if (rug > 0) draw_rug(x$x[thinned_rows(x, rug), name])
    } else {
      draw_level_shares(drawn[[name]], name, if (identical(name, by)) look$col else "grey75")
    }
  }
  draw_mixed_titles(main, sub, x, by, levels, look)
  invisible(drawn)
}

first_columns <- function(names, most) {
  if (length(names) <= most) return(names)
  message("showing the first ", most, " of ", length(names), " columns; `max_dims` sets how many")
  utils::head(names, most)
}

# Okabe and Ito's, which stay apart in every form of colour blindness; of many levels a scale.
level_colours <- function(count) {
  okabe <- c("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000")
  if (count <= length(okabe)) okabe[seq_len(count)] else grDevices::hcl.colors(count, "Zissou 1")
}

# ---- what is drawn --------------------------------------------------------------------------------

# A list by level, of grid_1d() of the number together with it; NULL of one without probability.
level_lines <- function(fit, name, by, n_grid, n_panels) {
  dim <- match(name, point_names(fit))
  w <- if (is.null(fit$weights)) rep(1, fit$n) else fit$weights
  line <- function(share) {
    part <- numbers_alone(fit, w * share)
    if (any(part$weights > 0)) {
      grid <- grid_1d(figure_marginal(part, dim, n_panels, to_tol = TRUE), n_grid, range(x_range))
      list(x = grid$x, y = grid$y * sum(part$weights) / sum(w))
    }
  }
  x_range <- grid_range(figure_marginal(numbers_alone(fit, fit$weights), dim), 1)
  if (is.null(by)) return(list(all = line(1)))
  table <- level_tables(fit$discrete)[[by]]
  levels <- fit$discrete$columns[[by]]$levels
  lapply(stats::setNames(seq_along(levels), levels), \(level) line(table[level, fit$discrete$codes[, by]]))
}

# The estimate of the numbers alone, with weights that say how much each point gives to some levels.
numbers_alone <- function(fit, weights) {
  fit <- unclass(fit)
  fit[c("discrete", "weights")] <- list(NULL, weights)
  fit
}

level_shares <- function(fit, name) {
  shares <- summarise_levels(fit)[[name]]
  stats::setNames(drop(level_tables(fit$discrete)[[name]] %*% shares), names(shares))
}

# ---- drawing --------------------------------------------------------------------------------------

mixed_layout <- function(count) {
  list(
    mfrow = grDevices::n2mfrow(count), mar = c(3.2, 3.2, 0.8, 0.8), oma = c(0, 0, 5.4, 0), mgp = c(1.9, 0.6, 0),
    tcl = -0.3, cex = if (count > 4) 0.8 else 1
  )
}

draw_level_lines <- function(lines, name, look) {
  known <- Filter(length, lines)
  xlim <- range(lapply(known, `[[`, "x"))
  ylim <- range(0, lapply(known, `[[`, "y"))
  graphics::plot.default(xlim, ylim, type = "n", xlab = name, ylab = "Density", axes = FALSE)
  draw_axes()
  draw_frame(fg = "grey40")
  graphics::abline(h = 0, col = "grey75", lwd = 0.8)
  for (k in seq_along(lines)) {
    if (length(lines[[k]]) > 0) draw_density_line(lines[[k]], look$col[k], look$lwd, look$lty[k])
  }
}

draw_level_shares <- function(shares, name, colours) {
  at <- graphics::barplot(
    shares, col = colours, border = NA, xlab = name, ylab = "Probability", ylim = c(0, 1.04 * max(shares)),
    space = 0.3, names.arg = rep("", length(shares))
  )[, 1]
  # all of them, as long as they can be read: halves of neighbours have the room of a bar
  half <- graphics::strwidth(names(shares), "inches", cex = 0.9) / 2
  needed <- max(half, half[-1] + half[-length(half)])
  room <- 0.93 * graphics::par("pin")[1] * 1.3 / diff(graphics::par("usr")[1:2])
  graphics::axis(1, at, names(shares), tick = FALSE, cex.axis = 0.9 * max(0.5, min(1, room / needed)), gap.axis = 0.1)
  draw_frame(fg = "grey40")
}

mixed_subtitle <- function(fit) {
  paste0(estimator_of(fit)$short, ", n = ", format(fit$n, big.mark = ",", scientific = FALSE))
}

draw_mixed_titles <- function(main, sub, fit, by, levels, look) {
  if (is.null(main)) main <- if (is.null(by)) "Marginal densities" else paste("Marginal densities by", by)
  if (is.null(sub)) sub <- mixed_subtitle(fit)
  graphics::mtext(main, side = 3, outer = TRUE, line = 3.6, font = 2, cex = 1.1)
  graphics::mtext(sub, side = 3, outer = TRUE, line = 2.2, cex = 0.9, col = "grey30")
  if (!is.null(by)) draw_outer_key(levels, look$col)
}
