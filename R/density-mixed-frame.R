# Data frames that have columns of levels beside numbers: factors, ordered factors, texts and logical values. A point
# is then a row of a double matrix, first the numbers, then the numbers of its levels; what these mean stands in
# `columns`, a list by name of list(kind, levels, type).

#' @export
new_points.mixed <- function(object, newdata, arg = "newdata") {
  columns <- object$discrete$columns
  values <- newdata
  if (!is.null(object$terms)) values <- apart(term_columns(newdata_frame(object, newdata, arg), object$terms))
  if (is_levels(values) && length(object$discrete$names) == 1) values <- stats::setNames(list(values), names(columns))
  if (!is.list(values)) {
    stop_argument(arg, "must be a data frame with the columns of the fit: found ", describe(newdata))
  }
  names <- object$discrete$names
  check_columns_of(names(values), arg, names)
  values <- dates_as_numbers(values, object$dates, arg)
  encode(as.list(values)[setdiff(names, names(columns))], as.list(values)[names(columns)], columns, arg)
}

# A data frame of such rows again, its columns in their order and of their types.
decode <- function(points, discrete, names = discrete$names) {
  columns <- discrete$columns
  frame <- lapply(names, function(name) {
    column <- columns[[name]]
    values <- points[, name]
    if (is.null(column)) return(values)
    switch(column$type,
      factor = factor(column$levels[values], column$levels, ordered = column$kind == "ordered"),
      logical = values == 2,
      column$levels[values]
    )
  })
  as.data.frame(stats::setNames(frame, names), optional = TRUE, stringsAsFactors = FALSE)
}

# The points of a fit in that form, relative to the origin.
own_places <- function(object) {
  if (is.null(object$discrete)) object$x else cbind(object$x, object$discrete$codes)
}

# The own_places() of some rows, with the attributes by which a fit knows its categorical columns.
places_of_rows <- function(object, rows) {
  points <- own_places(object)[rows, , drop = FALSE]
  if (!is.null(object$discrete)) attributes(points)[c("columns", "names_in_order")] <- object$discrete[c("columns", "names")]
  points
}

# A fit with `discrete` as a density of its kind.
as_mixed <- function(object) {
  object$kind <- as_kind("mixed")
  structure(object, class = c("flash_kde_mixed", "flash_kde"))
}

# The names of all columns, in the order of the data.
all_names <- function(object) if (is_kind(object, "mixed")) object$discrete$names else point_names(object)
