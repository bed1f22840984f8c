# Checks the layers ("rooms") of R/, lowest first: a function may call functions of its own room and of lower rooms. The
# name of a file begins with its room. DESCRIPTION's Collate lists the files in this order, those that compile.R compiles
# first: a file stays on its side of compile.R.
#
#   Rscript tools/check-rooms.R           fails if a call goes to a higher room, a name is defined twice, or Collate is
#                                         not in order
#   Rscript tools/check-rooms.R --write   writes Collate
#   Rscript tools/check-rooms.R --table   prints the number of calls from each room (row) to each room (column)
#
# Calls by a name that is an argument or a variable of the calling function are not counted. Methods of S3 generics may
# be in a room above their generic.
ROOMS <- c("base", "sum", "store", "density", "bandwidth", "fit", "verb", "infer", "local", "ridge", "figure", "words", "compile")

files <- list.files("R", pattern = "[.]R$", full.names = TRUE)
room_of <- function(file) match(sub("(-.*|[.]R)$", "", basename(file)), ROOMS)
in_order <- function(files) files[order(room_of(files), basename(files), method = "radix")]
files <- in_order(files)
if (anyNA(room_of(files))) {
  stop("no room has the name of: ", paste(basename(files[is.na(room_of(files))]), collapse = ", "))
}

description <- readLines("DESCRIPTION")
begin <- grep("^Collate:", description)
entries <- paste0("    '", basename(files), "'")
point <- "    'compile.R'"
compiled <- entries %in% description[seq_len(match(point, description))] & entries != point
collate <- c("Collate:", entries[compiled], point, entries[!compiled & entries != point])
end <- if (length(begin)) begin + match(FALSE, grepl("^ ", c(description[-seq_len(begin)], "")), nomatch = 1) - 1
if ("--write" %in% commandArgs(TRUE)) {
  if (length(begin)) description <- description[-(begin:end)]
  writeLines(c(description, collate), "DESCRIPTION")
  quit()
}

# All names that are called in a file, with the top-level definition that calls them.
calls_of <- function(file) {
  parsed <- parse(file, keep.source = TRUE)
  lines <- vapply(attr(parsed, "srcref"), `[`, 1L, 1)
  tokens <- utils::getParseData(parsed)
  at <- findInterval(tokens$line1, lines)
  names <- vapply(parsed, \(e) if (is.call(e) && length(e) > 1 && is.name(e[[2]])) as.character(e[[2]]) else "", "")
  called <- which(tokens$token == "SYMBOL_FUNCTION_CALL")
  is_variable <- tokens$token == "SYMBOL_FORMALS" | (tokens$token == "SYMBOL" & followed_by_assign(tokens))
  own <- paste(at, tokens$text)[is_variable & tokens$line1 >= lines[pmax(at, 1)] & !is_top_level(tokens)]
  called <- called[!paste(at, tokens$text)[called] %in% own]
  data.frame(file = rep(file, length(called)), from = names[at[called]], to = tokens$text[called])
}
followed_by_assign <- function(tokens) {
  # SYMBOL is in an expr whose next sibling is LEFT_ASSIGN
  arrow <- tokens[tokens$token == "LEFT_ASSIGN", ]
  sides <- tokens[tokens$parent %in% arrow$parent & tokens$token == "expr", ]
  first <- sides[!duplicated(sides$parent), ]
  tokens$parent %in% first$id
}
is_top_level <- function(tokens) {
  grand <- tokens$parent[match(tokens$parent, tokens$id)]
  top <- tokens$id[tokens$parent == 0]
  tokens$token == "SYMBOL" & grand %in% top
}

defined <- do.call(rbind, lapply(files, \(file) {
  names <- unlist(lapply(parse(file), \(e) if (is.call(e) && identical(e[[1]], as.name("<-")) && is.name(e[[2]])) as.character(e[[2]])))
  data.frame(file = rep(file, length(names)), name = as.character(names))
}))
twice <- unique(defined$name[duplicated(defined$name)])
calls <- do.call(rbind, lapply(files, calls_of))
calls <- calls[calls$to %in% defined$name, ]
calls$there <- defined$file[match(calls$to, defined$name)]
if ("--table" %in% commandArgs(TRUE)) {
  print(table(factor(ROOMS[room_of(calls$file)], ROOMS), factor(ROOMS[room_of(calls$there)], ROOMS)))
  quit()
}

upward <- calls[room_of(calls$there) > room_of(calls$file), ]
keys <- paste(sub("[.]R$", "", basename(upward$file)), upward$to)
wrong <- unique(keys)
if (length(wrong)) cat("calls to a higher room (file, function):", paste0("  ", wrong), sep = "\n")
if (length(twice)) cat("defined twice:", paste0("  ", twice), sep = "\n")
is_collated <- length(begin) && identical(description[begin:end], collate)
if (!is_collated) cat("Collate is not in the order of the rooms: Rscript tools/check-rooms.R --write\n")
cat(nrow(upward), "calls run upward, in", length(unique(keys)), "places of", nrow(calls), "calls\n")
quit(status = length(wrong) > 0 || length(twice) > 0 || !is_collated)
