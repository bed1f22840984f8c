# Distribution-free prediction intervals: cross-conformal, from errors at rows that a fit has not seen.
#
# The model is fitted again without each of some folds, with the whole choice of kernel, metric, bandwidth and penalty.
# Leave-one-out residuals at the chosen numbers are too small: with 300 rows and 7 columns their 90 percent intervals
# covered 83 percent, because the numbers were chosen to make these residuals small (bench/intervals.R).
#
# The score of a row is its error over the scale of the fit that has not seen it. The scale at x is the root of
# 1 + v(x), where sigma^2 v(x) is the posterior variance of the function. Intervals are centred at the mean of these
# fits, whose squared error is at most the mean of theirs. With one fold this is the split conformal method. The ends of
# CV+ (Barber and others, 2021), quantiles over all fits and scores, have a proven coverage of 2 level - 1, and cover
# more than `level` of new responses where the fits differ.

# A fold has a tenth of the rows, or about CALIBRATION_ROWS if that is fewer. Folds are left out in turn until about
# CALIBRATION_ROWS rows have a score: with 1,000 scores the coverage has a standard deviation of one percent.
CALIBRATION_FOLDS <- 10
CALIBRATION_ROWS <- 1000

# Folds of the rows of positive weight: a list of row numbers. Multiples of the golden section spread each fold evenly
# over the rows in their order, without a period.
held_folds <- function(fit) {
  rows <- if (is.null(fit$data$weights)) seq_len(fit$n) else which(fit$data$weights > 0)
  n <- length(rows)
  if (n < 2) stop_argument("object", "must be a fit to at least two rows of positive weight: found ", n)
  number <- max(min(CALIBRATION_FOLDS, n), n %/% CALIBRATION_ROWS)
  fold <- integer(n)
  fold[order((seq_len(n) * (sqrt(5) - 1) / 2) %% 1)] <- ceiling(seq_len(n) * number / n)
  unname(split(rows, fold)[seq_len(min(number, ceiling(CALIBRATION_ROWS * number / n)))])
}

# A list for each fold: `fit`, the fit without its rows; `unit`, a number that makes the scales of all folds alike;
# `scores` (rows x t) and the `weights` of its rows. Computed when first needed and cached.
calibration_of <- function(fit, run) {
  if (is.null(fit$state$calibration)) {
    data <- kept_data(fit)
    if (is_column(data$y) || inherits(data$rows, "rows_chunks")) {
      stop_argument(
        "interval", "must not be \"conformal\" for fits to rows in chunks or on workers. Use \"prediction\"."
      )
    }
    folds <- held_folds(fit)
    # drawn centres neither depend on R's generator nor change it
    fit$state$calibration <- with_fixed_seed(lapply(seq_along(folds), \(k) {
      share_stage(run, (k - 1) / length(folds), 1 / length(folds))
      calibrate(fit, folds[[k]], run)
    }))
  }
  fit$state$calibration
}

calibrate <- function(fit, held, run) {
  without <- refit_ridge(fit, setdiff(seq_len(fit$n), held), run, list(keep = TRUE))
  at <- some_of_data(fit$data, held)
  link <- link_at(without, at$rows, run)
  if (!is.null(at$offset)) link <- link + at$offset
  scale <- link_scale(without, at$rows, run)
  unit <- exp(mean(log(scale)))
  list(
    fit = without, unit = unit, scores = abs(at$y - link) / (scale / unit),
    weights = if (is.null(at$weights)) rep(1, length(held)) else at$weights
  )
}

# The root of 1 + v(x) at each row.
link_scale <- function(fit, rows, run) {
  sqrt(1 + link_errors(fit, rows, run, sigma = rep(1, ncol(fit$coefficients)))[, 1]^2)
}

# list(lower, upper): the ends at `rows`, each n x t. The scale is the geometric mean of the scales of the fits.
conformal_ends <- function(fit, rows, offset, level, run) {
  parts <- calibration_of(fit, run)
  mean_of <- \(f) Reduce(`+`, lapply(parts, f)) / length(parts)
  centre <- mean_of(\(part) link_at(part$fit, rows, run))
  if (!is.null(offset)) centre <- centre + offset
  scale <- exp(mean_of(\(part) log(link_scale(part$fit, rows, run) / part$unit)))
  scores <- do.call(rbind, lapply(parts, `[[`, "scores"))
  weights <- unlist(lapply(parts, `[[`, "weights"))
  width <- outer(scale, apply(scores, 2, conformal_quantile, weights = weights, level = level))
  list(centre - width, centre + width)
}

# The smallest score such that the weights of the scores up to it are `level` of all weights and one more, of mean size,
# for the new row. Inf if all are too few.
conformal_quantile <- function(scores, weights, level) {
  order <- order(scores)
  shares <- cumsum(weights[order]) / mean(weights)
  c(scores[order], Inf)[1 + sum(shares < level * (length(scores) + 1) - 1e-9)]
}
