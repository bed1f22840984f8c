# Tiled matrices on several back ends (CUDA devices, or -1 for the host) compared with R's own matrix algebra.

TILED_STEPS <- c(L = 0, "L^-1" = 1, "L'" = 2, "L^-T" = 3, U = 4, "U^-1" = 5, "U'" = 6, "U^-T" = 7)

run_tiled <- function(K, devices = -1L, block = 16, most = 0, diagonal = NULL, roots = rep(1, nrow(K)), lambda = 1,
                      v = matrix(1, nrow(K), 1), steps = character(), stop_at = 0, halves = FALSE, rough = FALSE, host = 0) {
  steps <- as.integer(TILED_STEPS[steps])
  arguments <- list(K, as.integer(devices), block, c(most, host), diagonal, roots, lambda, v, steps, stop_at, halves, rough)
  out <- do.call(c_unit, c("tiled", arguments))
  m <- nrow(K)
  facts <- as.list(out[[6]])
  names(facts) <- c("pivot", "streamed", "looks", "backwards")
  square <- \(x) matrix(x, m, m)
  c(list(L = square(out[[1]]) * lower.tri(K, TRUE), U = square(out[[2]]) * upper.tri(K, TRUE), L_diagonal = out[[3]],
         U_diagonal = out[[4]], v = matrix(out[[5]], m)), facts)
}

# Memory in bytes of a device that has room for some block columns besides the buffers.
tiled_room <- function(m, block, columns) 8 * (ceiling(m / 16) * 16 * (block + 1) * (columns + 2) + 4 * block^2) + 8

# Memory in bytes of such a device if U is stored as FP16 terms.
halves_room <- function(m, block, columns) {
  tiled_room(m, block, columns) + block * (12 * min(m + 64, 4096) + 4 * (block + 64) + 16)
}

random_kernel <- function(m) tcrossprod(random_matrix(m, m + 2)) / m + diag(m)

expect_tiled <- function(m, block, ...) {
  K <- random_kernel(m)
  roots <- stats::runif(m)
  diagonal <- stats::runif(m)
  v <- random_matrix(m, 2)
  label <- paste("order", m, "in blocks of", block)
  got <- run_tiled(K, block = block, diagonal = diagonal, roots = roots, lambda = 0.5, v = v, ...)
  # the upper triangle of K has not been read
  expect_matrix(tcrossprod(got$L), K + diag(diagonal, m), FALSE, paste(label, "L L'"))
  want <- crossprod(got$L * roots) + diag(0.5, m)
  expect_matrix(crossprod(got$U), want, FALSE, paste(label, "U'U"))
  expect_identical(got$L_diagonal, diag(got$L))
  expect_identical(got$U_diagonal, diag(got$U))
  products <- list(
    L = got$L %*% v, "L'" = t(got$L) %*% v, U = got$U %*% v, "U'" = t(got$U) %*% v, "L^-1" = forwardsolve(got$L, v),
    "L^-T" = backsolve(t(got$L), v), "U^-1" = backsolve(got$U, v), "U^-T" = forwardsolve(t(got$U), v)
  )
  for (step in names(products)) {
    done <- run_tiled(K, block = block, diagonal = diagonal, roots = roots, lambda = 0.5, v = v, steps = step, ...)
    expect_matrix(done$v, products[[step]], FALSE, paste(label, step))
  }
  got
}

# The result must not depend on the devices and their memory: a list of the arguments that set them.
expect_same_tiles <- function(m, block, places, steps = names(TILED_STEPS)) {
  K <- random_kernel(m)
  roots <- stats::runif(m)
  v <- random_matrix(m, 3)
  run <- \(place) do.call(run_tiled, c(list(K, block = block, roots = roots, v = v, steps = steps), place))
  parts <- c("L", "U", "v")
  first <- run(places[[1]])
  for (place in places[-1]) {
    got <- run(place)
    if (!is.null(place$most)) expect_equal(got$streamed, 1)
    expect_identical(got[parts], first[parts])
  }
}

# U'U by FP16 terms compared with R's own, for columns of L of very different sizes: the largest error relative to their
# norms. L itself stays in double.
halves_error <- function(m, block, ...) {
  sizes <- 10^seq(0, -3, length.out = m)
  K <- exp(-as.matrix(stats::dist(seq(0, 9, length.out = m)))) * outer(sizes, sizes)
  roots <- exp(-3 * stats::runif(m))
  run <- \(...) run_tiled(K, block = block, roots = roots, lambda = 1e-9, ...)
  double <- run(...)
  got <- run(..., halves = TRUE)
  expect_identical(got$L, double$L)
  want <- crossprod(got$L * roots) + diag(1e-9, m)
  max(abs(crossprod(got$U) - want) / sqrt(outer(diag(want), diag(want))))
}

# A rough matrix, U'U = K with FP16 terms or without, and solves with it.
expect_rough <- function(m, block, ..., tolerance = 1e-12) {
  K <- random_kernel(m)
  diagonal <- stats::runif(m)
  v <- random_matrix(m, 2)
  got <- run_tiled(K, block = block, diagonal = diagonal, v = v, steps = c("U^-T", "U^-1"), rough = TRUE, ...)
  want <- K + diag(diagonal, m)
  expect_equal(crossprod(got$U), want, tolerance = tolerance)
  expect_equal(got$v, solve(want, v), tolerance = 10 * tolerance)
  expect_identical(got$U_diagonal, diag(got$U))
  got
}
