# What figures need of a density estimate: values on a grid, points, names and the subtitle.

# list(x, y) of the variable `dim`. `panels`: figures that share the budget of kernel pairs.
figure_curve <- function(fit, n, lim = NULL, dim = 1, panels = 1) {
  part <- shown_part(fit, dim, panels, to_tol = TRUE)
  grid_1d(part, n, first_given(lim, shown_range(part$fit, 1)))
}

# list(x, y, z, levels) of two variables.
figure_grid <- function(fit, n, prob, limits = NULL, dims = 1:2, panels = 1) {
  part <- shown_part(fit, dims, panels, to_tol = TRUE)
  range <- \(axis) first_given(limits[[axis]], shown_range(part$fit, axis))
  grid_2d(part, n, prob, range(1), range(2))
}

figure_range <- function(fit, dim) shown_range(shown_part(fit, dim)$fit, 1)

# At most `most` of the points, with a size that depends on their weight.
figure_points <- function(fit, dims, most) {
  rows <- thinned_rows(fit, most)
  data.frame(x = fit$x[rows, dims[1]], y = fit$x[rows, dims[2]], size = weight_size(fit, rows), row.names = NULL)
}

figure_rug <- function(fit, dim, most) data.frame(x = fit$x[thinned_rows(fit, most), dim], row.names = NULL)

# list(x, low, high, y) of the confidence band at the nodes of a figure, y its centre; NULL if `type` is NULL. Results are
# reproducible: simultaneous bands use a fixed seed.
figure_band <- function(fit, type, nodes) {
  if (is.null(type)) return(NULL)
  at <- nodes[spread_rows(length(nodes), 256)]
  bands <- with_fixed_seed(kde_bands(fit, at, type = type))
  data.frame(x = at, low = bands$lower, high = bands$upper, y = bands$estimate)
}

# The subtitle, such as "SD-KDE, n = 272, bandwidths 0.33, 4.1".
fit_subtitle <- function(fit, bandwidth = fit$d > 0, negative = FALSE) {
  sds <- short_number(bandwidth_sds(fit$bandwidth))
  paste0(
    estimator_of(fit)$short, ", n = ", whole(fit$n),
    if (bandwidth) {
      paste0(", bandwidth", if (fit$d > 1) "s", " ", paste(sds, collapse = ", "), working_note(fit$support))
    },
    if (!is.null(fit$adaptive)) ", adaptive", if (!has_gaussian(fit)) paste0(", ", fit$kernel, " kernel"),
    if (negative) "; negative where orange"
  )
}

# Whether negative values are worth mentioning: a Laplace-corrected estimate is slightly below zero all around the data.
shows_negative <- function(density) min(density) < -0.01 * max(density)

# The level below which a region counts as negative.
negative_level <- function(z) -0.01 * max(z)

# The grid with points added at the zeros of the line, so that shading ends there.
crossings <- function(grid) {
  n <- length(grid$x)
  i <- which(grid$y[-n] * grid$y[-1] < 0)
  part <- grid$y[i] / (grid$y[i] - grid$y[i + 1])
  x <- c(grid$x, grid$x[i] + part * (grid$x[i + 1] - grid$x[i]))
  by_x <- order(x)
  list(x = x[by_x], y = c(grid$y, rep(0, length(i)))[by_x])
}

# Limits of the view: the outermost region and the data drawn, with a margin. The grid is wider, so that no contour is
# cut off.
grid_view <- function(grid, data) {
  z <- grid$z
  inside <- z >= min(grid$levels)
  if (shows_negative(z)) inside <- inside | z <= negative_level(z)
  limits <- function(nodes, shown, data) {
    # no region lies within xlim and ylim
    range <- range(if (any(shown)) nodes[shown] else nodes, data)
    range + c(-0.04, 0.04) * diff(range)
  }
  list(x = limits(grid$x, rowSums(inside) > 0, data[, 1]), y = limits(grid$y, colSums(inside) > 0, data[, 2]))
}
