# As moments_of(), of data with `discrete`, for a search on a sample: where many cells have few points each, blocks
# of the kernels themselves take less time than a sum for each.

# Kernels of a block, at most.
MOMENTS_BLOCK <- 1e6

# list(S, M, stats); without `wide` and a factor. S is over the other points, each kernel times what the levels of
# both say.
cell_moments <- function(data, L, row_weights, moments, floor, run) {
  started <- proc.time()[["elapsed"]]
  run[c("tol", "engine", "precision")] <- list(0, "exact", "double")
  n <- nrow(data$x)
  cells <- cells_of(data$discrete$codes)
  near <- cell_matrix(data$discrete, cells$codes)
  sources <- sum_sources(data$x, NULL, L, plan = new_plan())
  Y <- t(forwardsolve(L, t(data$x) - colMeans(data$x)))
  S <- numeric(n)
  M <- matrix(0, data$d, data$d)
  for (rows in split(seq_len(n), ceiling(seq_len(n) / max(1, MOMENTS_BLOCK %/% n)))) {
    A <- kernel_matrix_of(sources, data$x[rows, , drop = FALSE], run)
    A <- A * near[cells$of[rows], cells$of, drop = FALSE] * rep(data$w, each = length(rows))
    A[cbind(seq_along(rows), rows)] <- 0
    S[rows] <- rowSums(A)
    if (moments == "none") next
    A <- A * (row_weights / (S + floor))[rows]
    cross <- crossprod(Y[rows, , drop = FALSE], A %*% Y)
    own <- crossprod(Y[rows, , drop = FALSE], rowSums(A) * Y[rows, , drop = FALSE])
    M <- M + own + crossprod(Y, colSums(A) * Y) - cross - t(cross)
  }
  stats <- resolve_control(run, n, n, data$d)
  stats[c("pairs", "seconds")] <- list(n * (n - 1), proc.time()[["elapsed"]] - started)
  list(S = S, M = if (moments == "diagonal") diagonal(M) else if (moments == "full") M, stats = stats)
}
