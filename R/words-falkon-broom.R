# Methods of broom's generics, registered when package generics is loaded: lines of NAMESPACE name it.

#' Kernel regressions as data frames
#'
#' Methods for the functions of package broom. `tidy()`: the [marginal_effects()], for a kernel regression has no few
#' coefficients that mean something. `glance()`: one row about the fit. `augment()`: the data with what was fitted.
#'
#' @param x A fit from [kernel_ridge()].
#' @param conf.int,conf.level Whether to have intervals, and of what level.
#' @param data,newdata Rows to augment. `data`, those of the fit: by default the variables that the fit keeps, for one
#'   by formula, or its columns. With `newdata` predictions for other rows; the response need not be among them.
#' @param se_fit Whether to have standard errors.
#' @param ... For `tidy()`, arguments of [marginal_effects()]; else not used.
#' @returns Data frames (tibbles where package tibble is installed). `glance()`: `nobs`, `n.centers`, `lambda`, of a
#'   numeric response `r.squared` and `rmse` (means over the responses), of classes `accuracy`, of logistic loss
#'   `deviance` and `null.deviance`, then `iterations` and `converged`.
#'   `augment()`: `.fitted` and `.resid`, or `.pred_class` and a column `.pred_` for the probability of each class, and
#'   `.se.fit`. Several responses have a column for each, with its name.
#' @name ridge-broom
#' @examplesIf requireNamespace("broom", quietly = TRUE)
#' fit <- kernel_ridge(mpg ~ wt + hp, data = mtcars)
#' broom::tidy(fit)
#' broom::glance(fit)
#' broom::augment(fit, newdata = head(mtcars))
NULL

#' @rdname ridge-broom
#' @exportS3Method generics::tidy
tidy.kernel_ridge <- function(x, conf.int = FALSE, conf.level = 0.95, ...) {
  effects <- marginal_effects(x, level = conf.level, ...)
  if (!check_flag(conf.int, "conf.int")) effects <- effects[setdiff(names(effects), c("conf.low", "conf.high"))]
  as_tibble(data.frame(unclass(effects)[names(effects)]))
}

#' @rdname ridge-broom
#' @exportS3Method generics::glance
glance.kernel_ridge <- function(x, ...) {
  check_dots_empty(...)
  error <- fit_error(x)
  if (is.matrix(error)) error <- colMeans(error)
  part <- \(name) if (name %in% names(error)) error[[name]]
  wrong <- part("misclassified")
  about <- list(
    nobs = stats::nobs(x), n.centers = nrow(x$coefficients), lambda = x$lambda, r.squared = part("r.squared"),
    rmse = part("rmse"), accuracy = if (!is.null(wrong)) 1 - wrong, deviance = part("deviance"),
    null.deviance = if (!is.null(part("deviance"))) null_deviance(x), iterations = x$iterations, converged = x$converged
  )
  as_tibble(as.data.frame(Filter(length, about)))
}

#' @rdname ridge-broom
#' @exportS3Method generics::augment
augment.kernel_ridge <- function(x, data = NULL, newdata = NULL, se_fit = FALSE, ...) {
  check_dots_empty(...)
  se_fit <- check_flag(se_fit, "se_fit")
  of_fit <- is.null(newdata)
  # without data of the user's, there is nothing to pad
  if (of_fit && is.null(data)) x$na.action <- NULL
  frame <- as_frame_of(if (of_fit) fit_frame(x, data) else newdata)
  at <- \(type, ...) if (of_fit) stats::predict(x, type = type, ...) else stats::predict(x, newdata, type = type, ...)
  added <- if (is.null(x$classes)) {
    named_columns(x, ".fitted", if (of_fit) stats::fitted(x) else at("response"))
  } else {
    p <- if (x$loss != "squared") at("prob")
    c(list(.pred_class = at("class")), if (!is.null(p)) named_columns(x, ".pred", p))
  }
  if (of_fit && is.null(x$classes)) added <- c(added, named_columns(x, ".resid", stats::residuals(x)))
  if (se_fit) {
    added <- c(added, named_columns(x, ".se.fit", at("link", se.fit = TRUE)$se.fit))
  }
  augmented(frame, added)
}

# The rows of a fit, or those of `data` that are its rows.
fit_frame <- function(x, data) {
  if (is.null(data)) {
    kept <- kept_data(x)
    own <- if (!is.null(kept$frame)) kept$frame else {
      stats::setNames(as.data.frame(rows_take(kept$rows, seq_len(x$n))), column_names(x))
    }
    y <- fit_response(x)
    y <- if (!is.null(x$classes)) factor(x$classes[class_codes(y)], x$classes) else as_vector_if_one(y)
    if (!is.matrix(y)) own <- cbind(stats::setNames(data.frame(y), response_label(x)), own)
    rownames(own) <- x$row_names
    return(own)
  }
  rows_as_fitted(x, data, length(restore_fitted(x, seq_len(x$n))))
}

# Those of `data`, with the rows that the fit left out or not, that are its `n` rows.
rows_as_fitted <- function(x, data, n) {
  omitted <- if (inherits(x$na.action, "omit")) x$na.action
  if (length(omitted) > 0 && NROW(data) == x$n + length(omitted)) data <- data[-omitted, , drop = FALSE]
  if (NROW(data) != n) stop_argument("data", "must have the rows of the fit, ", whole(n), ": found ", whole(NROW(data)))
  data
}

augmented <- function(frame, added) {
  frame[names(added)] <- lapply(added, unname)
  as_tibble(frame)
}

as_frame_of <- function(data) if (is.data.frame(data)) data else as.data.frame(data)

# One column, or one for each response or class, with its name.
named_columns <- function(x, name, values) {
  if (!is.matrix(values)) return(stats::setNames(list(values), name))
  columns <- lapply(seq_len(ncol(values)), \(k) values[, k])
  labels <- colnames(values)
  stats::setNames(columns, paste0(name, "_", if (is.null(labels)) output_names(x) else labels))
}
