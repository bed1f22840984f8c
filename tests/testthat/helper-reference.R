# Literal formulas for everything the package computes, in plain R, without package code: one query row at a time, O(n m
# d). Slow and obvious on purpose. Log-sum-exp keeps them accurate in the tails.

# n squared Mahalanobis distances from the point `at` to the rows of x. `P` is the inverse of H, which callers with many
# points compute once.
ref_distance2 <- function(x, at, H, P = solve(H)) {
  difference <- x - rep(at, each = nrow(x))
  rowSums((difference %*% P) * difference)
}

ref_weights <- function(x, weights) if (is.null(weights)) rep(1, nrow(x)) else weights

ref_log_norm <- function(H, total) {
  -(ncol(H) * log(2 * pi) + as.numeric(determinant(H)$modulus)) / 2 - log(total)
}

# For every row of y: log |sum_i w_i k_i factor(q_i)|, its sign, and the log of the sum of the
# terms' absolute values (their ratio is the condition number of the sum).
ref_log_sum <- function(x, y, H, weights = NULL, factor = function(q) 1) {
  w <- ref_weights(x, weights)
  keep <- w > 0
  x <- x[keep, , drop = FALSE]
  w <- w[keep]
  P <- solve(H)
  rows <- vapply(seq_len(nrow(y)), \(j) {
    q <- ref_distance2(x, y[j, ], H, P)
    top <- max(-q / 2)
    terms <- w * exp(-q / 2 - top) * factor(q)
    c(top + log(abs(sum(terms))), sign(sum(terms)), top + log(sum(abs(terms))))
  }, numeric(3))
  list(log_abs = rows[1, ], sign = rows[2, ], log_size = rows[3, ])
}

ref_log_kde <- function(x, y, H, weights = NULL) {
  ref_log_sum(x, y, H, weights)$log_abs + ref_log_norm(H, sum(ref_weights(x, weights)))
}

ref_laplace_factor <- function(d) function(q) 1 + d / 2 - q / 2

# f(t) with its derivative, t = q / 2, for each kind of kernel f k; of order 6 the second Laguerre polynomial
ref_polynomials <- list(
  kde = \(d) list(value = \(t) 1, slope = \(t) 0),
  sdkde = \(d) list(value = \(t) 1, slope = \(t) 0),
  laplace = \(d) list(value = \(t) 1 + d / 2 - t, slope = \(t) -1),
  laplace6 = \(d) list(
    value = \(t) (d / 2 + 1) * (d / 2 + 2) / 2 - (d / 2 + 2) * t + t^2 / 2, slope = \(t) t - (d / 2 + 2)
  )
)

ref_laplace <- function(x, y, H, weights = NULL) {
  s <- ref_log_sum(x, y, H, weights, ref_laplace_factor(ncol(x)))
  s$sign * exp(s$log_abs + ref_log_norm(H, sum(ref_weights(x, weights))))
}

# Gradient of the log of the plain KDE
ref_score <- function(x, y, H, weights = NULL) {
  w <- ref_weights(x, weights)
  P <- solve(H)
  rows <- vapply(seq_len(nrow(y)), \(j) {
    q <- ref_distance2(x, y[j, ], H, P)
    k <- w * exp(-(q - min(q[w > 0])) / 2)
    as.vector(P %*% (colSums(k * x) / sum(k) - y[j, ]))
  }, numeric(ncol(x)))
  matrix(rows, nrow(y), ncol(x), byrow = TRUE)
}

ref_debias <- function(x, H, H_score = H, weights = NULL) {
  x + ref_score(x, x, H_score, weights) %*% H / 2
}

ref_log_sdkde <- function(x, y, H, H_score = H, weights = NULL) {
  ref_log_kde(ref_debias(x, H, H_score, weights), y, H, weights)
}

ref_log_density <- function(estimator, x, y, H, weights = NULL, H_score = H) {
  switch(estimator,
    kde = ref_log_kde(x, y, H, weights),
    sdkde = ref_log_sdkde(x, y, H, H_score, weights),
    laplace = log(ref_laplace(x, y, H, weights))
  )
}

ref_density <- function(estimator, x, y, H, weights = NULL) {
  if (estimator == "laplace") return(ref_laplace(x, y, H, weights))
  exp(ref_log_density(estimator, x, y, H, weights))
}

# Leave-one-out: f(points, the point left out, weights) for the estimate built again without row i
ref_leave_out <- function(f, x, weights = NULL) {
  vapply(seq_len(nrow(x)), \(i) {
    f(x[-i, , drop = FALSE], x[i, , drop = FALSE], weights[-i])
  }, 0)
}

ref_loo_density <- function(estimator, x, H, weights = NULL) {
  ref_leave_out(\(x, y, w) ref_density(estimator, x, y, H, w), x, weights)
}

ref_kernel_sum <- function(x, y, b, H) {
  P <- solve(H)
  rows <- vapply(seq_len(nrow(y)), \(j) {
    colSums(exp(-ref_distance2(x, y[j, ], H, P) / 2) * b)
  }, numeric(ncol(b)))
  matrix(rows, nrow(y), ncol(b), byrow = TRUE)
}

ref_cdf <- function(x, q, h, weights = NULL, laplace = FALSE) {
  w <- if (is.null(weights)) rep(1, length(x)) else weights
  vapply(q, \(at) {
    z <- (at - x) / h
    sum(w * (stats::pnorm(z) + if (laplace) z * stats::dnorm(z) / 2 else 0)) / sum(w)
  }, 0)
}

# Central differences of f at the rows of y
ref_gradient <- function(f, y, step) {
  vapply(seq_len(ncol(y)), \(k) {
    e <- replace(numeric(ncol(y)), k, step)
    (f(y + rep(e, each = nrow(y))) - f(y - rep(e, each = nrow(y)))) / (2 * step)
  }, numeric(nrow(y)))
}
