# Local fits from moments (local-moments.R). The minimum of sum k (y - a - b'u)^2 + b'P b is at b = (C + P / S)^-1 c and
# a = mean y - b' mean u, where C are the covariances of u, c those of u and y, and the diagonal P is the penalty on
# slopes: fits that few rows carry, whose S is small, shrink to local means. For "constant" b = 0, and the derivative of
# the mean is c.

# The types of fits: `order` of the moments that values need, and that slopes need.
REGRESSION_TYPES <- list(
  local_linear = list(label = "local linear", order = 2, order_of_slopes = 2),
  constant = list(label = "local constant (Nadaraya-Watson)", order = 0, order_of_slopes = 1)
)

layout_of <- function(type, d, t, order = "order") regression_layout(d, t, REGRESSION_TYPES[[type]][[order]])

# Returns the data of local_moments(): rows are whitened by H = L L' after subtracting their mean, so that kernels keep
# their digits; responses have their means subtracted; weights are relative to the largest.
local_data <- function(x, y, weights, L, discrete = NULL, ridge = 0) {
  with_kernels(local_rows(x, y, weights), x, L, discrete, ridge)
}

# The parts of local_data() that do not depend on the bandwidth; with_kernels() adds the others.
local_rows <- function(x, y, weights) {
  n <- nrow(x)
  w <- if (is.null(weights)) rep(1, n) else weights / max(weights)
  centre <- colSums(w * y) / sum(w)
  list(
    w = w, y = y - rep(centre, each = n), middle = colMeans(x), centre = centre,
    by_size = if (ncol(x) == 1) order(x, method = "radix")
  )
}

with_kernels <- function(data, x, L, discrete, ridge) {
  data$L <- L
  data$z <- whitened(x, data)
  spread <- slope_units(data$z)
  data$floor <- LEAST_PIVOT * spread
  data$penalty <- ridge * sum(data$w) / sum(data$w > 0) * spread
  data$levels <- regression_levels(discrete)
  data$guide <- category_effects(data, x, discrete, ridge)
  if (!is.null(data$guide)) data$y <- cbind(data$y, data$guide$marks)
  data
}

# Returns the variance of the kernel in each coordinate, 1, or that of the rows if it is smaller. Where the rows with
# weight lie on a point or a line, slopes across it are not determined: pivots of C are at least LEAST_PIVOT times these
# variances, so that such slopes shrink to 0.
slope_units <- function(z) {
  n <- nrow(z)
  d <- ncol(z)
  spread <- .colMeans((z - rep(.colMeans(z, n, d), each = n))^2, n, d)
  spread[!(spread > 0) | spread > 1] <- 1
  spread
}

LEAST_PIVOT <- 1e-8

# Returns list(fit, slope, lift, stretch, shrunk), and `lacking` of add_effects(), if there are effects: `fit`, m x t;
# `slope`, the derivatives by u, m x d t; `lift`, (C + P / S)^-1 mean u, m x d; `stretch`, the weight of a row at the
# target divided by its share of the kernel sum; `shrunk`, g, m x d: where the mean is a + b'u, the expected fit is a + b'g.
local_fits <- function(M, layout, type, data, here = data$here) {
  add_effects(plain_fits(M, layout, type, data), data$guide, here)
}

plain_fits <- function(M, layout, type, data) {
  y <- M[, layout$y, drop = FALSE]
  cross <- M[, layout$cross, drop = FALSE]
  if (type == "constant") return(list(fit = y, slope = cross, lift = NULL, stretch = rep(1, nrow(M))))
  d <- layout$d
  mean <- M[, layout$mean, drop = FALSE]
  C <- M[, layout$cov, drop = FALSE]
  on <- layout$pairs[, 1] == layout$pairs[, 2]
  # finite, so that 0 times it is 0
  ridge <- outer(pmin(exp(-M[, 1]), 1e250), data$penalty)
  C[, on] <- C[, on] + ridge
  solved <- solve_rows(C, cbind(mean, cross), data$floor)
  lift <- solved[, seq_len(d), drop = FALSE]
  slope <- solved[, -seq_len(d), drop = FALSE]
  along <- \(slopes) .rowSums(mean * slopes, nrow(M), d)
  for (r in seq_len(layout$t)) y[, r] <- y[, r] - along(slope[, (r - 1) * d + seq_len(d)])
  list(fit = y, slope = slope, lift = lift, stretch = 1 + along(lift), shrunk = ridge * lift)
}

# Returns C^-1 b for each row, by C = L D L' with pivots of at least `floor`, vectorised over rows. `C`: lower
# triangles; `b`: any number of vectors of length d, one after the other.
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

# Returns list(fitted, left_out, leverage, slope): fits at all rows, leave-one-out fits, the weight of each row in its
# fit, and slopes, whose first n rows are those of the fits.
row_fits <- function(data, type, run, layout = layout_of(type, ncol(data$z), ncol(data$y))) {
  moments <- by_cells(data, NULL, \(data, at, own) local_moments(data, at, layout, run, own))
  n <- nrow(data$z)
  guide <- data$guide
  fits <- local_fits(rbind(moments$all, moments$others), layout, type, data, rbind(guide$marks, guide$marks))
  own <- seq_len(n)
  shift <- rep(data$centre, each = n)
  # what effects add: to leverages, and to leave-one-out fits by effects without the row
  by <- if (is.null(guide)) numeric(2 * n) else rowSums(fits$lacking * rbind(t(guide$by), t(guide$by)))
  without <- if (is.null(guide)) 0 else by[n + own] * guide$residual / pmax(1 - guide$leverage, 1e-8)
  list(
    fitted = fits$fit[own, , drop = FALSE] + shift, left_out = fits$fit[n + own, , drop = FALSE] - without + shift,
    leverage = exp(log(data$w) - moments$all[, 1]) * fits$stretch[own] + by[own],
    slope = fits$slope
  )
}

# Returns the means of b b' over the rows, with b the slopes of row_fits(): a list of a d x d matrix for each response.
square_slopes <- function(slope, data) {
  n <- nrow(data$z)
  p <- data$w / sum(data$w)
  lapply(blocks_of(ncol(slope), ncol(data$z)), \(columns) {
    b <- slope[seq_len(n), columns, drop = FALSE]
    crossprod(b, p * b)
  })
}

# Returns the squares that the mean of each response changes by along `shrunk` of local_fits(), m x t, if its slopes are
# those of the rows.
shrunk_squares <- function(fits, squares, m, t) {
  if (is.null(fits$shrunk)) return(matrix(0, m, t))
  matrix(vapply(squares, \(B) pmax(.rowSums((fits$shrunk %*% B) * fits$shrunk, m, ncol(B)), 0), numeric(m)), m)
}

# Returns local means of `values`, n x t, at the targets.
smoothed <- function(data, values, at, run) {
  data$y <- values
  layout <- regression_layout(ncol(data$z), ncol(values), 0)
  by_cells(data, at, \(data, at, own) list(mean = local_moments(data, at, layout, run)$all[, -1, drop = FALSE]))$mean
}

# ---- standard errors --------------------------------------------------------------------------

# Returns the standard errors, m x t, of fits at the targets of moments `M`: the root of sum l_i^2 s_i, with l_i = k_i /
# S (1 - (u_i - mean)' lift) and the `variance` s_i of the row. Squared kernels are kernels of H / 2, so these are
# moments, too. Where the logarithms of the sums are too large for that, the weights l_i are computed.
local_errors <- function(data, M, fits, layout, variance, at, run) {
  se <- errors_by_squares(data, M, fits, layout, variance, at, run)
  far <- which(abs(M[, 1]) > LARGEST_LOG)
  if (length(far) == 0) return(se)
  z <- if (is.null(at)) data$z else at
  se[far, ] <- by_weights(data, M, fits, layout, z, far, \(l) sqrt(l^2 %*% variance))
  se
}

# Returns the rows of `use(l)`, where the matrix l has the weights l_i of all rows, for `some` of the targets `at`.
by_weights <- function(data, M, fits, layout, at, some, use) {
  lift <- fits$lift[some, , drop = FALSE]
  mean <- M[some, layout$mean, drop = FALSE]
  by_shares(data, picked_rows(at, some), NULL, \(p, u, log_S, rows) {
    if (is.null(lift)) return(use(p))
    for (k in seq_along(u)) u[[k]] <- (u[[k]] - mean[rows, k]) * lift[rows, k]
    use(p * (1 - Reduce(`+`, u)))
  })
}

# Differences of logarithms above this size have lost digits.
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

# Returns g' C g for each row, at least 0.
quadratic_rows <- function(C, g, pairs) {
  twice <- ifelse(pairs[, 1] == pairs[, 2], 1, 2)
  products <- g[, pairs[, 1], drop = FALSE] * g[, pairs[, 2], drop = FALSE]
  pmax(as.vector((C * products) %*% twice), 0)
}
