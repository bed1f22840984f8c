# Where a plot evaluates the estimate, and the values there.

# Grids reach this many bandwidths beyond the data.
GRID_MARGIN <- 3

# Positions, values, and their copies while contours are cut.
BYTES_PER_NODE <- 64

# Values of a one-variable figure_marginal(), as list(x, y).
grid_1d <- function(marginal, size, xlim = NULL) {
  check_memory(BYTES_PER_NODE * size, "n")
  if (is.null(xlim)) xlim <- grid_range(marginal, 1)
  x <- marginal_nodes(marginal, 1, range(xlim), size, step = 1 / 8)
  list(x = x, y = marginal_density(marginal, matrix(x)))
}

# Values of a two-variable figure_marginal(), as list(x, y, z, levels): z[i, j] at x[i], y[j].
grid_2d <- function(marginal, size, prob, xlim = NULL, ylim = NULL) {
  check_memory(BYTES_PER_NODE * size^2, "n")
  if (is.null(xlim)) xlim <- grid_range(marginal, 1)
  if (is.null(ylim)) ylim <- grid_range(marginal, 2)
  x <- marginal_nodes(marginal, 1, range(xlim), size)
  y <- marginal_nodes(marginal, 2, range(ylim), size)
  at <- cbind(rep(x, length(y)), rep(y, each = length(x)))
  levels <- exp(log_hdr_level(marginal, prob))
  names(levels) <- percent_label(prob)
  list(x = x, y = y, z = matrix(shown_density(marginal, at, min(levels)), length(x)), levels = levels)
}

# Debiased points may lie beyond the data.
grid_range <- function(marginal, axis, margin = GRID_MARGIN) {
  if (!is.null(marginal$map)) return(grid_range_inside(marginal, axis))
  sds <- marginal$sds[axis]
  if (is.null(marginal$factors)) {
    return(range(marginal$data[, axis], marginal$x[, axis]) + c(-1, 1) * margin * sds)
  }
  reach <- margin * sds * marginal$factors
  c(min(marginal$x[, axis] - reach), max(marginal$x[, axis] + reach))
}

# Kernels of several widths have nodes as the narrow ones want them, and even ones for the wide ones.
marginal_nodes <- function(marginal, axis, lim, size, step = 1 / 2) {
  if (!is.null(marginal$map)) return(nodes_inside(marginal, axis, lim, size, step))
  x <- marginal$x[, axis]
  sd <- marginal$sds[axis]
  if (is.null(marginal$factors)) return(axis_nodes(x, sd, lim, size, step))
  narrow <- marginal$factors <= stats::quantile(marginal$factors, 0.5)
  nodes <- axis_nodes(x[narrow], min(marginal$factors) * sd, lim, size, step)
  sort(unique(c(seq(lim[1], lim[2], length.out = size), nodes)))
}

# About `size` increasing positions within `lim`: even ones if their steps are no more than `step`
# bandwidths; else (far outliers, or a small bandwidth) even ones over the intervals within 4
# bandwidths of a point. In heavy tails those are too long as well, and as many nodes again go
# next to quantiles of the data.
axis_nodes <- function(x, sd, lim, size, step = 1 / 2) {
  even <- seq(lim[1], lim[2], length.out = size)
  if (even[2] - even[1] <= step * sd) {
    return(even)
  }
  x <- sort(x[x >= lim[1] - 4 * sd & x <= lim[2] + 4 * sd])
  if (length(x) == 0) {
    return(even)
  }
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
upper_set <- function(grid, level) {
  grDevices::contourLines(pad_grid(grid), levels = level)
}

# A border below every level, next to the edge, closes the contours that leave the grid.
pad_grid <- function(grid) {
  z <- matrix(below_all(grid$z), nrow(grid$z) + 2, ncol(grid$z) + 2)
  z[-c(1, nrow(z)), -c(1, ncol(z))] <- grid$z
  list(x = pad_axis(grid$x), y = pad_axis(grid$y), z = z)
}

below_all <- function(values) min(values) - diff(range(values))

pad_axis <- function(x) {
  # far from the origin, that is less than numbers can tell apart
  edge <- max(1e-6 * (x[length(x)] - x[1]), 4 * .Machine$double.eps * max(abs(x)))
  c(x[1] - edge, x, x[length(x)] + edge)
}
