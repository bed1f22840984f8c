# Losses of an estimate: a fit of flash_kde() or, for another package, the plain estimate with its variance matrix.

# The log density at rows y; a corrected density below a thousandth of the plain one counts as that.
log_density_of <- function(fit, y) {
  value <- suppressWarnings(stats::predict(fit, y, type = "log_density"))
  if (fit$estimator != "laplace") return(value)
  plain <- flash_kde(fit$x, "kde", bandwidth = fit$bandwidth)
  pmax(value, stats::predict(plain, y, type = "log_density") + log(1e-3), na.rm = TRUE)
}

# log of the estimate with a millionth of a Cauchy density of the points x mixed in, at rows y where its log is `value`.
log_with_floor <- function(value, x, y) {
  spread <- apply(x, 2, stats::IQR) / 1.34
  spread <- ifelse(spread > 0, spread, apply(x, 2, stats::sd))
  q <- rowSums(sweep(sweep(y, 2, apply(x, 2, stats::median)), 2, spread, "/")^2)
  d <- ncol(x)
  far <- lgamma((d + 1) / 2) - (d + 1) / 2 * (log(pi) + log1p(q)) - sum(log(spread)) + log(1e-6)
  top <- pmax(value, far)
  top + log(exp(value - top) + exp(far - top))
}

# The integral of (estimate - f)^2 over that of f^2, in closed form; for densities that are no mixture its middle term
# by 20,000 quantiles. NA where there are too many pairs.
integrated_error <- function(fit, truth) {
  own <- estimate_square(fit)
  if (is.na(own)) return(NA_real_)
  both <- if (is.null(truth$mixture)) {
    at <- matrix(truth$quantile((seq_len(20000) - 0.5) / 20000))
    mean(suppressWarnings(stats::predict(fit, at, type = "density")))
  } else {
    cross_term(fit, truth$mixture)
  }
  (own - 2 * both + truth$square) / truth$square
}

# Where the kernels stand, and their shares.
kernel_points <- function(fit) if (is.null(fit$debiased)) fit$x else fit$debiased
kernel_shares <- function(fit) if (is.null(fit$weights)) rep(1 / fit$n, fit$n) else fit$weights / sum(fit$weights)

# The factors of an adaptive fit, one for each point.
kernel_factors <- function(fit) fit$adaptive$factors

cross_term <- function(fit, mixture) {
  x <- kernel_points(fit)
  share <- kernel_shares(fit)
  factors <- kernel_factors(fit)
  signed <- fit$estimator == "laplace"
  if (is.null(factors)) return(sum(share * mixture_smoothed(x, mixture, fit$bandwidth, signed)))
  sum(vapply(split(seq_along(factors), factors), \(rows) {
    sum(share[rows] * mixture_smoothed(x[rows, , drop = FALSE], mixture, factors[rows[1]]^2 * fit$bandwidth, signed))
  }, 0))
}

# The integral of the estimate's square.
estimate_square <- function(fit) {
  factors <- kernel_factors(fit)
  if (fit$estimator == "laplace" || !is.null(factors)) {
    return(if (fit$n <= 20000) square_by_pairs(fit, factors) else NA_real_)
  }
  many <- fit$n > 20000
  if (many && fit$d > 3) return(NA_real_)
  share <- kernel_shares(fit)
  sums <- kernel_sum(
    unname(kernel_points(fit)), b = share, bandwidth = 2 * unname(fit$bandwidth),
    control = if (many) flash_control(tol = 1e-10)
  , tol = 0)
  sum(share * sums) * exp(log_normal(matrix(0, 1, fit$d), chol(2 * fit$bandwidth)))
}

# Blocks of rows, in R. Two kernels with factors a and b have (a^2 + b^2) H together.
square_by_pairs <- function(fit, factors) {
  d <- fit$d
  R <- chol(fit$bandwidth)
  u <- t(backsolve(R, t(kernel_points(fit)), transpose = TRUE))
  u <- sweep(u, 2, colMeans(u))
  norms <- rowSums(u^2)
  share <- kernel_shares(fit)
  if (is.null(factors)) factors <- rep(1, fit$n)
  total <- 0
  for (rows in split(seq_len(fit$n), (seq_len(fit$n) - 1) %/% 1000)) {
    v <- outer(factors[rows]^2, factors^2, "+")
    q <- pmax(outer(norms[rows], norms, "+") - 2 * tcrossprod(u[rows, , drop = FALSE], u), 0) / v
    k <- v^(-d / 2) * exp(-q / 2)
    # t = q / 2 is |x - y|^2 / (4 h^2)
    if (fit$estimator == "laplace") k <- k * ((q / 2)^2 / 4 - (d + 6) * (q / 2) / 4 + (d + 2) * (d + 8) / 16)
    total <- total + sum(share[rows] * (k %*% share))
  }
  total * exp(-sum(log(diag(R))) - d / 2 * log(2 * pi))
}
