# Derivatives on a domain, from those of the inner fit's logarithm by the chain rule: each working coordinate z is a
# function of one of the user's, y, and log p(y) = log p_z(z(y)) + sum_k log z_k'(y_k).

#' @export
derivative_at.supported <- function(object, at, order, log, loo, control) {
  if (is.null(at)) at <- object$x
  score <- score_estimate(object, if (loo) NULL else at, loo, control)
  derivative <- if (order == 1) score else log_hessian_inside(object, at, loo, score, control)
  if (log) derivative else from_log_derivative(object, derivative, order, score, at, loo, control)
}

# The derivatives of the density from those of its logarithm.
from_log_derivative <- function(object, derivative, order, score, at, loo, control) {
  if (order == 2) derivative <- derivative + outer_rows(score)
  found <- log_estimate(object, if (loo) NULL else at, loo, control)
  derivative <- derivative * signed_density(found)
  # a density that is 0 falls to it with all its derivatives: on the bound of a transformed column faster than any power
  derivative[found$log_abs == -Inf, ] <- 0
  derivative
}

# Second derivatives of the logarithm in working coordinates.
working_hessian <- function(object, work, control) UseMethod("working_hessian", object$kind)
#' @export
working_hessian.supported <- function(object, work, control) derivative_at(object$inner, work, 2, TRUE, FALSE, control)
#' @export
working_hessian.bent <- function(object, work, control) {
  matrix(bent_curvature(object$support, fit_sources(object$inner), work[, 1], control))
}

# At the points, each without its own kernel and the copies of it.
left_out_hessian <- function(object, control) UseMethod("left_out_hessian", object$kind)
#' @export
left_out_hessian.mapped <- function(object, control) derivative_at(object$inner, NULL, 2, TRUE, TRUE, control)
#' @export
left_out_hessian.imaged <- function(object, control) left_out_derivatives(object$inner, control)$hessian
#' @export
left_out_hessian.bent <- function(object, control) {
  y <- own_working(object)[, 1]
  matrix(bent_curvature(object$support, fit_sources(object$inner), y, control, seq_len(object$n)))
}

# With z'' = c z'^2, where c = d log z' / dz: z_j' z_k' H_jk, and on the diagonal c z'^2 (s + c) + z'^2 c' more, of
# which z'(s + c) is the user's score.
log_hessian_inside <- function(object, at, loo, score, control) {
  domain <- object$support
  d <- object$d
  hessian <- matrix(NaN, nrow(at), d^2)
  inside <- inside_domain(domain, at)
  if (!any(inside)) return(hessian)
  work <- to_working(domain, at[inside, , drop = FALSE])
  found <- if (loo) left_out_hessian(object, control) else working_hessian(object, work, control)
  slope <- matrix(1, nrow(work), d)
  diagonal <- (seq_len(d) - 1) * d + seq_len(d)
  for (k in which(is_transformed(domain))) slope[, k] <- exp(column_jacobian(work[, k], domain, k))
  found <- found * outer_rows(slope)
  for (k in which(is_transformed(domain))) {
    bend <- column_bend(work[, k], domain, k)
    more <- slope[, k] * bend$c * score[inside, k] + slope[, k]^2 * bend$slope
    found[, diagonal[k]] <- found[, diagonal[k]] + more
  }
  hessian[inside, ] <- found
  hessian
}
