# Adaptive bandwidths for data with categories: as in bandwidth-adaptive-choose.R, with the density of numbers and
# categories together as the pilot.

# list(H, L, lambda, record, stats), as adapt_bandwidth(), record NULL where "auto" finds no gain. Where
# H was chosen with the lambdas, its factor is again, and the lambdas.
adapt_mixed <- function(data, found, options, free, joint, control, arg) {
  check_adaptable(data)
  data$discrete$lambda <- found$lambda
  clean <- judged(clean_mixed(data, arg))
  run <- search_run(control, clean$d)
  tally <- new_tally()
  L <- found$main$L / clean$unit
  auto <- identical(options$adaptive, "auto")
  looked <- if (auto) look_for_gain(clean, L, PLAIN_ESTIMATOR, run)
  if (auto && !looked$worth) return(c(found$main[c("H", "L")], list(lambda = found$lambda, stats = looked$stats)))
  looked$rows <- NULL # factors of a sample, with lambdas as they were
  wanted <- wanted_factors(
    replace(data, "points", list(cbind(data$points, data$discrete$codes))), clean, L, PLAIN_ESTIMATOR, options$adaptive,
    looked, options$seconds, run
  )
  record <- list(method = wanted$method, factors = wanted$own, auto = auto)
  adapted <- c(found$main[c("H", "L")], list(lambda = found$lambda, record = record))
  if (!joint) return(adapted)
  before <- lambda_search(clean, free, options$seconds, run, tally)(L, found$lambda)$value
  clean$factors <- wanted$factors
  last <- with_lambdas(clean, USUAL_SCALE * L, lambda_search(clean, free, options$seconds, run, tally))
  scale <- last$L[1] / L[1]
  record$factors <- if (is.numeric(options$adaptive)) wanted$own else at_least(wanted$own, least_factor(clean, last$L))
  record[c("scale", "gain")] <- list(scale, before - last$value)
  stats <- joined_stats(joined_stats(looked$stats, wanted$stats), tally$stats)
  list(H = scale^2 * found$main$H, L = scale * found$main$L, lambda = last$lambda, record = record, stats = stats)
}
