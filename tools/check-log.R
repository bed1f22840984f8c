# Judges an R CMD check log: every ERROR and WARNING fails, and so does every NOTE but those that
# speak of the machine or of the package being new. Prints what it found; exit status 1 on failure.
log <- readLines(commandArgs(trailingOnly = TRUE)[1], warn = FALSE)

# Sections start with "* checking ..." and end in their verdict, on that line or on a later one.
section <- cumsum(grepl("^\\* ", log))
sections <- split(log, section)

verdict_of <- function(lines) {
  found <- regmatches(lines, regexpr("(ERROR|WARNING|NOTE)$", lines))
  if (grepl("^\\* checking", lines[1]) && length(found) > 0) found[1] else "OK"
}
verdicts <- vapply(sections, verdict_of, "")
done <- any(grepl("^\\* DONE", log)) || any(grepl("^Status:", log))

# what each of these sections may say, line by line
allowed <- list(
  "CRAN incoming feasibility" = "^(Maintainer: .*|New submission|Days since last update: .*)$",
  "installed package size" = "^(installed size is .*|sub-directories of 1Mb or more:|.* +[0-9.]+Mb)$",
  "future file timestamps" = "^unable to verify current time$",
  # configure is a portable shell script; the tool that looks closer is not everywhere
  "top-level files" = "^(A complete check needs the 'checkbashisms' script.*|See section .*)$",
  # neither the distribution nor CRAN has them here: what needs them is skipped, and says so
  "package dependencies" = "^(Packages? suggested but not available for checking:.*|['\u2018].*)$",
  "Rd cross-references" = "^Packages? unavailable to check Rd xrefs: .*$",
  # seconds on the clock are those of whatever else runs beside; of the processor fewer than 5 are asked for
  "examples" = "^(Examples with CPU .*|user system elapsed|[^ ]+ +[0-4][.][0-9]+ +0[.][0-9]+ +[0-9.]+)$",
  # the package was installed before, and its objects are elsewhere: symbols are looked at in the library alone
  "compiled code" = "^Note: information on .o files is not available$",
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
