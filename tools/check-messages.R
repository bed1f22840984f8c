# Lists all texts that users see, in tools/messages.txt, so that every change of wording is seen in a commit: the errors,
# warnings, messages and prints of R/, all other texts of more than one word in R/, and the errors of src/. Also checks
# that tests follow the advice: for each message that advises something, tests/testthat/test-advice.R has a case whose
# text is a part of the message.
#
#   Rscript tools/check-messages.R [--write]  compares with the file, exit status 1 if they differ; --write: writes it
#
# Each line has the file, the function, how the text is shown, and the text, with <...> for computed parts.
RAISING <- c(
  "stop", "stop_argument", "new_error", "warning", "message", "warn_negative", "warn_user", "check_memory", "check_is", "refuse",
  "refuse_images", "refuse_kde", "cat"
)
LIST <- "tools/messages.txt"
ADVICE_TESTS <- "tests/testthat/test-advice.R"

# Words with which a text begins to advise, and what looks like it and is none. test-what-goes.R follows the advice of
# density-refusals.R.
ADVICE <- paste0(
  "(?i)(?<!must )(?<!not )(?<!can )(?<!which )\\b((use|try|write|see|install|apply) |call (?!after)|give (?!the same|numbers)|",
  "leave (it|out|`[a-z]+` out)|make a |compute (?!the bound)|fit (all|it|two|the|again|estimator|another|without|kernel|method)|",
  "delete it|rescale|increase `|add the|bound fewer|multiply first|larger one|plot\\(|simulate\\(\\) draws|With `tol|",
  "makes numbers|has the coordinates|kernel_ridge\\(object\\)|is the sum of|is an ordinary matrix|seed random|",
  "needs? the package|returns the bandwidth|does not extrapolate|leaves such rows)"
)
NO_ADVICE <- "must return|by formula: found|whose centres are used|: this call needs|^R/density-refusals.R|fk_preconditioner_weigh"

# The strings of an expression in order, with <...> for everything else. `known`: expressions of local variables.
words_of <- function(e, known = list()) {
  again <- \(e) words_of(e, known)
  if (is.character(e)) return(paste(e, collapse = ""))
  if (is.name(e) && !is.null(known[[as.character(e)]])) {
    name <- as.character(e)
    return(words_of(known[[name]], known[setdiff(names(known), name)]))
  }
  if (!is.call(e)) return("<...>")
  name <- if (is.name(e[[1]])) as.character(e[[1]]) else ""
  args <- as.list(e)[-1]
  switch(
    name,
    paste0 = , paste = , c = {
      named <- if (is.null(names(args))) rep(FALSE, length(args)) else names(args) %in% c("collapse", "sep")
      paste(vapply(args[!named], again, ""), collapse = if (name == "paste") " " else "")
    },
    "if" = paste0("{", again(e[[3]]), "|", if (length(e) > 3) again(e[[4]]), "}"),
    ngettext = paste0("{", again(args[[2]]), "|", again(args[[3]]), "}"),
    strwrap = , sprintf = again(args[[1]]),
    "{" = , "(" = if (length(e) == 2) again(e[[2]]) else "<...>",
    "<...>"
  )
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

# The text of a call of one of the functions RAISING.
text_of_call <- function(e, how, known) {
  args <- as.list(e)[-1]
  if (!is.null(names(args))) args <- args[!names(args) %in% c("call.", "call", "domain", "class", "sep", "parent")]
  if (how == "new_error") args <- args[2]
  if (how == "check_is") args <- args[3:4]
  if (how == "warn_user") args <- args[-1]
  parts <- vapply(args, words_of, "", known)
  if (how == "stop_argument") parts[1] <- paste0("`", parts[1], "` ")
  if (how == "check_is") parts <- paste0("`", parts[1], "` must be ", parts[2], ": found <...>")
  paste(parts, collapse = "")
}

# All texts in an expression: "how: text", where `how` is a name of RAISING, or "text".
texts_in <- function(e, known) {
  if (is.character(e)) return(paste0("text: ", e[grepl("[[:alpha:]]{2}[^ ]* .*[[:alpha:]]{2}", e)], recycle0 = TRUE))
  if (!is.call(e) && !is.pairlist(e)) return(character())
  found <- unlist(lapply(as.list(e), \(part) if (missing(part)) NULL else texts_in(part, known)))
  if (!is.call(e) || !is.name(e[[1]])) return(found)
  how <- as.character(e[[1]])
  if (how %in% c("paste", "paste0")) return(c(paste0("text: ", words_of(e, known)), found))
  if (how %in% RAISING) c(paste0(how, ": ", text_of_call(e, how, known)), found) else found
}

# The texts of a top-level expression. Texts that are a part of another text are listed only once.
texts_of <- function(e) {
  is_assignment <- is.call(e) && identical(e[[1]], quote(`<-`)) && is.name(e[[2]])
  found <- texts_in(if (is_assignment) e[[3]] else e, assignments(if (is_assignment) e[[3]] else e))
  if (length(found) == 0) return(NULL)
  is_text <- startsWith(found, "text: ")
  words <- gsub("<...>", "", sub("^[a-z0-9_]*: ", "", found), fixed = TRUE)
  has_words <- grepl("[[:alpha:]]", words) & (!is_text | grepl("[[:alpha:]]{2}", words) & grepl("[[:alpha:]>}] |^ ", sub("^text: ", "", found)))
  found <- found[has_words]
  is_text <- is_text[has_words]
  part <- vapply(seq_along(found), \(i) {
    is_text[i] && any(grepl(substring(found[i], 7), found[-i], fixed = TRUE))
  }, NA)
  found <- found[!part]
  if (length(found) == 0) return(NULL)
  paste0(if (is_assignment) as.character(e[[2]]), ": ", gsub("\n", "\\n", found, fixed = TRUE))
}

sources <- function(folder, pattern) sort(list.files(folder, pattern, recursive = TRUE, full.names = TRUE), method = "radix")

texts_of_r <- function() {
  unlist(lapply(sources("R", "\\.R$"), \(file) {
    found <- unlist(lapply(as.list(parse(file, keep.source = FALSE, encoding = "UTF-8")), texts_of))
    if (length(found) > 0) paste0(file, ": ", found)
  }))
}

# A call of one of these functions, to the end of its statement.
C_TEXTS <- "\\b(fk_fail|Rf_error|fk_plan_say|snprintf)\\((\"(\\\\.|[^\"\\\\])*\"|[^;\"])*;"

# The errors of C and CUDA, and their reasons for an engine: the strings from one of these functions to the end of the statement.
texts_of_c <- function() {
  unlist(lapply(setdiff(sources("src", "\\.(c|cu|cuh|h)$"), sources("src/tests", "")), \(file) {
    text <- paste(trimws(readLines(file)), collapse = " ")
    calls <- unlist(regmatches(text, gregexpr(C_TEXTS, text)))
    strings <- regmatches(gsub("\" \"", "", calls), gregexpr("\"(\\\\.|[^\"\\\\])*\"", gsub("\" \"", "", calls)))
    found <- vapply(strings, \(parts) paste(gsub("^\"|\"$", "", parts), collapse = "|"), "")
    found <- paste0(sub("\\(.*", "", calls, perl = TRUE), ": ", found)[grepl("[[:alpha:]]{2}", gsub("%s", "", found))]
    paste0(file, ": ", gsub("\\\"", "\"", unique(found), fixed = TRUE), recycle0 = TRUE)
  }))
}

# Messages whose advice no test follows. A case of the tests is advice("part of the message", ...), or
# advice_elsewhere() with the reason why it is not there.
advice_without_test <- function(listed) {
  shown <- sub("^[^:]*: ([^:]*: )?[a-zA-Z_]*: ", "", listed)
  advising <- listed[grepl(ADVICE, shown, perl = TRUE) & !grepl(NO_ADVICE, listed, perl = TRUE)]
  texts <- character()
  collect <- function(e) {
    is_case <- is.call(e) && is.name(e[[1]]) && as.character(e[[1]]) %in% c("advice", "advice_elsewhere")
    if (is_case) texts <<- c(texts, e[[2]])
    if (is.call(e)) for (part in as.list(e)) if (!missing(part)) collect(part)
  }
  for (e in as.list(parse(ADVICE_TESTS, keep.source = FALSE))) collect(e)
  parts <- strsplit(texts, "<...>", fixed = TRUE)
  follows <- \(line) any(vapply(parts, \(part) all(vapply(part, grepl, NA, line, fixed = TRUE)), NA))
  advising[!vapply(advising, follows, NA)]
}

found <- c(texts_of_r(), texts_of_c())
if ("--write" %in% commandArgs(TRUE)) {
  writeLines(found, LIST)
} else {
  known <- readLines(LIST)
  for (line in setdiff(found, known)) cat("not in ", LIST, ": ", line, "\n", sep = "")
  for (line in setdiff(known, found)) cat("only in ", LIST, ": ", line, "\n", sep = "")
  untested <- advice_without_test(found)
  for (line in untested) cat("no case in ", ADVICE_TESTS, " follows the advice of ", line, "\n", sep = "")
  same <- identical(found, known)
  cat(length(found), if (same) "texts, as listed\n" else "texts: `Rscript tools/check-messages.R --write` lists them\n")
  quit(status = !same || length(untested) > 0)
}
