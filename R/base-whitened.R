# Points in coordinates in which H = L L' is the identity, where their differences are to keep the digits that those of
# the points have. A double that holds a whole coordinate of a point far out has lost them: there coordinates are
# double-doubles (src/core/doubled.h), whose low parts are an attribute `low` of the high ones.

# As fk_costs.limits.difference_f64 in src/core/costs.c has it, whose square root it is.
FAR_OUT <- 128

# L^-1 (x - centre), a column for each row of x.
whitened_columns <- function(x, L, centre = NULL) {
  with_low(forwardsolve(L, t(shift_points(x, centre, -1))), x, L, centre)
}

# What `u`, these columns in doubles, are with low parts, if any is far out. Those of infinite numbers are 0.
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

# What f() makes of both parts; t(), and some rows (NULL: all).
of_parts <- function(u, f) {
  made <- f(without_low(u))
  if (is.null(low_parts(u))) made else structure(made, low = f(low_parts(u)))
}
transposed <- function(u) of_parts(u, t)
picked_rows <- function(u, rows) if (is.null(rows)) u else of_parts(u, \(part) part[rows, , drop = FALSE])

# Coordinate k of each row of u less coordinate l of each row of v.
apart_in <- function(u, v, k, l = k) {
  apart <- outer(u[, k], v[, l], "-")
  if (is.null(low_parts(u)) && is.null(low_parts(v))) return(apart)
  low <- \(u, k) if (is.null(low_parts(u))) numeric(nrow(u)) else low_parts(u)[, k]
  apart + outer(low(u, k), low(v, l), "-")
}

# Rows of u (NULL: all) about a centre near them, in doubles.
rows_about <- function(u, rows, centre) {
  u <- picked_rows(u, rows)
  about <- without_low(u) - rep(centre, each = nrow(u))
  if (is.null(low_parts(u))) about else about + low_parts(u)
}

# Coordinates in which the bandwidth matrix is the identity, and back.
whiten <- function(x, lower) t(forwardsolve(lower, t(x)))
unwhiten <- function(u, lower) tcrossprod(u, lower)

# The points themselves, uncopied, where `centre` is NULL.
shift_points <- function(points, centre, sign) {
  if (is.null(centre)) return(points)
  centre <- c(centre, numeric(NCOL(points) - length(centre))) # beside numbers there may be levels
  points + if (length(centre) == 1) sign * centre else rep(sign * centre, each = nrow(points))
}

# Only ratios of weights matter to a density: very small or large ones are made relative to the largest, unless the
# lightest would be lost by it.
common_scale <- function(weights) {
  if (is.null(weights)) return(NULL)
  top <- max(weights)
  if (top >= 1e-100 && top <= 1e100) return(weights)
  scaled <- weights / top
  if (any(scaled < .Machine$double.xmin & weights > 0)) weights else scaled
}

# For sums of squares, in which the lightest do not count: they may become 0.
relative_to_largest <- function(weights) weights / max(weights)
