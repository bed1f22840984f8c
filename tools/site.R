# Builds the pkgdown site for tools/site: Rscript tools/site.R SOURCES FOLDER, with the package installed. Fails if
# pkgdown warns, a link is broken or a figure has no alternative text.

options(pkgdown.internet = FALSE, cli.num_colors = 1L, rlang_interactive = FALSE)
arguments <- commandArgs(TRUE)
sources <- normalizePath(arguments[1])
folder <- normalizePath(arguments[2], mustWork = FALSE)

# README links to source files, for readers of the repository. On the site, these links lead to the pages.
readme <- file.path(sources, "README.md")
text <- paste(readLines(readme), collapse = "\n")
text <- gsub("\\]\\(vignettes/(articles/)?([a-z-]+)\\.Rmd\\)", "](articles/\\2.html)", text)
text <- sub("](bench/paper/README.md)", "](articles/papers.html)", text, fixed = TRUE)
text <- sub("`CONTRIBUTING.md`", "[CONTRIBUTING](CONTRIBUTING.html)", text, fixed = TRUE)
writeLines(sub("](NEWS.md)", "](news/index.html)", text, fixed = TRUE), readme)

warned <- character()
withCallingHandlers(
  {
    pkgdown::check_pkgdown(sources)
    pkgdown::build_site(
      sources, override = list(destination = folder), install = FALSE, new_process = FALSE, preview = FALSE
    )
  },
  warning = \(w) {
    warned <<- c(warned, conditionMessage(w))
    tryInvokeRestart("muffleWarning")
  }
)

unlink(list.files(file.path(folder, "reference"), "^Rplot[0-9]+[.]png$", full.names = TRUE)) # of devices of examples

pages <- list.files(folder, "[.]html$", recursive = TRUE)
read_page <- \(page) paste(readLines(file.path(folder, page), warn = FALSE, encoding = "UTF-8"), collapse = "\n")

# Writes the search index as a script, which a page can also load from a local folder.
index <- file.path(folder, "search.json")
script <- paste0("window.SEARCH = ", readLines(index, warn = FALSE), ";")
writeLines(script, file.path(folder, "search.js"), useBytes = TRUE)

# Converts the formulas of a page to MathML with pandoc, all at once: browsers need no script for MathML.
formula <- "\\\\\\((.*?)\\\\\\)|\\\\\\[(.*?)\\\\\\]"
with_mathml <- function(page) {
  text <- read_page(page)
  found <- unique(regmatches(text, gregexpr(formula, text, perl = TRUE))[[1]])
  if (length(found) == 0) return()
  tex <- gsub("\n", " ", substr(found, 3, nchar(found) - 2))
  for (sign in list(c("&lt;", "<"), c("&gt;", ">"), c("&amp;", "&"))) tex <- gsub(sign[1], sign[2], tex, fixed = TRUE)
  arguments <- c("-f", "markdown", "-t", "html", "--mathml", "--wrap=none")
  made <- system2("pandoc", arguments, input = paste0("$", trimws(tex), "$\n"), stdout = TRUE)
  made <- sub("<p>(<span[^>]*>)?(.*?)(</span>)?</p>", "\\2", made, perl = TRUE)
  if (length(made) != length(found) || !all(grepl("^<math", made))) {
    stop("pandoc cannot convert formulas of ", page, ": ", paste(found, collapse = " "))
  }
  for (i in seq_along(found)) text <- gsub(found[i], made[i], text, fixed = TRUE)
  writeLines(text, file.path(folder, page), useBytes = TRUE)
}
if (utils::packageVersion("pkgdown") < "2.1.0") for (page in pages) with_mathml(page)

# Broken links, and figures without alternative text.
faults_of <- function(page) {
  html <- xml2::read_html(file.path(folder, page))
  links <- xml2::xml_attr(xml2::xml_find_all(html, "//a[@href]|//link[@href]"), "href")
  links <- c(links, xml2::xml_attr(xml2::xml_find_all(html, "//img[@src]|//script[@src]"), "src"))
  links <- grep("^([a-z]+:|//|#)", unique(links), value = TRUE, invert = TRUE)
  files <- utils::URLdecode(file.path(folder, dirname(page), sub("[#?].*", "", links)))
  lost <- links[!file.exists(files)]
  mute <- xml2::xml_attr(xml2::xml_find_all(html, "//main//img[not(@alt)]"), "src")
  c(
    if (length(lost)) paste(page, "leads nowhere:", lost),
    if (length(mute)) paste(page, "has a figure without text:", mute)
  )
}
warned <- c(warned, unlist(lapply(pages, faults_of)))

# The questions of tools/questions.csv must be among the 15 hits of the search of the site, as extra.js finds them: entries
# with all words, first those that have them in their titles.
entries <- jsonlite::fromJSON(index, simplifyDataFrame = FALSE)
one_text <- \(entry, fields) tolower(paste(unlist(entry[fields]), collapse = " "))
heads <- vapply(entries, one_text, "", fields = c("what", "title", "previous_headings"))
texts <- paste(heads, vapply(entries, one_text, "", fields = c("text", "code")))
is_page <- vapply(entries, \(entry) identical(entry$what, entry$title), NA)
hits_of <- function(query) {
  words <- strsplit(tolower(query), "[[:space:]]+")[[1]]
  has_all <- Reduce(`&`, lapply(words, grepl, texts, fixed = TRUE))
  points <- Reduce(`+`, lapply(words, \(word) ifelse(startsWith(heads, word), 20, ifelse(grepl(word, heads, fixed = TRUE), 10, 0))))
  ranked <- order(-(points + 3 * is_page), seq_along(entries))
  basename(vapply(entries[utils::head(ranked[has_all[ranked]], 15)], \(entry) entry$path, ""))
}
questions <- utils::read.csv(file.path(sources, "tools", "questions.csv"))
lost <- !mapply(\(query, page) paste0(page, ".html") %in% hits_of(query), questions$search, questions$page)
if (any(lost)) warned <- c(warned, paste0("the search for '", questions$search, "' does not list ", questions$page)[lost])

cat(length(pages), "pages in", folder, "\n")
if (length(warned) > 0) {
  cat(paste("warning:", unique(warned)), sep = "\n")
  quit(status = 1)
}
