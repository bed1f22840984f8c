# Chooses adaptive bandwidths: point j has the variance f_j^2 H, with a local factor f_j that is large where points
# are few. The estimate is the sum of the estimates of classes of points with equal factors (sum-by-factors.R).
# Factors are powers of one number, so that there are few classes.
#
# Factors p^-1/2 remove the bias of order h^2, as debiasing does. Both together (sum-debias-by-factors.R) gained up to
# 0.02 nats over the factors alone, which gained 0.3 to 0.6 (bench/NOTES.md). So an automatic choice does not debias
# an estimate with factors.

# Largest number of different factors given by the user that are used without rounding.
MOST_CLASSES <- 64

# adaptive = "auto" uses factors if they increase the leave-one-out log-likelihood by more than GAIN nats per row and
# by more than GAIN_ERRORS of its standard errors, on at most GAIN_ROWS rows. Fewer rows decide whether this is tried.
# Of one column it is the censored likelihood, which the tails disturb less and whose gain is smaller.
GAIN <- 0.02
GAIN_ERRORS <- 3
GAIN_ROWS <- 2000
CENSORED_GAIN <- list(least = 0.002, errors = 3.2)

# Scale of L at which the search for the scale of adaptive bandwidths starts.
USUAL_SCALE <- 0.7

# The estimator of an adaptive fit: the classical one if none is named. An error for those without adaptive bandwidths.
adaptive_estimator <- function(estimator, adaptive) {
  if (is.null(adaptive) || identical(adaptive, "auto")) return(check_estimator(estimator))
  if (is_auto(estimator)) return(PLAIN_ESTIMATOR)
  able <- if (identical(adaptive, "balloon")) PLAIN_ESTIMATOR else estimators_that("adaptive")
  estimator <- check_estimator(estimator)
  if (!estimator %in% able) {
    stop_argument("adaptive", "is available only for estimator = ", quote_choices(able), ": found \"", estimator, "\"")
  }
  estimator
}

# May adaptive = "auto" choose local factors? Not if the user gave a bandwidth or named an estimator other than "kde",
# and not for fewer than 50 points.
may_adapt <- function(options, n) {
  if (!is.null(options$bandwidth) && !identical(options$bandwidth, "auto")) return(FALSE)
  able <- is_auto(options$estimator) || check_estimator(options$estimator) == PLAIN_ESTIMATOR
  able && is.null(options$score_bandwidth) && n >= 50
}

# Chooses the local factors of the points of `data`, list(points, weights, omitted, clean). Returns list(H, L, record,
# stats). H and L are those of `main`, rescaled for the factors if `main` was chosen from the data. `record` is NULL
# if the factors do not gain enough, else list(method, factors, auto): `auto` is TRUE if they were used because of
# their gain. If a scale was chosen, the record also has scale, the multiple of L, and gain, in nats of leave-one-out
# log-likelihood per row over one bandwidth (of `estimator` if auto). Balloon estimates have balloon_record() instead.
adapt_bandwidth <- function(data, main, estimator, adaptive, options, control, arg) {
  started <- proc.time()[["elapsed"]]
  name_stage(control, "Adapting the bandwidth")
  check_adaptable(data)
  run <- search_run(control, ncol(data$points))
  clean <- judged(data$clean())
  if (is.numeric(adaptive)) clean$columns$width[] <- NA # the user's own stay as they are, whatever was rounded
  adapted <- if (identical(adaptive, "balloon")) {
    balloon_bandwidth(data, clean, main, options, run)
  } else {
    factor_bandwidth(data, clean, main, estimator, adaptive, options, run)
  }
  adapted$stats <- as.list(adapted$stats)
  adapted$stats$seconds <- proc.time()[["elapsed"]] - started
  adapted
}

# adapt_bandwidth() for factors of the points.
factor_bandwidth <- function(data, clean, main, estimator, adaptive, options, run) {
  L <- main$L / clean$unit
  auto <- identical(adaptive, "auto")
  looked <- if (auto) look_for_gain(clean, L, estimator, run)
  adapted <- list(H = main$H, L = main$L, stats = looked$stats)
  if (auto && !looked$worth) return(adapted)
  found <- wanted_factors(data, clean, L, estimator, adaptive, looked, options$seconds, run)
  adapted$record <- list(method = found$method, factors = found$own, auto = auto)
  adapted$stats <- joined_stats(adapted$stats, found$stats)
  if (!is_chosen(options$bandwidth)) return(adapted)
  chosen <- if (is.null(found$scale)) choose_scale(clean, found$factors, L, estimator, options$seconds, run) else found
  adapted$record$factors <- at_least(found$own, least_factor(clean, chosen$scale * L))
  adapted$record[c("scale", "gain")] <- list(chosen$scale, if (auto) looked$gain else chosen$gain)
  adapted[c("H", "L")] <- list(chosen$scale^2 * main$H, chosen$scale * main$L)
  if (is.null(found$scale)) adapted$stats <- joined_stats(adapted$stats, chosen$stats)
  adapted
}

# Factors are relative to each other. Columns may be constant: there all kernels have the same height.
check_adaptable <- function(data) {
  if (n_given(data) < 2) stop_argument("adaptive", "needs at least two points of positive weight: found one")
}

# From the data, by a selector.
is_chosen <- function(bandwidth) is.null(bandwidth) || is.character(bandwidth)

n_given <- function(data) if (is.null(data$weights)) nrow(data$points) else sum(data$weights > 0)

# list(method, factors, of the rows of `clean`, own, of all points, stats); of `looked` where that was at all rows,
# and then scale and gain, too.
wanted_factors <- function(data, clean, L, estimator, adaptive, looked, seconds, run) {
  if (is.character(adaptive)) {
    method <- default_method(clean$d, estimator, if (adaptive == "auto") ADAPTIVE_METHODS[1] else adaptive)
    whole <- isTRUE(looked$rows == nrow(clean$x))
    found <- if (whole) looked[c("factors", "scale", "gain")] else point_factors(clean, L, method, 0.2 * seconds, run)
    return(c(found, list(method = method$name, own = own_factors(found$factors, clean, data$points))))
  }
  own <- if (is.null(data$omitted)) adaptive else adaptive[-data$omitted]
  many <- length(unique(own)) > MOST_CLASSES
  if (many) own <- on_lattice(log(own))
  list(method = if (many) "given, rounded" else "given", factors = own[clean$source], own = own)
}

default_method <- function(d, estimator, name = ADAPTIVE_METHODS[1]) {
  list(name = name, alpha = check_power(NULL, d), pilot = PILOT[[estimator]])
}

# ---- are they worth it? -----------------------------------------------------------------------

# list(worth, rows, factors, scale, gain, judged, stats): by the leave-one-out likelihood of so many rows, over that
# of `estimator` with one bandwidth of factor L. A sample that is far from a gain ends it.
look_for_gain <- function(data, L, estimator, run) {
  if (is_wide(data) && is_scalar_factor(L)) {
    data <- in_few_columns(data)
    L <- L[1] * unit_factor(data)
  }
  stats <- found <- NULL
  for (rows in unique(pmin(nrow(data$x), c(SCAN_ROWS, GAIN_ROWS)))) {
    batch <- judged(sample_of(data, seq_len(rows)))
    near <- L / carried(batch, data, bandwidth_rate(estimator, data$d))
    # all rows of one column may have shown a finer structure than a sample does
    if (rows < nrow(data$x) && censors(data$d) && is.null(data$discrete)) {
      measure <- FACTOR_CRITERIA$auto(data$d)[[estimator]]
      near <- minimise(new_criterion(measure[1], batch, estimator, run), list(near))$L
    }
    found <- factor_gain(batch, near, if (is.null(found)) USUAL_SCALE else found$scale, estimator, run)
    stats <- joined_stats(stats, found$stats)
    by <- found$judged
    need <- if (censors(data$d)) CENSORED_GAIN else list(least = GAIN, errors = GAIN_ERRORS)
    if (!isTRUE(by$gain + need$errors * by$se >= need$least)) break
  }
  worth <- isTRUE(by$gain > max(need$least, need$errors * by$se))
  replace(found, c("worth", "rows", "stats"), list(worth, rows, stats))
}

# list(factors, scale, gain, judged, stats), on all of these rows. `scale`: where to begin; `judged`: list(gain, se)
# by which factors are accepted.
factor_gain <- function(batch, L, scale, estimator, run) {
  one <- left_out_by(estimator, batch, L, NULL, run)
  found <- point_factors(batch, L, default_method(batch$d, estimator), Inf, run)
  chosen <- best_scale(batch, found$factors, scale * L, PLAIN_ESTIMATOR, run)
  gain <- judged <- gain_over(one$log_density, chosen$log_density, batch$v)
  scale <- scale * chosen$scale
  if (censors(batch$d)) {
    before <- censored_terms(batch, one$log_density, L, if (is.null(one$debiased)) batch$x else one$debiased)
    after <- censored_terms(batch, chosen$log_density, scale * L, factors = found$factors)
    judged <- gain_over(before, after, batch$v)
  }
  stats <- Reduce(joined_stats, list(one$stats, found$stats, chosen$stats))
  list(factors = found$factors, scale = scale, stats = stats, gain = gain$gain, judged = judged)
}

# log_left_out() for the estimator `kind`, or for "balloon".
left_out_by <- function(kind, ...) {
  switch(kind, kde = log_left_out(...), sdkde = debiased_left_out(...), balloon = balloon_left_out(...))
}

# ---- scale ------------------------------------------------------------------------------------

# list(scale, gain, stats): the multiple of L for which the censored likelihood of judged() rows is largest, on as
# many of them as the budget allows; of balloon estimates, the likelihood. `kind`: as of left_out_by().
choose_scale <- function(data, factors, L, kind, seconds, run) {
  n <- nrow(data$x)
  rows <- min(n, max(SCAN_ROWS, floor(sqrt(0.1 * seconds / (10 * pair_seconds(n, data$d, run))))))
  batch <- judged(sample_of(data, seq_len(rows)))
  near <- L / carried(batch, data, bandwidth_rate(if (kind == "balloon") PLAIN_ESTIMATOR else kind, data$d))
  found <- best_scale(batch, factors[seq_len(rows)], USUAL_SCALE * near, kind, run)
  one <- left_out_by(kind, batch, near, NULL, run)
  scale <- if (found$converged) USUAL_SCALE * found$scale else 1
  gain <- sum(batch$v * (found$log_density - one$log_density))
  list(scale = scale, gain = gain, stats = joined_stats(found$stats, one$stats))
}

# Near the best the likelihood is flat: a tenth of the scale costs it less than 0.002. The powers of kernels are twice
# each other.
SCALE_SCHEDULE <- list(step = log(2) / 2, powers = c(1 / 2, 1, 2), tol = 0.1)

# list(value, log_density, scale, converged, stats): the multiple of L.
best_scale <- function(batch, factors, L, kind, run) {
  best <- list(value = Inf)
  stats <- NULL
  take <- function(found, L, powers = 1) {
    stats <<- joined_stats(stats, found$stats)
    says <- logs <- as.matrix(found$log_density)
    if (kind != "balloon") for (k in seq_along(powers)) {
      says[, k] <- censored_terms(batch, logs[, k], L / sqrt(powers[k]), factors = factors)
    }
    values <- -colSums(batch$v * says)
    lowest <- which.min(values)
    if (values[lowest] < best$value) best <<- list(value = values[lowest], log_density = logs[, lowest])
    values
  }
  at_once <- kind == PLAIN_ESTIMATOR && least_factor(batch, L) == 0 && prefers_one_pass(batch, L, factors, run)
  criterion <- list(
    at_once = at_once,
    values = if (at_once) \(L, powers) take(left_out_at_once(batch, L, powers, factors, run), L, powers),
    value = \(L) take(left_out_by(kind, batch, L, at_least(factors, least_factor(batch, L)), run), L)
  )
  found <- minimise(criterion, list(L), schedule = SCALE_SCHEDULE)
  c(best, list(scale = found$L[1] / L[1], converged = found$converged, stats = stats))
}

# The factor by which no column is smoothed less than its rounding needs: see finished().
least_factor <- function(data, L) {
  width <- data$columns$width / data$unit
  if (all(is.na(width))) return(0)
  max(width / (2 * factor_sds(L)), na.rm = TRUE)
}

# ---- print ------------------------------------------------------------------------------------

adaptive_note <- function(adaptive, digits) {
  if (adaptive$method == "balloon") return(balloon_note(adaptive, digits))
  factors <- adaptive$factors
  range <- vapply(range(factors), format, "", digits = digits)
  gain <- adaptive$gain
  widths <- paste0(
    "the bandwidth is multiplied by local factors from ", range[1], " to ", range[2], ", ",
    length(unique(factors)), " of them different"
  )
  if (isTRUE(adaptive$auto)) {
    return(paste0(
      "Adaptive by Abramson's rule: ", widths, ". They increase the leave-one-out log-likelihood by ",
      format(gain, digits = 2), " nats per point. Use adaptive = FALSE to fit without them."
    ))
  }
  paste0(
    "Adaptive by method \"", adaptive$method, "\": ", widths, ".",
    if (!is.null(gain)) {
      paste0(
        " They change the leave-one-out log-likelihood by ", format(gain, digits = 2), " nats per point",
        if (gain < GAIN) ", which may be chance: use adaptive = FALSE to fit without them", "."
      )
    }
  )
}
