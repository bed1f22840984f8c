# Error of kernel regression beside published figures of Gaussian processes: by default, and with tune_ridge().
#
#   Rscript bench/falkon-accuracy.R [--sets kin40k,pol,...] [--splits 1,2,3] [--centers 4000]
#     [--rows 1000] [--kernels gaussian,matern52] [--criterion likelihood] [--iterations 100] [--backend cuda]
#     [--processes 1] [--csv FILE] [--save]
#
# Data sets that bench/data does not have are skipped. All ten splits of all sets are 90
# fits of each kind, which --processes shares (with one GPU, too: each takes a gigabyte or two of it). Each writes a
# line to FILE (falkon-accuracy.csv in $OUT or here) when it is done; what stands there is not done again.
#
# Published: root mean square errors on standardised targets, Wang et al. 2019 (arXiv 1903.08114), table 1, of 64 in 100
# rows for training. These splits have 90: `as published` is a fit to 64 in 100 rows with the numbers that were tuned.

source("bench/common.R")

sets <- option_values("--sets", c("airfoil", "concrete", "energy", "gas", "parkinsons", "elevators", "bike", "pol", "kin40k"))
splits <- as.integer(option_values("--splits", 1:10))
centers <- as.integer(option("--centers", 4000))
rows <- as.integer(option("--rows", 1000))
kernels <- option_values("--kernels", c("gaussian", "matern52"))
criterion <- option("--criterion", "likelihood")
iterations <- as.integer(option("--iterations", 100))
processes <- as.integer(option("--processes", 1))
file <- option("--csv", file.path(Sys.getenv("OUT", "."), "falkon-accuracy.csv"))
backend <- option("--backend", "auto")
bench_start("falkon-accuracy.R", "Kernel regression beside published Gaussian processes")

PUBLISHED <- data.frame(
  set = c("pol", "elevators", "bike", "kin40k"), exact = c(0.151, 0.394, 0.220, 0.099),
  sgpr = c(0.217, 0.437, 0.362, 0.273), svgp = c(0.215, 0.399, 0.303, 0.268)
)

settings <- list(
  centers = centers, rows = rows, kernels = kernels, criterion = criterion,
  iterations = iterations, backend = backend, threads = max(1, parallel_cores() %/% processes),
  file = file.path(normalizePath(dirname(file)), basename(file))
)

# Measures one split, in a process that knows nothing but the arguments, and writes a line to the file.
measure <- function(task, settings) {
  data <- task$data
  control <- flashkernel::flash_control(backend = settings$backend, threads = settings$threads)
  n <- nrow(data$x)
  warned <- 0
  timed <- function(task) {
    start <- proc.time()[["elapsed"]]
    value <- withCallingHandlers(task(), warning = \(w) {
      warned <<- warned + 1
      invokeRestart("muffleWarning")
    })
    list(value = value, seconds = proc.time()[["elapsed"]] - start)
  }
  error_of <- function(fit) sqrt(mean((stats::predict(fit, data$new) - data$truth)^2))
  set.seed(task$split)
  plain <- timed(\() flashkernel::kernel_ridge(data$x, data$y, control = control))
  tuned <- timed(\() flashkernel::tune_ridge(
    data$x, data$y, criterion = settings$criterion, kernel = settings$kernels, rows = settings$rows, refit = FALSE,
    control = control
  ))
  # what a Gaussian process calls the noise, n lambda, stays
  with_rows <- function(rows) timed(\() flashkernel::kernel_ridge(
    data$x[rows, ], data$y[rows], kernel = tuned$value$kernel, bandwidth = tuned$value$bandwidth,
    lambda = tuned$value$lambda * n / length(rows), centers = min(length(rows), settings$centers),
    solver = list(iterations = settings$iterations, tolerance = 1e-5, exact = FALSE), control = control
  ))
  fit <- with_rows(seq_len(n))
  fewer <- with_rows(sort(sample.int(n, round(0.64 / 0.9 * n))))
  row <- data.frame(
    set = task$set, split = task$split, n = n, d = ncol(data$x), default = error_of(plain$value), tuned = error_of(fit$value),
    as_published = error_of(fewer$value), default_s = plain$seconds, tune_s = tuned$seconds, fit_s = fit$seconds,
    kernel = tuned$value$kernel$name, m = nrow(fit$value$centers), iterations = fit$value$iterations, warnings = warned
  )
  line <- paste0(paste(format(row, digits = 8, trim = TRUE), collapse = ","), "\n")
  cat(line, file = settings$file, append = TRUE)
  line
}

COLUMNS <- c(
  "set", "split", "n", "d", "default", "tuned", "as_published", "default_s", "tune_s", "fit_s", "kernel", "m", "iterations",
  "warnings"
)

problems <- Filter(Negate(is.null), lapply(stats::setNames(nm = sets), read_regression))
if (!file.exists(settings$file)) writeLines(paste(COLUMNS, collapse = ","), settings$file)
# those of most columns take longest: they come first
columns <- vapply(problems, \(problem) ncol(problem$x), 0L)
tasks <- expand.grid(split = splits, set = names(problems)[order(-columns)], stringsAsFactors = FALSE)
found <- utils::read.csv(settings$file)
tasks <- tasks[!paste(tasks$set, tasks$split) %in% paste(found$set, found$split), ]
tasks <- lapply(seq_len(nrow(tasks)), \(i) {
  c(as.list(tasks[i, ]), list(data = standardise(problems[[tasks$set[i]]], tasks$split[i])))
})
safely <- function(task, measure, settings) {
  tryCatch(measure(task, settings), error = \(e) {
    paste0(task$set, " ", task$split, ": ", conditionMessage(e), "\n")
  })
}
if (processes > 1 && length(tasks) > 0) {
  # not forked, which CUDA would not survive
  workers <- parallel::makePSOCKcluster(min(processes, length(tasks)), outfile = "")
  lines <- parallel::clusterApplyLB(workers, tasks, safely, measure, settings)
  parallel::stopCluster(workers)
} else {
  lines <- lapply(tasks, safely, measure, settings)
}
failed <- grep("^[^,]*: ", unlist(lines), value = TRUE)
if (length(failed) > 0) cat("failed:", failed, sep = "\n")

# ---- tables -----------------------------------------------------------------------------------

found <- utils::read.csv(settings$file)
digits4 <- \(x) formatC(x, digits = 4, format = "f")
# mean and standard error over the splits
both <- function(x) paste0(digits4(mean(x)), if (length(x) > 1) paste0(" (", digits4(stats::sd(x) / sqrt(length(x))), ")"))
table <- do.call(rbind, lapply(intersect(sets, found$set), \(name) {
  rows <- found[found$set == name & found$split %in% splits, ]
  if (nrow(rows) == 0) return(NULL)
  published <- PUBLISHED[PUBLISHED$set == name, ]
  told <- \(x) if (length(x) == 0) "-" else sprintf("%.3f", x)
  data.frame(
    set = name, n = rows$n[1], d = rows$d[1], splits = nrow(rows), default = both(rows$default), tuned = both(rows$tuned),
    `as published` = both(rows$as_published), `exact GP` = told(published$exact), SGPR = told(published$sgpr),
    SVGP = told(published$svgp), check.names = FALSE
  )
}))
cat("Root mean square errors, mean (standard error) over splits:\n")
show_table(table)
cat("Seconds (medians), and what was chosen:\n")
show_table(do.call(rbind, lapply(intersect(sets, found$set), \(name) {
  rows <- found[found$set == name & found$split %in% splits, ]
  if (nrow(rows) == 0) return(NULL)
  seconds <- \(x) formatC(stats::median(x), digits = 3, format = "g")
  kernels <- table(rows$kernel)
  data.frame(
    set = name, default = seconds(rows$default_s), tune = seconds(rows$tune_s), fit = seconds(rows$fit_s), m = max(rows$m),
    iterations = stats::median(rows$iterations), kernels = paste(names(kernels), kernels, collapse = ", "),
    warnings = sum(rows$warnings)
  )
})))
