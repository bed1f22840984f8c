#' Confidence bands for a density
#'
#' Intervals for the density at each of some points, or a band that holds all of it at once: by the estimate's
#' asymptotic distribution or by resampling, around an estimate that is free of the bias of order \eqn{h^2}. As
#' `np::plot.npdensity(plot.errors.method = )`, `lpdensity::lpdensity()` and `sparr::tolerance()` have them.
#'
#' @details
#' **Centre.** The bandwidth that is best for a plain estimate leaves a bias about as large as half its standard
#' error, and an interval about it holds the density too seldom. With `correct = TRUE` the interval of a `"kde"` is
#' about the Laplace-corrected estimate of the same bandwidth, and its standard error is that of the corrected
#' estimate: robust bias correction (Calonico, Cattaneo and Farrell 2018), after which nothing need be
#' undersmoothed. The bandwidth of a debiased or an adaptive estimate is larger, as best for one whose bias is of
#' order \eqn{h^4}; it is taken times the ratio of Silverman's rules for the two kinds, of order \eqn{n^{-1/(d+4) +
#' 1/(d+8)}}{n^(-1/(d+4) + 1/(d+8))}, 0.5 to 0.6 for 1,000 points in one dimension, and the interval is about the
#' SD-KDE
#' or the Laplace-corrected estimate, for adaptive ones with the same factors, of that. Of an SD-KDE the standard
#' error counts that each point moves the others, too ([predict()][predict.flash_kde]'s, for which debiased points
#' are given, is a quarter too small). With `correct = FALSE` an interval is about the estimate itself, and one for
#' its mean, which is a smoothed density.
#'
#' **Interval.** The variance of an estimate p is about \eqn{u f - f^2 / n}{u f - f^2 / n} for the density f, u being
#' the integral of the squared kernel over the number n of points. The interval has all f with \eqn{|p - f - s| \le z
#' \sqrt{V(f)}}{|p - f - s| <= z sqrt(V(f))}, where \eqn{V(f) = se^2 + u (f - p) - (f^2 - p^2) / n} is what the
#' variance would be if f were the density, below p no less than in proportion to f; s is Cornish and Fisher's correction for the skewness. For the share of
#' points in a cell that is Wilson's interval, shifted as Cai (2005) does. Where points are many it is p plus and minus
#' z standard errors; where there are none, it goes from 0 to about \eqn{z^2 u / 2}{z^2 u / 2}. It needs no
#' logarithms, never leaves the positive numbers, and holds its level on either side where points are few: three
#' standard deviations from the mean of 100 normal points p plus and minus z standard errors holds the density in
#' 53% of samples.
#'
#' **Simultaneous** bands take for z the quantile of the largest of all \eqn{|p - f| / se} at the points asked for,
#' but no less than of an interval: of `replicates` draws of a process with the covariance and the skewness of the
#' estimate, by multipliers of all points (Chernozhukov, Chetverikov and Kato 2014), Poisson counts of mean 1 less 1,
#' or of the resampled estimates. Steps of half a bandwidth between points are fine enough. In simulation (2,000 samples a
#' cell, `bench/inference.R`) bands of level 0.95 held the whole density in 0.94 to 0.97 of samples of 200 and 1,000
#' normal, bimodal and t distributed points, also over all of their range, and in 0.97 to 0.99 in two dimensions;
#' intervals in 0.94 to 0.96 on average over places.
#'
#' **Bootstrap**: rows are drawn again with replacement, with their weights, `replicates` times; for `"sdkde"` each
#' of these samples is debiased anew. Standard errors are the standard deviations of the resampled estimates.
#'
#' Bandwidths and factors count as given: the data that chose them are not counted as a source of variance, unless
#' `refit = TRUE` has each sample of a bootstrap fitted as the fit was, whatever it chose chosen anew. The
#' density is that which the points, with their weights, are independent draws from.
#'
#' **Cost**: \eqn{O(nm)} sums for `m` points; a simultaneous band or a bootstrap \eqn{O(nm)} for each replicate,
#' many of them in one pass; a bootstrap of an SD-KDE \eqn{O(n^2)} for each, with a progress bar; with `refit = TRUE`
#' as many fits as replicates, 0.03 seconds each for 200 points, of which an adaptive fit's search takes most. Adaptive
#' ones take a pass for each different factor. With a tolerance of the fit, sums are to that of their largest, over
#' 1,000 for the debiased ones.
#'
#' @param object A fit from [flash_kde()].
#' @param newdata Points, as for [predict()][predict.flash_kde]. `NULL`: an even grid over the range of the data,
#'   in one and two dimensions.
#' @param level Probability that the interval holds the density at a point, or that the band holds all of it.
#' @param type `"pointwise"` or `"simultaneous"`.
#' @param method `"asymptotic"` or `"bootstrap"`.
#' @param correct Whether the interval is about an estimate that is corrected for bias; else about the fit's own.
#' @param replicates Number of draws for simultaneous bands and bootstraps.
#' @param n Number of points of the grid along each axis. `NULL`: 201 in one dimension, 41 in two.
#' @param na.action As for [predict()][predict.flash_kde]: rows with missing values are `NA`, by default.
#' @param refit Whether a bootstrap fits each sample anew, with its own bandwidths and factors, if these were chosen.
#' @param ... For `confint()`, arguments of `kde_bands()`: `type` to `replicates`. Else nothing: an argument
#'   that is not known is an error.
#' @returns A data frame of class `kde_bands`, a row for each point: the points' columns, `estimate` (the
#'   centre, which of a corrected band is the corrected estimate), `lower`, `upper` and `se`, in 1 / (product of
#'   the units of the columns). Its attribute `"band"` is a list of `level`, `type`, `method`, `corrected`,
#'   `critical` (the z above), `estimator` and `n`. `confint()`: a matrix of the limits, two columns,
#'   with a row for each point. Random numbers are R's ([set.seed()]).
#' @references Cai, T. T. (2005) One-sided confidence intervals in discrete distributions. *Journal of Statistical
#'   Planning and Inference* 131, 63-88.
#'
#'   Calonico, S., Cattaneo, M. D. and Farrell, M. H. (2018) On the effect of bias estimation on coverage
#'   accuracy in nonparametric inference. *Journal of the American Statistical Association* 113, 767-779.
#'
#'   Chernozhukov, V., Chetverikov, D. and Kato, K. (2014) Anti-concentration and honest, adaptive confidence
#'   bands. *The Annals of Statistics* 42, 1787-1818.
#' @seealso [plot.kde_bands()]; `plot(fit, band = TRUE)`; [kde_pvalue()] and [kde_test()] for tests.
#' @export
#' @examples
#' fit <- flash_kde(faithful$eruptions, "kde")
#' bands <- kde_bands(fit)
#' head(bands)
#' plot(bands)
#'
#' set.seed(1)
#' all_at_once <- kde_bands(fit, type = "simultaneous")
#' attr(all_at_once, "band")$critical
#'
#' confint(fit, c(2, 3, 4.5), level = 0.9)
kde_bands <- function(object, ...) UseMethod("kde_bands")

#' @export
kde_bands.default <- function(object, ...) check_fit(object)

#' @rdname kde_bands
#' @export
kde_bands.flash_kde <- function(object, newdata = NULL, level = 0.95, type = c("pointwise", "simultaneous"),
                                    method = c("asymptotic", "bootstrap"), correct = TRUE, replicates = 1000,
                                    n = NULL, na.action = stats::na.pass, refit = FALSE, ...) {
  check_dots_empty(...)
  check_in_memory(object)
  check_can(object, "bands")
  asked <- list(
    level = check_level(level), type = check_choice(type, c("pointwise", "simultaneous"), "type"),
    method = check_choice(method, c("asymptotic", "bootstrap"), "method"),
    corrected = check_flag(correct, "correct"),
    replicates = check_count(replicates, "replicates", min = 20), estimator = object$estimator, n = n_used(object),
    refit = check_flag(refit, "refit")
  )
  if (asked$refit && asked$method != "bootstrap") stop_argument("refit", "must be FALSE unless method = \"bootstrap\"")
  if (asked$n < 2) stop_argument("object", "must have two points of positive weight: found one")
  if (!is.null(newdata) && !is.null(n)) stop_argument("n", "must be NULL with `newdata`, which says where")
  run <- start_run(fit_asked(object), "Estimating")
  given <- if (is.null(newdata)) band_grid(object, n) else new_points(object, newdata)
  kept <- newdata_rows(given, na.action)
  found <- bands_at(object, kept$points, asked, run)
  columns <- lapply(found[c("estimate", "lower", "upper", "se")], kept$restore, at_infinity = 0)
  points <- as.data.frame(apply_na_rows(given, kept, columns$se))
  names(points) <- point_names(object)
  asked$critical <- found$critical
  # a variable that is called as one of our columns gives way
  names(points) <- make.unique(c(names(columns), names(points)))[-seq_along(columns)]
  structure(
    cbind(points, columns),
    band = c(asked, list(variables = names(points), labels = variable_names(object), grid = is.null(newdata))),
    class = c("kde_bands", "data.frame")
  )
}

# Of many rows ten, evenly spread.
#' @export
print.kde_bands <- function(x, ...) {
  band <- attr(x, "band")
  if (is.null(band)) return(NextMethod())
  cat(band_title(band), "\n\n", sep = "")
  rows <- if (nrow(x) > 20) spread_rows(nrow(x), 10) else seq_len(nrow(x))
  print(structure(x, class = "data.frame", band = NULL)[rows, ], ...)
  if (length(rows) < nrow(x)) cat("... and ", whole(nrow(x) - length(rows)), " more rows\n", sep = "")
  invisible(x)
}

#' @rdname kde_bands
#' @param parm Points, as `newdata`. Missing: the training points.
#' @importFrom stats confint
#' @export
confint.flash_kde <- function(object, parm, level = 0.95, ...) {
  if (!missing(parm)) newdata_rows(new_points(object, parm, "parm"), stats::na.pass, "parm") # for its errors
  bands <- kde_bands(object, if (missing(parm)) object$x else parm, level, ...)
  limits <- cbind(bands$lower, bands$upper)
  colnames(limits) <- paste(format(100 * c(1 - level, 1 + level) / 2, trim = TRUE, scientific = FALSE, digits = 3), "%")
  limits
}

# ---- points -----------------------------------------------------------------------------------

# An even grid over the data; in few dimensions.
band_grid <- function(object, n) {
  if (object$d > 2) stop_argument("newdata", "must be given in more than two dimensions")
  n <- if (is.null(n)) c(201, 41)[object$d] else check_count(n, "n", min = 2)
  used <- object$x[used_rows(object), , drop = FALSE]
  check_memory(8 * 10 * as.double(n)^object$d, "n")
  axes <- lapply(seq_len(object$d), \(k) seq(min(used[, k]), max(used[, k]), length.out = n))
  grid <- as.matrix(expand.grid(axes))
  dimnames(grid) <- if (!is.null(object$names)) list(NULL, object$names)
  grid
}

# The points as they were given, but for the rows that `na.action` left out.
apply_na_rows <- function(given, kept, result) {
  if (length(result) == nrow(given)) return(given)
  kept$points
}

# ---- intervals --------------------------------------------------------------------------------

# list(estimate, lower, upper, se, critical) at checked points. `asked`: of kde_bands().
bands_at <- function(object, at, asked, run) {
  m <- nrow(at)
  critical <- stats::qnorm((1 + asked$level) / 2)
  none <- numeric()
  if (m == 0) return(c(wilson_interval(none, none, none, none, critical), list(critical = critical)))
  check_memory(8 * (8 * as.double(m) + 4 * length(object$x)), "newdata")
  given <- object
  if (asked$corrected) object <- corrected_fit(object, run)
  estimate <- signed_density(log_estimate(object, at, FALSE, run))
  of <- influence_of(object)
  own <- influence_control(of, run)
  near <- from_centre(object, at)
  errors <- influence_errors(of, near, own)
  height <- exp(log_kernel_norm(of$L))
  if (asked$method == "bootstrap") {
    draws <- if (asked$refit) {
      refitted(given, at, asked, run) / height
    } else {
      resampled(object, of, near, asked$replicates, own, estimate / height)
    }
    errors$se <- sqrt(rowMeans((draws - rowMeans(draws))^2))
  } else if (asked$type == "simultaneous") {
    draws <- multiplied(of, near, asked$replicates, own, errors$mean)
  }
  # it holds the density at each place, too
  if (asked$type == "simultaneous") critical <- max(critical, largest_quantile(draws, errors, asked$level))
  interval <- wilson_interval(
    estimate, height * errors$se, height * errors$unit, critical, of$skewness, errors$share
  )
  c(interval, list(critical = critical))
}

# The fit that an interval is about: a bias of order h^4, with the bandwidth that is best for one of order h^2, so
# that what is left of it is little beside the standard error. That rate, n^(-1 / (d + 4)), makes the error of the
# coverage smallest (Calonico, Cattaneo and Farrell 2018). Bandwidths of the debiased and of adaptive estimates,
# whose bias is of order h^4, were larger; the ratio is that of the rules for normal data.
corrected_fit <- function(object, run) {
  if (object$estimator != PLAIN_ESTIMATOR || !is.null(object$adaptive)) object <- narrowed(object, run)
  if (object$estimator == PLAIN_ESTIMATOR) object$estimator <- "laplace"
  object
}

narrowed <- function(object, run) {
  reference <- if (is_debiased(object)) "sdkde" else "laplace"
  n <- effective_size(object$weights[used_rows(object)], n_used(object))
  ratio <- min(reference_sd(PLAIN_ESTIMATOR, n, object$d) / reference_sd(reference, n, object$d), 1)
  object$bandwidth <- ratio^2 * object$bandwidth
  object$plan <- new_plan()
  if (!is_debiased(object)) return(object)
  object$score_bandwidth <- ratio^2 * object$score_bandwidth
  bandwidths <- list(
    main = list(H = object$bandwidth, L = fit_factor(object)), score = list(L = score_factor(object))
  )
  data <- list(points = object$x, weights = object$weights)
  debias <- debias_points(data, bandwidths, object$adaptive$factors, run, "object")
  object[c("debiased", "centred")] <- list(debias$debiased, debias$centred)
  object
}

# The best sd for normal points of variance 1.
reference_sd <- function(estimator, n, d) {
  of <- ESTIMATORS[[estimator]]
  (of$reference(d) / n)^(1 / (d + of$gain))
}

# All f with |p - f - s| <= z sqrt(V(f)), where V(f) = se^2 + unit (f - p) - share (f^2 - p^2) is the variance of an
# estimate of f, unit f - share f^2 for small bandwidths, as of the share of counts in a cell, and s = (z^2 - 1)
# kappa_3 / (6 se^2) is what Cornish and Fisher's expansion has for the skewness. For counts that is Wilson's
# interval with Cai's correction (2005). Where the variance is next to nothing the ratio of cumulants is that of
# counts, and no more than MOST_SKEWNESS units. Below p the variance falls no faster than in proportion: a density of 0
# has none. What is between p - s and p belongs to the interval, however small V
# is, so that a single point far from others does not prove a density; a negative estimate, of a density that is none,
# counts as 0.
wilson_interval <- function(estimate, se, unit, z, skewness = 1, share = 0) {
  p <- pmax(estimate, 0)
  variance <- se^2
  third <- skewness * unit * (variance + share * p^2) - 3 * share * p * variance - share^2 * p^3
  skew <- ifelse(variance > 0, third / variance, skewness * unit)
  shift <- pmax(pmin(skew, MOST_SKEWNESS * unit), -MOST_SKEWNESS * unit) * (z^2 - 1) / 6
  # of a (f - p)^2 - 2 b (f - p) + shift^2 - z^2 se^2 <= 0
  end_of <- function(slope, side) {
    a <- 1 + z^2 * share
    b <- z^2 * (slope / 2 - share * p) - shift
    p + (b + side * sqrt(pmax(b^2 - a * (shift^2 - z^2 * variance), 0))) / a
  }
  falling <- ifelse(p > 0, pmin(unit, variance / p + share * p), unit)
  lower <- pmin(end_of(falling, -1), p - shift, p)
  list(estimate = p, lower = pmax(lower, 0), upper = pmax(end_of(unit, 1), p - shift, p), se = se)
}
