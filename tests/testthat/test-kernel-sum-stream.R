# One grid for sources that come in chunks and targets that come in pieces.

grid_only <- \(code) with_method("grid", code)
stream <- function(..., tol = 1e-6) {
  grid_only(kernel_sum_by(..., tol = tol, control = flash_control(engine = "fast", backend = "cpu")))
}
exact <- \(...) plain(kernel_sum_by(..., control = flash_control(engine = "exact", backend = "cpu")))

# Sums by one grid keep the whole tolerance, and say so. Those of several `parts` tell the sum of the parts' errors, which
# need not be at the same targets.
expect_streamed <- function(sums, want, scale, tol, label = "sums", parts = 1) {
  record <- diagnostics(sums)
  expect_identical(c(record$engine, record$method), c("fast", "grid"), label = label)
  error <- max(abs(plain(sums) - want)) / max(scale)
  expect_lte(error, tol, label = paste(label, "error"))
  expect_lte(record$tol_achieved, tol, label = label)
  # of some of the targets, and beside the largest sum of those
  expect_gt(record$tol_achieved, 0, label = label)
  expect_lte(record$tol_achieved, 2 * parts * error + 1e-12, label = label)
}

uniform <- function(n, d, seed = 1) {
  set.seed(seed)
  matrix(stats::runif(n * d), n)
}

test_that("functions and big.matrix objects give sums within the tolerance, in few and many dimensions", {
  for (d in c(1, 2, 3, 5)) for (tol in c(1e-3, 1e-8)) {
    x <- uniform(2000, d)
    y <- uniform(450, d, seed = 2)
    b <- sin(1:2000)
    h <- if (d < 5) 0.2 else 0.6
    want <- exact(x, y, b, h)
    scale <- exact(x, y, abs(b), h)
    label <- paste("d =", d, "tol =", tol)
    once <- stream(chunks_of(x, b, rep(100, 20)), y, bandwidth = h, tol = tol)
    expect_streamed(once, want, scale, tol, paste(label, "function"))
    by_rows <- stream(big_matrix(x), big_matrix(y), b, h, tol = tol, chunk_rows = 170)
    expect_streamed(by_rows, want, scale, tol, paste(label, "big.matrix"))
    one_chunk <- stream(x, big_matrix(y), b, h, tol = tol, chunk_rows = 170)
    expect_streamed(one_chunk, want, scale, tol, paste(label, "targets alone"))
    expect_identical(diagnostics(once)$pairs, 2000 * 450)
    expect_identical(diagnostics(by_rows)$pairs, 2000 * 450)
  }
})

test_that("the tolerance is that of all chunks together: it is not divided among them", {
  x <- uniform(6000, 3)
  sums <- \(tol) diagnostics(stream(chunks_of(x, sizes = rep(60, 100)), x[1:800, ], bandwidth = 0.2, tol = tol))
  # floats would not keep a share of it
  expect_identical(sums(1e-5)$precision, "single")
  expect_identical(sums(1e-6)$precision, "double")
})

test_that("points that are their own targets are summed so", {
  for (d in c(2, 5)) {
    x <- uniform(2000, d)
    want <- exact(x, bandwidth = 0.5)
    expect_streamed(stream(big_matrix(x), bandwidth = 0.5, chunk_rows = 300), want, want, 1e-6)
  }
})

test_that("several columns of any sign, weights and full bandwidth matrices are summed", {
  x <- uniform(3000, 3)
  y <- uniform(500, 3, seed = 2)
  b <- cbind(a = sin(1:3000), b = 1, c = seq(-1, 1, length.out = 3000))
  w <- seq(0, 1, length.out = 3000)
  H <- 0.04 * (diag(3) + 0.5)
  want <- exact(x, y, b, H, weights = w)
  scale <- exact(x, y, abs(b), H, weights = w)
  for (sums in list(
    stream(chunks_of(x, b, rep(300, 10)), y, bandwidth = H, weights = w),
    stream(big_matrix(x), big_matrix(y), big_matrix(b), H, weights = w, chunk_rows = 400)
  )) {
    expect_streamed(sums, want, scale, 1e-6)
    expect_identical(dimnames(sums), dimnames(want))
  }
  one <- stream(chunks_of(x, b[, 1, drop = FALSE], rep(300, 10)), y, bandwidth = H)
  expect_identical(dimnames(one), list(NULL, "a"))
  expect_null(dim(stream(chunks_of(x, b[, 1], rep(300, 10)), y, bandwidth = H)))
})

test_that("the tolerance is relative to sums of absolute values also where negative ones come late", {
  x <- uniform(3000, 2)
  y <- uniform(400, 2, seed = 2)
  b <- rep(c(1, -0.01), c(2500, 500))
  want <- exact(x, y, b, 0.3)
  scale <- exact(x, y, abs(b), 0.3)
  sums <- stream(chunks_of(x, b, rep(500, 6)), y, bandwidth = 0.3, tol = 1e-4)
  expect_streamed(sums, want, scale, 1e-4)
})

test_that("chunks of any size give the same to the tolerance, and any number of threads the same bits", {
  x <- uniform(60000, 2)
  y <- uniform(5000, 2, seed = 2)
  b <- cos(1:60000)
  scale <- max(exact(x, y[1:50, ], abs(b), 0.1))
  whole <- plain(stream(x, y, b, 0.1))
  big_x <- big_matrix(x)
  big_y <- big_matrix(y)
  for (rows in c(911, 20000)) {
    run <- \(threads) plain(stream(big_x, big_y, b, 0.1, chunk_rows = rows, threads = threads))
    sums <- run(1)
    expect_lte(max(abs(sums - whole)) / scale, 1e-6)
    expect_identical(run(2), sums)
  }
})

test_that("chunks far from each other and from what the window was chosen by keep the tolerance", {
  x <- uniform(4000, 3)
  chunk <- rep(1:8, each = 500)
  x <- x + cbind(50 * (chunk - 1)^2, -40 * chunk, 0)
  y <- rbind(x[seq(1, 4000, by = 9), ], c(1e4, 0, 0))
  want <- exact(x, y, bandwidth = 0.3)
  sums <- stream(chunks_of(x, sizes = rep(500, 8)), y, bandwidth = 0.3)
  expect_streamed(sums, want, want, 1e-6)
  expect_identical(sums[nrow(y)], 0)
  # the first chunk is one point many times
  first <- rbind(matrix(0.5, 500, 3), x)
  want <- exact(first, y, bandwidth = 0.3)
  sums <- stream(chunks_of(first, sizes = rep(500, 9)), y, bandwidth = 0.3)
  expect_streamed(sums, want, want, 1e-6, parts = 9)
})

test_that("sums go to any sink, one range of targets after the other", {
  x <- uniform(2000, 2)
  y <- uniform(1000, 2, seed = 2)
  b <- cbind(sin(1:2000), 1)
  want <- exact(x, y, b, 0.2)
  seen <- list()
  take <- function(rows, values) seen[[length(seen) + 1]] <<- list(rows = rows, values = values)
  for (sources in list(big_matrix(x), chunks_of(x, sizes = rep(250, 8)))) {
    seen <- list()
    record <- stream(sources, big_matrix(y), b, 0.2, out = take, chunk_rows = 300)
    expect_identical(record$method, "grid")
    expect_identical(lapply(seen, `[[`, "rows"), list(1:300, 301:600, 601:900, 901:1000))
    expect_lte(max(abs(do.call(rbind, lapply(seen, `[[`, "values")) - want)) / max(exact(x, y, abs(b), 0.2)), 1e-6)
  }
  out <- bigmemory::big.matrix(1000, 2, type = "double")
  stream(big_matrix(x), big_matrix(y), b, 0.2, out = out, chunk_rows = 300)
  expect_lte(max(abs(out[, ] - want)) / max(exact(x, y, abs(b), 0.2)), 1e-6)
})

test_that("many chunks are by one grid where that is faster, and only there", {
  x <- uniform(200000, 2)
  auto <- function(source, ...) diagnostics(kernel_sum_by(
    source, x[1:50000, ], tol = 1e-6, ...,
    control = flash_control(backend = "cpu")
  ))
  chunks <- \() chunks_of(x, sizes = rep(10000, 20))
  expect_identical(auto(chunks(), bandwidth = 0.1)$method, "grid")
  # a function of few points, and kernels with next to no neighbours
  few <- chunks_of(x[1:100, ], sizes = c(50, 50))
  expect_identical(diagnostics(kernel_sum(
    few, x[1:50, ], bandwidth = 0.1,
    control = flash_control(backend = "cpu")
  ))$engine, "exact")
  expect_identical(auto(chunks(), bandwidth = 1e-4)$method, "direct")
})

test_that("what a stream does not do is done chunk by chunk", {
  x <- uniform(3000, 2)
  y <- uniform(200, 2, seed = 2)
  opened <- 0
  open <- replace_in_package("open_stream", function(...) {
    opened <<- opened + 1
    open(...)
  })
  chunks <- \() chunks_of(x, sizes = rep(1000, 3))
  sums <- \(...) plain(kernel_sum_by(chunks(), y, bandwidth = 0.2, control = flash_control(backend = "cpu"), ...))
  want <- exact(x, y, bandwidth = 0.2)
  expect_lte(max(abs(sums(tol_type = "pointwise", engine = "fast") / want - 1)), 1e-6)
  expect_within(sums(engine = "exact"), want, 1e-12)
  expect_within(sums(tol = 0), want, 1e-12)
  expect_within(sums(kernel = "imq"), exact(x, y, bandwidth = 0.2, kernel = "imq"), 1e-12)
  expect_identical(opened, 0)
  expect_lte(max(abs(sums(engine = "fast") - want)) / max(want), 1e-6)
  expect_identical(opened, 1)
})

# ---- reading ----------------------------------------------------------------------------------

# Rows of big.matrix objects that are read, by argument, while `code` runs
rows_read <- function(code) {
  read <- list()
  read_rows <- replace_in_package("read_rows", function(table, piece, arg, ...) {
    if (inherits(table, "big.matrix")) read[[arg]] <<- c(read[[arg]], piece[1]:piece[2])
    read_rows(table, piece, arg, ...)
  })
  force(code)
  read
}

test_that("every row is read once, but targets in many dimensions", {
  sums <- \(d) stream(big_matrix(uniform(2000, d)), big_matrix(uniform(700, d, seed = 2)), big_matrix(sin(1:2000)),
    0.5, chunk_rows = 300)
  expect_identical(rows_read(sums(3)), list(x = 1:2000, b = 1:2000, y = 1:700))
  # ahead, for a grid that has no more blocks than they need
  expect_identical(rows_read(sums(4))$y, c(1:700, 1:700))
  expect_identical(rows_read(sums(4))$x, 1:2000)
})

test_that("columns in another order are matched by name, in samples too", {
  x <- uniform(2000, 2) %*% diag(c(1, 100))
  colnames(x) <- c("a", "b")
  y <- uniform(300, 2, seed = 2) %*% diag(c(1, 100))
  want <- exact(x, `colnames<-`(y, c("a", "b")), bandwidth = c(0.2, 20))
  swapped <- big_matrix(`colnames<-`(y[, 2:1], c("b", "a")))
  sums <- stream(big_matrix(x), swapped, bandwidth = c(0.2, 20), chunk_rows = 70)
  expect_streamed(sums, want, want, 1e-6)
})

test_that("rows that cannot be summed are an error where they are read, not where they are sampled", {
  x <- uniform(1000, 2)
  bad <- big_matrix(replace(x, 705, NaN))
  expect_error(stream(bad, x, bandwidth = 1, chunk_rows = 100), "row 5, column `1` (of rows 701 to 800)", fixed = TRUE)
  expect_error(stream(x, bad, bandwidth = 1, chunk_rows = 100), "row 5, column `1` (of rows 701 to 800)", fixed = TRUE)
  expect_argument_error(stream(big_matrix(x), big_matrix(x[, 1]), bandwidth = 1, chunk_rows = 100), "y")
})

# ---- points that are not for a grid -----------------------------------------------------------

# The sample that C looks at first has the first rows alone
first_rows_sampled <- function(code) {
  replace_in_package("sample_rows", \(table, arg, job) table[seq_len(min(100, nrow(table))), , drop = FALSE])
  code
}

test_that("a grid that grows too large leaves a table to other engines", {
  near <- uniform(500, 2)
  x <- rbind(near, cbind(30 * 1:4000, 7 * 1:4000))
  y <- x[seq(1, 4500, by = 5), ]
  before <- options(flashkernel.memory_limit = 2e7)
  on.exit(options(before))
  big_x <- big_matrix(x)
  big_y <- big_matrix(y)
  want <- exact(x, y, bandwidth = 0.5)
  taken <- NULL
  record <- first_rows_sampled(kernel_sum(big_x, big_y,
    bandwidth = 0.5, control = flash_control(engine = "fast", backend = "cpu"), tol = 1e-6, chunk_rows = 500,
    out = \(rows, values) taken <<- c(taken, stats::setNames(values, rows))
  ))
  expect_lte(max(abs(taken - want)) / max(want), 1e-6)
  expect_identical(names(taken), as.character(1:900))
  expect_identical(record$pairs, 4500 * 900)
  # a function's points are gone
  source <- chunks_of(x, sizes = rep(500, 9))
  expect_error(stream(source, y, bandwidth = 0.5), "more than 0.02 GB.*read again", class = "flashkernel_error_unsupported")
  expect_lte(max(abs(exact(chunks_of(x, sizes = rep(500, 9)), y, bandwidth = 0.5) - want)), 1e-12)
})

test_that("targets too far away for a grid are summed in another way, and only those that are left", {
  x <- uniform(1000, 2)
  y <- rbind(uniform(700, 2, seed = 2), c(1e30, 0), c(0.5, 0.5))
  want <- exact(x, y, bandwidth = 0.5)
  taken <- list()
  stream(big_matrix(x), big_matrix(y), bandwidth = 0.5, chunk_rows = 200,
    out = \(rows, values) taken[[length(taken) + 1]] <<- list(rows, values))
  expect_identical(lapply(taken, `[[`, 1), list(1:200, 201:400, 401:600, 601:702))
  expect_lte(max(abs(unlist(lapply(taken, `[[`, 2)) - want)) / max(want), 1e-6)
  # known before a function is read
  sums <- plain(stream(chunks_of(x, sizes = c(300, 700)), y, bandwidth = 0.5))
  expect_lte(max(abs(sums - want)) / max(want), 1e-6)
})

test_that("the tolerance is proven where most targets are far from all sources", {
  b <- sin(1:2000)
  for (d in 1:3) for (near in c(1, 20)) {
    x <- uniform(2000, d)
    y <- uniform(3000, d, seed = 2)
    there <- 2990 - 40 * seq_len(near)
    y[-there, ] <- y[-there, ] + 5
    for (signed in c(FALSE, TRUE)) {
      columns <- if (signed) b else abs(b)
      want <- exact(x, y, columns, 0.2)
      scale <- exact(x, y, abs(b), 0.2)
      label <- paste("d =", d, "near", near, "signed", signed)
      once <- stream(chunks_of(x, columns, rep(250, 8)), y, bandwidth = 0.2)
      expect_streamed(once, want, scale, 1e-6, label)
      expect_lte(diagnostics(once)$tol_bound, 1e-6)
    }
  }
})

test_that("a sum that no sample foresaw proves the others, when all targets were there", {
  x <- rbind(4 * uniform(1000, 2), 10 + uniform(5000, 2) / 2)
  y <- 4 * uniform(3000, 2, seed = 2)
  y[2950, ] <- 10.2
  for (b in list(rep(1, 6000), rep(c(1, -1), c(1000, 5000)))) {
    want <- exact(x, y, b, 0.2)
    sums <- first_rows_sampled(stream(chunks_of(x, b, rep(1000, 6)), y, bandwidth = 0.2))
    expect_streamed(sums, want, abs(want), 1e-6)
    expect_lte(diagnostics(sums)$tol_bound, 1e-6)
  }
})

test_that("a first chunk that is not for a grid is not lost", {
  x <- rbind(uniform(300, 2), c(1e30, 0), uniform(300, 2, seed = 3))
  y <- uniform(50, 2, seed = 2)
  want <- exact(x, y, bandwidth = 0.5)
  sums <- first_rows_sampled(plain(stream(chunks_of(x, sizes = c(400, 201)), y, bandwidth = 0.5)))
  expect_lte(max(abs(sums - want)) / max(want), 1e-6)
})

# ---- ends -------------------------------------------------------------------------------------

test_that("a stream that ends early lets go of its memory, closed or forgotten", {
  skip_if_not(file.exists("/proc/self/status"))
  skip_if(nzchar(Sys.getenv("FLASHKERNEL_SANITIZER")), "a sanitizer keeps what is freed")
  growth <- in_child(function() {
    resident <- function() {
      line <- grep("^VmRSS:", readLines("/proc/self/status"), value = TRUE)
      as.numeric(gsub("[^0-9]", "", line)) / 1024
    }
    set.seed(1)
    y <- matrix(stats::runif(3000), ncol = 3)
    break_off <- function(after) {
      count <- 0
      source <- function() {
        count <<- count + 1
        if (count > after) stop("no more tape")
        matrix(stats::runif(3e5, 0, 60), ncol = 3)
      }
      tryCatch(
        kernel_sum(source, y, bandwidth = 1, control = flash_control(engine = "fast", backend = "cpu"), tol = 1e-6),
        error = conditionMessage
      )
    }
    assign("method", "grid", asNamespace("flashkernel")$session)
    message <- break_off(2)
    start <- resident()
    for (i in 1:3) break_off(2)
    closed <- resident() - start

    internal <- asNamespace("flashkernel")
    control <- internal$run_control(internal$settle_control(flash_control("cpu", engine = "fast", tol = 1e-6)))
    forget <- function() {
      x <- matrix(stats::runif(3e5, 0, 60), ncol = 3)
      checked <- x[.Call(internal$ffi_stream_rows, 1e5, 1e5), ]
      handle <- .Call(internal$ffi_stream_open, x, x, checked, c(1e5, 1e5, 2, 1, 1e-6, 1e10), 1L, diag(3), control)
      before <- resident()
      .Call(internal$ffi_stream_add, handle, x, NULL, control)
      resident() - before
    }
    held <- forget()
    before <- resident()
    gc()
    c(message = message, closed = closed, held = held, forgotten = before - resident())
  }, env = c(MALLOC_MMAP_THRESHOLD_ = "65536"))
  numbers <- as.numeric(growth[-1])
  names(numbers) <- names(growth)[-1]
  expect_identical(growth[["message"]], "`x` failed at chunk 3: no more tape")
  expect_gt(numbers[["held"]], 20) # MB: what one stream holds, so that these tests see it
  expect_lt(numbers[["closed"]], numbers[["held"]])
  expect_gt(numbers[["forgotten"]], 0.7 * numbers[["held"]])
})

test_that("a stream is interrupted at once", {
  skip_on_cran()
  skip_on_os("windows")
  skip_if_not_installed("callr")
  skip_if(nzchar(Sys.getenv("FLASHKERNEL_SANITIZER")), "a sanitizer is too slow for timings")
  session <- function(folder, do_rounds) {
    assign("method", "grid", asNamespace("flashkernel")$session)
    x <- matrix(stats::runif(6e6), ncol = 3)
    work <- expression(
      kernel_sum(\() x, x[1:1000, ], bandwidth = 0.05, control = flash_control(engine = "fast", backend = "cpu")),
      kernel_sum(\() x, x[1:1000, ], bandwidth = 0.05, control = flash_control(engine = "fast", backend = "cpu"))
    )
    list(rounds = do_rounds(work, environment(), folder, \() list()))
  }
  expect_length(interrupt_child(session, 2)$rounds, 2)
})

test_that("the progress of a stream never goes back, and ends near 1", {
  seen <- numeric()
  watch <- function(fraction) NULL
  state <- list(close = \() NULL, label = "", before = 0, share = 1)
  environment(watch) <- list2env(state, parent = environment())
  body(watch) <- quote(seen <<- c(seen, before + share * fraction))
  internal <- asNamespace("flashkernel")
  control <- replace(grid_only(control_list("cpu", engine = "fast", tol = 1e-6)), "progress", list(watch))
  x <- uniform(1000, 2)
  for (d in c(2, 4)) {
    seen <- numeric()
    x <- uniform(1000, d)
    done <- grid_only(
      internal$sum_kernels(internal$sum_sources(big_matrix(x), NULL, diag(0.5, d)), x[1:300, ], NULL, control, chunk_rows = 100)
    )
    expect_identical(done$stats$method, "grid")
    expect_gte(length(seen), 12)
    expect_true(all(diff(seen) > -1e-12))
    expect_equal(max(seen), 1)
  }
})

test_that("a stream of clusters far apart keeps its tolerance, or is summed in another way", {
  for (d in 1:2) for (distance in 10^c(2, 5, 8, 12, 14)) {
    set.seed(d)
    x <- matrix(stats::rnorm(1200 * d), 1200)
    x[601:1200, ] <- x[601:1200, ] + distance
    # as unlike the first rows as can be
    y <- x[c(1:20, 1181:1200), , drop = FALSE] + 0.1
    want <- apply(y, 1, \(p) sum(exp(-colSums(((t(x) - p) / 0.3)^2) / 2)))
    for (tol in c(1e-3, 1e-10)) {
      for (sums in list(
        # which cannot be read again, where the first chunks do not tell how far out others are
        tryCatch(
          stream(chunks_of(x, NULL, rep(100, 12)), y, NULL, 0.3, tol = tol),
          flashkernel_error_unsupported = \(error) want
        ),
        stream(big_matrix(x), big_matrix(y), NULL, 0.3, tol = tol, chunk_rows = 170),
        kernel_sum(
          big_matrix(x), big_matrix(y), NULL, 0.3, tol = tol, chunk_rows = 170,
          control = flash_control(backend = "cpu")
        )
      )) {
        error <- max(abs(as.vector(sums) - want)) / max(want)
        expect_lte(error, tol, label = paste("d =", d, "distance", distance, "tol =", tol, "error", signif(error, 2)))
      }
    }
  }
})
