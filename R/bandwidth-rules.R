# Plug-in rules: a closed formula of the spread, n and d. Cost O(n d).

#' Rules of thumb for the bandwidth, in any dimension
#'
#' `bw_silverman()` and `bw_scott()` give a bandwidth from the spread of the data, their number and
#' the dimension alone, at a cost of O(n d). They suit roughly normal data and smooth away the modes
#' of anything else; [bw_lcv()] looks at the data. [bandwidth_default] shows both measured.
#'
#' @section Formula:
#' With column standard deviations \eqn{s_k}, covariance \eqn{S}, and \eqn{n} the effective sample
#' size (below), the kernel's standard deviations are \eqn{c\, n^{-1/(d+r)} s_k}:
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
#' min(sd, IQR/1.34) n^(-1/5), that is [bw_nrd0()]. The code of Flash-SD-KDE (arXiv 2602.10378,
#' `Elliotepsteino/Flash-SD-KDE`) calls `"silverman"` one scalar h = 0.9 n^(-1/(d+4)) times the mean
#' over columns of min(sd, IQR/1.34), and uses it for its SD-KDE too, except in its d = 1 routine,
#' which keeps 0.4 n^(-1/9). The rules here use the plain standard deviation, as Silverman (1986,
#' eq. 4.14) and Scott (2015) do in several dimensions; give a number to `flash_kde()` to repeat the
#' papers' choice.
#'
#' @param x Data: a numeric matrix or data frame (n rows, d columns) or a numeric vector (d = 1).
#'   Finite; no column constant.
#' @param estimator The estimator that the bandwidth is for.
#' @param structure `"diagonal"`: one standard deviation for each column; `"scalar"`: one number for
#'   all (from the mean variance), for columns in the same unit; `"full"`: proportional to the
#'   covariance matrix.
#' @param weights `NULL` or n non-negative numbers. Their effective number
#'   \eqn{(\sum w)^2/\sum w^2} stands for n, and variances are weighted (as
#'   [stats::cov.wt()] does it). Rows of weight 0 do not count.
#' @param rate `"auto"`: the rate of the estimator, n^(-1/(d+4)) for `"kde"` and n^(-1/(d+8)) for the
#'   other two, as `flash_kde()` takes it; `"debiased"` the same, and an error for `"kde"`. `"kde"`:
#'   the rule of the plain estimate whatever the estimator, to compare.
#' @returns As `flash_kde()` takes it: a number (`"scalar"`) or d numbers (`"diagonal"`) are
#'   **standard deviations**, in the unit of `x`; a d x d matrix (`"full"`) is a **variance**.
#' @section Errors: of class `flashkernel_error_argument`: a constant column, by name; fewer than
#'   two rows of positive weight; for `"full"`, linearly dependent columns.
#' @references Silverman, B. W. (1986) *Density Estimation for Statistics and Data Analysis*.
#'   Chapman and Hall, sections 3.4 and 4.3.
#'
#'   Scott, D. W. (2015) *Multivariate Density Estimation*, 2nd ed. Wiley, section 6.5.
#'
#'   Wand, M. P. and Jones, M. C. (1995) *Kernel Smoothing*. Chapman and Hall, chapters 3 and 4.
#' @seealso [bw_nrd0()], [bw_sj()] for d = 1; [bw_lcv()], [bw_lscv()]; [bandwidth_default].
#' @examples
#' bw_silverman(faithful)
#' bw_silverman(faithful, "kde")
#' bw_scott(faithful, "kde", structure = "full") # a variance matrix
#' @export
bw_silverman <- function(x, estimator = c("sdkde", "kde", "laplace", "laplace6"),
                         structure = c("diagonal", "scalar", "full"), weights = NULL,
                         rate = c("auto", "kde", "debiased")) {
  bw_rule("silverman", x, estimator, structure, weights, rate)
}

#' @rdname bw_silverman
#' @export
bw_scott <- function(x, estimator = c("sdkde", "kde", "laplace", "laplace6"),
                     structure = c("diagonal", "scalar", "full"), weights = NULL,
                     rate = c("auto", "kde", "debiased")) {
  bw_rule("scott", x, estimator, structure, weights, rate)
}

bw_rule <- function(rule, x, estimator, structure, weights, rate) {
  estimator <- check_estimator(estimator)
  structure <- check_choice(structure, c("diagonal", "scalar", "full"), "structure")
  rate <- check_choice(rate, c("auto", "kde", "debiased"), "rate")
  if (rate == "debiased" && estimator == PLAIN_ESTIMATOR) {
    stop_argument("rate", "must be \"kde\" or \"auto\" for estimator \"kde\": found \"debiased\"")
  }
  if (is_remote(x)) {
    rows <- data_sample(x)
    return(for_all_rows(bw_rule(rule, rows, estimator, structure, NULL, rate), x, nrow(rows), estimator))
  }
  # the plain rate is the plain estimate's rule, constant included
  rule_bandwidth(
    selector_data(x, weights), rule, if (rate == "kde") PLAIN_ESTIMATOR else estimator, structure
  )
}

#' One-dimensional bandwidths of base R
#'
#' The selectors of [stats::density()], under this package's names and with its checks:
#' `bw_nrd0(x)` equals `stats::bw.nrd0(x)` and `bw_sj(x)` equals `stats::bw.SJ(x)` to the last digit.
#' Both aim at the plain kernel density estimate, and neither knows weights.
#'
#' `bw_nrd0()` is 0.9 min(sd, IQR/1.34) n^(-1/5) (Silverman 1986, eq. 3.31), robust to outliers.
#' `bw_sj()` is the plug-in of Sheather and Jones (1991), from binned data (1,000 bins): O(n).
#'
#' @param x A numeric vector, or a matrix or data frame of one column. Finite, not constant.
#' @param method `"ste"` (solve the equation) or `"dpi"` (direct plug-in), as in [stats::bw.SJ()].
#' @returns A number: the standard deviation of the kernel, in the unit of `x`.
#' @section Errors: of class `flashkernel_error_argument`: more than one column (use
#'   [bw_silverman()], [bw_lcv()] or [bw_lscv()] there); constant `x`; for `bw_sj()`, too few
#'   distinct values.
#' @references Sheather, S. J. and Jones, M. C. (1991) A reliable data-based bandwidth selection
#'   method for kernel density estimation. *JRSS B* 53, 683-690.
#'
#'   Silverman, B. W. (1986) *Density Estimation for Statistics and Data Analysis*. Chapman and Hall.
#' @examples
#' bw_nrd0(faithful$eruptions)
#' bw_sj(faithful$eruptions)
#' @export
bw_nrd0 <- function(x) {
  stats::bw.nrd0(one_column(x))
}

#' @rdname bw_nrd0
#' @export
bw_sj <- function(x, method = c("ste", "dpi")) {
  method <- check_choice(method, c("ste", "dpi"), "method")
  sj_bandwidth(one_column(x), method, "x")
}

sj_bandwidth <- function(x, method, arg) {
  force(x) # what is wrong with it is said as it is
  tryCatch(
    stats::bw.SJ(x, method = method),
    error = function(e) {
      stop_argument(arg, "must have enough distinct values for \"sj\": ", shorten(conditionMessage(e), 300))
    }
  )
}

one_column <- function(x) {
  data <- selector_data(x, NULL)
  if (data$d != 1) {
    stop_argument(
      "x", "must have one column for this selector (bw_silverman(), bw_scott(), bw_lcv() and ",
      "bw_lscv() take several): found ", data$d
    )
  }
  as.vector(data$x)
}

# 1 - sum p^2 for weights p that sum to 1, without the loss of digits beside a p that is nearly 1.
share_of_pairs <- function(p) {
  largest <- which.max(p)
  rest <- p[-largest]
  p[largest] * sum(rest) + sum(rest * (1 - rest))
}

# Column by column: copies of all points would be the largest memory of a fit.
weighted_sds <- function(x, weights) {
  p <- if (is.null(weights)) 1 / nrow(x) else weights / sum(weights)
  spare <- if (is.null(weights)) 1 - p else share_of_pairs(p)
  sds <- vapply(seq_len(ncol(x)), \(k) {
    # Centre first, and scale by the largest deviation: squares of neither overflow nor vanish.
    centred <- x[, k] - sum(p * x[, k])
    top <- max(abs(centred))
    if (top == 0) 0 else top * sqrt(sum(p * (centred / top)^2) / spare)
  }, 0)
  stats::setNames(sds, colnames(x))
}

weighted_correlation <- function(x, weights) {
  p <- if (is.null(weights)) rep(1 / nrow(x), nrow(x)) else weights / sum(weights)
  z <- sweep(sweep(x, 2, colSums(p * x)), 2, weighted_sds(x, weights), "/")
  crossprod(z * sqrt(p)) / share_of_pairs(p)
}

rule_bandwidth <- function(data, rule, estimator, structure) {
  factor <- rule_factor(rule, data$n, data$d, estimator)
  # an error while a method of tcrossprod() is chosen would lose its class
  if (structure == "full") root <- covariance_root(data)
  switch(structure,
    diagonal = factor * data$sds,
    scalar = factor * scalar_spread(data$sds),
    full = factor^2 * tcrossprod(root)
  )
}

# Silverman (1986), p. 87: the mean of the variances stands for the spread of all columns.
scalar_spread <- function(sds) {
  max(sds) * sqrt(mean((sds / max(sds))^2))
}

# Lower Cholesky factor of the weighted covariance matrix; of more rows than these, where `data` has a correlation.
covariance_root <- function(data) {
  correlation <- data$correlation$matrix
  if (is.null(correlation)) correlation <- weighted_correlation(data$x, data$weights)
  root <- tryCatch(t(chol(correlation)), error = function(e) NULL)
  if (is.null(root) || min(diag(root)) < 1e-7) {
    stop_argument(
      "x", "must have linearly independent columns, and more rows than columns, for a bandwidth ",
      "with structure = \"full\": found a singular covariance matrix"
    )
  }
  root <- data$sds * root
  dimnames(root) <- list(colnames(data$x), colnames(data$x))
  root
}

rule_factor <- function(rule, n, d, estimator) {
  rate <- bandwidth_rate(estimator, d)
  constant <- if (rule == "scott") 1 else ESTIMATORS[[estimator]]$reference(d)^rate
  constant * n^-rate
}

bandwidth_rate <- function(estimator, d) 1 / (d + ESTIMATORS[[estimator]]$gain)
