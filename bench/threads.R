# Measures the speed with several threads, and checks that the bits of the result do not depend on their number.

source("bench/common.R")
bench_start("threads.R", "Scaling with threads")

n <- 32768
m <- 8192
counts <- unique(c(1, 2, 2^(2:7)[2^(2:7) <= parallel_cores()], parallel_cores()))
for (d in c(2, 16)) {
  x <- normal_points(n, d, 1)
  y <- normal_points(m, d, 2)
  h <- common_bandwidth(n, d)
  for (task in c("kde", "debias")) {
    run <- function(threads) {
      if (task == "debias") return(flash_kde(x, "sdkde", bandwidth = h, control = flash_control(precision = "double", threads = threads))$debiased)
      predict(flash_kde(x, "kde", bandwidth = h, control = flash_control(precision = "double", threads = threads)), y)
    }
    seconds <- medians(stats::setNames(lapply(counts, \(k) \() run(k)), counts), runs = 5)
    cat(sprintf("%s, d = %d\n", c(kde = "density", debias = "score pass of sdkde (symmetric)")[[task]], d))
    show_table(data.frame(threads = counts, seconds = sprintf("%.3f", seconds),
                          `times one thread` = sprintf("%.2f", seconds[[1]] / seconds), check.names = FALSE))
    same <- identical(run(1), run(max(counts)))
    cat(sprintf("same bits with 1 and %d threads: %s\n\n", max(counts), if (same) "yes" else "NO"))
  }
}

# Two threads beside one, on an idle machine and with other programs that each want a processor all the time: not
# more than 1.1 times as long then.
compete <- function(pin) {
  command <- "while :; do :; done"
  where <- if (is.na(pin)) "" else paste("taskset -c", pin)
  system(sprintf("%s sh -c '%s' >/dev/null 2>&1 & echo $!", where, command), intern = TRUE)
}

set.seed(1)
cube <- matrix(stats::runif(3e6), ncol = 3)
plane <- normal_points(2000, 2, 3)
wide <- normal_points(32768, 16, 1)
queries <- normal_points(4096, 16, 2)
fast <- function(x, h, threads) {
  kernel_sum(x, bandwidth = h, tol = 1e-6, control = flash_control(engine = "fast", threads = threads, backend = "cpu"))
}
work <- list(
  `fit, 2,000 rows, d = 2` = \(threads) flash_kde(plane, control = flash_control(threads = threads, backend = "cpu")),
  `20 sums of 2,000 rows, d = 2` = \(threads) for (i in 1:20) kernel_sum(
    plane, bandwidth = 0.3, tol = 0,
    control = flash_control(threads = threads, backend = "cpu")
  ),
  `density, n = 32,768, m = 4,096, d = 16` = \(threads) {
    predict(flash_kde(wide, "kde", bandwidth = 0.6, control = flash_control(threads = threads, backend = "cpu")), queries)
  },
  `SD-KDE, n = 32,768, m = 4,096, d = 16` = \(threads) {
    predict(flash_kde(wide, "sdkde", bandwidth = 0.6, control = flash_control(threads = threads, backend = "cpu")), queries)
  },
  `grid, 10^6 points, d = 1` = \(threads) fast(cube[, 1, drop = FALSE], 1 / 30, threads),
  `grid, 10^6 points, d = 2` = \(threads) fast(cube[, 1:2], 1 / 30, threads),
  `grid, 10^6 points, d = 3` = \(threads) fast(cube, 1 / 30, threads),
  `direct sums, 300,000 points, d = 3` = \(threads) fast(cube[1:300000, ], 1 / 300, threads)
)
beside <- list(`nothing else` = NULL, `one program` = NA, `one on processor 0` = 0, `two programs` = c(NA, NA))
for (others in names(beside)) {
  programs <- unlist(lapply(beside[[others]], compete))
  rows <- lapply(names(work), \(name) {
    seconds <- medians(list(one = \() work[[name]](1), two = \() work[[name]](2)), runs = 5)
    data.frame(work = name, `1 thread` = sprintf("%.3f", seconds[["one"]]), `2 threads` = sprintf("%.3f", seconds[["two"]]),
               ratio = sprintf("%.2f", seconds[["two"]] / seconds[["one"]]), check.names = FALSE)
  })
  if (length(programs)) tools::pskill(as.integer(programs), 9)
  cat("Beside:", others, "(seconds)\n")
  show_table(do.call(rbind, rows))
  cat("\n")
}
