# Bands of conditional densities. With the contributions J_j of the points to p(x, y), and S_j to p(x), that to p(y | x) is
# (J_j - p(y | x) S_j) / p(x) to first order. Both estimates are corrected for bias.

#' @rdname kde_bands
#' @export
kde_bands.flash_conditional <- function(object, newdata, level = 0.95, type = c("pointwise", "simultaneous"),
                                        correct = TRUE, replicates = 1000, na.action = stats::na.pass, ...) {
  check_dots_empty(...)
  check_can(object$joint, "bands")
  asked <- band_asked(object$joint, level, type, "asymptotic", correct, replicates, FALSE)
  if (missing(newdata)) newdata <- NULL
  run <- start_run(fit_asked(object$joint), "Estimating")
  at <- conditional_points(object, newdata, FALSE, na.action)
  found <- conditional_bands(object, at$points, asked, run)
  points <- if (is.data.frame(newdata) && nrow(newdata) == length(at$restore(found$se))) newdata else {
    points_frame(object$joint, at$points)
  }
  bands_frame(points, lapply(found[BAND_COLUMNS], at$restore), c(asked, found["critical"]), names(points), FALSE)
}

#' @rdname kde_bands
#' @export
confint.flash_conditional <- function(object, parm = NULL, level = 0.95, ...) {
  band_limits(kde_bands(object, parm, level, ...), level)
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
  near <- \(fit, at) `[<-`(at, , seq_len(fit$d), from_centre(fit, at[, seq_len(fit$d), drop = FALSE]))
  parts_at <- \(at) list(
    above = height * contributions(joint, near(joint, at), run),
    below = contributions(side, near(side, at[, columns, drop = FALSE]), run)
  )
  of <- list(weights = w, rows = \(at) {
    psi <- parts_at(at)
    total <- drop(psi$below %*% w)
    (psi$above - drop(psi$above %*% w) / total * psi$below) * sum(w) / total
  })
  # 1 / the effective number of points at x
  of_x <- \(at) sums_of_rows(replace(of, "rows", list(\(at) parts_at(at)$below)), at, \(psi) (psi^2 %*% w^2) / (psi %*% w)^2)
  share <- drop(of_x(at))
  about <- influence_of(list(fits = list(response), shares = 1), run)
  errors <- list(
    se = sqrt(influence_squares(of, at, w^2, run)) / sum(w), share = share,
    unit = about$roughness * exp(log_kernel_norm(about$L)) * share
  )
  if (asked$type == "simultaneous") {
    critical <- max(critical, largest_quantile(multiplied(of, at, asked$replicates, run, numeric(nrow(at))), errors, asked$level))
  }
  estimate <- signed_density(log_conditional(object, at, run))
  interval <- wilson_interval(estimate, errors$se, errors$unit, critical, about$skewness, errors$share)
  # at values of x without points
  none <- !is.finite(errors$se + share)
  interval[-1] <- Map(\(part, value) replace(part, none, value), interval[-1], c(0, Inf, Inf))
  c(interval, list(critical = critical))
}
