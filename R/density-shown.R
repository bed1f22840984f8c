# The densities that plots and highest-density levels evaluate.

# Number of evaluations for one panel in one and two dimensions: the grid of the plot and the tiles of the levels.
PANEL_NODES <- c(3e3, 4e4)

# If a figure needs more kernel evaluations than this (about a second on one core with AVX-512), points close to each
# other are merged first.
MAX_FIGURE_PAIRS <- 2e9

# Figures with more kernel evaluations than this use the fast engine where it takes less time, with an error of
# FIGURE_TOL times the largest density, a thousandth of what is visible. Smaller figures use exact sums.
EXACT_FIGURE_PAIRS <- 1e8
FIGURE_TOL <- 1e-6

# What a figure shows: list(fit, density, control, panels). `fit`: the fit of the variables `dims` (NULL: all);
# `density`: that fit with merged points if there are very many; `control`: how to sum; `panels`: how many panels share
# the budget. `to_tol`: whether a large figure may use the fast engine.
shown_part <- function(object, dims = NULL, panels = 1, to_tol = FALSE) {
  whole <- is.null(dims) || length(dims) == object$d + length(object$discrete$columns)
  # the marginal of a clipped estimate is not clipped
  fit <- unclass(if (whole) object else marginal_of(signed_part(object), dims))
  pairs <- n_used(fit) * c(0, PANEL_NODES, 0)[min(fit$d, 3) + 1] * panels
  control <- if (to_tol && pairs > EXACT_FIGURE_PAIRS) figure_control(object) else fit_control(object)
  list(fit = fit, density = if (pairs > MAX_FIGURE_PAIRS) merged_points(fit) else fit, control = control, panels = panels)
}

# The larger of the tolerances of figures and of the fit is used.
figure_control <- function(object) {
  asked <- fit_asked(object)
  asked$tol <- max(asked$tol, FIGURE_TOL)
  run_control(asked)
}

# log_estimate() of a shown_part() at the rows of `at`.
log_shown <- function(part, at) {
  on.exit(close_progress(part$control))
  log_estimate(part$density, at, FALSE, part$control)
}

#' @export
seen_density.supported <- function(object, at, least, control) signed_density(log_estimate(object, at, FALSE, control))

# Uses sums without logarithms, because the logarithms of tails take most of the time.
#' @export
seen_density.default <- function(object, at, least, control) {
  whole <- \() signed_density(log_estimate(object, at, FALSE, control))
  plain <- !is_signed(object) && !is_balloon(object) && has_gaussian(object)
  if (!plain || control$tol_type != "global") return(whole())
  sources <- fit_sources(object)
  sums <- plain_log_sum(sources, from_centre(object, at), control)
  density <- exp(sums$log_abs + log_kernel_norm(sources$L) - log(total_weight(object)))
  if (control$tol * max(density) > 0.01 * least) whole() else density
}

# Replaces the points of every cell, a third of a bandwidth wide (in coordinates where H is the identity), by their
# weighted mean. Isolated points and ties are not changed. Elsewhere the kernel loses the variance within a cell, less
# than 1% of its own, and the density changes by less than 1e-3 of its maximum, which is not visible.
#' @export
merged_points.default <- function(object) {
  if (is_balloon(object) || !has_gaussian(object)) return(object)
  used <- used_rows(object)
  points <- fit_points(object)[used, , drop = FALSE]
  w <- if (is.null(object$weights)) rep(1, nrow(points)) else object$weights[used]
  factors <- object$adaptive$factors[used]
  u <- whiten(points, fit_factor(object))
  group <- if (is.null(factors)) cell_group(floor(3 * u)) else {
    # points with equal local factors, in cells of their bandwidth
    cell_group(cbind(cell_group(floor(3 * u / factors)), factors))
  }
  sums <- rowsum(cbind(w, w * points), group, reorder = FALSE)
  object <- take_points(object, which(used)[!duplicated(group)])
  points <- unname(sums[, -1, drop = FALSE] / sums[, 1])
  object$x <- points
  if (is_debiased(object)) object$debiased <- points
  if (!is.null(object$centred)) object$centred$points <- points
  object$weights <- unname(sums[, 1])
  object$plan <- new_plan()
  object
}

#' @export
merged_points.supported <- function(object) {
  object$inner <- merged_points(object$inner)
  object
}

# One number per distinct row of a matrix of whole numbers with one or two columns. Columns are
# coded first: a far outlier gives cell numbers whose products a double could not hold.
cell_group <- function(cell) {
  code <- match(cell[, 1], unique(cell[, 1]))
  if (ncol(cell) == 2) {
    values <- unique(cell[, 2])
    code <- (code - 1) * length(values) + match(cell[, 2], values)
  }
  code
}

# Row indices of at most `most` points, evenly spread over the rows so that R's random numbers stay
# out of it; points without weight are not part of the estimate and not shown.
thinned_rows <- function(fit, most) {
  rows <- which(used_rows(fit))
  if (length(rows) <= most) rows else rows[round(seq(1, length(rows), length.out = most))]
}

# Names for the axes. A vector has no column name; then `x` or `data$x`, as the user wrote it, says most.
variable_names <- function(fit) {
  if (fit$d == 1 && is.null(fit$names)) name_of(fit$call$x, point_names(fit)) else point_names(fit)
}

# The name of a variable that is written as a name, or as an element of something.
name_of <- function(written, other = "x") if (is.name(written) || is_element(written)) deparse(written)[1] else other

is_element <- function(written) {
  is.call(written) && is.name(written[[1]]) && as.character(written[[1]]) %in% c("$", "[[", "[")
}
