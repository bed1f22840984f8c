# Checks of CRAN are to be short: they run what another compiler, BLAS, processor or version of R is most likely to
# break. All tests run where NOT_CRAN is "true", as in tools/check, which leaves to R CMD check the files that it names.
short <- c(
  "control", "dense", "direct", "errors", "estimates", "ridge-(exact|fit|logistic|predict|rows)", "fuzz", "inputs",
  "kernel-spec", "normal-product", "parity", "preconditioner", "reference", "registration", "sizes", "threads", "tiled",
  "units", "views", "weights"
)
files <- Sys.getenv("FLASHKERNEL_TEST_FILES", paste(short, collapse = "|"))
all <- identical(Sys.getenv("NOT_CRAN"), "true")

# testthat is one of the packages that may be missing
if (requireNamespace("testthat", quietly = TRUE)) {
  library(testthat)
  library(flashkernel)
  test_check("flashkernel", filter = if (!all) paste0("^(", files, ")$"))
}
