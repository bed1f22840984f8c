# Checks that _pkgdown.yml lists every help page and every vignette and nothing else, that the results exist that
# vignettes show from vignettes/measured, and that DESCRIPTION, CITATION, README and the site have the same title:
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

grep_all <- \(pattern, files) unlist(lapply(files, \(file) grep(pattern, readLines(file), value = TRUE)))
shown <- sub("^```\\{r ([a-z-]+),.*", "\\1", grep_all("^```\\{r .*measured = TRUE", Sys.glob("vignettes/*.Rmd")))
labels <- \(files) sub("^## ---- (.*) ----$", "\\1", grep_all("^## ---- .* ----$", Sys.glob(files)))
code <- labels("vignettes/measured/*.R")

faults <- c(
  paste("no place for the help page", setdiff(pages[!internal], topics)), paste("no help page", setdiff(topics, pages)),
  paste("no place for the vignette", setdiff(vignettes, articles)), paste("no vignette", setdiff(articles, vignettes)),
  paste("twice:", unique(topics[duplicated(topics)])),
  paste("no code in vignettes/measured for the part", setdiff(c(shown, labels("vignettes/measured/*.txt")), code))
)
title <- gsub("[[:space:]]+", " ", read.dcf("DESCRIPTION", "Title"))
citation <- sub("^flashkernel: ", "", readCitationFile("inst/CITATION", list(Version = ""))[[1]]$title)
home <- sub("^  title: ", "", grep("^  title: ", lines, value = TRUE)[1])
readme <- grep("^[A-Z]", readLines("README.md"), value = TRUE)[1]
if (tolower(citation) != tolower(title)) faults <- c(faults, paste("CITATION has another title than DESCRIPTION:", citation))
if (tolower(home) != tolower(title)) faults <- c(faults, paste("_pkgdown.yml has another title than DESCRIPTION:", home))
if (!startsWith(tolower(readme), sub(" on cpus.*", "", tolower(title)))) {
  faults <- c(faults, paste("README begins with other words than DESCRIPTION's title:", readme))
}
faults <- grep("(page|vignette|twice:|part) $", faults, value = TRUE, invert = TRUE)
if (length(faults) > 0) {
  cat(paste0("site: ", faults, "\n"), sep = "")
  quit(status = 1)
}
