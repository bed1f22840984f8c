# Formulas with a response: what columns they make, at the fit and again in predict().

# list(points, y, weights, offset, terms, xlevels, contrasts, na.action, response). `call` is the matched call of the
# method, `frame` where the user called it.
response_frame <- function(call, data, frame, na.action) {
  if (!is.null(data) && !is.list(data) && !is.environment(data)) {
    stop_argument("data", "must be a data frame: found ", describe(data))
  }
  call <- keep_arguments(call, c("formula", "data", "subset", "weights", "offset"))
  call$data <- data
  call$drop.unused.levels <- TRUE
  made <- eval_model_frame(call, frame)
  if (attr(attr(made, "terms"), "response") == 0) stop_argument("formula", "must have a response, as in y ~ a + b")
  made <- omit_missing(made, na.action)
  terms <- attr(made, "terms")
  columns <- model_columns(terms, made, "formula")
  c(columns, list(
    y = stats::model.response(made), weights = stats::model.weights(made), offset = stats::model.offset(made),
    na.action = attr(made, "na.action"), response = deparse1(terms[[2]])
  ))
}

omit_missing <- function(made, na.action) {
  kept <- tryCatch(as_na_action(na.action)(made), error = \(e) {
    stop_argument("na.action", "could not be applied: ", shorten(conditionMessage(e), 300))
  })
  if (nrow(kept) == 0) stop_argument("formula", "must leave at least one row without missing values: found none")
  kept
}

# list(points, terms, xlevels, contrasts) of a data frame with factors.
frame_columns <- function(terms, data, arg) {
  made <- stats::model.frame(terms, data, na.action = stats::na.pass)
  model_columns(attr(made, "terms"), made, arg)
}

# The columns that the terms make, without the constant one: kernels do not see it.
model_columns <- function(terms, made, arg) {
  characters <- vapply(made, is.character, NA)
  made[characters] <- lapply(made[characters], factor)
  attr(terms, "intercept") <- 1L
  design <- tryCatch(stats::model.matrix(terms, made), error = \(e) {
    stop_argument(arg, "could not be made into columns: ", shorten(conditionMessage(e), 300))
  })
  points <- design[, colnames(design) != "(Intercept)", drop = FALSE]
  if (ncol(points) == 0) stop_argument(arg, "must name at least one variable: found none")
  list(
    points = check_points(points, arg), terms = terms, xlevels = stats::.getXlevels(terms, made),
    contrasts = attr(design, "contrasts")
  )
}

# The columns of new data for a fit whose columns came from terms; rows with missing values are NA. `offset`: of the
# formula.
model_newdata <- function(fit, newdata) {
  terms <- stats::delete.response(fit$terms)
  if (is.matrix(newdata) && !is.null(colnames(newdata))) newdata <- as.data.frame(newdata)
  if (!is.data.frame(newdata)) {
    stop_argument("newdata", "must be a data frame with the variables of the fit: found ", describe(newdata))
  }
  made <- tryCatch(
    stats::model.frame(terms, newdata, na.action = stats::na.pass, xlev = fit$xlevels),
    error = \(e) stop_argument("newdata", "does not fit the formula: ", shorten(conditionMessage(e), 300))
  )
  design <- stats::model.matrix(terms, made, contrasts.arg = fit$contrasts)
  points <- design[, colnames(design) != "(Intercept)", drop = FALSE]
  list(points = points, offset = stats::model.offset(made))
}

# A data frame with the variables of a formula, as a validation set.
validation_frame <- function(data, frame) {
  made <- stats::model.frame(frame$terms, data, na.action = stats::na.omit, xlev = frame$xlevels)
  design <- stats::model.matrix(frame$terms, made, contrasts.arg = frame$contrasts)
  list(
    x = design[, colnames(design) != "(Intercept)", drop = FALSE], y = stats::model.response(made),
    offset = stats::model.offset(made)
  )
}
