# Methods that sums take where another would take less time: "grid" and "direct", of the fast engine; "line", in one
# dimension; "near" and "pairs", of the exact engine; "as exact", the fast engine without a tolerance; "envelope", on a
# GPU. methods_of() in src/r/glue.c reads them from the control, which workers of a cluster have, too.
set_method <- function(method) {
  session <- asNamespace("flashkernel")$session
  before <- session$method
  session$method <- if (any(nzchar(method))) method
  invisible(before)
}

with_method <- function(method, expression) {
  before <- set_method(method)
  on.exit(set_method(before))
  expression
}

# Restores the old value when the caller ends.
local_method <- function(method, frame = parent.frame()) {
  before <- set_method(method)
  do.call(on.exit, list(bquote(set_method(.(before))), add = TRUE), envir = frame)
}
