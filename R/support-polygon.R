# Polygons: rings of vertices, a matrix each with its first row again as its last. Outer rings go counterclockwise,
# holes clockwise, so that integrals along them count what an odd number of rings surrounds.

is_polygon <- function(x) {
  if (inherits(x, c("sf", "sfc", "sfg"))) return(TRUE)
  is_ring <- \(ring) is.numeric(ring) && is.matrix(ring) && ncol(ring) == 2
  is_ring(x) || is.data.frame(x) || is.list(x) && !inherits(x, "kde_support") && length(x) > 0 && all(vapply(x, is_ring, NA))
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
  if (any(ring[1, ] != ring[nrow(ring), ])) ring <- rbind(ring, ring[1, ])
  ring <- ring[c(TRUE, rowSums(abs(diff(ring))) > 0), , drop = FALSE]
  if (nrow(ring) < 4 || ring_area(ring) == 0) stop_argument("support", "must be a polygon that has an area: found none")
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
    near <- which(
      abs(x - a[1] - step[1] / 2) <= abs(step[1]) / 2 + close & abs(y - a[2] - step[2] / 2) <= abs(step[2]) / 2 + close
    )
    along <- ((x[near] - a[1]) * step[1] + (y[near] - a[2]) * step[2]) / sum(step^2)
    along <- pmin(pmax(along, 0), 1)
    distance <- abs(x[near] - a[1] - along * step[1]) + abs(y[near] - a[2] - along * step[2])
    touching[near] <- touching[near] | distance <= close
  }
  inside | touching
}

# ---- mass -------------------------------------------------------------------------------------

# Beyond so many sds a Gaussian has less than 1e-16 of its mass.
MASS_REACH <- 8.5

# The mass inside the rings of the Gaussian of variance f^2 L L' about each point, f its factor: to 1e-12. With u the
# coordinates in which it is the unit Gaussian about the origin, by Green's theorem the integral of Phi(u_1) phi(u_2) du_2
# along all sides.
polygon_mass <- function(points, rings, L, factors = NULL) {
  to_unit <- \(x) whiten(x, L)
  centres <- to_unit(points)
  widths <- if (is.null(factors)) rep(1, nrow(points)) else factors
  sides <- ring_sides(rings)
  from <- to_unit(sides[, 1:2, drop = FALSE])
  to <- to_unit(sides[, 3:4, drop = FALSE])
  mass <- numeric(nrow(points))
  for (i in seq_len(nrow(sides))) {
    x <- cbind(from[i, 1] - centres[, 1], to[i, 1] - centres[, 1]) / widths
    y <- cbind(from[i, 2] - centres[, 2], to[i, 2] - centres[, 2]) / widths
    counts <- which(
      pmin(y[, 1], y[, 2]) < MASS_REACH & pmax(y[, 1], y[, 2]) > -MASS_REACH & pmax(x[, 1], x[, 2]) > -MASS_REACH
    )
    if (length(counts) > 0) mass[counts] <- mass[counts] + side_integral(x[counts, , drop = FALSE], y[counts, , drop = FALSE])
  }
  # L turns no ring round: its diagonal is positive
  pmin(pmax(mass, 0), 1)
}

# Along the sides from (x_1, y_1) to (x_2, y_2), a row each. Where u_1 is beyond reach Phi is 0 or 1; the rest is no longer
# than 25 sds, and goes by Gauss' formula.
side_integral <- function(x, y) {
  dx <- x[, 2] - x[, 1]
  dy <- y[, 2] - y[, 1]
  # the share of the side where a coordinate is in reach
  part <- function(start, step, value) {
    t <- (value - start) / step
    t[is.nan(t)] <- 0
    pmin(pmax(t, 0), 1)
  }
  x_in <- part(x[, 1], dx, -sign_of(dx) * MASS_REACH)
  x_out <- part(x[, 1], dx, sign_of(dx) * MASS_REACH)
  t0 <- pmax(x_in, part(y[, 1], dy, -sign_of(dy) * MASS_REACH))
  t1 <- pmax(t0, pmin(x_out, part(y[, 1], dy, sign_of(dy) * MASS_REACH)))
  beyond <- function(from, to) stats::pnorm(y[, 1] + to * dy) - stats::pnorm(y[, 1] + from * dy)
  far <- ifelse(dx > 0, beyond(x_out, 1), beyond(0, x_in))
  far[dx == 0 & x[, 1] < MASS_REACH] <- 0
  steep <- dx == 0 & x[, 1] >= MASS_REACH
  far[steep] <- beyond(0, 1)[steep]
  length <- max((t1 - t0) * sqrt(dx^2 + dy^2))
  rule <- if (length < 0.1) GAUSS[[1]] else if (length < 0.5) GAUSS[[2]] else GAUSS[[3]]
  panels <- max(1, ceiling(length / 2))
  near <- numeric(nrow(x))
  width <- (t1 - t0) / panels
  for (p in seq_len(panels)) {
    for (j in seq_along(rule$node)) {
      t <- t0 + (p - 1 + rule$node[j]) * width
      near <- near + rule$weight[j] * width * dy * stats::pnorm(x[, 1] + t * dx) * stats::dnorm(y[, 1] + t * dy)
    }
  }
  far + ifelse(steep, 0, near)
}

sign_of <- function(x) ifelse(x < 0, -1, 1)

# Gauss' formula on [0, 1], from the eigenvalues of Jacobi's matrix (Golub and Welsch 1969).
gauss_rule <- function(n) {
  off <- seq_len(n - 1) / sqrt(4 * seq_len(n - 1)^2 - 1)
  jacobi <- matrix(0, n, n)
  jacobi[cbind(seq_len(n - 1), seq_len(n - 1) + 1)] <- off
  found <- eigen(jacobi + t(jacobi), symmetric = TRUE)
  list(node = (1 + found$values) / 2, weight = found$vectors[1, ]^2)
}

# For sides of up to 0.1, 0.5 and 2 sds: to 1e-13.
GAUSS <- lapply(c(3, 6, 14), gauss_rule)
