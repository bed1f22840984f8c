#' Classes and probabilities from kernel discriminant analysis
#'
#' `predict()` classifies points, or returns the probabilities of the classes. `summary()` shows the density of each
#' class and, if this needs no new fits, the leave-one-out error of [cross_validate()].
#'
#' @param object,x A fit from [flash_kda()], or its summary.
#' @param newdata Points to classify, with the columns of the fit, or a data frame with its variables. Missing
#'   (default): the rows of the fit, each of which is part of its own density. Use [cross_validate()] for leave-one-out
#'   results.
#' @param type `"class"` (default): the class with the largest probability. `"prob"`: a matrix of probabilities.
#'   `"log_density"`: the log densities of the classes. `"decision"`: log densities plus logarithms of the priors, whose
#'   differences are log odds.
#' @param prior Prior probabilities that replace those of the fit.
#' @param na.action What to do about missing values in `newdata`, as for [predict.flash_kde()].
#' @param control A [flash_control()] for this prediction. `NULL` (default), and settings that it leaves out: as in the
#'   fit.
#' @param digits Number of significant digits, from 1 to 22.
#' @param ... Not used; any argument here is an error.
#' @returns A factor with the levels of the fit, or a matrix with a column for each class. `summary()`: a list of class
#'   `summary.flash_kda` with `classes`, a data frame, and `validation`.
#'
#'   A row outside of the `support` has density 0 in every class: its class and its probabilities are `NA`, and a
#'   warning of class `flashkernel_warning_no_density` reports how many such rows there are. Rows far from all points,
#'   where densities underflow, are classified by the logarithms of the densities.
#' @rawRd \concept{class probabilities}
#' @export
#' @examples
#' fit <- flash_kda(iris[, 1:2], iris$Species, estimator = "kde", bandwidth = 0.3)
#' table(predict(fit), iris$Species)
#' predict(fit, matrix(c(5, 3.5), 1), type = "prob")
predict.flash_kda <- function(object, newdata, type = c("class", "prob", "log_density", "decision"), prior = NULL,
                              na.action = stats::na.pass, control = NULL, ...) {
  check_dots_empty(...)
  type <- check_choice(type, c("class", "prob", "log_density", "decision"), "type")
  prior <- check_prior(prior, object$classes, object$prior)
  run <- start_run(settle_control(control, NULL, fit_asked(unclass(object$fits[[1]]))), "Predicting")
  at <- regression_targets(object, if (!missing(newdata)) newdata, na.action)
  points <- if (is.null(at$points)) kda_points(object) else at$points
  logs <- class_logs(object, points, run)
  if (type %in% c("class", "prob")) warn_no_density(logs, has_support = !is.null(unclass(object$fits[[1]])$support))
  as_kda_type(at$restore(logs), prior, type)
}

# Warns about rows that have no class because all densities are 0.
warn_no_density <- function(logs, has_support) {
  none <- sum(rowSums(logs > -Inf) == 0, na.rm = TRUE)
  if (none == 0) return(invisible())
  why <- if (has_support) "such as rows outside of the `support`" else "as the distance to all points overflows"
  warn_user(
    "no_density", whole(none), " of ", whole(nrow(logs)), " rows have density 0 in every class, ", why,
    ": their class and probabilities are NA"
  )
}

# Returns the rows of the fit, in their original order.
kda_points <- function(object) {
  x <- matrix(0, object$n, object$d)
  for (k in seq_along(object$fits)) x[object$rows[[k]], ] <- object$fits[[k]]$x
  x
}

kda_codes <- function(object) {
  codes <- integer(object$n)
  for (k in seq_along(object$rows)) codes[object$rows[[k]]] <- k
  codes
}

# Returns the log densities of the classes at checked points, a column for each class.
class_logs <- function(object, at, run) {
  logs <- matrix(0, nrow(at), length(object$classes), dimnames = list(NULL, object$classes))
  for (k in seq_along(object$fits)) {
    share_stage(run, (k - 1) / ncol(logs), 1 / ncol(logs))
    logs[, k] <- positive_log(log_estimate(unclass(object$fits[[k]]), at, FALSE, run))
  }
  by_plain(logs, \(rows) vapply(object$fits, \(fit) {
    log_estimate(with_gaussian(fit), at[rows, , drop = FALSE], FALSE, run, PLAIN_FACTOR)$log_abs
  }, numeric(length(rows))))
}

# Returns the log densities at the rows of the fit, each leave-one-out for its own class.
left_out_logs <- function(object, run) {
  at <- kda_points(object)
  logs <- matrix(0, object$n, length(object$classes), dimnames = list(NULL, object$classes))
  at_class <- function(k, factor) {
    fit <- if (is.null(factor)) unclass(object$fits[[k]]) else with_gaussian(object$fits[[k]])
    own <- object$rows[[k]]
    log <- \(points, loo) positive_log(do.call(log_estimate, c(list(fit, points, loo, run), factor)))
    values <- numeric(object$n)
    values[own] <- log(NULL, TRUE)
    if (length(own) < object$n) values[-own] <- log(at[-own, , drop = FALSE], FALSE)
    values
  }
  for (k in seq_along(object$fits)) {
    check_loo(unclass(object$fits[[k]]), "folds")
    logs[, k] <- at_class(k, NULL)
  }
  by_plain(logs, \(rows) vapply(seq_along(object$fits), at_class, numeric(object$n), list(PLAIN_FACTOR))[rows, ])
}

positive_log <- function(estimate) {
  log <- estimate$log_abs
  if (!is.null(estimate$negative)) log[which(estimate$negative)] <- -Inf
  log
}

# Returns the fit with the Gaussian kernel, which is positive everywhere.
with_gaussian <- function(fit) replace(unclass(fit), "kernel", "gaussian")

# Replaces rows in which no class has a positive density by `plain(rows)`.
by_plain <- function(logs, plain) {
  rows <- which(rowSums(logs > -Inf) == 0)
  if (length(rows) > 0) logs[rows, ] <- plain(rows)
  logs
}

as_kda_type <- function(logs, prior, type) {
  if (type == "log_density") return(logs)
  decision <- logs + rep(log(prior), each = nrow(logs))
  if (type == "decision") return(decision)
  if (type == "class") return(factor(colnames(logs)[likeliest(decision)], levels = colnames(logs)))
  top <- decision[cbind(seq_len(nrow(decision)), likeliest(decision))]
  p <- exp(decision - top)
  p / rowSums(p)
}

# Returns the number of the class with the largest decision value, the first one if several are equal. It is NA for rows
# with NA, and if all densities are 0.
likeliest <- function(decision) {
  best <- rep(NA_integer_, nrow(decision))
  known <- !is.na(rowSums(decision)) & rowSums(decision > -Inf) > 0
  if (any(known)) best[known] <- max.col(decision[known, , drop = FALSE], "first")
  best
}
