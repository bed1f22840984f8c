# Kernels of categorical variables: the argument `categorical` of flash_kde() and kernel_regression().

#' Kernels of categorical variables
#'
#' The argument `categorical` of [flash_kde()] and [kernel_regression()]: how factors, texts and logical columns are smoothed.
#'
#' @param smoothing Smoothing parameters: one number for all categorical columns, or numbers named by column; those that
#'   are not named, and with `NULL` all, are chosen from the data together with the bandwidth. 0 separates the categories.
#' @param kernel Names of kernels: `"aitchisonaitken"`, `"liracine"` or `"wangvanryzin"`, several of them, or names of
#'   these named by column. `NULL`: Aitchison and Aitken's for unordered categories, Li and Racine's for ordered factors.
#' @returns An object of class `categorical_kernel`: a list of the arguments.
#' @export
#' @examples
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
