# The metric of a kernel, learnt from gradients. The kernel is a function of z = (x / spread) root / unit. The root of a
# metric is a vector of d factors ("none", "diagonal") or a d x d matrix ("full"). After a fit, the metric is the mean
# outer product of its gradients (Radhakrishnan and others, 2024): columns and directions in which the response changes
# faster get smaller bandwidths. `unit` is a multiple of the median distance of the rows, so that bandwidths keep their
# size while the metric changes.

# An eigenvalue of the metric is at least this part of the largest one. A direction that does not matter then has a
# bandwidth 10^5 times as large as the smallest, and the bandwidth matrix is still invertible.
LEAST_RELEVANCE <- 1e-10

# Rows between which the median distance is taken.
DISTANCE_ROWS <- 150

# list(root, unit, type) for standardised points x, or NULL if more than half of the rows are equal in this metric.
# `width`: the unit in median distances.
scaled_metric <- function(root, type, x, kernel, width, run) {
  some <- metric_points(x[seq_len(min(nrow(x), DISTANCE_ROWS)), , drop = FALSE], root, 1, run)
  distance <- stats::median(pair_distances(some, metric_of(kernel), run))
  if (!is.finite(distance) || distance <= 0) return(NULL)
  list(root = root, unit = width * distance, type = type)
}

# The distance of each pair of rows once. stats::dist() takes some times as long as a product.
pair_distances <- function(z, metric, run) {
  if (metric == "absolute") return(as.vector(stats::dist(z, "manhattan")))
  norms <- .rowSums(z^2, nrow(z), ncol(z))
  squares <- norms + rep(norms, each = nrow(z)) - 2 * matrix_tcrossprod(z, z, run)
  sqrt(pmax(squares[lower.tri(squares)], 0))
}

# Points of a metric as sources of sums.
metric_sources <- function(z, kernel) {
  sum_sources(z, NULL, diagonal_matrix(rep(1, ncol(z)), ncol(z)), kernel, new_plan())
}

metric_points <- function(x, root, unit, run) {
  if (is.matrix(root)) matrix_product(x, root / unit, run) else scale_columns(x, root / unit)
}

# The root of the next metric of an `entry`, after a fit with coefficients `a` (n x t) at the points z of `metric`, or
# NULL if the gradient is 0 everywhere.
learnt_root <- function(a, z, metric, entry, run) {
  d <- ncol(z)
  fit <- list(coefficients = a, centers = z, kernel = entry$kernel, L = diagonal_matrix(rep(1, d), d), d = d)
  slopes <- gradients_at(slope_of(fit), fit, z, run)
  back <- metric$root / metric$unit
  if (metric$type != "full") {
    squares <- matrix(.colSums(slopes^2, nrow(z), d * ncol(a)), d)
    return(diagonal_root((rowSums(squares) * back^2)^entry$power))
  }
  products <- lapply(seq_len(ncol(a)), \(output) {
    of_output <- matrix(slopes[, , output], ncol = d)
    matrix_crossprod(of_output, of_output, run)
  })
  full_root(back %*% base::tcrossprod(Reduce(`+`, products), back), entry$power)
}

# The roots of the numbers, as a metric of trace d.
diagonal_root <- function(squares) {
  if (!all(is.finite(squares)) || max(squares) <= 0) return(NULL)
  sqrt(pmax(squares, LEAST_RELEVANCE * max(squares)) * (length(squares) / sum(squares)))
}

full_root <- function(M, power) {
  if (!all(is.finite(M)) || max(diagonal(M)) <= 0) return(NULL)
  of <- eigen(M, symmetric = TRUE)
  of$vectors * rep(diagonal_root(pmax(of$values, 0)^power), each = nrow(M))
}

# The bandwidth in units of the columns: a vector, or a d x d variance matrix, whose inverse is the metric.
metric_bandwidth <- function(metric, spread) {
  if (!is.matrix(metric$root)) return(metric$unit * spread / metric$root)
  # the root is V diag(s) with orthogonal V
  lengths <- sqrt(.colSums(metric$root^2, nrow(metric$root), ncol(metric$root)))
  inverse <- spread * metric$root * rep(metric$unit / lengths^2, each = nrow(metric$root))
  base::tcrossprod(inverse)
}
