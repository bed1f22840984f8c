# The sum of two kernels, of the columns and of their normal scores. Columns with skewed values, or with many values close
# together, are better compared by ranks, and others not; functions of both kinds are sums of functions of either kind.
# On small sets of bench/predict.R the sum had a smaller error than either kernel, and than the average of both fits.

# Largest number of rows: sums of two kernels take more than twice as long.
SCORES_ROWS <- 1e5

# Penalties relative to the geometric mean of those of both kernels.
SUM_NOISES <- c(0.1, 1 / 3, 1, 3)

# A choice of choose_from_portfolio() whose kernel is the sum of that of the choice `best` and the best one of normal
# scores, with the squared residuals `left` at the same rows, or NULL.
add_scores <- function(best, sample, spec, run) {
  maps <- score_maps(sample$points)
  if (all(lengths(maps) == 0)) return(NULL)
  name_stage(run, "Choosing a kernel of normal scores")
  of_scores <- replace(sample, "points", list(normal_scores(maps, sample$points)))
  # choices without a learnt metric gain nothing here (NOTES.md)
  judged <- judge_portfolio(of_scores, spec, run, FINALISTS / 2, has_plain = FALSE)
  if (length(judged) == 0) return(NULL)
  scored <- pick_simplest(judged)
  own <- seq_len(ncol(sample$points))
  # of points that have both in their columns
  joint <- halves_of(best, scored, own + length(own))
  folds <- Map(\(a, b) {
    list(z = cbind(a$z, b$z), at = cbind(a$at, b$at), kept = a$kept, out = a$out, kernel = joint)
  }, best$folds, scored$folds)
  noises <- if (is.null(spec$lambda)) sqrt(best$noise * scored$noise) * SUM_NOISES else best$noise
  squares <- do.call(rbind, lapply(folds, squares_held_out, sample$y, noises, run))
  k <- which.min(colMeans(squares))
  if (length(k) == 0) return(NULL)
  L <- as_bandwidth(scored$bandwidth, length(own))$L
  kernel <- halves_of(best, scored, own, scores = maps, L = L)
  list(kernel = kernel, bandwidth = best$bandwidth, noise = noises[k], left = squares[, k], folds = folds)
}

# `...`: further fields of the second term.
halves_of <- function(best, scored, columns, ...) {
  sum_kernel(best$kernel, list(
    list(columns = seq_along(columns), kernel = best$kernel, scale = 1 / 2),
    list(columns = columns, kernel = scored$kernel, scale = 1 / 2, ...)
  ))
}
