# Leave-one-out and cross-validation of points on workers.
workers <- parallel::makeCluster(3)
x <- cluster_points(800)
w <- seq_len(800) %% 5 + 0
h <- c(0.3, 0.5)
clusters <- list(NULL, workers[1], workers[2:3], workers)

on_shards <- function(cluster, weighted = TRUE) {
  flash_data(if (weighted) cbind(x, w = w) else x, cluster, shard_rows = 150, weights = if (weighted) "w")
}

# Kills the worker of this process at the first answer to the operation `op`.
kill_at <- function(op, pid, frame = parent.frame()) {
  take <- take_answer
  replace_in_package("take_answer", function(run, ...) {
    if (run$setup$op == op && pid != 0) {
      tools::pskill(pid, 9)
      pid <<- 0
    }
    take(run, ...)
  }, frame)
}

test_that("an SD-KDE of shards leaves out as one in memory does, with the same bits on any number of workers", {
  for (weighted in c(FALSE, TRUE)) {
    known <- flash_kde(x, "sdkde", bandwidth = h, debias = debiasing(bandwidth = 0.35), weights = if (weighted) w)
    got <- alike(function(cluster) {
      fit <- flash_kde(on_shards(cluster, weighted), "sdkde", bandwidth = h, debias = debiasing(bandwidth = 0.35))
      kept <- predict(fit, type = "log_density", loo = TRUE, collect = FALSE)
      list(predict(fit, type = "log_density", loo = TRUE), logLik(fit), kept[c(1, 700), 1, drop = TRUE])
    }, clusters[if (weighted) 1:4 else c(1, 4)])
    expect_equal(got[1:2], list(predict(known, type = "log_density", loo = TRUE), logLik(known)), tolerance = 1e-12)
    expect_identical(unname(got[[3]]), got[[1]][c(1, 700)])
  }
})

test_that("points are left out of several blocks of sources, and of shards without weight, as of one", {
  apart <- replace(w, 151:300, 0)
  known <- flash_kde(x, "sdkde", bandwidth = h, weights = apart)
  replace_in_package("NUMBERS_OF_BLOCK", 1600)
  for (cluster in list(NULL, workers)) {
    data <- flash_data(cbind(x, w = apart), cluster, shard_rows = 150, weights = "w")
    fit <- flash_kde(data, "sdkde", bandwidth = h)
    expect_equal(predict(fit, loo = TRUE), predict(known, loo = TRUE), tolerance = 1e-12)
    expect_equal(logLik(fit), logLik(known), tolerance = 1e-12)
  }
})

test_that("points beside a heavy one are left out of shards, and by workers, without loss of digits", {
  for (ratio in c(1e-6, 1e-16, 1e-30)) {
    heavy <- replace(heavy_weights(ratio, 800), 5, 0)[order(cos(1:800))]
    some <- unique(c(order(-heavy)[1:4], 1:3, 800))
    left_out <- vapply(some, \(i) {
      without <- flash_kde(x[-i, ], "sdkde", bandwidth = h, debias = debiasing(bandwidth = 0.35), weights = heavy[-i])
      predict(without, x[i, , drop = FALSE], type = "log_density")
    }, 0)
    error <- \(fit) max(abs(predict(fit, type = "log_density", loo = TRUE)[some] - left_out)[heavy[some] > 0])
    fit_to <- function(cluster) {
      data <- flash_data(cbind(x, w = heavy), cluster, shard_rows = 150, weights = "w")
      flash_kde(data, "sdkde", bandwidth = h, debias = debiasing(bandwidth = 0.35))
    }
    expect_lt(error(fit_to(NULL)), 1e-12)
    alike(\(cluster) logLik(fit_to(cluster)), clusters[c(1, 4)])
    local({
      replace_in_package("NUMBERS_OF_BLOCK", 500)
      expect_lt(error(fit_to(workers)), 1e-12)
    })
    replace_in_package("LEAST_PAIRS_FOR_CLUSTER", 1e3)
    shared <- flash_control(cluster = workers)
    known <- flash_kde(x, "sdkde", bandwidth = h, debias = debiasing(bandwidth = 0.35), weights = heavy, control = shared)
    expect_lt(error(known), 1e-12)
  }
})

# The fold of each row, as the workers draw it.
folds_of <- function(folds) {
  seed <- sample.int(.Machine$integer.max, 1)
  fold <- integer(800)
  for (shard in 1:6) {
    rows <- seq(150 * shard - 149, min(800, 150 * shard))
    for (one in seq_len(folds)) {
      pick <- fold_picker(list(seed = seed, folds = folds, fold = one, inside = TRUE))
      fold[pick(list(points = cbind(rows)), shard)$x] <- one
    }
  }
  fold
}

test_that("cross-validation by folds of the shards is that of the same folds in memory, on any number of workers", {
  set.seed(1)
  folds <- folds_of(3)
  scores <- c(kde = "log", laplace = "quadratic", sdkde = "spherical")
  for (estimator in names(scores)) {
    score <- scores[[estimator]]
    known <- cross_validate(flash_kde(x, estimator, bandwidth = h, weights = w), folds, score)
    one <- function(cluster) {
      fit <- flash_kde(on_shards(cluster), estimator, bandwidth = h)
      set.seed(1)
      unclass(cross_validate(fit, 3, score))[c("mean", "se", "by_fold", "n")]
    }
    got <- alike(one, clusters[if (estimator == "sdkde") 1:4 else c(1, 4)])
    expect_equal(got, unclass(known)[c("mean", "se", "by_fold", "n")], tolerance = 1e-10)
  }
  chosen <- cross_validate(flash_kde(on_shards(NULL), "kde"), 2)
  expect_gt(abs(diff(chosen$by_fold$bandwidth[, "a"])), 0)
  expect_output(print(chosen), "2-fold cross-validation, log score")
  expect_error(cross_validate(flash_kde(on_shards(NULL), "kde"), 51), "shard 6", class = "flashkernel_error_argument")
  expect_error(cross_validate(flash_kde(on_shards(NULL), "kde"), folds), "folds", class = "flashkernel_error_argument")
})

test_that("what workers can read is not sent for the folds, and a fit to it has the same scores", {
  folder <- tempfile()
  dir.create(folder)
  on.exit(unlink(folder, recursive = TRUE))
  for (i in 1:2) saveRDS(cbind(x, w = w)[(1:400) + 400 * (i - 1), ], file.path(folder, i))
  read <- flash_data(file.path(folder, 1:2), workers, reader = readRDS, weights = "w")
  sent <- flash_data(cbind(x, w = w), workers, shard_rows = 400, weights = "w")
  passed <- 0 # shards that the master sends, or fetches to send
  count <- function(f) {
    force(f)
    function(...) {
      passed <<- passed + 1
      f(...)
    }
  }
  replace_in_package("shard_rows", count(shard_rows))
  replace_in_package("fetch_shards", count(fetch_shards))
  score_of <- function(data) {
    set.seed(1)
    cross_validate(flash_kde(data, "kde", bandwidth = h), 4)$mean
  }
  score <- score_of(read)
  expect_identical(passed, 0)
  expect_identical(score_of(sent), score)
  expect_gt(passed, 0)
})

test_that("compare_fits() judges fits to the same shards as those in memory, each point left out or by folds", {
  estimators <- c(kde = "kde", laplace = "laplace", sdkde = "sdkde")
  known <- lapply(estimators, \(estimator) flash_kde(x, estimator, bandwidth = h, weights = w))
  data <- on_shards(workers)
  fits <- lapply(estimators, \(estimator) flash_kde(data, estimator, bandwidth = h))
  parts <- c("table", "differences", "errors", "n", "infinite")
  expect_equal(unclass(do.call(compare_fits, fits))[parts], unclass(do.call(compare_fits, known))[parts], tolerance = 1e-10)
  two <- \(fits) unclass(do.call(compare_fits, c(fits[1:2], score = "quadratic")))[parts]
  expect_equal(two(fits), two(known), tolerance = 1e-10)
  set.seed(1)
  folds <- folds_of(10)
  set.seed(1)
  got <- do.call(compare_fits, c(fits[c(1, 3)], score = "quadratic"))
  want <- do.call(compare_fits, c(known[c(1, 3)], list(score = "quadratic", folds = folds)))
  expect_equal(unclass(got)[parts], unclass(want)[parts], tolerance = 1e-10)
  expect_output(print(got), "of 640 points, by 10 folds")
  other <- flash_kde(on_shards(workers), "kde", bandwidth = h)
  expect_error(compare_fits(fits[[1]], other), "same flash_data", class = "flashkernel_error_argument")
})

test_that("integrals of squares of shards have all digits without a heavy point", {
  some <- x[1:60, ]
  for (ratio in c(1e-2, 1e-9, 1e-180)) for (estimator in c("kde", "laplace")) {
    w <- replace(c(1, rep(ratio, 59)), 45, sqrt(ratio)) * 1e-150
    score <- function(data, ...) {
      fits <- lapply(c(a = 0.7, b = 0.9), \(h) flash_kde(data, estimator, bandwidth = h, ...))
      do.call(compare_fits, c(fits, score = "quadratic"))$table$score
    }
    want <- score(some, weights = w)
    weighted <- cbind(some, w = w)
    shards <- \(...) flash_data(..., weights = "w")
    expect_equal(score(shards(weighted, shard_rows = 20)), want, tolerance = 1e-11)
    expect_equal(score(shards(weighted, workers[1:2], shard_rows = 20)), want, tolerance = 1e-11)
    read <- shards(function(i) weighted[20 * i - 19:0, ], shards = 3)
    expect_equal(score(read), want, tolerance = 1e-11)
  }
})

test_that("a worker that is killed between the rounds or in them changes no bit", {
  fit_to <- \(cluster) flash_kde(on_shards(cluster), "sdkde", bandwidth = h)
  asked <- list(masses = logLik, debiased_loo = \(fit) predict(fit, loo = TRUE), fold = \(fit) cross_validate(fit, 2)$mean)
  for (op in names(asked)) {
    some <- parallel::makeCluster(2)
    pid <- pids_of(some)[2]
    fit <- fit_to(some)
    local({
      kill_at(op, pid)
      set.seed(1)
      expect_lost(got <- asked[[op]](fit))
      set.seed(1)
      expect_identical(got, asked[[op]](fit_to(NULL)))
    })
    parallel::stopCluster(some[1])
  }
})

parallel::stopCluster(workers)
