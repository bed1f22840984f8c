# What needs the whole distribution of y at each x: distribution functions, quantiles and draws. The points keep
# their places from one x to the next; only their weights change, where the bandwidths of y and x are not
# correlated.

#' @rdname flash_conditional
#' @export
quantile.flash_conditional <- function(x, newdata, probs = c(0.1, 0.25, 0.5, 0.75, 0.9),
                                       na.action = stats::na.pass, ...) {
  check_dots_empty(...)
  check_one_response(x, "x")
  probs <- check_prob(probs, "probs")
  at <- conditional_points(x, if (!missing(newdata)) newdata, of_x = TRUE, na.action)
  check_memory(8 * 3 * length(probs) * as.double(nrow(at$points)), "newdata")
  inner <- probs > 0 & probs < 1
  found <- matrix(rep(ifelse(probs == 0, -Inf, Inf), each = nrow(at$points)), nrow(at$points))
  dimnames(found) <- list(NULL, percent_label(probs))
  if (any(inner)) {
    tail <- min(probs[inner], 1 - probs[inner])
    visit_conditionals(x, at$points, \(there, row) found[row, inner] <<- invert_cdf(there, probs[inner]), tail)
  }
  at$restore(found)
}

#' @rdname flash_conditional
#' @export
cdf.flash_conditional <- function(object, q, newdata, na.action = stats::na.pass, ...) {
  check_dots_empty(...)
  check_one_response(object, "object")
  if (missing(q) || !is_number(q) || length(q) == 0 || anyNA(q)) {
    stop_argument("q", "must be numbers: found ", if (missing(q)) "nothing" else describe(q))
  }
  at <- conditional_points(object, if (!missing(newdata)) newdata, of_x = TRUE, na.action)
  run <- start_run(fit_asked(object$joint), "Integrating")
  found <- vapply(as.double(q), \(q) {
    if (is.infinite(q)) return(rep(as.double(q > 0), nrow(at$points)))
    conditional_cdf(object, rep(q, nrow(at$points)), at$points, run)
  }, numeric(nrow(at$points)))
  at$restore(matrix(found, nrow(at$points), dimnames = list(NULL, format(q, trim = TRUE))))
}

#' @rdname flash_conditional
#' @export
simulate.flash_conditional <- function(object, nsim = 1, seed = NULL, newdata, na.action = stats::na.pass, ...) {
  check_dots_empty(...)
  nsim <- check_count(nsim, "nsim")
  at <- conditional_points(object, if (!missing(newdata)) newdata, of_x = TRUE, na.action)
  k <- length(object$response)
  check_memory(8 * 3 * as.double(nsim) * k * nrow(at$points), "nsim")
  with_seed_of_simulate(seed, {
    draws <- matrix(0, nrow(at$points), nsim * k)
    visit_conditionals(object, at$points, \(there, row) draws[row, ] <<- draw_estimate(there, nsim))
    names <- paste0("sim_", seq_len(nsim))
    colnames(draws) <- if (k == 1) names else paste0(names, ".", rep(object$response, each = nsim))
    as.data.frame(at$restore(draws))
  })
}

check_one_response <- function(object, arg) {
  if (length(object$response) > 1) {
    stop_argument(arg, "must have one variable on the left side: found ", length(object$response))
  }
}

# P(Y <= y | x) at rows of one y and x.
conditional_cdf <- function(object, y, x, run) {
  check_one_response(object, "object")
  if (length(y) == 0) return(numeric())
  joint <- object$joint
  dims <- given_dims(object)
  split <- split_bandwidth(joint$bandwidth, dims)
  points <- fit_points(joint)
  # differences of what is near keep their digits, also far from the origin
  origin <- points[which(used_rows(joint))[1], ]
  own <- shift_points(points, origin, -1)
  at <- shift_points(from_centre(joint, cbind(y, x)), origin, -1)
  L <- lower_factor(joint$bandwidth[dims, dims, drop = FALSE], "bandwidth")
  along_y <- \(z) (z[, 1] - drop(tcrossprod(z[, dims, drop = FALSE], split$slope))) / split$L[1]
  factors <- joint$adaptive$factors
  log_weights <- if (is.null(joint$weights)) numeric(joint$n) else log(joint$weights)
  if (!is.null(factors)) log_weights <- log_weights - length(dims) * log(factors)
  kernels <- list(
    x = whiten(own[, dims, drop = FALSE], L), log_weights = log_weights, centres = along_y(own), widths = factors
  )
  conditional_cdf_sum(kernels, whiten(at[, dims, drop = FALSE], L), along_y(at), run)
}

# So many weights are in memory at a time.
CHUNK_WEIGHTS <- 2e6

# `visit(there, row)` for the fit p(. | x) at each row of x. Points that cannot matter to a probability `tail` in
# double precision are left away.
visit_conditionals <- function(object, x, visit, tail = 1e-3) {
  if (nrow(x) == 0) return(invisible())
  joint <- object$joint
  # sums at one x are short work for one thread
  joint[names(CONTROL_DEFAULTS)] <- replace(fit_asked(joint), c("threads", "backend"), list(1L, "cpu"))
  dims <- given_dims(object)
  # in order, what sorts them at each x is done at once
  by_size <- order(fit_points(joint)[, 1])
  joint$weights <- joint$weights[by_size]
  joint <- take_points(joint, by_size)
  side <- marginal_of(joint, dims)
  moves <- any(split_bandwidth(joint$bandwidth, dims)$slope != 0)
  still <- move_with(joint, side, dims, x[1, ])
  least <- max(1e-20 * tail / joint$n, .Machine$double.xmin)
  m <- nrow(x)
  size <- max(1, floor(CHUNK_WEIGHTS / joint$n))
  for (from in seq(1, m, by = size)) {
    rows <- from:min(from + size - 1, m)
    log_w <- given_log_weights(side, x[rows, , drop = FALSE])
    for (j in seq_along(rows)) {
      there <- if (moves) move_with(joint, side, dims, x[rows[j], ]) else still
      visit(weigh_points(there, log_w[, j], "newdata", least), rows[j])
    }
  }
}
