# Leave-one-out values of an SD-KDE that have no formula: with several steps, and with copies or masses of a support.
# The other points are debiased anew without each point, in as many fits as there are points. Bandwidths and local
# factors are kept.

# Largest number of kernel evaluations for such fits, about a minute of a core.
MOST_REFIT_PAIRS <- 5e10

needs_refits <- function(object) UseMethod("needs_refits", object$kind)
#' @export
needs_refits.default <- function(object) is_debiased(object) && n_steps(object) > 1
#' @export
needs_refits.supported <- function(object) is_debiased(object)
#' @export
needs_refits.mapped <- function(object) needs_refits(object$inner)

can_refit <- function(object) {
  !needs_refits(object) || object$n * n_steps(object) * as.double(n_kernels(object))^2 <= MOST_REFIT_PAIRS
}

# The number of points, reflected copies included.
n_kernels <- function(object) UseMethod("n_kernels", object$kind)
#' @export
n_kernels.default <- function(object) object$n
#' @export
n_kernels.supported <- function(object) nrow(object$inner$x)

check_refits <- function(object, arg) {
  if (can_refit(object)) return(invisible())
  stop(new_error("unsupported", paste0(
    "`", arg, "` needs a fit without each of ", whole(object$n), " points, because all debiased points depend on it: ",
    "use cross_validate(), which leaves out `folds` of rows"
  ), user_call()))
}

# log_estimate() at the training points, each from a fit without it.
log_by_refits <- function(object, control) {
  control[c("tol", "engine", "precision")] <- list(0, "exact", "double")
  refits <- leave_out_refits(object, control)
  log_abs <- numeric(object$n)
  stats <- NULL
  for (i in seq_len(object$n)) {
    share_stage(control, (i - 1) / object$n, 1 / object$n)
    fit <- refits$without(-i)
    at <- shift_points(refits$places[i, , drop = FALSE], fit$centre, -1)
    found <- log_sum(fit$sources, at, PLAIN_FACTOR, FALSE, control)
    log_abs[i] <- found$log_abs
    stats <- joined_stats(stats, joined_stats(fit$stats, found$stats))
  }
  log_abs <- log_abs + log_kernel_norm(fit$sources$L) - log(loo_weight(object)) + refits$log_scale
  list(log_abs = log_abs, negative = NULL, stats = stats)
}

# Refits of unbounded densities.
#' @export
leave_out_refits.default <- function(object, control) {
  bandwidths <- bandwidths_of(object)
  data <- list(points = object$x, weights = object$weights)
  score <- if (isTRUE(object$given_score)) {
    if (is.null(object$settings)) {
      stop_argument("object", "must be a fit by flash_kde() itself: fits made from it have no `score`")
    }
    asked <- options_of_rows(object$settings, object, seq_len(object$n))$score
    given_score(asked, data, object$n, "object")
  }
  without <- function(rows) {
    data <- list(points = object$x[rows, , drop = FALSE], weights = object$weights[rows])
    path <- list(steps = object$steps, score = if (!is.null(score)) score[rows, , drop = FALSE])
    made <- debias_points(data, bandwidths, NULL, control, "object", path)
    fit_without(made, data$weights, bandwidths$main$L)
  }
  list(without = without, places = object$x, log_scale = 0)
}

# Refits of densities on a support: working points with their copies, or with weights divided by masses.
#' @export
leave_out_refits.supported <- function(object, control) {
  own <- seq_len(object$n)
  list(
    without = \(rows) domain_without(object, rows, control), places = object$inner$x[own, , drop = FALSE],
    log_scale = own_jacobian(object)
  )
}

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
  list(sources = sum_sources(points, weights, L, factors = factors), centre = made$centred$centre, stats = made$stats)
}

bandwidths_of <- function(object) {
  list(main = list(H = object$bandwidth, L = fit_factor(object)), score = list(L = score_factor(object)))
}

# Options that have one number per row, for `rows` only.
options_of_rows <- function(options, object, rows) {
  if (is.numeric(options$adaptive)) options$adaptive <- kept_rows(as.matrix(options$adaptive), object)[rows]
  if (is_number(options$score) || is.data.frame(options$score)) {
    options$score <- kept_rows(as.matrix(options$score), object)[rows, , drop = FALSE]
  }
  options
}

# The rows of `given`, which has all rows of the user's data, that are in the fit.
kept_rows <- function(given, object) {
  if (is.null(object$na.action) || nrow(given) == object$n) given else given[-object$na.action, , drop = FALSE]
}
