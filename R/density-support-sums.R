# Sums over points of a domain: with reflected or periodic copies ("images"), divided by the probabilities of kernels
# inside ("masses"), and leave-one-out.

# The sources of sums over working points: list(points, weights, factors, row, copied). `points` and `weights` are those
# of sum_sources(); `row` and `copied` those of with_images(), or NULL without copies.
domain_sources <- function(domain, points, weights, L, factors, control) {
  found <- mass_sources(domain, points, weights, L, factors, control)
  if (!has_images(domain)) return(found)
  images <- with_images(domain, points, factor_sds(L), factors)
  list(
    points = images$points, weights = found$weights[images$row], factors = factors[images$row],
    row = images$row, copied = images$copied
  )
}

# The sources without reflected copies: list(points, weights, factors).
mass_sources <- function(domain, points, weights, L, factors, control) {
  found <- list(points = points, weights = weights, factors = factors)
  if (has_masses(domain)) {
    found$weights <- (if (is.null(weights)) 1 else weights) / kernel_masses(domain, points, L, factors, control)
  }
  found
}

# Leave-one-out sums: at each of the first `n` points, the sum without its own kernel and the copies of that kernel.
# Returns list(log_abs, negative, stats) as log_sum() does. `sources`: the result of domain_sources(), with L.
left_out_sum <- function(sources, n, factor, control) {
  own <- seq_len(n)
  base <- rows_of(sources, own)
  found <- log_sum(base, NULL, factor, TRUE, control)
  if (is.null(sources$row) || nrow(sources$points) == n) return(found)
  images <- log_sum(rows_of(sources, -own), base$points, factor, FALSE, control)
  total <- signed_sum(list(found, images, own_images(sources, n, factor)), c(1, 1, -1))
  lost <- which(total$lost)
  if (length(lost) > 0) total <- sum_again(sources, n, lost, factor, total, control)
  negative <- if (!is.null(found$negative)) total$negative
  list(log_abs = total$log_abs, negative = negative, stats = add_stats(found$stats, images$stats))
}

rows_of <- function(sources, rows) {
  points <- sources$points[rows, , drop = FALSE]
  sum_sources(points, sources$weights[rows], sources$L, factors = sources$factors[rows])
}

# Adds parts, each list(log_abs, negative), with their signs. Returns list(log_abs, negative, lost); `lost` marks the
# sums that have lost nearly all digits by cancellation.
signed_sum <- function(parts, signs) {
  logs <- do.call(cbind, lapply(parts, `[[`, "log_abs"))
  top <- logs[cbind(seq_len(nrow(logs)), max.col(logs, "first"))]
  top[top == -Inf] <- 0
  terms <- exp(logs - top)
  for (i in seq_along(parts)) {
    negative <- which(as.logical(parts[[i]]$negative)) # none where that is NULL
    terms[, i] <- signs[i] * terms[, i]
    terms[negative, i] <- -terms[negative, i]
  }
  total <- rowSums(terms)
  list(log_abs = log(abs(total)) + top, negative = total < 0, lost = abs(total) < 1e-5 & terms[, ncol(terms)] != 0)
}

# The sum of the copies of a point at the point itself.
own_images <- function(sources, n, factor) {
  images <- seq_len(nrow(sources$points))[-seq_len(n)]
  row <- sources$row[images]
  log_terms <- log_pair_kernels(sources, images, sources$points[row, , drop = FALSE], factor)
  sum <- rep(0, n)
  by_row <- rowsum(log_terms$sign * exp(log_terms$log_abs), row)
  sum[as.integer(rownames(by_row))] <- by_row
  list(log_abs = log(abs(sum)), negative = sum < 0)
}

# The kernel of each of the sources `rows` at the corresponding row of `places`: list(log_abs, sign).
log_pair_kernels <- function(sources, rows, places, factor) {
  u <- whiten(places - sources$points[rows, , drop = FALSE], sources$L)
  width <- if (is.null(sources$factors)) 1 else sources$factors[rows]
  half <- rowSums(u^2) / (2 * width^2)
  polynomial <- factor[1] + half * (factor[2] + half * factor[3])
  log_weight <- if (is.null(sources$weights)) 0 else log(sources$weights[rows])
  list(log_abs = log_weight + log(abs(polynomial)) - half - ncol(u) * log(width), sign = sign(polynomial))
}

# Recomputes leave-one-out sums that cancellation has spoiled, of points near which only their own copies lie.
sum_again <- function(sources, n, lost, factor, total, control) {
  again <- sum_of_others(sources, seq_len(nrow(sources$points)), lost, factor, control)
  total$log_abs[lost] <- again$log_abs
  total$negative[lost] <- again$negative
  total
}

# Sums at the points `lost` over the sources `from` (rows of the sources) of other points and their copies:
# list(log_abs, negative). Sources of points that are not lost are summed for all of `lost` together. The others are
# divided in two halves, each summed at the points of the other half, recursively.
sum_of_others <- function(sources, from, lost, factor, control) {
  apart <- !sources$row[from] %in% lost
  found <- sum_at(sources, from[apart], lost, factor, control)
  if (length(lost) == 1) return(found)
  from <- from[!apart]
  halves <- split(lost, seq_along(lost) > length(lost) / 2)
  within <- lapply(halves, \(half) sum_of_others(sources, from, half, factor, control))
  within <- do.call(Map, c(list(c), unname(within)))
  total <- signed_sum(list(found, within), c(1, 1))
  total[c("log_abs", "negative")]
}

sum_at <- function(sources, from, points, factor, control) {
  if (length(from) == 0) return(list(log_abs = rep(-Inf, length(points)), negative = logical(length(points))))
  found <- log_sum(rows_of(sources, from), sources$points[points, , drop = FALSE], factor, FALSE, control)
  list(log_abs = found$log_abs, negative = if (is.null(found$negative)) logical(length(points)) else found$negative)
}
