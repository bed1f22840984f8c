# Lists all errors, warnings, messages and printed texts of the package, in tools/messages.txt, so that every change of
# wording is seen in a commit. Also checks that tests follow the advice: for each message that advises something,
# tests/testthat/test-advice.R has a case whose text is a part of the message.
#
#   Rscript tools/messages.R [--write]      compares with the file, exit status 1 if they differ; --write: writes it
#
# Each line has the file, the function, how the text is shown, and the text, with <...> for computed parts.
RAISING <- c(
  "stop_argument", "new_error", "warning", "message", "warn_negative", "check_memory", "refuse", "refuse_images", "cat"
)
LIST <- "tools/messages.txt"
ADVICE_TESTS <- "tests/testthat/test-advice.R"

# Words with which a message begins to advise, and what looks like it and is none.
ADVICE <- paste0(
  "(?i)(?<!must )(?<!not )(?<!can )\\b(use|give (?!the same|numbers)|leave (it|out|`[a-z]+` out)|see |install |call |",
  "make a|compute |fit (all|it|two|the|estimator|another|without|kernel|method)|apply|delete it|rescale|increase `|",
  "bound fewer|multiply first|larger one|plot\\(|simulate\\(\\) draws)"
)
NO_ADVICE <- "must return|by formula: found|whose centres are used|: this call needs|^[^:]*: [^:]*: cat: "

# The strings of an expression in order, with <...> for everything else. `known`: expressions of local variables.
words_of <- function(e, known = list()) {
  again <- \(e) words_of(e, known)
  if (is.character(e)) return(paste(e, collapse = ""))
  if (is.name(e) && !is.null(known[[as.character(e)]])) {
    name <- as.character(e)
    return(words_of(known[[name]], known[setdiff(names(known), name)]))
  }
  if (is.call(e)) {
    name <- if (is.name(e[[1]])) as.character(e[[1]]) else ""
    args <- as.list(e)[-1]
    if (name %in% c("paste0", "paste", "c")) {
      named <- if (is.null(names(args))) rep(FALSE, length(args)) else names(args) %in% c("collapse", "sep")
      return(paste(vapply(args[!named], again, ""), collapse = if (name == "paste") " " else ""))
    }
    if (name == "if") return(paste0("{", again(e[[3]]), "|", if (length(e) > 3) again(e[[4]]), "}"))
    if (name == "ngettext" && length(args) == 3) return(paste0("{", again(args[[2]]), "|", again(args[[3]]), "}"))
    if (name %in% c("{", "(") && length(e) == 2) return(again(e[[2]]))
  }
  "<...>"
}

# The last assignment to each name inside a function.
assignments <- function(e) {
  if (!is.call(e)) return(list())
  found <- unlist(lapply(as.list(e), \(part) if (missing(part)) list() else assignments(part)), recursive = FALSE)
  if (identical(e[[1]], quote(`<-`)) && is.name(e[[2]]) && !is.null(e[[3]])) {
    found[[as.character(e[[2]])]] <- e[[3]]
  }
  found
}

messages_in <- function(e, inside = "", known = list()) {
  if (!is.call(e) && !is.pairlist(e)) return(character())
  if (is.call(e) && identical(e[[1]], quote(`<-`)) && is.name(e[[2]]) && inside == "") {
    inside <- as.character(e[[2]])
    known <- assignments(e[[3]])
  }
  found <- unlist(lapply(as.list(e), \(part) if (missing(part)) NULL else messages_in(part, inside, known)))
  if (!is.call(e) || !is.name(e[[1]]) || !as.character(e[[1]]) %in% RAISING) return(found)
  how <- as.character(e[[1]])
  args <- as.list(e)[-1]
  if (!is.null(names(args))) args <- args[!names(args) %in% c("call.", "call", "domain", "class", "sep", "parent")]
  if (how == "new_error") args <- args[2]
  parts <- vapply(args, words_of, "", known)
  if (how == "stop_argument") parts[1] <- paste0("`", parts[1], "` ")
  text <- gsub("\n", "\\n", paste(parts, collapse = ""), fixed = TRUE)
  c(paste0(inside, ": ", how, ": ", text), found)
}

list_messages <- function(folder = "R") {
  files <- list.files(folder, "\\.R$", full.names = TRUE)
  unlist(lapply(files, \(file) {
    found <- unlist(lapply(as.list(parse(file, keep.source = FALSE)), messages_in))
    found <- found[grepl("[[:alpha:]]", gsub("<...>", "", sub("^[^:]*: [^:]*: ", "", found), fixed = TRUE))]
    if (length(found) > 0) paste0(basename(file), ": ", found)
  }))
}

# Messages whose advice no test follows. A case of the tests is advice("part of the message", ...), or
# advice_elsewhere() with the reason why it is not there.
advice_without_test <- function(listed) {
  advising <- listed[grepl(ADVICE, listed, perl = TRUE) & !grepl(NO_ADVICE, listed, perl = TRUE)]
  texts <- character()
  collect <- function(e) {
    is_case <- is.call(e) && is.name(e[[1]]) && as.character(e[[1]]) %in% c("advice", "advice_elsewhere")
    if (is_case) texts <<- c(texts, e[[2]])
    if (is.call(e)) for (part in as.list(e)) if (!missing(part)) collect(part)
  }
  for (e in as.list(parse(ADVICE_TESTS, keep.source = FALSE))) collect(e)
  advising[!vapply(advising, \(line) any(vapply(texts, grepl, NA, line, fixed = TRUE)), NA)]
}

found <- list_messages()
if ("--write" %in% commandArgs(TRUE)) {
  writeLines(found, LIST)
} else {
  known <- readLines(LIST)
  for (line in setdiff(found, known)) cat("not in ", LIST, ": ", line, "\n", sep = "")
  for (line in setdiff(known, found)) cat("only in ", LIST, ": ", line, "\n", sep = "")
  untested <- advice_without_test(found)
  for (line in untested) cat("no case in ", ADVICE_TESTS, " follows the advice of ", line, "\n", sep = "")
  same <- identical(found, known)
  cat(length(found), if (same) "messages, as listed\n" else "messages: `Rscript tools/messages.R --write` lists them\n")
  quit(status = !same || length(untested) > 0)
}
