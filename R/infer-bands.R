#' Confidence bands for a density
#'
#' `kde_bands()` returns confidence intervals for the density at each point, or a band that contains the whole density, by
#' default with a correction for bias. It corresponds to `np::plot.npdensity(plot.errors.method = )` and
#' `lpdensity::lpdensity()`.
#'
#' @section Correction for bias:
#' At the best bandwidth the bias is about half the standard error, so an interval around the estimate covers too
#' rarely. With `correct = TRUE` (default) the interval is around an estimate without the bias of order \eqn{h^2}, with
#' the standard error of that estimate: robust bias correction (Calonico, Cattaneo and Farrell 2018). For `"kde"` that
#' is the Laplace-corrected estimate. For debiased and adaptive estimates it is the debiased one at a smaller bandwidth,
#' by the ratio of Silverman's rules. Kernels are at most as wide as by maximal smoothing (Terrell 1990), 0.65 times as
#' wide for one column with a bound. With `correct = FALSE` the interval is around the estimate itself, and covers its
#' mean, a smoothed density.
#'
#' The standard error of an SD-KDE includes the effect of each point on the steps of the others.
#' [predict()][predict.flash_kde] takes the debiased points as given; its standard errors are about a quarter smaller.
#'
#' @section Intervals:
#' The interval contains all densities f with \eqn{|p - f - s| \le z \sqrt{V(f)}}{|p - f - s| <= z sqrt(V(f))}, where V(f) is the
#' variance if f were the density, and s corrects for skewness. This generalises Wilson's interval for a proportion, shifted as in
#' Cai (2005). Near many points it is p plus and minus z standard errors.
#'
#' A **simultaneous** band uses for z the quantile of the maximum of \eqn{|p - f| / se} over all points of `newdata`, from
#' `replicates` draws of a multiplier process (Chernozhukov, Chetverikov and Kato 2014), or from the bootstrap. Points half a
#' bandwidth apart suffice.
#'
#' A **bootstrap** resamples the rows with their weights, and debiases each sample again for `"sdkde"`. Bandwidths and local factors
#' are kept, unless `refit = TRUE` chooses them again.
#'
#' In simulations (`bench/inference.R`) simultaneous bands of level 0.95 contained the density in 0.94 to 0.97 of the samples in
#' one dimension, 0.97 to 0.99 in two; intervals covered it in 0.94 to 0.96.
#'
#' @section Kinds of densities:
#' * On a support by `"boundary"`, `"reflect"` or `"mass"` corrected intervals are around local quadratic estimates of one
#'   bandwidth, for adaptive fits and `"sdkde"`, too. Far from points, an upper limit at a bound is 1.5 times that of a local mean.
#'   On the bound of a transformed column they are `NA`.
#' * Compact kernels are corrected by \eqn{5 p_H - 4 p_{1.25 H}}{5 p_H - 4 p_(1.25 H)}.
#' * The bias from smoothing categories is not corrected.
#' * For `flash_kde(y ~ x)` the interval is that of p(y | x) at the rows of `newdata`, by default the training rows.
#' * An estimate with `debiasing(nonnegative = TRUE)` is divided by its integral with `correct = FALSE` only.
#'
#' @section Cost:
#' \eqn{O(nm)} for m points, times `replicates` for a simultaneous band or a bootstrap; of an SD-KDE
#' \eqn{O(n^2)} for each replicate, and with `refit = TRUE` one fit.
#'
#' @param object A fit from [flash_kde()].
#' @param newdata Points, as for [predict()][predict.flash_kde]. `NULL`: an even grid over the range of the data,
#'   in one and two dimensions, for all categories.
#' @param level Probability that the interval holds the density at a point, or that the band holds all of it.
#' @param type `"pointwise"` or `"simultaneous"`.
#' @param method `"asymptotic"` or `"bootstrap"`.
#' @param correct Whether the interval is around an estimate that is corrected for bias.
#' @param replicates Number of draws for simultaneous bands and bootstraps.
#' @param n Number of points of the grid along each axis. `NULL`: 201 in one dimension, 41 in two.
#' @param na.action As for [predict()][predict.flash_kde]. By default rows with missing values are `NA`.
#' @param refit Whether a bootstrap chooses bandwidths and local factors again for each sample.
#' @param ... For `confint()`, arguments of `kde_bands()`: `type` to `replicates`. An unknown argument is an error.
#' @returns `kde_bands()`: a data frame of class `kde_bands` with a row for each point: the columns of the points,
#'   `estimate` (the centre of the interval, so for a corrected band the corrected estimate), `lower`, `upper` and `se`,
#'   in 1 / (product of the units of the columns). Its attribute `"band"` is a list of `level`, `type`, `method`,
#'   `corrected`, `critical` (the z above), `estimator` and `n`. `confint()`: a matrix with a row for each point and the
#'   two limits as columns. Random numbers are R's ([set.seed()]).
#' @references Cai, T. T. (2005) *Journal of Statistical Planning and Inference* 131, 63-88.
#'
#'   Calonico, S., Cattaneo, M. D. and Farrell, M. H. (2018) *Journal of the American Statistical Association* 113, 767-779.
#'
#'   Chernozhukov, V., Chetverikov, D. and Kato, K. (2014) *The Annals of Statistics* 42, 1787-1818. Terrell, G. R. (1990)
#'   *JASA* 85, 470-477.
#' @seealso [plot.kde_bands()]; `plot(fit, band = TRUE)`; [kde_pvalue()] and [kde_test()] for tests.
#' @rawRd \concept{confidence band}\concept{confidence interval of a density}\concept{bootstrap}
#' @order 1
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
  asked <- band_asked(object, level, type, method, correct, replicates, refit)
  if (!is.null(newdata) && !is.null(n)) stop_argument("n", "must be NULL with `newdata`: it is the size of the grid")
  run <- start_run(fit_asked(object), "Estimating")
  given <- if (is.null(newdata)) band_grid(object, n) else new_points(object, newdata)
  kept <- newdata_rows(given, na.action)
  found <- bands_at(object, kept$points, asked, run)
  columns <- lapply(found[BAND_COLUMNS], kept$restore, at_infinity = 0)
  points <- points_frame(object, if (length(columns$se) == nrow(given)) given else kept$points)
  bands_frame(points, columns, c(asked, found["critical"]), variable_names(object), is.null(newdata))
}

BAND_COLUMNS <- c("estimate", "lower", "upper", "se")

band_asked <- function(object, level, type, method, correct, replicates, refit) {
  asked <- list(
    level = check_level(level), type = check_choice(type, c("pointwise", "simultaneous"), "type"),
    method = check_choice(method, c("asymptotic", "bootstrap"), "method"), corrected = check_flag(correct, "correct"),
    replicates = check_count(replicates, "replicates", min = 20), estimator = object$estimator, n = n_used(object),
    refit = check_flag(refit, "refit")
  )
  if (asked$refit && asked$method != "bootstrap") stop_argument("refit", "must be FALSE unless method = \"bootstrap\"")
  if (asked$n < 2) stop_argument("object", "must have at least two points of positive weight: found one")
  asked
}

bands_frame <- function(points, columns, asked, labels, grid) {
  # columns of the result keep their names; a variable with the same name is renamed
  names(points) <- make.unique(c(names(columns), names(points)))[-seq_along(columns)]
  structure(
    cbind(points, columns), band = c(asked, list(variables = names(points), labels = labels, grid = grid)),
    class = c("kde_bands", "data.frame")
  )
}

# Prints ten rows, evenly spread, if there are many.
#' @export
print.kde_bands <- function(x, ...) {
  band <- attr(x, "band")
  if (is.null(band)) return(NextMethod())
  cat(band_title(band), "\n\n", sep = "")
  rows <- if (nrow(x) > 20) spread_rows(nrow(x), 10) else seq_len(nrow(x))
  print_some(x, rows, ...)
}

#' @rdname kde_bands
#' @param parm Points, as `newdata`. Missing: the training points.
#' @importFrom stats confint
#' @export
confint.flash_kde <- function(object, parm, level = 0.95, ...) {
  if (!missing(parm)) newdata_rows(new_points(object, parm, "parm"), stats::na.pass, "parm") # for its errors
  if (missing(parm)) parm <- if (is.null(object$discrete)) object$x else points_frame(object, own_places(object))
  band_limits(object, parm, level, ...)
}

band_limits <- function(object, parm, level, newdata, ...) {
  if (!missing(newdata)) stop_argument("newdata", "is not an argument of confint(). Use `parm`.")
  bands <- kde_bands(object, parm, level, ...)
  limits <- cbind(bands$lower, bands$upper)
  colnames(limits) <- limit_names(level)
  limits
}

# ---- points -----------------------------------------------------------------------------------

# An even grid over the data in one or two dimensions, for all categories.
band_grid <- function(object, n) {
  if (object$d > 2) stop_argument("newdata", "must be given in more than two dimensions")
  n <- if (is.null(n)) c(1, 201, 41)[object$d + 1] else check_count(n, "n", min = 2)
  used <- object$x[used_rows(object), , drop = FALSE]
  check_memory(8 * 10 * as.double(n)^object$d * count_cells(object), "n")
  grid_rows(object, lapply(seq_len(object$d), \(k) seq(min(used[, k]), max(used[, k]), length.out = n)))
}

# ---- intervals --------------------------------------------------------------------------------

# list(estimate, lower, upper, se, critical) at checked points. `asked`: from kde_bands().
bands_at <- function(object, at, asked, run) {
  if (nrow(at) == 0) {
    none <- stats::setNames(rep(list(numeric()), 4), BAND_COLUMNS)
    return(c(none, list(critical = stats::qnorm((1 + asked$level) / 2))))
  }
  check_memory(8 * (8 * as.double(nrow(at)) + 4 * length(object$x)), "newdata")
  domain <- object$support
  if (is.null(domain)) return(bands_of_sums(object, at, asked, run))
  # outside the density is 0; on the bound of a transformed column its estimate has no value
  inside <- inside_domain(domain, at)
  outside <- ifelse(inside, NA, 0)
  inside[inside] <- log_jacobian(domain, to_working(domain, at[inside, , drop = FALSE])) < Inf
  columns <- stats::setNames(rep(list(outside), 4), BAND_COLUMNS)
  if (!any(inside)) return(c(bands_at(object, at[0, , drop = FALSE], asked, run)["critical"], columns))
  found <- bands_of_sums(object, at[inside, , drop = FALSE], asked, run)
  found[BAND_COLUMNS] <- Map(\(all, some) replace(all, inside, some), columns, found[BAND_COLUMNS])
  found
}

# bands_at() at points inside the support, of sums of kernels at working points.
bands_of_sums <- function(object, at, asked, run) {
  critical <- stats::qnorm((1 + asked$level) / 2)
  given <- object
  # what is clipped and divided by its integral is the estimate itself, not the corrected one
  divisor <- if (asked$corrected) 1 else exp(log_clip(object))
  made <- if (asked$corrected) corrected_fits(object, run) else list(fits = list(signed_part(object)), shares = 1)
  object <- made$fits[[1]]
  of <- influence_of(made, run)
  own <- influence_control(of, run)
  domain <- object$support
  near <- if (is.null(domain)) from_centre(object, at) else to_working(domain, at)
  if (is_kind(object, "mapped")) near <- from_centre(object$inner, near)
  errors <- influence_errors(of, near, own)
  height <- exp(log_kernel_norm(of$L) + if (is.null(domain)) 0 else log_jacobian(domain, to_working(domain, at)))
  # psi has the derivative of the masses around points, which the estimate lacks
  by_psi <- isTRUE(made$edges) || !is.null(domain) && has_masses(domain) && is_signed(object)
  estimate <- if (by_psi) height * errors$mean else combined_density(made, at, run)
  if (asked$method == "bootstrap") {
    draws <- if (asked$refit) {
      divisor * refitted(given, at, asked, run) / height
    } else {
      resampled(made, of, list(own = at, near = near), asked$replicates, own, list(estimate = estimate, height = height))
    }
    errors$se <- sqrt(rowMeans((draws - rowMeans(draws))^2))
  } else if (asked$type == "simultaneous") {
    draws <- multiplied(of, near, asked$replicates, own, errors$mean)
  }
  # a simultaneous band is at least as wide as pointwise intervals
  if (asked$type == "simultaneous") critical <- max(critical, largest_quantile(draws, errors, asked$level))
  interval <- wilson_interval(estimate, height * errors$se, height * errors$unit, critical, of$skewness, errors$share,
    height * errors$falls)
  interval$upper <- pmin(interval$upper, height * edge_limit(of, near, errors$mean, critical, own))
  c(lapply(interval, `/`, divisor), list(critical = critical))
}

# The fits whose combination the interval is around: list(fits, shares). Its bias is of order h^4, at a bandwidth that is best
# for a bias of order h^2, so that the remaining bias is small relative to the standard error. The rate n^(-1 / (d + 4))
# minimises the coverage error (Calonico, Cattaneo and Farrell 2018). narrowed() reduces bandwidths that are wider. Kernels
# without second derivatives are combined with those of variance c H (Schucany and Sommers 1977): (c p_H - p_cH) / (c - 1) has no
# bias of order h^2, and for c near 1 the least of order h^4. Categories alone have no such bias. `edges`: whether the interval is
# around the sum of edge_kernel() near bounds.
WIDER <- 1.25

# Near a bound of one column the remaining bias is of order h^3, and bandwidths that are chosen on a support vary by a third:
# with the widest ones intervals covered a density with a slope at its bound in 0.78 (bench/inference.R, "gamma(2)").
EDGE_WIDTH <- 0.65

corrected_fits <- function(object, run) {
  object <- signed_part(object)
  alone <- \(fit) list(fits = list(fit), shares = 1)
  if (object$d == 0) return(alone(object))
  domain <- object$support
  by_local <- !is.null(domain) && has_local(domain)
  edges <- any(domain$kind %in% c("mass", "reflect", "boundary"))
  if (edges && (is_debiased(object) || !is.null(object$adaptive))) object <- plain_one(object, run)
  plain <- object$estimator == PLAIN_ESTIMATOR
  object <- narrowed(object, !plain || by_local || !is.null(object$adaptive), if (edges && object$d == 1) EDGE_WIDTH else 1, run)
  if (!edges && (!plain || by_local)) return(alone(object))
  if (edges && is_bent(domain)) {
    object <- on_domain(plain_kernels(object), replace(domain, "kind", list("mass")), object$x, run)
  }
  if (needs_rows(object)) {
    wide <- rebuilt(object, \(part) replace(part, "bandwidth", list(WIDER * part$bandwidth)), run)
    return(list(fits = list(object, wide), shares = c(WIDER, -1) / (WIDER - 1)))
  }
  object$estimator <- "laplace"
  if (!is.null(object$inner)) object$inner$estimator <- "laplace"
  c(alone(object), edges = edges)
}

# The plain estimate that replaces a debiased or adaptive one on the same support, since scores and local factors are biased near
# bounds. The bandwidth of an SD-KDE is multiplied by the ratio of the rules for normal data, that of an adaptive fit by the
# median of its factors.
plain_one <- function(object, run) {
  used <- used_rows(object)
  weights <- object$weights[used]
  n <- effective_size(weights, n_used(object))
  part <- plain_kernels(object)
  ratio <- reference_sd(PLAIN_ESTIMATOR, n, object$d) / reference_sd(object$estimator, n, object$d)
  if (!is.null(part$adaptive)) ratio <- ratio * weighted_quantile(part$adaptive$factors[used], weights, 0.5)
  part$bandwidth <- ratio^2 * part$bandwidth
  part$estimator <- PLAIN_ESTIMATOR
  part[c("debiased", "centred", "score_bandwidth", "steps", "given_score", "debiased_in", "adaptive")] <- list(NULL)
  part$plan <- new_plan()
  on_domain(part, object$support, object$x, run)
}

# The density that corrected_fits() combines.
combined_density <- function(made, at, run) {
  if (isTRUE(made$edges)) {
    domain <- made$fits[[1]]$support
    of <- influence_of(made, run)
    near <- to_working(domain, at)
    mean <- influence_sums(of, near, matrix(of$weights / sum(of$weights)), influence_control(of, run))
    return(drop(mean) * exp(log_kernel_norm(of$L) + log_jacobian(domain, near)))
  }
  Reduce(`+`, Map(\(fit, share) share * signed_density(log_estimate(fit, at, FALSE, run)), made$fits, made$shares))
}

# Bandwidths of estimates whose bias is already of order h^4 (debiased, adaptive, by local likelihood), `higher`, are reduced by
# the ratio of the rules for normal data. Selectors may also return wider kernels, by chance or because the estimate has
# little bias where most points are; the largest bandwidth of the result is `width` times that of maximal_log_sd().
narrowed <- function(object, higher, width, run) {
  reference <- if (object$estimator == PLAIN_ESTIMATOR) "laplace" else object$estimator
  n <- effective_size(object$weights[used_rows(object)], n_used(object))
  ratio <- if (higher) reference_sd(PLAIN_ESTIMATOR, n, object$d) / reference_sd(reference, n, object$d) else 1
  part <- if (is.null(object$support)) object else plain_kernels(object)
  most <- exp(maximal_log_sd(part$x, part$weights, n) - log_det_of(part$bandwidth) / (2 * object$d))
  ratio <- min(ratio, width * most, 1)
  if (ratio == 1) return(object)
  rebuilt(object, \(part) {
    part$bandwidth <- ratio^2 * part$bandwidth
    if (!is.null(part$score_bandwidth)) part$score_bandwidth <- ratio^2 * part$score_bandwidth
    part
  }, run)
}

# The logarithm of the geometric mean of a kernel's standard deviations by maximal smoothing (Terrell 1990): no density with the
# covariance matrix of x has a larger optimal bandwidth. Infinite where the covariance matrix is singular.
maximal_log_sd <- function(x, weights, n) {
  d <- ncol(x)
  log_det <- determinant(weighted_correlation(x, weights))$modulus[[1]]
  if (!isTRUE(log_det > log(1e-14))) return(Inf)
  terrell <- (d + 6) / 2 * log(d + 8) - d * log(2) - log(16 * n * (d + 2)) - lgamma(d / 2 + 4)
  terrell / (d + 4) + mean(log(weighted_sds(x, weights))) + log_det / (2 * d)
}

# The fit whose kernels `change` has changed, a function of a fit without a support: debiased again, on the support.
rebuilt <- function(object, change, run) {
  domain <- object$support
  before <- if (is.null(domain)) object else plain_kernels(object)
  part <- change(before)
  part$plan <- new_plan()
  if (is_debiased(part)) part <- moved_again(part, before, domain, run)
  if (is.null(domain)) return(part)
  fit <- on_domain(part, domain, object$x, run)
  if (is_bent(domain)) fit$support$log_total <- log(bent_of(fit, run)$total)
  fit
}

# Points that moved along a given score, or along that of more variables, move in proportion to H.
moved_again <- function(part, before, domain, run) {
  if (isTRUE(part$given_score) || !is.null(part$debiased_in)) {
    own <- from_centre(part, part$x)
    near <- own + part$bandwidth[1] / before$bandwidth[1] * (fit_points(part) - own)
    if (!is.null(part$centred)) part$centred$points <- near
    part$debiased <- from_origin(part, near)
    return(part)
  }
  if (is.null(domain) || only_transforms(domain)) return(debiased_anew(part, run))
  of <- bandwidths_of(part)
  sources <- domain_sources(domain, part$x, part$weights, of$main$L, part$adaptive$factors, run)
  made <- debias_inside(domain, sources[c("points", "weights")], of, sources$factors, run, "object")
  part["centred"] <- list(NULL)
  part$debiased <- made$debiased[seq_len(part$n), , drop = FALSE]
  part
}

# The optimal standard deviation of the kernel for normal points of variance 1.
reference_sd <- function(estimator, n, d) {
  of <- ESTIMATORS[[estimator]]
  (of$reference(d) / n)^(1 / (d + of$gain))
}

# All f with |p - f - s| <= z sqrt(V(f)). V(f) = se^2 + unit (f - p) - share (f^2 - p^2) is the variance of an
# estimate of f: for small bandwidths unit f - share f^2, as for the share of counts in a cell. s = (z^2 - 1) kappa_3
# / (6 se^2) is the Cornish-Fisher correction for skewness. For counts this is Wilson's interval with Cai's correction
# (2005). If the variance is near 0, the ratio of cumulants is that of counts, at most MOST_SKEWNESS units. Below p
# the variance decreases at most in proportion, as a density of 0 has none; `falls` replaces `unit` there. The interval
# always contains all from p - s to p, so that a single point far from the others does not prove a positive density. A
# negative estimate counts as 0.
wilson_interval <- function(estimate, se, unit, z, skewness = 1, share = 0, falls = unit) {
  p <- pmax(estimate, 0)
  variance <- se^2
  third <- skewness * unit * (variance + share * p^2) - 3 * share * p * variance - share^2 * p^3
  skew <- ifelse(variance > 0, third / variance, skewness * unit)
  shift <- pmax(pmin(skew, MOST_SKEWNESS * unit), -MOST_SKEWNESS * unit) * (z^2 - 1) / 6
  # roots of a (f - p)^2 - 2 b (f - p) + shift^2 - z^2 se^2 = 0; the inequality is <= 0
  end_of <- function(slope, side) {
    a <- 1 + z^2 * share
    b <- z^2 * (slope / 2 - share * p) - shift
    p + (b + side * sqrt(pmax(b^2 - a * (shift^2 - z^2 * variance), 0))) / a
  }
  falling <- ifelse(p > 0, pmin(falls, variance / p + share * p), falls)
  lower <- pmin(end_of(falling, -1), p - shift, p)
  list(estimate = p, lower = pmax(lower, 0), upper = pmax(end_of(unit, 1), p - shift, p), se = se)
}
