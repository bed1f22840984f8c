# Points of an SD-KDE whose score is nearly that of one other point alone.
#
# The score at point j without point i follows from the score with it: the kernel-weighted mean of the others is
# (a_j - share x_i) / (1 - share). Here a_j is the mean of all, and `share` is the share of point i in the kernel sum
# at x_j. The difference 1 - share cancels where the share is near 1, as beside a point of great weight. Where the share
# is above MOST_SHARE, point i "dominates" point j. At most one point dominates j, so the mean of the others is summed
# over the others, once for each dominated point.

MOST_SHARE <- 7 / 8

# A dominated point has less weight than the point that dominates it, by this factor.
LEAST_DOMINANCE <- MOST_SHARE / (1 - MOST_SHARE)

# Can there be dominated points among points with these weights in the score (NULL: equal ones)?
may_dominate <- function(weights) {
  weights <- weights[weights > 0]
  length(weights) > 0 && max(weights) > LEAST_DOMINANCE * min(weights)
}

# Finds which of the points `rows` of `sources` are dominated. `sources` has the weights and the bandwidth of the
# scores, `log_mass` the logs of the kernel sums at the rows. Returns NULL if there are none, or list(rows, by, toward,
# stats): numbers of the dominated points, of the points that dominate them, and the mean of the others minus the point.
dominated_among <- function(sources, rows, log_mass, control) {
  if (!may_dominate(sources$weights)) return(NULL)
  light <- which(is_light(sources$weights[rows], log_mass, max(sources$weights)))
  by <- dominants(sources, sources$points[rows[light], , drop = FALSE], log_mass[light], control)
  found <- by > 0
  if (!any(found)) return(NULL)
  rows <- rows[light[found]]
  by <- by[found]
  others <- means_of_others(sources, sources$points[rows, , drop = FALSE], by, control)
  list(rows = rows, by = by, toward = others$score, stats = others$stats)
}

# Which points can be dominated, by their weights and the largest weight of all points?
is_light <- function(weights, log_mass, largest) {
  weights > 0 & log(weights) < log1p(-MOST_SHARE) + log_mass & log(largest) > log(MOST_SHARE) + log_mass
}

# For each row of `at`, with the log of the kernel sum there: the number of the source that dominates it, or 0.
dominants <- function(sources, at, log_mass, control) {
  least <- log(MOST_SHARE) + log_mass
  log_v <- log(sources$weights)
  heavy <- which(log_v > min(least, Inf))
  heavy <- heavy[order(-log_v[heavy])]
  if (length(heavy) == 0) return(integer(nrow(at)))
  x <- whiten(sources$points[heavy, , drop = FALSE], sources$L)
  by <- dominant_sources(list(x = x, log_v = log_v[heavy], at = whiten(at, sources$L), least = least), control)
  c(0L, heavy)[by + 1]
}

# Squared distances of the rows of two matrices, by differences.
distances_of <- function(a, b) Reduce(`+`, lapply(seq_len(ncol(a)), \(k) outer(a[, k], b[, k], "-")^2))

# Sums at each row of `at` over the sources without source `by` (0: over all sources). Returns list(log_abs, score,
# stats), or NULL if there is no source: the logs of the kernel sums, and as `score` the means of the sources minus the
# row, because merge_parts() merges means as it merges scores. Sources that dominate any row are summed pair by pair,
# and all others by log_sum() and score_sum(), whose engines need one set of weights for all rows.
means_of_others <- function(sources, at, by, control) {
  control[c("tol", "engine", "precision")] <- list(0, "exact", "double")
  weights <- if (is.null(sources$weights)) rep(1, nrow(sources$points)) else sources$weights
  heavy <- unique(by[by > 0])
  rest <- replace(weights, heavy, 0)
  found <- NULL
  if (any(rest > 0)) {
    others <- sum_sources(sources$points, rest, sources$L)
    found <- score_and_log(others, at, PLAIN_FACTOR, FALSE, NULL, control)
    found$score <- found$score %*% tcrossprod(sources$L)
  }
  if (length(heavy) == 0 || all(by == heavy[1])) return(found)
  merge_means(found, heavy_means(sources, at, by, heavy), control)
}

merge_means <- function(a, b, control) {
  if (is.null(a) || is.null(b)) return(if (is.null(a)) b else a)
  stats <- joined_stats(a$stats, b$stats)
  a["stats"] <- b["stats"] <- list(NULL)
  replace(merge_parts(a, b, control), "stats", list(stats))
}

# Returns means_of_others() over the sources `heavy` only, pair by pair.
heavy_means <- function(sources, at, by, heavy, pairs = 2e5) {
  points <- sources$points[heavy, , drop = FALSE]
  u <- whiten(points, sources$L)
  v <- whiten(at, sources$L)
  found <- list(log_abs = numeric(nrow(at)), score = array(0, dim(at)))
  for (rows in split(seq_along(by), ceiling(seq_along(by) * length(heavy) / pairs))) {
    term <- rep(log(sources$weights[heavy]), each = length(rows)) -
      distances_of(v[rows, , drop = FALSE], u) / 2
    term[outer(by[rows], heavy, "==")] <- -Inf
    top <- do.call(pmax, lapply(seq_along(heavy), \(i) term[, i]))
    term <- exp(term - ifelse(top == -Inf, 0, top))
    sum <- rowSums(term)
    found$log_abs[rows] <- top + log(sum)
    for (k in seq_len(ncol(at))) found$score[rows, k] <- rowSums(term * -outer(at[rows, k], points[, k], "-")) / sum
  }
  found$score[found$log_abs == -Inf, ] <- NaN
  found
}

# dominated_among() of all sources, which may have local bandwidth `factors`.
dominated_points <- function(sources, factors, log_mass, control) {
  all <- seq_len(nrow(sources$points))
  if (is.null(factors)) return(dominated_among(sources, all, log_mass, control))
  classes <- width_classes(factors)
  join_dominated(Map(function(factor, rows) {
    dominated_among(replace(sources, "L", list(factor * sources$L)), rows, log_mass[rows], control)
  }, classes$factors, classes$rows))
}

join_dominated <- function(parts) {
  parts <- Filter(Negate(is.null), parts)
  if (length(parts) == 0) return(NULL)
  list(
    rows = unlist(lapply(parts, `[[`, "rows")), by = unlist(lapply(parts, `[[`, "by")),
    toward = do.call(rbind, lapply(parts, `[[`, "toward")), stats = Reduce(joined_stats, lapply(parts, `[[`, "stats"))
  )
}

# Selects from dominated_among() the points of `rows` that points of `by` dominate. Numbers become positions in `rows`
# and in `by`.
dominated_by <- function(found, by, rows) {
  own <- which(found$by %in% by & found$rows %in% rows)
  if (length(own) == 0) return(NULL)
  list(rows = match(found$rows[own], rows), by = match(found$by[own], by), toward = found$toward[own, , drop = FALSE])
}

# ---- for C ------------------------------------------------------------------------------------

# Adds `dominant` and `log_term` (struct fk_widths in src/core/loo.h) to `widths`. `found` is from dominated_among();
# `away` has x_i - x_j for each dominated point j and the point i that dominates it.
with_dominated <- function(widths, found, away, L_score, L) {
  if (is.null(found)) return(widths)
  n <- length(widths$log_mass)
  rows <- found$rows
  factors <- if (is.null(widths$factors)) 1 else widths$factors[rows]
  weights <- if (is.null(widths$weights)) 1 else widths$weights[rows]
  # L^-1 of x_i - x_j - H H_s^-1 toward / 2
  moved <- whiten(found$toward, L_score) %*% forwardsolve(L_score, L) / 2
  z <- (whiten(away, L) - moved) / factors
  log_term <- log(weights) - ncol(z) * log(factors) - rowSums(z^2) / 2
  widths$dominant <- replace(numeric(n), rows, as.double(found$by))
  widths$log_term <- replace(numeric(n), rows, pmax(log_term, -.Machine$double.xmax))
  widths
}

away_from_dominant <- function(points, found) points[found$by, , drop = FALSE] - points[found$rows, , drop = FALSE]
