# Whitened points: coordinates in which H = L L' is the identity. Far from the centre, differences of such coordinates
# would lose digits in doubles. There the coordinates are double-doubles (src/core/doubled.h), whose low parts are
# the attribute `low`.

# The square root of fk_costs.limits.difference_f64 in src/core/costs.c.
FAR_OUT <- 128

# L^-1 (x - centre), a column for each row of x.
whitened_columns <- function(x, L, centre = NULL) {
  with_low(forwardsolve(L, t(shift_points(x, centre, -1))), x, L, centre)
}

# Adds low parts to the whitened columns `u` if any coordinate is far out. Low parts of infinite coordinates are 0.
with_low <- function(u, x, L, centre) {
  finite <- is.finite(u)
  if (!any(abs(u[finite]) > FAR_OUT)) return(u)
  if (is.null(centre)) centre <- numeric(ncol(x))
  doubled <- doubled_columns(x, L, centre)
  doubled[!finite] <- u[!finite]
  doubled
}

doubled_columns <- function(x, L, centre) .Call(ffi_whiten_doubled, unname(x), as.double(centre), L)

low_parts <- function(u) attr(u, "low", exact = TRUE)
without_low <- function(u) `attr<-`(u, "low", NULL)

# Applies f() to the high and the low parts. picked_rows(): NULL means all rows.
of_parts <- function(u, f) {
  made <- f(without_low(u))
  if (is.null(low_parts(u))) made else structure(made, low = f(low_parts(u)))
}
transposed <- function(u) of_parts(u, t)
picked_rows <- function(u, rows) if (is.null(rows)) u else of_parts(u, \(part) part[rows, , drop = FALSE])

# Matrix of differences: coordinate k of each row of u less coordinate l of each row of v.
apart_in <- function(u, v, k, l = k) {
  apart <- outer(u[, k], v[, l], "-")
  if (is.null(low_parts(u)) && is.null(low_parts(v))) return(apart)
  low <- \(u, k) if (is.null(low_parts(u))) numeric(nrow(u)) else low_parts(u)[, k]
  apart + outer(low(u, k), low(v, l), "-")
}

# Rows of u (NULL: all) less a centre near them, in doubles.
rows_about <- function(u, rows, centre) {
  u <- picked_rows(u, rows)
  about <- without_low(u) - rep(centre, each = nrow(u))
  if (is.null(low_parts(u))) about else about + low_parts(u)
}

# Whitened coordinates in plain doubles, and back.
whiten <- function(x, lower) t(forwardsolve(lower, t(x)))
unwhiten <- function(u, lower) tcrossprod(u, lower)

# points + sign * centre. Returns the points without a copy if `centre` is NULL.
shift_points <- function(points, centre, sign) {
  if (is.null(centre)) return(points)
  centre <- c(centre, numeric(NCOL(points) - length(centre))) # categorical columns are not shifted
  points + if (length(centre) == 1) sign * centre else rep(sign * centre, each = nrow(points))
}

# Divides weights by the largest if that is below 1e-100 or above 1e100, unless the smallest would underflow. Densities
# depend only on ratios of weights.
common_scale <- function(weights) {
  if (is.null(weights)) return(NULL)
  top <- max(weights)
  if (top >= 1e-100 && top <= 1e100) return(weights)
  scaled <- weights / top
  if (any(scaled < .Machine$double.xmin & weights > 0)) weights else scaled
}

# For sums of squares, where small weights may underflow.
relative_to_largest <- function(weights) weights / max(weights)
