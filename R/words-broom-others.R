# Methods of broom's generics for what is made of density estimates; those for the estimates are in words-broom.R.

#' Conditional densities, classes, clusters and comparisons as data frames for broom
#'
#' Methods for the functions of package broom. `tidy()`: the rows that matter. `glance()`: one row about the whole.
#' `augment()`: the data with what is said of each row. Tests are of class `htest`, which broom has methods for.
#'
#' @param x A fit with a two-sided formula ([flash_conditional]), by [flash_kda()] or [mean_shift()], or what
#'   [compare()], [cross_validate()] or [density_bands()] return.
#' @param data,newdata Rows to augment. `data`, those of the fit: by default its columns. With `newdata` other rows,
#'   which may have further columns.
#' @param loo Whether to have leave-one-out values: of a conditional density beside the others (`NULL`: where the fit
#'   has them), of a discriminant analysis in their place.
#' @param ... Not used; anything here is an error.
#' @returns Data frames (tibbles where package tibble is installed).
#'
#'   **Conditional densities**: `tidy()` has `term`, `side` (`"response"` or `"given"`), `type` and `estimate`, as for
#'   [density estimates][flash_kde-broom]; `glance()` what it has there, of the conditional likelihood, and how many
#'   columns are `responses` and `given`; `augment()` adds `.fitted`, the mean of the response (with its name where
#'   there are several), for rows with a response `.density` and `.log_density`, and for the rows of the fit `.resid`
#'   and `.loo_log_density`. Where the response is a factor, a text or a logical value, `augment()` adds `.pred_class`,
#'   the likeliest level, a factor, and the probabilities, `.pred_` and the name of each level, in place of `.fitted`
#'   and `.resid`.
#'
#'   **Discriminant analyses**: `tidy()` has `class`, `prior`, `n`, `term`, `type` and `estimate` of its bandwidth;
#'   `glance()` `nobs`, `d`, `classes`, `shared`, and `error` and `log_score`, each row left out, `NA` where none can
#'   be; `augment()` adds `.pred_class` and the probabilities, `.pred_` and the name of each class.
#'
#'   **Clusters**: `tidy()` has the modes, with the number of each `cluster`, its `size` and `share`; `glance()` `nobs`
#'   and `clusters`; `augment()` adds `.cluster`, a factor.
#'
#'   **Comparisons, validations and bands**: `tidy()` has a row for each fit, fold, pair of classes or point;
#'   `glance()` the rest.
#' @inheritSection flash_kde Errors
#' @name broom-others
#' @examplesIf requireNamespace("broom", quietly = TRUE)
#' fit <- flash_kde(waiting ~ eruptions, faithful, bandwidth = c(4, 0.3))
#' broom::tidy(fit)
#' broom::augment(fit)
#'
#' broom::glance(flash_kda(iris[, 1:2], iris$Species, bandwidth = 0.3))
#' broom::tidy(mean_shift(flash_kde(faithful, bandwidth = c(0.3, 4))))
#' broom::tidy(density_bands(flash_kde(faithful$waiting, bandwidth = 4), 70:72))
NULL

# ---- conditional densities --------------------------------------------------------------------

#' @rdname broom-others
#' @exportS3Method generics::tidy
tidy.flash_conditional <- function(x, ...) {
  check_dots_empty(...)
  terms <- bandwidth_terms(x$joint)
  side <- ifelse(terms$term %in% x$response, "response", "given")
  side[terms$type == "cor"] <- NA # of two variables
  as_tibble(cbind(terms["term"], side = side, terms[-1]))
}

#' @rdname broom-others
#' @exportS3Method generics::glance
glance.flash_conditional <- function(x, loo = NULL, ...) {
  check_dots_empty(...)
  log_lik <- if (wants_conditional_loo(x, loo)) as.numeric(stats::logLik(x)) else NA_real_
  about <- glance.flash_kde(x$joint, loo = FALSE)
  about$selector <- x$selector
  about[c("logLik", "AIC")] <- list(log_lik, -2 * log_lik)
  about$d <- NULL
  as_tibble(cbind(about["nobs"], responses = length(x$response), given = length(x$given), about[-1]))
}

#' @rdname broom-others
#' @exportS3Method generics::augment
augment.flash_conditional <- function(x, data = NULL, newdata = NULL, loo = NULL, ...) {
  check_dots_empty(...)
  if (!is.null(newdata)) {
    frame <- as_frame_of(newdata)
    added <- prediction_columns(x, frame)
    if (all(x$variables$y %in% names(frame))) added <- c(added, conditional_columns(x, frame))
  } else {
    rows <- rows_to_augment(x$joint, data)
    frame <- rows$frame
    # all is at the points that are left, and goes to the rows from there
    x["na.action"] <- list(NULL)
    added <- c(
      prediction_columns(x, NULL),
      if (length(response_levels(x)) == 0) response_named(x, ".resid", stats::residuals(x)),
      conditional_columns(x, NULL),
      if (wants_conditional_loo(x, loo)) list(.loo_log_density = stats::predict(x, type = "log_density", loo = TRUE))
    )
    added <- lapply(added, rows$restore)
  }
  frame[names(added)] <- lapply(added, unname)
  as_tibble(frame)
}

# The mean of a response of numbers; the likeliest level of one of levels, with the probabilities.
prediction_columns <- function(object, at) {
  column <- response_levels(object)
  if (length(column) == 0) return(response_named(object, ".fitted", stats::predict(object, at, type = "mean")))
  p <- stats::predict(object, at, type = "probability")
  of <- object$joint$discrete$columns[[column]]
  class <- factor(of$levels[likeliest(p)], of$levels, ordered = of$kind == "ordered")
  c(list(.pred_class = class), level_columns(p))
}

# A column for each level or class.
level_columns <- function(p) {
  stats::setNames(lapply(seq_len(ncol(p)), \(k) unname(p[, k])), paste0(".pred_", colnames(p)))
}

response_named <- function(object, name, values) {
  if (is.matrix(values)) colnames(values) <- object$response
  named_columns(object, name, values)
}

conditional_columns <- function(object, at) {
  log_p <- stats::predict(object, at, type = "log_density")
  list(.density = exp(log_p), .log_density = log_p)
}

wants_conditional_loo <- function(object, loo) {
  if (!is.null(loo)) return(check_flag(loo, "loo"))
  can_leave_out(object$joint) && !is_debiased(object$joint)
}

# ---- discriminant analysis --------------------------------------------------------------------

#' @rdname broom-others
#' @exportS3Method generics::tidy
tidy.flash_kda <- function(x, ...) {
  check_dots_empty(...)
  of_classes <- lapply(seq_along(x$classes), \(k) {
    terms <- bandwidth_terms(x$fits[[k]])
    cbind(class = factor(x$classes[k], x$classes), prior = unname(x$prior[k]), n = length(x$rows[[k]]), terms)
  })
  as_tibble(do.call(rbind, of_classes))
}

#' @rdname broom-others
#' @exportS3Method generics::glance
glance.flash_kda <- function(x, ...) {
  check_dots_empty(...)
  can <- all(vapply(x$fits, \(fit) can_leave_out(unclass(fit)), NA))
  found <- if (can) cross_validate(x) else list(error = NA_real_, log_score = NA_real_)
  as_tibble(data.frame(
    nobs = stats::nobs(x), d = x$d, classes = length(x$classes), shared = x$shared, error = found$error,
    log_score = found$log_score
  ))
}

#' @rdname broom-others
#' @exportS3Method generics::augment
augment.flash_kda <- function(x, data = NULL, newdata = NULL, loo = FALSE, ...) {
  check_dots_empty(...)
  loo <- check_flag(loo, "loo")
  if (!is.null(newdata)) {
    if (loo) stop_argument("loo", "must be FALSE with `newdata`: only training points can be left out")
    frame <- as_frame_of(newdata)
    p <- stats::predict(x, frame, type = "prob")
  } else {
    rows <- if (is.null(data)) list(frame = kda_frame(x), restore = identity) else rows_to_augment(x, data)
    frame <- rows$frame
    x["na.action"] <- list(NULL)
    p <- rows$restore(if (loo) cross_validate(x)$prob else stats::predict(x, type = "prob"))
  }
  frame$.pred_class <- factor(x$classes[likeliest(p)], x$classes)
  frame[paste0(".pred_", x$classes)] <- level_columns(p)
  as_tibble(frame)
}

# The class and the columns of each row of the fit.
kda_frame <- function(object) {
  frame <- as.data.frame(kda_points(object))
  names(frame) <- point_names(object)
  class <- factor(object$classes[kda_codes(object)], object$classes)
  response <- if (is.null(object$terms)) "class" else deparse(object$terms[[2]])[1]
  frame <- cbind(class, frame)
  stats::setNames(frame, make.unique(c(response, names(frame)[-1])))
}

# ---- clusters ---------------------------------------------------------------------------------

#' @rdname broom-others
#' @exportS3Method generics::tidy
tidy.flash_clusters <- function(x, ...) {
  check_dots_empty(...)
  d <- x$fit$d
  places <- x$modes[seq_len(d)]
  about <- stats::setNames(x$modes[d + 1:3], c("density", "size", "share"))
  table <- cbind(places, about, cluster = factor(seq_len(nrow(places))))
  as_tibble(stats::setNames(table, make.unique(names(table))))
}

#' @rdname broom-others
#' @exportS3Method generics::glance
glance.flash_clusters <- function(x, ...) {
  check_dots_empty(...)
  as_tibble(data.frame(nobs = x$fit$n, clusters = nrow(x$modes), largest = x$modes[1, x$fit$d + 3]))
}

#' @rdname broom-others
#' @exportS3Method generics::augment
augment.flash_clusters <- function(x, data = NULL, newdata = NULL, ...) {
  check_dots_empty(...)
  as_cluster <- \(number) factor(number, seq_len(nrow(x$modes)))
  if (!is.null(newdata)) {
    frame <- as_frame_of(newdata)
    names <- x$fit$names
    by_name <- is.null(x$fit$terms) && has_names(names) && all(names %in% names(frame))
    frame$.cluster <- as_cluster(stats::predict(x, if (by_name) frame[names] else frame))
    return(as_tibble(frame))
  }
  rows <- rows_to_augment(x$fit, data)
  # those of rows other than the fit's are in the place of its own
  own <- if (is.null(x$newdata)) x$cluster else stats::predict(x, x$fit$x)
  if (length(own) > x$fit$n) own <- own[-x$fit$na.action]
  rows$frame$.cluster <- as_cluster(rows$restore(own))
  as_tibble(rows$frame)
}

# ---- comparisons, validations, bands ----------------------------------------------------------

#' @rdname broom-others
#' @exportS3Method generics::tidy
tidy.flash_kde_comparison <- function(x, ...) {
  check_dots_empty(...)
  table <- cbind(fit = row.names(x$table), x$table)
  names(table)[match(c("se", "se_difference"), names(table))] <- c("std.error", "difference.std.error")
  row.names(table) <- NULL
  as_tibble(table)
}

#' @rdname broom-others
#' @exportS3Method generics::glance
glance.flash_kde_comparison <- function(x, ...) {
  check_dots_empty(...)
  as_tibble(data.frame(
    nobs = x$n, fits = nrow(x$table), score = x$score, best = row.names(x$table)[1], folds = count_folds(x$folds, x$n)
  ))
}

# As many as points, where each is left out.
count_folds <- function(folds, n) if (is.null(folds)) n else length(unique(folds))

#' @rdname broom-others
#' @exportS3Method generics::tidy
tidy.flash_kde_validation <- function(x, ...) {
  check_dots_empty(...)
  as_tibble(do.call(data.frame, x$by_fold))
}

#' @rdname broom-others
#' @exportS3Method generics::glance
glance.flash_kde_validation <- function(x, ...) {
  check_dots_empty(...)
  as_tibble(data.frame(nobs = x$n, score = x$score, mean = x$mean, std.error = x$se, folds = count_folds(x$folds, x$n)))
}

#' @rdname broom-others
#' @exportS3Method generics::tidy
tidy.flash_kda_validation <- function(x, ...) {
  check_dots_empty(...)
  as_tibble(as.data.frame(x$confusion, responseName = "n"))
}

#' @rdname broom-others
#' @exportS3Method generics::glance
glance.flash_kda_validation <- function(x, ...) {
  check_dots_empty(...)
  n <- sum(x$confusion)
  as_tibble(data.frame(nobs = n, error = x$error, log_score = x$log_score, folds = count_folds(x$folds, n)))
}

#' @rdname broom-others
#' @exportS3Method generics::tidy
tidy.density_bands <- function(x, ...) {
  check_dots_empty(...)
  d <- ncol(x) - 4
  table <- as.data.frame(unclass(x)[c(seq_len(d + 1), d + c(4, 2, 3))], optional = TRUE)
  names(table)[d + 1:4] <- c("estimate", "std.error", "conf.low", "conf.high")
  as_tibble(stats::setNames(table, make.unique(names(table))))
}

#' @rdname broom-others
#' @exportS3Method generics::glance
glance.density_bands <- function(x, ...) {
  check_dots_empty(...)
  band <- attr(x, "band")
  critical <- if (length(band$critical) == 1) band$critical else NA_real_
  as_tibble(data.frame(
    nobs = band$n, estimator = band$estimator, level = band$level, type = band$type, method = band$method,
    corrected = band$corrected, critical = critical
  ))
}
