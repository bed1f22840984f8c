# Checks that exact sums have the promised accuracy for clusters far apart.
#
#   Rscript bench/clusters.R [--backend cpu|cuda] [--precision double|single] [--points N] [--save]
#
# Points are in two clusters 1 to 10^14 apart, with one point beyond them. Targets are near each cluster, in its tails
# and at points; d from 1 to 16, bandwidths 0.3 and full matrices. Sums of every kernel with coefficients of both signs,
# log densities, Laplace-corrected densities, scores and leave-one-out densities are compared with literal formulas in
# plain R, which subtract the original points and whiten the differences. Prints the largest error of each by distance,
# and whether all are within their bounds: in double precision 1e-12 of the value; in single precision 3e-5 for sums in
# the L2 norm, and 1e-4 for logarithms and scores.

source("bench/common.R")
options(width = 160, flashkernel.progress = FALSE)

backend <- option("--backend", "cpu")
precision <- option("--precision", "double")
n <- as.integer(option("--points", 300))
control <- flash_control(backend = backend, precision = precision)
single <- precision != "double"
distances <- 10^(0:14)

kernels <- list(
  gaussian = \(r) exp(-r^2 / 2), laplacian = \(r) exp(-r), powered_exponential = \(r) exp(-r^1.4),
  matern32 = \(r) (1 + sqrt(3) * r) * exp(-sqrt(3) * r),
  matern52 = \(r) (1 + sqrt(5) * r + 5 * r^2 / 3) * exp(-sqrt(5) * r), cauchy = \(r) 1 / (1 + r^2),
  imq = \(r) 1 / sqrt(1 + r^2)
)

# ---- cases ------------------------------------------------------------------------------------

case_of <- function(d, distance, full) {
  set.seed(100 * d + full)
  A <- matrix(rnorm(d * d), d)
  H <- if (full) crossprod(A) / (10 * d) + diag(0.05, d) else diag(0.09, d)
  x <- matrix(rnorm(n * d), n)
  far <- sample(n, n / 4)
  x[far, ] <- x[far, ] + rep(distance * rnorm(d), each = length(far))
  x[1, ] <- 2 * distance
  at <- x[c(sample(n, 20), far[1:5]), , drop = FALSE]
  at <- rbind(at + 0.2 * rnorm(length(at)), x[1, ] + 0.4, x[1:5, , drop = FALSE] + 3, x[far[6:8], , drop = FALSE])
  list(x = x, at = at, L = t(chol(H)), bandwidth = if (full) H else 0.3, d = d, full = full)
}

# L^-1 (x_i - p) of every point, a column each.
differences <- function(case, p) {
  z <- t(case$x) - p
  if (case$full) forwardsolve(case$L, z) else z / 0.3
}

log_norm <- function(case) -case$d / 2 * log(2 * pi) - sum(log(diag(case$L)))

# ---- errors -----------------------------------------------------------------------------------

# Of sums, beside `size`, those of absolute terms; without those that underflow.
error_of <- function(got, want, size) {
  if (single) return(sqrt(sum((got - want)^2) / sum(size^2)))
  max((abs(got - want) / size)[size > 1e-290])
}

kernel_errors <- function(case) {
  b <- cbind(1, seq_len(n) %% 3 - 1)
  r <- apply(case$at, 1, \(p) sqrt(colSums(differences(case, p)^2)))
  vapply(names(kernels), function(kernel) {
    got <- kernel_sum(case$x, case$at, b, case$bandwidth, kernel, engine = "exact", control = control)
    k <- kernels[[kernel]](r)
    error_of(as.vector(got), as.vector(crossprod(k, b)), rep(colSums(k), 2))
  }, 0)
}

of_logs <- function(case, got, p, i = NULL) {
  q <- colSums(differences(case, p)^2) / 2
  if (!is.null(i)) q <- q[-i]
  want <- log(sum(exp(min(q) - q))) - min(q) - log(length(q)) + log_norm(case)
  abs(got - want) / max(1, abs(want))
}

estimate_errors <- function(case) {
  of <- \(estimator, ...) predict(
    flash_kde(case$x, estimator, case$bandwidth, adaptive = FALSE), ..., control = control
  )
  rows <- seq_len(nrow(case$at))
  logs <- of("kde", case$at, type = "log_density")
  score <- of("kde", case$at, type = "score")
  laplace <- of("laplace", case$at)
  own <- c(1, seq(5, n, length.out = 20))
  left_out <- of("kde", loo = TRUE, type = "log_density")
  inverse <- solve(case$L)
  of_row <- function(j) {
    u <- differences(case, case$at[j, ])
    q <- colSums(u^2) / 2
    w <- exp(min(q) - q) / sum(exp(min(q) - q))
    terms <- exp(-q + log_norm(case)) / n
    c(
      score = max(abs(matrix(score, ncol = case$d)[j, ] - crossprod(inverse, u %*% w))) /
        max(abs(inverse)) / max(1, sqrt(sum((u %*% w)^2))),
      want = sum(terms * (1 + case$d / 2 - q)), size = sum(terms * (1 + case$d / 2 + q))
    )
  }
  by_row <- vapply(rows, of_row, c(score = 0, want = 0, size = 0))
  c(
    log_density = max(vapply(rows, \(j) of_logs(case, logs[j], case$at[j, ]), 0)),
    left_out = max(vapply(own, \(i) of_logs(case, left_out[i], case$x[i, ], i), 0)),
    score = max(by_row["score", ]), laplace = error_of(laplace, by_row["want", ], by_row["size", ])
  )
}

# ---- the table --------------------------------------------------------------------------------

bench_start("clusters.R", "Exact sums of clusters far apart: largest errors by distance")
cat("backend ", backend, ", precision ", precision, ", ", n, " points\n\n", sep = "")
cases <- expand.grid(d = c(1, 2, 3, 5, 8, 16), full = c(FALSE, TRUE))
cases <- cases[cases$d > 1 | !cases$full, ]
table <- vapply(distances, function(distance) {
  errors <- Map(cases$d, cases$full, f = function(d, full) {
    case <- case_of(d, distance, full)
    c(kernel_errors(case), estimate_errors(case))
  })
  apply(do.call(cbind, errors), 1, max)
}, numeric(length(kernels) + 4))
table <- t(table)
rownames(table) <- paste0("1e", seq_along(distances) - 1)
print(signif(table, 2))
of_sums <- colnames(table) %in% c(names(kernels), "laplace")
promise <- if (single) ifelse(of_sums, 3e-5, 1e-4) else rep(1e-12, ncol(table))
share <- max(table / rep(promise, each = nrow(table)))
within <- share <= 1
verdict <- if (within) "Within" else "NOT within"
cat("\n", verdict, " the promise: the largest error is ", signif(share, 2), " of it\n", sep = "")
if (!within) quit(status = 1)
