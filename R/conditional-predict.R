# Values of p(y | x), and its moments, by sums of kernels over all points; where x is so far out that these are
# small, by the weights of the points there.

#' @rdname flash_conditional
#' @export
predict.flash_conditional <- function(object, newdata, type = c("density", "log_density", "cdf", "mean", "variance"),
                                      loo = FALSE, na.action = stats::na.pass, control = NULL, ...) {
  check_dots_empty(...)
  type <- check_choice(type, c("density", "log_density", "cdf", "mean", "variance"), "type")
  loo <- check_flag(loo, "loo")
  if (missing(newdata)) newdata <- NULL
  run <- start_run(settle_control(control, defaults = fit_asked(object$joint)), "Predicting")
  if (loo) {
    if (!is.null(newdata)) stop_argument("loo", "must be FALSE with `newdata`: only training points can be left out")
    if (!type %in% c("density", "log_density")) {
      stop_argument("loo", "must be FALSE for type = \"", type, "\": found TRUE")
    }
    log_p <- log_conditional(object, NULL, run, loo = TRUE)
    return(stats::napredict(object$na.action, if (type == "density") exp(log_p) else log_p))
  }
  of_x <- type %in% c("mean", "variance")
  at <- conditional_points(object, newdata, of_x, na.action)
  x <- if (of_x) at$points else at$points[, given_dims(object), drop = FALSE]
  result <- switch(type,
    cdf = conditional_cdf(object, at$points[, 1, drop = FALSE], x, run)[, 1],
    mean = conditional_moments(object, x, run)$mean,
    variance = conditional_moments(object, x, run)$variance,
    log_conditional(object, if (!is.null(newdata)) at$points, run)
  )
  at$restore(if (type == "density") exp(result) else result)
}

# ---- newdata ----------------------------------------------------------------------------------

# list(points, restore): finite rows of y and x, or of x alone, and how a result at them becomes one for all.
conditional_points <- function(object, newdata, of_x, na.action = stats::na.pass) {
  if (is.null(newdata)) {
    points <- object$joint$x
    if (of_x) points <- points[, given_dims(object), drop = FALSE]
    return(list(points = points, restore = \(result) stats::napredict(object$na.action, result)))
  }
  if (is.matrix(newdata) && !is.null(colnames(newdata))) newdata <- as.data.frame(newdata)
  if (!is.data.frame(newdata)) {
    stop_argument("newdata", "must be a data frame with the variables of the formula: found ", describe(newdata))
  }
  lacking <- setdiff(if (of_x) object$variables$x else unlist(object$variables), names(newdata))
  if (length(lacking) > 0) {
    stop_argument("newdata", "must have the variables of the formula: found no ", quote_names(lacking))
  }
  if (nrow(newdata) == 0) stop_argument("newdata", "must have at least one row: found none")
  terms <- if (of_x) stats::delete.response(object$terms) else object$terms
  frame <- tryCatch(
    stats::model.frame(terms, newdata, na.action = stats::na.pass),
    error = \(e) stop_argument("newdata", "does not fit the formula: ", shorten(conditionMessage(e), 300))
  )
  points <- frame_points(frame, terms, "newdata")
  if (!of_x) points <- cbind(response_points(frame, "newdata"), points)
  check_finite(points, "newdata", missing = TRUE)
  kept <- newdata_rows(points, na.action)
  list(points = kept$points, restore = \(result) kept$restore(result, NA_real_))
}

# ---- densities --------------------------------------------------------------------------------

# The columns of x in the joint points; those of y stand before them.
given_dims <- function(object) length(object$response) + seq_along(object$given)

# The fit of x alone.
given_side <- function(object) marginal_of(object$joint, given_dims(object))

# p(. | x) for x, a matrix of one row.
conditional_there <- function(object, x, arg = "newdata") conditional_of(object$joint, given_dims(object), x, arg)

# Below this, in nats under the height of a kernel of all weight, logarithms of sums are large beside their
# difference.
FAR_GIVEN <- -100

# Which rows have an x far from all points, by the log of p(x) there.
is_far <- function(side, log_x) which(!(log_x - log_kernel_norm(fit_factor(side)) > FAR_GIVEN))

# log p(y | x) at the rows of `at`, y and x; NULL: the training points, which `loo` leaves out.
log_conditional <- function(object, at, run, loo = FALSE) {
  if (!is.null(at) && nrow(at) == 0) return(numeric())
  if (loo) check_conditional_loo(object)
  side <- given_side(object)
  x <- at[, given_dims(object), drop = FALSE]
  log_x <- log_estimate(side, x, loo, run)$log_abs
  log_p <- log_estimate(object$joint, at, loo, run)$log_abs - log_x
  for (row in if (!is.null(at)) is_far(side, log_x)) {
    y <- at[row, seq_along(object$response), drop = FALSE]
    log_p[row] <- log_estimate(conditional_there(object, x[row, , drop = FALSE]), y, FALSE, run)$log_abs
  }
  log_p
}

check_conditional_loo <- function(object) {
  check_loo(object$joint)
  if (is_debiased(object$joint)) {
    stop(new_error("unsupported", paste0(
      "p(x) of an SD-KDE has points that were debiased together with y, of which none can be left out: ",
      "fit estimator = \"kde\", or leave rows out of the data"
    ), user_call()))
  }
}

# ---- moments ----------------------------------------------------------------------------------

# list(mean, variance) of y at the rows of x, vectors for one y.
conditional_moments <- function(object, x, run) {
  if (nrow(x) == 0) return(list(mean = numeric(), variance = numeric()))
  joint <- object$joint
  side <- given_side(object)
  split <- split_bandwidth(joint$bandwidth, given_dims(object))
  points <- shown_points(joint)
  origin <- points[1, given_dims(object)]
  # at x, kernel i is centred at r_i + slope (x - origin)
  along <- \(x) tcrossprod(x - rep(origin, each = nrow(x)), split$slope)
  r <- points[, seq_along(object$response), drop = FALSE] - along(shown_points(side))
  shift <- along(x)
  weighing <- averages_at(side, x, run)
  widths <- if (is.null(joint$adaptive)) 1 else weighing$average(joint$adaptive$factors^2)
  own <- rowSums(split$L^2)
  each <- lapply(seq_along(object$response), \(k) {
    centre <- stats::median(r[used_rows(joint), k])
    z <- r[, k] - centre
    # logarithms are of what is positive
    off <- weighing$average(pmax(z, 0)) - weighing$average(pmax(-z, 0))
    list(mean = centre + off + shift[, k], variance = pmax(weighing$average(z^2) - off^2, 0) + widths * own[k])
  })
  as_columns <- function(part) {
    matrix(vapply(each, `[[`, numeric(nrow(x)), part), nrow(x), dimnames = list(NULL, object$response))
  }
  found <- lapply(c(mean = "mean", variance = "variance"), as_columns)
  for (row in weighing$far) {
    there <- moments_of_fit(conditional_there(object, x[row, , drop = FALSE]))
    for (part in names(found)) found[[part]][row, ] <- there[[part]]
  }
  if (length(object$response) == 1) lapply(found, as.vector) else found
}

# average(values): the mean of a non-negative number of each point, weighted as the kernels of `side` are at the
# rows of x; far: where these are too far away for it.
averages_at <- function(side, x, run) {
  sources <- fit_sources(side)
  at <- from_centre(side, x)
  log_total <- log_sum(sources, at, PLAIN_FACTOR, FALSE, run)$log_abs
  average <- function(values) {
    top <- max(values[used_rows(side)])
    if (top == 0) return(numeric(nrow(at)))
    weights <- values / top * if (is.null(side$weights)) 1 else side$weights
    own <- sum_sources(sources$points, weights, sources$L, factors = sources$factors)
    top * exp(log_sum(own, at, PLAIN_FACTOR, FALSE, run)$log_abs - log_total)
  }
  list(average = average, far = is_far(side, log_total + log_kernel_norm(sources$L) - log(total_weight(side))))
}

# list(mean, variance) of each variable of an estimate of weighted points.
moments_of_fit <- function(fit) {
  points <- shown_points(fit)
  weights <- fit$weights / sum(fit$weights)
  factors <- if (is.null(fit$adaptive)) 1 else fit$adaptive$factors
  mean <- colSums(weights * points)
  around <- (points - rep(mean, each = fit$n))^2
  list(mean = mean, variance = colSums(weights * around) + sum(weights * factors^2) * diagonal(fit$bandwidth))
}
