# Errors against 13 cases computed in 40-digit arithmetic (tests/testthat/fixtures/reference), among
# them far tails, coordinates with a large offset, ties, weights, full bandwidths, d = 1 to 100.
# Run from the source tree, where the cases are.

source("bench/common.R")

folder <- file.path("tests", "testthat", "fixtures", "reference")
if (!dir.exists(folder)) stop("the reference cases are not here: run this from the source tree")
bench_start("accuracy.R", "Errors against 40-digit reference values")

read_case <- function(name) {
  read <- function(what, ...) utils::read.csv(file.path(folder, name, paste0(what, ".csv.gz")), ...)
  points <- function(what) unname(as.matrix(read(what, header = FALSE, colClasses = "numeric")))
  expected <- read("expected", colClasses = "numeric")
  list(
    x = points("x"), y = points("y"), H = points("bandwidth"),
    weights = if (file.exists(file.path(folder, name, "weights.csv.gz"))) points("weights")[, 1],
    expected = expected, score = unname(as.matrix(expected[startsWith(names(expected), "score")])),
    debiased = points("debiased")
  )
}

# relative, absolute where the true value is below 1
error <- function(got, want) max(abs(got - want) / pmax(1, abs(want)))

measure <- function(name, precision) {
  case <- read_case(name)
  fit <- function(estimator) {
    flash_kde(case$x, estimator, bandwidth = case$H, weights = case$weights, control = flash_control(precision = precision))
  }
  log_density <- function(estimator) predict(fit(estimator), case$y, type = "log_density")
  laplace <- suppressWarnings(log_density("laplace"))
  signed <- !is.nan(laplace) # a negative density has no logarithm here: its absolute value has
  data.frame(
    case = name, n = nrow(case$x), d = ncol(case$x),
    `smallest log density` = sprintf("%.0f", min(case$expected$log_kde)),
    `log kde` = error(log_density("kde"), case$expected$log_kde),
    `log sdkde` = error(log_density("sdkde"), case$expected$log_sdkde),
    `log laplace` = if (any(signed)) error(laplace[signed], case$expected$log_abs_laplace[signed]) else NA,
    score = error(predict(fit("kde"), case$y, type = "score"), case$score),
    debiased = error(fit("sdkde")$debiased, case$debiased),
    check.names = FALSE
  )
}

cases <- list.dirs(folder, full.names = FALSE, recursive = FALSE)
for (precision in c("double", "single")) {
  table <- do.call(rbind, lapply(cases, measure, precision))
  columns <- 5:9
  cat(precision, "precision: largest error of each case (relative, absolute below 1)\n")
  shown <- table
  shown[columns] <- lapply(table[columns], formatC, digits = 1, format = "e")
  show_table(shown)
  offset <- table$case == "d7-offset" # its coordinates hold three digits less
  cat("largest, without d7-offset:\n")
  print(vapply(table[!offset, columns], max, 0, na.rm = TRUE), digits = 2)
  cat("\n")
}
