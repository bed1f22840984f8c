# The argument `adaptive` of fits: the name of a method, or local bandwidth factors.

# Returns "auto", the name of a method, n local bandwidth factors, or NULL for fixed bandwidths.
check_adaptive <- function(adaptive, n) {
  if (is.null(adaptive)) return("auto")
  if (isFALSE(adaptive)) return(NULL)
  if (isTRUE(adaptive)) return(ADAPTIVE_METHODS[1])
  choices <- c("auto", ADAPTIVE_METHODS, "balloon")
  if (is.character(adaptive)) return(check_choice(adaptive, choices, "adaptive"))
  good <- is_number(adaptive) && length(adaptive) == n && is.null(dim(adaptive))
  check_is(good, adaptive, "adaptive", paste0("TRUE, FALSE, ", quote_choices(choices), " or ", n, " numbers"))
  check_finite(adaptive, "adaptive")
  if (any(adaptive <= 0)) stop_argument("adaptive", "must be positive: found ", format(adaptive[adaptive <= 0][1]))
  outside <- adaptive^2 < .Machine$double.xmin | adaptive^2 > .Machine$double.xmax
  if (any(outside)) {
    stop_argument("adaptive", "must lie between 1.5e-154 and 1.3e154: found ", format(adaptive[outside][1]))
  }
  as.double(adaptive)
}

ADAPTIVE_METHODS <- c("abramson", "knn")

# Default exponent: 1/2 varies the bandwidth too much in more than two dimensions (bench/NOTES.md).
check_power <- function(alpha, d) {
  if (is.null(alpha)) return(min(1 / 2, 1 / d))
  check_number(alpha, "alpha", "a number above 0, 1 at most", \(x) x > 0 && x <= 1)
}
