# A bandwidth and a penalty where none were given: the least squared error that leaving one row out makes, on a sample
# of rows that are all centres.

DEFAULT_SAMPLE <- 600

# list(bandwidth, lambda): those that were given, or chosen. The noise of a Gaussian process, n lambda, is what goes over
# from the sample to all rows.
choose_defaults <- function(rows, response, weights, spec, run) {
  name_stage(run, "Choosing the bandwidth")
  index <- sort(sample.int(rows$n, min(rows$n, DEFAULT_SAMPLE)))
  points <- rows_take(rows, index)
  y <- response$y[index, , drop = FALSE]
  y <- y - rep(colMeans(y), each = nrow(y))
  best <- list(error = Inf)
  for (bandwidth in bandwidth_candidates(rows, points, spec)) {
    centers <- falkon_centers(points, rows_factor(rows, bandwidth), spec$kernel)
    K <- centers_kernel(centers, run)
    if (!is.matrix(K)) K <- kernel_matrix_of(K, NULL, run)
    found <- leave_one_out(eigen(K, symmetric = TRUE), y, spec$lambda, rows$n)
    if (is.finite(found$error) && found$error < best$error) best <- c(found, list(bandwidth = bandwidth))
  }
  if (!is.finite(best$error)) stop_argument("bandwidth", "could not be chosen from the data: give one")
  list(bandwidth = best$bandwidth, lambda = if (is.null(spec$lambda)) best$noise / rows$n else spec$lambda)
}

# Multiples of the columns' spread; columns that do not vary get the mean of the others, for they have no say.
bandwidth_candidates <- function(rows, points, spec) {
  if (!is.null(spec$bandwidth)) return(list(spec$bandwidth))
  if (inherits(points, "sparseMatrix")) {
    norm <- sqrt(mean(Matrix::rowSums(points^2)))
    return(as.list((if (norm > 0) norm else 1) * c(0.25, 0.5, 1, 2, 4)))
  }
  spread <- apply(points, 2, stats::sd)
  spread[!is.finite(spread) | spread == 0] <- if (any(spread > 0, na.rm = TRUE)) mean(spread[spread > 0], na.rm = TRUE) else 1
  lapply(sqrt(ncol(points)) * c(0.2, 0.4, 0.7, 1, 1.5, 2.5, 4), \(factor) factor * spread)
}

# Of (K + s I)^-1 with K = U diag(e) U': residuals without row i are those with it over 1 - H_ii. Over s, or at the s of
# a given lambda.
leave_one_out <- function(K, y, lambda, n) {
  noises <- if (is.null(lambda)) max(K$values) * 10^seq(-9, 0, by = 0.5) else lambda * n
  inner <- crossprod(K$vectors, y)
  errors <- vapply(noises, \(s) {
    # residuals y - H y = s (K + s)^-1 y
    inverse <- 1 / (pmax(K$values, 0) + s)
    residual <- K$vectors %*% (inverse * inner)
    mean((residual / as.vector(K$vectors^2 %*% inverse))^2)
  }, 0)
  at <- which.min(errors)
  if (length(at) == 0) return(list(error = Inf, noise = NA))
  list(error = errors[at], noise = noises[at])
}
