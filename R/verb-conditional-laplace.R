# The Laplace-corrected conditional density p(y, x) / p(x). Numerator and denominator are corrected separately, with
# the kernel (1 - A) K, A = H : D^2 / 2. Integrating y out gives the corrected kernel of x, b_i K_x with b_i = 1 + d_x
# / 2 - q_i / 2; with y it is K_x K_y (b_i + d_y / 2 - q_y / 2). With a_i = w_i K_x(x - x_i), each result is a sum
# over a_i b_i divided by their sum, which may be negative.

check_unsigned <- function(object, what, cure) {
  if (!is_signed(object$joint)) return(invisible())
  stop(new_error("unsupported", paste0(what, " are not available for ", UNSIGNED, ": ", cure), user_call()))
}

# list(a, b), n x m, at the rows of x of a conditional_job(); `a` is relative to its largest value in each column.
laplace_weights <- function(job, d) {
  x <- transposed(job$x)
  at <- transposed(job$at)
  q <- Reduce(`+`, lapply(seq_len(ncol(x)), \(k) apart_in(x, at, k)^2))
  log_a <- job$log_weights - q / 2
  top <- apply(log_a, 2, max)
  if (any(!is.finite(top))) stop_too_far()
  list(a = exp(log_a - rep(top, each = nrow(q))), b = 1 + d / 2 - q / 2)
}

# Calls `task(job, weights, rows)` for chunks of the rows of x.
laplace_chunks <- function(object, x, task) {
  size <- max(1, floor(CHUNK_WEIGHTS / object$joint$n))
  for (from in seq(1, by = size, length.out = ceiling(nrow(x) / size))) {
    rows <- from:min(from + size - 1, nrow(x))
    job <- conditional_job(object, x[rows, , drop = FALSE])
    task(job, laplace_weights(job, ncol(x)), rows)
  }
}

# conditional_cdf() of a Laplace-corrected estimate, for x without categorical columns.
laplace_cdf <- function(object, y, x) {
  found <- matrix(0, nrow(x), ncol(y))
  laplace_chunks(object, x, \(job, weights, rows) {
    ab <- weights$a * weights$b
    at <- job$inward(y[rows, , drop = FALSE])
    low <- low_parts(job$centres)
    centres <- structure(matrix(job$centres), low = if (!is.null(low)) matrix(low))
    for (k in seq_len(ncol(y))) {
      z <- -apart_in(centres, at, 1, k)
      found[rows, k] <<- colSums(ab * stats::pnorm(z) + weights$a * z * stats::dnorm(z) / 2) / colSums(ab)
    }
  })
  found
}

# moments_at() of a Laplace-corrected estimate. The corrected kernel has variance 0, but for the effect of correcting
# p(x).
laplace_moments <- function(object, x) {
  joint <- object$joint
  dims <- given_dims(object)
  split <- split_bandwidth(joint$bandwidth, dims)
  origin <- joint$x[used_rows(joint), dims, drop = FALSE][1, ]
  along <- \(x) tcrossprod(shift_points(x, origin, -1), split$slope)
  centres <- joint$x[, seq_along(object$response), drop = FALSE] - along(joint$x[, dims, drop = FALSE])
  middle <- apply(centres[used_rows(joint), , drop = FALSE], 2, stats::median)
  centres <- shift_points(centres, middle, -1)
  shift <- shift_points(along(x), middle, 1)
  found <- list(mean = shift, variance = shift)
  own <- rowSums(split$L^2)
  laplace_chunks(object, x, \(job, weights, rows) {
    ab <- weights$a * weights$b
    total <- colSums(ab)
    mean <- crossprod(ab, centres) / total
    found$mean[rows, ] <<- mean + shift[rows, , drop = FALSE]
    kernel <- outer(1 - colSums(weights$a) / total, own)
    found$variance[rows, ] <<- crossprod(ab, centres^2) / total - mean^2 + kernel
  })
  found
}

# list(log_abs, negative) of p(y | x) for one row of x without categorical columns, so far from the points that
# differences of log sums have no correct digits.
laplace_far <- function(object, y, x, run) {
  if (ncol(x) == 0) return(log_estimate(object$joint, y, FALSE, run))
  dims <- given_dims(object)
  weights <- laplace_weights(conditional_job(object, x), length(dims))
  moved <- move_with(object$joint, given_side(object), dims, x)
  L <- fit_factor(moved)
  # a kernel at y of a point without weight may overflow relative to the others
  counts <- weights$a > 0
  a <- weights$a[counts]
  b <- weights$b[counts]
  q <- rowSums(whiten(shift_points(moved$x[counts, , drop = FALSE], y[1, ], -1), L)^2)
  log_k <- -q / 2
  top <- max(log_k)
  sum <- sum(a * (b + (length(y) - q) / 2) * exp(log_k - top)) / sum(a * b)
  list(log_abs = log(abs(sum)) + top + log_kernel_norm(L), negative = sum < 0)
}
