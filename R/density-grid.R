# The grid points of a plot, and the estimate there.

# Grids reach this many bandwidths beyond the data.
GRID_MARGIN <- 3

# Positions, values, and their copies while contours are cut.
BYTES_PER_NODE <- 64

# Values of a shown_part() of one variable, as list(x, y).
grid_1d <- function(part, size, xlim = shown_range(part$fit, 1)) {
  check_memory(BYTES_PER_NODE * size, "n")
  x <- shown_nodes(part$fit, 1, range(xlim), size, step = 1 / 8)
  list(x = x, y = signed_density(log_shown(part, matrix(x))))
}

# Values of one of two variables, as list(x, y, z, levels): z[i, j] at x[i], y[j].
grid_2d <- function(part, size, prob, xlim = shown_range(part$fit, 1), ylim = shown_range(part$fit, 2)) {
  check_memory(BYTES_PER_NODE * size^2, "n")
  x <- shown_nodes(part$fit, 1, range(xlim), size)
  y <- shown_nodes(part$fit, 2, range(ylim), size)
  at <- cbind(rep(x, length(y)), rep(y, each = length(x)))
  levels <- stats::setNames(exp(levels_shown(part, prob)), percent_label(prob))
  z <- seen_density(part$density, at, min(levels), part$control)
  close_progress(part$control)
  list(x = x, y = y, z = matrix(z, length(x)), levels = levels)
}

# Draws for a figure are shared by its panels.
levels_shown <- function(part, prob, n_samples = max(10000 / part$panels, 1000), seed = 1) {
  on.exit(close_progress(part$control))
  log_levels(part$density, prob, part$control, n_samples, seed, part$panels)
}

# Debiased points may lie beyond the data. Without a given margin, no more is shown of kernels with local factors
# than what is above 1/1000 of the peak.
#' @export
shown_range.default <- function(object, axis, margin = GRID_MARGIN) {
  used <- used_rows(object)
  sd <- bandwidth_sds(object$bandwidth)[axis]
  x <- shown_points(object)[used, axis]
  factors <- kernel_widths(object)[used]
  if (is.null(factors)) return(range(object$x[used, axis], x) + c(-1, 1) * margin * sd)
  if (missing(margin)) {
    height <- kernel_weights(object)[used] / factors
    at <- x[spread_rows(length(x), 200)]
    peak <- max(vapply(at, \(at) sum(height * exp(-((at - x) / (sd * factors))^2 / 2)), 0))
    margin <- pmin(margin, sqrt(2 * pmax(log(1000 * height / peak), 0)))
  }
  reach <- margin * sd * factors
  c(min(x - reach), max(x + reach))
}

# Adaptive estimates have nodes for the narrow kernels, and evenly spaced nodes for the wide ones.
#' @export
shown_nodes.default <- function(object, axis, lim, size, step = 1 / 2) {
  used <- used_rows(object)
  x <- shown_points(object)[used, axis]
  sd <- bandwidth_sds(object$bandwidth)[axis]
  factors <- kernel_widths(object)[used]
  if (is.null(factors)) return(axis_nodes(x, sd, lim, size, step))
  narrow <- factors <= stats::quantile(factors, 0.5)
  nodes <- axis_nodes(x[narrow], min(factors) * sd, lim, size, step)
  sort(unique(c(seq(lim[1], lim[2], length.out = size), nodes)))
}

kernel_widths <- function(object) if (is_balloon(object)) object$adaptive$at_points else object$adaptive$factors

# About `size` increasing positions within `lim`: even ones if their steps are no more than `step` bandwidths; else (far
# outliers, or a small bandwidth) even ones over the intervals within 4 bandwidths of a point. In heavy tails those are
# too long as well, and as many nodes again go next to quantiles of the data.
axis_nodes <- function(x, sd, lim, size, step = 1 / 2) {
  even <- seq(lim[1], lim[2], length.out = size)
  if (even[2] - even[1] <= step * sd) return(even)
  x <- sort(x[x >= lim[1] - 4 * sd & x <= lim[2] + 4 * sd])
  if (length(x) == 0) return(even)
  gap <- which(diff(x) > 8 * sd)
  from <- pmax(x[c(1, gap + 1)] - 4 * sd, lim[1])
  to <- pmin(x[c(gap, length(x))] + 4 * sd, lim[2])
  filled <- cumsum(c(0, to - from))
  total <- filled[length(filled)]
  at <- seq(0, total, length.out = size)
  interval <- findInterval(at, filled, all.inside = TRUE)
  nodes <- c(from[interval] + at - filled[interval], from, to)
  if (total / size > step * sd) {
    near <- c(-2, -1, 0, 1, 2) * sd / 2
    middle <- stats::quantile(x, seq(0.005, 0.995, length.out = ceiling(size / 5)), names = FALSE)
    nodes <- c(nodes, outer(middle, near, "+"))
  }
  nodes <- sort(unique(c(lim, nodes[nodes > lim[1] & nodes < lim[2]])))
  # Nodes closer than a thousandth of a bandwidth add nothing and make contours ragged.
  nodes[c(TRUE, diff(nodes) > 1e-3 * sd)]
}

# The set where z >= level, as closed lines; filled by the even-odd rule.
upper_set <- function(grid, level) grDevices::contourLines(pad_grid(grid), levels = level)

# A border below every level, next to the edge, closes the contours that leave the grid.
pad_grid <- function(grid) {
  z <- matrix(min(grid$z) - diff(range(grid$z)), nrow(grid$z) + 2, ncol(grid$z) + 2)
  z[-c(1, nrow(z)), -c(1, ncol(z))] <- grid$z
  list(x = pad_axis(grid$x), y = pad_axis(grid$y), z = z)
}

pad_axis <- function(x) {
  # far from the origin, the first term may be below the spacing of doubles
  edge <- max(1e-6 * (x[length(x)] - x[1]), 4 * .Machine$double.eps * max(abs(x)))
  c(x[1] - edge, x, x[length(x)] + edge)
}
