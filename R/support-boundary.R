# The local linear boundary kernel of one column, made non-negative as Jones and Foster (1996) do.
#
# With u_i = (y - x_i) / h, S_l = sum w_i u_i^l phi(u_i) / h and a_l the integral of u^l phi(u) over the u that the
# domain leaves at y, the plain estimate there is S_0, f = S_0 / a_0, the local linear one f_L = (a_2 S_0 - a_1
# S_1) / (a_0 a_2 - a_1^2), and their ratio r, by the mean m = S_1 / S_0, a_0 (a_2 - a_1 m) / (a_0 a_2 - a_1^2).
# What is drawn, f exp(r - 1) / c, is f itself further than MASS_REACH from the bounds.

# a_0, a_1, a_2 at working points y.
kernel_moments <- function(domain, y, h) {
  low <- (y - domain$upper) / h
  high <- (y - domain$lower) / h
  times <- \(u, v) ifelse(is.finite(u), u * v, 0)
  a0 <- stats::pnorm(high) - stats::pnorm(low)
  a1 <- stats::dnorm(low) - stats::dnorm(high)
  edge <- times(low, stats::dnorm(low)) - times(high, stats::dnorm(high))
  list(a0 = a0, a1 = a1, a2 = a0 + edge, low = low, high = high)
}

# log f exp(r - 1) less log S_0. `m`: the mean of u.
log_boundary_factor <- function(domain, y, h, m) {
  a <- kernel_moments(domain, y, h)
  a$a0 * (a$a2 - a$a1 * m) / (a$a0 * a$a2 - a$a1^2) - 1 - log(a$a0)
}

# Its derivative with y. `second`: the mean of u^2.
boundary_slope <- function(domain, y, h, m, second) {
  a <- kernel_moments(domain, y, h)
  slope <- function(power) {
    at <- \(u) ifelse(is.finite(u), u^power * stats::dnorm(u), 0)
    (at(a$high) - at(a$low)) / h
  }
  b0 <- slope(0)
  b1 <- slope(1)
  b2 <- slope(2)
  m_slope <- (1 - second + m^2) / h
  top <- a$a0 * (a$a2 - a$a1 * m)
  below <- a$a0 * a$a2 - a$a1^2
  top_slope <- b0 * (a$a2 - a$a1 * m) + a$a0 * (b2 - b1 * m - a$a1 * m_slope)
  below_slope <- b0 * a$a2 + a$a0 * b2 - 2 * a$a1 * b1
  (top_slope * below - top * below_slope) / below^2 - b0 / a$a0
}

# The estimate before it is divided by its integral: its logarithm at points y, of sums over `sources`; `loo`: at
# these themselves.
log_boundary <- function(domain, sources, y, loo, total, control) {
  h <- sources$L[1]
  if (loo) y <- sources$points[, 1]
  sums <- log_sum(sources, if (!loo) matrix(y), PLAIN_FACTOR, loo, control)
  score <- score_sum(sources, if (!loo) matrix(y), ESTIMATORS[[PLAIN_ESTIMATOR]], loo, "x", control)$score[, 1]
  log_abs <- sums$log_abs + log_kernel_norm(sources$L) - log(total)
  bent <- log_abs + log_boundary_factor(domain, y, h, -h * score)
  list(log_abs = ifelse(log_abs == -Inf, -Inf, bent), stats = sums$stats)
}

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

# ---- integrals --------------------------------------------------------------------------------

# Where the domain is cut: list(edges, bent), between which edges the estimate is bent, pieces of h / 2, and where
# it is the plain one.
boundary_pieces <- function(domain, h) {
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

# list(below, total) of an estimate that is not divided by its integral yet: `below` a function of q, `total` its
# value at the upper bound. `plain`: the distribution function of the plain estimate, by sums over `sources`.
boundary_distribution <- function(domain, sources, total, plain, control) {
  h <- sources$L[1]
  density <- \(y) exp(log_boundary(domain, sources, y, FALSE, total, control)$log_abs)
  pieces <- boundary_pieces(domain, h)
  from <- pieces$edges[-length(pieces$edges)]
  to <- pieces$edges[-1]
  bent <- pieces$bent
  integral <- function(i, q) {
    result <- numeric(length(q))
    result[bent[i]] <- piece_integrals(density, from[i[bent[i]]], q[bent[i]])
    result[!bent[i]] <- plain(q[!bent[i]]) - plain(from[i[!bent[i]]])
    result
  }
  before <- cumsum(c(0, integral(seq_along(from), to)))
  below <- function(q) {
    i <- findInterval(q, pieces$edges, all.inside = TRUE)
    before[i] + integral(i, q)
  }
  list(below = below, total = before[length(before)])
}
