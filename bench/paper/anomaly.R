# Anomaly detection by low density: the area under the ROC curve of KDE, SD-KDE, Laplace-corrected KDE and the distance
# to the fifth neighbour, over ten splits.
#
#   Rscript bench/paper/anomaly.R [--size small|full] [--backend cuda] [--only SET,...] [--draw]
#
# Columns are standardised by the training rows, except principal components, which stay as they are, as in the paper.
# bandwidth: "rule" is the papers' rule of thumb; "validated" is the best of seven multiples of it (1/8 to 3/2; the
# paper has five from 1/2) by the likelihood of a KDE of four fifths of the rows at the other rows. Both are the same
# for all three estimators. "own" is the default of flash_kde(x). At most 6,000 normal rows and 1,200 anomalies of a
# set; full: 20,000 and 4,000. Rows where the Laplace estimate is not positive rank last, with equal ranks.

source("bench/paper/common.R")
source("bench/paper/oracle.R")
source("bench/paper/anomaly-sets.R")

seeds <- 10
most <- if (full) 20000 else 6000
multiples <- c(1 / 8, 1 / 4, 1 / 2, 3 / 4, 1, 5 / 4, 3 / 2)

# ---- scores: high is normal -----------------------------------------------------------------------------

by_density <- function(fit, at) {
  value <- suppressWarnings(stats::predict(fit, at, type = "log_density"))
  ifelse(is.na(value), -Inf, value)
}

by_estimator <- function(x, at, h, estimator) {
  by_density(flash_kde(x, estimator, bandwidth = h, adaptive = FALSE, control = flash_control(backend = backend)), at)
}

by_neighbour <- function(x, at, k = 5) {
  if (requireNamespace("FNN", quietly = TRUE)) return(-FNN::knnx.dist(x, at, k)[, k])
  norms <- rowSums(x^2)
  blocks <- split(seq_len(nrow(at)), (seq_len(nrow(at)) - 1) %/% 500)
  -unlist(lapply(blocks, \(rows) {
    square <- outer(norms, rowSums(at[rows, , drop = FALSE]^2), "+") - 2 * tcrossprod(x, at[rows, , drop = FALSE])
    apply(square, 2, \(column) sqrt(max(sort(column, partial = k)[k], 0)))
  }), use.names = FALSE)
}

validated_bandwidth <- function(x, rule) {
  held <- seq_len(nrow(x) %/% 5)
  likelihood <- \(h) mean(by_estimator(x[-held, ], x[held, ], h, "kde"))
  rule * multiples[which.max(vapply(rule * multiples, likelihood, 0))]
}

# The share of pairs of a normal row and an anomaly in which the normal one has the higher score; equal: half.
area <- function(score, anomaly) {
  ranks <- rank(score)
  few <- sum(!anomaly)
  (sum(ranks[!anomaly]) - few * (few + 1) / 2) / (few * sum(anomaly))
}

# log_density: mean of the normal rows.
judged <- function(estimator, bandwidth, h, score, anomaly) {
  data.frame(estimator, bandwidth, h, auc = area(score, anomaly), log_density = mean(score[!anomaly]))
}

# ---- measured ---------------------------------------------------------------------------------------------

one_split <- function(set, name, seed) {
  rows <- set(seed)
  use <- apply(rows$train, 2, stats::sd) > 0
  centre <- colMeans(rows$train)[use]
  spread <- apply(rows$train, 2, stats::sd)[use]
  if (isTRUE(rows$as_it_is)) spread[] <- 1
  of <- \(x) sweep(sweep(unname(x[, use]), 2, centre), 2, spread, "/")
  x <- of(rows$train)
  at <- of(rows$test)
  rule <- paper_silverman(x)
  widths <- list(rule = rule, validated = validated_bandwidth(x, rule))
  found <- lapply(names(widths), \(bandwidth) {
    do.call(rbind, lapply(c("kde", "sdkde", "laplace"), \(estimator) {
      h <- widths[[bandwidth]]
      judged(estimator, bandwidth, h, by_estimator(x, at, h, estimator), rows$anomaly)
    }))
  })
  own <- rbind(
    judged("flash_kde(x)", "own", NA, by_density(flash_kde(x, control = flash_control(backend = backend)), at), rows$anomaly),
    replace(judged("5th neighbour", "none", NA, by_neighbour(x, at), rows$anomaly), "log_density", NA)
  )
  cat("  seed", seed, "\n")
  data.frame(set = name, n = nrow(x), m = nrow(at), anomalies = sum(rows$anomaly), d = ncol(x), seed = seed,
             rbind(do.call(rbind, found), own), row.names = NULL)
}

measure <- function() {
  rows <- lapply(option_values("--only", names(SETS)), \(name) {
    set <- SETS[[name]](most)
    if (is.null(set)) return(left_out(name, "not in bench/data"))
    cat(name, "\n")
    do.call(rbind, lapply(seq_len(seeds), \(seed) one_split(set, name, seed)))
  })
  do.call(rbind, rows)
}

rows <- paper_rows("anomaly", "Anomalies by low density", measure)

# ---- table and figure -------------------------------------------------------------------------------------

alone <- rows$bandwidth %in% c("own", "none")
rows$how <- ifelse(alone, rows$estimator, paste0(rows$estimator, ", ", rows$bandwidth))
how <- unique(rows$how)
key <- paste(rows$set, rows$how)
table <- do.call(rbind, lapply(split(rows, factor(key, unique(key))), \(of) {
  neighbour <- rows[rows$set == of$set[1] & rows$estimator == "5th neighbour", ]
  ahead <- of$auc - neighbour$auc[match(of$seed, neighbour$seed)]
  data.frame(of[1, c("set", "n", "m", "anomalies", "d", "how")], auc = round(mean(of$auc), 4),
             se = round(stats::sd(of$auc) / sqrt(nrow(of)), 4), `over 5th neighbour` = round(mean(ahead), 4),
             se = round(stats::sd(ahead) / sqrt(nrow(of)), 4), `log density` = round(mean(of$log_density), 2),
             check.names = FALSE)
}))
show_table(table)

paper_plot("anomaly", \() {
  sets <- unique(rows$set)
  graphics::par(mfrow = c(1, length(sets)), mar = c(3.6, 9, 2, 0.8), cex = 0.85)
  for (set in sets) {
    of <- rows[rows$set == set, ]
    of$how <- factor(of$how, rev(how))
    of$above <- pmax(1 - of$auc, 1e-6) # for the log
    graphics::boxplot(above ~ how, of, horizontal = TRUE, log = "x", ylim = range(of$above), ylab = "",
                      xlab = "1 - area", main = set, col = "grey90", border = "grey30",
                      outline = FALSE, frame.plot = FALSE)
    graphics::stripchart(above ~ how, of, add = TRUE, pch = 19, cex = 0.6, col = colours_of("x"))
  }
}, height = 600)
