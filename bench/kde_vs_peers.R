# The kernel density estimate against scikit-learn (d = 16, n = 32,768, m = 4,096) and against ks
# (d = 3, exact). Both peers use one thread: so does the second line of ours.
# scikit-learn is timed on part of the queries, ks on part of both, and the rates are compared.

source("bench/common.R")
bench_start("kde_vs_peers.R", "Kernel density estimate, double precision, against peers")

ours <- function(x, y, h, threads = NULL) {
  fit <- flash_kde(x, estimator = "kde", bandwidth = h, control = flash_control(precision = "double", threads = threads))
  predict(fit, y, type = "log_density")
}

row <- function(program, queries, n, seconds, base) {
  rate <- n * queries / seconds
  data.frame(program = program, queries = queries, seconds = sprintf("%.4f", seconds),
             `pairs per second` = format_rate(rate), `ours is faster` = sprintf("%.1f x", base / rate),
             check.names = FALSE)
}

# The log density from its definition, in R.
direct_sum <- function(x, y, h) {
  apply(y, 1, function(at) {
    exponent <- -colSums((t(x) - at)^2) / (2 * h^2)
    top <- max(exponent)
    top + log(mean(exp(exponent - top))) - ncol(x) * log(2 * pi * h^2) / 2
  })
}

# ---- scikit-learn -------------------------------------------------------------------------

# R's LD_LIBRARY_PATH can make a Python load another's library.
run_python <- function(python, ...) {
  suppressWarnings(system2(python, c(...), stdout = TRUE, stderr = FALSE, env = "LD_LIBRARY_PATH="))
}
succeeded <- function(lines) is.null(attr(lines, "status"))
has_sklearn <- function(python) succeeded(run_python(python, "-c", shQuote("import sklearn")))

# A Python with scikit-learn: the environment variable PYTHON, python3, or a virtual environment
# made for this run. NULL when none is to be had.
sklearn_python <- function() {
  python <- Sys.getenv("PYTHON", Sys.which("python3"))
  if (!nzchar(python)) return(NULL)
  if (has_sklearn(python)) return(python)
  message("installing scikit-learn into a temporary environment")
  environment <- file.path(tempdir(), "venv")
  run_python(python, "-m", "venv", environment)
  python <- file.path(environment, "bin", "python")
  if (!file.exists(python)) return(NULL)
  run_python(python, "-m", "pip", "install", "-q", "scikit-learn")
  if (has_sklearn(python)) python
}
python <- sklearn_python()

run_sklearn <- function(x, y, h, runs) {
  if (is.null(python)) return(NULL)
  files <- c(tempfile(), tempfile())
  on.exit(unlink(files))
  writeBin(as.vector(t(x)), files[1])
  writeBin(as.vector(t(y)), files[2])
  line <- run_python(python, "bench/bench_sklearn.py", files, nrow(x), nrow(y),
                     ncol(x), format(h, digits = 17), runs)
  if (length(line) == 0 || !succeeded(line)) return(NULL)
  words <- strsplit(line[length(line)], " ")[[1]]
  list(version = words[1], seconds = as.numeric(words[2]), values = as.numeric(words[-(1:3)]))
}

for (d in c(16, 2)) {
  n <- 32768
  m <- 4096
  x <- normal_points(n, d, 1)
  y <- normal_points(m, d, 2)
  h <- common_bandwidth(n, d)
  cat(sprintf("d = %d, n = %s, m = %s\n", d, format(n, big.mark = ","), format(m, big.mark = ",")))
  seconds <- medians(list(all = \() ours(x, y, h), one = \() ours(x, y, h, threads = 1)), runs = 7)
  base <- n * m / seconds[["all"]]
  table <- rbind(row("flashkernel", m, n, seconds[["all"]], base),
                 row("flashkernel, 1 thread", m, n, seconds[["one"]], base))
  part <- 512
  peer <- run_sklearn(x, y[seq_len(part), , drop = FALSE], h, runs = 3)
  if (is.null(peer)) cat("scikit-learn: not measured, no Python with scikit-learn is to be had here\n") else {
    table <- rbind(table, row(paste("scikit-learn", peer$version), part, n, peer$seconds, base))
  }
  show_table(table)
  right <- direct_sum(x, y[1:5, ], h)
  cat(sprintf("largest error of five log densities against R's direct sum: flashkernel %.1e",
              max(abs(ours(x, y, h)[1:5] - right))))
  if (!is.null(peer)) cat(sprintf(", scikit-learn %.1e", max(abs(peer$values - right))))
  cat("\n\n")
}

# ---- ks -----------------------------------------------------------------------------------

if (!requireNamespace("ks", quietly = TRUE)) cat("ks: not installed, not measured\n") else {
  d <- 3
  n <- 32768
  m <- 4096
  x <- normal_points(n, d, 1)
  y <- normal_points(m, d, 2)
  h <- common_bandwidth(n, d)
  part <- 512
  theirs <- \() ks::kde(x, H = h^2 * diag(d), eval.points = y[seq_len(part), ], binned = FALSE)$estimate
  cat(sprintf("d = %d, n = %s, m = %s\n", d, format(n, big.mark = ","), format(m, big.mark = ",")))
  seconds <- medians(list(all = \() ours(x, y, h), one = \() ours(x, y, h, threads = 1), ks = theirs), runs = 5)
  base <- n * m / seconds[["all"]]
  show_table(rbind(
    row("flashkernel", m, n, seconds[["all"]], base),
    row("flashkernel, 1 thread", m, n, seconds[["one"]], base),
    row(paste("ks", utils::packageVersion("ks"), "binned = FALSE"), part, n, seconds[["ks"]], base)
  ))
  relative <- max(abs(theirs() / exp(ours(x, y[seq_len(part), ], h)) - 1))
  cat(sprintf("largest relative difference of the densities from those of ks: %.1e\n", relative))
}
