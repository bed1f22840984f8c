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
    sources <- domain_sources(domain, work, data$weights, L, factors, run)
    sources$L <- L
    sums <- if (loo) {
      left_out_sum(sources, nrow(work), PLAIN_FACTOR, run)
    } else {
      log_sum(rows_of(sources, TRUE), work, PLAIN_FACTOR, FALSE, run)
    }
    sums$log_abs + log_kernel_norm(L) - log(others)
  }
  log_add(log_abs + log_jacobian(domain, work), log_floor_of(data))
}

# By the others, less `penalty` times what the estimate gains by the row itself.
penalised_on <- function(domain, data, L, penalty, run) {
  left_out <- log_density_on(domain, data, L, NULL, run)
  left_out - penalty * (log_density_on(domain, data, L, NULL, run, loo = FALSE) - left_out)
}

# As a criterion of bandwidth-search.R.
domain_criterion <- function(domain, data, run, factors = \(L) NULL) {
  list(rows = nrow(data$x), value = \(L) -sum(data$v * log_density_on(domain, data, L, factors(L), run)))
}

# So many of the likelihood's values a search takes.
DOMAIN_PASSES <- 60

rows_to_judge <- function(problem, rows, seconds, run) {
  n <- nrow(problem$data$x)
  if (is.null(rows)) {
    each <- pair_seconds(n, problem$data$d, run) * 2^sum(problem$domain$kind != "free")
    rows <- max(SCAN_ROWS, floor(sqrt(0.4 * seconds / (DOMAIN_PASSES * each))))
  }
  judged(sample_of(problem$data, seq_len(min(n, rows))))
}

# list(L, value, structure, converged) on the rows of `batch`, in units of the spread.
search_on_domain <- function(domain, batch, structures, run) {
  criterion <- domain_criterion(domain, batch, run)
  spread <- replace(batch, "x", list(to_working(domain, batch$x)))
  spread <- diagonal_matrix(column_scales(spread), batch$d)
  if (has_local(domain)) return(search_local(domain, batch, spread, run))
  base <- reference_factor(batch) * spread
  scaled <- scan_factor(criterion, base)
  found <- lapply(stats::setNames(nm = structures), \(name) {
    switch(name,
      scaled = scaled,
      sphered = scan_factor(criterion, reference_factor(batch) * covariance_root(batch)),
      diagonal = minimise_diagonal(criterion, scaled$L)
    )
  })
  free <- vapply(names(found), \(name) free_parameters(BANDWIDTH_STRUCTURES[[name]]$moves, batch$d), 0)
  scores <- -vapply(found, `[[`, 0, "value") - PENALTY * free / batch$n
  best <- names(found)[scores >= max(scores) - TIE][1]
  c(found[[best]], list(structure = best))
}

minimise_diagonal <- function(criterion, L0) {
  value <- \(theta) min(criterion$value(L0 %*% diagonal_matrix(exp(theta), nrow(L0))), WORST)
  found <- stats::nlminb(
    numeric(nrow(L0)), value, lower = -5, upper = 3, control = list(rel.tol = 1e-4, eval.max = 40, iter.max = 20)
  )
  list(L = L0 %*% diagonal_matrix(exp(found$par), nrow(L0)), value = found$objective, converged = TRUE)
}

# Kernels that are mirrored in a column do not correlate it with others; masses of those that correlate columns are
# known for two.
domain_structures <- function(domain, structure) {
  d <- length(domain$kind)
  if (d == 1) return("scaled")
  aslant <- !any(domain$kind == "reflect") && (d == 2 || !has_masses(domain))
  able <- c("scaled", "diagonal", if (aslant) "sphered")
  if (structure == "auto") return(c("scaled", if (aslant && has_masses(domain)) "sphered", "diagonal"))
  if (!structure %in% able) {
    choices <- quote_choices(c("auto", able))
    stop_argument("structure", "must be one of ", choices, " on this support: found \"", structure, "\"")
  }
  structure
}

# ---- method -----------------------------------------------------------------------------------

# How much what an estimate gains by a point itself counts against its method, beside the leave-one-out
# likelihood: without it, too small a bandwidth would choose (inst/bench/NOTES.md).
KIND_PENALTY <- 1

# The domain with its methods, where the user left them to us: other coordinates where the likelihood, so
# penalised, is larger by more than a quarter of a standard error, else of the others that of the larger one. What
# other coordinates do next to a bound costs little likelihood and much squared error, so it has to be clear.
# `plain`: may it be a bent estimate, which is for "kde" with one bandwidth?
choose_kind <- function(domain, points, weights, plain, run, arg) {
  open <- domain$kind == "auto"
  if (!any(open)) return(domain)
  with_kind <- \(domain, kind) replace(domain, "kind", list(ifelse(open, kind, domain$kind)))
  constant <- vapply(seq_len(ncol(points)), \(k) is_constant(points, k), NA)
  if (nrow(points) < 10 || any(constant)) return(with_kind(domain, "reflect"))
  on_edge <- \(points, domain) any(vapply(which(open), \(k) any(on_bounds(points[, k], domain, k)), NA))
  problem <- domain_data(domain, points, weights, arg)
  batch <- judged(sample_of(problem$data, seq_len(min(nrow(problem$data$x), GAIN_ROWS))))
  likelihood <- function(kind) {
    there <- with_kind(problem$domain, kind)
    penalised_on(there, batch, search_on_domain(there, batch, "scaled", run)$L, KIND_PENALTY, run)
  }
  kinds <- c(if (length(open) == 1 && plain) "boundary", "reflect")
  tried <- lapply(kinds, likelihood)
  best <- which.max(vapply(tried, \(one) sum(batch$v * one), 0))
  if (!on_edge(points, domain) && !on_edge(batch$x, problem$domain)) {
    moved <- if (length(open) == 1 && plain) "local" else "transform"
    difference <- likelihood(moved) - tried[[best]]
    gain <- sum(batch$v * difference)
    if (4 * gain > sqrt(sum((batch$v * (difference - gain))^2))) return(with_kind(domain, moved))
  }
  with_kind(domain, kinds[best])
}

# ---- bandwidth --------------------------------------------------------------------------------

# As settle_bandwidth(), on a domain that has images, masses or a kernel of its own.
domain_bandwidth <- function(problem, estimator, options, run) {
  started <- proc.time()[["elapsed"]]
  search <- search_options("auto", options$structure, options$rows, options$seconds)
  data <- problem$data
  batch <- rows_to_judge(problem, search$rows, search$seconds, run)
  found <- search_on_domain(problem$domain, batch, domain_structures(problem$domain, search$structure), run)
  rate <- if (has_local(problem$domain)) "laplace" else PLAIN_ESTIMATOR # by the order of the bias
  L <- found$L * carried(batch, data, bandwidth_rate(rate, data$d))
  L <- L * rule_factor("silverman", data$n, data$d, estimator) / reference_factor(data)
  H <- tcrossprod(problem$unit * L)
  width <- data$columns$width
  rounded <- which(width > 0)
  if (length(rounded) > 0) diag(H)[rounded] <- pmax(diagonal(H) + width^2 / 12, width^2 / 4)[rounded]
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

# As adapt_bandwidth(): list(H, L, record), or NULL where factors are not worth it. `adaptive`: of
# check_adaptive(), with factors for the points alone that are here.
adapt_on_domain <- function(problem, main, adaptive, chosen, run) {
  data <- problem$data
  domain <- problem$domain
  L <- main$L / problem$unit
  batch <- judged(sample_of(data, seq_len(min(nrow(data$x), GAIN_ROWS))))
  near <- L / carried(batch, data, bandwidth_rate(PLAIN_ESTIMATOR, data$d))
  auto <- identical(adaptive, "auto")
  many <- is.numeric(adaptive) && length(unique(adaptive)) > MOST_CLASSES
  own <- if (many) on_lattice(log(adaptive)) else if (is.numeric(adaptive)) adaptive
  factors <- if (is.null(own)) pilot_factors(domain, batch, near, run) else own[batch$source]
  scale <- 1
  gain <- NULL
  if (chosen) {
    one <- log_density_on(domain, batch, near, NULL, run)
    criterion <- domain_criterion(domain, batch, run, \(L) at_least(factors, least_factor(batch, L)))
    found <- polish_factor(criterion, USUAL_SCALE * near, step = 0.35, tol = 0.1)
    scale <- if (found$converged) found$L[1] / near[1] else 1
    own_widths <- log_density_on(domain, batch, scale * near, factors, run)
    difference <- own_widths - one
    gain <- sum(batch$v * difference)
    se <- sqrt(sum((batch$v * (difference - gain))^2))
    if (auto && !isTRUE(gain > max(GAIN, GAIN_ERRORS * se))) return(NULL)
  }
  if (is.null(own)) {
    if (nrow(batch$x) < nrow(data$x)) factors <- pilot_factors(domain, batch, near, run, data)
    own <- own_factors(at_least(factors, least_factor(data, scale * L)), data, problem$points)
  }
  method <- if (many) "given, rounded" else if (is.numeric(adaptive)) "given" else "abramson"
  record <- list(method = method, factors = own, auto = auto, scale = if (chosen) scale, gain = gain)
  list(H = scale^2 * main$H, L = scale * main$L, record = record)
}

# Abramson's, of all rows by the pilot of those of `batch`, else of these.
pilot_factors <- function(domain, batch, L, run, all = NULL) {
  L <- PILOT[[PLAIN_ESTIMATOR]] * L
  log_density <- log_density_on(domain, batch, L, NULL, run)
  if (!is.null(all)) {
    sources <- domain_sources(domain, to_working(domain, batch$x), batch$weights, L, NULL, run)
    sources <- sum_sources(sources$points, sources$weights, L)
    work <- to_working(domain, all$x)
    log_density <- log_sum(sources, work, PLAIN_FACTOR, FALSE, run)$log_abs + log_jacobian(domain, work)
    batch <- all
  }
  width <- -check_power(NULL, batch$d) * log_density
  on_lattice(width - sum(batch$v * width))
}
