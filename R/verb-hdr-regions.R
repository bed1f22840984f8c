# Highest-density regions as data: intervals of one variable, polygons of two.

#' @rdname hdr_level
#' @export
hdr_regions <- function(object, prob = c(0.5, 0.95), ...) UseMethod("hdr_regions")

#' @export
hdr_regions.default <- function(object, ...) check_fit(object)

#' @rdname hdr_level
#' @export
hdr_regions.flash_kde <- function(object, prob = c(0.5, 0.95), n = NULL, ...) {
  check_dots_empty(...)
  check_in_memory(object)
  check_can(object, "regions")
  if (object$d > 2) {
    why <- paste0("regions are available for one or two variables, not ", object$d, ": use kde_marginal() first")
    stop(new_error("unsupported", why, user_call()))
  }
  hold_limits(object)
  prob <- sort(unique(check_prob(prob, "prob", open = TRUE)), decreasing = TRUE)
  n <- check_grid_size(n, object$d)
  part <- shown_part(object, to_tol = TRUE)
  regions <- if (object$d == 1) hdr_intervals(part, prob, n) else {
    grid <- hdr_grid(part, prob, n)
    check_on_grid(max(grid$z), grid$levels, prob)
    hdr_polygons(grid, prob, point_names(object))
  }
  kind <- if (object$d == 1) object$dates[[point_names(object)]]
  if (!is.null(kind)) regions[c("from", "to")] <- lapply(regions[c("from", "to")], as_dates, kind)
  structure(regions, class = c("flash_hdr", "data.frame"))
}

# The region of probability p of a single kernel in two variables is this many bandwidths wide.
hdr_margin <- function(prob) max(GRID_MARGIN, 1.01 * sqrt(-2 * log1p(-max(prob))))

# An error if a region contains no node, as it would look empty. `highest`: the largest density at a node.
check_on_grid <- function(highest, levels, prob) {
  unseen <- prob[levels >= highest]
  if (length(unseen) == 0) return(invisible())
  stop_argument(
    "prob", "must be larger: the region of ", percent_label(max(unseen)),
    " lies between the nodes of the grid (use a larger `n`)"
  )
}

# ---- intervals --------------------------------------------------------------------------------

hdr_intervals <- function(part, prob, size) {
  grid <- grid_1d(part, size, shown_range(part$fit, 1, hdr_margin(prob)))
  levels <- exp(levels_shown(part, prob))
  check_on_grid(max(grid$y), levels, prob)
  frames <- lapply(seq_along(prob), \(i) {
    ends <- level_crossings(part, grid, levels[i])
    data.frame(prob = prob[i], level = levels[i], from = ends$from, to = ends$to)
  })
  do.call(rbind, frames)
}

# The points where the density rises above the level, and where it falls below it; or the ends of the grid.
level_crossings <- function(part, grid, level) {
  above <- grid$y >= level
  n <- length(above)
  turn <- which(above[-1] != above[-n])
  is_above <- \(x) signed_density(log_shown(part, cbind(x))) >= level
  at <- if (length(turn) > 0) halve(grid$x[turn], grid$x[turn + 1], is_above, above[turn])
  rises <- !above[turn]
  list(from = c(if (above[1]) grid$x[1], at[rises]), to = c(at[!rises], if (above[n]) grid$x[n]))
}

# ---- polygons ---------------------------------------------------------------------------------

hdr_grid <- function(part, prob, size) {
  margin <- hdr_margin(prob)
  grid_2d(part, size, prob, shown_range(part$fit, 1, margin), shown_range(part$fit, 2, margin))
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

# Groups closed lines that do not cross, list(x, y) each, into polygons: a list of lists of matrices, the outer ring
# first, then its holes.
ring_polygons <- function(lines) {
  rings <- lapply(lines, \(line) cbind(x = line$x, y = line$y))
  area <- vapply(rings, ring_area, 0)
  rings <- rings[area != 0]
  area <- area[area != 0]
  size <- abs(area)
  within <- rings_within(rings)
  hole <- rowSums(within) %% 2 == 1
  for (i in which((area < 0) != hole)) rings[[i]] <- rings[[i]][rev(seq_len(nrow(rings[[i]]))), ]
  # a hole belongs to the smallest ring around it
  owner <- vapply(which(hole), \(i) which(within[i, ])[which.min(size[within[i, ]])], 0L)
  lapply(which(!hole), \(i) rings[c(i, which(hole)[owner == i])])
}

# A matrix: within[i, j] is TRUE if ring i lies in ring j. Bounding boxes exclude most pairs.
rings_within <- function(rings) {
  box <- vapply(rings, \(ring) c(range(ring[, 1]), range(ring[, 2])), numeric(4))
  inside <- \(low, high) outer(box[low, ], box[low, ], ">") & outer(box[high, ], box[high, ], "<")
  within <- inside(1, 2) & inside(3, 4)
  pairs <- which(within, arr.ind = TRUE)
  within[pairs] <- vapply(seq_len(nrow(pairs)), \(p) lies_in(rings[[pairs[p, 1]]], rings[[pairs[p, 2]]]), NA)
  within
}

# Whether a ring lies in another, by the majority of a few of its points, as a point may lie on both.
lies_in <- function(ring, outer) {
  few <- ring[unique(round(seq(1, nrow(ring) - 1, length.out = 5))), , drop = FALSE]
  mean(inside_ring(few, outer)) > 0.5
}

# Whether points are inside a ring: a ray to the right crosses an odd number of its sides.
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
  # names of variables may equal names of the other columns
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
