# Kernels of bounded reach (sum-compact-kernels.R) in several dimensions: the product of those of the coordinates of
# A^-1 (y - x), for H = A A'. A product depends on which root A is. Here it is A = D R^(1/2), D the standard deviations
# and R^(1/2) the symmetric root of the correlations: where H is diagonal that is the product over the columns, and
# neither the units of columns nor their order change the estimate, as they would with Cholesky's factor or with the
# symmetric root of H.

kernel_root <- function(L) if (has_correlation(L)) symmetric_power(L, 1 / 2) else L

# A^-1.
inverse_root <- function(L) {
  if (has_correlation(L)) symmetric_power(L, -1 / 2) else diagonal_matrix(1 / diagonal(L), nrow(L))
}

# D R^power, or with a negative one R^power D^-1. Rounding may leave no more of a small eigenvalue than its error.
symmetric_power <- function(L, power) {
  H <- tcrossprod(L)
  sds <- sqrt(diagonal(H))
  eigen <- eigen(H / tcrossprod(sds), symmetric = TRUE)
  values <- pmax(eigen$values, .Machine$double.eps)
  R <- eigen$vectors %*% (values^power * t(eigen$vectors))
  if (power > 0) sds * R else R / rep(sds, each = nrow(R))
}

# list(columns, reach, from): coordinates in which a kernel is a cube of these half widths; a function that makes of
# points such columns; the matrix that makes a gradient by points of one by coordinates. Without correlations
# coordinates are the points in units of powers of two, so that differences keep all digits, however far the origin.
cube_frame <- function(sources) {
  reach <- sources$kernel$reach
  L <- sources$L
  if (!has_correlation(L)) {
    unit <- 2^-round(log2(reach * diagonal(L)))
    return(list(reach = reach * diagonal(L) * unit, columns = \(x) t(x) * unit, from = diag(unit, length(unit))))
  }
  used <- if (is.null(sources$weights)) TRUE else sources$weights > 0
  about <- apply(sources$points[used, , drop = FALSE], 2, stats::median)
  inverse <- inverse_root(L)
  list(reach = rep(reach, nrow(L)), columns = \(x) inverse %*% (t(x) - about), from = t(inverse))
}

# As window_sums(), one column for both sides; with the polynomial `slope` and the further columns of struct fk_cubes.
cube_sums <- function(sources, at, loo, control, tip = NULL, slope = NULL, frame = cube_frame(sources)) {
  check_window_control(control)
  # both in coordinates, and the points in panels, too
  check_memory(8 * (3 * length(sources$points) + 2 * length(at)), if (is.null(at)) "object" else "newdata")
  x <- frame$columns(sources$points)
  cube_sum(list(
    x = x, y = if (!is.null(at)) frame$columns(at) else if (!loo) x,
    weights = if (is.null(sources$weights)) rep(1, ncol(x)) else sources$weights,
    reach = frame$reach, value = sources$kernel$value, tip = tip, slope = slope
  ), control)
}

# As window_score().
cube_score <- function(sources, at, loo, names, control) {
  frame <- cube_frame(sources)
  found <- cube_sums(sources, at, loo, control, slope = slope_polynomial(sources$kernel$value), frame = frame)
  by_coordinate <- t(found$sums[, -1, drop = FALSE] / found$sums[, 1]) / frame$reach
  score <- t(frame$from %*% by_coordinate)
  list(score = matrix(score, nrow(score), dimnames = if (!is.null(names)) list(NULL, names)), stats = found$stats)
}

# As overlap_kernel_sums().
overlap_cube_sums <- function(points, w, L, kernel, control) {
  parts <- overlap_kernels(kernel)
  sources <- sum_sources(points, w, L, parts[[1]])
  drop(cube_sums(sources, NULL, FALSE, control, tip = if (length(parts) > 1) parts[[2]]$value)$sums)
}

# Of a marginal these are the kernels of the columns that are left, if those that go are not correlated with them.
check_marginal_kernel <- function(object, dims) {
  if (has_gaussian(object) || all(object$bandwidth[dims, -dims] == 0)) return(invisible(object))
  stop(new_error("unsupported", paste0(
    "marginal densities of a kernel with bounded support need a `bandwidth` without correlations between the columns ",
    "that are kept and those that are not: give a diagonal bandwidth, or fit the columns that you want alone"
  ), user_call()))
}
