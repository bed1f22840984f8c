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
# - an SD-KDE of several steps: to first order each step adds what the last one added, smoothed by H_s, so that psi_j has the
#   terms (-1)^k of the k-th derivative of the kernel of variance H + k H_s. The infinitesimal jackknife agrees to a fifth. Along a
#   given score, points move by themselves, and there is one term fewer.
# - laplace6: the kernel minus its first and plus half its second derivative in t.
#
# Kernels with bounded support, boundary kernels and local likelihood have no closed form of the squares. Their
# psi are the entries of matrices of targets by points ("rows"), in blocks.
#
# On a support psi is the sum over the copies of the point, or divided by the mass of the kernel inside. With categories it
# is multiplied by the kernel of the categories. Sums are relative to the height of the kernel with the factor L of the fit.

# Half the step of a derivative, as a share of H. The error is of the order of its square; rounding is below 1e-9.
DERIVATIVE_STEP <- 1e-3

# The same for second derivatives, whose rounding error is divided by its square, and for third and fourth ones.
CURVATURE_STEP <- 3e-3
DERIVATIVE_STEPS <- c(DERIVATIVE_STEP, CURVATURE_STEP, 8e-3, 1.5e-2)

# Largest skewness: beyond it the interval of wilson_interval() would be empty where there are no points.
MOST_SKEWNESS <- 3 / 2

# list(parts, factors, L, weights, roughness, skewness, discrete, domain, edge, rows). Each part is a list of `points`, relative to
# fit_centre(), `C`, the variance of its kernel exp(-u' C^-1 u / 2), and `size`, its coefficient; with copies also `row`, the
# point of each kernel, and with masses `scale`, 1 / mass. Weights are relative to the largest. `roughness`: the integral of
# psi^2, relative to the height of the kernel. `skewness`: the third cumulant of an estimate divided by its variance and
# density_unit(), for small bandwidths. `rows`: NULL, or a function of points that returns psi, m x n; parts then are
# Gaussian kernels of the same variances. `edge`: NULL, or edge_kernel(), for places near bounds. `made`: of corrected_fits().
influence_of <- function(made, control) {
  fits <- lapply(made$fits, \(fit) if (is_kind(fit, "mapped")) fit$inner else with_effects(fit, control))
  object <- fits[[1]]
  sizes <- made$shares * vapply(fits, \(fit) height_ratio(object$bandwidth, fit$bandwidth), 0)
  parts <- unlist(Map(\(fit, size) {
    lapply(influence_parts(if (is_kind(fit, "imaged")) plain_kernels(fit) else fit), \(part) {
      replace(part, "size", list(size * part$size))
    })
  }, fits, sizes), FALSE)
  roughness <- influence_power(parts, object$bandwidth, 2)
  skewness <- influence_power(parts, object$bandwidth, 3) / roughness^2
  factors <- object$adaptive$factors
  domain <- if (is_kind(object, "imaged")) object$support
  edge <- if (isTRUE(made$edges)) edge_kernel(object, domain, control)
  if (!is.null(domain)) {
    parts <- parts_on_domain(parts, if (is.null(edge)) domain else without_bounds(domain), factors, control)
  }
  list(
    parts = parts, factors = factors, L = fit_factor(object),
    weights = if (is.null(object$weights)) rep(1, object$n) else relative_to_largest(object$weights),
    roughness = roughness, skewness = skewness, discrete = object$discrete, domain = domain, edge = edge,
    rows = if (needs_rows(object)) \(at) {
      Reduce(`+`, Map(\(fit, size) size * contributions(fit, at, control), fits, sizes))
    }
  )
}

needs_rows <- function(object) !has_gaussian(object) || is_kind(object, "bent")

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
  own <- unname(from_centre(object, object$x))
  terms <- lapply(seq_len(influence_order(object)), \(k) {
    step <- 2 * DERIVATIVE_STEPS[k]
    lapply(0:k, \(i) {
      part(own, (1 + (k / 2 - i) * step) * H + k * object$score_bandwidth, (-1)^(k + i) * choose(k, i) / step^k)
    })
  })
  c(list(part(points, H, 1)), unlist(terms, FALSE))
}

# The number of terms for the effect of a point on the steps of others. Further terms are below a percent. The effect is taken
# as none where the score is that of other variables at given values.
influence_order <- function(object) {
  if (is.null(object$score_bandwidth)) return(0)
  min(n_steps(object) - isTRUE(object$given_score), length(DERIVATIVE_STEPS))
}

# psi of all points at the rows of `at`, m x n, relative to the height of the kernel, each point counted with weight 1.
contributions <- function(object, at, control) {
  if (is_kind(object, "bent")) return(bent_contributions(object, at, control))
  d <- object$d
  object["weights"] <- list(NULL)
  f <- if (is.null(object$adaptive)) rep(1, object$n) else object$adaptive$factors
  parts <- influence_parts(object)
  psi <- matrix(as.double(d == 0), nrow(at), object$n)
  if (!has_gaussian(object)) {
    psi <- exp(t(given_log_weights(object, from_origin(object, at))) + d * fit_kernel(object)$log_unit)
    parts <- parts[-1]
  }
  if (d > 0) for (part in parts) {
    z <- whitened_differences(part$points, at[, seq_len(d), drop = FALSE], lower_factor(part$C, "bandwidth"), f)
    half <- Reduce(`+`, lapply(z, `^`, 2)) / 2
    psi <- psi + part$size * exp(-half) * rep(f^-d, each = nrow(at))
  }
  tables <- level_tables(object$discrete)
  for (k in seq_along(tables)) psi <- psi * tables[[k]][at[, d + k], object$discrete$codes[, k]]
  psi
}

# The same for a boundary kernel or local likelihood, at working points: p times the effect of a point on log p, less its effect
# on the integral, by which p is divided.
bent_contributions <- function(object, at, control) {
  inner <- object$inner
  height <- exp(working_estimate(object, at, control, PLAIN_FACTOR)$log_abs - log_kernel_norm(fit_factor(inner)))
  share <- kernel_weights(inner) / total_weight(inner)
  psi <- matrix(0, nrow(at), object$n)
  each_effect(object$support, inner, at[, 1], FALSE, control, \(rows, effect) {
    psi[rows, ] <<- height[rows] * effect / rep(share, each = length(rows))
  })
  psi[, share == 0] <- 0
  if (is.null(object$effects)) psi else psi - outer(height, object$effects - 1)
}

# A fit with `effects`, the integrals of bent_contributions(): by Gauss's rule where the estimate is bent, and of kernels elsewhere.
with_effects <- function(object, control) {
  if (!is_kind(object, "bent")) return(object)
  sources <- fit_sources(object$inner)
  pieces <- bent_pieces(object$support, sources)
  from <- pieces$edges[-length(pieces$edges)]
  width <- diff(pieces$edges)
  rule <- gauss_rule(3)
  at <- as.vector((from + outer(width, rule$node))[pieces$bent, ])
  weights <- as.vector(outer(width, rule$weight)[pieces$bent, ]) * exp(log_kernel_norm(sources$L))
  effects <- Reduce(`+`, lapply(blocks_of(length(at), max(5, floor(PAIRS_IN_BLOCK / object$n))), \(rows) {
    drop(weights[rows] %*% bent_contributions(object, matrix(at[rows]), control))
  }))
  below <- \(edge) stats::pnorm((edge - sources$points[, 1]) / sources$L[1]) / exp(object$support$log_total)
  for (i in which(!pieces$bent)) effects <- effects + below(pieces$edges[i + 1]) - below(from[i])
  replace(object, "effects", list(effects))
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
height_ratio <- function(H, C) if (nrow(H) == 0) 1 else exp((log_det_of(H) - log_det_of(C)) / 2)

log_det_of <- function(C) 2 * sum(log(diagonal(lower_factor(C, "bandwidth"))))

# Control of the sums: differences of kernels lose digits, so the sums need double precision and a smaller tolerance.
influence_control <- function(of, control) {
  if (length(of$parts) == 1 || !is.null(of$rows)) return(control)
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
  if (!is.null(of$edge)) return(by_edges(of, at, \(of, at) influence_sums(of, at, b, control)))
  if (!is.null(of$rows)) return(sums_of_rows(of, at, \(psi) psi %*% b))
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
  if (!is.null(of$edge)) return(drop(by_edges(of, at, \(of, at) influence_squares(of, at, b, control))))
  if (!is.null(of$rows)) return(drop(sums_of_rows(of, at, \(psi) psi^2 %*% b)))
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

# Binds the rows of task(psi) for blocks of the rows of `at`.
sums_of_rows <- function(of, at, task) {
  blocks <- blocks_of(nrow(at), max(1, floor(PAIRS_IN_BLOCK / length(of$weights))))
  do.call(rbind, lapply(blocks, \(rows) task(of$rows(at[rows, , drop = FALSE]))))
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

# list(mean, se, unit, falls, share) at the rows of `at`, relative to the height of the kernel: the estimate as the mean of
# psi, its standard error from the variance of psi, and `unit`, the variance divided by the density, which is the
# density that one effective point gives. `falls`: the same for smaller densities; 0 at bounds, where the density at y may be 0
# and the variance is not, and `unit` where no kernel reaches one. `share`: 1 / the effective number of all points.
influence_errors <- function(of, at, control) {
  w <- of$weights
  total <- sum(w)
  both <- if (is.null(of$rows)) {
    cbind(influence_sums(of, at, cbind(w, w^2), control), influence_squares(of, at, w^2, control))
  } else {
    sums_of_rows(of, at, \(psi) cbind(psi %*% cbind(w, w^2), psi^2 %*% w^2))
  }
  sums <- both[, 1:2, drop = FALSE]
  mean <- sums[, 1] / total
  squares <- both[, 3]
  square <- squares - 2 * mean * sums[, 2] + mean^2 * sum(w^2)
  unit <- density_unit(of, at, control)
  # one-sided and wide kernels, whose integrals depend on y, by the points there
  if (!is.null(of$rows)) unit <- pmin(pmax(unit, ifelse(mean > 0, squares / total / sums[, 1], 0)), 4 * unit)
  list(
    mean = unname(mean), se = unname(sqrt(pmax(square, 0))) / total, unit = unit,
    falls = unit * (if (is.null(of$edge)) 1 else of$edge$apart(at)),
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
  if (!is.null(of$edge)) {
    near <- which(of$edge$near(at))
    return(replace(rep(1, nrow(at)), near, of$edge$roughness(at[near, , drop = FALSE]) / of$roughness))
  }
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
