# Every help page and every vignette has its place in _pkgdown.yml, and nothing else has:
#   Rscript tools/check-site.R

lines <- readLines("_pkgdown.yml")
from <- grep("^reference:", lines)
topics <- sub("^  - ", "", grep("^  - ", lines[-seq_len(from)], value = TRUE))
articles <- unlist(strsplit(gsub("^  contents: \\[|\\]$", "", grep("^  contents: \\[", lines, value = TRUE)), ", *"))

pages <- list.files("man", "[.]Rd$", full.names = TRUE)
internal <- vapply(pages, \(page) any(grepl("^\\\\keyword\\{internal\\}", readLines(page, encoding = "UTF-8"))), NA)
pages <- sub("[.]Rd$", "", basename(pages))
vignettes <- c(list.files("vignettes", "[.]Rmd$"), file.path("articles", list.files("vignettes/articles")))
vignettes <- sub("[.]Rmd$", "", vignettes)

faults <- c(
  paste("no place for the help page", setdiff(pages[!internal], topics)), paste("no help page", setdiff(topics, pages)),
  paste("no place for the vignette", setdiff(vignettes, articles)), paste("no vignette", setdiff(articles, vignettes)),
  paste("twice:", unique(topics[duplicated(topics)]))
)
faults <- grep("(page|vignette|twice:) $", faults, value = TRUE, invert = TRUE)
if (length(faults) > 0) {
  cat(paste0("_pkgdown.yml: ", faults, "\n"), sep = "")
  quit(status = 1)
}
