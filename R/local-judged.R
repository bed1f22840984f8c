#' @export
judge_of.kernel_regression <- function(fit, arg = "object") {
  folds_of <- list(
    without = \(rows, run) refit_regression(fit, rows, run),
    at = function(made, rows, score, run) {
      found <- local_predictions(made, own_places(fit)[rows, , drop = FALSE], FALSE, FALSE, run)$fit
      minus_square(fit$y[rows, , drop = FALSE], found)
    },
    sds = \(made) bandwidth_sds(made$bandwidth)
  )
  new_judged(
    unclass(fit), fit$type, list(unname(fit$y)), point_names(fit), fit$control, "squared", folds_of,
    has_left_out = \(score) TRUE, left_out = \(score, run) minus_square(fit$y, fit$left_out)
  )
}

refit_regression <- function(object, rows, run) {
  given <- is.numeric(object$settings$bandwidth) || object$selector == "user"
  chosen <- list(type = object$type, ridge = object$ridge, asked = object$control)
  if (!given) chosen$bandwidth <- object$selector
  options <- utils::modifyList(object$settings, chosen)
  fit_regression(places_of_rows(object, rows), object$y[rows, , drop = FALSE], object$weights[rows], stats::na.fail, options,
    run, object$call)
}

#' @export
judge_of.flash_kda <- function(fit, arg = "object") {
  codes <- kda_codes(fit)
  scores_of <- function(logs, score) {
    if (score == "log") return(log(as_kda_type(logs, fit$prior, "prob")[cbind(seq_len(fit$n), codes)]))
    as.double((as.integer(as_kda_type(logs, fit$prior, "class")) == codes) %in% TRUE)
  }
  made <- new_judged(
    unclass(fit), unclass(fit$fits[[1]])$estimator, list(fit$classes[codes]), NULL,
    fit_asked(unclass(fit$fits[[1]])), c("log", "class"), NULL,
    has_left_out = \(score) all(vapply(fit$fits, \(own) can_leave_out(unclass(own)), NA)),
    left_out = \(score, run) scores_of(left_out_logs(fit, run), score)
  )
  made$by_fold <- \(folds, score, run) list(scores = scores_of(fold_logs(fit, codes, folds, run), score))
  made$draw_folds <- \(folds) class_folds(folds, codes, fit)
  made
}
