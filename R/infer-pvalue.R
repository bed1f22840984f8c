#' p-values of unusual rows: outliers
#'
#' `kde_pvalue()` finds outliers. It measures how unusual points are: the probability of a place where the density is at most as
#' high as at the point. A p-value of 0.001 means that one point in a thousand lies where the density is as low. It is 1 minus the probability of the
#' smallest highest-density region that contains the point ([hdr_level()]).
#'
#' @section Types:
#' `"rank"` (default) compares p(y) with the leave-one-out densities of the training points,
#' \deqn{(1 + \#\{i: p_{-i}(x_i) \le p(y)\}) / (n + 1),}{(1 + #{i: p_-i(x_i) <= p(y)}) / (n + 1),} with sums of weights
#' instead of counts if there are weights. Without `newdata` the training points are ranked among themselves.
#'
#' `"integral"` is the probability under the estimate itself, from `n_samples` draws. It needs no leave-one-out sums, but it is as
#' wrong as the tails of the estimate are. Gaussian kernels have tails that are too light for heavy-tailed data.
#'
#' Where a Laplace-corrected estimate is negative, a point ranks below all points with a positive estimate.
#'
#' @section Guarantees:
#' If the rows are exchangeable and the bandwidth does not depend on their order, as with all selectors of this package, the p-value of a
#' training row is exactly uniform on 1/n, ..., 1. This holds for any density, dimension and quality of the estimate; ties make
#' p-values larger. For a new row it holds up to a term of order 1 / n (Lei, Robins and Wasserman 2013).
#'
#' With `calibration`, rows that the fit has not seen, it is exact for new rows, too: \eqn{(1 + \#\{c: p(x_c) \le p(y)\}) / (n_c +
#' 1)}{(1 + #{c: p(x_c) <= p(y)}) / (n_c + 1)} is at most \eqn{\alpha} with probability at most \eqn{\alpha} (split conformal
#' inference). With weights the guarantees are approximate. p-values of several rows are not independent; with `calibration`,
#' [stats::p.adjust()] with `method = "BH"` is valid (Bates and others 2023).
#'
#' @section Cost:
#' \eqn{O(n^2)} for the leave-one-out densities, or linear in n with a tolerance in few dimensions, and \eqn{O(nm)} for m
#' points. With `calibration` no leave-one-out densities are needed.
#'
#' @param object A fit from [flash_kde()].
#' @param newdata Points, as for [predict()][predict.flash_kde]. `NULL` or missing: the training points, each
#'   judged by the others.
#' @param type `"rank"` or `"integral"`.
#' @param calibration Rows that the fit has not seen, with the columns of `newdata`, or `NULL`. For new points.
#' @param n_samples For `"integral"`: number of draws, by R's random numbers ([set.seed()]).
#' @param na.action As for [predict()][predict.flash_kde].
#' @param ... Not used; anything here is an error.
#' @returns A vector of p-values, one for each point; `NA` where a value is missing.
#' @references Lei, J., Robins, J. and Wasserman, L. (2013) *Journal of the American Statistical Association* 108, 278-287.
#'
#'   Bates, S. and others (2023) *The Annals of Statistics* 51, 149-178.
#' @seealso [hdr_level()] for the regions.
#' @rawRd \concept{outlier}\concept{anomaly detection}\concept{unusual rows}\concept{novelty detection}
#' @export
#' @examples
#' fit <- flash_kde(faithful)
#' p <- kde_pvalue(fit)
#' faithful[p < 0.02, ]
#' plot(fit)
#' points(faithful[p < 0.02, ], pch = 19, col = "red")
#' kde_pvalue(fit, data.frame(eruptions = c(2, 3), waiting = c(50, 90)))
#'
#' # exact for new rows: half of the data for the fit, half to compare with
#' half <- seq(1, 272, by = 2)
#' fit <- flash_kde(faithful[half, ])
#' kde_pvalue(fit, data.frame(eruptions = 3, waiting = 90), calibration = faithful[-half, ])
kde_pvalue <- function(object, ...) UseMethod("kde_pvalue")

#' @export
kde_pvalue.default <- function(object, ...) check_fit(object)

#' @rdname kde_pvalue
#' @export
kde_pvalue.flash_kde <- function(object, newdata, type = c("rank", "integral"), calibration = NULL,
                                     n_samples = 10000, na.action = stats::na.pass, ...) {
  check_dots_empty(...)
  type <- check_choice(type, c("rank", "integral"), "type")
  n_samples <- check_count(n_samples, "n_samples")
  if (missing(newdata)) newdata <- NULL
  own <- is.null(newdata)
  if (!is.null(calibration) && (own || type == "integral")) {
    found <- if (own) "no `newdata`" else "\"integral\""
    stop_argument("calibration", "must be NULL unless there are new points and type = \"rank\": found ", found)
  }
  if (own || type == "rank" && is.null(calibration)) check_loo(object, "object")
  if (type == "integral") check_can(object, "draws")
  run <- start_run(fit_asked(object), "Ranking")
  kept <- if (own) {
    list(restore = \(result, at_infinity) stats::napredict(object$na.action, result))
  } else {
    newdata_rows(new_points(object, newdata), na.action)
  }
  known <- known_heights(object, type, calibration, n_samples, run)
  heights <- if (!own) heights_at(object, kept$points, FALSE, run) else if (type == "rank") known$heights else {
    heights_at(object, NULL, TRUE, run)
  }
  # a training point is ranked among the training points, including itself
  one <- if (own && type == "rank") 0 else 1
  p <- (one + known$below(heights)) / (one + known$count)
  kept$restore(p, at_infinity = one / (one + known$count))
}

# Values by which points are ranked, two columns. The second is the log density (of the plain estimate, where a
# Laplace-corrected estimate is negative); the first is 1, or 0 where the estimate is negative, which ranks lowest.
heights_at <- function(object, at, loo, run) {
  if (has_none(at)) return(matrix(0, 0, 2))
  estimate <- log_estimate(object, at, loo, run)
  negative <- as.logical(estimate$negative)
  if (!any(negative)) return(cbind(1, estimate$log_abs))
  plain <- log_estimate(object, at, loo, run, factor = PLAIN_FACTOR)
  cbind(1 - negative, ifelse(negative, plain$log_abs, estimate$log_abs))
}

# The reference values: list of `heights`, their `count`, and `below`, a function that returns how many are at most as
# high as given heights. Weights are relative to their mean.
known_heights <- function(object, type, calibration, n_samples, run) {
  weights <- NULL
  heights <- if (type == "integral") {
    check_memory(8 * 4 * n_samples * object$d, "n_samples")
    draws <- if (is_signed(object)) draw_positive_part(object, n_samples) else draw_estimate(object, n_samples)
    heights_at(object, draws, FALSE, run)
  } else if (!is.null(calibration)) {
    heights_at(object, check_calibration(object, calibration), FALSE, run)
  } else {
    weights <- object$weights
    heights_at(object, NULL, TRUE, run)
  }
  known <- nrow(heights)
  if (is.null(weights)) weights <- rep(1, known)
  weights <- weights / mean(weights[weights > 0])
  below <- function(at) {
    all <- rbind(heights, at)
    # ties: reference values sort first, since they count as at most as high
    by_height <- order(all[, 1], all[, 2], seq_len(nrow(all)) > known)
    reached <- cumsum(c(weights, numeric(nrow(at)))[by_height])
    reached[order(by_height)][known + seq_len(nrow(at))]
  }
  list(heights = heights, count = sum(weights), below = below)
}

check_calibration <- function(object, calibration) {
  mixed <- if (is_kind(object, "mixed")) new_points(object, calibration, "calibration")
  if (!is.null(mixed)) return(check_points(mixed, "calibration", infinite = TRUE))
  if (!is.null(object$terms)) calibration <- formula_newdata(object, calibration, "calibration")
  check_points(own_columns(calibration, "calibration", object$names), "calibration", object$d, object$names)
}
