# Folds of a flash_data(): some rows of each shard, drawn where they are by a seed and the shard's number, so that they
# do not depend on who has what.

cross_validate_data <- function(object, folds, score, call) {
  score <- check_choice(score, names(PROPER_SCORES), "score")
  folds <- check_data_folds(folds, object$x)
  run <- start_run(fit_asked(object), "Cross-validating")
  found <- judge_data_folds(list(object), folds, score, run)
  average <- mean_and_se(found$moments)
  structure(class = "flash_kde_validation", list(
    call = call, score = score, scores = NULL, mean = average$mean, se = average$se, folds = seq_len(folds),
    by_fold = found$by_fold[[1]], n = found$moments$n
  ))
}

# As compare_fits(), of fits that are named.
compare_data <- function(fits, score, folds) {
  fits <- lapply(fits, unclass)
  score <- check_choice(score, names(PROPER_SCORES), "score")
  if (length(fits) < 2) stop_argument("...", "must have at least one other fit")
  data <- fits[[1]]$x
  for (name in names(fits)) {
    if (!is_remote(fits[[name]]$x) || !identical(fits[[name]]$x$id, data$id)) {
      stop_argument(name, "must be a fit to the same flash_data() as ", quote_names(names(fits)[1]))
    }
  }
  if (is.null(folds) && !all(vapply(fits, has_left_out, NA, score))) folds <- min(10, data$rows)
  run <- start_run(fit_asked(fits[[1]]), if (is.null(folds)) "Leaving one out" else "Cross-validating")
  found <- if (is.null(folds)) {
    judge_data(fits, data, TRUE, score, run)
  } else {
    folds <- check_data_folds(folds, data)
    judge_data_folds(fits, folds, score, run)$moments
  }
  about <- list(
    scores = NULL, score = score, folds = if (!is.null(folds)) seq_len(folds), of_density = TRUE, n = found$n,
    infinite = stats::setNames(found$infinite, names(fits))
  )
  average <- mean_and_se(found)
  comparison(names(fits), vapply(fits, `[[`, "", "estimator"), average$mean, average$se, about)
}

# Every fold takes rows of every shard, and leaves some.
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

# list(moments, by_fold): of judge_data(), of fits to the same data, and for each of them what cross_validate() says of each
# fold.
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

# The rows of a fold, or with `inside` FALSE all others.
fold_data <- function(data, spec, control) picked_data(data, fold_picker(spec), control)

# What `pick(shard, number)` makes of each shard, list(x, weights). Where a worker can read shards, it reads those of
# which these are.
picked_data <- function(data, pick, control) {
  if (can_read(data$recipe)) {
    rows <- derived_data(data, NULL)
    rows$recipe <- list(kind = "function", f = fold_reader(told_of(data), pick))
  } else {
    rows <- made_data(data, "fold", list(pick = pick), control, 0)$data
  }
  describe_data(rows, control)
}

# A function of a shard and its number, and one of its number; both go to the workers.
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
