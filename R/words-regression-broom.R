# Methods of broom's generics, registered when package generics is loaded.

#' Kernel regressions by local fits as data frames
#'
#' `tidy()`: a row for each variable (and response), with the mean of its slope and its bandwidth. `glance()`: one
#' row about the fit. `augment()`: the data with what was fitted.
#'
#' @param x A fit from [kernel_regression()].
#' @param data The data of the fit, as augmented; by default the columns of the fit and the response.
#' @param newdata Other rows.
#' @param se_fit Whether to have standard errors.
#' @param ... Not used; anything here is an error.
#' @returns Data frames (tibbles where package tibble is installed). `tidy()`: `term`, `estimate`, `bandwidth`, `lambda`
#'   where there are levels, and `response` where there are several. `glance()`: `nobs`, `r.squared`, `sigma`, `df`,
#'   `criterion` and `value`.
#'   `augment()`: `.fitted`, `.resid`, `.hat` and `.se.fit`.
#' @name regression-broom
#' @examplesIf requireNamespace("broom", quietly = TRUE)
#' fit <- kernel_regression(mpg ~ wt + hp, data = mtcars, bandwidth = c(0.8, 60))
#' broom::tidy(fit)
#' broom::glance(fit)
#' broom::augment(fit, newdata = head(mtcars))
NULL

#' @rdname regression-broom
#' @exportS3Method generics::tidy
tidy.kernel_regression <- function(x, ...) {
  check_dots_empty(...)
  t <- ncol(x$y)
  lambda <- x$discrete$lambda
  # of each response the slopes of the numbers; levels have none
  slopes <- matrix(if (x$d > 0) summary(x)$slopes[, "Mean"] else 0, x$d, t)
  slopes <- rbind(unname(slopes), matrix(NA_real_, length(lambda), t))
  terms <- c(point_names(x), names(lambda))
  frame <- data.frame(
    response = rep(output_labels(x), each = length(terms)), term = rep(terms, t), estimate = as.vector(slopes),
    bandwidth = rep(c(sqrt(diagonal(x$bandwidth)), rep(NA_real_, length(lambda))), t)
  )
  if (length(lambda) > 0) frame$lambda <- rep(c(rep(NA_real_, x$d), unname(lambda)), t)
  as_tibble(if (t > 1) frame else frame[-1])
}

#' @rdname regression-broom
#' @exportS3Method generics::glance
glance.kernel_regression <- function(x, ...) {
  check_dots_empty(...)
  search <- if (is.null(x$search)) list(criterion = "user", value = NA_real_) else x$search
  as_tibble(data.frame(
    nobs = n_used(x), r.squared = mean(x$r.squared), sigma = mean(x$sigma), df = x$df, criterion = search$criterion,
    value = search$value
  ))
}

#' @rdname regression-broom
#' @exportS3Method generics::augment
augment.kernel_regression <- function(x, data = NULL, newdata = NULL, se_fit = FALSE, ...) {
  check_dots_empty(...)
  se_fit <- check_flag(se_fit, "se_fit")
  of_fit <- is.null(newdata)
  if (of_fit && is.null(data)) x$na.action <- NULL
  frame <- as_frame_of(if (of_fit) regression_rows(x, data) else newdata)
  found <- if (of_fit) stats::predict(x, se.fit = se_fit) else stats::predict(x, newdata, se.fit = se_fit)
  added <- named_columns(x, ".fitted", if (se_fit) found$fit else found)
  if (of_fit) added <- c(added, named_columns(x, ".resid", stats::residuals(x)), list(.hat = stats::hatvalues(x)))
  if (se_fit) added <- c(added, named_columns(x, ".se.fit", found$se.fit))
  augmented(frame, added)
}

# The rows of the fit, or those of `data` that are its rows.
regression_rows <- function(x, data) {
  if (is.null(data)) {
    y <- stats::setNames(as.data.frame(x$y), if (ncol(x$y) > 1) output_labels(x) else response_label(x))
    own <- if (is.null(x$discrete)) stats::setNames(as.data.frame(x$x), point_names(x)) else {
      decode(own_places(x), x$discrete)
    }
    return(cbind(y, own))
  }
  rows_as_fitted(x, data, length(stats::napredict(x$na.action, seq_len(x$n))))
}
