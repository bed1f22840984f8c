# Bandwidths of each point's own: H times the square of a factor f_j, which is large where points are few. The estimate
# is the sum of the estimates of classes, of points with the same factor (sums-classes.R); to have few of them,
# factors are powers of one number.

# Neighbouring factors; finer steps have changed held-out densities by less than 0.001 nats (inst/bench/NOTES.md).
FACTOR_STEP <- 2^(1 / 4)

# No factor above this, and none below its inverse.
MOST_FACTOR <- 30

# Abramson's factors go by a density of a bandwidth so much larger, whose noise is less: measured (inst/bench/NOTES.md).
PILOT <- 2

# So many different factors of the user's own are taken as they are.
MOST_CLASSES <- 64

#' Factors for adaptive bandwidths
#'
#' `adaptive_factors()` gives a factor for each point of a density estimate, by which its kernel is to be wider than
#' that of another: for the argument `adaptive` of [flash_kde()], which calls it where that is a name.
#'
#' @details
#' Factors are \eqn{f_j \propto \hat p(x_j)^{-\alpha}}{f_j ~ p(x_j)^-alpha}. For `"abramson"` p is the leave-one-out
#' density with twice the sds of the fit: a smooth one, since its noise becomes noise of the factors. For `"knn"` it is
#' the power -d of the distance from point j to its k-th nearest neighbour, in coordinates where the bandwidth is the
#' identity, so that with `alpha = 1 / d` factors are as these distances (Breiman, Meisel and Purcell 1977). Weights
#' enter the densities, not the counts of neighbours.
#'
#' `alpha = 1 / 2` removes the bias of order \eqn{h^2} (Abramson 1982). That counts for many points in few dimensions;
#' on real data in three and more a smaller power gained more, so the default is the smaller of 1/2 and 1/d.
#'
#' Rounded data are spread over their lattice first, and copies of a row count as one, as for [bw_auto()]; the order
#' of the rows does not matter. The geometric mean of the factors is about 1; they lie between 1/30 and 30, and are
#' powers of \eqn{2^{1/4}}{2^(1/4)}, at most 9% off, so that sums over points of the same factor serve in every
#' engine.
#'
#' @param object A fit with one bandwidth, from [flash_kde()] with `estimator = "kde"`.
#' @param method `"abramson"` or `"knn"`.
#' @param alpha The power, above 0 and up to 1. `NULL`: 1/2 in one and two dimensions, 1/d in d.
#' @param k For `"knn"`: which neighbour. `NULL`: \eqn{\sqrt n}{sqrt(n)}, rounded.
#' @returns A vector with a factor for each point of the fit.
#' @inheritSection flash_kde Errors
#' @references Abramson, I. S. (1982) On bandwidth variation in kernel estimates: a square root law. *The Annals of
#'   Statistics* 10, 1217-1223.
#'
#'   Breiman, L., Meisel, W. and Purcell, E. (1977) Variable kernel estimates of multivariate densities.
#'   *Technometrics* 19, 135-144.
#' @seealso [flash_kde()]
#' @export
#' @examples
#' fit <- flash_kde(faithful, "kde")
#' cautious <- adaptive_factors(fit, alpha = 1 / 4)
#' flash_kde(faithful, adaptive = cautious)
adaptive_factors <- function(object, method = c("abramson", "knn"), alpha = NULL, k = NULL) {
  if (!inherits(object, "flash_kde")) check_fit(object)
  check_in_memory(object)
  if (!estimator_of(object)$adaptive || !is.null(object$adaptive)) {
    stop_argument("object", "must be a fit of estimator = \"kde\" with one bandwidth")
  }
  check_loo(object, "object")
  method <- list(name = check_choice(method, ADAPTIVE_METHODS, "method"), alpha = check_power(alpha, object$d), k = k)
  if (!is.null(k)) method$k <- check_count(k, "k", max = object$n - 1)
  check_spread(object$x, "object", object$weights)
  run <- search_run(start_run(fit_asked(object), "Adapting the bandwidth"), object$d)
  clean <- judged(clean_points(object$x, object$weights))
  own_factors(point_factors(clean, fit_factor(object) / clean$unit, method, run)$factors, clean, object$x)
}

ADAPTIVE_METHODS <- c("abramson", "knn")

# The square root is too bold in more than two dimensions (inst/bench/NOTES.md).
check_power <- function(alpha, d) {
  if (is.null(alpha)) return(min(1 / 2, 1 / d))
  good <- is.numeric(alpha) && length(alpha) == 1 && !is.object(alpha) && isTRUE(alpha > 0 && alpha <= 1)
  if (!good) stop_argument("alpha", "must be a number above 0, 1 at most: found ", describe(alpha))
  as.double(alpha)
}

# NULL, the name of a method, or n factors.
check_adaptive <- function(adaptive, n) {
  if (is.null(adaptive) || isFALSE(adaptive)) return(NULL)
  if (isTRUE(adaptive)) return(ADAPTIVE_METHODS[1])
  choices <- c(ADAPTIVE_METHODS, "balloon")
  if (is.character(adaptive)) return(check_choice(adaptive, choices, "adaptive"))
  if (!is_number(adaptive) || length(adaptive) != n || !is.null(dim(adaptive))) {
    stop_argument(
      "adaptive", "must be TRUE, FALSE, ", quote_choices(choices), " or ", n, " factors: found ",
      describe(adaptive)
    )
  }
  check_finite(adaptive, "adaptive")
  if (any(adaptive <= 0)) stop_argument("adaptive", "must be positive: found ", format(adaptive[adaptive <= 0][1]))
  as.double(adaptive)
}

# Not every one can: among the choices of the default, the first that does.
adaptive_estimator <- function(estimator, adaptive) {
  if (is.null(adaptive)) return(check_estimator(estimator))
  able <- if (identical(adaptive, "balloon")) PLAIN_ESTIMATOR else estimators_that("adaptive")
  if (length(estimator) > 1) return(able[1])
  estimator <- check_estimator(estimator)
  if (!estimator %in% able) {
    stop_argument("adaptive", "is for estimator = ", quote_choices(able), ": found \"", estimator, "\"")
  }
  estimator
}

# list(H, L, record, stats): the factors of the points of `data`, list(points, weights, omitted), of H and L as `main`
# has them, or where that was chosen from the data, as suits the factors. record: list(method, factors, and of
# a choice scale, the factor of L, and gain, over one bandwidth, in nats of leave-one-out likelihood a row), or that of
# balloon_record().
adapt_bandwidth <- function(data, main, adaptive, options, control, arg) {
  started <- proc.time()[["elapsed"]]
  points <- data$points
  name_stage(control, "Adapting the bandwidth")
  if (n_given(data) < 2) stop_argument("adaptive", "needs at least two points of positive weight: found one")
  check_spread(points, arg, data$weights, cure = " (without `adaptive`)")
  run <- search_run(control, ncol(points))
  clean <- judged(clean_points(points, data$weights))
  L <- main$L / clean$unit
  balloon <- identical(adaptive, "balloon")
  if (balloon) {
    found <- balloon_factors(clean, L, run)
    record <- balloon_record(found, clean, points, data$weights, main$L, run)
  } else if (is.character(adaptive)) {
    found <- point_factors(clean, L, list(name = adaptive, alpha = check_power(NULL, clean$d)), run)
    record <- list(method = adaptive, factors = own_factors(found$factors, clean, points))
  } else {
    factors <- if (is.null(data$omitted)) adaptive else adaptive[-data$omitted]
    many <- length(unique(factors)) > MOST_CLASSES
    if (many) factors <- on_lattice(log(factors))
    record <- list(method = if (many) "given, rounded" else "given", factors = factors)
    found <- list(factors = factors[clean$source])
  }
  if (is.null(options$bandwidth) || is.character(options$bandwidth)) {
    chosen <- choose_scale(clean, found$factors, L, options$seconds, run, balloon)
    record$scale <- chosen$scale
    if (!balloon) record$gain <- chosen$gain
    main$L <- chosen$scale * main$L
    main$H <- chosen$scale^2 * main$H
    found$stats <- if (is.null(found$stats)) chosen$stats else add_stats(found$stats, chosen$stats)
  }
  stats <- as.list(found$stats)
  stats$seconds <- proc.time()[["elapsed"]] - started
  list(H = main$H, L = main$L, record = record, stats = stats)
}

n_given <- function(data) if (is.null(data$weights)) nrow(data$points) else sum(data$weights > 0)

# ---- factors ----------------------------------------------------------------------------------

# list(factors, stats) of judged() rows, for a bandwidth of factor L. `method`: list(name, alpha, k).
point_factors <- function(data, L, method, run) {
  found <- switch(method$name,
    abramson = log_left_out(data, PILOT * L, NULL, run),
    knn = list(log_density = -data$d * log(neighbour_distances(data, L, method$k, run)))
  )
  width <- -method$alpha * found$log_density
  list(factors = on_lattice(width - sum(data$v * width)), stats = found$stats)
}

# list(log_density, stats): of each row by the others, with the floor of the likelihood; `factors` as of sources, or of
# the places of the rows.
log_left_out <- function(data, L, factors, run, balloon = FALSE) {
  sources <- if (balloon && !is.null(factors)) {
    sum_sources(data$x, data$weights, L, target_factors = \(at, loo, control) factors)
  } else {
    sum_sources(data$x, data$weights, L, factors = factors)
  }
  sums <- log_sum(sources, NULL, PLAIN_FACTOR, TRUE, run)
  log_density <- sums$log_abs + log_kernel_norm(L) - log(data$others)
  list(log_density = log_add(log_density, log_floor_of(data)), stats = sums$stats)
}

on_lattice <- function(log_factors) {
  most <- floor(log(MOST_FACTOR) / log(FACTOR_STEP))
  FACTOR_STEP^pmin(pmax(round(log_factors / log(FACTOR_STEP)), -most), most)
}

# Those of all points, of the factors of the rows that clean_points() left of them: equal points have the same, and
# points of weight 0, which are no part of the estimate, 1.
own_factors <- function(factors, clean, points) {
  keys <- row_keys(points)
  own <- factors[match(keys, keys[clean$source])]
  ifelse(is.na(own), 1, own)
}

# ---- scale ------------------------------------------------------------------------------------

# list(scale, gain, stats): the multiple of L for which the leave-one-out likelihood of judged() rows is largest, on as
# many of them as the budget allows.
choose_scale <- function(data, factors, L, seconds, run, balloon = FALSE) {
  rows <- min(nrow(data$x), max(SCAN_ROWS, floor(sqrt(0.4 * seconds / (10 * pair_seconds(data$d))))))
  batch <- judged(sample_of(data, seq_len(rows)))
  stats <- NULL
  loss <- function(factors) {
    force(factors)
    function(L) {
      found <- log_left_out(batch, L, factors, run, balloon)
      stats <<- if (is.null(stats)) found$stats else add_stats(stats, found$stats)
      -sum(batch$v * found$log_density)
    }
  }
  near <- L / carried(batch, data, bandwidth_rate(PLAIN_ESTIMATOR, data$d))
  found <- polish_factor(list(value = loss(factors[seq_len(rows)]), rows = rows), near, step = 0.3)
  scale <- if (found$converged) found$L[1] / near[1] else 1
  list(scale = scale, gain = loss(NULL)(near) - found$value, stats = stats)
}

# ---- print ------------------------------------------------------------------------------------

adaptive_note <- function(adaptive, digits) {
  if (adaptive$method == "balloon") return(balloon_note(adaptive, digits))
  factors <- adaptive$factors
  range <- vapply(range(factors), format, "", digits = digits)
  gain <- adaptive$gain
  paste0(
    "Adaptive, ", adaptive$method, ": the sds of each point times ", range[1], " to ", range[2], ", ",
    length(unique(factors)), " different factors.",
    if (!is.null(gain)) {
      paste0(
        " Over one bandwidth they gain ", format(gain, digits = 2), " nats a point, left out",
        if (gain < 0.02) ": no more than chance, leave them", "."
      )
    }
  )
}
