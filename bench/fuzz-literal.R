# Literal formulas of estimates for the fuzzers, in plain R and without the package. They are slow and obvious on
# purpose.

# For each row of `y`: the logarithm, the sign and the condition number of sum_i w_i K_H(y - x_i) factor(q_i) / sum_i
# w_i, where q_i is the squared Mahalanobis distance.
literal_log_sum <- function(x, y, H, w = rep(1, nrow(x)), factor = \(q) 1) {
  keep <- w > 0
  x <- x[keep, , drop = FALSE]
  w <- w[keep] / max(w)
  # units in which neither H nor its determinant overflows
  unit <- sqrt(diag(H))
  L <- chol(H / outer(unit, unit))
  log_norm <- -sum(log(diag(L))) - sum(log(unit)) - ncol(x) * log(2 * pi) / 2 - log(sum(w))
  rows <- vapply(seq_len(nrow(y)), \(j) {
    difference <- (x - rep(y[j, ], each = nrow(x))) / rep(unit, each = nrow(x))
    q <- colSums(backsolve(L, t(difference), transpose = TRUE)^2)
    logs <- log(w) - q / 2
    # w may underflow beside far points
    terms <- exp(logs - max(logs)) * factor(q)
    c(max(logs) + log(abs(sum(terms))) + log_norm, sign(sum(terms)), sum(abs(terms)) / abs(sum(terms)))
  }, numeric(3))
  list(log = rows[1, ], sign = rows[2, ], condition = rows[3, ])
}

literal_factors <- list(
  kde = \(d) \(q) 1,
  laplace = \(d) \(q) 1 + d / 2 - q / 2,
  laplace6 = \(d) \(q) (d / 2 + 1) * (d / 2 + 2) / 2 - (d / 2 + 2) * q / 2 + q^2 / 8
)

# The debiased points of an SD-KDE: x + H / 2 times the score of the estimate with bandwidth matrix Hs.
literal_debiased <- function(x, H, Hs, w = rep(1, nrow(x))) {
  used <- w > 0
  unit <- sqrt(diag(H))
  P <- (H / outer(unit, unit)) %*% solve(Hs / outer(unit, unit)) / 2
  t(vapply(seq_len(nrow(x)), \(i) {
    difference <- (x - rep(x[i, ], each = nrow(x))) / rep(unit, each = nrow(x))
    q <- rowSums(difference %*% solve(Hs / outer(unit, unit)) * difference)
    logs <- ifelse(used, log(w) - q / 2, -Inf)
    k <- exp(logs - max(logs))
    x[i, ] + unit * drop(P %*% (colSums(k * difference) / sum(k)))
  }, numeric(ncol(x)))) |> matrix(nrow(x), ncol(x), byrow = ncol(x) == 1)
}

# The points and their reflections in the bounds `range`, either of which may be infinite, for one column.
literal_images <- function(x, h, range, reach = 40) {
  images <- x
  origin <- rep(seq_along(x), 1)
  if (all(is.finite(range))) {
    width <- diff(range)
    turns <- seq_len(ceiling(reach * h / (2 * width)) + 1)
    turns <- c(-rev(turns), 0, turns)
    images <- as.vector(vapply(turns, \(k) c(x, 2 * range[1] - x) + 2 * k * width, numeric(2 * length(x))))
    origin <- rep(seq_along(x), 2 * length(turns))
  } else if (any(is.finite(range))) {
    images <- c(x, 2 * range[is.finite(range)] - x)
    origin <- rep(seq_along(x), 2)
  }
  list(x = images, origin = origin)
}

# Local constant or local linear fits of the responses `y` (a matrix) at the rows of `new`. A local line that is not
# well determined is NA.
literal_local <- function(x, y, new, h, w, type) {
  keep <- w > 0
  x <- x[keep, , drop = FALSE]
  y <- y[keep, , drop = FALSE]
  w <- w[keep] / max(w)
  h <- rep(h, length.out = ncol(x))
  at <- vapply(seq_len(nrow(new)), \(j) {
    u <- (x - rep(new[j, ], each = nrow(x))) / rep(h, each = nrow(x))
    logs <- log(w) - rowSums(u^2) / 2
    k <- exp(logs - max(logs))
    means <- colSums(k * y) / sum(k)
    if (type == "constant") return(means)
    # slopes fade where rows under the kernels do not spread
    centred <- u - rep(colSums(k * u) / sum(k), each = nrow(u))
    spread <- svd(sqrt(k / sum(k)) * centred)$d
    if (nrow(x) <= ncol(x) || min(spread) < 1e-2) return(rep(NA_real_, ncol(y)))
    design <- qr(sqrt(k) * cbind(1, u))
    qr.coef(design, sqrt(k) * y)[1, ]
  }, numeric(ncol(y)))
  matrix(at, nrow(new), ncol(y), byrow = TRUE)
}

# Predictions of kernel ridge regression at the rows of `new`; all rows are centres.
literal_ridge <- function(x, y, new, h, lambda, w) {
  h <- rep(h, length.out = ncol(x))
  kernel <- \(a, b) {
    q <- 0
    for (k in seq_len(ncol(a))) q <- q + (outer(a[, k], b[, k], `-`) / h[k])^2
    exp(-q / 2)
  }
  n <- nrow(x)
  keep <- w > 0
  x <- x[keep, , drop = FALSE]
  y <- y[keep, , drop = FALSE]
  w <- w[keep]
  mean <- colSums(w * y) / sum(w)
  # sqrt(w) on both sides, so that no weight is divided by
  root <- sqrt(w)
  penalized <- root * t(root * kernel(x, x)) + diag(n * lambda, length(w))
  alpha <- root * solve(penalized, root * (y - rep(mean, each = nrow(y))))
  kernel(new, x) %*% alpha + rep(mean, each = nrow(new))
}

# Densities at `y`, inside the bounds, of the plain estimate of one column on a support. On a circle `range` is one turn.
literal_inside <- function(x, y, h, range, method, w) {
  density <- \(x, y, w, h) {
    exp(literal_log_sum(matrix(x), matrix(y), matrix(h^2), w)$log) * sum(w)
  }
  total <- sum(w)
  if (method == "mass") {
    mass <- stats::pnorm((range[2] - x) / h) - stats::pnorm((range[1] - x) / h)
    return(density(x, y, w / mass, h) / total)
  }
  if (method == "reflect") {
    images <- literal_images(x, h, range)
    return(density(images$x, y, w[images$origin], h) / total)
  }
  if (method == "circular") {
    period <- max(abs(range[is.finite(range)]))
    turns <- ceiling(40 * h / period) + 1
    turns <- period * (-turns:turns)
    return(density(as.vector(outer(x, turns, `+`)), y, rep(w, length(turns)), h) / total)
  }
  # "transform": coordinates without bounds, and their derivatives
  if (all(is.finite(range))) {
    inner <- \(x) stats::qnorm((x - range[1]) / diff(range))
    slope <- 1 / (diff(range) * stats::dnorm(inner(y)))
  } else if (is.finite(range[1])) {
    inner <- \(x) log(x - range[1])
    slope <- 1 / (y - range[1])
  } else {
    inner <- \(x) -log(range[2] - x)
    slope <- 1 / (range[2] - y)
  }
  density(inner(x), inner(y), w, h) / total * slope
}

# The matrix of a categorical kernel between the codes `y` and `x` of a factor with `r` levels.
literal_levels <- function(y, x, r, lambda, kernel) {
  ranks <- seq_len(r)
  k <- outer(ranks, ranks, \(a, b) {
    apart <- abs(a - b)
    switch(kernel,
      aitchisonaitken = ifelse(apart == 0, 1 - lambda, lambda / (r - 1)),
      liracine = ifelse(apart == 0, 1, lambda),
      ordered_liracine = lambda^apart,
      wangvanryzin = ifelse(apart == 0, 1 - lambda, (1 - lambda) * lambda^apart / 2)
    )
  })
  # each point's kernel sums to 1 over the levels
  k <- k / rep(colSums(k), each = r)
  k[y, x, drop = FALSE]
}

# The value of a check that failed: a text that says what is wrong.
problem <- function(...) structure(paste0(...), class = "fuzz_problem")

# Returns TRUE, or a problem that names the row of the largest difference. `bound` is the largest allowed difference of
# logarithms. It is relative to logarithms above 1 in size, and multiplied by the condition number of the sum.
compare_logs <- function(got, want, condition = 1, bound = 1e-11, what = "log density") {
  same <- got == want
  error <- abs(got - want) / (pmax(1, abs(want)) * condition)
  error[!is.na(same) & same | is.nan(got) & is.nan(want)] <- 0
  worst <- which.max(replace(error, is.na(error), Inf))
  if (isTRUE(error[worst] <= bound)) return(TRUE)
  problem(what, " of row ", worst, " is ", format(got[worst], digits = 17), ", not ", format(want[worst], digits = 17))
}

# Returns TRUE, or a problem that names the largest difference relative to `scale`.
compare_values <- function(got, want, bound = 1e-11, what = "value", scale = abs(want)) {
  error <- abs(got - want) / scale
  error[!is.na(got == want) & got == want] <- 0
  worst <- which.max(replace(error, is.na(error), Inf))
  if (isTRUE(error[worst] <= bound)) return(TRUE)
  problem(what, " ", worst, " is ", format(got[worst], digits = 17), ", not ", format(want[worst], digits = 17))
}
