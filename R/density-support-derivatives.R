# Derivatives on a domain, from those of the inner fit's logarithm by the chain rule: each working coordinate z is a
# function of one of the user's, y, and log p(y) = log p_z(z(y)) + sum_k log z_k'(y_k).

#' @export
derivative_at.supported <- function(object, at, order, log, loo, control) {
  if (is.null(at)) at <- object$x
  score <- score_estimate(object, if (loo) NULL else at, loo, control)
  derivative <- if (order == 1) score else log_hessian_inside(object, at, loo, score, control)
  if (log) return(derivative)
  if (order == 2) derivative <- derivative + outer_rows(score)
  found <- log_estimate(object, if (loo) NULL else at, loo, control)
  derivative <- derivative * signed_density(found)
  # a density that is 0 falls to it with all its derivatives: on the bound of a transformed column faster than any power
  derivative[found$log_abs == -Inf, ] <- 0
  derivative
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
  found <- derivative_at(object$inner, if (loo) NULL else work, 2, TRUE, loo, control)
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
