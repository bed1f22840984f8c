# testthat takes milliseconds for each of these, so it is called only where a comparison that is as strict does not hold.

expect_identical <- function(object, expected, ..., label = deparse1(substitute(object))) {
  if (identical(object, expected)) return(testthat::succeed())
  testthat::expect_identical(object, expected, ..., label = label)
}

expect_true <- function(object, ..., label = deparse1(substitute(object))) {
  if (identical(object, TRUE)) testthat::succeed() else testthat::expect_true(object, ..., label = label)
}

expect_equal <- function(object, expected, ..., tolerance = 1.5e-8, label = deparse1(substitute(object))) {
  near <- \(a, b) isTRUE(all(abs(unclass(a) - unclass(b)) <= tolerance / 2 * abs(unclass(b))))
  alike <- is.double(object) && is.double(expected) && length(object) == length(expected) &&
    identical(attributes(object), attributes(expected)) && near(object, expected)
  if (alike || identical(object, expected)) return(testthat::succeed())
  testthat::expect_equal(object, expected, ..., tolerance = tolerance, label = label)
}
