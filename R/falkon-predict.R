#' Predictions from a kernel regression
#'
#' @param object A fit from [falkon()].
#' @param newdata Rows with the columns of the fit (a data frame with its variables, for a fit by formula), or missing:
#'   the rows of the fit.
#' @param type `"response"`: the mean of the response, or the class; `"link"`: the function itself, for logistic loss
#'   log odds; `"class"`: the class; `"prob"`: a matrix of probabilities, of logistic loss.
#' @param offset The offset of the new rows, for fits with one.
#' @param se.fit Whether to return standard errors, too, see below.
#' @param interval,level Intervals of the fitted function, `"confidence"`, or of responses (of weight 1),
#'   `"prediction"`, of probability `level`, as [stats::predict.lm()] has them.
#' @param na.action What to do about rows with missing values: [stats::na.pass()] gives `NA` for them.
#' @param control A [flash_control()] for this prediction. What it does not say is as in the fit.
#' @param ... Not used; anything here is an error.
#' @details
#' **Standard errors** are those of the Bayesian model behind the fit (see [logLik()][falkon-likelihood]): with k the kernels of a
#' new point x at the centres, W the weights and \eqn{\sigma}{sigma} as [sigma()][falkon-likelihood] estimates it,
#' \deqn{\sigma \sqrt{k' (K_{mn} W K_{nm} + n \lambda K_{mm})^{-1} k + \frac{k(x, x) - k' K_{mm}^{-1} k}{n \lambda}}.}{sigma
#' sqrt(k' (K_mn W K_nm + n lambda K_mm)^-1 k + (k(x, x) - k' K_mm^-1 k) / (n lambda)).}
#' The second part, of what the centres do not see, makes errors grow far from the data, up to the prior's; with all rows for
#' centres both together are the standard error of Gaussian-process regression. That of the intercept is not in them. For
#' logistic loss, where sigma is 1 and the second derivatives of the losses multiply W, they are of the link, or of
#' probabilities by the delta method; intervals of probabilities are those of the link, transformed.
#' @returns A vector of length `m`, or a matrix for several responses. With `interval`, a matrix with columns `fit`, `lwr` and
#'   `upr` (an array for several responses, its third dimension), with `se.fit` a list of `fit`, `se.fit`, `df` and `residual.scale`.
#' @inheritSection flash_kde Errors
#' @export
predict.falkon <- function(object, newdata, type = c("response", "link", "class", "prob"), offset = NULL,
                           se.fit = FALSE, interval = c("none", "confidence", "prediction"), level = 0.95,
                           na.action = stats::na.pass, control = NULL, ...) {
  check_dots_empty(...)
  type <- check_choice(type, c("response", "link", "class", "prob"), "type")
  run <- start_run(settle_control(control, NULL, object$control), "Predicting")
  how <- list(
    type = type, se.fit = check_flag(se.fit, "se.fit"), interval = check_choice(interval, INTERVALS, "interval"), level = level
  )
  uncertain <- how$se.fit || how$interval != "none"
  if (missing(newdata) || is.null(newdata)) {
    link <- fitted_link(object, run)
    restore <- \(x) stats::napredict(object$na.action, x)
    if (uncertain) return(predict_with_errors(object, kept_data(object)$rows, link, how, run, restore))
    return(restore(as_type(object, link, type)))
  }
  new <- new_rows(object, newdata, offset)
  link <- link_at(object, new$rows, run)
  if (!is.null(new$offset)) link <- link + new$offset
  if (uncertain) return(predict_with_errors(object, new$rows, link, how, run))
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
  if (type == "link" || (type == "response" && is.null(classes))) {
    return(if (ncol(link) == 1) as.vector(link) else link)
  }
  if (type == "prob") return(class_probabilities(fit, link))
  factor(classes[class_codes(link)], levels = classes)
}
