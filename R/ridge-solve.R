# Conjugate gradients for Falkon's normal equations, on matrices of m numbers for each output.

# Weights of the rows that are centres. NULL if there are no weights or the centres are not rows.
weights_at_centers <- function(system) {
  if (!is.null(system$weights) && !is.null(system$center_index)) system$weights[system$center_index]
}

# beta, of which alpha = T^-1 A^-1 beta are the coefficients.
coefficients_of <- function(system, beta) apply_factors(system$preconditioner, beta, c("A^-1", "T^-1"))

# The operator A^-T (T^-T K' W K T^-1 / n + lambda) A^-1 as a function of beta. Its work is one sweep over all rows.
# `product`: K' W K alpha of alpha.
normal_operator <- function(system, lambda, product) {
  function(beta) {
    P <- system$preconditioner
    v <- apply_factors(P, beta, "A^-1")
    alpha <- apply_factors(P, v, "T^-1")
    apply_factors(P, apply_factors(P, product(alpha) / system$n, "T^-T") + lambda * v, "A^-T")
  }
}

scale_columns <- function(x, by) if (ncol(x) == 1) x * by else x * rep(by, each = nrow(x))
