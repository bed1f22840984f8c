# How the points of an SD-KDE move: the argument `debias` of flash_kde().

#' Debiasing of density estimates
#'
#' `debiasing()` makes the argument `debias` of [flash_kde()]: in how many steps the points of a score-debiased estimate move,
#' along which score, and whether a Laplace-corrected estimate is made a density.
#'
#' @section Steps:
#' One step of `"sdkde"` removes the bias of order \eqn{h^2}{h^2} that smoothing by H causes. Smoothing is undone exactly by
#' the flow \eqn{dx/dt = (H/2) \nabla \log u_{-t}(x)}{dx/dt = (H / 2) grad log u_-t(x)} for t from 0 to 1, where
#' \eqn{u_{-t}}{u_-t} is the density of the moving points. The midpoint rule approximates it by \eqn{\tilde x = x + (H/2)
#' \nabla \log u_{-1/2}((x + \tilde x)/2)}{xd = x + (H / 2) grad log u_-1/2((x + xd) / 2)}. The classical estimate of the
#' debiased points with variance H / 2 estimates \eqn{u_{-1/2}}{u_-1/2}. So each further step evaluates the score
#' of the last debiased points halfway to them, and starts again at x. Two steps leave a bias of order \eqn{h^6}{h^6}; further
#' steps change little. The estimate stays a density.
#'
#' More steps need a larger bandwidth. An automatic bandwidth is chosen for one step; its standard deviations are then
#' multiplied by \eqn{0.9 n^{1/(d+8) - 1/(d+12)}}{0.9 n^(1 / (d + 8) - 1 / (d + 12))} for two steps, and by 0.95 times that
#' power for more. Two steps at the best bandwidth had 2 to 30 percent less integrated squared error than one
#' step at its best bandwidth, on five normal mixtures with 300 and 3,000 points (`bench/debias_steps.R`). At the bandwidth for one step they
#' mostly add noise.
#'
#' Leave-one-out values of several steps need a fit without each point, in \eqn{O(n^3 d)}{O(n^3 d)} time, and are available
#' for up to some 3,000 points. [cross_validate()] leaves out groups of rows instead. Adaptive bandwidths are available with one step.
#'
#' @section Other scores:
#' With a score that is known, or estimated elsewhere, points first move by half of H along that score. Leave-one-out values
#' then leave a point out of the other sums only, because the score is taken as given. They are optimistic if the score
#' was estimated from the same points.
#'
#' @section Densities from signed estimates:
#' With `nonnegative = TRUE` the estimate p becomes \eqn{\max(p, 0) / (1 + m)}{max(p, 0) / (1 + m)}, where m is the integral
#' of the negative part ([diagnostics()] reports how m was computed). Where the density is 0 its logarithm is `-Inf` and
#' its score is `NaN`. Figures of more than two variables show the marginals of p itself.
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
#' @seealso [flash_kde()], [kde_estimators].
#' @rawRd \concept{bias correction}\concept{SD-KDE}
#' @export
#' @examples
#' plot(flash_kde(faithful$waiting, "sdkde", debias = debiasing(steps = 2)))
#' lines(flash_kde(faithful$waiting, "kde"), lty = 2)
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
