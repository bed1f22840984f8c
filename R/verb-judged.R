# The common interface of compare_fits() and cross_validate() to fits of each class. Returns list(...):
# - n, weights, na.action, data: for the check that fits are to the same points or responses; estimator: its name in the
#   table; names: the columns that have bandwidths; asked: for start_run();
# - scores: the names of its scores; has_left_out(score): whether it has leave-one-out values at the training points;
#   left_out(score, run): these values;
# - by_fold(folds, score, run): like judge_folds(); draw_folds(folds): the fold of each point;
# - judge(all, folds, score): like judge_all(), of several fits to the same points; alike: what they have in common.
# `arg`: the name of the user's argument.
judge_of <- function(fit, arg = "object") UseMethod("judge_of")

#' @export
judge_of.default <- function(fit, arg = "object") {
  stop_argument(
    arg, "must be a fit from flash_kde(), kernel_regression(), kernel_ridge(), tune_ridge() or flash_kda(): found ",
    describe(fit)
  )
}

# Scores of predictions; those of densities are PROPER_SCORES.
PREDICTION_SCORES <- c(
  squared = "minus the squared error", class = "share in the right class", loss = "minus the loss of the family"
)

score_title <- function(score) {
  if (score %in% names(PROPER_SCORES)) PROPER_SCORES[[score]]$title else PREDICTION_SCORES[[score]]
}

#' @export
judge_of.flash_kde <- function(fit, arg = "object") {
  if (is_remote(.subset2(fit, "x"))) return(judge_of_data(unclass(fit)))
  check_in_memory(fit, arg)
  check_can(fit, "draws")
  folds_of <- list(
    without = \(rows, run) unclass(refit(fit, rows, run)),
    at = \(made, rows, score, run) scores_at(made, own_places(fit)[rows, , drop = FALSE], score, run),
    sds = \(made) bandwidth_sds(made$bandwidth)
  )
  new_judged(
    fit, fit$estimator, list(fit$x, fit$discrete$codes), point_names(fit), fit_asked(fit), names(PROPER_SCORES),
    folds_of, has_left_out = \(score) has_left_out(fit, score),
    left_out = \(score, run) scores_left_out(fit, score, run)
  )
}

# The data are those of the response, as for regressions, so that fits with other x can be compared.
#' @export
judge_of.flash_conditional <- function(fit, arg = "object") {
  joint <- unclass(fit$joint)
  of_x <- given_columns(fit)
  folds_of <- list(
    without = \(rows, run) refit_conditional(fit, rows, run),
    at = function(made, rows, score, run) {
      at <- own_places(joint)[rows, , drop = FALSE]
      if (score == "log") return(judged_logs(log_conditional(made, at, run)))
      minus_square(at[, -of_x, drop = FALSE], conditional_moments(made, at[, of_x, drop = FALSE], run)$mean)
    },
    sds = \(made) bandwidth_sds(made$joint$bandwidth)
  )
  new_judged(
    joint, joint$estimator, list(unname(own_places(joint)[, -of_x, drop = FALSE])), point_names(joint),
    fit_asked(joint), c("log", if (length(response_levels(fit)) == 0) "squared"), folds_of,
    has_left_out = \(score) score == "log" && can_leave_out(joint) && !is_debiased(joint),
    left_out = \(score, run) judged_logs(log_conditional(fit, NULL, run, loo = TRUE))
  )
}

# A negative estimate has the worst score.
judged_logs <- function(found) replace(found$log_abs, which(as.logical(found$negative)), -Inf)

new_judged <- function(fit, estimator, data, names, asked, scores, folds_of, has_left_out, left_out) {
  about <- list(n = fit$n, weights = fit$weights)
  made <- c(about, list(
    na.action = fit$na.action, data = data, estimator = estimator, names = names, asked = asked, scores = scores,
    has_left_out = has_left_out, left_out = left_out, draw_folds = \(folds) check_folds(folds, about),
    judge = judge_all, alike = "points, with the same weights,"
  ))
  made$by_fold <- \(folds, score, run) judge_folds(made, folds_of, folds, score, run)
  made
}

# Minus the squared error, summed over the responses.
minus_square <- function(y, found) -rowSums((unname(y) - unname(as.matrix(found)))^2)

# list(scores, by_fold, mean, se, n). `folds_of` has functions: `without` fits to some rows, `at` computes the scores of
# that fit at other rows, and `sds` returns its bandwidths.
judge_folds <- function(made, folds_of, folds, score, run) {
  parts <- sort(unique(folds))
  scores <- numeric(made$n)
  sds <- matrix(0, length(parts), length(made$names), dimnames = list(NULL, made$names))
  for (i in seq_along(parts)) {
    out <- folds == parts[i]
    share_stage(run, (i - 1) / length(parts), 1 / length(parts))
    fit <- folds_of$without(which(!out), run)
    scores[out] <- folds_of$at(fit, which(out), score, run)
    sds[i, ] <- folds_of$sds(fit)
  }
  used <- used_rows(made)
  of_fold <- \(part) weighted_mean(scores[used & folds == part], made$weights[used & folds == part])$mean
  by_fold <- data.frame(fold = parts, n = as.vector(table(folds)), score = vapply(parts, of_fold, 0, USE.NAMES = FALSE))
  by_fold$bandwidth <- sds
  average <- weighted_mean(scores[used], made$weights[used])
  c(average, list(scores = replace(scores, !used, NA), by_fold = by_fold, n = sum(used)))
}

# ---- fits to a part of the rows -----------------------------------------------------------------

# A bandwidth that was selected is selected again, and so are a score bandwidth that was derived from it and the smoothing of
# categories.
refit_conditional <- function(object, rows, run) {
  joint <- unclass(object$joint)
  options <- joint$settings
  if (is.null(options)) stop_argument("object", "must be a fit from flash_kde() of this version of flashkernel")
  if (joint$selector == "lcv") {
    if (identical(unname(options$score_bandwidth), sqrt(SCORE_RATIO) * unname(options$bandwidth))) {
      options["score_bandwidth"] <- list(NULL)
    }
    options["bandwidth"] <- list(NULL)
  }
  if (any(joint$discrete$chosen)) {
    given <- options$lambda[!joint$discrete$chosen]
    options["lambda"] <- list(if (length(given) > 0) given)
  }
  options <- options_of_rows(options, joint, rows)
  made <- list(
    points = places_of_rows(joint, rows), response = object$response, given = object$given, weights = joint$weights[rows]
  )
  settled <- settle_conditional(made, options, stats::na.fail, run)
  object$joint <- fit_kde(made$points, "object", object$call, settled$options, run)
  object
}
