#' Kernel regression
#'
#' The mean of a response given numeric variables, by local fits with Gaussian kernels: local linear ones or local
#' means (Nadaraya-Watson). Sums run over all rows for every fit; bandwidths are chosen by cross-validation in
#' closed form; standard errors allow for noise that varies from place to place. As `np::npreg`,
#' `KernSmooth::locpoly` and `locfit::locfit`.
#'
#' @details
#' With the kernels \eqn{k_i(x) = w_i \exp(-(x_i - x)' H^{-1} (x_i - x) / 2)}{k_i(x) = w_i exp(-(x_i - x)'
#' H^-1 (x_i - x) / 2)} the fit at x is the a that makes \eqn{\sum_i k_i(x) (y_i - a - b'(x_i - x))^2}{sum_i
#' k_i(x) (y_i - a - b'(x_i - x))^2} least, with b = 0 for `"constant"`. It is a mean \eqn{\sum_i l_i(x)
#' y_i}{sum_i l_i(x) y_i} of the responses with weights \eqn{l_i}{l_i}, those of a row in its own fit being its
#' leverage.
#'
#' **Bandwidths.** `"cv"` makes \eqn{\sum_i w_i (y_i - m_{-i}(x_i))^2}{sum_i w_i (y_i - m_-i(x_i))^2} least, row i
#' left out of its own fit (np's `cv.ls`); `"aicc"` the corrected AIC of Hurvich, Simonoff and Tsai (np's
#' `cv.aic`), which undersmooths less often. H is diagonal then. A column that does not matter gets a very wide
#' kernel in a local constant fit, and one in which the mean is linear in a local linear one. The search starts
#' from several places, in several columns on a part of the rows first; of many rows it looks at as many as `seconds`
#' allow, and its widths shrink by the power -1/(d + 4) of the rows from there to all.
#'
#' **Standard errors** are those of a mean with weights \eqn{l_i}{l_i}, the root of \eqn{\sum_i l_i(x)^2
#' s^2(x_i)}{sum_i l_i(x)^2 s^2(x_i)}. The variance \eqn{s^2}{s^2} of the noise is a local mean, by the same
#' kernels, of the products of residuals and leave-one-out residuals, which are unbiased where the fit is; by its
#' leverage a row has the variance of all in their place, for one that is alone in its fit says nothing of the
#' noise. The bias of the fit is in neither: intervals are for its mean.
#'
#' **Far from the rows** kernels underflow; fits there go by their logarithms, so that they have a value
#' everywhere, in the end the nearest row's. Before that a local line is extrapolated, with large standard errors;
#' where the rows that still count are on a point or a line, slopes across it fade to 0 (a variance of the rows
#' under the kernels less than 1e-8 of the kernel's own counts as so much).
#'
#' **Cost**: all pairs of rows, for sums of 1 + d + d(d + 1)/2 + t(1 + d) columns of t responses (1 + t for local
#' means), and half as much again for the first standard errors; a value of a criterion the same. In one column the
#' time is linear in the rows, without a tolerance: a second for 10^6 (an `engine = "fast"` or a `backend` that is asked for
#' by name has other ways). With `tol` it is linear in few dimensions. Sums are in double precision.
#'
#' @param x The variables: a numeric matrix, a data frame of numeric columns, or a vector of one. A formula, for
#'   the formula method. Factors are for [falkon()].
#' @param y The response: a numeric vector, or a matrix with a column for each of several. Classes are for
#'   [flash_kda()] and [falkon()].
#' @param formula A formula with a response, such as `y ~ a + log(b)`.
#' @param data A data frame in which `formula`, `weights` and `subset` are evaluated.
#' @param subset Which rows of `data` to use.
#' @param type `"local_linear"`, which has no bias from a slope, at the edges neither, or `"constant"`.
#' @param bandwidth One kernel standard deviation, `d` of them, a `d` x `d` **variance** matrix, or `"cv"` (as
#'   `NULL`) or `"aicc"`. What is given is matched to the columns by names where it has them.
#' @param weights Non-negative weights of the rows, which multiply the kernels, or `NULL`. Only their ratios
#'   matter.
#' @param rows How many rows a search of bandwidths looks at. `NULL`: as many as `seconds` of a nominal core allow.
#' @param seconds See `rows`.
#' @param tol About the largest error of fits, relative to the range of the responses under the kernels; where a
#'   local line is extrapolated, as beside few rows far from others, times what that multiplies errors by. 0: none
#'   but rounding. See [kernel_matvec()].
#' @param na.action What to do about rows with missing values, in the variables, the response or the weights; as
#'   for [flash_kde()].
#' @param control A [flash_control()], which says where sums are computed and how.
#' @param ... For the formula method and that of data frames: `type` to `control`, as for the default method. Else
#'   nothing: an argument that is not known is an error.
#' @returns An object of class `kernel_regression`, a plain list: `call`, `type`, `n`, `d`, `x`, `y` (an `n` x `t`
#'   matrix), `weights`, `bandwidth` (H), `selector` and `search` (how it was chosen, with the criterion's `value`,
#'   for responses divided by their standard deviations), `fitted` and `left_out` (leave-one-out fits), `n` x `t`
#'   matrices, `leverage`, `df` (its sum, the trace of the hat matrix), `sigma` and `r.squared` by response, and what
#'   predictions need: `later`, an environment, has the variance \eqn{s^2}{s^2} at the rows once it was asked for. Methods: [`predict()`][predict.kernel_regression],
#'   [`plot()`][plot.kernel_regression], [`summary()`][summary.kernel_regression], `fitted()`, `residuals()`,
#'   `nobs()`, `formula()`, `update()`, and those of [broom][regression-broom].
#' @references Fan, J. and Gijbels, I. (1996) *Local Polynomial Modelling and Its Applications*. Chapman & Hall.
#'
#' Hurvich, C. M., Simonoff, J. S. and Tsai, C.-L. (1998) Smoothing parameter selection in nonparametric regression
#' using an improved Akaike information criterion. *Journal of the Royal Statistical Society B* 60, 271-293.
#'
#' Seifert, B. and Gasser, T. (2000) Data adaptive ridging in local polynomial regression. *Journal of
#' Computational and Graphical Statistics* 9, 338-360, for other ways where rows are few.
#' @inheritSection flash_kde Errors
#' @seealso [falkon()] for regression by ridge, with classes, factors and many columns.
#' @export
#' @examples
#' fit <- kernel_regression(waiting ~ eruptions, data = faithful)
#' fit
#' predict(fit, data.frame(eruptions = c(2, 3, 4.5)), interval = "confidence")
#' plot(fit)
#'
#' # two variables, by the corrected AIC
#' kernel_regression(mpg ~ wt + hp, data = mtcars, bandwidth = "aicc")
kernel_regression <- function(x, ...) {
  # data |> kernel_regression(formula = y ~ a), as lm() takes it
  if (any(...names() == "formula", na.rm = TRUE)) {
    return(eval(formula_call(match.call(), kernel_regression.formula), parent.frame()))
  }
  UseMethod("kernel_regression")
}

#' @rdname kernel_regression
#' @export
kernel_regression.default <- function(x, y, type = c("local_linear", "constant"), bandwidth = NULL, weights = NULL,
                                      rows = NULL, seconds = 5, tol = 0, na.action = getOption("na.action"),
                                      control = NULL, ...) {
  check_fit_dots(...)
  if (missing(x)) stop_argument("x", "must be given")
  if (missing(y)) stop_argument("y", "must be given")
  options <- check_regression(type, bandwidth, rows, seconds, if (!missing(tol)) tol, control)
  run <- start_run(options$asked, "Fitting")
  refuse_factors(x)
  points <- check_points(x, "x", infinite = TRUE)
  fit_regression(points, y, weights, na.action, options, run, regression_call(match.call()))
}

#' @rdname kernel_regression
#' @export
kernel_regression.data.frame <- function(x, y, ...) {
  # data |> kernel_regression(y ~ a)
  if (!missing(y) && inherits(y, "formula")) {
    return(eval(formula_call(match.call(), kernel_regression.formula), parent.frame()))
  }
  refuse_factors(x)
  fit <- kernel_regression.default(as_points(x, "x"), y, ...)
  fit$call <- regression_call(match.call())
  fit
}

#' @rdname kernel_regression
#' @export
kernel_regression.formula <- function(formula, data = NULL, ..., subset, weights,
                                      na.action = getOption("na.action")) {
  call <- match.call()
  made <- regression_frame(call, data, parent.frame())
  fit <- kernel_regression.default(made$points, made$y, ..., weights = made$weights, na.action = na.action)
  with_formula(fit, made, regression_call(call))
}

# With what predictions of a fit by formula need, of regression_frame().
with_formula <- function(fit, made, call) {
  fit[c("terms", "variables", "response", "call")] <- list(made$terms, made$variables, made$response, call)
  fit
}

regression_call <- function(call) {
  call[[1]] <- quote(kernel_regression)
  call
}

# ---- arguments --------------------------------------------------------------------------------

check_regression <- function(type, bandwidth, rows, seconds, tol, control) {
  if (is.null(bandwidth)) bandwidth <- "cv"
  if (is.character(bandwidth)) bandwidth <- check_choice(bandwidth, names(REGRESSION_CRITERIA), "bandwidth")
  good <- is_number(seconds) && length(seconds) == 1 && is.finite(seconds) && seconds > 0
  if (!good) stop_argument("seconds", "must be one positive number: found ", describe(seconds))
  list(
    type = check_choice(type, names(REGRESSION_TYPES), "type"), bandwidth = bandwidth,
    rows = if (!is.null(rows)) check_count(rows, "rows", min = 10), seconds = seconds,
    asked = settle_control(control, list(tol = if (!is.null(tol)) check_tol(tol)))
  )
}

refuse_factors <- function(x) {
  if (!is.data.frame(x)) return(invisible())
  bad <- which(!vapply(x, is_number, NA))
  if (length(bad) > 0) {
    stop_argument(
      "x", "must have numeric columns only: column ", quote_names(column_label(names(x), bad[1])), " is ",
      shorten(class(x[[bad[1]]])[1]), " (falkon() takes factors)"
    )
  }
}

# list(points, y, weights, terms, variables, response), rows with missing values among them.
regression_frame <- function(call, data, frame) {
  if (!is.null(data) && !is.list(data) && !is.environment(data)) {
    stop_argument("data", "must be a data frame: found ", describe(data))
  }
  call <- keep_arguments(call, c("formula", "data", "subset", "weights"))
  call$data <- data
  made <- eval_model_frame(call, frame)
  terms <- attr(made, "terms")
  if (attr(terms, "response") == 0) stop_argument("formula", "must have a response, as in y ~ a + b")
  check_terms(terms)
  list(
    points = frame_points(made, terms, "formula"), y = stats::model.response(made),
    weights = stats::model.weights(made), terms = terms,
    variables = data_variables(stats::delete.response(terms), data), response = deparse1(terms[[2]])
  )
}

# list(y, outputs), n x t. Missing values stay in.
numeric_response <- function(y, n) {
  if (is.factor(y) || is.character(y) || is.logical(y)) {
    stop_argument("y", "must be numeric: found ", describe(y), " (classes are for flash_kda() and falkon())")
  }
  if (is.data.frame(y)) {
    check_numeric_columns(y, "y")
    y <- as.matrix(y)
  }
  if (!is_number(y)) stop_argument("y", "must be numeric: found ", describe(y))
  if (length(dim(y)) > 2) stop_argument("y", "must be a vector or a matrix: found ", length(dim(y)), " dimensions")
  check_response_rows(NROW(y), n, "y")
  if (NCOL(y) == 0) stop_argument("y", "must have at least one column: found none")
  outputs <- if (length(dim(y)) == 2) colnames(y)
  y <- matrix(as.double(y), n)
  check_finite(y, "y", missing = TRUE)
  list(y = y, outputs = outputs)
}

# ---- fit --------------------------------------------------------------------------------------

fit_regression <- function(points, y, weights, na.action, options, run, call) {
  d <- ncol(points)
  response <- numeric_response(y, nrow(points))
  given <- if (is.numeric(options$bandwidth)) as_bandwidth(options$bandwidth, d, names = colnames(points))
  # an engine that cannot be had is an error here
  resolve_control(run, nrow(points), nrow(points), d)
  weights <- check_weights(weights, nrow(points), missing = TRUE)
  # rows go where any of their numbers is missing
  data <- handle_missing(with_columns(points, response$y), weights, na.action, "x")
  y <- data$points[, -seq_len(d), drop = FALSE]
  x <- data$points[, seq_len(d), drop = FALSE]
  dimnames(y) <- if (!is.null(response$outputs)) list(NULL, response$outputs)
  dimnames(x) <- if (!is.null(colnames(points))) list(NULL, colnames(points))
  weights <- if (!is.null(weights)) check_weights(data$weights, nrow(x))
  if ((if (is.null(weights)) nrow(x) else sum(weights > 0)) < 2) {
    stop_argument("x", "must have at least two rows of positive weight: found fewer")
  }
  main <- if (!is.null(given)) list(L = given$L, selector = "user") else {
    regression_bandwidth(x, y, weights, options$type, options$bandwidth, options$rows, options$seconds, run)
  }
  name_stage(run, "Fitting")
  local <- local_data(x, y, weights, main$L)
  rows <- row_fits(local, options$type, run)
  fit <- list(
    call = call, type = options$type, n = nrow(x), d = d, x = x, y = y, names = colnames(points),
    outputs = response$outputs, weights = weights, bandwidth = tcrossprod(main$L), factor = main$L,
    selector = main$selector, search = main$search, fitted = unname(rows$fitted), left_out = unname(rows$left_out),
    leverage = rows$leverage, na.action = data$omitted, control = options$asked,
    settings = options[c("rows", "seconds")]
  )
  structure(c(fit, how_well(fit), later = new.env(parent = emptyenv())), class = "kernel_regression")
}

# Names of the variables alone, for messages.
with_columns <- function(points, y) {
  both <- cbind(points, y)
  columns <- colnames(points)
  if (is.null(columns)) columns <- if (ncol(points) == 1) "x" else paste0("x", seq_len(ncol(points)))
  dimnames(both) <- list(NULL, c(columns, rep_len("the response", ncol(y))))
  both
}

# The variance of the noise at the rows, n x t, found when it is first asked for.
noise_variance <- function(fit, data, run) {
  later <- fit$later
  if (is.null(later$variance)) later$variance <- smoothed(data, noise_squares(fit), NULL, run)
  later$variance
}

# What local means are of for the variance of the noise: products of residuals and leave-one-out residuals. A row
# that is nearly alone in its fit says nothing of the noise: by its leverage it has the variance of all.
noise_squares <- function(fit) {
  share <- pmin(fit$leverage, 1)
  products <- pmax((fit$y - fit$fitted) * (fit$y - fit$left_out), 0)
  (1 - share) * products + outer(share, fit$sigma^2)
}

# list(df, sigma, r.squared), of the rows by their weights.
how_well <- function(fit) {
  p <- if (is.null(fit$weights)) rep(1 / fit$n, fit$n) else fit$weights / sum(fit$weights)
  square <- colSums(p * (fit$y - fit$fitted)^2)
  around <- fit$y - rep(colSums(p * fit$y), each = fit$n)
  used <- sum(p > 0)
  df <- sum(fit$leverage)
  list(
    df = df, sigma = unname(sqrt(square * used / max(used - df, 1))),
    r.squared = unname(1 - square / colSums(p * around^2))
  )
}
