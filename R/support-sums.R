# Sums over points of a domain: with their images, with the masses of kernels, and without a point's own kernels.

# What is summed for working points: list(points, weights, factors, row, copied), the first two as sum_sources()
# has them, row and copied as of with_images(), row NULL where points are as they were.
domain_sources <- function(domain, points, weights, L, factors, control) {
  found <- list(points = points, weights = weights, factors = factors)
  if (has_masses(domain)) {
    found$weights <- (if (is.null(weights)) 1 else weights) / kernel_masses(domain, points, L, factors, control)
  }
  if (!has_images(domain)) return(found)
  images <- with_images(domain, points, factor_sds(L), factors)
  list(
    points = images$points, weights = found$weights[images$row], factors = factors[images$row],
    row = images$row, copied = images$copied
  )
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

# Of parts, each list(log_abs, negative), with their signs: list(log_abs, negative, lost), in which of them hardly
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

# Of the sources `rows` at as many places, each at its own: list(log_abs, sign).
log_pair_kernels <- function(sources, rows, places, factor) {
  u <- whiten(places - sources$points[rows, , drop = FALSE], sources$L)
  width <- if (is.null(sources$factors)) 1 else sources$factors[rows]
  half <- rowSums(u^2) / (2 * width^2)
  polynomial <- factor[1] + half * (factor[2] + half * factor[3])
  log_weight <- if (is.null(sources$weights)) 0 else log(sources$weights[rows])
  list(log_abs = log_weight + log(abs(polynomial)) - half - ncol(u) * log(width), sign = sign(polynomial))
}

# For points by their own images alone, all but nothing is left of the sum when these are taken off: by the sources
# of other points, and by those of each other one by one.
sum_again <- function(sources, n, lost, factor, total, control) {
  of_lost <- which(sources$row %in% lost)
  places <- sources$points[lost, , drop = FALSE]
  others <- log_sum(rows_of(sources, -of_lost), places, factor, FALSE, control)
  among <- lapply(seq_along(lost), \(i) {
    from <- of_lost[sources$row[of_lost] != lost[i]]
    terms <- log_pair_kernels(sources, from, places[rep(i, length(from)), , drop = FALSE], factor)
    top <- max(terms$log_abs, -Inf)
    sum <- if (top > -Inf) sum(terms$sign * exp(terms$log_abs - top)) else 0
    c(log(abs(sum)) + if (top > -Inf) top else 0, sum < 0)
  })
  among <- list(log_abs = vapply(among, `[`, 0, 1), negative = vapply(among, `[`, 0, 2) == 1)
  again <- signed_sum(list(others, among), c(1, 1))
  total$log_abs[lost] <- again$log_abs
  total$negative[lost] <- again$negative
  total
}
