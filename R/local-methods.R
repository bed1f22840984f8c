# Print, summary and extractor methods of kernel regressions.

#' @rdname kernel_regression
#' @export
print.kernel_regression <- function(x, digits = max(3L, getOption("digits") - 3L), ...) {
  check_dots_empty(...)
  print_regression(x, check_digits(digits))
  invisible(x)
}

#' @rdname kernel_regression
#' @export
summary.kernel_regression <- function(object, ...) {
  check_dots_empty(...)
  r <- object$y - object$fitted
  several <- ncol(object$y) > 1
  quantiles <- t(apply(r, 2, stats::quantile, names = FALSE))
  dimnames(quantiles) <- list(if (several) output_labels(object) else "", c("Min", "1Q", "Median", "3Q", "Max"))
  slopes <- if (object$d > 0) summarise_slopes(object)
  object$discrete <- object$discrete["lambda"]
  long <- c("x", "y", "weights", "fitted", "left_out", "leverage", "later", "na.action")
  structure(
    class = "summary.kernel_regression",
    c(unclass(object)[setdiff(names(object), long)], list(
      weighted = !is.null(object$weights), omitted = length(object$na.action), residuals = quantiles,
      slopes = slopes, largest = max(object$leverage)
    ))
  )
}

summarise_slopes <- function(fit) {
  slopes <- local_slopes(fit, NULL, start_run(fit$control, "Computing slopes"))
  p <- if (is.null(fit$weights)) rep(1 / fit$n, fit$n) else fit$weights / sum(fit$weights)
  quartiles <- t(apply(slopes, 2, stats::quantile, c(0.25, 0.5, 0.75), names = FALSE))
  about <- cbind(colSums(p * slopes), quartiles)
  names <- point_names(fit)
  dimnames(about) <- list(
    if (ncol(fit$y) > 1) paste(rep(output_labels(fit), each = fit$d), names) else names,
    c("Mean", "1Q", "Median", "3Q")
  )
  about
}

#' @rdname kernel_regression
#' @export
print.summary.kernel_regression <- function(x, digits = max(3L, getOption("digits") - 3L), ...) {
  check_dots_empty(...)
  digits <- check_digits(digits)
  print_regression(x, digits)
  cat("Leverage:  up to", format(x$largest, digits = digits), "\n\nResiduals:\n")
  print(x$residuals, digits = digits)
  if (!is.null(x$slopes)) {
    cat("\nSlopes:\n")
    print(x$slopes, digits = digits)
  }
  invisible(x)
}

# Prints the head of a fit or its summary.
print_regression <- function(x, digits) {
  number <- \(value) few_of(vapply(value, format, "", digits = digits))
  weighted <- if (is.null(x$weighted)) !is.null(x$weights) else x$weighted
  title <- paste0("Kernel regression, ", REGRESSION_TYPES[[x$type]]$label)
  print_rows(title, x, x$d + length(x$discrete$lambda), if (weighted) ", weighted")
  if (length(x$outputs) > 1) cat("Responses: ", few_of(x$outputs), "\n", sep = "")
  lambda <- vapply(x$discrete$lambda, format, "", digits = min(digits, 4))
  alone <- x$selector == "user"
  if (x$d > 0) cat("Bandwidth: ", widths_label(x, digits), if (!alone) chosen_label(x), "\n", sep = "")
  if (length(lambda) > 0) {
    cat("Lambda:    ", few_of(paste(names(lambda), lambda)), if (alone) chosen_label(x), "\n", sep = "")
  }
  cat(
    "Fit:       R-squared ", number(x$r.squared), ", sigma ", number(x$sigma), ", ", format(x$df, digits = digits),
    " degrees of freedom\n", sep = ""
  )
}

# Prints title, call and size of a fit or its summary.
print_rows <- function(title, x, columns, weighted = NULL) {
  omitted <- if (is.null(x$omitted)) length(x$na.action) else x$omitted
  cat(title, "\n\nCall: ", call_lines(x$call), "\n\n", sep = "")
  cat(
    "Rows:      ", whole(x$n), " in ", columns, ngettext(columns, " column", " columns"), weighted,
    if (omitted > 0) paste0(" (", whole(omitted), " left out: missing values)"), "\n", sep = ""
  )
}

# Returns the first lines of a call as text.
call_lines <- function(call) paste(sub("^ +", "  ", deparse(short_call(call), nlines = 4)), collapse = "\n      ")

widths_label <- function(x, digits) {
  sds <- vapply(sqrt(diagonal(x$bandwidth)), format, "", digits = min(digits, 4))
  shown <- few_of(if (is.null(x$names)) sds else paste(x$names, sds))
  if (any(x$bandwidth[lower.tri(x$bandwidth)] != 0)) paste("a matrix with standard deviations", shown) else shown
}

chosen_label <- function(x) {
  if (is.null(x$search)) return(NULL)
  paste0(
    ", chosen by \"", x$search$criterion, "\"",
    if (x$search$rows < x$n) paste(" on", whole(x$search$rows), "of the rows"),
    if (!x$search$converged) ", search not converged"
  )
}

#' @rdname kernel_regression
#' @export
fitted.kernel_regression <- function(object, ...) {
  check_dots_empty(...)
  stats::napredict(object$na.action, as_response(object, object$fitted))
}

#' @rdname kernel_regression
#' @export
residuals.kernel_regression <- function(object, ...) {
  check_dots_empty(...)
  stats::naresid(object$na.action, as_response(object, object$y - object$fitted))
}

#' @rdname kernel_regression
#' @export
nobs.kernel_regression <- function(object, ...) {
  check_dots_empty(...)
  n_used(object)
}

#' @export
nobs.flash_kda <- nobs.kernel_regression

#' @rdname kernel_regression
#' @export
weights.kernel_regression <- function(object, ...) {
  check_dots_empty(...)
  if (!is.null(object$weights)) stats::napredict(object$na.action, object$weights)
}

#' @rdname kernel_regression
#' @export
formula.kernel_regression <- function(x, ...) {
  if (is.null(x$terms)) stop_argument("x", "must be a fit by formula")
  stats::formula(x$terms)
}

#' @export
formula.flash_kda <- formula.kernel_regression

#' @rdname kernel_regression
#' @importFrom stats hatvalues
#' @export
hatvalues.kernel_regression <- function(model, ...) {
  check_dots_empty(...)
  stats::napredict(model$na.action, model$leverage)
}

#' @rdname kernel_regression
#' @importFrom stats sigma
#' @export
sigma.kernel_regression <- function(object, ...) {
  check_dots_empty(...)
  object$sigma
}

#' @export
#' @noRd
update.kernel_regression <- function(object, ...) update_call(object, match.call(), parent.frame())

#' @export
kept_choices.kernel_regression <- function(object) {
  object <- unclass(object)
  c(list(bandwidth = given_bandwidth(object$bandwidth), ridge = object$ridge), kept_smoothing(object))
}

#' @export
#' @noRd
update.flash_kda <- function(object, ...) update_call(object, match.call(), parent.frame())

#' @export
kept_choices.flash_kda <- function(object) {
  if (!object$shared) stop_argument("bandwidth", "must be chosen again for each class: fit with shared = TRUE to keep it")
  kept_choices(object$fits[[1]])
}
