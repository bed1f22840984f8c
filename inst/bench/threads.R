# How runs scale with threads, and whether the bits of the result depend on their number.

source(file.path(dirname(sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE))), "common.R"))
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
      if (task == "debias") return(flash_kde(x, "sdkde", bandwidth = h, precision = "double", threads = threads)$debiased)
      predict(flash_kde(x, "kde", bandwidth = h, precision = "double", threads = threads), y)
    }
    seconds <- medians(stats::setNames(lapply(counts, \(k) \() run(k)), counts), runs = 5)
    cat(sprintf("%s, d = %d\n", c(kde = "density", debias = "score pass of sdkde (symmetric)")[[task]], d))
    show_table(data.frame(threads = counts, seconds = sprintf("%.3f", seconds),
                          `times one thread` = sprintf("%.2f", seconds[[1]] / seconds), check.names = FALSE))
    same <- identical(run(1), run(max(counts)))
    cat(sprintf("same bits with 1 and %d threads: %s\n\n", max(counts), if (same) "yes" else "NO"))
  }
}
