# Sums over points of a domain: with their images, with the masses of kernels, and without a point's own kernels.

# What is summed for working points: list(points, weights, factors, row, copied), the first two as sum_sources()
# has them, row and copied as of with_images(), row NULL where points are as they were.
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

# list(log_abs, negative, stats) as of log_sum(): at each of the first `n` points the sum without its own kernel
# and the images of that. `sources`: of domain_sources(), with L.
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

# Adds parts, each list(log_abs, negative), with their signs: list(log_abs, negative, lost), where `lost` says in which hardly
# a digit is left.
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

# What the images of a point add at the point itself.
own_images <- function(sources, n, factor) {
  images <- seq_len(nrow(sources$points))[-seq_len(n)]
  row <- sources$row[images]
  log_terms <- log_pair_kernels(sources, images, sources$points[row, , drop = FALSE], factor)
  sum <- rep(0, n)
  by_row <- rowsum(log_terms$sign * exp(log_terms$log_abs), row)
  sum[as.integer(rownames(by_row))] <- by_row
  list(log_abs = log(abs(sum)), negative = sum < 0)
}

# The kernels of the sources `rows`, each at its own place: list(log_abs, sign).
log_pair_kernels <- function(sources, rows, places, factor) {
  u <- whiten(places - sources$points[rows, , drop = FALSE], sources$L)
  width <- if (is.null(sources$factors)) 1 else sources$factors[rows]
  half <- rowSums(u^2) / (2 * width^2)
  polynomial <- factor[1] + half * (factor[2] + half * factor[3])
  log_weight <- if (is.null(sources$weights)) 0 else log(sources$weights[rows])
  list(log_abs = log_weight + log(abs(polynomial)) - half - ncol(u) * log(width), sign = sign(polynomial))
}

# For points by their own images alone, all but nothing is left of the sum when these are taken off: it is summed again
# without them.
sum_again <- function(sources, n, lost, factor, total, control) {
  again <- sum_of_others(sources, seq_len(nrow(sources$points)), lost, factor, control)
  total$log_abs[lost] <- again$log_abs
  total$negative[lost] <- again$negative
  total
}

# list(log_abs, negative): at each of the points `lost`, the sum over `from`, which are rows of the sources, of other
# points and of their images. Those of points that are not lost serve all of them; the others are summed for one half
# by the sources of the other half, and so on.
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
