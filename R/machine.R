# What the processor could do at best: the yardstick of inst/bench/dimensions.R.

# Multiply-add lanes a second of all threads, measured on registers alone.
fma_peak <- function(seconds = 0.2, threads = 0L) {
  rate <- \(single) .Call(ffi_fma_rate, as.double(seconds), single, as.integer(threads))
  c(double = rate(FALSE), single = rate(TRUE))
}

# Multiplications and multiply-adds that one pair of points costs, the operations of which a core does the
# fewest a cycle: d for the distance, the degree of the polynomial for 2^t (src/cpu/tile_body.h), and the
# sums: one for a kernel sum with a single column, 1 + d for a score. Where the targets are the points
# themselves ("symmetric score") each unordered pair is met once and added on both sides, so that half of
# that falls on each of the n^2 pairs.
pair_cost <- function(d, task = c("sum", "score", "symmetric score"), precision = "double") {
  task <- match.arg(task)
  kernel <- d + if (precision == "double") 10 else 5
  switch(task,
    sum = kernel + 1,
    score = kernel + 1 + d,
    `symmetric score` = (kernel + 2 * (1 + d)) / 2
  )
}
