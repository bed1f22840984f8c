# A function or a number of the package is another one until the caller ends.
replace_function <- function(name, value, frame = parent.frame()) {
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
}
