# For vignettes whose code ran elsewhere (run.R): after measured("gpu") chunks have the code of gpu.R by their labels,
# and those with the option `measured = TRUE` are not run, but show below it what gpu.txt says that it printed. Where
# there is no such file, they show the code alone. list(there, about) for each name: is there one, and what machine and
# day it is of.

measured <- function(...) {
  printed <- list()
  read <- function(name) {
    file <- file.path("measured", paste0(name, ".txt"))
    lines <- if (file.exists(file)) readLines(file) else character()
    head <- grep("^## ---- .* ----$", lines)
    last <- c(head[-1] - 1, length(lines))
    parts <- Map(\(from, to) lines[from:to][-1], head, last[seq_along(head)])
    printed[sub("^## ---- (.*) ----$", "\\1", lines[head])] <<- lapply(parts, Filter, f = nzchar)
    knitr::read_chunk(file.path("measured", paste0(name, ".R")))
    list(there = length(lines) > 0, about = Filter(nzchar, lines[seq_len(c(head, 1)[1] - 1)]))
  }
  found <- lapply(c(...), read)
  knitr::opts_hooks$set(measured = \(options) replace(options, "eval", FALSE))
  knitr::knit_hooks$set(measured = function(before, options) {
    lines <- printed[[options$label]]
    if (!before && length(lines) > 0) paste0(c("", "```", paste("#>", lines), "```", ""), collapse = "\n")
  })
  stats::setNames(found, c(...))
}
