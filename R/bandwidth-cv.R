# Cross-validation selectors: they try bandwidths on the data. Cost O(n^2 d) for each one tried.

#' Bandwidth by leave-one-out likelihood, for any of the estimators
#'
#' Chooses the bandwidth that gives every point the highest density in the estimate made from the
#' other points. Unlike a rule of thumb it sees modes and skewness, it works in any dimension, and
#' it judges the estimator that will be used: for `"sdkde"` every point is left out of **both**
#' stages, the score and the sum, exactly.
#'
#' @section Criterion:
#' \deqn{\mathrm{LCV}(H) = \frac{1}{\sum_i w_i}\sum_i w_i \log \hat f_{-i}(x_i; H)}
#' where \eqn{\hat f_{-i}} is the estimate without point i (Habbema, Hermans and van den Broek 1974;
#' Duin 1976). For `"sdkde"` the score bandwidth is the same H.
#'
#' One far outlier would otherwise choose the bandwidth alone, because its log-density goes to
#' -infinity with the square of its distance over h. So \eqn{\hat f_{-i}} in the formula stands for
#' \eqn{\hat f_{-i} + 10^{-6} g}, with g a multivariate Cauchy density at the medians with the robust
#' spread (below) of the columns: a point out of reach of all others costs about 15 nats and its
#' distance hardly matters. Points that have neighbours do not feel it. (From d = 16 on the factor is
#' \eqn{10^{-6d/16}}{10^(-6 d/16)}: the more dimensions, the further all points are from each other.)
#'
#' A Laplace-corrected density may be zero or negative, where there is no logarithm. There the
#' criterion takes a thousandth of the plain leave-one-out density (whenever the corrected one is
#' below that): a finite loss of at least 6.9 for each such point, which does not let one far point
#' decide.
#'
#' @section Structures and search:
#' The number of free parameters is what costs:
#'
#' | `structure` | H | parameters |
#' |---|---|---|
#' | `"scaled"` | c^2 diag(s^2), s the spread of the columns, min(sd, IQR/1.34) | 1 |
#' | `"sphered"` | c^2 S, S the covariance matrix | 1 |
#' | `"scalar"` | h^2 I; for columns in the same unit | 1 |
#' | `"diagonal"` | diag(h_1^2, ..., h_d^2) | d |
#' | `"full"` | any, by its Cholesky factor with the diagonal on the log scale | d(d+1)/2 |
#'
#' One parameter: a scan of 17 values from 1/50 to 8 times Silverman's rule, further out while the
#' best stands at an end, then [stats::optimize()] between the neighbours of the best: about 30
#' evaluations, and no local optimum wider than the scan's step (a factor 1.45) is missed. Several:
#' from the best of `"scaled"` (`"sphered"` for `"full"`), each direction is tried doubled and
#' halved, then BFGS with numerical derivatives: some 10 + 10 d^1.5 evaluations for `"diagonal"`. The
#' result is the same on every call.
#'
#' @section Ties:
#' Rounded data repeat values, and the likelihood of repeated values grows without bound as h tends
#' to 0. The search therefore works on a copy of the data in which the m equal values of a column are
#' spread evenly over the interval up to half-way to the nearest other value, in a fixed irregular
#' order: what rounding took away, not more. So a bandwidth well below the rounding step is never
#' chosen. Attribute `ties` counts the values that moved; data without ties are used as they are.
#' A column of a few distinct values is no continuous variable, and a density estimate with an
#' automatic bandwidth has no meaning there.
#'
#' @param x Data: a numeric matrix or data frame (n rows, d columns) or a numeric vector (d = 1).
#'   Finite; no column constant.
#' @param estimator The estimator that the bandwidth is for.
#' @param structure What H may be: see below.
#' @param weights `NULL` or n non-negative numbers; rows of weight 0 do not count. A row of weight 2
#'   is left out as one, so this is not the same as the row twice (those would be ties).
#' @param start `NULL`, or a bandwidth as for `flash_kde()` from which to start: the scan is centred
#'   there, and for `"scaled"` and `"sphered"` it also gives the shape.
#' @param subsample Use at most so many rows, evenly spaced in the order of `x`, and carry the result
#'   to n by the factor (m/n)^(1/(d+4)), or (m/n)^(1/(d+8)) for the debiased estimators. `Inf` uses
#'   all. O(subsample^2 d) for each evaluation whatever n is.
#' @param backend,precision,threads,devices As in `flash_kde()`.
#' @param tol In up to 3 dimensions and for many points, sums of the plain and the Laplace-corrected estimate
#'   may be off by `tol` times themselves, which makes each evaluation linear in n (see [flash_kde()]); 0:
#'   exact sums. Those of `"sdkde"` always are.
#' @param control A [flash_control()], or `NULL`. What is given beside it counts before the same part of it.
#' @param ... Nothing; later arguments have to be named.
#' @returns As `flash_kde()` takes it: a number or d numbers are **standard deviations**, in the unit
#'   of `x`; a d x d matrix (`"sphered"`, `"full"`) is a **variance**. With attributes `criterion`
#'   (its value, the mean log-likelihood in nats; for `bw_lscv()` the least-squares criterion),
#'   `evaluations`, `convergence` (0: found inside the range searched; 1: not, with a warning),
#'   `ties`, `selector` and `chosen` (the numbers alone). The class `flashkernel_bandwidth` prints
#'   this in a line; arithmetic gives plain numbers.
#' @section Errors: of class `flashkernel_error_argument`, as for [bw_silverman()]; also a `start`
#'   that is no bandwidth.
#' @references Habbema, J. D. F., Hermans, J. and van den Broek, K. (1974) A stepwise discriminant
#'   analysis program using density estimation. *COMPSTAT 1974*, 101-110.
#'
#'   Duin, R. P. W. (1976) On the choice of smoothing parameters for Parzen estimators of probability
#'   density functions. *IEEE Trans. Computers* C-25, 1175-1179.
#'
#'   Schuster, E. F. and Gregory, G. G. (1981) On the nonconsistency of maximum likelihood
#'   nonparametric density estimators. *Computer Science and Statistics: 13th Symposium*, 295-298
#'   (what outliers do to the plain criterion).
#' @seealso [bw_lscv()] for the plain estimate by integrated squared error; [bw_silverman()] for a
#'   rule that costs nothing; [bandwidth_default] for the measured comparison.
#' @examples
#' h <- bw_lcv(faithful, "kde")
#' h
#' bw_lcv(faithful$eruptions, "sdkde")
#' @export
bw_lcv <- function(x, estimator = c("sdkde", "kde", "laplace"),
                   structure = c("scaled", "diagonal", "scalar", "sphered", "full"),
                   weights = NULL, start = NULL, subsample = Inf,
                   backend = c("auto", "cpu", "cuda"),
                   precision = c("auto", "double", "single", "fast"), threads = NULL,
                   devices = NULL, tol = 1e-6, control = NULL, ...) {
  check_dots_empty(...)
  estimator <- check_estimator(estimator)
  structure <- check_structure(structure)
  asked <- settle_control(control, list(
    backend = backend, precision = precision, threads = threads, devices = devices,
    tol = if (!missing(tol)) check_tol(tol)
  ), TOLERANT_DEFAULTS)
  hold_limits(asked)
  data <- selector_data(x, weights, subsample)
  run <- start_run(search_control(asked, data$d))
  warn_search(lcv_bandwidth(data, estimator, structure, start, run)$bandwidth, structure)
}

#' Bandwidth by least-squares cross-validation, for the plain estimate
#'
#' Chooses the bandwidth that minimises an unbiased estimate of the integrated squared error of the
#' plain kernel density estimate (up to a constant), in any dimension and with weights.
#'
#' @section Criterion:
#' \deqn{\mathrm{LSCV}(H) = \frac{1}{W^2}\sum_i\sum_j w_i w_j\,\phi_{2H}(x_i-x_j)
#'   - \frac{2}{W}\sum_i w_i \hat f_{-i}(x_i; H), \qquad W = \sum_i w_i}
#' the first term being \eqn{\int \hat f^2}, the second its cross-validated product with the true
#' density (Rudemo 1982; Bowman 1984). Without weights it is the criterion of `ks::hlscv()` and
#' `ks::Hlscv()`. It is close to unbiased and very variable: it undersmooths in a good share of
#' samples, and in more than about 4 dimensions it hardly distinguishes bandwidths (Wand and Jones
#' 1995, section 3.3).
#'
#' @inheritParams bw_lcv
#' @inheritSection bw_lcv Structures and search
#' @inheritSection bw_lcv Ties
#' @returns As for [bw_lcv()]; `criterion` is the least-squares criterion.
#' @inheritSection bw_lcv Errors
#' @references Rudemo, M. (1982) Empirical choice of histograms and kernel density estimators.
#'   *Scand. J. Statist.* 9, 65-78.
#'
#'   Bowman, A. W. (1984) An alternative method of cross-validation for the smoothing of density
#'   estimates. *Biometrika* 71, 353-360.
#'
#'   Wand, M. P. and Jones, M. C. (1995) *Kernel Smoothing*. Chapman and Hall.
#' @examples
#' bw_lscv(faithful$eruptions)
#' bw_lscv(quakes[1:400, c("lat", "long")], structure = "full")
#' @export
bw_lscv <- function(x, structure = c("scaled", "diagonal", "scalar", "sphered", "full"),
                    weights = NULL, start = NULL, subsample = Inf,
                    backend = c("auto", "cpu", "cuda"),
                    precision = c("auto", "double", "single", "fast"), threads = NULL,
                    devices = NULL, tol = 1e-6, control = NULL, ...) {
  check_dots_empty(...)
  structure <- check_structure(structure)
  asked <- settle_control(control, list(
    backend = backend, precision = precision, threads = threads, devices = devices,
    tol = if (!missing(tol)) check_tol(tol)
  ), TOLERANT_DEFAULTS)
  hold_limits(asked)
  data <- selector_data(x, weights, subsample)
  run <- start_run(search_control(asked, data$d))
  warn_search(lscv_bandwidth(data, structure, start, run)$bandwidth, structure)
}

# Each point's own sum counts, so the tolerance is pointwise. In more dimensions it gains nothing.
search_control <- function(asked, d) {
  check_tol(asked$tol)
  if (d > 3 && !identical(asked$engine, "fast")) asked$tol <- 0
  replace(asked, "tol_type", "pointwise")
}

check_structure <- function(structure) {
  check_choice(structure, c("scaled", "diagonal", "scalar", "sphered", "full"), "structure")
}

# Both selectors: list(bandwidth, stats), the latter of all sums together.
lcv_bandwidth <- function(data, estimator, structure, start, control) {
  data <- spread_ties(data)
  rescue <- log_rescue_share(data$d) + rescue_log_density(data)
  criterion <- function(L) {
    loo <- loo_log_density(data$x, data$weights, L, estimator, control)
    value <- -weighted_mean(log_add(loo$log_density, rescue), data$weights)
    list(value = value, stats = loo$stats)
  }
  found <- search_bandwidth(data, criterion, structure, start, estimator, control)
  found$value <- -found$value
  list(bandwidth = selected(found, data, structure, estimator, "lcv"), stats = found$stats)
}

lscv_bandwidth <- function(data, structure, start, control) {
  data <- spread_ties(data)
  # In units of the data's spread, so that no product of d sds overflows or vanishes.
  unit <- sum(log(rule_factor("silverman", data$n, data$d, PLAIN_ESTIMATOR) * data$sds))
  criterion <- \(L) least_squares(data$x, data$weights, L, unit, control)
  found <- search_bandwidth(data, criterion, structure, start, PLAIN_ESTIMATOR, control)
  found$value <- found$value * exp(-unit)
  list(bandwidth = selected(found, data, structure, PLAIN_ESTIMATOR, "lscv"), stats = found$stats)
}

# ---- the density that catches outliers ------------------------------------------------------------

# The log of its weight beside the estimate, see ?bw_lcv. In many dimensions any kernel estimate is many
# nats below a smooth density, and only what is further below than that is an outlier.
log_rescue_share <- function(d) log(1e-6) * max(1, d / 16)

# At the median, with the robust spread of each column.
rescue_log_density <- function(data) {
  centre <- apply(data$x, 2, \(column) weighted_quantile(column, data$weights, 0.5))
  cauchy_log_density(data$x, centre, robust_spread(data))
}

# log of the multivariate Cauchy density.
cauchy_log_density <- function(x, centre, spread) {
  d <- ncol(x)
  z <- sweep(sweep(x, 2, centre), 2, spread, "/")
  # in two steps, because squares of far points overflow
  top <- pmax(1, apply(abs(z), 1, max))
  log_distance <- 2 * log(top) + log(1 / top^2 + rowSums((z / top)^2))
  lgamma((d + 1) / 2) - (d + 1) / 2 * (log(pi) + log_distance) - sum(log(spread))
}

log_add <- function(a, b) {
  top <- pmax(a, b)
  top[top == -Inf] <- 0
  top + log(exp(a - top) + exp(b - top))
}

# ---- criteria -----------------------------------------------------------------------------------

# list(log_density, stats): log f_-i(x_i), n of them, for the bandwidth L L'.
loo_log_density <- function(x, weights, L, estimator, control) {
  sums <- ESTIMATORS[[estimator]]$loo_sums(x, weights, L, control)
  others <- if (is.null(weights)) nrow(x) - 1 else leave_out(weights)
  list(log_density = sums$log_sum + log_kernel_norm(L) - log(others), stats = sums$stats)
}

plain_loo <- function(x, weights, L, control) {
  sums <- log_sum(sum_sources(x, weights, L), NULL, PLAIN_FACTOR, TRUE, control)
  list(log_sum = sums$log_abs, stats = sums$stats)
}

# score_L: the factor of the score's bandwidth.
sdkde_loo <- function(x, weights, L, control, score_L = L) {
  centre <- far_centre(x, weights, sqrt(rowSums(L^2)))
  debiased_loo_sum(sum_sources(shift_points(x, centre, -1), weights, score_L), L, control)
}

laplace_loo <- function(x, weights, L, control) {
  factor <- ESTIMATORS$laplace$factor(ncol(x))
  corrected <- log_sum(sum_sources(x, weights, L), NULL, factor, TRUE, control)
  plain <- plain_loo(x, weights, L, control)
  corrected$log_abs[corrected$negative] <- -Inf
  list(
    log_sum = pmax(corrected$log_abs, plain$log_sum + log(1e-3)),
    stats = add_stats(corrected$stats, plain$stats)
  )
}

# list(value, stats): the least-squares criterion times exp(unit).
least_squares <- function(x, weights, L, unit, control) {
  w <- if (is.null(weights)) rep(1, nrow(x)) else weights
  b <- matrix(w)
  wide <- kernel_sum_of(sum_sources(x, NULL, sqrt(2) * L), NULL, b, control)
  near <- kernel_sum_of(sum_sources(x, NULL, L), NULL, b, control)
  total <- sum(w)
  square <- sum(w * wide$sums) / total^2 * exp(unit + log_kernel_norm(sqrt(2) * L))
  product <- sum(w * (near$sums - w) / leave_out(w)) / total * exp(unit + log_kernel_norm(L))
  list(value = square - 2 * product, stats = add_stats(wide$stats, near$stats))
}

weighted_mean <- function(values, weights) {
  if (is.null(weights)) mean(values) else sum(weights / sum(weights) * values)
}
