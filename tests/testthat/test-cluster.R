# One cluster for all tests here; its workers load the package that is tested.
workers <- parallel::makeCluster(2)
x <- cluster_points(1200)
w <- seq_len(1200) %% 5
y <- x[1:7, ] + 0.25
clusters <- list(NULL, workers[1], workers)

literal <- function(y, x, h, w = rep(1, nrow(x))) {
  apply(y, 1, \(at) sum(w * exp(-colSums((t(x) - at)^2) / (2 * h^2))))
}

test_that("sums over shards are the literal sums, with the same bits here and on any number of workers", {
  sums <- alike(\(cluster) kernel_sum(flash_data(x, cluster, shard_rows = 100), y, bandwidth = 0.4, tol = 0), clusters)
  expect_equal(sums, literal(y, x, 0.4), tolerance = 1e-13)
  there <- flash_data(x, workers, shard_rows = 100)
  b <- cbind(w, rev(w))
  expect_equal(
    kernel_sum(there, y, b, bandwidth = 0.4, tol = 0),
    cbind(w = literal(y, x, 0.4, w), literal(y, x, 0.4, rev(w))), tolerance = 1e-13, ignore_attr = TRUE
  )
  expect_equal(kernel_sum(there, bandwidth = 0.4, tol = 0), literal(x, x, 0.4), tolerance = 1e-13)
})

test_that("shards depend on the rows alone, and what they are merged by is a tree", {
  tree <- \(node) fold_tree(node, as.character, \(a, b) paste0("(", a, b, ")"))
  expect_identical(tree(c(1, 7)), "(((12)(34))((56)7))")
  whole <- tree(c(1, 7))
  # from any nodes that are there already
  for (cut in list(7, 3:7, c(1, 5), c(2, 3, 6))) {
    pieces <- split(1:7, cumsum(1:7 %in% cut))
    nodes <- unlist(lapply(pieces, tree_cover, within = rep(1, 7), count = 7), recursive = FALSE)
    expect_identical(unlist(lapply(nodes, node_shards), use.names = FALSE), 1:7)
    last <- numeric(7)
    for (node in nodes) last[node[1]] <- node[2]
    values <- \(first) tree(c(first, last[first]))
    expect_identical(fold_tree(c(1, 7), values, \(a, b) paste0("(", a, b, ")"), \(node) last[node[1]] == node[2]), whole)
  }
  cover <- \(shards, within = rep(1, 7)) unname(tree_cover(shards, within, 7))
  expect_identical(cover(c(1:4, 7)), list(c(1, 4), c(7, 7)))
  expect_identical(cover(5:7), list(c(5, 7)))
  expect_identical(cover(5:7, 1:7), list(c(5, 5), c(6, 6), c(7, 7)))
  expect_identical(largest_node(1:7, rep(1, 7), 7, most = 3), c(1, 2))
})

test_that("data know their size, columns, moments and rows", {
  data <- flash_data(cbind(x, w = w), workers, shard_rows = 500, weights = "w")
  expect_identical(dim(data), dim(x) + 0)
  expect_identical(colnames(data), c("a", "b"))
  mean <- colSums(x * w) / sum(w)
  sd <- sqrt(colSums((x - rep(mean, each = 1200))^2 * w) / (sum(w) - 1))
  expect_equal(summary(data), rbind(min = apply(x, 2, min), mean = mean, sd = sd, max = apply(x, 2, max)))
  expect_identical(data[c(1100, 3, 501), ], x[c(1100, 3, 501), ])
  set.seed(1)
  drawn <- sample(data, 5)
  set.seed(1)
  expect_identical(drawn, x[sample(1200, 5), ])
  expect_output(print(data), "3 shards on 2 workers: 1,200 rows, 2 columns.*Also: weights")
})

test_that("fits to data on workers are those of the points, for each estimator, with weights", {
  sum_on_cpus()
  h <- c(0.3, 0.5)
  there <- flash_data(cbind(x, w = w), workers, shard_rows = 500, weights = "w")
  for (estimator in c("kde", "sdkde", "laplace")) {
    fit <- flash_kde(there, estimator, bandwidth = h)
    known <- flash_kde(x, estimator, bandwidth = h, weights = w)
    expect_equal(predict(fit, y, se.fit = TRUE), predict(known, y, se.fit = TRUE), tolerance = 1e-12)
    expect_equal(predict(fit, y, type = "score"), predict(known, y, type = "score"), tolerance = 1e-10)
    expect_equal(predict(fit), predict(known), tolerance = 1e-12)
    expect_equal(suppressWarnings(logLik(fit)), suppressWarnings(logLik(known)), tolerance = 1e-12)
  }
  expect_equal(diagnostics(fit)$effective_size, sum(w)^2 / sum(w^2))
  expect_error(hdr_level(fit), "flash_data", class = "flashkernel_error_argument")
  automatic <- flash_kde(there, "kde")
  expect_equal(automatic$selector, "auto")
})

test_that("a reader of files and a function make shards on the workers", {
  files <- vapply(1:3, \(i) tempfile(fileext = ".csv"), "")
  on.exit(unlink(files))
  rows <- split(seq_len(1200), rep(1:3, c(200, 700, 300)))
  for (i in 1:3) utils::write.csv(data.frame(x[rows[[i]], ], y = rows[[i]]), files[i], row.names = FALSE)
  data <- flash_data(files, workers, reader = utils::read.csv, response = "y")
  expect_identical(data$rows, c(200, 700, 300))
  expect_equal(data[c(1, 1000), ], x[c(1, 1000), ], tolerance = 1e-14)
  made <- flash_data(function(shard) matrix(shard, 3, 2), workers, shards = 4)
  expect_equal(made[c(1, 4, 12), 1, drop = TRUE], c(1, 2, 4))
  expect_error(flash_data(files), "reader", class = "flashkernel_error_argument")
  bad <- files
  bad[2] <- tempfile()
  error <- expect_error(
    suppressWarnings(flash_data(bad, workers, reader = utils::read.csv)), "shard 2.*cannot be read.*on worker",
    class = "flashkernel_error_argument"
  )
  expect_identical(error$arg, "reader")
  expect_s3_class(error$parent, "simpleError")
  expect_identical(conditionMessage(error$parent), "cannot open the connection")
  fails <- \(x, shard) stop("boom")
  expect_error(by(made, FUN = fails), "^`FUN` failed at shard .*boom", class = "flashkernel_error_argument")
})

test_that("a big.matrix in a file is read by the workers, one in memory is sent to them", {
  skip_if_not_installed("bigmemory")
  folder <- tempfile()
  dir.create(folder)
  on.exit(unlink(folder, recursive = TRUE))
  backed <- bigmemory::as.big.matrix(x, backingfile = "x", descriptorfile = "x.desc", backingpath = folder)
  sums <- kernel_sum(flash_data(x, shard_rows = 100), y, bandwidth = 0.4, tol = 0)
  there <- flash_data(backed, workers, shard_rows = 100)
  expect_identical(there$recipe$kind, "backed")
  expect_identical(kernel_sum(there, y, bandwidth = 0.4, tol = 0), sums)
  sent <- flash_data(bigmemory::as.big.matrix(x), workers, shard_rows = 100)
  expect_identical(kernel_sum(sent, y, bandwidth = 0.4, tol = 0), sums)
})

test_that("with `cluster` sums of points in memory are those without, and the same on one worker and two", {
  sum_on_cpus()
  replace_in_package("LEAST_PAIRS_FOR_CLUSTER", 1e3)
  results <- function(cluster) {
    control <- flash_control(cluster = cluster)
    fit <- flash_kde(x, "sdkde", bandwidth = 0.4, control = control)
    plain <- flash_kde(x, "kde", bandwidth = 0.4, control = control, adaptive = "abramson", weights = w)
    adaptive <- flash_kde(x, "sdkde", bandwidth = 0.4, control = control, adaptive = rep(1:2, 600), weights = w)
    list(
      kernel_sum(x, y, w, bandwidth = 0.4, tol = 0, control = control)[1:7],
      predict(fit, y), predict(plain, y), predict(plain, loo = TRUE), predict(plain, type = "score"),
      predict(fit, loo = TRUE), predict(adaptive, loo = TRUE)
    )
  }
  found <- alike(results, clusters[-1])
  expect_equal(found[[1]], literal(y, x, 0.4, w), tolerance = 1e-10)
  expect_equal(found, results(NULL), tolerance = 1e-10)
})

test_that("predictions stay on the workers where they are asked to, at the points of the fit and at others", {
  sum_on_cpus()
  there <- flash_data(x, workers, shard_rows = 500)
  others <- flash_data(y, workers, shard_rows = 3)
  known <- flash_kde(x, "kde", bandwidth = 0.4)
  remote <- flash_kde(there, "kde", bandwidth = 0.4)
  for (fit in list(known, remote)) {
    expect_equal(predict(fit, others), predict(known, y), tolerance = 1e-12)
    kept <- predict(fit, others, type = "log_density", se.fit = TRUE, collect = FALSE)
    expect_identical(colnames(kept), c("log_density", "se"))
    expected <- predict(known, y, type = "log_density", se.fit = TRUE)
    expect_equal(kept[1:7, ], cbind(log_density = expected$fit, se = expected$se.fit), tolerance = 1e-12)
    expect_equal(predict(fit, others, type = "score"), predict(known, y, type = "score"), tolerance = 1e-10)
  }
  kept <- predict(remote, collect = FALSE)
  expect_equal(unlist(by(kept, FUN = \(x, shard) sum(x))), as.vector(rowsum(predict(known), rep(1:3, c(500, 500, 200)))))
  expect_error(predict(known, y, collect = FALSE), "collect", class = "flashkernel_error_argument")
})

test_that("operators multiply with data on workers on either side, and normal products are those of the matrix", {
  there <- flash_data(x, workers, shard_rows = 500)
  K <- exp(-as.matrix(dist(rbind(y, x)))[1:7, -(1:7)]^2 / (2 * 0.4^2))
  v <- stats::qnorm(seq_len(1200) / 1201)
  a <- seq_len(7) - 3
  columns <- kernel_operator(there, y, bandwidth = 0.4, tol = 0)
  rows <- kernel_operator(y, there, bandwidth = 0.4, tol = 0)
  expect_equal(as.vector(columns %*% v), as.vector(K %*% v), tolerance = 1e-12)
  expect_equal(as.vector(t(columns) %*% a), as.vector(crossprod(K, a)), tolerance = 1e-12)
  expect_equal(as.vector(rows %*% a), as.vector(crossprod(K, a)), tolerance = 1e-12)
  expect_equal(as.vector(t(rows) %*% v), as.vector(K %*% v), tolerance = 1e-12)
  expect_equal(as.vector(normal_product(rows, a, v, w)), as.vector(K %*% (w * (crossprod(K, a) + v))), tolerance = 1e-12)
  expect_equal(
    as.vector(normal_product(columns, v, a)), as.vector(crossprod(K, K %*% v + a)), tolerance = 1e-12
  )
  expect_equal(rows[3, 5], K[5, 3], tolerance = 1e-12)
  record <- diagnostics(rows)
  expect_identical(record$workers$requests > 0, c(TRUE, TRUE))
  expect_output(print(record), "Workers: 2 on 1 host")
})

test_that("selectors choose by a sample, for all rows", {
  there <- flash_data(x, workers, shard_rows = 500)
  expect_equal(kde_bandwidth(there, "silverman", "kde"), kde_bandwidth(x, "silverman", "kde"))
  replace_in_package("data_sample", \(data, most) x[1:300, ])
  expect_equal(kde_bandwidth(there, "silverman", "kde"), kde_bandwidth(x[1:300, ], "silverman", "kde") * (300 / 1200)^(1 / 6))
  some <- kde_bandwidth(x[1:300, ], "auto", "kde", structure = "full")
  expect_equal(as.vector(kde_bandwidth(there, "auto", "kde", structure = "full")), as.vector(some) * (1 / 4)^(1 / 3))
})

test_that("to a tolerance grids of the shards are added: within it, and the same bits on any number of workers", {
  sides <- 3e4
  u <- cbind((seq_len(sides) * 0.754877666) %% 1, (seq_len(sides) * 0.569840291) %% 1)
  b <- cos(seq_len(sides)) * 2^(seq_len(sides) %/% 1000) # chunks of other scales
  at <- u[seq(1, sides, by = 300), ] + 0.01
  local_method("grid")
  found <- alike(function(cluster) {
    data <- flash_data(u, cluster, shard_rows = 4000)
    ones <- kernel_sum(data, at, bandwidth = 0.05, tol = 1e-6)
    expect_match(diagnostics(ones)$reason_engine, "one grid")
    fit <- flash_kde(data, "kde", bandwidth = 0.05, tol = 1e-6)
    own <- kernel_sum(data, bandwidth = 0.05, tol = 1e-6)
    expect_match(diagnostics(own)$plan, "^grids added: .*within reach")
    expect_lt(diagnostics(own)$tol_achieved, 1e-6)
    expect_identical(diagnostics(own)$pairs, sides^2)
    list(ones, kernel_sum(data, at, b, bandwidth = 0.05, tol = 1e-6), predict(fit)[1:100])
  }, clusters)
  exact <- literal(at, u, 0.05)
  expect_lt(max(abs(found[[1]] - exact)) / max(exact), 1e-6)
  expect_lt(max(abs(found[[2]] - literal(at, u, 0.05, b))) / max(literal(at, u, 0.05, abs(b))), 1e-6)
  exact <- predict(flash_kde(u, "kde", bandwidth = 0.05))
  expect_lt(max(abs(found[[3]] - exact[1:100])) / max(exact), 1e-6)
})

test_that("workers forget data that nobody has any more", {
  held <- \() parallel::clusterCall(workers[1], \() {
    ls(utils::getFromNamespace("session", "flashkernel")$worker$data)
  })[[1]]
  kept <- flash_data(x, workers[1])
  gone <- flash_data(x, workers[1])
  ids <- c(kept$id, gone$id)
  expect_true(all(ids %in% held()))
  rm(gone)
  gc()
  kept[1, ]
  expect_identical(ids %in% held(), c(TRUE, FALSE))
})

test_that("workers are free for other work between computations", {
  expect_free(workers)
})

test_that("arguments that make no sense are named", {
  expect_error(flash_control(cluster = 2), "cluster", class = "flashkernel_error_argument")
  expect_error(flash_control(worker_timeout = -1), "worker_timeout", class = "flashkernel_error_argument")
  expect_error(flash_data(x, weights = "no"), "no", class = "flashkernel_error_argument")
  expect_error(flash_data(function(s) 1), "shards", class = "flashkernel_error_argument")
  there <- flash_data(x, workers)
  expect_error(flash_kde(there, adaptive = TRUE), "adaptive", class = "flashkernel_error_argument")
  # as a worker of another version would say
  pool <- pool_of(workers[2])
  pool$about <- NULL
  here <- Sys.getpid()
  other <- eval(bquote(\() list(version = if (Sys.getpid() == .(here)) "0.2" else "0.0.1", host = "a", cores = 1)))
  replace_in_package("introduce", other)
  expect_error(flash_data(x, workers[2]), "flashkernel 0.2 on all.*0.0.1 on worker 1", class = "flashkernel_error_argument")
})

test_that("a worker whose host does not tell its cores has one thread", {
  silent <- parallel::makeCluster(1)
  replace_in_package("introduce", eval(bquote(\() replace(.(introduce)(), "cores", NA_integer_))))
  there <- flash_data(x, silent, shard_rows = 500)
  expect_identical(pool_of(silent)$about[[1]]$threads, 1L)
  sums <- kernel_sum(flash_data(x, shard_rows = 500), y, bandwidth = 0.4, tol = 0)
  expect_identical(kernel_sum(there, y, bandwidth = 0.4, tol = 0), sums)
  parallel::stopCluster(silent)
})

test_that("a fit whose cluster has ended goes on without", {
  ending <- parallel::makeCluster(1)
  fit <- flash_kde(x, "kde", bandwidth = 0.4, control = flash_control(cluster = ending))
  parallel::stopCluster(ending)
  expect_equal(predict(fit, y), predict(flash_kde(x, "kde", bandwidth = 0.4), y))
  expect_error(flash_control(cluster = ending), "stopped", class = "flashkernel_error_argument")
})

parallel::stopCluster(workers)

test_that("the two sums of points that are left out of a piece share the tolerance", {
  sources <- sum_sources(x, NULL, diag(0.4, 2))
  control <- run_control(settle_control(flash_control(tol = 1e-4)))
  asked <- numeric()
  sum_at <- function(of, at, loo, control) {
    asked <<- c(asked, control$tol)
    log_sum(of, at, PLAIN_FACTOR, loo, control)
  }
  found <- left_out(sources, 101:300, x[101:300, ], control, sum_at)
  expect_identical(asked, c(1e-4, 1e-4) / 2)
  exact <- log_sum(sources, NULL, PLAIN_FACTOR, TRUE, replace(control, "tol", 0))$log_abs
  expect_lt(max(abs(exp(found$log_abs) - exp(exact[101:300]))), 1e-4 * max(exp(exact)))
  asked <- numeric()
  left_out(sources, seq_len(nrow(x)), x, control, sum_at)
  expect_identical(asked, 1e-4)
})

test_that("forked workers, those of snow and the plan of future give the bits of this process", {
  expected <- kernel_sum(flash_data(x, shard_rows = 300), y, bandwidth = 0.4, tol = 0)
  agrees <- function(cluster) {
    expect_identical(kernel_sum(flash_data(x, cluster, shard_rows = 300), y, bandwidth = 0.4, tol = 0), expected)
  }
  if (.Platform$OS.type == "unix") {
    forked <- parallel::makeForkCluster(2)
    on.exit(parallel::stopCluster(forked))
    agrees(forked)
    expect_free(forked)
  }
  if (requireNamespace("future", quietly = TRUE)) {
    before <- future::plan("sequential")
    on.exit(future::plan(before), add = TRUE)
    agrees("future")
  }
})
