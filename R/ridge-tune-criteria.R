# What tune_ridge() minimises on a sample of rows, with gradients in the logarithms of the bandwidths and of the noise
# s = n lambda of C = K + s I.
#
# A task has the sample: points, y (n x t, centred, of unit variance on the whole), kernel, base (the bandwidths at
# theta = 0, one for each column, or one), together (is there one factor for all columns?), held (rows to predict, for
# "holdout"), inducing (rows of the bound, NULL: all) and run. theta: logarithms of factors of base, and of s.

# list(value, gradient), or NULL where the factorisation fails.
criterion_at <- function(task, theta) {
  s <- exp(theta[length(theta)])
  z <- task_points(task, theta[-length(theta)])
  pass <- if (task$criterion == "holdout") {
    held_out_pass
  } else if (task$criterion == "likelihood" && !is.null(task$inducing)) {
    bound_pass
  } else {
    exact_pass
  }
  found <- pass(task, z, s)
  if (is.null(found) || !is.finite(found$value) || !all(is.finite(found$gradient))) NULL else found
}

# Rows over the bandwidth.
task_points <- function(task, theta) {
  h <- task$base * exp(theta)
  if (length(h) == 1) task$points / h else task$points / rep(h, each = nrow(task$points))
}

add_diagonal <- function(C, s) {
  at <- seq.int(1, by = nrow(C) + 1, length.out = nrow(C))
  C[at] <- C[at] + s
  C
}

# ---- with every row of the sample -------------------------------------------------------------

exact_pass <- function(task, z, s) {
  pairs <- kernel_pairs(z, NULL, task$kernel, task$run)
  of <- inverse_of(add_diagonal(pairs$K, s), task$run)
  if (is.null(of)) return(NULL)
  found <- EXACT_CRITERIA[[task$criterion]](of, matrix_product(of$inverse, task$y, task$run), task$y, task$run)
  by_bandwidth <- bandwidth_slopes(found$G, pairs, z, z, task$kernel, task$together, task$run)
  list(value = found$value, gradient = c(by_bandwidth, s * sum(diagonal(found$G))))
}

# Each is list(value, G), G its derivative by C, of which inverse_of() has returned `of`; a = C^-1 y.
EXACT_CRITERIA <- list(
  # minus the log marginal likelihood for each number of y, at the best variance of the signal
  likelihood = \(of, a, y, run) {
    signal <- colMeans(y * a)
    value <- (mean(log(signal)) + of$log_det / nrow(y) + 1 + log(2 * pi)) / 2
    b <- scale_columns(a, 1 / sqrt(signal))
    list(value = value, G = (ncol(y) * of$inverse - matrix_tcrossprod(b, b, run)) / (2 * length(y)))
  },
  # the logarithm of the root mean square of what is left when each row is predicted by the others
  loo = \(of, a, y, run) {
    own <- diagonal(of$inverse)
    left <- a / own
    by_row <- .rowSums(left^2, nrow(left), ncol(left)) / own
    roots <- of$inverse * sqrt(by_row)
    G <- matrix_crossprod(roots, roots, run) - tcrossprod(of$inverse %*% (left / own), a)
    list(value = log(mean(left^2)) / 2, G = G / sum(left^2))
  },
  # the logarithm of the root of generalised cross-validation: the same with mean leverages
  gcv = \(of, a, y, run) {
    trace <- sum(diagonal(of$inverse))
    value <- log(nrow(y)^2 * mean(a^2) / trace^2) / 2
    G <- matrix_product(of$inverse, of$inverse, run) / trace - tcrossprod(of$inverse %*% a, a) / sum(a^2)
    list(value = value, G = G)
  }
)

# ---- the bound --------------------------------------------------------------------------------

# Minus the collapsed variational bound of Titsias (2009) for each number of y, at the best variance of the signal: the
# likelihood with Q = K_nu K_uu^-1 K_un for K, and a penalty tr(K - Q) / 2s for what Q lacks. Never below what
# exact_pass() gives, and equal to it where every row is inducing.
bound_pass <- function(task, z, s) {
  n <- nrow(task$y)
  t <- ncol(task$y)
  u <- task$inducing
  cross <- kernel_pairs(z[u, , drop = FALSE], z, task$kernel, task$run)
  own <- kernel_pairs(z[u, , drop = FALSE], NULL, task$kernel, task$run)
  Kuu <- add_diagonal(own$K, BOUND_JITTER * mean(diag(own$K)))
  S <- matrix_tcrossprod(cross$K, cross$K, task$run)
  M <- Kuu + S / s
  of_K <- inverse_of(Kuu, task$run)
  of_M <- if (!is.null(of_K)) inverse_of(M, task$run)
  if (is.null(of_M)) return(NULL)
  Ui <- of_K$inverse
  Mi <- of_M$inverse
  # a = (Q + s)^-1 y, by Woodbury's identity
  a <- (task$y - crossprod(cross$K, Mi %*% (cross$K %*% task$y)) / s) / s
  signal <- colMeans(task$y * a)
  own_diagonal <- own_kernels(z, task$kernel, task$run)
  lacking <- sum(own_diagonal$K) - sum(Ui * S)
  value <- mean(log(signal)) / 2 + (of_M$log_det - of_K$log_det) / (2 * n) + log(s) / 2 + lacking / (2 * s * n) +
    (1 + log(2 * pi)) / 2
  b <- scale_columns(a, 1 / sqrt(signal))
  Vb <- Ui %*% (cross$K %*% b)
  Gun <- (matrix_product(Mi - Ui, cross$K, task$run) * (t / s) - tcrossprod(Vb, b)) / (n * t)
  UMU <- matrix_product(matrix_product(Ui, M, task$run), Ui, task$run)
  Guu <- (t * (Mi - 2 * Ui + UMU) + tcrossprod(Vb)) / (2 * n * t)
  by_bandwidth <- bandwidth_slopes(Gun, cross, z[u, , drop = FALSE], z, task$kernel, task$together, task$run) +
    bandwidth_slopes(Guu, own, z[u, , drop = FALSE], z[u, , drop = FALSE], task$kernel, task$together, task$run) +
    diagonal_slopes(own_diagonal, z, task) / (2 * s * n)
  trace <- (n - sum(Mi * S) / s) / s
  by_noise <- s * (trace / n - sum(b^2) / (n * t)) / 2 - lacking / (2 * s * n)
  list(value = value, gradient = c(by_bandwidth, by_noise))
}

# Jitter for the Cholesky factorisation of K_uu in double precision, relative to the mean of its diagonal.
BOUND_JITTER <- 1e-8

# Derivatives of sum(k(x, x)) by the logarithms of the bandwidths.
diagonal_slopes <- function(diagonal, z, task) {
  if (is_stationary(task$kernel)) return(0)
  by_column <- -2 * colSums(as.vector(diagonal$slope) * z^2)
  if (task$together) sum(by_column) else by_column
}

# ---- rows held out ----------------------------------------------------------------------------

# The logarithm of the root mean square error at the rows held out of the sample, of a fit to the others.
held_out_pass <- function(task, z, s) {
  at <- z[task$held, , drop = FALSE]
  z <- z[-task$held, , drop = FALSE]
  y <- task$y[-task$held, , drop = FALSE]
  own <- kernel_pairs(z, NULL, task$kernel, task$run)
  cross <- kernel_pairs(at, z, task$kernel, task$run)
  of <- inverse_of(add_diagonal(own$K, s), task$run)
  if (is.null(of)) return(NULL)
  a <- of$inverse %*% y
  residual <- task$y[task$held, , drop = FALSE] - cross$K %*% a
  total <- sum(residual^2)
  G_cross <- -tcrossprod(residual, a) / total
  G <- tcrossprod(of$inverse %*% crossprod(cross$K, residual), a) / total
  by_bandwidth <- bandwidth_slopes(G, own, z, z, task$kernel, task$together, task$run) +
    bandwidth_slopes(G_cross, cross, at, z, task$kernel, task$together, task$run)
  list(value = log(mean(residual^2)) / 2, gradient = c(by_bandwidth, s * sum(diag(G))))
}
