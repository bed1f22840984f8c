#' Predictions from a kernel regression
#'
#' @param object A fit from [falkon()].
#' @param newdata Rows with the columns of the fit (a data frame with its variables, for a fit by formula), or missing:
#'   the rows of the fit.
#' @param type `"response"`: the mean of the response; for factors the class, and for two numbers or logical values
#'   under logistic loss, as in [stats::glm()], the probability of the larger one. `"link"`: the function itself, for
#'   logistic loss the log odds of the second class, or a column for each of more classes. `"class"`: the class.
#'   `"prob"`: a matrix of probabilities with a column for each class, of logistic loss.
#' @param offset The offset of the new rows, for fits with one.
#' @param na.action What to do about rows with missing values: [stats::na.pass()] gives `NA` for them.
#' @param control A [flash_control()] for this prediction. What it does not say is as in the fit.
#' @param ... Not used; anything here is an error.
#' @returns A vector of length `m`, or a matrix for several responses.
#' @inheritSection flash_kde Errors
#' @export
predict.falkon <- function(object, newdata, type = c("response", "link", "class", "prob"), offset = NULL,
                           na.action = stats::na.pass, control = NULL, ...) {
  check_dots_empty(...)
  type <- check_choice(type, c("response", "link", "class", "prob"), "type")
  run <- start_run(settle_control(control, NULL, object$control), "Predicting")
  if (missing(newdata) || is.null(newdata)) return(stats::napredict(object$na.action, as_type(object, fitted_link(object, run), type)))
  new <- new_rows(object, newdata, offset)
  link <- link_at(object, new$rows, run)
  if (!is.null(new$offset)) link <- link + new$offset
  as_type(object, link, type)
}

# n x t: the function itself at rows, without offset.
link_at <- function(fit, rows, run) {
  rows <- rows_under(rows, fit$L, fit$kernel)
  sums <- rows_multiply(rows, fit_columns(fit), fit$coefficients, run)$sums
  sums + rep(fit$intercept, each = rows$n)
}

# The centres, with what was prepared of them.
fit_columns <- function(fit) {
  if (is.null(fit$state$columns)) fit$state$columns <- falkon_centers(fit$centers, fit$L, fit$kernel)
  fit$state$columns
}

# The link at the rows of the fit: computed when it is first asked for.
fitted_link <- function(fit, run) {
  if (is.null(fit$state$fitted)) {
    data <- kept_data(fit)
    link <- link_at(fit, data$rows, run)
    fit$state$fitted <- if (is.null(data$offset)) link else link + data$offset
  }
  fit$state$fitted
}

kept_data <- function(fit) {
  if (is.null(fit$data)) stop_argument("object", "does not keep its rows (keep = FALSE): give `newdata`")
  fit$data
}

# list(rows, offset) of new data in any form that fits take.
new_rows <- function(fit, newdata, offset = NULL, arg = "newdata") {
  if (!is.null(fit$terms)) {
    made <- model_newdata(fit, newdata)
    if (is.null(offset)) offset <- made$offset
    newdata <- made$points
  }
  rows <- falkon_rows(check_rows(newdata, arg, fit$d, fit$names))
  if (fit$has_offset && is.null(offset)) stop_argument("offset", "must be given: the fit has one")
  list(rows = rows, offset = check_offset(offset, rows$n, ncol(fit$coefficients)))
}

# Rows of the kind of others, for the same fit.
rows_like <- function(rows, x, arg, spec) {
  falkon_rows(check_rows(x, arg, rows$d, rows$names), spec$L, spec$kernel)
}

as_type <- function(fit, link, type) {
  classes <- fit$classes
  if (type == "class" && is.null(classes)) stop_argument("type", "\"class\" is for a factor response")
  if (type == "prob" && fit$loss == "squared") stop_argument("type", "\"prob\" is for logistic loss")
  if (type == "response") type <- response_type(fit)
  switch(type,
    link = if (ncol(link) == 1) as.vector(link) else link,
    prob = class_probabilities(fit, link),
    second = link_probabilities(link)[, 2],
    class = factor(classes[class_codes(link)], levels = classes)
  )
}

# What the mean of a response is: as glm() has it, the probability of the larger value where two numbers or logical
# values were fitted by logistic loss.
response_type <- function(fit) {
  if (is.null(fit$classes)) "link" else if (fit$binary && fit$loss != "squared") "second" else "class"
}
