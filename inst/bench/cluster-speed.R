# What a cluster takes, and what it gains: seconds of a request, of 10^9 pairs beside one process, of grids that are added;
# and with GPUs, a worker each, beside one worker and one process.
#
#   Rscript inst/bench/cluster-speed.R [--gpu]
library(flashkernel)

options(flashkernel.progress = FALSE)
seconds <- \(work) system.time(work)[["elapsed"]]
normal <- \(n, d) matrix(stats::rnorm(n * d), ncol = d)
set.seed(1)

# ---- requests ---------------------------------------------------------------------------------

# Milliseconds, in one computation: of a request that does nothing, of one to all workers, of a normal product.
requests <- function(count) {
  workers <- parallel::makeCluster(count)
  on.exit(parallel::stopCluster(workers))
  x <- normal(2e4, 5)
  data <- flash_data(x, workers)
  small <- flash_data(matrix(0, 8, 1), workers)
  op <- kernel_operator(x[1:2000, ], data, bandwidth = 2, tol = 0, backend = "cpu")
  v <- stats::rnorm(2000)
  normal_product(op, v)
  internal <- asNamespace("flashkernel")
  each <- function(times, work) {
    internal$hold_pool(internal$pool_of(workers))
    1e3 * seconds(for (i in seq_len(times)) work()) / times
  }
  cat(sprintf(
    "%d workers: a request %.2f ms, one to all %.2f ms, normal product of 2e4 x 2e3 %.1f ms\n", count,
    each(200, \() internal$over_shards(small, "keep", shards = 1)), each(100, \() summary(small)),
    each(30, \() normal_product(op, v))
  ))
}
for (count in c(2, 4)) requests(count)

# ---- pairs and grids, two workers -------------------------------------------------------------

workers <- parallel::makeCluster(2)
x <- normal(1e5, 3)
y <- normal(1e4, 3)
data <- flash_data(x, workers)
product <- \(x, threads) kernel_matvec(x, y, bandwidth = 0.3, tol = 0, engine = "exact", backend = "cpu", threads = threads)
for (round in 1:3) {
  cat(sprintf("10^9 pairs: two workers %.2f s, two threads %.2f s\n", seconds(product(data, 1)), seconds(product(x, 2))))
}
x <- matrix(stats::runif(1.2e6), ncol = 3)
y <- matrix(stats::runif(3000), ncol = 3)
exact <- kernel_matvec(x, y, bandwidth = 0.05, tol = 0)
here <- kernel_matvec(flash_data(x), y, bandwidth = 0.05, tol = 1e-6)
there <- kernel_matvec(flash_data(x, workers), y, bandwidth = 0.05, tol = 1e-6)
cat(sprintf("grids of shards: error %.1e, same bits: %s\n", max(abs(here - exact)) / max(exact), identical(here, there)))

# ---- GPUs -------------------------------------------------------------------------------------

if ("--gpu" %in% commandArgs()) {
  gpu <- \(cluster = NULL, ...) flash_control(backend = "cuda", cluster = cluster, ...)
  x <- normal(2e6, 16)
  y <- x[1:1e6, ] + 0.01
  kinds <- list(process = gpu(), "all devices" = gpu(devices = "all"), "one worker" = gpu(workers[1]), "two workers" = gpu(workers))
  fit <- flash_kde(x, "sdkde", bandwidth = 0.8, control = gpu())
  for (round in 1:3) {
    for (kind in names(kinds)) {
      cat(sprintf(
        "%-12s SD-KDE of 2e6 x 16 %.2f s, at 1e6 places %.2f s\n", kind,
        seconds(flash_kde(x, "sdkde", bandwidth = 0.8, control = kinds[[kind]])),
        seconds(predict(fit, y, control = kinds[[kind]]))
      ))
    }
  }
  # rows as many and as wide as SUSY's, with a sixteenth of them in a shard
  make <- function(shard) {
    set.seed(shard)
    x <- matrix(stats::rnorm(18 * 312500), ncol = 18, dimnames = list(NULL, paste0("v", 1:18)))
    cbind(x, y = sign(x[, 1] + x[, 2]^2 - 1 + stats::rnorm(nrow(x))))
  }
  regression <- function(cluster) {
    rows <- flash_data(make, cluster, shards = 16, response = "y")
    set.seed(2)
    falkon(rows, bandwidth = 4, centers = 1e4, lambda = 1e-6, max_iter = 10, control = gpu())
  }
  for (round in 1:2) {
    fits <- lapply(list(workers[1], workers), \(cluster) regression(cluster))
    cat(sprintf(
      "Falkon, 5e6 x 18, m = 1e4: iterations of one worker %.2f s, of two %.2f s, same bits: %s\n",
      fits[[1]]$seconds[["iterations"]], fits[[2]]$seconds[["iterations"]],
      identical(fits[[1]]$coefficients, fits[[2]]$coefficients)
    ))
  }
}
parallel::stopCluster(workers)
