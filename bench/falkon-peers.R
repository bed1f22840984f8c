# Kernel regression and classification beside kernlab and a random forest, on real data, without tuning by hand: each
# method as a user calls it, defaults of all. Held-out error (root mean square, or the part of wrong classes), of two
# classes also the area under the ROC curve, and seconds of fit and prediction; means over splits.
#
#   Rscript bench/falkon-peers.R [--splits 3] [--only NAMES] [--methods NAMES] [--save]
#
# Data sets that bench/data does not have are skipped. gausspr() takes n^2 memory and n^3 time: up to 3,000 rows. ksvm() for regression: up to 20,000. Sets of more have one split. `anomalies` is
# shuttle with its largest class against classes 2, 3, 5, 6 and 7.

source("bench/common.R")

splits <- as.integer(option("--splits", 3))
bench_start("falkon-peers.R", "Kernel regression beside kernlab and random forests, defaults of all")

regression <- c("airfoil", "concrete", "energy", "gas", "parkinsons", "elevators", "bike", "pol", "kin40k")
classes <- c("higgs", "satellite", "shuttle", "anomalies")
only <- option_values("--only", c(regression, classes))
regression <- intersect(regression, only)
classes <- intersect(classes, only)

has <- function(package) requireNamespace(package, quietly = TRUE)

# Each: a function(x, y, new) for list(guess, score): values or classes at new rows, and a function for how much they
# look like the second of two classes. NULL where the method is not for such data.
METHODS <- list(
  falkon = \(x, y, new) {
    fit <- kernel_ridge(x, y)
    guess <- predict(fit, new, type = if (is.factor(y)) "class" else "response")
    list(guess = guess, score = \() predict(fit, new, type = "link"))
  },
  `lm or glm` = \(x, y, new) {
    if (!is.factor(y)) return(list(guess = stats::predict(stats::lm(y ~ ., data.frame(x, y = y)), data.frame(new))))
    if (nlevels(y) > 2) return(NULL)
    fit <- suppressWarnings(stats::glm(y ~ ., stats::binomial, data.frame(x, y = y)))
    link <- stats::predict(fit, data.frame(new))
    list(guess = factor(levels(y)[1 + (link > 0)], levels = levels(y)), score = \() link)
  },
  ksvm = \(x, y, new) {
    if (!has("kernlab") || (nrow(x) > 20000 && !is.factor(y))) return(NULL)
    fit <- kernlab::ksvm(x, y)
    list(guess = kernlab::predict(fit, new), score = \() kernlab::predict(fit, new, type = "decision"))
  },
  gausspr = \(x, y, new) {
    if (!has("kernlab") || nrow(x) > 3000) return(NULL)
    utils::capture.output(fit <- kernlab::gausspr(x, y))
    list(guess = kernlab::predict(fit, new))
  },
  `random forest` = \(x, y, new) {
    if (!has("randomForest")) return(NULL)
    fit <- randomForest::randomForest(x, y)
    list(guess = stats::predict(fit, new), score = \() stats::predict(fit, new, type = "prob")[, 2])
  }
)

measure <- function(set, name, method) {
  parts <- lapply(seq_len(if (nrow(set$x) > 20000) 1 else splits), function(split) {
    data <- standardise(set, split)
    set.seed(split)
    seconds <- elapsed(\() found <<- METHODS[[method]](data$x, data$y, data$new))
    if (is.null(found)) return(NULL)
    if (!is.factor(data$y)) return(c(sqrt(mean((found$guess - data$truth)^2)), NA, seconds))
    area <- if (nlevels(data$y) == 2) auc(found$score(), found$guess, data$truth) else NA
    c(mean(as.character(found$guess) != as.character(data$truth)), area, seconds)
  })
  if (is.null(parts[[1]])) return(NULL)
  means <- colMeans(do.call(rbind, parts))
  digits4 <- \(x) if (is.na(x)) "" else formatC(x, digits = 4, format = "f")
  data.frame(
    set = name, n = format(nrow(set$x), big.mark = ","), d = ncol(set$x), splits = length(parts), method = method,
    error = digits4(means[1]), auc = digits4(means[2]),
    seconds = formatC(means[3], digits = 3, format = "g")
  )
}
found <- NULL

wanted <- option_values("--methods", names(METHODS)) # random forests take minutes
for (name in c(regression, classes)) {
  set <- if (name %in% classes) read_classes(name, splits) else read_regression(name)
  if (is.null(set)) next
  show_table(do.call(rbind, lapply(wanted, \(method) measure(set, name, method))))
}
