# Calls every method with every kind of fit, of ordinary and of degenerate data. helper-contract.R has the tables.

test_that("every method with every kind of fit returns a value or raises the package's own error", {
  skip_if_not_installed("generics")
  skip_if_not_installed("ggplot2")
  old <- options(flashkernel.threads = 1L)
  on.exit(options(old))
  table <- with_null_device(contract_table())
  failed <- table[table$outcome == "failed", ]
  lines <- sprintf("%s, %s, %s: %s", failed$kind, failed$variant, failed$method, failed$note)
  expect(nrow(failed) == 0, paste(c(paste(nrow(failed), "of", nrow(table), "cells:"), lines), collapse = "\n"))
  # the test says nothing if most cells are refused
  values <- tapply(table$outcome == "value", table$kind, sum)
  expect_identical(names(values)[values < 10], character())
  expect_gt(sum(table$outcome == "value"), 4500)
})
