# The integral of p^2, by which the quadratic and the spherical score go. Two kernels of f_i^2 H and f_j^2 H,
# multiplied and integrated, are one kernel of (f_i^2 + f_j^2) H at x_i - x_j, times the polynomial `overlap` of the
# estimator: so it is a sum over all pairs of points, which every engine has.

# list(log, log_loo): logarithms of the integral, and where `loo`, of the integrals for the estimates without each
# point:
#
#   int p_-i^2 = (A - 2 w_i A_i + w_i^2 K_ii) / (W - w_i)^2,   A_i = sum_j w_j K_ij,   A = sum_i w_i A_i.
log_square_integral <- function(object, loo, control) {
  check_can(object, "square")
  w <- if (is.null(object$weights)) rep(1, object$n) else relative_to_largest(object$weights)
  sums <- overlap_sums(object, w, control)
  unit <- log_kernel_norm(sqrt(2) * fit_factor(object))
  all <- sum(w * sums$each)
  total <- list(log = log_positive_part(object, log(all) + unit - 2 * log(sum(w))))
  if (!loo) return(total)
  rest <- all - 2 * w * sums$each + w^2 * sums$own
  log_rest <- log(pmax(rest, 0))
  # at most a few points, each of which has most of the sum: it is summed again, as the difference has lost digits
  for (i in which(rest < all / 8)) log_rest[i] <- log_overlap(object, replace(w, i, 0), control)
  total$log_loo <- log_positive_part(object, log_rest + unit - 2 * log(leave_out(w)))
  total
}

# log of the sum over all pairs, for weights that may be tiny.
log_overlap <- function(object, w, control) {
  unit <- max(w)
  log(max(0, sum(w / unit * overlap_sums(object, w / unit, control)$each))) + 2 * log(unit)
}

# The log of the integral of the squared positive part: the fit stores the negative part.
log_positive_part <- function(object, log_square) {
  if (!is_clipped(object)) return(log_square)
  log_square + log1p(-pmin(object$nonnegative$square / exp(log_square), 1)) - 2 * log_clip(object)
}

# list(each, own): A_i and K_ii, in units of the height of the kernel of 2H.
overlap_sums <- function(object, w, control) {
  if (!has_gaussian(object)) return(compact_overlap_sums(object, w, control))
  overlap <- estimator_of(object)$overlap(object$d)
  if (length(overlap) > length(PLAIN_FACTOR)) return(paired_overlap_sums(object, w, overlap, control))
  points <- fit_points(object)
  places <- if (is.null(object$discrete)) points else cbind(points, object$discrete$codes)
  L <- fit_factor(object)
  classes <- fit_classes(object)
  sums <- list(each = numeric(object$n), own = numeric(object$n))
  for (i in seq_along(classes$factors)) {
    rows <- classes$rows[[i]]
    share_stage(control, (i - 1) / length(classes$factors), 1 / length(classes$factors))
    together <- sqrt((object$adaptive$factors^2 + classes$factors[i]^2) / 2)
    several <- length(together) > 0
    sources <- sum_sources(
      points, w, sqrt(2) * L, factors = if (several) together, discrete = overlapping(object$discrete)
    )
    found <- log_sum(sources, if (several) places[rows, , drop = FALSE], overlap, FALSE, control)
    sums$each[rows] <- signed_density(found)
    sums$own[rows] <- overlap[1] * classes$factors[i]^-object$d
  }
  sums$own <- sums$own * own_overlap(object)
  sums
}

overlapping <- function(discrete) if (is.null(discrete)) NULL else replace(discrete, "power", "overlap")

# The sum over all categories of the squared kernel of each point.
own_overlap <- function(object) {
  if (is.null(object$discrete)) return(1)
  tables <- tables_of_power(overlapping(object$discrete))
  Reduce(`*`, Map(\(table, k) diag(table)[object$discrete$codes[, k]], tables, seq_along(tables)))
}

# The same with a polynomial that the engines lack.
paired_overlap_sums <- function(object, w, overlap, control) {
  object$weights <- w
  object$bandwidth <- 2 * object$bandwidth
  object["discrete"] <- list(overlapping(object$discrete))
  places <- from_centre(object, own_places(object))
  sums <- list(each = numeric(object$n), own = overlap[1] * own_overlap(object))
  each_pair_block(object, places, FALSE, control, \(rows, kernels) {
    sums$each[rows] <<- rowSums(exp(kernels$log_k) * polynomial_at(overlap, kernels$half))
  })
  sums
}
