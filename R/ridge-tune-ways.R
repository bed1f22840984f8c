# The ways in which tune_ridge() may choose kernel, bandwidth and lambda, and their comparison. A whole way, and not what
# it has chosen, is judged at rows that it has not seen: no choice is judged at rows for which it was tuned.

# What kernel_ridge() chooses; the same without a learnt metric, and with more kernels and widths; the best value of the
# criterion, which returns its `value` and `path`, too. The first is preferred.
TUNE_WAYS <- list(
  default = \(rows, response, weights, spec, asked, until, run) choose_defaults(rows, response, weights, spec, run),
  plain = \(rows, response, weights, spec, asked, until, run) {
    choose_defaults(rows, response, weights, replace(spec, "metric", "none"), run)
  },
  portfolio = \(rows, response, weights, spec, asked, until, run) {
    choose_defaults(rows, response, weights, replace(spec, "entries", list(longer_portfolio(spec))), run)
  },
  criterion = \(rows, response, weights, spec, asked, until, run) {
    task <- tuning_task(rows, response, weights, spec, asked)
    best <- search_bandwidths(
      task$sample, searched_kernels(asked), task$spec, asked$criterion, task$structure, until, run
    )
    spec[c("kernel", "bandwidth")] <- list(best$kernel, name_bandwidth(best$bandwidth, rows))
    if (is.null(spec$lambda)) spec$lambda <- best_noise(best, task$sample, spec, run) * task$sample$per_row
    c(spec[c("kernel", "bandwidth", "lambda")], best[c("value", "path")])
  }
)

searched_kernels <- function(asked) {
  if (is.null(asked$kernel)) lapply(c("gaussian", "matern52"), check_kernel) else asked$kernel
}

# Each kernel of the portfolio with each of these widths and powers.
LONGER_WIDTHS <- c(0.5, 1, 2)
longer_portfolio <- function(spec) {
  entries <- portfolio_entries(NULL, spec$metric)
  unique(unlist(lapply(entries, \(entry) {
    wider <- lapply(LONGER_WIDTHS, \(by) replace(entry, "width", entry$width * by))
    c(wider, if (entry$metric == "diagonal") list(replace(entry, "power", 0.5)))
  }), recursive = FALSE))
}

# Names of the ways that are compared. With a kernel or bandwidth that is given, the criterion alone chooses.
ways_of <- function(rows, spec, asked) {
  if (!is.null(asked$kernel) || !is.null(spec$bandwidth) || rows$n < LEAST_PORTFOLIO) return("criterion")
  if (learns_metric(spec) && !inherits(rows, "rows_sparse")) names(TUNE_WAYS) else c("default", "criterion")
}

# Up to MANY_TUNED rows every row is held out once; of more rows a fifth is held out.
MANY_TUNED <- 3000
FEW_FOLDS <- 3
MANY_FOLDS <- 5

# A data frame with the mean loss of each way (squared error, or that of the family), the standard error of its difference to
# the least, and the way that is `chosen`: the first one within a standard error, or the default if the half of the time that
# the comparison has is over before its end.
judge_ways <- function(ways, rows, response, weights, spec, asked, run) {
  some <- contest_rows(rows, response, weights, spec)
  data <- list(rows = some$rows, y = some$response$y, weights = some$weights, offset = some$offset)
  fold <- tuning_folds(some$rows$n, response$classes, data$y)
  held_out <- if (some$rows$n <= MANY_TUNED) seq_len(FEW_FOLDS) else 1
  seconds <- asked$seconds / 2
  ends <- unclass(Sys.time()) + seconds
  losses <- NULL
  for (k in held_out) {
    found <- lapply(ways, \(way) {
      name_stage(run, "Comparing ways to choose")
      until <- unclass(Sys.time()) + seconds / length(held_out) / 2
      losses_of_way(TUNE_WAYS[[way]], data, fold == k, response, spec, asked, until, run)
    })
    losses <- rbind(losses, do.call(cbind, found))
    if (unclass(Sys.time()) > ends) break
  }
  is_complete <- nrow(losses) == sum(fold %in% held_out)
  best <- if (is_complete) which.min(colMeans(losses)) else 1
  difference <- losses - losses[, best]
  error <- apply(difference, 2, stats::sd) / sqrt(nrow(losses))
  near <- which(colMeans(difference) <= error)
  data.frame(
    way = ways, loss = colMeans(losses), standard_error = error, chosen = seq_along(ways) == min(near, best)
  )
}

# The fold of each row: as many of each class in all folds.
tuning_folds <- function(n, classes, y) {
  folds <- rep_len(seq_len(if (n <= MANY_TUNED) FEW_FOLDS else MANY_FOLDS), n)
  if (!is.null(classes)) folds[order(class_codes(y))] <- folds
  folds
}

# The weighted losses at the rows `held` of the fit to the others with what the way chooses from them. Infinite if there
# is no fit.
losses_of_way <- function(way, data, held, response, spec, asked, until, run) {
  some <- some_of_data(data, which(!held))
  at <- some_of_data(data, which(held))
  response$y <- some$y
  rows <- with_row_keys(some$rows, response)
  spec[c("weights", "offset", "class_weights", "validation", "checkpoint")] <- list(some$weights, some$offset, NULL, NULL, NULL)
  spec$keep <- FALSE
  if (is.null(spec$exact)) spec$exact <- takes_all(rows, spec, run)
  tryCatch({
    found <- with_fixed_seed(way(rows, response, some$weights, spec, asked, until, run), spec$seed)
    fit <- fit_ridge(rows, response, replace(spec, names(found), found), run)
    link <- link_at(fit, at$rows, run)
    if (!is.null(at$offset)) link <- link + at$offset
    loss <- -ridge_scores(list(data = at, family = fit$family), seq_along(link[, 1]), link, if (spec$family$squared) "squared" else "loss", run)
    if (is.null(at$weights)) loss else loss * at$weights
  }, flashkernel_error = \(e) rep(Inf, sum(held)))
}
