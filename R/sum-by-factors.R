# Sums with local bandwidth factors of the sources. Sources with equal factors form a class, each class is summed with
# its bandwidth, and the results are merged. Therefore all engines and tolerances are available.

# Returns list(factors, rows): the distinct factors in increasing order, and the rows that have them.
width_classes <- function(factors) {
  values <- sort(unique(factors))
  list(factors = values, rows = unname(split(seq_along(factors), match(factors, values))))
}

#' @export
groups_of.sources_by_factors <- function(sources, at, loo, control) {
  points <- sources$points
  classes <- width_classes(sources$factors)
  alone <- length(classes$factors) == 1
  y <- if (!is.null(at)) at else if (!alone) points
  list(
    adds = TRUE, work = lengths(classes$rows) / nrow(points), m = targets_count(sources, at), d = ncol(points),
    group = function(i) {
      rows <- classes$rows[[i]]
      own <- if (alone) points else points[rows, , drop = FALSE]
      weights <- if (alone) sources$weights else sources$weights[rows]
      list(
        sources = sum_sources(own, weights, classes$factors[i] * sources$L, sources$kernel, if (alone) sources$plan),
        y = y, own = if (is.null(at)) list(at = rows),
        log_height = -sources$height * kernel_columns(sources$L) * log(classes$factors[i])
      )
    }
  )
}

# With a global tolerance the classes are added as sums, not as logarithms. Targets whose sum is below a hundred times
# the tolerance are recomputed by logarithms.
#' @export
log_sum.sources_by_factors <- function(sources, at, factor, loo, control) {
  of_logs <- \(at) sum_over(sources, at, loo, control, log_verb(factor))
  several <- any(sources$factors != sources$factors[1]) && !is_compact(sources$kernel)
  if (!several || !goes_by_sums(factor, loo, control)) return(of_logs(at))
  found <- plain_log_sum(sources, at, control)
  low <- which(!(found$log_abs > max(found$log_abs) + log(100 * control$tol)))
  if (length(low) > 0) {
    found$log_abs[low] <- of_logs((if (is.null(at)) sources$points else at)[low, , drop = FALSE])$log_abs
  }
  found
}

# ---- both stages of an SD-KDE -------------------------------------------------------------------

# Kernels with bandwidths f^2 H have a bias of order h^2, tr(H Hessian(p f^2)) / 2. It is removed by moving point j by
# f_j^2 H / 2 times the score of p f^2. This score is estimated from all points, with weights times f^2, by the kernel
# of bandwidth f_j^2 H_s. It needs no model of the factors. If f = p^-a, then p f^2 = p^(1 - 2 a), and the move is
# 1 - 2 a times that of constant factors.
#' @export
debias_scores.sources_by_factors <- function(sources, control) {
  c(scores_by_classes(sources, control)[c("score", "stats")], list(squares = sources$factors^2))
}

# Leave-one-out scores follow from the scores of all points if these are exact.
#' @export
debiased_loo_sum.sources_by_factors <- function(sources, L, control, widths = NULL) {
  control[c("tol", "engine", "precision")] <- list(0, "exact", "double")
  share_stage(control, 0, 0.5)
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

# Returns sources with the weights of the score: weight times f^2, with f relative to the largest factor of a point of
# positive weight.
score_sources <- function(sources) {
  w <- if (is.null(sources$weights)) 1 else sources$weights
  relative <- sources$factors / max(sources$factors[w > 0])
  sum_sources(sources$points, w * pmin(relative, 1)^2, sources$L)
}

# Returns list(score, log_mass, stats) at every source: the score that debiases it, with the source's own bandwidth, and
# with `masses` the logarithm of the sum of these kernels. Where no kernel has weight both are 0, and the point stays.
scores_by_classes <- function(sources, control, masses = FALSE) {
  widths <- \(at, loo, control) sources$factors
  by_place <- remade(score_sources(sources), target_factors = widths, height = 0)
  sum <- if (masses) score_and_log else score_sum
  found <- sum(by_place, NULL, PLAIN_FACTOR, FALSE, NULL, control)
  found$score[!is.finite(found$score)] <- 0
  found$log_mass <- if (masses) replace(found$log_abs, !is.finite(found$log_abs), 0)
  found
}
