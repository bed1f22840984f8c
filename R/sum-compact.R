# Sums of kernels with bounded support (sum-compact-kernels.R): logarithms, scores, distribution functions, draws, and
# the integral of the square. One dimension is in this file, several are in sum-compact-cubes.R.

#' @export
log_sum.compact_sources <- function(sources, at, factor, loo, control) {
  d <- ncol(sources$points)
  found <- if (d == 1) {
    window_sums(sources, sources$kernel$value, at, loo, control)
  } else {
    cube_sums(sources, at, loo, control)
  }
  list(log_abs = log(rowSums(found$sums)) + d * sources$kernel$log_unit, negative = NULL, stats = found$stats)
}

#' @export
score_sum.compact_sources <- function(sources, at, factor, loo, names, control) {
  score <- if (ncol(sources$points) == 1) window_score else cube_score
  score(sources, at, loo, names, control)
}

# Returns list(sums, stats): at each target the sums of w (c_0 + c_1 s + ...) over the points on its left and on its
# right, in two columns. `ties`: are points at the target included, on its left? With `at` NULL the targets are the
# points, with `loo` without their own terms.
window_sums <- function(sources, coefficients, at, loo, control, ties = TRUE) {
  check_window_control(control)
  points <- as.vector(sources$points)
  by_size <- order(points, method = "radix")
  weights <- if (is.null(sources$weights)) rep(1, length(points)) else sources$weights[by_size]
  windows <- list(
    x = points[by_size], weights = weights,
    reach = sources$kernel$reach * sources$L[1, 1], coefficients = coefficients, ties = ties
  )
  found <- window_sum(windows, if (!is.null(at)) as.vector(at) else if (!loo) windows$x, control)
  if (is.null(at)) found$sums[by_size, ] <- found$sums
  found
}

# The slope of a kernel at its centre is taken as 0, even if it has a kink there.
window_score <- function(sources, at, loo, names, control) {
  value <- window_sums(sources, sources$kernel$value, at, loo, control)
  slope <- window_sums(sources, slope_polynomial(sources$kernel$value), at, loo, control, ties = FALSE)
  reach <- sources$kernel$reach * sources$L[1, 1]
  score <- (slope$sums[, 2] - slope$sums[, 1]) / rowSums(value$sums) / reach
  list(
    score = matrix(score, dimnames = if (!is.null(names)) list(NULL, names)),
    stats = add_stats(value$stats, slope$stats)
  )
}

# ---- distribution functions ---------------------------------------------------------------------

# Returns the weight below each of `q`, for a part of tail_function(), which has sorted centres, their weights and the
# cumulative sums of these. A kernel with its centre below q has all its weight below q except the part above q, at most
# half.
window_tail <- function(part, q, kernel, control) {
  windows <- list(
    x = part$centres, weights = part$weights, reach = kernel$reach * part$h,
    coefficients = integral_polynomial(kernel$value), ties = TRUE
  )
  # findInterval() at a million unsorted targets would take as long as the sums
  by_size <- order(q, method = "radix")
  q <- q[by_size]
  sums <- window_sum(windows, q, control)$sums
  below <- c(0, part$cumulative)[findInterval(q, part$centres) + 1] - sums[, 1] + sums[, 2]
  replace(numeric(length(q)), by_size, below)
}

# Returns a lower bound of the p-quantile of the kernel, in standard deviations.
kernel_quantile <- function(kernel, p) if (is_compact(kernel)) rep(-kernel$reach, length(p)) else stats::qnorm(p)

# ---- draws --------------------------------------------------------------------------------------

# Returns n draws in d dimensions from the kernel with H = L L', L = `lower`, as an n x d matrix.
draw_kernel <- function(kernel, n, lower) {
  if (is_compact(kernel)) {
    return(tcrossprod(matrix(kernel$reach * kernel$draw(n * ncol(lower)), n), kernel_root(lower)))
  }
  tcrossprod(matrix(stats::rnorm(n * ncol(lower)), n), lower)
}

# ---- the integral of the square -------------------------------------------------------------------

# Returns kernels whose sum, at the difference of two centres, is the integral of the product of the two kernels. The
# cutoff radius is twice that of the kernel. With s2 = 2 - |difference| / reach and the kernel's polynomial c, the
# integral is that of c(t) c(s2 - t) from 0 to s2. The triangular kernel needs a second polynomial, with a smaller
# cutoff radius, because its line does not continue beyond the tip.
overlap_kernels <- function(kernel) {
  a <- kernel$value
  k <- seq_along(a) - 1
  terms <- outer(a, a) * outer(k, k, \(i, j) factorial(i) * factorial(j) / factorial(i + j + 1))
  value <- c(0, as.vector(tapply(terms, outer(k, k, `+`), sum)))
  wide <- replace(kernel, c("value", "reach"), list(value * 2^(seq_along(value) - 1), 2 * kernel$reach))
  tip <- if (kernel$name == "triangular") list(replace(kernel, "value", list(c(0, 0, 0, -2 / 3))))
  c(list(wide), tip)
}

# Returns at each point the sum over all points of w times the integral of the product of the two kernels, in units of
# the cutoff radius.
overlap_kernel_sums <- function(points, w, L, kernel, control) {
  if (ncol(points) > 1) return(overlap_cube_sums(points, w, L, kernel, control))
  parts <- lapply(overlap_kernels(kernel), \(part) {
    rowSums(window_sums(sum_sources(points, w, L, part), part$value, NULL, FALSE, control)$sums)
  })
  Reduce(`+`, parts)
}
