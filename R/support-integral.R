# Estimates that are no sums of kernels, but are bent from one: by boundary kernels (support-boundary.R) and by
# local likelihood (support-local.R). They are divided by their integrals, which go piece by piece.

# The estimate before it is divided by its integral: list(log_abs, stats) at working points y of sums over `sources`;
# `loo`: at these themselves.
log_bent <- function(domain, sources, y, loo, total, control) {
  if (has_local(domain)) return(log_local(sources, y, loo, total, control))
  log_boundary(domain, sources, y, loo, total, control)
}

bent_score <- function(domain, sources, y, control) {
  if (has_local(domain)) return(local_score(sources, y, control))
  boundary_score(domain, sources, y, control)
}

# Its integral.
bent_total <- function(domain, sources, total, run) {
  object <- list(
    estimator = PLAIN_ESTIMATOR, x = sources$points, n = nrow(sources$points), weights = sources$weights,
    bandwidth = tcrossprod(sources$L)
  )
  bent_distribution(domain, sources, total, finite_tail(object, run), run)$total
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

# The integrals of f over [from, to], no longer than a piece.
piece_integrals <- function(f, from, to) {
  if (length(from) == 0) return(numeric())
  rule <- PIECE_RULE
  at <- from + outer(to - from, rule$node)
  (to - from) * as.vector(matrix(f(as.vector(at)), length(from)) %*% rule$weight)
}

# list(below, total, edges, before) of an estimate that is not divided by its integral yet: `below` a function of q,
# `total` its value at the upper bound, `before` those at the edges of the pieces. `plain`: the distribution function of the plain estimate, by sums over `sources`.
bent_distribution <- function(domain, sources, total, plain, control) {
  density <- \(y) exp(log_bent(domain, sources, y, FALSE, total, control)$log_abs)
  pieces <- bent_pieces(domain, sources)
  from <- pieces$edges[-length(pieces$edges)]
  to <- pieces$edges[-1]
  bent <- pieces$bent
  integral <- function(i, q) {
    result <- numeric(length(q))
    result[bent[i]] <- piece_integrals(density, from[i[bent[i]]], q[bent[i]])
    result[!bent[i]] <- plain(q[!bent[i]]) - plain(from[i[!bent[i]]])
    result
  }
  before <- cummax(cumsum(c(0, integral(seq_along(from), to)))) # but for rounding it is so
  below <- function(q) {
    i <- findInterval(q, pieces$edges, all.inside = TRUE)
    before[i] + integral(i, q)
  }
  list(below = below, total = before[length(before)], edges = pieces$edges, before = before)
}
