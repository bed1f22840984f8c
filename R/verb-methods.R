#' Print, summarise and compare density estimates
#'
#' `print()` shows the estimator, the bandwidth (as standard deviations of the kernel; the object has `H`, the
#' **variance** matrix) and what was computed where. `summary()` adds quantiles of the log density at the training
#' points, the leave-one-out log-likelihood and the [diagnostics()]. `coef()`, `fitted()`, `logLik()` and `nobs()`
#' work as for other models.
#'
#' @details `print()` takes no time. `summary()` takes two passes over all pairs, \eqn{O(n^2 d)}, and for `"laplace"`
#' the negative mass of [diagnostics()].
#'
#' `logLik()` is the sum of the leave-one-out log densities of the training points. Unlike the log-likelihood at the
#' training points, it does not grow without bound as the bandwidth goes to 0, so it compares estimators and
#' bandwidths. With weights, point \eqn{i} counts \eqn{n w_i / W} times, where \eqn{n} is the number of points of
#' positive weight: the scale of `weights` does not matter, and points of weight 0 change nothing. If a point has
#' leave-one-out density 0, or a negative one (`"laplace"`, with a warning), the sum is `-Inf`. For `"sdkde"` a point
#' is left out of both stages. Cost: \eqn{O(n^2 d)}. An `"sdkde"` with several `steps`, or with a `support` that
#' reflects points or rescales kernels, takes \eqn{O(n^3 d)} and works up to about 3,000 points.
#'
#' @param x,object A fit from [flash_kde()], or its summary.
#' @param digits Number of significant digits, from 1 to 22. For `summary()`, of the printed form; `NULL` (default):
#'   as for `print()`.
#' @param ... Not used; anything here is an error.
#' @returns `print()`: its argument, invisibly.
#'
#'   `summary()`: a list of class `summary.flash_kde` with the parts of the fit that are not as long as the data, and
#'   * `weighted`: whether there are weights; `omitted`: number of rows left out by `na.action`;
#'   * `columns`: a matrix of range, quartiles and mean of each column;
#'   * `log_density`: quantiles of the log density at the training points; `negative`: number of training points where
#'     the estimate is negative;
#'   * `loglik`: `logLik()`. `NULL` with one point, and for an SD-KDE if it would take long: with a tolerance and more
#'     than 50,000 points, with a compact kernel and more than 5,000 points, or if it needs a fit for each point;
#'   * `diagnostics` and `digits`.
#'
#'   Rows of weight 0 are excluded; other weights enter the quantiles and means.
#'
#'   `coef()`: the standard deviations of the kernel, named by column, and `lambda` for categorical columns
#'   (`object$bandwidth` is the variance matrix). `fitted()`: the density at each training point, as from
#'   [predict()][predict.flash_kde] without `newdata`. `nobs()`: the number of points of positive weight, after
#'   `na.action`. `residuals()`: an error of class `flashkernel_error_unsupported`, as a density has no residuals.
#'
#'   `logLik()`: an object of class `logLik`, with attributes `nobs` and `df`. `df` is 0, because AIC corrects for
#'   evaluating the likelihood at the points that were fitted, and leave-one-out needs no correction. So [AIC()] and
#'   [BIC()] are both -2 times this value. It estimates the same quantity as the AIC of a parametric model (Stone 1977)
#'   and can be compared with it.
#' @references Stone, M. (1977) An asymptotic equivalence of choice of model by cross-validation and Akaike's
#'   criterion. *Journal of the Royal Statistical Society B* 39, 44-47.
#' @rdname summary.flash_kde
#' @examples
#' fit <- flash_kde(faithful)
#' fit
#' summary(fit)
#' coef(fit)
#' summary(fitted(fit))
#' AIC(fit, update(fit, estimator = "kde"))
#' @export
print.flash_kde <- function(x, digits = max(3L, getOption("digits") - 3L), ...) {
  digits <- check_digits(digits)
  print_head(x)
  print_support(x$support)
  print_kernel(x)
  print_bandwidth(x, digits)
  cat(strwrap(bounds_note(x), exdent = 2), sep = "\n")
  invisible(x)
}

#' @rdname summary.flash_kde
#' @rawRd \concept{AIC}\concept{log-likelihood}
#' @export
summary.flash_kde <- function(object, digits = NULL, ...) {
  check_dots_empty(...)
  check_in_memory(object)
  if (!is.null(digits)) digits <- check_count(digits, "digits", max = 22)
  run <- start_run(fit_asked(object), "Predicting")
  log_density <- suppressWarnings(
    predict_at(object, NULL, "log_density", FALSE, FALSE, run),
    classes = "flashkernel_warning_negative"
  )
  used <- used_rows(object)
  weights <- object$weights[used]
  log_density <- log_density[used]
  positive <- !is.nan(log_density)
  structure(
    class = "summary.flash_kde",
    c(unclass(object)[c(
      "call", "estimator", "n", "d", "names", "bandwidth", "score_bandwidth", "selector", "search", "adaptive",
      "steps", "given_score", "nonnegative", "kind", "support", "kernel"
    )], list(
      weighted = !is.null(object$weights), omitted = length(object$na.action),
      columns = summarise_columns(object$x[used, , drop = FALSE], weights, point_names(object)),
      log_density = log_density_quantiles(log_density[positive], weights[positive]),
      negative = sum(!positive),
      loglik = if (can_leave_out(object) && !is_slow_to_leave_out(object)) stats::logLik(object),
      diagnostics = diagnostics(object), digits = digits
    ), if (!is.null(object$discrete)) list(
      discrete = object$discrete[c("columns", "lambda", "chosen")], levels = summarise_levels(object)
    ))
  )
}

# Whether leave-one-out sums would take much longer than the rest of a summary.
is_slow_to_leave_out <- function(object) {
  large <- isTRUE(object$tol > 0) && object$n > 50000 || !has_gaussian(object) && object$n > 5000
  is_debiased(object) && (large || needs_refits(object))
}

summarise_columns <- function(x, weights, names) {
  columns <- t(vapply(seq_len(ncol(x)), \(k) {
    column <- x[, k]
    at <- summary_quantiles(column, c(0, 0.25, 0.5, 0.75, 1), weights)
    mean <- if (is.null(weights)) mean(column) else stats::weighted.mean(column, weights)
    c(at[1:3], mean, at[4:5])
  }, numeric(6)))
  dimnames(columns) <- list(names, c("Min.", "1st Qu.", "Median", "Mean", "3rd Qu.", "Max."))
  columns
}

# Weighted quantiles; without weights those of summary(x).
summary_quantiles <- function(x, probs, weights) {
  if (is.null(weights) || length(x) == 1) return(stats::quantile(x, probs, names = FALSE))
  weighted_quantile(x, weights, probs)
}

log_density_quantiles <- function(log_density, weights) {
  probs <- c(0, 0.05, 0.25, 0.5, 0.75, 1)
  values <- if (length(log_density) > 0) {
    summary_quantiles(log_density, probs, weights)
  } else {
    rep(NA_real_, length(probs))
  }
  stats::setNames(values, percent_label(probs))
}

#' @rdname summary.flash_kde
#' @export
print.summary.flash_kde <- function(x, digits = x$digits, ...) {
  digits <- check_digits(digits)
  print_head(x, x$weighted, x$omitted)
  print_support(x$support)
  print_kernel(x)
  print_bandwidth(x, digits)
  if (x$d > 0) cat("\nColumns:\n")
  if (x$d > 0) print(utils::head(x$columns, 10), digits = digits)
  if (nrow(x$columns) > 10) cat("... and", nrow(x$columns) - 10, "more\n")
  print_levels(x$levels, digits)
  cat("\nLog density at the training points:\n")
  print(x$log_density, digits = digits)
  if (x$negative > 0) cat("The estimate is negative at", x$negative, "of them.\n")
  if (!is.null(x$loglik)) print_loglik(x$loglik, "Leave-one-out log-likelihood", digits)
  cat("\n")
  print(x$diagnostics, digits = digits)
  invisible(x)
}

# ---- parts of print() -------------------------------------------------------------------------

# `x`: a fit or its summary.
print_head <- function(x, weighted = !is.null(x$weights), omitted = length(x$na.action)) {
  cat(sub("signed", if (is_clipped(x)) "non-negative" else "signed", estimator_of(x)$title), "\n\n", sep = "")
  print_call(x$call)
  print_points(x$n, paste(" in", columns_in_words(x)), weighted, omitted)
}

# Prints at most `most` lines of the call, since a call made by do.call() contains the data. `indent`: indentation of
# the lines after the first; NULL: that of deparse().
print_call <- function(call, most = 4, indent = NULL) {
  lines <- deparse(short_call(call), nlines = most + 1)
  shown <- utils::head(lines, most)
  if (!is.null(indent)) shown <- sub("^ +", indent, shown)
  cat("Call: ", paste(shown, collapse = "\n      "), if (length(lines) > most) " ...", "\n\n", sep = "")
}

print_points <- function(n, columns, weighted, omitted) {
  cat(
    "Points: ", whole(n), columns, if (weighted) ", weighted",
    if (omitted > 0) paste0(" (", omitted, " left out: missing values)"), "\n", sep = ""
  )
}

print_loglik <- function(loglik, what, digits) {
  value <- as.numeric(loglik)
  cat("\n", what, ": ", format(value, digits = digits), " (", format(value / stats::nobs(loglik), digits = digits),
    " per point)\n", sep = "")
}

print_bandwidth <- function(x, digits) {
  if (!is.null(x$discrete)) print_lambdas(x$discrete, digits)
  if (x$d == 0) return(invisible())
  cat("Bandwidth: H, a variance matrix, ", how_chosen(x), "; kernel standard deviations sqrt(diag(H)):\n", sep = "")
  print_matrix(x, x$bandwidth, digits)
  search <- x$search
  if (!is.null(x$adaptive) && !is.null(search)) attr(search, "heavy") <- FALSE # its cure has been taken
  if (x$selector != "user") for (note in bandwidth_notes(search)) cat(strwrap(note, exdent = 2), sep = "\n")
  if (!is.null(x$adaptive)) cat(strwrap(adaptive_note(x$adaptive, digits), exdent = 2), sep = "\n")
  print_steps(x)
  print_clipped(x, digits)
  if (is.null(x$score_bandwidth)) return(invisible())
  if (!isTRUE(all.equal(x$score_bandwidth, x$bandwidth, tolerance = 1e-12))) {
    cat("Score bandwidth, standard deviations", if (!is.null(x$adaptive)) ", times the same factors", ":\n", sep = "")
    print_matrix(x, x$score_bandwidth, digits)
  }
}

how_chosen <- function(x) if (x$selector == "user") "given" else paste0("by \"", x$selector, "\"")

# Prints standard deviations, and correlations if H is not diagonal.
print_matrix <- function(x, H, digits) {
  print_sds(named_sds(x, H), digits)
  print_correlation(H, point_names(x), digits)
}

named_sds <- function(object, H) stats::setNames(bandwidth_sds(H), point_names(object))

print_sds <- function(sds, digits, most = 12) {
  print(utils::head(sds, most), digits = digits)
  if (length(sds) > most) {
    cat("... and ", length(sds) - most, " more, from ", format(min(sds), digits = digits), " to ",
      format(max(sds), digits = digits), "\n", sep = "")
  }
}

# Prints the correlations of a full matrix.
print_correlation <- function(H, names, digits, most = 8) {
  correlation <- stats::cov2cor(H)
  between <- correlation[lower.tri(correlation)]
  if (all(abs(between) < 1e-12)) return(invisible())
  if (nrow(H) > most) {
    range <- format(range(between), digits = digits)
    cat("and correlations from ", range[1], " to ", range[2], "\n", sep = "")
  } else if (nrow(H) == 2) {
    cat("and correlation ", format(between, digits = digits), "\n", sep = "")
  } else {
    dimnames(correlation) <- list(names, names)
    shown <- format(correlation, digits = min(digits, 3))
    shown[!lower.tri(shown)] <- ""
    cat("and correlations:\n")
    print(shown[-1, -ncol(shown), drop = FALSE], quote = FALSE, right = TRUE)
  }
}

# ---- methods of other models ------------------------------------------------------------------

#' @rdname summary.flash_kde
#' @importFrom stats coef
#' @export
coef.flash_kde <- function(object, ...) {
  check_dots_empty(...)
  c(named_sds(object, object$bandwidth), object$discrete$lambda)
}

#' @rdname summary.flash_kde
#' @importFrom stats fitted
#' @export
fitted.flash_kde <- function(object, ...) {
  check_dots_empty(...)
  stats::predict(object)
}

#' @rdname summary.flash_kde
#' @importFrom stats residuals
#' @export
residuals.flash_kde <- function(object, ...) {
  stop(new_error("unsupported", "a density estimate has no residuals", user_call()))
}
