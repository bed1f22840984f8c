#' @rdname cross_validate
#' @export
cross_validate.flash_kda <- function(object, folds = "loo", ...) {
  check_dots_empty(...)
  run <- start_run(fit_asked(unclass(object$fits[[1]])), "Cross-validating")
  codes <- kda_codes(object)
  loo <- identical(folds, "loo")
  if (!loo) folds <- class_folds(folds, codes, object)
  logs <- if (loo) left_out_logs(object, run) else fold_logs(object, codes, folds, run)
  p <- as_kda_type(logs, object$prior, "prob")
  found <- as_kda_type(logs, object$prior, "class")
  w <- if (is.null(object$weights)) rep(1, object$n) else object$weights
  of_rows <- factor(object$classes[codes], levels = object$classes)
  confusion <- table(class = of_rows[w > 0], predicted = found[w > 0])
  own <- p[cbind(seq_len(object$n), codes)]
  structure(class = "flash_kda_validation", list(
    call = match.call(), error = sum(w * !((found == of_rows) %in% TRUE)) / sum(w), confusion = confusion,
    log_score = sum((w * log(own))[w > 0]) / sum(w), prob = stats::naresid(object$na.action, p),
    class = as_kda_type(stats::naresid(object$na.action, logs), object$prior, "class"), folds = if (!loo) folds
  ))
}

# Returns the fold of each row. For a number of folds they are random and stratified by class.
class_folds <- function(folds, codes, object) {
  if (length(folds) != 1) return(check_folds(folds, list(n = object$n, weights = object$weights)))
  if (is.character(folds)) {
    loo <- if (folds != "loo") "\"loo\", "
    stop_argument("folds", "must be ", loo, "a number of folds or the fold of each row: found ", describe(folds))
  }
  folds <- check_count(folds, "folds", min = 2, max = object$n)
  # folds are dealt out across classes without a restart, so that they have about equal sizes
  order <- sample.int(object$n)
  order <- order[order(codes[order])]
  replace(integer(object$n), order, rep_len(seq_len(folds), object$n))
}

fold_logs <- function(object, codes, folds, run) {
  x <- kda_points(object)
  colnames(x) <- object$names
  logs <- matrix(0, object$n, length(object$classes), dimnames = list(NULL, object$classes))
  for (fold in unique(folds)) {
    out <- folds == fold
    weights <- object$weights[!out]
    in_place("`folds`", check_classes(codes[!out], weights, object$classes))
    spec <- object$spec
    if (is.numeric(spec$options$adaptive)) spec$options$adaptive <- spec$options$adaptive[!out]
    found <- class_fits(x[!out, , drop = FALSE], codes[!out], object$classes, weights, spec, run, object$call)
    logs[out, ] <- class_logs(replace(unclass(object), "fits", list(found$fits)), x[out, , drop = FALSE], run)
  }
  logs
}

#' @rdname cross_validate
#' @export
print.flash_kda_validation <- function(x, digits = max(3L, getOption("digits") - 3L), ...) {
  check_dots_empty(...)
  digits <- check_digits(digits)
  how <- if (is.null(x$folds)) "Leave-one-out" else paste0(length(unique(x$folds)), "-fold")
  cat(
    how, " cross-validation: ", format(100 * x$error, digits = digits), "% misclassified, mean log score ",
    format(x$log_score, digits = digits), "\n\n", sep = ""
  )
  wrong <- 1 - diagonal(x$confusion) / rowSums(x$confusion)
  shown <- cbind(format(x$confusion), error = paste0(format(100 * wrong, digits = digits), "%"))
  names(dimnames(shown)) <- names(dimnames(x$confusion))
  print(noquote(shown, right = TRUE))
  invisible(x)
}

# ---- print and summary ------------------------------------------------------------------------

#' @export
#' @noRd
print.flash_kda <- function(x, digits = max(3L, getOption("digits") - 3L), ...) {
  check_dots_empty(...)
  print_kda(x, class_table(x), check_digits(digits))
  invisible(x)
}

#' @rdname predict.flash_kda
#' @export
summary.flash_kda <- function(object, ...) {
  check_dots_empty(...)
  fits <- lapply(object$fits, unclass)
  can <- all(vapply(fits, can_leave_out, NA)) && !any(vapply(fits, needs_refits, NA))
  structure(class = "summary.flash_kda", list(
    call = object$call, n = object$n, d = object$d, omitted = length(object$na.action), shared = object$shared,
    classes = class_table(object), validation = if (can) cross_validate(object)
  ))
}

#' @rdname predict.flash_kda
#' @export
print.summary.flash_kda <- function(x, digits = max(3L, getOption("digits") - 3L), ...) {
  check_dots_empty(...)
  digits <- check_digits(digits)
  print_kda(x, x$classes, digits)
  if (!is.null(x$validation)) {
    cat("\n")
    print(x$validation, digits = digits)
  }
  invisible(x)
}

# Returns a data frame with a row for each class, including the standard deviations of its bandwidth.
class_table <- function(object) {
  table <- data.frame(
    n = lengths(object$rows), prior = unname(object$prior), estimator = vapply(object$fits, \(fit) {
      paste0(fit$estimator, if (!is.null(fit$adaptive)) ", adaptive")
    }, ""), row.names = object$classes
  )
  sds <- t(vapply(object$fits, \(fit) sqrt(diagonal(fit$bandwidth)), numeric(object$d)))
  sds <- matrix(sds, length(object$classes), object$d, dimnames = list(NULL, paste("sd", point_names(object))))
  structure(cbind(table, as.data.frame(sds, optional = TRUE)), support = object$fits[[1]]$support)
}

print_kda <- function(x, table, digits) {
  omitted <- if (is.null(x$omitted)) length(x$na.action) else x$omitted
  cat("Kernel discriminant analysis\n\n")
  cat("Call: ", call_lines(x$call), "\n\n", sep = "")
  cat(
    "Rows:      ", whole(x$n), " in ", x$d, ngettext(x$d, " column", " columns"),
    if (omitted > 0) paste0(" (", whole(omitted), " left out: missing values)"), "\n", sep = ""
  )
  print_support(attr(table, "support"))
  cat("Bandwidth:", if (x$shared) "one for all classes\n\n" else "one for each class\n\n")
  print(table, digits = digits)
}
