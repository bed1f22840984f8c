# Two workers of a cluster, each the master of two of its own, which are forks, as these start fast.
skip_on_os("windows")
masters <- parallel::makeCluster(2)
# masters that are forks would all draw the same port, and parallel draws from below 12,000
below_of <- \(i) parallel::makeForkCluster(2, port = 12000 + Sys.getpid() %% 18000)
workers <- flash_control(cluster = list(masters, below_of))$cluster
x <- cluster_points(1200)
w <- seq_len(1200) %% 5
y <- x[1:7, ] + 0.25
# the process ids of those below
below <- function() {
  parallel::clusterCall(masters, \() {
    clusters <- utils::getFromNamespace("session", "flashkernel")$below
    unlist(parallel::clusterCall(clusters[[1]], Sys.getpid))
  })
}

test_that("a cluster of clusters gives the bits of none: sums, grids, fits whose points stay, and Falkon", {
  sum_on_cpus()
  local_method("grid")
  u <- cbind((seq_len(8000) * 0.754877666) %% 1, (seq_len(8000) * 0.569840291) %% 1)
  found <- lapply(list(NULL, workers), \(cluster) {
    # 11 shards: nodes of several sizes
    there <- flash_data(cbind(x, w = w, r = sin(x[, 1])), cluster, shard_rows = 113, weights = "w", response = "r")
    sums <- kernel_sum(there, y, bandwidth = 0.4, tol = 0)
    fit <- flash_kde(there, "sdkde", bandwidth = 0.4)
    kept <- predict(flash_kde(x, "kde", bandwidth = 0.4), there, collect = FALSE)
    set.seed(1)
    judged <- cross_validate(fit, 2)$mean
    curve <- kernel_ridge(there, weights = w + 1, bandwidth = 1, centers = 20, lambda = 1e-4, solver = list(iterations = 5))
    grid <- kernel_sum(flash_data(u, cluster, shard_rows = 900), u[1:9, ], cos(1:8000), bandwidth = 0.05, tol = 1e-6)
    list(
      values = list(sums[], predict(fit, y), predict(fit), kept[c(3, 900), ], predict(curve, y), grid[], there[c(1, 700), ],
        logLik(fit), judged),
      workers = diagnostics(sums)$workers, record = diagnostics(sums)
    )
  })
  expect_identical(found[[2]]$values, found[[1]]$values)
  expect_identical(found[[2]]$workers$below, c(2L, 2L))
  expect_identical(sum(found[[2]]$workers$rows), 1200)
  expect_output(print(found[[2]]$record), "Workers: 2 on 1 host with 4 workers of their own")
})

test_that("each worker below has a part of the shards, its master none", {
  there <- flash_data(x, workers, shard_rows = 100)
  expect_length(unique(unlist(by(there, FUN = \(x, shard) Sys.getpid()))), 4)
  expect_setequal(unlist(by(there, FUN = \(x, shard) Sys.getpid())), unlist(below()))
  kept <- parallel::clusterCall(masters, \(id) {
    length(utils::getFromNamespace("session", "flashkernel")$worker$data[[id]]$shards)
  }, there$id)
  expect_identical(kept, list(0L, 0L))
})

test_that("points in memory go to all of them", {
  sum_on_cpus()
  replace_in_package("LEAST_PAIRS_FOR_CLUSTER", 1e3)
  fit_to <- \(cluster) flash_kde(x, "kde", bandwidth = 0.4, control = flash_control(cluster = cluster))
  alike(\(cluster) predict(fit_to(cluster)), list(masters[1], workers))
})

test_that("errors come up, and leave all of them usable", {
  wrong <- function(shard) if (shard == 3) "text" else cbind(shard, 2)
  expect_error(flash_data(wrong, workers, shards = 4), "shard 3.*worker", class = "flashkernel_error_argument")
  expect_free(masters)
  expect_identical(lengths(below()), c(2L, 2L))
  expect_argument_error(flash_control(cluster = list(masters)), "cluster")
  expect_error(nested_cluster(masters, \(i) 7), "make", class = "flashkernel_error_argument")
  expect_error(nested_cluster(masters, 7), "make", class = "flashkernel_error_argument")
})

test_that("an interrupt reaches all of them", {
  interrupt_cluster(function() {
    masters <- parallel::makeForkCluster(2)
    flashkernel:::nested_cluster(masters, \(i) parallel::makeForkCluster(2, port = 12000 + Sys.getpid() %% 18000))
  }, rounds = 1)
})

test_that("a worker below that is killed is replaced by the others of its master, a master by the other one", {
  expected <- kernel_sum(flash_data(x, shard_rows = 100), y, bandwidth = 0.4, tol = 0)
  there <- flash_data(x, workers, shard_rows = 100)
  product <- \() kernel_sum(there, y, bandwidth = 0.4, tol = 0)
  pids <- below()
  tools::pskill(pids[[2]][1], 9)
  expect_warning(sums <- product(), "worker 2 of 2.*worker 1 of 2.*lost", class = "flashkernel_warning_worker")
  expect_identical(sums, expected)
  expect_identical(diagnostics(sums)$workers$below, c(2L, 1L))
  # in the middle of its work
  gone <- pids[[1]][2]
  make <- eval(bquote(function(shard) {
    if (Sys.getpid() == .(gone)) tools::pskill(.(gone), 9)
    cbind(shard, 2 * shard)
  }))
  expect_warning(data <- flash_data(make, workers, shards = 8), "worker 1 of 2.*worker 2 of 2.*lost")
  expect_identical(data[1:8, ][, 2], 2 * (1:8))
  tools::pskill(pids_of(masters[1]), 9)
  expect_warning(sums <- product(), "^worker 1 of 2.*is lost", class = "flashkernel_warning_worker")
  expect_identical(sums, expected)
  # without any below a master is lost, too
  tools::pskill(pids[[2]][2], 9)
  expect_error(suppressWarnings(product()), "no worker left", class = "flashkernel_error_cluster")
})

try(parallel::stopCluster(workers[2]), silent = TRUE)
