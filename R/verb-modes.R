#' Modes of a density estimate, and the clusters that belong to them
#'
#' `kde_modes()` finds the local maxima of an estimate; `mean_shift()` puts every point into the cluster of the mode
#' that it climbs to (modal clustering, as `ks::kms()`). In any number of dimensions; modes are exact.
#'
#' @details Points go up the gradient of the logarithm of the density in coordinates in which H is the identity,
#'   where the mean shift of Fukunaga and Hostetler (1975) is that gradient. The step is as long as the change of
#'   the gradient since the last one says (Barzilai and Borwein 1988), at least a mean shift and at most half of a
#'   bandwidth, unless a mean shift is longer: tens of steps where mean shifts would take hundreds. Newton's method
#'   finds the last digits. Steps of many points at once go by sums to a millionth of each, or to the tolerance of the
#'   fit, unless its `engine` is `"exact"`.
#'
#' `kde_modes()` starts from one point of each occupied cell, one bandwidth wide, or from `start`. A mode that no start
#' climbs to is missed. `mean_shift()` begins with these, and lets all points climb until they are within a radius
#' of a mode in which the density falls in all directions tried, or come to a mode that is not yet known, which is
#' added. Nothing depends on the order of the points, or on the number of threads.
#'
#' A bandwidth that suits the density leaves small modes of a few points; a larger one, as
#' `update(fit, bandwidth = 2 * coef(fit))`, has fewer clusters.
#'
#' Where a Laplace-corrected estimate is negative, points climb the plain one. A balloon estimate is refused.
#'
#' **Cost**: one pass over the points for each step, for those that still climb; time linear in the points where
#' there are no adaptive bandwidths and up to three dimensions.
#'
#' @param object A fit from [flash_kde()]; for `predict()` and the other methods a result of `mean_shift()`.
#' @param start `NULL`, or points from which to climb, as `newdata` of [`predict()`][predict.flash_kde].
#' @param newdata `NULL` for the points of the fit, or others to put into clusters; `predict()` wants some.
#' @param control A [flash_control()]; what it does not say is as in the fit.
#' @param x A result of `mean_shift()`.
#' @param digits Significant digits.
#' @param dims Which columns to plot, by number.
#' @param ... For `plot()`, passed to [graphics::pairs()], or to [graphics::plot()] of one or two columns; else not
#'   used.
#'
#' @returns `kde_modes()`: a data frame, a row for each mode, the highest first: the columns of the points; `density`;
#'   `share`, of the weight of the points of the cells whose starts came here (of `start`: the share of these);
#'   `mode`, `FALSE` for another point where the gradient vanishes, as a saddle; and the matrix `curvature`, the
#'   eigenvalues of the Hessian of the log density where H is the identity: -1 for a kernel alone, near 0 for a
#'   flat top.
#'
#'   `mean_shift()`: a list of class `flash_clusters` with `cluster`, a number for each point of the fit or row of
#'   `newdata` (`NA` for those with missing values), the largest cluster of the points first; `modes`, as `kde_modes()`
#'   has them, in the order of the clusters, with `points`, how many came here, and `share`, their share of the
#'   weight; and `fit`. `predict()`: the numbers of the clusters of other points, `NA` for a point that climbs to
#'   none of the modes.
#' @references Fukunaga, K. and Hostetler, L. (1975) The estimation of the gradient of a density function. *IEEE
#'   Transactions on Information Theory* 21, 32-40.
#'
#' Comaniciu, D. and Meer, P. (2002) Mean shift: a robust approach toward feature space analysis. *IEEE
#' Transactions on Pattern Analysis and Machine Intelligence* 24, 603-619.
#'
#' Barzilai, J. and Borwein, J. M. (1988) Two-point step size gradient methods. *IMA Journal of Numerical Analysis*
#' 8, 141-148.
#' @seealso [kde_derivative()], [kde_ridges()], [hdr_level()]
#' @order 1
#' @export
#' @examples
#' fit <- flash_kde(faithful)
#' kde_modes(fit)
#' clusters <- mean_shift(fit)
#' clusters
#' plot(clusters)
#' predict(clusters, data.frame(eruptions = c(2, 4), waiting = c(55, 85)))
kde_modes <- function(object, start = NULL, control = NULL) {
  check_smooth(object, "modes")
  field <- shape_field(object, control, "Finding modes")
  if (is.null(start)) {
    from <- thinned_starts(field, object$x, object$weights, 1)
    u <- to_field(field, object$x[from$rows, , drop = FALSE])
  } else {
    u <- to_field(field, finite_points(object, start, "start"))
    from <- list(weights = rep(1, nrow(u)))
  }
  known <- top_points(field, climb(field, u)$u)
  share <- drop(rowsum(from$weights, factor(known$of, seq_len(nrow(known$u)))))[seq_len(nrow(known$u))]
  mode_table(field, known, share = unname(share) / sum(from$weights))
}

# newdata without missing values, under the name that the user knows.
finite_points <- function(object, points, arg) {
  points <- new_points(object, points, arg)
  check_finite(points, arg)
  points
}

# ---- from endpoints to modes ------------------------------------------------------------------

# list(u, of, curvature, width2, log_abs): the different points that `ends` are next to, the highest first, and which
# of them each end came to.
top_points <- function(field, ends) {
  first <- merge_ends(field, ends, 0.05)
  u <- polish(field, first$u)
  second <- merge_ends(field, u, 0.02)
  here <- curvature_at(field, second$u)
  d <- ncol(u)
  values <- lapply(seq_len(nrow(second$u)), \(i) {
    # of a start so far out that squares overflow
    if (!all(is.finite(here$hessian[i, ]))) return(rep(NaN, d))
    eigen(matrix(here$hessian[i, ], d), symmetric = TRUE, only.values = TRUE)$values
  })
  list(
    u = second$u, of = second$of[first$of], curvature = matrix(unlist(values), ncol = d, byrow = TRUE),
    width2 = here$width2, log_abs = second$log_abs
  )
}

# Ends within a part of a bandwidth of a higher one are the same; the highest first, of equal ones by coordinates.
merge_ends <- function(field, u, radius) {
  log_abs <- log_density_at(field, u)$log_abs
  width2 <- if (is.null(field$object$adaptive)) rep(1, nrow(u)) else curvature_at(field, u)$width2
  order <- do.call(order, c(list(-log_abs), lapply(seq_len(ncol(u)), \(k) u[, k])))
  of <- integer(nrow(u))
  tops <- integer()
  while (length(order) > 0) {
    top <- order[1]
    square <- colSums((t(u[order, , drop = FALSE]) - u[top, ])^2)
    same <- square <= radius^2 * width2[top]
    same[1] <- TRUE
    tops <- c(tops, top)
    of[order[same]] <- length(tops)
    order <- order[!same]
  }
  list(u = u[tops, , drop = FALSE], of = of, log_abs = log_abs[tops])
}

# A data frame of some of top_points(), with other columns beside.
mode_table <- function(field, known, ...) {
  table <- points_frame(field$object, from_field(field, known$u))
  estimate <- log_density_at(field, known$u)
  is_mode <- (known$curvature[, 1] < 0) %in% TRUE # NaN is none
  table <- cbind(table, density = signed_density(estimate), data.frame(...), mode = is_mode)
  table$curvature <- known$curvature
  stats::setNames(table, make.unique(names(table)))
}
