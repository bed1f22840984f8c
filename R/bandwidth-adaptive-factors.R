# The factors of adaptive bandwidths (bandwidth-adaptive-choose.R).

# Abramson's factors go by a density of a bandwidth so much larger than that chosen for the estimator, whose noise is
# less: measured (bench/NOTES.md).
PILOT <- c(kde = 2, sdkde = 1.4)

#' Adaptive bandwidths
#'
#' The argument `adaptive` of [flash_kde()] gives each point a bandwidth of its own: smaller where points are dense, larger
#' in the tails. `adaptive_factors()` computes such local bandwidth factors with other settings.
#'
#' @section Estimate:
#' Point i has the bandwidth \eqn{f_i^2 H}{f_i^2 H}: \eqn{p(y) = \sum_i w_i f_i^{-d} K_H((y - x_i) / f_i) / W}{p(y) = sum_i w_i
#' f_i^-d K_H((y - x_i) / f_i) / W}, which is a density. Local factors help where the density has structure at several scales, or
#' heavy tails. Where it is close to normal they cost a little.
#'
#' `adaptive = "auto"`, the default, uses the factors if they increase the leave-one-out log-likelihood by more than 0.02 nats per row
#' and three standard errors, on up to 2,000 rows; in one dimension, the censored likelihood of [kde_bandwidth()] by 0.002
#' nats and 3.2 standard errors. This applies to fits of 50 points and more without a given
#' bandwidth, and either without a named estimator or with `"kde"`. `TRUE` or `"abramson"`, and `"knn"`, always use them; `FALSE`
#' never does. Numbers, one for each row, are used as given: up to 64 different ones exactly, more of them rounded to powers of
#' \eqn{2^{1/8}}{2^(1/8)} from 1/30 to 30. If the bandwidth is chosen from the data, so is one scale for all factors.
#'
#' @section Local factors:
#' The factors are \eqn{f_j \propto \hat p(x_j)^{-\alpha}}{f_j ~ p(x_j)^-alpha}. For `"abramson"` the pilot p is the leave-one-out
#' density with twice the bandwidth of the fit (1.4 times for an SD-KDE). For `"knn"` it is the power -d of the distance from point j to its
#' k-th nearest neighbour, in coordinates where the bandwidth is the identity (Breiman, Meisel and Purcell 1977).
#'
#' The power 1/2 removes the bias of order \eqn{h^2} (Abramson 1982), which matters for many points in few dimensions. On real data
#' in three and more dimensions smaller powers did better, so the default is the smaller of 1/2 and 1/d.
#'
#' Rounded data are first spread over their lattice, and copies of a row count once, as in [kde_bandwidth()]. The geometric mean
#' of the factors is about 1. They lie between 1/30 and 30 and are powers of \eqn{2^{1/8}}{2^(1/8)}, so that points with equal
#' factors can be summed together. With categories the pilot is the density of numbers and categories together.
#'
#' @section Debiasing of adaptive estimates:
#' If `"sdkde"` is named and factors are named or given, point i first moves by \eqn{(f_i^2 H / 2) \nabla \log g_i(x_i)}{(f_i^2 H / 2)
#' grad log g_i(x_i)}, where \eqn{g_i} is the estimate with variance \eqn{f_i^2 H_s}{f_i^2 H_s} and weights \eqn{w_j f_j^2}{w_j f_j^2}.
#' This removes the bias of order \eqn{h^2}, for any factors.
#'
#' @section Balloon estimates:
#' With `adaptive = "balloon"` the bandwidth depends on the place y: \eqn{p(y) = \sum_i w_i K_{f(y)^2 H}(y - x_i) / W}{p(y) = sum_i
#' w_i K_(f(y)^2 H)(y - x_i) / W}, for `"kde"` only. The factor f(y) is the distance from y to its \eqn{\sqrt n}{sqrt(n)}-th
#' nearest point (Loftsgaarden and Quesenberry 1965; Terrell and Scott 1992), scaled to a geometric mean of 1 over the points,
#' and rounded and limited as above.
#'
#' A balloon estimate **does not integrate to 1**. [predict()][predict.flash_kde] returns its values, logarithms, standard
#' errors, scores and leave-one-out values, and [`plot()`][plot.flash_kde] draws it in one and two dimensions. Its
#' [logLik()][logLik.flash_kde] cannot be compared with that of a density.
#'
#' @param object A fit with one bandwidth, from [flash_kde()] with `estimator` `"kde"` or `"sdkde"`.
#' @param method `"abramson"` or `"knn"`.
#' @param alpha The power, above 0 and up to 1. `NULL`: 1/2 in one and two dimensions, 1/d in d.
#' @param k For `"knn"`: the number of the neighbour. `NULL`: \eqn{\sqrt n}{sqrt(n)}, rounded.
#' @returns A vector with a factor for each point of the fit.
#' @references Abramson, I. S. (1982) On bandwidth variation in kernel estimates: a square root law. *The Annals of
#'   Statistics* 10, 1217-1223.
#'
#'   Breiman, L., Meisel, W. and Purcell, E. (1977) Variable kernel estimates of multivariate densities.
#'   *Technometrics* 19, 135-144.
#'
#'   Loftsgaarden, D. O. and Quesenberry, C. P. (1965) A nonparametric estimate of a multivariate density function. *The Annals
#'   of Mathematical Statistics* 36, 1049-1051.
#'
#'   Terrell, G. R. and Scott, D. W. (1992) Variable kernel density estimation. *The Annals of Statistics* 20, 1236-1265.
#' @seealso [flash_kde()]
#' @rawRd \concept{variable bandwidth}\concept{adaptive bandwidth}\concept{k nearest neighbours}
#' @export
#' @examples
#' plot(flash_kde(quakes$depth, "kde", adaptive = TRUE))
#' lines(flash_kde(quakes$depth, "kde", adaptive = FALSE), lty = 2)
#'
#' # other factors
#' fit <- flash_kde(faithful, "kde", adaptive = FALSE)
#' cautious <- adaptive_factors(fit, alpha = 1 / 4)
#' flash_kde(faithful, adaptive = cautious)
#' flash_kde(faithful, "sdkde", adaptive = cautious) # and debiased
adaptive_factors <- function(object, method = c("abramson", "knn"), alpha = NULL, k = NULL) {
  if (!inherits(object, "flash_kde")) check_fit(object)
  check_in_memory(object)
  if (object$d == 0) stop_argument("object", "must have numeric columns: found only categorical columns")
  if (!is.null(object$inner)) {
    if (!only_transforms(object$support)) {
      stop_argument("object", "must be a fit without `support`, or with method = \"transform\"")
    }
    return(adaptive_factors(object$inner, method, alpha, k)) # in the coordinates of its kernels
  }
  if (!object$estimator %in% names(PILOT) || !is.null(object$adaptive)) {
    stop_argument("object", "must be a fit of estimator = ", quote_choices(names(PILOT)), " with one bandwidth")
  }
  check_loo(object, "object")
  name <- check_choice(method, ADAPTIVE_METHODS, "method")
  method <- list(name = name, alpha = check_power(alpha, object$d), pilot = PILOT[[object$estimator]], k = k)
  if (!is.null(k)) method$k <- check_count(k, "k", max = object$n - 1)
  run <- search_run(start_run(fit_asked(object), "Adapting the bandwidth"), object$d)
  data <- list(points = object$x, weights = object$weights, discrete = object$discrete)
  clean <- judged(clean_mixed(data, "object"))
  own_factors(point_factors(clean, fit_factor(object) / clean$unit, method, Inf, run)$factors, clean, own_places(object))
}

# ---- factors ----------------------------------------------------------------------------------

# list(factors, stats) of judged() rows, for a bandwidth of factor L. `method`: list(name, alpha, pilot, k).
point_factors <- function(data, L, method, seconds, run) {
  found <- switch(method$name,
    abramson = pilot_density(data, method$pilot * L, seconds, run),
    knn = list(log_density = -data$d * log(neighbour_distances(data, L, method$k, run)))
  )
  width <- -method$alpha * found$log_density
  list(factors = on_lattice(width - sum(data$v * width)), stats = found$stats)
}

# log_left_out(), from a sample of the rows with a larger bandwidth if the sum over all rows would take longer than
# `seconds` of a nominal core.
pilot_density <- function(data, L, seconds, run) {
  n <- nrow(data$x)
  if (pass_seconds(n, data$d, c("lcv", PLAIN_ESTIMATOR), run) <= seconds) return(log_left_out(data, L, NULL, run))
  inside <- seq_len(max(SCAN_ROWS, floor(seconds / (n * pair_seconds(n, data$d, run)))))
  batch <- judged(sample_of(data, inside))
  L <- L / carried(batch, data, bandwidth_rate(PLAIN_ESTIMATOR, data$d))
  own <- log_left_out(batch, L, NULL, run)
  others <- sample_of(data, -inside)
  sources <- sum_sources(batch$x, batch$weights, L, discrete = batch$discrete)
  sums <- log_sum(sources, cbind(others$x, others$discrete$codes), PLAIN_FACTOR, FALSE, run)
  log_density <- log_add(sums$log_abs + log_kernel_norm(L) - log(batch$total), log_floor_of(others))
  list(log_density = c(own$log_density, log_density), stats = add_stats(own$stats, sums$stats))
}

# Leave-one-out log densities of the rows, with the Cauchy floor of the likelihood: list(log_density, stats). `factors`
# and `target_factors` have the meaning that they have in sum_sources().
log_left_out <- function(data, L, factors, run, target_factors = NULL) {
  if (is.null(target_factors) && prefers_one_pass(data, L, factors, run)) return(left_out_at_once(data, L, 1, factors, run))
  sources <- sum_sources(
    data$x, data$weights, L,
    factors = factors, target_factors = target_factors, discrete = data$discrete
  )
  cells <- if (!is.null(data$discrete)) cells_of(data$discrete$codes)
  by_pairs <- !is.null(cells) && prefers_pairs(data, cells, nrow(data$x), factors)
  sums <- if (by_pairs) left_out_by_pairs(data, L, cells, factors, run) else log_sum(sources, NULL, PLAIN_FACTOR, TRUE, run)
  log_density <- sums$log_abs + log_kernel_norm(L) - data$log_others
  list(log_density = log_add(log_density, log_floor_of(data)), stats = sums$stats)
}

# Does one pass over the pairs of few rows take less time than two calls for each factor, and are sums that underflow
# beside the largest weight of a kernel far below the floor?
prefers_one_pass <- function(data, L, factors, run) {
  if (!is.null(data$discrete) || !is.null(data$more) || nrow(data$x) > GAIN_ROWS) return(FALSE)
  top <- max(log(data$w) - if (is.null(factors)) 0 else data$d * log(factors))
  resolvable <- top < 600 && min(log_floor_of(data)) + min(data$log_others) - log_kernel_norm(L) - top > -600
  resolvable && prefers_scales(resolved_run(data$x, run))
}

# log_left_out() for L / sqrt(power) of each power, in the columns of a matrix.
left_out_at_once <- function(data, L, powers, factors, run) {
  weights <- data$weights
  if (!is.null(factors)) weights <- data$w * factors^-data$d
  logs <- list(log_floor = log_floor_of(data), log_others = data$log_others, log_unit = log_norms(L, powers))
  found <- pair_scales(data$x, L, powers, weights, PLAIN_FACTOR, run, factors, logs)
  list(log_density = found$S, stats = found$stats)
}

# Expands the factors of the rows of clean_points() to all points. Equal points have equal factors. Points of weight 0,
# which are not part of the estimate, have factor 1.
own_factors <- function(factors, clean, points) {
  keys <- row_keys(points)
  own <- factors[match(keys, keys[clean$source])]
  ifelse(is.na(own), 1, own)
}
