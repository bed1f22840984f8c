#' Ridges of a density estimate
#'
#' `kde_ridges()` finds curves (or surfaces) along which the density is a maximum in all directions across: filaments of
#' a point cloud, faults of earthquakes. It corresponds to `ks::kdr()`.
#'
#' @details A point is on a ridge of dimension r if the gradient of the log density is orthogonal to the eigenvectors
#'   of the d - r smallest eigenvalues of its Hessian, and these eigenvalues are negative (Ozertem and Erdogmus 2011).
#'   This is computed in coordinates in which H is the identity, so units do not matter. Starting points climb in the
#'   span of these eigenvectors, by Newton steps of at most half a bandwidth. Low ridges between few points mean
#'   little: `trim` drops such starts, and the column `density` of the result identifies such ridges.
#'
#' **Cost**: at most \eqn{O(n d^2)}{O(n d^2)} for each start and step, on the CPU, exactly. Paths have tens of steps.
#'
#' @param object A fit from [flash_kde()] in two dimensions or more, not a balloon estimate.
#' @param dimension Dimension of the ridge, from 1 (default) to d - 1.
#' @param start Starting points, as `newdata` of [`predict()`][predict.flash_kde]. `NULL` (default): one point of each
#'   occupied cell, half a bandwidth wide, except for `trim`; at most the 2,000 of highest density.
#' @param trim Share of the points, those of lowest density, whose cells have no start. Default: 0.05.
#' @param control A [flash_control()]. Options that it does not set are those of the fit.
#' @returns A data frame with a row for each start that reached a ridge, in the order of the starts (and by categories): the
#'   columns of the points, and `density`.
#' @references Ozertem, U. and Erdogmus, D. (2011) Locally defined principal curves and surfaces. *Journal of
#'   Machine Learning Research* 12, 1249-1286.
#'
#' Genovese, C. R., Perone-Pacifico, M., Verdinelli, I. and Wasserman, L. (2014) Nonparametric ridge estimation.
#' *The Annals of Statistics* 42, 1511-1545.
#' @seealso [kde_derivative()], [kde_modes()]
#' @rawRd \concept{filaments}\concept{density ridge}
#' @export
#' @examples
#' set.seed(1)
#' angle <- runif(400, 0, 2 * pi)
#' circle <- cbind(x = cos(angle), y = sin(angle)) + rnorm(800, sd = 0.1)
#' ridge <- kde_ridges(flash_kde(circle, "kde", adaptive = FALSE))
#' plot(circle, col = "grey", asp = 1)
#' points(ridge[c("x", "y")], pch = 16, cex = 0.5)
kde_ridges <- function(object, dimension = 1, start = NULL, trim = 0.05, control = NULL) {
  check_fit(object)
  if (object$d < 2) stop_argument("object", "must be a fit in two dimensions or more: found ", object$d)
  check_smooth(object, "modes")
  dimension <- check_count(dimension, "dimension", max = object$d - 1)
  trim <- check_prob(trim, "trim")
  if (length(trim) != 1 || trim == 1) {
    stop_argument("trim", "must be one number from 0 to below 1: found ", describe(trim))
  }
  at <- if (is.null(start)) own_places(object) else finite_points(object, start, "start")
  tables <- lapply(density_cells(object, at), \(cell) {
    field <- shape_field(cell$fit, control, "Finding ridges")
    from <- if (is.null(start)) dense_starts(field, trim) else at[cell$rows, seq_len(object$d), drop = FALSE]
    u <- climb_ridge(field, to_field(field, from), dimension)
    table <- points_frame(cell$fit, from_field(field, u))
    density <- if (nrow(u) > 0) signed_density(log_density_at(field, u)) else numeric()
    in_cell(object, cell, cbind(table, density = density))
  })
  table <- do.call(rbind, tables)
  stats::setNames(table, make.unique(names(table)))
}

MOST_RIDGE_STARTS <- 2000

dense_starts <- function(field, trim) {
  object <- field$fit
  from <- thinned_starts(field, object$x, object$weights, 1 / 2)
  points <- object$x[from$rows, , drop = FALSE]
  estimate <- log_estimate(object, points, FALSE, field$control)
  high <- order(signed_density(estimate), estimate$log_abs, decreasing = TRUE)
  held <- cumsum(from$weights[high]) - from$weights[high]
  points[utils::head(high[held < (1 - trim) * sum(from$weights)], MOST_RIDGE_STARTS), , drop = FALSE]
}

# Moves rows of u to a ridge, and returns those that arrive.
climb_ridge <- function(field, u, dimension, tolerance = 1e-6) {
  open <- seq_len(nrow(u))
  arrived <- logical(nrow(u))
  log_scale <- NULL
  for (step in seq_len(MOST_CLIMBING / 5)) {
    if (length(open) == 0) break
    here <- curvature_at(field, u[open, , drop = FALSE], log_scale)
    across <- steps_across(here, dimension)
    done <- across$slope * sqrt(here$width2) <= tolerance
    arrived[open[which(done)]] <- across$falls[which(done)] & here$mass[which(done)] > 0
    u[open, ] <- u[open, , drop = FALSE] + across$move
    open <- open[which(!done)]
    log_scale <- here$log_scale[which(!done)]
  }
  u[arrived, , drop = FALSE]
}

# For each row: the step in the span of the eigenvectors across the ridge, the length of the gradient in that span, and
# whether the density falls across. The length is NaN so far out that squares overflow.
steps_across <- function(here, dimension) {
  d <- ncol(here$score)
  across <- seq(dimension + 1, d)
  move <- here$score
  slope <- numeric(nrow(move))
  falls <- logical(nrow(move))
  for (i in seq_len(nrow(move))) {
    if (!all(is.finite(here$hessian[i, ]))) {
      slope[i] <- NaN
      next
    }
    eigen <- eigen(matrix(here$hessian[i, ], d), symmetric = TRUE)
    values <- eigen$values[across]
    vectors <- eigen$vectors[, across, drop = FALSE]
    along <- drop(here$score[i, ] %*% vectors)
    slope[i] <- sqrt(sum(along^2))
    falls[i] <- all(values < 0)
    move[i, ] <- vectors %*% (along * ifelse(values < 0, -1 / values, here$width2[i]))
  }
  list(move = shortened(move, here$width2), slope = slope, falls = falls)
}
