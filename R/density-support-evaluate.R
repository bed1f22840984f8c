# Evaluates a fit on a domain at points in the user's coordinates, from its inner density (density-verbs.R).

# `at`: points in the user's coordinates. The log density is -Inf outside the domain.
#' @export
log_estimate.supported <- function(object, at, loo, control, factor = fit_polynomial(object)) {
  domain <- object$support
  if (loo) return(if (needs_refits(object)) log_by_refits(object, control) else left_out_estimate(object, control, factor))
  if (is.null(at)) at <- object$x
  inside <- inside_domain(domain, at)
  if (!any(inside)) {
    return(list(
      log_abs = rep(-Inf, nrow(at)), negative = if (is_signed(object)) logical(nrow(at)),
      stats = resolve_control(control, object$n, nrow(at), object$d)
    ))
  }
  work <- to_working(domain, if (all(inside)) at else at[inside, , drop = FALSE])
  found <- log_at_working(object, work, control, factor)
  if (all(inside)) return(found)
  found$log_abs <- replace(rep(-Inf, nrow(at)), inside, found$log_abs)
  if (!is.null(found$negative)) found$negative <- replace(logical(nrow(at)), inside, found$negative)
  found
}

#' @export
log_estimate.mapped <- function(object, at, loo, control, factor = fit_polynomial(object)) {
  if (!is.null(at)) return(NextMethod())
  found <- log_estimate(object$inner, NULL, loo, control, factor)
  replace(found, "log_abs", list(found$log_abs + log_jacobian(object$support, object$inner$x)))
}

# log_estimate() at working points inside the domain.
log_at_working <- function(object, work, control, factor) {
  jacobian <- log_jacobian(object$support, work)
  found <- working_estimate(object, work, control, factor)
  found$log_abs <- found$log_abs + jacobian
  # on the bound itself the kernels of the transformed column are 0
  found$log_abs[is.infinite(jacobian)] <- -Inf
  found
}

# The density of the working points.
working_estimate <- function(object, work, control, factor) UseMethod("working_estimate", object$kind)

#' @export
working_estimate.supported <- function(object, work, control, factor) {
  found <- log_estimate(object$inner, work, FALSE, control, factor)
  found$log_abs <- found$log_abs + log_share(object)
  found
}

#' @export
working_estimate.bent <- function(object, work, control, factor) {
  inner <- object$inner
  found <- log_bent(object$support, fit_sources(inner), work[, 1], FALSE, total_weight(inner), control)
  found$log_abs <- found$log_abs - object$support$log_total
  found
}

# The log of the kernels' total weight, reflected copies and masses included, over the points' total weight.
log_share <- function(object) log(total_weight(object$inner)) - log(total_weight(object))

# The estimate at each point without the kernels of the point and of its copies.
left_out_estimate <- function(object, control, factor) UseMethod("left_out_estimate", object$kind)

#' @export
left_out_estimate.supported <- function(object, control, factor) {
  inner <- object$inner
  sources <- fit_sources(inner)
  sources$row <- inner$row
  found <- left_out_sum(sources, object$n, factor, control)
  found$log_abs <- found$log_abs + log_kernel_norm(sources$L) - log(loo_weight(object)) + own_jacobian(object)
  found
}

#' @export
left_out_estimate.bent <- function(object, control, factor) {
  found <- log_bent(object$support, fit_sources(object$inner), NULL, TRUE, loo_weight(object), control)
  replace(found, "log_abs", list(found$log_abs - object$support$log_total + own_jacobian(object)))
}

own_jacobian <- function(object) log_jacobian(object$support, own_working(object))

# The score is NaN outside the domain.
#' @export
score_estimate.supported <- function(object, at, loo, control) {
  domain <- object$support
  names <- list(NULL, point_names(object))
  if (loo) return(`dimnames<-`(score_from_working(domain, left_out_score(object, control), own_working(object)), names))
  if (is.null(at)) at <- object$x
  inside <- inside_domain(domain, at)
  score <- matrix(NaN, nrow(at), object$d, dimnames = names)
  if (!any(inside)) return(score)
  work <- to_working(domain, at[inside, , drop = FALSE])
  score[inside, ] <- score_from_working(domain, working_score(object, work, control), work)
  score
}

own_working <- function(object) object$inner$x[seq_len(object$n), , drop = FALSE]

working_score <- function(object, work, control) UseMethod("working_score", object$kind)
#' @export
working_score.supported <- function(object, work, control) score_estimate(object$inner, work, FALSE, control)
#' @export
working_score.bent <- function(object, work, control) {
  matrix(bent_score(object$support, fit_sources(object$inner), work[, 1], control))
}

# Scores of the working points, each without its own kernel and the copies of it.
left_out_score <- function(object, control) UseMethod("left_out_score", object$kind)
#' @export
left_out_score.mapped <- function(object, control) score_estimate(object$inner, NULL, TRUE, control)
#' @export
left_out_score.imaged <- function(object, control) left_out_derivatives(object$inner, control)$score
#' @export
left_out_score.bent <- function(object, control) {
  matrix(bent_score(object$support, fit_sources(object$inner), own_working(object)[, 1], control, seq_len(object$n)))
}

# Standard errors at points inside the domain.
#' @export
error_estimate.supported <- function(object, at, loo, control, estimate) {
  inside <- if (is.null(at)) TRUE else inside_domain(object$support, at)
  if (!any(inside)) return(rep(-Inf, nrow(at)))
  if (all(inside)) return(error_inside(object, at, loo, control, estimate$log_abs))
  log_se <- error_inside(object, at[inside, , drop = FALSE], loo, control, estimate$log_abs[inside])
  replace(rep(-Inf, nrow(at)), inside, log_se)
}

error_inside <- function(object, at, loo, control, log_abs) UseMethod("error_inside", object$kind)

#' @export
error_inside.mapped <- function(object, at, loo, control, log_abs) {
  inner <- object$inner
  work <- if (!is.null(at)) to_working(object$support, at)
  jacobian <- log_jacobian(object$support, if (is.null(work)) inner$x else work)
  log_se <- error_estimate(inner, work, loo, control, list(log_abs = log_abs - jacobian)) + jacobian
  replace(log_se, jacobian == Inf, -Inf) # on the bound itself the density is 0
}

# The squared contribution of a point and its copies at y is a sum over their pairs (a, b): K_H(y - a) K_H(y - b) is
# proportional to K_(H / 2) at their midpoint, times exp(-(a - b)' H^-1 (a - b) / 4).
#' @export
error_inside.imaged <- function(object, at, loo, control, log_abs) {
  domain <- object$support
  inner <- object$inner
  L <- fit_factor(inner)
  work <- to_working(domain, if (is.null(at)) object$x else at)
  squares <- if (loo || is_signed(object)) {
    log_pair_squares(inner, if (!loo) work, loo, control)
  } else if (count_middles(inner) > MOST_MIDDLES && is_diagonal(L)) {
    own <- seq_len(object$n)
    points <- from_origin(inner, fit_points(inner)[own, , drop = FALSE])
    sources <- list(points = points, weights = inner$weights[own], factors = inner$adaptive$factors[own])
    log_product_sum(domain, sources, L, work, FALSE, power = 2)$log_abs
  } else {
    log_sum_squares(with_middles(inner), work, FALSE, control)
  }
  weight <- if (loo) loo_weight(object) else total_weight(object)
  log_square <- squares + 2 * log_kernel_norm(L) - 2 * log(weight) + 2 * log_jacobian(domain, work)
  log_error(object, log_square, log_abs, weight, loo)
}

# The delta method for the bent estimate, a function of kernel sums, whose integral is taken as given.
#' @export
error_inside.bent <- function(object, at, loo, control, log_abs) {
  domain <- object$support
  inner <- object$inner
  y <- if (is.null(at)) own_working(object)[, 1] else to_working(domain, at)[, 1]
  log_weight2 <- if (loo) log_loo_square(object) else log_square_weight(object)
  weight <- if (loo) loo_weight(object) else total_weight(object)
  effects <- bent_effects(domain, inner, y, loo, control)
  # Stretched kernels of transformed columns overflow on the bound itself, where the density is 0.
  ifelse(log_abs == -Inf, -Inf, log_abs + log(pmax(
    effects$square - effects$sum^2 * exp(log_weight2 - 2 * log(weight)), 0
  )) / 2)
}

# The number of pairs of a point and one of its copies, or of two of its copies.
count_middles <- function(inner) if (is.null(inner$row)) 0 else sum(choose(tabulate(inner$row), 2))

# Largest number of such pairs. With more, kernels are so wide that sums of products over columns take less time.
MOST_MIDDLES <- 1e6

# The inner fit with the midpoints of these pairs as additional points, with the weights of the sum of squares.
with_middles <- function(inner) {
  if (is.null(inner$row)) return(inner)
  points <- fit_points(inner)
  weights <- if (is.null(inner$weights)) rep(1, inner$n) else inner$weights
  factors <- inner$adaptive$factors
  by_row <- order(inner$row)
  row <- inner$row[by_row]
  found <- list()
  for (lag in seq_len(max(tabulate(row)) - 1)) {
    i <- which(row[-seq_len(lag)] == row[seq_len(length(row) - lag)])
    a <- by_row[i]
    b <- by_row[i + lag]
    apart <- rowSums(whiten(points[a, , drop = FALSE] - points[b, , drop = FALSE], fit_factor(inner))^2)
    if (!is.null(factors)) apart <- apart / factors[a]^2
    found[[lag]] <- list(
      points = (points[a, , drop = FALSE] + points[b, , drop = FALSE]) / 2,
      weights = sqrt(2) * weights[a] * exp(-apart / 8), factors = factors[a]
    )
  }
  inner[c("estimator", "centred", "debiased", "plan")] <- list(PLAIN_ESTIMATOR, NULL, NULL, NULL)
  inner$x <- do.call(rbind, c(list(points), lapply(found, `[[`, "points")))
  inner$weights <- c(weights, unlist(lapply(found, `[[`, "weights")))
  if (!is.null(factors)) inner$adaptive$factors <- c(factors, unlist(lapply(found, `[[`, "factors")))
  inner$n <- nrow(inner$x)
  inner
}

# ---- draws and distribution ---------------------------------------------------------------------

#' @export
draw_estimate.supported <- function(object, n, inflate = 1) {
  inner <- object$inner
  own <- seq_len(object$n)
  centres <- fit_points(inner)[own, , drop = FALSE]
  lower <- inflate * fit_factor(inner)
  factors <- inner$adaptive$factors[own]
  draws <- draw_in_domain(object$support, from_origin(inner, centres), inner$weights[own], lower, n, factors)
  from_working(object$support, draws)
}

#' @export
draw_estimate.bent <- function(object, n, inflate = 1) matrix(inner_quantiles(object, stats::runif(n)))

# Draws working points. Draws beyond a reflected or circular bound are folded back; for method "mass", draws outside
# are rejected.
draw_in_domain <- function(domain, centres, weights, lower, n, factors) {
  draw <- \(n) folded(domain, draw_mixture(centres, weights, lower, n, factors))
  draws <- draw(n)
  if (!has_masses(domain)) return(draws)
  while (length(outside <- which(!inside_domain(domain, draws))) > 0) draws[outside, ] <- draw(length(outside))
  draws
}

# The share of the inner probability that is inside the domain, for one column.
#' @export
probability_below.supported <- function(object, q, control) {
  domain <- object$support
  below <- inner_below(object, control)
  (below(within_domain(domain, q)) - below(domain$lower)) * exp(log_share(object))
}

#' @export
probability_below.mapped <- function(object, q, control) {
  q <- within_domain(object$support, q)
  inner_below(object, control)(to_working(object$support, matrix(q))[, 1])
}

#' @export
probability_below.bent <- function(object, q, control) {
  all <- bent_of(object, control)
  q <- within_domain(object$support, q)
  pmin(all$below(to_working(object$support, matrix(q))[, 1]) / all$total, 1)
}

within_domain <- function(domain, q) pmin(pmax(q, domain$lower), domain$upper)

# The distribution function of the inner fit, for any q.
inner_below <- function(object, control) {
  below <- finite_tail(object$inner, control)
  \(q) below(from_centre(object$inner, q))
}

bent_of <- function(object, control) {
  inner <- object$inner
  plain <- finite_tail(inner, control)
  bent_distribution(object$support, fit_sources(inner), total_weight(inner), plain, control)
}

#' @export
inner_quantiles.supported <- function(object, probs) {
  domain <- object$support
  below <- inner_below(object, start_run(fit_asked(object), "Finding quantiles"))(domain$lower)
  of_all <- pmin(pmax(below + probs * exp(-log_share(object)), .Machine$double.xmin), 1 - 2^-53)
  within_domain(domain, inner_quantiles(object$inner, of_all))
}

#' @export
inner_quantiles.mapped <- function(object, probs) {
  from_working(object$support, matrix(inner_quantiles(object$inner, probs)))[, 1]
}

#' @export
inner_quantiles.bent <- function(object, probs) from_working(object$support, matrix(invert_bent(object, probs)))[, 1]

#' @export
outer_quantiles.supported <- function(object) c(object$support$lower, object$support$upper)

# Quantiles in working coordinates, by Newton steps, or by bisection if a step leaves the bracket of the root.
invert_bent <- function(object, probs) {
  control <- start_run(fit_asked(object), "Finding quantiles")
  domain <- object$support
  inner <- object$inner
  h <- sqrt(inner$bandwidth[1, 1])
  all <- bent_of(object, control)
  ends <- range(inner$x[used_rows(inner), ]) + c(-40, 40) * h
  # from the piece that holds the root
  edges <- pmin(pmax(all$edges, ends[1]), ends[2])
  i <- findInterval(probs * all$total, all$before, all.inside = TRUE)
  low <- edges[i]
  high <- edges[i + 1]
  share <- (probs * all$total - all$before[i]) / (all$before[i + 1] - all$before[i])
  at <- low + ifelse(share > 0 & share < 1, share, 0.5) * (high - low)
  open <- seq_along(probs)
  for (round in seq_len(200)) {
    excess <- all$below(at[open]) / all$total - probs[open]
    high[open] <- ifelse(excess > 0, at[open], high[open])
    low[open] <- ifelse(excess > 0, low[open], at[open])
    step <- at[open] - excess * all$total / all$slope(at[open])
    good <- is.finite(step) & step > low[open] & step < high[open] & round %% 4 != 0
    following <- ifelse(good, step, (low[open] + high[open]) / 2)
    done <- abs(following - at[open]) <= 1e-12 * h | high[open] - low[open] <= 1e-12 * h
    at[open] <- following
    open <- open[!done]
    if (length(open) == 0) break
  }
  at
}
