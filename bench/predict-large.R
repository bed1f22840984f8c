# kernel_ridge() without any number on the sets of shared/data with their given test rows (column --split of the mask),
# on sets of predict-sets.R, such as letter and shuttle, with a fifth of the rows for tests, and on made-up data with up
# to 10^7 rows of 30 columns: error at the test rows, and seconds of choosing and fitting.
#
#   Rscript bench/predict-large.R [--data shared/data] [--sets kin40k,elevators,...] [--split 1] [--tables letter,...]
#     [--rows 1e6] [--backend cuda] [--save]
#
# error: root mean square error at the test rows in standard deviations of the training response; for classes the mean
# log loss.
# noise: for made-up data, the error of the function that made them.

source("bench/common.R")
source("bench/predict-sets.R")
folder <- option("--data", file.path("..", "shared", "data"))
sets <- option_values("--sets", c("airfoil", "concrete", "energy", "parkinsons", "elevators", "pol", "bike", "gas", "kin40k"))
tables <- option_values("--tables", character())
split <- as.integer(option("--split", 1))
made <- as.numeric(option_values("--rows", character()))
control <- flash_control(backend = option("--backend", "auto"))
bench_start("predict-large.R", "Default fits of larger tables")

measure <- function(name, x, y, new, truth, floor = NA) {
  fit <- NULL
  seconds <- elapsed(\() fit <<- kernel_ridge(x, y, control = control))
  error <- if (is.factor(y)) {
    chance <- predict(fit, new, type = "prob")[cbind(seq_along(truth), as.integer(truth))]
    -mean(log(pmax(chance, 1e-6)))
  } else {
    sqrt(mean((predict(fit, new) - truth)^2)) / stats::sd(y)
  }
  cat(sprintf(
    "%-12s %8d %4d %8.4f %7s %7.1f  %s, %s, %s\n", name, nrow(x), ncol(x), error,
    if (is.na(floor)) "" else sprintf("%.4f", floor / stats::sd(y)), seconds,
    fit$kernel$name, if (is.matrix(fit$bandwidth)) "full" else "diagonal",
    if (fit$exact) "exact" else paste(nrow(fit$centers), "centres")
  ))
}

cat(sprintf("%-12s %8s %4s %8s %7s %7s  fit\n", "set", "n", "d", "error", "noise", "s"))
for (name in sets) {
  path <- file.path(folder, paste0("uci_", name, c(".csv.gz", ".test_mask.csv.gz")))
  if (!all(file.exists(path))) next
  table <- as.matrix(utils::read.csv(path[1], header = FALSE))
  out <- utils::read.csv(path[2], header = FALSE)[[split]] == 1
  d <- ncol(table) - 1
  x <- unname(table[, seq_len(d)])
  measure(name, x[!out, ], table[!out, d + 1], x[out, ], table[out, d + 1])
}
for (name in tables) {
  set <- prediction_set(name)
  if (is.null(set)) next
  set.seed(1)
  out <- sample(nrow(set$x)) <= nrow(set$x) / 5
  measure(name, set$x[!out, ], set$y[!out], set$x[out, ], set$y[out])
}
for (n in made) {
  set.seed(1)
  x <- matrix(stats::rnorm((n + 10000) * 30), ncol = 30)
  f <- sin(2 * (x[, 1] + 0.5 * x[, 2])) + x[, 3] * x[, 4] / 2 + abs(x[, 5])
  y <- f + stats::rnorm(length(f), sd = 0.3)
  test <- n + seq_len(10000)
  measure("made up", x[-test, ], y[-test], x[test, ], y[test], 0.3)
}
