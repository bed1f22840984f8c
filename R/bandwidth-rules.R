# Rules of thumb: closed formulas in the spread, n and d. Cost O(n d).

sj_bandwidth <- function(x, arg) {
  force(x) # errors of `x` itself keep their message
  tryCatch(
    stats::bw.SJ(x, method = "ste"),
    error = function(e) {
      stop_argument(arg, "must have enough distinct values for \"sj\": ", shorten(conditionMessage(e), 300))
    }
  )
}

# 1 - sum p^2 for weights p that sum to 1, without the loss of digits beside a p that is nearly 1.
share_of_pairs <- function(p) {
  largest <- which.max(p)
  rest <- p[-largest]
  p[largest] * sum(rest) + sum(rest * (1 - rest))
}

# Column by column: copies of all points would be the largest memory of a fit.
weighted_sds <- function(x, weights) {
  p <- if (is.null(weights)) 1 / nrow(x) else weights / sum(weights)
  spare <- if (is.null(weights)) 1 - p else share_of_pairs(p)
  sds <- vapply(seq_len(ncol(x)), \(k) {
    # Centre first, and scale by the largest deviation: squares of neither overflow nor vanish.
    centred <- x[, k] - sum(p * x[, k])
    top <- max(abs(centred))
    if (top == 0) 0 else top * sqrt(sum(p * (centred / top)^2) / spare)
  }, 0)
  stats::setNames(sds, colnames(x))
}

weighted_correlation <- function(x, weights) {
  p <- if (is.null(weights)) rep(1 / nrow(x), nrow(x)) else weights / sum(weights)
  z <- sweep(sweep(x, 2, colSums(p * x)), 2, weighted_sds(x, weights), "/")
  crossprod(z * sqrt(p)) / share_of_pairs(p)
}

rule_bandwidth <- function(data, rule, estimator, structure) {
  factor <- rule_factor(rule, data$n, data$d, estimator)
  # an error while a method of tcrossprod() is chosen would lose its class
  if (structure == "full") root <- covariance_root(data)
  switch(structure,
    diagonal = factor * data$sds,
    scalar = factor * scalar_spread(data$sds),
    full = factor^2 * tcrossprod(root)
  )
}

# Silverman (1986), p. 87: the mean of the variances stands for the spread of all columns.
scalar_spread <- function(sds) max(sds) * sqrt(mean((sds / max(sds))^2))

# Lower Cholesky factor of the weighted covariance matrix; of more rows than these, where `data` has a correlation.
covariance_root <- function(data) {
  correlation <- data$correlation$matrix
  if (is.null(correlation)) correlation <- weighted_correlation(data$x, data$weights)
  root <- tryCatch(t(chol(correlation)), error = function(e) NULL)
  if (is.null(root) || min(diag(root)) < 1e-7) {
    stop_argument(
      "x", "must have linearly independent columns, and more rows than columns, for a bandwidth ",
      "with structure = \"full\": found a singular covariance matrix"
    )
  }
  root <- data$sds * root
  dimnames(root) <- list(colnames(data$x), colnames(data$x))
  root
}

rule_factor <- function(rule, n, d, estimator) {
  rate <- bandwidth_rate(estimator, d)
  constant <- if (rule == "scott") 1 else ESTIMATORS[[estimator]]$reference(d)^rate
  constant * n^-rate
}

bandwidth_rate <- function(estimator, d) 1 / (d + ESTIMATORS[[estimator]]$gain)
