# Families of responses: what kernel_ridge() minimises, and what its methods know of the distribution of the response.

#' Families of responses for kernel ridge regression
#'
#' Families that have parameters, for the argument `family` of [kernel_ridge()].
#'
#' @details
#' The fit minimises the weighted mean loss of the rows plus \eqn{\lambda \alpha' K \alpha / 2}{lambda alpha' K alpha / 2}.
#' The loss is half the unit deviance for `"binomial"`, `"multinomial"`, `"poisson"`, `"Gamma"` and `"negbin"` (variance
#' mu + mu^2 / theta), the last three with log link. For `"quantile"` it is the pinball loss, smoothed over a
#' thousandth of its mean at the median or quantile of all responses. Predictions of several levels are sorted at each
#' point, so that they never cross. Without `lambda`, quantiles of leave-one-out residuals are added to a fit by squared
#' loss: `lambda` may be both penalties.
#' @param family Name of the family.
#' @param levels For `"quantile"`: increasing levels between 0 and 1. Default 0.5, the median.
#' @param theta For `"negbin"`: the size of the negative binomial distribution, a positive number.
#' @param delta For `"huber"`: the residual beyond which the loss is linear. `NULL` (default): 1.345 times the
#'   normalised median absolute residual of the fit.
#' @returns An object of class `ridge_family`.
#' @seealso [kernel_ridge()]
#' @rawRd \concept{quantile regression}\concept{Poisson regression}\concept{robust regression}\concept{count data}
#' @export
#' @examples
#' quantiles <- ridge_family("quantile", levels = c(0.1, 0.5, 0.9))
#' fit <- kernel_ridge(dist ~ speed, cars, family = quantiles)
#' matplot(cars$speed, predict(fit), type = "l", lty = 1)
ridge_family <- function(family, levels = 0.5, theta = NULL, delta = NULL) {
  family <- check_choice(family, names(FAMILIES), "family")
  own <- FAMILIES[[family]]
  if (family == "quantile") {
    good <- is_number(levels) && length(levels) > 0 && all(is.finite(levels)) && all(levels > 0 & levels < 1) &&
      !is.unsorted(levels, strictly = TRUE)
    if (!good) stop_argument("levels", "must be increasing numbers between 0 and 1: found ", describe(levels))
    own$loss <- c(own$loss[1:2], as.double(levels))
    own$levels <- as.double(levels)
  }
  if (family == "negbin") own$loss[2] <- check_penalty(theta, "theta")
  if (family == "huber" && !is.null(delta)) own[c("loss", "stages")] <- list(c(own$loss[1], check_penalty(delta, "delta")), 0)
  own
}

# The elements of a family besides `family` and `link`:
# - loss: number of the loss and its parameters, for row_loss(); error, its name in print().
# - squared: is the loss the square, so that the fit is linear in the response? of_classes: is the response a factor?
#   has_likelihood: does the loss belong to a distribution? free_scale: does that have a scale to be estimated?
# - check(response, arg): stops if the response does not suit.
# - working(y): the response on the scale of the link; curvature(y): size of the second derivatives: both for defaults.
# - variance(mu); log_density(y, mu, phi, theta); draw(mu, phi, theta).
# - stages: number of Newton steps before the loss is final; staged(loss, y, f, unit, iteration): the loss in a step,
#   where `unit` is the mean loss at the start.
new_family <- function(family, link = "identity", loss = NULL, title = NULL, error = "mean deviance", squared = FALSE,
                       of_classes = FALSE, has_likelihood = TRUE, free_scale = FALSE, check = \(response, arg) NULL,
                       working = identity, curvature = \(y) 1, variance = \(mu) 1, log_density = NULL, draw = NULL,
                       stages = 0, staged = NULL) {
  own <- mget(names(formals()))
  own$linkinv <- switch(link, log = exp, logit = stats::plogis, identity)
  structure(own, class = c("ridge_family", "family"))
}

check_numeric <- function(response, arg, low = -Inf, strictly = FALSE) {
  y <- response$y
  if (!is.null(response$classes)) stop_argument(arg, "must be numeric for this family: found classes")
  if (ncol(y) != 1) stop_argument(arg, "must have one column for this family: found ", ncol(y))
  if (low == -Inf) return(invisible())
  bad <- sum(if (strictly) y <= low else y < low)
  if (bad > 0) {
    found <- if (strictly) "must be positive" else "must be at least 0"
    stop_argument(arg, found, " for this family: found ", whole(bad), ngettext(bad, " value that is not", " values that are not"))
  }
  if (sum(y > 0) == 0) stop_argument(arg, "must have a positive value for this family: found only 0")
}
counts_only <- \(response, arg) check_numeric(response, arg, 0)
log_counts <- \(y) log(y + 0.5)

# Widths of the smoothed pinball loss halve from the mean loss at the start to a thousandth of it.
quantile_stage <- function(loss, y, f, unit, iteration) {
  replace(loss, 2, unit * 2^-min(iteration, QUANTILE_STAGES))
}
QUANTILE_STAGES <- 10

# As MASS::rlm() has it: the scale is the median absolute residual in the first steps.
huber_stage <- function(loss, y, f, unit, iteration) {
  if (iteration > HUBER_STAGES) return(loss)
  replace(loss, 2, max(1.345 * stats::median(abs(as.vector(collected(y) - collected(f)))) / 0.6745, 1e-8 * unit))
}
HUBER_STAGES <- 8

CLASS_LOSS <- 0
FAMILIES <- list(
  gaussian = new_family("gaussian", squared = TRUE, error = "RMSE", free_scale = TRUE),
  binomial = new_family("binomial", "logit", CLASS_LOSS, error = "log loss", of_classes = TRUE, check = \(response, arg) {
    k <- length(response$classes)
    if (k > 2) stop_argument("family", "must be \"multinomial\" for ", k, " classes: found \"binomial\"")
  }),
  multinomial = new_family("multinomial", "logit", CLASS_LOSS, error = "log loss", of_classes = TRUE),
  poisson = new_family(
    "poisson", "log", 1, "Kernel Poisson regression", check = counts_only, working = log_counts, curvature = mean,
    variance = identity, log_density = \(y, mu, phi, theta) y * log(mu) - mu - lgamma(y + 1),
    draw = \(mu, phi, theta) stats::rpois(length(mu), mu)
  ),
  Gamma = new_family(
    "Gamma", "log", 2, "Kernel Gamma regression", free_scale = TRUE,
    check = \(response, arg) check_numeric(response, arg, 0, strictly = TRUE), working = log, variance = \(mu) mu^2,
    log_density = \(y, mu, phi, theta) stats::dgamma(y, 1 / phi, scale = phi * mu, log = TRUE),
    draw = \(mu, phi, theta) stats::rgamma(length(mu), 1 / phi, scale = phi * mu)
  ),
  negbin = new_family(
    "negbin", "log", c(3, NA), "Kernel negative binomial regression", check = counts_only, working = log_counts,
    curvature = mean, log_density = \(y, mu, phi, theta) stats::dnbinom(y, theta, mu = mu, log = TRUE),
    draw = \(mu, phi, theta) stats::rnbinom(length(mu), theta, mu = mu)
  ),
  huber = new_family(
    "huber", loss = c(4, NA), title = "Kernel regression by Huber's loss", error = "Huber loss", has_likelihood = FALSE,
    check = \(response, arg) check_numeric(response, arg), stages = HUBER_STAGES, staged = huber_stage
  ),
  quantile = new_family(
    "quantile", loss = c(5, 0, 0.5), title = "Kernel quantile regression", error = "pinball loss", has_likelihood = FALSE,
    check = \(response, arg) check_numeric(response, arg), curvature = \(y) 1 / max(mean(abs(y - stats::median(y))), 1e-300),
    stages = QUANTILE_STAGES, staged = quantile_stage
  )
)
FAMILIES$quantile$levels <- 0.5

# The family by its name, as a function or as an object of package stats.
check_family <- function(family, arg) {
  if (is.function(family)) family <- family()
  if (inherits(family, "family") && !inherits(family, "ridge_family")) {
    own <- FAMILIES[[check_choice(family$family, names(FAMILIES), arg)]]
    if (family$link == own$link) return(own)
    stop_argument(arg, "must have the ", own$link, " link for ", own$family, ": found \"", family$link, "\"")
  }
  if (!inherits(family, "ridge_family")) family <- FAMILIES[[check_choice(family, names(FAMILIES), arg)]]
  if (family$family == "negbin" && is.na(family$loss[2])) {
    stop_argument(arg, "needs a size: use ridge_family(\"negbin\", theta = )")
  }
  family
}

default_family <- function(family, y) {
  if (!is.null(family)) family else if (is_classes(y)) FAMILIES$multinomial else FAMILIES$gaussian
}

# One column of the response for each level of several quantiles, with their names.
spread_levels <- function(response, family) {
  if (length(family$levels) < 2) return(response)
  names <- format(family$levels, trim = TRUE, drop0trailing = TRUE)
  if (is_column(response$y)) stop_argument("family", "must have one level for rows on workers: found ", length(names))
  response$y <- matrix(response$y[, 1], nrow(response$y), length(names), dimnames = list(NULL, names))
  response$outputs <- names
  response
}

# Several quantiles, sorted at each point; other means as they are.
sort_levels <- function(f) {
  if (ncol(f) < 2) return(f)
  matrix(f[order(row(f), f)], nrow(f), byrow = TRUE, dimnames = dimnames(f))
}

# The mean of the response at the link: n x t, of two classes the probability of the second.
means_of_link <- function(family, link) {
  if (family$of_classes) {
    p <- link_probabilities(link)
    return(if (ncol(p) == 2) p[, 2, drop = FALSE] else p)
  }
  if (!is.null(family$levels)) sort_levels(link) else family$linkinv(link)
}

# The variance of the response over its scale.
family_variance <- function(family, mu) if (family$family == "negbin") mu + mu^2 / family$loss[2] else family$variance(mu)

# Returns function(link) to list(value, first, second): a mean that is no linear function of one column of the link, with
# its derivatives.
mean_curve <- function(family) {
  if (family$link == "log") return(\(link) { mu <- exp(link[, 1]); list(value = mu, first = mu, second = mu) })
  function(link) {
    p <- link_probabilities(link)
    list(value = p[, 2], first = p[, 1] * p[, 2], second = p[, 1] * p[, 2] * (p[, 1] - p[, 2]))
  }
}

# The loss without smoothing, in which errors are measured.
final_loss <- function(family) if (family$family == "quantile") replace(family$loss, 2, 0) else family$loss

# The mean loss at held-out rows, as family$error calls it.
held_error <- function(family, link, y, classes) {
  if (family$squared) return(squared_error(link, y, classes))
  size <- if (family$error == "mean deviance") 2 else 1 / max(1, length(family$levels))
  size * mean_loss(final_loss(family), link, y, checked_run(settle_control(NULL)))
}

# ---- quantiles by default -------------------------------------------------------------------------

# Where the noise is small, the location of the response needs a small penalty, and its distribution around the
# location a large one. Without one `lambda` the location is therefore the fit by squared loss, and the quantiles are those of
# its leave-one-out residuals, with the same kernel and a penalty of their own. The coefficients of both are added. One
# penalty for both had pinball losses of 1.13 instead of 0.76 on concrete, 0.52 instead of 0.34 on airfoil. `lambda` has both
# penalties. If the second one is NA, it is 0.3 times that of fits to two thirds of a sample, whose losses are smoothed more.
takes_residuals <- function(rows, spec) {
  given <- spec[c("start", "checkpoint", "validation")]
  !is.null(spec$family$levels) && length(spec$lambda) != 1 && all(lengths(given) == 0) && !spec$plan && !is.matrix(spec$centers) &&
    inherits(rows, "rows_dense") && rows$n >= LEAST_PORTFOLIO && !(isTRUE(spec$exact) && rows$n > EXACT_FACTORISED)
}

fit_residual_quantiles <- function(rows, response, spec, run) {
  offset <- check_offset(spec$offset, rows$n, ncol(response$y))
  own <- list(iterations = NULL, tolerance = NULL, keep = TRUE, lambda = spec$lambda[1])
  of <- location_of(list(response = response, spec = replace(spec, names(own), own)), rows)
  one <- of$response
  base <- fit_drawn(rows, one, of$spec, run)
  left <- as.vector((one$y - fitted_link(base, run)) / (1 - hat_diagonal(base, run)))
  weights <- base$data$weights
  problem <- list(
    rows = base$data$rows, y = 0 * response$y + left, weights = weights, intercept = spec$intercept,
    family = spec$family
  )
  y <- response$y
  penalties <- c(base$lambda, spec$lambda[2])
  spec[c("kernel", "bandwidth", "L", "chosen")] <- base[c("kernel", "bandwidth", "L", "chosen")]
  if (is.na(penalties[2])) {
    spec$chosen <- union(spec$chosen, "lambda")
    response$y <- problem$y
    sample <- with_fixed_seed(draw_sample(rows, response, weights, NULL, DEFAULT_SAMPLE), spec$seed)
    K <- kernels_between(NULL, sample$points, spec$L, spec$kernel, run)
    penalties[2] <- 0.3 * family_noise(thirds_of(K), sample, run) * sample$per_row
  }
  spec$lambda <- penalties[2]
  all <- base$center_index
  some <- spread_rows(length(all), if (rows$n > EXACT_ROWS) default_centers(rows$n) else Inf)
  solved <- fit_by_centers(problem, replace(settle_solver(spec), c("centers", "exact"), list(all[some], FALSE)), run)
  at <- match(solved$center_index, all)
  coefficients <- matrix(base$coefficients, length(all), ncol(response$y))
  coefficients[at, ] <- coefficients[at, ] + solved$coefficients
  problem[c("y", "offset")] <- list(y, offset)
  new_ridge(problem, response, replace(settle_solver(spec), c("exact", "lambda"), list(base$exact, penalties)), c(
    list(coefficients = coefficients, intercept = base$intercept + solved$intercept, columns = base$state$columns),
    solved[c("trace", "iterations", "converged", "best_iteration", "loss")],
    base[c("centers", "center_index", "merged", "jitter")], list(seconds = c(base$seconds, solved$seconds))
  ))
}

# A list with elements `response` and `spec`, for the location alone: squared loss of one column.
location_of <- function(task, rows) {
  offset <- check_offset(task$spec$offset, rows$n, ncol(task$response$y))
  task$spec[c("family", "offset")] <- list(FAMILIES$gaussian, offset[, 1])
  task$response <- list(y = unname(task$response$y[, 1, drop = FALSE]), family = FAMILIES$gaussian)
  task
}
