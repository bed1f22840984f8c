library(testthat)
library(flashkernel)

# Checks of CRAN are to be short: they run what another compiler, BLAS, processor or version of R is most likely to
# break. All tests run where NOT_CRAN is "true", as in tools/check.
short <- c(
  "control", "dense", "direct", "errors", "estimates", "falkon-(exact|fit|logistic|predict|rows)", "fuzz", "inputs",
  "kernel-spec", "normal-product", "parity", "preconditioner", "reference", "registration", "sizes", "threads", "tiled",
  "units", "views", "weights"
)
all <- identical(Sys.getenv("NOT_CRAN"), "true")
test_check("flashkernel", filter = if (!all) paste0("^(", paste(short, collapse = "|"), ")$"))
