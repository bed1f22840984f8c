# Sums of kernels and their copies as sums of products over columns, without making the copies. If H is diagonal, the
# contribution of a point and its copies is the product of the contributions in each column. With many columns, or
# kernels about as wide as the range, this takes far less time than the sum over all copies, whose number is the product
# of the numbers in the columns. For searches only: contributions below 1e-13 of a kernel are left out.

# log_sum() of domain_sources() with the plain kernel, at working points `at` (NULL: the points themselves, with `loo`
# without a point's own kernel and its copies). `power`: 2 for the sum of the squared contributions of the points.
log_product_sum <- function(domain, sources, L, at, loo, power = 1) {
  points <- sources$points
  own <- is.null(at)
  if (own) at <- points
  sds <- factor_sds(L)
  log_weight <- if (is.null(sources$weights)) 0 else log(sources$weights)
  found <- lapply(blocks_of(nrow(at), max(1, floor(1e6 / nrow(points)))), function(rows) {
    total <- matrix(rep_len(log_weight, nrow(points)), length(rows), nrow(points), byrow = TRUE)
    for (k in seq_along(sds)) {
      total <- total + log_column_kernels(domain, k, at[rows, k], points[, k], sds[k], sources$factors)
    }
    total <- power * total
    if (loo) total[cbind(seq_along(rows), rows)] <- -Inf
    top <- total[cbind(seq_along(rows), max.col(total, "first"))]
    ifelse(top == -Inf, -Inf, top + log(rowSums(exp(total - top))))
  })
  list(log_abs = unlist(found))
}

# The logarithms of the kernels of points x and their copies at y in one column, relative to the height of a kernel with
# standard deviation h: a length(y) x length(x) matrix. `factors`: NULL, or local factors of x.
log_column_kernels <- function(domain, k, y, x, h, factors) {
  sds <- h * if (is.null(factors)) rep(1, length(x)) else factors
  width <- domain$upper[k] - domain$lower[k]
  reflects <- domain$kind[k] == "reflect"
  imaged <- reflects || domain$kind[k] == "circular"
  wide <- if (imaged && is.finite(width)) sds >= width / (if (reflects) 4 else 8) else logical(length(x))
  if (all(wide)) {
    kernels <- log_wide_kernels(y, x, sds, domain$lower[k], width, reflects)
  } else {
    kernels <- log_narrow_kernels(y, x, sds, domain$lower[k], domain$upper[k], if (imaged) domain$kind[k] else "free")
    if (any(wide)) kernels[, wide] <- log_wide_kernels(y, x[wide], sds[wide], domain$lower[k], width, reflects)
  }
  if (is.null(factors)) kernels else kernels - rep(log(factors), each = length(y))
}

# The logarithm of a sum of kernels: the nearest one, and the others relative to it.
log_narrow_kernels <- function(y, x, sds, lower, upper, kind) {
  apart <- abs(outer(y, x, "-"))
  width <- upper - lower
  if (kind == "circular") apart <- pmin(apart, abs(width - apart))
  half <- rep(0.5 / sds^2, each = length(y))
  others <- 0
  if (kind == "circular") others <- exp(-width * (width - 2 * apart) * half)
  if (kind == "reflect") {
    if (is.finite(lower)) others <- others + exp(-4 * outer(y - lower, x - lower) * half)
    if (is.finite(upper)) others <- others + exp(-4 * outer(upper - y, upper - x) * half)
    if (is.finite(width)) others <- others + exp(-4 * width * (width - apart) * half)
  }
  (if (kind == "free") 0 else log1p(others)) - apart^2 * half
}

# The logarithm of the Fourier series of the sum over all copies.
log_wide_kernels <- function(y, x, sds, lower, width, reflects) {
  turn <- if (reflects) pi / width else 2 * pi / width
  orders <- seq_len(ceiling(sqrt(2 * 37) / (turn * min(sds))))
  shares <- exp(-outer(orders * turn, sds)^2 / 2) # of orders x points
  waves <- \(wave) crossprod(wave(outer(orders * turn, y - lower)), shares * wave(outer(orders * turn, x - lower)))
  series <- waves(cos) + if (reflects) 0 else waves(sin)
  log(pmax(1 + 2 * series, .Machine$double.xmin)) + rep(log(sqrt(2 * pi) * sds / width), each = length(y))
}
