x <- unname(cluster_points(2000))
y <- x[1:50, ] + 0.25
expected <- kernel_sum(flash_data(x, shard_rows = 100), y, bandwidth = 0.4, tol = 0)

test_that("the shards of a worker that is killed go to the others, and the bits are the same", {
  sum_on_cpus()
  workers <- parallel::makeCluster(3)
  on.exit(try(parallel::stopCluster(workers[c(1, 3)]), silent = TRUE))
  data <- flash_data(x, workers, shard_rows = 100)
  pids <- pids_of(workers)
  tools::pskill(pids[2], 9)
  expect_lost(sums <- kernel_sum(data, y, bandwidth = 0.4, tol = 0))
  expect_identical(sums, expected)
  # known from now on
  expect_warning(again <- kernel_sum(data, y, bandwidth = 0.4, tol = 0), NA)
  expect_identical(again, expected)
  # debiased points that were on it are debiased again
  fit <- flash_kde(data, "sdkde", bandwidth = 0.4)
  known <- predict(fit, y)
  tools::pskill(pids[3], 9)
  expect_lost(expect_identical(predict(fit, y), known))
  tools::pskill(pids[1], 9)
  expect_error(suppressWarnings(predict(fit, y)), "no worker left", class = "flashkernel_error_cluster")
})

test_that("one that is killed in the middle of its work loses nothing", {
  workers <- parallel::makeCluster(2)
  on.exit(try(parallel::stopCluster(workers[1]), silent = TRUE))
  pid <- pids_of(workers)[2]
  make <- function(shard) {
    if (Sys.getpid() == pid && shard == 7) tools::pskill(pid, 9)
    cbind(shard, 2 * shard)
  }
  expect_lost(data <- flash_data(make, workers, shards = 8))
  expect_identical(data[1:8, ][, 2], 2 * (1:8))
})

test_that("so does one that has a request to go on with, of a long run, whose nodes are of any sizes", {
  workers <- parallel::makeCluster(2)
  on.exit(try(parallel::stopCluster(workers[1]), silent = TRUE))
  pid <- pids_of(workers)[2]
  data <- flash_data(x, workers, shard_rows = 30)
  halved <- flash_data(x, workers, shard_rows = 30)
  replace_in_package("MOST_PAIRS_AT_ONCE", 0)
  expect_identical(
    kernel_sum(data, y, bandwidth = 0.4, tol = 0), kernel_sum(flash_data(x, shard_rows = 30), y, bandwidth = 0.4, tol = 0)
  )
  # the other one is slower, and leaves it its half
  f <- eval(bquote(function(x, shard) {
    if (Sys.getpid() != .(pid)) Sys.sleep(0.02)
    else if (getOption("shards_seen", 1) == 3) tools::pskill(.(pid), 9)
    else options(shards_seen = getOption("shards_seen", 1) + 1)
    shard
  }))
  expect_lost(seen <- by(halved, FUN = f))
  expect_identical(seen, as.list(1:67))
})

test_that("one that is silent for too long is lost, and what it says later does no harm", {
  workers <- parallel::makeCluster(2)
  on.exit(parallel::stopCluster(workers))
  pid <- pids_of(workers)[2]
  # a busy machine may take a second to load the package
  parallel::clusterCall(workers, loadNamespace, "flashkernel")
  make <- function(shard) {
    if (Sys.getpid() == pid) Sys.sleep(5)
    cbind(shard, 2 * shard)
  }
  control <- flash_control(worker_timeout = 2)
  started <- Sys.time()
  expect_warning(data <- flash_data(make, workers, shards = 4, control = control), "silent")
  expect_lt(as.double(Sys.time() - started, units = "secs"), 4.9)
  expect_identical(data[1:4, ][, 2], 2 * (1:4))
})

test_that("what is wrong with a worker's machine is tried elsewhere; what is wrong with the data is told", {
  workers <- parallel::makeCluster(2)
  on.exit(parallel::stopCluster(workers))
  pid <- pids_of(workers)[1]
  make <- function(shard) {
    if (Sys.getpid() == pid) {
      stop(structure(class = c("flashkernel_error_alloc", "error", "condition"), list(message = "no memory", call = NULL)))
    }
    cbind(shard, 2)
  }
  expect_identical(flash_data(make, workers, shards = 4)$n, 4)
  wrong <- function(shard) if (shard == 3) "text" else cbind(shard, 2)
  expect_error(flash_data(wrong, workers, shards = 4), "shard 3.*worker", class = "flashkernel_error_argument")
  expect_free(workers)
})

test_that("an interrupt reaches the workers and leaves them usable", {
  interrupt_cluster(\() parallel::makeCluster(2), rounds = 2)
})
