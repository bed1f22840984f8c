# Checks the benchmarks, as tools/check does: every script parses and README.md lists it, and the tests of this folder
# pass. They test the formulas that the scripts of bench/paper measure with.
#
#   Rscript bench/check/run.R

scripts <- setdiff(list.files("bench", "[.](R|py|cu|sh)$"), "common.R")
listed <- paste(readLines("bench/README.md"), collapse = "\n")
unlisted <- scripts[!vapply(paste0("`", scripts, "`"), grepl, NA, x = listed, fixed = TRUE)]
if (length(unlisted) > 0) stop("bench/README.md does not list ", toString(unlisted), call. = FALSE)
for (file in list.files("bench", "[.]R$", recursive = TRUE, full.names = TRUE)) invisible(parse(file))

library(flashkernel)
testthat::test_dir("bench/check", reporter = "check", stop_on_failure = TRUE)
