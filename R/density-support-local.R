# Local log-quadratic likelihood of one transformed column (Loader 1996; Geenens and Wang 2018).
#
# At y the log density is taken for a polynomial of degree 2 under the weights K_h(x - y). Its local likelihood is
# largest where the polynomial's exponential times K_h, a Gaussian again, has the mass, the mean and the variance
# that points have under these weights: with u_i = (x_i - y) / h, S the plain estimate, m the mean of u and v its
# variance, that is S exp(-m^2 / (2 v)) / sqrt(v). Where only few points are in reach, v would go to 0, and the
# estimate to infinity at a point by itself: one more point at y, with the kernel's own variance, keeps it from that.

# The sum of the kernels' weights, m and the mean of u^2, and `weight`, that of one more point.
local_means <- function(sources, y, loo, control) {
  at <- if (!loo) matrix(y)
  plain <- log_sum(sources, at, PLAIN_FACTOR, loo, control)
  square <- log_sum(sources, at, c(0, 1, 0), loo, control)$log_abs
  score <- score_sum(sources, at, PLAIN_FACTOR, loo, "x", control)$score[, 1]
  list(
    log_sum = plain$log_abs, m = sources$L[1] * score, m2 = 2 * exp(square - plain$log_abs),
    log_weight = log_mean_weight(sources$weights), stats = plain$stats
  )
}

# The logarithm of the mean weight, each point counted by its weight.
log_mean_weight <- function(weights) if (is.null(weights)) 0 else log_square_sum(weights) - log(sum(weights))

local_estimate <- function(sums) {
  v <- local_variance(sums)$v
  estimate <- sums$log_sum - log(v) / 2 - sums$m^2 / (2 * v)
  estimate[sums$log_sum == -Inf] <- -Inf
  estimate
}

# list(v, raw, share): with the point more, and without it, whose share of the weight that is.
local_variance <- function(sums) {
  share <- stats::plogis(sums$log_weight - sums$log_sum)
  raw <- pmax(sums$m2 - sums$m^2, 0)
  list(v = raw + share * (1 - raw), raw = raw, share = share)
}

# The derivative of the logarithm with y. dS = m S / h, and the mean of u^j goes with the mean of u^(j + 1).
local_score <- function(sources, y, sums) {
  h <- sources$L[1]
  m <- sums$m
  of <- local_variance(sums)
  m_slope <- sums$m2 - 1 - m^2
  raw_slope <- sums$m3 - 2 * m - sums$m2 * m - 2 * m * m_slope
  v_slope <- (1 - of$share) * (raw_slope - of$share * m * (1 - of$raw))
  (m - v_slope / (2 * of$v) - m * m_slope / of$v + m^2 * v_slope / (2 * of$v^2)) / h
}

# The effect of a point on the logarithm: the coefficients of 1, u and u^2, times its share in S.
local_effect <- function(sums) {
  m <- sums$m
  of <- local_variance(sums)
  by_v <- (m^2 / of$v - 1) / (2 * of$v)
  own <- (1 - of$raw) * of$share * (1 - of$share) # by which v falls with log S
  by_mean <- -m / of$v - by_v * (1 - of$share) * 2 * m
  by_square <- by_v * (1 - of$share)
  list(1 - by_v * own - by_mean * m - by_square * sums$m2, by_mean, by_square)
}

# Pieces of h / 2 where points are in reach; elsewhere there is next to nothing.
local_pieces <- function(sources) {
  h <- sources$L[1]
  x <- sources$points[, 1]
  x <- sort(if (is.null(sources$weights)) x else x[sources$weights > 0])
  reach <- MASS_REACH * h
  gap <- which(diff(x) > 2 * reach)
  cut <- \(from, to) seq(from, to, length.out = ceiling((to - from) / (h / 2)) + 1)
  parts <- Map(cut, x[c(1, gap + 1)] - reach, x[c(gap, length(x))] + reach)
  bent <- unlist(lapply(parts, \(edges) rep(c(FALSE, TRUE), c(1, length(edges) - 1))))
  list(edges = c(-Inf, unlist(parts), Inf), bent = c(bent, FALSE))
}
