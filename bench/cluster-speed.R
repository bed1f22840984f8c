# Cost and gain of a cluster: milliseconds of a Falkon iteration compared with its work; seconds of 10^9 pairs, and of
# grids that are added, compared with one process; and with GPUs, one per worker, compared with one worker and with one
# process (two GPUs: 4 minutes).
#
#   Rscript bench/cluster-speed.R [--gpu]
source("bench/common.R")

options(flashkernel.progress = FALSE)
seconds <- \(work) system.time(work)[["elapsed"]]
normal <- \(n, d) matrix(stats::rnorm(n * d), ncol = d)
set.seed(1)

# ---- requests ---------------------------------------------------------------------------------

internal <- asNamespace("flashkernel")

# Milliseconds, of so many calls in one computation: least, median, and of this process's CPU.
each <- function(workers, times, work) {
  internal$hold_pool(internal$pool_of(workers))
  for (i in 1:20) work()
  cpu <- system.time(taken <- vapply(seq_len(times), \(i) seconds_of(work), 0))
  1e3 * c(min(taken), stats::median(taken), sum(cpu[1:2]) / times)
}
seconds_of <- function(work) {
  started <- Sys.time()
  work()
  as.double(Sys.time() - started, units = "secs")
}

# What an iteration of Falkon with 2,000 centres takes beside kernels: one with a row for each worker, less what writing
# and reading its numbers there and back takes.
iteration <- function(count) {
  workers <- parallel::makeCluster(count)
  on.exit(parallel::stopCluster(workers))
  data <- flash_data(normal(count, 5), workers, shard_rows = 1)
  small <- flash_data(matrix(0, count, 1), workers, shard_rows = 1)
  op <- kernel_operator(
    normal(2000, 5), data, bandwidth = 2, tol = 0,
    control = flash_control(backend = "cpu", threads = 1)
  )
  v <- stats::rnorm(2000)
  product <- each(workers, 500, \() flashkernel:::normal_product(op, v))
  empty <- each(workers, 500, \() internal$over_shards(small, "keep", shards = 1))
  link <- echo(workers[1], v, 500)
  cat(sprintf(
    paste0(
      "%d workers: a request %.2f ms; a normal product of m = 2000 least %.2f, median %.2f, CPU here %.2f ms;",
      " its numbers there and back %.3f ms a worker; beside that %.2f ms a worker\n"
    ),
    count, empty[1], product[1], product[2], product[3], link, product[1] / count - link
  ))
}

# Milliseconds of these numbers to a worker and back, by a loop there that does nothing else.
echo <- function(worker, v, times) {
  connection <- worker[[1]]$con
  loop <- function() {
    master <- getFromNamespace("master_loop", "flashkernel")()$master
    writeBin(serialize(0, NULL, xdr = FALSE), master)
    while (!is.null(v <- unserialize(master))) writeBin(serialize(v, NULL, xdr = FALSE), master)
  }
  environment(loop) <- asNamespace("utils")
  there <- function(v) {
    writeBin(serialize(v, NULL, xdr = FALSE), connection)
    unserialize(connection)
  }
  there(internal$call_message(loop, list()))
  taken <- vapply(seq_len(times), \(i) seconds_of(\() there(v)), 0)
  there(NULL)
  1e3 * min(taken)
}
for (count in c(1, 2, 4, 8)) iteration(count)

# ---- pairs and grids, two workers -------------------------------------------------------------

workers <- parallel::makeCluster(2)
x <- normal(1e5, 3)
y <- normal(1e4, 3)
data <- flash_data(x, workers)
product <- \(x, threads) kernel_sum(
  x, y, bandwidth = 0.3, tol = 0,
  control = flash_control(engine = "exact", backend = "cpu", threads = threads)
)
# in turn: other work on the machine meets both
times <- vapply(1:9, \(round) c(seconds(product(data, 1)), seconds(product(x, 2))), c(0, 0))
cat(sprintf(
  "10^9 pairs: two workers %.3f s, two threads %.3f s (least of 9); %.2f times (median of the rounds)\n",
  min(times[1, ]), min(times[2, ]), stats::median(times[1, -1] / times[2, -1])
))
x <- matrix(stats::runif(1.2e6), ncol = 3)
y <- matrix(stats::runif(3000), ncol = 3)
exact <- kernel_sum(x, y, bandwidth = 0.05, tol = 0)
here <- kernel_sum(flash_data(x), y, bandwidth = 0.05, tol = 1e-6)
there <- kernel_sum(flash_data(x, workers), y, bandwidth = 0.05, tol = 1e-6)
cat(sprintf("grids of shards: error %.1e, same bits: %s\n", max(abs(here - exact)) / max(exact), identical(here, there)))

# ---- GPUs -------------------------------------------------------------------------------------

if ("--gpu" %in% arguments) {
  gpu <- \(cluster = NULL, ...) flash_control(backend = "cuda", cluster = cluster, ...)
  x <- normal(2e6, 16)
  y <- x[1:1e6, ] + 0.01
  kinds <- list(process = gpu(), "all devices" = gpu(devices = "all"), "one worker" = gpu(workers[1]), "two workers" = gpu(workers))
  fit <- flash_kde(x, "sdkde", bandwidth = 0.8, control = gpu())
  taken <- array(NA_real_, c(2, length(kinds), 3), list(NULL, names(kinds), NULL))
  for (round in 1:3) {
    for (kind in names(kinds)) {
      taken[, kind, round] <- c(
        seconds(flash_kde(x, "sdkde", bandwidth = 0.8, control = kinds[[kind]])),
        seconds(predict(fit, y, control = kinds[[kind]]))
      )
      cat(sprintf("%-12s SD-KDE of 2e6 x 16 %.2f s, at 1e6 places %.2f s\n", kind, taken[1, kind, round], taken[2, kind, round]))
    }
  }
  gain <- apply(taken[, "one worker", -1] / taken[, "two workers", -1], 1, max)
  cat(sprintf("two workers beside one, better of rounds 2 and 3: SD-KDE %.2f times, densities %.2f times\n", gain[1], gain[2]))
  # rows as many and as wide as SUSY's, with a sixteenth of them in a shard
  make <- function(shard) {
    set.seed(shard)
    x <- matrix(stats::rnorm(18 * 312500), ncol = 18, dimnames = list(NULL, paste0("v", 1:18)))
    cbind(x, y = sign(x[, 1] + x[, 2]^2 - 1 + stats::rnorm(nrow(x))))
  }
  regression <- function(cluster) {
    rows <- flash_data(make, cluster, shards = 16, response = "y")
    set.seed(2)
    kernel_ridge(rows, bandwidth = 4, centers = 1e4, lambda = 1e-6, solver = list(iterations = 10), control = gpu())
  }
  for (round in 1:3) {
    fits <- lapply(list(workers[1], workers), \(cluster) regression(cluster))
    cat(sprintf(
      "Falkon, 5e6 x 18, m = 1e4: iterations of one worker %.2f s, of two %.2f s, same bits: %s\n",
      fits[[1]]$seconds[["iterations"]], fits[[2]]$seconds[["iterations"]],
      identical(fits[[1]]$coefficients, fits[[2]]$coefficients)
    ))
  }
}
parallel::stopCluster(workers)
