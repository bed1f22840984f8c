#' Which of several estimates is best?
#'
#' Compares fits to the same points by a proper score at points that the fits have not seen. Returns the mean scores,
#' their differences and paired standard errors: a point that is hard to predict is hard for all fits.
#'
#' @details
#' [cross_validate()] defines the scores. Without `folds` each point is judged by a fit without that point
#' (leave-one-out), as in [logLik()][logLik.flash_kde], at unchanged bandwidths. Some fits have no leave-one-out
#' scores at a moderate cost, such as `"quadratic"` of an SD-KDE, or any score of an SD-KDE with several `steps`. Then
#' all fits are judged by 10 folds. With folds each fit is repeated without each fold, and bandwidths that were chosen
#' from the data are chosen again. The two ways differ also for one fit: folds use a tenth fewer points and include
#' the variability of the choice.
#'
#' The log score of a signed estimate (`"laplace"`) is `-Inf` if the density is negative at one point, and too high
#' otherwise, because the positive part has mass above 1. Use `"quadratic"` or `"spherical"` for these estimates, or fit
#' with `nonnegative = TRUE`.
#'
#' **Conditional densities, regressions and classifiers** are compared by their predictions:
#'
#' * fits of `flash_kde(y ~ x)` (see [flash_conditional]) by `"log"`, \eqn{\log p(y | x)}{log p(y | x)} as in
#'   [logLik()], or by `"squared"`;
#' * fits of [kernel_regression()] by `"squared"`, minus the squared error of the mean, summed over the responses. With
#'   one response and leave-one-out it is minus the criterion `"cv"`;
#' * fits of [flash_kda()] by `"log"`, the log probability of the observed class, or by `"class"`, which is 1 if the
#'   predicted class is right and 0 otherwise;
#' * fits of [kernel_ridge()] and [tune_ridge()] by `"squared"` for a numeric response, and by `"log"` or `"class"`
#'   for a factor.
#'
#' Fits of different kinds can be compared if they have the score in common. Scores without leave-one-out values, such
#' as `"squared"` of a conditional density or `"log"` of a debiased one, use 10 folds.
#'
#' Standard errors treat the points as independent. They measure how much a difference would change with other points
#' to judge by, and hardly how it would change with other points to fit to. With `"log"`, equal weights and no
#' `folds`, the mean score times the number of points is [logLik()][logLik.flash_kde]. [AIC()] and [BIC()] then rank
#' the fits in the same order, also across estimators.
#'
#' @param object,... Two or more fits to the same points (regressions and classifiers: to the same responses) with the same
#'   weights, or to the same [flash_data()]: from [flash_kde()], or of the kinds in Details. Argument names label the rows of the table:
#'   `compare_fits(plain = fit1, debiased = fit2)`.
#' @param score Name of the score, see [cross_validate()]. `NULL` (default): the first score of the first fit.
#' @param folds Number of folds, or the fold of each point, as for [cross_validate()]. `NULL` (default): leave-one-out.
#' @param x The result.
#' @param digits Number of significant digits.
#' @returns A list of class `flash_kde_comparison`:
#'   * `table`: a data frame with a row for each fit, best first: `estimator` (the type of a regression), `score` (the
#'     mean), `se`, `difference` to the best fit, `se_difference` and `rank`;
#'   * `differences`, `errors`: matrices of the mean score of the row's fit less that of the column's fit, and the
#'     standard errors. A difference is `NA` if each of the two fits has score `-Inf` at points where the other has
#'     not. Points where both have `-Inf` contribute 0;
#'   * `scores`: a matrix with a row for each point and a column for each fit (`NULL` for a [flash_data()]);
#'   * `score`, the name; `folds`, `NULL` for leave-one-out, and for a [flash_data()] the numbers of the folds;
#'   * `n`: the number of points of positive weight; `infinite`: the number of points where each fit has score `-Inf`.
#'
#'   `plot()` draws the differences to the best fit with two standard errors to either side.
#' @seealso [cross_validate()]
#' @rawRd \concept{model comparison}\concept{proper scoring rule}\concept{held-out likelihood}
#' @export
#' @examples
#' plain <- flash_kde(faithful, "kde", adaptive = FALSE)
#' adaptive <- flash_kde(faithful, "kde", adaptive = TRUE)
#' debiased <- flash_kde(faithful, "sdkde")
#' compared <- compare_fits(plain, adaptive, debiased)
#' compared
#' plot(compared)
#'
#' # a local regression and the mean of a conditional density
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
      stop_argument(
        "score", "must be a score that all fits have: ", quote_names(name), " has ", quote_names(all[[name]]$scores)
      )
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

# Judges fits on their common points. `all` is a list of judge_of() records. Returns list(mean, se, scores, n,
# infinite). `mean` and `se` have an element for each fit, followed by one for each pair of pairs_of().
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

# The data frame of compare_fits(). `mean` and `se`: elements for each fit, followed by those for each pair of
# pairs_of().
comparison <- function(names, estimators, mean, se, about) {
  k <- seq_along(names)
  pairs <- pairs_of(length(names))
  mean[is.nan(mean)] <- NA # each fit has score -Inf at a point where the other has not
  differences <- errors <- matrix(0, length(names), length(names), dimnames = list(names, names))
  differences[pairs] <- mean[-k]
  differences[pairs[, 2:1, drop = FALSE]] <- -mean[-k]
  errors[pairs] <- errors[pairs[, 2:1, drop = FALSE]] <- se[-k]
  # if all fits have score -Inf, the best has it at the fewest points, or is better at the other points
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

# Argument names, or the expressions of the call.
fit_labels <- function(call, fits) {
  written <- c(if (!is.null(call$object)) list(call$object), call$...)
  given <- if (is.null(names(written))) character(length(written)) else names(written)
  # do.call() puts the fits themselves into the call
  label <- \(part, i) if (is.list(part)) paste("fit", i) else shorten(deparse(part, nlines = 1), 30)
  make.unique(ifelse(nzchar(given), given, mapply(label, written, seq_along(written))))
}

# The judge_of() record of each fit, after checks that they were fitted to the same points.
judged_alike <- function(fits) {
  all <- list()
  for (name in names(fits)) {
    made <- all[[name]] <- judge_of(fits[[name]], name)
    first <- all[[1]]
    same <- same_data(made$data, first$data) && isTRUE(all.equal(made$weights, first$weights, tolerance = 1e-12))
    if (!same) stop_argument(name, "must be a fit to the same ", first$alike, " as ", quote_names(names(fits)[1]))
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
    if (is.null(x$folds)) "leave-one-out" else paste("by", length(unique(x$folds)), "folds"))
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
      ngettext(infinite[[name]], " point", " points"),
      if (!isFALSE(x$of_density)) "; use score = \"quadratic\" for such estimates",
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
  labels <- row.names(table)
  # long labels stand above their lines
  above <- max(graphics::strwidth(labels, "inches", cex = graphics::par("cex"))) > 0.3 * graphics::par("din")[1]
  graphics::dotchart(rep(NA_real_, nrow(table)), if (!above) labels, xlim = ends, xlab = xlab, main = title, ...)
  if (above) {
    cex <- min(1, graphics::par("pin")[1] / max(graphics::strwidth(labels, "inches")))
    graphics::text(graphics::par("usr")[1], seq_along(labels), labels, adj = c(-0.02, -0.8), cex = 0.95 * cex)
  }
  at <- seq_along(table$difference)[finite]
  graphics::points(table$difference[finite], at, pch = 19, col = LINE_COLOUR)
  graphics::segments((table$difference - reach)[finite], at, (table$difference + reach)[finite], at, col = LINE_COLOUR)
  if (!all(finite)) {
    graphics::text(ends[1], which(!finite), ifelse(missing, "NA", "-Inf")[!finite], adj = 0, col = LINE_COLOUR)
  }
  graphics::abline(v = 0, lty = 3)
  invisible(x)
}
