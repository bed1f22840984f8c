# kde_bandwidth(): the exported function that runs all bandwidth selectors.

#' Choose a bandwidth from data
#'
#' `kde_bandwidth()` chooses the bandwidth of a density estimate by one of nine methods. [flash_kde()] uses `"auto"`
#' if no `bandwidth` is given, and accepts the other methods by name, as in `flash_kde(x, bandwidth = "lcv")`.
#'
#' | `method` | criterion | for |
#' |---|---|---|
#' | `"auto"` | leave-one-out likelihood and least squares; for `"laplace"`, least squares | all |
#' | `"lcv"` | leave-one-out likelihood | all |
#' | `"lscv"` | least-squares cross-validation | `"kde"`, `"laplace"` |
#' | `"plugin"` | asymptotic squared error with an estimated curvature | `"kde"` |
#' | `"scv"` | smoothed cross-validation | `"kde"` |
#' | `"silverman"`, `"scott"` | none: rules that use the spread, n and d, in O(n d) time | all |
#' | `"nrd0"`, `"sj"` | [stats::bw.nrd0()] and [stats::bw.SJ()], one column, no weights | `"kde"` |
#'
#' @section Likelihood:
#' \deqn{\mathrm{LCV}(H) = \frac{1}{\sum_i v_i}\sum_i v_i \log \{\hat f_{-i}(x_i; H) + 10^{-6} g(x_i)\}}{LCV(H) = sum_i
#'   v_i log(f_-i(x_i; H) + 1e-6 g(x_i)) / sum_i v_i}
#' where \eqn{\hat f_{-i}}{f_-i} is the estimate without point i (Habbema, Hermans and van den Broek 1974; Duin 1976).
#' The weight \eqn{v_i}{v_i} of a row is at most ten times the median weight. g is a multivariate Cauchy density with
#' the medians and robust spreads of the columns; without it one far outlier would determine the bandwidth. From d = 16
#' on its share is \eqn{10^{-6d/16}}{10^(-6 d/16)}. For `"sdkde"` both stages, the score and the sum, leave the point
#' out, and the bandwidth of the score is H / 2. A Laplace-corrected density counts as at least a thousandth of the
#' classical one.
#'
#' In heavy tails the likelihood oversmooths the centre. For SD-KDEs, and `"kde"` in one column, `"auto"` uses
#' a likelihood censored in the tails,
#' \deqn{\frac{1}{\sum_i v_i}\sum_i v_i \{a_i \log \hat f_{-i}(x_i) + (1 - a_i)\log(1 - \int a \hat f_{-i})\}}{
#'   sum_i v_i (a_i log f_-i(x_i) + (1 - a_i) log(1 - int a f_-i)) / sum_i v_i}
#' where a is a Gaussian bump at the medians, \eqn{2 \sqrt d} robust spreads wide. An SD-KDE averages it with the log
#' cosine of estimate and density, weights 1000 : n. In one column the log bandwidth has a normal prior at the plug-in
#' bandwidth, of standard deviation 0.35. For `"laplace"` the factor minimises the
#' least-squares criterion, because a likelihood is not defined for negative densities.
#'
#' @section Other criteria:
#' \deqn{\mathrm{LSCV}(H) = \sum_{i,j} w_i w_j\,\phi_{2H}(x_i-x_j) - 2 \sum_i w_i \hat f_{-i}(x_i; H)}{LSCV(H) = sum_ij
#'   w_i w_j phi_2H(x_i - x_j) - 2 sum_i w_i f_-i(x_i; H)}
#' for weights whose sum is 1 (Rudemo 1982; Bowman 1984) is nearly unbiased and highly variable: it often undersmooths,
#' and in more than about 4 dimensions it hardly distinguishes bandwidths. `"plugin"` and `"scv"` are less variable,
#' but biased where the density has finer structure than their pilot estimates. The pilots are isotropic after the
#' columns are made uncorrelated (Duong and Hazelton 2003). In one dimension `"plugin"` is the direct plug-in method of
#' Sheather and Jones, without binning.
#'
#' The rules multiply the standard deviations of the columns by \eqn{c\, n^{-1/(d+4)}}{c n^(-1/(d+4))} (`"kde"`; other
#' estimators have other powers). Scott's c is 1; Silverman's is best for normal data.
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
#' 1. The rows are sorted by their values, so that their order in `x` does not matter. Copies of a row that rounding
#'    does not explain, as in a bootstrap sample, are merged into one row with their total weight. Rounded columns get
#'    noise of the width of the rounding. Other repeated values are spread over their neighbourhood, because the
#'    likelihood of repeated values has no maximum.
#' 2. The shape of H maximises the likelihood of the classical estimate, by its gradient, first on 500 rows, then on
#'    more. `"auto"` takes the structure with the largest likelihood per row less 3 p / n nats, about what p parameters
#'    gain by chance; it ignores differences below 0.002. A diagonal H needs ten rows for each parameter; so does a full
#'    one in up to 16 columns.
#' 3. The factor of H minimises the criterion of the estimator.
#' 4. The variance of a rounded column is raised by a twelfth of the squared width, to at least a quarter of it.
#'
#' `seconds` is a budget on a nominal core or GPU. It limits the rows by the counted cost of sums, not by a clock, so
#' results do not depend on the machine. All rows are used where the budget allows. Otherwise the shape comes from a
#' sample and the factor from all rows by fast sums (up to 3 dimensions, with a tolerance), or both are means over up to
#' four samples of m rows, scaled to n rows by (m/n)^(1/(d+4)), for debiased estimators by (m/n)^(1/(d+8)).
#'
#' `se` is the standard error of the logarithm of the factor, from the spread of the factors of several samples, or of fifths of one
#' sample. With fewer than 200 rows it is `NA`.
#'
#' @param x A numeric matrix or data frame (n rows, d columns) or a numeric vector (d = 1), finite, with no constant
#'   column. Missing: the result is a request for a search by [flash_kde()], as in
#'   `flash_kde(x, bandwidth = kde_bandwidth(structure = "full"))`. For `plot()`, the result of a search.
#' @param method The name of a method in the table.
#' @param estimator The estimator that the bandwidth is for. `"auto"` (default): `"sdkde"` if the method supports it,
#'   else `"kde"`. See [kde_estimators].
#' @param structure The form of H, see Structures and search. For `"silverman"` and `"scott"`: `"diagonal"` (also for
#'   `"auto"`), one standard deviation for each column; `"scalar"`, one number from the mean variance; `"full"`,
#'   proportional to the covariance matrix.
#' @param weights `NULL` (default) or n non-negative numbers; rows of weight 0 are ignored. The effective sample size
#'   \eqn{(\sum w)^2/\sum w^2}{(sum w)^2 / sum w^2} replaces n, and variances are weighted (as in [stats::cov.wt()]).
#' @param rows Number of rows of the search. `NULL` (default): as many as `seconds` allow. A number: up to four samples
#'   of at most this many rows. `Inf`: all rows throughout.
#' @param seconds A budget for the search, in seconds of a nominal core.
#' @param start `NULL` (default), or a bandwidth as for `flash_kde()` at which the search starts. The structures with
#'   one parameter have its shape.
#' @param tol Relative error tolerance of each sum, 1e-6 by default, for the classical and Laplace-corrected estimates
#'   in up to 3 dimensions, `"sdkde"` in one; an evaluation then takes linear time. 0: exact sums.
#' @param control `NULL` or a [flash_control()], over whose `tol` the argument `tol` takes precedence.
#' @param ... For `plot()`, graphical parameters of the first panel, as in [graphics::plot.default()]. Otherwise unused.
#' @returns `kde_bandwidth()`: a number or d numbers are **standard deviations**, in the units of `x`; a d x d matrix
#'   (structures `"sphered"` and `"full"`) is a **variance**.  Attributes record the search:
#'   \item{`selector`, `structure`}{the method and the structure chosen.}
#'   \item{`criterion`}{its value at the chosen factor: a mean log-likelihood in nats (the censored one for columns in
#'     units of their spread) or a least-squares criterion.}
#'   \item{`evaluations`, `convergence`}{number of evaluations; 0 if the optimum lies inside the range searched, else 1,
#'     with a warning.}
#'   \item{`se`, `rows`, `batches`}{the standard error, and how many rows in how many samples were used.}
#'   \item{`path`, `trace`}{data frames of the structures tried, and of the criterion along the factor.}
#'   \item{`columns`, `copies`}{a data frame of the rounding and repeated values of each column; number of rows merged.}
#'   \item{`heavy`}{whether the likelihood asks for 1.5 times the censored factor.}
#'   \item{`score`, `chosen`}{for `"sdkde"`, the ratio of the variance of the score's kernel to H; the numbers alone.}
#'
#'   `plot()`: `x`, invisibly. 
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
#' @seealso `vignette("bandwidth")` for comparisons and formulas.
#' @examples
#' h <- kde_bandwidth(faithful, estimator = "kde")
#' h
#' plot(h)
#' kde_bandwidth(faithful$eruptions, "lcv")
#' kde_bandwidth(quakes[1:400, c("lat", "long")], "lscv", structure = "full")
#' kde_bandwidth(faithful, "scott", "kde", structure = "full") # a variance matrix
#' @order 1
#' @rawRd \concept{bandwidth selection}\concept{smoothing parameter}\concept{cross-validation of a bandwidth}
#'   \concept{plug-in bandwidth}
#' @export
kde_bandwidth <- function(x, method = "auto", estimator = "auto", structure = "auto",
                          weights = NULL, rows = NULL, seconds = 5, start = NULL, tol = 1e-6, control = NULL, ...) {
  check_dots_empty(...)
  spec <- list(method = method, structure = structure, rows = rows, seconds = seconds)
  if (missing(x)) return(structure(spec, class = "kde_bandwidth_spec"))
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
