# What all benchmarks share: options of the command line, the report's head, data sets, timing and printing. Every
# script runs from the root of the repository, with flashkernel installed:
#   Rscript bench/NAME.R [--save]
# --save also writes what is printed to a file (see bench_start()).

suppressPackageStartupMessages(library(flashkernel))
options(width = 120)

bench_folder <- "bench"
this_script <- sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE))

# ---- options of the command line ----------------------------------------------------------------

arguments <- commandArgs(TRUE)

# The value after `--name`; option_values() splits it at commas.
option <- function(name, default = NULL) {
  value <- arguments[match(name, arguments) + 1]
  if (is.na(value) || startsWith(value, "--")) default else value
}

option_values <- function(name, default = NULL) {
  value <- option(name)
  if (is.null(value)) default else strsplit(value, ",", fixed = TRUE)[[1]]
}

# ---- the head of a report -----------------------------------------------------------------------

# The file that keeps what a script prints: vignettes show some of these files and hold them, results/ holds the others.
saved_report <- function(name) {
  shown <- file.path("vignettes", "measured", "bench", name)
  if (file.exists(shown)) shown else file.path(bench_folder, "results", name)
}

# Prints title, script, date, machine and versions. With --save, all output from here on also goes to the file of `part`.
bench_start <- function(script, title, part = script) {
  if ("--save" %in% arguments) sink(saved_report(sub("[.]R$", ".txt", part)), split = TRUE)
  info <- flashkernel:::backend_info()
  cat(title, "\n", sep = "")
  cat("script   bench/", script, "\n", sep = "")
  cat("date     ", format(Sys.Date()), "\n", sep = "")
  cat("machine  ", cpu_model(), ", ", parallel_cores(), " cores\n", sep = "")
  cat("versions ", R.version.string, "; flashkernel ", as.character(utils::packageVersion("flashkernel")),
      "; instructions ", info$isa, "; threads ", info$threads_default, "\n\n", sep = "")
}

cpu_model <- function() {
  lines <- tryCatch(readLines("/proc/cpuinfo", warn = FALSE), error = function(e) character())
  model <- sub("^model name\\s*:\\s*", "", grep("^model name", lines, value = TRUE))
  if (length(model) > 0) model[1] else Sys.info()[["machine"]]
}

parallel_cores <- function() {
  lines <- tryCatch(readLines("/proc/cpuinfo", warn = FALSE), error = function(e) character())
  max(1, sum(grepl("^processor", lines)))
}

# ---- data sets ----------------------------------------------------------------------------------

# The data sets are in bench/data/, where data/fetch.R puts them. read_data() returns the table of a set, or prints a
# line and returns NULL if the set is missing.
data_file <- function(name) file.path(bench_folder, "data", paste0(name, ".csv.gz"))

read_data <- function(name) {
  file <- data_file(name)
  if (file.exists(file)) return(utils::read.csv(file, header = !startsWith(name, "uci_")))
  cat("There is no ", file, " (see bench/data/README.md): skipped.\n", sep = "")
  NULL
}

# The numeric columns of the complete rows of a data set that are not constant, as a matrix. NULL if the set is missing.
read_numbers <- function(name) {
  table <- read_data(name)
  if (is.null(table)) return(NULL)
  x <- as.matrix(table[vapply(table, is.numeric, NA)])
  x <- unname(x[stats::complete.cases(x), ])
  x[, apply(x, 2, stats::sd) > 0]
}

UCI_SETS <- c("airfoil", "bike", "concrete", "elevators", "energy", "gas", "kin40k", "parkinsons", "pol")

# A regression problem of the UCI collection: list(x, y, test), where `test` has a column for each split, TRUE for test
# rows. NULL if the set is missing.
read_regression <- function(name) {
  table <- read_data(paste0("uci_", name))
  mask <- if (!is.null(table)) read_data(paste0("uci_", name, ".test_mask"))
  if (is.null(mask)) return(NULL)
  data <- unname(as.matrix(table))
  list(x = data[, -ncol(data)], y = data[, ncol(data)], test = as.matrix(mask) == 1)
}

# A classification problem: list(x, y, test), as read_regression(). A fifth of the rows of each split are test rows.
# "anomalies" is shuttle with its largest class against classes 2, 3, 5, 6 and 7.
read_classes <- function(name, splits) {
  data <- read_data(switch(name, higgs = "higgs_subset", anomalies = "shuttle", name))
  if (is.null(data)) return(NULL)
  label <- if ("label" %in% names(data)) "label" else names(data)[ncol(data)]
  y <- data[[label]]
  if (name == "anomalies") {
    # class numbers, in the order of the data set's own documentation
    y <- match(y, c("Rad.Flow", "Fpv.Close", "Fpv.Open", "High", "Bypass", "Bpv.Close", "Bpv.Open"))
    data <- data[y != 4, ]
    y <- ifelse(y[y != 4] == 1, "normal", "anomaly")
  }
  x <- as.matrix(data[setdiff(names(data), label)])
  set.seed(1)
  list(x = unname(x), y = factor(y), test = replicate(splits, stats::runif(nrow(x)) < 0.2))
}

# One split of a problem: columns, and a numeric response, standardised by the training rows.
standardise <- function(set, split) {
  test <- set$test[, split]
  centre <- colMeans(set$x[!test, ])
  spread <- apply(set$x[!test, ], 2, stats::sd)
  spread[spread == 0] <- 1
  x <- scale(set$x, centre, spread)
  y <- if (is.factor(set$y)) set$y else (set$y - mean(set$y[!test])) / stats::sd(set$y[!test])
  list(x = x[!test, ], y = y[!test], new = x[test, ], truth = y[test])
}

# Area under the ROC curve. The guessed classes show which sign of the decision value means the second class.
auc <- function(score, guess, truth) {
  second <- levels(truth)[2]
  score <- as.vector(score)
  if (stats::cor(score, guess == second) < 0) score <- -score
  positive <- truth == second
  (mean(rank(score)[positive]) - (sum(positive) + 1) / 2) / sum(!positive)
}

# ---- timing and printing ------------------------------------------------------------------------

# Seconds of task(), by the clock, to a microsecond.
elapsed <- function(task) {
  start <- Sys.time()
  force(task())
  as.numeric(difftime(Sys.time(), start, units = "secs"))
}

# Processor seconds of this process, all threads together: what other programs on the machine disturb least.
cpu_seconds <- function(expr) sum(system.time(expr)[c("user.self", "sys.self")])

# Seconds of each task (a named list of functions), median of `runs`. The tasks take turns, so that
# a slow spell of the machine meets all of them; one run of each before that does not count.
medians <- function(tasks, runs = 5, warm = TRUE) {
  if (warm) for (task in tasks) task()
  seconds <- replicate(runs, vapply(tasks, elapsed, 0))
  apply(matrix(seconds, length(tasks), dimnames = list(names(tasks), NULL)), 1, stats::median)
}

format_rate <- function(x) formatC(x, digits = 2, format = "e")

show_table <- function(table) {
  print(table, row.names = FALSE, right = TRUE)
  cat("\n")
}

normal_points <- function(n, d, seed = 1) {
  set.seed(seed)
  matrix(stats::rnorm(n * d), n, d)
}

# Silverman's sd for standard normal points: the same bandwidth for every program compared.
common_bandwidth <- function(n, d) (4 / (n * (d + 2)))^(1 / (d + 4))

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

# The most memory that the process has had, in MiB, at any time or since forget_peak(); NA where the system does not tell.
peak_mib <- function() {
  lines <- tryCatch(readLines("/proc/self/status"), error = \(e) character(), warning = \(w) character())
  line <- grep("^VmHWM", lines, value = TRUE)
  if (length(line) == 1) as.numeric(gsub("[^0-9]", "", line)) / 1024 else NA
}
forget_peak <- function() try(cat("5", file = "/proc/self/clear_refs"), silent = TRUE)
