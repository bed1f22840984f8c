# The names of the package's own functions that f() calls, in order.
functions_called <- function(f) {
  namespace <- asNamespace("flashkernel")
  called <- character()
  note <- function(name) called <<- c(called, name)
  all <- mget(ls(namespace, all.names = TRUE), namespace)
  all <- Filter(\(value) is.function(value) && !is.primitive(value), all)
  set <- function(values) {
    for (name in names(values)) {
      unlockBinding(name, namespace)
      assign(name, values[[name]], namespace)
      lockBinding(name, namespace)
    }
  }
  on.exit(set(all))
  set(Map(function(value, name) {
    body(value) <- bquote({
      .(note)(.(name))
      .(body(value))
    })
    value
  }, all, names(all)))
  f()
  called
}
