# Every error of the package is a classed condition, so that tests and callers match a class instead
# of a text: flashkernel_error_argument for what the user passed, and one class per kind of failure
# of the C layer (alloc, unsupported, no_device, device, forked, singular, lost, internal). All
# inherit flashkernel_error.

# Says what is wrong with an argument. `problem` and `...` are pasted behind the argument's name:
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

# The value of `expression`, which calls a function that the user gave as the argument `arg`. An error in it becomes an
# error of this package that names the argument and has the cause as `parent`. A cause of this package keeps its class,
# which may say what to do about it. `problem`: what stands between the argument's name and the cause's message.
in_function_of_user <- function(arg, expression, problem = "failed") {
  tryCatch(expression, error = function(cause) {
    kind <- c(sub("flashkernel_error_", "", grep("^flashkernel_error_", class(cause), value = TRUE)), "argument")[1]
    message <- paste0("`", shorten(arg), "` ", problem, ": ", shorten(conditionMessage(cause), 300))
    stop(new_error(kind, message, user_call(), arg = arg, parent = cause))
  })
}

# A warning with a class of its own, flashkernel_warning_<kind>, so that it alone can be muffled by
# suppressWarnings(classes = ).
warn_user <- function(kind, ...) {
  warning(new_condition(c(paste0("flashkernel_warning_", kind), "flashkernel_warning", "warning"), paste0(...)))
}

new_condition <- function(class, message = "", ...) {
  structure(class = c(class, "condition"), list(message = message, call = NULL, ...))
}

# For estimates that are negative where their logarithm is asked for.
warn_negative <- function(...) warn_user("negative", ...)

# Called from C, after everything there is released. An interrupt that C noticed goes on as R's own
# interrupt would: to a handler if there is one, else to the top level.
raise_status <- function(status, message) {
  if (identical(status, "interrupted")) {
    signalCondition(new_condition("interrupt"))
    invokeRestart("abort")
  }
  stop(new_error(status, message, user_call()))
}

# The call that the user wrote: the outermost frame that runs a function of this package. Checks sit
# several helpers deep, and "Error in check_points(...)" would tell the user nothing.
user_call <- function() {
  package <- topenv()
  for (i in seq_len(sys.nframe())) {
    if (identical(topenv(environment(sys.function(i))), package)) {
      call <- sys.call(i)
      # do.call() puts the function itself and all data into the call: not worth showing.
      return(if (is.function(call[[1]])) NULL else short_call(call))
    }
  }
  NULL
}

# What was found, in a few words, for the end of a message.
describe <- function(value) {
  if (is.null(value)) return("NULL")
  if (is.function(value)) return("a function")
  if (is.data.frame(value)) {
    return(paste("a data frame with", length(value), ngettext(length(value), "column", "columns")))
  }
  kind <- if (is.object(value)) paste0("an object of class ", shorten(class(value)[1])) else typeof(value)
  if (length(dim(value)) == 2) return(paste("a", nrow(value), "x", ncol(value), kind, "matrix"))
  if (!is.atomic(value) || is.object(value)) return(kind)
  if (length(value) != 1) return(paste("a", kind, "vector of length", length(value)))
  if (is.character(value)) quote_text(value) else format(value, digits = 7)
}

quote_text <- function(text) encodeString(shorten(text), quote = '"')

quote_each <- function(names) paste0("`", shorten(names), "`")

quote_names <- function(names, most = 5) few_of(quote_each(names), most)

# The beginning of texts of more than `most` bytes. What is not valid in its encoding is shown as <ff>.
shorten <- function(text, most = 60) {
  broken <- !validEnc(text)
  text[broken] <- iconv(text[broken], "", "ASCII", sub = "byte")
  long <- which(nchar(text, "bytes") > most)
  text[long] <- paste0(substr(text[long], 1, most), "...")
  text
}

# A call with the beginnings of its names and texts.
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

# Three digits of each number, without a power of ten where the number is of a common size.
short_number <- function(x) {
  vapply(signif(x, 3), \(value) if (value >= 1e3 && value < 1e9) whole(value) else format(value, digits = 3), "")
}
