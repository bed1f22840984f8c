#' Predictions from a kernel regression
#'
#' Predicts the mean of the response at new points, with standard errors and intervals, or the gradient of the mean, or
#' the variance of the noise. `confint()` returns the ends of `predict(interval = "confidence")`.
#'
#' @param object A fit from [kernel_regression()].
#' @param newdata Rows with the columns of the fit, or a data frame with its variables. Missing (default): the rows of
#'   the fit.
#' @param type `"response"` (default), the mean; `"gradient"`, the slopes of the local lines, or for fits of type
#'   `"constant"` the derivatives of the local mean; or `"variance"`, the variance of the noise.
#' @param se.fit Whether to return standard errors of the mean.
#' @param interval,level `"none"` (default), `"confidence"` for intervals of the mean, or `"prediction"` for intervals
#'   of a new response. They have probability `level` and use Student's distribution with n - df degrees of freedom.
#' @param na.action What to do about missing values in `newdata`, as for [predict.flash_kde()].
#' @param control A [flash_control()]. Settings that it leaves out are those of the fit.
#' @param parm Numbers of rows of the fit, or rows as for `newdata`.
#' @param ... For `confint()`: `na.action` and `control`. Otherwise any argument here is an error.
#' @section Extrapolation:
#' Far from the rows the ridge of [kernel_regression()] shrinks local lines to means of the nearest rows, and standard
#' errors grow with the distance. A warning of class `flashkernel_warning_extrapolated` lists rows of `newdata` where
#' this part of the standard error is above half the standard deviation of the responses, and rows where the weights
#' \eqn{l_i}{l_i} multiply errors of the responses by more than 5.
#' @returns For one response and for several responses:
#'   \item{`type = "response"`, `"variance"`}{a vector; a matrix with a column for each response.}
#'   \item{`type = "gradient"`}{a matrix with a column for each numeric variable, in units of the response per unit of
#'     the variable; an array whose third dimension is the response.}
#'   \item{`interval`}{a matrix with columns `fit`, `lwr` and `upr`; such an array.}
#'   \item{`confint()`}{a matrix with columns such as `2.5 %` and `97.5 %`; such an array.}
#'   \item{`se.fit = TRUE`}{a list of `fit`, `se.fit`, `df` and `residual.scale`, as for [stats::predict.lm()].}
#' @rawRd \concept{prediction interval}\concept{confidence interval of a curve}
#' @export
#' @examples
#' curve_fit <- kernel_regression(mpg ~ wt, data = mtcars)
#' at <- data.frame(wt = seq(1.5, 5.5, 0.1))
#' band <- predict(curve_fit, at, interval = "confidence")
#' matplot(at$wt, band, type = "l", lty = c(1, 2, 2), col = 1)
#'
#' fit <- kernel_regression(mpg ~ wt + hp, data = mtcars, bandwidth = c(0.8, 60))
#' predict(fit, data.frame(wt = c(2, 3, NA), hp = 100))
#' predict(fit, data.frame(wt = 3, hp = 100), se.fit = TRUE)$se.fit
#' head(predict(fit, type = "gradient"))
#' confint(fit, 1:3)
predict.kernel_regression <- function(object, newdata, type = c("response", "gradient", "variance"), se.fit = FALSE,
                                      interval = c("none", "confidence", "prediction"), level = 0.95,
                                      na.action = stats::na.pass, control = NULL, ...) {
  check_dots_empty(...)
  type <- check_choice(type, c("response", "gradient", "variance"), "type")
  se.fit <- check_flag(se.fit, "se.fit")
  interval <- check_choice(interval, INTERVALS, "interval")
  level <- check_level(level)
  run <- start_run(settle_control(control, NULL, object$control), "Predicting")
  at <- regression_targets(object, if (!missing(newdata)) newdata, na.action)
  with_errors <- se.fit || interval != "none"
  if (type != "response" && with_errors) {
    stop_argument("type", "must be \"response\" with standard errors or intervals: found ", quote_text(type))
  }
  if (type == "gradient" && object$d == 0) stop_argument("type", "must not be \"gradient\" without numeric columns")
  if (type == "gradient") {
    return(by_response(object, at$restore(local_slopes(object, at$points, run)), point_names(object)))
  }
  if (type == "variance") return(as_response(object, at$restore(local_noise(object, at$points, run))))
  found <- local_predictions(object, at$points, with_errors, interval == "prediction", run)
  if (!is.null(found$multiplied)) {
    whole <- \(values) as.vector(at$restore(matrix(values)))
    spread <- weighted_sds(object$y, object$weights)
    most <- apply(found$bias / rep(ifelse(spread > 0, spread, 1), each = nrow(found$bias)), 1, max)
    warn_extrapolated(whole(found$multiplied), whole(most), own_row_names(newdata))
  }
  value <- if (interval == "none") as_response(object, at$restore(found$fit)) else {
    width <- stats::qt((1 + level) / 2, residual_df(object)) * sqrt(found$se^2 + found$noise)
    around <- lapply(list(fit = 0, lwr = -width, upr = width), \(by) at$restore(found$fit + by))
    by_response(object, aperm(array(unlist(around), c(NROW(around$fit), ncol(object$y), 3)), c(1, 3, 2)), names(around))
  }
  if (!se.fit) return(value)
  se <- as_response(object, at$restore(found$se))
  list(fit = value, se.fit = se, df = residual_df(object), residual.scale = object$sigma)
}

#' @rdname predict.kernel_regression
#' @export
confint.kernel_regression <- function(object, parm, level = 0.95, ...) {
  interval_limits(object, if (!missing(parm)) parm, level, ...)
}

# The ends of predict(interval = "confidence") at rows of the fit, by number, or at new rows. NULL: all rows of the fit.
interval_limits <- function(object, parm, level, ...) {
  level <- check_level(level)
  of_fit <- is.null(parm) || is.numeric(parm) && is.null(dim(parm))
  at <- if (!of_fit) list(parm)
  found <- do.call(stats::predict, c(list(object), at, list(interval = "confidence", level = level, ...)), quote = TRUE)
  shape <- dim(found)
  names <- dimnames(found)
  rows <- if (of_fit && !is.null(parm)) pick(parm, shape[1], "parm") else seq_len(shape[1])
  ends <- array(found, c(shape[1:2], length(found) / prod(shape[1:2])))[rows, 2:3, , drop = FALSE]
  array(ends, c(length(rows), 2, shape[-(1:2)]), c(list(names[[1]][rows], limit_names(level)), names[-(1:2)]))
}

residual_df <- function(fit) max(n_used(fit) - fit$df, 1)

# Returns a vector for one response, and a matrix for several.
as_response <- function(fit, values) {
  if (ncol(fit$y) == 1) return(as.vector(values))
  colnames(values) <- output_labels(fit)
  values
}

output_labels <- function(fit) if (is.null(fit$outputs)) paste0("y", seq_len(ncol(fit$y))) else fit$outputs

# Returns a matrix with columns `names` for one response, and an array of such matrices for several.
by_response <- function(fit, values, names) {
  t <- ncol(fit$y)
  rows <- length(values) / (length(names) * t)
  if (t == 1) return(matrix(values, rows, length(names), dimnames = list(NULL, names)))
  array(values, c(rows, length(names), t), list(NULL, names, output_labels(fit)))
}

# Returns list(points, restore): checked targets, NULL for the rows of the fit, and a function that extends a matrix of
# results to all rows, including those with missing values. Columns that are not in the fit are ignored.
regression_targets <- function(fit, newdata, na.action) {
  if (is.null(newdata)) return(list(points = NULL, restore = \(result) stats::napredict(fit$na.action, result)))
  if (!is.null(fit$terms)) {
    fit$terms <- stats::delete.response(fit$terms)
  } else if (is.data.frame(newdata) && !is.null(fit$discrete)) {
    newdata <- newdata[intersect(names(newdata), fit$discrete$names)]
  }
  if (is.null(fit$terms)) newdata <- dates_as_numbers(newdata, fit$dates, "newdata")
  points <- if (is.null(fit$discrete)) new_points.default(fit, newdata) else new_points.mixed(fit, newdata)
  check_finite(points, "newdata", missing = TRUE)
  kept <- newdata_rows(points, na.action)
  list(points = kept$points, restore = \(result) kept$restore(result, NA))
}

# ---- at targets -------------------------------------------------------------------------------

regression_data <- function(fit, y = fit$y) local_data(fit$x, y, fit$weights, fit$factor, fit$discrete, fit$ridge)

# Returns list(fit, se, noise, multiplied, bias). `fit`, `se` and `noise`, the variance of a response, are m x t; the
# latter two are 0 if not requested. `multiplied`: of error_factors(), for targets that are not the rows of the fit.
# `bias`: root of shrunk_squares(), m x t; standard errors contain it.
local_predictions <- function(fit, at, errors, noise, run) {
  if (is.null(at) && !errors) return(list(fit = fit$fitted, se = 0, noise = 0))
  none <- matrix(0, NROW(at), ncol(fit$y))
  if (has_none(at)) return(list(fit = none, se = none, noise = 0))
  chosen <- errors && fit$selector != "user"
  biases <- if (chosen) bias_sources(fit, run)
  data <- regression_data(fit, cbind(fit$y, biases$values))
  responses <- seq_len(ncol(fit$y))
  z <- if (!is.null(at)) whitened(at, data)
  layout <- layout_of(fit$type, fit$d, ncol(data$y))
  variance <- if (errors) noise_variance(fit, data, run)
  found <- by_cells(data, z, \(data, at, own) {
    M <- local_moments(data, at, layout, run)$all
    fits <- local_fits(M, layout, fit$type, data)
    bias <- shrunk_squares(fits, fit$square_slopes, nrow(M), ncol(fit$y))
    if (errors) more <- bias + effect_variance(fits$lacking, data$guide, variance)
    means <- fits$fit + rep(data$centre, each = nrow(M))
    list(
      fit = means[, responses, drop = FALSE], bias = sqrt(bias), left = means[, -responses, drop = FALSE],
      variance = if (errors) local_errors(data, M, fits, layout, variance, at, run)^2,
      more = if (errors) matrix(more, nrow(M), ncol(fit$y)),
      multiplied = if (!is.null(at)) error_factors(data, M, fits, layout, at)
    )
  })
  # an estimated bias may be near 0 by chance: by the mean square near the target, intervals cover on average there
  square <- if (chosen) pmax(found$left^2, smoothed(data, biases$squares, z, run)) else 0
  list(
    fit = found$fit, se = if (errors) sqrt(found$variance + square + found$more) else 0,
    noise = if (noise) noise_at(fit, data, z, run) else 0, multiplied = found$multiplied, bias = found$bias
  )
}

# Returns list(values, squares), n x t: values whose local fit estimates the negative bias, and its squares at the rows. The bias
# of the hat matrix S is S m - m. With residuals r, and S y + S r for the mean m, it is -S (2 r - S r). Cached in the fit.
bias_sources <- function(fit, run) {
  later <- fit$later
  if (is.null(later$biases)) {
    smooth <- \(y) row_fits(regression_data(fit, y), fit$type, run)$fitted
    r <- fit$y - fit$fitted
    values <- 2 * r - smooth(r)
    later$biases <- list(values = values, squares = smooth(values)^2)
  }
  later$biases
}

# A fit sum l_i y_i multiplies errors of the responses by up to sum |l_i|. This is 1 for local means, and up to 2.3 for
# local lines at the rows of their fits. In ten-fold cross-validation a few rows at the edge have 3 to 5. Rows above 5
# lie about two bandwidths from the mean of the rows with weight (measured on faithful, mtcars, swiss, quakes,
# airquality, trees, diamonds).
MOST_MULTIPLIED <- 5

# Returns sum |l_i| at the targets where it may be above MOST_MULTIPLIED, and 1 elsewhere. It is at most the root of
# `stretch`, because sum k_i / S is 1. If there are so many such targets that all would take longer than their fits, it
# is computed for some, and is NaN for the others.
error_factors <- function(data, M, fits, layout, at) {
  factors <- rep(1, nrow(M))
  far <- which(fits$stretch > MOST_MULTIPLIED^2)
  if (length(far) == 0) return(factors)
  most <- max(1, min(100, floor(2e5 / nrow(data$z))))
  looked_at <- if (length(far) <= most) far else far[unique(round(seq(1, length(far), length.out = most)))]
  factors[far] <- NaN
  factors[looked_at] <- by_weights(data, M, fits, layout, at, looked_at, \(l) matrix(rowSums(abs(l))))
  factors
}

# Above this, in standard deviations of a response, a fit whose slopes shrink is extrapolated.
MOST_BIAS <- 0.5

# `multiplied`: of error_factors(); `bias`: of local_predictions(), in standard deviations of responses; both NA for
# rows with missing values; `names`: row names of newdata, or NULL.
warn_extrapolated <- function(multiplied, bias, names) {
  steep <- which(multiplied > MOST_MULTIPLIED)
  far <- sort(union(steep, which(bias > MOST_BIAS)))
  if (length(far) == 0) return(invisible())
  rows <- if (length(names) == length(multiplied)) shorten(names[far]) else far
  warn_user(
    "extrapolated", "predictions at ", ngettext(length(far), "row ", "rows "), few_of(rows),
    if (any(is.nan(multiplied))) ", and perhaps at others,",
    " of `newdata` are extrapolated far beyond the rows of the fit: ",
    if (length(steep) == 0) "slopes shrink to 0 there, for which standard errors grow." else paste0(
      "errors of the responses are multiplied by up to ", format(max(multiplied[steep]), digits = 2),
      " there. `type = \"constant\"` in kernel_regression() does not extrapolate."
    )
  )
}

noise_at <- function(fit, data, z, run) {
  if (is.null(z)) noise_variance(fit, data, run) else smoothed(data, noise_squares(fit), z, run)
}

local_noise <- function(fit, at, run) {
  if (has_none(at)) return(matrix(0, 0, ncol(fit$y)))
  data <- regression_data(fit)
  noise_at(fit, data, if (!is.null(at)) whitened(at, data), run)
}

# Returns the derivatives by the columns of x, m x d t.
local_slopes <- function(fit, at, run) {
  t <- ncol(fit$y)
  if (has_none(at)) return(matrix(0, 0, fit$d * t))
  data <- regression_data(fit)
  layout <- layout_of(fit$type, fit$d, ncol(data$y), "order_of_slopes")
  slope <- by_cells(data, if (!is.null(at)) whitened(at, data), \(data, at, own) {
    M <- local_moments(data, at, layout, run)$all
    list(slope = local_fits(M, layout, fit$type, data)$slope)
  })$slope
  # b'L^-1 of each row
  for (r in seq_len(t)) {
    own <- (r - 1) * fit$d + seq_len(fit$d)
    slope[, own] <- t(backsolve(fit$factor, t(slope[, own, drop = FALSE]), upper.tri = FALSE, transpose = TRUE))
  }
  slope
}
