# Sums whose targets and sources are both in shards (R/store-cluster-join.R).
workers <- parallel::makeCluster(3)
x <- cluster_points(900)
w <- seq_len(900) %% 5
files <- vapply(1:9, \(i) tempfile(fileext = ".rds"), "")
for (i in 1:9) saveRDS(cbind(x, w = w)[100 * (i - 1) + 1:100, ], files[i])

read_here <- \(cluster, weights = "w") {
  flash_data(files, cluster, reader = readRDS, columns = c("a", "b"), weights = weights)
}
bytes_of <- \(record) sum(record$workers$bytes)

# Sums of data in shards, or of a matrix with weights.
all_sums <- function(data, weights = NULL) {
  others <- x[1:300, ] + 0.1
  if (!is.matrix(data)) others <- flash_data(others, data$cluster, shard_rows = 90)
  # shards have weights of their own
  given <- list(bandwidth = c(0.3, 0.4), weights = weights)
  fit_by <- \(estimator) do.call(flash_kde, c(list(data, estimator), given[lengths(given) > 0]))
  fit <- fit_by("sdkde")
  plain <- fit_by("laplace")
  sums <- \(...) kernel_sum(data, ..., bandwidth = 0.3, weights = weights, tol = 0)
  list(
    predict(fit), predict(fit, others, se.fit = TRUE), predict(fit, type = "score"),
    predict(plain, se.fit = TRUE, loo = TRUE), predict(plain, type = "score", loo = TRUE), sums(),
    sums(others, w + 1, kernel = "laplacian"), sums(b = cbind(w, 1)),
    if (is.matrix(data)) predict(fit) else predict(fit, collect = FALSE)[1:900, ]
  )
}

test_that("shards meet shards in blocks: the sums of points in memory, the same bits on any number of workers", {
  known <- all_sums(x, w)
  expect_equal(all_sums(read_here(NULL)), known, tolerance = 1e-9, ignore_attr = TRUE)
  replace_in_package("NUMBERS_OF_BLOCK", 2 * 350)
  here <- alike(\(cluster) all_sums(read_here(cluster)), list(NULL, workers[1], workers[1:2], workers))
  expect_equal(here, known, tolerance = 1e-9, ignore_attr = TRUE)
  expect_identical(all_sums(flash_data(cbind(x, w = w), workers, weights = "w", shard_rows = 100)), here)
})

test_that("blocks depend on the data alone, and hold neighbours", {
  replace_in_package("NUMBERS_OF_BLOCK", 20)
  expect_identical(data_blocks(list(rows = c(3, 4, 3, 11, 1, 9, 2), d = 2)), list(1:3, 4L, 5:6, 7L))
})

test_that("points that workers can read do not pass the master, and an operator sends none again", {
  wide <- utils::removeSource(function(shard) matrix(cos(seq_len(8000) * shard), 1000, 8))
  environment(wide) <- globalenv() # that of the test would travel with it
  data <- flash_data(wide, workers, shards = 6)
  points <- 8 * data$n * data$d
  fit <- flash_kde(data, "sdkde", bandwidth = 1)
  expect_identical(sum(diagnostics(fit)$workers$rows), 6000)
  expect_lt(bytes_of(diagnostics(fit)), 0.2 * points)
  # and debiased ones stay where they have come about
  expect_identical(sort(unique(owners_of(pool_of(workers), fit$debiased))), 1:3)
  # points of this session go to each worker once
  op <- kernel_operator(flash_data(wide(1), workers, shard_rows = 300), bandwidth = 1, tol = 0)
  sent <- lapply(1:3, \(i) {
    op %*% rep(1, 1000)
    bytes_of(diagnostics(op))
  })
  expect_gt(sent[[1]] - sent[[2]], 1.95 * 64000)
  expect_lt(sent[[3]], 1.01 * sent[[2]])
  # nor targets of this session
  op <- kernel_operator(data, wide(1), bandwidth = 1, tol = 0)
  sent <- lapply(1:2, \(i) {
    op %*% rep(1, data$n)
    bytes_of(diagnostics(op))
  })
  expect_gt(sent[[1]] - sent[[2]], 2.9 * 64000)
})

test_that("to a tolerance shards meet those near them where that moves less, and a plan says so", {
  sum_on_cpus()
  n <- 6000
  u <- cbind(seq_len(n) / n, (seq_len(n) * 0.569840291) %% 1)
  b <- cos(seq_len(n)) * 2^(seq_len(n) %/% 1000)
  exact <- list(
    kernel_sum(u, bandwidth = 0.005, tol = 0), kernel_sum(u, u[1:2000, ] + 0.01, b, bandwidth = 0.005, tol = 0),
    kernel_sum(u, bandwidth = 0.001, kernel = "matern52", tol = 0), predict(flash_kde(u, "sdkde", bandwidth = 0.005))
  )
  exact[[5]] <- exact[[4]]
  absolute <- kernel_sum(u, u[1:2000, ] + 0.01, abs(b), bandwidth = 0.005, tol = 0)
  scale <- c(max(exact[[1]]), max(absolute), 1, max(exact[[4]]), max(exact[[4]]))
  found <- alike(function(cluster) {
    data <- flash_data(u, cluster, shard_rows = 400)
    others <- flash_data(u[1:2000, ] + 0.01, cluster, shard_rows = 500)
    own <- kernel_sum(data, bandwidth = 0.005, tol = 1e-6)
    expect_match(diagnostics(own)$plan, "^shards near each other exchanged: .*; grids added: ")
    matern <- kernel_sum(data, bandwidth = 0.001, kernel = "matern52", tol = 1e-6)
    expect_match(diagnostics(matern)$plan, "^shards near.*; no grid")
    fit <- flash_kde(data, "sdkde", bandwidth = 0.005)
    kept <- predict(fit, tol = 1e-6, collect = FALSE)
    list(own, kernel_sum(data, others, b, bandwidth = 0.005, tol = 1e-6), matern, predict(fit, tol = 1e-6), kept[seq_len(n), 1])
  }, list(NULL, workers[1], workers))
  errors <- mapply(\(a, b) max(abs(a - b)), found, exact) / scale
  expect_lt(max(errors), 1e-6)
  # some sources are left out
  expect_gt(max(errors[1:3]), 0)
  data <- flash_data(u, workers, shard_rows = 400)
  wide <- kernel_sum(data, bandwidth = 0.1, tol = 1e-6)
  expect_match(diagnostics(wide)$plan, "most shards are within reach|all shards sent")
  exact <- kernel_sum(u, bandwidth = 0.1, tol = 0)
  expect_lt(max(abs(wide - exact)), 1e-6 * max(exact))
})

test_that("a function that gives other points each time is told so", {
  made <- flash_data(\(shard) matrix(stats::runif(20), 10), workers, shards = 6)
  expect_error(kernel_sum(made, bandwidth = 1, tol = 0), "same points.*shard.*seed", class = "flashkernel_error_argument")
})

test_that("what is far is told by boxes", {
  box <- rbind(c(0, 0, 1, 2), c(3, 0, 4, 1), c(3, 6, 5, 7), c(Inf, Inf, -Inf, -Inf))
  expect_equal(box_distances(box, box)[1:3, 1:3], cbind(c(0, 2, sqrt(20)), c(2, 0, 5), c(sqrt(20), 5, 0)))
  expect_identical(box_distances(box, box)[4, 1:3], rep(Inf, 3))
  # of a full factor no distance is more than that of the points
  L <- t(chol(matrix(c(2, 0.9, 0.9, 0.5), 2)))
  apart <- box_distances(whiten_box(box[1, , drop = FALSE], L), whiten_box(box[3, , drop = FALSE], L))
  expect_lte(apart, min(sqrt(colSums(solve(L, t(as.matrix(expand.grid(2:5, 4:7))))^2))))
})

test_that("values go to files, one of each shard, which are data again", {
  folder <- tempfile()
  on.exit(unlink(folder, recursive = TRUE))
  data <- read_here(workers)
  fit <- flash_kde(data, "kde", bandwidth = 0.3)
  there <- predict(fit, type = "log_density", loo = TRUE, collect = folder)
  expect_identical(list.files(folder), sprintf("values-%05d.rds", 1:9))
  values <- predict(fit, type = "log_density", loo = TRUE)
  expect_identical(there[1:900, ][, "log_density"], values)
  again <- flash_data(there$recipe$paths, workers, reader = readRDS)
  expect_identical(summary(again), summary(there))
  expect_identical(readRDS(file.path(folder, "values-00002.rds"))[, 1], values[101:200])
  expect_error(predict(fit, x, collect = folder), "flash_data", class = "flashkernel_error_argument")
  expect_error(predict(fit, collect = c("a", "b")), "one folder", class = "flashkernel_error_argument")
})

test_that("by weights rows are drawn where they are", {
  data <- read_here(workers)
  some <- data_sample(data, 200)
  expect_identical(nrow(some), 200L)
  expect_true(all(paste(some[, 1]) %in% paste(x[w > 0, 1])))
  expect_identical(data_sample(read_here(NULL), 200), some)
  expect_identical(anyDuplicated(data_sample(data)), 0L)
  # of two sides with weights 1 and 3
  two <- flash_data(\(shard) list(x = cbind(rep(shard, 50)), weights = rep(2 * shard - 1, 50)), workers, shards = 2)
  set.seed(1)
  expect_equal(mean(draw_data(two, 4000)), 1.75, tolerance = 0.02)
  expect_equal(mean(simulate(flash_kde(two, "kde", bandwidth = 0.01), 4000, seed = 1)$x), 1.75, tolerance = 0.02)
})

parallel::stopCluster(workers)

test_that("a worker that is killed while shards meet shards loses nothing", {
  flag <- tempfile()
  workers <- parallel::makeCluster(3)
  on.exit(try(parallel::stopCluster(workers[c(1, 3)]), silent = TRUE))
  pid <- pids_of(workers)[2]
  make <- function(shard) {
    if (Sys.getpid() == pid && file.exists(flag)) tools::pskill(pid, 9)
    x[100 * (shard - 1) + 1:100, ]
  }
  replace_in_package("NUMBERS_OF_BLOCK", 2 * 350)
  known <- flash_kde(flash_data(make, shards = 9), "sdkde", bandwidth = 0.3)
  data <- flash_data(make, workers, shards = 9)
  file.create(flag)
  # at the first block that it has to read
  expect_lost(fit <- flash_kde(data, "sdkde", bandwidth = 0.3))
  values <- predict(fit)
  expect_identical(values, predict(known))
  # debiased points that were on it are debiased again, while others ask for them
  tools::pskill(pids_of(workers[3]), 9)
  expect_lost(expect_identical(predict(fit), values))
})

test_that("workers that keep nothing are lent it with each request", {
  skip_if_not_installed("future")
  before <- future::plan("sequential")
  on.exit(future::plan(before))
  fit_to <- \(cluster) flash_kde(flash_data(x, cluster, shard_rows = 300), "sdkde", bandwidth = 0.3)
  alike(\(cluster) predict(fit_to(cluster)), list(NULL, "future"))
})

test_that("clusters below others are lent what they lack, too", {
  skip_on_os("windows")
  masters <- parallel::makeForkCluster(2)
  nested <- nested_cluster(masters, \(i) parallel::makeCluster(2, port = 12000 + Sys.getpid() %% 18000))
  on.exit(parallel::stopCluster(nested))
  fit_to <- \(cluster) flash_kde(flash_data(x, cluster, shard_rows = 100), "sdkde", bandwidth = 0.3)
  alike(\(cluster) predict(fit_to(cluster)), list(NULL, nested))
})
