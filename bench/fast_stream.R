# Points larger than memory: sums over sources that a function returns chunk by chunk, and over a file-backed big.matrix
# of floats that is its own target, on one grid. Compared with the same points in memory, if they fit.
#
#   Rscript bench/fast_stream.R [--quick] [--save]     --quick: a tenth of the points
#
# peak: the peak memory of the process so far (Linux), which can only grow from row to row.

source("bench/common.R")
bench_start("fast_stream.R", "Gaussian sums to a tolerance over points that need not fit into memory")

quick <- "--quick" %in% arguments
size <- if (quick) 1e5 else 1e6 # rows of a chunk
range <- 5
tol <- 1e-5

# A chunk costs the generator more than the sums: a million different points, moved a little each time.
set.seed(1)
base <- matrix(stats::runif(3 * size, 0, range), size)
coefficients <- stats::rnorm(size)
chunks_of <- function(count) {
  given <- 0
  function() {
    if (given == count) return(NULL)
    given <<- given + 1
    list(x = base + (given - 1) * 1e-6, b = coefficients)
  }
}
peak <- function() if (is.na(peak_mib())) "-" else sprintf("%.0f MB", peak_mib())

# error: largest, over 20 rows, of the exact sums there, relative to the largest sum of absolute terms.
row <- function(what, n, m, run, exactly) {
  seconds <- elapsed(\() sums <<- run())
  record <- diagnostics(sums)
  data.frame(
    points = what, n = format(n), m = format(m), method = record$method, `from R, s` = sprintf("%.2f", seconds),
    `engine, s` = sprintf("%.2f", record$seconds), achieved = sprintf("%.1e", record$tol_achieved),
    error = exactly(sums), peak = peak(), check.names = FALSE
  )
}
relative <- function(sums, exact) sprintf("%.1e", max(abs(sums - exact[, 1])) / max(exact[, 2]))

targets <- base[sample.int(size), ]
table <- NULL
for (count in c(40, 100)) {
  exactly <- function(sums) {
    next_chunk <- chunks_of(count)
    with_absolute <- function() {
      chunk <- next_chunk()
      if (!is.null(chunk)) list(x = chunk$x, b = cbind(chunk$b, abs(chunk$b)))
    }
    relative(sums[1:20], kernel_sum(
      with_absolute, targets[1:20, ], bandwidth = 1,
      control = flash_control(engine = "exact", precision = "double")
    ))
  }
  run <- function() kernel_sum(
    chunks_of(count), targets, bandwidth = 1, tol = tol,
    control = flash_control(backend = "cpu")
  )
  table <- rbind(table, row("function", count * size, size, run, exactly))
}

if (requireNamespace("bigmemory", quietly = TRUE)) {
  n <- 10 * size
  folder <- tempfile()
  dir.create(folder)
  x <- bigmemory::big.matrix(n, 3, type = "float", backingpath = folder, backingfile = "x.bin", descriptorfile = "x.desc")
  options(bigmemory.typecast.warning = FALSE)
  for (i in 1:10) x[(i - 1) * size + seq_len(size), ] <- base + i * 1e-4
  b <- rep(coefficients, 10)
  in_memory <- x[, ]
  exactly <- function(sums) {
    relative(sums[1:20], kernel_sum(
      in_memory, in_memory[1:20, ], cbind(b, abs(b)), 1,
      control = flash_control(engine = "exact", precision = "double")
    ))
  }
  table <- rbind(
    table,
    row("big.matrix", n, n, \() kernel_sum(
      x, b = b, bandwidth = 1, tol = tol,
      control = flash_control(backend = "cpu")
    ), exactly),
    row("matrix", n, n, \() kernel_sum(
      in_memory, b = b, bandwidth = 1, tol = tol,
      control = flash_control(backend = "cpu")
    ), exactly)
  )
  unlink(folder, recursive = TRUE)
}
show_table(table)
