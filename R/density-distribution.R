#' Distribution function and quantiles
#'
#' `kde_cdf()` returns probabilities under an estimate: that a value is at most `q`, or in several dimensions that a point lies
#' in a rectangle. `quantile()`, `median()` and `mean()` (of a circle, the mean direction) are those of the estimate. They
#' correspond to `ks::kcde()` and `np::npudist()`.
#'
#' @details
#' In one dimension \eqn{F(q) = \sum_i w_i \Phi(z_i) / W}{F(q) = sum_i w_i Phi(z_i) / W} with \eqn{z_i = (q - x_i) / h}. For
#' `"sdkde"` the points are the debiased points. For `"laplace"` each term has the addition \eqn{z_i \phi(z_i) / 2}{z_i
#' phi(z_i) / 2}, and for `"laplace6"` \eqn{z_i (7 - z_i^2) \phi(z_i) / 8}{z_i (7 - z_i^2) phi(z_i) / 8}. With another kernel
#' \eqn{\Phi}{Phi} is its distribution function. Quantiles are accurate to 1e-12 kernel standard deviations.
#'
#' A Laplace-corrected estimate may be negative, so that its distribution function need not be monotone. `quantile()` then
#' returns one of the solutions, increasing in `probs`. An estimate with `nonnegative = TRUE` has a monotone one.
#'
#' @section Rectangles:
#' Probabilities of rectangles are exact for a diagonal bandwidth. For a correlated bandwidth in two dimensions they have an
#' absolute error of about 1e-14 (Genz 2004), in three and four, by integrals over correlations (Plackett 1954), 1e-9.
#' In more dimensions, or for an almost singular H, kernels are averaged over at most 32,768 nodes: with an error near 1e-6
#' where these suffice, else by lattices (Genz and Bretz 2009) with an attribute `"error"`, three standard errors. The
#' time is \eqn{O(nmd)} times the nodes, for `"laplace"` and `"laplace6"` seven times that. On a polygon each rectangle is cut
#' to the polygon.
#'
#' @param object,x A fit from [flash_kde()]. With categories beside numbers, probabilities are those of the numbers.
#' @param q Points, in the units of the data; `-Inf` and `Inf` are allowed, `NA` gives `NA`. In one dimension a
#'   vector, in more a matrix or data frame of `d` columns.
#' @param lower `NULL`, or as `q`, of one row or as many: then the probability is that of the rectangles from
#'   `lower` to `q`, 0 where they are empty.
#' @param probs Probabilities, between 0 and 1. 0 and 1 give `-Inf` and `Inf`: a Gaussian kernel
#'   is positive everywhere. With a bounded kernel they give the ends of the estimate.
#' @param names Whether to name the result by percentages, as in [stats::quantile()].
#' @param ... Not used; anything here is an error.
#' @returns `kde_cdf()`: probabilities, one for each point or row of `q`. `quantile()`: points in the unit of the data,
#'   one for each of `probs`; in more than one dimension a matrix, with a column for the marginal estimate of each column.
#' @references Genz, A. (2004) *Statistics and Computing* 14, 251-260. Genz, A. and Bretz, F. (2009) *Computation of
#'   Multivariate Normal and t Probabilities*. Springer. Plackett, R. L. (1954) *Biometrika* 41, 351-360.
#' @rawRd \concept{distribution function}\concept{probability of an interval}\concept{quantiles of a density}
#' @export
#' @examples
#' fit <- flash_kde(faithful$eruptions)
#' kde_cdf(fit, 3)
#' quantile(fit, c(0.05, 0.5, 0.95))
#' curve(kde_cdf(fit, x), 1, 6)
#'
#' # short eruptions after short waits, and a rectangle
#' fit <- flash_kde(faithful)
#' kde_cdf(fit, cbind(3, 70))
#' kde_cdf(fit, cbind(3, 70), lower = cbind(2, -Inf))
#' quantile(fit, c(0.25, 0.75))
kde_cdf <- function(object, ...) UseMethod("kde_cdf")

#' @export
kde_cdf.default <- function(object, ...) check_fit(object)

#' @rdname kde_cdf
#' @export
kde_cdf.flash_kde <- function(object, q, lower = NULL, ...) {
  check_dots_empty(...)
  check_in_memory(object)
  check_can(object, "cdf")
  if (object$d != 1 || !is.null(lower)) {
    check_can(object, "rectangles")
    return(cdf_of_rectangles(object, if (missing(q)) NULL else q, lower))
  }
  if (!missing(q)) q <- dates_as_numbers(q, object$dates, "q")
  if (missing(q) || !is_number(q)) {
    stop_argument("q", "must be numeric: found ", if (missing(q)) "nothing" else describe(q))
  }
  control <- start_run(fit_asked(object), "Integrating")
  # q as double, which of them are finite and where, these, their sums and the result
  check_memory(8 * (6 * as.double(length(q)) + 3 * object$n), "q")
  result <- rep(NA_real_, length(q))
  inside <- is.finite(q)
  result[inside] <- probability_below(object, as.double(q[inside]), control)
  result[!is.na(q) & q == -Inf] <- 0
  result[!is.na(q) & q == Inf] <- 1
  result
}

#' @rdname kde_cdf
#' @importFrom stats quantile
#' @export
quantile.flash_kde <- function(x, probs = seq(0, 1, 0.25), names = TRUE, ...) {
  check_dots_empty(...)
  check_in_memory(x, "x")
  check_can(x, "quantiles")
  names <- check_flag(names, "names")
  hold_limits(x)
  probs <- check_prob(probs, "probs", bytes = 8 * 50 + if (names) NAME_BYTES else 0)
  if (x$d > 1) {
    check_memory(8 * length(probs) * x$d, "probs")
    run <- start_run(fit_asked(x))
    result <- vapply(seq_len(x$d), \(axis) quantiles_along(x, axis, probs, run), numeric(length(probs)))
    return(matrix(result, ncol = x$d, dimnames = list(if (names) percent_label(probs), point_names(x))))
  }
  result <- as_dates(all_quantiles(x, probs), x$dates[[point_names(x)]])
  if (names) names(result) <- percent_label(probs)
  result
}

#' @importFrom stats median
#' @export
median.flash_kde <- function(x, na.rm = FALSE, ...) drop(stats::quantile(x, 0.5, names = x$d > 1, ...))

# Kernels are symmetric: without bounds the mean is that of the points. Otherwise it is the integral of the quantiles.
#' @export
mean.flash_kde <- function(x, ...) {
  check_dots_empty(...)
  check_in_memory(x, "x")
  check_can(x, "quantiles")
  if (is.null(x$support) && !is_clipped(x)) {
    w <- if (is.null(x$weights)) rep(1, x$n) else x$weights
    means <- colSums(w / sum(w) * shown_points(x))
  } else {
    run <- start_run(fit_asked(x))
    means <- vapply(seq_len(x$d), \(axis) mean_along(x, axis, run), 0)
  }
  if (x$d > 1) stats::setNames(means, point_names(x)) else as_dates(unname(means), x$dates[[point_names(x)]])
}

#' @export
mean_along.default <- function(object, axis, run) {
  along <- if (object$d > 1) \(p) quantiles_along(object, axis, p, run) else \(p) all_quantiles(object, p)
  mean_of <- \(f) stats::integrate(\(p) f(along(p)), 0, 1, rel.tol = 1e-6, subdivisions = 1000)$value
  domain <- object$support
  if (!identical(domain$kind[axis], "circular")) return(mean_of(identity))
  low <- domain$lower[axis]
  turn <- 2 * pi / (domain$upper[axis] - low)
  low + atan2(mean_of(\(x) sin(turn * (x - low))), mean_of(\(x) cos(turn * (x - low)))) %% (2 * pi) / turn
}

#' @export
quantiles_along.default <- function(object, axis, probs, run) {
  check_can(object, "marginal")
  all_quantiles(marginal_of(object, axis, run), probs)
}

all_quantiles <- function(object, probs) {
  inside <- probs > 0 & probs < 1
  ends <- if (all(inside)) c(0, 0) else outer_quantiles(object)
  result <- ifelse(probs == 0, ends[1], ends[2])
  if (any(inside)) result[inside] <- inner_quantiles(object, probs[inside])
  result
}

#' @export
probability_below.default <- function(object, q, control) tail_function(object, control)(from_centre(object, q))

#' @export
outer_quantiles.default <- function(object) estimate_ends(object)

# A function(q) for finite q relative to fit_centre(): the probability below q, or with `upper` above it, each to
# its own precision. Sorted once, so that C adds only the kernels near q. The upper tail is the lower one of the
# mirror image.
tail_function <- function(object, control, upper = FALSE) {
  sign <- if (upper) -1 else 1
  points <- fit_points(object)
  weights <- if (is.null(object$weights)) rep(1, object$n) else object$weights
  # of the points `rows`, all of one width h
  tail_of <- function(rows, h) {
    by_size <- rows[order(points[rows], decreasing = upper)]
    own <- weights[by_size]
    list(centres = sign * points[by_size], weights = own, cumulative = cumsum(own), h = h)
  }
  classes <- fit_classes(object)
  parts <- Map(tail_of, classes$rows, sqrt(object$bandwidth[1, 1]) * classes$factors)
  total <- sum(vapply(parts, \(part) part$cumulative[length(part$cumulative)], 0))
  kernel <- fit_kernel(object)
  correction <- estimator_of(object)$below
  sum_of <- if (is_compact(kernel)) {
    \(part, q) window_tail(part, q, kernel, control)
  } else {
    \(part, q) cdf_sum(part$centres, part$cumulative, part$h, q, correction, control)
  }
  signed <- function(q) {
    if (length(q) == 0) return(numeric())
    Reduce(`+`, lapply(parts, sum_of, sign * q)) / total
  }
  if (is_clipped(object)) clipped_tail(signed, negative_intervals(object, control), sign) else signed
}

# Nodes at which F is tabulated before it is inverted, relative to fit_centre(), with equal numbers of points between
# them. Beyond 40 standard deviations the Gaussian tail is 0 in double precision. Points of weight 0 are ignored.
table_nodes <- function(object, h) {
  points <- sort(fit_points(object)[used_rows(object), ])
  ends <- range(points) + c(-40, 40) * h
  sort(unique(c(ends, ends - c(-30, 30) * h, points[round(seq(1, length(points), length.out = 127))])))
}

# The tails by which inner_quantiles() goes, for each probability the smaller one, which keeps its digits: 1 - p is
# exact where p is above one half. list(probs, below_at, above_at, at, excess, monotone), the last of F.
smaller_tails <- function(object, probs, control) {
  below_at <- tail_function(object, control)
  upper_half <- probs > 0.5
  above_at <- if (any(upper_half)) tail_function(object, control, upper = TRUE)
  monotone <- !is_signed(object) || is_clipped(object)
  tail <- ifelse(upper_half, 1 - probs, probs)
  # F - p for the probabilities `which`, by the probability in the tail. Far in a tail its logarithm is close to a
  # parabola, while F itself is all but flat.
  excess <- function(value, which) {
    p <- tail[which]
    far <- monotone & p < 0.01
    result <- value - p
    result[far] <- log(pmax(value[far], 0) / p[far])
    ifelse(upper_half[which], -result, result)
  }
  tail_at <- function(q, which) {
    up <- upper_half[which]
    value <- numeric(length(q))
    value[!up] <- below_at(q[!up])
    if (any(up)) value[up] <- above_at(q[up])
    value
  }
  list(probs = tail, below_at = below_at, above_at = above_at, at = tail_at, excess = excess, monotone = monotone)
}

# Where the roots lie, list(lower, upper, below, above), the last two being the tails at these ends: between the first
# two nodes of a table.
look_up_quantiles <- function(object, tails, upper_half, h) {
  nodes <- table_nodes(object, h)
  last <- length(nodes)
  below_nodes <- c(0, tails$below_at(nodes[-c(1, last)]), 1)
  above_nodes <- if (any(upper_half)) c(1, tails$above_at(nodes[-c(1, last)]), 0)
  right <- findInterval(tails$probs, cummax(below_nodes), left.open = TRUE) + 1
  right[upper_half] <- last + 1 - findInterval(tails$probs[upper_half], rev(cummin(above_nodes)))
  table_at <- function(node) ifelse(upper_half, above_nodes[node], below_nodes[node])
  list(lower = nodes[right - 1], upper = nodes[right], below = table_at(right - 1), above = table_at(right))
}

# Brackets a few quantiles: X + h Z is below q no more often than X is below q + z h or Z below -z, and with half of the
# probability for either, q is no lower than the quantile of the centres X less z h; the same from above.
bracket_quantiles <- function(object, tails, upper_half, h) {
  used <- used_rows(object)
  centres <- fit_points(object)[used, 1]
  by_size <- order(centres)
  weights <- if (is.null(object$weights)) rep(1, length(centres)) else object$weights[used][by_size]
  centres <- centres[by_size]
  # the first centre, counted from one end, up to which there is so much of the weight
  reach <- function(p, weights) findInterval(p * sum(weights), cumsum(weights), left.open = TRUE) + 1
  n <- length(centres)
  p <- ifelse(upper_half, 1 - tails$probs, tails$probs) # below
  q <- ifelse(upper_half, tails$probs, 1 - tails$probs) # above
  kernel <- fit_kernel(object)
  lower <- centres[pmin(reach(p / 2, weights), n)] + h * kernel_quantile(kernel, p / 2)
  upper <- centres[pmax(n + 1 - reach(q / 2, rev(weights)), 1)] - h * kernel_quantile(kernel, q / 2)
  which <- seq_along(p)
  list(lower = lower, upper = upper, below = tails$at(lower, which), above = tails$at(upper, which))
}

# Solves F(root) = probs for all at once, each from an interval with the root in it. Where F
# is not monotone there is bisection only: from one bracket, a larger probability can never end left of a smaller one.
# Else two rounds of three are regula falsi with Illinois' rule, and the bisection between keeps the bracket shrinking.
#' @export
inner_quantiles.default <- function(object, probs) {
  control <- start_run(fit_asked(object), "Finding quantiles")
  tails <- smaller_tails(object, probs, control)
  tail <- tails$probs
  excess <- tails$excess
  monotone <- tails$monotone
  upper_half <- probs > 0.5
  widths <- sqrt(object$bandwidth[1, 1]) * range(fit_classes(object)$factors)
  h <- widths[1]
  start <- if (monotone && length(probs) < 64) {
    bracket_quantiles(object, tails, upper_half, widths[2])
  } else {
    look_up_quantiles(object, tails, upper_half, widths[2])
  }
  lower <- start$lower
  upper <- start$upper
  at_lower <- excess(start$below, seq_along(probs))
  at_upper <- excess(start$above, seq_along(probs))
  was_below <- rep(NA, length(probs))
  open <- seq_along(probs)
  round <- 0
  while (length(open) > 0) {
    low <- lower[open]
    high <- upper[open]
    # F rises by less than 4e-13 over 1e-12 kernel standard deviations, about its rounding error
    size <- pmax(1e-12 * h, 4 * .Machine$double.eps * pmax(abs(low), abs(high)))
    try <- low / 2 + high / 2
    if (monotone && round %% 3 != 0) {
      share <- at_lower[open] / (at_lower[open] - at_upper[open])
      share[!is.finite(share)] <- 0.5
      try <- pmin(pmax(low + (high - low) * share, low), high)
      # beyond the root, as seen from the near end: what is left is no longer than `size`
      try <- try + ifelse(high - try > try - low, 0.4, -0.4) * size
    }
    value <- excess(tails$at(try, open), open)
    below <- value < 0
    # Illinois: an end that stays twice counts half, or it would stay for ever
    twice <- below == was_below[open] & !is.na(was_below[open])
    at_lower[open] <- ifelse(below, value, at_lower[open] / (1 + twice))
    at_upper[open] <- ifelse(below, at_upper[open] / (1 + twice), value)
    lower[open] <- ifelse(below, try, low)
    upper[open] <- ifelse(below, high, try)
    was_below[open] <- below
    open <- open[upper[open] - lower[open] > size]
    round <- round + 1
    # every third round halves the bracket, and 2,200 halvings lead from any double to any other
    if (round > 6600) stop(new_error("internal", "the search for a quantile did not converge", user_call()))
  }
  from_origin(object, lower / 2 + upper / 2)
}
