# Results that need the whole distribution of y at each x: distribution functions and quantiles
# (src/cpu/loops/conditional.c), and draws. If the bandwidths of y and x are not correlated, only the weights of the
# points change from one x to the next, not their positions.

#' @rdname flash_conditional
#' @export
quantile.flash_conditional <- function(x, newdata = NULL, probs = c(0.1, 0.25, 0.5, 0.75, 0.9),
                                       na.action = stats::na.pass, ...) {
  check_dots_empty(...)
  check_one_response(x, "x")
  check_numeric_response(x, "quantiles")
  check_unsigned(x, "quantiles", "use kde_cdf() for the distribution function")
  probs <- check_prob(probs, "probs")
  at <- conditional_points(x, newdata, of_x = TRUE, na.action)
  check_memory(8 * 3 * length(probs) * as.double(nrow(at$points)), "newdata")
  inner <- probs > 0 & probs < 1
  size <- c(nrow(at$points), length(probs))
  found <- array(rep(ifelse(probs == 0, -Inf, Inf), each = size[1]), size, list(NULL, percent_label(probs)))
  if (any(inner)) {
    run <- start_run(fit_asked(x$joint), "Finding quantiles")
    found[, inner] <- conditional_quantiles(x, probs[inner], at$points, run)
  }
  at$restore(found)
}

#' @export
median.flash_conditional <- function(x, na.rm = FALSE, newdata = NULL, ...) {
  check_flag(na.rm, "na.rm") # the second argument of the generic
  as.vector(stats::quantile(x, newdata, probs = 0.5, ...))
}

#' @export
mean.flash_conditional <- function(x, newdata = NULL, ...) stats::predict(x, newdata, type = "mean", ...)

#' @rdname flash_conditional
#' @export
kde_cdf.flash_conditional <- function(object, q, newdata, na.action = stats::na.pass, ...) {
  check_dots_empty(...)
  check_one_response(object, "object")
  check_numeric_response(object, "distribution functions")
  if (missing(q) || !is_number(q) || length(q) == 0 || anyNA(q)) {
    stop_argument("q", "must be numbers: found ", if (missing(q)) "nothing" else describe(q))
  }
  at <- conditional_points(object, if (!missing(newdata)) newdata, of_x = TRUE, na.action)
  run <- start_run(fit_asked(object$joint), "Integrating")
  m <- nrow(at$points)
  check_memory(8 * 4 * length(q) * as.double(m), "newdata")
  found <- matrix(rep(as.double(q > 0), each = m), m, dimnames = list(NULL, format(q, trim = TRUE)))
  inside <- is.finite(q)
  y <- matrix(rep(as.double(q[inside]), each = m), m)
  if (any(inside)) found[, inside] <- conditional_cdf(object, y, at$points, run)
  at$restore(found)
}

#' @rdname flash_conditional
#' @export
simulate.flash_conditional <- function(object, nsim = 1, seed = NULL, newdata, na.action = stats::na.pass, ...) {
  check_dots_empty(...)
  check_unsigned(object, "draws", "fit estimator = \"kde\" or \"sdkde\"")
  nsim <- check_count(nsim, "nsim")
  at <- conditional_points(object, if (!missing(newdata)) newdata, of_x = TRUE, na.action)
  k <- length(object$response)
  check_memory(8 * 3 * as.double(nsim) * k * nrow(at$points), "nsim")
  with_seed_of_simulate(seed, {
    draws <- matrix(NaN, nrow(at$points), nsim * k)
    visit_conditionals(object, at$points, \(there, row) draws[row, ] <<- draw_estimate(there, nsim))
    names <- paste0("sim_", seq_len(nsim))
    colnames(draws) <- if (k == 1) names else paste0(names, ".", rep(object$response, each = nsim))
    drawn <- as.data.frame(at$restore(draws))
    for (column in response_levels(object)) drawn[] <- lapply(drawn, \(codes) as_levels(object, codes, column))
    drawn
  })
}

check_one_response <- function(object, arg) {
  if (length(object$response) > 1) {
    stop_argument(arg, "must have one variable on the left side: found ", length(object$response))
  }
}

# P(Y <= y | x) at the rows of x, for each column of y, a matrix with as many rows.
conditional_cdf <- function(object, y, x, run) {
  check_one_response(object, "object")
  check_numeric_response(object, "distribution functions")
  found <- matrix(NaN, nrow(x), ncol(y))
  each_given_level(object, x, \(there, x, rows) {
    if (is_signed(object$joint)) {
      found[rows, ] <<- laplace_cdf(there, y[rows, , drop = FALSE], x)
      return()
    }
    job <- conditional_job(there, x)
    job$y <- transposed(job$inward(y[rows, , drop = FALSE]))
    found[rows, ] <<- t(conditional_at(job, run))
  })
  found
}

# The values of y where P(Y <= y | x) is each of `probs`, a column for each.
conditional_quantiles <- function(object, probs, x, run) {
  upper <- probs > 0.5
  tail <- ifelse(upper, 1 - probs, probs)
  found <- matrix(NaN, nrow(x), length(probs))
  each_given_level(object, x, \(there, x, rows) {
    job <- conditional_job(there, x)
    job$probabilities <- rbind(tail, stats::qnorm(tail), upper, deparse.level = 0)
    found[rows, ] <<- job$outward(transposed(conditional_at(job, run)))
  })
  found
}

conditional_at <- function(job, run) {
  if (ncol(job$at) == 0) return(matrix(0, max(nrow(job$y), ncol(job$probabilities)), 0))
  found <- conditional_sums(job, run)
  if (anyNA(found)) stop_too_far()
  found
}

stop_too_far <- function() {
  stop_argument("newdata", "is too far from the points: the distance overflows")
}

# Input of conditional_sums(), from the points and rows of x. `inward` converts y, with a row for each x, to bandwidths
# relative to the centre at that x; `outward` converts back.
conditional_job <- function(object, x) {
  joint <- object$joint
  dims <- given_dims(object)
  split <- split_bandwidth(joint$bandwidth, dims)
  points <- fit_points(joint)
  # relative to one of the points, differences of near points keep their digits, also far from 0
  origin <- points[which(used_rows(joint))[1], ]
  centre <- if (is.null(fit_centre(joint))) 0 else fit_centre(joint)[[1]]
  own <- shift_points(points, origin, -1)
  own_x <- own[, dims, drop = FALSE]
  at <- shift_points(if (ncol(x) > 0) from_centre(given_side(object), x) else x, origin[dims], -1)
  along <- \(x) drop(tcrossprod(x, split$slope))
  unit <- split$L[1]
  # with categories alone given, all numbers of x are equal
  whitened <- \(x) if (ncol(x) > 0) t(whiten(x, given_factor)) else matrix(0, 1, nrow(x))
  given_factor <- if (length(dims) > 0) lower_factor(joint$bandwidth[dims, dims, drop = FALSE], "bandwidth")
  factors <- joint$adaptive$factors
  log_weights <- if (is.null(joint$weights)) numeric(joint$n) else log(joint$weights)
  if (!is.null(factors)) log_weights <- log_weights - length(dims) * log(factors)
  job <- list(
    x = whitened(own_x), log_weights = log_weights, centres = (own[, 1] - along(own_x)) / unit,
    widths = factors, at = whitened(at),
    inward = \(y) (y - centre - origin[[1]] - along(at)) / unit,
    outward = \(z) z * unit + along(at) + origin[[1]] + centre
  )
  if (!any(abs(job$x) > FAR_OUT, abs(job$centres) > FAR_OUT)) return(job)
  given <- if (ncol(x) > 0) from_centre(given_side(object), x) else x
  far_job(job, joint$bandwidth, points, given, dims, centre)
}

# conditional_job() for points far from the origin, with low parts (base-whitened.R). The whitened (x, y) is the
# whitened x, and y less its regression on x in units of its bandwidth. Quantiles are relative to a point.
far_job <- function(job, H, points, given, dims, centre) {
  columns <- c(dims, 1)
  L <- lower_factor(H[columns, columns, drop = FALSE], "bandwidth")
  origin <- points[1, columns]
  doubled <- \(x, y) doubled_columns(cbind(x, y), L, origin)
  parts <- \(u, k, shape) structure(shape(u[k, ]), low = shape(low_parts(u)[k, ]))
  of_x <- seq_along(dims)
  at_origin <- \(u) if (length(dims) > 0) parts(u, of_x, \(u) matrix(u, length(dims))) else parts(0 * u, 1, t)
  own <- doubled(points[, dims, drop = FALSE], points[, 1])
  job$x <- at_origin(own)
  job$centres <- parts(own, length(columns), as.vector)
  job$at <- at_origin(doubled(given, rep(0, nrow(given))))
  slope <- split_bandwidth(H, dims)$slope
  job$inward <- function(y) {
    found <- lapply(seq_len(ncol(y)), \(k) parts(doubled(given, y[, k] - centre), length(columns), as.vector))
    structure(matrix(unlist(found), nrow(y)), low = matrix(unlist(lapply(found, low_parts)), nrow(y)))
  }
  job$outward <- function(z) {
    nearest <- t(attr(z, "nearest")) + 1
    move <- \(k) drop(tcrossprod(given - points[nearest[, k], dims, drop = FALSE], slope))
    moved <- vapply(seq_len(ncol(z)), move, numeric(nrow(z)))
    matrix(z, nrow(z)) * L[length(columns), length(columns)] + moved + points[as.vector(nearest), 1] + centre
  }
  job
}

# Number of weights that may be in memory at a time.
CHUNK_WEIGHTS <- 2e6

# Calls `visit(there, row)` with the fit p(. | x) at each row of x. Drops points whose total weight is below 1e-20 of
# the largest weight.
visit_conditionals <- function(object, x, visit) {
  each_given_level(object, x, \(there, x, rows) {
    own <- \(fit, row) visit(fit, rows[row])
    if (ncol(x) > 0) visit_numbers(there, x, own) else for (row in seq_along(rows)) own(there$joint, row)
  })
}

# visit_conditionals() for x without categorical columns.
visit_numbers <- function(object, x, visit) {
  if (nrow(x) == 0) return(invisible())
  joint <- object$joint
  dims <- given_dims(object)
  side <- marginal_of(joint, dims)
  moves <- length(dims) < joint$d && any(split_bandwidth(joint$bandwidth, dims)$slope != 0)
  there_at <- function(values) {
    moved <- if (length(dims) < joint$d) move_with(joint, side, dims, values) else without_numbers(joint)
    if (is.null(joint$discrete)) moved else with_levels(moved, joint, character())
  }
  still <- there_at(x[1, ])
  least <- 1e-20 / joint$n
  m <- nrow(x)
  size <- max(1, floor(CHUNK_WEIGHTS / joint$n))
  for (from in seq(1, m, by = size)) {
    rows <- from:min(from + size - 1, m)
    log_w <- given_log_weights(side, x[rows, , drop = FALSE])
    for (j in seq_along(rows)) {
      there <- if (moves) there_at(x[rows[j], ]) else still
      visit(weigh_points(there, log_w[, j], "newdata", least), rows[j])
    }
  }
}

# Whitens the numbers; categories, in the last columns, stay.
whitened <- function(x, data) {
  d <- length(data$middle)
  if (ncol(x) > d) {
    levels <- x[, d + seq_len(ncol(x) - d), drop = FALSE]
    return(cbind(whitened(x[, seq_len(d), drop = FALSE], data), unname(levels)))
  }
  u <- if (is_diagonal(data$L)) {
    (x - rep(data$middle, each = nrow(x))) / rep(diagonal(data$L), each = nrow(x))
  } else {
    t(forwardsolve(data$L, t(x) - data$middle))
  }
  u <- unname(u)
  if (any(abs(u) > FAR_OUT, na.rm = TRUE)) transposed(with_low(t(u), x, data$L, data$middle)) else u
}
