# Kernel regression and classification beside kernlab and a random forest, on real data, without tuning by hand: each
# method as a user calls it, defaults of all. Held-out error and seconds, mean over splits.
#
#   Rscript inst/bench/falkon-peers.R [--data FOLDER] [--splits 3] [--only NAMES] [--save]
#
# FOLDER has the sets of treforevans/uci_datasets as uci_NAME.csv.gz with uci_NAME.test_mask.csv.gz, and higgs_subset,
# shuttle, satellite; default ../shared/data. Sets that are not there are skipped, and told. gausspr() takes n^2 memory and
# n^3 time: up to 6,000 rows.

source(file.path(dirname(sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE))), "common.R"))

folder <- option("--data", "../shared/data")
splits <- as.integer(option("--splits", 3))
bench_start("falkon-peers.R", "Kernel regression beside kernlab and random forests, defaults of all")

regression <- c("airfoil", "concrete", "energy", "gas", "parkinsons", "elevators", "bike", "pol", "kin40k")
classes <- c("higgs", "satellite", "shuttle")
only <- option_values("--only", c(regression, classes))
regression <- intersect(regression, only)
classes <- intersect(classes, only)

read <- function(file, ...) utils::read.csv(file.path(folder, file), ...)
has <- function(package) requireNamespace(package, quietly = TRUE)

# list(x, y, test): test has a column for each split.
read_regression <- function(name) {
  data <- as.matrix(read(paste0("uci_", name, ".csv.gz"), header = FALSE))
  test <- as.matrix(read(paste0("uci_", name, ".test_mask.csv.gz"), header = FALSE)) == 1
  list(x = unname(data[, -ncol(data)]), y = data[, ncol(data)], test = test)
}

read_classes <- function(name) {
  data <- read(c(higgs = "higgs_subset.csv.gz", satellite = "satellite.csv.gz", shuttle = "shuttle.csv.gz")[[name]])
  label <- if ("label" %in% names(data)) "label" else names(data)[ncol(data)]
  x <- as.matrix(data[setdiff(names(data), label)])
  set.seed(1)
  list(x = unname(x), y = factor(data[[label]]), test = replicate(splits, stats::runif(nrow(x)) < 0.2))
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

# Each: a function(x, y, new) for values or classes at new rows.
METHODS <- list(
  falkon = \(x, y, new) predict(falkon(x, y), new),
  `lm or glm` = \(x, y, new) {
    if (is.factor(y)) {
      if (nlevels(y) > 2) return(NULL)
      fit <- suppressWarnings(stats::glm(y ~ ., stats::binomial, data.frame(x, y = y)))
      return(factor(levels(y)[1 + (stats::predict(fit, data.frame(new)) > 0)], levels = levels(y)))
    }
    stats::predict(stats::lm(y ~ ., data.frame(x, y = y)), data.frame(new))
  },
  ksvm = \(x, y, new) if (has("kernlab")) kernlab::predict(kernlab::ksvm(x, y), new),
  gausspr = \(x, y, new) {
    if (!has("kernlab") || nrow(x) > 6000) return(NULL)
    utils::capture.output(fit <- kernlab::gausspr(x, y))
    kernlab::predict(fit, new)
  },
  `random forest` = \(x, y, new) if (has("randomForest")) stats::predict(randomForest::randomForest(x, y), new)
)

measure <- function(set, name, method) {
  parts <- lapply(seq_len(splits), function(split) {
    data <- standardise(set, split)
    set.seed(split)
    seconds <- elapsed(\() guess <<- METHODS[[method]](data$x, data$y, data$new))
    if (is.null(guess)) return(NULL)
    wrong <- if (is.factor(data$y)) mean(as.character(guess) != as.character(data$truth)) else sqrt(mean((guess - data$truth)^2))
    c(wrong, seconds)
  })
  parts <- do.call(rbind, parts)
  if (is.null(parts)) return(NULL)
  data.frame(
    set = name, n = format(nrow(set$x), big.mark = ","), d = ncol(set$x), method = method,
    error = formatC(mean(parts[, 1]), digits = 4, format = "f"), seconds = formatC(mean(parts[, 2]), digits = 3, format = "g")
  )
}
guess <- NULL

for (name in c(regression, classes)) {
  set <- tryCatch(suppressWarnings(if (name %in% classes) read_classes(name) else read_regression(name)), error = \(e) NULL)
  if (is.null(set)) {
    cat("no data of ", name, " in ", folder, ": skipped\n", sep = "")
    next
  }
  show_table(do.call(rbind, lapply(names(METHODS), \(method) measure(set, name, method))))
}
