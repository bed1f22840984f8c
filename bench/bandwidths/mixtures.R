# Mixtures of normals, from which points are simulated and for which integrated squared errors have a formula.
#
# A mixture is list(p, mean, root, d): p has the k shares, mean is k x d, and root is a list of k upper triangular
# matrices R such that R'R is the variance.

normal_mixture <- function(p, mean, variances) {
  mean <- as.matrix(mean)
  list(p = p / sum(p), mean = mean, root = lapply(variances, \(v) chol(as.matrix(v))), d = ncol(mean))
}

# One dimension: means and standard deviations.
line_mixture <- function(p, mean, sd) normal_mixture(p, matrix(mean), as.list(sd^2))

# Independent coordinates, each with a mixture in one dimension.
product_mixture <- function(parts) {
  terms <- expand.grid(lapply(parts, \(part) seq_along(part$p)))
  pick <- \(of) matrix(mapply(\(part, k) of(part)[k], parts, terms), nrow(terms))
  sds <- pick(\(part) unlist(part$root))
  normal_mixture(
    apply(pick(\(part) part$p), 1, prod), pick(\(part) part$mean),
    lapply(seq_len(nrow(sds)), \(k) diag(sds[k, ]^2, ncol(sds)))
  )
}

# The mixture of x A.
transformed <- function(mixture, A) {
  normal_mixture(mixture$p, mixture$mean %*% A, lapply(mixture$root, \(R) crossprod(R %*% A)))
}

# Student's t with variance matrix I of its normals: their scale has an inverse gamma distribution, and the trapezoidal
# rule on the log scale gives shares whose density is off by 2e-8 of itself at most.
student_mixture <- function(d, df) {
  t <- seq(-2.5, 30, by = 0.2)
  log_share <- -df * t - df / 2 * exp(-2 * t)
  use <- log_share > max(log_share) - 34
  normal_mixture(
    exp(log_share[use] - max(log_share)), matrix(0, sum(use), d), lapply(exp(2 * t[use]), \(v) diag(v, d))
  )
}

draw_mixture <- function(n, mixture) {
  k <- sample.int(length(mixture$p), n, replace = TRUE, prob = mixture$p)
  x <- matrix(stats::rnorm(n * mixture$d), n)
  for (part in unique(k)) x[k == part, ] <- x[k == part, , drop = FALSE] %*% mixture$root[[part]]
  x + mixture$mean[k, , drop = FALSE]
}

# log of the normal density at rows z, whose variance is R'R.
log_normal <- function(z, R) {
  u <- backsolve(R, t(z), transpose = TRUE)
  -colSums(u^2) / 2 - sum(log(diag(R))) - ncol(z) / 2 * log(2 * pi)
}

log_density_mixture <- function(x, mixture) {
  parts <- vapply(seq_along(mixture$p), \(k) {
    log(mixture$p[k]) + log_normal(sweep(x, 2, mixture$mean[k, ]), mixture$root[[k]])
  }, numeric(nrow(x)))
  parts <- matrix(parts, nrow(x))
  top <- apply(parts, 1, max)
  top + log(rowSums(exp(parts - top)))
}

# The integral of f^2.
mixture_square <- function(mixture) {
  terms <- vapply(seq_along(mixture$p), \(k) {
    mixture_smoothed(mixture$mean[k, , drop = FALSE], mixture, crossprod(mixture$root[[k]]))
  }, 0)
  sum(mixture$p * terms)
}

# The density of the mixture convolved with a normal of variance H, at rows x. Signed: with the kernel
# (1 - tr(H d d') / 2) phi_H of the Laplace correction.
mixture_smoothed <- function(x, mixture, H, signed = FALSE) {
  total <- numeric(nrow(x))
  for (k in seq_along(mixture$p)) {
    S <- crossprod(mixture$root[[k]]) + H
    R <- chol(S)
    z <- sweep(x, 2, mixture$mean[k, ])
    value <- exp(log_normal(z, R))
    if (signed) {
      y <- t(backsolve(R, backsolve(R, t(z), transpose = TRUE)))
      value <- value * (1 - (rowSums((y %*% H) * y) - sum(diag(solve(S, H)))) / 2)
    }
    total <- total + mixture$p[k] * value
  }
  total
}
