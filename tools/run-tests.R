# Runs the test suite on the installed package and writes the counts "passed failed skipped" of test_that() blocks to
# the file named by the first argument. The second argument is a pattern of test files. Processes with the same third
# argument, an empty folder, divide the files among them: each takes the next file that no other one has.
#   Rscript tools/run-tests.R COUNTS [PATTERN [FOLDER]]
arguments <- commandArgs(trailingOnly = TRUE)
counts_file <- arguments[1]
pattern <- if (length(arguments) >= 2) arguments[2] else "."
taken <- if (length(arguments) >= 3) arguments[3] else tempfile("taken")
dir.create(taken, showWarnings = FALSE)

library(testthat)
library(flashkernel)
tests <- file.path("tests", "testthat")
names <- sub("^test-(.*)[.]R$", "\\1", list.files(tests, "^test-.*[.]R$"))
# the longest come first, so that no process is left alone with one of them
names <- grep(pattern, unique(c(intersect(c("contract", "tolerance"), names), names)), value = TRUE)
if (length(names) == 0) stop("no test file matches ", pattern)
environment <- test_env("flashkernel")
invisible(source_test_helpers(tests, environment))

# the results of one file, and the processor time of it and of the processes it started
run <- function(name) {
  started <- proc.time()
  results <- test_dir(
    tests, paste0("^", name, "$"), "silent", environment,
    load_helpers = FALSE, stop_on_failure = FALSE, package = "flashkernel", load_package = "installed"
  )
  spent <- sum((proc.time() - started)[c("user.self", "sys.self", "user.child", "sys.child")])
  cat(sprintf("%6.1f s  %s\n", spent, name))
  flush(stdout())
  results
}
results <- unlist(lapply(names, \(name) if (dir.create(file.path(taken, name), showWarnings = FALSE)) run(name)), FALSE)

is_kind <- \(expectation, kind) inherits(expectation, paste0("expectation_", kind))
for (block in results) {
  for (expectation in block$results) {
    if (is_kind(expectation, "failure") || is_kind(expectation, "error") || is_kind(expectation, "warning")) {
      cat(sprintf("-- %s, %s: %s\n%s\n", sub("^expectation_", "", class(expectation)[1]), block$file, block$test, format(expectation)))
    }
  }
}
blocks <- do.call(rbind, lapply(results, \(block) {
  any_of <- \(kind) any(vapply(block$results, is_kind, NA, kind))
  data.frame(block[c("file", "test", "real")], bad = any_of("failure") || any_of("error"), skipped = any_of("skip"))
}))
if (is.null(blocks)) blocks <- data.frame(file = character(), test = character(), real = numeric(), bad = NA[0], skipped = NA[0])
skips <- unlist(lapply(results, \(block) vapply(Filter(\(e) is_kind(e, "skip"), block$results), conditionMessage, "")))
if (length(skips) > 0) cat(sprintf("skipped %d: %s\n", table(skips), names(table(skips))), sep = "")
slow <- head(blocks[order(-blocks$real), ], 5)
cat("slowest:", sprintf("\n  %5.1f s  %s: %s", slow$real, slow$file, slow$test), "\n")
# a block that skips after some expectations counts as skipped
skipped <- blocks$skipped & !blocks$bad
writeLines(paste(sum(!blocks$bad & !skipped), sum(blocks$bad), sum(skipped)), counts_file)
