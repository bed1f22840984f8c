# Density estimation on a CSV file: Rscript demo.R file.csv [output directory [rows]]
#
# Fits the three estimators of flashkernel to the numeric columns of the file, prints the
# log-likelihood of rows that were held out, and plots the estimate that does best on them.
# tools/demo runs this after installing the package; it also runs on its own:
#   Rscript "$(Rscript -e 'cat(system.file("scripts", "demo.R", package = "flashkernel"))')" my.csv

library(flashkernel)

arguments <- commandArgs(trailingOnly = TRUE)
file <- if (length(arguments) >= 1) arguments[1] else {
  system.file("extdata", "california.csv.xz", package = "flashkernel", mustWork = TRUE)
}
output <- if (length(arguments) >= 2) arguments[2] else "."
most_rows <- if (length(arguments) >= 3) suppressWarnings(as.numeric(arguments[3])) else 50000
seed <- 1
options(width = 120)

say <- function(...) cat(sprintf(...), sep = "")
give_up <- function(...) {
  message("error: ", sprintf(...))
  quit(status = 1)
}

if (is.na(most_rows) || most_rows < 20) {
  give_up("the third argument is the number of rows to use, 20 or more: found '%s'", arguments[3])
}
dir.create(output, showWarnings = FALSE, recursive = TRUE)
if (!dir.exists(output)) give_up("cannot make the directory '%s'", output)

# ---- the numeric columns of the file ------------------------------------------------------

read_numeric <- function(file) {
  if (!file.exists(file)) give_up("there is no file '%s'", file)
  data <- tryCatch(
    utils::read.csv(file, check.names = FALSE, stringsAsFactors = FALSE, strip.white = TRUE),
    error = function(e) give_up("cannot read '%s' as CSV: %s", file, conditionMessage(e))
  )
  say("%s: %s rows, %d columns\n", basename(file), format(nrow(data), big.mark = ","), ncol(data))

  numeric <- vapply(data, is.numeric, NA)
  if (any(!numeric)) {
    say("  not numeric, left out: %s\n", paste(names(data)[!numeric], collapse = ", "))
  }
  data <- data[numeric]
  data[] <- lapply(data, \(column) replace(column, !is.finite(column), NA))

  empty <- vapply(data, \(column) all(is.na(column)), NA)
  if (any(empty)) say("  without any value, left out: %s\n", paste(names(data)[empty], collapse = ", "))
  data <- data[!empty]

  complete <- stats::complete.cases(data)
  if (any(!complete)) {
    say("  rows with missing or infinite values, left out: %d\n", sum(!complete))
    data <- data[complete, , drop = FALSE]
  }
  constant <- vapply(data, \(column) length(unique(column)) < 2, NA)
  if (any(constant)) say("  constant, left out: %s\n", paste(names(data)[constant], collapse = ", "))
  data <- data[!constant]

  if (ncol(data) == 0) give_up("'%s' has no numeric column that varies", file)
  if (nrow(data) < 20) give_up("'%s' has %d complete rows, at least 20 are needed", file, nrow(data))
  as.matrix(data)
}

x <- read_numeric(file)
set.seed(seed)
if (nrow(x) > most_rows) {
  say("  using %s rows at random (third argument of demo.R: how many)\n", format(most_rows, big.mark = ","))
  x <- x[sort(sample.int(nrow(x), most_rows)), , drop = FALSE]
}

# ---- a random fifth is held out -----------------------------------------------------------

held_out <- sample.int(nrow(x), max(1, nrow(x) %/% 5))
train <- x[-held_out, , drop = FALSE]
test <- x[held_out, , drop = FALSE]
# a rare value may have gone with the rows held out
varies <- apply(train, 2, \(column) any(column != column[1]))
if (!any(varies)) give_up("no column of '%s' varies in the rows kept", file)
if (!all(varies)) {
  say("  constant in the rows kept, left out: %s\n", paste(colnames(x)[!varies], collapse = ", "))
  x <- x[, varies, drop = FALSE]
  train <- train[, varies, drop = FALSE]
  test <- test[, varies, drop = FALSE]
}
say("  estimating from %s rows in %d dimension%s (%s), %s held out (seed %d)\n\n",
    format(nrow(train), big.mark = ","), ncol(x), if (ncol(x) == 1) "" else "s",
    paste(colnames(x), collapse = ", "), format(nrow(test), big.mark = ","), seed)

# The Laplace-corrected estimate can be negative far from the data. It has no logarithm there, so
# its likelihood is taken over the other rows, and the rows left out are counted.
held_out_likelihood <- function(fit) {
  value <- suppressWarnings(
    predict(fit, test, type = "log_density"),
    classes = "flashkernel_warning_negative"
  )
  negative <- is.nan(value)
  c(mean = mean(value[!negative]), negative = sum(negative))
}

# Each estimator with the bandwidth that the package chooses for it.
try_one <- function(estimator) {
  say("  %s: bandwidth, fit and densities of the rows held out ... ", estimator)
  utils::flush.console()
  seconds <- system.time({
    fit <- flash_kde(train, estimator)
    likelihood <- held_out_likelihood(fit)
  })[["elapsed"]]
  say("%.1f s\n", seconds)
  sds <- sqrt(diag(fit$bandwidth))
  list(fit = fit, row = data.frame(
    estimator = estimator, bandwidth = fit$selector,
    sds = paste(formatC(sds, digits = 3, format = "g"), collapse = " "),
    likelihood = likelihood[["mean"]], negative = likelihood[["negative"]], seconds = seconds
  ))
}
tries <- lapply(c("kde", "sdkde", "laplace"), try_one)
results <- do.call(rbind, lapply(tries, `[[`, "row"))

say("\nMean log-likelihood of a held-out row (larger is better):\n\n")
print(data.frame(
  estimator = results$estimator, bandwidth = results$bandwidth, `kernel sds` = results$sds,
  `log-likelihood` = sprintf("%.4f", results$likelihood),
  `not positive` = results$negative, seconds = sprintf("%.2f", results$seconds),
  check.names = FALSE
), row.names = FALSE, right = TRUE)
say("\n")
if (any(results$negative > 0)) {
  say("not positive: held-out rows where the signed laplace estimate is not above zero; they have no\n")
  say("logarithm and are left out of its mean, which is therefore not comparable with the others\n")
}

# ---- plot ---------------------------------------------------------------------------------

best <- which.max(ifelse(results$negative == 0, results$likelihood, -Inf))
fit <- tries[[best]]$fit
plot_file <- file.path(output, paste0("density-", sub("[.].*$", "", basename(file)), ".png"))
size <- if (ncol(x) <= 2) c(1400, 1100) else c(1800, 1800)
if (capabilities("png")) {
  grDevices::png(plot_file, size[1], size[2], res = 180)
} else {
  plot_file <- sub("png$", "pdf", plot_file)
  grDevices::pdf(plot_file, size[1] / 180, size[2] / 180)
}
say("\nDrawing the %s estimate ...\n", results$estimator[best])
plot(fit, max_dims = 5)
invisible(grDevices::dev.off())
say("\nplot of the %s estimate with bandwidth '%s': %s\n\n", results$estimator[best],
    results$bandwidth[best], plot_file)
print(diagnostics(fit))
