# Points of an SD-KDE left out where no formula knows where all others end without one: in several steps, and with
# images or masses of a support. The others are debiased anew without each point, so these are as many fits as there
# are points; bandwidths and factors stay.

# Kernels of pairs that these may take, about a minute of a core.
MOST_REFIT_PAIRS <- 5e10

needs_refits <- function(object) {
  is_debiased(object) && (n_steps(object) > 1 || !is.null(object$inner) && !only_transforms(object$support))
}

can_refit <- function(object) {
  rows <- NROW(if (is.null(object$inner)) object$x else object$inner$x)
  !needs_refits(object) || object$n * n_steps(object) * as.double(rows)^2 <= MOST_REFIT_PAIRS
}

check_refits <- function(object, arg) {
  if (can_refit(object)) return(invisible())
  stop(new_error("unsupported", paste0(
    "`", arg, "` of ", whole(object$n), " points takes as many fits, as each has a part in where all others end: ",
    "cross_validate() fits again without each of as many `folds` as you like"
  ), user_call()))
}

# As log_estimate(), with each point left out.
log_by_refits <- function(object, control) {
  control[c("tol", "engine", "precision")] <- list(0, "exact", "double")
  inside <- !is.null(object$inner)
  without <- if (inside) \(rows) domain_without(object, rows, control) else steps_without(object, control)
  log_abs <- numeric(object$n)
  stats <- NULL
  for (i in seq_len(object$n)) {
    share_stage(control, (i - 1) / object$n, 1 / object$n)
    fit <- without(-i)
    at <- (if (inside) object$inner$x else object$x)[i, , drop = FALSE]
    found <- log_sum(fit$sources, shift_points(at, fit$centre, -1), PLAIN_FACTOR, FALSE, control)
    log_abs[i] <- found$log_abs
    stats <- joined_stats(stats, joined_stats(fit$stats, found$stats))
  }
  log_abs <- log_abs + log_kernel_norm(fit$sources$L) - log(loo_weight(object))
  if (inside) log_abs <- log_abs + log_jacobian(object$support, object$inner$x[seq_len(object$n), , drop = FALSE])
  list(log_abs = log_abs, negative = NULL, stats = stats)
}

# list(sources, centre, stats) of the fit to some `rows`, which are debiased in as many steps.
steps_without <- function(object, control) {
  bandwidths <- bandwidths_of(object)
  data <- list(points = object$x, weights = object$weights)
  score <- if (isTRUE(object$given_score)) {
    if (is.null(object$settings)) {
      stop_argument("object", "must be a fit by flash_kde() itself, as others have lost their `score`")
    }
    asked <- options_of_rows(object$settings, object, seq_len(object$n))$score
    given_score(asked, data, object$n, "object")
  }
  function(rows) {
    data <- list(points = object$x[rows, , drop = FALSE], weights = object$weights[rows])
    path <- list(steps = object$steps, score = if (!is.null(score)) score[rows, , drop = FALSE])
    made <- debias_points(data, bandwidths, NULL, control, "object", path)
    fit_without(made, data$weights, bandwidths$main$L)
  }
}

# The same of the working points of a support, with their images, or with weights over their masses.
domain_without <- function(object, rows, control) {
  inner <- object$inner
  domain <- object$support
  bandwidths <- bandwidths_of(inner)
  own <- seq_len(object$n)[rows]
  points <- inner$x[own, , drop = FALSE]
  given <- object$weights[own]
  sources <- domain_sources(domain, points, given, bandwidths$main$L, inner$adaptive$factors[own], control)
  made <- debias_inside(domain, sources[c("points", "weights")], bandwidths, sources$factors, control, "object")
  weights <- sources$weights
  if (has_masses(domain)) {
    if (!is.null(sources$row)) given <- given[sources$row]
    weights <- mass_sources(domain, made$debiased, given, bandwidths$main$L, sources$factors, control)$weights
  }
  fit_without(made, weights, bandwidths$main$L, sources$factors)
}

fit_without <- function(made, weights, L, factors = NULL) {
  points <- if (is.null(made$centred)) made$debiased else made$centred$points
  list(
    sources = sum_sources(points, weights, L, factors = factors), centre = made$centred$centre, stats = made$stats
  )
}

bandwidths_of <- function(object) {
  list(main = list(H = object$bandwidth, L = fit_factor(object)), score = list(L = score_factor(object)))
}

# Those that are a number for each row, of these alone.
options_of_rows <- function(options, object, rows) {
  if (is.numeric(options$adaptive)) options$adaptive <- kept_rows(as.matrix(options$adaptive), object)[rows]
  if (is_number(options$score) || is.data.frame(options$score)) {
    options$score <- kept_rows(as.matrix(options$score), object)[rows, , drop = FALSE]
  }
  options
}

# Of what the user gave for all rows, those that are in the fit.
kept_rows <- function(given, object) {
  if (is.null(object$na.action) || nrow(given) == object$n) given else given[-object$na.action, , drop = FALSE]
}
