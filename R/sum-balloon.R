# Balloon estimates: the bandwidth belongs to the place y where the estimate is asked for, f(y)^2 H with a factor that
# goes by the distance from y to its k-th nearest point (Loftsgaarden and Quesenberry 1965, Terrell and Scott 1992).
# Each value is an ordinary kernel sum over all points: classes of targets with the same factor are here what classes
# of points are in sum-by-factors.R. Together the values are no density.

# `places` of a fit have the factor L and the origin of its points, too, and the `least` factor that rounding allows.
factors_at <- function(places, at, run) {
  centred <- at - rep(places$origin, each = nrow(at))
  distance <- kth_distances(places$points, whitened_columns(centred, places$L), places$k, run)
  at_least(on_lattice(log(distance) - places$level), places$least)
}

# ---- sums -------------------------------------------------------------------------------------

log_sum_by_targets <- function(sources, at, factor, loo, control) {
  sum_target_classes(sources, at, loo, control, log_of_class(factor))
}

score_sum_by_targets <- function(sources, at, estimator, loo, names, control) {
  sum_target_classes(sources, at, loo, control, score_of_class(estimator, names))
}

# `sum_class(class, y, loo, control)` for all sources, as wide as the targets of each class want them, at these. A
# global tolerance is relative to the largest sum of a class, which is at most the largest of all.
sum_target_classes <- function(sources, at, loo, control, sum_class) {
  points <- sources$points
  targets <- if (is.null(at)) points else at
  classes <- width_classes(sources$target_factors(at, loo, control))
  m <- nrow(targets)
  total <- list(log_abs = numeric(m))
  done <- 0
  for (i in seq_along(classes$factors)) {
    rows <- classes$rows[[i]]
    share_stage(control, done, length(rows) / m)
    done <- done + length(rows) / m
    class <- sum_sources(points, sources$weights, classes$factors[i] * sources$L, sources$kernel)
    part <- if (loo) {
      left_out_at(class, rows, control, sum_class)
    } else {
      sum_class(class, targets[rows, , drop = FALSE], FALSE, control)
    }
    total$log_abs[rows] <- part$log_abs - sources$height * ncol(points) * log(classes$factors[i])
    if (!is.null(part$score)) {
      if (i == 1) total$score <- part$score[rep(1, m), , drop = FALSE]
      total$score[rows, ] <- part$score
    }
    total$stats <- if (is.null(total$stats)) part$stats else add_class_stats(total$stats, part$stats)
  }
  total
}

# At the points `rows` of the class: by each other's sums without their own terms, and those of all other points.
left_out_at <- function(class, rows, control, sum_class) {
  part_of <- \(rows) sum_sources(
    class$points[rows, , drop = FALSE], class$weights[rows], class$L, class$kernel, factors = class$factors[rows],
    height = class$height
  )
  own <- part_of(rows)
  others <- part_of(-rows)
  weightless <- \(part) nrow(part$points) == 0 || !is.null(part$weights) && all(part$weights == 0)
  if (weightless(own)) return(sum_class(others, own$points, FALSE, control))
  found <- sum_class(own, NULL, TRUE, control)
  if (weightless(others)) found else merge_parts(found, sum_class(others, own$points, FALSE, control), control)
}

# ---- print ------------------------------------------------------------------------------------
