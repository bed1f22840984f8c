#' Scores of an estimate at points that it has not seen
#'
#' Fits again without each of some folds of the points, and judges the estimate at the points of the fold by a proper
#' score. Bandwidth and factors are chosen anew without the fold, where they were chosen.
#'
#' @details
#' With p the estimate and x a point that it has not seen, the **scores** are
#' \describe{
#'   \item{`"log"`}{\eqn{\log p(x)}{log p(x)}, as [logLik()][logLik.flash_kde] has it, a row at a time. Where a signed
#'     estimate is negative, or one that is clipped is 0, it is `-Inf`.}
#'   \item{`"quadratic"`}{\eqn{2 p(x) - \int p^2}{2 p(x) - the integral of p^2}: up to a constant minus the integrated
#'     squared error, on average. It serves signed estimates as well as densities.}
#'   \item{`"spherical"`}{\eqn{p(x) / (\int p^2)^{1/2}}{p(x) / sqrt(the integral of p^2)}, which serves both, too.}
#' }
#' The larger the better; each is expected to be largest for the density that the points come from (Gneiting and
#' Raftery 2007). Units: nats, 1 / (product of the units of the columns), and the square root of that. Integrals of
#' squares are sums of kernels over all pairs, \eqn{O(n^2 d)}: to the tolerance of the fit, but for `"laplace"` exact
#' whatever that is, and not known for `"laplace6"`. Of an estimate that is clipped (`nonnegative`) the part below 0 is
#' taken off, as well as the fit knows it.
#'
#' Of a conditional density, `flash_kde(y ~ x)`, the score is \eqn{\log p(y | x)}{log p(y | x)}, or `"squared"`, minus
#' the squared error of the conditional mean, in squared units of y, summed where there are several; of
#' [kernel_regression()] it is that of the fit.
#'
#' **Fits of [flash_kda()]** classify every row by a fit without it, or without its fold. One row left out (`"loo"`) is
#' exact, by a formula that the densities have: as if their bandwidths and priors were given, each row is taken out of
#' the sums of its class. With folds all is fitted anew to the others, bandwidths included; priors are those of the
#' fit. A number of folds is drawn in equal parts of each class. The log score of a row is the logarithm of its class's
#' probability.
#'
#' **Fits of [kernel_ridge()]** have `"squared"` for a numeric response. For classes they have `"log"`, the logarithm
#' of the probability of the class (logistic loss), and `"class"`, 1 where the class is predicted and 0 elsewhere;
#' folds that are drawn have all classes. A `bandwidth` and `lambda` that were given stay, and so do centres that were
#' given as points. What was chosen from the data is chosen anew: `cross_validate(tuned)` tunes without each fold, and
#' takes as many times the time of [tune_ridge()], while `cross_validate(tuned$fit)` keeps the numbers that were found
#' with all rows. Row weights count in the mean score, for `loss = "weighted"` times those of the classes.
#'
#' Of a fit to a [flash_data()] each fold takes its part of the rows of every shard, where these are; fits and scores
#' stay there, too, and only sums of scores come back.
#'
#' What was given to [flash_kde()] stays: a `bandwidth` in numbers, factors, a `score`. A score that is a function is
#' asked anew, of a matrix its rows count; a fit as `score` has seen the points of the fold, which flatters.
#'
#' @param object A fit from [flash_kde()], to points in memory or a [flash_data()], and no balloon estimate, or from
#'   [kernel_regression()], [flash_kda()], [kernel_ridge()] or [tune_ridge()], with rows in memory.
#' @param folds A number of folds, drawn by R's random numbers ([set.seed()]), or which fold each point is in: a vector
#'   of as many values as the fit has points. For a [flash_data()] a number, of no more than the rows of any shard. For
#'   [flash_kda()] also `"loo"`, one row after the other.
#' @param score `"log"`, `"quadratic"`, `"spherical"`, `"squared"` or `"class"`; see Details. `NULL`: the first that the
#'   fit has.
#' @param x The result.
#' @param digits Number of significant digits.
#' @param ... Not used; anything here is an error.
#' @returns A list of class `flash_kde_validation`: `score`; `scores`, one for each point (`NA` for those of weight 0,
#'   and for rows that `na.exclude` left out); `mean` (weighted, as the points are) and `se`, its standard error;
#'   `folds`, the fold of each point; `by_fold`, a data frame of `fold`, `n`, `score`, the fold's mean, and the
#'   `bandwidth`s without the fold, as standard deviations, a matrix (those of y first); `n`, the number of points that
#'   count. Of a [flash_data()] `scores` is `NULL` and `folds` are the numbers of the folds.
#'
#'   Of [flash_kda()] a list of class `flash_kda_validation`: `error`, the part of the rows (by weights) in another
#'   class than theirs; `confusion`, a table of rows by their class and the one predicted; `log_score`, the mean;
#'   `prob` and `class` by row, and `folds`.
#' @references Gneiting, T. and Raftery, A. E. (2007) Strictly proper scoring rules, prediction, and estimation.
#'   *Journal of the American Statistical Association* 102, 359-378.
#' @seealso [compare_fits()] for several fits on the same folds.
#' @export
#' @examples
#' fit <- flash_kde(faithful, "sdkde", debias = debiasing(steps = 2))
#' set.seed(1)
#' cross_validate(fit, folds = 5)
#'
#' cross_validate(kernel_ridge(mpg ~ wt + hp, data = mtcars), folds = 5)
#' cross_validate(flash_kda(Species ~ Petal.Length + Petal.Width, iris, estimator = "kde", bandwidth = 0.2))
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
  cat(length(unique(x$folds)), "-fold cross-validation, ", score_title(x$score), " a point: ",
    format(x$mean, digits = digits), " (standard error ", format(x$se, digits = 2), ")\n",
    if (x$score == "squared") paste0("Root mean squared error: ", format(sqrt(-x$mean), digits = digits), "\n"),
    "\n", sep = "")
  print(x$by_fold, digits = digits, row.names = FALSE)
  invisible(x)
}

# ---- folds ------------------------------------------------------------------------------------

# The fold of each point. Every part that is fitted to needs two points that weigh anything.
check_folds <- function(folds, object) {
  n <- object$n
  if (length(folds) == 1 && n > 1) {
    return(sample(rep_len(seq_len(check_count(folds, "folds", min = 2, max = n)), n)))
  }
  if (length(folds) != n || !is.atomic(folds) && !is.factor(folds)) {
    stop_argument("folds", "must be a number of folds or the fold of each of ", n, " points: found ", describe(folds))
  }
  if (anyNA(folds)) stop_argument("folds", "must not have missing values")
  used <- used_rows(object)
  parts <- unique(folds)
  if (length(parts) < 2) stop_argument("folds", "must be at least two different ones: found one")
  left <- sum(used) - vapply(parts, \(part) sum(used & folds == part), 0)
  if (any(left < 1)) stop_argument("folds", "must each leave points to fit to: found one that has all")
  as.vector(folds)
}

# The same fit to some of its points.
refit <- function(object, rows, run) {
  options <- object$settings
  if (is.null(options)) stop_argument("object", "must be a fit by flash_kde() itself, of this version of flashkernel")
  options <- options_of_rows(options, object, rows)
  options[c("weights", "na.action")] <- list(object$weights[rows], stats::na.fail)
  points <- own_places(object)[rows, , drop = FALSE]
  if (!is.null(object$discrete)) {
    attributes(points)[c("columns", "names_in_order")] <- object$discrete[c("columns", "names")]
  }
  fit_kde(points, "object", object$call, options, run)
}

# list(mean, se). The error takes the values as independent, as paired differences of scores nearly are.
weighted_mean <- function(values, weights) {
  n <- length(values)
  w <- if (is.null(weights)) rep(1 / n, n) else weights / sum(weights)
  mean <- sum(w * values)
  list(mean = mean, se = if (is.finite(mean)) sqrt(sum(w^2 * (values - mean)^2) * n / (n - 1)) else NA_real_)
}
