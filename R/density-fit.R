# Constructs objects of class flash_kde, and reads their elements.

# The object of class flash_kde. `data`: list(points, weights, omitted); `computed`: see fit_record(); `record`: the
# record of local factors, or NULL.
new_fit <- function(call, estimator, data, bandwidths, debias, control, computed, formula = NULL, record = NULL) {
  main <- bandwidths$main
  size <- dim(data$points)
  about <- list(
    call = call, estimator = estimator, n = size[1], d = size[2], x = data$points, names = dimnames(data$points)[[2]],
    weights = data$weights, bandwidth = main$H, score_bandwidth = bandwidths$score$H, selector = main$selector,
    search = main$search, adaptive = record, debiased = debias$debiased, centred = debias$centred,
    steps = debias$steps, given_score = debias$given,
    terms = formula$terms, variables = formula$variables, na.action = data$omitted
  )
  plan <- new_plan(if (is.null(debias)) data$sent)
  kept <- list(factor = list(H = main$H, L = main$L), computed = computed, plan = plan)
  object <- c(about, control$asked, kept)
  class(object) <- "flash_kde"
  object
}

# ---- debiased points --------------------------------------------------------------------------

# Debiases the points: list(debiased, centred, stats, steps, given). `factors`: local factors or NULL; `path`: see
# debias_along(). Far from the origin, adding a shift of a fraction of a bandwidth to a coordinate loses digits.
# `centred` is therefore list(centre, points), the debiased points relative to a centre, or NULL near the origin.
debias_points <- function(data, bandwidths, factors, control, arg, path = list(steps = 1L)) {
  points <- data$points
  weights <- data$weights
  name_stage(control, "Debiasing")
  centre <- far_centre(points, weights, sqrt(diagonal(bandwidths$main$H)))
  if (!is.null(centre)) check_memory(8 * 5 * length(points), arg)
  near <- shift_points(points, centre, -1)
  sources <- sum_sources(
    near, weights, bandwidths$score$L, plan = data$sent, factors = factors, discrete = data$discrete
  )
  suggest_tolerance(control, nrow(points), nrow(points), ncol(points), sources, "gaussian", own = TRUE)
  debias <- debias_along(sources, bandwidths$main$L, path, control)
  debiased <- keep_lost(debias$debiased, near, weights)
  list(
    debiased = shift_points(debiased, centre, 1), stats = debias$stats,
    steps = path$steps, given = !is.null(path$score),
    centred = if (!is.null(centre)) list(centre = centre, points = debiased)
  )
}

# The centre of each column: if all its numbers are on one side of the origin, and further from it than 1,024
# bandwidths, the nearest of them, else 0. Differences from this number are no larger than the numbers, so they keep
# all digits. NULL if all centres are 0. Rows of weight 0 are ignored.
far_centre <- function(points, weights, sds) .Call(ffi_far_centre, points, weights, 1024 * as.double(sds))

# Points of weight 0 whose score overflows keep their places, because a NaN among the centres would spoil the sums of
# all others.
keep_lost <- function(debiased, points, weights) {
  if (is.null(debiased) || is.null(weights) || all(weights > 0)) return(debiased)
  lost <- which(weights == 0 & !is.finite(rowSums(debiased)))
  debiased[lost, ] <- points[lost, ]
  debiased
}

# ---- what the fit is made of ------------------------------------------------------------------

# The centres of the kernels, relative to fit_centre(). Those of a file may have been detached since.
fit_points <- function(object) {
  x <- object$x
  if (is.object(x) && is_big(x)) check_big(x, "object")
  if (is.null(object$debiased)) return(x)
  if (is.null(object$centred)) object$debiased else object$centred$points
}

# The centre that fit_points() are relative to, or NULL for the origin.
fit_centre <- function(object) object$centred$centre

# Points that the user gave, relative to fit_centre(), and back.
from_centre <- function(object, points) shift_points(points, fit_centre(object), -1)
from_origin <- function(object, points) shift_points(points, fit_centre(object), 1)

# The centres of the kernels in the user's coordinates, for figures and samples.
shown_points <- function(object) if (is_debiased(object)) object$debiased else object$x

# The Cholesky factor of H. It is stored with its matrix, because fits of earlier versions have none, and a user may
# change the fit.
fit_factor <- function(object) {
  known <- object$factor
  if (!is.null(known) && identical(known$H, object$bandwidth)) return(known$L)
  lower_factor(object$bandwidth, "bandwidth")
}

score_factor <- function(object) lower_factor(object$score_bandwidth, "score_bandwidth")

# The sources of the sums of the estimate. Targets must be relative to fit_centre() as well.
fit_sources <- function(object) {
  adaptive <- object$adaptive
  sum_sources(
    fit_points(object), object$weights, fit_factor(object), fit_kernel(object), plan = object$plan,
    factors = adaptive$factors, target_factors = if (!is.null(adaptive)) balloon_widths(object), discrete = object$discrete
  )
}

# width_classes() of its kernels, in units of its bandwidth.
fit_classes <- function(object) {
  factors <- object$adaptive$factors
  if (is.null(factors)) list(factors = 1, rows = list(seq_len(object$n))) else width_classes(factors)
}

# The controls of the fit, for start_run(). Fields missing from fits of earlier versions take their defaults.
fit_asked <- function(object) {
  asked <- .subset(object, names(CONTROL_DEFAULTS))
  if (!is.null(asked$cluster) && cluster_has_ended(asked$cluster)) asked["cluster"] <- list(NULL)
  known <- names(asked)
  if (!anyNA(known)) return(asked)
  replace(CONTROL_DEFAULTS, known[!is.na(known)], asked[!is.na(known)])
}

# The controls as a list for C, for callers that close the progress bar themselves.
fit_control <- function(object) run_control(fit_asked(object))

total_weight <- function(object) {
  if (!is.null(object$weights)) return(sum(object$weights))
  if (is.object(object$x) && has_remote_weights(object)) object$x$total_weight else object$n
}

# Which rows are part of the estimate: those of positive weight, all of them without weights.
used_rows <- function(object) {
  weights <- own_weights(object)
  if (is.null(weights)) rep(TRUE, object$n) else weights > 0
}

# Number of points with positive weight. Allocates no logical vector without weights.
n_used <- function(object) {
  if (has_remote_weights(object)) return(object$x$positive)
  if (is.null(object$weights)) object$n else sum(object$weights > 0)
}

# The weights; those of a flash_data() are fetched.
own_weights <- function(object) if (has_remote_weights(object)) fetch_weights(object$x) else object$weights

# Kish's effective sample size: n with equal weights.
effective_size <- function(weights, n) {
  if (is.null(weights)) return(as.double(n))
  weights <- relative_to_largest(weights)
  sum(weights)^2 / sum(weights^2)
}

fit_size <- function(object) {
  if (has_remote_weights(object)) return(object$x$total_weight^2 / object$x$square_weight)
  effective_size(object$weights, object$n)
}

# Names of the columns, with defaults for columns without names.
point_names <- function(object) {
  if (has_names(object$names)) return(object$names)
  if (object$d == 1) "x" else paste0("x", seq_len(object$d), recycle0 = TRUE)
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

