# Checks that pages use standard terms instead of words of this project's own, that no page is too long, and that all help
# pages together have at most 38,000 words. Reads help pages, README, NEWS, vignettes and the pages for developers. Prints each
# place, and exits with 1 if there is one.
#
#   Rscript tools/check-words.R [--count]      --count: only the number of places for each page
HOUSE_WORDS <- c(
  "goes? by|going by|went by" = "uses, depends on", "\\btells?\\b" = "reports, returns", "gives? way" = "is evicted",
  "\\bdearer\\b|\\bcheaper\\b" = "costs more, costs less", "to be had|can be had" = "is available",
  "takes? the place of|took the place of" = "replaces", "\\blookers?-on\\b|\\bwishes\\b" = "say what the thing is",
  "nats an? " = "nats per ", "\\bsds\\b" = "standard deviations", "in halves" = "in FP16",
  "own places" = "training points", "done again" = "recomputed", "\\bits likes\\b" = "the noun",
  "^(As|Of|Those|The same) " = "a sentence with a subject"
)
MOST_WORDS <- c(help = 1500, vignette = 2500, all_help = 38000)

rd_text <- function(file) {
  out <- utils::capture.output(tools::Rd2txt(file, options = list(underline_titles = FALSE), fragment = FALSE))
  gsub("_\b", "", out)
}
prose <- function(file) {
  if (endsWith(file, ".Rd")) return(rd_text(file))
  text <- readLines(file, warn = FALSE)
  code <- cumsum(grepl("^```", text)) %% 2 == 1 | grepl("^```", text)
  if (grepl("\\.Rmd$", file)) text[seq_len(grep("^---", text)[2])] <- ""
  replace(text, code, "")
}

pages <- c(
  list.files("man", "\\.Rd$", full.names = TRUE), "README.md", "NEWS.md", "CONTRIBUTING.md", "src/README.md", "tools/README.md",
  list.files("vignettes", "\\.Rmd$", recursive = TRUE, full.names = TRUE)
)
count <- "--count" %in% commandArgs(TRUE)
places <- 0
all_help <- 0
for (page in pages) {
  text <- prose(page)
  limit <- if (endsWith(page, ".Rd")) MOST_WORDS[["help"]] else if (endsWith(page, ".Rmd")) MOST_WORDS[["vignette"]] else Inf
  words <- sum(lengths(regmatches(text, gregexpr("[[:alpha:]]+", text))))
  if (endsWith(page, ".Rd")) all_help <- all_help + words
  if (words > limit) {
    cat(page, ": ", words, " words, at most ", limit, "\n", sep = "")
    places <- places + 1
  }
  hits <- 0
  for (word in names(HOUSE_WORDS)) {
    lines <- grep(word, trimws(text), perl = TRUE)
    hits <- hits + length(lines)
    if (!count) for (i in lines) cat(page, ": '", trimws(text[i]), "': ", HOUSE_WORDS[[word]], "\n", sep = "")
  }
  if (count && hits > 0) cat(page, hits, "places\n")
  places <- places + hits
}
cat("help pages:", all_help, "words\n")
if (all_help > MOST_WORDS[["all_help"]]) {
  cat("man/: at most", MOST_WORDS[["all_help"]], "words in all help pages\n")
  places <- places + 1
}
cat(places, "places to mend\n")
quit(status = places > 0)
