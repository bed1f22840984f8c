# Polygons: rings of vertices, a matrix each with its first row again as its last. Outer rings go counterclockwise,
# holes clockwise, so that integrals along them count what an odd number of rings surrounds.

is_polygon <- function(x) {
  if (inherits(x, c("sf", "sfc", "sfg"))) return(TRUE)
  is_ring <- \(ring) is.numeric(ring) && is.matrix(ring) && ncol(ring) == 2
  if (is_ring(x) || is.data.frame(x)) return(TRUE)
  is.list(x) && !inherits(x, "kde_support") && length(x) > 0 && all(vapply(x, is_ring, NA))
}

as_rings <- function(polygon) {
  if (inherits(polygon, "sf")) polygon <- polygon[[attr(polygon, "sf_column")]]
  if (is.data.frame(polygon)) polygon <- as_points(polygon, "support")
  rings <- lapply(ring_matrices(polygon), close_ring)
  inner <- vapply(seq_along(rings), \(i) {
    depth <- vapply(rings[-i], \(other) in_rings(rings[[i]][1, , drop = FALSE], list(other)), NA)
    sum(depth) %% 2 == 1
  }, NA)
  Map(\(ring, inner) if ((ring_area(ring) > 0) == inner) ring[rev(seq_len(nrow(ring))), ] else ring, rings, inner)
}

# Those of sf are lists of lists of matrices.
ring_matrices <- function(polygon) {
  if (is.matrix(polygon)) return(list(polygon))
  if (!is.list(polygon)) stop_argument("support", "must be a polygon: found ", describe(polygon))
  unlist(lapply(unclass(polygon), ring_matrices), recursive = FALSE, use.names = FALSE)
}

close_ring <- function(ring) {
  if (!is.numeric(ring) || ncol(ring) < 2 || !all(is.finite(ring))) {
    stop_argument("support", "must be a polygon of finite vertices in two columns: found ", describe(ring))
  }
  ring <- matrix(as.double(ring[, 1:2]), ncol = 2)
  if (nrow(ring) > 0 && any(ring[1, ] != ring[nrow(ring), ])) ring <- rbind(ring, ring[1, ])
  if (nrow(ring) > 1) ring <- ring[c(TRUE, rowSums(abs(diff(ring))) > 0), , drop = FALSE]
  empty <- nrow(ring) < 4 || ring_area(ring) == 0
  if (empty) stop_argument("support", "must be a polygon with an area: found none")
  ring
}

# Positive where it goes counterclockwise.
ring_area <- function(ring) {
  from <- t(t(ring[-nrow(ring), ]) - ring[1, ])
  to <- t(t(ring[-1, ]) - ring[1, ])
  sum(from[, 1] * to[, 2] - to[, 1] * from[, 2]) / 2
}

# All sides, a row each: x and y where one begins and where it ends.
ring_sides <- function(rings) {
  do.call(rbind, lapply(rings, \(ring) cbind(ring[-nrow(ring), , drop = FALSE], ring[-1, , drop = FALSE])))
}

# Which points an odd number of rings surrounds; those on a side, but for rounding, are inside.
in_rings <- function(points, rings) {
  sides <- ring_sides(rings)
  close <- 1e-10 * max(apply(sides, 2, \(column) diff(range(column))))
  x <- points[, 1]
  y <- points[, 2]
  inside <- touching <- logical(length(x))
  for (i in seq_len(nrow(sides))) {
    a <- sides[i, 1:2]
    step <- sides[i, 3:4] - a
    crossed <- which((a[2] > y) != (sides[i, 4] > y))
    right <- x[crossed] < a[1] + (y[crossed] - a[2]) / step[2] * step[1]
    inside[crossed] <- xor(inside[crossed], right)
    beside <- \(z, k) abs(z - a[k] - step[k] / 2) <= abs(step[k]) / 2 + close
    near <- which(beside(x, 1) & beside(y, 2))
    along <- ((x[near] - a[1]) * step[1] + (y[near] - a[2]) * step[2]) / sum(step^2)
    along <- pmin(pmax(along, 0), 1)
    distance <- abs(x[near] - a[1] - along * step[1]) + abs(y[near] - a[2] - along * step[2])
    touching[near] <- touching[near] | distance <= close
  }
  inside | touching
}

# ---- mass -------------------------------------------------------------------------------------

# The mass inside the rings of the Gaussian of variance f^2 L L' about each point, f its factor. In coordinates
# where L is the identity; it turns no ring round, for its diagonal is positive.
polygon_mass <- function(points, rings, L, factors, control) {
  sides <- ring_sides(rings)
  ends <- whitened_columns(rbind(sides[, 1:2, drop = FALSE], sides[, 3:4, drop = FALSE]), L)
  first <- seq_len(nrow(sides))
  of_sides <- \(ends) if (!is.null(ends)) rbind(ends[, first, drop = FALSE], ends[, -first, drop = FALSE])
  sides <- structure(of_sides(ends), low = of_sides(low_parts(ends)))
  .Call(ffi_polygon_masses, sides, whitened_columns(points, L), factors, control)
}
