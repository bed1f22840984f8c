# A C unit by itself (src/tests): in a package that was built with FLASHKERNEL_TESTS=yes, as tools/check does.
c_unit <- function(name, ...) {
  skip_without_units()
  .Call(get("ffi_test", asNamespace("flashkernel")), name, list(...))
}

has_units <- \() exists("ffi_test", asNamespace("flashkernel"), inherits = FALSE)

skip_without_units <- function() {
  testthat::skip_if_not(has_units(), "the package was built without FLASHKERNEL_TESTS=yes")
}
