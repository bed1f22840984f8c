# How the points of an SD-KDE move: the argument `debias` of flash_kde().

#' How a density estimate is debiased
#'
#' The argument `debias` of [flash_kde()]: in how many steps the points of an SD-KDE move, along which score, and
#' whether a signed (Laplace-corrected) estimate is made a density.
#'
#' @param steps Number of steps, 1 to 20. One step removes the bias of order \eqn{h^2}{h^2}, two steps also that of order
#'   \eqn{h^4}{h^4}. Further steps change little.
#' @param score The score that the first step follows. `NULL`: the score of the points' own kernel density estimate.
#'   Otherwise a [flash_kde()] fit, an `n` x `d` matrix of gradients of the log density at the points, or a function of
#'   the points that returns such a matrix.
#' @param bandwidth Bandwidth of the kernel density estimate whose score is used, as `bandwidth` of [flash_kde()]. `NULL`:
#'   what the search for the bandwidth of the density found, or else the same bandwidth.
#' @param nonnegative For `estimator = "laplace"` and `"laplace6"`: should the estimate be 0 where it would be negative,
#'   and be divided by its integral?
#' @returns An object of class `kde_debiasing`: a list of the arguments.
#' @export
#' @examples
#' flash_kde(faithful, "sdkde", debias = debiasing(steps = 2))
#' flash_kde(faithful, "laplace", debias = debiasing(nonnegative = TRUE))
debiasing <- function(steps = 1, score = NULL, bandwidth = NULL, nonnegative = FALSE) {
  structure(class = "kde_debiasing", list(
    steps = check_count(steps, "steps", max = MOST_STEPS), score = score, bandwidth = bandwidth,
    nonnegative = check_flag(nonnegative, "nonnegative")
  ))
}

#' @export
print.kde_debiasing <- function(x, ...) {
  cat(
    "Debiasing: ", x$steps, ngettext(x$steps, " step", " steps"), " along ",
    if (is.null(x$score)) "the estimate's own score" else "a given score",
    if (x$nonnegative) ", negative values replaced by 0", "\n", sep = ""
  )
  invisible(x)
}
