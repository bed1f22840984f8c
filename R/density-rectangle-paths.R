# Probabilities of rectangles under correlated Gaussian kernels in three and four dimensions, as integrals over correlations.
# With S two independent blocks of R, the derivative of a probability by the correlation of two coordinates of R(t) = S + t (R -
# S) is the sum over their corners of the density there times the probability of the others given the corner (Plackett 1954).

# list(R, S, pair, singular, rule): `pair` is a block, and |R(t)| > 0 for |t| < singular. NULL: R is almost singular. As t is
# singular * sin(angle), Gauss' rule of n nodes for the angle from 0 to `end` errs by rho^-2n, log(rho) = acosh(pi / end - 1).
correlation_path <- function(R) {
  all <- seq_len(nrow(R))
  blocked <- \(pair) R * outer(all %in% pair, all %in% pair, "==")
  pairs <- utils::combn(all, 2, simplify = FALSE)
  pair <- pairs[[which.max(vapply(pairs, \(pair) sum(blocked(pair)^2), 0))]]
  S <- blocked(pair)
  least <- min(Re(eigen(solve(S, R), only.values = TRUE)$values))
  if (least < 1e-6) return(NULL)
  singular <- 1 / max(1 - least, 1e-3)
  rule <- gauss_rule(1 + ceiling(12 / acosh(pi / asin(1 / singular) - 1)))
  list(R = R, S = S, pair = pair, singular = singular, rule = rule)
}

# A few rectangles at a time, each with all kernels.
path_rectangles <- function(kernels, lower, upper, path, control) {
  n <- length(kernels$weights)
  widths <- if (is.null(kernels$factors)) rep(1, n) else kernels$factors
  all <- seq_len(ncol(upper))
  unlist(lapply(unname(split(all, ceiling(all * n / 2e5))), \(some) corrected_at_one(\(s) {
    gaps <- \(q) (q[, rep(some, each = n), drop = FALSE] - c(kernels$x)) / rep(sqrt(s) * widths, each = nrow(q))
    low <- gaps(lower)
    high <- gaps(upper)
    p <- numeric(n * length(some))
    any <- which(colSums(low > 8 | high < -8) == 0)
    if (length(any) > 0) p[any] <- path_probability(path, low[, any, drop = FALSE], high[, any, drop = FALSE], control)
    drop(kernels$weights %*% matrix(p, n))
  }, kernels)))
}

path_probability <- function(path, lower, upper, control) {
  block <- \(k) standard_boxes(lower[k, , drop = FALSE], upper[k, , drop = FALSE], path$R[k, k, drop = FALSE], control)
  end <- asin(1 / path$singular)
  p <- block(path$pair) * block(-path$pair)
  for (k in seq_along(path$rule$node)) {
    angle <- path$rule$node[k] * end
    slope <- path_slope(path, path$singular * sin(angle), lower, upper, control)
    p <- p + path$rule$weight[k] * end * path$singular * cos(angle) * slope
  }
  p
}

# The derivative by t. Corners whose density is below exp(-25) do not count.
path_slope <- function(path, t, lower, upper, control) {
  now <- path$S + t * (path$R - path$S)
  off <- which(upper.tri(now) & path$S != path$R, arr.ind = TRUE)
  corners <- list(list(upper, upper, 1), list(lower, upper, -1), list(upper, lower, -1), list(lower, lower, 1))
  slope <- numeric(ncol(upper))
  for (i in split(off, row(off))) {
    r <- now[i[1], i[2]]
    given <- now[-i, i, drop = FALSE] %*% solve(now[i, i])
    left <- now[-i, -i, drop = FALSE] - given %*% now[i, -i, drop = FALSE]
    for (corner in corners) {
      at <- rbind(corner[[1]][i[1], ], corner[[2]][i[2], ])
      away <- (at[1, ]^2 - 2 * r * at[1, ] * at[2, ] + at[2, ]^2) / (2 * (1 - r^2))
      near <- which(away < 25)
      if (length(near) == 0) next
      rest <- \(q) (q[-i, near, drop = FALSE] - given %*% at[, near]) / sqrt(diag(left))
      density <- corner[[3]] * exp(-away[near]) / (2 * pi * sqrt(1 - r^2))
      p <- standard_boxes(rest(lower), rest(upper), stats::cov2cor(left), control)
      slope[near] <- slope[near] + path$R[i[1], i[2]] * density * p
    }
  }
  slope
}

# Probabilities of rectangles under one standard Gaussian of one or two coordinates.
standard_boxes <- function(lower, upper, R, control) {
  one <- list(x = matrix(0, nrow(R), 1), weights = 1, laplace = FALSE)
  exact_rectangles(one, lower, upper, if (nrow(R) == 2) R[1, 2] else 0, control)
}
