# Clusters far apart: sums over differences of the points as they are beside literal formulas. A coordinate about one
# centre has lost digits that the differences of points in a cluster have.

distances <- 10^c(0, 2, 4, 6, 8, 10, 12, 14)

# Two clusters and a point beyond them; targets in each, and in their tails.
clusters <- function(d, distance, full, n = 60) {
  set.seed(7 * d + full)
  A <- matrix(stats::rnorm(d * d), d)
  H <- if (full) crossprod(A) / (10 * d) + diag(0.05, d) else diag(0.09, d)
  towards <- c(1, 0.7, -0.45)[seq_len(d)]
  x <- matrix(stats::rnorm(n * d), n)
  far <- (n / 2 + 1):n
  x[far, ] <- x[far, ] + rep(distance * towards, each = length(far))
  x[1, ] <- -2 * distance * towards
  at <- x[c(2, 3, n - 3:0), , drop = FALSE]
  at <- rbind(at + 0.3 * stats::rnorm(length(at)), x[n, ] + 2, x[1, ] + 0.5)
  list(x = x, at = at, H = H, bandwidth = if (full) H else 0.3, L = t(chol(H)), d = d, n = n, full = full)
}

# L^-1 (x_i - p), a column for each point: differences first.
whitened_differences <- function(case, p, L = case$L) forwardsolve(L, t(case$x) - p)
each_target <- function(case, value) vapply(seq_len(nrow(case$at)), \(j) value(case$at[j, ]), 0)
relative <- function(got, want) max(abs(got / want - 1)[abs(want) > 1e-290])

kde_of <- function(case, ...) flash_kde(case$x, ..., bandwidth = case$bandwidth, adaptive = FALSE)
shares_at <- function(case, p, L = case$L) {
  u <- whitened_differences(case, p, L)
  q <- colSums(u^2) / 2
  w <- exp(min(q) - q)
  list(u = u, w = w / sum(w), log_sum = log(sum(w)) - min(q))
}
log_norm <- function(case) -case$d / 2 * log(2 * pi) - sum(log(diag(case$L)))

# Each gives the largest error, relative to the value or, of derivatives, to the terms of their sum.
checks <- list()

checks$kernels <- function(case) {
  b <- cbind(1, seq_len(case$n) %% 3 - 1)
  errors <- vapply(names(ref_kernels), function(kernel) {
    got <- kernel_sum(case$x, case$at, b, case$bandwidth, kernel)
    k <- apply(case$at, 1, \(p) {
      u <- whitened_differences(case, p)
      ref_kernels[[kernel]](if (kernel == "product_laplacian") colSums(abs(u)) else sqrt(colSums(u^2)))
    })
    max(abs(plain_matrix(got) - t(k) %*% b) / colSums(k))
  }, 0)
  max(errors)
}

checks$log_density <- function(case) {
  want <- each_target(case, \(p) shares_at(case, p)$log_sum) - log(case$n) + log_norm(case)
  got <- predict(kde_of(case, "kde"), case$at, type = "log_density")
  max(abs(got - want) / pmax(1, abs(want)))
}

checks$left_out <- function(case) {
  want <- vapply(seq_len(case$n)[-1], \(i) {
    others <- replace(case, "x", list(case$x[-i, , drop = FALSE]))
    shares_at(others, case$x[i, ])$log_sum
  }, 0)
  got <- predict(kde_of(case, "kde"), loo = TRUE, type = "log_density")[-1]
  want <- want - log(case$n - 1) + log_norm(case)
  max(abs(got - want) / pmax(1, abs(want)))
}

checks$laplace <- function(case) {
  terms <- apply(case$at, 1, \(p) {
    q <- colSums(whitened_differences(case, p)^2) / 2
    c(sum(exp(-q) * (1 + case$d / 2 - q)), sum(exp(-q) * (1 + case$d / 2 + q)))
  })
  got <- predict(kde_of(case, "laplace"), case$at)
  max(abs(got - terms[1, ] * exp(log_norm(case)) / case$n) / (terms[2, ] * exp(log_norm(case)) / case$n))
}

checks$derivatives <- function(case) {
  fit <- kde_of(case, "kde")
  gradient <- kde_derivative(fit, case$at, log = TRUE)
  hessian <- kde_derivative(fit, case$at, order = 2, log = TRUE)
  inverse <- solve(case$L)
  max(vapply(seq_len(nrow(case$at)), function(j) {
    at <- shares_at(case, case$at[j, ])
    mean <- drop(at$u %*% at$w)
    second <- at$u %*% (at$w * t(at$u)) - tcrossprod(mean) - diag(case$d)
    size <- max(1, sum(mean^2))
    max(
      abs(gradient[j, ] - drop(t(inverse) %*% mean)) / max(abs(inverse)) / sqrt(size),
      abs(matrix(hessian[j, , ], case$d) - t(inverse) %*% second %*% inverse) / max(abs(inverse))^2 / size
    )
  }, 0))
}

checks$boxes <- function(case) {
  if (case$full) return(0)
  lower <- case$at - 0.8
  between <- \(a, b) ifelse(a > 0, stats::pnorm(-a) - stats::pnorm(-b), stats::pnorm(b) - stats::pnorm(a))
  want <- vapply(seq_len(nrow(case$at)), function(j) {
    z <- \(limit, k) (limit[j, k] - case$x[, k]) / 0.3
    mean(Reduce(`*`, lapply(seq_len(case$d), \(k) between(z(lower, k), z(case$at, k)))))
  }, 0)
  if (case$d == 1) { # of the whole line below
    want <- each_target(case, \(p) mean(stats::pnorm((p - case$x[, 1]) / 0.3)))
    return(relative(kde_cdf(kde_of(case, "kde"), case$at[, 1]), want))
  }
  relative(kde_cdf(kde_of(case, "kde"), case$at, lower = lower), want)
}

checks$bounded <- function(case) {
  if (case$full) return(0)
  reach <- 0.3 * sqrt(5)
  want <- each_target(case, \(p) {
    mean(apply(pmax(1 - ((t(case$x) - p) / reach)^2, 0) * 0.75 / reach, 2, prod))
  })
  got <- predict(flash_kde(case$x, "kde", 0.3, kernel = "epanechnikov", adaptive = FALSE), case$at)
  max(abs(got - want)) / max(want)
}

# Of the first column given the others.
checks$conditional <- function(case) {
  if (case$d == 1) return(0)
  data <- stats::setNames(as.data.frame(case$x), c("y", "a", "b")[seq_len(case$d)])
  fit <- flash_kde(stats::reformulate(names(data)[-1], "y"), data, "kde", bandwidth = case$bandwidth, adaptive = FALSE)
  at <- stats::setNames(as.data.frame(case$at), names(data))[, -1, drop = FALSE]
  slope <- drop(case$H[1, -1] %*% solve(case$H[-1, -1]))
  sd <- sqrt(case$H[1, 1] - sum(slope * case$H[-1, 1]))
  given <- replace(case, c("x", "L"), list(case$x[, -1, drop = FALSE], t(chol(case$H[-1, -1, drop = FALSE]))))
  middle <- quantile(fit, at, probs = 0.3)
  max(vapply(seq_len(nrow(at)), function(j) {
    w <- shares_at(given, case$at[j, -1])$w
    move <- colSums(slope * (t(given$x) - case$at[j, -1]))
    below <- \(y) sum(w * stats::pnorm((y - case$x[, 1] + move) / sd))
    ys <- case$at[j, 1] + c(-0.5, 0, 0.3)
    # to the nearest doubles
    step <- abs(middle[j]) * 2^-51
    ends <- c(below(middle[j] - step), below(middle[j] + step))
    off <- max(ends[1] - 0.3, 0.3 - ends[2], 0)
    max(abs(kde_cdf(fit, ys, at[j, , drop = FALSE]) - vapply(ys, below, 0)), off)
  }, 0))
}

checks$regression <- function(case) {
  y <- sin(seq_len(case$n))
  at <- case$at[1:6, , drop = FALSE]
  L <- 3 * case$L
  H <- tcrossprod(L)
  linear <- function(p) {
    near <- shares_at(case, p, L)
    mean <- drop(near$u %*% near$w)
    v <- near$u - mean
    slope <- solve(v %*% (near$w * t(v)), v %*% (near$w * y))
    sum(near$w * y) - sum(slope * mean)
  }
  of_type <- function(type, value) {
    fit <- kernel_regression(case$x, y, bandwidth = if (case$d == 1) sqrt(H[1, 1]) else H, type = type)
    max(abs(predict(fit, at) - apply(at, 1, value)))
  }
  max(
    of_type("constant", \(p) sum(shares_at(case, p, L)$w * y)),
    # by a system that is no better than its condition
    of_type("local_linear", linear) / 10
  )
}

plain_matrix <- \(x) matrix(as.vector(x), nrow(x))

test_that("sums keep their digits however far apart clusters are", {
  for (d in 1:3) for (full in unique(c(FALSE, d > 1))) {
    for (name in names(checks)) {
      errors <- vapply(distances, \(distance) checks[[name]](clusters(d, distance, full)), 0)
      label <- paste0(name, ", d = ", d, if (full) ", full H", ": error ", signif(max(errors), 2))
      expect_lte(max(errors), 1e-12, label = label)
    }
  }
})

test_that("modes of clusters far apart are those of the clusters", {
  case <- clusters(2, 1e8, FALSE)
  found <- as.matrix(kde_modes(flash_kde(case$x, "kde", bandwidth = 0.6, adaptive = FALSE))[, 1:2])
  for (j in seq_len(nrow(found))) {
    near <- shares_at(case, found[j, ], diag(0.6, 2))
    expect_lte(max(abs(near$u %*% near$w)), 2^-51 * max(abs(found[j, ])) / 0.6 + 1e-6)
  }
})

test_that("masses inside a polygon far out are those of the differences", {
  set.seed(2)
  p <- matrix(round(stats::runif(60) * 2^12) / 2^10, 30)
  want <- apply(p, 1, \(at) prod(stats::pnorm((4 - at) / 0.3) - stats::pnorm(-at / 0.3)))
  ring <- rbind(c(0, 0), c(4, 0), c(4, 4), c(0, 4), c(0, 0))
  run <- start_run(fit_asked(kde_of(clusters(1, 1, FALSE), "kde")))
  for (away in c(0, 2^20, 2^30, 2^40)) {
    got <- polygon_mass(p + away, list(ring + away), diag(0.3, 2), NULL, run)
    expect_lte(max(abs(got / want - 1)), 1e-12, label = paste("away", away))
  }
})

test_that("distances to neighbours are those of the differences", {
  run <- start_run(fit_asked(kde_of(clusters(1, 1, FALSE), "kde")))
  for (d in 1:3) for (distance in distances) {
    case <- clusters(d, distance, d > 1)
    apart <- \(p) sort(sqrt(colSums(whitened_differences(case, p)^2)))
    own <- kth_distances(whitened_columns(case$x, case$L), NULL, 5, run)
    there <- kth_distances(whitened_columns(case$x, case$L), whitened_columns(case$at, case$L), 5, run)
    want <- c(apply(case$x, 1, \(p) apart(p)[6]), apply(case$at, 1, \(p) apart(p)[5]))
    error <- max(abs(c(own, there) / want - 1))
    expect_lte(error, 1e-12, label = paste("d =", d, "distance", distance, "error", signif(error, 2)))
  }
})
