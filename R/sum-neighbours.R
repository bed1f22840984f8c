# Distances to neighbours.

# Returns the distance of each point of `data` to its k-th nearest other point, in units in which H = L L' is the
# identity. k NULL: the square root of the number of points. Callers take logarithms, so a distance of 0 is replaced
# by the smallest positive one.
neighbour_distances <- function(data, L, k, run) {
  u <- whitened_columns(data$x, L)
  distances <- kth_distances(u, NULL, neighbour_rank(k, ncol(u)), run)
  if (all(distances == 0)) return(rep(1, length(distances)))
  pmax(distances, min(distances[distances > 0]))
}

neighbour_rank <- function(k, n) min(if (is.null(k)) round(sqrt(n)) else k, n - 1)

# Returns the distance from each of `at` to the k-th nearest of `points`, or for `at` NULL from each of `points` to the
# k-th nearest other one. Points are columns.
kth_distances <- function(points, at, k, run) .Call(ffi_neighbour_distances, points, at, as.double(k), run)
