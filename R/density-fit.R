# What all methods of flash_kde() share: from checked points to an object of class flash_kde.

# `arg` is what the user calls the points; `call` is the call to store; `options`: a list of estimator, bandwidth,
# score_bandwidth, structure, rows, seconds, adaptive, steps, score, nonnegative, lambda, discrete_kernel, support, kernel,
# weights and na.action, as the user gave them; `control`: of start_run(); `formula`: what a fit by formula keeps
# for its predictions (formula_data()).
fit_kde <- function(points, arg, call, options, control, formula = NULL) {
  if (is_mixed(points)) return(fit_mixed(points, arg, call, options, control, formula))
  check_no_levels(options)
  if (!is.null(options$support)) return(fit_on_support(points, arg, call, options, control, formula))
  # Everything is checked before anything is computed.
  options <- check_debiasing(options, nrow(points))
  options <- check_fit_kernel(options, ncol(points), control)
  adaptive <- check_adaptive(options$adaptive, nrow(points))
  estimator <- adaptive_estimator(options$estimator, adaptive)
  if (identical(adaptive, "auto") && !may_adapt(options, nrow(points))) adaptive <- NULL
  # A back end that cannot be had is an error here, also where the fit itself sums nothing.
  resolved <- resolve_control(
    if (has_gaussian(options)) control else on_cpu(control), nrow(points), nrow(points), ncol(points)
  )
  weights <- check_weights(options$weights, nrow(points), missing = TRUE)
  data <- handle_missing(points, weights, options$na.action, arg)
  if (!is.null(weights)) data$weights <- common_scale(check_weights(data$weights, nrow(data$points)))
  debiased <- ESTIMATORS[[estimator]]$debiased
  check_fit_memory(data$points, debiased, options$steps, arg)
  if (!is.null(options$score_bandwidth) && !debiased) {
    stop_argument("score_bandwidth", "is for estimator = \"sdkde\" only: found \"", estimator, "\"")
  }
  data$clean <- once(clean_points(data$points, data$weights, arg)) # if a search wants it
  path <- list(steps = options$steps, score = given_score(options$score, data, nrow(points), arg))
  bandwidths <- fit_bandwidths(data, estimator, options, control, arg)
  adapted <- if (!is.null(adaptive)) {
    adapt_bandwidth(data, bandwidths$main, estimator, adaptive, options, control, arg)
  }
  data$clean <- NULL
  if (isTRUE(adapted$record$auto)) estimator <- PLAIN_ESTIMATOR
  if (!is.null(adapted$record)) bandwidths <- adapted_bandwidths(bandwidths, adapted, estimator, options)
  bandwidths$main <- for_kernel(bandwidths$main, data, estimator, options, !is.null(adapted$record), control)
  debias <- if (ESTIMATORS[[estimator]]$debiased) {
    debias_points(data, bandwidths, adapted$record$factors, control, arg, path)
  }
  stages <- list(
    bandwidth = bandwidths$main$stats, adaptive = adapted$stats,
    score_bandwidth = if (!is.null(options$score_bandwidth)) bandwidths$score$stats,
    debias = debias$stats
  )
  computed <- list(stages = stages[lengths(stages) > 0], resolved = resolved)
  object <- new_fit(call, estimator, data, bandwidths, debias, control, computed, formula, adapted$record)
  object$kernel <- options$kernel
  object$settings <- fit_settings(options)
  if (options$nonnegative) clipped(object) else object
}

# What a fit to some of the points goes by.
fit_settings <- function(options) options[setdiff(names(options), c("weights", "na.action", "asked"))]

# A function that computes `value`, a promise, when it is first called.
once <- function(value) function() value

# The object itself, of what was found. `data`: a list of points, weights and omitted; `computed`: see fit_record();
# `record`: of an adaptive fit.
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
  kept <- list(factor = list(H = main$H, L = main$L), computed = computed, plan = new_plan())
  object <- c(about, control$asked, kept)
  class(object) <- "flash_kde"
  object
}

# ---- debiased points --------------------------------------------------------------------------

# list(debiased, centred, stats, steps, given). `factors`: of an adaptive fit, else NULL; `path`: of debias_along().
# Far from the origin a shift of a fraction of a bandwidth loses digits when it is added to a coordinate: `centred`,
# list(centre, points), keeps the debiased points relative to a centre; NULL where there is none.
debias_points <- function(data, bandwidths, factors, control, arg, path = list(steps = 1L)) {
  points <- data$points
  weights <- data$weights
  name_stage(control, "Debiasing")
  centre <- far_centre(points, weights, sqrt(diagonal(bandwidths$main$H)))
  if (!is.null(centre)) check_memory(8 * 5 * length(points), arg)
  near <- shift_points(points, centre, -1)
  sources <- sum_sources(near, weights, bandwidths$score$L, factors = factors)
  sources$discrete <- data$discrete
  suggest_tolerance(control, nrow(points), nrow(points), ncol(points), sources, "gaussian", own = TRUE)
  debias <- debias_along(sources, bandwidths$main$L, path, control)
  debiased <- keep_lost(debias$debiased, near, weights)
  list(
    debiased = shift_points(debiased, centre, 1), stats = debias$stats,
    steps = path$steps, given = !is.null(path$score),
    centred = if (!is.null(centre)) list(centre = centre, points = debiased)
  )
}

# Where all numbers of a column are on one side of the origin, and further from it than a thousand bandwidths, the
# nearest of them: the difference of any other and this one is no larger than the number itself, so it keeps all
# digits. 0 for other columns; NULL where all are 0. Rows of weight 0 do not count.
far_centre <- function(points, weights, sds) .Call(ffi_far_centre, points, weights, 1024 * as.double(sds))

# The points themselves, uncopied, where `centre` is NULL.
shift_points <- function(points, centre, sign) {
  if (is.null(centre)) return(points)
  centre <- c(centre, numeric(NCOL(points) - length(centre))) # beside numbers there may be levels
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
check_fit_memory <- function(points, debiased, steps, arg) {
  copies <- if (!debiased) 1 else if (steps == 1) 4 else 6
  check_memory(8 * copies * length(points), arg)
}

# ---- bandwidths -------------------------------------------------------------------------------

# list(main, score), each as as_bandwidth() gives it with its selector and what that computed; `score` is NULL where the
# estimator has none.
fit_bandwidths <- function(data, estimator, options, control, arg) {
  wanted <- want_bandwidth(options$bandwidth, data$points, data$weights, "bandwidth")
  score <- options$score_bandwidth
  if (!is.null(score)) score <- want_bandwidth(score, data$points, data$weights, "score_bandwidth")
  search <- search_options("auto", options$structure, options$rows, options$seconds)
  if (search$structure != "auto" && (is.list(wanted) || !wanted %in% names(FACTOR_CRITERIA))) {
    stop_argument("structure", "is for a bandwidth by a search, such as \"auto\" or \"lcv\": found another `bandwidth`")
  }
  main <- settle_bandwidth(wanted, data, estimator, search, control, "bandwidth", arg)
  if (!ESTIMATORS[[estimator]]$debiased) return(list(main = main))
  if (options$steps > 1 && !is.list(wanted)) main <- widened(main, options$steps, data)
  if (!is.null(options$score) && options$steps == 1) return(list(main = main))
  if (is.null(score)) return(list(main = main, score = own_score(main, options$steps)))
  list(main = main, score = settle_bandwidth(score, data, estimator, search, control, "score_bandwidth", arg))
}

# As fit_bandwidths(), where factors have changed H; a bandwidth of the score that was asked for stays.
adapted_bandwidths <- function(bandwidths, adapted, estimator, options) {
  main <- replace(bandwidths$main, c("H", "L"), adapted[c("H", "L")])
  if (!ESTIMATORS[[estimator]]$debiased) return(list(main = main))
  list(main = main, score = if (is.null(options$score_bandwidth)) own_score(main) else bandwidths$score)
}

# That of the score, where the user names none: what the search went by, else the same.
own_score <- function(main, steps = 1) {
  ratio <- if (steps > 1) SCORE_RATIO else attr(main$search, "score")
  if (is.null(ratio)) return(main)
  list(H = ratio * main$H, L = sqrt(ratio) * main$L, selector = main$selector)
}

# Checks what was given, computes nothing yet. Returns the name of a selector, or H and its factor.
want_bandwidth <- function(bandwidth, points, weights, arg) {
  if (is.null(bandwidth)) return(default_selector())
  if (is.character(bandwidth)) return(check_selector(bandwidth, ncol(points), weights, arg))
  found <- as_bandwidth(bandwidth, ncol(points), arg, dimnames(points)[[2]])
  found$selector <- selector_of(bandwidth)
  if (found$selector != "user") found$search <- bandwidth
  found
}

# `name`: what the user calls this bandwidth; `arg`: what the user calls the points; `search`: of search_options().
settle_bandwidth <- function(wanted, data, estimator, search, control, name, arg) {
  if (is.list(wanted)) return(wanted)
  points <- data$points
  check_spread(points, arg, data$weights, cure = paste0(" (give `", name, "` as a number)"))
  started <- proc.time()[["elapsed"]]
  selected <- select_bandwidth(wanted, data, estimator, search, control, arg)
  # what the search takes beside its sums counts, too
  stats <- as.list(selected$stats)
  stats$seconds <- proc.time()[["elapsed"]] - started
  c(
    as_bandwidth(selected$bandwidth, ncol(points), name, colnames(points)),
    list(
      selector = selected$selector, stats = stats,
      search = if (inherits(selected$bandwidth, "flashkernel_bandwidth")) selected$bandwidth
    )
  )
}

# ---- what the fit is made of ------------------------------------------------------------------

# The centres of the kernels, relative to fit_centre(). Those of a file may have been detached since.
fit_points <- function(object) {
  if (is_big(object$x)) check_big(object$x, "object")
  if (is_remote(object$x)) return(if (is_debiased(object)) object$debiased else object$x)
  if (!is_debiased(object)) return(object$x)
  if (is.null(object$centred)) object$debiased else object$centred$points
}

# NULL for the origin.
fit_centre <- function(object) object$centred$centre

# Points that the user gave, relative to fit_centre(), and back.
from_centre <- function(object, points) shift_points(points, fit_centre(object), -1)
from_origin <- function(object, points) shift_points(points, fit_centre(object), 1)

# The centres of the kernels as the user knows them, for figures and samples.
shown_points <- function(object) if (is_debiased(object)) object$debiased else object$x

# Kept with the matrix that it is of: fits of earlier versions have none, and a fit is a list that may be changed.
fit_factor <- function(object) {
  known <- object$factor
  if (!is.null(known) && identical(known$H, object$bandwidth)) return(known$L)
  lower_factor(object$bandwidth, "bandwidth")
}

score_factor <- function(object) lower_factor(object$score_bandwidth, "score_bandwidth")

# What sums of the estimate are over; targets have to be relative to fit_centre(), too.
fit_sources <- function(object) {
  sources <- sum_sources(
    fit_points(object), object$weights, fit_factor(object), fit_kernel(object), plan = object$plan,
    factors = object$adaptive$factors, target_factors = balloon_widths(object)
  )
  sources$discrete <- object$discrete
  sources
}

# width_classes() of its kernels, in units of its bandwidth.
fit_classes <- function(object) {
  factors <- object$adaptive$factors
  if (is.null(factors)) list(factors = 1, rows = list(seq_len(object$n))) else width_classes(factors)
}

# What the fit was asked to be computed by, for start_run(). What a fit from an earlier version has no word on is the
# default.
fit_asked <- function(object) {
  asked <- .subset(object, names(CONTROL_DEFAULTS))
  if (!is.null(asked$cluster) && cluster_has_ended(asked$cluster)) asked["cluster"] <- list(NULL)
  known <- names(asked)
  if (!anyNA(known)) return(asked)
  replace(CONTROL_DEFAULTS, known[!is.na(known)], asked[!is.na(known)])
}

# The list for C by it, for those who close its progress bar themselves.
fit_control <- function(object) run_control(fit_asked(object))

total_weight <- function(object) {
  if (has_remote_weights(object)) return(object$x$total_weight)
  if (is.null(object$weights)) object$n else sum(object$weights)
}

# Which rows are part of the estimate: those of positive weight, all of them without weights.
used_rows <- function(object) {
  weights <- own_weights(object)
  if (is.null(weights)) rep(TRUE, object$n) else weights > 0
}

# How many, without a vector of them where all are.
n_used <- function(object) {
  if (has_remote_weights(object)) return(object$x$positive)
  if (is.null(object$weights)) object$n else sum(object$weights > 0)
}

# The weights, wherever they are: those of a flash_data() are fetched.
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

# log of the kernel's height, for H = L L'.
log_kernel_norm <- function(L) {
  more <- more_columns(L)
  -(nrow(L) + more) * log(2 * pi) / 2 - sum(log(diagonal(L))) - (if (more > 0) more * log(L[1]) else 0)
}

# Names for the columns, also where the user gave none.
point_names <- function(object) {
  if (has_names(object$names)) return(object$names)
  if (object$d == 1) "x" else paste0("x", seq_len(object$d), recycle0 = TRUE)
}
