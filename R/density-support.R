# Where an estimate may be positive: the argument `support` of flash_kde(), and the domain that is made of it.
#
# A domain is a list of
# - kind: of each column "free", "reflect", "transform", "local", "mass", "boundary" or "circular"; "auto"
#   where it is to be chosen
# - lower, upper: of each column; those of a circular one are a period apart
# - polygon: NULL, or a list of rings (density-support-polygon.R), of two columns of the kind "mass"
# - names: of the columns, as messages call them

#' Densities on bounded and on circular domains
#'
#' The argument `support` of [flash_kde()] says where the data can lie: above a bound, between two, within a
#' polygon, or on a circle. The estimate is 0 elsewhere and integrates to 1 there. `kde_support()` names a method
#' beside the bounds, and `kde_circle()` makes a column of angles or times of day.
#'
#' @details
#' `support` is, for one column or for all of them, `c(lower, upper)` (either may be infinite), `kde_circle()` or
#' `kde_support()`; else a list of these with an entry for each column, by name (columns without one are unbounded)
#' or by position (`NULL` or `NA`: unbounded). For two columns it may be a polygon: a matrix of vertices with two
#' columns, a list of such rings (a point is inside where they surround it an odd number of times: holes are rings,
#' too, and rings may cross), or the polygons of an object of package sf, as `sf`, `sfc` or `sfg`.
#'
#' @section Methods:
#' \describe{
#'   \item{`"transform"`}{The estimate of \eqn{\log(x - a)}{log(x - a)}, of \eqn{-\log(b - x)}{-log(b - x)} or,
#'     between two bounds, of the normal quantile of \eqn{(x - a) / (b - a)}, times the derivative, as
#'     `ks::kde(positive = TRUE)` and package kde1d have it. All estimators, adaptive factors, bandwidths,
#'     leave-one-out values and standard errors are those of [flash_kde()] in these coordinates, in which
#'     `bandwidth` is given, too. For densities that vanish at the bound, or grow without limit there; no point may
#'     lie on a bound.}
#'   \item{`"local"`}{One column: in the coordinates of `"transform"`, the parabola of the log density whose local
#'     likelihood is largest at each place (Loader 1996; Geenens and Wang 2018), as package kde1d has it, divided by
#'     its integral. Its bias is of order \eqn{h^4}. For densities that vanish at the bound, or grow without limit
#'     there. It is for `"kde"` with one bandwidth, about twice that of `"transform"`, and has no standard errors.
#'     Where few points are in reach, one more at the place itself keeps the estimate finite.}
#'   \item{`"reflect"`}{Points within 12 kernel sds of a bound have images behind it, so that all mass stays inside
#'     (between two bounds also images of images), as in package evmix. The slope at a bound is 0, and where that
#'     of the density is not there is a bias of order h. For `"sdkde"` the score is that of points and images, and
#'     images move as their points do. H is diagonal.}
#'   \item{`"boundary"`}{One column: the local linear boundary kernel \eqn{f_L}, whose bias is of order \eqn{h^2}
#'     up to the bound (Jones 1993), made non-negative as Jones and Foster (1996) do,
#'     \eqn{\bar f \exp(f_L / \bar f - 1)}{f exp(f_L / f - 1)} with \eqn{\bar f}{f} the estimate over the kernels'
#'     mass inside, and divided by its integral; compare `ks::kde.boundary()` and `np::npuniden.boundary()`. It is
#'     for `"kde"` with one bandwidth; it has no standard errors.}
#'   \item{`"mass"`}{Each kernel is divided by its own mass inside, as Diggle's (1985) edge correction and
#'     `spatstat.explore::density.ppp(diggle = TRUE)` do: for polygons, the only method there, and for intervals.
#'     Any H in two columns, else a diagonal one; not for `"laplace"`.}
#'   \item{`"auto"`}{By the leave-one-out likelihood of the plain estimates, of up to 2,000 of the rows, less what
#'     each gains by a point itself: for one column and `"kde"`, `"local"` where its is larger by more than a
#'     quarter of the standard error of the difference, else the larger of `"boundary"` and `"reflect"`; for several
#'     columns, other estimators and named `adaptive`, `"transform"` and `"reflect"` in the same way. Where so many
#'     columns are bounded that their reflected points would not fit in memory, it is `"transform"`, or `"mass"` if a
#'     point lies on a bound.}
#' }
#' Circular columns have images a period away, as `circular::density.circular()` has for the wrapped normal; H may
#' be a full matrix. Data in them are taken modulo the period.
#'
#' Sums are over points and images: hardly more than over the points alone where h is small beside the range, up to
#' ten times as many for each column bounded on both sides where h is half of it. Numbers of columns multiply: of d
#' columns with a lower bound a point near all of them has \eqn{2^d}{2^d} images, itself included. What would need more
#' memory than there is ends in an error before anything is computed. Masses in a polygon of v vertices take
#' \eqn{O(n v)}{O(n v)}: four seconds of one core for 100,000 points and 500 vertices.
#'
#' @section Bandwidths: Where there is no `bandwidth`, and for `"auto"` and `"lcv"`, the leave-one-out likelihood
#'   of the estimate on its support chooses, as [kde_bandwidth()] does on the line: one factor of the columns' spread or,
#'   by `structure`, one for each column (`"diagonal"`), or of the covariance matrix (`"sphered"`; for polygons).
#'   It goes by the plain estimate; bandwidths of `"sdkde"` and `"laplace"` are larger by the ratio of [Silverman's
#'   rules][kde_bandwidth]. Other selectors take the points as if nothing bounded them. With `"transform"` alone all
#'   are those of the transformed points, unless these were rounded. With `"local"` it is the mean, in logarithms,
#'   of all bandwidths that were tried, each with its likelihood as weight, less half of what the estimate gains by
#'   a point itself: the largest likelihood alone is often that of one far too small. The search ends at an h of the
#'   range of a reflected column, or of half the period of a circular one, where the estimate is all but uniform, and
#'   before that where the images of wider kernels would not fit in memory. A `bandwidth` of your own above ten times
#'   the range of a reflected or circular column is refused: the estimate is flat by then. Adaptive factors are
#'   Abramson's, of a pilot on the support; `"knn"` is for `"transform"`.
#'
#' @section What else knows the support: [predict()][predict.flash_kde] (0 outside, logarithm `-Inf`, score `NaN`;
#'   circular columns take any number), [simulate()][simulate.flash_kde], [kde_cdf()] (of rectangles, too, but for
#'   polygons) and [`quantile()`][quantile.flash_kde] (from the lower bound, or from `start`), [kde_marginal()] and
#'   [kde_conditional()] (but of polygons), [kde_derivative()], [hdr_level()] (by draws),
#'   [logLik()][logLik.flash_kde], [diagnostics()], and figures. Leave-one-out values of a `"sdkde"` take a fit for
#'   each point, but with `"transform"`; those of `"boundary"` and `"local"` are divided by the integral of the
#'   estimate from all points, as this integral is not a sum over points. Standard errors of a `"laplace"` are for
#'   `"transform"` alone. `object$bandwidth` is in the coordinates of the method, and `object$inner` the fit there.
#'   Modes, clusters and bands are not known on a support.
#'
#' @param range `c(lower, upper)`, or a polygon as above.
#' @param method `"auto"`, `"transform"`, `"local"`, `"reflect"`, `"boundary"` or `"mass"`.
#' @param period The length of a turn: 360 for degrees, 24 for hours.
#' @param start Where [kde_cdf()] and figures begin.
#' @returns An object of class `kde_support`, for `support`.
#' @references Jones, M. C. (1993) Simple boundary correction for kernel density estimation. *Statistics and
#'   Computing* 3, 135-146.
#'
#' Jones, M. C. and Foster, P. J. (1996) A simple nonnegative boundary correction method for kernel density
#' estimation. *Statistica Sinica* 6, 1005-1013.
#'
#' Loader, C. R. (1996) Local likelihood density estimation. *Annals of Statistics* 24, 1602-1618.
#'
#' Geenens, G. and Wang, C. (2018) Local-likelihood transformation kernel density estimation for positive random
#' variables. *Journal of Computational and Graphical Statistics* 27, 822-835.
#'
#' Diggle, P. J. (1985) A kernel method for smoothing point process data. *Applied Statistics* 34, 138-147.
#' @seealso [flash_kde()]
#' @export
#' @examples
#' waits <- rexp(100)
#' fit <- flash_kde(waits, support = c(0, Inf))
#' fit
#' predict(fit, c(-1, 0, 1))
#' flash_kde(waits, support = kde_support(c(0, Inf), "boundary"))
#'
#' # hours of the day beside a positive column
#' visits <- data.frame(hour = (22 + 3 * rnorm(100)) %% 24, minutes = rgamma(100, 2))
#' fit <- flash_kde(visits, support = list(hour = kde_circle(24), minutes = c(0, Inf)))
#' plot(fit)
#'
#' # a triangle
#' corners <- rbind(c(0, 0), c(1, 0), c(0, 1))
#' points <- matrix(runif(100), ncol = 2)
#' fit <- flash_kde(points[rowSums(points) < 1, ], "kde", 0.2, support = corners)
#' predict(fit, rbind(c(0.1, 0.1), c(0.9, 0.9)))
kde_support <- function(range = c(-Inf, Inf), method = c("auto", "transform", "local", "reflect", "boundary", "mass")) {
  method <- check_choice(method, SUPPORT_METHODS, "method")
  if (is_polygon(range)) {
    fits <- method %in% c("auto", "mass")
    if (!fits) stop_argument("method", "must be \"mass\" for a polygon: found \"", method, "\"")
    return(new_support("mass", polygon = as_rings(range)))
  }
  new_support(method, check_bounds(range, "range"))
}

SUPPORT_METHODS <- c("auto", "transform", "local", "reflect", "boundary", "mass")

#' @rdname kde_support
#' @export
kde_circle <- function(period = 2 * pi, start = 0) {
  check_positive_number(period, "period")
  if (!is_number(start) || length(start) != 1 || !is.finite(start)) {
    stop_argument("start", "must be one finite number: found ", describe(start))
  }
  new_support("circular", start + c(0, period))
}

new_support <- function(method, range = c(-Inf, Inf), polygon = NULL) {
  structure(list(method = method, range = as.double(range), polygon = polygon), class = "kde_support")
}

check_positive_number <- function(value, arg) {
  if (!is_number(value) || length(value) != 1 || !isTRUE(value > 0 && is.finite(value))) {
    stop_argument(arg, "must be one positive number: found ", describe(value))
  }
}

#' @export
print.kde_support <- function(x, ...) {
  cat("Support: ", describe_range(x$method, x$range, x$polygon), "\n", sep = "")
  invisible(x)
}

# Of one column, as print() has it.
describe_range <- function(method, range, polygon = NULL) {
  by <- c(
    auto = "", free = "", transform = ", by transformation", local = ", by local likelihood", reflect = ", by reflection",
    boundary = ", by a boundary kernel", mass = ", each kernel by its mass inside"
  )
  if (!is.null(polygon)) {
    corners <- sum(vapply(polygon, nrow, 0L)) - length(polygon)
    return(paste0("a polygon of ", corners, " vertices", by["mass"]))
  }
  if (method == "circular") return(paste0("circular, period ", format(diff(range)), " from ", format(range[1])))
  ends <- format(range, trim = TRUE)
  open <- if (is.finite(range[1])) "[" else "("
  paste0(open, ends[1], ", ", ends[2], if (is.finite(range[2])) "]" else ")", by[method])
}

# ---- checks -----------------------------------------------------------------------------------

# The domain of points with d columns of these names, or NULL where nothing is bounded.
check_support <- function(support, d, names) {
  if (is.null(support)) return(NULL)
  columns <- column_supports(support, d, names)
  polygon <- columns[[1]]$polygon
  kind <- vapply(columns, `[[`, "", "method")
  range <- vapply(columns, `[[`, c(0, 0), "range")
  kind[is.infinite(range[1, ]) & is.infinite(range[2, ]) & is.null(polygon)] <- "free"
  if (all(kind == "free")) return(NULL)
  alone <- kind %in% c("boundary", "local")
  if (any(alone) && d > 1) {
    stop_argument("support", "must have method = \"", kind[alone][1], "\" for one column only: found ", d)
  }
  list(kind = kind, lower = range[1, ], upper = range[2, ], polygon = polygon, names = names)
}

# A kde_support for each column; a polygon stands in both.
column_supports <- function(support, d, names) {
  if (is_polygon(support)) support <- new_support("mass", polygon = as_rings(support))
  if (inherits(support, "kde_support")) {
    wrong <- !is.null(support$polygon) && d != 2
    if (wrong) stop_argument("support", "must be a polygon for two columns only: found ", d)
    return(rep(list(support), d))
  }
  if (!is.list(support)) return(rep(list(new_support("auto", check_bounds(support, "support"))), d))
  free <- rep(list(new_support("free")), d)
  at <- if (is.null(names(support))) seq_along(support) else match(names(support), names)
  if (is.null(names(support)) && length(support) != d) {
    stop_argument("support", "must have an entry for each of ", d, " columns, or names: found ", length(support))
  }
  if (anyNA(at) || anyDuplicated(at)) {
    wrong <- names(support)[is.na(at) | duplicated(at)]
    stop_argument(
      "support", "must be named by columns, ", quote_names(names), ", each once: found ", quote_names(wrong)
    )
  }
  free[at] <- lapply(seq_along(support), \(i) entry_support(support[[i]], names[at[i]]))
  free
}

entry_support <- function(entry, name) {
  if (is.null(entry) || is.atomic(entry) && length(entry) == 1 && is.na(entry)) return(new_support("free"))
  if (!inherits(entry, "kde_support")) return(new_support("auto", check_bounds(entry, "support", name)))
  if (!is.null(entry$polygon)) {
    stop_argument("support", "must be a polygon alone: found it in a list, for ", quote_names(name))
  }
  entry
}

check_bounds <- function(range, arg, name = NULL) {
  good <- is_number(range) && length(range) == 2 && is.null(dim(range)) && !anyNA(range) && range[1] < range[2]
  if (!good) {
    stop_argument(
      arg, "must be c(lower, upper), lower < upper, kde_circle(), kde_support() or a polygon",
      if (!is.null(name)) paste0(" for column ", quote_names(name)), ": found ",
      if (is_number(range) && length(range) == 2) paste0("c(", range[1], ", ", range[2], ")") else describe(range)
    )
  }
  as.double(range)
}

# Data outside would be an estimate of something else.
check_inside <- function(domain, points, arg) {
  for (k in which(domain$kind != "circular")) {
    outside <- which(points[, k] < domain$lower[k] | points[, k] > domain$upper[k])
    if (length(outside) > 0) {
      stop_argument(
        arg, "must lie in its support, [", format(domain$lower[k]), ", ", format(domain$upper[k]), "] for column ",
        quote_names(domain$names[k]), ": found ", format(points[outside[1], k]), " in row ", outside[1]
      )
    }
    on_edge <- is_transformed(domain)[k] && any(on_bounds(points[, k], domain, k))
    if (on_edge) {
      stop_argument(
        arg, "must lie inside of its bounds for method = \"", domain$kind[k], "\": column ", quote_names(domain$names[k]),
        " has a point on one (reflect it)"
      )
    }
  }
  outside <- if (!is.null(domain$polygon)) which(!in_rings(points, domain$polygon))
  if (length(outside) > 0) {
    stop_argument(
      arg, "must lie in its support, a polygon of columns ", quote_names(domain$names), ": found (",
      paste(format(points[outside[1], ]), collapse = ", "), ") in row ", outside[1]
    )
  }
}

on_bounds <- function(column, domain, k) column == domain$lower[k] | column == domain$upper[k]
