# Flash-SD-KDE's table of anomalies in Shuttle, after ACE (Luo and Shrivastava 2018): all rows are ranked by their own
# density, and the anomalies among the K lowest are counted.
#
#   Rscript bench/paper/ace-shuttle.R [--size small|full] [--backend cuda] [--draw]
#
# The paper's table has 34,987 rows with 879 anomalies: the 34,108 rows of class 1 of UCI's training part, and 879
# others, which no text identifies. Here these are drawn, anew for each seed, from the 3,511 of classes 2, 3, 5, 6 and 7
# of both parts. Columns are standardised; h is the papers' rule of thumb, and a half and a quarter of it. small: three
# seeds, a third of the rows of each class, and a third of the table's K. full: five seeds, all rows. "K of the table":
# what each method reports there. The table also has the distance to the fifth nearest other row.

source("bench/paper/common.R")
source("bench/paper/oracle.R")
source("bench/paper/anomaly-sets.R")

# The printed results: method, how many rows it reports, how many of these are anomalies.
PRINTED <- data.frame(
  method = c(
    "ACE", "LOF", "kNN", "kNNW", "LoOP", "LDOF", "ODIN", "KDEOS", "COF", "LDF", "INFLO", "FastVOA", "Flash-SD-KDE"
  ),
  reported = c(6763, 4356, 4897, 5264, 6145, 6433, 9775, 12630, 9133, 9809, 4488, 8532, 5130),
  correct = c(273, 381, 493, 610, 201, 330, 375, 314, 280, 375, 183, 271, 807)
)
part <- if (full) 1 else 1 / 3
seeds <- if (full) 5 else 3

# Anomalies among the lowest K of all scores, for each K.
recovered <- function(score, anomaly, K) vapply(K, \(K) sum(anomaly[order(score)[seq_len(K)]]), 0)

fifth_neighbour <- function(x) {
  if (!requireNamespace("FNN", quietly = TRUE)) return(NULL)
  -FNN::knn.dist(x, 5)[, 5]
}

log_densities <- function(x, h, estimator) {
  value <- suppressWarnings(stats::predict(
    flash_kde(x, estimator, bandwidth = h, adaptive = FALSE, control = flash_control(backend = backend)), x, type = "log_density"
  ))
  ifelse(is.na(value), -Inf, value)
}

one_seed <- function(normal, others, seed) {
  set.seed(seed)
  some <- \(rows, m) rows[sample.int(nrow(rows), round(part * m)), ]
  x <- scale(rbind(some(normal, nrow(normal)), some(others, 879)))
  anomaly <- rep(c(FALSE, TRUE), c(nrow(x) - round(part * 879), round(part * 879)))
  rule <- paper_silverman(x)
  estimators <- c("kde", "sdkde", "laplace")
  cases <- expand.grid(estimator = estimators, factor = c(1 / 4, 1 / 2, 1), stringsAsFactors = FALSE)
  K <- round(part * PRINTED$reported)
  count <- \(score, estimator, factor) data.frame(
    estimator, factor, reported = PRINTED$reported, correct = recovered(score, anomaly, K) / part, seed,
    n = nrow(x)
  )
  found <- Map(\(estimator, factor) {
    count(log_densities(x, factor * rule, estimator), estimator, factor)
  }, cases$estimator, cases$factor)
  neighbour <- fifth_neighbour(x)
  if (is.null(neighbour)) left_out("5th neighbour", "package FNN") else {
    found <- c(found, list(count(neighbour, "5th neighbour", NA)))
  }
  do.call(rbind, unname(found))
}

measure <- function() {
  table <- read_data("shuttle")
  if (is.null(table)) stop("this table needs the data set shuttle: run `Rscript bench/data/fetch.R`", call. = FALSE)
  x <- unname(as.matrix(table[-ncol(table)]))
  class <- as.character(table[[ncol(table)]])
  training <- seq_along(class) <= 43500 # UCI's parts, one after the other
  normal <- x[training & class == "Rad.Flow", ]
  others <- x[!class %in% c("Rad.Flow", "High"), ]
  do.call(rbind, lapply(seq_len(seeds), \(seed) one_seed(normal, others, seed)))
}

rows <- paper_rows("ace-shuttle", "Anomalies among the lowest densities of Shuttle, after ACE", measure)

rows$how <- ifelse(is.na(rows$factor), rows$estimator, paste0(rows$estimator, ", ", rows$factor, " h"))
how <- unique(rows$how)
mean_of <- \(K) vapply(how, \(how) mean(rows$correct[rows$how == how & rows$reported == K]), 0)
found <- t(vapply(PRINTED$reported, mean_of, numeric(length(how))))
show_table(data.frame(PRINTED, round(found), check.names = FALSE))

paper_plot("ace-shuttle", \() {
  graphics::par(mar = c(3.6, 4.6, 1, 14))
  order <- sort(unique(rows$reported))
  lines_of <- t(vapply(order, mean_of, numeric(length(how))))
  estimator <- sub(",.*", "", how)
  colour <- colours_of(unique(estimator))[estimator]
  dashes <- c(`0.25` = 3, `0.5` = 2, `1` = 1)[sub(".*, (.*) h$", "\\1", how)]
  dashes[is.na(dashes)] <- 1
  graphics::matplot(order, lines_of, type = "l", lty = dashes, col = colour, lwd = 2, ylim = c(0, 879),
                    frame.plot = FALSE, xlab = "rows reported", ylab = "anomalies among them, of 879")
  graphics::points(PRINTED$reported, PRINTED$correct, pch = 4, lwd = 2)
  side <- ifelse(PRINTED$method %in% c("ODIN", "FastVOA"), 1, 4)
  side[PRINTED$method %in% c("Flash-SD-KDE", "kNNW")] <- 3
  graphics::text(PRINTED$reported, PRINTED$correct, PRINTED$method, pos = side, cex = 0.75, xpd = NA)
  graphics::legend("topright", c(how, "printed"), col = c(colour, "black"), lty = c(dashes, NA),
                   pch = c(rep(NA, length(how)), 4), lwd = 2, bty = "n", inset = c(-0.3, 0), xpd = NA, cex = 0.9)
})
