# The cost of kernel_ridge() on workers beyond its kernels: requests and bytes of an iteration of conjugate gradients
# with 2,000 centres; and fits to rows in shards compared with fits to the same rows in memory of one process, by
# processor time.
#
#   Rscript bench/cluster-falkon.R [--gpu]
#
# With --gpu: Falkon at the size of SUSY on one and on two workers, with one GPU each.
source("bench/common.R")

options(flashkernel.progress = FALSE)
internal <- asNamespace("flashkernel")
gpu <- "--gpu" %in% arguments
set.seed(1)
normal <- \(n, d) matrix(stats::rnorm(n * d), ncol = d)

# ---- an iteration -----------------------------------------------------------------------------

workers <- parallel::makeCluster(2)
n <- 400
m <- 2000
data <- flash_data(cbind(normal(n, 18), y = stats::rnorm(n)), workers, shard_rows = n / 8, response = "y")
run <- internal$start_run(internal$settle_control(flash_control(threads = 1)))
L <- diag(18)
kernel <- internal$check_kernel("gaussian")
rows <- internal$ridge_rows(data, L, kernel)
centers <- internal$ridge_centers(normal(m, 18), L, kernel)
v <- matrix(stats::rnorm(m))
iterations <- function(times) {
  internal$hold_rows(rows)
  sources <- internal$sum_sources(data, NULL, L, kernel)
  product <- \() internal$normal_product_of(centers$sources, sources, v, NULL, NULL, run)
  product()
  done <- internal$watch_workers(workers)
  wall <- replicate(times, system.time(product(), gcFirst = FALSE)[["elapsed"]])
  list(wall = wall, done = done())
}
found <- iterations(300)
done <- colSums(found$done[c("requests", "bytes", "seconds")])
cat(sprintf(
  "iteration, m = %d, 2 workers: %.2f requests a worker, %.1f kB a worker, %.2f ms at least and %.2f in the median, of which a worker computes %.2f\n",
  m, done[["requests"]] / 600, done[["bytes"]] / 600 / 1000, 1e3 * min(found$wall), 1e3 * stats::median(found$wall),
  1e3 * done[["seconds"]] / 600
))

# ---- fits in this process ---------------------------------------------------------------------

n <- 20000
x <- normal(n, 8)
y <- sin(2 * x[, 1]) + x[, 2]
responses <- list(squared = y, logistic = factor(y + stats::rnorm(n) / 2 > 0), three = cut(y, c(-Inf, -0.5, 0.5, Inf)))
for (name in names(responses)) {
  there <- flash_data(data.frame(x, y = responses[[name]]), shard_rows = n / 8, response = "y")
  control <- flash_control(threads = 1, backend = "cpu")
  fit <- function(...) {
    set.seed(1)
    kernel_ridge(..., bandwidth = 3, lambda = 1e-5, centers = 1600, solver = list(iterations = 20), control = control)
  }
  seconds <- replicate(3, c(memory = cpu_seconds(fit(x, responses[[name]])), shards = cpu_seconds(fit(there))))
  cat(sprintf("%-8s in memory %.2f s, in shards %.2f s of a processor\n", name, min(seconds[1, ]), min(seconds[2, ])))
}

# ---- GPUs -------------------------------------------------------------------------------------

if (gpu) {
  n <- 4.5e6
  shard <- function(number) {
    set.seed(number)
    x <- matrix(stats::rnorm(n / 32 * 18), ncol = 18)
    y <- x[, 1] * x[, 2] + sin(x[, 3]) + stats::rnorm(n / 32)
    list(x = x, response = if (classes) factor(y > 0, c(FALSE, TRUE)) else matrix(y))
  }
  environment(shard) <- list2env(list(n = n), parent = globalenv())
  for (classes in c(FALSE, TRUE)) {
    environment(shard)$classes <- classes
    taken <- vapply(list(one = workers[1], two = workers), \(cluster) {
      there <- flash_data(shard, cluster, shards = 32)
      fit <- function() {
        set.seed(1)
        kernel_ridge(there, bandwidth = 4, lambda = 1e-6, centers = 10000, solver = list(iterations = 10, tolerance = 1e-30), control = flash_control(backend = "cuda"))
      }
      fit()
      system.time(fitted <- fit())[["elapsed"]]
    }, 0)
    cat(sprintf(
      "%s, n = 4.5e6, d = 18, m = 10^4: one worker %.1f s, two %.1f s, %.2f times\n",
      if (classes) "logistic" else "ridge", taken[[1]], taken[[2]], taken[[1]] / taken[[2]]
    ))
  }
}
parallel::stopCluster(workers)
