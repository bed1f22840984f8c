# Conversions of fits to and from the objects of other packages.

#' Density estimates as data frames and as objects of other packages
#'
#' `as.data.frame()` returns the training points with the density and the log density at each, or, with `grid`, the
#' same at the nodes of a grid. `as_density()` makes an object of class `density` (see [stats::density()]) of a fit to
#' one variable, and `as_ks()` one like that of `ks::kde()` of a fit to one to three variables, so that plots and
#' functions for those objects work. `as_flash_kde()` makes a fit of such an object, with the same points, weights and
#' bandwidth. The fit evaluates the estimate at any point and without binning.
#'
#' @details The values on the grid are those of the fit, also for adaptive and debiased fits; `plot()`, `print()`,
#' [stats::approxfun()] and `predict()` of ks use these values. The `bw` or `H` of the object is a single bandwidth:
#' of an adaptive fit the one at local bandwidth factor 1, of a debiased or Laplace-corrected fit that of its kernels.
#' Functions that recompute the density from points and bandwidth therefore return the plain estimate. The contour
#' levels of `as_ks()` are from [hdr_level()].
#'
#' An object of class `density` does not contain its data; give them as `x`. The kernel is the one in its call, or the
#' Gaussian one. Cosine kernels are refused, as are objects of ks that `kde()` has not made. The values at up to 100
#' nodes of the grid are compared with those of the fit. If they differ by more than 5% of the largest value, there is a
#' warning: the data were transformed (`positive`, `unit.interval` of ks), weights are missing, or the grid for binning
#' was coarse.
#' @param object A fit from [flash_kde()]; for `as_flash_kde()` an object of class `density`, or of class `kde` of
#'   package ks.
#' @param row.names `NULL`, or names of the `n` rows, all different.
#' @param optional Has no effect.
#' @param grid `NULL` (default), or the number of nodes along each axis of an even grid, from three bandwidths below the
#'   data to three above, in up to three dimensions. With more, take a [kde_marginal()] first. The first variable varies
#'   fastest, as in [expand.grid()], `ggplot2::geom_raster()` and [graphics::contour()].
#' @param n Number of nodes of the grid per axis, from three bandwidths below the data to three above. `NULL` for
#'   `as_ks()`: 401, 151 and 51 for one, two and three variables, as in ks.
#' @param x For `as.data.frame()` a fit. For `as_flash_kde()` the data of an object of class `density`, without rows
#'   that were left out.
#' @param weights Weights of the data; `NULL` (default): equal weights.
#' @param ... For `as_flash_kde()` arguments of [flash_kde()], such as `tol` or `estimator` (default `"kde"`).
#'   Otherwise not used; anything here is an error.
#' @returns `as.data.frame()`: a data frame of `n` rows, or of `grid^d`: the columns of the points (`x` in one
#'   dimension, or `x1`, `x2`, ..., if they have no names; factors and texts as they were), `density` and
#'   `log_density` (`NaN` with a warning where a Laplace-corrected estimate is negative). If a column of the points
#'   has one of these two names, the column of the estimate is `density.1` or `log_density.1`. Cost: \eqn{O(n^2 d)}.
#'
#'   `as_density()`: a list of class `density`, with `x`, `y`, `bw`, `n`, `old.coords`, `call`, `data.name` and
#'   `has.na`.
#'
#'   `as_ks()`: a list of class `kde`. `as_flash_kde()`: a fit of class `flash_kde`.
#' @examples
#' fit <- flash_kde(faithful$waiting)
#' head(as.data.frame(fit))
#' head(as.data.frame(flash_kde(faithful), grid = 50))
#' as_density(fit)
#' plot(as_density(fit))
#'
#' same <- as_flash_kde(density(faithful$waiting), faithful$waiting)
#' predict(same, c(50, 80))
#'
#' theirs <- as_ks(flash_kde(faithful))
#' str(theirs, give.attr = FALSE) # library(ks) has plot(theirs)
#' as_flash_kde(theirs, estimator = "sdkde") # debiased, at the same bandwidth
#' @rawRd \concept{convert to ks}\concept{data frame of a density}\concept{grid of values}
#' @export
as_density <- function(object, n = 512, ...) {
  check_fit(object)
  check_dots_empty(...)
  variables <- length(all_names(object))
  if (variables > 1 || object$d != 1) {
    stop_argument("object", "must be a fit to one numeric variable: found ", columns_in_words(object))
  }
  grid <- estimate_on_grid(object, check_count(n, "n", min = 2))
  structure(class = "density", list(
    x = grid$axes[[1]], y = signed_density(grid$estimate), bw = bandwidth_sds(object$bandwidth), n = object$n,
    old.coords = FALSE, call = short_call(object$call), data.name = variable_names(object), has.na = FALSE
  ))
}

#' @rdname as_density
#' @export
as_ks <- function(object, n = NULL, ...) {
  check_fit(object)
  check_dots_empty(...)
  check_can(object, "ks")
  d <- object$d
  if (d > 3) check_grid_frame(n, d, "n")
  size <- if (is.null(n)) c(401L, 151L, 51L)[d] else check_count(n, "n", min = 2)
  grid <- estimate_on_grid(object, size)
  estimate <- signed_density(grid$estimate)
  axes <- grid$axes
  probs <- 1:99
  plain <- \(x) if (d == 1) as.vector(x) else x
  structure(class = "kde", c(
    list(
      x = plain(unname(object$x)), eval.points = if (d == 1) axes[[1]] else axes,
      estimate = if (d == 1) estimate else array(estimate, rep(size, d))
    ),
    if (d == 1) list(h = bandwidth_sds(object$bandwidth)),
    list(
      H = plain(unname(object$bandwidth)), gridtype = rep("linear", d), gridded = TRUE, binned = FALSE,
      names = point_names(object), type = "kde",
      w = if (is.null(object$weights)) rep(1, object$n) else object$n * object$weights / sum(object$weights),
      # ks names levels by the share of points below the level
      cont = stats::setNames(hdr_level(object, probs / 100), paste0(100 - probs, "%"))
    )
  ))
}

#' @rdname as_density
#' @export
as_flash_kde <- function(object, ...) UseMethod("as_flash_kde")

#' @export
as_flash_kde.default <- function(object, ...) {
  stop_argument("object", "must be of class density, or of class kde of package ks: found ", describe(object))
}

#' @export
as_flash_kde.flash_kde <- function(object, ...) {
  check_dots_empty(...)
  object
}

#' @rdname as_density
#' @export
as_flash_kde.density <- function(object, x, weights = NULL, ...) {
  if (missing(x)) stop_argument("x", "must be given: the data, which an object of class density does not hold")
  kernel <- density_kernel(object)
  points <- check_points(x, "x", d = 1)
  if (nrow(points) != object$n) {
    stop_argument("x", "must be the data of the object, ", object$n, " values: found ", nrow(points))
  }
  fit <- as_plain_fit(points, object$bw, weights, match.call(), ..., kernel = kernel)
  # the cumulative sum of steps is off by up to the step between two nodes
  if (kernel == "uniform") fit else warn_if_other(fit, matrix(object$x), object$y)
}

#' @rdname as_density
#' @export
as_flash_kde.kde <- function(object, ...) {
  if (is.null(object$x) || is.null(object$H)) {
    stop_argument("object", "must be a result of ks::kde() with points and bandwidth: found one without")
  }
  if (!is.null(object$type) && object$type != "kde") refuse_kde(paste0("its type is \"", object$type, "\""))
  x <- as_points(object$x, "object")
  if (length(object$names) == ncol(x) && ncol(x) > 1) colnames(x) <- object$names
  w <- object$w
  fit <- as_plain_fit(x, matrix(object$H, ncol(x)), if (!is.null(w) && any(w != w[1])) w, match.call(), ...)
  at <- object$eval.points
  if (is.list(at)) at <- as.matrix(expand.grid(at))
  warn_if_other(fit, unname(as.matrix(at)), as.vector(object$estimate))
}

# This package's name of the kernel in the call of a density object; "gaussian" if the call has none.
density_kernel <- function(object) {
  written <- object$call$kernel
  if (!is.character(written)) return("gaussian")
  theirs <- eval(formals(stats::density.default)$kernel)
  name <- theirs[pmatch(written, theirs)]
  ours <- c(rectangular = "uniform", stats::setNames(nm = c("gaussian", "epanechnikov", "triangular", "biweight")))
  if (!name %in% names(ours)) refuse_kde(paste0("its kernel is \"", name, "\""))
  ours[[name]]
}

refuse_kde <- function(why) {
  need <- "only an estimate with a kernel of this package and one bandwidth can be converted, but "
  stop(new_error("unsupported", paste0(need, why), user_call()))
}

# Warns if values on the grid differ from the fit, at up to 100 evenly spread rows of `at` and at the highest value.
warn_if_other <- function(fit, at, values) {
  few <- unique(c(round(seq(1, nrow(at), length.out = min(nrow(at), 100))), which.max(values)))
  plain <- fit$estimator == "kde"
  off <- if (plain) max(abs(stats::predict(fit, at[few, , drop = FALSE]) - values[few])) / max(values) else 0
  if (off > 0.05) {
    warning(
      "the values in `object` are not those of its points and bandwidth: they differ by up to ",
      short_number(100 * off),
      "% of the largest: were the data transformed or weighted, or binned on a coarse grid?",
      call. = FALSE
    )
  }
  fit
}

as_plain_fit <- function(points, bandwidth, weights, call, ..., estimator = "kde") {
  fit <- flash_kde(points, estimator = estimator, bandwidth = bandwidth, weights = weights, adaptive = FALSE, ...)
  call[[1]] <- quote(as_flash_kde)
  fit$call <- call
  fit
}
