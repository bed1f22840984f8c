# Polygons: rings of vertices, a matrix each with its first row again as its last. Rings may be given in any direction,
# and may cross themselves and each other: inside is what they surround an odd number of times. as_rings() makes of them
# rings that do not cross and that have the inside on their left, so that integrals along them are integrals over the
# inside.

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
  if (length(rings) > 0) rings <- trace_rings(with_inside_on_left(without_pairs(split_sides(ring_sides(rings)))))
  if (!(sum(vapply(rings, ring_area, 0)) > 0)) stop_argument("support", "must be a polygon with an area: found none")
  rings
}

# Objects of package sf are lists of lists of matrices.
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
  if (nrow(ring) < 4) stop_argument("support", "must be a polygon with an area: found none")
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

# ---- crossings --------------------------------------------------------------------------------

# The sides, split where others meet them. Points closer than rounding can tell are one.
split_sides <- function(sides) {
  places <- lapply(seq_len(nrow(sides)), \(i) matrix(0, 0, 3)) # how far along a side, x and y
  low <- cbind(pmin(sides[, 1], sides[, 3]), pmin(sides[, 2], sides[, 4]))
  high <- cbind(pmax(sides[, 1], sides[, 3]), pmax(sides[, 2], sides[, 4]))
  close <- max(1e-12 * (apply(high, 2, max) - apply(low, 2, min)), 4 * .Machine$double.eps * abs(c(low, high)))
  known <- sides[, 1:2, drop = FALSE]
  later <- seq_len(nrow(sides))
  for (i in later) {
    over <- \(k) low[, k] <= high[i, k] + close & high[, k] >= low[i, k] - close
    for (j in which(later > i & over(1) & over(2))) {
      met <- meeting_points(sides[i, ], sides[j, ], close)
      for (k in seq_len(nrow(met))) {
        same <- which(abs(known[, 1] - met[k, 1]) <= close & abs(known[, 2] - met[k, 2]) <= close)
        if (length(same) > 0) met[k, ] <- known[same[1], ] else known <- rbind(known, met[k, ])
      }
      places[[i]] <- rbind(places[[i]], cbind(share_along(sides[i, ], met), met))
      places[[j]] <- rbind(places[[j]], cbind(share_along(sides[j, ], met), met))
    }
  }
  do.call(rbind, Map(split_side, seq_along(places), places, MoreArgs = list(sides = sides)))
}

# A row for each point that two sides have in common: an end of one of them on the other, or else where they cross.
meeting_points <- function(p, q, close) {
  ends <- rbind(q[1:2], q[3:4], p[1:2], p[3:4])
  on_other <- c(is_on_side(p, ends[1:2, ], close), is_on_side(q, ends[3:4, ], close))
  if (any(on_other)) return(ends[on_other, , drop = FALSE])
  u <- p[3:4] - p[1:2]
  v <- q[3:4] - q[1:2]
  across <- u[1] * v[2] - u[2] * v[1]
  if (across == 0) return(ends[0, ])
  apart <- q[1:2] - p[1:2]
  s <- (apart[1] * v[2] - apart[2] * v[1]) / across
  t <- (apart[1] * u[2] - apart[2] * u[1]) / across
  if (s > 0 && s < 1 && t > 0 && t < 1) matrix(p[1:2] + s * u, 1) else ends[0, ]
}

# Whether points are no further than `close` from a side.
is_on_side <- function(side, points, close) {
  share <- pmin(pmax(share_along(side, points), 0), 1)
  off <- points - rep(side[1:2], each = nrow(points)) - share %o% (side[3:4] - side[1:2])
  sqrt(rowSums(off^2)) <= close
}

share_along <- function(side, points) {
  step <- side[3:4] - side[1:2]
  ((points[, 1] - side[1]) * step[1] + (points[, 2] - side[2]) * step[2]) / sum(step^2)
}

split_side <- function(i, places, sides) {
  inner <- places[order(places[, 1]), 2:3, drop = FALSE]
  along <- rbind(sides[i, 1:2], inner, sides[i, 3:4])
  along <- along[c(TRUE, rowSums(abs(diff(along))) > 0), , drop = FALSE]
  cbind(along[-nrow(along), , drop = FALSE], along[-1, , drop = FALSE])
}

# Two equal sides bound nothing, in whatever direction they go.
without_pairs <- function(sides) {
  ends <- vertex_numbers(rbind(sides[, 1:2, drop = FALSE], sides[, 3:4, drop = FALSE]))
  n <- nrow(sides)
  from <- ends[seq_len(n)]
  to <- ends[n + seq_len(n)]
  key <- paste(pmin(from, to), pmax(from, to))
  sides[!duplicated(key) & table(key)[key] %% 2 == 1, , drop = FALSE]
}

# Numbers points so that equal points have equal numbers.
vertex_numbers <- function(points) {
  x <- match(points[, 1], points[, 1])
  y <- match(points[, 2], points[, 2])
  match(paste(x, y), paste(x, y))
}

# Sides that meet at their ends alone, each in the direction that has the inside on its left: what lies next to its
# middle on the right is outside where an even number of other sides is met on the way out.
with_inside_on_left <- function(sides) {
  for (i in seq_len(nrow(sides))) {
    step <- sides[i, 3:4] - sides[i, 1:2]
    middle <- (sides[i, 1:2] + sides[i, 3:4]) / 2
    k <- which.min(abs(step)) # the way out is along this axis, upwards
    other <- 3 - k
    crossed <- which((sides[, other] > middle[other]) != (sides[, other + 2] > middle[other]))
    crossed <- crossed[crossed != i]
    share <- (middle[other] - sides[crossed, other]) / (sides[crossed, other + 2] - sides[crossed, other])
    beyond <- sides[crossed, k] + share * (sides[crossed, k + 2] - sides[crossed, k]) > middle[k]
    inside_upwards <- sum(beyond) %% 2 == 1
    left_is_upwards <- if (k == 1) step[2] < 0 else step[1] > 0
    if (inside_upwards != left_is_upwards) sides[i, ] <- sides[i, c(3, 4, 1, 2)]
  }
  sides
}

# Rings of directed sides, of which as many begin in a vertex as end there. Where several begin, the next in their order
# follows.
trace_rings <- function(sides) {
  n <- nrow(sides)
  ends <- vertex_numbers(rbind(sides[, 1:2, drop = FALSE], sides[, 3:4, drop = FALSE]))
  from <- ends[seq_len(n)]
  to <- ends[n + seq_len(n)]
  open <- split(seq_len(n), from)
  rings <- list()
  used <- logical(n)
  for (start in seq_len(n)) {
    if (used[start]) next
    path <- integer()
    side <- start
    repeat {
      used[side] <- TRUE
      path <- c(path, side)
      if (to[side] == from[start]) break
      following <- open[[as.character(to[side])]]
      side <- c(following[!used[following]], NA)[1]
      if (is.na(side)) break # rounding has moved a crossing over another one: close the ring here
    }
    rings <- c(rings, list(rbind(sides[path, 1:2, drop = FALSE], sides[start, 1:2])))
  }
  rings
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
# where L is the identity; it turns no ring round, for its diagonal is positive. With `moments` a matrix: the integrals of
# u^p, of such coordinates u relative to the point, in the order of domain_moments().
polygon_mass <- function(points, rings, L, factors, control, moments = FALSE) {
  sides <- ring_sides(rings)
  ends <- whitened_columns(rbind(sides[, 1:2, drop = FALSE], sides[, 3:4, drop = FALSE]), L)
  first <- seq_len(nrow(sides))
  of_sides <- \(ends) if (!is.null(ends)) rbind(ends[, first, drop = FALSE], ends[, -first, drop = FALSE])
  sides <- structure(of_sides(ends), low = of_sides(low_parts(ends)))
  found <- .Call(ffi_polygon_masses, sides, whitened_columns(points, L), factors, moments, control)
  if (moments) matrix(found, nrow(points)) else found
}
