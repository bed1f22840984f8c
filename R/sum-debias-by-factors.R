# Debiasing of points that have bandwidths of their own. Kernels of f^2 H leave a bias of order h^2, half of
# tr(H Hessian(p f^2)), which goes where point j moves by f_j^2 H / 2 times the score of p f^2. That score is of all points,
# their weights times f^2, by the kernel of f_j^2 H_s: each point moves as an SD-KDE of its own bandwidth would have it,
# and nothing has to be known of the factors. Of p^-a, p f^2 = p^(1 - 2 a): 1 - 2 a of the way is left to go.

# As debias_sum(), of sources with factors.
debias_by_classes <- function(sources, L, control) {
  found <- scores_by_classes(sources, control)
  step <- sources$factors^2 * (found$score %*% tcrossprod(L)) / 2
  list(debiased = sources$points + step, stats = found$stats)
}

# As debiased_loo_sum(): the scores without a point follow from those with it, where these are exact.
debiased_loo_by_classes <- function(sources, L, control) {
  control[c("tol", "engine", "precision")] <- list(0, "exact", "double")
  found <- scores_by_classes(sources, control, masses = TRUE)
  widths <- list(
    factors = sources$factors, weights = sources$weights, log_mass = found$log_mass,
    means = sources$points + sources$factors^2 * (found$score %*% tcrossprod(sources$L))
  )
  of_scores <- score_sources(sources)
  dominated <- dominated_points(of_scores, sources$factors, found$log_mass, control)
  away <- away_from_dominant(sources$points, dominated)
  widths <- with_dominated(widths, dominated, away, sources$L, L)
  share_stage(control, 0.5, 0.5)
  sums <- debiased_loo_sum(of_scores, L, control, widths)
  replace(sums, "stats", list(add_class_stats(joined_stats(found$stats, dominated$stats), sums$stats)))
}

# Their points with the weights of the score, relative to the largest factor of a point that counts.
score_sources <- function(sources) {
  w <- if (is.null(sources$weights)) 1 else sources$weights
  relative <- sources$factors / max(sources$factors[w > 0])
  sum_sources(sources$points, w * pmin(relative, 1)^2, sources$L)
}

# list(score, log_mass, stats) at every source: the score for debiasing it, and where asked for, the log of the sum of
# its kernels, for which another sum follows. Where no kernel has weight there is no score, and a point stays.
scores_by_classes <- function(sources, control, masses = FALSE) {
  of_scores <- score_sources(sources)
  points <- sources$points
  classes <- width_classes(sources$factors)
  found <- list(score = array(0, dim(points)), log_mass = if (masses) numeric(nrow(points)))
  done <- 0
  for (i in seq_along(classes$factors)) {
    rows <- classes$rows[[i]]
    share <- length(rows) / nrow(points) * if (masses) 0.5 else 1
    share_stage(control, done, share)
    done <- done + share
    at <- points[rows, , drop = FALSE]
    wide <- replace(of_scores, "L", list(classes$factors[i] * sources$L))
    part <- score_sum(wide, at, ESTIMATORS[[PLAIN_ESTIMATOR]], FALSE, NULL, control)
    found$score[rows, ] <- part$score
    found$stats <- joined_stats(found$stats, part$stats)
    if (!masses) next
    mass <- log_sum(wide, at, PLAIN_FACTOR, FALSE, control)
    found$log_mass[rows] <- mass$log_abs
    found$stats <- joined_stats(found$stats, mass$stats)
  }
  found$score[!is.finite(found$score)] <- 0
  found$log_mass[!is.finite(found$log_mass)] <- 0
  found
}
