# Points with categorical columns (factor, character, logical) and numbers, coded as one matrix of numbers.

is_levels <- function(column) {
  is.null(dim(column)) && (is.factor(column) || is.character(column) || is.logical(column))
}

# Does a data frame have a categorical column?
has_levels <- function(x) is.list(x) && any(vapply(x, is_levels, NA))

# Points whose infinite values are still to be looked for: coded if they have categorical columns.
any_points <- function(x, arg) {
  if (is_mixed(x)) return(x)
  if (has_levels(x)) mixed_points(x, arg) else check_points(x, arg, infinite = TRUE)
}

# The coded matrix. Attributes: `columns`, descriptions of the categorical columns, and `names_in_order`, the names of
# all columns in the order of the data frame.
mixed_points <- function(x, arg) {
  x <- as.list(x)
  of_levels <- vapply(x, is_levels, NA)
  if (length(x[[1]]) == 0) stop_argument(arg, "must have at least one row: found none")
  if (!has_names(names(x))) stop_argument(arg, "must have different names for all columns")
  columns <- Map(\(column, name) check_not_identifier(column, name, arg), x[of_levels], names(x)[of_levels])
  columns <- lapply(columns, mixed_column)
  structure(encode(x[!of_levels], x[of_levels], columns, arg), columns = columns, names_in_order = names(x))
}

# Returns a categorical column. An error if each of many rows has its own category, as names of rows have.
check_not_identifier <- function(column, name, arg) {
  is_text <- is.character(column) || is.factor(column) && !is.ordered(column)
  if (is_text && length(column) >= FEWEST_NAMES && !anyDuplicated(column)) {
    found <- paste("column", quote_names(name), "has another text in each row")
    stop_argument(arg, "must have categories of several rows: ", found, " (leave it out)")
  }
  column
}

FEWEST_NAMES <- 20

is_mixed <- function(points) !is.null(attr(points, "columns"))

# Describes a categorical column: list(kind, levels, type). Factor levels without rows are included.
mixed_column <- function(column) {
  type <- if (is.factor(column)) "factor" else typeof(column)
  levels <- switch(type, factor = levels(column), logical = c("FALSE", "TRUE"), sort(unique(column), method = "radix"))
  list(kind = if (is.ordered(column)) "ordered" else "unordered", levels = levels, type = type)
}

encode <- function(numbers, levels, columns, arg) {
  codes <- Map(\(values, column, name) level_codes(values, column, name, arg), levels, columns, names(columns))
  # do.call() would fail for names of more than 10,000 bytes
  codes <- matrix(unlist(codes), ncol = length(codes), dimnames = list(NULL, names(columns)))
  points <- cbind(if (length(numbers) > 0) as_points(list2DF(numbers), arg), codes)
  check_finite(points, arg, missing = TRUE)
  points
}

# Codes of the values, positions in column$levels; NA for missing values.
level_codes <- function(values, column, name, arg) {
  text <- as.character(values)
  codes <- match(text, column$levels)
  unknown <- unique(text[is.na(codes) & !is.na(text)])
  if (length(unknown) == 0) return(as.double(codes))
  found <- paste(quote_text(unknown[1]), "in column", quote_names(name))
  stop_argument(arg, "must have only categories of the fit: found ", found)
}

# The columns of a model frame as a list of vectors; matrices are split into their columns.
apart <- function(columns) {
  parts <- lapply(names(columns), function(name) {
    column <- columns[[name]]
    if (!is_number(column) || is.null(dim(column))) return(columns[name])
    numbers <- name_columns(unclass(column), name)
    stats::setNames(lapply(seq_len(ncol(numbers)), \(k) numbers[, k]), colnames(numbers))
  })
  do.call(c, parts)
}
