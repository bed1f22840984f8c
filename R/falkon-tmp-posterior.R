# Until falkon-posterior.R is merged, which has these two by the same names.
check_level <- function(level) {
  level <- check_prob(level, "level", open = TRUE)
  if (length(level) != 1) stop_argument("level", "must be one probability: found ", length(level))
  level
}
functional_errors <- function(fit, functional, run) {
  data <- kept_data(fit)
  if (is.null(fit$state$tmp)) {
    sources <- fit_columns(fit)$sources
    K <- kernel_matrix_of(sources, data$rows$points, run)
    Kmm <- kernel_matrix_of(sources, NULL, run)
    w <- row_weights(fit)
    if (fit$loss != "squared") w <- w * stats::dlogis(fitted_link(fit, run)[, 1])
    S <- crossprod(K, w * K)
    A <- S + fit$n * fit$lambda * Kmm + diag(1e-10 * nrow(S), nrow(S))
    sigma2 <- 1
    if (fit$loss == "squared") {
      sigma2 <- colSums(w * (data$y - fitted_link(fit, run))^2) / (fit$n - sum(diag(solve(A, S))))
    }
    fit$state$tmp <- list(A = A, sigma2 = sigma2)
  }
  norms <- pmax(colSums(functional * solve(fit$state$tmp$A, functional)), 0)
  sqrt(outer(norms, fit$state$tmp$sigma2))
}
