# Estimates that are no sums of kernels, but are bent from one: by boundary kernels (density-support-boundary.R) and by
# local likelihood (density-support-local.R). They are divided by their integrals, which go piece by piece.

# The estimate before it is divided by its integral: list(log_abs, stats) at working points y of sums over `sources`;
# `loo`: at these themselves.
log_bent <- function(domain, sources, y, loo, total, control) {
  if (!has_local(domain)) return(log_boundary(domain, sources, y, loo, total, control))
  sums <- local_means(sources, y, loo, control)
  list(log_abs = local_estimate(sums) + log_kernel_norm(sources$L) - log(total), stats = sums$stats)
}

# The derivative of its logarithm with y. `without`: the numbers of the points that are left out, one for each of y.
bent_score <- function(domain, sources, y, control, without = NULL) {
  sums <- if (is.null(without)) summed_moments(sources, y, has_local(domain), control) else {
    paired_moments(sources, y, without, control)
  }
  if (has_local(domain)) local_score(sources, y, sums) else boundary_score(domain, sources, y, sums)
}

# The second derivative, by differences of the first.
bent_curvature <- function(domain, sources, y, control, without = NULL) {
  slope_at(\(y) bent_score(domain, sources, y, control, without), y, 1e-2 * sources$L[1])
}

# ---- moments of the points under the kernels at y ---------------------------------------------

# With u = (x - y) / h: the logarithm of the kernels' sum, `m`, `m2` and if `third` `m3`, the means of u, u^2 and u^3, and
# `log_weight`, the logarithm of the weight of one more point. The third is that of u^2 (x - x_0) with the least of the
# points x_0, so that all terms are positive.
summed_moments <- function(sources, y, third, control) {
  sums <- local_means(sources, y, FALSE, control)
  if (!third) return(sums)
  h <- sources$L[1]
  least <- min(sources$points)
  weights <- if (is.null(sources$weights)) 1 else sources$weights
  moved <- sum_sources(sources$points, weights * (sources$points[, 1] - least) / h, sources$L)
  cubic <- 2 * exp(log_sum(moved, matrix(y), c(0, 1, 0), FALSE, control)$log_abs - sums$log_sum)
  sums$m3 <- cubic - (y - least) / h * sums$m2
  sums
}

paired_moments <- function(sources, y, without, control) {
  found <- list(log_sum = y, m = y, m2 = y, m3 = y, log_weight = log_mean_weight(sources$weights))
  each_share(sources, y, without, control, \(rows, shares, u, log_sum) {
    found$log_sum[rows] <<- log_sum
    for (power in 1:3) found[[1 + power]][rows] <<- rowSums(shares * u^power)
  })
  found
}

# Calls `task(rows, shares, u, log_sum)` for blocks of y: the shares of the points in the kernels' sum, and u.
each_share <- function(sources, y, without, control, task) {
  each_pair_block(plain_object(sources), matrix(y), FALSE, control, \(rows, kernels) {
    if (!is.null(without)) kernels$log_k[cbind(seq_along(rows), without[rows])] <- -Inf
    relative <- relative_terms(kernels$log_k)
    sum <- rowSums(relative$terms)
    task(rows, relative$terms / sum, kernels$z[[1]], log(sum) + relative$top)
  })
}

# The effect of each point on the logarithm of the bent estimate is its share in the kernels' sum times a polynomial of u.
# Calls `task(rows, effect)` for blocks of y.
each_effect <- function(domain, inner, y, loo, control, task) {
  sources <- fit_sources(inner)
  each_share(sources, y, if (loo) seq_along(y), control, \(rows, shares, u, log_sum) {
    sums <- list(
      log_sum = log_sum, m = rowSums(shares * u), m2 = rowSums(shares * u^2),
      log_weight = log_mean_weight(sources$weights)
    )
    polynomial <- if (has_local(domain)) local_effect(sums) else boundary_effect(domain, y[rows], sources$L[1], sums$m)
    task(rows, shares * (polynomial[[1]] + polynomial[[2]] * u + polynomial[[3]] * u^2))
  })
}

# list(sum, square) of the effects.
bent_effects <- function(domain, inner, y, loo, control) {
  found <- list(sum = y, square = y)
  each_effect(domain, inner, y, loo, control, \(rows, effect) {
    found$sum[rows] <<- rowSums(effect)
    found$square[rows] <<- rowSums(effect^2)
  })
  found
}

# Its integral.
bent_total <- function(domain, sources, total, run) {
  bent_distribution(domain, sources, total, finite_tail(plain_object(sources), run), run)$total
}

# The plain estimate whose sums go over `sources`.
plain_object <- function(sources) {
  n <- nrow(sources$points)
  H <- tcrossprod(sources$L)
  list(estimator = PLAIN_ESTIMATOR, x = sources$points, n = n, weights = sources$weights, bandwidth = H)
}

# A function of q, infinite ones, too.
finite_tail <- function(object, control) {
  below <- tail_function(object, control)
  \(q) replace(as.double(q == Inf), is.finite(q), below(q[is.finite(q)]))
}

# ---- integrals --------------------------------------------------------------------------------

# Gauss' formula on [0, 1], from the eigenvalues of Jacobi's matrix (Golub and Welsch 1969).
gauss_rule <- function(n) {
  off <- seq_len(n - 1) / sqrt(4 * seq_len(n - 1)^2 - 1)
  jacobi <- matrix(0, n, n)
  jacobi[cbind(seq_len(n - 1), seq_len(n - 1) + 1)] <- off
  found <- eigen(jacobi + t(jacobi), symmetric = TRUE)
  list(node = (1 + found$values) / 2, weight = found$vectors[1, ]^2)
}

# For pieces of half a sd.
PIECE_RULE <- gauss_rule(14)

# Beyond so many sds a Gaussian has less than 1e-16 of its mass.
MASS_REACH <- 8.5

# Where working coordinates are cut: list(edges, bent), between which edges the estimate is bent, pieces of h / 2,
# and where it is the plain one.
bent_pieces <- function(domain, sources) {
  if (has_local(domain)) return(local_pieces(sources))
  h <- sources$L[1]
  a <- domain$lower
  b <- domain$upper
  reach <- MASS_REACH * h
  cut <- \(from, to) seq(from, to, length.out = ceiling((to - from) / (h / 2)) + 1)
  if (b - a <= 2 * reach) return(list(edges = cut(a, b), bent = rep(TRUE, length(cut(a, b)) - 1)))
  left <- if (a > -Inf) cut(a, a + reach) else -Inf
  right <- if (b < Inf) cut(b - reach, b) else Inf
  list(edges = c(left, right), bent = seq_len(length(left) + length(right) - 1) != length(left))
}

# P_0 to P_k, a column each, at numbers x between -1 and 1: Legendre's polynomials, by their recurrence.
legendre <- function(x, k) {
  P <- matrix(1, length(x), k + 1)
  P[, 2] <- x
  for (j in seq_len(k - 1)) P[, j + 2] <- ((2 * j + 1) * x * P[, j + 1] - j * P[, j]) / (j + 1)
  P
}

# The Legendre coefficients of functions with `values` at the nodes of pieces, one row per piece.
legendre_coefficients <- function(values) {
  k <- length(PIECE_RULE$node)
  P <- legendre(2 * PIECE_RULE$node - 1, k - 1)
  values %*% (PIECE_RULE$weight * P) * rep(2 * seq_len(k) - 1, each = nrow(values))
}

# list(below, slope, total, edges, before) of an estimate that is not divided by its integral yet: `below` and its
# derivative as functions of q, `total` its value at the upper bound, `before` those at the edges of the pieces. Bent
# pieces are polynomials through their nodes, so that only what is plain is summed again. `plain`: the distribution
# function of the plain estimate, by sums over `sources`.
bent_distribution <- function(domain, sources, total, plain, control) {
  density <- \(y) exp(log_bent(domain, sources, y, FALSE, total, control)$log_abs)
  pieces <- bent_pieces(domain, sources)
  from <- pieces$edges[-length(pieces$edges)]
  to <- pieces$edges[-1]
  bent <- pieces$bent
  width <- to - from
  nodes <- (from + outer(width, PIECE_RULE$node))[bent, , drop = FALSE]
  values <- array(density(as.vector(nodes)), dim(nodes))
  coefficients <- matrix(0, length(from), ncol(nodes))
  coefficients[bent, ] <- legendre_coefficients(values)
  mass <- numeric(length(from))
  mass[bent] <- width[bent] * coefficients[bent, 1]
  mass[!bent] <- plain(to[!bent]) - plain(from[!bent])
  before <- cummax(cumsum(c(0, mass))) # but for rounding it is so
  # `of_bent`: of the pieces and the polynomials there, whose degree is at most that of the nodes
  at <- function(q, of_bent, of_plain) {
    i <- findInterval(q, pieces$edges, all.inside = TRUE)
    result <- numeric(length(q))
    own <- bent[i]
    P <- legendre(2 * (q[own] - from[i[own]]) / width[i[own]] - 1, ncol(nodes))
    result[own] <- of_bent(i[own], P)
    if (!all(own)) result[!own] <- of_plain(i[!own], q[!own])
    result
  }
  k <- seq_len(ncol(nodes))
  below <- function(q) {
    at(q, \(i, P) {
      lower <- cbind(rep(-1, nrow(P)), P[, k[-1] - 1, drop = FALSE])
      integrals <- (P[, k + 1, drop = FALSE] - lower) / rep(4 * k - 2, each = nrow(P))
      before[i] + width[i] * rowSums(coefficients[i, , drop = FALSE] * integrals)
    }, \(i, q) before[i] + plain(q) - plain(from[i]))
  }
  slope <- function(q) {
    at(q, \(i, P) rowSums(coefficients[i, , drop = FALSE] * P[, k, drop = FALSE]), \(i, q) density(q))
  }
  list(below = below, slope = slope, total = before[length(before)], edges = pieces$edges, before = before)
}
