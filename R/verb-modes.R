#' Modes of a density estimate, and clusters by mode
#'
#' `kde_modes()` finds the local maxima of an estimate. `mean_shift()` assigns each point to the mode at the end of its
#' path uphill (modal clustering, like `ks::kms()`). Both work in any number of dimensions, and modes are exact.
#'
#' @details
#' Points move up the gradient of the log density, in coordinates in which H is the identity; there the mean shift of
#' Fukunaga and Hostetler (1975) is that gradient. Step lengths are those of Barzilai and Borwein (1988), at least a
#' mean shift and at most half a bandwidth (or a mean shift, if that is longer), so paths have tens of steps instead of
#' hundreds. Newton's method refines the end. While many points move at once, sums have a relative error of a millionth,
#' or the tolerance of the fit, unless the `engine` of the fit is `"exact"`.
#'
#' `kde_modes()` starts from one point of each occupied cell, one bandwidth wide, or from `start`. It misses a mode that
#' no start leads to. `mean_shift()` first finds these modes. Then each point moves until it is so near a mode that the
#' density falls outwards in all directions tried, or until it reaches a new mode, which is added. Results do not depend
#' on the order of the points or the number of threads.
#'
#' A bandwidth that is good for the density leaves small modes of a few points. A larger one, such as
#' `update(fit, bandwidth = 2 * coef(fit))`, gives fewer clusters.
#'
#' Where a Laplace-corrected estimate is negative, points follow the plain estimate. With categorical columns there are modes and
#' clusters of the numbers in each combination of categories that occurs.
#'
#' On a `support` ([kde_support()]) the modes are those of the density in the units of the data; a maximum at a bound is a mode,
#' too. On a polygon that is not convex, a path may lead out; its point belongs to no cluster (`NA`).
#'
#' **Cost**: each step takes one pass over the training points for each point that still moves. In up to three
#' dimensions and without adaptive bandwidths, the time is linear in the number of points.
#'
#' @param object A fit from [flash_kde()]. For `predict()` and the other methods a result of `mean_shift()`.
#' @param start `NULL` (default), or starting points, as `newdata` of [`predict()`][predict.flash_kde].
#' @param newdata Points to assign to clusters. `NULL` (default): the training points. `predict()` requires points.
#' @param control A [flash_control()]. Options that it does not set are those of the fit.
#' @param x A result of `mean_shift()`.
#' @param digits Number of significant digits.
#' @param dims Numbers of the columns to plot.
#' @param ... For `plot()`, passed to [graphics::pairs()], or to [graphics::plot()] of one or two columns. Otherwise not
#'   used.
#'
#' @returns `kde_modes()`: a data frame with a row for each mode, the highest first:
#'   * the columns of the points, and `density`;
#'   * `share`: the weight of the points in the cells whose starts lead to this mode, as a share (with `start`, the
#'     share of the starts);
#'   * `mode`: `FALSE` for another point where the gradient vanishes, such as a saddle;
#'   * `curvature.1` and so on: eigenvalues of the Hessian of the log density, in coordinates in which
#'     H is the identity: -1 for a single kernel, near 0 for a flat top.
#'
#'   `mean_shift()`: a list of class `flash_clusters` with
#'   * `cluster`: the number of the cluster of each training point or row of `newdata` (`NA` with missing values). The
#'     cluster with the most points is number 1;
#'   * `modes`: a data frame like that of `kde_modes()`, in the order of the clusters, with `points`, the number of
#'     points in the cluster, and `share`, their share of the weight;
#'   * `fit`.
#'
#'   `predict()`: the cluster of each point, `NA` for a point whose path leads to none of the modes.
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
#' @rawRd \concept{clustering}\concept{mean shift}\concept{number of modes}
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
  at <- if (is.null(start)) own_places(object) else finite_points(object, start, "start")
  found <- lapply(density_cells(object, at), \(cell) {
    field <- shape_field(cell$fit, control, "Finding modes")
    if (is.null(start)) {
      from <- thinned_starts(field, cell$fit$x, cell$fit$weights, 1)
      u <- to_field(field, cell$fit$x[from$rows, , drop = FALSE])
    } else {
      u <- to_field(field, at[cell$rows, seq_len(object$d), drop = FALSE])
      from <- list(weights = rep(1, nrow(u)))
    }
    known <- top_points(field, climb(field, u)$u)
    share <- weight_by(from$weights, known$of, nrow(known$u))
    of_cell <- if (is.null(start)) sum(kernel_weights(object)[cell$rows]) / total_weight(object) else nrow(u) / nrow(at)
    in_cell(object, cell, mode_table(field, known, share = of_cell * share / sum(from$weights)))
  })
  table <- do.call(rbind, found)
  if (length(found) > 1) table <- table[order(-table[[length(all_names(object)) + 1]]), ]
  structure(table, row.names = seq_len(nrow(table)), class = c("kde_modes", "data.frame"))
}

#' @export
print.kde_modes <- function(x, ...) print_some(x, if (nrow(x) > 20) 1:10 else seq_len(nrow(x)), ...)

# Prints some rows of a data frame, and how many others there are. Returns x, invisibly.
print_some <- function(x, rows, ...) {
  print(as.data.frame(x)[rows, , drop = FALSE], ...)
  if (length(rows) < nrow(x)) cat("... and ", whole(nrow(x) - length(rows)), " more rows: see as.data.frame()\n", sep = "")
  invisible(x)
}

# The weights that each of `count` numbers in `of` has in sum; NA has none.
weight_by <- function(weights, of, count) {
  known <- which(!is.na(of))
  unname(rowsum(c(weights[known], numeric(count)), c(of[known], seq_len(count)))[, 1])
}

# ---- combinations of categories -----------------------------------------------------------------

# The densities of the numbers that the rows of `at`, as own_places(), lie on: for each combination of categories
# list(fit, rows, codes, share), `fit` the conditional density there and `share` the probability of the combination. Fits
# without categories have one, the fit.
density_cells <- function(object, at) {
  if (!is_kind(object, "mixed")) return(list(list(fit = object, rows = seq_len(nrow(at)), share = 1)))
  cells <- cells_of(at[, -seq_len(object$d), drop = FALSE])
  columns <- names(object$discrete$columns)
  lapply(seq_along(cells$rows), \(i) {
    codes <- stats::setNames(cells$codes[i, ], columns)
    fit <- conditional_where(object, list(dims = integer(), values = NULL, codes = codes), NULL)
    share <- sum(kernel_weights(object) * shares_of_given(object$discrete, codes)) / total_weight(object)
    list(fit = fit, rows = cells$rows[[i]], codes = codes, share = share)
  })
}

# A table of places, a density and more in a cell, with the categories.
in_cell <- function(object, cell, table) {
  if (is.null(cell$codes)) return(table)
  numbers <- as.matrix(table[seq_len(object$d)])
  codes <- matrix(cell$codes, nrow(table), length(cell$codes), byrow = TRUE, dimnames = list(NULL, names(cell$codes)))
  rest <- table[-seq_len(object$d)]
  rest[[1]] <- rest[[1]] * cell$share
  table <- cbind(points_frame(object, cbind(`colnames<-`(numbers, point_names(object)), codes)), rest)
  stats::setNames(table, make.unique(names(table)))
}

# The finite rows of newdata. `arg`: the name of the user's argument.
finite_points <- function(object, points, arg) {
  points <- new_points(object, points, arg)
  if (nrow(points) == 0) stop_argument(arg, "must have at least one row: found none")
  check_finite(points, arg)
  points
}

# ---- from endpoints to modes ------------------------------------------------------------------

# list(u, of, curvature, width2, log_abs): the distinct stationary points next to `ends`, the highest first. `of`: which
# of them each end belongs to.
top_points <- function(field, ends) {
  first <- merge_ends(field, ends, 0.05)
  u <- polish(field, first$u)
  second <- merge_ends(field, u, 0.02)
  here <- curvature_at(field, second$u)
  d <- ncol(u)
  values <- lapply(seq_len(nrow(second$u)), \(i) {
    # squares overflow for a start that is very far out
    if (!all(is.finite(here$hessian[i, ]))) return(rep(NaN, d))
    eigen(matrix(here$hessian[i, ], d), symmetric = TRUE, only.values = TRUE)$values
  })
  known <- list(
    u = second$u, of = second$of[first$of], curvature = matrix(unlist(values), ncol = d, byrow = TRUE),
    width2 = rep_len(here$width2, nrow(second$u)), log_abs = second$log_abs
  )
  # starts without weight may lie beyond all kernels of bounded support
  some_tops(known, which(in_field(field, known$u) & (has_gaussian(field$object) | known$log_abs > -Inf)))
}

# Some of top_points(); `of` is NA for the others.
some_tops <- function(known, rows) {
  if (length(rows) == nrow(known$u)) return(known)
  of <- match(known$of, rows)
  replace(lapply(known, keep_rows, rows), "of", list(of))
}

# Merges ends within a part of a bandwidth of a higher one. The highest is first; ties are ordered by coordinates.
merge_ends <- function(field, u, radius) {
  log_abs <- log_density_at(field, u)$log_abs
  width2 <- if (is.null(field$object$adaptive)) rep(1, nrow(u)) else curvature_at(field, u)$width2
  order <- do.call(order, c(list(-log_abs), lapply(seq_len(ncol(u)), \(k) u[, k])))
  of <- integer(nrow(u))
  tops <- integer()
  while (length(order) > 0) {
    top <- order[1]
    square <- field_squares(field, u[order, , drop = FALSE], u[top, ])
    same <- square <= radius^2 * width2[top]
    same[1] <- TRUE
    tops <- c(tops, top)
    of[order[same]] <- length(tops)
    order <- order[!same]
  }
  list(u = u[tops, , drop = FALSE], of = of, log_abs = log_abs[tops])
}

# A data frame of some of top_points(), with the further columns `...`.
mode_table <- function(field, known, ...) {
  table <- points_frame(field$fit, from_field(field, known$u))
  estimate <- log_density_at(field, known$u)
  is_mode <- (known$curvature[, 1] < 0) %in% TRUE # NaN is none
  table <- cbind(table, density = signed_density(estimate), data.frame(...), mode = is_mode, curvature = known$curvature)
  stats::setNames(table, make.unique(names(table)))
}
