#' Conditional density estimates, p(y | x)
#'
#' `flash_kde()` with a two-sided formula estimates the density of the left side given the right side, \eqn{p(y | x) =
#' p(y, x) / p(x)}. Both densities are Gaussian kernel estimates from the same points. The fit has quantiles, means,
#' probabilities and draws of y at any x. It is an alternative to quantile regression. Compare
#' `np::npcdens()`, `np::npcdist()`, `np::npqreg()` and `hdrcde::cde()`.
#'
#' @details The left side is one numeric variable, several as `cbind(y1, y2)`, or one categorical column: a factor, a
#'   character or a logical variable. The right side is a sum of variables of any of these kinds. Sums are exact, or
#'   accurate to the tolerance `tol`.
#'
#' **Bandwidths**, one for each column, maximise the leave-one-out conditional likelihood \eqn{\sum_i \log p_{-i}(y_i |
#' x_i)}{sum_i log p_-i(y_i | x_i)} (Hall, Racine and Li 2004; `"cv.ml"` in np). A Cauchy density with a share of 1e-6
#' is added to p(y | x), so that no single outlier determines the bandwidth. A variable without information about y gets
#' a bandwidth so large that it drops out, which `print()` reports. `rows` and `seconds` of [kde_bandwidth()] limit the
#' search. Bandwidths from a sample of rows are scaled to all rows by the rate \eqn{n^{-1 / (d + 4)}}, where d is the
#' number of variables that matter. `bandwidth` may also be given, as in [flash_kde()]: in the order of the columns of
#' y, then x, or by their names. The name of a method other than `"auto"` and `"lcv"` chooses for the joint density.
#'
#' **Categories** have the kernels of [categorical_kernel()] on either side. Their smoothing parameters `lambda` are
#' chosen alternately with the bandwidths on a sample of rows, and last with all points as sources. A column of x drops
#' out if its lambda is at the limit, where all categories are alike. Densities of categories are probabilities, which
#' sum to 1. Results are `NaN` where lambda is 0 and no point has the categories of x.
#'
#' **Estimators** are `"kde"` (the default here), `"sdkde"` and `"laplace"`. For `"sdkde"`, y and x are debiased
#' together, and the factor of the bandwidths is the one with the best cross-validated score over fifths of the rows.
#' It has the smaller error on smooth densities. `"laplace"` is the ratio of the two Laplace-corrected estimates. Both
#' may be negative, p(x) where there are few points; p(y | x) is then not meaningful. Logarithms of negative values are
#' `NaN`, with a warning. There are no quantiles, draws or [kde_conditional()] for `"laplace"`. `adaptive` is `FALSE`
#' by default. Local factors are those of the joint points, \eqn{f_i^2 H}{f_i^2 H} in p(y, x) and p(x); balloon
#' estimates are refused.
#'
#' **Far from the data** nothing underflows: p(y | x) is computed from logarithms. Where all kernels vanish, the points
#' nearest to x determine it.
#'
#' **Cost**, for m rows of `newdata`: densities, means and variances take \eqn{O(n m d)}{O(n m d)} time, as fast as
#' [predict.flash_kde()]. Distribution functions and quantiles take a pass over the points near each x, on the CPU.
#' Draws take a pass in R for each row of x.
#'
#' @param object,x A fit from `flash_kde()` with a two-sided formula.
#' @param newdata A data frame with the variables of the right side. Densities and `type = "cdf"` also need those of the
#'   left side. Missing: the training points. Rows with missing values give `NA`.
#' @param type `"density"` and `"log_density"` of y given x; `"cdf"`, \eqn{P(Y \le y | x)}{P(Y <= y | x)} for one y;
#'   `"mean"` and `"variance"` of y given x. For a categorical y also `"probability"` of each category given x, and
#'   `"class"`, the most probable category.
#' @param loo Whether to leave every training point out of its own density. Only without `newdata`, and not for
#'   `"sdkde"`.
#' @param q,probs Points in the units of y; probabilities.
#' @param nsim,seed As in [stats::simulate()].
#' @param na.action What to do about missing values in `newdata`, as for [predict()][predict.flash_kde].
#' @param control A [flash_control()] for this prediction.
#' @param given A data frame of one row, or a named vector or list: values of all variables of the right side.
#' @param digits Number of significant digits.
#' @param ... Not used; anything here is an error.
#'
#' @returns `flash_kde()` with a two-sided formula returns a list of class `flash_conditional`:
#'   \item{`joint`}{the fit of y and x together, of class `flash_kde`.}
#'   \item{`response`, `given`}{the names of the columns of y and of x.}
#'   \item{`selector`}{the method that chose the bandwidths, `"user"` if they were given.}
#'   \item{`search`}{the numbers of `rows`, `batches` and `evaluations` of the search, the mean log-likelihood
#'     `loglik`, and `wide`: which variables have so large a bandwidth that they drop out.}
#'
#'   The methods return:
#'   \item{`predict()`}{a vector of m values. The mean and variance of several y are m x k matrices; probabilities of
#'     categories are a matrix with a column for each.}
#'   \item{`quantile()`}{an m x `length(probs)` matrix, accurate to 1e-12 kernel standard deviations.}
#'   \item{`kde_cdf()`}{an m x `length(q)` matrix. Small probabilities keep their relative accuracy.}
#'   \item{`simulate()`}{a data frame of m rows with `nsim` columns for each y, of its type, and an attribute `"seed"`.}
#'   \item{`kde_conditional()`}{p(. | x) as a fit for all methods of [flash_kde()].}
#'   \item{`kde_marginal()`}{the `flash_kde` fit of some of y and x together.}
#'   \item{`fitted()`}{the means, or the probabilities of the categories, at the training points.}
#'   \item{`residuals()`}{y less the means.}
#'   \item{`logLik()`}{the sum of leave-one-out conditional log densities, weighted as in [logLik.flash_kde()].}
#'   \item{`coef()`}{the standard deviations of the kernels, and `lambda` for categorical columns.}
#' @references Hall, P., Racine, J. and Li, Q. (2004) Cross-validation and the estimation of conditional probability
#'   densities. *Journal of the American Statistical Association* 99, 1015-1026.
#'
#'   Hyndman, R. J., Bashtannyk, D. M. and Grunwald, G. K. (1996) Estimating and visualizing conditional densities.
#'   *Journal of Computational and Graphical Statistics* 5, 315-336.
#'
#'   Li, Q. and Racine, J. S. (2007) *Nonparametric Econometrics*. Princeton University Press, chapters 5 and 6.
#' @seealso [kde_conditional()] for one value of x and a given bandwidth, [plot.flash_conditional()].
#' @examples
#' fit <- flash_kde(waiting ~ eruptions, faithful)
#' fit
#' at <- data.frame(eruptions = c(2, 3, 4.5))
#' quantile(fit, at, c(0.1, 0.5, 0.9))
#' predict(fit, at, type = "mean")
#' predict(fit, data.frame(eruptions = 2, waiting = 50:55))
#' plot(fit)
#'
#' # a factor on the right side, and on the left
#' flowers <- flash_kde(Petal.Width ~ Petal.Length + Species, iris)
#' quantile(flowers, data.frame(Petal.Length = 4.8, Species = levels(iris$Species)), 0.5)
#' species <- flash_kde(Species ~ Petal.Length + Petal.Width, iris)
#' predict(species, data.frame(Petal.Length = 4.8, Petal.Width = 1.6), type = "probability")
#' @rawRd \concept{quantile regression}\concept{conditional density}\concept{conditional quantile}
#' @name flash_conditional
NULL

# `call`: the matched call; `frame`: the frame in which the user wrote it; `options`: the result of check_fit_options().
fit_conditional <- function(call, frame, data, options, na.action) {
  run <- start_run(options$asked)
  made <- conditional_data(call, data, frame)
  settled <- settle_conditional(made, options, na.action, run)
  stored <- generic_call(name_options(call))
  joint <- fit_kde(made$points, "formula", stored, settled$options, run)
  if (isTRUE(settled$chose_sds)) joint$selector <- "lcv"
  if (!is.null(settled$free)) joint$discrete$chosen <- settled$free
  structure(
    class = "flash_conditional",
    list(
      call = stored, joint = joint, response = made$response, given = made$given,
      selector = joint$selector, search = settled$search,
      terms = made$terms, variables = made$variables, dates = made$dates, na.action = joint$na.action
    )
  )
}

# The data of a two-sided formula: list(points, response, given, weights, terms, variables). `response` and `given` are
# the names of the columns of y and of x; `variables` is a list of the variables of the data in y and in x.
conditional_data <- function(call, data, frame) {
  made <- formula_frame(call, data, frame)
  dates <- date_kinds(made)
  made <- dates_as_numbers(made, dates, "formula")
  terms <- attr(made, "terms")
  if (length(attr(terms, "term.labels")) == 0 && is.null(attr(terms, "offset"))) {
    stop_argument("formula", "must name a variable on its right side (for the density of y alone, use ~ y)")
  }
  right <- check_terms(stats::delete.response(terms))
  y <- response_columns(made, "formula")
  x <- apart(term_columns(made, terms))
  names <- c(names(y), names(x))
  if (anyDuplicated(names)) {
    twice <- names[anyDuplicated(names)]
    stop_argument("formula", "must have each variable on one side only: found ", quote_names(twice), " twice")
  }
  points <- if (has_levels(c(y, x))) {
    mixed_points(c(y, x), "formula")
  } else {
    cbind(response_points(made, "formula"), frame_points(made, terms, "formula"))
  }
  all <- data_variables(terms, data)
  list(
    points = points, response = names(y), given = names(x), weights = stats::model.weights(made), terms = terms,
    dates = dates, variables = list(y = setdiff(all, all.vars(right)), x = intersect(all, all.vars(right)))
  )
}

# The left side of a model frame, as a list of its columns.
response_columns <- function(frame, arg) {
  y <- stats::model.response(frame)
  if (is_levels(y)) return(stats::setNames(list(unname(y)), names(frame)[1]))
  points <- response_points(frame, arg)
  stats::setNames(lapply(seq_len(ncol(points)), \(k) points[, k]), colnames(points))
}

# The left side of a model frame as a double matrix. An error unless it is numeric.
response_points <- function(frame, arg) {
  y <- stats::model.response(frame)
  name <- names(frame)[1]
  if (!is_number(y)) {
    stop_argument(
      arg, "must have numbers or one categorical column on the left side: ", quote_names(name), " is of class ",
      shorten(class(y)[1]), number_hint(y)
    )
  }
  # the columns of cbind() have names of their own
  if (has_names(colnames(y))) return(check_points(y, arg, infinite = TRUE, none = TRUE))
  check_points(name_columns(unclass(y), name), arg, infinite = TRUE, none = TRUE)
}

# list(options, search, chose_sds): what fit_kde() takes for the joint density, its bandwidth found.
settle_conditional <- function(made, options, na.action, run) {
  if (!is.null(options$support)) {
    cure <- "fit all columns with `support`, and use kde_conditional(), or flash_kda() for one fit of each category"
    stop_argument("support", "is not available for y ~ x: ", cure)
  }
  if (kernel_name(options$kernel) != "gaussian") {
    stop(new_error("unsupported", paste0(
      "kernel = \"", options$kernel, "\" is not available for y ~ x: fit all columns with it, and use kde_conditional()"
    ), user_call()))
  }
  if (is_auto(options$estimator)) options$estimator <- PLAIN_ESTIMATOR
  estimator <- check_estimator(options$estimator)
  if (estimator == "laplace6") {
    stop_argument("estimator", "must be \"kde\", \"sdkde\" or \"laplace\" for y ~ x: found \"laplace6\"")
  }
  if (isTRUE(options$nonnegative)) stop_argument("debias$nonnegative", "is not available for a conditional density")
  adaptive <- check_adaptive(options$adaptive, nrow(made$points))
  if (identical(adaptive, "balloon")) stop_argument("adaptive", "must not be \"balloon\" for a conditional density")
  if (identical(adaptive, "auto")) options$adaptive <- FALSE
  options[c("weights", "na.action")] <- list(made$weights, na.action)
  if (is_mixed(made$points)) return(settle_levels(made, options, estimator, na.action, run))
  check_no_levels(options)
  if (!is_own_search(options$bandwidth)) return(list(options = options))
  search <- conditional_options(options)
  weights <- check_weights(made$weights, nrow(made$points), missing = TRUE)
  data <- handle_missing(made$points, weights, na.action, "formula")
  check_spread(data$points, "formula", data$weights, cure = " (give `bandwidth` as numbers)")
  response <- seq_along(made$response)
  found <- conditional_bandwidth(data, response, estimator, search, search_run(run, ncol(data$points)), "formula")
  options <- with_sds(options, estimator, found$bandwidth, colnames(data$points))
  list(options = options, search = found$search, chose_sds = TRUE)
}

# The options with the kernel standard deviations that a search found.
with_sds <- function(options, estimator, sds, names) {
  # fit_kde() refuses a structure beside a bandwidth that is given
  options[c("bandwidth", "structure")] <- list(stats::setNames(sds, names), "auto")
  if (ESTIMATORS[[estimator]]$debiased && is.null(options$score_bandwidth) && is.null(options$score)) {
    options$score_bandwidth <- sqrt(SCORE_RATIO) * options$bandwidth
  }
  options
}

# Is the bandwidth to be chosen for the conditional density?
is_own_search <- function(bandwidth) {
  is.null(bandwidth) || is.character(bandwidth) && length(bandwidth) == 1 && bandwidth %in% c("auto", "lcv")
}

conditional_options <- function(options) {
  search <- search_options("lcv", options$structure, options$rows, options$seconds)
  if (search$structure %in% c("auto", "diagonal")) return(search)
  stop_argument("structure", "must be \"diagonal\" for a conditional density: found \"", search$structure, "\"")
}
