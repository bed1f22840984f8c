# Scores by which estimates are judged at points that they have not seen. Each is proper: no estimate is expected to
# have more than the density that the points come from. The larger, the better.
#
# `log_density` and `negative` of the estimate at the points, `log_square`, the log of the integral of its square.
PROPER_SCORES <- list(
  log = list(
    title = "log score", of_square = FALSE,
    at = \(log_density, negative, log_square) replace(log_density, which(as.logical(negative)), -Inf)
  ),
  quadratic = list(
    title = "quadratic score", of_square = TRUE,
    at = \(log_density, negative, log_square) 2 * with_sign(exp(log_density), negative) - exp(log_square)
  ),
  spherical = list(
    title = "spherical score", of_square = TRUE,
    at = \(log_density, negative, log_square) with_sign(exp(log_density - log_square / 2), negative)
  )
)

with_sign <- function(size, negative) {
  at <- which(as.logical(negative))
  replace(size, at, -size[at])
}

# At its own points, each left out.
scores_left_out <- function(object, score, control) {
  rule <- PROPER_SCORES[[score]]
  estimate <- log_estimate(object, NULL, TRUE, control)
  square <- if (rule$of_square) log_square_integral(object, TRUE, control)$log_loo
  rule$at(estimate$log_abs, estimate$negative, square)
}

# At points that it has not seen.
scores_at <- function(object, points, score, control) {
  rule <- PROPER_SCORES[[score]]
  estimate <- log_estimate(object, points, FALSE, control)
  square <- if (rule$of_square) log_square_integral(object, FALSE, control)$log
  rule$at(estimate$log_abs, estimate$negative, square)
}

# Has the fit scores of this kind with a point left out, without a fit for each? The integral of the square of an SD-KDE
# without it is that of other points.
has_left_out <- function(object, score) {
  by_sums <- can_leave_out(object) && !needs_refits(object)
  by_sums && (!is_debiased(object) || isTRUE(object$given_score) || !PROPER_SCORES[[score]]$of_square)
}
