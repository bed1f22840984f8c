# Classifies the outcome of a call of this package. helper-contract.R and the fuzzers of bench/ use it.

# Calls `call()` and returns a list with elements
# * `outcome`: "value"; "refused" for an error of the package's own class and words; "failed" for any other error, and
#   for a warning that the package did not raise itself,
# * `note`: the message of the error or warning,
# * `value`,
# * `nan`: whether the value or the printed output contains NaN.
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

# Phrases of R's own errors. An error of the package's class must not repeat them.
FOREIGN_WORDS <- paste(
  "subscript", "missing value where", "non-conformable", "with no default", "object '.*' not found", "replacement has",
  "undefined columns", "argument is of length zero", "invalid '", "NA/NaN", "must be a matrix of doubles",
  "non-numeric argument", "attempt to", "cannot coerce", "unused argument", "contrasts can be applied", "dims \\[",
  "arguments imply differing", "infinite or missing values", "internal error",
  sep = "|"
)

# Whether a function of this package called warning(). `calls` and `frame`: sys.calls() and sys.function() of the
# handler.
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
