# Kernel ridge regression with more centres than one matrix holds, by blocks of centres (R/ridge-blocks.R).
#
#   Rscript bench/centers.R small                       beside Falkon's factors: 20,000 rows, 4,000 centres, on a CPU
#   Rscript bench/centers.R wide 5e6 1.28e5:5,5.12e5:1  EigenPro 4's shape: rows, and centres with their iterations
#   Rscript bench/centers.R write 1e6 FILE              the rows of `wide` for centers_eigenpro.py, EigenPro's own code
#
# `wide` takes a precision as fourth argument, "fast" by default. A line: iterations, seconds, residual, error at new
# rows in standard deviations of y; seconds of `small` include predictions. Rows of `small` are those of blocks.R in
# blocks of an eighth of the centres. Rows of `wide` have 1,280 columns in single precision, of variances 26 / k, which
# puts rows about a bandwidth apart: each column repeats some 250,000 normal numbers, in a period of its own. There are
# ten outputs.
suppressMessages(library(flashkernel))
ns <- asNamespace("flashkernel")
arguments <- commandArgs(TRUE)
argument <- function(i, default) if (length(arguments) >= i) arguments[i] else default

show_trace <- function(fit, scale) {
  for (i in seq_len(nrow(fit$trace))) with(fit$trace[i, ], cat(sprintf(
    "%4d %8.2f s  residual %.1e  error %.5f\n", iteration, seconds, residual, validation / scale
  )))
  cat("stages: ", paste(names(fit$seconds), round(fit$seconds, 2), collapse = ", "), " s\n", sep = "")
}

# ---- beside Falkon ----------------------------------------------------------------------------

SMALL <- list(
  list(kernel = "laplacian", d = 10, bandwidth = 10), list(kernel = "laplacian", d = 50, bandwidth = 20),
  list(kernel = "gaussian", d = 10, bandwidth = 3), list(kernel = "gaussian", d = 50, bandwidth = 8)
)

small <- function(n = 20000, m = 4000) {
  replace_in <- function(name, value) {
    unlockBinding(name, ns)
    assign(name, value, ns)
  }
  exceeds <- ns$exceeds_matrix
  rows <- ns$block_rows
  for (case in SMALL) for (blocks in c(FALSE, TRUE)) {
    set.seed(1)
    z <- matrix(rnorm((n + 1000) * case$d), n + 1000) + sample(-1:1, n + 1000, TRUE)
    y <- sin(z[, 1]) + z[, 2] * cos(z[, 3]) + 0.3 * z[, 4]^2 + 0.2 * rnorm(n + 1000)
    new <- n + 1:1000
    replace_in("exceeds_matrix", if (blocks) \(m, d, run, rough = FALSE) !rough else exceeds)
    replace_in("block_rows", if (blocks) \(system, run) m / 8 else rows)
    cat(case$kernel, ", ", case$d, " columns, ", if (blocks) "blocks" else "Falkon", "\n", sep = "")
    fit <- kernel_ridge(
      z[-new, ], y[-new], kernel = case$kernel, bandwidth = case$bandwidth, lambda = 1e-6, centers = seq_len(m),
      validation = list(x = z[new, ], y = y[new]), solver = list(iterations = 20L, tolerance = 1e-4)
    )
    show_trace(fit, sd(y))
  }
}

# ---- EigenPro 4's shape -----------------------------------------------------------------------

if (!methods::isClass("float32")) methods::setClass("float32", methods::representation(Data = "matrix"))

wide_rows <- function(n, d = 1280, base = 250000) {
  columns <- parallel::mclapply(seq_len(d), mc.cores = parallel::detectCores(), \(k) {
    set.seed(k)
    period <- base - 101 * k
    readBin(writeBin(rnorm(period, sd = sqrt(26 / k)), raw(), size = 4), "integer", period)
  })
  bits <- matrix(0L, n, d)
  new <- matrix(0, 2000, d)
  first <- vector("list", 4)
  float <- \(x) readBin(writeBin(x, raw()), "double", length(x), size = 4)
  for (k in seq_len(d)) {
    bits[, k] <- rep_len(columns[[k]], n)
    new[, k] <- float(columns[[k]][(n + 0:1999) %% length(columns[[k]]) + 1])
    if (k <= 4) first[[k]] <- float(bits[, k]) / sqrt(26 / k)
  }
  response <- \(z) vapply(1:10, \(k) sin(z[[1]] + k) + z[[2]] * cos(k * z[[3]] / 4) + 0.3 * z[[4]], z[[1]])
  y <- response(first)
  y <- y + 0.2 * sin(1e4 * y)
  truth <- response(lapply(1:4, \(k) new[, k] / sqrt(26 / k)))
  list(x = methods::new("float32", Data = bits), y = y, new = new, truth = truth)
}

peak <- function() as.numeric(gsub("[^0-9]", "", grep("VmHWM", readLines("/proc/self/status"), value = TRUE))) / 2^20

wide <- function(n, tasks, precision) {
  took <- system.time(data <- wide_rows(n))[[3]]
  cat(nrow(data$y), " rows, made in ", round(took), " s; precision \"", precision, "\"\n", sep = "")
  for (task in strsplit(strsplit(tasks, ",")[[1]], ":")) {
    m <- as.numeric(task[1])
    took <- system.time(fit <- kernel_ridge(
      data$x, data$y, kernel = "laplacian", bandwidth = 20, lambda = 1e-7, centers = m,
      validation = list(x = data$new, y = data$truth), control = flash_control(precision = precision),
      solver = list(iterations = as.integer(task[2]), keep = FALSE)
    ))[[3]]
    cat(m, " centres: ", round(took, 1), " s, peak ", round(peak()), " GiB of host memory\n", sep = "")
    show_trace(fit, sqrt(mean(apply(data$truth, 2, var))))
    rm(fit)
    gc()
  }
}

write_rows <- function(n, path) {
  data <- wide_rows(n)
  file <- file(path, "wb")
  for (k in seq_len(ncol(data$x@Data))) writeBin(data$x@Data[, k], file)
  for (part in data[-1]) for (k in seq_len(ncol(part))) writeBin(part[, k], file, size = 4)
  close(file)
}

switch(arguments[1],
  write = write_rows(as.numeric(arguments[2]), arguments[3]), small = small(), wide = wide(as.numeric(argument(2, "5e6")), argument(3, "1.28e5:5"), argument(4, "fast"))
)
