# Each method of a table of predict.R, ours and the peers alike, beside the best of all of them on each set.
#
#   Rscript bench/predict-standing.R [--from bench/results/predict.txt] [--save]
#
# Root mean square errors and log losses count, shares of wrong classes do not. A set counts for the methods that have
# predicted all its splits. Methods with a star were tuned. within 2%, over 1.1: numbers of sets by the ratio of the error
# to that of the best method.

source("bench/common.R")
bench_start("predict-standing.R", "Each method beside the best one on each set")
lines <- readLines(option("--from", file.path("bench", "results", "predict.txt")))

# Ours relative to the best peer, as printed by set_line().
parts <- regmatches(lines, regexec("^(\\S+) +[0-9]+ +[0-9]+ (rmse|log loss) +[0-9.]+ +([0-9.]+) ", lines))
parts <- do.call(rbind, Filter(length, parts))
sets <- parts[, 2]
ours <- stats::setNames(as.numeric(parts[, 4]), sets)

# Peers relative to the best peer, as printed by peers_table(): the numbers end where the names of their columns end.
peers <- list()
for (line in lines) {
  if (grepl("^ *set +error .*xrfm", line)) {
    ends <- gregexpr("\\S(?=\\s|$)", line, perl = TRUE)[[1]][-(1:2)]
    titles <- strsplit(trimws(line), " +")[[1]][-(1:2)]
  }
  found <- regmatches(line, regexec("^ *(\\S+) +(rmse|log loss) +[0-9.]", line))[[1]]
  if (length(found) == 0 || !found[2] %in% sets) next
  values <- suppressWarnings(as.numeric(substring(line, ends - 4, ends)))
  peers[[found[2]]] <- stats::setNames(values, titles)
}

titles <- unique(unlist(lapply(peers, names)))
table <- cbind(ours = ours, do.call(rbind, lapply(peers[sets], `[`, titles)))
colnames(table)[-1] <- titles
ratio <- table / apply(table, 1, min, na.rm = TRUE)
count <- \(holds) colSums(holds, na.rm = TRUE)
standing <- data.frame(
  method = colnames(ratio), sets = count(!is.na(ratio)), best = count(ratio == 1), `within 2%` = count(ratio <= 1.02),
  `over 1.1` = count(ratio > 1.1), `mean ratio` = sprintf("%.3f", exp(colMeans(log(ratio), na.rm = TRUE))), check.names = FALSE
)
show_table(standing[order(standing$`mean ratio`), ])
