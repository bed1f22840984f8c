# Until falkon-posterior.R is merged: (K' W K + n lambda K_mm)^-1 k, times the variance of the noise.
posterior_solve <- function(fit, k, run) {
  data <- kept_data(fit)
  sources <- fit_columns(fit)$sources
  K <- kernel_matrix_of(sources, data$rows$points, run)
  Kmm <- kernel_matrix_of(sources, NULL, run)
  w <- if (is.null(data$weights)) rep(1, fit$n) else data$weights
  A <- crossprod(K, w * K)
  edf <- sum(diag(solve(A + fit$n * fit$lambda * Kmm + diag(1e-10, nrow(A)), A)))
  sigma2 <- sum(w * (data$y - fitted_link(fit, run))^2) / (fit$n - edf)
  sigma2 * solve(A + fit$n * fit$lambda * Kmm + diag(1e-10, nrow(A)), k)
}
