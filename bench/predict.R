# How well kernel_ridge() predicts without any number, without a learnt metric, and tune_ridge(), beside other methods:
# boosted trees (default and tuned), forests, xRFM, exact Gaussian processes, support vector machines, additive and linear models.
#
#   Rscript bench/predict.R [--quick] [--sets PATTERN] [--splits 5] [--rows 10000] [--ours default,plain,tuned]
#     [--tune-seconds 60] [--peers-cache FOLDER] [--cached] [--peers-only] [--peers NAMES] [--search-seconds 600]
#     [--peers-machine TEXT] [--backend cuda] [--save]
#
# Each split tests another fifth of the rows, at most 10,000, and trains on the other rows, at most --rows of them.
# By default there are five splits for sets of up to 3,000 rows and two for others. --quick: sets of up to 2,000 rows,
# two splits. PATTERN is a regular expression for names of predict-sets.R. Sets that bench/data lacks are skipped.
#
# Peers: predict-peers.R has the peers in R, predict_peers.py the peers in Python. The environment variable PYTHON names
# interpreters. Predictions of peers stay in FOLDER (default: bench/data/peers) and are not computed again. --cached
# computes none, --peers-only computes the peers alone. A search of settings for boosted trees ends after
# --search-seconds (see predict_peers.py). --peers-machine says in the head where peers ran, if that was elsewhere.
#
# error: root mean square error in standard deviations of the response. For classes: the mean log loss (probabilities
#   below 1e-6 count as 1e-6), and the share of wrong classes. All are means over the splits.
# ratio: error over the error of the best peer. The best peer is chosen by these errors, in its own favour. If its error
#   is 0, half a test row counts as wrong.
# +-: standard error of the difference to the best peer, over test rows, as a share of the peer's error.
# worse by 1 SE of tune_ridge(): than the default, on the same test rows.

source("bench/common.R")
source("bench/predict-sets.R")
source("bench/predict-peers.R")

quick <- "--quick" %in% arguments
rows <- as.integer(option("--rows", 10000))
folder <- option("--peers-cache", file.path("bench", "data", "peers"))
peers <- option_values("--peers")
ours <- option_values("--ours", c("default", "plain", "tuned"))
tune_seconds <- as.numeric(option("--tune-seconds", 60))
control <- flash_control(backend = option("--backend", "auto"))
bench_start("predict.R", "Predictions without tuning by hand, beside other methods")
options(width = 160) # predict-standing.R reads the table of peers
if (!is.null(option("--peers-machine"))) cat("peers    ", option("--peers-machine"), "\n\n", sep = "")

OURS <- list(
  default = \(x, y) kernel_ridge(x, y, control = control),
  plain = \(x, y) kernel_ridge(x, y, metric = "none", control = control),
  tuned = \(x, y) tune_ridge(x, y, seconds = tune_seconds, control = control)
)

splits_of <- function(set) {
  if (quick) return(2)
  as.integer(option("--splits", if (nrow(set$x) <= 3000) 5 else 2))
}

# ---- errors -------------------------------------------------------------------------------------

MEASURES <- list(regression = "rmse", classification = c("log loss", "wrong"))

# The loss of each test row: its mean is the error, or the square of the error for "rmse".
row_losses <- function(guess, truth, measure, spread) {
  if (measure == "rmse") return(((guess - truth) / spread)^2)
  if (measure == "wrong") return(as.numeric(max.col(guess, "first") != as.integer(truth)))
  -log(pmax(guess[cbind(seq_along(truth), as.integer(truth))], 1e-6))
}

error_of <- function(losses, measure) if (measure == "rmse") sqrt(mean(losses)) else mean(losses)

# An error of 0 counts as half a test row, so that ratios are finite.
at_least <- function(error, line) max(error, 0.5 / line$tested)

# Standard error of the difference of two mean errors, from lists of the losses of the rows of each split. The root
# is linear for small changes.
difference_error <- function(a, b, measure) {
  scale <- \(losses) if (measure == "rmse") 2 * error_of(losses, measure) else 1
  variances <- mapply(\(a, b) stats::var(a / max(scale(a), 1e-300) - b / max(scale(b), 1e-300)) / length(a), a, b)
  sqrt(sum(variances)) / length(variances)
}

# list(guess, seconds) for one method of ours; NULL with a printed line if it fails.
predict_ours <- function(method, set, part) {
  x <- set$x[part == 1, , drop = FALSE]
  new <- set$x[part == 2, , drop = FALSE]
  guess <- NULL
  set.seed(1)
  seconds <- elapsed(\() guess <<- tryCatch(
    suppressWarnings({
      fit <- OURS[[method]](x, set$y[part == 1])
      stats::predict(fit, new, type = if (is.factor(set$y)) "prob" else "response")
    }),
    error = \(e) {
      cat(set$name, paste0(method, ":"), conditionMessage(e), "\n")
      NULL
    }
  ))
  if (is.null(guess)) return(NULL)
  list(guess = if (is.factor(set$y)) as.matrix(guess) else as.vector(guess), seconds = seconds)
}

cached_methods <- function(name, folder) {
  files <- list.files(file.path(folder, name), sprintf("^predictions-1-%d-.*[.]csv[.]gz$", rows))
  found <- gsub("_", " ", sub(sprintf("^predictions-1-%d-(.*)[.]csv[.]gz$", rows), "\\1", files), fixed = TRUE)
  if (is.null(peers)) found else intersect(found, peers)
}

# ---- one set ------------------------------------------------------------------------------------

compute_peers <- function(set, splits) {
  for (split in seq_len(splits)) {
    part <- split_of(set, split, rows, folder)
    run_r_peers(set, part, split, rows, folder, if (is.null(peers)) names(R_PEERS) else peers)
  }
  run_python_peers(set$name, splits, rows, folder, peers, option("--search-seconds", 600))
}

# For each method a list of what all splits have: list(guess, seconds). Peers that miss a split are left out.
all_predictions <- function(set, parts) {
  mine <- lapply(stats::setNames(nm = ours), \(method) lapply(parts, \(part) predict_ours(method, set, part)))
  theirs <- lapply(stats::setNames(nm = cached_methods(set$name, folder)), \(method) {
    lapply(seq_along(parts), \(split) read_predictions(set$name, split, rows, method, folder))
  })
  Filter(\(results) !any(vapply(results, is.null, NA)), c(mine, theirs))
}

# A list for each measure: what set_line() prints. `noise` has the standard errors of the differences to the best peer.
measure_set <- function(set, parts) {
  results <- all_predictions(set, parts)
  lapply(MEASURES[[set$task]], \(measure) {
    losses <- lapply(results, \(splits) Map(\(result, part) {
      spread <- if (measure == "rmse") stats::sd(set$y[part == 1])
      row_losses(result$guess, set$y[part == 2], measure, spread)
    }, splits, parts))
    errors <- vapply(losses, \(splits) mean(vapply(splits, error_of, 0, measure = measure)), 0)
    theirs <- setdiff(names(errors), ours)
    best <- theirs[which.min(errors[theirs])]
    list(
      name = set$name, n = nrow(set$x), d = ncol(set$x), measure = measure, errors = errors, best = best,
      tested = sum(lengths(losses[[1]])),
      seconds = vapply(results, \(splits) mean(vapply(splits, \(result) result$seconds, 0)), 0),
      noise = vapply(intersect(ours, names(errors)), \(method) {
        if (length(best) == 0) NA else difference_error(losses[[method]], losses[[best]], measure)
      }, 0),
      noise_of_tuning = if (all(c("default", "tuned") %in% names(losses))) {
        difference_error(losses$tuned, losses$default, measure)
      }
    )
  })
}

# ---- printing -----------------------------------------------------------------------------------

digits <- function(x, format = "%.4f") ifelse(is.na(x), "", sprintf(format, x))
value_of <- function(values, name) if (name %in% names(values)) values[[name]] else NA

head_line <- function() {
  cat(
    sprintf("%-15s %6s %3s %-8s", "set", "n", "d", "error"), sprintf("%8s %6s %5s %6s", ours, "ratio", "+-", "s"),
    sprintf("%-15s %8s %6s", "best peer", "error", "s"), "\n"
  )
}

set_line <- function(line) {
  best <- if (length(line$best) == 1) line$errors[[line$best]] else NA
  floor <- at_least(best, line)
  mine <- vapply(ours, \(method) {
    error <- value_of(line$errors, method)
    sprintf(
      "%8s %6s %5s %6s", digits(error), digits(at_least(error, line) / floor, "%.3f"),
      digits(value_of(line$noise, method) / floor, "%.3f"), digits(value_of(line$seconds, method), "%.1f")
    )
  }, "")
  seconds <- if (is.na(best)) NA else line$seconds[[line$best]]
  cat(
    sprintf("%-15s %6d %3d %-8s", line$name, line$n, line$d, line$measure), mine,
    sprintf("%-15s %8s %6s", c(line$best, "")[1], digits(best), digits(seconds, "%.1f")), "\n"
  )
}

# All peers' errors relative to the best peer's, a column for each.
peers_table <- function(lines) {
  theirs <- setdiff(unique(unlist(lapply(lines, \(line) names(line$errors)))), ours)
  columns <- lapply(theirs, \(name) digits(vapply(lines, \(line) {
    at_least(value_of(line$errors, name), line) / at_least(line$errors[[line$best]], line)
  }, 0), "%.2f"))
  short <- c(lightgbm = "lgb", xgboost = "xgb", catboost = "cat", `lightgbm tuned` = "lgb*", `xgboost tuned` = "xgb*",
             `catboost tuned` = "cat*", `random forest` = "forest", `extra trees` = "extra")
  names(columns) <- ifelse(theirs %in% names(short), short[theirs], theirs)
  cat("Errors of the peers relative to the best of them (* tuned):\n")
  head <- list(set = vapply(lines, `[[`, "", "name"), error = vapply(lines, `[[`, "", "measure"))
  show_table(data.frame(c(head, columns[order(names(columns))]), check.names = FALSE))
  all_seconds <- unlist(lapply(lines, `[[`, "seconds"))
  seconds <- vapply(theirs, \(name) stats::median(all_seconds[names(all_seconds) == name]), 0)
  best <- vapply(theirs, \(name) sum(vapply(lines, `[[`, "", "best") == name), 0)
  show_table(data.frame(peer = theirs, best = best, `median seconds` = digits(seconds, "%.1f"), check.names = FALSE))
}

summary_line <- function(lines, method, what, among) {
  lines <- Filter(\(line) line$measure %in% among && method %in% names(line$errors) && length(line$best) == 1, lines)
  if (length(lines) == 0) return(invisible())
  best <- vapply(lines, \(line) at_least(line$errors[[line$best]], line), 0)
  error <- vapply(lines, \(line) at_least(line$errors[[method]], line), 0)
  noise <- vapply(lines, \(line) line$noise[[method]], 0)
  ratio <- error / best
  cat(sprintf(
    "%-8s %-18s %4d %13d %7d %11d %13d %15d %7.3f\n", method, what, length(lines), sum(ratio <= 1.02), sum(ratio < 1),
    sum(ratio > 1.1), sum(error - best > noise), sum(error - best > 2 * noise), exp(mean(log(ratio)))
  ))
}

# tune_ridge() beside the default, with a line for each error that differs.
tuned_table <- function(lines) {
  lines <- Filter(\(line) !is.null(line$noise_of_tuning), lines)
  if (length(lines) == 0) return(invisible())
  default <- vapply(lines, \(line) at_least(line$errors[["default"]], line), 0)
  ratio <- vapply(lines, \(line) at_least(line$errors[["tuned"]], line), 0) / default
  noise <- vapply(lines, `[[`, 0, "noise_of_tuning") / default
  cat("\ntune_ridge() beside the default:", length(lines), "errors,", sum(ratio < 1), "less,", sum(ratio > 1), "more,",
      sum(ratio - 1 > noise), "worse by 1 SE\n")
  table <- data.frame(
    set = vapply(lines, `[[`, "", "name"), error = vapply(lines, `[[`, "", "measure"), ratio = digits(ratio, "%.3f"),
    `+-` = digits(noise, "%.3f"), check.names = FALSE
  )
  if (any(ratio != 1)) show_table(table[ratio != 1, ])
}

# ---- all sets -----------------------------------------------------------------------------------

lines <- list()
if (!"--peers-only" %in% arguments) head_line()
for (name in prediction_sets(option("--sets", ""))) {
  set <- prediction_set(name)
  if (is.null(set) || (quick && nrow(set$x) > 2000)) next
  splits <- splits_of(set)
  write_set(set, folder)
  if (!"--cached" %in% arguments) compute_peers(set, splits)
  if ("--peers-only" %in% arguments) next
  found <- measure_set(set, lapply(seq_len(splits), \(split) split_of(set, split, rows, folder)))
  for (line in found) set_line(line)
  lines <- c(lines, found)
}
compared <- Filter(\(line) length(line$best) == 1, lines)
if (length(compared) > 0) {
  cat("\n")
  peers_table(compared)
  cat("Ours against the best peer of each set. SE: standard error of the difference; mean: geometric mean of ratios\n")
  cat("         errors             sets within 2% or   ahead  over 1.1 x  worse by 1 SE  worse by 2 SE    mean\n")
  cat("                                      ahead\n")
  for (method in ours) {
    summary_line(lines, method, "rmse and log loss", c("rmse", "log loss"))
    summary_line(lines, method, "rmse", "rmse")
    summary_line(lines, method, "log loss", "log loss")
    summary_line(lines, method, "wrong", "wrong")
  }
}
tuned_table(lines)
