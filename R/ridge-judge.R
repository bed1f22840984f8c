# Candidates of the portfolio are judged at rows that their metrics have not seen. A metric that was learnt from the
# responses of few rows fits their noise, too, which leave-one-out errors in this metric do not show: on boston they
# choose a fit of error 0.36 where one of 0.27 is among the candidates.

# Rows that are held out for judging if there are more than the sample needs; with fewer rows, folds of the sample.
JUDGING_ROWS <- 2000
FEWEST_JUDGING <- 500
FOLDS <- 5

# Number of folds that are judged: fits of many rows take long, and their errors have less noise.
JUDGED_AS <- 350

# Noises to which that of the least leave-one-out error is compared for the best candidate of a trail, relative to it, if
# its error is at most MAY_WIN times the least.
JUDGED_NOISES <- c(1 / 3, 3)
MAY_WIN <- 1.1

# Number of rows of a sample whose candidates are to be judged, of n rows.
rows_of_sample <- function(n) {
  if (n < SAMPLE_ROWS + FEWEST_JUDGING) min(n, SAMPLE_ROWS) else min(n, SAMPLE_ROWS + JUDGING_ROWS)
}

# A list of list(kept, out): the numbers of rows of a fit, and of those at which it is judged. `kept` is NULL if
# candidates were fitted to them, and judged at the others, already. Rows are in random order.
judging_folds <- function(n) {
  if (n > SAMPLE_ROWS) return(list(list(kept = NULL, out = (SAMPLE_ROWS + 1):n)))
  fold <- rep_len(seq_len(FOLDS), n)
  lapply(seq_len(min(FOLDS, ceiling(FOLDS * (JUDGED_AS / n)^2))), \(k) list(kept = which(fold != k), out = which(fold == k)))
}

# The best of the candidates of a trail, with the `error` and the squared residuals `left` at rows that are held out, and
# `folds`: for each fold its kernel and the points of its rows in the metric that was learnt from the rows kept. Or NULL.
# `fits`: the trail of each fold. `x`, `y`: of all rows.
judge_trail <- function(trail, fits, x, y, folds, run) {
  have_left <- is.null(folds[[1]]$kept)
  parts <- \(round) Map(\(fold, fit) part_of_fold(fold, fit[[round]], x, run), folds, fits)
  rounds <- seq_len(min(length(trail), lengths(fits)))
  left <- lapply(rounds, \(round) if (have_left) trail[[round]]$left else fold_residuals(parts(round), y, 1, run)[, 1])
  k <- which.min(vapply(left, mean, 0))
  if (length(k) == 0) return(NULL)
  replace(trail[[k]], c("error", "left", "folds"), list(mean(left[[k]]), left[[k]], parts(k)))
}

part_of_fold <- function(fold, candidate, x, run) {
  kept <- if (is.null(fold$kept)) seq_len(SAMPLE_ROWS) else fold$kept
  points <- \(rows) metric_points(x[rows, , drop = FALSE], candidate$metric$root, candidate$metric$unit, run)
  c(list(z = points(kept), at = points(fold$out), kept = kept, out = fold$out), candidate[c("kernel", "noise", "coefficients")])
}

# Squared residuals of all folds, with `by` times the noise of each.
fold_residuals <- function(folds, y, by, run) {
  do.call(rbind, lapply(folds, \(fold) squares_held_out(fold, y, fold$noise * by, run)))
}

# A judged candidate with the best of its noise and JUDGED_NOISES.
judge_noises <- function(candidate, y, run) {
  left <- cbind(candidate$left, fold_residuals(candidate$folds, y, JUDGED_NOISES, run))
  best <- which.min(colMeans(left))
  replace(candidate, c("noise", "error", "left"), list(
    candidate$noise * c(1, JUDGED_NOISES)[best], mean(left[, best]), left[, best]
  ))
}

# Squared residuals, the mean of all responses, with a row for each row of a fold that is held out and a column for each
# noise. The fold may have the `coefficients` of its `noise`. `y`: of all rows.
squares_held_out <- function(fold, y, noises, run) {
  sources <- metric_sources(fold$z, fold$kernel)
  if (identical(noises, fold$noise) && !is.null(fold$coefficients)) {
    coefficients <- array(fold$coefficients, c(dim(fold$coefficients), 1))
  } else {
    coefficients <- ridge_path(sources, y[fold$kept, , drop = FALSE], noises, run, with_own = FALSE)$coefficients
  }
  squares_at(sources, fold$at, y[fold$out, , drop = FALSE], coefficients, run)
}

# The simplest of the judged candidates whose error is within `SIMPLER` standard errors of the least, where a metric that
# was not learnt is simpler than a diagonal one, and that is simpler than a full one. Metrics learnt from SAMPLE_ROWS rows
# follow the noise of these so little that the best candidate is taken.
SIMPLER <- 1
pick_simplest <- function(judged) {
  best <- best_candidate(judged)
  if (length(best$folds[[1]]$kept) == SAMPLE_ROWS) return(best)
  rank <- vapply(judged, \(c) if (c$round == 0) 0 else match(c$metric$type, c("none", "diagonal", "full")), 0)
  near <- vapply(judged, is_near, NA, best)
  near <- near & rank == min(rank[near])
  best_candidate(judged[near])
}

# Is the error of a judged candidate at most SIMPLER standard errors above that of another one?
is_near <- function(candidate, best) {
  difference <- candidate$left - best$left
  mean(difference) <= SIMPLER * stats::sd(difference) / sqrt(length(difference))
}
