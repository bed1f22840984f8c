#' Predictions and prediction intervals from a kernel ridge regression
#'
#' `predict()` evaluates a fit at new rows or at its own: means, classes, probabilities, gradients, standard errors and
#' intervals. `confint()` returns the ends of `predict(type = "link", interval = "confidence")`.
#'
#' @param object A fit from [kernel_ridge()].
#' @param newdata New rows: a matrix or data frame with the columns of the fit, matched by name where both have names; a
#'   data frame with the variables of the formula, for a fit by formula. Unseen levels of a factor are taken as the
#'   mean of its levels, with a warning. Missing: the rows of the fit.
#' @param type What to predict.
#'   - `"response"` (default): the mean of the response, or its quantiles, a column for each level; for a factor the
#'     class. For logistic loss with two numbers or logical values it is the probability of the larger one, as in
#'     [stats::glm()].
#'   - `"link"`: the fitted function; for logistic loss the log odds of the second class, or a column for each of more
#'     classes.
#'   - `"class"`: the class. `"prob"`: for logistic loss, a matrix of probabilities with a column for each class.
#'   - `"gradient"`: the exact derivatives of the fitted function in each column. A kernel without derivative at its
#'     centre contributes 0 there, a product Laplacian in each column where the two points are equal.
#'   - `"terms"`: for a formula with `k()`, the effect of each term minus its mean over the centres, a matrix with the
#'     attribute `"constant"`.
#' @param offset The offset of the new rows, for fits with one. The offset of a formula is found in `newdata`.
#' @param se.fit Logical: return standard errors, too? Default `FALSE`. See Details.
#' @param interval,level `"confidence"`: intervals of the fitted function. `"prediction"`: intervals of responses of
#'   weight 1. Their probability is `level` (default 0.95), as in [stats::predict.lm()]. `"conformal"`: the same without
#'   a model of the errors, for squared loss and several quantiles. See Details.
#' @param na.action Rows of `newdata` with missing values: [stats::na.pass()] (default) predicts
#'   `NA`, [stats::na.omit()] drops the rows, [stats::na.fail()] is an error. For the rows of the fit its own
#'   `na.action` counts: rows dropped by [stats::na.exclude()] are `NA` in the result.
#' @param control A [flash_control()] for this prediction. Settings that are not given are those of the fit.
#' @param collect Logical: return the values to this session? Default `TRUE`. `FALSE` is for rows in a [flash_data()]:
#'   the values stay on the workers, as a [flash_data()]; classes are given by their numbers.
#' @param parm Numbers of rows of the fit, or new rows in any form that `newdata` takes. Missing: all rows of the fit.
#'   `"linear"`: the coefficients of the linear terms of a formula with `k()`.
#' @param ... For `confint()`: further arguments of `predict()`. For `predict()`: must be empty.
#' @details
#' **Standard errors** are those of the Bayesian model behind the fit (see [ridge-methods]). Let k be the kernels of a
#' new point x at the centres, W the weights and \eqn{\sigma}{sigma} the estimate of [sigma()][ridge-methods]. The
#' standard error is
#' \deqn{\sigma \sqrt{k' (K_{mn} W K_{nm} + n \lambda K_{mm})^{-1} k + \frac{k(x, x) - k' K_{mm}^{-1} k}{n
#' \lambda}}.}{sigma sqrt(k' (K_mn W K_nm + n lambda K_mm)^-1 k + (k(x, x) - k' K_mm^-1 k) / (n lambda)).}
#' The second term is the variance that the centres do not explain: far from the data the standard error grows up to the
#' prior's. If all rows are centres, this is the standard error of Gaussian process regression. It does not include the
#' error of the intercept.
#'
#' For logistic loss, sigma is 1 and W is multiplied by the second derivatives of the losses. Standard errors are those
#' of the link, or of probabilities by the delta method. Intervals of probabilities are transformed intervals of the log
#' odds of each class against all others.
#'
#' **Conformal intervals** use errors at rows that a fit has not seen. The fit is repeated without a tenth of the rows,
#' with every choice from the data, until each row, or 1,000 rows, have been left out: at most ten fits, computed once.
#' An interval is the mean of these fits plus and minus a quantile of their errors, scaled by the local standard error
#' and the accuracy of the mean. With several quantiles it extends from the first to the last, widened by a quantile of
#' the errors. New rows must come from the distribution of the rows of the fit, with weights in proportion to these.
#' About `level` of new responses are covered. The ends are infinite for fewer than `level / (1 - level)` rows.
#' @returns A vector with a value for each row, a factor of classes, or a matrix with a column for each response or
#'   class. Row names are those of `newdata`.
#' - Gradients: a matrix with a column for each column of the fit; for several responses an array with the responses in
#'   the third dimension.
#' - With `interval`: a matrix with columns `fit` (or the quantiles), `lwr` and `upr`; for several responses, and classes
#'   of `type = "prob"`, an array with these in the third dimension. If a fit has no residuals, intervals have width 0.
#' - With `se.fit`: a list of `fit`, `se.fit` (a vector, or a matrix with a column for each response or class), `df` and
#'   `residual.scale`.
#' - `confint()`: a matrix of the lower and upper ends, or an array.
#' @references Barber, R. F., Candes, E. J., Ramdas, A. and Tibshirani, R. J. (2021) Predictive inference with the
#'   jackknife+. *Annals of Statistics* 49, 486-507.
#' @seealso [marginal_effects()] for averages of the derivatives.
#' @rawRd \concept{conformal prediction}\concept{prediction interval}\concept{standard error of a prediction}
#'   \concept{quantile of a prediction}
#' @export
#' @examples
#' curve_fit <- kernel_ridge(dist ~ speed, data = cars)
#' at <- data.frame(speed = 4:25)
#' matplot(at, predict(curve_fit, at, interval = "prediction"), type = "l", lty = c(1, 2, 2), col = 1)
#'
#' fit <- kernel_ridge(mpg ~ wt + hp, data = mtcars, kernel = "matern52")
#' new <- data.frame(wt = c(2, 3, NA), hp = 100)
#' predict(fit, new)
#' predict(fit, new, interval = "conformal", level = 0.9)
#' head(predict(fit, type = "gradient"))
predict.kernel_ridge <- function(object, newdata, type = c("response", "link", "class", "prob", "gradient", "terms"),
                                 offset = NULL, se.fit = FALSE,
                                 interval = c("none", "confidence", "prediction", "conformal"), level = 0.95,
                                 na.action = stats::na.pass, control = NULL, collect = TRUE, ...) {
  check_dots_empty(...)
  type <- check_type(object, type)
  run <- start_run(settle_control(control, NULL, object$control), "Predicting")
  how <- list(
    type = if (type == "response" && response_type(object) %in% c("second", "mean")) response_type(object) else type,
    se.fit = check_flag(se.fit, "se.fit"), interval = check_choice(interval, RIDGE_INTERVALS, "interval"), level = level
  )
  at <- if (missing(newdata) || is.null(newdata)) own_rows(object) else new_rows(object, newdata, offset, na.action)
  hold_rows(at$rows)
  if (!check_flag(collect, "collect")) return(predict_where_rows_are(object, at, how, run))
  if (type == "terms") return(predict_terms(object, at, how, run))
  if (type == "gradient") {
    if (how$se.fit) {
      stop_argument("se.fit", "must be FALSE for gradients: found TRUE. Use marginal_effects() for their means.")
    }
    return(at$restore(gradients(object, at$rows, run)))
  }
  link <- if (at$own) fitted_link(object, run) else link_at(object, at$rows, run)
  if (!at$own && !is.null(at$offset)) link <- link + at$offset
  if (how$se.fit || how$interval != "none") return(predict_with_errors(object, at, link, how, run))
  at$restore(as_type(object, link, type))
}

# A flash_data() of the values. `how`: of predict.kernel_ridge().
predict_where_rows_are <- function(fit, at, how, run) {
  errors <- how$se.fit || how$interval != "none"
  why <- if (!inherits(at$rows, "rows_data")) "if the rows are not a flash_data()" else {
    if (errors) "for standard errors and intervals" else if (how$type == "gradient") "for gradients"
  }
  if (!is.null(why)) stop_argument("collect", "must be TRUE ", why, ": found FALSE")
  link <- if (at$own) link_of_rows(fit, run) else {
    of_kernels <- rows_link(rows_under(at$rows, fit$L, fit$kernel), fit_columns(fit), fit$coefficients, run)
    shift_columns(of_kernels, -fit$intercept)
  }
  if (!at$own && !is.null(at$offset)) link <- link + rows_column(at$rows, at$offset)
  type <- if (how$type == "response") response_type(fit) else how$type
  switch(type,
    second = , sorted = ,
    link = column_as_data(link, if (is.null(fit$outputs)) "link" else fit$outputs, run),
    mean = column_as_data(exp(link), "mean", run),
    class = column_as_data(class_codes(link), "class", run),
    prob = column_as_data(link_probabilities(link), fit$classes, run)
  )
}

check_type <- function(fit, type) {
  type <- check_choice(type, PREDICTIONS, "type")
  if (type == "class" && is.null(fit$classes)) stop_argument("type", "\"class\" needs a factor as response")
  if (type == "terms" && !has_terms(fit)) stop_argument("type", "\"terms\" needs a fit whose formula has k()")
  if (type == "prob" && !has_probabilities(fit)) stop_argument("type", "\"prob\" needs logistic loss")
  type
}

PREDICTIONS <- c("response", "link", "class", "prob", "gradient", "terms")

# n x t: the function itself at rows, without offset.
link_at <- function(fit, rows, run) {
  rows <- rows_under(rows, fit$L, fit$kernel)
  sums <- rows_multiply(rows, fit_columns(fit), fit$coefficients, run)$sums
  link <- sums + rep(fit$intercept, each = rows$n)
  dimnames(link) <- if (!is.null(fit$outputs)) list(NULL, fit$outputs)
  link
}

# The centres, with what was prepared of them.
fit_columns <- function(fit) {
  if (is.null(fit$state$columns)) fit$state$columns <- ridge_centers(fit$centers, fit$L, fit$kernel)
  fit$state$columns
}

# The link at the rows of the fit: computed when it is first asked for.
fitted_link <- function(fit, run) {
  if (is.null(fit$state$fitted)) {
    data <- kept_data(fit)
    link <- link_at(fit, data$rows, run)
    fit$state$fitted <- if (is.null(data$offset)) link else link + collected(data$offset)
  }
  fit$state$fitted
}

# Returns the fitted link for further computations: numbers, or a column that stays with the rows on their workers.
link_of_rows <- function(fit, run) {
  data <- kept_data(fit)
  if (!is_column(data$y)) return(fitted_link(fit, run))
  link <- shift_columns(rows_link(data$rows, fit_columns(fit), fit$coefficients, run), -fit$intercept)
  if (is.null(data$offset)) link else link + data$offset
}

# A fit to rows on workers with some of them for its rows, in this session.
fit_to_show <- function(fit, most = 20000) {
  data <- kept_data(fit)
  if (!is_column(data$y)) return(fit)
  rows <- spread_rows(fit$n, most)
  fit$data <- some_of_data(data, rows)
  fit$n <- length(rows)
  fit$state <- list2env(list(columns = fit$state$columns), parent = emptyenv())
  fit
}

# Rows `index` of what is known of each row of `data`, the problem of a fit or what it keeps of it, in this session.
some_of_data <- function(data, index, L = NULL, kernel = NULL) {
  weights <- numbers_at(data$weights, index)
  list(
    rows = ridge_rows(rows_take(data$rows, index), L, kernel), y = numbers_at(data$y, index),
    weights = if (!is.null(weights)) as.vector(weights), offset = numbers_at(data$offset, index)
  )
}

kept_data <- function(fit) {
  if (is.null(fit$data)) stop_argument("object", "does not keep its rows. Fit with `solver = list(keep = TRUE)`.")
  fit$data
}

# The rows of the fit in the form of new_rows().
own_rows <- function(fit) {
  data <- kept_data(fit)
  list(rows = data$rows, offset = data$offset, own = TRUE, restore = \(result) restore_fitted(fit, result))
}

# list(rows, offset, restore, index, own) of new data in any form that fits take. `restore` makes of a result at these
# rows, number `index` of newdata, one for all: NA where values are missing, named as the rows are. Where there is no
# row, the first centre stands in, and no result is of it.
new_rows <- function(fit, newdata, offset = NULL, na.action = stats::na.pass, arg = "newdata") {
  if (is.function(newdata) || is_elsewhere(newdata) || inherits(newdata, "sparseMatrix")) {
    rows <- rows_of_fit(newdata, arg, fit$d, fit$names)
    return(list(rows = rows, offset = new_offset(fit, offset, rows$n), restore = identity, own = FALSE))
  }
  names <- own_row_names(newdata)
  if (!is.null(fit$terms)) {
    made <- model_newdata(fit, newdata, arg)
    if (is.null(offset)) offset <- made$offset
    newdata <- made$points
  } else {
    newdata <- own_columns(newdata, arg, fit$names)
  }
  points <- check_points(newdata, arg, fit$d, fit$names, infinite = TRUE, single = TRUE, none = TRUE)
  kept <- complete_rows(points, new_offset(fit, offset, nrow(points)), na.action, arg)
  if (length(kept$index) == 0) {
    kept$points <- fit$centers[1, , drop = FALSE]
    kept$offset <- NULL
  }
  restore <- function(result) {
    if (!is.null(kept$from)) result <- take_rows(result, kept$from)
    if (is.null(names)) result else name_rows(result, names[kept$rows])
  }
  list(rows = ridge_rows(kept$points), offset = kept$offset, restore = restore, index = kept$index, own = FALSE)
}

new_offset <- function(fit, offset, n) {
  if (fit$has_offset && is.null(offset)) stop_argument("offset", "must be given, because the fit has an offset")
  if (is.null(offset)) return(NULL)
  check_offset(replace(offset, is.na(offset), 0), n, ncol(fit$coefficients)) + 0 * as.vector(offset)
}

# The rows without missing values, and how results at them become results for all that `na.action` leaves or pads:
# `from` has their places among these, NA for others (NULL: they are the same), `rows` those in newdata; `index`: the
# complete rows in newdata.
complete_rows <- function(points, offset, na.action, arg) {
  action <- as_na_action(na.action)
  every <- seq_len(nrow(points))
  if (all_finite(points) && !anyNA(offset)) {
    return(list(points = points, offset = offset, from = if (length(every) == 0) every, rows = every, index = every))
  }
  if (inherits(points, "single_points")) points <- widen(points, arg)
  check_finite(points, arg, missing = TRUE)
  if (anyNA(offset)) points[is.na(rowSums(offset)), ] <- NA
  kept <- apply_na_action(action, as_frame(points), arg)
  rows <- attr(kept, "row.names")
  whole <- !is.na(rowSums(kept$x))
  lost <- attr(kept, "na.action")
  list(
    points = kept$x[whole, , drop = FALSE], offset = if (!is.null(offset)) offset[rows[whole], , drop = FALSE],
    from = stats::napredict(lost, replace(rep(NA_integer_, length(whole)), whole, seq_len(sum(whole)))),
    rows = if (inherits(lost, "exclude")) every else rows, index = rows[whole]
  )
}

# Returns `rows` of a vector, a factor, a matrix or an array of three dimensions.
take_rows <- function(x, rows) {
  switch(max(1, length(dim(x))), x[rows], x[rows, , drop = FALSE], x[rows, , , drop = FALSE])
}

name_rows <- function(x, names) {
  if (is.null(dim(x))) names(x) <- names else dimnames(x)[[1]] <- names
  x
}

# What is computed at the rows of a fit, for all those that the user gave: na.exclude() pads. Rows that were held out
# have no place in it.
restore_fitted <- function(fit, result) {
  if (!is.null(fit$row_names)) result <- name_rows(result, fit$row_names)
  if (!is.null(fit$held) || !inherits(fit$na.action, "exclude")) return(result)
  from <- stats::napredict(fit$na.action, seq_len(fit$n))
  names <- if (!is.null(fit$row_names)) {
    names(stats::napredict(fit$na.action, stats::setNames(seq_len(fit$n), fit$row_names)))
  }
  result <- take_rows(result, from)
  if (is.null(names)) result else name_rows(result, names)
}

as_type <- function(fit, link, type) {
  classes <- fit$classes
  if (type == "response") type <- response_type(fit)
  switch(type,
    link = if (ncol(link) == 1) as.vector(link) else link,
    prob = class_probabilities(fit, link),
    second = , mean = as.vector(means_of_link(fit$family, link)),
    sorted = sort_levels(link),
    class = factor(classes[class_codes(link)], levels = classes)
  )
}

has_probabilities <- function(fit) fit$family$of_classes

# What the mean of a response is: as glm() has it, the probability of the larger value where two numbers or logical
# values were fitted by logistic loss.
response_type <- function(fit) {
  if (fit$family$link == "log") return("mean")
  if (length(fit$family$levels) > 1) return("sorted")
  if (is.null(fit$classes)) "link" else if (fit$binary && has_probabilities(fit)) "second" else "class"
}
