# Sums of a fit whose points are a big.matrix: the estimates of its pieces, each from the door itself, are merged.

big_pieces <- function(x) row_pieces(x, chunk_size(NULL, ncol(x)))

log_sum_by_pieces <- function(sources, at, factor, loo, control) {
  by_grid <- !loo && identical(factor, PLAIN_FACTOR) && control$tol > 0 && control$tol_type == "global"
  if (by_grid) return(log_of_sums(sources, at, control))
  sum_parts(sources, at, control, \(piece, y, own, control) log_sum(piece, y, factor, loo && own, control))
}

score_sum_by_pieces <- function(sources, at, estimator, loo, names, control) {
  score_of_piece <- score_of_class(estimator, names)
  sum_parts(sources, at, control, \(piece, y, own, control) score_of_piece(piece, y, loo && own, control))
}

# One grid for all points where that is fastest. Sums that its tolerance does not tell from zero have no logarithm:
# they are summed again.
log_of_sums <- function(sources, at, control, result = sum_kernels(sources, at, NULL, control)) {
  log_abs <- log(as.vector(result$sums))
  low <- which(!(result$sums > 4 * control$tol * max(result$sums)))
  if (length(low) > 0) {
    rows <- (if (is.null(at)) sources$points else at)[low, , drop = FALSE]
    control$tol <- 0
    again <- log_sum(sources, rows, PLAIN_FACTOR, FALSE, control)
    log_abs[low] <- again$log_abs
  }
  list(log_abs = log_abs, stats = result$stats)
}

# `sum_part(piece, y, own, control)` for the sources of each piece of the points with each of the targets (y is NULL and
# `own` TRUE where these are the same rows), merged.
sum_parts <- function(sources, at, control, sum_part) {
  points <- sources$points
  weights <- sources$weights
  pieces <- big_pieces(points)
  own <- is.null(at)
  m <- if (own) nrow(points) else nrow(at)
  read <- \(piece) read_rows(points, piece, "object", ncol(points), colnames(points))
  # errors of parts add up, each relative to the largest sum of its own
  if (control$tol_type == "global") control$tol <- control$tol / length(pieces)
  done <- 0
  of_targets <- lapply(if (own) pieces else list(c(1, m)), \(targets) {
    y <- if (own) read(targets) else at
    total <- NULL
    for (piece in pieces) {
      w <- if (!is.null(weights)) weights[piece[1]:piece[2]]
      pairs <- (diff(piece) + 1) * nrow(y)
      share_stage(control, done / (as.double(nrow(points)) * m), pairs / (as.double(nrow(points)) * m))
      done <<- done + pairs
      if (!is.null(w) && all(w == 0)) next
      same <- own && identical(piece, targets)
      part_sources <- sum_sources(if (same) y else read(piece), w, sources$L, sources$kernel)
      part <- sum_part(part_sources, if (!same) y, same, control)
      total <- if (is.null(total)) part else merge_parts(total, part, control)
    }
    total
  })
  stats <- Reduce(add_stats, lapply(of_targets, `[[`, "stats"))
  list(
    log_abs = unlist(lapply(of_targets, `[[`, "log_abs")), negative = unlist(lapply(of_targets, `[[`, "negative")),
    score = do.call(rbind, lapply(of_targets, `[[`, "score")), stats = stats
  )
}

# Logarithms of sums add up; scores are means, by these sums.
merge_parts <- function(a, b, control) {
  top <- pmax(a$log_abs, b$log_abs)
  share_a <- signed_share(a, top)
  share_b <- signed_share(b, top)
  sum <- share_a + share_b
  weigh <- function(share, score) {
    score[share == 0, ] <- 0 # a part without other points has none
    share * score
  }
  list(
    log_abs = top + log(abs(sum)), negative = if (!is.null(a$negative)) sum < 0,
    score = if (!is.null(a$score)) (weigh(share_a, a$score) + weigh(share_b, b$score)) / sum,
    stats = add_part_stats(a$stats, b$stats, control)
  )
}

# The same where a part may have no terms, and is NULL.
merge_some <- function(a, b, control) if (is.null(a)) b else if (is.null(b)) a else merge_parts(a, b, control)

# exp(log_abs - top) with its sign; 0 where both are.
signed_share <- function(part, top) {
  share <- exp(part$log_abs - top)
  share[top == -Inf] <- 0
  if (!is.null(part$negative)) share[part$negative] <- -share[part$negative]
  share
}
