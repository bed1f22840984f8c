# Points of an SD-KDE whose score is nearly that of one other point alone.
#
# The score at point j without point i follows from the score with it: the mean of the others is (a_j - share x_i) /
# (1 - share), where share is that of i in the kernel sum S_j at x_j. The difference 1 - share has no digits where the
# share is near 1, as beside a point of great weight. Where it is above MOST_SHARE, i "dominates" j. There is at most one
# such i for each j, so the sums without it are computed over the others, once for each of these j.

MOST_SHARE <- 7 / 8

# A dominated point has less weight than the point that dominates it, by this factor.
LEAST_DOMINANCE <- MOST_SHARE / (1 - MOST_SHARE)

# Can there be dominated points among points with these weights in the score (NULL: equal ones)?
may_dominate <- function(weights) {
  weights <- weights[weights > 0]
  length(weights) > 0 && max(weights) > LEAST_DOMINANCE * min(weights)
}

# list(rows, by, toward, stats) of the dominated ones among the points `rows` of `sources`, with the points that dominate
# them, and the mean of the others around each, relative to the point. NULL where there are none. `sources`: the points
# with their weights in these scores, `sources$L` the factor of the scores' kernels; `log_mass`: the log of the kernel sums
# at the rows.
dominated_among <- function(sources, rows, log_mass, control) {
  if (!may_dominate(sources$weights)) return(NULL)
  light <- which(is_light(sources$weights[rows], log_mass, max(sources$weights)))
  by <- dominants(sources, sources$points[rows[light], , drop = FALSE], log_mass[light])
  found <- by > 0
  if (!any(found)) return(NULL)
  rows <- rows[light[found]]
  by <- by[found]
  others <- means_of_others(sources, sources$points[rows, , drop = FALSE], by, control)
  list(rows = rows, by = by, toward = others$score, stats = others$stats)
}

# May points of these weights be dominated, where no weight is above `largest`?
is_light <- function(weights, log_mass, largest) {
  weights > 0 & log(weights) < log1p(-MOST_SHARE) + log_mass & log(largest) > log(MOST_SHARE) + log_mass
}

# For each row of `at`, with the log of the kernel sum there, the number of the source that dominates it, 0 for none.
dominants <- function(sources, at, log_mass, pairs = 2e5) {
  by <- integer(nrow(at))
  least <- log(MOST_SHARE) + log_mass
  log_v <- log(sources$weights)
  heavy <- which(log_v > min(least, Inf))
  heavy <- heavy[order(-log_v[heavy])]
  if (length(heavy) == 0) return(by)
  u <- whiten(sources$points[heavy, , drop = FALSE], sources$L)
  v <- whiten(at, sources$L)
  # of each row, how many of the heaviest points could have so much of the sum
  count <- findInterval(-least, -log_v[heavy], left.open = TRUE)
  for (rows in blocks_of_pairs(order(-count), -sort(-count), pairs)) {
    first <- seq_len(count[rows[1]])
    exponent <- rep(log_v[heavy[first]], each = length(rows)) - distances_of(v[rows, , drop = FALSE], u[first, , drop = FALSE]) / 2
    hit <- which(exponent > least[rows], arr.ind = TRUE)
    by[rows[hit[, 1]]] <- heavy[hit[, 2]]
  }
  by
}

# `rows` in blocks of at most so many pairs, where it is known of each with how many points it is paired; less and less.
blocks_of_pairs <- function(rows, count, pairs) {
  blocks <- list()
  while (length(rows) > 0 && count[1] > 0) {
    own <- seq_len(min(max(1, floor(pairs / count[1])), sum(count > 0)))
    blocks <- c(blocks, list(rows[own]))
    rows <- rows[-own]
    count <- count[-own]
  }
  blocks
}

# Squared distances of the rows of two matrices, by differences.
distances_of <- function(a, b) {
  Reduce(`+`, lapply(seq_len(ncol(a)), \(k) outer(a[, k], b[, k], "-")^2))
}

# list(log_abs, score, stats): at each row of `at` the log of the kernel sum over the sources but number `by` (0: all), and
# as `score` their mean, relative to the row: parts are merged as scores are. Points that dominate any of the rows are
# summed here, all others by the door. NULL: there is no source.
means_of_others <- function(sources, at, by, control) {
  control[c("tol", "engine", "precision")] <- list(0, "exact", "double")
  weights <- if (is.null(sources$weights)) rep(1, nrow(sources$points)) else sources$weights
  heavy <- unique(by[by > 0])
  rest <- replace(weights, heavy, 0)
  found <- NULL
  if (any(rest > 0)) {
    others <- sum_sources(sources$points, rest, sources$L)
    found <- score_of_class(ESTIMATORS[[PLAIN_ESTIMATOR]], NULL)(others, at, FALSE, control)
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

# The same over the sources `heavy`, pair by pair, as a part that merge_parts() takes.
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
    for (k in seq_len(ncol(at))) {
      found$score[rows, k] <- rowSums(term * -outer(at[rows, k], points[, k], "-")) / sum
    }
  }
  found$score[found$log_abs == -Inf, ] <- NaN
  found
}

# The same as dominated_among(), of all sources, with `factors` where they have some.
dominated_points <- function(sources, factors, log_mass, control) {
  classes <- width_classes(if (is.null(factors)) rep(1, nrow(sources$points)) else factors)
  parts <- Map(function(factor, rows) {
    dominated_among(replace(sources, "L", list(factor * sources$L)), rows, log_mass[rows], control)
  }, classes$factors, classes$rows)
  join_dominated(parts)
}

join_dominated <- function(parts) {
  parts <- Filter(Negate(is.null), parts)
  if (length(parts) == 0) return(NULL)
  list(
    rows = unlist(lapply(parts, `[[`, "rows")), by = unlist(lapply(parts, `[[`, "by")),
    toward = do.call(rbind, lapply(parts, `[[`, "toward")), stats = Reduce(joined_stats, lapply(parts, `[[`, "stats"))
  )
}

# Of those, the ones dominated by the points `by`, with the numbers of both within `by` and `rows`, of which all are some.
dominated_by <- function(found, by, rows) {
  own <- which(found$by %in% by & found$rows %in% rows)
  if (length(own) == 0) return(NULL)
  list(rows = match(found$rows[own], rows), by = match(found$by[own], by), toward = found$toward[own, , drop = FALSE])
}

# ---- for C ------------------------------------------------------------------------------------

# `widths` with `dominant` and `log_term` of the points of `found`, a list as of dominated_among(), and `away`: x_i - x_j
# of each with the one that dominates it, by number `by` there. See core/loo.h.
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

away_from_dominant <- function(points, found) {
  points[found$by, , drop = FALSE] - points[found$rows, , drop = FALSE]
}
