# Up the density: from any point to the mode above it, and onto ridges. Points climb in coordinates u in which H is
# the identity, m x d, where the mean shift of a plain estimate is the gradient of its logarithm.

# No step that is longer than a mean shift is longer than this part of the bandwidth there: gradients turn over
# lengths of a bandwidth.
LONGEST_STEP <- 0.5

MOST_CLIMBING <- 1000

# ---- the estimate, and its slopes -------------------------------------------------------------

# So few targets, in few dimensions, have their slopes from sums about the points, which leave out what is far from
# each; more of them the engines', which may take a grid. Paths need no more than STEP_TOL of each sum: where they
# end, Newton's method goes on exactly.
FEW_CLIMBING <- 500
STEP_TOL <- 1e-6

# What climbs go by: `local` of local_sources(); whether engines can have the slopes, by the run `steps`, and whether
# few targets are better off without; and the slope at which climbs end, times the bandwidth: a tolerance may be
# relative to the largest sum, or in single precision.
shape_field <- function(object, control, label) {
  control <- start_run(settle_control(control, NULL, fit_asked(object)), label)
  if (control$precision == "fast") control$precision <- "single"
  resolved <- resolve_control(control, object$n, object$n, object$d)
  on_cpu <- resolved$backend == "cpu"
  exact <- on_cpu && control$tol == 0 && control$engine == "auto"
  of_steps <- list(tol = STEP_TOL, tol_type = "pointwise", precision = "double")
  steps <- if (exact) replace(control, names(of_steps), of_steps) else control
  list(
    object = object, local = local_sources(object), control = control, steps = steps,
    engines = is.null(object$adaptive) && !is_signed(object), few = on_cpu && object$d <= 3,
    flat = if (on_cpu && (exact || resolved$engine == "exact")) 1e-6 else 1e-4
  )
}

to_field <- function(field, points) t(without_low(local_columns(field$local, points)))
from_field <- function(field, u) to_user(field$local, unname(unwhiten(u, field$local$L)))

# list(score, width2, log_scale): the gradients at u, and squares of the bandwidth there, the harmonic mean of the
# kernels'. `log_scale`: that of an earlier place from which u lies uphill, or NULL; NA where engines had none. Where a
# Laplace-corrected estimate is negative the plain one's.
slopes_at <- function(field, u, log_scale = NULL) {
  if (field$engines && (nrow(u) > FEW_CLIMBING || !field$few)) {
    at <- from_centre(field$object, from_field(field, u))
    sources <- fit_sources(field$object)
    score <- score_sum(sources, at, fit_polynomial(field$object), FALSE, NULL, field$steps)$score
    return(list(score = score %*% field$local$L, width2 = rep(1, nrow(u)), log_scale = rep(NA_real_, nrow(u))))
  }
  found <- scaled_sums(field, u, log_scale)
  sums <- found$sums
  list(score = sums$gradient / sums$mass, width2 = mean_width2(field, sums), log_scale = found$log_scale)
}

# local_sums() at u, with logarithms of the sums by which those at places uphill can be scaled.
scaled_sums <- function(field, u, log_scale) {
  if (is.null(log_scale) || anyNA(log_scale)) log_scale <- plain_logs(field, u)
  sums <- local_sums(field$local, t(u), log_scale, field$control)
  signed <- is_signed(field$object)
  # too far from the scale, after a long step, or negative
  off <- which(!(sums$mass > (if (signed) 0 else 1e-3) & sums$mass < 1e100))
  if (length(off) > 0) {
    there <- u[off, , drop = FALSE]
    log_scale[off] <- plain_logs(field, there)
    again <- local_sums(field$local, t(there), log_scale[off], field$control, factor = PLAIN_FACTOR)
    for (name in names(sums)) {
      if (is.matrix(sums[[name]])) sums[[name]][off, ] <- again[[name]] else sums[[name]][off] <- again[[name]]
    }
  }
  # that of a corrected sum is not its plain sum's
  list(sums = sums, log_scale = if (!signed) log_scale + log(sums$mass))
}

# The harmonic mean of the squares of the kernels' bandwidths at the places of local_sums().
mean_width2 <- function(field, sums) {
  if (is.null(field$local$factors)) rep(1, length(sums$mass)) else sums$mass / sums$precision
}

plain_logs <- function(field, u) {
  at <- from_centre(field$object, from_field(field, u))
  log_sum(fit_sources(field$object), at, PLAIN_FACTOR, FALSE, field$control)$log_abs
}

# list(score, hessian, width2, mass, log_scale): the first two of the logarithm, the Hessians m x d^2; `log_scale` as
# of slopes_at(). A corrected sum may be negative.
curvature_at <- function(field, u, log_scale = NULL) {
  found <- if (is_signed(field$object)) {
    list(sums = local_sums(field$local, t(u), plain_logs(field, u), field$control))
  } else {
    scaled_sums(field, u, log_scale)
  }
  sums <- found$sums
  score <- sums$gradient / sums$mass
  hessian <- sums$hessian / sums$mass - outer_rows(score)
  width2 <- mean_width2(field, sums)
  list(score = score, hessian = hessian, width2 = width2, mass = sums$mass, log_scale = found$log_scale)
}

log_density_at <- function(field, u) log_estimate(field$object, from_field(field, u), FALSE, field$control)

# ---- climbing ---------------------------------------------------------------------------------

# list(u, home): where the rows of u arrive, and at which of `homes`, list(u, radius), they stopped, 0 for none.
# Steps are along the gradient, as long as the change of the gradient over the last one says (Barzilai and Borwein
# 1988), but no shorter than a mean shift, which never overshoots, and no longer than LONGEST_STEP, if that is
# longer.
climb <- function(field, u, homes = NULL) {
  home <- integer(nrow(u))
  open <- seq_len(nrow(u))
  before <- NULL
  for (step in seq_len(MOST_CLIMBING)) {
    # who has come home stays there: to look now and then is enough
    if (!is.null(homes) && step %% 4 == 1) {
      home[open] <- nearest_home(u[open, , drop = FALSE], homes)
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
    u[open, ] <- u[open, , drop = FALSE] + move
    before <- c(here, list(move = move))
  }
  lost <- which(home == 0)
  if (!is.null(homes)) home[lost] <- nearest_home(u[lost, , drop = FALSE], homes)
  list(u = u, home = home)
}

keep_rows <- function(values, rows) if (is.matrix(values)) values[rows, , drop = FALSE] else values[rows]

# By which scores are multiplied.
step_sizes <- function(field, here, before) {
  shift <- here$width2
  slope <- sqrt(rowSums(here$score^2))
  size <- shift
  if (!is.null(before$move)) {
    curvature <- -rowSums(before$move * (here$score - before$score)) / rowSums(before$move^2)
    size <- ifelse(curvature > 0, 1 / curvature, Inf)
  }
  longest <- LONGEST_STEP * sqrt(here$width2) / slope
  # a corrected kernel's own peak is steeper than its mean shift knows
  if (is_signed(field$object)) return(pmin(pmax(size, shift / 8), longest))
  pmax(shift, pmin(size, longest))
}

# The number of the home in whose radius each row is, the nearest one, or 0.
nearest_home <- function(u, homes) {
  found <- integer(nrow(u))
  k <- nrow(homes$u)
  if (k == 0 || nrow(u) == 0) return(found)
  piece <- ceiling(1e6 / k)
  for (first in seq(1, nrow(u), by = piece)) {
    rows <- first:min(first + piece - 1, nrow(u))
    square <- matrix(0, length(rows), k)
    for (j in seq_len(ncol(u))) square <- square + outer(u[rows, j], homes$u[, j], `-`)^2
    nearest <- max.col(-square, ties.method = "first")
    inside <- square[cbind(seq_along(rows), nearest)] <= homes$radius[nearest]^2
    found[rows[inside]] <- nearest[inside]
  }
  found
}

# Newton's steps to the stationary points next to u, for rows whose logarithm is curved downwards in all
# directions.
polish <- function(field, u) {
  open <- seq_len(nrow(u))
  for (step in 1:20) {
    if (length(open) == 0) break
    here <- curvature_at(field, u[open, , drop = FALSE])
    move <- newton_steps(here)
    u[open, ] <- u[open, , drop = FALSE] + move
    open <- open[rowSums(move^2) > 1e-20 * here$width2]
  }
  u
}

# 0 where the Hessian is not negative definite.
newton_steps <- function(here) {
  d <- ncol(here$score)
  move <- here$score
  for (i in seq_len(nrow(move))) {
    root <- tryCatch(chol(matrix(-here$hessian[i, ], d)), error = \(e) NULL)
    move[i, ] <- if (is.null(root)) 0 else backsolve(root, backsolve(root, here$score[i, ], transpose = TRUE))
  }
  shortened(move, here$width2)
}

# No longer than LONGEST_STEP.
shortened <- function(move, width2) {
  move * pmin(1, LONGEST_STEP * sqrt(width2) / pmax(sqrt(rowSums(move^2)), 1e-300))
}

# ---- starts -----------------------------------------------------------------------------------

# list(rows, weights): of each cell `width` bandwidths wide (its own point's, in adaptive fits) the point next to
# its middle, and what all points there weigh. By the points alone, whatever their order.
thinned_starts <- function(field, points, weights, width) {
  u <- to_field(field, points)
  factors <- if (is.null(field$object$adaptive)) rep(1, nrow(u)) else field$object$adaptive$factors
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
