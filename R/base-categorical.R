#' Kernels of categorical variables
#'
#' Makes the argument `categorical` of [flash_kde()] and [kernel_regression()], which says how factors, ordered factors,
#' character and logical columns of a data frame are smoothed.
#'
#' @section Densities with categories:
#' For numbers x and categories c the estimate is \eqn{p(x, c) = \sum_i w_i K_H(x -
#' x_i) \prod_k l_k(c_k, c_{ik}) / W}{p(x, c) = sum_i w_i K_H(x - x_i) prod_k l_k(c_k, c_ik) / W}, as in
#' `np::npudens()` (Li and Racine 2003). It sums to 1 over the categories and integrates to 1 over the numbers. Summed
#' over the categories it is the estimate of the numbers alone.
#'
#' For categories a and b of a column with r of them, k ranks apart if they are ordered, and the smoothing parameter
#' \eqn{\lambda}{lambda}, the kernels are, before they are divided by their sums:
#'
#' | kernel | categories | l(a, a) | l(a, b) | largest lambda |
#' |---|---|---|---|---|
#' | `"aitchisonaitken"` | unordered | 1 - lambda | lambda / (r - 1) | (r - 1) / r |
#' | `"liracine"` | unordered | 1 | lambda | 1 |
#' | `"liracine"` | ordered | 1 | lambda^k | 1 |
#' | `"wangvanryzin"` | ordered | 1 - lambda | (1 - lambda) lambda^k / 2 | 1 |
#'
#' With lambda 0 each category has the estimate of its own points. At the largest lambda all categories have the same
#' estimate, except for `"wangvanryzin"`. Levels of a factor without rows are categories, too, as in np. Character
#' columns have the categories that occur.
#'
#' @section How the smoothing parameters are chosen:
#' They are chosen together with the bandwidth, by the leave-one-out
#' likelihood of the classical estimate, for `bandwidth = "auto"` and `"lcv"`. If the bandwidth is a number or a rule
#' such as `"silverman"`, the smoothing parameters are chosen for it. Other selectors do not work with categories.
#' Shape and structure of H are chosen on a sample of rows, in turn with the smoothing parameters; the scale of H and
#' the smoothing parameters are chosen by up to 2,000 rows.
#'
#' @section Estimators and methods:
#' The default estimator is `"kde"`, with adaptive bandwidths where they help. With
#' `"sdkde"` points move along the score of the density of numbers and categories; the remaining bias is of order
#' \eqn{h^4 + \lambda}{h^4 + lambda}. Balloon estimates are not available. Predictions need the categorical columns in
#' `newdata`; a category that the fit does not have is an error. [kde_cdf()], [`quantile()`][quantile.flash_kde] and
#' `lines()` use the numeric columns alone.
#'
#' @param smoothing Smoothing parameters: one number for all categorical columns, or numbers named by column. Columns
#'   that are not named, and all columns with `NULL` (default), get theirs from the data, together with the bandwidth.
#'   0 estimates each category separately.
#' @param kernel Kernels: `"aitchisonaitken"`, `"liracine"` or `"wangvanryzin"`; one name or several, or a vector of
#'   names named by column. Default: `"aitchisonaitken"` for unordered categories, `"liracine"` for ordered factors.
#' @returns An object of class `categorical_kernel`: a list of the arguments.
#' @references Aitchison, J. and Aitken, C. G. G. (1976) Multivariate binary discrimination by the kernel method.
#'   *Biometrika* 63, 413-420.
#'
#'   Li, Q. and Racine, J. (2003) Nonparametric estimation of distributions with categorical and continuous data.
#'   *Journal of Multivariate Analysis* 86, 266-292.
#'
#'   Wang, M.-C. and van Ryzin, J. (1981) A class of smooth estimators for discrete distributions. *Biometrika* 68,
#'   301-309.
#' @rawRd \concept{factors}\concept{mixed data}\concept{categorical data}
#' @export
#' @examples
#' # four numbers and a factor: smoothing parameter and bandwidth are chosen together
#' flowers <- flash_kde(iris)
#' plot(flowers)
#' predict(flowers, iris[c(1, 51, 101), ])
#' flash_kde(warpbreaks[c("breaks", "tension")], categorical = categorical_kernel(smoothing = 0.1))
categorical_kernel <- function(smoothing = NULL, kernel = NULL) {
  structure(class = "categorical_kernel", list(smoothing = smoothing, kernel = kernel))
}

#' @export
print.categorical_kernel <- function(x, ...) {
  said <- function(value) {
    if (is.null(value)) return("chosen from the data")
    paste0(if (!is.null(names(value))) paste0(names(value), " = "), format(value), collapse = ", ")
  }
  cat("Categorical kernel:\n  smoothing: ", said(x$smoothing), "\n  kernel:    ",
    if (is.null(x$kernel)) "the default of each kind of column" else said(x$kernel), "\n", sep = "")
  invisible(x)
}
