# Replaces a value in the package until the caller ends. Returns the old value, which a replacement function may call.
replace_in_package <- function(name, value, frame = parent.frame()) {
  namespace <- asNamespace("flashkernel")
  before <- get(name, namespace)
  set <- function(value) {
    unlockBinding(name, namespace)
    assign(name, value, namespace)
    lockBinding(name, namespace)
  }
  set(value)
  # the last one first
  do.call(on.exit, list(as.call(list(\() set(before))), add = TRUE, after = FALSE), envir = frame)
  invisible(before)
}
