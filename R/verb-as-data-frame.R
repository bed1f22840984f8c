# Fits, and grids of their densities, as data frames.

#' @rdname as_density
#' @export
as.data.frame.flash_kde <- function(x, row.names = NULL, optional = FALSE, ..., grid = NULL) {
  check_dots_empty(...)
  check_in_memory(x, "x")
  size <- if (!is.null(grid)) check_grid_frame(grid, x$d, "grid")
  check_row_names(row.names, if (is.null(size)) x$n else size^x$d * count_cells(x))
  result <- if (!is.null(size)) frame_on_grid(x, size) else {
    control <- start_run(fit_asked(x), "Predicting")
    check_memory(8 * (x$n * (6 + x$d) + length(x$x)), "x")
    frame_of(points_frame(x, own_places(x)), log_estimate(x, NULL, FALSE, control))
  }
  if (!is.null(row.names)) row.names(result) <- row.names
  result
}

frame_of <- function(points, estimate) {
  result <- cbind(points, density = signed_density(estimate), log_density = signed_log(estimate))
  stats::setNames(result, make.unique(names(result)))
}

frame_on_grid <- function(object, size) {
  grid <- estimate_on_grid(object, size)
  frame_of(points_frame(object, grid$at), grid$estimate)
}

# The number of combinations of categories.
count_cells <- function(object) prod(lengths(lapply(object$discrete$columns, `[[`, "levels")))

# list(axes, at, estimate): `size` even nodes of each variable, the grid of them and of all categories as rows, and
# log_estimate() at the rows.
estimate_on_grid <- function(object, size, axes = NULL) {
  check_in_memory(object, "x")
  control <- start_run(fit_asked(object), "Predicting")
  check_memory(8 * (size^object$d * count_cells(object) * (6 + 2 * object$d) + length(object$x)), "grid")
  if (is.null(axes)) axes <- grid_axes(object, size)
  at <- grid_rows(object, axes)
  list(axes = axes, at = at, estimate = log_estimate(object, at, FALSE, control))
}

# The nodes of a grid for all categories, as rows.
grid_rows <- function(object, axes) {
  codes <- lapply(object$discrete$columns, \(column) as.double(seq_along(column$levels)))
  at <- as.matrix(expand.grid(c(axes, codes)))
  dimnames(at) <- list(NULL, c(if (object$d > 0) point_names(object), names(codes)))
  at
}

# `size` even nodes of each variable.
grid_axes <- function(object, size) {
  lapply(seq_len(object$d), \(axis) {
    lim <- shown_range(object, axis, GRID_MARGIN)
    seq(lim[1], lim[2], length.out = size)
  })
}

# Row names, checked as data.frame() checks them.
check_row_names <- function(row.names, n) {
  if (is.null(row.names)) return(invisible())
  whole_numbers <- is_number(row.names) && !is.object(row.names) && all(row.names == round(row.names), na.rm = TRUE)
  if (!is.character(row.names) && !whole_numbers) {
    stop_argument("row.names", "must be NULL or names, one per row: found ", describe(row.names))
  }
  if (length(row.names) != n) {
    stop_argument("row.names", "must have one name per row, ", n, ": found ", length(row.names))
  }
  if (anyNA(row.names)) stop_argument("row.names", "must not be missing: found NA")
  if (anyDuplicated(row.names)) {
    twice <- row.names[anyDuplicated(row.names)]
    stop_argument("row.names", "must all be different: found ", describe(twice), " twice")
  }
}

# Number of nodes along each axis, or the default for d variables.
check_grid_frame <- function(size, d, arg) {
  if (d > 3) {
    why <- paste0("a grid of ", d, " variables is too large: use up to three of them, as in kde_marginal(fit, 1:2)")
    stop(new_error("unsupported", why, user_call()))
  }
  if (is.null(size)) c(512L, 101L, 31L)[d] else check_count(size, arg, min = 2)
}
