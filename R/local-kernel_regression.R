#' Kernel regression
#'
#' `kernel_regression()` estimates the mean of a response given numeric variables and factors, by local linear fits or
#' local means (Nadaraya-Watson) with Gaussian kernels. Bandwidths are chosen by the corrected AIC. Standard errors allow
#' for noise of changing variance.
#'
#' @section Fits:
#' Let \eqn{k_i(x) = w_i \exp(-(x_i - x)' H^{-1} (x_i - x) / 2)}{k_i(x) = w_i exp(-(x_i - x)' H^-1 (x_i - x) / 2)} be
#' the kernels. The fit at x is the a that minimises \eqn{\sum_i k_i(x) (y_i - a - b'(x_i - x))^2}{sum_i k_i(x) (y_i - a
#' - b'(x_i - x))^2} over a and b, with b = 0 for `"constant"`. It is a sum \eqn{\sum_i l_i(x) y_i}{sum_i l_i(x) y_i} of
#' the responses with weights \eqn{l_i}{l_i} that add up to 1. The leverage of a row is its weight in its own fit.
#'
#' Factors, ordered factors, character and logical columns have the kernels of Li and Racine, as in np. The kernel of
#' the numeric columns is multiplied by l(a, b) / l(a, a) for each such column (see [categorical_kernel()]). Rows of
#' another category have weight 0 if \eqn{\lambda = 0}{lambda = 0}, and full weight at the largest
#' \eqn{\lambda}{lambda}. Without numeric columns the fits are local means. A combination of categories without rows
#' takes the fit of those that differ least from it. With a ridge, rows of other categories are first moved by the
#' effects of categories in a linear regression: `lm()` is one of the fits.
#'
#' A ridge \eqn{\rho}{rho} adds \eqn{\rho \bar w \sum_j s_j^2 b_j^2}{rho mean(w) sum_j s_j^2 b_j^2} to the sum of
#' squares, where \eqn{s_j}{s_j} is the bandwidth of column j or its standard deviation, if that is smaller. A line that
#' few rows carry shrinks to the local mean, far out to the nearest row: see [predict()][predict.kernel_regression].
#'
#' @section Bandwidths:
#' | `bandwidth` | minimises | in np |
#' |---|---|---|
#' | `"aicc"` (default) | the corrected AIC of Hurvich, Simonoff and Tsai | `cv.aic` |
#' | `"cv"` | \eqn{\sum_i w_i (y_i - m_{-i}(x_i))^2}{sum_i w_i (y_i - m_-i(x_i))^2}, leave-one-out | `cv.ls` |
#'
#' Both choose a diagonal H and lambdas. `"aicc"` counts each that matters as a degree of freedom, and keeps a
#' straight line unless AICc falls by 3 / n; `"cv"` undersmooths more often. A column that does not matter in local
#' means, or in which local lines find the mean linear, gets a very large bandwidth. If the search uses fewer rows
#' than there are, its bandwidths then shrink by the power -1/(d + 4) of their number.
#'
#' @section Standard errors:
#' The square of the standard error is \eqn{\sum_i l_i(x)^2 s^2(x_i)}{sum_i l_i(x)^2 s^2(x_i)}. If the bandwidth was
#' chosen, the squared fit of 2 r - S r is added, which estimates the bias (r are residuals, S is the hat matrix), or the local
#' mean of these squares, if larger: intervals cover on average over neighbours (Nychka 1988). The variance
#' \eqn{s^2}{s^2} of the noise is a local mean, with the same kernels, of the products of residuals and leave-one-out
#' residuals, averaged with that of all rows, whose weight is the leverage. The bias of the ridge, \eqn{(\sum_i l_i(x)
#' (x_i - x)' b)^2}{(sum_i l_i(x) (x_i - x)'b)^2}, averaged over the slopes b, is added.
#'
#' @section Cost:
#' A fit, and each value of a criterion, takes sums over all pairs of rows. With one column and no tolerance the time is linear
#' in the rows: a second for 10^6. With `tol` it is linear in few dimensions.
#'
#' @param x The variables: a numeric matrix, a data frame that may have factors, character and logical columns, dates and
#'   times (days and seconds since 1970), or a vector.
#' @param y The response: a numeric vector, or a matrix with a column for each of several responses. For classes use
#'   [flash_kda()] or [kernel_ridge()].
#' @param formula A formula with a response, such as `y ~ a + log(b)`.
#' @param data A data frame in which `formula`, `weights` and `subset` are evaluated.
#' @param subset As for [stats::lm()].
#' @param type `"local_linear"` (default), whose bias does not depend on the slope, even at the edges, or `"constant"`.
#' @param bandwidth One kernel standard deviation, `d` of them, a `d` x `d` **variance** matrix, `"aicc"` or `"cv"`. `NULL`
#'   (default): `"aicc"`, or `"cv"` for very few rows. Names, if given, are matched to the columns.
#' @param weights Non-negative weights of the rows, which multiply the kernels, or `NULL`. Only ratios matter.
#' @param rows Number of rows that the search of a bandwidth uses. `NULL` (default): as many as `seconds` allow.
#' @param seconds Approximate duration of the search, in seconds of a typical core.
#' @param tol Error tolerance of fits, relative to the range of the responses under the kernels. It is approximate. With
#'   0 (default) only rounding remains. See [kernel_sum()].
#' @param na.action As for [flash_kde()].
#' @param categorical What [categorical_kernel()] returns: kernels and smoothing parameters of categorical variables.
#'   Parameters not given are chosen by the criterion.
#' @param control A [flash_control()].
#' @param ridge Ridge of local lines, a number >= 0. `NULL` (default): 0.01, or 0 if `bandwidth` is a number.
#' @param object,model A fit from [kernel_regression()]; also the `x` of `print()` and `formula()`.
#' @param digits Number of significant digits.
#' @param ... For the formula method: the arguments `type` to `ridge`.
#' @returns An object of class `kernel_regression`, a list that can be saved by [saveRDS()]. Its main elements are
#'   \item{`n`, `d`, `type`, `call`}{numbers of rows and of numeric columns, the kind of fit, and the call.}
#'   \item{`x`, `y`, `weights`}{the numeric variables, the `n` x `t` responses, and the weights or `NULL`.}
#'   \item{`bandwidth`, `ridge`, `discrete`}{H, the ridge, and for categories a list with their smoothing parameters,
#'     `lambda`.}
#'   \item{`selector`, `search`}{how the bandwidth was chosen, with the `value` of the criterion for responses divided
#'     by their standard deviations.}
#'   \item{`fitted`, `left_out`}{fits and leave-one-out fits at the rows, `n` x `t` matrices.}
#'   \item{`leverage`, `df`}{leverages, and their sum, the trace of the hat matrix.}
#'   \item{`sigma`, `r.squared`}{residual standard deviation, with n - df degrees of freedom, and R-squared, by
#'   response.}
#'
#'   Methods: [`predict()`][predict.kernel_regression], [`plot()`][plot.kernel_regression], `update()`, those of
#'   [broom][flashkernel-broom], and these:
#'   \item{`fitted()`, `residuals()`}{a vector, or a matrix for several responses. With [stats::na.exclude()] omitted
#'     rows are `NA`.}
#'   \item{`summary()`}{a list of class `summary.kernel_regression`: the short elements of the fit, quantiles of the
#'     `residuals`, and `slopes`, the mean and quartiles of the gradient.}
#'   \item{`nobs()`, `weights()`, `formula()`}{the number of rows of positive weight; the weights or `NULL`; the formula
#'     of a fit by formula.}
#'   \item{`hatvalues()`, `sigma()`}{the leverages; the standard deviation of the residuals.}
#' @references Fan, J. and Gijbels, I. (1996) *Local Polynomial Modelling and Its Applications*. Chapman & Hall.
#'
#' Hurvich, C. M., Simonoff, J. S. and Tsai, C.-L. (1998) Smoothing parameter selection in nonparametric regression
#' using an improved Akaike information criterion. *Journal of the Royal Statistical Society B* 60, 271-293.
#'
#' Nychka, D. (1988) Bayesian confidence intervals for smoothing splines. *Journal of the American Statistical
#' Association* 83, 1134-1143.
#'
#' Racine, J. and Li, Q. (2004) Nonparametric estimation of regression functions with both categorical and continuous
#' data. *Journal of Econometrics* 119, 99-130.
#' @seealso [kernel_ridge()] for kernel ridge regression, which takes classes and many columns. `np::npreg()`,
#'   `KernSmooth::locpoly()` and `locfit::locfit()` are similar.
#' @rawRd \concept{local linear regression}\concept{nonparametric regression}\concept{smoother}\concept{loess}
#' @export
#' @examples
#' fit <- kernel_regression(waiting ~ eruptions, data = faithful)
#' fit
#' plot(fit)
#' predict(fit, data.frame(eruptions = c(2, 3, 4.5)), interval = "confidence")
#' summary(fit)
#'
#' # two variables, by cross-validation
#' kernel_regression(mpg ~ wt + hp, data = mtcars, bandwidth = "cv")
#'
#' # a number and a factor
#' kernel_regression(Sepal.Width ~ Sepal.Length + Species, data = iris)
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
                                      categorical = NULL, control = NULL, ridge = NULL, ...) {
  # data |> kernel_regression(y ~ a)
  if (!missing(y) && inherits(y, "formula")) {
    return(eval(formula_call(match.call(), kernel_regression.formula), parent.frame()))
  }
  check_fit_dots(...)
  if (missing(x)) stop_argument("x", "must be given")
  if (missing(y)) stop_argument("y", "must be given")
  options <- check_regression(type, bandwidth, ridge, rows, seconds, if (!missing(tol)) tol, categorical, control)
  run <- start_run(options$asked, "Fitting")
  dates <- date_kinds(x)
  x <- dates_as_numbers(x, dates, "x")
  fit <- fit_regression(any_points(x, "x"), y, weights, na.action, options, run, regression_call(match.call()))
  fit$dates <- dates
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

# Adds to a fit by formula what predictions need from regression_frame().
with_formula <- function(fit, made, call) {
  own <- c("terms", "variables", "response", "dates")
  fit[c(own, "call")] <- c(made[own], list(call))
  fit
}

regression_call <- function(call) {
  call[[1]] <- quote(kernel_regression)
  call
}

# ---- arguments --------------------------------------------------------------------------------

check_regression <- function(type, bandwidth, ridge, rows, seconds, tol, categorical, control) {
  if (is.character(bandwidth)) bandwidth <- check_choice(bandwidth, names(REGRESSION_CRITERIA), "bandwidth")
  good <- is_number(seconds) && length(seconds) == 1 && is.finite(seconds) && seconds > 0
  if (!good) stop_argument("seconds", "must be one positive number: found ", describe(seconds))
  if (!is.null(categorical)) check_spec(categorical, "categorical_kernel", "categorical", "categorical_kernel()")
  list(
    type = check_choice(type, names(REGRESSION_TYPES), "type"), bandwidth = bandwidth,
    ridge = if (!is.null(ridge)) check_number(ridge, "ridge", "one number >= 0", \(x) is.finite(x) && x >= 0),
    rows = if (!is.null(rows)) check_count(rows, "rows", min = 10), seconds = seconds,
    lambda = categorical$smoothing, discrete_kernel = categorical$kernel,
    asked = settle_control(control, list(tol = if (!is.null(tol)) check_tol(tol)))
  )
}

# Returns list(points, y, weights, terms, variables, response, dates) of a formula. Rows may have missing values.
regression_frame <- function(call, data, frame) {
  if (!is.null(data) && !is.list(data) && !is.environment(data)) {
    stop_argument("data", "must be a data frame: found ", describe(data))
  }
  made <- formula_frame(call, data, frame)
  terms <- attr(made, "terms")
  if (attr(terms, "response") == 0) stop_argument("formula", "must have a response, as in y ~ a + b")
  check_terms(terms)
  dates <- date_kinds(term_columns(made, terms))
  list(
    points = frame_points(dates_as_numbers(made, dates, "formula"), terms, "formula", levels = TRUE),
    y = stats::model.response(made), weights = stats::model.weights(made), terms = terms, dates = dates,
    variables = data_variables(stats::delete.response(terms), data), response = deparse1(terms[[2]])
  )
}

# Returns list(y, outputs): the responses, n x t, and their names. Missing values are kept.
numeric_response <- function(y, n) {
  if (is.factor(y) || is.character(y) || is.logical(y)) {
    stop_argument("y", "must be numeric: found ", describe(y), " (for classes use flash_kda() or kernel_ridge())")
  }
  if (is.data.frame(y)) {
    check_numeric_columns(y, "y")
    y <- as.matrix(y)
  }
  if (!is_number(y)) stop_argument("y", "must be numeric: found ", describe(y), number_hint(y))
  if (length(dim(y)) > 2) stop_argument("y", "must be a vector or a matrix: found ", length(dim(y)), " dimensions")
  check_response_rows(NROW(y), n, "y")
  if (NCOL(y) == 0) stop_argument("y", "must have at least one column: found none")
  outputs <- if (length(dim(y)) == 2) colnames(y)
  y <- matrix(as.double(y), n)
  check_finite(y, "y", missing = TRUE)
  check_squares(y, "y")
  list(y = y, outputs = outputs)
}

# ---- fit --------------------------------------------------------------------------------------

fit_regression <- function(points, y, weights, na.action, options, run, call) {
  columns <- attr(points, "columns")
  d <- ncol(points) - length(columns)
  names <- colnames(points)[seq_len(d)]
  response <- numeric_response(y, nrow(points))
  given <- given_widths(options, d, names)
  # fails here if the engine is not available
  resolve_control(run, nrow(points), nrow(points), max(d, 1))
  weights <- check_weights(weights, nrow(points), missing = TRUE)
  # rows with missing values are handled for points and response together
  data <- handle_missing(with_columns(points, response$y, "the response"), weights, na.action, "x")
  part <- \(which, names) {
    structure(data$points[, which, drop = FALSE], dimnames = if (!is.null(names)) list(NULL, names))
  }
  x <- part(seq_len(d), names)
  y <- part(ncol(points) + seq_len(ncol(response$y)), response$outputs)
  discrete <- if (!is.null(columns)) {
    columns <- choose_level_kernels(columns, options$discrete_kernel)
    list(
      columns = columns, lambda = free_lambda(options$lambda, columns),
      codes = part(d + seq_along(columns), names(columns)), names = attr(points, "names_in_order")
    )
  } else check_no_levels(options)
  weights <- if (!is.null(weights)) check_weights(data$weights, nrow(x))
  if ((if (is.null(weights)) nrow(x) else sum(weights > 0)) < 2) {
    stop_argument("x", "must have at least two rows of positive weight: found fewer")
  }
  type <- if (d == 0) "constant" else options$type
  ridge <- if (!is.null(options$ridge)) options$ridge else if (is.null(given)) DEFAULT_RIDGE else 0
  chosen <- list(L = given, lambda = discrete$lambda, selector = "user")
  if (is.null(given) || anyNA(discrete$lambda)) {
    search <- list(x = x, y = y, weights = weights, discrete = discrete, L = given, ridge = ridge)
    criterion <- if (is.character(options$bandwidth)) options$bandwidth
    chosen <- regression_bandwidth(search, type, criterion, options$rows, options$seconds, run)
  }
  discrete$lambda <- chosen$lambda
  name_stage(run, "Fitting")
  made <- local_data(x, y, weights, chosen$L, discrete, ridge)
  rows <- row_fits(made, type, run)
  fit <- list(
    call = call, type = type, n = nrow(x), d = d, x = x, y = y, names = if (length(names) > 0) names,
    outputs = response$outputs, weights = weights, bandwidth = tcrossprod(chosen$L), factor = chosen$L,
    ridge = ridge, square_slopes = if (type != "constant") square_slopes(rows$slope, made),
    selector = chosen$selector, search = chosen$search, discrete = discrete, fitted = unname(rows$fitted),
    left_out = unname(rows$left_out), leverage = rows$leverage, na.action = data$omitted, control = options$asked,
    settings = options[c("bandwidth", "ridge", "rows", "seconds", "lambda", "discrete_kernel")]
  )
  structure(c(fit, how_well(fit), later = new.env(parent = emptyenv())), class = "kernel_regression")
}

# The ridge where the bandwidth is chosen. From 0.001 to 0.1 errors of bench/regression-sets.R hardly change; above, and
# if the criterion chooses it, they grow.
DEFAULT_RIDGE <- 0.01

# Returns the factor of a given bandwidth, NULL if it is to be chosen, and an empty matrix without numeric columns.
given_widths <- function(options, d, names) {
  if (d == 0) {
    if (is.numeric(options$bandwidth)) stop_argument("bandwidth", "must be NULL without numeric columns: found numbers")
    return(matrix(0, 0, 0))
  }
  if (is.numeric(options$bandwidth)) as_bandwidth(options$bandwidth, d, names = names)$L
}

# Returns the smoothing parameters, NA if they are to be chosen, and 0 for columns with one category.
free_lambda <- function(lambda, columns) {
  lambda <- check_lambda(lambda, columns)
  replace(lambda, is.na(lambda) & most_lambda(columns) == 0, 0)
}

# Returns points and response in one matrix, with column names for messages.
with_columns <- function(points, y, label) {
  both <- cbind(points, y)
  names <- point_names(list(names = colnames(points), d = ncol(points)))
  dimnames(both) <- list(NULL, c(names, rep_len(label, NCOL(y))))
  both
}

# Returns the variance of the noise at the rows, n x t. It is computed once and cached in the fit.
noise_variance <- function(fit, data, run) {
  later <- fit$later
  if (is.null(later$variance)) later$variance <- smoothed(data, noise_squares(fit), NULL, run)
  later$variance
}

# Returns the values whose local means are the variance of the noise: products of residuals and leave-one-out residuals,
# averaged with the residual variance of all rows, whose weight is the leverage. A row that determines its own fit has
# no information on the noise.
noise_squares <- function(fit) {
  share <- pmin(fit$leverage, 1)
  products <- pmax((fit$y - fit$fitted) * (fit$y - fit$left_out), 0)
  (1 - share) * products + outer(share, fit$sigma^2)
}

# Returns list(df, sigma, r.squared), with the weights of the rows.
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
