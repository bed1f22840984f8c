# Until the real ones are merged.
new_preconditioner <- function(K, run, jitter = NULL, diagonal = 0) {
  if (!is.matrix(K)) K <- kernel_matrix_of(K, NULL, run)
  m <- nrow(K)
  diag(K) <- diag(K) + diagonal
  added <- if (is.null(jitter)) 0 else jitter * m * mean(diag(K))
  P <- new.env()
  P$T <- chol(K + diag(added, m))
  P$m <- m
  P$jitter <- if (is.null(jitter)) 0 else jitter
  structure(P, class = "preconditioner")
}
precondition <- function(P, weights = NULL, scale = 1 / P$m, lambda) {
  if (is.null(weights)) weights <- rep(1, P$m)
  P$A <- chol(scale * tcrossprod(P$T * rep(sqrt(weights), each = P$m)) + diag(lambda, P$m))
  P
}
apply_factors <- function(P, v, steps) {
  v <- as.matrix(v)
  for (s in steps) {
    v <- switch(s,
      "T" = P$T %*% v, "T'" = crossprod(P$T, v), "A" = P$A %*% v, "A'" = crossprod(P$A, v),
      "T^-1" = backsolve(P$T, v), "T^-T" = backsolve(P$T, v, transpose = TRUE),
      "A^-1" = backsolve(P$A, v), "A^-T" = backsolve(P$A, v, transpose = TRUE))
  }
  v
}
factor_of <- function(P, which) P$T
log_det <- function(P) 2 * sum(log(diag(P$T)))
kernel_matrix_of <- function(sources, at, run) {
  kernel_sum_of(sources, at, diag(nrow(sources$points)), replace(run, c("engine", "precision"), list("exact", "double")), as_matrix = TRUE)$sums
}
CENTER_METHODS <- c("uniform", "rpcholesky", "leverage", "kmeans++")
choose_centers <- function(rows, number, method, weights, L, kernel, run) {
  if (is.matrix(number)) return(list(points = number, index = NULL, merged = 0))
  index <- if (length(number) > 1) number else sample.int(rows$n, min(number, rows$n))
  list(points = rows_take(rows, index), index = index, merged = 0)
}
