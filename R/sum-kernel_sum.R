#' Sums of Gaussian kernels, and scores
#'
#' The two computations that all estimators of the package are made of, for those who build on
#' them. [kernel_matvec()] has other kernels and takes points larger than memory.
#'
#' @details
#' With \eqn{q_{ji} = (y_j - x_i)' H^{-1} (y_j - x_i)}{q_ji = (y_j - x_i)' H^-1 (y_j - x_i)},
#' - `kernel_sum()` is \eqn{V_{jr} = \sum_i w_i \exp(-q_{ji} / 2) b_{ir}}{V_jr = sum_i w_i
#'   exp(-q_ji / 2) b_ir}: the product of the `m` x `n` kernel matrix with `b`, never stored. The
#'   kernel is 1 at distance 0, not normalised; the sums underflow to 0 far from all points.
#' - `kernel_score()` is the gradient of \eqn{\log \sum_i w_i \exp(-q_{ji} / 2)}{log sum_i w_i
#'   exp(-q_ji / 2)} at \eqn{y_j}, the score of a KDE, right also where the sum underflows.
#'
#' Cost: \eqn{O(nm(d + r))} for `r` columns of `b`, in one pass; half where `y` is `NULL`
#' (symmetric).
#'
#' @param x The `n` source points: a numeric matrix, a data frame of numeric columns, a `float32`
#'   matrix of the package float, or a vector for one dimension.
#' @param y,at The `m` target points, with the columns of `x`; `NULL`: `x` itself.
#' @param b Coefficients: a vector of length `n` or an `n` x `r` matrix. `NULL`: ones.
#' @param bandwidth One kernel standard deviation, `d` of them, or a `d` x `d` **variance**
#'   matrix; matched by name where it and the columns of `x` have names.
#' @param weights Non-negative weights of the source points, or `NULL`.
#' @inheritParams flash_kde
#' @param control A [flash_control()]; its `engine` and tolerance have no effect here. An argument that is given beside
#'   it counts before the same part of it.
#' @returns `kernel_sum()`: a vector of length `m` where `b` is a vector or `NULL`, else an `m` x
#'   `r` matrix with the column names of `b`. `kernel_score()`: an `m` x `d` matrix with the
#'   columns of `x`, in inverse units of them.
#' @inheritSection flash_kde Errors
#' @export
#' @examples
#' x <- as.matrix(iris[, 1:4])
#' b <- cbind(ones = 1, petal = iris$Petal.Length)
#' sums <- kernel_sum(x, b = b, bandwidth = 0.5)
#' # kernel regression of petal length on all four columns
#' head(sums[, "petal"] / sums[, "ones"])
#'
#' kernel_score(x, at = x[1:3, ], bandwidth = 0.5)
kernel_sum <- function(x, y = NULL, b = NULL, bandwidth, weights = NULL,
                       backend = c("auto", "cpu", "cuda"),
                       precision = c("auto", "double", "single", "fast"), threads = NULL,
                       devices = NULL, control = NULL) {
  if (missing(x)) stop_argument("x", "must be given")
  if (missing(bandwidth)) stop_argument("bandwidth", "must be given")
  if (is.function(x)) check_points(x, "x") # is refused: kernel_matvec() takes functions
  given <- list(backend = backend, precision = precision, threads = threads, devices = devices)
  run <- start_run(exactly(settle_control(control, given)))
  given <- check_sums(x, y, b, bandwidth, weights)
  sum_kernels(given$sources, given$at, given$b, run)$sums
}

# The same control, with every pair summed.
exactly <- function(asked) replace(asked, c("engine", "tol"), list("exact", 0))

#' @rdname kernel_sum
#' @export
kernel_score <- function(x, at = NULL, bandwidth, weights = NULL,
                         backend = c("auto", "cpu", "cuda"),
                         precision = c("auto", "double", "single", "fast"), threads = NULL,
                         devices = NULL, control = NULL) {
  if (missing(x)) stop_argument("x", "must be given")
  if (missing(bandwidth)) stop_argument("bandwidth", "must be given")
  given <- list(backend = backend, precision = precision, threads = threads, devices = devices)
  run <- start_run(exactly(settle_control(control, given)), "Computing scores")
  points <- check_points(x, "x", single = TRUE)
  targets <- if (!is.null(at)) check_points(at, "at", ncol(points), colnames(points), single = TRUE)
  weights <- common_scale(check_weights(weights, nrow(points)))
  L <- as_bandwidth(bandwidth, ncol(points), names = colnames(points))$L
  check_memory(8 * (2 * length(points) + 3 * length(targets)), "x")
  sources <- sum_sources(points, weights, L)
  score_sum(sources, targets, ESTIMATORS[[PLAIN_ESTIMATOR]], FALSE, colnames(points), run)$score
}
