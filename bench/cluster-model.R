# Models the time of clusters of up to 1,024 workers, from costs measured here and the H200 rates of NOTES.md, for 10^12
# points in three dimensions to 1e-5, and for an iteration of Falkon with 10^10 rows and 10^5 centres. Shows what limits
# the speed if partial results go to one master (flat), or are added by intermediate masters
# (flashkernel:::nested_cluster()) in two levels (32 x 32) or three.
#
#   Rscript bench/cluster-model.R [folder]
source("bench/common.R")

folder <- c(arguments, "bench/results")[1]

# ---- measured ---------------------------------------------------------------------------------


# Seconds of the master's for a request and its answer, as one of several (those of one more worker), and of a call as a
# whole, in CPU time, which other work on the machine disturbs least.
measure_requests <- function() {
  taken <- vapply(c(1, 4), function(count) {
    workers <- parallel::makeCluster(count)
    on.exit(parallel::stopCluster(workers))
    data <- flash_data(matrix(0, count, 1), workers, shard_rows = 1)
    internal <- asNamespace("flashkernel")
    ask <- function(times) {
      internal$hold_pool(internal$pool_of(workers))
      cpu_seconds(for (i in seq_len(times)) internal$over_shards(data, "describe")) / times
    }
    ask(50)
    ask(500)
  }, 0)
  c(request = diff(taken) / 3, call = taken[1] - diff(taken) / 3)
}

# Numbers a second that are added where partial sums come together.
measure_merge <- function() {
  a <- stats::runif(2e7)
  2e7 / min(vapply(1:5, \(i) cpu_seconds(a + a), 0))
}

# Points a second of a core onto a grid in three dimensions, to 1e-5.
measure_grid <- function() {
  x <- matrix(stats::runif(3e6), ncol = 3)
  1e6 / cpu_seconds(kernel_sum(x, x[1:1000, ], bandwidth = 0.05, tol = 1e-5, control = flash_control(threads = 1)))
}

set.seed(1)
cost <- c(measure_requests(), merge = measure_merge(), grid_core = measure_grid())

# ---- from NOTES.md ----------------------------------------------------------------------------

h200 <- list(grid = 1e9 / 0.49, kernels = 3.1e12) # points in three dimensions from memory; kernels of a normal product
network <- 1.25e9 # bytes a second of a host, 10 Gbit/s
latency <- 1e-4

# ---- the model --------------------------------------------------------------------------------

# The slowest of W workers whose times spread by 5 %, with work in 8 pieces each that idle ones take over.
straggling <- function(W) 1 + 0.05 * sqrt(2 * log(W)) / 8

# The workers of each master, for so many levels; where a level would be of two or less it is left out.
fan <- function(W, levels) {
  levels <- min(levels, max(1, floor(log2(W) / 2)))
  list(levels = levels, workers = ceiling(round(W^(1 / levels), 8)))
}

# Seconds until `bytes` from each of W workers are one sum with the master: its link, its requests, its additions.
gather <- function(W, bytes, levels) {
  tree <- fan(W, levels)
  each <- c(link = bytes / network, requests = cost[["request"]], additions = bytes / 8 / cost[["merge"]])
  tree$levels * (tree$workers * each + c(latency, cost[["call"]], 0))
}

# Seconds until they have what is sent to all.
broadcast <- function(W, bytes, levels) {
  tree <- fan(W, levels)
  tree$levels * (tree$workers * bytes / network + latency)
}

# The parts of an iteration, or of all, in seconds.
workloads <- list(
  "10^12 points, d = 3, to 1e-5: a grid of 2e7 nodes" = function(W, levels) {
    c(
      compute = 1e12 / W / h200$grid * straggling(W), gather(W, 8 * 2e7, levels), broadcast = broadcast(W, 8e6, levels)
    )
  },
  "Falkon, 10^10 rows, 10^5 centres, an iteration" = function(W, levels) {
    c(compute = 1e15 / W / h200$kernels * straggling(W), gather(W, 8e5, levels), broadcast = broadcast(W, 8e5, levels))
  }
)
counts <- 2^(0:10)
ways <- c(flat = 1, "two levels" = 2, "three levels" = 3)
names_of_parts <- c("compute", "link", "requests", "additions", "broadcast")
table <- do.call(rbind, lapply(names(workloads), \(name) do.call(rbind, lapply(names(ways), \(way) {
  parts <- t(vapply(counts, \(W) workloads[[name]](W, ways[[way]])[names_of_parts], numeric(5)))
  binds <- names_of_parts[max.col(parts, "first")]
  data.frame(workload = name, way = way, workers = counts, parts, total = rowSums(parts), binds = binds)
}))))
# of the time of one worker, divided by their number
table$efficiency <- with(table, ave(total * (workers == 1), workload, way, FUN = max) / workers / total)

cat(date(), ", ", Sys.info()[["nodename"]], ", ", parallel::detectCores(), " cores\n", sep = "")
print(signif(cost, 3))
shown <- table[table$workers %in% c(1, 8, 32, 64, 256, 1024), -1]
for (name in names(workloads)) {
  cat("\n", name, "\n", sep = "")
  of <- shown[table$workload[as.integer(rownames(shown))] == name, ]
  of[c(3:8, 10)] <- signif(of[c(3:8, 10)], 3)
  print(of, row.names = FALSE)
}
utils::write.csv(table, file.path(folder, "cluster-model.csv"), row.names = FALSE)

colours <- c("#D55E00", "#0072B2", "#009E73")
grDevices::png(file.path(folder, "cluster-model.png"), 1400, 600, res = 110)
graphics::par(mfrow = c(1, 2), mar = c(4.5, 4.5, 3, 1), las = 1)
for (name in names(workloads)) {
  of <- table[table$workload == name, ]
  graphics::plot(NULL, xlim = c(1, 1024), ylim = range(of$total, of$compute), log = "xy", xlab = "workers, an H200 each",
    ylab = "seconds", main = name, cex.main = 0.95)
  for (k in seq_along(ways)) {
    one <- of[of$way == names(ways)[k], ]
    graphics::lines(one$workers, one$total, lwd = 2, col = colours[k])
    # hollow where the kernels are not what takes longest
    graphics::points(one$workers, one$total, pch = ifelse(one$binds == "compute", 16, 1), col = colours[k])
  }
  graphics::lines(one$workers, one$compute, lty = 2)
  graphics::legend("bottomleft", c(names(ways), "kernels alone", "something else takes longest"), lwd = c(2, 2, 2, 1, NA),
    lty = c(1, 1, 1, 2, NA), pch = c(NA, NA, NA, NA, 1), col = c(colours, "black", "black"), bty = "n")
}
invisible(grDevices::dev.off())
