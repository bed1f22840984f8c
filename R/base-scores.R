# Normal scores of columns: a continuous increasing map of each column that gives its values the quantiles of a normal
# distribution. A kernel of normal scores does not depend on the scale in which a column was measured, as trees do not.

# Knots of a map, at most.
SCORE_KNOTS <- 50

# For each column list(at, to), knots and their scores, between which the map is linear; outside of them it is constant.
# NULL for a column of one or two values, which is mapped to itself. Values that differ by rounding alone are one value.
score_maps <- function(x) lapply(seq_len(ncol(x)), \(k) score_map(x[, k]))

score_map <- function(x) {
  values <- sort(x)
  values <- values[c(TRUE, diff(values) > 1e-12 * pmax(stats::median(abs(x)), abs(values[-1])))]
  m <- length(values)
  if (m <= 2) return(NULL)
  counts <- tabulate(findInterval(x, values), m)
  to <- stats::qnorm((cumsum(counts) - counts / 2) / length(x))
  kept <- round(seq(1, m, length.out = min(m, SCORE_KNOTS)))
  list(at = values[kept], to = to[kept])
}

normal_scores <- function(maps, x) {
  for (k in which(lengths(maps) > 0)) x[, k] <- stats::approx(maps[[k]]$at, maps[[k]]$to, x[, k], rule = 2)$y
  x
}

# Slopes of the maps are means where scores differ by at most this. Slopes between neighbouring values are noise: with
# them mean derivatives at 40 rows were 3 to 8 times the truth, with this width 0.8 to 1.3 times (bench/NOTES.md).
SLOPE_WIDTH <- 0.5

normal_score_slopes <- function(maps, x) {
  scores <- normal_scores(maps, x)
  made <- matrix(1, nrow(x), ncol(x))
  for (k in which(lengths(maps) > 0)) {
    at <- maps[[k]]$at
    to <- maps[[k]]$to
    low <- pmax(scores[, k] - SLOPE_WIDTH, to[1])
    high <- pmin(scores[, k] + SLOPE_WIDTH, to[length(to)])
    value <- \(score) stats::approx(to, at, score, rule = 2)$y
    made[, k] <- (high - low) / (value(high) - value(low)) * (x[, k] >= at[1] & x[, k] <= at[length(at)])
  }
  made
}
