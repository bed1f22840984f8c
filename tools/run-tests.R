# Runs the test suite on the installed package and writes the counts "passed failed skipped" of test_that() blocks to
# the file named by the first argument. The second argument is a pattern of test files.
#   Rscript tools/run-tests.R COUNTS [PATTERN]
arguments <- commandArgs(trailingOnly = TRUE)
counts_file <- arguments[1]
filter <- if (length(arguments) >= 2) arguments[2]

results <- testthat::test_dir(
  file.path("tests", "testthat"),
  package = "flashkernel",
  load_package = "installed",
  filter = filter,
  reporter = "check",
  stop_on_failure = FALSE
)
results <- as.data.frame(results)

bad <- results$failed > 0 | results$error
# a block that skips after some expectations counts as skipped
skipped <- results$skipped & !bad
slow <- results[order(-results$real), ][seq_len(min(5, nrow(results))), ]
cat("slowest:", sprintf("\n  %5.1f s  %s: %s", slow$real, slow$file, slow$test), "\n")
if (any(results$warning > 0)) {
  with_warnings <- results[results$warning > 0, ]
  cat("with warnings:", sprintf("\n  %s: %s", with_warnings$file, with_warnings$test), "\n")
}
writeLines(paste(sum(!bad & !skipped), sum(bad), sum(skipped)), counts_file)
