#' Summaries, residuals, likelihood and draws of a kernel ridge regression
#'
#' `print()` and `summary()` show what was fitted and how well. The others are as for models of other packages.
#'
#' @details
#' **Model.** A kernel regression is the posterior mean of a Bayesian model: coefficients \eqn{\alpha \sim N(0, \tau^2
#' K^{-1})}{alpha ~ N(0, tau^2 K^-1)}, noise of variance \eqn{\sigma^2 / w_i}{sigma^2 / w_i}, and
#' \eqn{n \lambda = \sigma^2 / \tau^2}{n lambda = sigma^2 / tau^2}. For logistic loss the fit is the posterior mode, and
#' the posterior is approximated by a normal distribution around it (Laplace's approximation). With more than two
#' classes, more than 4,000 coefficients (centres times classes) have a posterior for each class, as if the others were
#' known.
#'
#' **Effective degrees of freedom** are the trace of the matrix that maps the response to the fitted values, including 1
#' for the intercept. `df.residual()` is the number of rows of positive weight minus the effective degrees of freedom.
#' `sigma()` is the square root of the weighted residual sum of squares over `df.residual()`. `hatvalues()` is the
#' diagonal of the matrix. `rstandard()` returns residuals over their standard deviations, and `NaN` at a row that the
#' fit interpolates, as for [lm()].
#'
#' **`logLik()`** is the log-likelihood of the response; the scale of normal noise or of the Gamma family has its
#' maximum. Its `df` is the effective degrees of freedom, and 1 for such a scale. [AIC()] and [BIC()] follow. Weights are
#' reciprocals of variances, as in [lm()]. With `marginal = TRUE` it is the log marginal likelihood, which compares
#' kernels, bandwidths and `lambda` (by Laplace's approximation where the loss is not squared).
#'
#' **Cost.** Everything from degrees of freedom to draws is computed when it is first requested, and cached in the fit.
#' It takes \eqn{O(n m^2 + m^3)}{O(nm^2 + m^3)} operations with `m` centres.
#'
#' **Large exact fits**, of more rows than are factorised (6,000 on the CPU), are different:
#' - Standard errors have a relative error of a thousandth, for up to 10,000 predictions at a time.
#' - Degrees of freedom, and with them sigma, AIC and the `df` of the likelihood, and the marginal likelihood are
#'   estimates by 8 random vectors, the same in every call. `summary()` prints the standard error of the first, the
#'   attribute `error` is that of the last.
#' - Leverages and draws are not available.
#'
#' @param x,object,model,formula A fit from [kernel_ridge()], or its summary. All functions except `coef()` and
#'   `variable.names()` need a fit that keeps its rows.
#' @param effects Logical: compute average marginal effects with their standard errors? `NULL` (default): for a fit that
#'   keeps its rows, if it takes a few seconds at most (up to 50 columns, and 2e7 kernels times outputs). `FALSE` omits the
#'   importance of variables, too.
#' @param digits Number of significant digits, from 1 to 22.
#' @param type Type of residuals. `"response"` (default): the response minus the fitted values (for logistic loss, the
#'   response is the indicator of the class). `"pearson"`: these over their standard deviation in the model, times the
#'   square root of the weights. `"deviance"`: residuals whose squares add up to the deviance.
#' @param marginal Logical: the marginal likelihood?
#' @param nsim,seed Number of draws, and the seed as in [stats::simulate()].
#' @param ... Not used; anything here is an error.
#' @returns
#' - `summary()`: a list with the parts of the fit that are not as long as the data, quantiles of the `residuals`
#'   (deviance residuals for logistic loss), `effects`, `importance` (see [plot.kernel_ridge()]),
#'   `bytes` (memory of the factors and centres), and `error`: the
#'   `rmse` and `r.squared` of every response; for classes `misclassified`, the share of rows whose fitted class is
#'   wrong; for logistic loss also the `deviance`, and `explained`, the share of the deviance that the fit explains.
#' - `coef()`: the coefficients of the kernels at the centres, a matrix for several responses (those of linear terms
#'   beside `k()` are in `summary()$linear`). `vcov()`: their covariance matrix; a list of matrices for several responses.
#' - `fitted()`: the mean of the response at the rows of the fit. For logistic loss this is the probability of the
#'   second class, or a matrix of the probabilities of all classes; for classes with squared loss it is the fitted
#'   function. `residuals()`, `rstandard()` and `hatvalues()` have the same form (but a logistic fit has one deviance
#'   residual for each row).
#' - `deviance()`: the weighted sum of squares, or of twice the losses. `sigma()`: one number for each
#'   response. `nobs()`: the number of rows of positive weight. `family()`: an object of
#'   [stats::family], or a [ridge_family()].
#' - `simulate()`: draws of the responses at the rows of the fit from the posterior predictive distribution, a data
#'   frame with a column for each draw (a matrix, for several responses) and the attribute `"seed"`.
#' - `formula()` and `model.frame()`: for fits by formula. `model.frame()` evaluates the data again.
#' @rawRd \concept{residuals}\concept{leverage}
#' @name ridge-methods
#' @examples
#' fit <- kernel_ridge(mpg ~ wt + hp, data = mtcars)
#' summary(fit)
#' head(residuals(fit))
#' AIC(fit)
#' update(fit, . ~ . - hp, lambda = 0.01)
#' matplot(mtcars$wt, simulate(fit, 3, seed = 1), pch = 1)
NULL

#' @rdname ridge-methods
#' @export
print.kernel_ridge <- function(x, digits = max(3L, getOption("digits") - 3L), ...) {
  digits <- check_digits(digits)
  known <- !is.null(x$data) && (!is.null(x$state$fitted) || as.double(x$n) * nrow(x$coefficients) <= 1e8)
  about <- described(x)
  print_model(about, digits)
  if (known) print_error(fit_error(x), digits)
  print_lines(Validation = validation_label(about, digits))
  invisible(x)
}

#' @rdname ridge-methods
#' @export
summary.kernel_ridge <- function(object, effects = NULL, digits = NULL, ...) {
  check_dots_empty(...)
  if (!is.null(digits)) digits <- check_count(digits, "digits", max = 22)
  m <- nrow(object$coefficients)
  explains <- !isFALSE(effects) && !is.null(object$data) && !inherits(object$centers, "sparseMatrix")
  if (is.null(effects)) {
    effects <- !is.null(object$data) && !is_column(object$data$y) && object$d <= 50 &&
      as.double(object$n) * length(object$coefficients) <= 2e7 && object$family$has_likelihood && !inherits(object$centers, "sparseMatrix")
  }
  structure(class = "summary.kernel_ridge", c(described(object), list(
    residuals = if (!is.null(object$data)) residual_quantiles(object), error = fit_error(object),
    linear = if (!is.null(object$data) && has_terms(object)) linear_table(object),
    effects = if (check_flag(effects, "effects")) marginal_effects(object),
    importance = if (explains) fit_importance(object, start_run(object$control, "Importance"))$importance,
    noise = if (effects && object$family$has_likelihood) fit_noise(object, start_run(object$control, "Standard errors")), digits = digits,
    bytes = 8 * as.double(m)^2 + as.double(utils::object.size(object$centers))
  )))
}

# Elements of a fit that a summary omits, because they are as long as the data or the centres.
SUMMARY_LEAVES <- c(
  "settings", "search", "centers", "center_index", "coefficients", "data", "state", "row_names", "held", "na.action", "y"
)

# What of a fit its summary has, and what is printed of it.
described <- function(fit) {
  errors <- fit$trace$validation
  c(unclass(fit)[setdiff(names(fit), c(SUMMARY_LEAVES, "trace"))], list(
    m = nrow(fit$coefficients), weighted = is_weighted(fit), omitted = length(fit$na.action),
    trace = utils::tail(fit$trace, 1), least_held_out = if (!all(is.na(errors))) min(errors, na.rm = TRUE)
  ))
}

#' @rdname ridge-methods
#' @export
print.summary.kernel_ridge <- function(x, digits = x$digits, ...) {
  digits <- check_digits(digits)
  print_model(x, digits)
  print_lines(Validation = validation_label(x, digits))
  if (!is.null(x$residuals)) {
    cat("\n", if (x$family$squared || !is.null(x$family$levels)) "Residuals" else "Deviance residuals", ":\n", sep = "")
    print(x$residuals, digits = digits)
  }
  if (!is.null(x$error)) cat("\n")
  print_error(x$error, digits)
  if (!is.null(x$noise)) {
    sigma <- if (x$family$free_scale) paste0("sigma ", few_of(vapply(x$noise$sigma, format, "", digits = digits)), ", ")
    error <- x$noise$edf_error
    about <- if (!is.null(error)) paste0(" (estimated, standard error ", format(error, digits = 1), ")")
    print_lines(Noise = paste0(sigma, "effective degrees of freedom ", format(x$noise$edf, digits = digits), about))
  }
  if (!is.null(x$importance)) {
    percent <- paste0(vapply(100 * x$importance$importance, format, "", digits = 2), "%")
    print_lines(Importance = few_of(paste(x$importance$term, percent)))
  }
  if (!is.null(x$linear)) {
    cat("\nLinear terms:\n")
    stats::printCoefmat(x$linear, digits = digits)
  }
  if (!is.null(x$effects)) {
    cat("\nAverage marginal effects:\n")
    print_effects(utils::head(x$effects, 30), digits)
    if (nrow(x$effects) > 30) cat("... and", nrow(x$effects) - 30, "more: see marginal_effects()\n")
  }
  invisible(x)
}

residual_quantiles <- function(fit) {
  fit <- fit_to_show(fit)
  r <- as.matrix(fit_residuals(fit, if (fit$family$squared || !is.null(fit$family$levels)) "response" else "deviance"))
  quantiles <- t(apply(r, 2, stats::quantile, names = FALSE))
  dimnames(quantiles) <- list(if (nrow(quantiles) > 1) output_names(fit) else "", c("Min", "1Q", "Median", "3Q", "Max"))
  quantiles
}

# ---- parts of print() -------------------------------------------------------------------------

# A line for each that is not NULL: "Name:      value".
print_lines <- function(...) {
  lines <- Filter(Negate(is.null), list(...))
  cat(sprintf("%-10s %s\n", paste0(names(lines), ":"), unlist(lines)), sep = "")
}

# `x`: of described().
print_model <- function(x, digits) {
  cat(model_title(x), "\n\n", sep = "")
  print_call(x$call, 4, "  ")
  chosen <- \(what) if (what %in% x$chosen) ", chosen from the data"
  print_lines(
    Rows = paste0(
      whole(x$n), " in ", x$d, ngettext(x$d, " column", " columns"), if (x$weighted) ", weighted",
      if (x$has_offset) ", with an offset",
      if (x$omitted > 0) paste0(" (", whole(x$omitted), " omitted because of missing values)")
    ),
    Classes = if (!is.null(x$classes)) paste(x$classes, collapse = ", "),
    Responses = if (is.null(x$classes) && length(x$outputs) > 1) paste(x$outputs, collapse = ", "),
    Kernel = paste0(summed_label(x$kernel), chosen("kernel")),
    Terms = terms_label(x$kernel, digits),
    Bandwidth = paste0(bandwidth_label(x, digits), chosen("bandwidth")),
    Lambda = paste0(paste0(format(x$lambda, digits = digits), penalty_labels(x), collapse = ", "), chosen("lambda")),
    Centres = centers_label(x), Solver = solver_label(x)
  )
}

# Of quantiles that are added to a location.
penalty_labels <- \(x) if (length(x$lambda) == 2 && !is.null(x$family$levels)) c(" of location", " of quantiles")

# Of a chosen sum of kernels all of them: such terms after the first have their own bandwidth.
summed_label <- function(kernel) {
  others <- vapply(Filter(\(term) !is.null(term$L), kernel$terms), \(term) {
    if (is.null(term$scores)) return(paste0("a ", format(SHORT_RANGE), " times as wide one with share ", format(term$scale)))
    paste(kernel_label(term$kernel$name, term$kernel$parameters), "of normal scores")
  }, "")
  paste(c(kernel_label(kernel$name, kernel$parameters), others), collapse = " + ")
}

model_title <- function(x) {
  if (!x$family$squared) {
    if (!has_probabilities(x)) return(x$family$title)
    kind <- if (length(x$classes) > 2) "Multinomial kernel regression" else "Kernel logistic regression"
    return(paste0(kind, if (!is.null(x$class_weights)) ", classes weighted"))
  }
  if (is.null(x$classes)) "Kernel ridge regression" else "Kernel classification by squared loss"
}

# One number, or one for each column, or where those of a matrix lie.
bandwidth_label <- function(x, digits) {
  sds <- if (is.matrix(x$bandwidth)) sqrt(diag(x$bandwidth)) else x$bandwidth
  shown <- vapply(signif(as.vector(sds), min(digits, 4)), format, "", digits = min(digits, 4))
  if (length(sds) > 1 && !is.null(x$names)) shown <- paste(x$names, shown)
  paste0(if (is.matrix(x$bandwidth)) "matrix with standard deviations ", few_of(shown))
}

centers_label <- function(x) {
  duplicates <- if (isTRUE(x$merged > 0)) ngettext(x$merged, " duplicate", " duplicates")
  merged <- if (!is.null(duplicates)) paste0(" (", whole(x$merged), duplicates, " merged)")
  if (isTRUE(x$exact)) return(paste0("all ", whole(x$n), ngettext(x$n, " row", " rows"), ", exact", merged))
  paste0(whole(x$m), ", ", if (x$centers_given) "given" else paste0("drawn by \"", x$center_method, "\""), merged)
}

solver_label <- function(x) {
  if (length(x$iterations) == 0 || x$iterations == 0 || is.null(x$trace)) return(NULL)
  last <- utils::tail(x$trace, 1)
  paste0(
    x$iterations, " ", step_name(x), if (x$iterations != 1) "s", ", ", if (!isTRUE(x$converged)) "not ", "converged",
    if (nrow(last) > 0) paste0(" (residual ", format(last$residual, digits = 2), ")"),
    if (isTRUE(x$best_iteration < x$iterations)) paste0("; the result is the best, number ", x$best_iteration),
    if (isTRUE(x$jitter > 1e-10)) paste0("; jitter increased to ", format(x$jitter, digits = 2))
  )
}

step_name <- function(x) if (x$family$squared) "iteration" else "Newton step"

error_name <- function(x) if (x$family$squared && !is.null(x$classes)) "share misclassified" else x$family$error

validation_label <- function(x, digits) {
  if (is.null(x$least_held_out)) return(NULL)
  paste(error_name(x), format(x$least_held_out, digits = digits))
}

print_error <- function(error, digits) {
  if (!is.matrix(error)) return(print_lines(Training = if (!is.null(error)) describe_error(error, digits)))
  cat("Training:\n")
  print(error, digits = digits)
}

ERROR_LABELS <- c(
  rmse = "RMSE", r.squared = "R-squared", misclassified = "misclassified", deviance = "deviance",
  explained = "deviance explained"
)

# "RMSE 1.2, R-squared 0.9"
describe_error <- function(error, digits) {
  numbers <- vapply(error, format, "", digits = digits)
  percent <- names(error) %in% c("misclassified", "explained")
  numbers[percent] <- paste0(vapply(100 * error[percent], format, "", digits = 3), "%")
  paste0(ERROR_LABELS[names(error)], " ", numbers, collapse = ", ")
}

# ---- how well it fits -------------------------------------------------------------------------

# At the rows of the fit, NULL where these are not kept: a vector by name, or a matrix of a row for each response.
fit_error <- function(fit) {
  if (is.null(fit$data)) return(NULL)
  run <- start_run(fit$control, "Predicting")
  link <- link_of_rows(fit, run)
  y <- fit$data$y
  w <- row_shares(fit)
  if (!fit$family$squared) {
    total <- stats::deviance(fit)
    wrong <- if (has_probabilities(fit)) wrong_part(link, y, w)
    return(c(misclassified = wrong, deviance = total, explained = 1 - total / null_deviance(fit)))
  }
  if (!is.null(fit$classes)) return(c(misclassified = wrong_part(link, y, w)))
  square <- column_sums(w * (y - link)^2)
  around <- y - if (is.null(fit$data$offset)) 0 else fit$data$offset
  around <- shift_columns(around, column_sums(w * around))
  error <- cbind(rmse = sqrt(square), r.squared = 1 - square / column_sums(w * around^2))
  if (nrow(error) == 1) return(error[1, ])
  rownames(error) <- output_names(fit)
  error
}

wrong_part <- function(link, y, w) sum(w * (class_codes(link) != class_codes(y)))

is_weighted <- function(fit) !is.null(fit$data$weights)

# Weights of the rows that add up to 1.
row_shares <- function(fit) {
  if (is_column(fit$data$y) && !is_weighted(fit)) return(1 / fit$n)
  w <- if (is_column(fit$data$y)) fit$data$weights else fit_weights(fit)
  w / sum(w)
}

# The deviance of the model that has nothing but an intercept and the offset, as glm() has it.
null_deviance <- function(fit) {
  data <- fit$data
  if (has_probabilities(fit) && is.null(data$offset)) {
    counts <- class_counts(data$y, data$weights)
    return(-2 * sum(counts * log(counts / sum(counts))))
  }
  run <- start_run(fit$control, "Predicting")
  offset <- if (is.null(data$offset)) 0 * data$y else data$offset
  link <- shift_columns(offset, -null_link(fit$family, data$y, data$weights, data$offset, run))
  2 * fit$n * mean_loss(final_loss(fit$family), link, data$y, run, data$weights)
}

# ---- what other models have -------------------------------------------------------------------

#' @rdname ridge-methods
#' @importFrom stats confint deviance df.residual family hatvalues logLik
#' @importFrom stats model.frame rstandard sigma simulate variable.names vcov weights
#' @export
coef.kernel_ridge <- function(object, ...) {
  check_dots_empty(...)
  if (ncol(object$coefficients) == 1) as.vector(object$coefficients) else object$coefficients
}

#' @rdname ridge-methods
#' @export
fitted.kernel_ridge <- function(object, ...) {
  check_dots_empty(...)
  restore_fitted(object, as_vector_if_one(fit_means(object)))
}

#' @rdname ridge-methods
#' @export
residuals.kernel_ridge <- function(object, type = c("response", "deviance", "pearson"), ...) {
  check_dots_empty(...)
  type <- check_choice(type, c("response", "deviance", "pearson"), "type")
  restore_fitted(object, as_vector_if_one(fit_residuals(object, type)))
}

as_vector_if_one <- function(x) if (is.matrix(x) && ncol(x) == 1) as.vector(x) else x

# Means of the response: n x t, for logistic loss probabilities, of the second of two classes or of all.
fit_means <- function(fit) {
  link <- fitted_link(fit, start_run(fit$control, "Predicting"))
  if (fit$family$squared) return(link)
  means <- means_of_link(fit$family, link)
  colnames(means) <- fit$outputs
  means
}

fit_residuals <- function(fit, type) {
  y <- fit_response(fit)
  w <- sqrt(fit_weights(fit))
  if (fit$family$squared) return((if (type == "response") 1 else w) * (y - fit_means(fit)))
  if (type == "deviance") {
    run <- start_run(fit$control, "Predicting")
    link <- fitted_link(fit, run)
    size <- w * sqrt(2 * row_loss("value", final_loss(fit$family), link, y, run))
    return(if (ncol(link) > 1) size else size * if (has_probabilities(fit)) y[, 1] else sign(y - fit_means(fit))[, 1])
  }
  mean <- fit_means(fit)
  residual <- (if (has_probabilities(fit)) (y + 1) / 2 else y) - mean
  if (type == "response") return(residual)
  variance <- if (has_probabilities(fit)) mean * (1 - mean) else family_variance(fit$family, mean)
  w * residual / sqrt(pmax(variance, .Machine$double.xmin))
}

#' @rdname ridge-methods
#' @export
weights.kernel_ridge <- function(object, ...) {
  check_dots_empty(...)
  restore_fitted(object, fit_weights(object))
}

#' @rdname ridge-methods
#' @export
deviance.kernel_ridge <- function(object, ...) {
  check_dots_empty(...)
  y <- kept_data(object)$y
  if (!is_column(y)) return(sum(fit_residuals(object, "deviance")^2))
  run <- start_run(object$control, "Predicting")
  if (object$family$squared) return(sum(residual_squares(object, run)))
  2 * object$n * mean_loss(final_loss(object$family), link_of_rows(object, run), y, run, object$data$weights)
}

#' @rdname ridge-methods
#' @export
nobs.kernel_ridge <- function(object, ...) {
  check_dots_empty(...)
  if (is_weighted(object)) sum(object$data$weights > 0) else object$n
}

#' @rdname ridge-methods
#' @export
family.kernel_ridge <- function(object, ...) {
  check_dots_empty(...)
  own <- object$family
  if (own$of_classes && length(object$classes) == 2) return(stats::binomial())
  switch(own$family, gaussian = stats::gaussian(), poisson = stats::poisson(), Gamma = stats::Gamma("log"), own)
}

#' @rdname ridge-methods
#' @export
variable.names.kernel_ridge <- function(object, ...) {
  check_dots_empty(...)
  column_names(object)
}

#' @rdname ridge-methods
#' @export
formula.kernel_ridge <- function(x, ...) {
  if (is.null(x$response)) stop_argument("x", "must be a fit by formula: found a fit without one")
  if (is.null(x$formula)) stats::formula(x$terms) else x$formula
}

#' @rdname ridge-methods
#' @export
model.frame.kernel_ridge <- function(formula, ...) {
  if (is.null(formula$response)) stop_argument("formula", "must be a fit by formula: found a fit without one")
  call <- keep_arguments(formula$call, c("formula", "data", "subset", "weights", "offset", "na.action"))
  call[[1]] <- quote(stats::model.frame)
  call$formula <- formula$terms
  eval(call, environment(formula$terms))
}

#' @export
#' @noRd
update.kernel_ridge <- function(object, ...) update_call(object, match.call(), parent.frame())

#' @export
kept_choices.kernel_ridge <- function(object) {
  if (has_terms(object) || inherits(object, "tune_ridge")) {
    stop_argument("bandwidth", "is chosen again for a formula with k() and by tune_ridge(): leave \"keep\" out")
  }
  list(kernel = object$kernel, bandwidth = given_bandwidth(tcrossprod(object$L)), lambda = object$lambda)
}

# ---- functions of numbers ------------------------------------------------------------------------

stop_no_numbers <- function(name) stop_argument("x", "must be numbers: found a fit of kernel_ridge(). Use ", name, "(fitted(x)).")

#' @export
#' @noRd
mean.kernel_ridge <- function(x, ...) stop_no_numbers("mean")

#' @importFrom stats median
#' @export
#' @noRd
median.kernel_ridge <- function(x, na.rm = FALSE, ...) stop_no_numbers("median")

#' @export
#' @noRd
quantile.kernel_ridge <- function(x, ...) stop_no_numbers("quantile")

#' @export
#' @noRd
Math.kernel_ridge <- function(x, ...) stop_no_numbers(.Generic)

#' @export
#' @noRd
Summary.kernel_ridge <- function(..., na.rm = FALSE) stop_no_numbers(.Generic)
