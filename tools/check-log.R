# Checks an R CMD check log: every ERROR and WARNING fails, and every NOTE except those about the machine or about a new
# package. Prints what it found; exit status 1 on failure.
log <- readLines(commandArgs(trailingOnly = TRUE)[1], warn = FALSE)

# A section starts with "* checking ..." and ends with its verdict, on that line or on a later one.
section <- cumsum(grepl("^\\* ", log))
sections <- split(log, section)

verdict_of <- function(lines) {
  found <- regmatches(lines, regexpr("(ERROR|WARNING|NOTE)$", lines))
  if (grepl("^\\* checking", lines[1]) && length(found) > 0) found[1] else "OK"
}
verdicts <- vapply(sections, verdict_of, "")
done <- any(grepl("^\\* DONE", log)) || any(grepl("^Status:", log))

# lines that each of these sections may contain
allowed <- list(
  "CRAN incoming feasibility" = "^(Maintainer: .*|New submission|Days since last update: .*)$",
  "installed package size" = "^(installed size is .*|sub-directories of 1Mb or more:|.* +[0-9.]+Mb)$",
  "future file timestamps" = "^unable to verify current time$",
  # configure is a portable shell script; the tool that looks closer is not everywhere
  "top-level files" = "^(A complete check needs the 'checkbashisms' script.*|See section .*)$",
  # suggested packages that are not available here: tests that need them are skipped
  "package dependencies" = "^(Packages? suggested but not available for checking:.*|['\u2018].*)$",
  "Rd cross-references" = "^Packages? unavailable to check Rd xrefs: .*$",
  # times depend on the machine and on other programs: on an idle one, each example takes less than 5 s
  "examples" = "^(Examples with CPU .*|user system elapsed|[^ ]+( +[0-9.]+){3})$",
  # the objects of the installed package are elsewhere: symbols are checked in the library only. The GPU engine is no library
  # of R
  "compiled code" = paste0(
    "^(Note: information on .o files is not available|File .flashkernel/libs/flashkernel-gpu.so.:|Found no calls to: ",
    ".R_registerRoutines., .R_useDynamicSymbols.|It is good practice to register .*|search[.]|See .Writing portable .*)$"
  ),
  "HTML version of manual" = "^Skipping checking .*$"
)
is_allowed <- function(lines) {
  for (name in names(allowed)) {
    if (!grepl(name, lines[1], fixed = TRUE)) next
    rest <- trimws(lines[-1])
    return(all(grepl(allowed[[name]], rest[nzchar(rest)])))
  }
  FALSE
}

failures <- 0
for (i in which(verdicts != "OK")) {
  # a missing checkbashisms is a WARNING in some versions of R and a NOTE in others
  fine <- verdicts[i] != "ERROR" && is_allowed(sections[[i]])
  cat(if (fine) "allowed: " else "", paste(sections[[i]], collapse = "\n"), "\n", sep = "")
  failures <- failures + !fine
}
if (!done) cat("R CMD check did not end\n")
quit(status = as.integer(failures > 0 || !done))
