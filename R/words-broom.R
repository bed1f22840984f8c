# Methods of broom's generics for density estimates, registered when package generics is loaded.

#' Density estimates as data frames for broom
#'
#' Methods for the functions of package broom. `tidy()`: the bandwidth, a row for each of its numbers, or the
#' estimate on a grid, as broom has it of [stats::density()]. `glance()`: one row about the fit. `augment()`: the
#' data with what the estimate says of each row.
#'
#' @param x A fit from [flash_kde()].
#' @param what `"bandwidth"`, or `"grid"`: [`as.data.frame()`][as.data.frame.flash_kde] with `grid = n`.
#' @param n Nodes of the grid per axis; `NULL`: 512 for one variable, 101 for two, 31 for three.
#' @param loo Whether to have leave-one-out values: one more pass over all pairs. `NULL`: where the fit has them,
#'   as for [`summary()`][summary.flash_kde].
#' @param data,newdata Rows to augment. `data`, those of the fit: by default its columns. With `newdata` other
#'   rows, which may have further columns.
#' @param se_fit Whether to have standard errors of the density.
#' @param prob Probabilities, to have the smallest of these highest-density regions in which each row lies (as
#'   `ggdensity::get_hdr()` has it). `NULL`: none.
#' @param ... Not used; anything here is an error.
#' @returns Data frames (tibbles where package tibble is installed).
#'
#'   `tidy()`: `term`, the variable, or `a:b` for two of them; `type`, `"sd"` or, of a full bandwidth matrix,
#'   `"cor"`; `estimate`, the kernel's standard deviation, in units of the variable, or the correlation; for an
#'   SD-KDE `score`, the same of the bandwidth of the score. Of an adaptive fit these are for factor 1.
#'   Columns of levels have the type `"lambda"`.
#'
#'   `glance()`: `nobs`, `d`, `estimator`, `selector`, `adaptive` (the method of the factors, else `"none"`),
#'   `n.effective` (\eqn{(\sum w)^2 / \sum w^2}{(sum w)^2 / sum w^2}), and `logLik` and `AIC`, of
#'   [leave-one-out values][logLik.flash_kde], `NA` where there are none.
#'
#'   `augment()`: the rows with `.density`, `.log_density`, `.se.fit` where asked for, `.loo_log_density` for the
#'   rows of the fit, and `.hdr`, an ordered factor, where `prob` is given. Rows with missing values have `NA`, or
#'   are left out, as `na.action` of the fit says. Cost: \eqn{O(n^2 d)}.
#' @inheritSection flash_kde Errors
#' @name flash_kde-broom
#' @examplesIf requireNamespace("broom", quietly = TRUE)
#' fit <- flash_kde(faithful, "kde")
#' broom::tidy(fit)
#' broom::glance(fit)
#' broom::augment(fit, prob = c(0.5, 0.95))
#' broom::tidy(flash_kde(faithful$waiting), what = "grid")
NULL

#' @rdname flash_kde-broom
#' @exportS3Method generics::tidy
tidy.flash_kde <- function(x, what = c("bandwidth", "grid"), n = NULL, ...) {
  check_dots_empty(...)
  what <- check_choice(what, c("bandwidth", "grid"), "what")
  if (what == "grid") return(as_tibble(frame_on_grid(x, check_grid_frame(n, x$d, "n"))))
  if (!is.null(n)) stop_argument("n", "is for what = \"grid\": found ", describe(n))
  as_tibble(bandwidth_terms(x))
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

#' @rdname flash_kde-broom
#' @exportS3Method generics::glance
glance.flash_kde <- function(x, loo = NULL, ...) {
  check_dots_empty(...)
  log_lik <- if (wants_loo(x, loo)) as.numeric(stats::logLik(x)) else NA_real_
  as_tibble(data.frame(
    nobs = stats::nobs(x), d = x$d, estimator = x$estimator, selector = x$selector,
    adaptive = if (is.null(x$adaptive)) "none" else x$adaptive$method,
    n.effective = effective_size(x$weights, x$n), logLik = log_lik, AIC = -2 * log_lik
  ))
}

wants_loo <- function(object, loo) {
  if (is.null(loo)) can_leave_out(object) && !is_slow_to_leave_out(object) else check_flag(loo, "loo")
}

#' @rdname flash_kde-broom
#' @exportS3Method generics::augment
augment.flash_kde <- function(x, data = NULL, newdata = NULL, se_fit = FALSE, loo = NULL, prob = NULL, ...) {
  check_dots_empty(...)
  check_in_memory(x, "x")
  se_fit <- check_flag(se_fit, "se_fit")
  check_combination(x, newdata, "density", se_fit, !is.null(loo) && check_flag(loo, "loo"))
  levels <- if (!is.null(prob)) hdr_level(x, sort(unique(check_prob(prob, "prob", open = TRUE))))
  run <- start_run(fit_asked(x), "Predicting")
  if (is.null(newdata)) {
    rows <- rows_to_augment(x, data)
    added <- estimate_columns(x, NULL, se_fit, run, \(values, at_infinity) rows$restore(values))
    if (wants_loo(x, loo)) {
      added$.loo_log_density <- rows$restore(signed_log(log_estimate(x, NULL, TRUE, run)))
    }
  } else {
    rows <- list(frame = as_frame_of(newdata))
    kept <- newdata_rows(new_points(x, newdata), stats::na.pass)
    added <- estimate_columns(x, kept$points, se_fit, run, kept$restore)
  }
  if (!is.null(levels)) added$.hdr <- smallest_region(added$.density, levels)
  rows$frame[names(added)] <- added
  as_tibble(rows$frame)
}

# list(frame, restore): the rows of `data` that are those of the fit, and how its values become theirs.
rows_to_augment <- function(object, data) {
  if (is.null(data)) {
    return(list(frame = points_frame(object, own_places(object)), restore = identity))
  }
  data <- as_frame_of(data)
  omitted <- object$na.action
  if (nrow(data) == object$n) return(list(frame = data, restore = identity))
  if (nrow(data) != object$n + length(omitted)) {
    stop_argument(
      "data", "must have the rows of the fit, ", object$n + length(omitted), ": found ", nrow(data),
      " (give other rows as `newdata =`)"
    )
  }
  if (!inherits(omitted, "exclude")) return(list(frame = data[-omitted, , drop = FALSE], restore = identity))
  list(frame = data, restore = \(values) stats::napredict(omitted, values))
}

estimate_columns <- function(object, at, se_fit, run, restore) {
  if (!is.null(at) && nrow(at) == 0) {
    se_fit <- FALSE
    estimate <- list(log_abs = numeric())
  } else {
    estimate <- log_estimate(object, at, FALSE, run)
  }
  columns <- list(
    .density = restore(signed_density(estimate), 0), .log_density = restore(signed_log(estimate), -Inf)
  )
  if (se_fit) columns$.se.fit <- restore(exp(error_estimate(object, at, FALSE, run, estimate)), 0)
  columns
}

# The innermost region of those, or ">95%" outside of all. `levels`: named, from the innermost one out.
smallest_region <- function(density, levels) {
  outside <- paste0(">", names(levels)[length(levels)])
  names <- c(names(levels), outside)
  factor(names[1 + findInterval(-density, -levels, left.open = TRUE)], names, ordered = TRUE)
}
