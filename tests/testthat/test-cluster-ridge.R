# kernel_ridge() on rows that stay on workers: against the same rows in memory, the same bits on any number of workers, and how
# much travels.
workers <- parallel::makeCluster(3)
n <- 800
x <- cluster_points(n)
noise <- stats::qnorm((seq_len(n) * 0.569840291) %% 1)
truth <- sin(2 * x[, 1]) + x[, 2] + noise / 4
w <- 1 + seq_len(n) %% 3
three <- cut(truth, c(-Inf, -0.5, 0.5, Inf), labels = c("low", "middle", "high"))
two <- ifelse(truth > 0, "yes", "no")
at <- x[1:9, ] + 0.1

fit_to <- function(...) {
  set.seed(1)
  ridge_with(..., bandwidth = 1, centers = 15, lambda = 1e-2)
}
shards_of <- function(response, cluster = NULL, rows = 100) {
  flash_data(data.frame(x, y = response, w = w), cluster, shard_rows = rows, response = "y", weights = "w")
}

test_that("fits have the same bits on any number of workers", {
  for (response in list(truth, two)) {
    alike(\(cluster) coef(fit_to(shards_of(response, cluster))), list(NULL, workers[1], workers[1:2], workers))
  }
})

test_that("they are those of the rows in memory, and so is what is known of them", {
  for (response in list(truth, three, two, truth > 0)) {
    known <- fit_to(x, response, weights = w)
    fit <- fit_to(shards_of(response))
    expect_identical(fit$classes, known$classes)
    type <- if (known$family$squared) "link" else "prob"
    expect_equal(predict(fit, at, type = type), predict(known, at, type = type), tolerance = 1e-3, ignore_attr = TRUE)
    expect_equal(deviance(fit), deviance(known), tolerance = 1e-4)
    expect_equal(fit_error(fit), fit_error(known), tolerance = 1e-4)
    expect_equal(logLik(fit), logLik(known), tolerance = 1e-4)
    expect_equal(
      predict(fit, at, type = "link", se.fit = TRUE)$se.fit, predict(known, at, type = "link", se.fit = TRUE)$se.fit,
      tolerance = 1e-3, ignore_attr = TRUE
    )
    expect_equal(residuals(fit), residuals(known), tolerance = 1e-2, ignore_attr = TRUE)
  }
})

# The kernels are so smooth that a fit depends on the device of its products.
test_that("smooth fits to data on workers are those of the rows in memory, with weights and at rows that stay there", {
  x <- cluster_points(1200)
  y <- x[1:7, ] + 0.25
  w <- seq_len(1200) %% 5 + 1
  truth <- sin(x[, 1]) + x[, 2]
  there <- flash_data(data.frame(x, y = truth), workers, shard_rows = 300, response = "y")
  fit_to <- function(..., cluster = NULL) {
    set.seed(1)
    kernel_ridge(
      ..., bandwidth = 1, centers = 40, lambda = 1e-4, solver = list(tolerance = 1e-10, iterations = 200),
      control = flash_control(backend = "cpu", cluster = cluster)
    )
  }
  expect_equal(predict(fit_to(there), y), predict(fit_to(x, truth), y), tolerance = 1e-5)
  weighted <- fit_to(there, weights = w)
  known <- fit_to(x, truth, weights = w)
  expect_equal(predict(weighted, y), predict(known, y), tolerance = 1e-5)
  expect_equal(predict(weighted, there), predict(known, x), tolerance = 1e-5)
  expect_equal(predict(fit_to(x, truth, weights = w, cluster = workers), y), predict(known, y), tolerance = 1e-5)
})

test_that("so are those with weights of classes, an offset, two numbers for classes, and a start", {
  offset <- x[, 1] / 3
  known <- fit_to(x, two, class_weights = "balanced", weights = w, offset = offset)
  fit <- fit_to(flash_data(x, workers, shard_rows = 100), two, class_weights = "balanced", weights = w, offset = offset)
  odds <- \(fit) predict(fit, at, offset = 0 * 1:9, type = "link")
  expect_equal(odds(fit), odds(known), tolerance = 1e-4)
  known <- fit_to(x, truth > 0, family = "binomial", weights = w)
  fit <- fit_to(shards_of(as.numeric(truth > 0), workers), family = "binomial")
  expect_equal(predict(fit, at), predict(known, at), tolerance = 1e-4)
  again <- kernel_ridge(shards_of(as.numeric(truth > 0), workers), family = "binomial", solver = list(start = fit))
  expect_equal(predict(again, at), predict(fit, at), tolerance = 1e-4)
})

test_that("nothing of the size of the rows travels", {
  bytes <- function(repeats, family) {
    many <- rep(seq_len(n), repeats)
    response <- if (family == "gaussian") truth else two
    frame <- data.frame(x, y = response, w = w)[many, ]
    there <- flash_data(frame, workers, shard_rows = 100 * repeats, response = "y", weights = "w")
    set.seed(1)
    fit <- kernel_ridge(there, bandwidth = 1, centers = 15, lambda = 1e-2, solver = list(iterations = 4))
    sum(fit$workers$bytes) / sum(fit$workers$requests)
  }
  for (family in c("gaussian", "binomial")) expect_lt(bytes(8, family) / bytes(1, family), 1.1)
})

test_that("an iteration is one request to each worker", {
  there <- shards_of(truth, workers)
  requests <- function(steps) {
    set.seed(1)
    sum(kernel_ridge(there, bandwidth = 1, centers = 30, lambda = 1e-9, solver = list(tolerance = 1e-30, iterations = steps))$workers$requests)
  }
  expect_equal(requests(9) - requests(4), 5 * 3)
})

test_that("products that are known to be short are one request, however many pairs they have", {
  replace_in_package("MOST_PAIRS_AT_ONCE", 1)
  there <- flash_data(x, workers[2:3], shard_rows = 20)
  op <- kernel_operator(at, there, bandwidth = 1, tol = 0)
  requests <- \() {
    normal_product(op, as.double(1:9))
    diagnostics(op)$workers$requests
  }
  first <- requests()
  expect_gt(min(first), 1)
  expect_identical(requests(), c(1, 1))
})

test_that("a worker that is killed in the middle of a logistic fit changes no bit", {
  known <- fit_to(shards_of(three))
  own <- parallel::makeCluster(2)
  on.exit(try(parallel::stopCluster(own[2]), silent = TRUE))
  pid <- pids_of(own[1])
  there <- shards_of(three, own)
  steps <- 0
  before <- line_search
  replace_in_package("line_search", function(...) {
    steps <<- steps + 1
    if (steps == 3) tools::pskill(pid, 9)
    before(...)
  })
  expect_lost(fit <- fit_to(there))
  expect_identical(coef(fit), coef(known))
  expect_identical(fit$workers$lost, c(TRUE, FALSE))
})

test_that("rows in memory go to the workers, and the fit is as one in memory", {
  replace_in_package("LEAST_PAIRS_FOR_CLUSTER", 1e3)
  for (response in list(truth, three)) {
    known <- fit_to(x, response, weights = w, validation = 0.25)
    fits <- lapply(list(workers[1], workers), \(cluster) {
      fit_to(x, response, weights = w, validation = 0.25, control = flash_control(cluster = cluster))
    })
    expect_identical(coef(fits[[1]]), coef(fits[[2]]))
    expect_equal(fitted(fits[[2]]), fitted(known), tolerance = 5e-3)
    expect_equal(predict(fits[[2]], at, type = "link"), predict(known, at, type = "link"), tolerance = 5e-3)
    expect_gt(min(fits[[2]]$workers$requests), 10)
  }
})

test_that("rows to hold out are drawn by shard, and errors at them are merged", {
  for (response in list(truth, two)) {
    fits <- lapply(list(NULL, workers), \(cluster) fit_to(shards_of(response, cluster), validation = 0.25))
    expect_identical(fits[[1]]$trace$validation, fits[[2]]$trace$validation)
    expect_identical(coef(fits[[1]]), coef(fits[[2]]))
    expect_identical(fits[[2]]$n, 600)
    error <- min(fits[[2]]$trace$validation)
    there <- shards_of(response, workers)
    same <- fit_to(there, validation = there)$trace$validation
    known <- fit_to(x, response, weights = w, validation = list(x = x, y = response))$trace$validation
    expect_equal(same[1:3], known[1:3], tolerance = 1e-4)
    expect_lt(abs(error / min(known) - 1), 0.6)
  }
})

test_that("tune_ridge() chooses on workers as in this session", {
  tuned <- lapply(list(NULL, workers), \(cluster) {
    set.seed(1)
    there <- shards_of(truth, cluster)
    tune_ridge(there, lambda = c(1, 1e-3), kernel = "gaussian", bandwidth = 1, centers = 15, rows = 60)
  })
  expect_identical(tuned[[1]]$search$held_out, tuned[[2]]$search$held_out)
  expect_identical(coef(tuned[[1]]), coef(tuned[[2]]))
  expect_identical(tuned[[2]]$lambda, 1e-3)
})

test_that("predictions stay where the rows are", {
  there <- shards_of(three, workers)
  fit <- fit_to(there)
  kept <- predict(fit, there, type = "prob", collect = FALSE)
  expect_identical(dim(kept), c(800, 3))
  expect_identical(colnames(kept), levels(three))
  expect_equal(kept[1:5, ], predict(fit, x[1:5, ], type = "prob"), tolerance = 1e-10)
  expect_equal(predict(fit, collect = FALSE)[1:9, 1, drop = TRUE], as.vector(as.integer(predict(fit, x[1:9, ]))))
  expect_error(predict(fit, at, collect = FALSE), "collect", class = "flashkernel_error_argument")
  expect_error(predict(fit, se.fit = TRUE, collect = FALSE), "collect", class = "flashkernel_error_argument")
})

test_that("summaries and figures go by sums and by some of the rows", {
  fit <- fit_to(shards_of(truth, workers))
  known <- fit_to(x, truth, weights = w)
  expect_equal(summary(fit)$residuals, summary(known, effects = FALSE)$residuals, tolerance = 1e-3)
  shown <- fitted(known)[spread_rows(n, 100)][round(seq(1, 100, length.out = 50))]
  expect_equal(row_frame(fit_to_show(fit, 100), 50)$fitted, shown, tolerance = 1e-3)
  expect_output(print(diagnostics(fit)), "Workers: 3 on 1 host")
})

test_that("exact fits have their products on the workers and the factor of all rows here", {
  for (name in c("is_factorised", "is_fast")) replace_in_package(name, \(...) FALSE)
  replace_in_package("passes_apart", \(system) 2)
  replace_in_package("LEAST_PAIRS_FOR_CLUSTER", 1e3)
  with_factor <- factor_whole
  factors <- 0
  replace_in_package("factor_whole", \(system, run) {
    factors <<- factors + 1
    with_factor(system, run)
  })
  fit <- \(x, ...) ridge_with(x, truth, bandwidth = 1, lambda = 1e-7, exact = TRUE, tolerance = 1e-9, ...)
  alone <- fit(x)
  for (shared in list(fit(flash_data(x, workers, shard_rows = 300)), fit(x, control = flash_control(cluster = workers)))) {
    expect_equal(coef(shared), coef(alone), tolerance = 1e-7)
    expect_gt(sum(shared$workers$rows), 3 * n)
  }
  expect_gte(factors, 3)
})

test_that("what cannot be is named", {
  refused <- \(work, arg) expect_error(work, arg, class = "flashkernel_error_argument")
  there <- shards_of(three, workers)
  refused(fit_to(there, validation = 0.25, checkpoint = tempfile()), "validation")
  refused(fit_to(there, validation = 0.0001), "validation")
  refused(kernel_ridge(shards_of(truth, workers), family = "binomial", centers = 5), "two different")
  mixed <- function(shard) list(x = x[1:5, ], response = if (shard == 1) 1:5 + 0 else letters[1:5])
  refused(flash_data(mixed, workers, shards = 2), "response")
  refused(kernel_ridge(three ~ a, data = there), "data")
  refused(fit_to(there, validation = flash_data(x)), "without a response")
  lacking <- flash_data(data.frame(x, y = factor(three, levels = c(levels(three), "other"))), workers, response = "y")
  refused(kernel_ridge(lacking, centers = 5), "none of .other.")
})

parallel::stopCluster(workers)
