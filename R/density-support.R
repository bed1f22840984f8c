# Where an estimate may be positive: the argument `support` of flash_kde(), and the domain that is made of it.
#
# A domain is a list of
# - kind: of each column "free", "reflect", "transform", "local", "mass", "boundary" or "circular"; "auto"
#   where it is to be chosen
# - lower, upper: of each column; those of a circular one are a period apart
# - polygon: NULL, or a list of rings (density-support-polygon.R), of two columns of the kind "mass"
# - names: of the columns, as messages call them

#' Densities on bounded, circular and polygonal domains
#'
#' The argument `support` of [flash_kde()] says where the data can lie: above a bound, between two bounds, on a circle or in a
#' polygon. The estimate is 0 elsewhere and integrates to 1 on the support.
#' `kde_support()` selects a method, and `kde_circle()` describes a column of angles or times of day.
#'
#' @details
#' `support` is `c(lower, upper)` (either may be infinite), `kde_circle()` or `kde_support()`, for all columns; or a list of
#' these with one entry per column, by name or by position. Columns without an entry are unbounded. For two columns it
#' may be a polygon: a matrix of vertices, a list of such rings (rings inside others are holes), or an `sf`, `sfc` or
#' `sfg` object of package sf.
#'
#' `support = "auto"` bounds a column of 50 values or more at 0, 1 or 100 if its extreme values fit a power of the distance
#' better than an exponential tail (likelihood ratio above exp(3)), and elsewhere if the density jumps there (exp(6)). Bounds
#' a usual period apart with equally many points make it circular. Fits without `support` print a hint.
#'
#' @section Methods:
#' \describe{
#'   \item{`"transform"`}{Estimates the density of \eqn{\log(x - a)}{log(x - a)}, of \eqn{-\log(b - x)}{-log(b - x)} or, between
#'     two bounds, of the normal quantile of \eqn{(x - a) / (b - a)}, and transforms it back, as `ks::kde(positive = TRUE)`.
#'     All estimators, adaptive bandwidths, leave-one-out values and standard errors are available. A given bandwidth is in
#'     these coordinates. Use it for densities that vanish or grow without limit at the bound. No point may lie on a bound.}
#'   \item{`"local"`}{One column: local log-quadratic likelihood in the coordinates of `"transform"` (Loader 1996; Geenens
#'     and Wang 2018), as in package kde1d. The bias is of order \eqn{h^4}.}
#'   \item{`"reflect"`}{Reflects points at the bounds. The slope at a bound is 0; where the slope of the density is not 0, there
#'     is a bias of order h. For `"sdkde"` the reflected points move with their points. The bandwidth is diagonal.}
#'   \item{`"boundary"`}{One column: the local linear boundary kernel, whose bias is of order \eqn{h^2} up to the bound (Jones
#'     1993), made non-negative as in Jones and Foster (1996).}
#'   \item{`"mass"`}{Divides each kernel by its probability inside (Diggle 1985). This is the only method for polygons. Not for `"laplace"`.}
#'   \item{`"auto"`}{Compares the leave-one-out likelihoods of the classical estimates on up to 2,000 rows: for one column and
#'     `"kde"` among `"local"`, `"boundary"` and `"reflect"`, otherwise between `"transform"` and `"reflect"`. `"transform"`
#'     (`"mass"` if a point lies on a bound) is used if the reflected points would not fit in memory.}
#' }
#' Circular columns have copies of the points one period away (the wrapped normal kernel). Their values are taken modulo the period.
#'
#' @section Bandwidths:
#' An automatic bandwidth, and `"lcv"`, maximises the leave-one-out likelihood of the estimate on its support: one scale of the columns'
#' spread or, by the `structure` of [kde_bandwidth()], one per column or a multiple of the covariance matrix. It is chosen
#' for the classical estimate; bandwidths of `"sdkde"` and `"laplace"` are larger by the ratio of Silverman's rules. With `"local"`
#' it is the mean of the logarithms of the bandwidths that were tried, weighted by their likelihoods. Other selectors ignore the
#' support. The search does not exceed bandwidths at which the estimate is nearly uniform. A given bandwidth above ten times the
#' range of a reflected or circular column is refused. Adaptive factors are Abramson's; `"knn"` needs `"transform"`.
#'
#' @section What works on a support:
#' All functions of densities, except [kde_marginal()] and [kde_conditional()] for polygons, and scores other than `"log"`.
#'
#' Leave-one-out values of a `"sdkde"` need a fit without each point, except with `"transform"`. Leave-one-out values of `"boundary"` and
#' `"local"` are divided by the integral of the estimate from all points.
#'
#' @section Cost:
#' Sums run over points and reflected points: up to ten times as many for each column bounded on both sides if the bandwidth is
#' half the range, and up to \eqn{2^d}{2^d} times near a corner of d bounded columns.
#'
#' @param range `c(lower, upper)`, or a polygon: see Details.
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
#' @rawRd \concept{boundary correction}\concept{bounded data}\concept{positive data}\concept{circular data}
#'   \concept{polygon}\concept{time of day}
#' @export
#' @examples
#' waits <- rexp(100)
#' fit <- flash_kde(waits, support = c(0, Inf))
#' plot(fit)
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

# Describes the support of one column for print().
describe_range <- function(method, range, polygon = NULL) {
  by <- c(
    auto = "", free = "", transform = ", by transformation", local = ", by local likelihood", reflect = ", by reflection",
    boundary = ", by a boundary kernel", mass = ", each kernel divided by its probability inside"
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
    stop_argument("support", "must be the polygon itself: found it in a list, for ", quote_names(name))
  }
  entry
}

check_bounds <- function(range, arg, name = NULL) {
  if (is_date(range)) range <- as.numeric(range)
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
        arg, "must lie inside its bounds for method = \"", domain$kind[k], "\": column ", quote_names(domain$names[k]),
        " has a point on a bound (use method = \"reflect\")"
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
