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

# Points of a metric as sources of sums of a kernel whose bandwidth is `scale` (NULL: 1).
metric_sources <- function(z, kernel, scale = NULL) {
  L <- diagonal_matrix(rep(if (is.null(scale)) 1 else scale, ncol(z)), ncol(z))
  sum_sources(z, NULL, L, kernel, new_plan())
}

metric_points <- function(x, root, unit, run) {
  if (is.matrix(root)) matrix_product(x, root / unit, run) else scale_columns(x, root / unit)
}

# The roots of the next metrics of `fits`, each a list(a, z, metric, entry): coefficients `a` (m x t) at the points z of the
# `metric` of an `entry`. NULL where the gradient is 0 everywhere or not finite. Gradients of all fits are computed side by side.
learnt_roots <- function(fits, run) {
  if (length(fits) == 0) return(list())
  products <- .Call(ffi_gradient_products, lapply(fits, gradients_task), run)
  Map(\(fit, products) {
    back <- fit$metric$root / fit$metric$unit
    if (fit$metric$type != "full") return(diagonal_root((products * back^2)^fit$entry$power))
    full_root(back %*% base::tcrossprod(products, back), fit$entry$power)
  }, fits, products)
}

# Of kernels of a distance, with the slope of the kernel; a sum of absolute differences is its own.
gradients_task <- function(fit) {
  kernel <- fit$entry$kernel
  absolute <- metric_of(kernel) == "absolute"
  slope <- if (absolute) list(form = c(1, 1, 0)) else SLOPES[[kernel$name]](as.list(kernel$parameters))
  if (!is.null(slope$kernel)) slope$form <- c(slope$times, 1, 0)
  sources <- metric_sources(fit$z, if (is.null(slope$kernel)) kernel else slope$kernel, slope$scale)
  list(sources = sources, z = fit$z, a = fit$a, slope = slope$form, absolute = absolute, full = fit$metric$type == "full")
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
