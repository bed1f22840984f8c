# How often intervals of kernel_ridge() contain the responses of test rows, how wide they are, and what they cost.
#
#   Rscript bench/intervals.R [--sets NAMES] [--splits 3] [--rows 2000] [--level 0.9] [--metric none,auto]
#     [--peers gam,lightgbm] [--data FOLDER] [--save]
#
# Each split trains on --rows random rows and tests on 1,000 others (a fifth of the rows, if that is fewer). Folders
# other than bench/data may have the sets of predict-sets.R. The environment variable PYTHON names the interpreter of
# intervals_peers.py; peers that are not installed are skipped.
#
# bayes:      predict(interval = "prediction")
# jackknife:  the prediction plus and minus a quantile of leave-one-out residuals with the kernel and lambda of the fit
# conformal:  predict(interval = "conformal")
# gam:        mgcv::gam() with a smooth term for each column, and normal errors
# lightgbm:   conformalised quantile regression: two quantile regressions, and 30 percent of the rows for calibration
#
# cover: share of test responses in their intervals, with its standard error; width: mean width, and score: mean interval score (Gneiting and
# Raftery 2007), both in standard deviations of the response; s: seconds after the fit (of peers: all). All are means
# over the splits.

source("bench/common.R")
source("bench/predict-sets.R")
source("bench/predict-peers.R")

DEFAULT_SETS <- c(
  "autompg", "yacht", "boston", "no2", "hitters", "stock", "energy", "concrete", "airfoil", "wine_red", "sacramento",
  "college", "space_ga", "wage", "abalone", "kin8nm", "cpu_act", "elevators", "debutanizer", "skillcraft"
)
level <- as.numeric(option("--level", 0.9))
rows <- as.integer(option("--rows", 2000))
splits <- as.integer(option("--splits", 3))
metrics <- option_values("--metric", c("none", "auto"))
peers <- option_values("--peers", c("gam", "lightgbm"))
folder <- option("--data", file.path(bench_folder, "data"))
data_file <- function(name) file.path(folder, paste0(name, ".csv.gz"))
bench_start("intervals.R", "Coverage of intervals")

# A random split: list(x, y, new, truth), responses in standard deviations.
split_at_random <- function(set, split) {
  set.seed(100 + split)
  n <- nrow(set$x)
  test <- sample(n, min(1000, n %/% 5))
  train <- setdiff(seq_len(n), test)
  train <- train[sample(length(train), min(rows, length(train)))]
  x <- set$x[train, , drop = FALSE]
  varies <- vapply(x, \(column) length(unique(column)) > 1, NA)
  unit <- stats::sd(set$y[train])
  list(x = x[varies], y = set$y[train] / unit, new = set$x[test, varies, drop = FALSE], truth = set$y[test] / unit)
}

judged <- function(low, high, truth, seconds) {
  miss <- pmax(low - truth, 0) + pmax(truth - high, 0)
  c(
    cover = mean(miss == 0), width = mean(high - low), score = mean(high - low + 2 / (1 - level) * miss), s = seconds
  )
}

# A list of what judged() returns, for one metric.
ours <- function(at, metric) {
  fit <- kernel_ridge(at$x, at$y, metric = metric)
  of <- \(interval) {
    found <- NULL
    seconds <- elapsed(\() found <<- stats::predict(fit, at$new, interval = interval, level = level))
    judged(found[, "lwr"], found[, "upr"], at$truth, seconds)
  }
  errors <- sort(abs(stats::residuals(fit) / (1 - stats::hatvalues(fit))))
  width <- c(errors, Inf)[ceiling(level * (length(errors) + 1))]
  guess <- stats::predict(fit, at$new)
  jackknife <- judged(guess - width, guess + width, at$truth, NA)
  list(bayes = of("prediction"), jackknife = jackknife, conformal = of("conformal"))
}

PEERS <- list(
  gam = \(at) {
    if (!has("mgcv")) return(NULL)
    fit <- mgcv::gam(gam_formula(at$x), data = data.frame(at$x, y = at$y), method = "REML")
    found <- stats::predict(fit, at$new, se.fit = TRUE)
    width <- stats::qnorm((1 + level) / 2) * sqrt(found$se.fit^2 + fit$sig2)
    list(found$fit - width, found$fit + width)
  },
  lightgbm = \(at) {
    files <- file.path(tempdir(), c("train.csv", "new.csv", "ends.csv"))
    columns <- \(x) data.frame(lapply(x, \(column) if (is.factor(column)) as.integer(column) else column))
    utils::write.csv(data.frame(columns(at$x), y = at$y), files[1], row.names = FALSE)
    utils::write.csv(columns(at$new), files[2], row.names = FALSE)
    python <- Sys.getenv("PYTHON", "python3")
    failed <- system2(python, c("bench/intervals_peers.py", files, level), stderr = FALSE)
    if (failed) return(NULL)
    ends <- utils::read.csv(files[3])
    list(ends$low, ends$high)
  }
)

theirs <- function(at, name) {
  ends <- NULL
  seconds <- elapsed(\() ends <<- tryCatch(suppressWarnings(PEERS[[name]](at)), error = \(e) NULL))
  if (!is.null(ends)) judged(ends[[1]], ends[[2]], at$truth, seconds)
}

# For each method the means over the splits, a matrix with a row for each method.
measure <- function(name) {
  set <- prediction_set(name)
  if (is.null(set)) return(NULL)
  all <- lapply(seq_len(splits), \(split) {
    at <- split_at_random(set, split)
    mine <- lapply(stats::setNames(nm = metrics), \(metric) suppressWarnings(ours(at, metric)))
    others <- Filter(Negate(is.null), lapply(stats::setNames(nm = peers), \(peer) theirs(at, peer)))
    do.call(rbind, c(unlist(mine, recursive = FALSE), others))
  })
  methods <- Reduce(intersect, lapply(all, rownames))
  covers <- vapply(all, \(one) one[methods, "cover"], numeric(length(methods)))
  error <- apply(matrix(covers, length(methods)), 1, stats::sd) / sqrt(splits)
  cbind(Reduce(`+`, lapply(all, \(one) one[methods, , drop = FALSE])) / splits, error = error)
}

results <- list()
for (name in option_values("--sets", DEFAULT_SETS)) {
  found <- measure(name)
  if (is.null(found)) next
  results[[name]] <- found
  cat(sprintf("%-12s %-16s cover %.3f +- %.3f  width %6.3f  score %6.3f  s %6.1f\n", name, rownames(found), found[, 1],
    found[, 5], found[, 2], found[, 3], found[, 4]), sep = "")
}

cat("\nAll sets. Ratio: geometric mean of the score over that of the first method\n")
first <- rownames(results[[1]])[1]
for (method in unique(unlist(lapply(results, rownames)))) {
  has_method <- Filter(\(found) method %in% rownames(found), results)
  cover <- vapply(has_method, \(found) found[method, "cover"], 0)
  ratio <- vapply(has_method, \(found) found[method, "score"] / found[first, "score"], 0)
  cat(sprintf(
    "%-16s mean %.3f, least %.3f, largest %.3f; %d of %d sets within 0.02 of the level, %d below; ratio %.3f\n", method,
    mean(cover), min(cover), max(cover), sum(abs(cover - level) <= 0.02), length(cover), sum(cover < level - 0.02),
    exp(mean(log(ratio)))
  ))
}
