# Densities of groups of the points in one figure. Each group is fitted with the arguments of the whole fit.

group_figure <- function(fit, groups, asked, limits) {
  fits <- fit_groups(fit, groups)
  colours <- group_colours(asked$col, names(fits))
  asked$most <- asked$most %/% length(fits)
  names <- variable_names(fit)
  made <- (if (fit$d == 1) group_curves else group_regions)(fits, asked, limits)
  limits <- made$limits
  panel <- if (fit$d == 1) curve_panel(made$layers, names, limits$x, limits$y, key = "corner") else {
    map_panel(made$layers, names, limits$x, limits$y, key = "corner", aspect = map_aspect(fit))
  }
  figure <- new_figure(
    list(panel), main = paste("Density of", paste(names, collapse = " and ")),
    sub = paste0(estimator_of(fit)$short, " of each group, n = ", whole(sum(vapply(fits, `[[`, 0L, "n")))),
    colours = colours, shown = made$grids
  )
  with_date_axes(figure, fit)
}

fit_groups <- function(fit, groups) {
  if (fit$d > 2) {
    why <- "`groups` needs a fit to one or two variables: fit those alone, or use pairs() with colours"
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

# `groups` as a factor of the rows of the fit, without unused categories.
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

# list(layers, limits, grids) of fits to one variable.
group_curves <- function(fits, asked, limits) {
  xlim <- first_given(frame_limits(limits), range(lapply(fits, figure_range, 1)))
  grids <- lapply(fits, figure_curve, n = asked$n, lim = xlim)
  curves <- Map(\(grid, name) curve_layers(grid, group = factor(name, names(fits))), grids, names(fits))
  ticks <- bind_groups(lapply(fits, figure_rug, 1, asked$most))
  list(
    layers = c(unlist(unname(curves), FALSE), if (!is.null(ticks)) list(new_layer("rug", ticks))),
    limits = list(x = xlim, y = range(0, lapply(grids, `[[`, "y"))), grids = grids
  )
}

# list(layers, limits, grids) of fits to two variables.
group_regions <- function(fits, asked, limits) {
  points <- lapply(fits, figure_points, 1:2, asked$most)
  # limits need not be exact to a pixel
  views <- Map(\(fit, points) grid_view(figure_grid(fit, min(asked$n, 51L), asked$prob), points), fits, points)
  for (axis in c("x", "y")) {
    if (is.null(limits[[axis]])) limits[[axis]] <- range(lapply(views, `[[`, axis))
  }
  grids <- lapply(fits, figure_grid, n = asked$n, prob = asked$prob, limits = limits)
  lines <- bind_groups(lapply(grids, grid_lines))
  tints <- if (asked$fill) unlist(lapply(seq_along(grids), \(i) lapply(sort(grids[[i]]$levels), \(level) {
    outline <- outline_frame(upper_set(grids[[i]], level))
    if (!is.null(outline)) {
      new_layer("regions", cbind(outline, group = factor(names(fits)[i], names(fits))), opacity = 0.15)
    }
  })), FALSE)
  dots <- bind_groups(points)
  size <- 0.7 * crowd_size(max(vapply(points, nrow, 0L)))
  list(
    layers = c(
      list(new_layer("line", lines, width = 1)), tints, if (!is.null(dots)) list(new_layer("points", dots, size = size))
    ),
    limits = limits[c("x", "y")], grids = grids
  )
}
