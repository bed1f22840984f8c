# The influence functions behind bands: the estimate as a mean of functions of single points. A point x_j of weight w_j
# adds w_j psi_j(y) to W p(y), to first order. psi is a sum of a few Gaussian kernels:
# - kde: the kernel;
# - laplace: the kernel minus half of tr(H d^2 K), the derivative in t of the kernel of variance t H, at t = 1;
# - sdkde: a point also moves others, through their scores. With many points within a bandwidth, this effect is the
#   same derivative of the kernel of variance H + H_s, the convolution of both (the infinitesimal jackknife agrees to
#   a few percent, see bench/NOTES.md). So psi_j(y) = K_H(y - xd_j) - tr(H d^2 K_{H + H_s}(y - x_j)) / 2. A standard
#   error that takes debiased points as given is a quarter too small. For adaptive estimates all these variances are
#   multiplied by f_j^2. A derivative is computed as a difference of two kernels, so that all engines can compute the
#   sums.
#
# Sums are relative to the height of the kernel with the factor L of the fit.

# Half the step of a derivative, as a share of H. The error is of the order of its square; rounding is below 1e-9.
DERIVATIVE_STEP <- 1e-3

# Largest skewness: beyond it the interval of wilson_interval() would be empty where there are no points.
MOST_SKEWNESS <- 3 / 2

# list(parts, factors, L, weights, roughness, skewness). Each part is a list of `points`, relative to fit_centre(),
# `C`, the variance of its kernel exp(-u' C^-1 u / 2), and `size`, its coefficient. Weights are relative to the
# largest. `roughness`: the integral of psi^2, relative to the height of the kernel. `skewness`: the third cumulant of
# an estimate divided by its variance and density_unit(), for small bandwidths.
influence_of <- function(object) {
  H <- object$bandwidth
  e <- DERIVATIVE_STEP
  points <- unname(fit_points(object))
  part <- \(points, C, share) list(points = points, C = C, size = share * height_ratio(H, C))
  parts <- if (is_signed(object)) {
    list(part(points, (1 - e) * H, (1 + 1 / e) / 2), part(points, (1 + e) * H, (1 - 1 / e) / 2))
  } else if (is_debiased(object)) {
    both <- H + object$score_bandwidth
    own <- unname(from_centre(object, object$x))
    list(part(points, H, 1), part(own, both - e * H, 1 / (2 * e)), part(own, both + e * H, -1 / (2 * e)))
  } else {
    list(part(points, H, 1))
  }
  roughness <- influence_power(parts, H, 2)
  list(
    parts = parts, factors = object$adaptive$factors, L = fit_factor(object),
    weights = if (is.null(object$weights)) rep(1, object$n) else relative_to_largest(object$weights),
    roughness = roughness, skewness = influence_power(parts, H, 3) / roughness^2
  )
}

# Ratio of the height of a Gaussian density of variance C to that of variance H.
height_ratio <- function(H, C) exp((log_det_of(H) - log_det_of(C)) / 2)

log_det_of <- function(C) 2 * sum(log(diagonal(lower_factor(C, "bandwidth"))))

# Control of the sums: differences of kernels lose digits, so the sums need double precision and a smaller tolerance.
influence_control <- function(of, control) {
  if (length(of$parts) == 1) return(control)
  replace(control, c("precision", "tol"), list("double", control$tol * DERIVATIVE_STEP))
}

# ---- sums -------------------------------------------------------------------------------------

# sum_j b_j psi_j(y) for each column of b, at the rows of `at`.
influence_sums <- function(of, at, b, control) {
  Reduce(`+`, lapply(of$parts, \(part) {
    part$size * gaussian_sums(part$points, lower_factor(part$C, "bandwidth"), of$factors, 1, at, b, control)
  }))
}

# sum_j b_j psi_j(y)^2: the product of two Gaussian kernels is a Gaussian kernel about a mean of the two centres.
influence_squares <- function(of, at, b, control) {
  parts <- of$parts
  total <- 0
  for (p in seq_along(parts)) for (q in seq_len(p)) {
    both <- product_of(parts[[p]], parts[[q]], of$factors)
    sums <- gaussian_sums(both$points, both$L, of$factors, 2, at, matrix(b * both$share), control)
    total <- total + (if (p == q) 1 else 2) * parts[[p]]$size * parts[[q]]$size * sums
  }
  pmax(drop(total), 0)
}

# k_a(y - a_j) k_b(y - b_j) = share_j k(y - points_j), with k of variance L L'.
product_of <- function(a, b, factors) {
  precision <- list(chol2inv(chol(a$C)), chol2inv(chol(b$C)))
  C <- chol2inv(chol(precision[[1]] + precision[[2]]))
  L <- lower_factor((C + t(C)) / 2, "bandwidth")
  if (identical(a$points, b$points)) return(list(points = a$points, L = L, share = 1))
  apart <- whiten(a$points - b$points, lower_factor(a$C + b$C, "bandwidth"))
  if (!is.null(factors)) apart <- apart / factors
  list(
    points = (a$points %*% precision[[1]] + b$points %*% precision[[2]]) %*% C, L = L,
    share = exp(-rowSums(apart^2) / 2)
  )
}

# sum_j b_j f_j^(-height d) exp(-|(L f_j)^-1 (y - x_j)|^2 / 2) for each column of b, one factor at a time.
gaussian_sums <- function(points, L, factors, height, at, b, control) {
  if (is.null(factors)) return(kernel_sum_of(sum_sources(points, NULL, L), at, b, control, as_matrix = TRUE)$sums)
  classes <- width_classes(factors)
  total <- 0
  for (i in seq_along(classes$factors)) {
    f <- classes$factors[i]
    rows <- classes$rows[[i]]
    own <- sum_sources(points[rows, , drop = FALSE], NULL, f * L)
    sums <- kernel_sum_of(own, at, b[rows, , drop = FALSE], control, as_matrix = TRUE)$sums
    total <- total + f^(-height * ncol(points)) * sums
  }
  total
}

# ---- errors -----------------------------------------------------------------------------------

# list(mean, se, unit, share) at the rows of `at`, relative to the height of the kernel: the estimate as the mean of
# psi, its standard error from the variance of psi, and `unit`, the variance divided by the density, which is the
# density that one effective point gives. `share`: 1 / the effective number of all points.
influence_errors <- function(of, at, control) {
  w <- of$weights
  total <- sum(w)
  sums <- influence_sums(of, at, cbind(w, w^2), control)
  mean <- sums[, 1] / total
  square <- influence_squares(of, at, w^2, control) - 2 * mean * sums[, 2] + mean^2 * sum(w^2)
  list(
    mean = unname(mean), se = unname(sqrt(pmax(square, 0))) / total, unit = density_unit(of, at, control),
    share = 1 / effective_size(w, length(w))
  )
}

# The variance of the estimate divided by the density, for small bandwidths: the integral of psi^2 over the effective
# number of points. Weights and factors are those of the points near y.
density_unit <- function(of, at, control) {
  w <- of$weights
  if (is.null(of$factors) && all(w == w[1])) return(rep(of$roughness / length(w), nrow(at)))
  points <- of$parts[[1]]$points
  log_sum_of <- function(weights, height) {
    sources <- sum_sources(points, weights, of$L, factors = of$factors, height = height)
    log_sum(sources, at, PLAIN_FACTOR, FALSE, control)$log_abs
  }
  of$roughness * exp(log_sum_of(w^2, 2) - log_sum_of(w, 1)) / sum(w)
}

# The integral of psi^power, relative to its height: a sum over products of `power` Gaussian kernels.
influence_power <- function(parts, H, power) {
  precisions <- lapply(parts, \(part) chol2inv(chol(part$C)))
  which <- as.matrix(expand.grid(rep(list(seq_along(parts)), power)))
  sum(apply(which, 1, \(some) {
    C <- chol2inv(chol(Reduce(`+`, precisions[some])))
    prod(vapply(parts[some], \(part) part$size, 0)) / height_ratio(H, C)
  }))
}
