weighted_quantile <- function(column, weights, prob) {
  if (is.null(weights) || length(column) == 1) return(stats::quantile(column, prob, names = FALSE, type = 5))
  order <- order(column)
  reached <- cumsum(weights[order]) - weights[order] / 2
  stats::approx(reached / sum(weights), column[order], prob, rule = 2, ties = "ordered")$y
}

leave_out <- function(weights) {
  total <- sum(weights)
  rest <- total - weights
  large <- which(weights > total / 2)
  if (length(large) == 1) rest[large] <- sum(weights[-large])
  rest
}

log_add <- function(a, b) {
  top <- pmax(a, b)
  top[top == -Inf] <- 0
  top + log(exp(a - top) + exp(b - top))
}

# log sum w^2, NULL being n ones.
log_square_sum <- function(weights, n) {
  if (is.null(weights)) return(log(n))
  top <- max(weights)
  2 * log(top) + log(sum((weights / top)^2))
}

spread_rows <- function(n, most) unique(round(seq(1, n, length.out = min(n, most))))
