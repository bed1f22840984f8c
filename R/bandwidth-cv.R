# Selectors that try bandwidths on the data. Cost O(n^2 d) for each one tried, less to a tolerance.

#' Bandwidths by cross-validation
#'
#' `bw_auto()` is what [flash_kde()] does without a `bandwidth`: it chooses the structure of H, its shape and its
#' factor, for the estimator at hand. `bw_lcv()` does all of it by the leave-one-out likelihood. [bw_lscv()] and
#' [bw_plugin()] aim at the integrated squared error of the plain estimate.
#'
#' @section Criterion:
#' \deqn{\mathrm{LCV}(H) = \frac{1}{\sum_i v_i}\sum_i v_i \log \hat f_{-i}(x_i; H)}
#' where \eqn{\hat f_{-i}} is the estimate without point i (Habbema, Hermans and van den Broek 1974;
#' Duin 1976), and \eqn{v_i} is the weight of the row, or ten times the median of the weights where that is less: a
#' heavy row counts in the estimate as ever, but it does not choose the bandwidth alone.
#'
#' One far outlier would otherwise choose the bandwidth alone, because its log-density goes to
#' -infinity with the square of its distance over h. So \eqn{\hat f_{-i}} in the formula stands for
#' \eqn{\hat f_{-i} + 10^{-6} g}, with g a multivariate Cauchy density at the medians with the robust
#' spread (below) of the columns: a point out of reach of all others costs about 15 nats and its
#' distance hardly matters. Points that have neighbours do not feel it. (From d = 16 on the factor is
#' \eqn{10^{-6d/16}}{10^(-6 d/16)}: the more dimensions, the further all points are from each other.)
#'
#' For `"sdkde"` every point is left out of **both** stages, the score and the sum, exactly; the variance of the score's
#' kernel is H / 2, and a bandwidth that was chosen so brings it along when it is given to `flash_kde()`. A
#' Laplace-corrected density may be zero or negative, where there is no logarithm: there `bw_lcv()` takes a thousandth
#' of the plain leave-one-out density (whenever the corrected one is below that).
#'
#' The likelihood looks at all points alike, and where tails are heavy, as of a t distribution with few degrees of
#' freedom, it takes a bandwidth for the tails that smooths the middle away. In one dimension `bw_auto()` therefore
#' chooses the factor of the plain estimate by a likelihood that is censored towards the tails,
#' \deqn{\frac{1}{\sum_i v_i}\sum_i v_i \{a_i \log \hat f_{-i}(x_i) + (1 - a_i)\log(1 - \textstyle\int a \hat f_{-i})\}}
#' with \eqn{a} a Gaussian bump at the medians of \eqn{3\sqrt d} times the robust spreads, and that of `"sdkde"` by the
#' likelihood, times what the censored one takes off that of the plain estimate. In several dimensions that would cost
#' the rows in the tails more than it gains in the middle: there it is the likelihood's, and `heavy` tells. The factor of
#' the Laplace-corrected estimate is chosen by its (signed) least-squares criterion.
#'
#' @section Structures and search:
#' | `structure` | H | parameters |
#' |---|---|---|
#' | `"scaled"` | c^2 diag(s^2), s the robust spread of the columns | 1 |
#' | `"scalar"` | h^2 I; for columns in the same unit | 1 |
#' | `"sphered"` | c^2 S, S the covariance matrix | 1 |
#' | `"diagonal"` | diag(h_1^2, ..., h_d^2) | d |
#' | `"full"` | any, by its Cholesky factor | d(d+1)/2 |
#' | `"auto"` | one of `"scaled"`, `"sphered"`, `"diagonal"`, `"full"` | |
#'
#' The shape of H is found by the likelihood of the plain estimate, whose gradient with respect to all parameters costs
#' as much as one more value: a scan of the factor of the simple structures on 500 rows, from 1/20 to 3 times
#' Silverman's rule and further out while the best stands at an end, then [stats::nlminb()] from there, for `"full"`
#' from two starts; then all again on more rows, from what the few have found. The covariance matrix S is that of up to
#' 20,000 rows, however few a search has time for, and is tried where these are two for each of its numbers. `"auto"`
#' takes the structure whose likelihood is largest after 3 p / n nats are taken off, which is about what p parameters
#' gain by chance; differences below 0.002 do not count, the simpler structure does. A diagonal H needs ten rows for a
#' parameter to be tried, and so does a full one, in up to 16 columns. Where the criterion is another, the shape is where
#' its own search starts. The factor comes last, by values of the criterion of the estimator.
#'
#' @section Rows and the budget:
#' `seconds` is a budget on a nominal core: how many rows are looked at is reckoned from what pairs and fast sums cost
#' there, or on a nominal GPU where sums of all rows go to one, never by a clock, so that the result does not depend on
#' how fast the machine is or on what else it does. All rows decide wherever that fits. Else the structure and the shape
#' come from a sample, and the factor from all rows by fast sums, where there are any (up to 3 dimensions, with a
#' tolerance); or the means over up to four samples are taken, carried to n by the factor (m/n)^(1/(d+4)), or
#' (m/n)^(1/(d+8)) for the debiased estimators.
#'
#' The order of the rows does not matter: which rows a sample has is decided by what stands in them, as if drawn at
#' random, and sums are taken in an order of their own, so that the same rows in any order give the same bits.
#'
#' `se` is the standard error of the logarithm of the factor, from the spread among the samples, or among fifths of the
#' rows (of at most 2,000), scaled as the spread of a cross-validated bandwidth goes with n. `NA` for fewer than 200
#' rows.
#'
#' @section Rounding, copies and spikes:
#' Rounded data repeat values, and the likelihood of repeated values grows without bound as h tends to 0. A column whose
#' values are multiples of some width w (but for a shift), many of them there repeatedly, is searched with noise of that
#' width added, and in the result its variance is raised by w^2/12, and to (w/2)^2 at least: the estimate of
#' integers is smooth, and no comb. The noise is the same on every call. Rows that are there several times though no
#' rounding explains it, as in a bootstrap sample, are merged into one of their total weight, which is left out as a
#' whole. Other values that repeat are spread for the search over about half as wide an interval as holds as many other
#' values. `print()` says what was done.
#'
#' @param x Data: a numeric matrix or data frame (n rows, d columns) or a numeric vector (d = 1).
#'   Finite; no column constant.
#' @param estimator The estimator that the bandwidth is for.
#' @param structure What H may be: see below.
#' @param weights `NULL` or n non-negative numbers; rows of weight 0 do not count.
#' @param start `NULL`, or a bandwidth as for `flash_kde()` from which to start: scans are centred
#'   there, and the simple structures have its shape.
#' @param rows `NULL`: as many as `seconds` allow. A number: samples of at most so many rows, up to four of them; `Inf`:
#'   all rows for all of the search.
#' @param seconds A budget for the search, in seconds of a nominal core: see below.
#' @param backend,precision,threads,devices As in `flash_kde()`.
#' @param tol In up to 3 dimensions and for many points, sums of the plain and the Laplace-corrected estimate
#'   may be off by `tol` times themselves, which makes each evaluation linear in n (see [flash_kde()]); 0:
#'   exact sums. Those of `"sdkde"` always are.
#' @param control A [flash_control()], or `NULL`. What is given beside it counts before the same part of it.
#' @param ... Nothing; later arguments have to be named.
#' @returns As `flash_kde()` takes it: a number or d numbers are **standard deviations**, in the unit
#'   of `x`; a d x d matrix (structures `"sphered"` and `"full"`) is a **variance**. With attributes `selector`,
#'   `structure`, `criterion` (its value, of the factor: a mean log-likelihood in nats, the censored one for columns in
#'   units of their spread, or a least-squares criterion),
#'   `evaluations`, `convergence` (0: found inside the range searched; 1: not, with a warning), `se`, `rows` and
#'   `batches` (how many were looked at, in how many samples), `path` (a data frame: the structures tried, their
#'   parameters, mean log-likelihood and score), `trace` (the criterion along the factor), `columns` (a data frame:
#'   distinct values, width of the rounding, most frequent value and its share; was the variance raised?), `copies`
#'   (rows merged), `heavy` (does the likelihood ask for a factor 1.5 times as large as the censored one, 1.2 times in several
#'   dimensions, for the tails?), `score` (of
#'   `"sdkde"`: the variance of the score's kernel over H) and `chosen` (the numbers alone). The class
#'   `flashkernel_bandwidth` prints this in a few lines and has a [`plot()`][plot.flashkernel_bandwidth]; arithmetic
#'   gives plain numbers.
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
#'
#'   Hall, P. and Robinson, A. P. (2009) Reducing variability of crossvalidation for smoothing-parameter choice.
#'   *Biometrika* 96, 175-186 (means over samples).
#' @seealso [bw_silverman()] for a rule that costs nothing; [bandwidth_default] for the measured comparison.
#' @examples
#' h <- bw_auto(faithful, "kde")
#' h
#' bw_lcv(faithful$eruptions, "sdkde")
#' @export
bw_auto <- function(x, estimator = c("sdkde", "kde", "laplace", "laplace6"), structure = "auto", weights = NULL,
                    rows = NULL, seconds = 5, start = NULL, backend = c("auto", "cpu", "cuda"),
                    precision = c("auto", "double", "single", "fast"), threads = NULL,
                    devices = NULL, tol = 1e-6, control = NULL, ...) {
  check_dots_empty(...)
  search_as_asked("auto", check_estimator(estimator), environment())
}

#' @rdname bw_auto
#' @export
bw_lcv <- function(x, estimator = c("sdkde", "kde", "laplace", "laplace6"), structure = "auto", weights = NULL,
                   rows = NULL, seconds = 5, start = NULL, backend = c("auto", "cpu", "cuda"),
                   precision = c("auto", "double", "single", "fast"), threads = NULL,
                   devices = NULL, tol = 1e-6, control = NULL, ...) {
  check_dots_empty(...)
  search_as_asked("lcv", check_estimator(estimator), environment())
}

#' Bandwidth by least-squares cross-validation
#'
#' Chooses the bandwidth that minimises an unbiased estimate of the integrated squared error of the
#' estimate (up to a constant), in any dimension and with weights.
#'
#' @section Criterion:
#' \deqn{\mathrm{LSCV}(H) = \frac{1}{W^2}\sum_i\sum_j w_i w_j\,\phi_{2H}(x_i-x_j)
#'   - \frac{2}{W}\sum_i w_i \hat f_{-i}(x_i; H), \qquad W = \sum_i w_i}
#' the first term being \eqn{\int \hat f^2}, the second its cross-validated product with the true
#' density (Rudemo 1982; Bowman 1984). Without weights it is the criterion of `ks::hlscv()` and
#' `ks::Hlscv()`. It is close to unbiased and very variable: it undersmooths in a good share of
#' samples, and in more than about 4 dimensions it hardly distinguishes bandwidths (Wand and Jones
#' 1995, section 3.3). For `"laplace"` it is that of the signed estimate; it finds the factor there, the shape being
#' that of the likelihood.
#'
#' @inheritParams bw_auto
#' @param estimator `"kde"` or `"laplace"`.
#' @inheritSection bw_auto Structures and search
#' @inheritSection bw_auto Rows and the budget
#' @inheritSection bw_auto Rounding, copies and spikes
#' @returns As for [bw_auto()]; `criterion` is the least-squares criterion.
#' @inheritSection bw_auto Errors
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
bw_lscv <- function(x, estimator = c("kde", "laplace"), structure = "auto", weights = NULL,
                    rows = NULL, seconds = 5, start = NULL, backend = c("auto", "cpu", "cuda"),
                    precision = c("auto", "double", "single", "fast"), threads = NULL,
                    devices = NULL, tol = 1e-6, control = NULL, ...) {
  check_dots_empty(...)
  search_as_asked("lscv", check_choice(estimator, c("kde", "laplace"), "estimator"), environment())
}

#' Plug-in and smoothed cross-validation bandwidths
#'
#' For the plain estimate, in any dimension: `bw_plugin()` minimises the asymptotic integrated squared error with the
#' curvature of the density estimated from the data, `bw_scv()` an estimate of the exact one. Both are less variable
#' than [bw_lscv()], and biased where the density has finer structure than their pilots see.
#'
#' @details
#' The pilots are isotropic after the columns are made uncorrelated (Duong and Hazelton 2003), in two stages from the
#' normal scale. In one dimension `bw_plugin()` is the direct plug-in of Sheather and Jones, without bins.
#'
#' @inheritParams bw_auto
#' @inheritSection bw_auto Structures and search
#' @inheritSection bw_auto Rounding, copies and spikes
#' @returns As for [bw_auto()]; `criterion` is the criterion minimised.
#' @inheritSection bw_auto Errors
#' @references Duong, T. and Hazelton, M. L. (2003) Plug-in bandwidth matrices for bivariate kernel density estimation.
#'   *Journal of Nonparametric Statistics* 15, 17-30.
#'
#'   Hall, P., Marron, J. S. and Park, B. U. (1992) Smoothed cross-validation. *Probability Theory and Related Fields*
#'   92, 1-20.
#' @seealso [bw_sj()] for one column, with bins.
#' @examples
#' bw_plugin(faithful$eruptions)
#' bw_scv(faithful, structure = "full")
#' @export
bw_plugin <- function(x, structure = "auto", weights = NULL, rows = NULL, seconds = 5, start = NULL,
                      backend = c("auto", "cpu", "cuda"),
                      precision = c("auto", "double", "single", "fast"), threads = NULL,
                      devices = NULL, tol = 1e-6, control = NULL, ...) {
  check_dots_empty(...)
  search_as_asked("plugin", PLAIN_ESTIMATOR, environment())
}

#' @rdname bw_plugin
#' @export
bw_scv <- function(x, structure = "auto", weights = NULL, rows = NULL, seconds = 5, start = NULL,
                   backend = c("auto", "cpu", "cuda"),
                   precision = c("auto", "double", "single", "fast"), threads = NULL,
                   devices = NULL, tol = 1e-6, control = NULL, ...) {
  check_dots_empty(...)
  search_as_asked("scv", PLAIN_ESTIMATOR, environment())
}

# What choose_bandwidth() is asked for, checked.
search_options <- function(criterion, structure, rows, seconds, start = NULL) {
  structure <- check_choice(structure, c("auto", names(BANDWIDTH_STRUCTURES)), "structure")
  if (!is.null(rows) && !identical(rows, Inf)) rows <- as.double(check_count(rows, "rows", min = 2))
  good <- is.numeric(seconds) && length(seconds) == 1 && !is.object(seconds) && !is.na(seconds) && seconds > 0
  if (!good) stop_argument("seconds", "must be one positive number: found ", describe(seconds))
  list(criterion = criterion, structure = structure, rows = rows, seconds = as.double(seconds), start = start)
}

# What the functions above do; `call`: the environment of one's arguments.
search_as_asked <- function(criterion, estimator, call) {
  force(estimator)
  if (is_remote(call$x)) {
    all <- call$x
    call$x <- data_sample(all)
    return(for_all_rows(search_as_asked(criterion, estimator, call), all, nrow(call$x), estimator))
  }
  options <- search_options(criterion, call$structure, call$rows, call$seconds, call$start)
  given <- mget(c("backend", "precision", "threads", "devices"), envir = call)
  if (!eval(quote(missing(tol)), call)) given$tol <- check_tol(call$tol)
  asked <- settle_control(call$control, given, TOLERANT_DEFAULTS)
  x <- check_points(call$x, "x")
  weights <- check_weights(call$weights, nrow(x))
  check_spread(x, "x", weights)
  if (!is.null(options$start)) as_bandwidth(options$start, ncol(x), "start", colnames(x))
  run <- start_run(search_control(asked, ncol(x)))
  bandwidth <- choose_bandwidth(clean_points(x, weights), estimator, options, run)$bandwidth
  if (attr(bandwidth, "convergence") != 0) {
    warning(
      "the criterion has no optimum in the range searched (structure \"", attr(bandwidth, "structure"),
      "\"): the bandwidth is the best one tried", call. = FALSE
    )
  }
  bandwidth
}

# Each point's own sum counts, so the tolerance is pointwise. In more dimensions it gains nothing.
search_control <- function(asked, d) {
  check_tol(asked$tol)
  if (d > 3 && !identical(asked$engine, "fast")) asked$tol <- 0
  replace(asked, "tol_type", "pointwise")
}

# ---- the density that catches outliers ------------------------------------------------------------

# The log of its weight beside the estimate, see ?bw_lcv. In many dimensions any kernel estimate is many
# nats below a smooth density, and only what is further below than that is an outlier.
log_rescue_share <- function(d) log(1e-6) * max(1, d / 16)

# log of the multivariate Cauchy density.
cauchy_log_density <- function(x, centre, spread) {
  d <- ncol(x)
  z <- (x - rep(centre, each = nrow(x))) / rep(spread, each = nrow(x))
  # in two steps, because squares of far points overflow
  top <- do.call(pmax, c(list(1), lapply(seq_len(d), \(k) abs(z[, k]))))
  log_distance <- 2 * log(top) + log(1 / top^2 + rowSums((z / top)^2))
  lgamma((d + 1) / 2) - (d + 1) / 2 * (log(pi) + log_distance) - sum(log(spread))
}

# ---- sums of all other points ----------------------------------------------------------------------

plain_loo <- function(x, weights, L, control) {
  sums <- log_sum(sum_sources(x, weights, L), NULL, PLAIN_FACTOR, TRUE, control)
  list(log_sum = sums$log_abs, stats = sums$stats)
}

# score_L: the factor of the score's bandwidth; factors: as of sources.
sdkde_loo <- function(x, weights, L, control, score_L = L, factors = NULL) {
  centre <- far_centre(x, weights, factor_sds(L)[seq_len(ncol(x))])
  debiased_loo_sum(sum_sources(shift_points(x, centre, -1), weights, score_L, factors = factors), L, control)
}

laplace_loo <- function(estimator) function(x, weights, L, control) {
  factor <- ESTIMATORS[[estimator]]$factor(ncol(x))
  corrected <- log_sum(sum_sources(x, weights, L), NULL, factor, TRUE, control)
  plain <- plain_loo(x, weights, L, control)
  corrected$log_abs[corrected$negative] <- -Inf
  list(
    log_sum = pmax(corrected$log_abs, plain$log_sum + log(1e-3)),
    stats = add_stats(corrected$stats, plain$stats)
  )
}
