#' Highest-density regions
#'
#' `hdr_regions()` returns the smallest regions that hold given probabilities: intervals for one variable, as
#' `hdrcde::hdr()`, or polygons for two, as data frames to draw, to measure or to join with maps. `hdr_level()` returns
#' the density at their borders: the `c` with \eqn{P(p(X) \ge c)}{P(p(X) >= c)} equal to `prob` for X drawn from the
#' estimate p. A new point whose density is below the level for 0.99 is more unusual than 99% of the draws from the
#' estimate.
#'
#' @section Levels:
#' With one or two variables the estimate is integrated numerically. It is evaluated exactly at Chebyshev nodes in
#' tiles around the data, interpolated onto a fine grid (relative error about 1e-5), and the values are sorted.
#' The probability of the region is within 1e-3 of `prob`, and far outliers do not coarsen the grid. From 50,000 points
#' on (two variables; 660,000 with one), points closer than a third of a bandwidth are merged first; the stated error
#' includes this. Other kernels than the Gaussian are summed at all grid points.
#'
#' In other cases the level is the `1 - prob` quantile of the density at `n_samples` draws from the estimate (Hyndman
#' 1996, section 3.2). The probability then has the standard error `sqrt(prob * (1 - prob) / n_samples)`, at most 0.005
#' by default. These cases are: more variables, adaptive bandwidths, a `support`, categories (the level is then that of
#' the density of numbers and categories together), and tiles that would need more than 2e9 kernel evaluations. The
#' cost is `n_samples * n` kernel evaluations, and \eqn{2 + d}{2 + d} times as many for `"laplace"`.
#'
#' For a Laplace-corrected estimate, which can be negative, the level refers to the positive part, renormalised to
#' probability 1. It is a level of the estimate as [predict.flash_kde()] returns it, before renormalisation.
#'
#' @section Regions:
#' Ends of intervals are accurate to a billionth of a bandwidth. Polygons are contours on the grid of
#' [plot()][plot.flash_kde], with straight lines between grid lines. The grid ends three bandwidths beyond the data
#' (further for probabilities above 0.989); a region that meets its border is closed there.
#'
#' A polygon may have holes, where the density is below the level. The outer ring comes first, counterclockwise, and
#' then its holes, clockwise. The first point of a ring is also its last. In ggplot2, `geom_polygon(aes(group = group,
#' subgroup = subgroup))` draws them. With package sf, `sf::st_as_sf(regions, crs = 4326)` makes one row for each
#' probability, with a multipolygon.
#'
#' Regions cost as much as their levels, plus the kernel evaluations at the grid points of [plot()][plot.flash_kde].
#'
#' @param object A fit from [flash_kde()]. Regions need one or two variables; for more, use [kde_marginal()] first.
#' @param prob Probabilities of the regions, from 0 to 1; for `hdr_regions()` above 0 and below 1. Default: 0.5 and
#'   0.95.
#' @param ... Not used; anything here is an error.
#' @param log Whether to return the logarithms of the levels, for many variables, where densities underflow.
#' @param n_samples Number of draws, where draws are used.
#' @param seed Seed of the draws, where draws are used. A number gives the same levels at each call, for any
#'   [RNGkind()], and leaves R's random numbers as they were. `NULL` uses the present state of the generator, as in
#'   [simulate()][simulate.flash_kde].
#' @param n Number of grid points per axis: 1024 for one variable, 151 for two.
#' @return `hdr_level()`: a numeric vector of density levels (in 1 / units of the data), or their logarithms, one for
#'   each of `prob`. Its names are the probabilities, such as `"50%"`.
#'
#'   `hdr_regions()`: a data frame of class `flash_hdr`, the largest region first, so that later ones are drawn on top.
#'   One variable: a row for each interval, with `prob`, `level` (of the density), `from` and `to`. Two: a row for each
#'   point of a ring, with two columns named as the variables, `prob`, `level`, `group`, a number for each polygon,
#'   and `subgroup`, a number for each ring within it. If a variable has one of these names, the other column is
#'   `prob.1` or similar.
#' @references Hyndman, R. J. (1996) Computing and graphing highest density regions.
#'   *The American Statistician* 50, 120-126. \doi{10.1080/00031305.1996.10474359}
#' @seealso [plot.flash_kde()], which draws these regions; [geom_flash_hdr()] draws those of groups in ggplot2.
#' @examples
#' fit <- flash_kde(~ eruptions + waiting, data = faithful)
#' hdr_level(fit, prob = c(0.5, 0.95))
#'
#' # eruptions outside the 95% region
#' faithful[predict(fit) < hdr_level(fit, 0.95), ]
#'
#' hdr_regions(flash_kde(faithful$eruptions), prob = c(0.5, 0.95))
#' regions <- hdr_regions(fit, prob = c(0.5, 0.95))
#' plot(waiting ~ eruptions, faithful, pch = 20)
#' for (ring in split(regions, ~ group + subgroup, drop = TRUE)) lines(ring$eruptions, ring$waiting)
#' @rawRd \concept{highest-density region}\concept{contour with given probability}\concept{level set}
#' @export
hdr_level <- function(object, prob = c(0.5, 0.95), ...) UseMethod("hdr_level")

#' @export
hdr_level.default <- function(object, ...) check_fit(object)

#' @rdname hdr_level
#' @export
hdr_level.flash_kde <- function(object, prob = c(0.5, 0.95), ..., log = FALSE,
                                n_samples = 10000, seed = 1) {
  check_dots_empty(...)
  check_in_memory(object)
  check_can(object, "levels")
  hold_limits(object)
  prob <- check_prob(prob, "prob", bytes = 8 * 10 + NAME_BYTES)
  log <- check_flag(log, "log")
  n_samples <- check_count(n_samples, "n_samples")
  if (!is.null(seed)) seed <- check_count(seed, "seed", min = -.Machine$integer.max)
  level <- levels_shown(shown_part(object), prob, n_samples, seed)
  names(level) <- percent_label(prob)
  if (log) level else exp(level)
}

# Bytes for one name while the names of the levels are made.
NAME_BYTES <- 150

# Names as quantile() gives them: 0.5 -> "50%".
percent_label <- function(prob) paste0(formatC(100 * prob, format = "fg", digits = 7, width = 1), "%")

# The level of a balloon estimate, which is not a density, is a quantile of its values at the points. Tiles need kernels
# of one bandwidth.
#' @export
log_levels.default <- function(object, prob, control, n_samples, seed, panels = 1) {
  if (is_balloon(object)) {
    return(weighted_quantile(log_estimate(object, object$x, FALSE, control)$log_abs, object$weights, 1 - prob))
  }
  tile <- if (object$d <= 2 && is.null(object$adaptive)) active_tiles(object, panels)
  if (is.null(tile)) return(levels_by_draws(object, prob, control, n_samples, seed))
  log(level_by_tiles(object, tile, prob, control, panels))
}

#' @export
log_levels.supported <- function(object, prob, control, n_samples, seed, panels = 1) {
  levels_by_draws(object, prob, control, n_samples, seed)
}

#' @export
log_levels.clipped <- function(object, prob, control, n_samples, seed, panels = 1) {
  log_levels(signed_part(object), prob, control, n_samples, seed, panels) - log_clip(object)
}

# ---- draws ------------------------------------------------------------------------------------

# Levels from n draws. The positive part of a Laplace-corrected estimate is at most 1 + d/2 times the classical one (its
# polynomial at 0). With this many times the draws from the classical estimate, weighted by the ratio of the two, levels
# are as precise as from n draws from the positive part. (In the far tails "laplace6" exceeds this bound.)
levels_by_draws <- function(object, prob, control, n, seed) {
  signed <- is_signed(object)
  if (signed) n <- n * fit_polynomial(object)[1]
  check_memory(8 * 6 * as.double(n) * ncol(own_places(object)), "n_samples")
  draws <- with_fixed_seed(draw_estimate(object, ceiling(n)), seed)
  estimate <- log_estimate(object, draws, FALSE, control)
  level <- if (signed) {
    plain <- log_estimate(object, draws, FALSE, control, PLAIN_FACTOR)
    share <- ifelse(estimate$negative, 0, exp(estimate$log_abs - plain$log_abs))
    positive <- share > 0
    weighted_quantile(estimate$log_abs[positive], share[positive], 1 - prob)
  } else {
    weighted_quantile(estimate$log_abs, NULL, 1 - prob)
  }
  # all of the probability lies in the whole space only
  replace(level, prob == 1, -Inf)
}

# ---- tiles ------------------------------------------------------------------------------------

# Tiles are TILE_SIDE bandwidths wide, with TILE_NODES Chebyshev nodes per axis. The interpolant of a Gaussian with
# standard deviation 1 then has an error of 2e-5 of its peak. Tiles further than TILE_REACH bandwidths from every point
# are left out; they hold a probability of less than 4e-6.
TILE_SIDE <- 4
TILE_NODES <- 12
TILE_REACH <- 5

# Levels of one or two variables by numerical integration. `n_fine`: number of grid values that are sorted; the error of
# the probability falls with it. For many small panels an error of a few 1e-3 is sufficient.
level_by_tiles <- function(object, tile, prob, control, panels, n_fine = max(5e5 / panels, 1e5)) {
  k <- object$d
  n_tiles <- nrow(tile)
  n_side <- min(max(floor((n_fine / n_tiles)^(1 / k)), 8), 20000)
  values <- if (has_gaussian(object)) smooth_in_tiles else values_in_tiles
  value <- values(object, tile, n_side, control)
  value <- sort(value[value > 0], decreasing = TRUE, method = "radix")
  mass <- cumsum(value) * (TILE_SIDE / n_side)^k * prod(diagonal(fit_factor(object)))
  # The integral of kde and sdkde is known to be 1; for laplace that of the positive part is used.
  total <- if (is_signed(object)) mass[length(mass)] else max(1, mass[length(mass)])
  # linear between the two values whose masses enclose the wanted one
  i <- findInterval(prob * total, mass)
  n <- length(value)
  below <- c(0, mass)[i + 1]
  part <- ifelse(i < n, (prob * total - below) / (mass[pmin(i + 1, n)] - below), 0)
  from <- value[pmax(i, 1)]
  level <- from + part * (value[pmin(i + 1, n)] - from)
  level[prob == 1] <- 0
  level
}

# Values at the midpoints of n_side^k cells of each tile, interpolated from its nodes.
smooth_in_tiles <- function(object, tile, n_side, control) {
  k <- ncol(tile)
  node <- TILE_SIDE / 2 * (1 - cos(pi * (seq_len(TILE_NODES) - 0.5) / TILE_NODES))
  value <- density_in_tiles(object, tile, as.matrix(expand.grid(rep(list(node), k))), control)
  interpolate_tiles(value, node, n_side, k)
}

# Values at the same midpoints for a kernel that is not smooth: sums at all midpoints.
values_in_tiles <- function(object, tile, n_side, control) {
  midpoints <- TILE_SIDE * (seq_len(n_side) - 0.5) / n_side
  density_in_tiles(object, tile, as.matrix(expand.grid(rep(list(midpoints), ncol(tile)))), control)
}

# The density at the places `within`, relative to the corner, of every tile.
density_in_tiles <- function(object, tile, within, control) {
  at <- TILE_SIDE * tile[rep(seq_len(nrow(tile)), each = nrow(within)), , drop = FALSE] +
    within[rep(seq_len(nrow(within)), nrow(tile)), , drop = FALSE]
  signed_density(log_estimate(object, from_origin(object, unwhiten(at, fit_factor(object))), FALSE, control))
}

# Interpolates from the nodes of each tile to the midpoints of n_side^k cells.
interpolate_tiles <- function(value, node, n_side, k) {
  midpoint <- TILE_SIDE * (seq_len(n_side) - 0.5) / n_side
  to_fine <- chebyshev_basis(midpoint) %*% solve(chebyshev_basis(node))
  value <- to_fine %*% matrix(value, TILE_NODES)
  if (k == 2) {
    dim(value) <- c(n_side, TILE_NODES, length(value) / (n_side * TILE_NODES))
    value <- to_fine %*% matrix(aperm(value, c(2, 1, 3)), TILE_NODES)
  }
  value
}

# Chebyshev polynomials of degree 0 to TILE_NODES - 1 on [0, TILE_SIDE], one column each.
chebyshev_basis <- function(x) {
  angle <- acos(pmin(pmax(2 * x / TILE_SIDE - 1, -1), 1))
  cos(outer(angle, seq_len(TILE_NODES) - 1))
}

# Integer positions of the tiles within TILE_REACH of the points, one row each. NULL if the sums at their nodes would
# take too many kernel evaluations, which also bounds the memory.
active_tiles <- function(object, panels) {
  used <- used_rows(object)
  cell <- floor(whiten(fit_points(object)[used, , drop = FALSE], fit_factor(object)))
  k <- ncol(cell)
  most <- MAX_FIGURE_PAIRS / panels / (TILE_NODES^k * nrow(cell))
  cell <- cell[heavy_cells(cell, object$weights[used]), , drop = FALSE]
  if (nrow(cell) > most * TILE_SIDE^k) return(NULL)
  first <- floor((cell - TILE_REACH) / TILE_SIDE)
  last <- floor((cell + 1 + TILE_REACH) / TILE_SIDE)
  step <- as.matrix(expand.grid(rep(list(0:max(last - first)), k)))
  tile <- lapply(seq_len(nrow(step)), function(i) {
    candidate <- sweep(first, 2, step[i, ], "+")
    candidate[rowSums(candidate > last) == 0, , drop = FALSE]
  })
  tile <- do.call(rbind, tile)
  tile <- tile[!duplicated(cell_group(tile)), , drop = FALSE]
  if (nrow(tile) <= most) tile
}

# One row index per distinct cell. With thousands of cells (heavy tails), the lightest cells, with 2e-4 of the total
# weight, are left out; the probability of a region changes by at most this.
heavy_cells <- function(cell, weights, many = 2000, spare = 2e-4) {
  group <- cell_group(cell)
  first <- which(!duplicated(group))
  if (length(first) <= many) return(first)
  if (is.null(weights)) weights <- rep(1, nrow(cell))
  weight <- rowsum(weights, group, reorder = FALSE)[, 1]
  by_weight <- order(weight)
  keep <- cumsum(weight[by_weight]) > spare * sum(weight)
  first[sort(by_weight[keep])]
}
