# Lists all errors, warnings and messages of the package. tests/testthat/test-messages.R compares the list with
# tests/testthat/fixtures/messages.txt, so that changes of wording are seen.
#
#   Rscript tools/messages.R [--write]      --write: writes the file
#
# Each line has the file, the function that raises the condition, and its text, with <...> for computed parts.
RAISING <- c("stop_argument", "new_error", "warning", "message", "warn_negative", "check_memory")

# The strings of an expression in order, with <...> for everything else.
words_of <- function(e) {
  if (is.character(e)) return(paste(e, collapse = ""))
  if (is.call(e)) {
    name <- if (is.name(e[[1]])) as.character(e[[1]]) else ""
    args <- as.list(e)[-1]
    if (name %in% c("paste0", "paste", "c")) {
      named <- if (is.null(names(args))) rep(FALSE, length(args)) else names(args) %in% c("collapse", "sep")
      return(paste(vapply(args[!named], words_of, ""), collapse = if (name == "paste") " " else ""))
    }
    if (name == "if") {
      return(paste0("{", words_of(e[[3]]), "|", if (length(e) > 3) words_of(e[[4]]), "}"))
    }
    if (name %in% c("ngettext") && length(args) == 3) return(paste0("{", words_of(args[[2]]), "|", words_of(args[[3]]), "}"))
    if (name %in% c("{", "(") && length(e) == 2) return(words_of(e[[2]]))
  }
  "<...>"
}

messages_in <- function(e, inside = "") {
  if (!is.call(e) && !is.pairlist(e)) return(character())
  if (is.call(e) && identical(e[[1]], quote(`<-`)) && is.name(e[[2]]) && inside == "") inside <- as.character(e[[2]])
  found <- unlist(lapply(as.list(e), \(part) if (missing(part)) NULL else messages_in(part, inside)))
  if (!is.call(e) || !is.name(e[[1]]) || !as.character(e[[1]]) %in% RAISING) return(found)
  args <- as.list(e)[-1]
  if (!is.null(names(args))) args <- args[!names(args) %in% c("call.", "call", "domain", "class")]
  text <- paste(vapply(args, words_of, ""), collapse = if (as.character(e[[1]]) == "stop_argument") " " else "")
  c(paste0(inside, ": ", as.character(e[[1]]), ": ", text), found)
}

list_messages <- function(folder = "R") {
  files <- list.files(folder, "\\.R$", full.names = TRUE)
  unlist(lapply(files, \(file) {
    found <- unlist(lapply(as.list(parse(file, keep.source = FALSE)), messages_in))
    found <- found[!grepl("^[^:]*: [a-z_]+: (<...>| )*$", found)]
    if (length(found) > 0) paste0(basename(file), ": ", found)
  }))
}

if (sys.nframe() == 0) {
  found <- list_messages()
  if ("--write" %in% commandArgs(TRUE)) writeLines(found, "tests/testthat/fixtures/messages.txt") else writeLines(found)
}
