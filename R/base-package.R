# The package's help page, and its C code.

#' @description
#' Kernel density estimation, kernel regression and sums of kernels, exact and fast in any number of dimensions, on all cores of
#' a CPU and on NVIDIA GPUs.
#'
#' @section Where to begin:
#' | question | page |
#' |---|---|
#' | a density | [flash_kde()] |
#' | a regression, or classes | [kernel_regression()], [kernel_ridge()], [flash_kda()] |
#' | sums of kernels, kernel matrices | [kernel_sum()], [kernel_operator()] |
#' | questions that users ask | [flashkernel_faq] |
#' | the calls of other packages | [coming_from] |
#' | which generic functions work on which fit | [flashkernel_methods] |
#' | many rows, GPUs, clusters | [large_data], [gpus], [clusters] |
#' | how exact, how fast | [tolerance] |
#'
#' @seealso `vignette("flashkernel")` is an introduction.
#' @keywords internal
#' @examples
#' plot(flash_kde(faithful))
#' @useDynLib flashkernel, .registration = TRUE
"_PACKAGE"
