# Model frames of formulas with a response: the columns of a fit, and the same columns of new data.

# list(points, y, weights, offset, assign, terms, xlevels, contrasts, na.action, response, variables, frame,
# row_names). `assign` has for each column the number of its term. `frame` of the result has the untransformed variables. `call`: the matched call of the method; `frame`: the environment of the
# user's call.
response_frame <- function(call, data, frame, na.action) {
  if (is_remote(data)) {
    stop_argument("data", "must be a data frame. Give a flash_data() with a response as `x`, without a formula.")
  }
  if (!is.null(data) && !is.list(data) && !is.environment(data)) {
    stop_argument("data", "must be a data frame: found ", describe(data))
  }
  call <- keep_arguments(call, c("formula", "data", "subset", "weights", "offset"))
  call$data <- data
  call$drop.unused.levels <- TRUE
  made <- eval_model_frame(call, frame)
  if (attr(attr(made, "terms"), "response") == 0) stop_argument("formula", "must have a response, as in y ~ a + b")
  variables <- variable_frame(call, attr(made, "terms"), data, frame)
  made <- omit_missing(made, na.action)
  terms <- attr(made, "terms")
  columns <- model_columns(terms, made, "formula")
  c(columns, list(
    variables = names(variables), matrices = matrix_columns(variables),
    frame = frame_rows(variables, attr(made, "na.action")), row_names = own_row_names(made),
    y = stats::model.response(made), weights = stats::model.weights(made), offset = stats::model.offset(made),
    na.action = attr(made, "na.action"), response = deparse1(terms[[2]])
  ))
}

# The untransformed variables of the right-hand side, for the rows of the model frame before `na.action`.
variable_frame <- function(call, terms, data, frame) {
  names <- data_variables(stats::delete.response(terms), data)
  if (length(names) == 0) return(NULL)
  if (is.data.frame(data) && is.null(call$subset) && all(names %in% names(data))) {
    return(structure(unclass(data)[names], row.names = attr(data, "row.names"), class = "data.frame"))
  }
  call$weights <- call$offset <- call$drop.unused.levels <- NULL
  call$formula <- stats::reformulate(paste0("`", names, "`"), env = environment(terms))
  made <- eval_model_frame(call, frame)
  attr(made, "terms") <- NULL
  made
}

# The names of the columns of variables that are matrices, a list by variable: those that model.matrix() makes of them.
matrix_columns <- function(variables) {
  columns <- Filter(is.matrix, as.list(variables))
  Map(\(x, name) paste0(name, first_given(colnames(x), seq_len(ncol(x)))), columns, names(columns))
}

# Adds the columns of matrices to a frame of variables, as their effects are apart; and puts them into the matrices again.
split_matrices <- function(fit, frame) {
  for (name in names(fit$matrices)) frame[fit$matrices[[name]]] <- as.data.frame(unclass(frame[[name]]))
  frame
}

join_matrices <- function(fit, frame) {
  for (name in names(fit$matrices)) frame[[name]] <- as.matrix(frame[fit$matrices[[name]]])
  frame
}

split_names <- function(fit, names) unlist(lapply(names, \(name) first_given(fit$matrices[[name]], name)))

# Removes the rows `lost`. Without such rows the columns are not copied.
frame_rows <- function(frame, lost) if (is.null(frame) || length(lost) == 0) frame else frame[-lost, , drop = FALSE]

# Calls the default `method` with the columns of a model frame and other `arguments`. `call`: the call of the user.
fit_frame <- function(method, frame, arguments, call) {
  if (is.data.frame(arguments$validation)) arguments$validation <- validation_frame(arguments$validation, frame)
  arguments <- c(list(x = frame$points), frame[intersect(c("y", "weights", "offset"), names(frame))], arguments)
  with_frame(call_with(method, arguments), frame, call)
}

# Like do.call(), but the call does not contain the values of the arguments.
call_with <- function(method, arguments) {
  parts <- lapply(seq_along(arguments), \(i) call("[[", quote(arguments), i))
  do.call(method, stats::setNames(parts, names(arguments)))
}

# Adds to a fit the terms and variables of its columns, which predict() and marginal_effects() need. A plan is returned
# as it is.
with_frame <- function(fit, frame, call) UseMethod("with_frame")
#' @export
with_frame.default <- function(fit, frame, call) fit

#' @export
with_frame.kernel_ridge <- function(fit, frame, call) {
  parts <- intersect(FRAME_PARTS, names(frame))
  fit[parts] <- frame[parts]
  if (!is.null(fit$data)) fit$data$frame <- frame_rows(frame$frame, fit$held)
  fit$row_names <- kept_names(frame$row_names, fit$held)
  fit$call <- ridge_call(call)
  fit
}

FRAME_PARTS <- c("terms", "xlevels", "contrasts", "na.action", "response", "variables", "matrices", "formula")

kept_names <- function(names, lost) if (is.null(names) || length(lost) == 0) names else names[-lost]

omit_missing <- function(made, na.action) {
  action <- as_na_action(na.action)
  known <- identical(action, stats::na.omit) || identical(action, stats::na.exclude)
  if (known && nrow(made) > 0 && !any(vapply(made, anyNA, NA))) return(made)
  kept <- in_function_of_user("na.action", action(made), "could not be applied")
  if (nrow(kept) == 0) stop_argument("formula", "must leave at least one row without missing values: found none")
  kept
}

# The model frame of all columns of a data frame. If all are numeric, there are no terms.
frame_columns <- function(data, arg) {
  if (all(vapply(data, is_number, NA))) return(list(points = as_points(data, arg), row_names = own_row_names(data)))
  made <- tryCatch(
    stats::model.frame(stats::terms(~ ., data = data), data, na.action = stats::na.pass),
    error = \(e) stop_frame(e, arg, data)
  )
  c(model_columns(attr(made, "terms"), made, arg), list(
    variables = names(data), matrices = matrix_columns(data), frame = data, row_names = own_row_names(data)
  ))
}

# The columns of the design matrix without the constant, which has no effect on kernels.
model_columns <- function(terms, made, arg) {
  points <- plain_columns(terms, made)
  if (!is.null(points)) {
    columns <- list(points = check_points(points, arg), terms = with_intercept(terms), assign = seq_len(ncol(points)))
    return(columns)
  }
  characters <- vapply(made, is.character, NA)
  made[characters] <- lapply(made[characters], factor)
  check_contrasts(made, terms, arg)
  terms <- with_intercept(terms)
  design <- tryCatch(stats::model.matrix(terms, made), error = \(e) {
    stop_argument(arg, "could not be made into columns: ", shorten(conditionMessage(e), 300))
  })
  points <- without_constant(design)
  if (ncol(points) == 0) stop_argument(arg, "must name at least one variable: found none")
  list(
    points = check_points(points, arg), terms = terms, xlevels = stats::.getXlevels(terms, made),
    contrasts = attr(design, "contrasts"), assign = attr(design, "assign")[colnames(design) != "(Intercept)"]
  )
}

with_intercept <- function(terms) {
  attr(terms, "intercept") <- 1L
  terms
}

# The columns if each term is one numeric vector, in a tenth of the time of model.matrix(); otherwise NULL.
plain_columns <- function(terms, made) {
  factors <- attr(terms, "factors")
  if (length(factors) == 0 || any(attr(terms, "order") > 1)) return(NULL)
  # by position: the label of a term may have backticks that the name of its variable lacks
  columns <- unclass(made)[row(factors)[factors != 0]]
  if (!all(vapply(columns, \(x) is.numeric(x) && !is.object(x) && is.null(dim(x)), NA))) return(NULL)
  matrix(as.double(unlist(columns, use.names = FALSE)), nrow(made), dimnames = list(
    as.character(attr(made, "row.names")), colnames(factors)
  ))
}

# Refuses factors of one level, for which model.matrix() has no columns.
check_contrasts <- function(made, terms, arg) {
  factors <- attr(terms, "factors")
  used <- if (length(factors) > 0) rownames(factors)[rowSums(factors) > 0]
  for (name in intersect(used, names(made))) {
    check_not_identifier(made[[name]], name, arg)
    if (!is.factor(made[[name]]) || nlevels(made[[name]]) > 1) next
    stop_argument(
      arg, "must have factors of at least two levels: ", quote_names(name), " is ",
      quote_some(levels(made[[name]])), " in all rows. Leave it out of the model."
    )
  }
}

# list(points, offset) of new data for a fit with terms. Rows with missing values are NA. `offset`: the offset of the
# formula.
model_newdata <- function(fit, newdata, arg = "newdata") {
  if (is.matrix(newdata) && !is.null(colnames(newdata))) newdata <- as.data.frame(newdata)
  if (!is.data.frame(newdata)) {
    stop_argument(arg, "must be a data frame with the variables of the fit: found ", describe(newdata))
  }
  terms <- stats::delete.response(fit$terms)
  read_columns(fit, terms, newdata, fit$variables, stats::na.pass, arg)[c("points", "offset")]
}

# Converts a data frame with the variables of a formula to a validation set list(x, y, offset).
validation_frame <- function(data, frame) {
  variables <- c(all.vars(frame$terms[[2]]), frame$variables)
  made <- read_columns(frame, frame$terms, data, variables, stats::na.omit, "validation")
  list(x = made$points, y = stats::model.response(made$frame), offset = made$offset)
}

# list(points, offset, frame) of a data frame. `terms`: of a fit or of its model frame.
read_columns <- function(fit, terms, data, variables, na.action, arg) {
  lacking <- setdiff(variables, names(data))
  if (length(lacking) > 0) stop_argument(arg, "must have the variables of the fit: found no ", quote_names(lacking))
  made <- tryCatch(
    stats::model.frame(terms, data, na.action = na.action),
    error = \(e) stop_argument(arg, "could not be evaluated in the formula: ", shorten(conditionMessage(e), 300))
  )
  made <- with_numbers(made, attr(terms, "dataClasses"), arg)
  contrasts <- fit$contrasts
  for (name in names(fit$xlevels)) {
    levels <- fit$xlevels[[name]]
    made[[name]] <- known_levels(made[[name]], levels, name, terms, arg)
    if (nlevels(made[[name]]) > length(levels)) contrasts[[name]] <- with_mean_contrast(levels, contrasts[[name]])
  }
  design <- stats::model.matrix(terms, made, contrasts.arg = contrasts)
  list(points = without_constant(design), offset = stats::model.offset(made), frame = made)
}

without_constant <- function(design) design[, colnames(design) != "(Intercept)", drop = FALSE]

# Checks that numeric variables of the fit are numeric in a model frame, and logical ones TRUE or FALSE. `classes`: data
# classes of the fit. A column of NA is logical in R and becomes numeric.
with_numbers <- function(frame, classes, arg) {
  for (name in intersect(names(classes)[classes == "logical"], names(frame))) {
    found <- as.logical(frame[[name]])
    if (anyNA(found[!is.na(frame[[name]])])) stop_argument(arg, "must have TRUE or FALSE in ", quote_names(name), " alone")
    frame[[name]] <- found
  }
  for (name in intersect(names(classes)[classes == "numeric"], names(frame))) {
    if (is.logical(frame[[name]])) storage.mode(frame[[name]]) <- "double"
    if (is_number(frame[[name]])) next
    stop_argument(
      arg, "must have numbers for numeric variables of the fit: ", quote_names(name), " is of class ",
      class(frame[[name]])[1]
    )
  }
  frame
}

# A factor with the levels of the fit. Levels that the fit has not seen become one more, which is last.
known_levels <- function(x, levels, name, terms, arg) {
  found <- as.character(x)
  other <- setdiff(found, c(levels, NA))
  if (length(other) == 0) return(factor(found, levels = levels, ordered = is.ordered(x)))
  # without its main effect a factor may have a column for each level, also for the last one
  if (any(attr(terms, "factors")[name, ] == 2)) {
    stop_argument(
      arg, "must have the categories of the fit in ", quote_names(name), ": found ", quote_some(other),
      ". With the main effect of ", quote_names(name), " in the formula, other categories are predicted."
    )
  }
  warn_user(
    "level", "The fit has no rows with ", quote_names(name), " = ", quote_some(other),
    ". Such rows are predicted as if they were between all levels of the fit."
  )
  last <- make.unique(c(levels, "other"))[length(levels) + 1]
  factor(replace(found, found %in% other, last), levels = c(levels, last))
}

# The contrasts of levels of the fit, and of one more the mean of these.
with_mean_contrast <- function(levels, contrasts) {
  known <- factor(levels, levels = levels)
  stats::contrasts(known) <- contrasts
  rbind(stats::contrasts(known), colMeans(stats::contrasts(known)))
}

quote_some <- function(texts, most = 5) {
  shown <- paste0('"', shorten(utils::head(texts, most)), '"', collapse = ", ")
  if (length(texts) > most) paste0(shown, ", ... (", length(texts), " in all)") else shown
}
