check_combination <- function(object, newdata, type, se.fit, loo) {
  if (se.fit && type == "score") stop_argument("se.fit", "must be FALSE for type = \"score\": found TRUE")
  if (!loo) return(invisible())
  if (!is.null(newdata)) stop_argument("loo", "must be FALSE with `newdata`: only training points can be left out")
  if (!estimator_of(object)$loo_scores && (se.fit || type == "score")) {
    stop_argument("loo", "must be FALSE for scores and standard errors of estimator \"", object$estimator, "\"")
  }
  check_loo(object)
}

check_collect <- function(collect) {
  if (is.character(collect) && length(collect) == 1 && !is.na(collect)) return(collect)
  if (is.character(collect)) stop_argument("collect", "must be one folder: found ", describe(collect))
  check_flag(collect, "collect")
}

# The points of `newdata`, as those of the fit.
new_points <- function(object, newdata, arg = "newdata") UseMethod("new_points", object$kind)

#' @export
new_points.default <- function(object, newdata, arg = "newdata") {
  if (!is.null(object$terms)) newdata <- formula_newdata(object, newdata, arg)
  if (length(object$dates) > 0) newdata <- dates_as_numbers(newdata, object$dates, arg)
  # newdata_rows() looks for infinite values
  if (!is.null(object$names)) newdata <- own_columns(newdata, arg, object$names)
  check_points(newdata, arg, d = object$d, names = object$names, infinite = TRUE, none = TRUE)
}

# The finite rows of newdata, and how a result at them becomes one for all rows, given its value at infinity: rows
# that `na.action` let pass with missing values are NA, as are the rows that na.exclude() took out. With `control`,
# `sent` is the result of send_points().
newdata_rows <- function(points, na.action, arg = "newdata", control = NULL) {
  action <- if (is.function(na.action)) na.action else as_na_action(na.action)
  sent <- send_points(points, control)
  if (!isFALSE(sent)) return(list(points = points, restore = \(result, at_infinity) result, sent = sent))
  if (ncol(points) > 1) check_finite(points, arg, missing = TRUE)
  kept <- apply_na_action(action, as_frame(points), arg)
  points <- kept$x
  lost <- is.na(rowSums(points))
  # in one dimension only
  infinite <- if (ncol(points) == 1) is.infinite(points[, 1]) else logical(length(lost))
  inside <- !lost & !infinite
  restore <- function(result, at_infinity) {
    result <- pad_rows(result, inside, replace(rep(NA_real_, length(lost)), infinite, at_infinity))
    stats::napredict(attr(kept, "na.action"), result)
  }
  list(points = points[inside, , drop = FALSE], restore = restore)
}

# `result` at the rows `inside`, `other` at all others.
pad_rows <- function(result, inside, other) {
  if (!is.matrix(result)) return(replace(other, inside, result))
  padded <- matrix(other, length(other), ncol(result), dimnames = dimnames(result))
  padded[inside, ] <- result
  padded
}

# `at`: checked points or NULL (see log_estimate()); `restore`: applied to every result and its value at infinity.
predict_at <- function(object, at, type, se.fit, loo, control, restore = \(result, at_infinity) result) {
  in_memory <- is.double(object$x)
  m <- if (!is.null(at)) {
    nrow(at)
  } else if (!in_memory && is_joined(object$x)) {
    nrow(shard_of(object$x, object$x$own)$points)
  } else {
    object$n
  }
  # the result, its log and its error; on the safe side, a whitened copy of either side
  arg <- if (is.null(at)) "object" else "newdata"
  copies <- if (is.null(object$centred)) 1 else 2
  check_memory(8 * (m * (6 + copies * object$d) + if (in_memory) length(object$x) else numbers_held(object)), arg)
  if (type == "score") return(restore(score_estimate(object, at, loo, control), NaN))
  estimate <- log_estimate(object, at, loo, control)
  fit <- if (type != "density") signed_log(estimate) else if (is.null(estimate$negative)) exp(estimate$log_abs) else {
    signed_density(estimate)
  }
  at_infinity <- if (type == "density") 0 else -Inf
  if (!se.fit) return(restore(fit, at_infinity))
  log_se <- error_estimate(object, at, loo, control, estimate)
  se <- if (type == "density") exp(log_se) else exp(log_se - estimate$log_abs)
  se[is.nan(fit) | is.infinite(se)] <- NaN
  list(fit = restore(fit, at_infinity), se.fit = restore(se, if (type == "density") 0 else NaN))
}

signed_log <- function(estimate) {
  at <- which(as.logical(estimate$negative)) # none where that is NULL
  if (length(at) == 0) return(estimate$log_abs)
  warn_negative(
    "the Laplace-corrected estimate is negative at ", length(at), " of ",
    length(estimate$negative), " points: their log density is NaN"
  )
  replace(estimate$log_abs, at, NaN)
}
