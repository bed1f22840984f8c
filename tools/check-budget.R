# Limits what may not grow without a decision: lines of R, src and tests, exported functions, help pages, and the length
# of an R function. Prints the sizes, and exits with 1 if one exceeds its limit. Lower a limit whenever possible.
LIMITS <- c(R = 39912, src = 52020, tests = 30035, exports = 45, `help pages` = 60, `lines of a function in R` = 50)

lines_in <- function(pattern, folder) {
  files <- list.files(folder, pattern, recursive = TRUE, full.names = TRUE)
  sum(vapply(files, \(file) length(readLines(file, warn = FALSE)), 0L))
}

# Lines from the assignment to the closing brace, for each function at the top level of a file.
function_lines <- function(file) {
  expressions <- parse(file, keep.source = TRUE)
  is_function <- vapply(expressions, \(e) is.call(e) && identical(e[[1]], quote(`<-`)) && is.call(e[[3]]) &&
    identical(e[[3]][[1]], quote(`function`)), NA)
  spans <- vapply(attr(expressions, "srcref"), \(ref) ref[3] - ref[1] + 1L, 0L)[is_function]
  stats::setNames(spans, vapply(expressions[is_function], \(e) deparse(e[[2]]), ""))
}

functions <- unlist(lapply(list.files("R", "\\.R$", full.names = TRUE), function_lines))
longest <- which.max(functions)
found <- c(
  R = lines_in("\\.R$", "R"), src = lines_in("\\.(c|h|cu|cuh)$", "src"), tests = lines_in("\\.R$", "tests"),
  exports = sum(startsWith(readLines("NAMESPACE"), "export(")), `help pages` = length(list.files("man", "\\.Rd$")),
  `lines of a function in R` = unname(functions[longest])
)
cat(sprintf("%-26s %6d of at most %6d\n", names(found), as.integer(found), as.integer(LIMITS[names(found)])), sep = "")
over <- found > LIMITS[names(found)]
if (over[["lines of a function in R"]]) cat("the longest function is", names(longest), "\n")
quit(status = any(over))
