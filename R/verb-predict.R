#' Densities, log densities and scores from a fit
#'
#' `predict()` returns the density, its logarithm or its gradient at new points or at the training points. Sums are
#' exact (over all training points), unless the fit or `tol` allows an error.
#'
#' @details **Log densities** are computed as logarithms. They are accurate also where the density underflows to 0 or
#' overflows (far tails, many dimensions).
#'
#' **Negative values.** The Laplace-corrected estimate may be negative. `type = "density"` returns negative values;
#' `type = "log_density"` gives `NaN` there, with one warning; `type = "score"` is the gradient of
#' \eqn{\log |p|}{log |p|}. With `nonnegative` in the fit the density is 0 there, its logarithm `-Inf` and the score
#' `NaN`, without a warning.
#'
#' **Leave-one-out** (`loo = TRUE`): the estimate at point \eqn{i} excludes that point and is divided by \eqn{W -
#' w_i}{W - w_i}. For `"sdkde"` the point is left out of both stages, so it does not debias the other points either;
#' the result equals that of `n` fits. With several `steps`, or with a `support` that reflects points or rescales
#' kernels, `n` fits are made, up to about 3,000 points. For a [flash_data()] the workers compute leave-one-out
#' values; an `"sdkde"` needs another pass over all pairs for score sums that the fit does not store.
#'
#' **Standard errors** treat the estimate as a weighted mean of independent kernel values,
#' \deqn{se^2 = \sum_i w_i^2 K_H(y - x_i)^2 / W^2 - p(y)^2 \sum_i w_i^2 / W^2,}{se^2 = sum_i w_i^2
#' K_H(y - x_i)^2 / W^2 - p(y)^2 sum_i w_i^2 / W^2,} (0 if rounding makes this negative), with
#' the corrected kernel for `"laplace"` and `"laplace6"`. They measure the variability of the estimate
#' around its own mean, not its bias. For `"sdkde"` they take the debiased points as given; see [kde_bands()]. For log
#' densities they are \eqn{se / |p|} (delta method).
#'
#' **Cost**: \eqn{O(nmd)} for `m` points (half for the training points, by symmetry), twice that with `se.fit`, and
#' \eqn{O(n + m)} with a tolerance in few dimensions. Standard errors, and leave-one-out values of `"sdkde"`, are always
#' exact sums.
#'
#' @param object A fit from [flash_kde()].
#' @param newdata Points to predict at: a matrix or data frame with the columns of the fit, or a vector in one
#'   dimension. Columns are matched by name if both have names, and by position otherwise; further columns are
#'   ignored. For a fit by formula, a data frame with the variables of the formula. For a fit with factors or texts, a
#'   data frame; a category that the fit does not have is an error, as in [stats::predict.lm()]. `NULL` or missing:
#'   the training points. In one dimension `-Inf` and `Inf` are allowed: the density there is 0, its logarithm `-Inf`,
#'   and the score and the standard error of the logarithm are `NaN`. In more dimensions infinite values are an error.
#' @param type `"density"` (default), `"log_density"` or `"score"`, the gradient of the log density of the same
#'   estimate (for `"laplace"`, of the logarithm of its absolute value).
#' @param se.fit Whether to return standard errors, too. Not for scores.
#' @param loo Whether to leave each training point out of its own estimate. Only without `newdata`; for `"sdkde"` only
#'   for densities and log densities, without `se.fit`.
#' @param na.action Function for missing values in `newdata`. [stats::na.pass()] (default): predictions are `NA`, as
#'   in [stats::predict.lm()]; [stats::na.omit()] drops the rows; [stats::na.fail()] is an error. For the training
#'   points the `na.action` of the fit is used: with [stats::na.exclude()] the rows left out are `NA`.
#' @param tol Error tolerance of kernel sums, as for [flash_kde()]. `NULL` (default): that of `control`, otherwise
#'   that of the fit.
#' @param control A [flash_control()] for this prediction. Options that it does not set are those of the fit.
#' @param collect For a [flash_data()] as `newdata` or as training points: whether to return the values. `TRUE`
#'   (default): yes. `FALSE`: they stay on the workers, as a [flash_data()] with columns `density`, `log_density` or
#'   those of a score, and `se`; see [by()][flash_data]. The name of a folder: each worker writes the values of its
#'   shards there, as matrices with these columns, in files `values-00001.rds` and so on. The result is a
#'   [flash_data()] of these files, like `flash_data(files, cluster, reader = readRDS)`. Workers on other hosts need
#'   access to the folder.
#' @param ... Not used; anything here is an error.
#'
#' @returns For densities a vector of length `m`, in units of 1 / (product of the units of the numeric columns), or its
#'   logarithm. For scores an `m` x `d` matrix; column `k` has the inverse unit of column `k` of the points. With
#'   `se.fit = TRUE`, a list of `fit` and `se.fit`.
#' @rawRd \concept{log density}\concept{score function}\concept{leave-one-out}\concept{standard error of a density}
#' @export
#' @examples
#' fit <- flash_kde(faithful, "kde")
#' predict(fit, data.frame(eruptions = c(2, 4.5), waiting = c(50, 80)), se.fit = TRUE)
#' plot(faithful, cex = predict(fit) / max(predict(fit)))
#' head(predict(fit, type = "score"))
#'
#' # out-of-sample fit without a second sample
#' mean(predict(fit, type = "log_density", loo = TRUE))
predict.flash_kde <- function(object, newdata, type = c("density", "log_density", "score"),
                              se.fit = FALSE, loo = FALSE, na.action = stats::na.pass,
                              tol = NULL, control = NULL, collect = TRUE, ...) {
  if (...length() > 0) check_dots_empty(..., .others = c(interval = "kde_bands()", level = "kde_bands()"))
  # `$` on an object with a class looks for a method each time
  object <- unclass(object)
  type <- if (missing(type)) "density" else check_choice(type, c("density", "log_density", "score"), "type")
  if (!isFALSE(se.fit)) se.fit <- check_flag(se.fit, "se.fit")
  if (!isFALSE(loo)) loo <- check_flag(loo, "loo")
  # a fit may come from another machine, which had other devices
  run <- start_run(settle_control(control, list(tol = tol), fit_asked(object)), "Predicting")
  if (missing(newdata)) newdata <- NULL
  if (se.fit || loo) check_combination(object, newdata, type, se.fit, loo)
  if (!isTRUE(collect)) collect <- check_collect(collect)
  if (!isTRUE(collect) || is.object(newdata) && is_remote(newdata)) return(predict_data(object, newdata, type, se.fit, loo, run, collect))
  if (is.null(newdata)) {
    restore <- \(result, at_infinity) stats::napredict(object$na.action, result)
    return(predict_at(object, NULL, type, se.fit, loo, run, restore))
  }
  sends <- run$backend == "cuda" && is.null(run$cluster) && is.null(object$kind)
  kept <- newdata_rows(new_points(object, newdata), na.action, control = if (sends) run)
  if (sends) run$sent <- kept$sent # C finds the points `kept$points` by it
  predict_at(object, kept$points, type, se.fit, loo, run, kept$restore)
}
