# Searches that try bandwidths on the data. Cost O(n^2 d) for each one tried, less to a tolerance.

# Checks the arguments of a search, and returns them as the list that choose_bandwidth() takes.
search_options <- function(criterion, structure, rows, seconds, start = NULL) {
  structure <- check_choice(structure, c("auto", names(BANDWIDTH_STRUCTURES)), "structure")
  if (!is.null(rows) && !identical(rows, Inf)) rows <- as.double(check_count(rows, "rows", min = 2))
  good <- is.numeric(seconds) && length(seconds) == 1 && !is.object(seconds) && !is.na(seconds) && seconds > 0
  if (!good) stop_argument("seconds", "must be one positive number: found ", describe(seconds))
  list(criterion = criterion, structure = structure, rows = rows, seconds = as.double(seconds), start = start)
}

# The tolerance of a search is pointwise, because the criterion uses the sum at each point. With more than 3
# dimensions a tolerance saves no time.
search_control <- function(asked, d) {
  check_tol(asked$tol)
  if (d > 3 && !identical(asked$engine, "fast")) asked$tol <- 0
  replace(asked, "tol_type", "pointwise")
}

# ---- the density that catches outliers ------------------------------------------------------------

# The log of the share of the Cauchy density in the likelihood, see ?kde_bandwidth. In many dimensions any kernel
# estimate is many nats below a smooth density, and only a point further below than that is an outlier.
log_rescue_share <- function(d) log(1e-6) * max(1, d / 16)

# log of the multivariate Cauchy density.
cauchy_log_density <- function(x, centre, spread) {
  d <- ncol(x)
  z <- (x - rep(centre, each = nrow(x))) / rep(spread, each = nrow(x))
  # in two steps, because squares of far points overflow
  top <- rep(1, nrow(z))
  for (k in seq_len(d)) top <- pmax.int(top, abs(z[, k]))
  log_distance <- 2 * log(top) + log(1 / top^2 + rowSums((z / top)^2))
  lgamma((d + 1) / 2) - (d + 1) / 2 * (log(pi) + log_distance) - sum(log(spread))
}

# ---- sums of all other points ----------------------------------------------------------------------

# Ratio of the variance of the score's kernel to that of the estimate. 1/2 had the least error in measurements.
SCORE_RATIO <- 0.5

# Returns a function that computes list(log_sum, stats): the leave-one-out sums of the estimator. For an SD-KDE both
# stages leave the point out, exactly, and `debiased` has the debiased points: those with SCORE_RATIO 1/2 are means. A
# Laplace-corrected sum is at least a thousandth of the classical one. `discrete` and `factors` have the meaning that
# they have in sum_sources().
left_out_sums <- function(estimator, discrete = NULL, factors = NULL) {
  function(x, weights, L, control) {
    if (ESTIMATORS[[estimator]]$debiased) {
      centre <- far_centre(x, weights, factor_sds(L)[seq_len(ncol(x))])
      near <- shift_points(x, centre, -1)
      sources <- sum_sources(near, weights, sqrt(SCORE_RATIO) * L, factors = factors, discrete = discrete)
      quick <- is.null(discrete) && is.null(factors) && sums_debiased_fast(x, weights, control)
      sums <- (if (quick) less_influence else debiased_loo_sum)(sources, L, control)
      if (!is.null(sums$means)) sums$debiased <- shift_points(near + (sums$means - near) / (2 * SCORE_RATIO), centre, 1)
      return(sums)
    }
    sources <- sum_sources(x, weights, L, discrete = discrete)
    corrected <- log_sum(sources, NULL, ESTIMATORS[[estimator]]$factor(ncol(x)), TRUE, control)
    plain <- log_sum(sources, NULL, PLAIN_FACTOR, TRUE, control)
    corrected$log_abs[corrected$negative] <- -Inf
    stats <- add_stats(corrected$stats, plain$stats)
    list(log_sum = pmax(corrected$log_abs, plain$log_abs + log(1e-3)), stats = stats)
  }
}

# Are leave-one-out sums of an SD-KDE to a tolerance? In one dimension, where sums take time linear in the points, by
# their number alone: so that every processor takes the same criterion.
sums_debiased_fast <- function(x, weights, control) {
  ncol(x) == 1 && control$tol > 0 && nrow(x) >= 2000 && !may_dominate(weights)
}

# debiased_loo_sum() of one column by sums over all points, less what a point adds to the estimate where it is. This
# is its own kernel, and by the moves of its neighbours half of H times minus the curvature of the kernel of variance
# H + H_s, where the density hardly changes within a bandwidth. Of 2,000 points and more the error is below a tenth of
# it, but in tails it is not: where fewer than FEW_KERNELS such parts are left, the sums are those of the points nearby.
less_influence <- function(sources, L, control) {
  moved <- debias_sum(sources, L, control)
  sums <- log_sum(sum_sources(moved$debiased, sources$weights, L), sources$points, PLAIN_FACTOR, FALSE, control)
  own <- (1 + (1 + SCORE_RATIO)^(-3 / 2) / 2) * if (is.null(sources$weights)) 1 else sources$weights
  rest <- exp(sums$log_abs) - own
  log_sum <- log(pmax(rest, 0))
  stats <- joined_stats(moved$stats, sums$stats)
  few <- rest < FEW_KERNELS * own
  near <- which(lies_near(sources$points, sources$points[few], NEAR_REACH * L[1]))
  if (length(near) %in% seq_len(MOST_NEAR)) {
    found <- debiased_loo_sum(sum_sources(sources$points[near, , drop = FALSE], sources$weights[near], sources$L), L, control)
    log_sum[few] <- found$log_sum[match(which(few), near)]
    stats <- joined_stats(stats, found$stats)
  }
  list(log_sum = log_sum, stats = stats, means = sources$points + 2 * SCORE_RATIO * (moved$debiased - sources$points))
}
FEW_KERNELS <- 10
NEAR_REACH <- 5 # bandwidths
MOST_NEAR <- 5000

# Which numbers of x are within `reach` of one of `of`?
lies_near <- function(x, of, reach) {
  of <- c(-Inf, sort(of), Inf)
  below <- findInterval(x, of)
  x - of[below] <= reach | of[pmin(below + 1, length(of))] - x <= reach
}
