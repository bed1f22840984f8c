# The effect of Falkon's parts, as in the ablations of its paper: the preconditioner (iterations with and without it),
# the precision, and where rows and factors are stored (all in memory, rows in a file, rows in shards, factors in tiles
# that pass through a GPU of little memory, several GPUs).
#
#   Rscript bench/paper/falkon-ablations.R [--size small|full] [--backend auto|cpu|cuda]
#
# Weyl points in ten dimensions, y = signal + noise of a fifth; error: root mean square at 2,000 held-out rows without
# noise. Without preconditioner: conjugate gradients on the same equations, (K'K / n + lambda K_mm) a = K'y / n, with
# flashkernel:::normal_product() and kernel_operator(). difference: the largest difference of held-out predictions from
# those of the first row of its kind.

source("bench/paper/common.R")
source("bench/falkon-common.R")
source("bench/paper/cg.R")

on_gpu <- backend == "cuda" || (backend == "auto" && gpu_info()$status == "available")
where <- if (on_gpu) "cuda" else "cpu"
n <- if (full) 1e6 else 2e4
m <- if (full) 1e4 else 500
steps <- if (full) 25 else 50
h <- 2
lambda <- 1e-7

problem <- function() {
  x <- weyl_points(n + 2000, 10)
  truth <- weyl_response(x, 1)
  set.seed(1)
  y <- truth + stats::rnorm(n + 2000, 0, 0.2 * stats::sd(truth))
  train <- seq_len(n)
  list(x = x[train, ], y = y[train], new = x[-train, ], truth = truth[-train], centers = sort(sample.int(n, m)))
}

error_at <- function(p, guess) sqrt(mean((guess - p$truth)^2))

row <- function(part, way, iteration, seconds, error, residual = NA, host = NA, device = NA, difference = NA) {
  data.frame(part, way, n, m, iteration, seconds, error, residual, host_mib = host, device_mib = device, difference)
}

# ---- the preconditioner -------------------------------------------------------------------------------

with_it <- function(p, precision) {
  fit <- suppressWarnings(kernel_ridge(
    p$x, p$y, bandwidth = h, lambda = lambda, centers = p$centers, solver = list(iterations = steps, tolerance = 0, intercept = FALSE),
    validation = list(x = p$new, y = p$truth), control = flash_control(backend = where, precision = precision)
  ))
  trace <- fit$trace
  row("preconditioner", paste("with,", precision), trace$iteration, trace$seconds + fit$seconds[["preconditioner"]],
      trace$validation, trace$residual)
}

without_it <- function(p, most) {
  centers <- p$x[p$centers, ]
  operator <- \(...) kernel_operator(
    centers, ..., bandwidth = h, tol = 0,
    control = flash_control(backend = where, precision = "double")
  )
  K <- operator(p$x)
  K_mm <- operator()
  at_new <- operator(p$new)
  rows <- NULL
  started <- Sys.time()
  product <- \(a) flashkernel:::normal_product(K, a) / n + lambda * (K_mm %*% a)
  conjugate_gradients(product, crossprod(K, p$y) / n, 0, most, \(iteration, x, residual) {
    if (!iteration %in% unique(round(10^seq(0, log10(most), length.out = 25)))) return()
    seconds <- as.numeric(difftime(Sys.time(), started, units = "secs"))
    rows <<- rbind(rows, row("preconditioner", "without, double", iteration, seconds, error_at(p, at_new %*% x),
                             residual))
  })
  rows
}

# ---- where rows and factors are -----------------------------------------------------------------------

# `changes`: to the control; x: the rows, as they are held.
fit_held <- function(p, way, x = p$x, y = p$y, ...) {
  gc()
  forget_peak()
  if (on_gpu) gpu_release() # and so does the device
  before <- peak_mib()
  control <- flash_control(backend = where, ...)
  centers <- p$x[p$centers, ]
  seconds <- elapsed(\() fit <<- kernel_ridge(
    x, y, bandwidth = h, lambda = lambda, centers = centers, solver = list(iterations = 10, tolerance = 0, intercept = FALSE),
    control = control
  ))
  guess <- predict(fit, p$new)
  if (is.null(first)) first <<- guess
  row("memory", way, fit$iterations, seconds, error_at(p, guess), NA, peak_mib() - before,
      if (on_gpu) gpu_info()$memory_peak[1] / 2^20 else NA, max(abs(guess - first)))
}
fit <- first <- NULL

in_a_file <- function(x) {
  if (!requireNamespace("bigmemory", quietly = TRUE)) return(left_out("rows in a file",
    "package bigmemory is not installed"))
  folder <- tempfile("rows")
  dir.create(folder)
  file <- bigmemory::big.matrix(nrow(x), ncol(x), type = "double", backingpath = folder, backingfile = "x.bin",
                                descriptorfile = "x.desc")
  file[, ] <- x
  file
}

held <- function(p) {
  rows <- fit_held(p, "all in memory")
  again <- \(...) rows <<- rbind(rows, fit_held(p, ...))
  file <- in_a_file(p$x)
  if (!is.null(file)) again("rows in a file (big.matrix)", file, chunk_bytes = 8 * 10 * n / 8)
  again("rows in 8 shards (flash_data)", flash_data(p$x, shard_rows = ceiling(n / 8)))
  # too little for the matrix, 8 m^2 bytes, beside what it is factorised in
  if (on_gpu) again("factors in tiles, of a GPU of 10 m^2 bytes", gpu_memory_limit = 10 * m^2)
  if (on_gpu && length(gpu_info()$index) > 1) again("two GPUs", devices = 0:1)
  rows
}

measure <- function() {
  p <- problem()
  rows <- rbind(with_it(p, "double"), with_it(p, "single"), without_it(p, if (full) 150 else 300))
  keep("falkon-ablations", rows)
  rbind(rows, held(p))
}

rows <- paper_rows("falkon-ablations", "Falkon without its parts", measure)

paper_plot("falkon-ablations", height = 650, draw = \() {
  graphics::par(mfrow = c(1, 3), mar = c(3.6, 4.6, 2, 0.8), oma = c(2.2, 0, 0, 0))
  ways <- c("with, double", "with, single", "without, double")
  iterated <- rows[rows$part == "preconditioner", ]
  curves(iterated, ways, "iteration", "error", by = "way", xlab = "iterations", ylab = "held-out error",
         main = "Preconditioner")
  curves(iterated, ways, "seconds", "error", by = "way", xlab = "seconds, preconditioner included",
         ylab = "held-out error", main = "In time")
  graphics::par(mar = c(3.6, 9.5, 2, 0.8))
  memory <- rows[rows$part == "memory", ]
  graphics::barplot(rev(memory$seconds), horiz = TRUE, names.arg = rev(sub(" [(,].*", "", sub(", of a GPU.*", "",
    memory$way))), col = "#0072B2", border = NA,
                    xlab = "seconds of a fit, 10 iterations", main = "Rows and factors", xlim = c(0, 1.1 * max(memory$seconds)))
  legend_below(ways)
})

last <- rows[rows$part == "memory", ]
show_table(data.frame(
  way = last$way, iterations = last$iteration, seconds = signif(last$seconds, 3), error = signif(last$error, 4),
  `host MiB` = round(last$host_mib),
  `device MiB` = round(last$device_mib), difference = format_error(last$difference), check.names = FALSE
))
iterated <- rows[rows$part == "preconditioner", ]
reached <- do.call(rbind, lapply(split(iterated, iterated$way), \(of) {
  goal <- 1.02 * min(iterated$error)
  at <- which(of$error <= goal)[1]
  data.frame(way = of$way[1], `error of the best + 2 % after` = if (is.na(at)) paste("not in",
    max(of$iteration)) else of$iteration[at],
             seconds = signif(of$seconds[at], 3), best = signif(min(of$error), 4), check.names = FALSE)
}))
show_table(reached)
