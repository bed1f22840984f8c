# The ways in which tune_ridge() may choose kernel, bandwidth and lambda, and their comparison. A whole way, and not what
# it has chosen, is judged at rows that it has not seen: no choice is judged at rows for which it was tuned.

# What kernel_ridge() chooses; the same without a learnt metric; the best value of the criterion, which returns its `value`
# and `path`, too. The first is preferred.
TUNE_WAYS <- list(
  default = \(task, until, run) default_choice(task, task$spec, run),
  plain = \(task, until, run) default_choice(task, replace(task$spec, "metric", "none"), run),
  criterion = \(task, until, run) {
    spec <- task$spec
    search <- \(kernel) if (has_terms(spec)) {
      choose_terms(task$rows, task$response, task$weights, replace(spec, "kernel", list(kernel)), run, task$sample)
    } else {
      search_kernel(task$sample, kernel, spec, task$asked$criterion, task$structure, until, run)
    }
    best <- search_bandwidths(searched_kernels(task$asked), search, until, run)
    if (has_terms(spec)) return(best)
    spec[c("kernel", "bandwidth")] <- list(best$kernel, name_bandwidth(best$bandwidth, task$rows))
    if (is.null(spec$lambda)) spec$lambda <- best_noise(best, task$sample, spec, run) * task$sample$per_row
    c(spec[c("kernel", "bandwidth", "lambda")], best[c("value", "path")])
  }
)

default_choice <- function(task, spec, run) {
  choose <- if (has_terms(spec)) choose_terms else choose_defaults
  choose(task$rows, task$response, task$weights, spec, run)[c("kernel", "bandwidth", "lambda")]
}

searched_kernels <- function(asked) {
  if (is.null(asked$kernel)) lapply(c("gaussian", "matern52"), check_kernel) else asked$kernel
}

# What a way chooses for the task, with its values and, of the criterion, `value` and `path`.
choose_by_way <- function(way, task, until, run) {
  if (task$locates) task <- location_of(task, task$rows)
  found <- with_fixed_seed(TUNE_WAYS[[way]](task, until, run), task$spec$seed)
  if (task$locates) found$lambda <- c(found$lambda, NA)
  found
}

# Is the penalty of a way that of the location of quantiles? Not where penalties or numbers of centres are compared.
locates <- function(rows, spec, asked) takes_residuals(rows, spec) && !compares(asked)

# list(exact, centers): whether all rows are centres, and the number of centres otherwise, as kernel_ridge() would settle
# them without the choice of a way. With a bandwidth that is given, it would take fewer centres.
size_by_default <- function(rows, spec, asked, outputs, run) {
  if (!is.null(asked$centers)) return(list(exact = spec$exact, centers = if (!are_several(asked$centers)) asked$centers))
  if (locates(rows, spec, asked)) spec$family <- FAMILIES$gaussian
  exact <- if (is.null(spec$exact)) takes_all(rows, spec, run) else spec$exact
  list(exact = exact, centers = if (!exact) most_centers(rows, spec, outputs, run))
}

# Arguments of kernel_ridge() with the size of the fit.
with_size <- function(arguments, exact, centers) {
  if (isTRUE(exact)) arguments$solver <- replace(check_solver(arguments$solver), "exact", TRUE)
  arguments["centers"] <- list(centers)
  arguments
}

# Names of the ways that are compared. With a kernel or bandwidth that is given, the criterion alone chooses; kernels of
# terms are given.
ways_of <- function(rows, spec, asked) {
  if (has_terms(spec)) return(c("default", "criterion"))
  if (!is.null(asked$kernel) || !is.null(spec$bandwidth) || rows$n < LEAST_PORTFOLIO) return("criterion")
  if (learns_metric(spec) && !inherits(rows, "rows_sparse")) names(TUNE_WAYS) else c("default", "criterion")
}

# Rows at which ways are judged: of five folds, as many as hold out so many rows.
JUDGED_ROWS <- 500
judged_folds <- function(n) seq_len(max(1, min(FOLDS, ceiling(FOLDS * JUDGED_ROWS / n))))

# A data frame with the mean loss of each way (squared error, or that of the family), the standard error of its difference to
# the default, and the way that is `chosen`: the one with the least loss, if the default is worse by more than two standard errors
# and the half of the time that the comparison has is not over before its end. It ends after a fold when no other
# way is better than the default so far.
judge_ways <- function(ways, task, run) {
  name_stage(run, "Comparing ways to choose")
  some <- contest_rows(task$rows, task$response, task$weights, task$spec)
  data <- list(rows = some$rows, y = some$response$y, weights = some$weights, offset = some$offset)
  fold <- tuning_folds(some$rows$n, task$response$classes, data$y)
  held_out <- judged_folds(some$rows$n)
  seconds <- task$asked$seconds / 2
  ends <- unclass(Sys.time()) + seconds
  losses <- NULL
  for (k in held_out) {
    losses <- rbind(losses, losses_of_ways(ways, data, fold == k, task, seconds / length(held_out) / 2, run))
    gain <- losses[, 1] - losses
    error <- apply(gain, 2, stats::sd) / sqrt(nrow(losses))
    if (unclass(Sys.time()) > ends || !any(colMeans(gain) > 0, na.rm = TRUE)) break
  }
  is_complete <- nrow(losses) == sum(fold %in% held_out)
  best <- which.min(colMeans(losses))
  better <- is_complete && isTRUE(mean(gain[, best]) > 2 * error[best])
  data.frame(
    way = ways, loss = colMeans(losses), standard_error = error, chosen = seq_along(ways) == if (better) best else 1
  )
}

# The fold of each row: as many of each class in all folds.
tuning_folds <- function(n, classes, y) {
  folds <- rep_len(seq_len(FOLDS), n)
  if (!is.null(classes)) folds[order(class_codes(y))] <- folds
  folds
}

# The weighted losses at the rows `held`, with a column for each way: of the fit to the others with what the way chooses
# from them, within `seconds`. Infinite if there is no fit.
losses_of_ways <- function(ways, data, held, task, seconds, run) {
  some <- some_of_data(data, which(!held))
  at <- some_of_data(data, which(held))
  response <- replace(task$response, "y", list(some$y))
  rows <- with_row_keys(some$rows, response, run)
  spec <- task$spec
  spec[c("weights", "offset", "class_weights", "validation", "checkpoint")] <- list(some$weights, some$offset, NULL, NULL, NULL)
  spec$keep <- FALSE
  spec[c("exact", "centers")] <- size_by_default(rows, spec, task$asked, ncol(data$y), run)
  none <- rep(Inf, sum(held))
  part <- or_none(with_fixed_seed(tuning_task(rows, response, some$weights, spec, task$asked), spec$seed), NULL)
  vapply(ways, \(way) if (is.null(part)) none else or_none({
    found <- choose_by_way(way, part, unclass(Sys.time()) + seconds, run)
    fit <- fit_ridge(rows, response, replace(spec, names(found), found), run)
    link <- link_at(fit, at$rows, run)
    if (!is.null(at$offset)) link <- link + at$offset
    about <- list(data = at, family = fit$family)
    loss <- -ridge_scores(about, seq_along(none), link, if (spec$family$squared) "squared" else "loss", run)
    if (is.null(at$weights)) loss else loss * at$weights
  }, none), none, USE.NAMES = FALSE)
}

or_none <- function(value, none) tryCatch(value, flashkernel_error = \(e) none)
