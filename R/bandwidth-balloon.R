# adapt_bandwidth() for balloon estimates.
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

# log_left_out() of a balloon estimate: `factors` belong to the targets.
balloon_left_out <- function(data, L, factors, run) {
  log_left_out(data, L, NULL, run, if (!is.null(factors)) \(at, loo, control) factors)
}

# The record of a fit, of what balloon_factors() found for the rows that clean_points() left of `points`.
balloon_record <- function(found, clean, points, weights, L, run) {
  places <- c(found$places, list(L = L, origin = clean$origin))
  at_points <- at_least(own_factors(found$factors, clean, points), places$least)
  without <- which(weights == 0) # nothing is left out there
  if (length(without) > 0) at_points[without] <- factors_at(places, points[without, , drop = FALSE], run)
  list(method = "balloon", at_points = at_points, places = places)
}

balloon_note <- function(adaptive, digits) {
  range <- vapply(range(adaptive$at_points), format, "", digits = digits)
  paste0(
    "Balloon: the standard deviations at each place are multiplied by a factor, which depends on the distance to the ",
    "nearest point number ", whole(adaptive$places$k), "; ", range[1], " to ", range[2], " at the points. The ",
    "estimate does not integrate to 1, so it is not a density."
  )
}

# log_left_out() of an SD-KDE, with `debiased` of left_out_sums().
debiased_left_out <- function(data, L, factors, run) {
  sums <- left_out_sums("sdkde", factors = factors)(data$x, data$weights, L, run)
  log_density <- sums$log_sum + log_kernel_norm(L) - log(data$others)
  list(log_density = log_add(log_density, log_floor_of(data)), debiased = sums$debiased, stats = sums$stats)
}
