# What comes of a call of this package: a value, an error of the package's own, or a failure of the law that there is
# nothing else. For the fuzzers of this folder and for tests/testthat/helper-contract.R.

# A list of `outcome` ("value", "refused" or "failed"), `note` (what the error or the failure says), `value`, and `nan`:
# whether there is NaN in the value or in what was printed.
outcome_of <- function(call) {
  foreign <- character()
  printed <- utils::capture.output(value <- withCallingHandlers(
    tryCatch(call(), error = identity),
    warning = \(w) {
      if (!is_own_warning(w, sys.calls(), sys.function)) foreign <<- c(foreign, paste("warning:", conditionMessage(w)))
      invokeRestart("muffleWarning")
    },
    message = \(m) invokeRestart("muffleMessage")
  ))
  result <- \(outcome, note = "", nan = FALSE) list(outcome = outcome, note = note, value = value, nan = nan)
  if (length(foreign) > 0) return(result("failed", foreign[1]))
  if (!inherits(value, "error")) return(result("value", nan = has_nan(value) || any(grepl("\\bNaN\\b", printed))))
  message <- gsub("\n", " ", conditionMessage(value))
  if (!inherits(value, "flashkernel_error")) return(result("failed", paste("error:", message)))
  if (grepl(FOREIGN_WORDS, message)) return(result("failed", paste("error in R's words:", message)))
  result("refused", message)
}

# What R itself says of code that was not meant for such input, also where a class has been put around it.
FOREIGN_WORDS <- paste(
  "subscript", "missing value where", "non-conformable", "with no default", "object '.*' not found", "replacement has",
  "undefined columns", "argument is of length zero", "invalid '", "NA/NaN", "must be a matrix of doubles",
  "non-numeric argument", "attempt to", "cannot coerce", "unused argument", "contrasts can be applied", "dims \\[",
  "arguments imply differing", "infinite or missing values", "internal error",
  sep = "|"
)

# Whether a function of this package called warning(). `frame`: sys.function() where `calls` are.
is_own_warning <- function(w, calls, frame) {
  if (inherits(w, "flashkernel_warning")) return(TRUE)
  at <- which(vapply(seq_along(calls), \(i) identical(frame(i), base::warning), NA))
  at <- at[at > 1]
  if (length(at) == 0) return(FALSE)
  identical(topenv(environment(frame(at[length(at)] - 1))), asNamespace("flashkernel"))
}

has_nan <- function(value) {
  if (is.numeric(value)) return(any(is.nan(value)))
  if (is.environment(value) || !is.list(value)) return(FALSE)
  any(vapply(unclass(value), has_nan, NA))
}
