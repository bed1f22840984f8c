# Kernels with bounded support (sum-compact-kernels.R) in several dimensions: the product of the kernels of the
# coordinates of A^-1 (y - x), with H = A A'. The product depends on the choice of the root A. Here A = D R^(1/2), where
# D has the standard deviations and R^(1/2) is the symmetric root of the correlation matrix. If H is diagonal, this is
# the product over the columns. Units and order of columns do not change the estimate, as they would with the Cholesky
# factor or the symmetric root of H.

kernel_root <- function(L) if (has_correlation(L)) symmetric_power(L, 1 / 2) else L

# Returns A^-1.
inverse_root <- function(L) {
  if (has_correlation(L)) symmetric_power(L, -1 / 2) else diagonal_matrix(1 / diagonal(L), nrow(L))
}

# Returns D R^power, or R^power D^-1 if the power is negative. Eigenvalues are bounded below, because a small one may
# consist of rounding errors only.
symmetric_power <- function(L, power) {
  H <- tcrossprod(L)
  sds <- sqrt(diagonal(H))
  eigen <- eigen(H / tcrossprod(sds), symmetric = TRUE)
  values <- pmax(eigen$values, .Machine$double.eps)
  R <- eigen$vectors %*% (values^power * t(eigen$vectors))
  if (power > 0) sds * R else R / rep(sds, each = nrow(R))
}

# Returns list(reach, columns, from), coordinates in which the support of a kernel is a cube. `reach`: its half widths;
# `columns`: a function that transforms points to columns of coordinates; `from`: the matrix that transforms a gradient
# in coordinates to one in points. Without correlations the coordinates are the points in units of powers of two, so
# that differences keep all digits at any distance from the origin.
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

# window_sums() in several dimensions, with one column for all sides. The polynomial `slope` adds columns: see struct
# fk_cubes in src/cpu/loops/cubes.h.
cube_sums <- function(sources, at, loo, control, tip = NULL, slope = NULL, frame = cube_frame(sources)) {
  check_window_control(control)
  # sources and targets in coordinates, and the sources again in panels
  check_memory(8 * (3 * length(sources$points) + 2 * length(at)), if (is.null(at)) "object" else "newdata")
  x <- frame$columns(sources$points)
  cube_sum(list(
    x = x, y = if (!is.null(at)) frame$columns(at) else if (!loo) x,
    weights = if (is.null(sources$weights)) rep(1, ncol(x)) else sources$weights,
    reach = frame$reach, value = sources$kernel$value, tip = tip, slope = slope
  ), control)
}

# window_score() in several dimensions.
cube_score <- function(sources, at, loo, names, control) {
  frame <- cube_frame(sources)
  found <- cube_sums(sources, at, loo, control, slope = slope_polynomial(sources$kernel$value), frame = frame)
  by_coordinate <- t(found$sums[, -1, drop = FALSE] / found$sums[, 1]) / frame$reach
  score <- t(frame$from %*% by_coordinate)
  list(score = matrix(score, nrow(score), dimnames = if (!is.null(names)) list(NULL, names)), stats = found$stats)
}

# overlap_kernel_sums() in several dimensions.
overlap_cube_sums <- function(points, w, L, kernel, control) {
  parts <- overlap_kernels(kernel)
  sources <- sum_sources(points, w, L, parts[[1]])
  drop(cube_sums(sources, NULL, FALSE, control, tip = if (length(parts) > 1) parts[[2]]$value)$sums)
}

# The kernel of a marginal density is the product over the remaining columns only if these are not correlated with the
# others.
check_marginal_kernel <- function(object, dims) {
  if (has_gaussian(object) || all(object$bandwidth[dims, -dims] == 0)) return(invisible(object))
  stop(new_error("unsupported", paste0(
    "marginal densities of a kernel with bounded support need a `bandwidth` without correlations between the columns ",
    "that are kept and those that are not: give a diagonal bandwidth, or fit the columns that you want alone"
  ), user_call()))
}
