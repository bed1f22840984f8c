# Checks that the files exist that the pages for developers name. Reads CONTRIBUTING.md, README.md, tools/RELEASE.md and
# the READMEs of src, tools and bench. A path in backticks is relative to the root, to src/ or to the folder of the
# page. Exits with 1 if a file is missing.
readmes <- list.files(c("src", "tools", "bench"), "^README\\.md$", recursive = TRUE, full.names = TRUE)
pages <- c("CONTRIBUTING.md", "README.md", "tools/RELEASE.md", readmes)
WRITTEN <- "fk_config.h" # by configure
files <- list.files(recursive = TRUE)
exists_in <- function(path, folder) {
  if (endsWith(path, ".[ch]")) return(all(vapply(c("c", "h"), \(end) exists_in(sub("\\[ch\\]$", end, path), folder), NA)))
  candidates <- file.path(c(".", "src", "R", "tools", "bench", "tests/testthat", folder), path)
  any(file.exists(candidates)) || any(startsWith(files, sub("^\\./", "", path)))
}
missing <- 0
for (page in pages) {
  text <- paste(readLines(page), collapse = " ")
  quoted <- unlist(regmatches(text, gregexpr("`[A-Za-z0-9_./-]+\\.(R|c|h|cu|cuh|sh|Rmd|md|\\[ch\\])`", text)))
  for (path in unique(gsub("`", "", quoted))) {
    if (grepl("X|NAME", path) || path %in% WRITTEN) next # X, NAME: a name that the reader chooses
    if (exists_in(path, dirname(page))) next
    cat(page, ": no file ", path, "\n", sep = "")
    missing <- missing + 1
  }
}
cat(missing, "paths of pages do not exist\n")
quit(status = missing > 0)
