# Methods of broom's generics: NAMESPACE registers them when package generics is loaded.

#' Fits as data frames for broom
#'
#' Methods for the functions of package broom. `tidy()` returns a row for each number that describes the fit, such as
#' a bandwidth. `glance()` returns one row about the whole fit. `augment()` returns the data with columns such as
#' densities or predictions. Tests are of class `htest`, for which broom has methods.
#'
#' @param x A fit from [flash_kde()], [flash_kda()], [mean_shift()], [kernel_ridge()] or [kernel_regression()], or a
#'   result of [compare_fits()], [cross_validate()] or [kde_bands()].
#' @param what For a density: `"bandwidth"` (default), or `"grid"`, which returns
#'   [`as.data.frame()`][as.data.frame.flash_kde] with `grid = n`.
#' @param n Number of grid points per axis. `NULL` (default): 512 for one variable, 101 for two, 31 for three.
#' @param conf.int,interval,conf.level For [kernel_ridge()]: whether `tidy()` adds intervals; the `interval` of
#'   [predict()][predict.kernel_ridge] that `augment()` adds; and their level.
#' @param data Rows of the fit to augment. `NULL` (default): its columns.
#' @param newdata Other rows to augment. They may have further columns, and need not have the response.
#' @param se.fit Whether to add standard errors.
#' @param loo Whether to compute leave-one-out values, which take one more pass over all pairs. `NULL` (default): if
#'   the fit has them at a moderate cost, as for [`summary()`][summary.flash_kde]. For [flash_kda()], whether they
#'   replace the other values.
#' @param prob Probabilities of highest-density regions. Adds the smallest of these regions that contains each row (like
#'   `ggdensity::get_hdr()`). `NULL` (default): none.
#' @param ... For `tidy()` of [kernel_ridge()], arguments of [marginal_effects()]. Otherwise not used; anything here
#'   is an error.
#' @returns Data frames (tibbles where package tibble is installed). `augment()` has `NA` for rows with missing values,
#'   or leaves them out, as `na.action` of the fit says.
#'
#'   **Densities**: `tidy()` has `term`, the variable, or `a:b` for two of them; `type`, `"sd"`, `"cor"` (of a full
#'   bandwidth matrix) or `"lambda"` (of a categorical column); `estimate`, the kernel's standard deviation in units
#'   of the variable, the correlation, or the smoothing parameter; and for an SD-KDE `score`, the same for the
#'   bandwidth of the score. For an adaptive fit they are at local bandwidth factor 1. `glance()` has `nobs`, `d`,
#'   `estimator`, `selector`, `adaptive` (the method of the factors, or `"none"`), `n.effective` (\eqn{(\sum w)^2 /
#'   \sum w^2}{(sum w)^2 / sum w^2}), and [leave-one-out][logLik.flash_kde] `logLik` and `AIC`, `NA` if there are
#'   none. `augment()` adds `.density`, `.log_density`, `.se.fit`, `.loo_log_density` (rows of the fit only), and
#'   `.hdr`, an ordered factor.
#'
#'   **Conditional densities**: `tidy()` also has `side` (`"response"` or `"given"`), and `glance()` the conditional
#'   likelihood and the numbers of columns, `responses` and `given`. `augment()` adds `.fitted`, the mean of the
#'   response (with its name if there are several), for rows with a response `.density` and `.log_density`, and for
#'   the rows of the fit `.resid` and `.loo_log_density`. A categorical response has, instead of `.fitted` and
#'   `.resid`, `.pred_class`, the most probable category, and the probabilities, `.pred_` with the name of each
#'   category.
#'
#'   **Discriminant analyses**: `tidy()` has `class`, `prior`, `n`, and `term`, `type` and `estimate` of its bandwidth;
#'   `glance()` `nobs`, `d`, `classes`, `shared`, and `error` and `log_score`, leave-one-out, `NA` where there are none;
#'   `augment()` adds `.pred_class` and the probabilities, `.pred_` and the name of each class.
#'
#'   **Clusters**: `tidy()` has the modes, with the number of each `cluster`, its `size` and `share`; `glance()` `nobs`
#'   and `clusters`; `augment()` adds `.cluster`, a factor.
#'
#'   **[kernel_ridge()]**: `tidy()` has the [marginal_effects()], as single coefficients have no interpretation.
#'   `glance()` has `nobs`, `n.centers`, `lambda`; for a numeric response `r.squared` and `rmse` (means over the
#'   responses), for classes `accuracy`, for other families than the gaussian `deviance` and `null.deviance`; then `iterations` and
#'   `converged`. `augment()` adds `.fitted` and `.resid`, or `.pred_class` and a column `.pred_` for the probability
#'   of each class, `.se.fit`, `.lower` and `.upper`. With several responses there is a column for each, with its name.
#'
#'   **[kernel_regression()]**: `tidy()` has `term`, `estimate`, the mean slope, `bandwidth`, `lambda` where there are
#'   categories, and `response` where there are several. `glance()` has `nobs`, `r.squared`, `sigma`, `df`, `criterion` and
#'   `value`. `augment()` adds `.fitted`, `.resid`, `.hat` and `.se.fit`.
#'
#'   **Comparisons, validations and bands**: `tidy()` has a row for each fit, fold, pair of classes or point; `glance()`
#'   the rest.
#' @rawRd \concept{tidymodels}\concept{tidy data frame of a fit}
#' @name flashkernel-broom
#' @examplesIf requireNamespace("broom", quietly = TRUE)
#' fit <- flash_kde(faithful, "kde")
#' broom::tidy(fit)
#' broom::glance(fit)
#' broom::augment(fit, prob = c(0.5, 0.95))
#' broom::tidy(flash_kde(faithful$waiting), what = "grid")
#'
#' broom::augment(flash_kde(waiting ~ eruptions, faithful, bandwidth = c(4, 0.3)))
#' broom::tidy(kernel_regression(mpg ~ wt + hp, data = mtcars, bandwidth = c(0.8, 60)))
#' broom::glance(kernel_ridge(mpg ~ wt + hp, data = mtcars))
NULL

# Makes the value of a method, after a check that it was given no other arguments. `table`: a data frame, or a list
# of the columns of one row; NULL elements are dropped.
broom_table <- function(table, ...) {
  known <- names(formals(sys.function(sys.parent())))
  check_dots_empty(..., .known = known)
  as_tibble(if (is.data.frame(table)) table else as.data.frame(Filter(length, table)))
}

# ---- tidy() -----------------------------------------------------------------------------------

#' @rdname flashkernel-broom
#' @exportS3Method generics::tidy
tidy.flash_kde <- function(x, what = c("bandwidth", "grid"), n = NULL, ...) {
  what <- check_choice(what, c("bandwidth", "grid"), "what")
  if (what == "grid") return(broom_table(frame_on_grid(x, check_grid_frame(n, x$d, "n")), ...))
  if (!is.null(n)) stop_argument("n", "must be NULL unless what = \"grid\": found ", describe(n))
  broom_table(bandwidth_terms(x), ...)
}

bandwidth_terms <- function(object) {
  names <- point_names(object)
  full <- has_correlation(object$bandwidth) || has_correlation(object$score_bandwidth)
  pairs <- if (full) utils::combn(object$d, 2) else matrix(0L, 2, 0)
  numbers <- \(H) c(bandwidth_sds(H), if (full) stats::cov2cor(H)[t(pairs)])
  terms <- data.frame(
    term = c(names, paste(names[pairs[1, ]], names[pairs[2, ]], sep = ":")[seq_len(ncol(pairs))]),
    type = rep(c("sd", "cor"), c(object$d, ncol(pairs))), estimate = unname(numbers(object$bandwidth))
  )
  if (!is.null(object$score_bandwidth)) terms$score <- unname(numbers(object$score_bandwidth))
  lambda <- object$discrete$lambda
  if (is.null(lambda)) return(terms)
  of_levels <- data.frame(term = names(lambda), type = "lambda", estimate = unname(lambda))
  if (!is.null(terms$score)) of_levels$score <- NA_real_
  rbind(terms, of_levels)
}

#' @rdname flashkernel-broom
#' @exportS3Method generics::tidy
tidy.flash_conditional <- function(x, ...) {
  terms <- bandwidth_terms(x$joint)
  side <- ifelse(terms$term %in% x$response, "response", "given")
  side[terms$type == "cor"] <- NA # of two variables
  broom_table(cbind(terms["term"], side = side, terms[-1]), ...)
}

#' @rdname flashkernel-broom
#' @exportS3Method generics::tidy
tidy.flash_kda <- function(x, ...) {
  of_classes <- lapply(seq_along(x$classes), \(k) {
    terms <- bandwidth_terms(x$fits[[k]])
    cbind(class = factor(x$classes[k], x$classes), prior = unname(x$prior[k]), n = length(x$rows[[k]]), terms)
  })
  broom_table(do.call(rbind, of_classes), ...)
}

#' @rdname flashkernel-broom
#' @exportS3Method generics::tidy
tidy.flash_clusters <- function(x, ...) {
  d <- x$fit$d
  about <- stats::setNames(x$modes[d + 1:3], c("density", "size", "share"))
  table <- cbind(x$modes[seq_len(d)], about, cluster = factor(seq_len(nrow(x$modes))))
  broom_table(stats::setNames(table, make.unique(names(table))), ...)
}

#' @rdname flashkernel-broom
#' @exportS3Method generics::tidy
tidy.kernel_ridge <- function(x, conf.int = FALSE, conf.level = 0.95, ...) {
  effects <- marginal_effects(x, level = conf.level, ...)
  if (!check_flag(conf.int, "conf.int")) effects <- effects[setdiff(names(effects), c("conf.low", "conf.high"))]
  as_tibble(data.frame(unclass(effects)[names(effects)]))
}

#' @rdname flashkernel-broom
#' @exportS3Method generics::tidy
tidy.kernel_regression <- function(x, ...) {
  t <- ncol(x$y)
  lambda <- x$discrete$lambda
  # for each response the slopes of the numeric variables; categorical ones have none
  slopes <- matrix(if (x$d > 0) summary(x)$slopes[, "Mean"] else 0, x$d, t)
  slopes <- rbind(unname(slopes), matrix(NA_real_, length(lambda), t))
  terms <- c(point_names(x), names(lambda))
  frame <- data.frame(
    response = rep(output_labels(x), each = length(terms)), term = rep(terms, t), estimate = as.vector(slopes),
    bandwidth = rep(c(sqrt(diagonal(x$bandwidth)), rep(NA_real_, length(lambda))), t)
  )
  if (length(lambda) > 0) frame$lambda <- rep(c(rep(NA_real_, x$d), unname(lambda)), t)
  broom_table(if (t > 1) frame else frame[-1], ...)
}

#' @rdname flashkernel-broom
#' @exportS3Method generics::tidy
tidy.flash_kde_comparison <- function(x, ...) {
  table <- cbind(fit = row.names(x$table), x$table)
  names(table)[match(c("se", "se_difference"), names(table))] <- c("std.error", "difference.std.error")
  row.names(table) <- NULL
  broom_table(table, ...)
}

#' @rdname flashkernel-broom
#' @exportS3Method generics::tidy
tidy.flash_kde_validation <- function(x, ...) broom_table(do.call(data.frame, x$by_fold), ...)

#' @rdname flashkernel-broom
#' @exportS3Method generics::tidy
tidy.flash_kda_validation <- function(x, ...) broom_table(as.data.frame(x$confusion, responseName = "n"), ...)

#' @rdname flashkernel-broom
#' @exportS3Method generics::tidy
tidy.kde_bands <- function(x, ...) {
  d <- ncol(x) - 4
  table <- as.data.frame(unclass(x)[c(seq_len(d + 1), d + c(4, 2, 3))], optional = TRUE)
  names(table)[d + 1:4] <- c("estimate", "std.error", "conf.low", "conf.high")
  broom_table(stats::setNames(table, make.unique(names(table))), ...)
}

# ---- glance() ---------------------------------------------------------------------------------

#' @rdname flashkernel-broom
#' @exportS3Method generics::glance
glance.flash_kde <- function(x, loo = NULL, ...) {
  broom_table(c(list(nobs = stats::nobs(x), d = x$d), about_density(x, x$selector, wants_loo(x, loo), x)), ...)
}

#' @rdname flashkernel-broom
#' @exportS3Method generics::glance
glance.flash_conditional <- function(x, loo = NULL, ...) {
  columns <- list(nobs = stats::nobs(x$joint), responses = length(x$response), given = length(x$given))
  broom_table(c(columns, about_density(x$joint, x$selector, wants_conditional_loo(x, loo), x)), ...)
}

# `of`: the fit whose log-likelihood is reported if `loo`.
about_density <- function(fit, selector, loo, of) {
  log_lik <- if (loo) as.numeric(stats::logLik(of)) else NA_real_
  list(
    estimator = fit$estimator, selector = selector,
    adaptive = if (is.null(fit$adaptive)) "none" else fit$adaptive$method,
    n.effective = effective_size(fit$weights, fit$n), logLik = log_lik, AIC = -2 * log_lik
  )
}

wants_loo <- function(object, loo) {
  if (is.null(loo)) can_leave_out(object) && !is_slow_to_leave_out(object) else check_flag(loo, "loo")
}

wants_conditional_loo <- function(object, loo) {
  if (!is.null(loo)) return(check_flag(loo, "loo"))
  can_leave_out(object$joint) && !is_debiased(object$joint)
}

#' @rdname flashkernel-broom
#' @exportS3Method generics::glance
glance.flash_kda <- function(x, ...) {
  can <- all(vapply(x$fits, \(fit) can_leave_out(unclass(fit)), NA))
  found <- if (can) cross_validate(x) else list(error = NA_real_, log_score = NA_real_)
  broom_table(list(
    nobs = stats::nobs(x), d = x$d, classes = length(x$classes), shared = x$shared, error = found$error,
    log_score = found$log_score
  ), ...)
}

#' @rdname flashkernel-broom
#' @exportS3Method generics::glance
glance.flash_clusters <- function(x, ...) {
  broom_table(list(nobs = x$fit$n, clusters = nrow(x$modes), largest = x$modes[1, x$fit$d + 3]), ...)
}

#' @rdname flashkernel-broom
#' @exportS3Method generics::glance
glance.kernel_ridge <- function(x, ...) {
  error <- fit_error(x)
  if (is.matrix(error)) error <- colMeans(error)
  part <- \(name) if (name %in% names(error)) error[[name]]
  wrong <- part("misclassified")
  broom_table(list(
    nobs = stats::nobs(x), n.centers = nrow(x$coefficients), lambda = x$lambda[[1]],
    lambda.quantiles = if (!is.null(penalty_labels(x))) x$lambda[[2]], r.squared = part("r.squared"), rmse = part("rmse"),
    accuracy = if (!is.null(wrong)) 1 - wrong, deviance = part("deviance"),
    null.deviance = if (!is.null(part("deviance"))) null_deviance(x), iterations = x$iterations, converged = x$converged
  ), ...)
}

#' @rdname flashkernel-broom
#' @exportS3Method generics::glance
glance.kernel_regression <- function(x, ...) {
  search <- if (is.null(x$search)) list(criterion = "user", value = NA_real_) else x$search
  broom_table(list(
    nobs = n_used(x), r.squared = mean(x$r.squared), sigma = mean(x$sigma), df = x$df, criterion = search$criterion,
    value = search$value
  ), ...)
}

#' @rdname flashkernel-broom
#' @exportS3Method generics::glance
glance.flash_kde_comparison <- function(x, ...) {
  broom_table(list(
    nobs = x$n, fits = nrow(x$table), score = x$score, best = row.names(x$table)[1], folds = count_folds(x$folds, x$n)
  ), ...)
}

# The number of folds; leave-one-out has one for each point.
count_folds <- function(folds, n) if (is.null(folds)) n else length(unique(folds))

#' @rdname flashkernel-broom
#' @exportS3Method generics::glance
glance.flash_kde_validation <- function(x, ...) {
  broom_table(
    list(nobs = x$n, score = x$score, mean = x$mean, std.error = x$se, folds = count_folds(x$folds, x$n)), ...
  )
}

#' @rdname flashkernel-broom
#' @exportS3Method generics::glance
glance.flash_kda_validation <- function(x, ...) {
  n <- sum(x$confusion)
  broom_table(list(nobs = n, error = x$error, log_score = x$log_score, folds = count_folds(x$folds, n)), ...)
}

#' @rdname flashkernel-broom
#' @exportS3Method generics::glance
glance.kde_bands <- function(x, ...) {
  band <- attr(x, "band")
  broom_table(c(
    list(nobs = band$n), band[c("estimator", "level", "type", "method", "corrected")],
    list(critical = if (length(band$critical) == 1) band$critical else NA_real_)
  ), ...)
}
