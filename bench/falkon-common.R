# Data sets of Falkon's paper by their sizes, and fits to points of such sizes: for gpu-falkon.R and bench/paper;
# sourced after common.R.

# goal: seconds asked of this package; of: rows of the set over those that are measured here.
falkon_sizes <- read.table(header = TRUE, row.names = 1, text = "
           n        d   m      outputs iterations sigma lambda goal of
  small    1e5      10  2e3    1       20         2     1e-6   0.12 1
  susy     5e6      18  3e4    1       5          3     1e-6   1.2  1
  msd      4.6e5    90  5e4    1       10         7     2e-6   3.5  1
  timit    1.2e6    440 1e5    144     5          14.5  5e-9   40   1
  higgs    1.1e7    28  1.2e5  1       10         3.8   3e-8   42   1
  taxi     1.1e8    9   1e5    1       7          1     2e-7   400  10
  logistic 1.1e7    28  1e5    1       9          3.8   1e-9   130  1")

weyl_points <- function(n, d) {
  x <- matrix(0, n, d)
  for (k in seq_len(d)) x[, k] <- ((seq_len(n) * sqrt(1 + k)) %% 1 - 0.5) * sqrt(12)
  x
}

weyl_response <- function(x, outputs) {
  signal <- sin(2 * x[, 1]) + x[, min(2, ncol(x))] * x[, min(3, ncol(x))]
  if (outputs == 1) return(signal)
  vapply(seq_len(outputs) - 1, \(k) signal + 0.1 * k * x[, k %% ncol(x) + 1], signal)
}

# list(fit, seconds, peak): `peak` of the host's memory in GiB while it was fitted.
fit_size <- function(size, x, y, family = "gaussian", control = NULL) {
  set.seed(1)
  gc()
  forget_peak()
  started <- Sys.time()
  fit <- kernel_ridge(
    x, y, bandwidth = size$sigma, lambda = size$lambda, centers = size$m, solver = list(iterations = size$iterations, tolerance = if (family == "gaussian") 0), family = family,
    control = control
  )
  seconds <- as.numeric(difftime(Sys.time(), started, units = "secs"))
  list(fit = fit, seconds = seconds, peak = peak_mib() / 1024)
}

# The reference library's seconds of a fit and of its preconditioner, with --falkon PATH; NA where it is not to be
# had.
library_seconds <- function(name, size) {
  path <- option("--falkon")
  if (is.null(path)) return(c(NA, NA))
  script <- "bench/falkon_baseline.py"
  size <- format(unlist(size[1:7]), scientific = FALSE, trim = TRUE, digits = 15)
  line <- tryCatch(
    system2(Sys.getenv("PYTHON", "python3"), c(script, name, size, if (name == "logistic") "logistic"), stdout = TRUE,
      env = paste0("PYTHONPATH=", path), timeout = 300),
    warning = \(w) character()
  )
  if (length(line) == 0) return(c(NA, NA))
  as.numeric(strsplit(line[length(line)], " ")[[1]][3:4])
}
