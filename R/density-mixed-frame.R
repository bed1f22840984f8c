# Data frames that have columns of levels beside numbers: factors, ordered factors, texts and logical values. A point
# is then a row of a double matrix, first the numbers, then the numbers of its levels; what these mean stands in
# `columns`, a list by name of list(kind, levels, type).

# Is there a column of levels?
has_levels <- function(x) is.list(x) && any(vapply(x, is_levels, NA))

is_levels <- function(column) {
  is.null(dim(column)) && (is.factor(column) || is.character(column) || is.logical(column))
}

# The matrix, with `columns` and `names`, those of the data frame in its order, as attributes.
mixed_points <- function(x, arg) {
  x <- as.list(x)
  of_levels <- vapply(x, is_levels, NA)
  if (!has_names(names(x))) stop_argument(arg, "must have names of its columns, all different")
  columns <- lapply(x[of_levels], mixed_column)
  structure(encode(x[!of_levels], x[of_levels], columns, arg), columns = columns, names_in_order = names(x))
}

is_mixed <- function(points) !is.null(attr(points, "columns"))

# What is known of a column before a kernel is chosen. Levels without rows count.
mixed_column <- function(column) {
  type <- if (is.factor(column)) "factor" else typeof(column)
  levels <- switch(type,
    factor = levels(column), logical = c("FALSE", "TRUE"), sort(unique(column), method = "radix")
  )
  list(kind = if (is.ordered(column)) "ordered" else "unordered", levels = levels, type = type)
}

encode <- function(numbers, levels, columns, arg) {
  codes <- Map(\(values, column, name) level_codes(values, column, name, arg), levels, columns, names(columns))
  # not by do.call(), which takes no name of more than 10,000 bytes
  codes <- matrix(unlist(codes), ncol = length(codes), dimnames = list(NULL, names(columns)))
  points <- cbind(if (length(numbers) > 0) as_points(list2DF(numbers), arg), codes)
  if (nrow(points) == 0) stop_argument(arg, "must have at least one row: found none")
  check_finite(points, arg, missing = TRUE)
  points
}

# Numbers of the levels, by their names; NA where the value is missing.
level_codes <- function(values, column, name, arg) {
  text <- as.character(values)
  codes <- match(text, column$levels)
  unknown <- unique(text[is.na(codes) & !is.na(text)])
  if (length(unknown) > 0) {
    stop_argument(
      arg, "must have levels that the fit knows: found ", quote_text(unknown[1]), " in column ", quote_names(name)
    )
  }
  as.double(codes)
}

# The points of `newdata`, as those of the fit.
new_mixed_points <- function(object, newdata, arg = "newdata") {
  columns <- object$discrete$columns
  values <- if (is.null(object$terms)) newdata else formula_columns(object, newdata, arg)
  if (!is.list(values)) {
    stop_argument(arg, "must be a data frame with the columns of the fit: found ", describe(newdata))
  }
  names <- object$discrete$names
  check_none_lacking(names(values), arg, names)
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

# The columns of a model frame, those of matrices one by one.
apart <- function(columns) {
  parts <- lapply(names(columns), function(name) {
    column <- columns[[name]]
    if (!is_number(column) || is.null(dim(column))) return(columns[name])
    numbers <- name_columns(unclass(column), name)
    stats::setNames(lapply(seq_len(ncol(numbers)), \(k) numbers[, k]), colnames(numbers))
  })
  do.call(c, parts)
}

formula_columns <- function(object, newdata, arg) apart(term_columns(newdata_frame(object, newdata, arg), object$terms))
