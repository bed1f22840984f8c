#' @rdname flash_conditional
#' @export
kde_conditional.flash_conditional <- function(object, given, ...) {
  check_dots_empty(...)
  check_can(object$joint, "conditional")
  if (missing(given)) stop_argument("given", "must be given")
  if (is.character(given) && length(given_dims(object)) > 0) {
    stop_argument("given", "must be a list, such as list(a = 1, b = \"u\"): c() turns numbers beside texts into texts")
  }
  row <- if (is.data.frame(given)) given else as.data.frame(as.list(given), optional = TRUE)
  if (nrow(row) != 1) stop_argument("given", "must be one row of values: found ", nrow(row))
  x <- conditional_points(object, row, of_x = TRUE, arg = "given")$points
  if (nrow(x) == 0) stop_argument("given", "must not be missing: found NA")
  run <- start_run(fit_asked(object$joint))
  there <- conditional_there(object, x, "given")
  there[c("terms", "variables")] <- list(NULL, NULL)
  as_new_fit(there, match.call(), "kde_conditional", run)
}

#' @rdname flash_conditional
#' @param vars Names of variables of either side, or numbers, those of y first.
#' @export
kde_marginal.flash_conditional <- function(object, vars, ...) {
  part <- kde_marginal(object$joint, vars, ...)
  part$call <- match.call()
  part$call[[1]] <- quote(kde_marginal)
  part
}

#' @rdname flash_conditional
#' @export
print.flash_conditional <- function(x, digits = max(3L, getOption("digits") - 3L), ...) {
  digits <- check_digits(digits)
  print_conditional_head(x, digits)
  invisible(x)
}

print_conditional_head <- function(x, digits) {
  joint <- x$joint
  cat(
    "Conditional density p(", paste(x$response, collapse = ", "), " | ", paste(x$given, collapse = ", "), "), ",
    estimator_of(joint)$short, "\n\n", sep = ""
  )
  print_call(x$call)
  print_points(joint$n, NULL, !is.null(joint$weights), length(x$na.action))
  if (joint$d > 0) {
    of <- if (x$selector != "user") paste(" of the", if (is.null(x$search)) "joint" else "conditional", "density")
    cat("Kernel standard deviations, ", how_chosen(x), of, ":\n", sep = "")
    print_matrix(joint, joint$bandwidth, digits)
  }
  if (!is.null(joint$discrete)) print_lambdas(joint$discrete, digits)
  if (length(x$search$wide) > 0) {
    drop <- ngettext(length(x$search$wide), " drops", " drop")
    cat(strwrap(paste0(
      paste(x$search$wide, collapse = ", "), drop, " out, because a kernel as wide hardly distinguishes points."
    ), exdent = 2), sep = "\n")
  }
  if (!is.null(joint$adaptive)) cat(strwrap(adaptive_note(joint$adaptive, digits), exdent = 2), sep = "\n")
}

#' @rdname flash_conditional
#' @export
summary.flash_conditional <- function(object, digits = NULL, ...) {
  check_dots_empty(...)
  if (!is.null(digits)) digits <- check_count(digits, "digits", max = 22)
  joint <- object$joint
  used <- used_rows(joint)
  weights <- joint$weights[used]
  of_numbers <- length(response_levels(object)) == 0
  residuals <- if (of_numbers) as.matrix(conditional_residuals(object))[used, , drop = FALSE]
  structure(
    class = "summary.flash_conditional",
    list(
      fit = object,
      columns = if (joint$d > 0) summarise_columns(joint$x[used, , drop = FALSE], weights, joint$names),
      levels = if (!is.null(joint$discrete)) summarise_levels(joint),
      residuals = if (of_numbers) summarise_columns(residuals, weights, object$response),
      loglik = if (can_leave_out(joint) && !is_debiased(joint)) stats::logLik(object), digits = digits
    )
  )
}

#' @rdname flash_conditional
#' @export
print.summary.flash_conditional <- function(x, digits = x$digits, ...) {
  digits <- check_digits(digits)
  print_conditional_head(x$fit, digits)
  if (!is.null(x$columns)) {
    cat("\nColumns:\n")
    print(x$columns, digits = digits)
  }
  print_levels(x$levels, digits)
  if (!is.null(x$residuals)) {
    cat("\nResiduals of the conditional mean:\n")
    print(x$residuals, digits = digits)
  }
  if (!is.null(x$loglik)) print_loglik(x$loglik, "Leave-one-out conditional log-likelihood", digits)
  invisible(x)
}

#' @rdname flash_conditional
#' @export
coef.flash_conditional <- function(object, ...) {
  check_dots_empty(...)
  stats::coef(object$joint)
}

#' @rdname flash_conditional
#' @export
nobs.flash_conditional <- function(object, ...) n_used(object$joint)

#' @rdname flash_conditional
#' @export
logLik.flash_conditional <- function(object, ...) {
  check_dots_empty(...)
  run <- start_run(fit_asked(object$joint), "Leaving one out")
  log_lik_of(log_conditional(object, NULL, run, loo = TRUE), object$joint)
}

#' @rdname flash_conditional
#' @export
fitted.flash_conditional <- function(object, ...) {
  check_dots_empty(...)
  stats::predict(object, type = if (length(response_levels(object)) > 0) "probability" else "mean")
}

#' @rdname flash_conditional
#' @export
residuals.flash_conditional <- function(object, ...) {
  check_dots_empty(...)
  stats::naresid(object$na.action, conditional_residuals(object))
}

# Residuals at the rows that `na.action` has kept.
conditional_residuals <- function(object) {
  check_numeric_response(object, "residuals")
  run <- start_run(fit_asked(object$joint), "Predicting")
  x <- own_places(object$joint)[, given_columns(object), drop = FALSE]
  y <- object$joint$x[, seq_along(object$response)]
  unname(y) - conditional_moments(object, x, run)$mean
}

#' @export
#' @noRd
formula.flash_conditional <- function(x, ...) stats::formula(x$terms)
