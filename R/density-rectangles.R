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
  path <- if (nrow(kernels$R) < 5) correlation_path(kernels$R)
  if (!is.null(path)) return(list(p = path_rectangles(kernels, lower, upper, path, control)))
  averaged_rectangles(kernels, lower, upper, control)
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

# ---- correlated kernels in five dimensions and more -------------------------------------------

# With R = diag(D) + A A' a kernel has independent coordinates of variances D, moved by A e, e a standard Gaussian. Given e
# rectangles are exact, which leaves the average of a smooth function of e.
averaged_rectangles <- function(kernels, lower, upper, control) {
  split <- independent_part(kernels$R)
  A <- sqrt(split$D) * split$vectors %*% diag(sqrt(split$excess), length(split$excess))
  classes <- width_classes(if (is.null(kernels$factors)) 1 + 0 * kernels$weights else kernels$factors)
  rules <- gaussian_rules(split$excess, length(kernels$weights), 1e-6)
  p <- matrix(vapply(seq_along(rules), function(i) {
    share_stage(control, (i - 1) / length(rules), 1 / length(rules))
    of_variance <- \(s) Reduce(`+`, Map(sqrt(s) * classes$factors, classes$rows, f = \(factor, rows) {
      rule <- list(moves = factor * A %*% t(rules[[i]]$nodes), weights = rules[[i]]$weights)
      mean_over_moves(kernels, rows, factor * sqrt(split$D), lower, upper, rule, control)
    }))
    corrected_at_one(of_variance, kernels)
  }, numeric(ncol(upper))), ncol(upper))
  list(p = rowMeans(p), error = if (ncol(p) > 1) 3 * apply(p, 1, stats::sd) / sqrt(ncol(p)))
}

# list(D, excess, vectors): A = sqrt(D) * vectors %*% diag(sqrt(excess)). The D of largest product leaves least to average: 1 /
# rowSums(W^2), W W' the multiplier of R - diag(D) >= 0. Each row of W in turn has its best value in closed form.
independent_part <- function(R) {
  W <- diag(nrow(R))
  D <- rep(1, nrow(R))
  for (sweep in 1:1000) {
    before <- D
    for (k in seq_along(D)) {
      pull <- -colSums(R[k, -k] * W[-k, , drop = FALSE])
      size <- sqrt(sum(pull^2))
      if (size > 0) W[k, ] <- pull / size * (size + sqrt(size^2 + 4)) / 2
      D[k] <- 1 / sum(W[k, ]^2)
    }
    if (all(abs(D - before) < 1e-10 * D)) break
  }
  eigen <- eigen(R / sqrt(outer(D, D)), symmetric = TRUE)
  excess <- eigen$values / min(eigen$values) - 1
  used <- excess > 1e-8 | seq_along(D) == 1
  list(D = min(eigen$values) * D, excess = excess[used], vectors = eigen$vectors[, used, drop = FALSE])
}

# Rules list(nodes, weights) for averages over standard Gaussians: one with errors below `tolerance`, if it needs no more nodes
# than lattices with independent shifts, whose averages differ by their errors. These have more nodes for fewer points.
LATTICE_SHIFTS <- 8
gaussian_rules <- function(excess, n, tolerance) {
  size <- 2^round(log2(min(max(4e6 / n, 128), 4096)))
  rule <- smooth_rule(excess, tolerance, size * LATTICE_SHIFTS)
  if (is.null(rule)) lattice_rules(length(excess), size) else list(rule)
}

# The density of e times a product of distribution functions has a Fourier transform that decays as a Gaussian of variances
# 1 + excess. Its sum over a lattice errs by the transform at the dual lattice. The integers and the integers plus 1/2 have
# a dual with half of the points, of which the nearest are sqrt(2) away. NULL: it has more than `most` nodes.
smooth_rule <- function(excess, tolerance, most) {
  reach <- sqrt(-2 * log(tolerance))
  steps <- sqrt(2) * 2 * pi / (reach * sqrt(1 + excess))
  d <- length(excess)
  if (2 * pi^(d / 2) / gamma(d / 2 + 1) * prod(reach / steps) > most) return(NULL)
  from <- \(start) as.matrix(expand.grid(lapply(steps, \(h) h * (start + seq(-ceiling(reach / h), reach / h)))))
  nodes <- rbind(from(0), from(0.5))
  nodes <- nodes[rowSums(nodes^2) < reach^2, , drop = FALSE]
  list(nodes = nodes, weights = exp(-rowSums(nodes^2) / 2))
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

# Kernels `rows` of sds `sd`, their mean over the moves of a rule. So many rectangles at a time as take 8 MB a limit.
mean_over_moves <- function(kernels, rows, sd, lower, upper, rule, control) {
  part <- list(x = kernels$x[, rows, drop = FALSE] / sd, weights = kernels$weights[rows], laplace = FALSE)
  m <- ncol(upper)
  all <- seq_len(ncol(rule$moves))
  weights <- rep_len(rule$weights, length(all))
  moved <- \(limits, piece) {
    (limits[, rep(seq_len(m), length(piece)), drop = FALSE] - rule$moves[, rep(piece, each = m), drop = FALSE]) / sd
  }
  Reduce(`+`, lapply(split(all, ceiling(all * m / 1e6 * nrow(upper))), \(piece) {
    found <- exact_rectangles(part, moved(lower, piece), moved(upper, piece), 0, control)
    drop(matrix(found, m) %*% weights[piece])
  })) / sum(weights)
}

# A rule for each shift: multiples of the roots of primes, folded (Genz and Bretz 2009, section 4.2.2), which makes of any
# function a periodic one.
lattice_rules <- function(d, size) {
  primes <- Filter(\(k) sum(k %% seq_len(k) == 0) == 2, seq_len(4 + 2 * d * log(d + 2)))
  shifts <- with_fixed_seed(matrix(stats::runif(d * LATTICE_SHIFTS), d))
  lapply(seq_len(LATTICE_SHIFTS), function(shift) {
    place <- outer(seq_len(size), sqrt(primes[seq_len(d)])) + rep(shifts[, shift], each = size)
    list(nodes = stats::qnorm(abs(2 * (place - floor(place)) - 1)), weights = 1)
  })
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
  limits <- dates_as_numbers(own_columns(limits, arg, object$names), object$dates, arg)
  check_points(limits, arg, d = object$d, names = object$names, infinite = TRUE, none = TRUE)
}
