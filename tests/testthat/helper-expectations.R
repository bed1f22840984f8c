# expect_identical(), expect_equal() and expect_true() of testthat take milliseconds for each call, of which a run of all
# tests has thousands. Here they are called only where a comparison that is at least as strict does not hold.

expect_identical <- function(object, expected, ..., label = NULL) {
  if (identical(object, expected)) return(testthat::succeed())
  testthat::expect_identical(object, expected, ..., label = label_or(label, substitute(object)))
}

expect_true <- function(object, ..., label = NULL) {
  if (identical(object, TRUE)) return(testthat::succeed())
  testthat::expect_true(object, ..., label = label_or(label, substitute(object)))
}

expect_equal <- function(object, expected, ..., tolerance = testthat::testthat_tolerance(), label = NULL) {
  if (identical(object, expected) || are_near(object, expected, tolerance)) return(testthat::succeed())
  testthat::expect_equal(object, expected, ..., tolerance = tolerance, label = label_or(label, substitute(object)))
}

label_or <- function(label, call) if (is.null(label)) deparse(call, nlines = 1)[1] else label

# Whether two vectors of doubles have the same attributes and small relative differences of all elements.
are_near <- function(a, b, tolerance) {
  is.double(a) && is.double(b) && length(a) == length(b) && identical(attributes(a), attributes(b)) &&
    isTRUE(all(abs(unclass(a) - unclass(b)) <= tolerance / 2 * abs(unclass(b))))
}
