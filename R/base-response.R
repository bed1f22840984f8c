# Classes of a response: their numbers, their columns of -1 and 1, and how many rows each has.

# Is it a response of classes, whatever the loss?
is_classes <- function(y) {
  if (is_column(y)) !is.null(y$data$response_is$levels) else is.factor(y) || is.character(y) || is.logical(y)
}

# Numbers of classes, from the columns.
class_codes <- function(link) UseMethod("class_codes")

#' @export
class_codes.default <- function(link) {
  if (ncol(link) == 1) 1L + (link[, 1] > 0) else max.col(link, ties.method = "first")
}

# -1 and 1, of the numbers of classes.
class_columns <- function(code, classes) {
  if (length(classes) == 2) return(matrix(2 * (code == 2) - 1))
  columns <- matrix(-1, length(code), length(classes), dimnames = list(NULL, classes))
  columns[cbind(seq_along(code), code)] <- 1
  columns
}

# How many rows there are of each class, or their weights.
class_counts <- function(y, weights = NULL) UseMethod("class_counts")

#' @export
class_counts.default <- function(y, weights = NULL) {
  classes <- max(2, ncol(y))
  code <- class_codes(y)
  if (is.null(weights)) tabulate(code, classes) else as.vector(rowsum(weights, code))
}

check_response_rows <- function(found, n, arg) {
  if (!is.na(n) && found != n) {
    stop_argument(arg, "must have one value per row of `x`, ", whole(n), ": found ", whole(found))
  }
}
