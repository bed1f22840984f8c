# Falkon at the sizes of the paper's sets, from R's matrices to a fitted object, on one GPU: seconds of all and of the
# stages, beside a goal and, with --falkon PATH (a built checkout of github.com/FalkonML/falkon), the reference library
# in the same run. Time does not depend on the numbers: points are Weyl sequences.
#
#   Rscript inst/bench/gpu-falkon.R [--falkon PATH] [--only small,susy,msd,timit,higgs,taxi,logistic] [--backend cpu] [--save]

source(file.path(dirname(sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE))), "gpu-common.R"))

backend <- option("--backend", "cuda")
title <- "Falkon at the sizes of the paper, one GPU"
if (backend == "cuda") gpu_start("gpu-falkon.R", title) else bench_start("gpu-falkon.R", title)

# goal: seconds asked of this package; library: those of Falkon 0.9 on an H200, by itself (Falkon-baseline notes).
# TAXI is a tenth of its rows.
sizes <- read.table(header = TRUE, row.names = 1, text = "
           n        d   m      outputs iterations sigma lambda goal
  small    1e5      10  2e3    1       20         2     1e-6   0.12
  susy     5e6      18  3e4    1       5          3     1e-6   1.2
  msd      4.6e5    90  5e4    1       10         7     2e-6   3.5
  timit    1.2e6    440 1e5    144     5          14.5  5e-9   40
  higgs    1.1e7    28  1.2e5  1       10         3.8   3e-8   42
  taxi     1.1e8    9   1e5    1       7          1     2e-7   NA
  logistic 1.1e7    28  1e5    1       9          3.8   1e-9   130")
wanted <- option_values("--only", rownames(sizes))

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

library_seconds <- function(name) {
  path <- option("--falkon")
  if (is.null(path)) return(c(NA, NA))
  script <- file.path(bench_folder, "falkon_baseline.py")
  size <- format(unlist(sizes[name, 1:7]), scientific = FALSE, trim = TRUE, digits = 15)
  line <- tryCatch(
    system2(Sys.getenv("PYTHON", "python3"), c(script, name, size, if (name == "logistic") "logistic"), stdout = TRUE,
      env = paste0("PYTHONPATH=", path), timeout = 300),
    warning = \(w) character()
  )
  if (length(line) == 0) return(c(NA, NA))
  as.numeric(strsplit(line[length(line)], " ")[[1]][3:4])
}

measure <- function(name) {
  size <- sizes[name, ]
  set.seed(1)
  x <- weyl_points(size$n, size$d)
  y <- weyl_response(x, size$outputs)
  logistic <- name == "logistic"
  if (logistic) y <- y > mean(y)
  started <- Sys.time()
  fit <- falkon(
    x, y, bandwidth = size$sigma, lambda = size$lambda, centers = size$m, max_iter = size$iterations, tol = 0,
    loss = if (logistic) "logistic" else "squared", control = flash_control(backend = backend)
  )
  seconds <- as.numeric(difftime(Sys.time(), started, units = "secs"))
  stages <- fit$seconds
  some <- seq_len(min(size$n, 1e5))
  residual <- if (logistic) NA else sqrt(mean((as.matrix(y)[some, ] - predict(fit, x[some, ]))^2))
  theirs <- if (name %in% c("small", "susy", "msd")) library_seconds(name) else c(NA, NA)
  shown <- data.frame(
    set = name, n = format_count(size$n), d = size$d, m = format_count(size$m), its = fit$iterations, seconds = seconds,
    centres = stages[["centers"]], preconditioner = stages[["preconditioner"]], iterations = stages[["iterations"]],
    goal = size$goal, falkon = theirs[1], its_preconditioner = theirs[2], residual = residual
  )
  cat("peak memory of the host: ", format_bytes_read(), "\n", sep = "")
  show_table(shown)
  shown
}

# VmHWM: the most that this process ever had.
format_bytes_read <- function() {
  line <- grep("^VmHWM", readLines("/proc/self/status"), value = TRUE)
  paste(round(as.numeric(gsub("[^0-9]", "", line)) / 2^20, 1), "GiB")
}

results <- do.call(rbind, lapply(wanted, measure))
cat("All, in seconds:\n")
show_table(results)
