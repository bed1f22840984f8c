# Fits as the objects of other programs, and back.

#' Density estimates as data frames and as objects of other packages
#'
#' `as.data.frame()` has the training points, factors and texts as they were, with the density and the log density of
#' the estimate at each; or, with `grid`, the nodes of a grid with them. `as_density()` makes of a fit to one variable
#' what [stats::density()] returns, and `as_ks()`, of one to three variables, what `ks::kde()` does, so that the plots
#' and functions for those serve it; the values are ours, exact. `as_flash_kde()` makes fits of such objects, with the
#' same points, weights and bandwidth: the estimate that they hold on a grid, at any point and without binning.
#'
#' @details
#' Other objects have one bandwidth. Of an adaptive fit it is that of factor 1, and of an SD-KDE or a
#' Laplace-corrected one that of its kernels: what their functions compute anew from points and bandwidth is the
#' plain estimate, but what they read off the grid is ours, as `plot()`, `print()`, [stats::approxfun()] and
#' `predict()` of ks do. `as_ks()` has its contour levels by [hdr_level()].
#'
#' An object of class `density` does not hold its data, which have to be given. Its kernel is the one written in
#' its call, the Gaussian one where none is; cosines are refused, and of ks what is not made by `kde()`. The values
#' at up to 100 nodes of the grid are compared with those of the fit: where they differ by more than 5% of the
#' largest, for the data were transformed (`positive`, `unit.interval` of ks), for their weights were not given, or
#' for binning on a coarse grid, there is a warning.
#' @param object A fit from [flash_kde()]; for `as_flash_kde()` an object of class `density`, or of class `kde` of
#'   package ks.
#' @param row.names `NULL`, or names of the `n` rows, all different.
#' @param optional Has no effect.
#' @param grid `NULL`, or the number of nodes of an even grid along each axis, from three bandwidths below the data
#'   to three above them; in up to three dimensions (for more, that of a [kde_marginal()]). The first variable varies
#'   fastest, as in [expand.grid()]: `ggplot2::geom_raster()` and [graphics::contour()] of the matrix take it so.
#' @param n Nodes of the grid per axis, an even one from three bandwidths below the data to three above; for
#'   `as_ks()` `NULL`: 401, 151 and 51 for one, two and three variables, as there.
#' @param x For `as.data.frame()` a fit; else the data of an object of class `density`, without those left out.
#' @param weights Their weights; `NULL`: equal ones.
#' @param ... For `as_flash_kde()` further arguments of [flash_kde()], as `backend` or `estimator`, which is
#'   `"kde"` by default. Else not used; anything here is an error.
#' @returns `as_density()`: a list of class `density`, with `x`, `y`, `bw`, `n`, `old.coords`, `call`, `data.name` and
#'   `has.na`.
#'   `as.data.frame()`: a data frame of `n` rows, or of `grid^d`: the columns of the points (`x1`, `x2`, ... where they
#'   have no names; `x` in one dimension), `density` and `log_density` (`NaN` where the
#'   Laplace-corrected estimate is negative, with a warning). Where a column of the points has one
#'   of these two names, the estimate's is `density.1` or `log_density.1`. Cost: \eqn{O(n^2 d)}.
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
#' as_flash_kde(theirs, estimator = "sdkde") # as of ks::kde(faithful)
#' @export
as_density <- function(object, n = 512, ...) {
  check_fit(object)
  check_dots_empty(...)
  if (object$d > 1) stop_argument("object", "must be a fit to one variable: found ", object$d, " of them")
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
      names = point_names(object), w = ks_weights(object), type = "kde",
      # those of ks are named by the share of points below the level
      cont = stats::setNames(hdr_level(object, probs / 100), paste0(100 - probs, "%"))
    )
  ))
}

# Those of ks sum to n.
ks_weights <- function(object) {
  if (is.null(object$weights)) rep(1, object$n) else object$n * object$weights / sum(object$weights)
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
  # a sum of steps is off by a step between nodes
  if (kernel == "uniform") fit else warn_if_other(fit, matrix(object$x), object$y)
}

#' @rdname as_density
#' @export
as_flash_kde.kde <- function(object, ...) {
  if (is.null(object$x) || is.null(object$H)) {
    stop_argument("object", "must be as ks::kde() makes it, with its points and bandwidth: found not both of them")
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

# Our name of the kernel that was written in the call, "gaussian" where none was.
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
  need <- "a fit is made of an estimate with one of our kernels and one bandwidth, but "
  stop(new_error("unsupported", paste0(need, why), user_call()))
}

# Up to 100 of the rows of `at`, evenly spread, and the highest, are looked at.
warn_if_other <- function(fit, at, values) {
  few <- unique(c(round(seq(1, nrow(at), length.out = min(nrow(at), 100))), which.max(values)))
  plain <- fit$estimator == "kde"
  off <- if (plain) max(abs(stats::predict(fit, at[few, , drop = FALSE]) - values[few])) / max(values) else 0
  if (off > 0.05) {
    warning(
      "the values in `object` are not those of its points and bandwidth, but off by up to ",
      short_number(100 * off),
      "% of the largest: were the data transformed or weighted, or binned on a coarse grid?",
      call. = FALSE
    )
  }
  fit
}

as_plain_fit <- function(points, bandwidth, weights, call, ..., estimator = "kde") {
  fit <- flash_kde(
    points, estimator = estimator, bandwidth = bandwidth, weights = weights, adaptive = FALSE, ...
  )
  call[[1]] <- quote(as_flash_kde)
  fit$call <- call
  fit
}
