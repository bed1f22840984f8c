# Bands near the bounds of a fit by reflection or by masses, whose bias there is of order h or does not vanish. At places within
# some bandwidths of a bound the contributions of points are those of a local quadratic kernel, psi = K(u) phi(u)' M^-1 e_1 with
# u = L^-1 (x - y), phi the monomials of u up to degree 2, and M the integral of K phi phi' over the domain. Its integral over
# the domain is 1, its moments of degrees 1 and 2 vanish, and far from bounds it is the Laplace-corrected kernel.

# Places where less than this share of a kernel is outside are far from bounds.
FAR_SHARE <- 1e-8

# list(near, apart, rows, roughness): functions of working points that return which are near a bound; how far they are from it, from
# 0 to 1, about in proportion to the squared distance; and of such points psi, m x n, and the integral of psi^2, both relative to
# the height of the kernel K.
edge_kernel <- function(object, domain, control) {
  part <- plain_kernels(object)
  L <- fit_factor(part)
  points <- unname(fit_points(part))
  copies <- with_images(without_bounds(domain), points, factor_sds(L), NULL)
  bounds <- replace(domain, "kind", list(replace(domain$kind, domain$kind == "reflect", "mass")))
  powers <- powers_to_two(ncol(points))
  coefficients <- function(at) {
    moments <- domain_moments(bounds, at, L, control)
    t(vapply(seq_len(nrow(at)), \(i) solve(moment_matrix(moments, i, powers), c(1, numeric(nrow(powers) - 1)), tol = 0),
      numeric(nrow(powers))))
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
    }
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
  own <- array(moments[i, ], rep(5, ncol(powers)))
  index <- expand.grid(a = seq_len(nrow(powers)), b = seq_len(nrow(powers)))
  matrix(own[powers[index$a, , drop = FALSE] + powers[index$b, , drop = FALSE] + 1], nrow(powers))
}

# The integrals of K u^p, u^p a monomial with exponents of 0 to 4 for each variable, over the domain at each row of `at`: a matrix
# with a column for each monomial, the exponents of the first variable fastest. K has integral 1 and bandwidth factor L.
domain_moments <- function(domain, at, L, control) {
  if (!is.null(domain$polygon) || !is_diagonal(L)) return(moments_by_differences(domain, at, L, control))
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

# domain_moments() from the derivatives of masses with respect to the place, which are the integrals of K times Hermite
# polynomials, by differences in two dimensions.
EDGE_STEP <- 0.06

moments_by_differences <- function(domain, at, L, control) {
  nodes <- -4:4
  weights <- solve(outer(0:8, nodes, \(j, x) (EDGE_STEP * x)^j / factorial(j)))[, 1:5] # node by order of the derivative
  to_powers <- rbind(c(1, 0, 0, 0, 0), c(0, 1, 0, 0, 0), c(1, 0, 1, 0, 0), c(0, 3, 0, 1, 0), c(3, 0, 6, 0, 1))
  weights <- weights %*% t(to_powers)
  moved <- as.matrix(expand.grid(nodes, nodes)) * EDGE_STEP
  found <- 0
  for (j in seq_len(nrow(moved))) {
    place <- at + rep(drop(L %*% moved[j, ]), each = nrow(at))
    of_both <- outer(weights[(j - 1) %% 9 + 1, ], weights[(j - 1) %/% 9 + 1, ])
    found <- found + outer(kernel_masses(domain, place, L, NULL, control), as.vector(of_both))
  }
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
