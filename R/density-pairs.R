# Sums over pairs of targets and points in R, for results that need the contribution of each point by itself: squares of
# kernels with reflected or periodic copies, or with polynomials of a degree that the engines lack; and leave-one-out
# derivatives with copies. They take O(nmd), and a block of targets has PAIRS_IN_BLOCK pairs.

PAIRS_IN_BLOCK <- 5e5

# Calls `task(rows, kernels)` for blocks of the rows of `at`, points relative to fit_centre(). kernels: list(log_k, half,
# z), a row for each target and a column for each kernel: the logarithm of the weighted kernel without its polynomial, q /
# 2, and a list of the whitened differences, point - target, in units of the kernel's local bandwidth. With `loo` the
# targets are the first points, and log_k is -Inf for kernels of the target's own point.
each_pair_block <- function(object, at, loo, control, task) {
  sources <- fit_sources(object)
  discrete <- sources$discrete
  tables <- if (!is.null(discrete)) tables_of_power(discrete)
  d <- ncol(sources$points)
  n <- nrow(sources$points)
  width <- if (is.null(sources$factors)) rep(1, n) else sources$factors
  log_weight <- (if (is.null(sources$weights)) 0 else log(sources$weights)) - d * log(width)
  point_of <- if (is.null(object$row)) seq_len(n) else object$row
  blocks <- blocks_of(nrow(at), max(1, floor(PAIRS_IN_BLOCK / n)))
  for (i in seq_along(blocks)) {
    rows <- blocks[[i]]
    share_stage(control, (i - 1) / length(blocks), 1 / length(blocks))
    z <- whitened_differences(sources$points, at[rows, seq_len(d), drop = FALSE], sources$L, width)
    half <- Reduce(`+`, lapply(z, `^`, 2), matrix(0, length(rows), n)) / 2
    log_k <- rep(log_weight, each = length(rows)) - half
    for (k in seq_along(tables)) log_k <- log_k + log(tables[[k]][at[rows, d + k], discrete$codes[, k]])
    if (loo) log_k[outer(rows, point_of, "==")] <- -Inf
    task(rows, list(log_k = log_k, half = half, z = z))
  }
}

# For each coordinate a matrix with a row for each target.
whitened_differences <- function(points, at, L, width) {
  z <- list()
  for (k in seq_len(ncol(points))) {
    apart <- outer(at[, k], points[, k], \(y, x) x - y)
    for (j in seq_len(k - 1)) apart <- apart - L[k, j] * z[[j]]
    z[[k]] <- apart / L[k, k]
  }
  lapply(z, `/`, rep(width, each = nrow(at)))
}

# Terms relative to the largest of each row: list(terms, top).
relative_terms <- function(log_k) {
  top <- log_k[cbind(seq_len(nrow(log_k)), max.col(log_k, "first"))]
  top[top == -Inf] <- 0
  list(terms = exp(log_k - top), top = top)
}

# The logarithm of the sum of the squared contributions of the points, in units of the kernel's height. `at`: as for
# log_estimate(), in working coordinates.
log_pair_squares <- function(object, at, loo, control) {
  check_in_memory(object)
  at <- from_centre(object, if (is.null(at)) own_places(object)[points_alone(object), , drop = FALSE] else at)
  factor <- fit_polynomial(object)
  found <- numeric(nrow(at))
  each_pair_block(object, at, loo, control, \(rows, kernels) {
    relative <- relative_terms(kernels$log_k)
    terms <- relative$terms * polynomial_at(factor, kernels$half)
    if (!is.null(object$row)) terms <- t(rowsum(t(terms), object$row))
    found[rows] <<- log(rowSums(terms^2)) + 2 * relative$top
  })
  found
}

# The rows of a fit that are points, not copies.
points_alone <- function(object) if (is.null(object$row)) TRUE else !duplicated(object$row)

# list(score, hessian) of the logarithm of the estimate at each point, without the point and its copies: m x d and m x
# d^2. With F the polynomial in s = q / 2, the gradient of the sum is sum (F - F') k L'^-1 z / f, and its Hessian sum (F
# - 2 F' + F'') k L'^-1 z z' L^-1 / f^2 - sum (F - F') k (L L')^-1 / f^2.
left_out_derivatives <- function(object, control) {
  at <- fit_points(object)[points_alone(object), , drop = FALSE]
  d <- ncol(at)
  F0 <- fit_polynomial(object)
  F1 <- c(F0[2], 2 * F0[3], 0)
  first <- F0 - F1
  second <- first - F1 + c(F1[2], 0, 0)
  factors <- object$adaptive$factors
  gradient <- matrix(0, nrow(at), d)
  hessian <- matrix(0, nrow(at), d^2)
  each_pair_block(object, at, TRUE, control, \(rows, kernels) {
    k <- relative_terms(kernels$log_k)$terms
    per_width <- \(terms, power) if (is.null(factors)) terms else terms / rep(factors^power, each = length(rows))
    mass <- rowSums(k * polynomial_at(F0, kernels$half))
    slope <- k * polynomial_at(first, kernels$half)
    for (i in seq_len(d)) gradient[rows, i] <<- rowSums(per_width(slope, 1) * kernels$z[[i]]) / mass
    bend <- per_width(k * polynomial_at(second, kernels$half), 2)
    own <- rowSums(per_width(slope, 2))
    for (i in seq_len(d)) for (j in seq_len(d)) {
      sum <- rowSums(bend * kernels$z[[i]] * kernels$z[[j]]) - (i == j) * own
      hessian[rows, (j - 1) * d + i] <<- sum / mass
    }
  })
  hessian <- hessian - outer_rows(gradient)
  inverse <- backsolve(fit_factor(object), diag(d), upper.tri = FALSE)
  list(score = gradient %*% inverse, hessian = matrix(unwhiten_hessians(hessian, inverse), nrow(at)))
}
