# Values and moments of p(y | x), from sums of kernels over all points. Where x is so far out that these sums are small,
# they are computed from the weights of the points there.

#' @rdname flash_conditional
#' @export
predict.flash_conditional <- function(object, newdata, type = c(
                                        "density", "log_density", "cdf", "mean", "variance", "probability", "class"
                                      ), loo = FALSE, na.action = stats::na.pass, control = NULL, ...) {
  check_dots_empty(...)
  type <- check_choice(type, eval(formals()$type), "type")
  loo <- check_flag(loo, "loo")
  if (missing(newdata)) newdata <- NULL
  run <- start_run(settle_control(control, defaults = fit_asked(object$joint)), "Predicting")
  if (loo) {
    if (!is.null(newdata)) stop_argument("loo", "must be FALSE with `newdata`: only training points can be left out")
    if (!type %in% c("density", "log_density")) {
      stop_argument("loo", "must be FALSE for type = \"", type, "\": found TRUE")
    }
    estimate <- log_conditional(object, NULL, run, loo = TRUE)
    result <- if (type == "density") signed_density(estimate) else signed_log(estimate)
    return(stats::napredict(object$na.action, result))
  }
  if (type == "class") check_one_level(object, "class")
  of_x <- type %in% c("mean", "variance", "probability", "class")
  at <- conditional_points(object, newdata, of_x, na.action)
  x <- if (of_x) at$points else at$points[, given_columns(object), drop = FALSE]
  result <- switch(type,
    cdf = conditional_cdf(object, at$points[, 1, drop = FALSE], x, run)[, 1],
    mean = conditional_moments(object, x, run)$mean,
    variance = conditional_moments(object, x, run)$variance,
    probability = , class = level_probabilities(object, x, run),
    density = signed_density(log_conditional(object, if (!is.null(newdata)) at$points, run)),
    log_density = signed_log(log_conditional(object, if (!is.null(newdata)) at$points, run))
  )
  result <- at$restore(result)
  if (type == "class") likeliest_level(object, result) else result
}

# ---- newdata ----------------------------------------------------------------------------------

# list(points, restore): the finite rows of y and x, or of x alone, and a function that expands results to all rows.
conditional_points <- function(object, newdata, of_x, na.action = stats::na.pass, arg = "newdata") {
  if (is.null(newdata)) {
    points <- own_places(object$joint)
    if (of_x) points <- points[, given_columns(object), drop = FALSE]
    return(list(points = points, restore = \(result) stats::napredict(object$na.action, result)))
  }
  if (is.matrix(newdata) && !is.null(colnames(newdata))) newdata <- as.data.frame(newdata)
  if (!is.data.frame(newdata)) {
    stop_argument(arg, "must be a data frame with the variables of the formula: found ", describe(newdata))
  }
  lacking <- setdiff(if (of_x) object$variables$x else unlist(object$variables), names(newdata))
  if (length(lacking) > 0) {
    hint <- if (all(lacking %in% object$variables$y)) " (type = \"mean\" and quantile() need only those of x)"
    stop_argument(arg, "must have the variables of the formula: found no ", quote_names(lacking), hint)
  }
  terms <- if (of_x) stats::delete.response(object$terms) else object$terms
  frame <- tryCatch(
    stats::model.frame(terms, newdata, na.action = stats::na.pass),
    error = \(e) stop_argument(arg, "does not fit the formula: ", shorten(conditionMessage(e), 300))
  )
  frame <- dates_as_numbers(frame, object$dates, arg)
  known <- c(if (!of_x) response_levels(object), given_levels(object))
  points <- if (length(known) > 0) {
    values <- c(if (!of_x) response_columns(frame, arg), apart(term_columns(frame, terms)))
    encode(values[setdiff(names(values), known)], values[known], object$joint$discrete$columns[known], arg)
  } else {
    cbind(if (!of_x) response_points(frame, arg), frame_points(frame, terms, arg, none = TRUE))
  }
  check_finite(points, arg, missing = TRUE)
  kept <- newdata_rows(points, na.action, arg)
  list(points = kept$points, restore = \(result) kept$restore(result, NA_real_))
}

# ---- densities --------------------------------------------------------------------------------

# Numbers of the columns of x among the joint points; those of y stand before them.
given_dims <- function(object) which(object$joint$names %in% object$given)

# The fit to x alone.
given_side <- function(object) marginal_of(object$joint, object$given, NULL)

# The density p(. | x) at one row of x, a matrix; NULL if no point has positive weight there.
conditional_there <- function(object, x, arg = "newdata") {
  kernels <- kernels_there(object, x, arg)
  if (!is.null(kernels)) weigh_points(kernels$fit, kernels$log_w, arg)
}

# conditional_kernels() at one row of x.
kernels_there <- function(object, x, arg = "newdata") {
  dims <- given_dims(object)
  if (is.null(object$joint$discrete)) return(conditional_kernels(object$joint, dims, x))
  numbers <- x[, seq_along(dims), drop = FALSE]
  codes <- stats::setNames(x[, length(dims) + seq_along(given_levels(object))], given_levels(object))
  if (!any(shares_of_given(object$joint$discrete, codes) > 0)) return(NULL)
  mixed_conditional_kernels(object$joint, list(dims = dims, values = numbers, codes = codes), arg)
}

# Log density, relative to the height of a kernel with all weight, below which x counts as far: logarithms of the two
# sums are then large relative to their difference.
FAR_GIVEN <- -100

# Numbers of the rows whose x is far from all points. `log_x`: the log of p(x) there.
is_far <- function(side, log_x) which(!(log_x - log_kernel_norm(fit_factor(side)) > FAR_GIVEN))

# list(log_abs, negative), like log_estimate(), of p(y | x) at the rows of `at` (y and x). NULL: at the training points,
# leave-one-out if `loo`.
log_conditional <- function(object, at, run, loo = FALSE) {
  if (has_none(at)) return(list(log_abs = numeric()))
  if (loo) check_conditional_loo(object)
  side <- given_side(object)
  columns <- given_columns(object)
  x <- at[, columns, drop = FALSE]
  below <- log_estimate(side, x, loo, run)
  above <- log_estimate(object$joint, at, loo, run)
  found <- signed_ratio(above, below)
  for (row in if (!is.null(at)) is_far(side, below$log_abs)) {
    there <- log_conditional_far(object, at[row, -columns, drop = FALSE], x[row, , drop = FALSE], run)
    for (part in names(found)) found[[part]][row] <- there[[part]]
  }
  found
}

# log_conditional() at one row, from the kernels of all points: a point of small weight at x may be the only one near y.
log_conditional_far <- function(object, y, x, run) {
  if (!is_signed(object$joint)) {
    there <- kernels_there(object, x)
    if (is.null(there)) return(list(log_abs = NaN))
    log_w <- there$log_w - top_weight(there$fit, there$log_w, "newdata")
    log_wk <- log_w + log_kernels(there$fit, y)
    top <- max(log_wk)
    if (top == -Inf) return(list(log_abs = -Inf))
    return(list(log_abs = top + log(sum(exp(log_wk - top))) - log(sum(exp(log_w)))))
  }
  found <- list(log_abs = NaN, negative = FALSE)
  each_given_level(object, x, \(there, x, rows) found <<- laplace_far(there, y, x, run))
  found
}

check_conditional_loo <- function(object) {
  check_loo(object$joint)
  if (is_debiased(object$joint)) {
    stop(new_error("unsupported", paste0(
      "leave-one-out values are not available for the conditional density of an SD-KDE, whose points are debiased ",
      "together: fit estimator = \"kde\", or use cross_validate()"
    ), user_call()))
  }
}

# ---- moments ----------------------------------------------------------------------------------

# list(mean, variance) of y at the rows of x; vectors if there is one y.
conditional_moments <- function(object, x, run) {
  check_numeric_response(object, "means and variances")
  found <- matrix(NaN, nrow(x), length(object$response), dimnames = list(NULL, object$response))
  found <- list(mean = found, variance = found)
  each_given_level(object, x, \(there, x, rows) {
    part <- if (is_signed(object$joint)) {
      laplace_moments(there, x)
    } else if (ncol(x) > 0) {
      moments_at(there, x, run)
    } else {
      lapply(moments_of_fit(there$joint), t)
    }
    for (name in names(found)) found[[name]][rows, ] <<- rep_len(part[[name]], length(rows) * length(object$response))
  })
  if (length(object$response) == 1) lapply(found, as.vector) else found
}

# conditional_moments() for x without categorical columns; matrices.
moments_at <- function(object, x, run) {
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
    # logarithms need positive values
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
  found
}

# list(average, far): `average(values)` is the mean of non-negative values of the points, weighted by the kernels of
# `side` at each row of x; `far`: numbers of the rows that are too far from all points for it.
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

# list(mean, variance) of each variable under an estimate of weighted points.
moments_of_fit <- function(fit) {
  points <- shown_points(fit)
  weights <- if (is.null(fit$weights)) rep(1 / fit$n, fit$n) else fit$weights / sum(fit$weights)
  factors <- if (is.null(fit$adaptive)) 1 else fit$adaptive$factors
  mean <- colSums(weights * points)
  around <- (points - rep(mean, each = fit$n))^2
  list(mean = mean, variance = colSums(weights * around) + sum(weights * factors^2) * diagonal(fit$bandwidth))
}
