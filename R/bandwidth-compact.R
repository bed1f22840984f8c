# Bandwidths of kernels of bounded reach (sum-compact-kernels.R), from those that are chosen for the Gaussian.

# What was chosen from the data for the Gaussian, for the kernel of `options`; what was given stays. `adapted`: has
# each point a width of its own?
for_kernel <- function(main, data, estimator, options, adapted, control) {
  if (options$kernel == "gaussian" || estimator != PLAIN_ESTIMATOR || !is_chosen(options$bandwidth)) return(main)
  kernel <- compact_kernel(options$kernel)
  main <- scaled_bandwidth(main, canonical_factor(kernel, ncol(data$points)))
  if (main$selector != "lscv" || adapted) return(main)
  scaled_bandwidth(main, lscv_factor(data, main$L, kernel, control))
}

scaled_bandwidth <- function(main, factor) replace(main, c("H", "L"), list(factor^2 * main$H, factor * main$L))

# The multiple of a Gaussian bandwidth with the same asymptotic error (Marron and Nolan 1988): the root of degree d + 4
# of the ratio of the roughnesses, since all kernels have a standard deviation of 1. This holds for the classical
# estimate. The error of an SD-KDE involves fourth moments; it keeps the Gaussian bandwidth.
canonical_factor <- function(kernel, d) (roughness(kernel) * 2 * sqrt(pi))^(d / (d + 4))

# In several dimensions sums are of pairs, and a search takes dozens.
LSCV_ROWS <- 5000

# The multiple of L that is best by the least-squares criterion of the kernel itself, exact as are its sums; 1
# where it has no minimum near there. In several dimensions it is that of LSCV_ROWS rows, for which L is as much wider
# as is best for their number.
lscv_factor <- function(data, L, kernel, control) {
  d <- ncol(data$points)
  used <- if (is.null(data$weights)) seq_len(nrow(data$points)) else which(data$weights > 0)
  if (d > 1 && length(used) > LSCV_ROWS) {
    rows <- with_fixed_seed(sample(used, LSCV_ROWS))
    part <- list(points = data$points[rows, , drop = FALSE], weights = data$weights[rows])
    ratio <- effective_size(data$weights, length(used)) / effective_size(part$weights, LSCV_ROWS)
    return(lscv_factor(part, L * ratio^(1 / (d + 4)), kernel, control))
  }
  criterion <- list(value = \(L) lscv_value(data, L, kernel, control))
  found <- minimise(criterion, list(L), schedule = list(step = 0.1, further = 7))
  if (found$converged) found$L[1] / L[1] else 1
}

# The integral of the square less twice the mean of the densities of points left out.
lscv_value <- function(data, L, kernel, control) {
  w <- if (is.null(data$weights)) rep(1, nrow(data$points)) else relative_to_largest(data$weights)
  square <- sum(w * overlap_kernel_sums(data$points, w, L, kernel, control))
  others <- exp(log_sum(sum_sources(data$points, w, L, kernel), NULL, PLAIN_FACTOR, TRUE, control)$log_abs)
  unit <- prod(kernel$reach * diagonal(L))
  square / sum(w)^2 / unit - 2 * sum(w * others / leave_out(w)) / sum(w) * exp(log_kernel_norm(L))
}
