# What a density needs of kernels of bounded reach (sum-compact-kernels.R): sums with their logarithms, scores,
# distribution functions, draws, and the integral of the square. In one dimension the sums are those of windows, in
# more those of cubes (sum-compact-cubes.R).

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

# list(sums, stats): at each target the sums of w (c_0 + c_1 s + ...) over the points on its left and on its right,
# a matrix of two columns. `ties`: do points at the target itself count, on its left? Of the points themselves
# (`at` NULL), each without its own term where `loo`.
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

# The slope of a kernel at its own centre is 0, also where it has a kink there.
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

# The weight below each of `q`, for a part of tail_function(): centres in order, their weights and the sums of
# these. A kernel left of q is all below it but for what is right of q, which is at most half.
window_tail <- function(part, q, kernel, control) {
  windows <- list(
    x = part$centres, weights = part$weights, reach = kernel$reach * part$h,
    coefficients = integral_polynomial(kernel$value), ties = TRUE
  )
  # for findInterval(), too, which takes as long as the sums where a million targets are in no order
  by_size <- order(q, method = "radix")
  q <- q[by_size]
  sums <- window_sum(windows, q, control)$sums
  below <- c(0, part$cumulative)[findInterval(q, part$centres) + 1] - sums[, 1] + sums[, 2]
  replace(numeric(length(q)), by_size, below)
}

# Below p, in standard deviations: no quantile of the kernel is further out.
kernel_quantile <- function(kernel, p) if (is_compact(kernel)) rep(-kernel$reach, length(p)) else stats::qnorm(p)

# ---- draws --------------------------------------------------------------------------------------

# n x d, of the kernel with H = L L', L = `lower`.
draw_kernel <- function(kernel, n, lower) {
  if (is_compact(kernel)) {
    return(tcrossprod(matrix(kernel$reach * kernel$draw(n * ncol(lower)), n), kernel_root(lower)))
  }
  tcrossprod(matrix(stats::rnorm(n * ncol(lower)), n), lower)
}

# ---- the integral of the square -------------------------------------------------------------------

# Where two kernels are multiplied and integrated, they are one of twice the reach at the difference of their
# centres: by s2 = 2 - |difference| / reach, the integral of c(t) c(s2 - t) from 0 to s2, c the polynomial of the
# kernel. A list, as its polynomials need not have one reach: beyond the tip of a triangle, its line has to be
# taken off again.
overlap_kernels <- function(kernel) {
  a <- kernel$value
  k <- seq_along(a) - 1
  terms <- outer(a, a) * outer(k, k, \(i, j) factorial(i) * factorial(j) / factorial(i + j + 1))
  value <- c(0, as.vector(tapply(terms, outer(k, k, `+`), sum)))
  wide <- replace(kernel, c("value", "reach"), list(value * 2^(seq_along(value) - 1), 2 * kernel$reach))
  tip <- if (kernel$name == "triangular") list(replace(kernel, "value", list(c(0, 0, 0, -2 / 3))))
  c(list(wide), tip)
}

# At each of the points the sum over all of them of w times what two kernels have in common, in units of the reach.
overlap_kernel_sums <- function(points, w, L, kernel, control) {
  if (ncol(points) > 1) return(overlap_cube_sums(points, w, L, kernel, control))
  parts <- lapply(overlap_kernels(kernel), \(part) {
    rowSums(window_sums(sum_sources(points, w, L, part), part$value, NULL, FALSE, control)$sums)
  })
  Reduce(`+`, parts)
}
