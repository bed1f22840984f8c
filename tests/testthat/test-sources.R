# Sources as values: groups within groups, squares, and what a small call costs.

x <- example_points(300, 2)
y <- example_points(40, 2) / 2
factors <- rep_len(c(1, 2, sqrt(2)), 300)
weights <- seq(0, 2, length.out = 300)
control <- run_control(settle_control(NULL))
L <- t(chol(example_bandwidth(2)))

logs <- function(sources, at, loo = FALSE) log_sum(sources, at, PLAIN_FACTOR, loo, control)$log_abs
scores <- function(sources, at, loo = FALSE) score_sum(sources, at, PLAIN_FACTOR, loo, NULL, control)$score

test_that("groups within groups are the sums of all: pieces of a file, levels and widths", {
  skip_if_not_installed("bigmemory")
  options(flashkernel.chunk_bytes = 8 * 2 * 70)
  on.exit(options(flashkernel.chunk_bytes = NULL))
  columns <- list(
    a = list(kind = "unordered", levels = c("u", "v", "w"), kernel = "aitchisonaitken"),
    b = list(kind = "ordered", levels = 1:3, kernel = "liracine")
  )
  codes <- cbind(a = rep_len(c(1, 2, 3, 2), 300), b = rep_len(c(3, 1, 2), 300))
  discrete <- list(columns = columns, lambda = c(a = 0.3, b = 0.4), codes = codes)
  for (levels in list(NULL, discrete)) {
    in_memory <- sum_sources(x, weights, L, factors = factors, discrete = levels)
    in_pieces <- sum_sources(big_matrix(x), weights, L, factors = factors, discrete = levels)
    at <- cbind(y, codes[1:40, if (is.null(levels)) 0 else 1:2])
    expect_equal(logs(in_pieces, at), logs(in_memory, at), tolerance = 1e-13)
    expect_equal(scores(in_pieces, at), scores(in_memory, at), tolerance = 1e-11)
    expect_equal(logs(squared(in_pieces), at), logs(squared(in_memory), at), tolerance = 1e-13)
  }
  in_memory <- sum_sources(x, weights, L, factors = factors)
  in_pieces <- sum_sources(big_matrix(x), weights, L, factors = factors)
  expect_equal(logs(in_pieces, NULL, TRUE), logs(in_memory, NULL, TRUE), tolerance = 1e-13)
  expect_equal(scores(in_pieces, NULL, TRUE), scores(in_memory, NULL, TRUE), tolerance = 1e-11)
})

test_that("scores without the own point are those of the others, in one dimension, too", {
  one <- sum_sources(x[, 1, drop = FALSE], weights, matrix(0.4), factors = factors)
  others <- vapply(2:9, \(i) scores(some_sources(one, -i), x[i, 1, drop = FALSE])[1], 0)
  expect_equal(scores(one, NULL, TRUE)[2:9], others, tolerance = 1e-10)
})

test_that("squared sources are the sums of squares, whatever the sources are", {
  u <- whiten(x, L)
  v <- whiten(y, L)
  q <- outer(seq_len(40), seq_len(300), Vectorize(\(j, i) sum((v[j, ] - u[i, ])^2)))
  term <- \(f, w) t(t(exp(-t(t(q) / f^2) / 2)) * w / f^2)^2
  for (w in list(weights, 10^seq(-170, 170, length.out = 300))) {
    for (f in list(NULL, factors)) {
      got <- logs(squared(sum_sources(x, w, L, factors = f)), y)
      top <- max(w)
      want <- log(rowSums(term(if (is.null(f)) 1 else f, w / top))) + 2 * log(top)
      expect_equal(got, want, tolerance = 1e-12)
    }
  }
})

test_that("a default control and a sum of plain points call three functions and two", {
  sources <- sum_sources(x, NULL, L)
  expect_s3_class(sources, c("engine_sources", "memory_sources"), exact = TRUE)
  before <- session$watched
  on.exit(session$watched <- before)
  session$watched <- FALSE
  plain <- \() log_sum(sources, y, PLAIN_FACTOR, FALSE, start_run(settle_control(NULL)))
  environment(plain) <- list2env(list(sources = sources, y = y), parent = asNamespace("flashkernel"))
  plain()
  wanted <- c("settle_control", "start_run", "run_control", "log_sum", "log_sum.engine_sources")
  expect_setequal(functions_called(plain), wanted)
})

test_that("kernel_sum() has logarithms and scores, by weights", {
  far <- rbind(y, 60)
  sums <- kernel_sum(x, far[1:40, ], bandwidth = tcrossprod(L), weights = weights, tol = 0)
  expect_equal(kernel_sum(x, far, bandwidth = tcrossprod(L), weights = weights, type = "log")[1:40], log(sums))
  got <- kernel_sum(x, far, bandwidth = tcrossprod(L), weights = weights, type = "log")
  expect_true(all(is.finite(got)))
  expect_identical(diagnostics(got)$engine, "exact")
  score <- kernel_sum(x, far, bandwidth = tcrossprod(L), weights = 1e300 * weights, type = "score")
  expect_equal(score, scores(sum_sources(x, weights, L), far), tolerance = 1e-12)
  expect_argument_error(kernel_sum(x, b = 1:300, bandwidth = 1, type = "log"), "b")
  expect_argument_error(kernel_sum(x, kernel = "cauchy", bandwidth = 1, type = "score"), "kernel")
  expect_argument_error(kernel_sum(\() NULL, y, bandwidth = 1, type = "score"), "x")
})
