# Searches that try bandwidths on the data. Cost O(n^2 d) for each one tried, less to a tolerance.

# What choose_bandwidth() is asked for, checked.
search_options <- function(criterion, structure, rows, seconds, start = NULL) {
  structure <- check_choice(structure, c("auto", names(BANDWIDTH_STRUCTURES)), "structure")
  if (!is.null(rows) && !identical(rows, Inf)) rows <- as.double(check_count(rows, "rows", min = 2))
  good <- is.numeric(seconds) && length(seconds) == 1 && !is.object(seconds) && !is.na(seconds) && seconds > 0
  if (!good) stop_argument("seconds", "must be one positive number: found ", describe(seconds))
  list(criterion = criterion, structure = structure, rows = rows, seconds = as.double(seconds), start = start)
}

# Each point's own sum counts, so the tolerance is pointwise. In more dimensions it gains nothing.
search_control <- function(asked, d) {
  check_tol(asked$tol)
  if (d > 3 && !identical(asked$engine, "fast")) asked$tol <- 0
  replace(asked, "tol_type", "pointwise")
}

# ---- the density that catches outliers ------------------------------------------------------------

# The log of its weight beside the estimate, see ?kde_bandwidth. In many dimensions any kernel estimate is many
# nats below a smooth density, and only what is further below than that is an outlier.
log_rescue_share <- function(d) log(1e-6) * max(1, d / 16)

# log of the multivariate Cauchy density.
cauchy_log_density <- function(x, centre, spread) {
  d <- ncol(x)
  z <- (x - rep(centre, each = nrow(x))) / rep(spread, each = nrow(x))
  # in two steps, because squares of far points overflow
  top <- do.call(pmax, c(list(1), lapply(seq_len(d), \(k) abs(z[, k]))))
  log_distance <- 2 * log(top) + log(1 / top^2 + rowSums((z / top)^2))
  lgamma((d + 1) / 2) - (d + 1) / 2 * (log(pi) + log_distance) - sum(log(spread))
}

# ---- sums of all other points ----------------------------------------------------------------------

plain_loo <- function(x, weights, L, control) {
  sums <- log_sum(sum_sources(x, weights, L), NULL, PLAIN_FACTOR, TRUE, control)
  list(log_sum = sums$log_abs, stats = sums$stats)
}

# score_L: the factor of the score's bandwidth; factors: as of sources.
sdkde_loo <- function(x, weights, L, control, score_L = L, factors = NULL) {
  centre <- far_centre(x, weights, factor_sds(L)[seq_len(ncol(x))])
  debiased_loo_sum(sum_sources(shift_points(x, centre, -1), weights, score_L, factors = factors), L, control)
}

laplace_loo <- function(estimator) function(x, weights, L, control) {
  factor <- ESTIMATORS[[estimator]]$factor(ncol(x))
  corrected <- log_sum(sum_sources(x, weights, L), NULL, factor, TRUE, control)
  plain <- plain_loo(x, weights, L, control)
  corrected$log_abs[corrected$negative] <- -Inf
  list(
    log_sum = pmax(corrected$log_abs, plain$log_sum + log(1e-3)),
    stats = add_stats(corrected$stats, plain$stats)
  )
}
