# Real sets by their names, split and standardised: for falkon-peers.R and inst/bench/paper; on top of common.R.
# `folder` is where the files are.

read <- function(file, ...) utils::read.csv(file.path(folder, file), ...)

# list(x, y, test): test has a column for each split.
read_regression <- function(name) {
  data <- as.matrix(read(paste0("uci_", name, ".csv.gz"), header = FALSE))
  test <- as.matrix(read(paste0("uci_", name, ".test_mask.csv.gz"), header = FALSE)) == 1
  list(x = unname(data[, -ncol(data)]), y = data[, ncol(data)], test = test)
}

read_classes <- function(name, splits) {
  files <- c(higgs = "higgs_subset", satellite = "satellite", shuttle = "shuttle", anomalies = "shuttle")
  data <- read(paste0(files[[name]], ".csv.gz"))
  label <- if ("label" %in% names(data)) "label" else names(data)[ncol(data)]
  y <- data[[label]]
  if (name == "anomalies") {
    # by their numbers, in the order of the data set's own documentation
    y <- match(y, c("Rad.Flow", "Fpv.Close", "Fpv.Open", "High", "Bypass", "Bpv.Close", "Bpv.Open"))
    data <- data[y != 4, ]
    y <- ifelse(y[y != 4] == 1, "normal", "anomaly")
  }
  x <- as.matrix(data[setdiff(names(data), label)])
  set.seed(1)
  list(x = unname(x), y = factor(y), test = replicate(splits, stats::runif(nrow(x)) < 0.2))
}

# As the sets' users do: columns and response standardised by the training rows.
standardise <- function(set, split) {
  test <- set$test[, split]
  centre <- colMeans(set$x[!test, ])
  spread <- apply(set$x[!test, ], 2, stats::sd)
  spread[spread == 0] <- 1
  x <- scale(set$x, centre, spread)
  y <- if (is.factor(set$y)) set$y else (set$y - mean(set$y[!test])) / stats::sd(set$y[!test])
  list(x = x[!test, ], y = y[!test], new = x[test, ], truth = y[test])
}

# Area under the ROC curve. Which side a decision value is on is seen from the classes that were guessed.
auc <- function(score, guess, truth) {
  second <- levels(truth)[2]
  score <- as.vector(score)
  if (stats::cor(score, guess == second) < 0) score <- -score
  positive <- truth == second
  (mean(rank(score)[positive]) - (sum(positive) + 1) / 2) / sum(!positive)
}
