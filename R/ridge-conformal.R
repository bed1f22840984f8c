# Distribution-free prediction intervals: cross-conformal, from errors at rows that a fit has not seen.
#
# The model is fitted again without each of some folds, with the whole choice of kernel, metric, bandwidth and penalty.
# Leave-one-out residuals at the chosen numbers are too small: with 300 rows and 7 columns their 90 percent intervals
# covered 83 percent, because the numbers were chosen to make these residuals small (bench/intervals.R).
#
# The score of a row is its error over the scale of the fit that has not seen it. The scale at x is the root of
# 1 + v(x), where sigma^2 v(x) is the posterior variance of the function. Intervals are centred at the mean of these
# fits. Its squared error is the mean of theirs minus the mean square of their differences from it, so intervals with the
# quantile of their scores would cover too much; accuracy_of_mean() corrects for that. With one fold this is the split
# conformal method. The ends of CV+ (Barber and others, 2021), quantiles over all fits and scores, have a proven
# coverage of 2 level - 1, and cover more than `level` of new responses where the fits differ.

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
# `scores` (rows x t) and the `weights` of its rows; `left` (n x t), the leave-one-out residuals of the other rows, for
# squared loss and where matrices are factorised: of more rows at most two fits are made. Computed when first needed and
# cached.
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
  kept <- setdiff(seq_len(fit$n), held)
  without <- refit_ridge(fit, kept, run, list(keep = TRUE))
  at <- some_of_data(fit$data, held)
  ends <- ends_at(without, at$rows, at$offset, run)
  t <- ncol(ends) / 2
  scale <- link_scale(without, at$rows, run)
  part <- list(fit = without, unit = exp(mean(log(scale))))
  part$weights <- if (is.null(at$weights)) rep(1, length(held)) else at$weights
  above <- ends - as.vector(at$y[, seq_len(t)])
  part$scores <- pmax(above[, seq_len(t), drop = FALSE], -above[, t + seq_len(t)]) / (scale / part$unit)
  if (!fit$family$squared || fit$n > EXACT_FACTORISED) return(part)
  part$left <- matrix(NA_real_, fit$n, t)
  free <- pmax(1 - as.vector(hat_diagonal(without, run)), 1e-8)
  part$left[kept, ] <- (without$data$y - fitted_link(without, run)) / free
  part
}

# The predictions from which an interval extends downward and upward, n x 2 t: for quantiles those of the first and the
# last level, as in conformalised quantile regression (Romano and others, 2019), where scores may be negative.
ends_at <- function(fit, rows, offset, run) {
  link <- link_at(fit, rows, run)
  if (!is.null(offset)) link <- link + offset
  if (is.null(fit$family$levels)) cbind(link, link) else sort_levels(link)[, c(1, ncol(link)), drop = FALSE]
}

# The root mean square error of the mean of the fits relative to that of one fit, for each output, from leave-one-out
# residuals of the fits that have seen a row. Both are too small for rows from which the kernel was chosen, but their
# ratio is that of new rows: 0.81 to 0.98 on six sets where it was 0.79 to 0.98 at new rows.
accuracy_of_mean <- function(parts, weights) {
  left <- vapply(parts, `[[`, parts[[1]]$left, "left")
  weights <- weights * (rowSums(!is.na(left[, 1, , drop = FALSE])) > 1)
  if (all(weights == 0)) return(1)
  error <- \(squares) weighted_means(squares[weights > 0, , drop = FALSE], weights[weights > 0])
  ratio <- sqrt(error(rowMeans(left, TRUE, 2)^2) / error(rowMeans(left^2, TRUE, 2)))
  ifelse(is.finite(ratio), ratio, 1)
}

# The root of 1 + v(x) at each row; 1 for quantiles, which have their own widths.
link_scale <- function(fit, rows, run) {
  if (!fit$family$squared) return(rep(1, rows$n))
  sqrt(1 + link_errors(fit, rows, run, sigma = rep(1, ncol(fit$coefficients)))[, 1]^2)
}

# list(lower, upper): the ends at `rows`, each n x t. The scale is the geometric mean of the scales of the fits.
conformal_ends <- function(fit, rows, offset, level, run) {
  parts <- calibration_of(fit, run)
  mean_of <- \(f) Reduce(`+`, lapply(parts, f)) / length(parts)
  scale <- exp(mean_of(\(part) log(link_scale(part$fit, rows, run) / part$unit)))
  scores <- do.call(rbind, lapply(parts, `[[`, "scores"))
  weights <- unlist(lapply(parts, `[[`, "weights"))
  width <- apply(scores, 2, conformal_quantile, weights, level)
  if (!is.null(parts[[1]]$left)) width <- width * accuracy_of_mean(parts, fit_weights(fit))
  width <- outer(scale, width)
  ends <- mean_of(\(part) ends_at(part$fit, rows, offset, run))
  low <- ends[, seq_len(ncol(width)), drop = FALSE] - width
  high <- ends[, ncol(width) + seq_len(ncol(width)), drop = FALSE] + width
  # quantiles may be narrowed by more than their distance
  list(pmin(low, high), pmax(low, high))
}

# The smallest score such that the weights of the scores up to it are `level` of all weights and one more, of mean size,
# for the new row. Inf if all are too few.
conformal_quantile <- function(scores, weights, level) {
  order <- order(scores)
  shares <- cumsum(weights[order]) / mean(weights)
  c(scores[order], Inf)[1 + sum(shares < level * (length(scores) + 1) - 1e-9)]
}
