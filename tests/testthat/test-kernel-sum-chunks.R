# Points and results that need not fit into memory: functions and big.matrix objects.

x <- example_points(500, 3)
y <- example_points(130, 3, seed = 2)
H <- example_bandwidth(3)
b <- cbind(first = sin(1:500), second = 1:500 / 500)
w <- seq(0, 1, length.out = 500)
matvec <- \(...) plain(kernel_sum_by(..., bandwidth = H, kernel = "matern52", control = flash_control(backend = "cpu")))
whole_sums <- matvec(x, y, b)

test_that("sources from a function give the sums of all of them", {
  for (sizes in list(500, c(1, 499), c(100, 250, 150), rep(50, 10))) {
    expect_within(matvec(chunks_of(x, b, sizes), y), whole_sums, 1e-12)
    expect_within(matvec(chunks_of(x, b[, 1], sizes), y), whole_sums[, 1], 1e-12)
    expect_within(matvec(chunks_of(x, sizes = sizes), y, b), whole_sums, 1e-12)
    expect_within(
      matvec(chunks_of(x, sizes = sizes), y, b, weights = w), matvec(x, y, b, weights = w), 1e-12
    )
    expect_within(matvec(chunks_of(x, sizes = sizes), y), matvec(x, y), 1e-12)
  }
  sums <- matvec(chunks_of(x, b, c(200, 300)), y)
  expect_identical(dimnames(sums), list(NULL, colnames(b)))
  expect_null(dim(matvec(chunks_of(x, b[, 1], 500), y)))
  expect_identical(sums, matvec(chunks_of(x, b, c(200, 300)), y)) # the bits too
})

test_that("chunks may be data frames, or vectors in one dimension", {
  frame <- as.data.frame(x)
  expect_identical(matvec(chunks_of(frame, b, c(200, 300)), y), matvec(chunks_of(x, b, c(200, 300)), y))
  halves <- list(1:10 / 3, 11:20 / 3)
  next_half <- function() {
    chunk <- if (length(halves)) halves[[1]]
    halves <<- halves[-1]
    chunk
  }
  expect_within(
    plain(kernel_sum(next_half, c(0, 3), bandwidth = 1)),
    kernel_sum(1:20 / 3, c(0, 3), bandwidth = 1, tol = 0), 1e-13
  )
})

test_that("a big.matrix is read by rows, as sources, targets and coefficients", {
  big_x <- big_matrix(x)
  big_y <- big_matrix(y)
  big_b <- big_matrix(b)
  for (rows in list(NULL, 29, 100, 1000)) {
    sums <- \(...) matvec(..., chunk_rows = rows)
    expect_within(sums(big_x, y, b), whole_sums, 1e-12)
    expect_within(sums(x, big_y, b), whole_sums, 1e-12)
    expect_within(sums(big_x, big_y, big_b), whole_sums, 1e-12)
    expect_within(sums(big_x, big_y, b[, 1], weights = w), matvec(x, y, b[, 1], weights = w), 1e-12)
    expect_within(sums(big_x, b = big_b), matvec(x, b = b), 1e-12)
    expect_within(sums(chunks_of(x, b, c(120, 380)), big_y), whole_sums, 1e-12)
  }
  expect_identical(dimnames(matvec(big_x, y, big_b, chunk_rows = 60)), dimnames(whole_sums))
  expect_null(dim(matvec(big_x, big_y, b[, 1], chunk_rows = 60)))
})

test_that("a big.matrix of floats or integers is summed as its numbers are", {
  for (type in c("float", "integer")) {
    big <- suppressWarnings(big_matrix(round(x, 3), type)) # R's doubles are cast
    expect_within(matvec(big, y, b, chunk_rows = 90), matvec(big[, ], y, b), 1e-12, type)
  }
})

test_that("a file-backed big.matrix serves as input and output", {
  skip_if_not_installed("bigmemory")
  folder <- tempfile("big")
  dir.create(folder)
  on.exit(unlink(folder, recursive = TRUE))
  stored <- \(file, nrow, ncol, type) bigmemory::filebacked.big.matrix(nrow, ncol,
    type = type, backingfile = file, backingpath = folder, descriptorfile = paste0(file, ".desc")
  )
  input <- stored("x", 500, 3, "double")
  input[, ] <- x
  output <- stored("v", 130, 2, "double")
  kernel_sum(input, y, b, H, "matern52", out = output, chunk_rows = 64, control = flash_control(backend = "cpu"))
  bigmemory::flush(output)
  read <- bigmemory::attach.big.matrix(file.path(folder, "v.desc"))
  expect_within(read[, ], whole_sums, 1e-12)
})

test_that("results go into a big.matrix in place, whatever the sources are", {
  skip_if_not_installed("bigmemory")
  for (type in c("double", "float")) {
    bound <- if (type == "float") 1e-6 else 1e-12
    for (sources in list(x, big_matrix(x), chunks_of(x, sizes = c(99, 401)))) {
      out <- bigmemory::big.matrix(130, 2, type = type, init = -1)
      expect_silent(
        kernel_sum(sources, big_matrix(y), b, H, "matern52",
          out = out, chunk_rows = 50, control = flash_control(backend = "cpu")
        )
      )
      expect_within(out[, ], whole_sums, bound, type)
    }
  }
  out <- bigmemory::big.matrix(130, 1, type = "double")
  record <- withVisible(kernel_sum(x, y, b[, 2], H, "matern52", out = out, control = flash_control(backend = "cpu")))
  expect_false(record$visible)
  expect_identical(diagnostics(record$value)$m, 130L)
  expect_within(out[, 1], whole_sums[, 2], 1e-12)
})

test_that("results go to a function, one range of targets after the other", {
  for (column in list(1:2, 2)) {
    collected <- list()
    take <- function(rows, values) {
      collected[[length(collected) + 1]] <<- list(rows = rows, values = values)
    }
    kernel_sum(big_matrix(x), big_matrix(y), b[, column], H, "matern52",
      out = take, chunk_rows = 60, control = flash_control(backend = "cpu")
    )
    expect_identical(lapply(collected, `[[`, "rows"), list(1:60, 61:120, 121:130))
    values <- lapply(collected, `[[`, "values")
    got <- if (length(column) > 1) do.call(rbind, values) else unlist(values)
    expect_within(got, whole_sums[, column], 1e-12)
    expect_identical(dim(got), dim(whole_sums[, column]))
  }
})

test_that("what was computed counts all chunks", {
  record <- diagnostics(kernel_sum(
    chunks_of(x, b, c(100, 400)), y, bandwidth = H,
    control = flash_control(backend = "cpu")
  ))
  expect_identical(record$pairs, 500 * 130)
  expect_equal(record$n, 500)
  expect_equal(record$m, 130)
})

test_that("a bad chunk is named with its number", {
  sums <- \(source, ...) kernel_sum_by(source, y, bandwidth = 1, ...)
  chunk_list <- function(...) {
    chunks <- list(x[1:5, ], ...)
    function() {
      chunk <- if (length(chunks)) chunks[[1]]
      chunks <<- chunks[-1]
      chunk
    }
  }
  bad_x <- list(
    x[1:3, 1:2], replace(x[1:3, ], 4, NaN), replace(x[1:3, ], 4, Inf), matrix(0, 0, 3), "a",
    list(b = 1:3), list(x[1:3, ], 1:3), list(x = x[1:3, ], weights = 1:3)
  )
  for (chunk in bad_x) {
    expect_argument_error(sums(chunk_list(chunk)), "x")
    expect_error(sums(chunk_list(chunk)), "(of chunk 2)", fixed = TRUE)
  }
  expect_error(sums(chunk_list(x[1:3, 1:2])), "must have 3 columns, as `y`: found 2")
  for (own in list(1:2, c(1, NA, 3), matrix(1, 3, 2), "a")) {
    expect_argument_error(sums(chunk_list(list(x = x[1:3, ], b = own))), "b")
    expect_error(sums(chunk_list(list(x = x[1:3, ], b = own))), "(of chunk 2)", fixed = TRUE)
  }
  expect_argument_error(sums(chunk_list(list(x = x[1:3, ], b = 1:3)), b = 1:8), "b")
  expect_argument_error(sums(\() NULL), "x")
  expect_argument_error(kernel_sum(chunks_of(x, sizes = 500), bandwidth = 1), "y")
})

test_that("coefficients and weights have to be as many as the sources of all chunks", {
  sums <- \(...) kernel_sum_by(chunks_of(x, sizes = c(300, 200)), y, ..., bandwidth = 1)
  for (n in c(299, 499, 501)) {
    expect_argument_error(sums(b = seq_len(n)), "b")
    expect_argument_error(sums(weights = seq_len(n)), "weights")
  }
  expect_error(sums(b = 1:499), "at least 500: found 499")
  expect_error(sums(b = 1:501), "500: found 501")
})

test_that("a big.matrix that cannot be used is named, with the rows", {
  bad <- big_matrix(replace(x, 205, NaN))
  for (rows in c(100, 500)) {
    expect_argument_error(kernel_sum(bad, y, bandwidth = 1, chunk_rows = rows), "x")
    expect_argument_error(kernel_sum(x, bad, bandwidth = 1, chunk_rows = rows), "y")
    expect_argument_error(kernel_sum(x, y, bad, 1, chunk_rows = rows), "b")
  }
  expect_error(
    kernel_sum(bad, y, bandwidth = 1, chunk_rows = 100),
    "row 5, column `1` (of rows 201 to 300)",
    fixed = TRUE
  )
  expect_argument_error(kernel_sum(x, big_matrix(y[, 1:2]), bandwidth = 1), "y")
  expect_argument_error(kernel_sum(x, y, big_matrix(b[-1, ]), 1), "b")
  detached <- unserialize(serialize(big_matrix(x), NULL))
  expect_argument_error(kernel_sum(detached, y, bandwidth = 1), "x")

  into <- \(out) kernel_sum(x, y, b, 1, out = out)
  expect_argument_error(into(bigmemory::big.matrix(130, 1, type = "double")), "out")
  expect_argument_error(into(bigmemory::big.matrix(129, 2, type = "double")), "out")
  expect_argument_error(into(bigmemory::big.matrix(130, 2, type = "integer")), "out")
})

test_that("errors of a chunk function and of a sink reach the user", {
  expect_error(kernel_sum(\() stop("no more tape"), y, bandwidth = 1), "no more tape")
  full <- \(rows, values) stop("disk is full")
  expect_error(kernel_sum(x, y, bandwidth = 1, out = full), "disk is full")
})

test_that("no more than a chunk has to fit into memory", {
  before <- options(flashkernel.memory_limit = 24000)
  on.exit(options(before))
  expect_argument_error(kernel_sum(x, y, bandwidth = 1), "x")
  expect_within(matvec(chunks_of(x, b, rep(50, 10)), y), whole_sums, 1e-12)
  expect_within(matvec(big_matrix(x), y, big_matrix(b), chunk_rows = 50), whole_sums, 1e-12)
})

test_that("the progress of chunks never goes back, and ends near 1", {
  seen <- numeric()
  watch <- function(fraction) NULL
  state <- list(close = \() NULL, label = "", before = 0, share = 1)
  environment(watch) <- list2env(state, parent = environment())
  body(watch) <- quote(seen <<- c(seen, before + share * fraction))
  internal <- asNamespace("flashkernel")
  control <- replace(control_list("cpu"), "progress", list(watch))
  sources <- internal$sum_sources(big_matrix(x), NULL, diag(ncol(x)), "imq")
  internal$sum_kernels(sources, y, b, control, chunk_rows = 100)
  expect_gte(length(seen), 5)
  expect_false(is.unsorted(seen))
  expect_equal(max(seen), 1)
})

test_that("the bound of sums by chunks is that of all their errors together", {
  x <- example_points(4000, 2)
  y <- example_points(90, 2, seed = 2)
  sums <- \(...) kernel_sum_by(
    ..., y = y, bandwidth = 0.2, kernel = "cauchy",
    control = flash_control(engine = "fast", backend = "cpu")
  )
  chunks <- split(seq_len(4000), rep(1:4, each = 1000))
  bounds <- vapply(chunks, \(rows) diagnostics(sums(x[rows, ], tol = 1e-3 / 4))$tol_bound, 0)
  found <- sums(big_matrix(x), tol = 1e-3, chunk_rows = 1000)
  record <- diagnostics(found)
  expect_equal(record$tol_bound, sum(bounds))
  exact <- plain(kernel_sum(
    x, y, bandwidth = 0.2, kernel = "cauchy", tol = 0,
    control = flash_control(backend = "cpu")
  ))
  expect_lte(max(abs(plain(found) - exact)) / max(exact), record$tol_bound)
})

test_that("a last chunk that is exact leaves those to a tolerance their bound", {
  fast <- list(tol_bound = 1e-4, tol_achieved = 1e-5, engine = "fast", pairs = 1, seconds = 1, tail_rows = 0, device_seconds = NA)
  exact <- replace(fast, c("tol_bound", "tol_achieved", "engine"), list(0, 0, "exact"))
  global <- list(tol_type = "global")
  for (pair in list(list(fast, exact), list(exact, fast))) {
    both <- add_part_stats(pair[[1]], pair[[2]], global)
    expect_identical(both[c("tol_bound", "engine")], fast[c("tol_bound", "engine")])
  }
  expect_identical(add_part_stats(fast, fast, global)$tol_bound, 2e-4)
  expect_identical(add_part_stats(fast, fast, list(tol_type = "pointwise"))$tol_bound, 1e-4)
})
