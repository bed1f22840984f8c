# The contract of fits. Laws are true of fits of every kind (helper-laws.R); every method returns a value, or refuses in
# the package's own words, for every kind of fit, of ordinary and of degenerate data (helper-contract.R).

kinds <- law_kinds()
cases <- Map(law_case, names(kinds), kinds)

for (name in names(laws)) {
  test_that(paste0(name, ": ", laws[[name]]$says), {
    old <- options(flashkernel.threads = 1L)
    on.exit(options(old))
    found <- law_verdicts(name, cases)
    broken <- paste(c(paste("The law", name, "does not hold for"), found$broken), collapse = "\n")
    expect(length(found$broken) == 0, broken)
    # a law that is about nothing says nothing
    expect_gt(found$held, 2)
  })
}

test_that("exceptions to the laws are of kinds and laws that there are", {
  idle <- Filter(\(known) !any(grepl(known[[2]], names(kinds))) || !any(grepl(known[[3]], names(laws))), law_exceptions)
  expect_length(idle, 0)
})

test_that("every method with every kind of fit returns a value or raises the package's own error", {
  skip_if_not_installed("generics")
  skip_if_not_installed("ggplot2")
  old <- options(flashkernel.threads = 1L)
  on.exit(options(old))
  table <- with_null_device(contract_table())
  failed <- table[table$outcome == "failed", ]
  lines <- sprintf("%s, %s, %s: %s", failed$kind, failed$variant, failed$method, failed$note)
  expect(nrow(failed) == 0, paste(c(paste(nrow(failed), "of", nrow(table), "cells:"), lines), collapse = "\n"))
  # new data of no rows has results of no rows
  expect_identical(grep("at least one row: found none", table$note[table$outcome == "refused"], value = TRUE), character())
  # the test says nothing if most cells are refused
  values <- tapply(table$outcome == "value", table$kind, sum)
  expect_identical(names(values)[values < 10], character())
  expect_gt(sum(table$outcome == "value"), 4500)
})
