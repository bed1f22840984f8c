# Distances to neighbours.

# To the k-th nearest of the other points of `data`, where H = L L' is the identity; k NULL: the root of their number.
# They are positive, as their logarithms are wanted: among more than k equal points the smallest that is elsewhere.
neighbour_distances <- function(data, L, k, run) {
  u <- whitened_columns(data$x, L)
  distances <- kth_distances(u, NULL, neighbour_rank(k, ncol(u)), run)
  if (all(distances == 0)) return(rep(1, length(distances)))
  pmax(distances, min(distances[distances > 0]))
}

neighbour_rank <- function(k, n) min(if (is.null(k)) round(sqrt(n)) else k, n - 1)

# To the k-th nearest of `points` from each of `at`, or (NULL) from each of them to the others; a column for each.
kth_distances <- function(points, at, k, run) .Call(ffi_neighbour_distances, points, at, as.double(k), run)
