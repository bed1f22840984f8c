# Smooths of kernels for package mgcv: s(x1, x2, bs = "fk").

#' Kernel smooths for package mgcv
#'
#' In formulas of `mgcv::gam()`, `s(x1, x2, bs = "fk", k = 50)` is a sum of kernels at up to `k` centres, whose penalty
#' mgcv chooses.
#'
#' @param object,data,knots As mgcv passes them. The argument `xt` of `s()` may be a list with `kernel` (default
#'   `"gaussian"`) and `bandwidth`, one number or one for each variable (default `sqrt(d)` standard deviations).
#' @returns What mgcv expects.
#' @name smooth.construct.fk.smooth.spec
#' @rawRd \concept{gam}\concept{additive model}
#' @examples
#' \dontrun{
#' mgcv::gam(mpg ~ s(wt, hp, bs = "fk", k = 15) + am, data = mtcars)
#' }
NULL

# The penalty is the squared norm in the space of the kernel: columns are kernels at the centres times a root of the
# inverse of their matrix.
kernel_smooth <- function(object, data, knots) {
  x <- smooth_points(object, data)
  d <- ncol(x)
  most <- if (object$bs.dim > 0) object$bs.dim else c(10, 30, 100)[min(d, 3)]
  known <- c("kernel", "bandwidth")
  if (!all(names(object$xt) %in% known)) stop_argument("xt", "must be a list with some of ", quote_choices(known))
  spread <- fill_spread(apply(x, 2, spread_of))
  h <- if (is.null(object$xt$bandwidth)) sqrt(d) * spread else object$xt$bandwidth
  distinct <- unique(x)
  rows <- ridge_rows(distinct[spread_rows(nrow(distinct), 2000), , drop = FALSE])
  object$own <- list(
    kernel = check_kernel(if (is.null(object$xt$kernel)) "gaussian" else object$xt$kernel), L = rows_factor(rows, h)
  )
  run <- start_run(settle_control(NULL))
  of_centers <- point_kernels(object$own$kernel, object$own$L, run)
  drawn <- with_fixed_seed(random_pivots(rows$points, min(most, rows$n), of_centers))
  object$own$centers <- rows$points[drawn, , drop = FALSE]
  K <- eigen(kernels_between(NULL, object$own$centers, object$own$L, object$own$kernel, run), symmetric = TRUE)
  kept <- K$values > 1e-10 * K$values[1]
  object$own$root <- K$vectors[, kept, drop = FALSE] / rep(sqrt(K$values[kept]), each = length(kept))
  object$X <- kernel_smooth_at(object, data)
  object$S <- list(diag(sum(kept)))
  object[c("rank", "df")] <- sum(kept)
  object$null.space.dim <- 0
  structure(object, class = "fk.smooth")
}

kernel_smooth_at <- function(object, data) {
  own <- object$own
  x <- smooth_points(object, data)
  kernels_between(x, own$centers, own$L, own$kernel, start_run(settle_control(NULL))) %*% own$root
}

smooth_points <- function(object, data) {
  check_points(matrix(unlist(lapply(data[object$term], as.double)), ncol = length(object$term)), "data")
}

# Registers the smooth, when mgcv is loaded.
register_mgcv <- function() {
  place <- asNamespace("mgcv")
  registerS3method("smooth.construct", "fk.smooth.spec", kernel_smooth, place)
  registerS3method("Predict.matrix", "fk.smooth", kernel_smooth_at, place)
}
