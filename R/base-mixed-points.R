# Points with columns of levels (factors, texts, logical values) beside numbers, as one matrix of numbers.

is_levels <- function(column) {
  is.null(dim(column)) && (is.factor(column) || is.character(column) || is.logical(column))
}

# Is there a column of levels?
has_levels <- function(x) is.list(x) && any(vapply(x, is_levels, NA))

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
  levels <- switch(type, factor = levels(column), logical = c("FALSE", "TRUE"), sort(unique(column), method = "radix"))
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
  if (length(unknown) == 0) return(as.double(codes))
  found <- paste(quote_text(unknown[1]), "in column", quote_names(name))
  stop_argument(arg, "must have levels that the fit knows: found ", found)
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
