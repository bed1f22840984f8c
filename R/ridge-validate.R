# Fits of kernel_ridge() and tune_ridge() in cross_validate() and compare_fits(): what judge_of() knows of them, and the
# same fits to some of their rows.

# A tuned fit is tuned anew without each fold.
#' @export
judge_of.kernel_ridge <- function(fit, arg = "object") {
  data <- kept_data(fit)
  if (is_column(data$y) || inherits(data$rows, "rows_chunks")) {
    stop(new_error("unsupported", paste0(
      "cross-validation is not available for fits to rows in chunks or on workers. Use `validation` of ",
      "kernel_ridge() to measure the error at held-out rows."
    ), user_call()))
  }
  is_tuned <- inherits(fit, "tune_ridge")
  folds_of <- list(
    without = \(rows, run) if (is_tuned) refit_tuned(fit, rows, run) else refit_ridge(fit, rows, run),
    at = \(made, rows, score, run) ridge_scores(fit, rows, link_at_rows(made, data, rows, run), score, run),
    sds = \(made) if (is.matrix(made$bandwidth)) bandwidth_sds(made$bandwidth) else rep_len(made$bandwidth, made$d)
  )
  about <- list(
    n = fit$n, weights = if (!is.null(data$weights)) fit_weights(fit), na.action = if (is.null(fit$held)) fit$na.action
  )
  codes <- if (!is.null(fit$classes)) class_codes(data$y)
  made <- new_judged(
    about, if (is_tuned) "kernel_ridge, tuned" else "kernel_ridge",
    list(if (is.null(codes)) unname(data$y) else fit$classes[codes]), column_names(fit), fit$control,
    ridge_score_names(fit), folds_of,
    has_left_out = \(score) {
      score == "squared" && fit$family$squared && !(fit$exact && fit$n > EXACT_FACTORISED && !is_markov(fit))
    },
    left_out = \(score, run) -rowSums(left_out_residuals(fit, run)^2)
  )
  if (!is.null(codes)) made$draw_folds <- \(folds) class_folds(folds, codes, about)
  made
}

ridge_score_names <- function(fit) {
  if (!is.null(fit$classes)) return(c(if (has_probabilities(fit)) "log", "class"))
  c(if (!fit$family$squared) "loss", if (fit$family$has_likelihood) "squared")
}

# One score for each row of `rows`, indices of rows of `fit`. `link`: predictions at them.
ridge_scores <- function(fit, rows, link, score, run) {
  y <- fit$data$y[rows, , drop = FALSE]
  switch(score,
    squared = minus_square(y, means_of_link(fit$family, link)),
    log = , loss = -row_loss("value", final_loss(fit$family), link, y, run),
    class = as.double(class_codes(link) == class_codes(y))
  )
}

link_at_rows <- function(fit, data, rows, run) {
  link <- link_at(fit, ridge_rows(rows_take(data$rows, rows)), run)
  if (is.null(data$offset)) link else link + data$offset[rows, , drop = FALSE]
}

# list(rows, response, weights, offset) of some rows of a fit. Weights of classes are among those of the rows.
some_of_fit <- function(fit, rows) {
  some <- some_of_data(fit$data, rows)
  response <- c(list(y = some$y), fit[c("classes", "outputs", "binary", "family")])
  c(some[c("rows", "weights", "offset")], list(response = response))
}

# Refits the model to some of its rows: what was chosen from the data is chosen again, centres that were drawn are drawn
# again, as many where there are so many rows. Instead of a validation set, the fit ends after as many iterations as it
# has found best. `found`: bandwidth, lambda and so on in place of those of the fit.
refit_ridge <- function(fit, rows, run, found = list()) {
  some <- some_of_fit(fit, rows)
  check_left_classes(some)
  own <- \(what) if (!what %in% fit$chosen) fit[[what]]
  used <- if (is.null(some$weights)) length(rows) else sum(some$weights > 0)
  early <- any(!is.na(fit$trace$validation))
  spec <- list(
    kernel = own("kernel"), metric = fit$metric, bandwidth = own("bandwidth"), lambda = own("lambda"),
    centers = if (!fit$exact) if (fit$centers_given) fit$centers else min(nrow(fit$centers), used),
    center_method = fit$center_method, family = fit$family,
    weights = some$weights, offset = some$offset, intercept = fit$has_intercept, exact = fit$exact,
    iterations = if (early) fit$best_iteration else fit$settings$iterations, tolerance = fit$settings$tolerance, keep = FALSE,
    plan = FALSE, asked = fit$control, call = fit$call, seed = fit$settings$seed
  )
  spec[names(found)] <- found
  if (is_count(spec$centers)) spec$centers <- min(spec$centers, used)
  fit_ridge(some$rows, some$response, spec, run)
}

# Tuned anew on some of its rows.
refit_tuned <- function(tuned, rows, run) {
  some <- some_of_fit(tuned, rows)
  check_left_classes(some)
  spec <- tuned$search$settings$spec
  spec[c("weights", "offset", "class_weights", "validation")] <- list(some$weights, some$offset, NULL, NULL)
  y <- response_values(some$response, seq_along(rows))
  found <- tune_rows(some$rows, y, spec, tuned$search$settings$asked, run)
  refit_ridge(tuned, rows, run, found[c("kernel", "bandwidth", "lambda", if (is_count(found$centers)) "centers")])
}

check_left_classes <- function(some) {
  classes <- some$response$classes
  if (is.null(classes)) return(invisible())
  lacking <- classes[class_counts(some$response$y, some$weights) == 0]
  if (length(lacking) > 0) {
    stop_argument("folds", "must leave rows of every class for the fit: found a fold with all of ", quote_names(lacking))
  }
}
