# Formulas: columns of the fit, and the same columns of `newdata`.

# list(points, weights, terms, variables). `call`: the matched call of the method; `frame`: the user's frame.
formula_data <- function(call, data, frame) {
  made <- formula_frame(call, data, frame)
  terms <- check_terms(attr(made, "terms"))
  dates <- date_kinds(made)
  list(
    points = frame_points(dates_as_numbers(made, dates, "formula"), terms, "formula", levels = TRUE),
    weights = stats::model.weights(made), terms = terms, variables = data_variables(terms, data), dates = dates
  )
}

formula_frame <- function(call, data, frame) {
  call <- keep_arguments(call, c("formula", "data", "subset", "weights"))
  # evaluated already
  call$data <- data
  eval_model_frame(call, frame)
}

# Variables that newdata must have: columns of `data`, and all variables longer than one value. The others are
# constants, such as k in ~ I(x / k). This is decided at the fit, as the workspace may change later.
data_variables <- function(terms, data) {
  names <- all.vars(terms)
  place <- if (is.environment(data)) data else environment(terms)
  columns <- if (!is.environment(data)) names(data)
  is_long <- function(name) {
    value <- get0(name, place)
    length(value) > 1 || NROW(value) > 1
  }
  names[names %in% columns | vapply(names, is_long, NA)]
}

keep_arguments <- function(call, keep) call[c(1, match(keep, names(call), 0))]

#' @importFrom stats formula
#' @export
#' @noRd
formula.flash_kde <- function(x, ...) {
  if (is.null(x$terms)) stop_argument("x", "must be a fit that was made with a formula")
  stats::formula(x$terms)
}

# Keeps missing values: handle_missing() applies na.action to columns and weights together.
eval_model_frame <- function(call, frame) {
  call[[1]] <- quote(stats::model.frame)
  call$na.action <- quote(stats::na.pass)
  tryCatch(eval(call, frame), error = function(e) {
    # model.frame() does not name the wrong argument: omit each in turn
    at_fault <- function(arg) {
      !is.null(call[[arg]]) && tryCatch(is.list(eval(call[names(call) != arg], frame)), error = \(e) FALSE)
    }
    arg <- c(Find(at_fault, c("weights", "subset")), "formula")[1]
    if (arg == "weights") stop_weights(call, frame)
    stop_frame(e, arg, call$data)
  })
}

# The error for an error `e` of model.frame(), which does not name the class of a column that is a list.
stop_frame <- function(e, arg, data) {
  lists <- if (is.data.frame(data)) Filter(is.list, unclass(data))
  hint <- if (length(lists) > 0) number_hint(lists[[1]])
  stop_argument(arg, "could not be evaluated: ", shorten(conditionMessage(e), 300), hint)
}

# Errors about weights that can be evaluated, but have a wrong type or length.
stop_weights <- function(call, frame) {
  enclosure <- environment(eval(call$formula, frame))
  value <- tryCatch(eval(call$weights, call$data, enclosure), error = \(e) NULL)
  if (is.character(value)) {
    is_column <- length(value) == 1 && value %in% names(call$data)
    hint <- if (is_column) paste0(", the name of a column (write weights = ", shorten(value), ")")
    stop_argument("weights", "must be numeric: found ", describe(value), hint)
  }
  if (is_number(value)) {
    stop_argument("weights", "must have one value per row of the variables: found ", whole(length(value)))
  }
}

check_formula <- function(formula, data) {
  check_is(inherits(formula, "formula"), formula, "formula", "a formula, as ~ a + b or y ~ a + b")
  right <- formula[[length(formula)]]
  if (is.call(right) && identical(right[[1]], quote(`|`))) {
    stop_argument("formula", "must not have `|` (y ~ x is the density of y given x, and I(a | b) a logical \"or\")")
  }
  check_is(is.null(data) || is.list(data) || is.environment(data), data, "data", "a data frame")
}

check_terms <- function(terms) {
  if (!is.null(attr(terms, "offset"))) stop_argument("formula", "must not have an offset")
  labels <- attr(terms, "term.labels")
  if (length(labels) == 0) stop_argument("formula", "must name at least one variable: found none")
  products <- labels[attr(terms, "order") > 1]
  if (length(products) == 0) return(terms)
  found <- quote_names(products[1])
  stop_argument("formula", "must be a sum of variables: found ", found, " (write a product as I(a * b))")
}

# Columns of a model frame as a double matrix, which may have values that are not finite.
frame_points <- function(data, terms, arg, levels = FALSE, none = FALSE) {
  columns <- term_columns(data, terms)
  if (levels && has_levels(columns)) return(mixed_points(apart(columns), arg))
  check_numeric_columns(columns, arg)
  parts <- lapply(names(columns), \(name) name_columns(unclass(columns[[name]]), name))
  check_points(do.call(cbind, parts), arg, infinite = TRUE, none = none)
}

# Selected by position, as labels of terms may have backticks.
term_columns <- function(data, terms) {
  used <- apply(attr(terms, "factors") != 0, 2, which)
  unclass(data)[unlist(used)]
}

# Names for the columns of a term, which may be a matrix, such as cbind(a, b).
name_columns <- function(column, name) {
  if (is.null(dim(column))) return(matrix(as.double(column), dimnames = list(NULL, name)))
  inner <- colnames(column)
  if (is.null(inner)) inner <- seq_len(ncol(column))
  matrix(as.double(column), nrow(column), dimnames = list(NULL, paste0(name, inner)))
}

# The points in `newdata` for a fit by formula.
formula_newdata <- function(object, newdata, arg = "newdata") {
  frame_points(newdata_frame(object, newdata, arg), object$terms, arg, none = TRUE)
}

newdata_frame <- function(object, newdata, arg) {
  if (is.matrix(newdata) && !is.null(colnames(newdata))) newdata <- as.data.frame(newdata)
  check_is(is.data.frame(newdata), newdata, arg, "a data frame with the variables of the formula")
  check_none_lacking(names(newdata), arg, object$variables, "the variables of the formula")
  made <- tryCatch(
    stats::model.frame(object$terms, newdata, na.action = stats::na.pass),
    error = \(e) stop_argument(arg, "does not fit the formula: ", shorten(conditionMessage(e), 300))
  )
  dates_as_numbers(made, object$dates, arg)
}

# ---- dates and times --------------------------------------------------------------------------

is_date <- function(x) inherits(x, c("Date", "POSIXct"))

# The kinds of dates and times among columns, or of a vector (named `x`): a list of vectors without values, by name.
date_kinds <- function(x) lapply(Filter(is_date, if (is.list(x)) as.list(x) else list(x = x)), `[`, 0)

# Columns, or a vector, where what are dates and times to the fit are days and seconds. `dates`: its date_kinds().
dates_as_numbers <- function(x, dates, arg) {
  as_number <- function(values, kind) {
    if (is.null(kind) || !is_date(values)) return(values)
    if (inherits(values, "Date") == inherits(kind, "Date")) return(as.numeric(values))
    stop_argument(arg, "must have class ", class(kind)[1], " where the fit has it: found ", class(values)[1])
  }
  if (!is.list(x)) return(as_number(x, if (length(dates) == 1) dates[[1]]))
  for (name in intersect(names(dates), names(x))) x[[name]] <- as_number(x[[name]], dates[[name]])
  x
}

# Numbers as dates or times of a kind; NULL: as they are.
as_dates <- function(values, kind) {
  if (is.null(kind)) values else structure(values, class = class(kind), tzone = attr(kind, "tzone"))
}

# A data frame whose columns of numbers are dates and times where those of the fit are.
with_dates <- function(frame, dates) {
  for (name in intersect(names(frame), names(dates))) frame[[name]] <- as_dates(frame[[name]], dates[[name]])
  frame
}

# Changes a call whose first argument may be the data into a call of the formula method.
formula_call <- function(call, method = kernel_ridge.formula) {
  if (!"formula" %in% names(call)) names(call)[names(call) %in% c("y", "class")] <- "formula"
  names(call)[names(call) == "x"] <- "data"
  call[[1]] <- method
  call
}

# Row names of the user; NULL for automatic ones.
own_row_names <- function(x) {
  names <- if (is.data.frame(x)) attr(x, "row.names") else if (is.matrix(x)) rownames(x)
  if (is.character(names)) names
}

# A tibble (if the package is installed) with row names as column .rownames, as in broom.
as_tibble <- function(frame) {
  names <- own_row_names(frame)
  if (!is.null(names)) frame <- cbind(.rownames = names, frame)
  rownames(frame) <- NULL
  if (requireNamespace("tibble", quietly = TRUE)) tibble::as_tibble(frame) else frame
}
