#' Which of several estimates is best?
#'
#' Judges fits to the same points by a proper score at points that they have not seen, and tells the differences of
#' these scores with their standard errors, which are paired: easy and hard points are so for all fits.
#'
#' @details
#' [cross_validate()] says what the scores are. Without `folds` each point is left out, as in
#' [logLik()][logLik.flash_kde], the bandwidths staying what they are; where a fit has no such scores, as the
#' `"quadratic"` one of an SD-KDE, or would have to be fitted for each, as one of several `steps`, all are judged by 10
#' folds. With folds they are fitted again
#' without each, and bandwidths that were chosen are chosen again. For one and the same estimate that makes a
#' difference: a tenth of the points fewer, and the risk of the choice.
#'
#' Of signed estimates (`"laplace"`) the log score is `-Inf` as soon as one point gets a negative density, and
#' flatters them where none does, since what is not negative has more than mass 1; `"quadratic"` and `"spherical"`
#' judge them, and `nonnegative = TRUE` makes them densities.
#'
#' **Conditional densities, regressions and classes** are judged alike, by what they have to predict: fits of
#' `flash_kde(y ~ x)`, as in [flash_conditional], by \eqn{\log p(y | x)}{log p(y | x)}, as their
#' [logLik()] has it, fits of [kernel_regression()] by `"squared"`, minus the squared
#' error of the mean (of several responses their sum; of one, with each row left out, it is minus the criterion `"cv"`),
#' by which both can be compared with each other, and discriminant analyses of [flash_kda()] by the logarithm of the
#' probability of the class, or by `"class"`, 1 where it is found and else 0, as [cross_validate()]
#' has them. Fits of [kernel_ridge()] and [tune_ridge()] are judged by
#' `"squared"` where the response is numeric, as [kernel_regression()], and by `"log"` or `"class"` where it is a
#' factor, as [flash_kda()], and can be compared with these. Scores that have no values with a row left out, as `"squared"`
#' of a conditional density or `"log"` of one that was debiased, go by 10 folds.
#'
#' A standard error takes the points as independent. It says how much a difference would change with other points to
#' judge by, hardly what other points to fit to would change. Without `folds`, `"log"` and equal weights the mean
#' times the number of points is [logLik()][logLik.flash_kde], so [AIC()] and [BIC()] put fits in the same order,
#' across estimators, too.
#'
#' @param object,... Fits from [flash_kde()] to the same points with the same weights, or to one and the same
#'   [flash_data()], or fits of one of the other kinds, see Details. Names are those of the table: `compare_fits(plain = fit1, debiased = fit2)`.
#' @param score,folds As for [cross_validate()]; `folds = NULL`: each point is left out, see Details. For [flash_kda()]
#'   `score` is `"log"` or `"class"`. `NULL`: the first score of the first fit.
#' @param x The result.
#' @param digits Number of significant digits.
#' @returns A list of class `flash_kde_comparison`: `table`, a data frame with a row for each fit, best first:
#'   `estimator` (of regressions their type), `score` (the mean), `se`, `difference` to the best, `se_difference` and
#'   `rank`; `differences` and `errors`, matrices: by how much the fit of the row is better than that of the column, and
#'   the standard error of this (`NA` where each is `-Inf` at points where the other is not; 0 at points where both are);
#'   `scores`, a matrix with a row for each point and a column for each fit; `score`, and
#'   `folds`, `NULL` where points were left out; `n`, the number of points that count, and `infinite`, of those where a fit
#'   has score `-Inf`. Of a [flash_data()] `scores` is `NULL` and `folds` are the numbers of the folds. `plot()` draws the differences to the best with two standard errors to either side.
#' @seealso [cross_validate()]
#' @export
#' @examples
#' plain <- flash_kde(faithful, "kde", adaptive = FALSE)
#' adaptive <- flash_kde(faithful, "kde", adaptive = TRUE)
#' debiased <- flash_kde(faithful, "sdkde")
#' compare_fits(plain, adaptive, debiased)
#'
#' # a regression beside the mean of a conditional density
#' lines <- kernel_regression(eruptions ~ waiting, faithful, bandwidth = 3)
#' curves <- flash_kde(eruptions ~ waiting, faithful, bandwidth = c(0.2, 3))
#' compare_fits(lines, curves, score = "squared", folds = 5)
compare_fits <- function(object, ..., score = NULL, folds = NULL) {
  fits <- c(if (!missing(object)) list(object), list(...))
  if (length(fits) > 0) names(fits) <- fit_labels(match.call(expand.dots = FALSE), fits)
  all <- judged_alike(fits)
  first <- all[[1]]
  score <- check_choice(if (is.null(score)) first$scores else score, first$scores, "score")
  for (name in names(all)) {
    if (!score %in% all[[name]]$scores) {
      stop_argument("score", "must be one that all have: ", quote_names(name), " has ", quote_names(all[[name]]$scores))
    }
  }
  if (is.null(folds) && !all(vapply(all, \(made) made$has_left_out(score), NA))) folds <- min(10, first$n)
  if (!is.null(folds)) folds <- first$draw_folds(folds)
  found <- first$judge(all, folds, score)
  about <- list(
    scores = stats::naresid(first$na.action, found$scores), score = score, folds = folds,
    of_density = "quadratic" %in% first$scores, n = found$n, infinite = found$infinite
  )
  comparison(names(all), vapply(all, `[[`, "", "estimator"), found$mean, found$se, about)
}

# list(mean, se, scores, n, infinite): the first two of the scores of each of the fits, of what judge_of() knows of
# them, and then of the differences of pairs_of() them.
judge_all <- function(all, folds, score) {
  used <- used_rows(all[[1]])
  scores <- vapply(all, \(made) {
    run <- judging_run(made, folds)
    found <- if (is.null(folds)) made$left_out(score, run) else made$by_fold(folds, score, run)$scores
    replace(found, !used, NA)
  }, numeric(all[[1]]$n))
  pairs <- pairs_of(length(all))
  between <- vapply(seq_len(nrow(pairs)), \(i) {
    score_differences(scores[, pairs[i, 1]], scores[, pairs[i, 2]])
  }, numeric(nrow(scores)))
  judged <- apply(cbind(scores, between)[used, , drop = FALSE], 2, \(values) {
    unlist(weighted_mean(values, all[[1]]$weights[used]))
  })
  infinite <- colSums(scores == -Inf, na.rm = TRUE)
  list(mean = judged["mean", ], se = judged["se", ], scores = scores, n = sum(used), infinite = infinite)
}

judging_run <- function(made, folds) {
  start_run(made$asked, if (is.null(folds)) "Leaving one out" else "Cross-validating")
}

# Equal scores have no difference, also where both are -Inf.
score_differences <- function(a, b) replace(a - b, which(a == b), 0)

# `mean` and `se`: of the score of each, and then of the differences of pairs_of() them.
comparison <- function(names, estimators, mean, se, about) {
  k <- seq_along(names)
  pairs <- pairs_of(length(names))
  mean[is.nan(mean)] <- NA # each has -Inf where the other has none
  differences <- errors <- matrix(0, length(names), length(names), dimnames = list(names, names))
  differences[pairs] <- mean[-k]
  differences[pairs[, 2:1, drop = FALSE]] <- -mean[-k]
  errors[pairs] <- errors[pairs[, 2:1, drop = FALSE]] <- se[-k]
  # of fits that all have score -Inf the one that has it at the fewest points, or is better at the others
  best_first <- order(-mean[k], about$infinite, -rowSums(differences))
  best <- best_first[1]
  table <- data.frame(
    estimator = estimators, score = mean[k], se = se[k], difference = differences[, best],
    se_difference = errors[, best], rank = rank(-mean[k], ties.method = "min"), row.names = names
  )
  structure(class = "flash_kde_comparison", c(
    list(table = table[best_first, ], differences = differences, errors = errors), about
  ))
}

# ---- checks -----------------------------------------------------------------------------------

# As the user has written them, or named.
fit_labels <- function(call, fits) {
  written <- c(if (!is.null(call$object)) list(call$object), call$...)
  given <- if (is.null(names(written))) character(length(written)) else names(written)
  # do.call() writes the fits themselves
  label <- \(part, i) if (is.list(part)) paste("fit", i) else shorten(deparse(part, nlines = 1), 30)
  make.unique(ifelse(nzchar(given), given, mapply(label, written, seq_along(written))))
}

# What judge_of() knows of each.
judged_alike <- function(fits) {
  all <- list()
  for (name in names(fits)) {
    made <- all[[name]] <- judge_of(fits[[name]], name)
    first <- all[[1]]
    same <- same_data(made$data, first$data) && isTRUE(all.equal(made$weights, first$weights, tolerance = 1e-12))
    if (!same) {
      stop_argument(name, "must be a fit to the same ", first$alike, " as ", quote_names(names(fits)[1]))
    }
  }
  if (length(fits) < 2) stop_argument("...", "must have at least one other fit")
  all
}

same_data <- function(a, b) {
  same <- \(a, b) identical(dim(a), dim(b)) && length(a) == length(b) && all(a == b)
  length(a) == length(b) && all(mapply(same, a, b))
}

# ---- print and plot -----------------------------------------------------------------------------

how_judged <- function(x) {
  paste0(score_title(x$score), " of ", whole(x$n), " points, ",
    if (is.null(x$folds)) "each left out" else paste("by", length(unique(x$folds)), "folds"))
}

#' @rdname compare_fits
#' @export
print.flash_kde_comparison <- function(x, digits = max(3L, getOption("digits") - 3L), ...) {
  digits <- check_digits(digits)
  cat("Comparison of ", nrow(x$table), " fits: ", how_judged(x), "\n\n", sep = "")
  shown <- x$table
  shown[] <- lapply(shown, \(column) if (is.double(column)) format(signif(column, digits), digits = digits) else column)
  print(shown)
  infinite <- x$infinite
  for (name in names(infinite)[infinite > 0]) {
    cat("\n", name, ": no positive density at ", infinite[[name]],
      ngettext(infinite[[name]], " point", " points"), if (!isFALSE(x$of_density)) "; score = \"quadratic\" judges that, too",
      sep = "")
  }
  if (any(infinite > 0)) cat("\n")
  invisible(x)
}

#' @rdname compare_fits
#' @param main,xlab Title and label, as in [graphics::plot.default()].
#' @export
plot.flash_kde_comparison <- function(x, main = NULL, xlab = "Difference to the best", ...) {
  table <- x$table[rev(seq_len(nrow(x$table))), ]
  reach <- 2 * ifelse(is.na(table$se_difference), 0, table$se_difference)
  finite <- is.finite(table$difference)
  missing <- is.na(table$difference)
  ends <- range(c(0, (table$difference - reach)[finite], (table$difference + reach)[finite]))
  title <- if (is.null(main)) sub("^(.)", "\\U\\1", score_title(x$score), perl = TRUE) else main
  graphics::dotchart(rep(NA_real_, nrow(table)), row.names(table), xlim = ends, xlab = xlab, main = title, ...)
  at <- seq_along(table$difference)[finite]
  graphics::points(table$difference[finite], at, pch = 19, col = LINE_COLOUR)
  graphics::segments((table$difference - reach)[finite], at, (table$difference + reach)[finite], at, col = LINE_COLOUR)
  if (!all(finite)) {
    graphics::text(ends[1], which(!finite), ifelse(missing, "NA", "-Inf")[!finite], adj = 0, col = LINE_COLOUR)
  }
  graphics::abline(v = 0, lty = 3)
  invisible(x)
}
