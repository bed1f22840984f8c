#' Scores of an estimate at points that it has not seen
#'
#' Fits again without each fold of the points in turn, and computes a proper score of this estimate at the points of the
#' fold. Bandwidths and local factors that were chosen from the data are chosen again without the fold.
#'
#' @details
#' With p the estimate and x a point that it has not seen, the **scores** of a density are
#' \describe{
#'   \item{`"log"`}{\eqn{\log p(x)}{log p(x)}, the term of the row in [logLik()][logLik.flash_kde]. It is `-Inf` where a
#'     signed estimate is negative, or an estimate that is clipped at 0 is 0.}
#'   \item{`"quadratic"`}{\eqn{2 p(x) - \int p^2}{2 p(x) - the integral of p^2}. Its mean is minus the integrated
#'     squared error, up to a constant. It is also proper for signed estimates.}
#'   \item{`"spherical"`}{\eqn{p(x) / (\int p^2)^{1/2}}{p(x) / sqrt(the integral of p^2)}, also proper for signed
#'     estimates.}
#' } Larger is better. The expectation of each score is largest for the true density (Gneiting and Raftery 2007). The
#' units are nats, 1 / (product of the units of the columns), and the square root of that. Integrals of squares are
#' sums of kernels over all pairs, \eqn{O(n^2 d)}. They use the tolerance of the fit, except that they are exact for
#' `"laplace"` and `"laplace6"`, and sum over categories. For an estimate that is clipped (`nonnegative`), the integral excludes
#' the negative part, as accurately as the fit has computed that part.
#'
#' The scores of a conditional density `flash_kde(y ~ x)` are `"log"`, \eqn{\log p(y | x)}{log p(y | x)}, and
#' `"squared"`, minus the squared error of the conditional mean, in squared units of y, summed over the responses. A
#' [kernel_regression()] has `"squared"`.
#'
#' **Fits of [flash_kda()]** classify each row by a fit without the row or without its fold. Leave-one-out (`"loo"`) is
#' exact at given bandwidths and priors: each row is removed from the sums of its class. With folds, all is fitted again
#' without the fold, including bandwidths; priors are those of the fit. If `folds` is a number, the folds are stratified
#' by class. The log score of a row is the log probability of its class.
#'
#' **Fits of [kernel_ridge()]** have `"squared"` for a numeric response, before it `"loss"`, minus the loss, for another
#' [ridge_family()] than the gaussian. For classes they have `"log"`, the log probability of the class (logistic loss
#' only), and `"class"`, which is 1 if the class is predicted and 0 otherwise;
#' random folds contain all classes. A `bandwidth`, a `lambda` and centres that were given as points stay; what was
#' chosen from the data is chosen again. `cross_validate(tuned)` repeats the whole of [tune_ridge()] without each
#' fold, and takes as many times as long. `cross_validate(tuned$fit)` keeps the parameters found with all rows. The
#' mean score is weighted by the row weights, and also by the class weights.
#'
#' **Fits to a [flash_data()]**: each fold has its part of the rows of every shard. Fits and scores stay on the workers,
#' and only sums of scores come back.
#'
#' Arguments given to [flash_kde()] stay: a numeric `bandwidth`, factors, a `score`. A `score` that is a function is
#' called again, with a matrix of the rows without the fold. A fit given as `score` has seen the points of the fold, so
#' the result is too optimistic.
#'
#' @param object A fit from [flash_kde()] (not a balloon estimate), [kernel_regression()], [flash_kda()],
#'   [kernel_ridge()] or [tune_ridge()]. Only fits from [flash_kde()] may be fits to a [flash_data()].
#' @param folds Number of folds, drawn by R's random numbers ([set.seed()]), or a vector with the fold of each point of
#'   the fit. For a [flash_data()] a number, at most the number of rows of the smallest shard. For [flash_kda()] also
#'   `"loo"`, leave-one-out.
#' @param score `"log"`, `"quadratic"`, `"spherical"`, `"squared"`, `"loss"` or `"class"`, see Details. `NULL` (default): the
#'   first score that the fit has.
#' @param x The result.
#' @param digits Number of significant digits.
#' @param ... Not used; anything here is an error.
#' @returns A list of class `flash_kde_validation`:
#'   * `score`: the name; `scores`: the score of each point (`NA` for points of weight 0 and for rows that `na.exclude`
#'     left out; `NULL` for a [flash_data()]);
#'   * `mean`, weighted like the points, and `se`, its standard error;
#'   * `folds`: the fold of each point (for a [flash_data()] the numbers of the folds);
#'   * `by_fold`: a data frame of `fold`, `n`, `score` (the mean of the fold) and `bandwidth`, a matrix of the standard
#'     deviations chosen without the fold (columns of y first);
#'   * `n`: the number of points of positive weight.
#'
#'   For [flash_kda()] a list of class `flash_kda_validation`: `error`, the weighted share of rows that are classified
#'   wrongly; `confusion`, a table of observed and predicted classes; `log_score`, the mean; `prob` and `class` for each
#'   row; and `folds`.
#' @references Gneiting, T. and Raftery, A. E. (2007) Strictly proper scoring rules, prediction, and estimation.
#'   *Journal of the American Statistical Association* 102, 359-378.
#' @seealso [compare_fits()] for several fits on the same folds.
#' @rawRd \concept{cross-validation}\concept{folds}\concept{classification error}
#' @export
#' @examples
#' fit <- flash_kde(faithful, "sdkde", debias = debiasing(steps = 2))
#' set.seed(1)
#' cross_validate(fit, folds = 5)
#'
#' cross_validate(kernel_ridge(mpg ~ wt + hp, data = mtcars), folds = 5)
#' classes <- flash_kda(Species ~ Petal.Length + Petal.Width, iris, estimator = "kde", bandwidth = 0.2)
#' cross_validate(classes)
cross_validate <- function(object, ...) UseMethod("cross_validate")

#' @rdname cross_validate
#' @export
cross_validate.default <- function(object, folds = 10, score = NULL, ...) {
  made <- judge_of(object)
  check_dots_empty(...)
  score <- check_choice(if (is.null(score)) made$scores else score, made$scores, "score")
  folds <- made$draw_folds(folds)
  found <- made$by_fold(folds, score, start_run(made$asked, "Cross-validating"))
  structure(class = "flash_kde_validation", list(
    call = match.call(), score = score, scores = stats::naresid(made$na.action, found$scores), mean = found$mean,
    se = found$se, folds = folds, by_fold = found$by_fold, n = found$n
  ))
}

#' @rdname cross_validate
#' @export
print.flash_kde_validation <- function(x, digits = max(3L, getOption("digits") - 3L), ...) {
  digits <- check_digits(digits)
  cat(length(unique(x$folds)), "-fold cross-validation, ", score_title(x$score), " per point: ",
    format(x$mean, digits = digits), " (standard error ", format(x$se, digits = 2), ")\n",
    if (x$score == "squared") paste0("Root mean squared error: ", format(sqrt(-x$mean), digits = digits), "\n"),
    "\n", sep = "")
  many <- NCOL(x$by_fold$bandwidth) > 4
  print(if (many) x$by_fold[c("fold", "n", "score")] else x$by_fold, digits = digits, row.names = FALSE)
  if (many) cat("\nThe bandwidths of each fold are in the element `by_fold`.\n")
  invisible(x)
}

# ---- folds ------------------------------------------------------------------------------------

# The fold of each point. The rest of each fold must have two points of positive weight.
check_folds <- function(folds, object) {
  n <- object$n
  if (length(folds) == 1 && n > 1) return(sample(rep_len(seq_len(check_count(folds, "folds", min = 2, max = n)), n)))
  if (length(folds) != n || !is.atomic(folds) && !is.factor(folds)) {
    stop_argument("folds", "must be a number of folds or the fold of each of ", n, " points: found ", describe(folds))
  }
  if (anyNA(folds)) stop_argument("folds", "must not have missing values")
  used <- used_rows(object)
  parts <- unique(folds)
  if (length(parts) < 2) stop_argument("folds", "must have at least two different values: found one")
  left <- sum(used) - vapply(parts, \(part) sum(used & folds == part), 0)
  if (any(left < 1)) stop_argument("folds", "must leave points to fit to: found a fold with all points")
  as.vector(folds)
}

# Repeats a fit on some of its rows, with the options that the user gave.
refit <- function(object, rows, run) {
  options <- object$settings
  if (is.null(options)) stop_argument("object", "must be a fit from flash_kde() of this version of flashkernel")
  options <- options_of_rows(options, object, rows)
  options[c("weights", "na.action")] <- list(object$weights[rows], stats::na.fail)
  fit_kde(places_of_rows(object, rows), "object", object$call, options, run)
}

# list(mean, se). The standard error treats the values as independent; paired differences of scores nearly are.
weighted_mean <- function(values, weights) {
  n <- length(values)
  w <- if (is.null(weights)) rep(1 / n, n) else weights / sum(weights)
  mean <- sum(w * values)
  list(mean = mean, se = if (is.finite(mean)) sqrt(sum(w^2 * (values - mean)^2) * n / (n - 1)) else NA_real_)
}
