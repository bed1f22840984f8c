# The examples of vignettes/articles/matrices.Rmd with many rows: kernel principal components, spectral clustering, kernel
# k-means and a linear system, in seconds, and whether the disc and the ring are told apart.
#
#   Rscript bench/matrices.R [--rows 1e6] [--tol 1e-6] [--backend cuda] [--save]

source("bench/common.R")
bench_start("matrices.R", "Kernel matrices of many rows")
options(flashkernel.progress = FALSE)
n <- as.numeric(option("--rows", 1e6))
control <- flash_control(backend = option("--backend", "auto"))
tol <- as.numeric(option("--tol", 1e-6))

set.seed(1)
ring <- seq_len(n) > 0.375 * n
angle <- stats::runif(n, 0, 2 * pi)
radius <- ifelse(ring, stats::rnorm(n, 3, 0.2), sqrt(stats::runif(n)))
x <- cbind(radius * cos(angle), radius * sin(angle))
apart <- \(cluster) max(mean((cluster == 1) == ring), mean((cluster == 2) == ring))
timed <- function(what, code, judge) {
  seconds <- system.time(value <- code)[[3]]
  cat(sprintf("%-34s %8.2f s  %s\n", what, seconds, judge(value)))
  invisible(value)
}

K <- kernel_operator(x, bandwidth = 0.4, tol = tol, control = control)
wide <- kernel_operator(x, bandwidth = 1.5, tol = tol, control = control)
cat(n, "rows\n")
timed("a product", wide %*% rep(1, n), \(v) "")
timed("principal components, k = 4", kernel_eigen(wide, k = 4, center = TRUE), \(found) {
  paste("shares", paste(sprintf("%.4f", found$values / n), collapse = " "))
})
clusters <- function() {
  s <- 1 / sqrt(rowSums(K))
  rows <- kernel_eigen(s * t(s * K), k = 4)$vectors[, 1:2]
  stats::kmeans(rows / sqrt(rowSums(rows^2)), 2, nstart = 5)$cluster
}
told <- \(cluster) sprintf("%.4f told apart", apart(cluster))
timed("spectral clustering", clusters(), told)
kernel_kmeans <- function(K, cluster, rounds = 50) {
  for (i in seq_len(rounds)) {
    member <- outer(cluster, 1:2, "==") * 1
    average <- sweep(member, 2, colSums(member), "/")
    between <- K %*% average
    nearest <- max.col(sweep(2 * between, 2, colSums(average * between)), "first")
    if (all(nearest == cluster)) break
    cluster <- nearest
  }
  cluster
}
start <- 1 + (rowSums(x^2) > 4)
start[sample(n, n / 5)] <- 1
timed("kernel k-means", kernel_kmeans(K, start), told)
z <- sin(x[, 1]) * x[, 2] + stats::rnorm(n, sd = sqrt(0.1))
noisy <- K
diag(noisy) <- diag(noisy) + 0.1
timed("solve(K + 0.1 I)", solve(noisy, z), \(a) sprintf("residual %.1e", sqrt(sum((noisy %*% a - z)^2) / sum(z^2))))
