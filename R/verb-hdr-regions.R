# Highest-density regions as data: intervals of one variable, polygons of two.

#' Highest-density regions as data frames
#'
#' The smallest regions that hold the given probabilities: intervals of one variable, as `hdrcde::hdr()` has them,
#' or polygons of two, to draw, to measure or to join with maps.
#'
#' @details The levels are those of [hdr_level()]. Ends of intervals are found to a billionth of a bandwidth.
#'   Polygons are
#' the contours on a grid as [plot()][plot.flash_kde] has it, straight between its lines; a region is closed where
#' it meets the border of the grid, three bandwidths beyond the data and further for probabilities above 0.989.
#'
#' A polygon may have holes, where the density is below the level. Those are rings of their own: the outer ring
#' comes first and counterclockwise, its holes after it and clockwise, and the first point of a ring is also its
#' last. In ggplot2, `geom_polygon(aes(group = group, subgroup = subgroup))` draws them. With package sf,
#' `sf::st_as_sf(regions, crs = 4326)` makes a row of each probability, with a multipolygon.
#'
#' Cost: `n^2 * n` kernel evaluations and those of [hdr_level()], in less time as [plot()][plot.flash_kde]
#' says.
#'
#' @param object A fit from [flash_kde()] to one or two variables (of more, take a [kde_marginal()]).
#' @param prob Probabilities of the regions, above 0 and below 1.
#' @param n Nodes of the grid per axis: 1024 for one variable, 151 for two.
#' @param ... Passed to methods; the method for `flash_kde` takes no others.
#' @returns A data frame of class `flash_hdr`, the largest region first, so that those drawn later lie on top. One
#'   variable: a row for each interval, with `prob`, `level` (of the density), `from` and `to`. Two: a row for each
#'   point of a ring, with two columns named as the variables, `prob`, `level`, `group`, a number for each polygon,
#'   and `subgroup`, for each ring within it. Where a variable has one of these names, the other is `prob.1` or so.
#' @seealso [hdr_level()]; [geom_flash_hdr()] draws regions of groups in ggplot2.
#' @examples
#' hdr_regions(flash_kde(faithful$eruptions), prob = c(0.5, 0.95))
#'
#' regions <- hdr_regions(flash_kde(faithful), prob = c(0.5, 0.95))
#' head(regions)
#' plot(waiting ~ eruptions, faithful, pch = 20)
#' for (ring in split(regions, ~ group + subgroup, drop = TRUE)) lines(ring$eruptions, ring$waiting)
#' @export
hdr_regions <- function(object, prob = c(0.5, 0.95), ...) UseMethod("hdr_regions")

#' @export
hdr_regions.default <- function(object, ...) check_fit(object)

#' @rdname hdr_regions
#' @export
hdr_regions.flash_kde <- function(object, prob = c(0.5, 0.95), n = NULL, ...) {
  check_dots_empty(...)
  check_in_memory(object)
  check_can(object, "regions")
  if (object$d > 2) {
    why <- paste0("regions of ", object$d, " variables are no polygons: take those of a kde_marginal(), of one or two")
    stop(new_error("unsupported", why, user_call()))
  }
  hold_limits(object)
  prob <- sort(unique(check_prob(prob, "prob", open = TRUE)), decreasing = TRUE)
  n <- check_grid_size(n, object$d)
  marginal <- figure_marginal(object, to_tol = TRUE)
  regions <- if (object$d == 1) hdr_intervals(marginal, prob, n) else {
    grid <- hdr_grid(marginal, prob, n)
    check_on_grid(max(grid$z), grid$levels, prob)
    hdr_polygons(grid, prob, point_names(object))
  }
  structure(regions, class = c("flash_hdr", "data.frame"))
}

# Of kernels that stand alone, the region of probability p of two variables is as wide as this.
hdr_margin <- function(prob) max(GRID_MARGIN, 1.01 * sqrt(-2 * log1p(-max(prob))))

# A region without a node in it would look empty. `highest`: of the densities at the nodes.
check_on_grid <- function(highest, levels, prob) {
  unseen <- prob[levels >= highest]
  if (length(unseen) == 0) return(invisible())
  stop_argument(
    "prob", "must be larger: the region of ", percent_label(max(unseen)),
    " lies between the nodes of the grid (see `n`)"
  )
}

# ---- intervals --------------------------------------------------------------------------------

hdr_intervals <- function(marginal, prob, size) {
  grid <- grid_1d(marginal, size, grid_range(marginal, 1, hdr_margin(prob)))
  levels <- exp(log_hdr_level(marginal, prob))
  check_on_grid(max(grid$y), levels, prob)
  frames <- lapply(seq_along(prob), \(i) {
    ends <- level_crossings(marginal, grid, levels[i])
    data.frame(prob = prob[i], level = levels[i], from = ends$from, to = ends$to)
  })
  do.call(rbind, frames)
}

# Where the density rises above the level, and where it falls below it again; at the ends of the grid, these.
level_crossings <- function(marginal, grid, level) {
  above <- grid$y >= level
  n <- length(above)
  turn <- which(above[-1] != above[-n])
  at <- bisect(\(x) marginal_density(marginal, cbind(x)) >= level, grid$x[turn], grid$x[turn + 1], above[turn])
  rises <- !above[turn]
  list(from = c(if (above[1]) grid$x[1], at[rises]), to = c(at[!rises], if (above[n]) grid$x[n]))
}

# Between each `low` and `high`, where `test`, a function of all places at once, changes from `first`.
bisect <- function(test, low, high, first, steps = 30) {
  for (step in if (length(low) > 0) seq_len(steps)) {
    middle <- (low + high) / 2
    left <- test(middle) != first
    high[left] <- middle[left]
    low[!left] <- middle[!left]
  }
  (low + high) / 2
}

# ---- polygons ---------------------------------------------------------------------------------

hdr_grid <- function(marginal, prob, size) {
  margin <- hdr_margin(prob)
  grid_2d(marginal, size, prob, grid_range(marginal, 1, margin), grid_range(marginal, 2, margin))
}

hdr_polygons <- function(grid, prob, names) {
  shapes <- lapply(grid$levels, \(level) ring_polygons(upper_set(grid, level)))
  group <- 0L
  frames <- list()
  for (i in seq_along(prob)) for (polygon in shapes[[i]]) {
    group <- group + 1L
    rings <- rep(seq_along(polygon), vapply(polygon, nrow, 0L))
    frames[[group]] <- data.frame(
      do.call(rbind, polygon), prob = prob[i], level = grid$levels[[i]], group = group, subgroup = rings
    )
  }
  regions <- do.call(rbind, frames)
  stats::setNames(regions, make.unique(c(names, names(regions)[-(1:2)])))
}

# Closed lines that do not cross, list(x, y) each, as polygons: a list of lists of matrices, the outer ring first,
# then its holes.
ring_polygons <- function(lines) {
  rings <- lapply(lines, \(line) cbind(x = line$x, y = line$y))
  area <- vapply(rings, enclosed_area, 0)
  rings <- rings[area != 0]
  area <- area[area != 0]
  size <- abs(area)
  within <- rings_within(rings)
  hole <- rowSums(within) %% 2 == 1
  for (i in which((area < 0) != hole)) rings[[i]] <- rings[[i]][rev(seq_len(nrow(rings[[i]]))), ]
  # a hole is of the smallest ring around it
  owner <- vapply(which(hole), \(i) which(within[i, ])[which.min(size[within[i, ]])], 0L)
  lapply(which(!hole), \(i) rings[c(i, which(hole)[owner == i])])
}

# Above 0 where it goes counterclockwise.
enclosed_area <- function(ring) {
  n <- nrow(ring)
  # about a point of its own, which keeps digits far from the origin
  x <- ring[, 1] - ring[1, 1]
  y <- ring[, 2] - ring[1, 2]
  sum(x[-n] * y[-1] - x[-1] * y[-n]) / 2
}

# Which lies in which: within[i, j] where ring i lies in j. Boxes leave few pairs to look at.
rings_within <- function(rings) {
  box <- vapply(rings, \(ring) c(range(ring[, 1]), range(ring[, 2])), numeric(4))
  inside <- \(low, high) outer(box[low, ], box[low, ], ">") & outer(box[high, ], box[high, ], "<")
  within <- inside(1, 2) & inside(3, 4)
  pairs <- which(within, arr.ind = TRUE)
  within[pairs] <- vapply(seq_len(nrow(pairs)), \(p) lies_in(rings[[pairs[p, 1]]], rings[[pairs[p, 2]]]), NA)
  within
}

# Does a ring lie in another? Most of a few of its points decide, for one may lie on both.
lies_in <- function(ring, outer) {
  few <- ring[unique(round(seq(1, nrow(ring) - 1, length.out = 5))), , drop = FALSE]
  mean(inside_ring(few, outer)) > 0.5
}

# By the number of sides that a ray to the right crosses.
inside_ring <- function(points, ring) {
  n <- nrow(ring)
  x1 <- ring[-n, 1]
  y1 <- ring[-n, 2]
  slope <- (ring[-1, 1] - x1) / (ring[-1, 2] - y1)
  apply(points, 1, \(p) {
    crosses <- (y1 > p[2]) != (ring[-1, 2] > p[2])
    sum(x1[crosses] + (p[2] - y1[crosses]) * slope[crosses] > p[1]) %% 2 == 1
  })
}

#' @exportS3Method sf::st_as_sf
#' @noRd
st_as_sf.flash_hdr <- function(x, crs = sf::NA_crs_, ...) {
  check_dots_empty(...)
  if (ncol(x) < 6) stop_argument("x", "must have the regions of two variables: found intervals of one")
  # the names of the variables may be among these
  x <- stats::setNames(as.data.frame(x)[1:6], c("x", "y", "prob", "level", "group", "subgroup"))
  prob <- unique(x$prob)
  shapes <- lapply(prob, \(p) {
    own <- x[x$prob == p, ]
    sf::st_multipolygon(unname(lapply(split(own, own$group), polygon_rings)))
  })
  sf::st_sf(prob = prob, level = x$level[match(prob, x$prob)], geometry = sf::st_sfc(shapes, crs = crs))
}

polygon_rings <- function(polygon) {
  unname(lapply(split(polygon, polygon$subgroup), \(ring) unname(as.matrix(as.data.frame(ring)[1:2]))))
}
