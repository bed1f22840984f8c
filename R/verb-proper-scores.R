# Proper scores of densities at points that the fit has not seen: no estimate has a larger expected score than the
# density that the points come from. Larger is better.
#
# Arguments: `log_density` and `negative` of the estimate at the points, and `log_square`, the log of the integral of
# its square.
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

# Leave-one-out scores at the training points.
scores_left_out <- function(object, score, control) {
  rule <- PROPER_SCORES[[score]]
  estimate <- log_estimate(object, NULL, TRUE, control)
  square <- if (rule$of_square) log_square_integral(object, TRUE, control)$log_loo
  rule$at(estimate$log_abs, estimate$negative, square)
}

# Scores at points that the fit has not seen.
scores_at <- function(object, points, score, control) {
  rule <- PROPER_SCORES[[score]]
  estimate <- log_estimate(object, points, FALSE, control)
  square <- if (rule$of_square) log_square_integral(object, FALSE, control)$log
  rule$at(estimate$log_abs, estimate$negative, square)
}

# Whether leave-one-out scores are available without refits. Scores with the integral of the square are not for an
# SD-KDE, whose other debiased points would change.
has_left_out <- function(object, score) {
  by_sums <- can_leave_out(object) && !needs_refits(object)
  by_sums && (!is_debiased(object) || isTRUE(object$given_score) || !PROPER_SCORES[[score]]$of_square)
}
