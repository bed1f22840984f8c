# Local fits from moments (local-moments.R): sum k (y - a - b'u)^2 is least for b = C^-1 c and a = mean y - b'
# mean u, with C the covariances of u and c those with y. "constant" has b = 0 in this, and c for the derivative of
# its mean.

# What both kinds of fits need: `order` of the moments for values, and with slopes.
REGRESSION_TYPES <- list(
  local_linear = list(label = "local linear", order = 2, order_of_slopes = 2),
  constant = list(label = "local constant (Nadaraya-Watson)", order = 0, order_of_slopes = 1)
)

layout_of <- function(type, d, t, order = "order") regression_layout(d, t, REGRESSION_TYPES[[type]][[order]])

# The rows as moments are of them: whitened by H = L L' about their middle, far from which kernels would lose
# digits. The responses are about their means, weights relative to the largest.
local_data <- function(x, y, weights, L, discrete = NULL) with_kernels(local_rows(x, y, weights), x, L, discrete)

# What of it no bandwidth changes, and the rest.
local_rows <- function(x, y, weights) {
  n <- nrow(x)
  w <- if (is.null(weights)) rep(1, n) else weights / max(weights)
  centre <- colSums(w * y) / sum(w)
  list(
    w = w, y = y - rep(centre, each = n), middle = colMeans(x), centre = centre,
    by_size = if (ncol(x) == 1) order(x, method = "radix")
  )
}

with_kernels <- function(data, x, L, discrete) {
  data$L <- L
  data$z <- whitened(x, data)
  data$floor <- pivot_floor(data$z)
  data$levels <- regression_levels(discrete)
  data
}

# Where rows that count are on one line, or one row, slopes across it are not known: a pivot of C is no less than
# this part of the kernel's variance, or where the rows are narrower, of theirs. So slopes fade to 0 there.
pivot_floor <- function(z) {
  n <- nrow(z)
  d <- ncol(z)
  spread <- .colMeans((z - rep(.colMeans(z, n, d), each = n))^2, n, d)
  spread[!(spread > 0) | spread > 1] <- 1
  LEAST_PIVOT * spread
}

LEAST_PIVOT <- 1e-8

# list(fit, slope, lift, stretch): `fit` m x t; `slope` by u, m x d t; `lift`, C^-1 mean u, m x d, and `stretch`,
# by which the weight of a row at the target is more than its share of the kernels.
local_fits <- function(M, layout, type, floor) {
  y <- M[, layout$y, drop = FALSE]
  cross <- M[, layout$cross, drop = FALSE]
  if (type == "constant") return(list(fit = y, slope = cross, lift = NULL, stretch = rep(1, nrow(M))))
  d <- layout$d
  mean <- M[, layout$mean, drop = FALSE]
  solved <- solve_rows(M[, layout$cov, drop = FALSE], cbind(mean, cross), floor)
  lift <- solved[, seq_len(d), drop = FALSE]
  slope <- solved[, -seq_len(d), drop = FALSE]
  along <- \(slopes) .rowSums(mean * slopes, nrow(M), d)
  for (r in seq_len(layout$t)) y[, r] <- y[, r] - along(slope[, (r - 1) * d + seq_len(d)])
  list(fit = y, slope = slope, lift = lift, stretch = 1 + along(lift))
}

# C^-1 b for each row: of C the lower triangle, `b` any number of vectors of length d one after the other. By
# C = L D L' with the least pivots `floor`, all rows at once.
solve_rows <- function(C, b, floor) {
  d <- length(floor)
  if (d == 1) return(b / pmax(C[, 1], floor))
  place <- matrix(0L, d, d)
  place[lower.tri(place, diag = TRUE)] <- seq_len(ncol(C))
  after <- \(j) seq_len(d)[-seq_len(j)]
  for (j in seq_len(d)) {
    pivot <- pmax(C[, place[j, j]], floor[j])
    below <- C[, place[after(j), j], drop = FALSE]
    C[, place[j, j]] <- pivot
    C[, place[after(j), j]] <- below / pivot
    for (i in after(j)) for (k in after(j)[after(j) <= i]) {
      C[, place[i, k]] <- C[, place[i, k]] - below[, i - j] * C[, place[k, j]]
    }
  }
  for (first in seq(0, ncol(b) - 1, by = d)) {
    for (j in seq_len(d)) for (i in after(j)) b[, first + i] <- b[, first + i] - C[, place[i, j]] * b[, first + j]
    for (j in seq_len(d)) b[, first + j] <- b[, first + j] / C[, place[j, j]]
    for (j in rev(seq_len(d))) {
      for (i in after(j)) b[, first + j] <- b[, first + j] - C[, place[i, j]] * b[, first + i]
    }
  }
  b
}

# ---- at the rows themselves -------------------------------------------------------------------

# list(fitted, left_out, leverage): the fits at all rows, those without the row, and the row's own weight in its
# fit.
row_fits <- function(data, type, run, layout = layout_of(type, ncol(data$z), ncol(data$y))) {
  moments <- by_cells(data, NULL, \(data, at, own) local_moments(data, at, layout, run, own))
  n <- nrow(data$z)
  fits <- local_fits(rbind(moments$all, moments$others), layout, type, data$floor)
  own <- seq_len(n)
  shift <- rep(data$centre, each = n)
  list(
    fitted = fits$fit[own, , drop = FALSE] + shift, left_out = fits$fit[n + own, , drop = FALSE] + shift,
    leverage = exp(log(data$w) - moments$all[, 1]) * fits$stretch[own]
  )
}

# Means of `values`, n x t, about the targets.
smoothed <- function(data, values, at, run) {
  data$y <- values
  layout <- regression_layout(ncol(data$z), ncol(values), 0)
  by_cells(data, at, \(data, at, own) list(mean = local_moments(data, at, layout, run)$all[, -1, drop = FALSE]))$mean
}

# ---- standard errors --------------------------------------------------------------------------

# Of fits at the targets of moments `M`, m x t: the root of sum l_i^2 s_i, with l_i = k_i / S (1 - (u_i - mean)'
# lift) and s_i the `variance` of the row. Squares of kernels are kernels of H / 2, so that this is again of
# moments.
local_errors <- function(data, M, fits, layout, variance, at, run) {
  se <- errors_by_squares(data, M, fits, layout, variance, at, run)
  far <- which(abs(M[, 1]) > LARGEST_LOG)
  if (length(far) == 0) return(se)
  z <- if (is.null(at)) data$z else at
  se[far, ] <- by_weights(data, M, fits, layout, z, far, \(l) sqrt(l^2 %*% variance))
  se
}

# The rows of `use` of the weights l_i themselves, a row for each of some targets of `at`.
by_weights <- function(data, M, fits, layout, at, some, use) {
  lift <- fits$lift[some, , drop = FALSE]
  mean <- M[some, layout$mean, drop = FALSE]
  by_shares(data, picked_rows(at, some), NULL, \(p, u, log_S, rows) {
    if (is.null(lift)) return(use(p))
    for (k in seq_along(u)) u[[k]] <- (u[[k]] - mean[rows, k]) * lift[rows, k]
    use(p * (1 - Reduce(`+`, u)))
  })
}

# Beyond it differences of logarithms have lost digits.
LARGEST_LOG <- 1e4

errors_by_squares <- function(data, M, fits, layout, variance, at, run) {
  d <- ncol(data$z)
  order <- if (is.null(fits$lift)) 0 else 2
  squares <- list(z = sqrt(2) * without_low(data$z), y = matrix(0, nrow(data$z), 0), by_size = data$by_size)
  own <- regression_layout(d, 0, order)
  of_response <- function(r) {
    w <- data$w^2 * variance[, r]
    top <- max(w)
    if (top == 0) return(numeric(nrow(M)))
    squares$w <- w / top
    Q <- local_moments(squares, if (!is.null(at)) sqrt(2) * without_low(at), own, run)$all
    size <- exp((log(top) + Q[, 1]) / 2 - M[, 1])
    if (order == 0) return(size)
    apart <- Q[, own$mean, drop = FALSE] / sqrt(2) - M[, layout$mean, drop = FALSE]
    around <- quadratic_rows(Q[, own$cov, drop = FALSE] / 2, fits$lift, own$pairs)
    size * sqrt((1 - rowSums(apart * fits$lift))^2 + around)
  }
  matrix(vapply(seq_len(ncol(variance)), of_response, numeric(nrow(M))), nrow(M))
}

# g' C g for each row, 0 where rounding makes it negative.
quadratic_rows <- function(C, g, pairs) {
  twice <- ifelse(pairs[, 1] == pairs[, 2], 1, 2)
  products <- g[, pairs[, 1], drop = FALSE] * g[, pairs[, 2], drop = FALSE]
  pmax(as.vector((C * products) %*% twice), 0)
}
