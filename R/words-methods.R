# Written by tools/methods-table.R from NAMESPACE: change that script, not this file.

#' Generic functions by class
#'
#' Which of R's generic functions, and of this package's, have methods for which fits.
#'
#' @section Fits:
#'
#' | generic | `flash_kde` | `flash_conditional` | `flash_kda` | `kernel_regression` | `kernel_ridge` |
#' |---|---|---|---|---|---|
#' | `augment()`, `autoplot()`, `compare_fits()`, `cross_validate()` | yes | yes | yes | yes | yes |
#' | `formula()`, `glance()`, `nobs()`, `plot()` | yes | yes | yes | yes | yes |
#' | `predict()`, `print()`, `summary()`, `tidy()` | yes | yes | yes | yes | yes |
#' | `update()` | yes | yes | yes | yes | yes |
#' | `confint()`, `fitted()` | yes | yes |  | yes | yes |
#' | `residuals()` |  | yes |  | yes | yes |
#' | `coef()`, `logLik()`, `simulate()` | yes | yes |  |  | yes |
#' | `hatvalues()`, `sigma()`, `weights()` |  |  |  | yes | yes |
#' | `diagnostics()` | yes |  |  |  | yes |
#' | `kde_bands()`, `kde_cdf()`, `kde_conditional()`, `kde_marginal()` | yes | yes |  |  |  |
#' | `mean()`, `median()`, `quantile()` | yes | yes |  |  |  |
#' | `deviance()`, `df.residual()`, `family()`, `model.frame()` |  |  |  |  | yes |
#' | `rstandard()`, `variable.names()`, `vcov()` |  |  |  |  | yes |
#' | `as.data.frame()`, `as_flash_kde()`, `contour()`, `hdr_level()` | yes |  |  |  |  |
#' | `hdr_regions()`, `kde_pvalue()`, `kde_test()`, `lines()` | yes |  |  |  |  |
#'
#' `flash_conditional` is the class of `flash_kde(y ~ x)`. Fits of [tune_ridge()] are of class `kernel_ridge`, too. `update()`
#' also works by R's default method for the other fits.
#' `autoplot()` needs package ggplot2; `tidy()`, `glance()` and `augment()` need broom or generics.
#'
#' @section Refusals:
#' A verb is refused where it makes no sense for the estimate. Bandwidths of balloon estimates and widths of polygons differ
#' from place to place. Laplace-corrected estimates may be negative; clipped ones are no sums of kernels. Triangular and
#' uniform kernels have kinks, categories no distances. Mixed data have a space for each category. Products of kernels on
#' supports have no integral in closed form. Debiasing moves points together.
#'
#' @section Results and other objects:
#'
#' - `kde_bands`, from [kde_bands()]: `autoplot()`, `glance()`, `plot()`, `print()`, `tidy()`.
#' - `flash_clusters`, from [mean_shift()]: `augment()`, `glance()`, `plot()`, `predict()`, `print()`, `tidy()`.
#' - `kde_local_test`, from [kde_test()]: `plot()`, `print()`.
#' - `flash_kde_validation`, from [cross_validate()]: `glance()`, `print()`, `tidy()`.
#' - `flash_kda_validation`, from [cross_validate()]: `glance()`, `print()`, `tidy()`.
#' - `flash_kde_comparison`, from [compare_fits()]: `glance()`, `plot()`, `print()`, `tidy()`.
#' - `marginal_effects`, from [marginal_effects()]: `print()`.
#' - `flashkernel_bandwidth`, from [kde_bandwidth()]: `Math`, `Ops`, `plot()`, `print()`.
#' - `flash_hdr`, from [hdr_regions()]: `st_as_sf()`.
#' - `kernel_operator`, from [kernel_operator()]: `%*%`, `Ops`, `[`, `as.matrix()`, `colMeans()`, `colSums()`,
#'   `crossprod()`, `diag()`, `diag<-()`, `diagnostics()`, `dim()`, `eigen()`, `rowMeans()`, `rowSums()`, `solve()`,
#'   `svd()`, `t()`, `tcrossprod()`.
#' - `flash_data`, from [flash_data()]: `[`, `by()`, `dim()`, `dimnames()`, `length()`, `print()`, `summary()`.
#' @seealso [flashkernel_faq], [flash_kde()], [kernel_regression()], [kernel_ridge()].
#' @name flashkernel_methods
#' @rawRd \concept{S3 methods}\concept{generics by class}
#' @examples
#' fit <- flash_kde(faithful)
#' plot(fit)
#' methods(class = class(fit)[1])
NULL
