#' Densities, log densities and scores from a fit
#'
#' Evaluates the estimate at new points or at the training points, exactly (every training point
#' counts for every prediction) or, where the fit or `tol` allows it, to a tolerance.
#'
#' @details
#' **Log densities** are computed as such and stay right where the density itself underflows to 0
#' or overflows (far tails, many dimensions).
#'
#' **The Laplace-corrected estimate is signed.** `type = "density"` returns its sign; `type =
#' "log_density"` gives `NaN` where it is negative, with one warning; `type = "score"` is finite there,
#' too: the gradient of \eqn{\log |p|}{log |p|}. With `nonnegative` in the fit none of this is: the density is 0
#' there, its logarithm `-Inf`, and the score `NaN`.
#'
#' **Leave-one-out** (`loo = TRUE`): point \eqn{i} is left out of its own estimate, which is
#' divided by \eqn{W - w_i}{W - w_i}. For `"sdkde"` the point is left out of both stages, so it
#' does not debias the others either; the same as fitting `n` times. Points of a [flash_data()] are left out on the workers,
#' where an `"sdkde"` takes another pass over all pairs first, for sums of the score that a fit does not keep. With several `steps`, or with images or masses
#' of a `support`, it is done by `n` fits, up to some 3,000 points.
#'
#' **Standard errors** treat the estimate as a weighted mean of independent kernel values,
#' \deqn{se^2 = \sum_i w_i^2 K_H(y - x_i)^2 / W^2 - p(y)^2 \sum_i w_i^2 / W^2,}{se^2 = sum_i w_i^2
#' K_H(y - x_i)^2 / W^2 - p(y)^2 sum_i w_i^2 / W^2,} (0 where rounding makes this negative), with
#' the corrected kernel for `"laplace"` (for `"laplace6"` there are none). They measure the spread of the estimate
#' around its own mean, not its bias; for `"sdkde"` they take the debiased points as given. For log densities
#' they are \eqn{se / |p|} (delta method).
#'
#' **Cost**: \eqn{O(nmd)} for `m` points (the training points need half, by symmetry), twice that
#' with `se.fit`; \eqn{O(n + m)} with a tolerance in few dimensions. Standard errors and, for `"sdkde"`,
#' leave-one-out values are always exact sums.
#'
#' @param object A fit from [flash_kde()].
#' @param newdata Points to predict at: a matrix or data frame with the columns of the fit
#'   (by name where both have names, whatever other columns there are; by position otherwise), or a vector in one
#'   dimension. For a fit by formula, a data frame with the variables of the formula; for one with factors or texts, a
#'   data frame, whose levels the fit has to know: one that it does not is an error, as for [stats::predict.lm()]. `NULL` or
#'   missing: the training points. In one dimension `-Inf` and `Inf` are allowed, as in [kde_cdf()]: the density there is 0, its
#'   logarithm `-Inf`, and the score and the standard error of the logarithm are `NaN`. Elsewhere infinite
#'   values are an error.
#' @param type `"density"`, `"log_density"` or `"score"`, the gradient of the log density (for
#'   `"sdkde"`, of the SD-KDE; for `"laplace"`, of the logarithm of the absolute value).
#' @param se.fit Whether to return standard errors, too (not for scores).
#' @param loo Whether to leave every training point out of its own estimate. Only without
#'   `newdata`; for `"sdkde"` only for the densities, without `se.fit`.
#' @param na.action What to do about missing values in `newdata`. With the default,
#'   [stats::na.pass()], they give `NA`, as in [stats::predict.lm()]; [stats::na.omit()] leaves
#'   these rows out, [stats::na.fail()] is an error. For the training points the `na.action` of
#'   the fit decides: with [stats::na.exclude()] the rows left out are `NA` here.
#' @param tol Error tolerance of kernel sums, as for [flash_kde()]. `NULL`: that of `control`, otherwise that of the fit.
#' @param control A [flash_control()] for this prediction. What it does not say is as in the fit.
#' @param collect Whether the values come back. `FALSE`, where `newdata` is a [flash_data()], or missing and the fit is of one:
#'   they stay on its workers, as a [flash_data()] of the columns `density`, `log_density` or those of a score, and `se`;
#'   see [by()][flash_data]. The name of a folder: there go the values of each shard, a matrix of these columns, as
#'   `values-00001.rds` and so on, written by the worker that has it; what comes back is a [flash_data()] of these files,
#'   as `flash_data(files, cluster, reader = readRDS)` makes it of them later. Workers on other hosts have to see the
#'   folder.
#' @param ... Not used; anything here is an error.
#'
#' @returns For densities a vector of length `m`, in units of 1 / (product of the units of the numeric
#'   columns), or its logarithm. For scores an `m` x `d` matrix; column `k` has the inverse unit
#'   of column `k` of `x`. With `se.fit = TRUE`, a list of `fit` and `se.fit`.
#' @export
#' @examples
#' fit <- flash_kde(faithful, "kde")
#' predict(fit, data.frame(eruptions = c(2, 4.5), waiting = c(50, 80)), se.fit = TRUE)
#' head(predict(fit, type = "score"))
#'
#' # out-of-sample fit without a second sample
#' mean(predict(fit, type = "log_density", loo = TRUE))
predict.flash_kde <- function(object, newdata, type = c("density", "log_density", "score"),
                              se.fit = FALSE, loo = FALSE, na.action = stats::na.pass,
                              tol = NULL, control = NULL, collect = TRUE, ...) {
  if (...length() > 0) check_dots_empty(...)
  # `$` of what has a class looks for a method first, each time
  object <- unclass(object)
  type <- if (missing(type)) "density" else check_choice(type, c("density", "log_density", "score"), "type")
  if (!isFALSE(se.fit)) se.fit <- check_flag(se.fit, "se.fit")
  if (!isFALSE(loo)) loo <- check_flag(loo, "loo")
  # a fit may come from another machine: what it asked for need not be here
  run <- start_run(settle_control(control, list(tol = tol), fit_asked(object)), "Predicting")
  if (missing(newdata)) newdata <- NULL
  if (se.fit || loo) check_combination(object, newdata, type, se.fit, loo)
  if (!isTRUE(collect)) collect <- check_collect(collect)
  if (!isTRUE(collect) || is.object(newdata) && is_remote(newdata)) return(predict_data(object, newdata, type, se.fit, loo, run, collect))
  if (is.null(newdata)) {
    restore <- \(result, at_infinity) stats::napredict(object$na.action, result)
    return(predict_at(object, NULL, type, se.fit, loo, run, restore))
  }
  kept <- newdata_rows(new_points(object, newdata), na.action)
  predict_at(object, kept$points, type, se.fit, loo, run, kept$restore)
}
