library(testthat)
library(flashkernel)

test_check("flashkernel")
