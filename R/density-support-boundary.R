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

# log_bent() for the boundary kernel.
log_boundary <- function(domain, sources, y, loo, total, control) {
  h <- sources$L[1]
  if (loo) y <- sources$points[, 1]
  sums <- log_sum(sources, if (!loo) matrix(y), PLAIN_FACTOR, loo, control)
  score <- score_sum(sources, if (!loo) matrix(y), PLAIN_FACTOR, loo, "x", control)$score[, 1]
  log_abs <- sums$log_abs + log_kernel_norm(sources$L) - log(total)
  bent <- log_abs + log_boundary_factor(domain, y, h, -h * score)
  list(log_abs = ifelse(log_abs == -Inf, -Inf, bent), stats = sums$stats)
}

# The derivative of the logarithm with y. `sums`: of summed_moments().
boundary_score <- function(domain, sources, y, sums) {
  h <- sources$L[1]
  sums$m / h + boundary_slope(domain, y, h, -sums$m, sums$m2)
}

# As local_effect(), with u = (x - y) / h.
boundary_effect <- function(domain, y, h, m) {
  a <- kernel_moments(domain, y, h)
  by_mean <- a$a0 * a$a1 / (a$a0 * a$a2 - a$a1^2)
  list(1 - by_mean * m, by_mean, 0)
}
