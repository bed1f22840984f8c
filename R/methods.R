#' Printing and summaries of a density estimate
#'
#' `print()` tells what was fitted, which bandwidth (as the kernel's standard deviations; the
#' object holds `H`, their **variance** matrix) and what was computed where. `summary()` adds what
#' needs a pass over all pairs: the log densities at the training points, the leave-one-out
#' log-likelihood and the [diagnostics()].
#'
#' @details
#' `summary()` costs two passes, \eqn{O(n^2 d)}, and for `"laplace"` the negative mass of
#' [diagnostics()]; `print()` costs nothing.
#'
#' @param x,object A fit from [flash_kde()], or its summary.
#' @param digits Number of significant digits.
#' @param ... Not used.
#' @returns `print()`: its argument, invisibly. `summary()`: a list of class `summary.flash_kde`
#'   with the parts of the fit that are not as long as the data, `weights`, `columns` (a matrix: range,
#'   quartiles and mean of every column), `log_density` (quantiles of the log density at the
#'   training points), `negative` (at how many of them the estimate is negative), `loglik`
#'   ([logLik.flash_kde()]; `NULL` with only one point) and `diagnostics`.
#' @name summary.flash_kde
#' @examples
#' fit <- flash_kde(faithful)
#' fit
#' summary(fit)
NULL

#' @rdname summary.flash_kde
#' @export
print.flash_kde <- function(x, digits = max(3L, getOption("digits") - 3L), ...) {
  print_head(x)
  print_bandwidth(x, digits)
  print_where(x$diagnostics)
  invisible(x)
}

#' @rdname summary.flash_kde
#' @export
summary.flash_kde <- function(object, ...) {
  check_dots_empty(...)
  log_density <- suppressWarnings(predict_at(object, NULL, "log_density", FALSE, FALSE))
  columns <- t(apply(object$x, 2, \(column) {
    c(stats::quantile(column, c(0, 0.25, 0.5), names = FALSE), mean(column),
      stats::quantile(column, c(0.75, 1), names = FALSE))
  }))
  dimnames(columns) <- list(
    point_names(object), c("Min.", "1st Qu.", "Median", "Mean", "3rd Qu.", "Max.")
  )
  structure(
    class = "summary.flash_kde",
    c(unclass(object)[c(
      "call", "estimator", "n", "d", "names", "weights", "na.action", "bandwidth",
      "score_bandwidth", "selector"
    )], list(
      columns = columns,
      log_density = stats::quantile(log_density, c(0, 0.05, 0.25, 0.5, 0.75, 1), na.rm = TRUE),
      negative = sum(is.nan(log_density)),
      loglik = if (can_leave_out(object)) stats::logLik(object),
      diagnostics = diagnostics(object)
    ))
  )
}

#' @rdname summary.flash_kde
#' @export
print.summary.flash_kde <- function(x, digits = max(3L, getOption("digits") - 3L), ...) {
  print_head(x)
  print_bandwidth(x, digits)
  cat("\nColumns:\n")
  print(utils::head(x$columns, 10), digits = digits)
  if (nrow(x$columns) > 10) cat("... and", nrow(x$columns) - 10, "more\n")
  cat("\nLog density at the training points:\n")
  print(x$log_density, digits = digits)
  if (x$negative > 0) cat("The estimate is negative at", x$negative, "of them.\n")
  if (!is.null(x$loglik)) {
    cat("\nLeave-one-out log-likelihood: ", format(as.numeric(x$loglik), digits = digits),
      " (", format(as.numeric(x$loglik) / x$n, digits = digits), " per point)\n", sep = "")
  }
  cat("\n")
  print(x$diagnostics, digits = digits)
  invisible(x)
}

# ---- parts of print() -------------------------------------------------------------------------

estimator_title <- function(estimator) {
  switch(estimator,
    kde = "Kernel density estimate",
    sdkde = "Score-debiased kernel density estimate (SD-KDE)",
    laplace = "Laplace-corrected kernel density estimate (signed)"
  )
}

# `x`: a fit or its summary. Both are described by the same few values.
print_head <- function(x) {
  cat(estimator_title(x$estimator), "\n\n", sep = "")
  # a call made by do.call() holds the data: show its beginning
  call <- deparse(x$call, nlines = 5)
  cat("Call: ", paste(utils::head(call, 4), collapse = "\n      "), sep = "")
  cat(if (length(call) > 4) " ...\n\n" else "\n\n")
  left_out <- length(x$na.action)
  cat(
    "Points: ", format(x$n, big.mark = ","), " in ", x$d,
    ngettext(x$d, " dimension", " dimensions"), if (!is.null(x$weights)) ", weighted",
    if (left_out > 0) paste0(" (", left_out, " left out: missing values)"), "\n",
    sep = ""
  )
}

print_bandwidth <- function(x, digits) {
  sds <- named_sds(x, x$bandwidth)
  chosen <- if (x$selector == "user") "given" else paste0("by \"", x$selector, "\"")
  cat("Bandwidth: H, a variance matrix, ", chosen, "; kernel sds sqrt(diag(H)):\n", sep = "")
  print_sds(sds, digits)
  if (is.null(x$score_bandwidth)) return(invisible())
  score <- named_sds(x, x$score_bandwidth)
  if (!isTRUE(all.equal(x$score_bandwidth, x$bandwidth, tolerance = 1e-12))) {
    cat("Score bandwidth, sds:\n")
    print_sds(score, digits)
  }
}

named_sds <- function(object, H) stats::setNames(bandwidth_sds(H), point_names(object))

print_sds <- function(sds, digits, most = 12) {
  print(utils::head(sds, most), digits = digits)
  if (length(sds) > most) {
    cat("... and ", length(sds) - most, " more, from ", format(min(sds), digits = digits), " to ",
      format(max(sds), digits = digits), "\n", sep = "")
  }
}
