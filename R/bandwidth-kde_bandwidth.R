# The one door to the bandwidths that this package chooses.

#' Choose a bandwidth from data
#'
#' `kde_bandwidth()` chooses the bandwidth of a density estimate by one of nine methods. [flash_kde()] takes `"auto"`
#' where no `bandwidth` is given, and the other methods by name, as in `flash_kde(x, bandwidth = "lcv")`.
#'
#' | `method` | criterion | for |
#' |---|---|---|
#' | `"auto"` | leave-one-out likelihood, censored towards heavy tails; for `"laplace"`, least squares | all |
#' | `"lcv"` | leave-one-out likelihood | all |
#' | `"lscv"` | least-squares cross-validation | `"kde"`, `"laplace"` |
#' | `"plugin"` | asymptotic squared error with an estimated curvature | `"kde"` |
#' | `"scv"` | smoothed cross-validation | `"kde"` |
#' | `"silverman"`, `"scott"` | none: rules of the spread, n and d, at a cost of O(n d) | all |
#' | `"nrd0"`, `"sj"` | [stats::bw.nrd0()] and [stats::bw.SJ()], of one column without weights | `"kde"` |
#'
#' @section Likelihood:
#' \deqn{\mathrm{LCV}(H) = \frac{1}{\sum_i v_i}\sum_i v_i \log \{\hat f_{-i}(x_i; H) + 10^{-6} g(x_i)\}}
#' where \eqn{\hat f_{-i}} is the estimate without point i (Habbema, Hermans and van den Broek 1974; Duin 1976). The
#' weight \eqn{v_i} of a row is at most ten times the median of the weights. g is a multivariate Cauchy density at the
#' medians with the robust spreads of the columns: without it one far outlier would choose the bandwidth. From d = 16 on
#' its share is \eqn{10^{-6d/16}}{10^(-6 d/16)}. For `"sdkde"` every point is left out of both stages, the score and the
#' sum, exactly; the variance of the score's kernel is H / 2, and the bandwidth brings it along to `flash_kde()`. Where
#' a Laplace-corrected density is below a thousandth of the plain one, the criterion takes that thousandth.
#'
#' Where tails are heavy, the likelihood takes a bandwidth that smooths the middle away. In one dimension `"auto"`
#' therefore chooses the factor of the plain estimate by a likelihood that is censored towards the tails,
#' \deqn{\frac{1}{\sum_i v_i}\sum_i v_i \{a_i \log \hat f_{-i}(x_i) + (1 - a_i)\log(1 - \textstyle\int a \hat f_{-i})\}}
#' with \eqn{a} a Gaussian bump at the medians of \eqn{3\sqrt d} times the robust spreads. The factor of `"sdkde"` is
#' that of its likelihood, times what censoring takes off the plain estimate's factor. In several dimensions censoring
#' would cost the rows in the tails more than it gains, and `heavy` only reports heavy tails. The factor of `"laplace"`
#' is chosen by the least-squares criterion of the signed estimate, as the likelihood knows no negative densities.
#'
#' @section Other criteria:
#' \deqn{\mathrm{LSCV}(H) = \frac{1}{W^2}\sum_i\sum_j w_i w_j\,\phi_{2H}(x_i-x_j)
#'   - \frac{2}{W}\sum_i w_i \hat f_{-i}(x_i; H), \qquad W = \sum_i w_i}
#' (Rudemo 1982; Bowman 1984) is nearly unbiased and very variable: it undersmooths in a good share of samples, and in
#' more than about 4 dimensions it hardly distinguishes bandwidths. `"plugin"` and `"scv"` are less variable, and biased
#' where the density has finer structure than their pilots see. The pilots are isotropic after the columns are made
#' uncorrelated (Duong and Hazelton 2003), in two stages from the normal scale. In one dimension `"plugin"` is the
#' direct plug-in of Sheather and Jones, without bins; `"sj"` solves their equation, from 1,000 bins.
#'
#' The rules have kernel sds \eqn{c\, n^{-1/(d+r)} s_k}{c n^(-1/(d+r)) s_k}, with the column sds \eqn{s_k}, the
#' effective sample size n, and r = 4 for `"kde"`, 8 for `"sdkde"` and `"laplace"`, 12 for `"laplace6"`. Scott's c is 1.
#' Silverman's c minimises the asymptotic integrated squared error for normal data: \eqn{c^{d+4} = 4/(d+2)} for `"kde"`,
#' \eqn{c^{d+8} = 8(d+8)/((d+4)(d+6))} for `"laplace"`, \eqn{c^{d+8} = 32 R/(25(d+2))} for `"sdkde"`, with \eqn{R = 1 +
#' (d/3)(2/3)^{d/2} + d(d+2)2^{-d/2}/64}, and the same calculation for `"laplace6"`. (The code of Flash-SD-KDE, arXiv
#' 2602.10378, calls h = 0.9 n^(-1/(d+4)) times the mean of min(sd, IQR/1.34) `"silverman"`.)
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
#' 1. Rows are put into an order that their values decide, so that their order in `x` does not matter. Copies of a row
#'    that no rounding explains, as in a bootstrap sample, become one row of their total weight. Rounded columns
#'    (multiples of a width) get noise of that width, and other repeated values are spread over their neighbourhood; the
#'    likelihood of repeated values would choose no bandwidth at all.
#' 2. The shape of H maximises the likelihood of the plain estimate, by its gradient, first on 500 rows, then on more.
#'    `"auto"` takes the structure whose likelihood is largest after 3 p / n nats are taken off, which is about what p
#'    parameters gain by chance; differences below 0.002 do not count. A diagonal H needs ten rows for each parameter,
#'    and a full one, too, in up to 16 columns.
#' 3. The factor of H minimises the criterion of the estimator.
#' 4. The variance of a rounded column is raised by a twelfth of the squared width, and to a quarter of it at least.
#'
#' `seconds` is a budget on a nominal core, or a nominal GPU: costs of sums decide how many rows are used, never a
#' clock, so that the result does not depend on the machine's speed. All rows decide where that fits. Else the shape
#' comes from a sample, and the factor from all rows by fast sums (up to 3 dimensions, with a tolerance), or both are
#' means over up to four samples, carried to n by the rate (m/n)^(1/(d+r)).
#'
#' `se` is the standard error of the logarithm of the factor. Several samples give it by the spread of their factors.
#' One sample of at least 200 rows is divided into fifths (of at most 2,000 rows), whose factors are found by the same
#' criterion; where that is a likelihood, by that of the plain estimate, whatever the estimator is. Their spread is
#' scaled to all rows by the power d / (2 (d + 4)) of n, with which the error of a cross-validated bandwidth falls. With
#' fewer rows it is `NA`.
#'
#' @param x For `kde_bandwidth()`, a numeric matrix or data frame (n rows, d columns) or a numeric vector (d = 1),
#'   finite, with no constant column. Missing: the result is a request for such a search by [flash_kde()], as
#'   `flash_kde(x, bandwidth = kde_bandwidth(structure = "full"))`. For `plot()`, the result of a search.
#' @param method The name of a method, see above.
#' @param estimator The estimator that the bandwidth is for. `"auto"`: the first that the method knows.
#' @param structure What H may be, see Structures and search. For `"silverman"` and `"scott"`: `"diagonal"` (also by
#'   `"auto"`), one sd for each column; `"scalar"`, one number from the mean variance; `"full"`, proportional to the
#'   covariance matrix.
#' @param weights `NULL` or n non-negative numbers; rows of weight 0 do not count. Their effective number \eqn{(\sum
#'   w)^2/\sum w^2} stands for n, and variances are weighted (as in [stats::cov.wt()]).
#' @param rows Number of rows of a search. `NULL`: as many as `seconds` allow. A number: up to four samples of at most
#'   so many rows. `Inf`: all rows for all of the search.
#' @param seconds A budget for the search, in seconds of a nominal core.
#' @param start `NULL`, or a bandwidth as for `flash_kde()` on which scans are centred; the simple structures have its
#'   shape.
#' @param tol Error tolerance of sums, relative to each, for the plain and the Laplace-corrected estimate of many points
#'   in up to 3 dimensions: with it an evaluation takes time linear in n. 0: exact sums. Those of `"sdkde"` always are.
#' @param control A [flash_control()], which says where and how to compute, or `NULL`. `tol` takes precedence over its
#'   `tol`.
#' @param ... For `kde_bandwidth()` nothing: later arguments have to be named. For `plot()`, graphical parameters of the
#'   first panel, as in [graphics::plot.default()].
#' @returns `kde_bandwidth()`: a number or d numbers are **standard deviations**, in the unit of `x`; a d x d matrix
#'   (structures `"sphered"` and `"full"`) is a **variance**. Printing shows the record of a search, and arithmetic
#'   gives plain numbers. The record is in attributes: `selector`; `structure`; `criterion`, its value at the factor (a
#'   mean log likelihood in nats, the censored one for columns in units of their spread, or a least-squares criterion);
#'   `evaluations`; `convergence` (0: found inside the range searched; 1: not, with a warning); `se`; `rows` and
#'   `batches`, how many rows in how many samples; `path`, a data frame of the structures tried; `trace`, the criterion
#'   along the factor; `columns`, a data frame of distinct values, width of the rounding, most frequent value and its
#'   share, and whether the variance was raised; `copies`, rows merged; `heavy`, whether the likelihood asks for a
#'   factor 1.5 times that of the censored one (1.2 times in several dimensions); `score`, for `"sdkde"` the variance of
#'   the score's kernel over H; `chosen`, the numbers alone.
#'
#'   `plot()`: `x`, invisibly. It shows the criterion along the factor with its standard error, and the gain of each
#'   structure.
#' @section Errors: of class `flashkernel_error_argument`: a constant column, by name; fewer than two rows of positive
#'   weight; for `"full"`, linearly dependent columns; a `start` that is no bandwidth; for `"sj"`, too few distinct
#'   values.
#' @references Bowman, A. W. (1984) An alternative method of cross-validation for the smoothing of density estimates.
#'   *Biometrika* 71, 353-360.
#'
#'   Duin, R. P. W. (1976) On the choice of smoothing parameters for Parzen estimators of probability density functions.
#'   *IEEE Trans. Computers* C-25, 1175-1179.
#'
#'   Duong, T. and Hazelton, M. L. (2003) Plug-in bandwidth matrices for bivariate kernel density estimation. *Journal
#'   of Nonparametric Statistics* 15, 17-30.
#'
#'   Habbema, J. D. F., Hermans, J. and van den Broek, K. (1974) A stepwise discriminant analysis program using density
#'   estimation. *COMPSTAT 1974*, 101-110.
#'
#'   Hall, P., Marron, J. S. and Park, B. U. (1992) Smoothed cross-validation. *Probability Theory and Related Fields*
#'   92, 1-20.
#'
#'   Rudemo, M. (1982) Empirical choice of histograms and kernel density estimators. *Scand. J. Statist.* 9, 65-78.
#'
#'   Sheather, S. J. and Jones, M. C. (1991) A reliable data-based bandwidth selection method for kernel density
#'   estimation. *JRSS B* 53, 683-690.
#'
#'   Wand, M. P. and Jones, M. C. (1995) *Kernel Smoothing*. Chapman and Hall, chapters 3 and 4.
#' @seealso `vignette("bandwidth")` for measured comparisons.
#' @examples
#' h <- kde_bandwidth(faithful, estimator = "kde")
#' h
#' plot(h)
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
