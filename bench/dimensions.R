# Pairs per second against what the floating point units could do.
#
# The bound: flashkernel:::fma_peak(seconds) measures how many multiply-adds a second all threads
# together can retire (one lane = one multiply-add of one number), and
# pair_cost(d, task, precision) in common.R counts the operations that one pair needs on those
# units: the products of the distance, the polynomial of the exponential, the sums. The quotient is
# the number of pairs per second that no program with this arithmetic can pass on this machine;
# memory, the integer part of the exponential and the end of the loops only take away from it.
# "symmetric score" is the score of points at themselves, as the debiasing of sdkde needs it: each
# unordered pair is met once, and the rate counts all n^2 ordered ones.

source("bench/common.R")
bench_start("dimensions.R", "Pairs per second by dimension, against the FMA bound")

# The peak is the best of several measurements, taken before, between and after the tables.
peaks <- flashkernel:::fma_peak(0.5)

dimensions <- c(1, 2, 3, 4, 8, 16, 17, 32, 64, 128)
n <- 16384

measure <- function(task, precision) {
  rows <- lapply(dimensions, function(d) {
    x <- normal_points(n, d, 1)
    y <- normal_points(n, d, 2)
    h <- common_bandwidth(n, d)
    run <- switch(task,
      sum = \() kernel_sum(x, y, bandwidth = h, control = flash_control(precision = precision), tol = 0),
      score = \() kernel_sum(x, y = y, bandwidth = h, control = flash_control(precision = precision), type = "score"),
      `symmetric score` = \() flash_kde(x, "sdkde", bandwidth = h, control = flash_control(precision = precision))
    )
    data.frame(task = task, precision = precision, d = d, seconds = medians(list(run), runs = 5)[[1]])
  })
  peaks <<- pmax(peaks, flashkernel:::fma_peak(0.5))
  do.call(rbind, rows)
}

tasks <- expand.grid(precision = c("double", "single"), task = c("sum", "score", "symmetric score"),
                     stringsAsFactors = FALSE)
tables <- Map(measure, tasks$task, tasks$precision)

cat(sprintf("multiply-adds a second, all threads, best of %d measurements: double %s, single %s\n\n",
            nrow(tasks) + 1, format_rate(peaks[["double"]]), format_rate(peaks[["single"]])))
for (table in tables) {
  task <- table$task[1]
  precision <- table$precision[1]
  rate <- n^2 / table$seconds
  bound <- peaks[[precision]] / vapply(table$d, \(d) pair_cost(d, task, precision), 0)
  cat(sprintf("%s, %s precision, n = m = %s\n", task, precision, format(n, big.mark = ",")))
  show_table(data.frame(
    d = table$d, seconds = sprintf("%.4f", table$seconds), `pairs per second` = format_rate(rate),
    `FMA bound` = format_rate(bound), `bound / measured` = sprintf("%.2f", bound / rate),
    check.names = FALSE
  ))
}
