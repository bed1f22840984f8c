# Densities on a polygon: the kind of a supported density whose kernels are divided by their masses in the polygon.

#' @export
shown_range.polygon <- function(object, axis, margin = GRID_MARGIN) {
  range(ring_sides(object$support$polygon)[, c(axis, axis + 2)])
}

# The probability of the part of each rectangle that is in the polygon.
#' @export
rectangle_probability.polygon <- function(object, lower, upper, control) {
  inner <- object$inner
  weights <- kernel_weights(inner)
  points <- from_origin(inner, fit_points(inner))
  vapply(seq_len(nrow(upper)), \(i) {
    if (anyNA(c(lower[i, ], upper[i, ]))) return(NA_real_)
    rings <- rings_in_box(object$support$polygon, lower[i, ], upper[i, ])
    if (length(rings) == 0) return(0)
    masses <- polygon_mass(points, rings, fit_factor(inner), inner$adaptive$factors, control)
    min(sum(weights * masses) / total_weight(object), 1)
  }, 0)
}

# The rings of the part of a polygon in a box, cut at each side (Sutherland and Hodgman 1974). Parts of one ring remain connected
# along that side, there and back, where integrals cancel.
rings_in_box <- function(rings, lower, upper) {
  for (k in 1:2) {
    rings <- lapply(rings, ring_below, k, upper[k], 1)
    rings <- lapply(rings, ring_below, k, lower[k], -1)
  }
  Filter(\(ring) nrow(ring) > 3, rings)
}

# The part of a ring with sign * x[k] <= sign * limit.
ring_below <- function(ring, k, limit, sign) {
  if (nrow(ring) < 2 || sign * limit == Inf) return(ring)
  from <- ring[-nrow(ring), , drop = FALSE]
  to <- ring[-1, , drop = FALSE]
  inside <- \(points) sign * points[, k] <= sign * limit
  crosses <- inside(from) != inside(to)
  share <- (limit - from[, k]) / (to[, k] - from[, k])
  met <- from + share * (to - from)
  met[, k] <- limit
  in_turn <- matrix(t(cbind(met, to)), ncol = 2, byrow = TRUE)
  cut <- in_turn[as.vector(rbind(crosses, inside(to))), , drop = FALSE]
  rbind(cut, cut[seq_len(min(nrow(cut), 1)), ])
}

# The probability that coordinate `axis` is at most q.
probability_along <- function(object, axis, q, run) {
  upper <- replace(matrix(Inf, length(q), 2), cbind(seq_along(q), axis), q)
  rectangle_probability(object, matrix(-Inf, length(q), 2), upper, run)
}

# By bisection of the probability up to them.
#' @export
quantiles_along.polygon <- function(object, axis, probs, run) {
  ends <- shown_range(object, axis)
  low <- rep(ends[1], length(probs))
  high <- rep(ends[2], length(probs))
  inner <- probs > 0 & probs < 1
  is_above <- \(q) probability_along(object, axis, q, run) >= probs[inner]
  found <- halve(low[inner], high[inner], is_above, FALSE)
  replace(ifelse(probs == 0, ends[1], ends[2]), inner, found)
}

# The upper end minus the integral of the distribution function, which needs no bisection.
#' @export
mean_along.polygon <- function(object, axis, run) {
  ends <- shown_range(object, axis)
  up_to <- \(q) probability_along(object, axis, q, run)
  ends[2] - stats::integrate(up_to, ends[1], ends[2], rel.tol = 1e-6)$value
}
