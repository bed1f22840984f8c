# Probabilities of rectangles under correlated Gaussian kernels in three and four dimensions, as integrals over correlations.
# With S two independent blocks of R, the derivative of a probability by the correlation of two coordinates of R(t) = S + t (R - S) is
# the sum over their corners of the density there times the probability of the other coordinates given the corner (Plackett 1954).

# list(R, S, blocks, singular): |R(t)| is positive for |t| < singular. NULL: R is too close to singular for this.
correlation_path <- function(R) {
  all <- seq_len(nrow(R))
  choices <- utils::combn(all, 2, \(pair) list(pair, setdiff(all, pair)), simplify = FALSE)
  blocked <- function(blocks) {
    same <- Reduce(`|`, lapply(blocks, \(block) outer(all %in% block, all %in% block)))
    R * same
  }
  blocks <- choices[[which.max(vapply(choices, \(blocks) sum(blocked(blocks)^2), 0))]]
  S <- blocked(blocks)
  least <- min(Re(eigen(solve(S, R), only.values = TRUE)$values))
  if (least > 1e-6) list(R = R, S = S, blocks = blocks, singular = 1 / max(1 - least, 1e-3))
}

# A few rectangles at a time, each with all kernels.
path_rectangles <- function(kernels, lower, upper, path, control) {
  n <- length(kernels$weights)
  widths <- if (is.null(kernels$factors)) rep(1, n) else kernels$factors
  total <- \(p) drop(kernels$weights %*% matrix(p, n))
  of <- function(some) {
    corrected_at_one(\(s) {
      gaps <- \(q) (q[, rep(some, each = n)] - c(kernels$x)) / rep(sqrt(s) * widths, each = nrow(q))
      along_path(path, gaps(lower), gaps(upper), total, control)
    }, kernels)
  }
  all <- seq_len(ncol(upper))
  unlist(lapply(unname(split(all, ceiling(all * n / 2e5))), of))
}

# Independent blocks, and the integral from 0 to 1 with t = singular * sin(angle).
along_path <- function(path, lower, upper, total, control) {
  block <- \(k) standard_boxes(lower[k, , drop = FALSE], upper[k, , drop = FALSE], path$R[k, k, drop = FALSE], control)
  end <- asin(1 / path$singular)
  total(Reduce(`*`, lapply(path$blocks, block))) + integral_of(\(u) {
    t <- path$singular * sin(u * end)
    total(path_slope(path, t, lower, upper, control)) * path$singular * cos(u * end) * end
  }, 1e-8)
}

# The derivative by t for each column of the limits. Densities below exp(-25) count as 0.
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
      p <- standard_boxes(rest(lower), rest(upper), stats::cov2cor(left), control)
      density <- exp(-away[near]) / (2 * pi * sqrt(1 - r^2))
      slope[near] <- slope[near] + corner[[3]] * path$R[i[1], i[2]] * density * p
    }
  }
  slope
}

# For one standard Gaussian of one or two coordinates.
standard_boxes <- function(lower, upper, R, control) {
  one <- list(x = matrix(0, nrow(R), 1), weights = 1, laplace = FALSE)
  exact_rectangles(one, lower, upper, if (nrow(R) == 2) R[1, 2] else 0, control)
}

# The integral of f, a vector, over [0, 1]: Clenshaw and Curtis's rule, with twice the intervals until it changes by less than
# `tolerance`.
integral_of <- function(f, tolerance) {
  at <- \(u) do.call(cbind, lapply((1 - cos(pi * u)) / 2, f))
  n <- 4
  values <- at(0:n / n)
  last <- Inf
  repeat {
    j <- seq_len(n / 2)
    shares <- 1 - colSums(ifelse(j < n / 2, 2, 1) / (4 * j^2 - 1) * cos(2 * pi * outer(j, 0:n) / n))
    now <- drop(values %*% (shares * c(1, rep(2, n - 1), 1))) / (2 * n)
    if (all(abs(now - last) < tolerance) || n == 4096) return(now)
    last <- now
    values <- cbind(values, at((seq_len(n) - 0.5) / n))[, order(c(0:n, seq_len(n) - 0.5)), drop = FALSE]
    n <- 2 * n
  }
}
