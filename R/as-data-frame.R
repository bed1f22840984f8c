#' A density estimate as a data frame
#'
#' The training points, factors and texts as they were, with the density and the log density of the estimate at each.
#'
#' @param x A fit from [flash_kde()].
#' @param row.names `NULL`, or names of the `n` rows, all different.
#' @param optional Has no effect.
#' @param ... Not used; anything here is an error.
#' @returns A data frame of `n` rows: the columns of the points (`x1`, `x2`, ... where they have
#'   no names; `x` in one dimension), `density` and `log_density` (`NaN` where the
#'   Laplace-corrected estimate is negative, with a warning). Where a column of the points has one
#'   of these two names, the estimate's is `density.1` or `log_density.1`. Cost: \eqn{O(n^2 d)}.
#' @export
#' @examples
#' head(as.data.frame(flash_kde(faithful)))
as.data.frame.flash_kde <- function(x, row.names = NULL, optional = FALSE, ...) {
  check_dots_empty(...)
  check_in_memory(x, "x")
  check_row_names(row.names, x$n)
  control <- start_run(fit_asked(x), "Predicting")
  check_memory(8 * (x$n * (6 + x$d) + length(x$x)), "x")
  estimate <- log_estimate(x, NULL, FALSE, control)
  result <- cbind(points_frame(x, own_places(x)), density = signed_density(estimate), log_density = signed_log(estimate))
  names(result) <- make.unique(names(result))
  if (!is.null(row.names)) row.names(result) <- row.names
  result
}

# As data frames have them.
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
