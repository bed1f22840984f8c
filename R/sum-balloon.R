# Balloon estimates: the bandwidth belongs to the place y where the estimate is asked for, f(y)^2 H with a factor that
# goes by the distance from y to its k-th nearest point (Loftsgaarden and Quesenberry 1965, Terrell and Scott 1992).
# Each value is an ordinary kernel sum over all points: classes of targets with the same factor are here what classes
# of points are in sum-by-factors.R. Together the values are no density.

# As adapt_bandwidth().
balloon_bandwidth <- function(data, clean, main, options, run) {
  L <- main$L / clean$unit
  found <- balloon_factors(clean, L, run)
  chosen <- if (is_chosen(options$bandwidth)) choose_scale(clean, found$factors, L, "balloon", options$seconds, run)
  scale <- if (is.null(chosen)) 1 else chosen$scale
  found$places$least <- least_factor(clean, scale * L)
  record <- balloon_record(found, clean, data$points, data$weights, main$L, run)
  record$scale <- chosen$scale
  list(H = scale^2 * main$H, L = scale * main$L, record = record, stats = chosen$stats)
}

# list(factors, places): for judged() rows and a bandwidth of factor L, the factors at the rows by the other ones, whose
# geometric mean is 1, and what factors elsewhere go by: `points`, a column each, where L is the identity; k; `level`,
# the log of the distance whose factor is 1.
balloon_factors <- function(data, L, run) {
  distance <- neighbour_distances(data, L, NULL, run)
  level <- sum(data$v * log(distance))
  places <- list(points = whitened_columns(data$x, L), k = neighbour_rank(NULL, nrow(data$x)), level = level)
  list(factors = on_lattice(log(distance) - level), places = places)
}

# As log_left_out(), of places with these factors.
balloon_left_out <- function(data, L, factors, run) {
  log_left_out(data, L, NULL, run, if (!is.null(factors)) \(at, loo, control) factors)
}

# `places` of a fit have the factor L and the origin of its points, too, and the `least` factor that rounding allows.
factors_at <- function(places, at, run) {
  centred <- at - rep(places$origin, each = nrow(at))
  distance <- kth_distances(places$points, whitened_columns(centred, places$L), places$k, run)
  at_least(on_lattice(log(distance) - places$level), places$least)
}

# The record of a fit, of what balloon_factors() found for the rows that clean_points() left of `points`.
balloon_record <- function(found, clean, points, weights, L, run) {
  places <- c(found$places, list(L = L, origin = clean$origin))
  at_points <- at_least(own_factors(found$factors, clean, points), places$least)
  without <- which(weights == 0) # nothing is left out there
  if (length(without) > 0) at_points[without] <- factors_at(places, points[without, , drop = FALSE], run)
  list(method = "balloon", at_points = at_points, places = places)
}

is_balloon <- function(object) identical(object$adaptive$method, "balloon")

# For sum_sources(): a function of the targets, NULL for the points themselves; NULL for other fits.
balloon_widths <- function(object) {
  if (!is_balloon(object)) return(NULL)
  record <- object$adaptive
  points <- object$x
  function(at, loo, control) {
    if (loo) record$at_points else factors_at(record$places, if (is.null(at)) points else at, control)
  }
}

# For what is of densities alone.
check_density <- function(object) {
  if (is_balloon(object)) {
    stop_argument(
      "adaptive", "must be another than \"balloon\", whose estimate does not integrate to 1: it has no draws, ",
      "probabilities, quantiles or marginals"
    )
  }
  invisible(object)
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

balloon_note <- function(adaptive, digits) {
  range <- vapply(range(adaptive$at_points), format, "", digits = digits)
  paste0(
    "Balloon: the sds at each place times a factor, ", range[1], " to ", range[2], " at the points, by the distance ",
    "to nearest point number ", whole(adaptive$places$k), ". No density: it does not integrate to 1."
  )
}
