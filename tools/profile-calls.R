# Called by tools/profile-calls: runs the script's `task` several times, and shows the call tree of one run on the main
# thread, with the functions that take at least 1 % of its time.
arguments <- commandArgs(TRUE)
dyn.load(arguments[1])
library(flashkernel)
options(flashkernel.progress = FALSE)
script <- new.env()
sys.source(arguments[2], script)
runs <- as.integer(arguments[3])
for (i in 1:3) script$task()
seconds <- numeric(runs)
invisible(.C("profile_begin"))
for (i in seq_len(runs)) {
  start <- Sys.time()
  script$task()
  seconds[i] <- as.numeric(difftime(Sys.time(), start, units = "secs"))
}
tree <- tempfile()
invisible(.C("profile_write", tree, 0.01 * 1e6 * sum(seconds)))
cat(sprintf("%.1f microseconds from R to R (median, slowed down by the instrumentation)\n", 1e6 * stats::median(seconds)))
lines <- utils::read.table(tree, col.names = c("level", "calls", "us", "place"), colClasses = c(place = "character"))
library <- getLoadedDLLs()[["flashkernel"]][["path"]]
names <- system2("addr2line", c("-f", "-C", "-s", "-e", library, lines$place), stdout = TRUE)[c(TRUE, FALSE)]
cat(sprintf("%10.1f us %8.1f x  %s%s\n", lines$us / runs, lines$calls / runs, strrep("  ", lines$level), sub("\\(.*", "", names)), sep = "")
