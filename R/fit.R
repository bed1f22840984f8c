# What all methods of flash_kde() share: from checked points to an object of class flash_kde.

# `arg` is what the user calls the points; `call` is the call to store; `formula`: what a fit by formula
# keeps for its predictions (formula_data()).
fit_kde <- function(points, arg, call, estimator, bandwidth, score_bandwidth, weights, backend,
                    precision, threads, devices, tol, tol_type, na.action, formula = NULL) {
  # Everything is checked before anything is computed.
  estimator <- check_estimator(estimator)
  control <- fk_control(backend, precision, threads, devices, tol = tol, tol_type = tol_type)
  on.exit(close_progress(control))
  # A back end that cannot be had is an error here, also where the fit itself sums nothing.
  resolved <- resolve_control(control, nrow(points), nrow(points), ncol(points))
  weights <- check_weights(weights, nrow(points), missing = TRUE)
  kept <- handle_missing(points, weights, na.action, arg)
  points <- kept$points
  weights <- common_scale(check_weights(kept$weights, nrow(points)))
  d <- ncol(points)
  check_fit_memory(points, estimator, arg)
  if (!is.null(score_bandwidth) && estimator != "sdkde") {
    stop_argument("score_bandwidth", "is for estimator = \"sdkde\" only: found \"", estimator, "\"")
  }
  wanted <- want_bandwidth(bandwidth, points, weights, estimator, "bandwidth")
  wanted_score <- want_bandwidth(score_bandwidth, points, weights, estimator, "score_bandwidth")

  settle <- function(wanted, name) {
    settle_bandwidth(wanted, points, weights, estimator, control, name, arg)
  }
  main <- settle(wanted, "bandwidth")
  score <- if (estimator == "sdkde") {
    if (is.null(score_bandwidth)) main else settle(wanted_score, "score_bandwidth")
  }
  debias <- if (estimator == "sdkde") debias_points(points, weights, main, score, control, arg)

  stages <- list(
    bandwidth = main$stats,
    score_bandwidth = if (!is.null(score_bandwidth)) score$stats,
    debias = debias$stats
  )
  new_fit(
    call, estimator, points, weights, main, control, threads, devices, resolved, stages, score$H, debias, formula,
    kept$omitted
  )
}

# The object itself, of what was found.
new_fit <- function(call, estimator, points, weights, main, control, threads, devices, resolved,
                    stages = list(), score_bandwidth = NULL, debias = NULL, formula = NULL, omitted = NULL) {
  object <- list(
    call = call, estimator = estimator, n = nrow(points), d = ncol(points), x = points,
    names = colnames(points), weights = weights, bandwidth = main$H, score_bandwidth = score_bandwidth,
    selector = main$selector, debiased = debias$debiased, centred = debias$centred, terms = formula$terms,
    variables = formula$variables, na.action = omitted, backend = control$backend, precision = control$precision,
    threads = threads, devices = devices, tol = control$tol, tol_type = control$tol_type, plan = .Call(ffi_plan)
  )
  object$diagnostics <- fit_record(object, Filter(Negate(is.null), stages), resolved)
  structure(object, class = "flash_kde")
}

# ---- debiased points --------------------------------------------------------------------------

# list(debiased, centred, stats). Far from the origin a shift of a fraction of a bandwidth loses digits when it is
# added to a coordinate: `centred`, list(centre, points), keeps the debiased points relative to a centre; NULL
# where there is none.
debias_points <- function(points, weights, main, score, control, arg) {
  name_stage(control, "Debiasing")
  suggest_tolerance(control, nrow(points), nrow(points), ncol(points), own = TRUE)
  centre <- far_centre(points, weights, bandwidth_sds(main$H))
  if (!is.null(centre)) check_memory(8 * 5 * length(points), arg)
  near <- shift_points(points, centre, -1)
  debias <- .Call(ffi_debias, sum_sources(near, weights, score$L), main$L, control)
  debiased <- keep_lost(debias$debiased, near, weights)
  list(
    debiased = shift_points(debiased, centre, 1), stats = debias$stats,
    centred = if (!is.null(centre)) list(centre = centre, points = debiased)
  )
}

# Where all numbers of a column are on one side of the origin, and further from it than a thousand bandwidths, the
# nearest of them: the difference of any other and this one is no larger than the number itself, so it keeps all
# digits. 0 for other columns; NULL where all are 0.
far_centre <- function(points, weights, sds) {
  rows <- if (!is.null(weights) && any(weights == 0)) which(weights > 0) else seq_len(nrow(points))
  nearest <- function(column, far) {
    range <- range(column)
    value <- max(range[1], 0) + min(range[2], 0)
    if (abs(value) > far) value else 0
  }
  some <- utils::head(rows, 1000)
  centre <- vapply(seq_len(ncol(points)), \(k) {
    # the first rows nearly always tell, without a copy of the column
    value <- nearest(points[some, k], 1024 * sds[k])
    if (value == 0 || length(some) == length(rows)) value else nearest(points[rows, k], 1024 * sds[k])
  }, 0)
  if (any(centre != 0)) centre
}

# The points themselves, uncopied, where `centre` is NULL.
shift_points <- function(points, centre, sign) {
  if (is.null(centre)) return(points)
  points + if (length(centre) == 1) sign * centre else rep(sign * centre, each = nrow(points))
}

# A point of weight 0 may lie where the score overflows. It is no part of the estimate, and stays where
# it was: a NaN among the centres would spoil the sums of all others.
keep_lost <- function(debiased, points, weights) {
  if (is.null(debiased) || is.null(weights) || all(weights > 0)) return(debiased)
  lost <- which(weights == 0 & !is.finite(rowSums(debiased)))
  debiased[lost, ] <- points[lost, ]
  debiased
}

# ---- weights and memory -----------------------------------------------------------------------

# Only ratios of weights matter to a density: very small or large ones are made relative to the largest, unless the
# lightest would be lost by it.
common_scale <- function(weights) {
  if (is.null(weights)) return(NULL)
  top <- max(weights)
  if (top >= 1e-100 && top <= 1e100) return(weights)
  scaled <- weights / top
  if (any(scaled < .Machine$double.xmin & weights > 0)) weights else scaled
}

# For sums of squares, in which the lightest do not count: they may become 0.
relative_to_largest <- function(weights) weights / max(weights)

# On the safe side: the engine holds less than a whitened copy beside the debiased points.
check_fit_memory <- function(points, estimator, arg) {
  copies <- if (estimator == "sdkde") 4 else 1
  check_memory(8 * copies * length(points), arg)
}

# ---- bandwidths -------------------------------------------------------------------------------

# Checks what was given, computes nothing yet. Returns the name of a selector, or H and its factor.
want_bandwidth <- function(bandwidth, points, weights, estimator, arg) {
  d <- ncol(points)
  if (!is.null(bandwidth) && !is.character(bandwidth)) {
    found <- as_bandwidth(bandwidth, d, arg, colnames(points))
    return(c(found, list(selector = selector_of(bandwidth))))
  }
  if (is.null(bandwidth)) default_selector() else check_selector(bandwidth, d, weights, arg)
}

# `name`: what the user calls this bandwidth; `arg`: what the user calls the points.
settle_bandwidth <- function(wanted, points, weights, estimator, control, name, arg) {
  if (is.list(wanted)) return(wanted)
  check_spread(points, arg, weights, cure = paste0(" (give `", name, "` as a number)"))
  started <- proc.time()[["elapsed"]]
  selected <- select_bandwidth(wanted, points, weights, estimator, control, arg)
  # what the search takes beside its sums counts, too
  stats <- as.list(selected$stats)
  stats$seconds <- proc.time()[["elapsed"]] - started
  c(
    as_bandwidth(selected$bandwidth, ncol(points), name, colnames(points)),
    list(selector = selected$selector, stats = stats)
  )
}

# ---- what the fit is made of ------------------------------------------------------------------

# The centres of the kernels, relative to fit_centre(). Those of a file may have been detached since.
fit_points <- function(object) {
  if (is_big(object$x)) check_big(object$x, "object")
  if (object$estimator != "sdkde") return(object$x)
  if (is.null(object$centred)) object$debiased else object$centred$points
}

# NULL for the origin.
fit_centre <- function(object) object$centred$centre

# Points that the user gave, relative to fit_centre(), and back.
from_centre <- function(object, points) shift_points(points, fit_centre(object), -1)
from_origin <- function(object, points) shift_points(points, fit_centre(object), 1)

# The centres of the kernels as the user knows them, for figures and samples.
shown_points <- function(object) if (object$estimator == "sdkde") object$debiased else object$x

fit_factor <- function(object) lower_factor(object$bandwidth, "bandwidth")

# A fit from before there were devices or tolerances has none: the default.
fit_control <- function(object) {
  tol <- if (is.null(object$tol)) 0 else object$tol
  tol_type <- if (is.null(object$tol_type)) "global" else object$tol_type
  fk_control(
    object$backend, object$precision, object$threads, object$devices, tol = tol, tol_type = tol_type
  )
}

total_weight <- function(object) if (is.null(object$weights)) object$n else sum(object$weights)

# Which rows are part of the estimate: those of positive weight, all of them without weights.
used_rows <- function(object) {
  if (is.null(object$weights)) rep(TRUE, object$n) else object$weights > 0
}

# How many, without a vector of them where all are.
n_used <- function(object) if (is.null(object$weights)) object$n else sum(object$weights > 0)

# Kish's effective sample size: n with equal weights.
effective_size <- function(weights, n) {
  if (is.null(weights)) return(as.double(n))
  weights <- relative_to_largest(weights)
  sum(weights)^2 / sum(weights^2)
}

# log of the kernel's height, for H = L L'.
log_kernel_norm <- function(L) -nrow(L) * log(2 * pi) / 2 - sum(log(diag(L)))

# Names for the columns, also where the user gave none.
point_names <- function(object) {
  if (has_names(object$names)) return(object$names)
  if (object$d == 1) "x" else paste0("x", seq_len(object$d))
}

# What is summed over, as the routines in C take it. `plan`: a handle (ffi_plan) that keeps what they prepare.
sum_sources <- function(points, weights, L, kernel = "gaussian", plan = NULL) {
  list(points = points, weights = weights, L = L, kernel = kernel, plan = plan)
}
