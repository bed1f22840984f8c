# Probabilities of rectangles under a fit, for kde_cdf(). By H = D R D, D the kernel's sds, coordinates are scaled so
# that kernels have sds of 1 and the correlations R.

# P(lower < X <= upper) for each row of the two, matrices of as many rows whose numbers may be infinite or missing;
# where it has been sampled with an attribute "error", three standard errors.
#' @export
rectangle_probability.default <- function(object, lower, upper, control) {
  if (!has_gaussian(object) && has_correlation(fit_factor(object))) return(share_of_draws(object, lower, upper))
  result <- rep(NA_real_, nrow(upper))
  known <- which(stats::complete.cases(lower, upper))
  if (length(known) == 0) return(result)
  kernels <- scaled_kernels(object)
  scaled <- \(limits) scaled_columns(from_centre(object, limits[known, , drop = FALSE]), kernels$about, kernels$sds)
  found <- rectangles_of(kernels, scaled(lower), scaled(upper), control)
  result[known] <- if (is_signed(object)) found$p else pmin(found$p, 1)
  if (!is.null(found$error)) attr(result, "error") <- replace(rep(NA_real_, nrow(upper)), known, found$error)
  result
}

# What is no sum of kernels has no formula in several dimensions.
#' @export
rectangle_probability.clipped <- function(object, lower, upper, control) {
  if (object$d > 1) return(share_of_draws(object, lower, upper))
  below <- \(q) replace(as.double(q > 0), is.finite(q), probability_below(object, q[is.finite(q)], control))
  pmax(below(upper[, 1]) - below(lower[, 1]), 0)
}

# The share of draws in each rectangle.
share_of_draws <- function(object, lower, upper, n = 1e5) {
  draws <- with_fixed_seed(t(if (is_signed(object)) draw_positive_part(object, n) else draw_estimate(object, n)))
  p <- vapply(seq_len(nrow(upper)), \(i) mean(colSums(draws > lower[i, ] & draws <= upper[i, ]) == object$d), 0)
  structure(p, error = 3 * sqrt(p * (1 - p) / n))
}

# A column for each kernel, about the median.
scaled_kernels <- function(object) {
  used <- used_rows(object)
  points <- fit_points(object)[used, , drop = FALSE]
  about <- apply(points, 2, stats::median)
  weights <- if (is.null(object$weights)) rep(1, nrow(points)) else object$weights[used]
  sds <- bandwidth_sds(object$bandwidth)
  kernel <- if (has_gaussian(object)) list() else fit_kernel(object)
  list(
    x = scaled_columns(points, about, sds), about = about, sds = sds,
    weights = weights / sum(weights), factors = object$adaptive$factors[used], laplace = is_signed(object),
    order6 = object$estimator == "laplace6",
    R = stats::cov2cor(object$bandwidth), below = if (is_compact(kernel)) integral_polynomial(kernel$value),
    reach = kernel$reach
  )
}

# In units of `sds`, with low parts where they are far out.
scaled_columns <- function(points, about, sds) {
  with_low((t(points) - about) / sds, points, diag(sds, length(sds)), about)
}

# list(p, error): limits have a column for each rectangle.
rectangles_of <- function(kernels, lower, upper, control) {
  between <- kernels$R[lower.tri(kernels$R)]
  if (all(abs(between) < 1e-14)) return(list(p = exact_rectangles(kernels, lower, upper, 0, control)))
  if (length(between) == 1) return(list(p = exact_rectangles(kernels, lower, upper, between, control)))
  sampled_rectangles(kernels, lower, upper, control)
}

exact_rectangles <- function(kernels, lower, upper, correlation, control) {
  at <- function(s) {
    scaled <- \(u) of_parts(u, \(part) part / sqrt(s))
    limits <- list(lower = scaled(lower), upper = scaled(upper), correlation = correlation)
    rectangle_sums(c(replace(kernels, "x", list(scaled(kernels$x))), limits), control)
  }
  if (!isTRUE(kernels$order6)) return(at(1))
  # With Q(s) the probability under (1 - s A) K_s, for K_s of variance s, that under (1 - A + A^2 / 2) K is
  # Q(1) - Q'(1) / 2, as A K_s is the derivative of K_s.
  at(1) - slope_at(at, 1, 0.02) / 2
}

# The derivative of f at x, by differences with an error of the sixth power of `step`.
slope_at <- function(f, x, step) {
  (45 * (f(x + step) - f(x - step)) - 9 * (f(x + 2 * step) - f(x - 2 * step)) + f(x + 3 * step) - f(x - 3 * step)) /
    (60 * step)
}

# ---- correlated kernels in three dimensions and more ------------------------------------------

# Independent shifts of the lattice. It has as many nodes as few points leave time for: the fewer points, the more
# does each kernel matter.
LATTICE_SHIFTS <- 8
lattice_size <- function(n) 2^round(log2(min(max(4e6 / n, 128), 4096)))

# A kernel of correlations R is one of variance delta, the least eigenvalue, with independent coordinates, moved by
# A e: R = delta I + A A', e of d - 1 independent Gaussians or fewer. Rectangles are exact given e, and a smooth
# function of it is left to average, by a lattice.
sampled_rectangles <- function(kernels, lower, upper, control) {
  eigen <- eigen(kernels$R, symmetric = TRUE)
  d <- length(eigen$values)
  A <- eigen$vectors[, -d, drop = FALSE] %*% diag(sqrt(pmax(eigen$values[-d] - eigen$values[d], 0)), d - 1)
  classes <- if (is.null(kernels$factors)) {
    list(factors = 1, rows = list(seq_along(kernels$weights)))
  } else {
    width_classes(kernels$factors)
  }
  nodes <- lattice_nodes(d - 1, lattice_size(length(kernels$weights)))
  by_shift <- lapply(seq_len(LATTICE_SHIFTS), function(shift) {
    moves <- A %*% t(nodes[[shift]])
    share_stage(control, (shift - 1) / LATTICE_SHIFTS, 1 / LATTICE_SHIFTS)
    of_variance <- \(s) Reduce(`+`, Map(sqrt(s) * classes$factors, classes$rows, f = \(factor, rows) {
      mean_over_moves(kernels, rows, factor * sqrt(eigen$values[d]), lower, upper, factor * moves, control)
    }))
    corrected_at_one(of_variance, kernels)
  })
  p <- do.call(cbind, by_shift)
  list(p = rowMeans(p), error = 3 * apply(p, 1, stats::sd) / sqrt(LATTICE_SHIFTS))
}

# P - P' for "laplace" and P - P' + P'' / 2 for "laplace6", where P(s) is the probability under kernels of variance s. The
# derivatives at 1 are differences with errors of the sixth power of the step.
corrected_at_one <- function(P, kernels) {
  if (!kernels$laplace) return(P(1))
  step <- 0.05
  first <- P(1) - slope_at(P, 1, step)
  if (!kernels$order6) return(first)
  both <- \(k) P(1 + k * step) + P(1 - k * step)
  first + (270 * both(1) - 27 * both(2) + 2 * both(3) - 490 * P(1)) / (180 * step^2) / 2
}

# Kernels `rows` of one sd, their mean over the columns of `moves`. So many rectangles at a time as take 8 MB a
# limit.
mean_over_moves <- function(kernels, rows, sd, lower, upper, moves, control) {
  part <- list(x = kernels$x[, rows, drop = FALSE] / sd, weights = kernels$weights[rows], laplace = FALSE)
  m <- ncol(upper)
  pieces <- split(seq_len(ncol(moves)), ceiling(seq_len(ncol(moves)) * m / 1e6 * nrow(upper)))
  moved <- \(limits, piece) {
    (limits[, rep(seq_len(m), length(piece)), drop = FALSE] - moves[, rep(piece, each = m), drop = FALSE]) / sd
  }
  sums <- lapply(pieces, \(piece) {
    found <- exact_rectangles(part, moved(lower, piece), moved(upper, piece), 0, control)
    rowSums(matrix(found, m))
  })
  Reduce(`+`, sums) / ncol(moves)
}

# Gaussian nodes, a matrix for each shift: multiples of the roots of primes, folded (Genz and Bretz 2009, section
# 4.2.2), which makes of any function a periodic one.
lattice_nodes <- function(d, size) {
  step <- sqrt(first_primes(d))
  shifts <- with_fixed_seed(matrix(stats::runif(d * LATTICE_SHIFTS), d))
  lapply(seq_len(LATTICE_SHIFTS), function(shift) {
    place <- outer(seq_len(size), step) + rep(shifts[, shift], each = size)
    stats::qnorm(abs(2 * (place - floor(place)) - 1))
  })
}

first_primes <- function(count) {
  primes <- 2
  while (length(primes) < count) {
    candidate <- primes[length(primes)] + 1
    while (any(candidate %% primes == 0)) candidate <- candidate + 1
    primes <- c(primes, candidate)
  }
  primes
}

# ---- arguments --------------------------------------------------------------------------------

# kde_cdf() of rectangles, in any number of dimensions. `q` and `lower` as the user gave them.
cdf_of_rectangles <- function(object, q, lower) {
  upper <- limit_rows(object, q, "q")
  lower <- if (is.null(lower)) matrix(-Inf, 1, object$d) else limit_rows(object, lower, "lower")
  if (nrow(lower) == 1) lower <- lower[rep(1, nrow(upper)), , drop = FALSE]
  if (nrow(lower) != nrow(upper)) {
    stop_argument("lower", "must have one row, or one for each of `q`, ", nrow(upper), ": found ", nrow(lower))
  }
  check_memory(8 * (8 * length(upper) + 4 * length(object$x)), "q")
  control <- start_run(fit_asked(object), "Integrating")
  rectangle_probability(object, lower, upper, control)
}

limit_rows <- function(object, limits, arg) {
  if (is.null(limits)) stop_argument(arg, "must be given")
  limits <- own_columns(limits, arg, object$names)
  check_points(limits, arg, d = object$d, names = object$names, infinite = TRUE)
}
