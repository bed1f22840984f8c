# Folds of a flash_data(): some rows of each shard, drawn on the worker from a seed and the number of the shard. So
# folds do not depend on which worker has a shard.

# judge_of() for fits to a flash_data(). Scores stay on the workers, and their moments come back.
judge_of_data <- function(fit) {
  made <- list(
    n = min(fit$x$rows), data = list(fit$x$id), estimator = fit$estimator, names = point_names(fit),
    asked = fit_asked(fit), scores = names(PROPER_SCORES), has_left_out = \(score) has_left_out(fit, score),
    draw_folds = \(folds) seq_len(check_data_folds(folds, fit$x)), fit = fit, judge = judge_all_data,
    alike = "flash_data()"
  )
  made$by_fold <- function(folds, score, run) {
    found <- judge_data_folds(list(fit), length(folds), score, run)
    c(mean_and_se(found$moments), list(by_fold = found$by_fold[[1]], n = found$moments$n))
  }
  made
}

# judge_all() for fits to a flash_data().
judge_all_data <- function(all, folds, score) {
  run <- judging_run(all[[1]], folds)
  fits <- lapply(all, `[[`, "fit")
  found <- if (is.null(folds)) judge_data(fits, fits[[1]]$x, TRUE, score, run) else {
    judge_data_folds(fits, length(folds), score, run)$moments
  }
  c(mean_and_se(found), list(n = found$n, infinite = stats::setNames(found$infinite, names(all))))
}

# Each fold needs a row of each shard, and must leave another.
check_data_folds <- function(folds, data) {
  if (length(folds) != 1) {
    stop_argument("folds", "must be a number of folds for a flash_data(), whose rows are in shards: found ", describe(folds))
  }
  folds <- check_count(folds, "folds", min = 2)
  least <- which.min(data$rows)
  if (folds > data$rows[least]) {
    stop_argument(
      "folds", "must be no more than the rows of any shard: found ", folds, ", and shard ", least, " with ",
      data$rows[least]
    )
  }
  folds
}

# list(moments, by_fold): the moments of judge_data() over all folds, and for each fit the data frame `by_fold` of
# cross_validate(). All fits are to the same data.
judge_data_folds <- function(fits, folds, score, control) {
  data <- fits[[1]]$x
  hold_pool(pool_of(data$cluster))
  seed <- sample.int(.Machine$integer.max, 1)
  of_folds <- lapply(seq_len(folds), function(fold) {
    share_stage(control, (fold - 1) / folds, 1 / folds)
    spec <- list(seed = seed, folds = folds, fold = fold)
    train <- fold_data(data, c(spec, inside = FALSE), control)
    test <- fold_data(data, c(spec, inside = TRUE), control)
    on.exit(session$forgotten <- c(session$forgotten, train$id, test$id))
    refits <- lapply(fits, \(fit) unclass(fit_data(train, fit$estimator, fit$settings, control, fit$call)))
    moments <- judge_data(refits, test, FALSE, score, control)
    sds <- lapply(refits, \(fit) stats::setNames(bandwidth_sds(fit$bandwidth), point_names(fit)))
    list(moments = moments, n = test$n, sds = sds)
  })
  moments <- lapply(of_folds, `[[`, "moments")
  by_fold <- lapply(seq_along(fits), function(k) {
    table <- data.frame(
      fold = seq_len(folds), n = vapply(of_folds, `[[`, 0, "n"), score = vapply(moments, \(one) one$mean[k], 0)
    )
    table$bandwidth <- do.call(rbind, lapply(of_folds, \(one) one$sds[[k]]))
    table
  })
  list(moments = Reduce(merge_scores, moments), by_fold = by_fold)
}

# The rows of a fold, or all others if `inside` is FALSE.
fold_data <- function(data, spec, control) picked_data(data, fold_picker(spec), control)

# A flash_data() of `pick(shard, number)` of each shard, a list(x, weights). If workers can read shards, they read the
# shards from which rows are picked.
picked_data <- function(data, pick, control) {
  if (can_read(data$recipe)) {
    rows <- derived_data(data, NULL)
    rows$recipe <- list(kind = "function", f = fold_reader(told_of(data), pick))
  } else {
    rows <- made_data(data, "fold", list(pick = pick), control, 0)$data
  }
  describe_data(rows, control)
}

# fold_picker(): a function of a shard and its number that picks rows; fold_reader(): a function of the number that
# reads the shard, too. Both are sent to the workers.
fold_picker <- function(spec) {
  force(spec)
  function(shard, number) {
    n <- nrow(shard$points)
    fold <- with_fixed_seed(sample(rep_len(seq_len(spec$folds), n)), (spec$seed + number) %% .Machine$integer.max)
    rows <- (fold == spec$fold) == spec$inside
    list(x = shard$points[rows, , drop = FALSE], weights = shard$weights[rows])
  }
}

fold_reader <- function(told, pick) {
  force(told)
  force(pick)
  function(number) pick(shard_of(told, number), number)
}
