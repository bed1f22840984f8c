# The densities of groups of the points in one figure, each fitted as the whole was.

# `shown`: a list of add, fill, points and rug, as plot() takes them; `look`: see plot_1d(). Returns the grids.
plot_groups <- function(fit, groups, prob, n_grid, shown, look, ...) {
  fits <- fit_groups(fit, groups)
  colours <- group_colours(look$col, length(fits))
  if (is.null(look$sub)) {
    look$sub <- paste0(estimator_of(fit)$short, " of each group, n = ", whole(sum(vapply(fits, `[[`, 0L, "n"))))
  }
  names <- variable_names(fit)
  if (is.null(look$main)) look$main <- paste("Density of", paste(names, collapse = " and "))
  if (is.null(look$xlab)) look$xlab <- names[1]
  if (is.null(look$ylab) && fit$d == 2) look$ylab <- names[2]
  draw <- if (fit$d == 1) draw_groups_1d else draw_groups_2d
  invisible(draw(fits, colours, prob, n_grid, shown, look, ...))
}

fit_groups <- function(fit, groups) {
  if (fit$d > 2) {
    why <- "groups are drawn of one or two variables: take those of a marginal(), or colour the points of pairs()"
    stop(new_error("unsupported", why, user_call()))
  }
  groups <- kept_groups(groups, fit)
  run <- start_run(fit_asked(fit), "Fitting groups")
  levels <- levels(groups)
  fits <- lapply(seq_along(levels), \(i) {
    share_stage(run, (i - 1) / length(levels), 1 / length(levels))
    refit(fit, which(as.integer(groups) == i), run)
  })
  stats::setNames(fits, levels)
}

# A factor of the rows of the fit, without levels that no row has.
kept_groups <- function(groups, fit) {
  if (!is.atomic(groups) || is.null(groups) || !length(groups) %in% (fit$n + c(0, length(fit$na.action)))) {
    stop_argument("groups", "must have one value per row of the fit, ", fit$n, ": found ", describe(groups))
  }
  groups <- as.factor(groups)
  if (length(groups) > fit$n) groups <- groups[-fit$na.action]
  groups <- droplevels(groups)
  sizes <- table(groups[used_rows(fit)])
  if (any(sizes < 2)) {
    small <- names(which.min(sizes))
    stop_argument("groups", "must each have two rows or more: found ", min(sizes), " in \"", small, "\"")
  }
  groups
}

# Of Okabe and Ito, for all eyes, as far as they go.
group_colours <- function(col, n) {
  if (!is.null(col)) return(rep_len(col, n))
  safe <- c("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
  if (n <= length(safe)) safe[seq_len(n)] else grDevices::hcl.colors(n, "Dark 3")
}

draw_groups_1d <- function(fits, colours, prob, n_grid, shown, look, ...) {
  grids <- lapply(fits, \(fit) grid_1d(figure_marginal(fit, to_tol = TRUE), n_grid, look$xlim))
  if (is.null(look$xlim)) look$xlim <- range(lapply(grids, `[[`, "x"))
  if (is.null(look$ylim)) look$ylim <- range(0, lapply(grids, `[[`, "y"))
  rug <- shown$rug %/% length(fits)
  for (i in seq_along(fits)) {
    look$col <- colours[i]
    grids[[i]] <- plot_1d(fits[[i]], n_grid, shown$add || i > 1, 0L, look, ...)
    if (rug > 0) draw_rug(fits[[i]]$x[thinned_rows(fits[[i]], rug), 1], col = colours[i])
  }
  curves <- cbind(unlist(lapply(grids, `[[`, "x")), unlist(lapply(grids, `[[`, "y")))
  draw_region_key(names(fits), colours, curves)
  grids
}

draw_groups_2d <- function(fits, colours, prob, n_grid, shown, look, ...) {
  points <- shown$points %/% length(fits)
  views <- lapply(fits, \(fit) {
    # what is shown need not be known to a pixel
    grid <- grid_2d(figure_marginal(fit, to_tol = TRUE), min(n_grid, 51L), prob)
    grid_view(grid, fit$x[thinned_rows(fit, points), , drop = FALSE])
  })
  if (is.null(look$xlim)) look$xlim <- range(lapply(views, `[[`, "x"))
  if (is.null(look$ylim)) look$ylim <- range(lapply(views, `[[`, "y"))
  lines <- list(fill = FALSE, points = 0L, labels = FALSE)
  grids <- lapply(seq_along(fits), \(i) {
    look$col <- colours[i]
    grid <- plot_2d(fits[[i]], prob, n_grid, c(lines, add = shown$add || i > 1), look, ...)
    tint <- grDevices::adjustcolor(colours[i], 0.15)
    if (shown$fill) for (level in sort(grid$levels)) draw_upper_set(grid, level, tint)
    grid
  })
  for (i in seq_along(fits)) {
    rows <- thinned_rows(fits[[i]], points)
    dots <- list(...)
    if (length(rows) > 0) draw_points(fits[[i]], 1:2, rows, pch = dots[["pch"]], cex = dots[["cex"]], col = colours[i])
  }
  outlines <- unlist(lapply(grids, \(grid) upper_set(grid, min(grid$levels))), recursive = FALSE)
  outlines <- lapply(outlines, \(line) cbind(line$x, line$y))
  view <- if (!shown$add) list(x = look$xlim, y = look$ylim)
  draw_region_key(names(fits), colours, do.call(rbind, outlines), view)
  stats::setNames(grids, names(fits))
}
