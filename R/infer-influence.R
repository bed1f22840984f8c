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
# - laplace6: the kernel minus its first and plus half its second derivative in t.
#
# On a support psi is the sum over the copies of the point, or divided by the mass of the kernel inside. With categories it
# is multiplied by the kernel of the categories. Sums are relative to the height of the kernel with the factor L of the fit.

# Half the step of a derivative, as a share of H. The error is of the order of its square; rounding is below 1e-9.
DERIVATIVE_STEP <- 1e-3

# The same for second derivatives, whose rounding error is divided by its square.
CURVATURE_STEP <- 3e-3

# Largest skewness: beyond it the interval of wilson_interval() would be empty where there are no points.
MOST_SKEWNESS <- 3 / 2

# list(parts, factors, L, weights, roughness, skewness, discrete, domain). Each part is a list of `points`, relative to
# fit_centre(), `C`, the variance of its kernel exp(-u' C^-1 u / 2), and `size`, its coefficient; with copies also `row`, the
# point of each kernel, and with masses `scale`, 1 / mass. Weights are relative to the largest. `roughness`: the integral of
# psi^2, relative to the height of the kernel. `skewness`: the third cumulant of an estimate divided by its variance and
# density_unit(), for small bandwidths.
influence_of <- function(object, control) {
  kernels <- if (is_kind(object, "imaged")) plain_kernels(object) else object
  parts <- influence_parts(kernels)
  roughness <- influence_power(parts, object$bandwidth, 2)
  skewness <- influence_power(parts, object$bandwidth, 3) / roughness^2
  factors <- object$adaptive$factors
  domain <- if (is_kind(object, "imaged")) object$support
  if (!is.null(domain)) parts <- parts_on_domain(parts, domain, factors, control)
  list(
    parts = parts, factors = factors, L = fit_factor(object),
    weights = if (is.null(object$weights)) rep(1, object$n) else relative_to_largest(object$weights),
    roughness = roughness, skewness = skewness, discrete = object$discrete, domain = domain
  )
}

influence_parts <- function(object) {
  H <- object$bandwidth
  e <- if (object$estimator == "laplace6") CURVATURE_STEP else DERIVATIVE_STEP
  points <- unname(fit_points(object))
  part <- \(points, C, share) list(points = points, C = C, size = share * height_ratio(H, C))
  if (object$d == 0) return(list(list(points = points, C = H, size = 1)))
  if (object$estimator == "laplace6") {
    at <- \(step, share) part(points, (1 + step * e) * H, share)
    return(list(at(-1, 1 / (2 * e) + 1 / (2 * e^2)), at(0, 1 - 1 / e^2), at(1, -1 / (2 * e) + 1 / (2 * e^2))))
  }
  if (is_signed(object)) {
    return(list(part(points, (1 - e) * H, (1 + 1 / e) / 2), part(points, (1 + e) * H, (1 - 1 / e) / 2)))
  }
  if (!is_debiased(object)) return(list(part(points, H, 1)))
  both <- H + object$score_bandwidth
  own <- unname(from_centre(object, object$x))
  list(part(points, H, 1), part(own, both - e * H, 1 / (2 * e)), part(own, both + e * H, -1 / (2 * e)))
}

# The parts with the copies and masses of a domain, relative to the origin.
parts_on_domain <- function(parts, domain, factors, control) {
  lapply(parts, \(part) {
    L <- lower_factor(part$C, "bandwidth")
    found <- domain_sources(domain, part$points, NULL, L, factors, control)
    row <- if (is.null(found$row)) seq_len(nrow(found$points)) else found$row
    scale <- if (is.null(found$weights)) rep(1, length(row)) else found$weights
    c(list(points = found$points), part[c("C", "size")], list(row = row, scale = scale))
  })
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

# Calls `task(of, at)` for the rows of `at` with the same categories, and binds the rows of the results. `of$share` is then
# the kernel of these categories at each point.
by_categories <- function(of, at, columns, task) {
  if (is.null(of$discrete)) return(task(of, at))
  d <- ncol(at) - ncol(of$discrete$codes)
  cells <- cells_of(at[, d + seq_len(ncol(of$discrete$codes)), drop = FALSE])
  tables <- level_tables(of$discrete)
  found <- matrix(0, nrow(at), columns)
  for (i in seq_along(cells$rows)) {
    share <- cell_weights(tables, cells$codes[i, ], of$discrete$codes)
    rows <- cells$rows[[i]]
    of_cell <- replace(of, c("discrete", "share"), list(NULL, share))
    found[rows, ] <- task(of_cell, at[rows, seq_len(d), drop = FALSE])
  }
  found
}

# sum_j b_j psi_j(y) for each column of b, at the rows of `at`.
influence_sums <- function(of, at, b, control) {
  by_categories(of, at, ncol(b), \(of, at) {
    if (!is.null(of$share)) b <- of$share * b
    Reduce(`+`, lapply(of$parts, \(part) {
      if (!is.null(part$row)) b <- part$scale * b[part$row, , drop = FALSE]
      factors <- if (is.null(part$row)) of$factors else of$factors[part$row]
      part$size * gaussian_sums(part$points, part$C, factors, 1, at, b, control)
    }))
  })
}

# sum_j b_j psi_j(y)^2: the product of two Gaussian kernels is a Gaussian kernel about a mean of the two centres.
influence_squares <- function(of, at, b, control) {
  total <- by_categories(of, at, 1, \(of, at) {
    if (!is.null(of$share)) b <- of$share^2 * b
    parts <- of$parts
    total <- 0
    for (p in seq_along(parts)) for (q in seq_len(p)) {
      both <- product_of(parts[[p]], parts[[q]], of$factors)
      weighed <- matrix((if (is.null(both$row)) b else b[both$row]) * both$share)
      sums <- gaussian_sums(both$points, both$C, both$factors, 2, at, weighed, control)
      total <- total + (if (p == q) 1 else 2) * parts[[p]]$size * parts[[q]]$size * sums
    }
    total
  })
  pmax(drop(total), 0)
}

# k_a(y - a_j) k_b(y - b_j) = share_j k(y - points_j), with k of variance C; with copies for all pairs of two kernels of one
# point.
product_of <- function(a, b, factors) {
  if (ncol(a$points) == 0) return(list(points = a$points, C = a$C, share = 1, factors = NULL))
  precision <- list(chol2inv(chol(a$C)), chol2inv(chol(b$C)))
  C <- chol2inv(chol(precision[[1]] + precision[[2]]))
  made <- list(C = (C + t(C)) / 2, factors = factors, share = 1)
  if (!is.null(a$row)) {
    pairs <- pairs_of_rows(a$row, b$row)
    made$row <- a$row[pairs$a]
    made["factors"] <- list(factors[made$row])
    made$share <- a$scale[pairs$a] * b$scale[pairs$b]
    a$points <- a$points[pairs$a, , drop = FALSE]
    b$points <- b$points[pairs$b, , drop = FALSE]
  }
  if (identical(a$points, b$points)) return(c(made, list(points = a$points)))
  apart <- whiten(a$points - b$points, lower_factor(a$C + b$C, "bandwidth"))
  if (!is.null(made$factors)) apart <- apart / made$factors
  made$share <- made$share * exp(-rowSums(apart^2) / 2)
  c(made, list(points = (a$points %*% precision[[1]] + b$points %*% precision[[2]]) %*% C))
}

# All pairs of an element of `a` and one of `b` that are equal, as list(a, b) of their positions.
pairs_of_rows <- function(a, b) {
  equal <- split(seq_along(b), factor(b, seq_len(max(a, b))))[a]
  list(a = rep(seq_along(a), lengths(equal)), b = unlist(equal, use.names = FALSE))
}

# sum_j b_j f_j^(-height d) exp(-(y - x_j)' C^-1 (y - x_j) / (2 f_j^2)) for each column of b, one factor at a time.
gaussian_sums <- function(points, C, factors, height, at, b, control) {
  if (ncol(points) == 0) return(matrix(colSums(b), nrow(at), ncol(b), byrow = TRUE))
  L <- lower_factor(C, "bandwidth")
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
  if (is.null(of$factors) && is.null(of$discrete) && all(w == w[1])) {
    return(of$roughness * edge_factor(of, at, control) / rep(length(w), nrow(at)))
  }
  drop(by_categories(of, at, 1, \(of, at) {
    share <- if (is.null(of$share)) 1 else of$share
    first <- of$parts[[1]]
    row <- if (is.null(first$row)) seq_along(w) else first$row
    log_sum_of <- function(weights, height) {
      sources <- sum_sources(first$points, weights[row], of$L, factors = of$factors[row], height = height)
      log_sum(sources, at, PLAIN_FACTOR, FALSE, control)$log_abs
    }
    ratio <- exp(log_sum_of((share * w)^2, 2) - log_sum_of(share * w, 1))
    ratio[is.nan(ratio)] <- max(share * w) # no point has weight in these categories
    of$roughness * edge_factor(of, at, control) * ratio / sum(w)
  }))
}

# The integral of psi^2 over the points of a domain, relative to that far from its bounds, for the plain kernel: copies
# double it at a bound, and by masses it is at most 1 / mass.
edge_factor <- function(of, at, control) {
  if (is.null(of$domain)) return(rep(1, nrow(at)))
  images <- with_images(of$domain, at, factor_sds(of$L), NULL)
  apart <- whiten(images$points - at[images$row, , drop = FALSE], of$L)
  found <- rowsum(exp(-rowSums(apart^2) / 4), images$row)[, 1]
  if (has_masses(of$domain)) found <- found / kernel_masses(of$domain, at, of$L, NULL, control)
  unname(found)
}

# The integral of psi^power, relative to its height: a sum over products of `power` Gaussian kernels.
influence_power <- function(parts, H, power) {
  if (nrow(H) == 0) return(1)
  precisions <- lapply(parts, \(part) chol2inv(chol(part$C)))
  which <- as.matrix(expand.grid(rep(list(seq_along(parts)), power)))
  sum(apply(which, 1, \(some) {
    C <- chol2inv(chol(Reduce(`+`, precisions[some])))
    prod(vapply(parts[some], \(part) part$size, 0)) / height_ratio(H, C)
  }))
}
