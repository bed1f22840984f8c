#' Levels of highest-density regions
#'
#' The density level whose upper level set holds a given probability: the `c` with
#' \eqn{P(p(X) \ge c)}{P(p(X) >= c)} equal to `prob`, `X` drawn from the estimate `p`. The set
#' where the estimate is at least `c` is the smallest region of that probability (the
#' highest-density region). A new point whose density is below the level for 0.99 is thus more
#' unusual than 99% of what the estimate expects.
#'
#' With one or two variables the estimate is integrated numerically: tiles of the space that hold
#' data get the estimate exactly at Chebyshev nodes, the interpolant (relative error about 1e-5)
#' gives its values on a fine grid, and those are sorted. The probability of the region
#' returned is within 1e-3 of `prob`; far outliers do not coarsen the grid. From 50,000 points on
#' (two variables; 660,000 with one) points closer than a third of a bandwidth are merged
#' first; the error stated includes it.
#'
#' With another `kernel` than the Gaussian the estimate itself is summed at all of the grid.
#'
#' With more variables, with adaptive bandwidths, and where the tiles would take more than 2e9 kernel evaluations
#' (points so many and a bandwidth so small that the tiles around them are many, too), the level is the
#' `1 - prob` quantile of the density at `n_samples` draws from the estimate (Hyndman 1996, section
#' 3.2). Its probability then has the standard error `sqrt(prob * (1 - prob) / n_samples)`, 0.005
#' at most with the default. The cost is `n_samples * n` kernel evaluations in d dimensions, for a
#' Laplace-corrected estimate \eqn{2 + d}{2 + d} times as many.
#'
#' With factors or texts the level is that of the density of numbers and levels together, by draws.
#'
#' A Laplace-corrected estimate can be negative. Its level refers to the positive part,
#' renormalised to probability 1; it is a level of the estimate as [predict.flash_kde()]
#' returns it, before renormalisation.
#'
#' @param object A fit, from [flash_kde()].
#' @param prob Probabilities of the regions, from 0 to 1.
#' @param ... Passed to methods; the method for `flash_kde` takes no others.
#' @param log Return the logarithm of the levels? For many variables, where densities underflow.
#' @param n_samples Number of draws, where draws are used.
#' @param seed Seed of the draws, where draws are used. The same number gives the same levels,
#'   whatever [RNGkind()] is set, and leaves R's random numbers as they were. `NULL` draws from
#'   their present state, as in [simulate()][simulate.flash_kde].
#' @return A numeric vector as long as `prob`, of density levels (in 1 / units of the data), or
#'   their logarithms. Its names are the probabilities, such as `"50%"`.
#' @references Hyndman, R. J. (1996) Computing and graphing highest density regions.
#'   *The American Statistician* 50, 120-126. \doi{10.1080/00031305.1996.10474359}
#' @seealso [plot.flash_kde()], which draws these regions.
#' @examples
#' fit <- flash_kde(~ eruptions + waiting, data = faithful)
#' hdr_level(fit, prob = c(0.5, 0.95))
#'
#' # eruptions outside the 95% region
#' faithful[predict(fit) < hdr_level(fit, 0.95), ]
#' @export
hdr_level <- function(object, prob = c(0.5, 0.95), ...) {
  UseMethod("hdr_level")
}

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
  level <- if (is.null(object$discrete)) {
    log_hdr_level(figure_marginal(object), prob, n_samples, seed)
  } else {
    log_mixed_level(object, prob, n_samples, seed)
  }
  names(level) <- percent_label(prob)
  if (log) level else exp(level)
}

# Bytes that one of these names takes while the names are made.
NAME_BYTES <- 150

# Names as quantile() gives them: 0.5 -> "50%".
percent_label <- function(prob) {
  paste0(formatC(100 * prob, format = "fg", digits = 7, width = 1), "%")
}

# Logarithms of the levels of a figure_marginal(). Draws for a figure are shared by its panels.
log_hdr_level <- function(marginal, prob, n_samples = max(10000 / marginal$n_panels, 1000),
                          seed = 1) {
  # the regions of a balloon estimate hold so many of the points
  if (marginal$balloon) {
    return(weighted_quantile(log_marginal(marginal, marginal$x)$log_abs, marginal$weights, 1 - prob))
  }
  # tiles suit kernels of one width
  tile <- if (ncol(marginal$x) <= 2 && is.null(marginal$factors) && is.null(marginal$map)) active_tiles(marginal)
  if (is.null(tile)) {
    log_level_by_sampling(marginal, prob, n_samples, seed) - marginal$log_clip
  } else {
    log(level_by_tiles(marginal, tile, prob)) - marginal$log_clip
  }
}

# ---- draws ------------------------------------------------------------------------------------

# The positive part of a Laplace-corrected estimate exceeds the plain one by no more than the factor
# 1 + k/2, its polynomial at 0: with so many more draws from the plain one, weighted by the ratio of the two, the levels
# are as precise as from n draws from the positive part itself. (Far out, that of order 6 exceeds it by more.)
log_level_by_sampling <- function(marginal, prob, n, seed) {
  k <- ncol(marginal$x)
  if (marginal$signed) n <- n * marginal$factor[1]
  check_memory(8 * 4 * n * k, "n_samples")
  draws <- with_fixed_seed(draw_marginal(marginal, ceiling(n)), seed)
  estimate <- log_marginal(marginal, draws)
  level <- if (marginal$signed) {
    plain <- log_marginal(marginal, draws, PLAIN_FACTOR)
    share <- ifelse(estimate$negative, 0, exp(estimate$log_abs - plain$log_abs))
    positive <- share > 0
    weighted_quantile(estimate$log_abs[positive], share[positive], 1 - prob)
  } else {
    weighted_quantile(estimate$log_abs, NULL, 1 - prob)
  }
  # all of the probability lies in the whole space only
  level[prob == 1] <- -Inf
  level
}

draw_marginal <- function(marginal, n) {
  if (!is.null(marginal$map)) return(draw_marginal_inside(marginal, n))
  draw_mixture(marginal$x, marginal$weights, marginal$lower, n, marginal$factors, marginal$kernel)
}

# ---- tiles ------------------------------------------------------------------------------------

# Tiles are TILE_SIDE bandwidths wide, with TILE_NODES Chebyshev nodes per axis: the interpolant of
# a Gaussian of unit sd is then good to 2e-5 of its peak. Tiles further than TILE_REACH from every
# point are left out; they hold less than 4e-6 of the mass.
TILE_SIDE <- 4
TILE_NODES <- 12
TILE_REACH <- 5

# Levels of a one- or two-dimensional figure_marginal() by numerical integration. `n_fine`: number of grid
# values that are sorted; the error of the probability falls with it. One of many small panels needs
# no better than a few 1e-3.
level_by_tiles <- function(marginal, tile, prob, n_fine = max(5e5 / marginal$n_panels, 1e5)) {
  k <- ncol(marginal$x)
  n_tiles <- nrow(tile)
  n_side <- min(max(floor((n_fine / n_tiles)^(1 / k)), 8), 20000)
  values <- if (is_compact(marginal$kernel)) values_in_tiles else smooth_in_tiles
  value <- values(marginal, tile, n_side)
  value <- sort(value[value > 0], decreasing = TRUE, method = "radix")
  mass <- cumsum(value) * (TILE_SIDE / n_side)^k * prod(diag(marginal$lower))
  # The mass of kde and sdkde is known; of laplace the positive part counts.
  total <- if (marginal$signed) mass[length(mass)] else max(1, mass[length(mass)])
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

# At the midpoints of n_side^k cells of each tile, by its nodes.
smooth_in_tiles <- function(marginal, tile, n_side) {
  k <- ncol(tile)
  node <- TILE_SIDE / 2 * (1 - cos(pi * (seq_len(TILE_NODES) - 0.5) / TILE_NODES))
  value <- density_in_tiles(marginal, tile, as.matrix(expand.grid(rep(list(node), k))))
  interpolate_tiles(value, node, n_side, k)
}

# Values in tiles of a kernel that is not smooth: sums at all midpoints.
values_in_tiles <- function(marginal, tile, n_side) {
  midpoints <- TILE_SIDE * (seq_len(n_side) - 0.5) / n_side
  density_in_tiles(marginal, tile, as.matrix(expand.grid(rep(list(midpoints), ncol(tile)))))
}

# At the same places in each of the tiles.
density_in_tiles <- function(marginal, tile, within) {
  at <- TILE_SIDE * tile[rep(seq_len(nrow(tile)), each = nrow(within)), , drop = FALSE] +
    within[rep(seq_len(nrow(within)), nrow(tile)), , drop = FALSE]
  signed_density(log_marginal(marginal, unwhiten(at, marginal$lower)))
}

# From values at the nodes of each tile to values at the midpoints of n_side^k cells per tile.
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

# Whole-number positions of the tiles within reach of the points, one row each. NULL where the sums
# at their nodes would take too many kernel pairs; their number thus bounds the memory as well.
active_tiles <- function(marginal) {
  cell <- floor(whiten(marginal$x, marginal$lower))
  k <- ncol(cell)
  most <- MAX_FIGURE_PAIRS / marginal$n_panels / (TILE_NODES^k * nrow(cell))
  cell <- cell[heavy_cells(cell, marginal$weights), , drop = FALSE]
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

# One row index per distinct cell. Where thousands of cells are needed (heavy tails), the lightest,
# with 2e-4 of the weight in all, are left out: the probability of a region moves by no more.
heavy_cells <- function(cell, weights, many = 2000, spare = 2e-4) {
  group <- cell_group(cell)
  first <- which(!duplicated(group))
  if (length(first) <= many) {
    return(first)
  }
  if (is.null(weights)) weights <- rep(1, nrow(cell))
  weight <- rowsum(weights, group, reorder = FALSE)[, 1]
  by_weight <- order(weight)
  keep <- cumsum(weight[by_weight]) > spare * sum(weight)
  first[sort(by_weight[keep])]
}
