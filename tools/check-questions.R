# Checks that users' questions (tools/questions.csv) find their answer: R's help search (`??`) for the words of column
# `search` lists the page, and the page has the sentence.
#
#   Rscript tools/check-questions.R LIBRARY     the library in which the package is installed, with help pages
#
# tools/site.R checks the same for the search of the web site.
library_path <- normalizePath(commandArgs(TRUE)[1])
questions <- utils::read.csv("tools/questions.csv")

plain <- function(text) {
  text <- gsub("_\b|[\u2018\u2019\u201c\u201d'\"`]", "", paste(text, collapse = " "))
  gsub("[[:space:]]+", " ", text)
}
page_text <- function(rd) plain(utils::capture.output(tools::Rd2txt(rd, options = list(underline_titles = FALSE))))
pages <- tools::Rd_db("flashkernel", lib.loc = library_path)
if (length(pages) == 0) stop("no help pages in ", library_path)
names(pages) <- sub("[.]Rd$", "", basename(names(pages)))
texts <- vapply(pages[unique(questions$page)], page_text, "")

# Help search names a page by one of its aliases.
aliases_of <- function(rd) as.character(unlist(rd[vapply(rd, \(part) attr(part, "Rd_tag"), "") == "\\alias"]))
aliases <- lapply(pages, aliases_of)
page_of <- stats::setNames(rep(names(aliases), lengths(aliases)), unlist(aliases))

# The pages that `??words` lists.
listed <- function(words) {
  hits <- utils::help.search(
    words, package = "flashkernel", lib.loc = library_path, types = "help", agrep = FALSE, verbose = FALSE
  )
  page_of[hits$matches$Name]
}
faults <- character()
for (i in seq_len(nrow(questions))) {
  asked <- questions[i, ]
  if (!asked$page %in% listed(asked$search)) faults <- c(faults, paste0("??\"", asked$search, "\" does not list ", asked$page))
  if (!grepl(plain(asked$sentence), texts[[asked$page]], fixed = TRUE)) {
    faults <- c(faults, paste0(asked$page, " does not say: ", asked$sentence))
  }
}
cat(nrow(questions), "questions,", length(faults), "without an answer\n")
if (length(faults) > 0) {
  cat(paste0(faults, "\n"), sep = "")
  quit(status = 1)
}
