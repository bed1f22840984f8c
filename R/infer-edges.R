# Bands near the bounds of a fit by reflection or by masses, whose bias there is of order h or does not vanish. At places within
# some bandwidths of a bound the contributions of points are those of a local quadratic kernel, psi = K(u) phi(u)' M^-1 e_1 with
# u = L^-1 (x - y), phi the monomials of u up to degree 2, and M the integral of K phi phi' over the domain. Its integral over
# the domain is 1, its moments of degrees 1 and 2 vanish, and far from bounds it is the Laplace-corrected kernel.

# Places where less than this share of a kernel is outside are far from bounds.
FAR_SHARE <- 1e-8

# An upper limit near bounds, relative to the height of the kernel. A local quadratic `estimate` at a bound rests on the points within
# a third of a bandwidth, of which there may be none, while none within one or two says that the density is low. The limit is a
# multiple of that of the mean by the part of the kernel inside: MOST_OVER_MEAN, their ratio for an exponential density whose scale is
# 1.7 bandwidths. What the estimate exceeds the mean by is added twice, for steeper densities (bench/NOTES.md).
MOST_OVER_MEAN <- 1.5

edge_limit <- function(of, at, estimate, critical, control) {
  near <- if (!is.null(of$edge)) of$edge$near(at)
  if (!any(near)) return(Inf)
  of$edge <- of$edge$mean()
  errors <- influence_errors(of, at[near, , drop = FALSE], control)
  skewness <- (2 / sqrt(3))^ncol(at)
  upper <- wilson_interval(errors$mean, errors$se, errors$unit, critical, skewness, errors$share)$upper
  replace(rep(Inf, nrow(at)), near, MOST_OVER_MEAN^ncol(at) * (upper + 2 * pmax(estimate[near] - errors$mean, 0)))
}

# list(near, apart, rows, roughness, mean): functions of working points that return which are near a bound; how far they are from it, from
# 0 to 1, about in proportion to the squared distance; and of such points psi, m x n, and the integral of psi^2, both relative to
# the height of the kernel K. `degree`: of phi; with 0, psi is K over its integral. `mean()`: the edge_kernel() of degree 0.
edge_kernel <- function(object, domain, control, degree = 2) {
  part <- plain_kernels(object)
  L <- fit_factor(part)
  points <- unname(fit_points(part))
  copies <- with_images(without_bounds(domain), points, factor_sds(L), NULL)
  bounds <- replace(domain, "kind", list(replace(domain$kind, domain$kind == "reflect", "mass")))
  powers <- powers_to_two(ncol(points))
  powers <- powers[rowSums(powers) <= degree, , drop = FALSE]
  coefficients <- function(at) {
    moments <- domain_moments(bounds, at, L, control)
    found <- vapply(seq_len(nrow(at)), \(i) solve(moment_matrix(moments, i, powers), c(1, numeric(nrow(powers) - 1)), tol = 0),
      numeric(nrow(powers)))
    matrix(found, nrow(at), byrow = TRUE)
  }
  apart <- \(at) log(pmax(1 - kernel_masses(bounds, at, L, NULL, control), FAR_SHARE)) / log(FAR_SHARE)
  list(
    near = \(at) apart(at) < 1, apart = apart,
    rows = \(at) {
      u <- whitened_differences(copies$points, at, L, 1)
      c <- coefficients(at)
      terms <- lapply(seq_len(nrow(powers)), \(i) c[, i] * Reduce(`*`, Map(`^`, u, powers[i, ])))
      psi <- Reduce(`+`, terms) * exp(-Reduce(`+`, lapply(u, `^`, 2)) / 2)
      if (nrow(copies$points) == nrow(points)) psi else t(rowsum(t(psi), copies$row))
    },
    roughness = \(at) {
      # K^2 is a kernel of half the variance
      c <- coefficients(at)
      moments <- domain_moments(bounds, at, L / sqrt(2), control)
      scale <- 2^(-outer(rowSums(powers), rowSums(powers), `+`) / 2 - ncol(points) / 2)
      vapply(seq_len(nrow(at)), \(i) sum(c[i, ] * ((scale * moment_matrix(moments, i, powers)) %*% c[i, ])), 0)
    },
    mean = \() edge_kernel(object, domain, control, 0)
  )
}

# A matrix with a row of exponents for each monomial of degree 0, 1 and 2 in d variables.
powers_to_two <- function(d) {
  one <- diag(d)
  pairs <- which(lower.tri(one, diag = TRUE), arr.ind = TRUE)
  rbind(0, one, one[pairs[, 1], , drop = FALSE] + one[pairs[, 2], , drop = FALSE])
}

# The integrals of K phi phi' at place i. `moments`: of domain_moments().
moment_matrix <- function(moments, i, powers) {
  place <- drop(powers %*% 5^(seq_len(ncol(powers)) - 1))
  matrix(moments[i, outer(place, place, `+`) + 1], nrow(powers))
}

# The integrals of K u^p, u^p a monomial with exponents of 0 to 4 for each variable, over the domain at each row of `at`: a matrix
# with a column for each monomial, the exponents of the first variable fastest. K has integral 1 and bandwidth factor L.
domain_moments <- function(domain, at, L, control) {
  if (!is.null(domain$polygon) || !is_diagonal(L)) {
    return(polygon_mass(at, domain_rings(domain, at, L), L, NULL, control, moments = TRUE))
  }
  columns <- lapply(seq_len(ncol(at)), \(k) {
    bounded <- domain$kind[k] == "mass"
    interval_moments(
      if (bounded) (domain$lower[k] - at[, k]) / L[k, k] else rep(-Inf, nrow(at)),
      if (bounded) (domain$upper[k] - at[, k]) / L[k, k] else rep(Inf, nrow(at))
    )
  })
  Reduce(\(left, right) left[, rep(seq_len(ncol(left)), 5), drop = FALSE] * right[, rep(1:5, each = ncol(left))], columns)
}

# The moments of orders 0 to 4 of a standard normal variable between `low` and `high`.
interval_moments <- function(low, high) {
  at <- \(u, power) ifelse(is.finite(u), u^power * stats::dnorm(u), 0)
  found <- cbind(stats::pnorm(high) - stats::pnorm(low), at(low, 0) - at(high, 0))
  for (r in 2:4) found <- cbind(found, (r - 1) * found[, r - 1] + at(low, r - 1) - at(high, r - 1))
  found
}

without_bounds <- function(domain) {
  domain$kind[domain$kind %in% c("mass", "reflect")] <- "free"
  replace(domain, "polygon", list(NULL))
}

# Binds the rows of task(of, at) at places near bounds, for which of$rows is psi, and at the others.
by_edges <- function(of, at, task) {
  near <- of$edge$near(at)
  inner <- replace(of, "edge", list(NULL))
  edge <- replace(inner, "rows", list(of$edge$rows))
  if (!any(near)) return(task(inner, at))
  if (all(near)) return(task(edge, at))
  found <- list(task(edge, at[near, , drop = FALSE]), task(inner, at[!near, , drop = FALSE]))
  do.call(rbind, lapply(found, as.matrix))[order(c(which(near), which(!near))), , drop = FALSE]
}
