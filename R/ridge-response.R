# Conversion of the response of a kernel regression to numbers.

# list(y, classes, outputs, binary): y is an n x t matrix of doubles. Classes become columns of -1 and 1: one column for
# two classes, which is 1 for the second, otherwise one column for each class. If `family` is of classes, so are two
# distinct numbers. Element `binary`: are the classes numbers or logical values?
check_response <- function(y, n, arg = "y", family = FAMILIES$gaussian) {
  response <- read_response(y, n, arg, family$of_classes)
  family$check(response, arg)
  spread_levels(c(response, list(family = family)), family)
}

read_response <- function(y, n, arg, binary) {
  if (is_column(y)) return(check_response_column(y, binary))
  coded <- is.logical(y) || is_number(y)
  if (is.character(y) || is.logical(y)) y <- factor(y)
  if (!is.factor(y) && binary) y <- two_classes(y, arg)
  if (is.factor(y)) return(c(class_response(y, n, arg), binary = coded))
  if (is.data.frame(y)) {
    check_numeric_columns(y, arg)
    y <- as.matrix(y)
  }
  if (!is_number(y)) stop_argument(arg, "must be numeric, or a factor: found ", describe(y), number_hint(y))
  if (length(dim(y)) == 1) y <- as.vector(y)
  if (length(dim(y)) > 2) stop_argument(arg, "must be a vector or a matrix: found ", length(dim(y)), " dimensions")
  check_response_rows(NROW(y), n, arg)
  if (NCOL(y) == 0) stop_argument(arg, "must have at least one column: found none")
  names <- colnames(y)
  if (!is.null(names)) names <- ifelse(nzchar(names), names, paste0("y", seq_along(names)))
  named <- if (!is.null(names)) list(dimnames = list(NULL, names))
  # a large matrix is not copied
  as_it_is <- is.double(y) && is.matrix(y) && identical(attributes(y), c(list(dim = dim(y)), named))
  numbers <- if (as_it_is) y else matrix(as.double(y), NROW(y), NCOL(y), dimnames = named$dimnames)
  check_finite(numbers, arg)
  list(y = numbers, classes = NULL, outputs = names, binary = FALSE)
}

two_classes <- function(y, arg) {
  if (!is_number(y) || NCOL(y) != 1) stop_two_classes(arg, describe(y), if (NCOL(y) == 2) COUNTS_HINT)
  check_finite(y, arg)
  values <- sort(unique(as.vector(y)))
  if (length(values) > 2) stop_two_classes(arg, length(values), " values")
  factor(as.vector(y), levels = values)
}

COUNTS_HINT <- " (of two counts, give each row twice, with TRUE and with FALSE as response, and both counts as `weights`)"

stop_two_classes <- function(arg, ...) {
  stop_argument(arg, "must be a factor, or have two different values, for logistic loss: found ", ...)
}

class_response <- function(y, n, arg) {
  check_response_rows(length(y), n, arg)
  if (anyNA(y)) stop_argument(arg, "must not have missing classes: found NA at position ", which(is.na(y))[1])
  classes <- levels(y)
  if (n >= FEWEST_NAMES && length(classes) == n) {
    stop_argument(arg, "must have classes of several rows: found another in each row")
  }
  check_no_lacking(tabulate(y, length(classes)), classes, arg)
  list(y = class_columns(as.integer(y), classes), classes = classes, outputs = if (length(classes) > 2) classes)
}

check_no_lacking <- function(counts, classes, arg) {
  lacking <- classes[counts == 0]
  if (length(classes) - length(lacking) < 2) {
    stop_argument(arg, "must have rows of at least two classes: found ", length(classes) - length(lacking))
  }
  if (length(lacking) > 0) {
    stop_argument(arg, "must have rows of every class: found none of ", quote_names(lacking), ". Use droplevels().")
  }
}

# Removes rows from the held-out `index` so that every class keeps rows for the fit.
spare_classes <- function(index, y, classes, weights = NULL) {
  if (is.null(classes)) return(index)
  code <- class_codes(y)
  used <- if (is.null(weights)) seq_along(code) else which(weights > 0)
  lost <- setdiff(code[used], code[setdiff(used, index)])
  index[!code[index] %in% lost]
}

# The response of other rows, such as a validation set, in the form of the response of the fit.
response_like <- function(y, n, response, arg) {
  classes <- response$classes
  outputs <- response$outputs
  if (is_column(y)) return(response_column_like(y, classes, max(1, length(outputs)), arg))
  if (!is.null(classes)) {
    y <- factor(as.character(if (is.matrix(y)) y[, 1] else y), levels = classes)
    check_response_rows(length(y), n, arg)
    if (anyNA(y)) stop_argument(arg, "must have the classes of the fit: found another at position ", which(is.na(y))[1])
    return(class_columns(as.integer(y), classes))
  }
  made <- check_response(y, n, arg, response$family)$y
  if (length(outputs) > 0 && ncol(made) != length(outputs)) {
    stop_argument(arg, "must have ", length(outputs), " columns: found ", ncol(made))
  }
  made
}

# Offsets as n x t, or NULL. One column is used for all outputs.
check_offset <- function(offset, n, t, arg = "offset") {
  if (is.null(offset) || is_column(offset)) return(offset)
  if (!is_number(offset)) stop_argument(arg, "must be numeric: found ", describe(offset))
  if (NROW(offset) != n || !NCOL(offset) %in% c(1, t)) {
    stop_argument(arg, "must have one value per row, ", whole(n), ": found ", describe(offset))
  }
  check_finite(as.double(offset), arg)
  matrix(as.double(offset), n, t)
}
