# Helpers of the benchmarks in this folder. Each script is run by itself,
#   Rscript inst/bench/kde_vs_peers.R [--save]
# from the root of the source tree or, installed, from system.file("bench", package = "flashkernel").
# --save also writes what is printed to results/<script>.txt beside the script.

suppressPackageStartupMessages(library(flashkernel))
options(width = 120)

# This folder, also for scripts in a folder of it.
bench_folder <- local({
  file <- sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE))
  folder <- if (length(file) == 1) dirname(normalizePath(file)) else getwd()
  if (file.exists(file.path(folder, "options.R"))) folder else dirname(folder)
})
source(file.path(bench_folder, "options.R"))

# Prints what ran where; with --save, everything from here on goes to results/ too, by the name of `part`.
bench_start <- function(script, title, part = script) {
  if ("--save" %in% arguments) {
    dir.create(file.path(bench_folder, "results"), showWarnings = FALSE)
    sink(file.path(bench_folder, "results", sub("[.]R$", ".txt", part)), split = TRUE)
  }
  info <- flashkernel:::backend_info()
  cat(title, "\n", sep = "")
  cat("script   inst/bench/", script, "\n", sep = "")
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

elapsed <- function(task) {
  start <- proc.time()[["elapsed"]]
  force(task())
  proc.time()[["elapsed"]] - start
}

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
