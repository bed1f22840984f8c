# Checks that the number of the interface between the package and its GPU engine (FK_PLUGIN_ABI, src/core/plugin.h)
# increases when a header that both include changes: tools/plugin-abi.txt has the number and a hash of these headers,
# without comments and spaces.
#
#   Rscript tools/check-abi.R [--write]      --write: after the number was increased, writes the file
KEPT <- "tools/plugin-abi.txt"

# The headers of src/ that a header includes, itself among them.
included <- function(file, seen = character()) {
  if (file %in% seen) return(seen)
  seen <- c(seen, file)
  lines <- grep('^ *# *include *"', readLines(file), value = TRUE)
  names <- sub('.*"(.*)".*', "\\1", lines)
  for (name in file.path(dirname(file), names)) seen <- included(sub("src/[a-z]+/\\.\\./", "src/", name), seen)
  seen
}
headers <- sort(unique(c(included("src/core/plugin.h"), included("src/grid/backend.h"))), method = "radix")
text <- vapply(headers, \(file) paste(readLines(file), collapse = "\n"), "")
number <- sub(".*FK_PLUGIN_ABI = ([0-9]+).*", "\\1", text[["src/core/plugin.h"]])
code <- gsub("(?s)/\\*.*?\\*/|[[:space:]]|(?<=FK_PLUGIN_ABI = )[0-9]+", "", text, perl = TRUE)
written <- tempfile()
cat(code, file = written, sep = "\n")
now <- paste(number, tools::md5sum(written))
kept <- if (file.exists(KEPT)) readLines(KEPT) else ""
if (identical(now, kept)) quit()
if (!"--write" %in% commandArgs(TRUE) || identical(number, sub(" .*", "", kept))) {
  cat(
    "A header that the GPU engine shares with the package has changed:", headers, sep = "\n  "
  )
  cat("Increase FK_PLUGIN_ABI (src/core/plugin.h), and run Rscript tools/check-abi.R --write\n")
  quit(status = 1)
}
writeLines(now, KEPT)
