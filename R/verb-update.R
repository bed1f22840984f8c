# update() of fits: the call of the fit with other arguments.

#' @importFrom stats update
#' @export
#' @noRd
update.flash_kde <- function(object, formula., ..., evaluate = TRUE) {
  call <- match.call()
  if (!missing(formula.)) {
    good <- !is.null(object$terms) && inherits(formula., "formula")
    check_is(good, formula., "formula.", "a formula, and the fit must have one (name the other arguments)")
    # update.formula() returns a left side for `. ~`, which a density does not have
    if (length(formula.) == 3 && identical(formula.[[2]], quote(.))) formula.[[2]] <- NULL
    call$formula. <- formula.
  }
  update_call(object, call, parent.frame())
}

#' @export
#' @noRd
update.flash_conditional <- function(object, ...) update_call(object, match.call(), parent.frame())

# Evaluates a matched call of a method by update.default(). With bandwidth = "keep", what the fit has chosen from its
# data are arguments of the new call, except for arguments that the user changes.
update_call <- function(object, call, frame) {
  call[[1]] <- stats::update.default
  call$object <- object
  if (identical(call$bandwidth, "keep")) {
    call$bandwidth <- NULL
    kept <- kept_choices(object)
    kept <- kept[setdiff(names(kept), names(call))]
    call[names(kept)] <- kept
  }
  eval(call, frame)
}

# The arguments that repeat what a fit has chosen from its data, with calls in place of objects that print long.
kept_choices <- function(object) UseMethod("kept_choices")

#' @export
kept_choices.flash_kde <- function(object) {
  object <- unclass(object)
  score <- if (is.null(object$call$debias) && !is.null(object$score_bandwidth)) {
    list(debias = bquote(flashkernel::debiasing(bandwidth = .(given_bandwidth(object$score_bandwidth)))))
  }
  adaptive <- if (is.null(object$adaptive)) FALSE else object$adaptive$method
  chosen <- list(estimator = object$estimator, bandwidth = given_bandwidth(object$bandwidth), adaptive = adaptive)
  c(chosen, score, kept_smoothing(object))
}

#' @export
kept_choices.flash_conditional <- function(object) kept_choices(object$joint)

# The bandwidth as users give it.
given_bandwidth <- function(H) if (has_correlation(H)) H else bandwidth_sds(H)

kept_smoothing <- function(object) {
  lambda <- object$discrete$lambda
  if (!is.null(lambda)) list(categorical = bquote(flashkernel::categorical_kernel(smoothing = .(lambda))))
}
