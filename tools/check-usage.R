# The parts of R CMD check --as-cran that use codetools: names that nothing defines, calls that do not match a function's
# arguments, .Internal(), deprecated functions, and return without parentheses.
#   R_LIBS=LIBRARY R_DEFAULT_PACKAGES=NULL Rscript tools/check-usage.R
# R CMD check takes more than twice as long, because codetools adds a row to a data frame for the source line of each
# use of a local variable. Installed code has no source lines, so that step is left out here.
utils::assignInNamespace("incLocalSrcInfo", function(vn, w) NULL, "codetools")
parts <- c(".check_code_usage_in_package", ".check_dotInternal", ".check_depdef", ".check_bogus_return")
found <- unlist(lapply(parts, function(part) format(get(part, asNamespace("tools"))(package = "flashkernel"))))
writeLines(as.character(found))
quit(status = length(found) > 0)
