# Responses that are classes: codes, columns of -1 and 1, and counts.

# TRUE for a response of classes: factor, character or logical.
is_classes <- function(y) {
  if (is_column(y)) !is.null(y$data$response_is$levels) else is.factor(y) || is.character(y) || is.logical(y)
}

# Codes of the classes (1, 2, ...) with the largest of the columns `link`. One column: 2 if positive, else 1.
class_codes <- function(link) UseMethod("class_codes")

#' @export
class_codes.default <- function(link) {
  if (ncol(link) == 1) 1L + (link[, 1] > 0) else max.col(link, ties.method = "first")
}

# Columns of -1 and 1 from the codes: one column for two classes, else one for each class.
class_columns <- function(code, classes) {
  if (length(classes) == 2) return(matrix(2 * (code == 2) - 1))
  columns <- matrix(-1, length(code), length(classes), dimnames = list(NULL, classes))
  columns[cbind(seq_along(code), code)] <- 1
  columns
}

# Number of rows of each class, or the sum of their weights.
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
