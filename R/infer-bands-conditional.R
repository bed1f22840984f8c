# Bands of conditional densities. With the contributions J_j of the points to p(x, y), and S_j to p(x), that to p(y | x) is
# (J_j - p(y | x) S_j) / p(x) to first order. Both estimates are corrected for bias.

#' @rdname kde_bands
#' @order 2
#' @export
kde_bands.flash_conditional <- function(object, newdata = NULL, level = 0.95, type = c("pointwise", "simultaneous"),
                                        correct = TRUE, replicates = 1000, na.action = stats::na.pass, ...) {
  check_dots_empty(...)
  check_can(object$joint, "bands")
  asked <- band_asked(object$joint, level, type, "asymptotic", correct, replicates, FALSE)
  run <- start_run(fit_asked(object$joint), "Estimating")
  at <- conditional_points(object, newdata, FALSE, na.action)
  found <- conditional_bands(object, at$points, asked, run)
  columns <- lapply(found[BAND_COLUMNS], at$restore)
  points <- if (is.data.frame(newdata) && nrow(newdata) == length(columns$se)) newdata else {
    points_frame(object$joint, at$points)
  }
  bands_frame(points, columns, c(asked, found["critical"]), names(points), FALSE)
}

#' @rdname kde_bands
#' @order 3
#' @export
confint.flash_conditional <- function(object, parm = NULL, level = 0.95, ...) {
  band_limits(object, parm, level, ...)
}

# bands_at() of a conditional density.
conditional_bands <- function(object, at, asked, run) {
  critical <- stats::qnorm((1 + asked$level) / 2)
  object$joint <- if (asked$corrected) corrected_fits(object$joint, run)$fits[[1]] else signed_part(object$joint)
  joint <- object$joint
  side <- given_side(object)
  response <- marginal_of(joint, setdiff(all_names(joint), object$given), run)
  columns <- given_columns(object)
  w <- relative_to_largest(kernel_weights(joint))
  height <- exp(log_kernel_norm(fit_factor(joint)) - log_kernel_norm(fit_factor(side)))
  psi_of <- \(fit, at) {
    at[, seq_len(fit$d)] <- from_centre(fit, at[, seq_len(fit$d), drop = FALSE])
    contributions(fit, at, run)
  }
  of_x <- list(weights = w, rows = \(at) psi_of(side, at[, columns, drop = FALSE]))
  of <- list(weights = w, rows = \(at) {
    above <- height * psi_of(joint, at)
    below <- of_x$rows(at)
    total <- drop(below %*% w)
    (above - drop(above %*% w) / total * below) * sum(w) / total
  })
  # 1 / the effective number of points at x
  share <- influence_squares(of_x, at, w^2, run) / influence_sums(of_x, at, matrix(w), run)[, 1]^2
  about <- influence_of(list(fits = list(response), shares = 1), run)
  errors <- list(
    se = sqrt(influence_squares(of, at, w^2, run)) / sum(w), share = share,
    unit = about$roughness * exp(log_kernel_norm(about$L)) * share
  )
  if (asked$type == "simultaneous") {
    draws <- multiplied(of, at, asked$replicates, run, numeric(nrow(at)))
    critical <- max(critical, largest_quantile(draws, errors, asked$level))
  }
  estimate <- signed_density(log_conditional(object, at, run))
  interval <- wilson_interval(estimate, errors$se, errors$unit, critical, about$skewness, errors$share)
  # at values of x without points
  none <- !is.finite(errors$se + share)
  interval[-1] <- Map(\(part, value) replace(part, none, value), interval[-1], c(0, Inf, Inf))
  c(interval, list(critical = critical))
}
