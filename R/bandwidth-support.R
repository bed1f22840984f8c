# Methods, bandwidths and factors on a domain, by the leave-one-out likelihood of the plain estimate there. All by
# values of the likelihood alone, on as many rows as the budget allows.

# What they go by: list(data, domain, points, unit), the data of clean_points() in units of the columns' spread,
# judged(), the domain in these units, and the points that they are of, where circular columns begin opposite to
# their mean.
domain_data <- function(domain, points, weights, arg) {
  for (k in which(domain$kind == "circular")) {
    period <- domain$upper[k] - domain$lower[k]
    angle <- 2 * pi * (points[, k] - domain$lower[k]) / period
    w <- if (is.null(weights)) 1 else weights
    mean <- atan2(sum(w * sin(angle)), sum(w * cos(angle))) * period / (2 * pi)
    domain$lower[k] <- domain$lower[k] + mean - period / 2
    domain$upper[k] <- domain$lower[k] + period
    points[, k] <- turned(points[, k], domain$lower[k], period)
  }
  data <- clean_points(points, weights, arg)
  domain$lower <- (domain$lower - data$origin) / data$unit
  domain$upper <- (domain$upper - data$origin) / data$unit
  domain$polygon <- if (!is.null(domain$polygon)) {
    lapply(domain$polygon, \(ring) t((t(ring) - data$origin) / data$unit))
  }
  # rows that were spread over their rounding may have left
  bounded <- is.finite(domain$lower) | is.finite(domain$upper)
  data$x <- folded(replace(domain, "kind", list(ifelse(bounded, "reflect", "free"))), data$x)
  # transformed columns are the same in any units, and not rounded
  transformed <- is_transformed(domain)
  data$columns$width[transformed] <- NA
  list(data = judged(data), domain = domain, points = points, unit = ifelse(transformed, 1, data$unit))
}

# The log density of each row by the others (without `loo` by all), in the user's coordinates but for the units,
# with the floor of the likelihood.
log_density_on <- function(domain, data, L, factors, run, loo = TRUE) {
  work <- to_working(domain, data$x)
  others <- if (loo) data$others else data$total
  log_abs <- if (is_bent(domain)) {
    sources <- sum_sources(work, data$weights, L)
    log_bent(domain, sources, if (!loo) work[, 1], loo, others, run)$log_abs -
      log(bent_total(domain, sources, data$total, run))
  } else {
    log_sum_on(domain, data, L, factors, NULL, loo, run)$log_abs + log_kernel_norm(L) - log(others)
  }
  log_add(log_abs + log_jacobian(domain, work), log_floor_of(data))
}

# log_sum() over the rows of `data` on a domain, at working points (NULL: those of the rows). Sums of products over
# columns are used where they take less time.
log_sum_on <- function(domain, data, L, factors, at, loo, run) {
  work <- to_working(domain, data$x)
  if (has_images(domain) && is_diagonal(L)) {
    seconds <- domain_seconds(domain, work, nrow(if (is.null(at)) work else at), L, factors, run)
    if (seconds$product < seconds$images) {
      sources <- mass_sources(domain, work, data$weights, L, factors, run)
      return(log_product_sum(domain, sources, L, at, loo))
    }
  }
  sources <- domain_sources(domain, work, data$weights, L, factors, run)
  sources$L <- L
  if (loo) return(left_out_sum(sources, nrow(work), PLAIN_FACTOR, run))
  log_sum(rows_of(sources, TRUE), if (is.null(at)) work else at, PLAIN_FACTOR, FALSE, run)
}

# A criterion for bandwidth-search.R, as a function of L within `limits` (see image_limits()).
domain_criterion <- function(domain, data, run, limits = identity, factors = \(L) NULL) {
  last <- list()
  value <- function(L) {
    L <- limits(L)
    # beyond the limits there is one value
    if (!identical(last$L, L)) {
      last <<- list(L = L, value = -sum(data$v * log_density_on(domain, data, L, factors(L), run)))
    }
    last$value
  }
  list(rows = nrow(data$x), value = value)
}

# So many of the likelihood's values a search takes.
DOMAIN_PASSES <- 60

rows_to_judge <- function(problem, rows, seconds, run) {
  n <- nrow(problem$data$x)
  if (is.null(rows)) rows <- rows_affordable(problem, 0.4 * seconds / DOMAIN_PASSES, run)
  judged(sample_of(problem$data, seq_len(min(n, rows))))
}

# So many rows take about so many seconds to sum at, but no fewer than a search needs. A bound doubles the points of
# each column; from seven columns on products over columns take less.
rows_affordable <- function(problem, seconds, run) {
  bounded <- sum(problem$domain$kind != "free")
  least <- if (sum(problem$domain$kind %in% c("reflect", "circular", "auto")) < 7) SCAN_ROWS else SCAN_ROWS / 2
  each <- pair_seconds(nrow(problem$data$x), problem$data$d, run) * min(2^bounded, 20 * bounded)
  max(least, floor(sqrt(seconds / each)))
}

# list(L, value, structure, converged) on the rows of `batch`, which stand for `n`, in units of the spread.
search_on_domain <- function(domain, batch, n, structures, seconds, run) {
  limits <- image_limits(domain, batch$x, n)
  criterion <- domain_criterion(domain, batch, run, limits)
  spread <- replace(batch, "x", list(to_working(domain, batch$x)))
  spread <- diagonal_matrix(column_scales(spread), batch$d)
  if (has_local(domain)) return(search_local(domain, batch, spread, run))
  base <- reference_factor(batch) * spread
  scan <- \(L) minimise(criterion, list(L), schedule = list(scan = c(0.05, 3)))
  scaled <- scan(base)
  scaled$L <- limits(scaled$L)
  found <- lapply(stats::setNames(nm = structures), \(name) {
    switch(name,
      scaled = scaled,
      sphered = scan(reference_factor(batch) * covariance_root(batch)),
      diagonal = minimise(criterion, list(scaled$L), "diagonal", few_steps(domain, batch, scaled$L, seconds, run))
    )
  })
  best <- pick_structure(found, batch)$name
  found[[best]]$L <- limits(found[[best]]$L)
  c(found[[best]], list(structure = best))
}

# The schedule of a search in d parameters whose steps, each of d + 1 values of the likelihood, take about half of the
# seconds.
few_steps <- function(domain, batch, L, seconds, run) {
  each <- domain_seconds(domain, to_working(domain, batch$x), nrow(batch$x), L, NULL, run)
  steps <- max(1, min(20, floor(0.5 * seconds / ((batch$d + 1) * min(each$product, each$images)))))
  list(scale = 1, control = list(rel.tol = 1e-4, eval.max = 2 * steps, iter.max = steps))
}

# The structures that a search on a domain compares. Unless one is named, they have at most a tenth as many parameters
# as there are rows, or three. Reflected columns must be uncorrelated with others. The probabilities of correlated
# kernels inside the bounds are available for two columns.
domain_structures <- function(domain, structure, n) {
  d <- length(domain$kind)
  if (d == 1) return("scaled")
  aslant <- !any(domain$kind == "reflect") && (d == 2 || !has_masses(domain))
  able <- c("scaled", "diagonal", if (aslant) "sphered")
  if (structure == "auto") {
    return(c("scaled", if (aslant && has_masses(domain)) "sphered", if (d <= max(n / 10, 3)) "diagonal"))
  }
  if (!structure %in% able) {
    choices <- quote_choices(c("auto", able))
    stop_argument("structure", "must be one of ", choices, " on this support: found \"", structure, "\"")
  }
  structure
}

# ---- method -----------------------------------------------------------------------------------

# Weight of a penalty for optimism when methods are compared: how much a point increases the density at itself. Without
# it the comparison favours too small a bandwidth (bench/NOTES.md).
KIND_PENALTY <- 1

# So many of the likelihood's values it takes to find the best bandwidth of one method.
KIND_PASSES <- 25

# The domain with its methods, where the user left them to us: other coordinates where the likelihood, so
# penalised, is larger by more than a quarter of a standard error, else of the others that of the larger one. What
# other coordinates do next to a bound costs little likelihood and much squared error, so it has to be clear.
# `plain`: may it be a bent estimate, which is for "kde" with one bandwidth?
choose_kind <- function(domain, points, weights, plain, options, run, arg) {
  open <- domain$kind == "auto"
  if (!any(open)) return(domain)
  # rows without weight do not count
  if (!is.null(weights)) points <- points[weights > 0, , drop = FALSE]
  weights <- weights[weights > 0]
  with_kind <- \(domain, kind) replace(domain, "kind", list(ifelse(open, kind, domain$kind)))
  constant <- vapply(seq_len(ncol(points)), \(k) is_constant(points, k), NA)
  if (nrow(points) < 10 || any(constant)) return(with_kind(domain, "reflect"))
  on_edge <- \(points, domain) any(vapply(which(open), \(k) any(on_bounds(points[, k], domain, k)), NA))
  problem <- domain_data(domain, points, weights, arg)
  at_edge <- on_edge(points, domain) || on_edge(problem$data$x, problem$domain)
  if (!has_room(with_kind(domain, "reflect"), points, with_kind(problem$domain, "reflect"), problem$data, options)) {
    signed <- !is_auto(options$estimator) && ESTIMATORS[[check_estimator(options$estimator)]]$signed
    return(with_kind(domain, if (!at_edge) "transform" else if (signed) "reflect" else "mass"))
  }
  seconds <- search_options("auto", options$structure, options$rows, options$seconds)$seconds
  rows <- min(nrow(problem$data$x), GAIN_ROWS, rows_affordable(problem, 0.6 * seconds / KIND_PASSES, run))
  batch <- judged(sample_of(problem$data, seq_len(rows)))
  likelihood <- function(kind) {
    there <- with_kind(problem$domain, kind)
    found <- search_on_domain(there, batch, nrow(points), "scaled", seconds, run)
    penalised_on(there, batch, found$L, KIND_PENALTY, run)
  }
  kinds <- c(if (length(open) == 1 && plain) "boundary", "reflect")
  tried <- lapply(kinds, likelihood)
  best <- which.max(vapply(tried, \(one) sum(batch$v * one), 0))
  if (!at_edge) {
    moved <- if (length(open) == 1 && plain) "local" else "transform"
    found <- gain_over(tried[[best]], likelihood(moved), batch$v)
    if (4 * found$gain > found$se) return(with_kind(domain, moved))
  }
  with_kind(domain, kinds[best])
}

# Is there memory for the images of kernels of the bandwidth that was asked for, or for those of one that suits the
# data? `domain`: of the points; `own`: the same in units of `data`.
has_room <- function(domain, points, own, data, options) {
  if (is_chosen(options$bandwidth)) return(has_room_for_images(own, data))
  L <- want_bandwidth(options$bandwidth, points, NULL, "bandwidth")$L
  image_bytes(sum(image_counts(domain, points, factor_sds(L))), ncol(points)) <= memory_limit()
}

# ---- bandwidth --------------------------------------------------------------------------------

# settle_bandwidth() on a domain with reflected or periodic copies, masses or a boundary kernel.
domain_bandwidth <- function(problem, estimator, options, run) {
  started <- proc.time()[["elapsed"]]
  search <- search_options("auto", options$structure, options$rows, options$seconds)
  data <- problem$data
  if (!has_room_for_images(problem$domain, data)) refuse_images(problem$domain)
  batch <- rows_to_judge(problem, search$rows, search$seconds, run)
  structures <- domain_structures(problem$domain, search$structure, data$n)
  found <- search_on_domain(problem$domain, batch, nrow(data$x), structures, search$seconds, run)
  rate <- if (has_local(problem$domain)) "laplace" else PLAIN_ESTIMATOR # by the order of the bias
  L <- found$L * carried(batch, data, bandwidth_rate(rate, data$d))
  L <- L * rule_factor("silverman", data$n, data$d, estimator) / reference_factor(data)
  L <- image_limits(problem$domain, data$x, nrow(data$x))(L)
  H <- tcrossprod(problem$unit * L)
  if (any(data$columns$width > 0, na.rm = TRUE)) diag(H) <- raised_variances(diagonal(H), data$columns)
  dimnames(H) <- if (!is.null(problem$domain$names)) list(problem$domain$names, problem$domain$names)
  score <- if (identical(estimator, "sdkde")) list(H = SCORE_RATIO * H, L = sqrt(SCORE_RATIO) * problem$unit * L)
  list(
    main = list(
      H = H, L = lower_factor(H, "bandwidth"), selector = "lcv",
      stats = list(seconds = proc.time()[["elapsed"]] - started)
    ),
    score = score
  )
}

# ---- factors ----------------------------------------------------------------------------------

# adapt_bandwidth() on a domain: list(H, L, record), or NULL if the factors do not gain enough. `adaptive`: the result
# of check_adaptive(), with factors only for these points.
adapt_on_domain <- function(problem, main, adaptive, chosen, seconds, run) {
  data <- problem$data
  domain <- problem$domain
  L <- main$L / problem$unit
  rows <- min(nrow(data$x), GAIN_ROWS, rows_affordable(problem, 0.3 * seconds / 10, run))
  batch <- judged(sample_of(data, seq_len(rows)))
  near <- L / carried(batch, data, bandwidth_rate(PLAIN_ESTIMATOR, data$d))
  auto <- identical(adaptive, "auto")
  many <- is.numeric(adaptive) && length(unique(adaptive)) > MOST_CLASSES
  own <- if (many) on_lattice(log(adaptive)) else if (is.numeric(adaptive)) adaptive
  factors <- if (is.null(own)) pilot_factors(domain, batch, near, run) else own[batch$source]
  scale <- 1
  gain <- NULL
  if (chosen) {
    one <- log_density_on(domain, batch, near, NULL, run)
    widest <- image_limits(domain, batch$x, nrow(data$x), factors)
    criterion <- domain_criterion(domain, batch, run, widest, \(L) at_least(factors, least_factor(batch, L)))
    found <- minimise(criterion, list(USUAL_SCALE * near), schedule = SCALE_SCHEDULE)
    found$L <- widest(found$L)
    scale <- if (found$converged) found$L[1] / near[1] else 1
    over <- gain_over(one, log_density_on(domain, batch, scale * near, factors, run), batch$v)
    gain <- over$gain
    if (auto && !isTRUE(gain > max(GAIN, GAIN_ERRORS * over$se))) return(NULL)
  }
  if (is.null(own)) {
    if (nrow(batch$x) < nrow(data$x)) factors <- pilot_factors(domain, batch, near, run, data)
    own <- own_factors(at_least(factors, least_factor(data, scale * L)), data, problem$points)
  }
  # reflected and periodic copies of the rows
  copies <- sum(image_counts(domain, data$x, factor_sds(scale * L), factors))
  if (auto && image_bytes(copies, data$d) > memory_limit()) return(NULL)
  method <- if (many) "given, rounded" else if (is.numeric(adaptive)) "given" else "abramson"
  record <- list(method = method, factors = own, auto = auto, scale = if (chosen) scale, gain = gain)
  list(H = scale^2 * main$H, L = scale * main$L, record = record)
}

# Abramson's, of all rows by the pilot of those of `batch`, else of these.
pilot_factors <- function(domain, batch, L, run, all = NULL) {
  L <- PILOT[[PLAIN_ESTIMATOR]] * L
  log_density <- log_density_on(domain, batch, L, NULL, run)
  if (!is.null(all)) {
    work <- to_working(domain, all$x)
    log_density <- log_sum_on(domain, batch, L, NULL, work, FALSE, run)$log_abs + log_jacobian(domain, work)
    batch <- all
  }
  width <- -check_power(NULL, batch$d) * log_density
  on_lattice(width - sum(batch$v * width))
}
