# Applies `na.action` to points and weights together: a row is removed if either is missing. Returns list(points,
# weights, omitted, sent); `omitted` is the attribute "na.action" of model.frame(), of class "omit" or "exclude". `sent`
# is the handle of send_points() with `control`, or NULL.
handle_missing <- function(points, weights, na.action, arg, control = NULL) {
  action <- as_na_action(na.action)
  sent <- send_points(points, control)
  finite <- !isFALSE(sent)
  if (!finite) check_finite(points, arg, missing = TRUE)
  if ((finite || !anyNA(points)) && !anyNA(weights)) {
    return(list(points = points, weights = weights, omitted = NULL, sent = if (!is.logical(sent)) sent))
  }
  kept <- apply_na_action(action, as_frame(points, weights), arg)
  # na.pass() removes nothing
  check_finite(kept$x, arg)
  if (!is.null(weights)) check_finite(kept$weights, "weights")
  if (nrow(kept$x) == 0) stop_argument(arg, "must have at least one row without missing values: found none")
  list(points = kept$x, weights = kept$weights, omitted = attr(kept, "na.action"))
}

# Applies `action` to a frame of as_frame(), and checks its result, as `action` may be a function of the user.
apply_na_action <- function(action, frame, arg) {
  if (identical(action, stats::na.fail)) {
    # the message says where
    stop_missing(frame$x, arg)
    if (!is.null(frame$weights)) stop_missing(matrix(frame$weights), "weights")
  }
  kept <- in_function_of_user("na.action", action(frame), "could not be applied")
  good <- is.data.frame(kept) && identical(names(kept), names(frame)) && is.matrix(kept$x) &&
    is.double(kept$x) && ncol(kept$x) == ncol(frame$x)
  if (good) return(kept)
  stop_argument("na.action", "must return rows of its data frame: returned ", describe(kept))
}

stop_missing <- function(x, arg) {
  lacking <- colSums(is.na(x))
  columns <- which(lacking > 0)
  if (length(columns) == 0) return(invisible())
  labels <- vapply(columns, \(k) column_label(colnames(x), k), "")
  row <- which(is.na(x[, columns[1]]))[1]
  place <- if (is_unnamed_column(x)) {
    paste0(", the first at position ", row)
  } else {
    in_columns <- if (length(labels) > 1) paste0(" in columns ", quote_names(labels))
    paste0(in_columns, ", the first in row ", row, ", column ", quote_names(labels[1]))
  }
  stop_argument(
    arg, "must not have missing values where na.action is na.fail or NULL: found ", whole(sum(lacking)), place,
    " (na.action = na.omit leaves such rows out)"
  )
}

# A data frame for na.action functions, with the whole matrix as one column.
as_frame <- function(points, weights = NULL) {
  frame <- list(x = points)
  frame$weights <- weights
  structure(frame, class = "data.frame", row.names = .set_row_names(nrow(points)))
}

as_na_action <- function(na.action) {
  if (is.null(na.action)) return(stats::na.fail)
  if (is.function(na.action)) return(na.action)
  is_name <- is.character(na.action) && length(na.action) == 1 && !is.na(na.action)
  # searched in the workspace and the attached packages
  is_name <- is_name && nzchar(na.action) && nchar(na.action, "bytes") < 10000
  found <- if (is_name) get0(na.action, globalenv(), mode = "function")
  if (!is.null(found)) return(found)
  stop_argument("na.action", "must be a function or the name of one, such as \"na.omit\": found ", describe(na.action))
}
