# Conditions. All errors inherit flashkernel_error: flashkernel_error_argument for arguments of the user, and a class
# for each status of the C layer (alloc, unsupported, no_device, device, forked, singular, lost, internal).

# Raises an error about an argument. `problem` and `...` are pasted after its name:
# stop_argument("h", "must be positive: found ", -1) gives "`h` must be positive: found -1".
stop_argument <- function(arg, problem, ..., call = user_call()) {
  arg <- shorten(arg)
  stop(new_error("argument", shorten(paste0("`", arg, "` ", problem, ...), 2000), call, arg = arg))
}

new_error <- function(kind, message, call, ...) {
  structure(
    class = c(paste0("flashkernel_error_", kind), "flashkernel_error", "error", "condition"),
    list(message = message, call = call, ...)
  )
}

# Evaluates `expression`, which calls a function that the user gave as the argument `arg`. An error in it becomes an
# error of this package that names the argument, with the cause as `parent`. The class of the cause is kept if it is
# one of this package. `problem`: text between the argument's name and the cause's message.
in_function_of_user <- function(arg, expression, problem = "failed") {
  tryCatch(expression, error = function(cause) {
    kind <- c(sub("flashkernel_error_", "", grep("^flashkernel_error_", class(cause), value = TRUE)), "argument")[1]
    message <- paste0("`", shorten(arg), "` ", problem, ": ", shorten(conditionMessage(cause), 300))
    stop(new_error(kind, message, user_call(), arg = arg, parent = cause))
  })
}

# Raises a warning of class flashkernel_warning_<kind>, which suppressWarnings(classes = ) can muffle.
warn_user <- function(kind, ...) {
  warning(new_condition(c(paste0("flashkernel_warning_", kind), "flashkernel_warning", "warning"), paste0(...)))
}

new_condition <- function(class, message = "", ...) {
  structure(class = c(class, "condition"), list(message = message, call = NULL, ...))
}

# For negative estimates whose logarithm is requested.
warn_negative <- function(...) warn_user("negative", ...)

# Called from C after it has released its resources. An interrupt that C noticed is handled like R's own: by a
# handler, else at top level.
raise_status <- function(status, message) {
  if (identical(status, "interrupted")) {
    signalCondition(new_condition("interrupt"))
    invokeRestart("abort")
  }
  stop(new_error(status, message, user_call()))
}

# The user's call, for error messages: the outermost frame of a function of this package.
user_call <- function() {
  package <- topenv()
  for (i in seq_len(sys.nframe())) {
    if (identical(topenv(environment(sys.function(i))), package)) {
      call <- sys.call(i)
      # a call by do.call() contains the function and all data
      return(if (is.function(call[[1]])) NULL else short_call(call))
    }
  }
  NULL
}

# A short description of a value, for the end of a message.
describe <- function(value) {
  if (is.null(value)) return("NULL")
  if (is.function(value)) return("a function")
  n <- length(value)
  if (is.data.frame(value)) return(paste("a data frame with", n, ngettext(n, "column", "columns")))
  if (is.object(value)) return(paste("an object of class", shorten(class(value)[1])))
  kind <- sub("double", "numeric", typeof(value))
  if (length(dim(value)) == 2) return(paste("a", nrow(value), "x", ncol(value), kind, "matrix"))
  if (!is.atomic(value)) return(kind)
  if (n != 1) return(paste(if (kind == "integer") "an" else "a", kind, "vector of length", n))
  if (is.character(value)) quote_text(value) else format(value, digits = 7)
}

quote_text <- function(text) encodeString(shorten(text), quote = '"')

quote_names <- function(names, most = 5) few_of(paste0("`", shorten(names), "`"), most)

# Cuts texts to `most` bytes. Bytes that are invalid in their encoding are shown as <ff>.
shorten <- function(text, most = 60) {
  broken <- !validEnc(text)
  text[broken] <- iconv(text[broken], "", "ASCII", sub = "byte")
  long <- which(nchar(text, "bytes") > most)
  text[long] <- paste0(substr(text[long], 1, most), "...")
  text
}

# A call with shortened names and texts.
short_call <- function(call) {
  if (!is.null(names(call))) names(call) <- shorten(names(call))
  for (i in seq_along(call)) {
    part <- call[[i]]
    if (missing(part)) next
    if (is.call(part)) call[[i]] <- short_call(part)
    if (is.character(part)) call[[i]] <- shorten(part)
    if (is.name(part)) call[[i]] <- as.name(shorten(as.character(part)))
  }
  call
}

few_of <- function(texts, most = 6) {
  shown <- paste(utils::head(texts, most), collapse = ", ")
  if (length(texts) > most) paste0(shown, ", ... (", length(texts), " in all)") else shown
}

# Numbers with three significant digits, without exponent from 1e3 to 1e9.
short_number <- function(x) {
  vapply(signif(x, 3), \(value) if (value >= 1e3 && value < 1e9) whole(value) else format(value, digits = 3), "")
}
