# The one door to the bandwidths that this package chooses.

#' Bandwidths from data
#'
#' `kde_bandwidth()` chooses a bandwidth by one of nine methods; `"auto"` is what [flash_kde()] takes without a
#' `bandwidth`, and each of them is known to it by its name, as in `flash_kde(x, bandwidth = "lcv")`.
#'
#' | `method` | criterion | for |
#' |---|---|---|
#' | `"auto"` | leave-one-out likelihood, censored towards heavy tails; of `"laplace"`, least squares | all |
#' | `"lcv"` | leave-one-out likelihood | all |
#' | `"lscv"` | least-squares cross-validation | `"kde"`, `"laplace"` |
#' | `"plugin"` | asymptotic squared error with an estimated curvature | `"kde"` |
#' | `"scv"` | smoothed cross-validation | `"kde"` |
#' | `"silverman"`, `"scott"` | none: rules of the spread, n and d, at a cost of O(n d) | all |
#' | `"nrd0"`, `"sj"` | [stats::bw.nrd0()] and [stats::bw.SJ()], of one column without weights | `"kde"` |
#'
#' @section Likelihood:
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
#' Laplace-corrected density may be zero or negative, where there is no logarithm: there `"lcv"` takes a thousandth
#' of the plain leave-one-out density (whenever the corrected one is below that).
#'
#' The likelihood looks at all points alike, and where tails are heavy, as of a t distribution with few degrees of
#' freedom, it takes a bandwidth for the tails that smooths the middle away. In one dimension `"auto"` therefore
#' chooses the factor of the plain estimate by a likelihood that is censored towards the tails,
#' \deqn{\frac{1}{\sum_i v_i}\sum_i v_i \{a_i \log \hat f_{-i}(x_i) + (1 - a_i)\log(1 - \textstyle\int a \hat f_{-i})\}}
#' with \eqn{a} a Gaussian bump at the medians of \eqn{3\sqrt d} times the robust spreads, and that of `"sdkde"` by the
#' likelihood, times what the censored one takes off that of the plain estimate. In several dimensions that would cost
#' the rows in the tails more than it gains in the middle: there it is the likelihood's, and `heavy` tells. The factor of
#' the Laplace-corrected estimate is chosen by its (signed) least-squares criterion.
#'
#' @section Least squares:
#' \deqn{\mathrm{LSCV}(H) = \frac{1}{W^2}\sum_i\sum_j w_i w_j\,\phi_{2H}(x_i-x_j)
#'   - \frac{2}{W}\sum_i w_i \hat f_{-i}(x_i; H), \qquad W = \sum_i w_i}
#' the first term being \eqn{\int \hat f^2}, the second its cross-validated product with the true
#' density (Rudemo 1982; Bowman 1984). Without weights it is the criterion of `ks::hlscv()` and
#' `ks::Hlscv()`. It is close to unbiased and very variable: it undersmooths in a good share of
#' samples, and in more than about 4 dimensions it hardly distinguishes bandwidths (Wand and Jones
#' 1995, section 3.3). For `"laplace"` it is that of the signed estimate; it finds the factor there, the shape being
#' that of the likelihood.
#'
#' @section Plug-in and smoothed cross-validation:
#' Both are less variable than least squares, and biased where the density has finer structure than their pilots see.
#' The pilots are isotropic after the columns are made uncorrelated (Duong and Hazelton 2003), in two stages from the
#' normal scale. In one dimension `"plugin"` is the direct plug-in of Sheather and Jones, without bins; `"sj"` solves
#' their equation, from 1,000 bins.
#'
#' @section Rules:
#' With column standard deviations \eqn{s_k}, covariance \eqn{S}, and \eqn{n} the effective sample
#' size of the weights, the kernel's standard deviations are \eqn{c\, n^{-1/(d+r)} s_k}:
#'
#' | rule | `"kde"` (r = 4) | `"sdkde"`, `"laplace"` (r = 8), `"laplace6"` (r = 12) |
#' |---|---|---|
#' | Scott | c = 1 | c = 1 |
#' | Silverman | c = (4 / (d + 2))^(1/(d+4)) | below |
#'
#' The bias of a kernel density estimate is O(h^2), which makes n^(-1/(d+4)) the best rate; the
#' score-debiased and the Laplace-corrected estimate have bias O(h^4), hence n^(-1/(d+8)).
#' Silverman's constant is the one that minimises the asymptotic mean integrated squared error when
#' the data are normal. **The same calculation gives the constants for the debiased estimates**, so
#' that the name means the same thing for every estimator:
#'
#' - `estimator = "laplace"`: the bias is \eqn{-(h^4/8)\Delta^2 f}, the kernel's roughness
#'   \eqn{(4\pi)^{-d/2}(d+2)(d+8)/16}, so \eqn{c^{d+8} = 8(d+8)/((d+4)(d+6))}
#'   (d = 1: 1.08, d = 16: 0.97);
#' - `estimator = "laplace6"`: the bias is \eqn{(h^6/48)\Delta^3 f}, and both parts are computed from the moments of
#'   the kernel in the same way (d = 1: 1.08, d = 16: 0.98);
#' - `estimator = "sdkde"` (score from the same bandwidth): at the normal the bias is
#'   \eqn{(5/8)h^4\Delta f}, the estimate behaves like one with a kernel of Fourier transform
#'   \eqn{e^{-u}(1+ue^{-u})}, \eqn{u=|hk|^2/2}, and \eqn{c^{d+8} = 32 R/(25(d+2))} with
#'   \eqn{R = 1 + (d/3)(2/3)^{d/2} + d(d+2)2^{-d/2}/64} (d = 1: 0.94, d = 16: 0.90).
#'
#' The bandwidth of a debiased estimate is larger than that of a plain one, as it should be.
#'
#' @section What the papers use:
#' The code of the SD-KDE paper (NeurIPS 2025, arXiv 2504.19084) takes
#' h = 0.4 min(sd, IQR/1.34) n^(-1/9) in d = 1, for the data's score and for the empirical one alike,
#' and 0.65 n^(-1/9) times the mean of these spreads in d = 2; for the plain estimate it takes 0.9
#' min(sd, IQR/1.34) n^(-1/5), that is `"nrd0"`. The code of Flash-SD-KDE (arXiv 2602.10378,
#' `Elliotepsteino/Flash-SD-KDE`) calls `"silverman"` one scalar h = 0.9 n^(-1/(d+4)) times the mean
#' over columns of min(sd, IQR/1.34), and uses it for its SD-KDE too, except in its d = 1 routine,
#' which keeps 0.4 n^(-1/9). The rules here use the plain standard deviation, as Silverman (1986,
#' eq. 4.14) and Scott (2015) do in several dimensions; give a number to `flash_kde()` to repeat the
#' papers' choice.
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
#'   Finite; no column constant. Missing: nothing is computed, and what is returned is a request for such a search by
#'   [flash_kde()], as `flash_kde(x, bandwidth = kde_bandwidth(structure = "full"))`. For `plot()`, a bandwidth by a
#'   search.
#' @param method The name of a method, see above.
#' @param estimator The estimator that the bandwidth is for. `"auto"`: the first that the method knows.
#' @param structure What H may be: see below. Of `"silverman"` and `"scott"`: `"diagonal"` (also by `"auto"`), one
#'   standard deviation for each column; `"scalar"`, one number for all, from the mean variance, for columns in the same
#'   unit; `"full"`, proportional to the covariance matrix.
#' @param weights `NULL` or n non-negative numbers; rows of weight 0 do not count. Their effective number
#'   \eqn{(\sum w)^2/\sum w^2} stands for n, and variances are weighted (as [stats::cov.wt()] does it).
#' @param rows Of a search. `NULL`: as many as `seconds` allow. A number: samples of at most so many rows, up to four of
#'   them; `Inf`: all rows for all of the search.
#' @param seconds A budget for the search, in seconds of a nominal core: see below.
#' @param start `NULL`, or a bandwidth as for `flash_kde()` from which a search starts: scans are centred
#'   there, and the simple structures have its shape.
#' @param tol In up to 3 dimensions and for many points, sums of the plain and the Laplace-corrected estimate
#'   may be off by `tol` times themselves, which makes each evaluation linear in n (see [flash_kde()]); 0:
#'   exact sums. Those of `"sdkde"` always are.
#' @param control Where and how to compute: a [flash_control()], or `NULL`. `tol` counts before the same part of it.
#' @param ... Nothing; later arguments have to be named. For `plot()`, graphical parameters of the first panel, as for
#'   [graphics::plot.default()].
#' @returns As `flash_kde()` takes it: a number or d numbers are **standard deviations**, in the unit
#'   of `x`; a d x d matrix (structures `"sphered"` and `"full"`) is a **variance**. Of a search with attributes `selector`,
#'   `structure`, `criterion` (its value, of the factor: a mean log-likelihood in nats, the censored one for columns in
#'   units of their spread, or a least-squares criterion),
#'   `evaluations`, `convergence` (0: found inside the range searched; 1: not, with a warning), `se`, `rows` and
#'   `batches` (how many were looked at, in how many samples), `path` (a data frame: the structures tried, their
#'   parameters, mean log-likelihood and score), `trace` (the criterion along the factor), `columns` (a data frame:
#'   distinct values, width of the rounding, most frequent value and its share; was the variance raised?), `copies`
#'   (rows merged), `heavy` (does the likelihood ask for a factor 1.5 times as large as the censored one, 1.2 times in several
#'   dimensions, for the tails?), `score` (of
#'   `"sdkde"`: the variance of the score's kernel over H) and `chosen` (the numbers alone). The class
#'   `flashkernel_bandwidth` prints this in a few lines; arithmetic gives plain numbers. `plot()` draws what a search
#'   has seen: the criterion along the factor of the bandwidth, with its standard error, and how much each structure gained.
#' @section Errors: of class `flashkernel_error_argument`: a constant column, by name; fewer than two rows of positive
#'   weight; for `"full"`, linearly dependent columns; a `start` that is no bandwidth; for `"sj"`, too few distinct values.
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
#'   Rudemo, M. (1982) Empirical choice of histograms and kernel density estimators.
#'   *Scand. J. Statist.* 9, 65-78.
#'
#'   Bowman, A. W. (1984) An alternative method of cross-validation for the smoothing of density
#'   estimates. *Biometrika* 71, 353-360.
#'
#'   Duong, T. and Hazelton, M. L. (2003) Plug-in bandwidth matrices for bivariate kernel density estimation.
#'   *Journal of Nonparametric Statistics* 15, 17-30.
#'
#'   Hall, P., Marron, J. S. and Park, B. U. (1992) Smoothed cross-validation. *Probability Theory and Related Fields*
#'   92, 1-20.
#'
#'   Sheather, S. J. and Jones, M. C. (1991) A reliable data-based bandwidth selection
#'   method for kernel density estimation. *JRSS B* 53, 683-690.
#'
#'   Silverman, B. W. (1986) *Density Estimation for Statistics and Data Analysis*.
#'   Chapman and Hall, sections 3.4 and 4.3.
#'
#'   Scott, D. W. (2015) *Multivariate Density Estimation*, 2nd ed. Wiley, section 6.5.
#'
#'   Wand, M. P. and Jones, M. C. (1995) *Kernel Smoothing*. Chapman and Hall, chapters 3 and 4.
#' @seealso [bandwidth_default] for the measured comparison.
#' @examples
#' h <- kde_bandwidth(faithful, estimator = "kde")
#' h
#' kde_bandwidth(faithful$eruptions, "lcv")
#' kde_bandwidth(quakes[1:400, c("lat", "long")], "lscv", structure = "full")
#' kde_bandwidth(faithful, "scott", "kde", structure = "full") # a variance matrix
#' @export
kde_bandwidth <- function(x, method = "auto", estimator = "auto", structure = "auto",
                          weights = NULL, rows = NULL, seconds = 5, start = NULL, tol = 1e-6, control = NULL, ...) {
  check_dots_empty(...)
  if (missing(x)) return(new_bandwidth_spec(method, structure, rows, seconds))
  asked <- settle_control(control, list(tol = if (!missing(tol)) check_tol(tol)), TOLERANT_DEFAULTS)
  options <- search_options(method, structure, rows, seconds, start)
  points <- check_points(if (is_remote(x)) data_sample(x) else x, "x")
  weights <- check_weights(weights, nrow(points))
  name <- check_selector(method, ncol(points), weights, "method")
  estimator <- estimator_for(name, ncol(points), estimator)
  check_spread(points, "x", weights)
  if (!is.null(start)) as_bandwidth(start, ncol(points), "start", colnames(points))
  data <- list(points = points, weights = weights, clean = \() clean_points(points, weights))
  run <- start_run(search_control(asked, ncol(points)))
  bandwidth <- bandwidth_by(name, data, estimator, options, run, "x")$bandwidth
  if (isTRUE(attr(bandwidth, "convergence") != 0)) {
    warning(
      "the criterion has no optimum in the range searched (structure \"", attr(bandwidth, "structure"),
      "\"): the bandwidth is the best one tried", call. = FALSE
    )
  }
  if (is_remote(x)) for_all_rows(bandwidth, x, nrow(points), estimator) else bandwidth
}

# The estimator that was asked for, or the first that the method knows.
estimator_for <- function(name, d, estimator) {
  able <- estimators_of(name, d)
  if (is_auto(estimator)) return(intersect(c(names(ESTIMATORS)[1], PLAIN_ESTIMATOR), able)[1])
  check_choice(estimator, able, "estimator")
}

estimators_of <- function(name, d) {
  if (name %in% names(ONE_COLUMN_SELECTORS)) return(PLAIN_ESTIMATOR)
  if (name %in% names(FACTOR_CRITERIA)) names(FACTOR_CRITERIA[[name]](d)) else names(ESTIMATORS)
}
