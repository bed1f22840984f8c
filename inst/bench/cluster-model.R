# What a cluster of up to 1,000 workers would take, from costs that are measured here and rates of an H200 from NOTES.md:
# 10^12 points in three dimensions to 1e-5, and an iteration of Falkon with 10^10 rows and 10^5 centres. What binds, when
# partial results go to the master one by one (flat), or are added up on the way (a tree of workers)?
#
#   Rscript inst/bench/cluster-model.R [folder]
library(flashkernel)

folder <- c(commandArgs(TRUE), file.path("inst", "bench", "results"))[1]

# ---- measured ---------------------------------------------------------------------------------

# Seconds of a request that does nothing, and bytes a second through a socket, both on this machine.
measure_cluster <- function() {
  workers <- parallel::makeCluster(1)
  on.exit(parallel::stopCluster(workers))
  data <- flash_data(matrix(0, 8, 1), workers)
  internal <- asNamespace("flashkernel")
  held <- function(work) {
    internal$hold_pool(internal$pool_of(workers))
    work()
  }
  request <- held(\() system.time(for (i in 1:200) internal$over_shards(data, "keep", shards = 1))[["elapsed"]] / 200)
  numbers <- stats::runif(4e6)
  send <- held(\() {
    system.time(internal$over_shards(data, "keep", list(at = numbers), shards = 1))[["elapsed"]]
  })
  c(request = request, bytes_per_second = 8 * length(numbers) / (send - request))
}

# Numbers a second that are added where partial sums come together.
measure_merge <- function() {
  a <- stats::runif(2e7)
  2e7 / stats::median(vapply(1:3, \(i) system.time(a + a)[["elapsed"]], 0))
}

# Points a second of a core onto a grid in three dimensions, to 1e-5.
measure_grid <- function() {
  x <- matrix(stats::runif(3e6), ncol = 3)
  1e6 / system.time(kernel_matvec(x, x[1:1000, ], bandwidth = 0.05, tol = 1e-5, threads = 1))[["elapsed"]]
}

set.seed(1)
cost <- c(measure_cluster(), merge = measure_merge(), grid_core = measure_grid())

# ---- from NOTES.md ----------------------------------------------------------------------------

h200 <- list(grid = 1e9 / 0.49, kernels = 3.1e12) # points in three dimensions from memory; kernels of a normal product
network <- 1.25e9 # bytes a second of a host, 10 Gbit/s
latency <- 1e-4

# ---- the model --------------------------------------------------------------------------------

# The slowest of W workers whose times spread by 5 %, with work in 8 pieces each that idle ones take over.
straggling <- function(W) 1 + 0.05 * sqrt(2 * log(W)) / 8

# Seconds until `bytes` from each of W workers are one sum with the master.
gather <- function(W, bytes, way) {
  links <- if (way == "flat") W else ceiling(log2(W + 1))
  links * (bytes / network + cost[["request"]] + bytes / 8 / cost[["merge"]])
}
broadcast <- function(W, bytes, way) (if (way == "flat") W else ceiling(log2(W + 1))) * (bytes / network + latency)

workloads <- list(
  "10^12 points, d = 3, to 1e-5: a grid of 2e7 nodes" = function(W, way) {
    c(compute = 1e12 / W / h200$grid * straggling(W), gather = gather(W, 8 * 2e7, way), broadcast = broadcast(W, 8e6, way))
  },
  "Falkon, 10^10 rows, 10^5 centres, an iteration" = function(W, way) {
    c(compute = 1e15 / W / h200$kernels * straggling(W), gather = gather(W, 8e5, way), broadcast = broadcast(W, 8e5, way))
  }
)
counts <- 2^(0:10)
counts[11] <- 1000
table <- do.call(rbind, lapply(names(workloads), \(name) do.call(rbind, lapply(c("flat", "tree"), \(way) {
  parts <- t(vapply(counts, \(W) workloads[[name]](W, way), c(compute = 0, gather = 0, broadcast = 0)))
  data.frame(workload = name, way = way, workers = counts, parts, total = rowSums(parts))
}))))

print(signif(cost, 3))
shown <- table[table$workers %in% c(1, 8, 64, 512, 1000), ]
shown[4:7] <- signif(shown[4:7], 3)
print(shown, row.names = FALSE)
utils::write.csv(table, file.path(folder, "cluster-model.csv"), row.names = FALSE)

grDevices::png(file.path(folder, "cluster-model.png"), 1400, 600, res = 110)
graphics::par(mfrow = c(1, 2), mar = c(4.5, 4.5, 3, 1), las = 1)
for (name in names(workloads)) {
  of <- table[table$workload == name, ]
  graphics::plot(NULL, xlim = c(1, 1000), ylim = range(of$total, of$compute), log = "xy", xlab = "workers, an H200 each",
    ylab = "seconds", main = name, cex.main = 0.95)
  for (way in c("flat", "tree")) {
    one <- of[of$way == way, ]
    graphics::lines(one$workers, one$total, lwd = 2, col = if (way == "flat") "#D55E00" else "#0072B2")
  }
  graphics::lines(one$workers, one$compute, lty = 2)
  graphics::legend("bottomleft", c("flat gather", "tree", "computing alone"), lwd = c(2, 2, 1), lty = c(1, 1, 2),
    col = c("#D55E00", "#0072B2", "black"), bty = "n")
}
invisible(grDevices::dev.off())
