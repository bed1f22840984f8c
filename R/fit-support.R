# Fits on a domain. `inner` is the fit of working points, with their images and with weights over masses where there are
# such; the object around it has the points, weights and names that the user gave, and the rest is the same.

#' @export
fit_kde.supported <- function(points, arg, call, options, control, formula = NULL) {
  names <- point_names(list(names = colnames(points), d = ncol(points)))
  if (identical(options$support, "auto")) options["support"] <- list(found_support(points, names))
  domain <- check_support(options$support, ncol(points), names)
  settings <- fit_settings(options)
  options["support"] <- list(NULL)
  if (is.null(domain)) return(fit_kde(points, arg, call, options, control, formula))
  check_one_step(options, "points without a `support`")
  adaptive <- check_adaptive(options$adaptive, nrow(points))
  if (identical(adaptive, "balloon")) {
    stop_argument("adaptive", "must not be \"balloon\" with `support`: a balloon estimate does not integrate to 1")
  }
  estimator <- support_estimator(options)
  data <- fit_data_of(points, estimator, options, arg)
  if (is.numeric(adaptive) && !is.null(data$omitted)) adaptive <- adaptive[-data$omitted]
  options[c("weights", "na.action")] <- list(data$weights, stats::na.fail)
  options["adaptive"] <- list(if (is.null(adaptive)) FALSE else adaptive)
  check_inside(domain, data$points, arg)
  for (k in which(domain$kind == "circular")) data$points[, k] <- into_column(data$points[, k], domain, k)
  plain <- may_be_plain(options, adaptive)
  domain <- choose_kind(domain, data$points, data$weights, plain, options, search_run(control, ncol(points)), arg)
  inner <- if (only_transforms(domain) && !is_rounded(domain, data$points, options)) {
    fit_kde(to_working(domain, data$points), arg, call, options, control)
  } else {
    fit_inner(domain, data, adaptive, call, options, control, arg)
  }
  object <- fit_around(inner, domain, data, call, formula)
  object$settings <- settings
  object
}

# The plain one where none is named; fits of transformed points alone may then choose another one.
support_estimator <- function(options) {
  if (is_auto(options$estimator)) PLAIN_ESTIMATOR else check_estimator(options$estimator)
}

# Nothing was asked for that needs one sum of kernels: an estimator, factors, or a bandwidth of the score.
may_be_plain <- function(options, adaptive) {
  of_estimator <- is_auto(options$estimator) || check_estimator(options$estimator) == PLAIN_ESTIMATOR
  of_estimator && (is.null(adaptive) || identical(adaptive, "auto")) && is.null(options$score_bandwidth)
}

# A transformed column that was rounded has no lattice: there a bandwidth is chosen by the points as they were.
is_rounded <- function(domain, points, options) {
  by_likelihood <- is.null(options$bandwidth) || any(options$bandwidth %in% c("auto", "lcv"))
  if (!by_likelihood || identical(options$adaptive, "knn")) return(FALSE)
  many_equal <- \(k) length(unique(points[, k])) < 0.9 * nrow(points)
  any(vapply(which(domain$kind == "transform"), many_equal, NA))
}

# The fit of working points with reflected or periodic copies, with masses, or for a boundary kernel.
fit_inner <- function(domain, data, adaptive, call, options, control, arg) {
  estimator <- support_estimator(options)
  check_domain_options(domain, estimator, adaptive, options)
  if (is_bent(domain) || identical(adaptive, "auto") && !may_adapt(options, nrow(data$points))) adaptive <- NULL
  resolved <- resolve_control(control, nrow(data$points), nrow(data$points), ncol(data$points))
  run <- search_run(control, ncol(data$points))
  problem <- once(domain_data(domain, data$points, data$weights, arg))
  work <- replace(data, "points", list(to_working(domain, data$points)))
  bandwidths <- inner_bandwidths(problem, work, estimator, options, control, run, arg)
  check_mirrored(domain, bandwidths$main$H)
  if (!is_chosen(options$bandwidth)) check_image_count(domain, bandwidths$main$H)
  check_masses(domain, work$points, bandwidths$main$L, run)
  adapted <- if (!is.null(adaptive)) {
    check_adaptable(work)
    adapt_on_domain(problem(), bandwidths$main, adaptive, is_chosen(options$bandwidth), options$seconds, run)
  }
  if (!is.null(adapted)) bandwidths <- scaled_bandwidths(bandwidths, adapted, options)
  sources <- domain_sources(domain, work$points, data$weights, bandwidths$main$L, adapted$record$factors, run)
  imaged <- list(points = sources$points, weights = sources$weights)
  debias <- if (ESTIMATORS[[estimator]]$debiased) {
    debias_inside(domain, imaged, bandwidths, sources$factors, control, arg)
  }
  # kernels have moved, and with them their masses
  if (!is.null(debias) && has_masses(domain)) {
    own <- if (is.null(data$weights)) 1 else if (is.null(sources$row)) data$weights else data$weights[sources$row]
    imaged$weights <- own / kernel_masses(domain, debias$debiased, bandwidths$main$L, sources$factors, run)
  }
  if (!is.null(adapted)) adapted$record$factors <- sources$factors
  inner <- made_fit(call, estimator, imaged, bandwidths, debias, control, resolved, NULL, adapted)
  inner[c("row", "copied")] <- list(sources$row, sources$copied)
  inner
}

# Where factors have changed H, that of a score is changed alike, unless it was asked for.
scaled_bandwidths <- function(bandwidths, adapted, options) {
  scale <- adapted$L[1] / bandwidths$main$L[1]
  bandwidths$main[c("H", "L")] <- adapted[c("H", "L")]
  score <- bandwidths$score
  if (is.null(score) || !is.null(options$score_bandwidth)) return(bandwidths)
  bandwidths$score[c("H", "L")] <- list(scale^2 * score$H, scale * score$L)
  bandwidths
}

inner_bandwidths <- function(problem, work, estimator, options, control, run, arg) {
  wanted <- want_bandwidth(options$bandwidth, work$points, work$weights, "bandwidth")
  if (!is.list(wanted) && wanted %in% c("auto", "lcv")) {
    name_stage(control, "Selecting the bandwidth")
    check_spread(work$points, arg, work$weights, cure = " (give `bandwidth` as a number)")
    found <- domain_bandwidth(problem(), estimator, options, run)
    found$main$selector <- wanted
    if (is.null(options$score_bandwidth)) return(found)
    options$bandwidth <- found$main$H
    return(replace(found, "score", fit_bandwidths(work, estimator, options, control, arg)["score"]))
  }
  work$clean <- once(problem()$data)
  fit_bandwidths(work, estimator, options, control, arg)
}

check_domain_options <- function(domain, estimator, adaptive, options) {
  refuse <- \(...) stop(new_error("unsupported", paste0(...), user_call()))
  if (identical(adaptive, "knn")) {
    refuse("adaptive = \"knn\" is available only with method = \"transform\" on a support: use it, or \"abramson\"")
  }
  named <- !is.null(adaptive) && !identical(adaptive, "auto")
  if (named && !ESTIMATORS[[estimator]]$adaptive) {
    able <- quote_choices(estimators_that("adaptive"))
    stop_argument("adaptive", "is available only for estimator = ", able, ": found \"", estimator, "\"")
  }
  if (is_bent(domain) && (named || estimator != PLAIN_ESTIMATOR)) {
    refuse(
      "method = \"", domain$kind, "\" is only for estimator = \"kde\" with one bandwidth: ",
      "use \"reflect\" or \"transform\""
    )
  }
  if (has_masses(domain) && ESTIMATORS[[estimator]]$signed) {
    refuse("method = \"mass\" is not available for \"", estimator, "\": use estimator = \"kde\" or \"sdkde\"")
  }
}

# A reflected column must be uncorrelated with the others: the reflected copy of a correlated kernel has another
# correlation.
check_mirrored <- function(domain, H) {
  mirrored <- which(domain$kind == "reflect")
  aslant <- abs(H[mirrored, , drop = FALSE]) > 1e-12 * sqrt(outer(diag(H)[mirrored], diag(H)))
  aslant[cbind(seq_along(mirrored), mirrored)] <- FALSE
  if (any(aslant)) {
    stop_argument(
      "bandwidth", "must not correlate a column that is reflected, ", quote_names(domain$names[mirrored[1]]),
      ", with others: found a full matrix (give standard deviations, or use method = \"transform\")"
    )
  }
}

# The number of copies grows with the bandwidth, and an estimate with a bandwidth beyond the domain is uniform.
check_image_count <- function(domain, H) {
  range <- domain$upper - domain$lower
  wide <- which(domain$kind %in% c("reflect", "circular") & sqrt(diagonal(H)) > 10 * range)
  if (length(wide) > 0) {
    stop_argument(
      "bandwidth", "must be at most ten times the range of a reflected or circular column, ",
      quote_names(domain$names[wide[1]]), ": found a standard deviation of ",
      format(sqrt(H[wide[1], wide[1]])), " for a range of ", format(range[wide[1]])
    )
  }
}

# Least probability of a kernel inside the bounds. A point on the bounds of more than 960 columns has less.
LEAST_MASS <- 1e-290

check_masses <- function(domain, points, L, run) {
  if (!has_masses(domain) || !is.null(domain$polygon)) return(invisible())
  if (min(kernel_masses(domain, points, L, NULL, run)) < LEAST_MASS) {
    stop_argument(
      "support", "must leave each kernel a probability of at least ", LEAST_MASS, " inside its bounds: found less, ",
      "with bounds on ", sum(domain$kind == "mass"), " columns (bound fewer columns)"
    )
  }
}
