# Conditional densities at given values of some variables. Each kernel has a weight, its density at the given values,
# and the conditional Gaussian of the other variables, whose centre depends on the given values if H is correlated.

#' Conditional density at given values
#'
#' `kde_conditional()` returns the density of the other variables where some variables have given values, \eqn{p(y | x) = p(y,
#' x) / p(x)}, as a fit for all methods of [flash_kde()]. If you need it at many values of x, with a bandwidth chosen for that
#' purpose, use [flash_conditional] (`flash_kde(y ~ x)`).
#'
#' @details
#' The result is exact. Let \eqn{H_{yy}}{Hyy}, \eqn{H_{yx}}{Hyx} and \eqn{H_{xx}}{Hxx} be the blocks of the bandwidth matrix. The
#' conditional density of a mixture of Gaussian kernels is a mixture with weights \eqn{w_i K_{H_{xx}}(x - x_i)}{w_i
#' K_Hxx(x - x_i)}, centres \eqn{y_i + H_{yx} H_{xx}^{-1} (x - x_i)}{y_i + Hyx Hxx^-1 (x - x_i)} and variance
#' \eqn{H_{yy} - H_{yx} H_{xx}^{-1} H_{xy}}{Hyy - Hyx Hxx^-1 Hxy}. For `"sdkde"` the points are the debiased points. With adaptive
#' bandwidths kernel i has the variance \eqn{f_i^2 H}{f_i^2 H} in all variables.
#'
#' Weights are computed from their logarithms, so `given` may be far from the data. Points whose weight is below 1e-308 of the
#' largest weight are left out. The time is \eqn{O(nd)}.
#'
#' @section Kinds of densities:
#' * Categories may be given beside numbers or alone. If all numbers are given, the density of the result is the probability of
#'   the categories.
#' * With a `support` the remaining variables keep their support ([kde_support()]). Polygons are refused.
#' * With another kernel than the Gaussian, \eqn{H_{yx}}{Hyx} must be 0, and points out of reach of x have no weight.
#' * Laplace-corrected estimates are refused: \eqn{p(x)} may be negative.
#'
#' @param object A fit from [flash_kde()] with its points in memory, `"kde"` or `"sdkde"`, or one by a two-sided
#'   formula.
#' @param given The values: a named vector or list, or a data frame of one row; the names are those of columns of
#'   the fit, and categories are character strings. A fit by a two-sided formula needs all variables of its right side.
#' @param ... Not used; anything here is an error.
#' @returns An object of class `flash_kde` of the variables that were not given, in their order. Its `x` are the
#'   centres above, with `weights`. The points of an SD-KDE were debiased in `debiased_in` dimensions, so leave-one-out
#'   values are not available (see [kde_marginal()]).
#' @references Rosenblatt, M. (1969) Conditional probability density and regression estimators. In *Multivariate
#'   Analysis II*, 25-31.
#' @seealso [kde_marginal()], [flash_conditional].
#' @examples
#' fit <- flash_kde(faithful, "kde")
#' after <- kde_conditional(fit, c(eruptions = 2))
#' quantile(after, c(0.1, 0.5, 0.9))
#' plot(after)
#'
#' # a density given a category, and the probabilities of the categories given numbers
#' flowers <- flash_kde(iris[3:5])
#' quantile(kde_marginal(kde_conditional(flowers, c(Species = "virginica")), "Petal.Width"))
#' species <- kde_conditional(flowers, list(Petal.Length = 4.9, Petal.Width = 1.7))
#' predict(species, data.frame(Species = levels(iris$Species)))
#' @rawRd \concept{conditional density at a value}
#' @export
kde_conditional <- function(object, given, ...) UseMethod("kde_conditional")

#' @export
kde_conditional.default <- function(object, given, ...) check_fit(object)

#' @rdname kde_conditional
#' @export
kde_conditional.flash_kde <- function(object, given, ...) {
  variables <- all_names(object)
  check_dots_empty(..., .others = stats::setNames(rep("given", length(variables)), variables))
  check_in_memory(object)
  check_can(object, "conditional")
  if (missing(given)) stop_argument("given", "must be given")
  at <- check_given(given, object)
  run <- start_run(fit_asked(object))
  check_memory(8 * (4 + 3 * object$d) * object$n, "object")
  made <- conditional_where(object, at, run)
  as_new_fit(made, match.call(), "kde_conditional", run)
}

# Checks `given`: list(dims, values, codes), the numeric variables, their values as a matrix of one row, and for a fit
# with categories the codes of the given ones.
check_given <- function(given, object) {
  if (is.data.frame(given) && nrow(given) != 1) stop_argument("given", "must be one row of values: found ", nrow(given))
  given_values(object, given)
}

given_values <- function(object, given) UseMethod("given_values", object$kind)

#' @export
given_values.default <- function(object, given) {
  values <- unlist(as.list(given))
  if (!is_number(values) || !has_names(names(values)) || length(values) != length(given)) {
    stop_argument("given", "must be numbers named by columns, as c(a = 1): found ", describe(given))
  }
  check_finite(values, "given")
  dims <- check_vars(names(values), object, "given")
  if (length(dims) == object$d) stop_argument("given", "must leave at least one variable: found all ", object$d)
  list(dims = dims, values = matrix(as.double(values), 1))
}

# The fit of the other variables where `dims` have `values`, a matrix of one row; `arg`: what the user calls these.
#' @export
conditional_where.default <- function(object, at, run) conditional_of(object, at$dims, at$values)

conditional_of <- function(object, dims, values, arg = "given") {
  kernels <- conditional_kernels(object, dims, values)
  weigh_points(kernels$fit, kernels$log_w, arg)
}

# list(fit, log_w): the conditional fit with all points, and the logarithms of their weights up to a constant.
conditional_kernels <- function(object, dims, values) {
  side <- marginal_of(object, dims)
  list(fit = move_with(object, side, dims, values), log_w = given_log_weights(side, values)[, 1])
}

# n x m matrix: the logarithm of kernel i where the variables of `side` have the values in row j of `values`, up to a
# constant.
given_log_weights <- function(side, values) {
  if (!has_gaussian(side)) return(cube_log_weights(side, values))
  points <- fit_points(side)
  L <- fit_factor(side)
  # differences of what is near keep their digits, also far from the origin
  origin <- points[used_rows(side), , drop = FALSE][1, ]
  u <- transposed(whitened_columns(points, L, origin))
  v <- transposed(whitened_columns(from_centre(side, values), L, origin))
  half_q <- Reduce(`+`, lapply(seq_len(side$d), \(k) apart_in(u, v, k)^2)) / 2
  factors <- side$adaptive$factors
  own <- if (is.null(side$weights)) 0 else log(side$weights)
  if (is.null(factors)) own - half_q else own - side$d * log(factors) - half_q / factors^2
}

# list(slope, L): the regression coefficients of the other variables on `dims`, a row for each, and the Cholesky factor
# of their conditional variance.
split_bandwidth <- function(H, dims) {
  if (length(dims) == 0) return(list(slope = matrix(0, nrow(H), 0), L = lower_factor(H, "bandwidth")))
  rest <- setdiff(seq_len(nrow(H)), dims)
  # H = L L' with the given variables first
  L <- lower_factor(H[c(dims, rest), c(dims, rest)], "bandwidth")
  given <- seq_along(dims)
  slope <- t(backsolve(t(L[given, given, drop = FALSE]), t(L[-given, given, drop = FALSE])))
  list(slope = slope, L = L[-given, -given, drop = FALSE])
}

# The fit of the variables other than `dims`, with its points moved to their conditional centres at `values`.
move_with <- function(object, side, dims, values) {
  split <- split_bandwidth(object$bandwidth, dims)
  moved <- marginal_of(object, setdiff(seq_len(object$d), dims))
  H <- tcrossprod(split$L)
  dimnames(H) <- dimnames(moved$bandwidth)
  moved$bandwidth <- H
  moved$factor <- list(H = H, L = split$L)
  moved["score_bandwidth"] <- list(NULL) # the score was that of all variables
  if (all(split$slope == 0)) return(moved)
  along <- \(points, values) tcrossprod(rep(values, each = nrow(points)) - points, split$slope)
  moved$x <- moved$x + along(side$x, values)
  if (!is_debiased(object)) return(moved)
  by <- along(fit_points(side), from_centre(side, values))
  if (!is.null(moved$centred)) moved$centred$points <- moved$centred$points + by
  moved$debiased <- moved$debiased + by
  moved
}

# The logarithm of the Gaussian kernel of each point of a fit, with factors and levels, at y, a matrix of one row.
log_kernels <- function(fit, y) {
  log_k <- numeric(fit$n)
  if (fit$d > 0) {
    fit$weights <- as.double(used_rows(fit)) # a point without weight is no origin
    log_k <- given_log_weights(fit, y[, seq_len(fit$d), drop = FALSE])[, 1] + log_kernel_norm(fit_factor(fit))
  }
  codes <- y[, fit$d + seq_along(fit$discrete$columns)]
  log_k + log(shares_of_given(fit$discrete, stats::setNames(codes, names(fit$discrete$columns))))
}

# The largest of the logarithms of weights; an error if all are -Inf.
top_weight <- function(object, log_w, arg) {
  top <- max(log_w)
  if (top > -Inf) return(top)
  gaussian <- has_gaussian(object)
  stop_argument(arg, "is ", if (gaussian) "too far from the points: the squared distance overflows" else {
    "further from all points than the kernel's cutoff radius"
  })
}

# The fit with these weights, without points whose weight is below `least` times the largest.
weigh_points <- function(object, log_w, arg, least = .Machine$double.xmin) {
  top <- top_weight(object, log_w, arg)
  kept <- which(log_w - top >= log(least))
  if (length(kept) < object$n) object <- take_points(object, kept)
  object$weights <- exp(log_w[kept] - top)
  object
}

take_points <- function(object, rows) {
  object$x <- object$x[rows, , drop = FALSE]
  object$debiased <- object$debiased[rows, , drop = FALSE]
  if (!is.null(object$centred)) object$centred$points <- object$centred$points[rows, , drop = FALSE]
  if (!is.null(object$adaptive)) object$adaptive$factors <- object$adaptive$factors[rows]
  object$discrete <- discrete_rows(object$discrete, rows)
  object["na.action"] <- list(NULL)
  object$n <- nrow(object$x)
  object
}
