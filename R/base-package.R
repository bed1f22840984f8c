# The package's help page, and its C code.

#' @section Generic functions by class:
#' The table says which of R's generic functions have methods for the fits of this
#' package. The columns are the classes of [flash_kde()], of `flash_kde(y ~ x)` (see [flash_conditional]), of
#' [flash_kda()], of [kernel_regression()] and of [kernel_ridge()]. Fits of [tune_ridge()] have the methods of
#' `kernel_ridge()`.
#'
#' | generic | `flash_kde` | `flash_conditional` | `flash_kda` | `kernel_regression` | `kernel_ridge` |
#' |---|---|---|---|---|---|
#' | `print()`, `summary()`, `plot()`, `predict()` | yes | yes | yes | yes | yes |
#' | `nobs()`, `formula()`, `update()` | yes | yes | yes | yes | yes |
#' | `autoplot()` (ggplot2) | yes | yes | yes | yes | yes |
#' | `tidy()`, `glance()`, `augment()` (broom) | yes | yes | yes | yes | yes |
#' | [cross_validate()], [compare_fits()] | yes | yes | yes | yes | yes |
#' | `fitted()` | yes | yes | | yes | yes |
#' | `residuals()` | | yes | | yes | yes |
#' | `coef()`, `logLik()`, `simulate()` | yes | yes | | | yes |
#' | `quantile()`, [kde_cdf()] | yes | yes | | | |
#' | `confint()` | yes | | | | yes |
#' | `weights()`, `sigma()`, `hatvalues()` | | | | yes | yes |
#' | `vcov()`, `deviance()`, `df.residual()`, `family()`, `rstandard()`, `variable.names()` | | | | | yes |
#' | `lines()`, `contour()`, `as.data.frame()` | yes | | | | |
#'
#' A [kernel_operator()] has the methods of a matrix: `%*%`, `crossprod()`, `tcrossprod()`, `t()`, `dim()`, `diag()`,
#' `rowSums()`, `colSums()`, `[` and `as.matrix()`. [flash_data()] has `dim()`, `summary()`, `by()` and `[`.
#' @seealso [flash_kde()], [kernel_regression()] and [kernel_ridge()] to begin with; [flashkernel_faq]; [coming_from]
#'   for users of other packages; `vignette("flashkernel")`.
#' @keywords internal
#' @useDynLib flashkernel, .registration = TRUE
"_PACKAGE"
