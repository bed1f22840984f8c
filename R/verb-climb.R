# Paths up the density: from any point to the mode above it, and onto ridges. Points are in coordinates u in which H is
# the identity, m x d. There the mean shift of a plain estimate is the gradient of its logarithm.

# Upper limit of the length of a step, in bandwidths, unless a mean shift is longer. Gradients change direction over
# lengths of a bandwidth.
LONGEST_STEP <- 0.5

MOST_CLIMBING <- 1000

# ---- the estimate, and its slopes -------------------------------------------------------------

# Up to this many targets in few dimensions use sums about the points, which skip distant sources; more targets use the
# engines, which may use a grid. Paths need a relative error of only STEP_TOL; Newton's method at the end is exact.
FEW_CLIMBING <- 500
STEP_TOL <- 1e-6

# The settings of all climbs: the `fit`; `object`, whose sums are climbed, of working points if the fit has a `support`;
# `local` of local_sources(); the run `steps`; whether the engines can compute slopes, and whether few targets are faster
# without them; `flat`, the slope times the bandwidth at which climbs end (larger with a tolerance, which may be relative
# to the largest sum, and in single precision).
shape_field <- function(object, control, label) {
  control <- start_run(settle_control(control, NULL, fit_asked(object)), label)
  if (control$precision == "fast") control$precision <- "single"
  resolved <- resolve_control(control, object$n, object$n, object$d)
  on_cpu <- resolved$backend == "cpu"
  exact <- on_cpu && control$tol == 0 && control$engine == "auto"
  of_steps <- list(tol = STEP_TOL, tol_type = "pointwise", precision = "double")
  steps <- if (exact) replace(control, names(of_steps), of_steps) else control
  of <- if (is.null(object$support)) object else object$inner
  list(
    fit = object, object = of, local = local_sources(of), control = control, steps = steps,
    engines = is.null(of$adaptive) && !is_signed(of) || !has_gaussian(of),
    few = on_cpu && object$d <= 3 && has_gaussian(of),
    flat = if (on_cpu && (exact || resolved$engine == "exact")) 1e-6 else 1e-4
  )
}

to_field <- function(field, points) {
  if (!is.null(field$fit$support)) points <- to_working(field$fit$support, points)
  t(without_low(local_columns(field$local, points)))
}

# Working points of u, and points in the user's coordinates.
working_points <- function(field, u) to_user(field$local, unname(unwhiten(u, field$local$L)))
from_field <- function(field, u) {
  points <- working_points(field, u)
  domain <- field$fit$support
  if (is.null(domain)) points else from_working(domain, folded(domain, points))
}

# list(score, width2, log_scale): the gradients at u, and the squared bandwidth there (the harmonic mean of those of the
# kernels). Argument `log_scale`: the log scale at an earlier point from which u lies uphill, or NULL. The value is NA
# if engines computed the slopes. Where a Laplace-corrected estimate is negative, the values are those of the plain one.
slopes_at <- function(field, u, log_scale = NULL) {
  found <- if (is_kind(field$fit, "bent")) {
    score <- working_score(field$fit, working_points(field, u), field$control)
    list(score = score %*% field$local$L, width2 = rep(1, nrow(u)), log_scale = rep(NA_real_, nrow(u)))
  } else if (field$engines && (nrow(u) > FEW_CLIMBING || !field$few)) {
    at <- from_centre(field$object, working_points(field, u))
    sources <- fit_sources(field$object)
    score <- score_sum(sources, at, fit_polynomial(field$object), FALSE, NULL, field$steps)$score
    list(score = score %*% field$local$L, width2 = rep(1, nrow(u)), log_scale = rep(NA_real_, nrow(u)))
  } else {
    scaled <- scaled_sums(field, u, log_scale)
    sums <- scaled$sums
    list(score = sums$gradient / sums$mass, width2 = mean_width2(field, sums), log_scale = scaled$log_scale)
  }
  in_domain(field, u, found)
}

# list(sums, log_scale): local_sums() at u, and logarithms of the sums, by which sums further uphill can be scaled.
scaled_sums <- function(field, u, log_scale) {
  if (is.null(log_scale) || anyNA(log_scale)) log_scale <- plain_logs(field, u)
  sums <- local_sums(field$local, t(u), log_scale, field$control)
  signed <- is_signed(field$object)
  # the sum is far from the scale after a long step, or negative
  off <- which(!(sums$mass > (if (signed) 0 else 1e-3) & sums$mass < 1e100))
  if (length(off) > 0) {
    there <- u[off, , drop = FALSE]
    log_scale[off] <- plain_logs(field, there)
    again <- local_sums(field$local, t(there), log_scale[off], field$control, factor = PLAIN_FACTOR)
    for (name in names(sums)) {
      if (is.matrix(sums[[name]])) sums[[name]][off, ] <- again[[name]] else sums[[name]][off] <- again[[name]]
    }
  }
  # the log scale of a corrected sum is not the logarithm of its plain sum
  list(sums = sums, log_scale = if (!signed) log_scale + log(sums$mass))
}

# The harmonic mean of the squared bandwidths of the kernels, at the targets of local_sums().
mean_width2 <- function(field, sums) {
  if (is.null(field$local$factors)) rep(1, length(sums$mass)) else sums$mass / sums$precision
}

plain_logs <- function(field, u) {
  at <- from_centre(field$object, working_points(field, u))
  log_sum(fit_sources(field$object), at, PLAIN_FACTOR, FALSE, field$control)$log_abs
}

# list(score, hessian, width2, mass, log_scale): gradient and Hessian of the logarithm, the Hessians m x d^2.
# `log_scale`: as for slopes_at(). A corrected sum (`mass`) may be negative.
curvature_at <- function(field, u, log_scale = NULL) {
  if (is_kind(field$fit, "bent") || !has_gaussian(field$object)) {
    bend <- if (is_kind(field$fit, "bent")) working_hessian(field$fit, working_points(field, u), field$control) else {
      derivative_at(field$object, working_points(field, u), 2, TRUE, FALSE, field$control)
    }
    here <- list(
      score = slopes_at(field, u)$score, hessian = matrix(unwhiten_hessians(bend, field$local$L), nrow(u)),
      width2 = rep(1, nrow(u)), mass = rep(1, nrow(u))
    )
    return(in_domain(field, u, here, scored = TRUE))
  }
  found <- if (is_signed(field$object)) {
    list(sums = local_sums(field$local, t(u), plain_logs(field, u), field$control))
  } else {
    scaled_sums(field, u, log_scale)
  }
  sums <- found$sums
  score <- sums$gradient / sums$mass
  hessian <- sums$hessian / sums$mass - outer_rows(score)
  width2 <- mean_width2(field, sums)
  here <- list(score = score, hessian = hessian, width2 = width2, mass = sums$mass, log_scale = found$log_scale)
  in_domain(field, u, here)
}

log_density_at <- function(field, u) log_estimate(field$fit, from_field(field, u), FALSE, field$control)

# ---- climbing ---------------------------------------------------------------------------------

# list(u, home): the ends of the paths from the rows of u, and the number of the element of `homes`, list(u, radius), in
# which each ends, 0 for none. Steps are along the gradient. Their length is that of Barzilai and Borwein (1988), but at
# least a mean shift, which never overshoots, and at most LONGEST_STEP or a mean shift, whichever is longer.
climb <- function(field, u, homes = NULL) {
  home <- integer(nrow(u))
  open <- seq_len(nrow(u))
  before <- NULL
  for (step in seq_len(MOST_CLIMBING)) {
    # a row that is in a home stays there, so an occasional check is enough
    if (!is.null(homes) && step %% 4 == 1) {
      home[open] <- nearest_home(field, u[open, , drop = FALSE], homes)
      going <- home[open] == 0
      open <- open[going]
      before <- lapply(before, keep_rows, going)
    }
    if (length(open) == 0) break
    here <- slopes_at(field, u[open, , drop = FALSE], before$log_scale)
    length2 <- rowSums(here$score^2)
    going <- which(sqrt(length2 * here$width2) > field$flat & is.finite(length2))
    open <- open[going]
    if (length(open) == 0) break
    here <- lapply(here, keep_rows, going)
    before <- lapply(before, keep_rows, going)
    move <- step_sizes(field, here, before) * here$score
    u[open, ] <- within_field(field, u[open, , drop = FALSE] + move)
    before <- c(here, list(move = move))
  }
  lost <- which(home == 0)
  if (!is.null(homes)) home[lost] <- nearest_home(field, u[lost, , drop = FALSE], homes)
  list(u = u, home = home)
}

keep_rows <- function(values, rows) if (is.matrix(values)) values[rows, , drop = FALSE] else values[rows]

# Step lengths: factors of the scores.
step_sizes <- function(field, here, before) {
  shift <- here$width2
  slope <- sqrt(rowSums(here$score^2))
  size <- shift
  if (!is.null(before$move)) {
    curvature <- -rowSums(before$move * (here$score - before$score)) / rowSums(before$move^2)
    size <- ifelse(curvature > 0, 1 / curvature, Inf)
  }
  longest <- LONGEST_STEP * sqrt(here$width2) / slope
  # the peak of a corrected, boundary or local kernel is steeper than its mean shift, as is the rim of one with bounded support
  steeper <- is_signed(field$object) || !has_gaussian(field$object) || is_kind(field$fit, "bent")
  if (steeper) return(pmin(pmax(size, shift / 8), longest))
  pmax(shift, pmin(size, longest))
}

# The number of the nearest home in whose radius a row is, or 0.
nearest_home <- function(field, u, homes) {
  found <- integer(nrow(u))
  k <- nrow(homes$u)
  if (k == 0 || nrow(u) == 0) return(found)
  piece <- ceiling(1e6 / k)
  for (first in seq(1, nrow(u), by = piece)) {
    rows <- first:min(first + piece - 1, nrow(u))
    square <- vapply(seq_len(k), \(i) field_squares(field, u[rows, , drop = FALSE], homes$u[i, ]), numeric(length(rows)))
    square <- matrix(square, length(rows))
    nearest <- max.col(-square, ties.method = "first")
    inside <- square[cbind(seq_along(rows), nearest)] <= homes$radius[nearest]^2
    found[rows[inside]] <- nearest[inside]
  }
  found
}

# Newton steps to the stationary point next to each row of u, for rows where the Hessian of the logarithm is negative
# definite.
polish <- function(field, u) {
  open <- seq_len(nrow(u))
  for (step in 1:20) {
    if (length(open) == 0) break
    here <- curvature_at(field, u[open, , drop = FALSE])
    move <- newton_steps(here)
    u[open, ] <- within_field(field, u[open, , drop = FALSE] + move)
    open <- open[rowSums(move^2) > 1e-20 * here$width2]
  }
  u
}

# Steps are 0 where the Hessian is not negative definite.
newton_steps <- function(here) {
  d <- ncol(here$score)
  move <- here$score
  for (i in seq_len(nrow(move))) {
    root <- tryCatch(chol(matrix(-here$hessian[i, ], d)), error = \(e) NULL)
    move[i, ] <- if (is.null(root)) 0 else backsolve(root, backsolve(root, here$score[i, ], transpose = TRUE))
  }
  shortened(move, here$width2)
}

# Shortens steps to LONGEST_STEP bandwidths.
shortened <- function(move, width2) move * pmin(1, LONGEST_STEP * sqrt(width2) / pmax(sqrt(rowSums(move^2)), 1e-300))

# ---- starts -----------------------------------------------------------------------------------

# list(rows, weights): for each occupied cell, `width` bandwidths wide (in adaptive fits, bandwidths of its points), the
# point next to its middle, and the total weight of its points. The result does not depend on the order of the points.
thinned_starts <- function(field, points, weights, width) {
  u <- to_field(field, points)
  factors <- if (is.null(field$object$adaptive)) rep(1, nrow(u)) else field$object$adaptive$factors[seq_len(nrow(u))]
  side <- width * factors
  cell <- floor(u / side)
  away <- rowSums((u / side - cell - 0.5)^2)
  key <- row_keys(cbind(cell, factors))
  order <- do.call(order, c(list(key, away), lapply(seq_len(ncol(points)), \(k) points[, k])))
  first <- !duplicated(key[order])
  if (is.null(weights)) weights <- rep(1, nrow(u))
  total <- rowsum(weights[order], cumsum(first), reorder = FALSE)[, 1]
  list(rows = order[first], weights = unname(total))
}

# ---- on a support -------------------------------------------------------------------------------

# Points move in working coordinates z, up the density of the user's coordinates, p_z(z) |dz / dy|. Copies make reflected
# and circular bounds ordinary places. Sums of kernels rise towards the convex hull of the points, so that paths do not leave a
# convex domain. At the bound of a boundary kernel, which has one column, a point stays where the density rises outwards.

# slopes_at() or curvature_at() with the derivatives of log |dz / dy|. `scored`: whether the score has them.
in_domain <- function(field, u, here, scored = FALSE) {
  domain <- field$fit$support
  if (is.null(domain)) return(here)
  L <- field$local$L
  work <- working_points(field, u)
  for (k in which(is_transformed(domain))) {
    bend <- column_bend(work[, k], domain, k)
    if (!scored) here$score <- here$score + rep_len(bend$c, nrow(u)) %o% L[k, ]
    if (!is.null(here$hessian)) here$hessian <- here$hessian + rep_len(bend$slope, nrow(u)) %o% as.vector(L[k, ] %o% L[k, ])
  }
  if (!any(domain$kind == "boundary")) return(here)
  held <- which(work <= domain$lower & here$score < 0 | work >= domain$upper & here$score > 0)
  here$score[held] <- 0
  if (!is.null(here$hessian)) here$hessian[held] <- -1
  here
}

# Moves copies to their points, and what is beyond a bound onto it.
within_field <- function(field, u) {
  domain <- field$fit$support
  bounded <- any(domain$kind == "boundary")
  if (!has_images(domain) && !bounded) return(u)
  work <- folded(domain, working_points(field, u))
  turned <- which(domain$kind == "circular")
  work[, turned] <- to_working(domain, work)[, turned]
  if (bounded) work <- within_domain(domain, work)
  t(without_low(local_columns(field$local, work)))
}

# Squared distances of the rows of u from a point v, around circles the shorter way.
field_squares <- function(field, u, v) {
  away <- u - rep(v, each = nrow(u))
  domain <- field$fit$support
  circular <- which(domain$kind == "circular")
  if (length(circular) == 0) return(rowSums(away^2))
  L <- field$local$L
  away <- unwhiten(away, L)
  period <- domain$upper - domain$lower
  for (k in circular) away[, k] <- away[, k] - period[k] * round(away[, k] / period[k])
  rowSums(whiten(away, L)^2)
}

# Whether points are in the support: paths may leave a polygon that is not convex.
in_field <- function(field, u) {
  domain <- field$fit$support
  if (is.null(domain)) rep(TRUE, nrow(u)) else inside_domain(domain, from_field(field, u))
}
